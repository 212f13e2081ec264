"""Commands for the day that something goes wrong: a copy of the store, and its return."""

from pathlib import Path
from typing import Annotated

import typer

from tulving.interfaces.terminal import AsJson, print_json


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes")],
    force: Annotated[bool, typer.Option("--force", help="Also over a file that is there")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the store to a file, also while it is in use; SQLite only. The copy is checked before it counts."""
    from tulving.bootstrap import backup_store

    done = backup_store(context.obj.config(), file, force=force)
    if as_json:
        print_json({"file": str(done.path), "bytes": done.size, "schema": done.revision})
    else:
        typer.echo(f"wrote {done.path} ({done.size / 1e6:.1f} MB, schema {done.revision}); put it back with")
        typer.echo(f"  tulving restore {done.path}")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup")],
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the store; SQLite only. What is there now is kept beside it."""
    from tulving.bootstrap import restore_store, store_name

    config = context.obj.config()
    done = restore_store(config, file)
    if as_json:
        print_json({"schema": done.revision, "replaced": str(done.replaced) if done.replaced else None})
        return
    typer.echo(f"restored  {store_name(config.url)} from {file}")
    if done.replaced:
        typer.echo(f"kept      {done.replaced}")
