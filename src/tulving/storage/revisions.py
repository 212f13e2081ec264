"""The revisions of the schema, in order. Known without Alembic, which is loaded only when one has to be applied."""

REVISIONS = (
    *("mem_001", "mem_002", "mem_003", "mem_004", "mem_005", "mem_006", "mem_007", "mem_008"),
    *("mem_009", "mem_010", "mem_011", "mem_012"),
)
HEAD = REVISIONS[-1]
SCHEMA_DIGEST = "8f52b322b10039f667d2add9b660183c177c4f5358def8ec24630c7804245cc3"
"""Of the SQLite schema at HEAD, by which a file is seen to be ours without running the migrations. A wrong one only
makes opening slow; a test says what it should be."""


def missing(found: str | None) -> tuple[str, ...]:
    """The revisions that a store at this one lacks."""
    return REVISIONS if found is None else REVISIONS[REVISIONS.index(found) + 1 :]
