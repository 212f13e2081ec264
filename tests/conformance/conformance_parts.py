"""Parts of the conformance tests: a store with its own event loop, memories to put in, ways to query."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from tulving.domain.events import Event
from tulving.domain.model import KIND_OF, Episode, Fact, Item, Kind, Rule
from tulving.domain.scope import Filter
from tulving.domain.text import content_hash, found_by, search_text
from tulving.ports import Store
from tulving.storage import events, items
from tulving.storage.connection import Connection
from tulving.storage.kinds import table_of
from tulving.storage.lanes import Key, LaneRequest, Lanes
from tulving.storage.rows import IndexEntry

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
ONE = "acme"
OTHER = "it's \\ %s $1 :id 😀"
EAST, NORTH = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)
BETWEEN, NOWHERE = (1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
TEXTS = [
    "",
    "two\nlines\tand \\ 'quotes' \"all\" `kinds`; -- /* */ ? $1 :name %s {} \x01\x7f",
    "Grüße, Ελλάδα, кофе, 東京, עברית, हिन्दी, 한국어",
    "".join(map(chr, (0x7FF, 0x800, 0xFFFD, 0x10000, 0x1F9E0, 0x2FA1D, 0xE0001, 0xF0000, 0x10FFFD))),
    "a long one, " * 90_000,
]

T = TypeVar("T")


def run(runner: asyncio.Runner, doing: Awaitable[T]) -> T:
    async def wait() -> T:
        return await doing

    return runner.run(wait())


class Opened:
    """A store and the event loop it lives in, so that a test is a plain function."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        self._runner, self.store = runner, store

    def write(self, transaction: Callable[..., Any], *args: Any, on_behalf: str | None = ONE, **kwargs: Any) -> Any:
        return self.run(self.store.write(on_behalf, transaction, *args, **kwargs))

    def read(self, query: Callable[..., Any], *args: Any, on_behalf: str | None = ONE, **kwargs: Any) -> Any:
        return self.run(self.store.read(on_behalf, query, *args, **kwargs))

    def run(self, doing: Awaitable[T]) -> T:
        return run(self._runner, doing)

    def write_at_once(self, *transactions: Callable[[Connection], Any]) -> list[Any]:
        """What became of writes that were all begun before the first had ended: results and errors."""

        async def together() -> list[Any]:
            return await asyncio.gather(
                *(self.store.write(ONE, transaction) for transaction in transactions), return_exceptions=True
            )

        return self.run(together())


# -- memories to store -------------------------------------------------------------------------------------------------


def _common(number: int, content: str, more: dict[str, Any]) -> dict[str, Any]:
    common = {"tenant_id": ONE, "id": UUID(int=number), "created_at": NOW, "updated_at": NOW, "accessed_at": NOW}
    return {**common, "content": content, "content_hash": content_hash(content), "tags": [], "metadata": {}, **more}


def episode(number: int, content: str = "tea", **more: Any) -> Episode:
    return Episode(**_common(number, content, {"butler": "b", **more}))


def rule(number: int, content: str = "tea", **more: Any) -> Rule:
    return Rule(**_common(number, content, more))


def fact(number: int, content: str = "tea", **more: Any) -> Fact:
    return Fact(**_common(number, content, {"subject": "ann", "predicate": "drinks", **more}))


def event(number: int, about: Item | None = None, **more: Any) -> Event:
    values: dict[str, Any] = {"tenant_id": ONE, "entity_type": "store", "entity_id": None}
    if about:
        values = {"tenant_id": about.tenant_id, "entity_type": KIND_OF[type(about)], "entity_id": about.id}
    return Event(**{**values, "id": UUID(int=number), "event_type": "tested", "occurred_at": NOW, **more})


def entry(item: Item, vector: Sequence[float] | None = None) -> IndexEntry:
    packed = None if vector is None else struct.pack(f"<{len(vector)}f", *vector)
    return IndexEntry(search_text(found_by(item)), packed, None if vector is None else 1)


def put(conn: Connection, *new: Item, vector: Sequence[float] | None = None) -> None:
    for item in new:
        items.insert(conn, KIND_OF[type(item)], [(item, entry(item, vector))])
        events.append(conn, event(item.id.int, item))


def insert(conn: Connection, item: Item) -> None:
    """The row alone, past all checks but those of the database."""
    table = table_of(item)
    conn.insert(table.table, table.inserted, [(*table.values(item), "", None, None)])


def count(conn: Connection, table: str = "rules") -> int:
    row = conn.fetch_one(f"SELECT COUNT(*) AS found FROM {table}")
    assert row is not None
    return row["found"]


def ask(conn: Connection, *kinds: Kind, tenant: str = ONE, **wanted: Any) -> Lanes:
    request = {"tenant_id": tenant, "kinds": kinds or ("rule",), "filter": Filter(), "now": NOW, "limit": 10}
    return conn.lanes(LaneRequest(**{**request, "embedding_version": 1, **wanted}))


def number_of(key: Key) -> int:
    """The number of the memory that a candidate stands for."""
    return UUID(str(key[1])).int


def found(lane: dict[Key, float]) -> list[int]:
    """The numbers of what is in a lane, best first."""
    return [number_of(key) for key in sorted(lane, key=lambda key: -lane[key])]


def by_words(conn: Connection, *words: str, **wanted: Any) -> list[int]:
    lanes = ask(conn, terms=words, **wanted)
    assert not lanes.semantic
    return found(lanes.keyword)


def by_vector(conn: Connection, vector: Sequence[float] = EAST, **wanted: Any) -> list[int]:
    lanes = ask(conn, vector=vector, **wanted)
    assert not lanes.keyword
    return found(lanes.semantic)
