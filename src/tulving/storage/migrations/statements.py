"""DDL for both engines from one text: PostgreSQL's dialect, with replacements for SQLite.

A statement, or a line of one, that begins with an engine's name and a colon is for that engine only.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

Engine = Literal["sqlite", "postgresql"]
"""As Alembic names its dialects."""

_NOW = "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now'"
"""In the stored form of times; left open, so that a modifier can follow."""
_RANDOM_UUID = """(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))"""
_IN_SQLITE = {
    r"(\w+) BOOLEAN NOT NULL DEFAULT (\w+)": r"\1 INTEGER NOT NULL DEFAULT \2 CHECK (\1 IN (TRUE, FALSE))",
    r"\b(UUID|JSONB|TIMESTAMPTZ)\b": "TEXT",
    r"\bDOUBLE PRECISION\b": "REAL",
    r"\b(VECTOR\b(\(\d+\))?|BYTEA\b)": "BLOB",
    r"\bBIGINT\b": "INTEGER",
    r"\bjsonb_typeof\b": "json_type",
    r"\bgen_random_uuid\(\)": _RANDOM_UUID,
    r"\bnow\(\) \+ INTERVAL '(7 days)'": rf"({_NOW}, '+\1'))",
    r"\bnow\(\)": f"({_NOW}))",
    r" GENERATED ALWAYS AS IDENTITY\b": "",
    # On a composite key it would unset the tenant too; triggers do it instead.
    r"\s+ON DELETE SET NULL \(\w+\)": "",
    r" DEFERRABLE\b": "",
}


def statements(engine: Engine, texts: Sequence[str]) -> Iterator[str]:
    """The statements for one engine."""
    (other,) = {*get_args(Engine)} - {engine}
    for text in texts:
        if text.startswith(f"{other}: "):
            continue
        own = re.sub(rf"^ *{other}: .*\n?", "", text, flags=re.MULTILINE)
        own = re.sub(rf"^( *){engine}: ", r"\1", own, flags=re.MULTILINE)
        if engine == "sqlite":
            for word, replacement in _IN_SQLITE.items():
                own = re.sub(word, replacement, own)
        yield own


def execute(texts: Sequence[str]) -> None:
    """Run the statements of a revision on Alembic's current engine."""
    from alembic import op

    for statement in statements(op.get_context().dialect.name, texts):  # pyright: ignore[reportArgumentType]
        op.execute(statement)
