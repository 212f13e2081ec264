"""`tulving migrate`: the schema of the store, brought up to date."""

import asyncio
from typing import Annotated

import typer

from tulving.errors import InvalidInput
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import report

SERVICE_ROLE, MAINTENANCE_ROLE = "tulving_service", "tulving_maintenance"


def migrate(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be applied")] = False,
    row_security: Annotated[
        bool, typer.Option("--row-security", help="PostgreSQL: let the database keep tenants apart too, by role")
    ] = False,
    service_role: Annotated[str, typer.Option(metavar="NAME", help="Sees one tenant at a time")] = SERVICE_ROLE,
    maintenance_role: Annotated[str, typer.Option(metavar="NAME", help="Sees all tenants")] = MAINTENANCE_ROLE,
    as_json: AsJson = False,
) -> None:
    """Bring the schema of the store up to date, and say what that took."""
    from tulving.bootstrap import migrate_store
    from tulving.location import store_name

    if dry_run and row_security:
        raise InvalidInput("row_security", "can't be tried with --dry-run", "one of the two")
    config = context.obj.config()
    roles = (service_role, maintenance_role) if row_security else None
    done = asyncio.run(migrate_store(config.url, config, dry_run=dry_run, roles=roles))
    store = store_name(config.url)
    said = [f"store     {store}", f"schema    {done.before or 'none yet'}"]
    said += [f"{'missing' if dry_run else 'applied'}   {revision}" for revision in done.applied] or ["up to date"]
    if roles:
        said.append(f"roles     {service_role} (one tenant at a time), {maintenance_role} (all tenants)")
        said.append(f'\nLet your service in:  GRANT "{service_role}" TO the_login_role;')
    report({"store": store, "before": done.before, "applied": list(done.applied)}, as_json, *said)
