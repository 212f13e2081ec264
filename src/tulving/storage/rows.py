"""Rows and values: a column name has the same type in every table."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, get_args, get_origin
from uuid import UUID

from tulving.domain.access import Token
from tulving.domain.editing import Revision
from tulving.domain.events import Event
from tulving.domain.learning import Proposal, Run
from tulving.domain.model import Entity, Episode, Fact, Link, Rule, Session, Settlement

Row = dict[str, Any]
Params = Mapping[str, Any]

_RECORDS = (Episode, Fact, Rule, Entity, Link, Event, Token, Revision, Run, Proposal, Settlement, Session)
ARRAYS = frozenset({"aliases"})
"""Lists that are arrays on PostgreSQL. All other lists, and all lists on SQLite, are JSON documents."""
# Columns that are not a field of one of these records.
_OTHERS: dict[str, Any] = {
    **dict.fromkeys(("memory_id", "rule_id", "episode_id", "fact_id", "open_segment_id"), UUID),
    **dict.fromkeys(("applied_at", "first_at", "last_at"), datetime),
    **dict.fromkeys(("due_at", "lease_until", "last_started_at", "last_finished_at"), datetime),
    **dict.fromkeys(("context", "result", "rules"), Any),
    **dict.fromkeys("embedding_version version texts generation episodes size transaction_id".split(), int),
}


def _plain(hint: Any) -> Any:
    """A type hint without `None` and without the element type of a container."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    return get_origin(hint) or hint


TYPES: dict[str, Any] = _OTHERS | {
    field.name: _plain(field.type) for record in _RECORDS for field in fields(record) if field.name != "rights"
}


def _of(*wanted: Any) -> frozenset[str]:
    return frozenset(name for name, type_ in TYPES.items() if type_ in wanted)


TIMES = _of(datetime)
UUIDS = _of(UUID)
FLAGS = _of(bool)
WHOLE_NUMBERS = _of(int) - {"seq"}
DOCUMENTS = _of(Mapping, Sequence, Any) - ARRAYS


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What a memory is found by: its search text and, once embedded, its vector."""

    search_text: str
    embedding: bytes | None
    embedding_version: int | None


def optional(record: type) -> frozenset[str]:
    """The fields of a record that may be None."""
    return frozenset(field.name for field in fields(record) if type(None) in get_args(field.type))


def insert_statement(table: str, columns: Iterable[str]) -> str:
    columns = tuple(columns)
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
