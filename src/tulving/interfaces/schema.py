"""Commands for the database behind a memory: its schema and its search indexes."""

import asyncio
from typing import Annotated, Any

import typer

from tulving.errors import InvalidInput
from tulving.interfaces.terminal import AsJson, Chosen, print_json

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
    from tulving.bootstrap import migrate_store, store_name

    if dry_run and row_security:
        raise InvalidInput("row_security", "can't be tried with --dry-run", "one of the two")
    chosen: Chosen = context.obj
    config = chosen.config()
    roles = (service_role, maintenance_role) if row_security else None
    done = asyncio.run(migrate_store(config.url, config, dry_run=dry_run, roles=roles))
    if as_json:
        print_json({"store": store_name(config.url), "before": done.before, "applied": list(done.applied)})
        return
    typer.echo(f"store     {store_name(config.url)}")
    typer.echo(f"schema    {done.before or 'none yet'}")
    for revision in done.applied:
        typer.echo(f"{'missing' if dry_run else 'applied'}   {revision}")
    if not done.applied:
        typer.echo("up to date")
    if roles:
        typer.echo(f"roles     {service_role} (one tenant at a time), {maintenance_role} (all tenants)")
        typer.echo(f'\nLet your service in:  GRANT "{service_role}" TO the_login_role;')


def reindex(
    context: typer.Context,
    method: Annotated[str | None, typer.Option(metavar="ivfflat|hnsw", help="PostgreSQL: the kind of index")] = None,
    as_json: AsJson = False,
) -> None:
    """Build the search indexes anew, beside the old ones; searching and storing go on meanwhile."""
    from tulving.interfaces import show

    async def build() -> list[str]:
        async with context.obj.administer(may_reembed=True) as store:
            with show.progress("indexing") as progress:
                return await store.reindex(method, progress=lambda table, done, total: progress(done, total, table))

    tables: Any = asyncio.run(build())
    if as_json:
        print_json({"reindexed": tables})
    else:
        typer.echo(f"indexed   {', '.join(tables) if tables else 'nothing: there is no index to build'}")
