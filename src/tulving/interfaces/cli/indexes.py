"""`tulving reembed` and `tulving reindex`: new vectors for all memories, new indexes to search them by."""

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
        done = context.obj.administer(lambda store: store.reembed(tell, force=force))
    report({"embedded": done}, as_json, f"embedded {done} memories" if done else "every memory has its vector already")


def reindex(
    context: typer.Context,
    method: Annotated[str | None, typer.Option(metavar="ivfflat|hnsw", help="PostgreSQL: the kind of index")] = None,
    as_json: AsJson = False,
) -> None:
    """Build the search indexes anew, beside the old ones; searching and storing continue."""
    with progress("indexing") as tell:
        tables = context.obj.administer(
            lambda store: store.reindex(method, progress=lambda table, done, total: tell(done, total, table))
        )
    report({"reindexed": tables}, as_json, f"indexed   {', '.join(tables) or 'nothing: there is no index to build'}")
