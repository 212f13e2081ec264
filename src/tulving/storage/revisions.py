"""The revisions of the schema, in order. Known without Alembic, which is loaded only when one has to be applied."""

REVISIONS = ("mem_001", "mem_002", "mem_003", "mem_004", "mem_005", "mem_006", "mem_007", "mem_008", "mem_009")
HEAD = REVISIONS[-1]
SCHEMA_DIGEST = "b08212c2a0c04894e80bc4a20d3fdff5b5ae6180340ee50ec91fb9e0033c9288"
"""Of the SQLite schema at HEAD, by which a file is seen to be ours without running the migrations. A wrong one only
makes opening slow; a test says what it should be."""


def missing(found: str | None) -> tuple[str, ...]:
    """The revisions that a store at this one lacks."""
    return REVISIONS if found is None else REVISIONS[REVISIONS.index(found) + 1 :]
