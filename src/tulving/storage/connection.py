"""The connection that a transaction function receives, the same on both engines.

Statements are SQL text with `:named` parameters, in the subset of SQL that both engines share. Values go in
and come out as Python values (UUID, aware datetime, list, dict, bool).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tulving.domain.events import Event
from tulving.errors import DamagedStore, IntegrityError
from tulving.ports import Finding
from tulving.storage.lanes import Key, LaneRequest, Lanes
from tulving.storage.rows import Params, Row
from tulving.storage.segments import Segments


class Interrupted(IntegrityError):
    """The transaction and another one waited for each other. The store runs it again, as a whole."""


def check(name: str, problems: Callable[[], Iterable[str]]) -> Finding:
    """Run a check; damage that interrupts it is a problem itself."""
    try:
        return Finding(name, tuple(problems()))
    except DamagedStore as error:
        return Finding(name, (str(error),))


@contextmanager
def savepoint(conn: "Connection") -> Iterator[None]:
    """A part of a transaction that is rolled back alone when it raises."""
    before = len(conn.events)
    conn.execute("SAVEPOINT part")
    try:
        yield
        conn.execute("RELEASE SAVEPOINT part")
    except BaseException:
        del conn.events[before:]
        conn.secrets.clear()  # one of them may have been created in this part
        conn.execute("ROLLBACK TO SAVEPOINT part")
        conn.execute("RELEASE SAVEPOINT part")
        raise


@dataclass(frozen=True, slots=True)
class EventOrder:
    """The order in which events are read, as parts of SQL: that of their transactions where these may commit in another
    order than they number their events. `after` also leaves out what a running transaction may still precede."""

    transaction: str
    columns: str
    after: str
    end: str


class Connection(Protocol):
    """One transaction's connection."""

    events: list[Event]
    """The events of this transaction so far; the store publishes them after the commit."""

    @property
    def secrets(self) -> MutableMapping[str, str]:
        """Cached secrets of tenants (`events.py`); secrets that this transaction looks up are added."""
        ...

    segments: Segments
    """The bodies of the timeline's segments."""

    @property
    def for_update(self) -> str:
        """The suffix of a SELECT that locks rows before they are changed."""
        ...

    @property
    def for_reference(self) -> str:
        """The suffix of a SELECT that locks rows against deletion before they are referenced."""
        ...

    @property
    def event_order(self) -> EventOrder:
        """How events are read in the order in which they were committed."""
        ...

    @property
    def merged_at_a_time(self) -> int:
        """The batch size for `merge`."""
        ...

    def execute(self, sql: str, params: Params | None = None) -> int:
        """Execute a statement; returns the number of affected rows."""
        ...

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None: ...

    def insert(self, table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows of values in the order of the columns."""
        ...

    def fetch_one(self, sql: str, params: Params | None = None) -> Row | None: ...

    def fetch_now(self, sql: str, params: Params | None = None) -> Row | None:
        """What has been committed by now, where that may be newer than the snapshot of this transaction: files are."""
        ...

    def fetch_all(self, sql: str, params: Params | None = None) -> list[Row]: ...

    def fetch_for_each(self, sql: str, rows: Sequence[Params]) -> list[Row]:
        """The rows of a SELECT from one table for each of many parameter sets, in order, in one round trip."""
        ...

    def tuples(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        """Rows as the driver returns them, for what compares the engine's own values."""
        ...

    def stream(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        """Like `fetch_all`, but a few rows at a time: for results that may not fit into memory."""
        ...

    def within(self, column: str, parameter: str) -> str:
        """The condition that a column is one of the values of a list parameter."""
        ...

    def tagged(self, column: str, parameter: str) -> str:
        """The condition that a list column contains every value of a list parameter."""
        ...

    def beyond_ascii(self, column: str) -> str:
        """The condition that a text or document has non-ASCII characters, whose case SQL can't fold reliably."""
        ...

    def similar_name(self, name: str, names: str, parameter: str) -> str | None:
        """A condition that is true at least where the name in a column, or one in a list column, has trigrams similar
        to those of a parameter; None if the engine can't tell."""
        ...

    def by_index(self, index: str) -> str:
        """SQL that follows a table to make it use an index, if the planner of the engine does not choose it."""
        ...

    def lock(self, *names: str) -> None:
        """Lock these names until the transaction ends; waits while another one holds them."""
        ...

    def fetch_locked(self, names: Sequence[str], sql: str, params: Params) -> Row | None:
        """`lock` and `fetch_one` in one round trip, for what the holder of such a lock does not change."""
        ...

    def lock_store(self) -> None:
        """Lock the whole store against other writers until the transaction ends."""
        ...

    def merge(self, table: str, key: Sequence[str], rows: Sequence[Row]) -> list[Row]:
        """Insert rows of equal columns unless their key exists already; returns the rows that were new."""
        ...

    def vectors_of(self, dimension: int) -> AbstractContextManager[None]:
        """Prepare the tables for vectors of this dimension. Vectors of another dimension are gone inside the block."""
        ...

    def vector_value(self, column: str) -> str:
        """The expression that selects a vector column as the bytes of 32-bit floats."""
        ...

    def check_sees_all_tenants(self) -> None:
        """Raise unless the rows of all tenants are visible: work on a whole store must not skip any."""
        ...

    def vector_bytes(self, column: str) -> str:
        """The expression for the size of a vector column in bytes of 32-bit floats."""
        ...

    def index_text(self, tenant_id: str, search_text: str) -> str:
        """A search text in the form of the engine's keyword index."""
        ...

    def lanes(self, request: LaneRequest) -> Lanes:
        """Keyword and vector candidates, up to the limit for each kind; filters apply before the limit."""
        ...

    def memories(self, tenant_id: str, keys: Collection[Key]) -> dict[Key, Row]:
        """The rows of some candidates."""
        ...

    def defer_references(self) -> None:
        """Check foreign keys at the commit, so that rows may be inserted in any order."""
        ...

    def about(self) -> dict[str, Any]:
        """What a person should know about the engine: its version, and how it is set up."""
        ...

    def engine_checks(self) -> dict[str, Callable[[], Iterable[str]]]:
        """The engine's own checks, by name: its file, its keyword index, its vector index against the rows."""
        ...
