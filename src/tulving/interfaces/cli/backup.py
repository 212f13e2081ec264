"""`tulving backup` and `tulving restore`: a copy of the store's file, and the way back."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import progress, report, size

MEGABYTE = 1_000_000


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes")],
    force: Annotated[bool, typer.Option("--force", help="Also over a file that is there")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the store to a file, also while it is in use; SQLite only. The copy is checked before it counts."""
    from tulving.bootstrap import backup_store

    with progress("backup, in MB:") as tell:
        done = backup_store(
            context.obj.config(),
            file,
            force=force,
            progress=lambda done, total: tell(done // MEGABYTE, max(1, total // MEGABYTE)),
        )
    report(
        {"file": str(done.path), "bytes": done.size, "schema": done.revision},
        as_json,
        f"wrote {done.path} ({size(done.size)}, schema {done.revision}); put it back with",
        f"  tulving restore {shlex.quote(str(done.path))}",
    )


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup")],
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the store; SQLite only. What is there now is kept beside it."""
    from tulving.bootstrap import restore_store
    from tulving.location import store_name

    config = context.obj.config()
    done = restore_store(config, file)
    replaced = str(done.replaced) if done.replaced else None
    kept = [f"kept      {replaced}"] if replaced else []
    said = f"restored  {store_name(config.url)} from {file}"
    report({"schema": done.revision, "replaced": replaced}, as_json, said, *kept)
