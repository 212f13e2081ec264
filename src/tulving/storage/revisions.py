"""The revisions of the schema, in order. Known without the migrations, which are loaded only when one is applied."""

from tulving.errors import SchemaTooNew

REVISIONS = ("mem_001", "mem_002", "mem_003", "mem_004")
HEAD = REVISIONS[-1]
SCHEMA_DIGEST = "467db0dd5c59f9866826279749e1b711f1e6ee2fbf069108eaa981d4ea48881d"
"""Of the SQLite schema at HEAD, by which a file is seen to be ours without running the migrations. A wrong one only
makes opening slower; a test prints the right one."""


def known(store: str, revision: str | None) -> str:
    """The revision of a store, if it is one of ours."""
    if revision is None or revision not in REVISIONS:
        raise SchemaTooNew(
            f"{store} has schema {revision}, which this Tulving ({HEAD}) does not know: it was made by a newer version,"
            " or by one from before the first release; install the version that made it"
        )
    return revision


def missing(found: str | None) -> tuple[str, ...]:
    """The revisions that a store at this one lacks."""
    return REVISIONS if found is None else REVISIONS[REVISIONS.index(found) + 1 :]
