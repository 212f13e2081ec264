"""`tulving copy`: a memory moved to another store, of the same engine or the other one."""

import asyncio
from typing import Annotated

import typer

from tulving.errors import IntegrityError
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import FAILED, complain, print_json, progress, table, warn
from tulving.interfaces.wire import wire
from tulving.services.copying import Copied, Difference

PROBLEMS = {
    "missing": "are not in the target",
    "different": "are not the same in the target, where they were left as they are",
    "deleted": "were deleted in the source, but are still in the target",
    "order": "tenants have their events in another order in the target",
    "extra": "are only in the target; they were left as they are",
}


def copy(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The store to copy: a path or URL")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The store to copy to; made if it is not there")],
    verify_only: Annotated[bool, typer.Option("--verify-only", help="Copy nothing, only compare the two")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy a memory to another store; from SQLite to PostgreSQL, back, or within one engine.

    All tenants are copied, or the one that --tenant names before the command. A copy that was interrupted goes on when
    it is run again. What is in the target already is never changed. At the end both are compared, row by row. Access
    tokens are not copied: create new ones for the new server.
    """
    from tulving.bootstrap import copy_store
    from tulving.location import store_name

    tenant, config = context.obj.tenant, context.obj.config()
    with progress("copy:") as tell:
        done = asyncio.run(
            copy_store(source, target, tenant=tenant, config=config, verify_only=verify_only, progress=tell)
        )
    if as_json:
        print_json({"ok": done.ok, "source": store_name(source), "target": store_name(target), **wire(done)})
    else:
        _show(done)
    for difference in done.differences:
        if difference.problem == "extra":
            warn(_words(difference))
        else:
            complain(IntegrityError(_words(difference)))
    if not done.ok:
        raise typer.Exit(FAILED)


def _show(done: Copied) -> None:
    columns = {"source": "in the source", "copied": "copied", "present": "there before", "verified": "the same"}
    counts = wire(done.tables)
    table([(name, *(f"{each[key]} {words}" for key, words in columns.items())) for name, each in counts.items()])
    if done.ok:
        total = sum(each["source"] for each in counts.values())
        typer.echo(f"\nverified: all {total} rows are in the target, sha256 {done.digest}")


def _words(difference: Difference) -> str:
    named = ", ".join(f"{key} of {tenant}".removeprefix(" of ") for tenant, key in difference.named)
    more = ", ..." if difference.rows > len(difference.named) else ""
    return f"{difference.table}: {difference.rows} {PROBLEMS[difference.problem]}: {named}{more}"
