"""What a transaction function is given: one connection, the same on both engines.

Statements are SQL text with `:named` parameters, in the part of SQL that both engines share. Values go in
and come out as Python values (UUID, aware datetime, list, dict, bool).
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tulving.domain.events import Event
from tulving.errors import DamagedStore
from tulving.ports import Finding
from tulving.storage.lanes import LaneRequest, Lanes
from tulving.storage.rows import Params, Row


def check(name: str, problems: Callable[[], Iterable[str]]) -> Finding:
    """Look for problems; damage that stops the look is one itself."""
    try:
        return Finding(name, tuple(problems()))
    except DamagedStore as error:
        return Finding(name, (str(error),))


class Connection(Protocol):
    """One transaction's connection."""

    events: list[Event]
    """What has happened in this transaction so far; the store publishes it after the commit."""

    @property
    def secrets(self) -> MutableMapping[str, str]:
        """The secrets of tenants (`events.py`) that need not be looked up, and those that were in this transaction."""
        ...

    @property
    def for_update(self) -> str:
        """What ends a SELECT of rows that are to be changed, so that nobody else changes them before."""
        ...

    @property
    def for_reference(self) -> str:
        """What ends a SELECT of rows that are to be referred to, so that they are still there then."""
        ...

    @property
    def merged_at_a_time(self) -> int:
        """How many rows `merge` likes best."""
        ...

    def execute(self, sql: str, params: Params | None = None) -> int:
        """Execute; the number of rows touched."""
        ...

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None: ...

    def fetch_one(self, sql: str, params: Params | None = None) -> Row | None: ...

    def fetch_all(self, sql: str, params: Params | None = None) -> list[Row]: ...

    def fetch_for_each(self, sql: str, rows: Iterable[Params]) -> list[Row]:
        """What a SELECT finds for each of many parameters, one after the other, in one round trip."""
        ...

    def stream(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        """The same as `fetch_all`, a few rows at a time: for what may not fit into memory."""
        ...

    def within(self, column: str, parameter: str) -> str:
        """The condition that a column is among the values of a list parameter."""
        ...

    def tagged(self, column: str, parameter: str) -> str:
        """The condition that a list column holds every value of a list parameter."""
        ...

    def beyond_ascii(self, column: str) -> str:
        """The condition that a text or document has characters outside ASCII, about which SQL knows little."""
        ...

    def similar_name(self, name: str, names: str, parameter: str) -> str | None:
        """A condition that holds at least where the name in a column, or one of those in a list column, is similar to a
        parameter by its trigrams; None where the engine can't tell."""
        ...

    def lock(self, *names: str) -> None:
        """Wait until no other transaction holds these names, and hold them until this one ends."""
        ...

    def lock_store(self) -> None:
        """Wait until nobody else writes to the store, and keep them out until this transaction ends."""
        ...

    def merge(self, table: str, key: Sequence[str], rows: Sequence[Row]) -> list[Row]:
        """Insert rows of equal columns unless their key is there already; those that were new."""
        ...

    def vectors_of(self, dimension: int) -> AbstractContextManager[None]:
        """Make room for vectors of so many dimensions. If the tables had others, those are gone in the block."""
        ...

    def vector_value(self, column: str) -> str:
        """A vector column as it is selected, to come out as bytes of 32-bit numbers."""
        ...

    def check_sees_all_tenants(self) -> None:
        """Raise unless the rows of all tenants are seen: what is done to a whole store must not pass over some."""
        ...

    def vector_bytes(self, column: str) -> str:
        """The expression for how many bytes of 32-bit numbers a vector column holds."""
        ...

    def index_text(self, tenant_id: str, search_text: str) -> str:
        """A search text as the engine's keyword index wants it."""
        ...

    def lanes(self, request: LaneRequest) -> Lanes:
        """Keyword and vector candidates, up to the limit of each kind; filters apply before it, never after."""
        ...

    def defer_references(self) -> None:
        """Check foreign keys when the transaction ends, so that rows may come in any order."""
        ...

    def verify_engine(self) -> list[Finding]:
        """The engine's own checks: its file, its keyword index, its vector index against the rows."""
        ...
