"""How a change of another program's settings is offered to a person."""

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from tulving.errors import InvalidInput
from tulving.interfaces.cli.terminal import block
from tulving.interfaces.hosts.settings_file import Change


def write_settings(change: Change, yes: bool, carry_out: Callable[[], Path | None]) -> bool:
    """Show a change and carry it out if the person agrees; whether it was. Without a terminal nobody can agree."""
    if change.empty:
        typer.echo(f"already there: {change.path}")
        return False
    block(change.diff)
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput("yes", "is missing: nobody can be asked, and nothing was written", "--yes to write it")
        if not typer.confirm(f"Change {change.path}?"):
            typer.echo("nothing was written")
            return False
    backup = carry_out()
    typer.echo(f"wrote {change.path}" + (f" (as it was: {backup})" if backup else ""))
    return True
