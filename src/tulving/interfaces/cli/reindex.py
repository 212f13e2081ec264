"""`tulving reindex`: the search indexes, built anew."""

from typing import Annotated

import typer

from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import progress, report


def reindex(
    context: typer.Context,
    method: Annotated[str | None, typer.Option(metavar="ivfflat|hnsw", help="PostgreSQL: the kind of index")] = None,
    as_json: AsJson = False,
) -> None:
    """Build the search indexes anew, beside the old ones; searching and storing continue."""
    with progress("indexing") as tell:
        tables = context.obj.administer(
            lambda memory: memory.reindex(method, progress=lambda table, done, total: tell(done, total, table))
        )
    report({"reindexed": tables}, as_json, f"indexed   {', '.join(tables) or 'nothing: there is no index to build'}")
