"""`tulving copy`: a memory moved to another store, of the same engine or the other one."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from tulving.interfaces.terminal import FAILED, AsJson, Chosen, complain, print_json, visible, warn
from tulving.interfaces.wire import wire

if TYPE_CHECKING:
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
    from tulving.bootstrap import copy_store, store_name
    from tulving.interfaces import show

    chosen: Chosen = context.obj
    with show.progress("copy:") as progress:
        done = asyncio.run(
            copy_store(
                source,
                target,
                tenant=chosen.tenant,
                config=chosen.config(),
                verify_only=verify_only,
                progress=progress,
            )
        )
    if as_json:
        print_json({"ok": done.ok, "source": store_name(source), "target": store_name(target), **wire(done)})
    else:
        _show(done)
    for difference in done.differences:
        (warn if difference.problem == "extra" else complain)(_words(difference))
    if not done.ok:
        raise typer.Exit(FAILED)


def _show(done: "Copied") -> None:
    from tulving.interfaces import show

    rows = [
        (
            table,
            f"{each.source} in the source",
            f"{each.copied} copied",
            f"{each.present} there before",
            f"{each.verified} the same",
        )
        for table, each in done.tables.items()
    ]
    show.table(("",) * 5, rows)
    if done.ok:
        rows_in_all = sum(each.source for each in done.tables.values())
        typer.echo(f"\nverified: all {rows_in_all} rows are in the target, sha256 {done.digest}")


def _words(difference: "Difference") -> str:
    named = ", ".join(f"{key} of {visible(tenant)}".removeprefix(" of ") for tenant, key in difference.named)
    more = ", ..." if difference.rows > len(difference.named) else ""
    return f"{difference.table}: {difference.rows} {PROBLEMS[difference.problem]}: {named}{more}"
