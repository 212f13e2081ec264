"""The three kinds of memory as tables: one entry holds everything that SQL needs to know about a kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any

from tulving.domain.model import KIND_OF, Episode, Fact, Item, Kind, Rule
from tulving.storage.rows import Row

INDEX_COLUMNS = ("search_text", "embedding", "embedding_version")


@dataclass(frozen=True, kw_only=True)
class KindTable:
    """A kind's table and its states as SQL conditions on the alias `m`.

    - `in_use`: the memory was neither forgotten nor replaced. `alive`: what a read returns by default.
    - `kept`: a person has not forgotten it. `lasting`: it has not ended by `:as_of` (`validity.held`).
    - `scoped`: the memory belongs to the namespace `:scope`. `dated_by`: the time that a filter by time compares.
    - `states` partition the rows, so their counts add up to the total; `further` conditions overlap with them.
    - `reviewed`: decay applies to the memory; None for a kind that does not decay.
    - `at_hand`: the row holds the content, and a search finds it; that of an archived episode does not.
    """

    table: str
    record: type[Item]
    in_use: str
    alive: str
    kept: str
    lasting: str
    scoped: str
    dated_by: str
    states: Mapping[str, str]
    further: Mapping[str, str] = field(default_factory=dict)
    reviewed: str | None = None
    at_hand: str = "TRUE"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in fields(self.record))

    @cached_property
    def selected(self) -> str:
        return ", ".join(f"m.{column}" for column in self.columns)

    @cached_property
    def select(self) -> str:
        return f"SELECT {self.selected} FROM {self.table} AS m"

    @cached_property
    def inserted(self) -> tuple[str, ...]:
        """The columns of a new row."""
        return self.columns + INDEX_COLUMNS

    @cached_property
    def values(self) -> "attrgetter[tuple[Any, ...]]":
        """Makes the values of the columns of a memory."""
        return attrgetter(*self.columns)

    def params(self, item: Item) -> Row:
        return dict(zip(self.columns, self.values(item), strict=True))

    def item(self, row: Row) -> Item:
        return self.record(**row)


KIND: dict[Kind, KindTable] = {
    "episode": KindTable(
        table="episodes",
        record=Episode,
        in_use="NOT m.forgotten",
        alive="NOT m.forgotten AND (m.expires_at IS NULL OR m.expires_at > :now)",
        kept="NOT m.forgotten",
        lasting="(m.expires_at IS NULL OR m.expires_at > :as_of)",
        scoped="m.butler = :scope",
        dated_by="COALESCE(m.occurred_at, m.created_at)",
        states={
            "unconsolidated": "NOT m.forgotten AND m.consolidation_status = 'pending'",
            **{
                status: f"NOT m.forgotten AND m.consolidation_status = '{status}'"
                for status in ("consolidated", "failed", "dead_letter")
            },
            "forgotten": "m.forgotten",
        },
        further={
            "expired": "NOT m.forgotten AND m.expires_at <= :now",
            "archived": "NOT m.forgotten AND m.segment_id IS NOT NULL",
        },
        at_hand="m.segment_id IS NULL",
    ),
    "fact": KindTable(
        table="facts",
        record=Fact,
        in_use="m.validity = 'active'",
        alive="m.validity = 'active'",
        kept="m.validity NOT IN ('retracted', 'forgotten')",
        lasting="(m.validity = 'active' OR m.ended_at > :as_of)",
        scoped="m.scope IN ('global', :scope)",
        dated_by="COALESCE(m.occurred_at, m.created_at)",
        states={
            "active": "m.validity = 'active' AND m.status IS NULL",
            "fading": "m.validity = 'active' AND m.status = 'fading'",
            "superseded": "m.validity = 'superseded'",
            "expired": "m.validity = 'expired'",
            "retracted": "m.validity IN ('retracted', 'forgotten')",
        },
        reviewed="m.validity = 'active'",
    ),
    "rule": KindTable(
        table="rules",
        record=Rule,
        in_use="NOT m.forgotten",
        alive="NOT m.forgotten",
        kept="(NOT m.forgotten OR m.ended_at IS NOT NULL)",
        lasting="(NOT m.forgotten OR m.ended_at > :as_of)",
        scoped="m.scope IN ('global', :scope)",
        dated_by="m.created_at",
        states={
            **{
                maturity: f"NOT m.forgotten AND m.maturity = '{maturity}'"
                for maturity in ("candidate", "established", "proven", "anti_pattern")
            },
            "forgotten": "m.forgotten",
        },
        further={
            "fading": "NOT m.forgotten AND m.status = 'fading'",
            "needs_inversion": "NOT m.forgotten AND m.needs_inversion",
        },
        reviewed="NOT m.forgotten AND m.maturity <> 'anti_pattern'",
    ),
}
MEMORY_TABLES = tuple(kind.table for kind in KIND.values())
REVIEWED: tuple[Kind, ...] = tuple(kind for kind, table in KIND.items() if table.reviewed)


def table_of(item: Item) -> KindTable:
    """The table of a memory."""
    return KIND[KIND_OF[type(item)]]
