"""Rows and values: which columns a kind has, and how a row becomes a dataclass and back."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from tulving.domain.model import Episode, Fact, Item, Kind, Rule, canonical_state

Row = dict[str, Any]
Params = Mapping[str, Any]

TABLES: dict[Kind, str] = {"episode": "episodes", "fact": "facts", "rule": "rules"}
CLASSES: dict[Kind, type] = {"episode": Episode, "fact": Fact, "rule": Rule}
COLUMNS: dict[Kind, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(cls)) for kind, cls in CLASSES.items()
}

# A column's name tells its type, in every table.
TIMES = frozenset(
    "created_at updated_at last_referenced_at accessed_at last_confirmed_at last_applied_at last_evaluated_at"
    " expires_at next_review_at next_consolidation_retry_at occurred_at started_at ended_at applied_at revoked_at"
    " due_at lease_until last_started_at last_finished_at".split()
)
UUIDS = frozenset(
    "id session_id entity_id source_episode_id supersedes_id source_id target_id run_id rule_id merged_into"
    " memory_id".split()
)
DOCUMENTS = frozenset("tags metadata payload context result".split())
LISTS = frozenset({"aliases"})
"""Lists of texts: arrays on PostgreSQL, JSON like the documents on SQLite."""
FLAGS = frozenset("consolidated forgotten keyed needs_inversion".split())
WHOLE_NUMBERS = frozenset(
    "reference_count consolidation_attempts applied_count success_count harmful_count tool_calls"
    " embedding_version number".split()
)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What a memory is found by: its search text and, once it is embedded, its vector."""

    search_text: str
    embedding: bytes | None
    embedding_version: int | None


def insert_statement(table: str, columns: tuple[str, ...]) -> str:
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"


_INDEX_COLUMNS = ("search_text", "embedding", "embedding_version")
INSERTS: dict[Kind, str] = {kind: insert_statement(TABLES[kind], COLUMNS[kind] + _INDEX_COLUMNS) for kind in TABLES}
SELECTED: dict[Kind, str] = {kind: ", ".join(f"m.{column}" for column in COLUMNS[kind]) for kind in TABLES}
_VALUES = {kind: attrgetter(*COLUMNS[kind]) for kind in TABLES}


def item_params(kind: Kind, item: Item) -> Row:
    return dict(zip(COLUMNS[kind], _VALUES[kind](item), strict=True))


def to_item(kind: Kind, row: Row) -> Item:
    if row.get("validity") == "forgotten":
        row = {**row, "validity": canonical_state("forgotten")}
    return CLASSES[kind](**row)
