"""`tulving reembed`: new vectors for all memories."""

from typing import Annotated

import typer

from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import progress, report


def reembed(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Also vectors that this embedder made before")] = False,
    as_json: AsJson = False,
) -> None:
    """Give every memory a vector of the configured embedder; needed when another one is chosen."""
    with progress("embedding") as tell:
        done = context.obj.administer(lambda memory: memory.reembed(tell, force=force))
    report({"embedded": done}, as_json, f"embedded {done} memories" if done else "every memory has its vector already")
