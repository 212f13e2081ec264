"""The embedded engine: one SQLite file, one writer thread with group commit, several readers.

WAL with synchronous=FULL: an acknowledged write is on disk. Waiting writes share one commit, each in its own
savepoint, so that durability costs little under load. Any number of processes may open the same file.
"""

import asyncio
import logging
import math
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from tulving.domain.events import Event
from tulving.errors import DamagedStore, IntegrityError, InvalidInput, MemoryClosed, StoreBusy, TulvingError
from tulving.ports import UNOBSERVED, Finding, Observer
from tulving.settings import VectorsConfig
from tulving.storage import facts, items, timeline
from tulving.storage.connection import Interrupted
from tulving.storage.kinds import MEMORY_TABLES
from tulving.storage.segments import Segments
from tulving.storage.sqlite import database
from tulving.storage.sqlite.connection import SqliteConnection
from tulving.storage.sqlite.errors import DRIVER_ERRORS, named_error, named_errors
from tulving.storage.sqlite.place import Place
from tulving.storage.sqlite.vector_snapshot import Snapshots
from tulving.storage.sqlite.vectors import VectorCache

log = logging.getLogger("tulving")
P = ParamSpec("P")
T = TypeVar("T")

MOST_PER_COMMIT = 256
READERS = 4
REREADS = 3
MOST_SEGMENTS = 3
"""Of a keyword index; maintenance merges more."""
MERGED_AT_A_TIME = 100
"""Pages of a keyword index that are merged while writers wait: about 5 ms."""
LONGEST_PAUSE = 0.25
"""Seconds to wait for the write lock before checking whether all callers have given up."""


def _merge_segments(conn: SqliteConnection, only_stale: bool) -> list[str]:
    """Merging into one segment drops deleted words; `secure_delete` overwrites the old segments."""
    stale = {row["table_name"] for row in conn.fetch_all("SELECT table_name FROM stale_words")}
    merged = [table for table in MEMORY_TABLES if not only_stale or table in stale]
    for table in merged:
        conn.execute(f"INSERT INTO {table}_fts ({table}_fts) VALUES ('optimize')")
    if merged:
        conn.execute("DELETE FROM stale_words")
    return merged


def _scattered(conn: SqliteConnection) -> list[str]:
    """The tables whose keyword index has many segments: a query looks up every word in each of them."""
    count = "SELECT COUNT(DISTINCT segid) AS segments FROM {}_fts_idx"
    return [table for table in MEMORY_TABLES if conn.fetch_all(count.format(table))[0]["segments"] > MOST_SEGMENTS]


def _merge_some(conn: SqliteConnection, table: str, begin: bool) -> bool:
    """One step of merging all segments of an index; whether there is more to do. FTS5 tells it by its changes."""
    before = conn.raw.total_changes
    pages = -MERGED_AT_A_TIME if begin else MERGED_AT_A_TIME
    conn.execute(f"INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('merge', {pages})")
    return conn.raw.total_changes - before >= 2


def _used_bytes(conn: SqliteConnection) -> int:
    [row] = conn.fetch_all(
        "SELECT (page_count - freelist_count) * page_size AS used"
        " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )
    return row["used"]


_TOGETHER: dict[Callable[..., Any], Callable[..., Sequence[Any]]] = {
    facts.store: facts.store_each,
    items.store: items.store_each,
}
"""Transactions of which several calls can be executed by the same statements."""


@dataclass(slots=True)
class _Job:
    transaction: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    publish: Callable[[Sequence[Event]], None]
    result: Any = None
    events: Sequence[Event] = ()
    error: BaseException | None = None

    def run(self, conn: SqliteConnection) -> Any:
        return self.transaction(conn, *self.args, **self.kwargs)

    @property
    def company(self) -> tuple[Any, ...]:
        """Equal for neighbours that can be executed by the same statements."""
        return (self.loop, self.transaction) if self.transaction in _TOGETHER and not self.kwargs else (id(self),)


def _answer(group: list[_Job]) -> None:
    """Wake each event loop once for all its answers: waking it for each would contend with the writer."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        loops.setdefault(job.loop, []).append(job)
    for loop, jobs in loops.items():
        with suppress(RuntimeError):  # the loop was closed, so there is no caller left
            loop.call_soon_threadsafe(_deliver, jobs)


def _deliver(jobs: list[_Job]) -> None:
    """Events are published even if the caller has given up: the change is committed."""
    for job in jobs:
        if job.error is None and job.events:
            job.publish(job.events)
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


class SqliteStore:
    """A Tulving store in one file."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout: float = 30.0,
        cache_bytes: int = 256 * 1024 * 1024,
        vectors: VectorsConfig | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._observer = observer
        self.path = path.absolute()  # the working directory may change
        self.segments = Segments(database.timeline_folder(self.path))
        self._busy_timeout = busy_timeout
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._damage: DamagedStore | None = None
        self.publish: Callable[[Sequence[Event]], None] = lambda events: None
        self._closed = False
        with named_errors():
            database.prepare(self.path, busy_timeout)
            raw = database.connect(self.path, min(busy_timeout, LONGEST_PAUSE))
            raw.execute("SELECT 1 FROM sqlite_schema").fetchone()  # the file is opened only now
            self._place = Place(self.path)
        snapshots = Snapshots(database.work_folder(self.path) / "semantic-index", writable=not self._place.frozen)
        self.vectors = VectorCache(cache_bytes, vectors, snapshots, observer)
        self._writer = SqliteConnection(raw, self.vectors, self.segments)
        self._jobs: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._crowded = False
        """Whether the last commit was for several callers."""
        self._thread = threading.Thread(target=self._write_loop, name="tulving-writer", daemon=True)
        self._thread.start()
        self._pool = ThreadPoolExecutor(READERS, "tulving-reader")
        self._express = ThreadPoolExecutor(1, "tulving-lookup")

    async def write(
        self, tenant_id: str | None, transaction: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction function in the writer thread; returns when it is on disk. Its events are published then.

        The tenant only matters to engines with row-level security.
        """
        self._check()
        loop = asyncio.get_running_loop()
        job = _Job(transaction, args, kwargs, loop, loop.create_future(), self.publish)
        if self._crowded:
            gathered = self._gathered.setdefault(loop, [])
            if not gathered:
                loop.call_soon(self._hand_over, loop)
            gathered.append(job)
        else:
            self._jobs.put([job])
        return await job.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the writer what the callers of one event loop have gathered. Each hand-over lets the two threads
        interrupt each other, and those who were answered together mostly write again together."""
        if gathered := self._gathered.pop(loop, None):
            self._jobs.put(gathered)

    async def read(
        self, tenant_id: str | None, query: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read in one snapshot, concurrently with the writer. One that is overtaken each time becomes a write:
        then nobody replaces a file that its snapshot names."""
        try:
            return await self._read_in(self._pool, query, *args, **kwargs)
        except Interrupted:
            return await self.write(tenant_id, query, *args, **kwargs)

    async def look_up(
        self, tenant_id: str | None, query: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """A short read, in a thread of its own so that it does not wait behind searches."""
        return await self._read_in(self._express, query, *args, **kwargs)

    async def reindex(
        self, method: str | None = None, *, only_outgrown: bool = False, progress: object = None
    ) -> list[str]:
        """Merge the segments of the keyword index, write the snapshots of vectors anew, give free pages back to the
        file system and truncate the log, so that deleted content is gone.

        With `only_outgrown` an index without deleted words is merged only if it has many segments, and step by step; a
        snapshot that is up to date is left alone, and the file is not written anew. Else all snapshots are removed, and
        vectors are read from their rows again.
        """
        if method is not None:
            raise InvalidInput("method", "is for PostgreSQL; SQLite chooses by the number of vectors", "no method")
        merged = await self.write(None, _merge_segments, only_outgrown)
        for table in await self.read(None, _scattered):
            more = await self.write(None, _merge_some, table, True)
            while more:
                more = await self.write(None, _merge_some, table, False)
        if only_outgrown:
            await self.read(None, self.vectors.keep)
        else:
            await asyncio.to_thread(self.vectors.clear)
        with named_errors():
            emptied = await asyncio.to_thread(self._place.compact, not only_outgrown)
        if not emptied:
            log.warning("%s-wal could not be truncated, a reader holds it; it may contain deleted words", self.path)
        return merged

    async def used_bytes(self) -> int | None:
        """How much of the file holds something. What was deleted leaves free pages, and the file as long as it was."""
        return await self.read(None, _used_bytes)

    async def health(self) -> list[Finding]:
        """What an operator should know about the file, its log and its vectors."""
        with named_errors():
            findings = await asyncio.to_thread(self._place.health)
        return [*findings, await self.look_up(None, self.vectors.finding)]

    async def ready(self) -> None:
        """Load the vectors of large tenants and wait until their graphs are complete. Searches need not wait for it."""
        await self.read(None, self.vectors.load)
        await asyncio.to_thread(self.vectors.wait)

    async def identity(self) -> tuple[Any, ...]:
        """Identifies the store, no matter through which path it is reached."""
        file = self.path.stat()
        return file.st_dev, file.st_ino

    async def close(self) -> None:
        """Finish queued writes, keep a snapshot of the vectors, then close the file."""
        if self._closed:
            return
        self._closed = True
        for loop in [*self._gathered]:
            self._hand_over(loop)
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self.vectors.close)
        await asyncio.wrap_future(self._pool.submit(self._keep_vectors))
        for pool in (self._pool, self._express):
            await asyncio.to_thread(pool.shutdown)
        for raw in (*self._readers, self._writer.raw):
            raw.close()

    def _keep_vectors(self) -> None:
        """A store is closed in any case: without a snapshot the next start takes longer."""
        try:
            self._reread(self.vectors.keep_worthwhile)
        except (OSError, sqlite3.Error, TulvingError) as error:
            log.warning("no snapshot of the vectors was written: %s", error)

    def _check(self) -> None:
        if self._closed:
            raise MemoryClosed
        self._place.check_writable()
        if self._damage:
            raise self._damage

    async def _read_in(
        self, pool: ThreadPoolExecutor, query: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self._closed:
            raise MemoryClosed
        return await asyncio.wrap_future(pool.submit(self._reread, lambda conn: query(conn, *args, **kwargs)))

    def _reread(self, query: Callable[[SqliteConnection], T]) -> T:
        """Read, again in another snapshot if a file that it names was replaced since. Raises `Interrupted` if that
        happens each time."""
        conn = self._reader()
        for _ in range(REREADS):
            with suppress(Interrupted):
                return self._read(conn, query)
        return self._read(conn, query)

    def _read(self, conn: SqliteConnection, query: Callable[[SqliteConnection], T]) -> T:
        with named_errors():
            conn.raw.execute("BEGIN")
        try:
            result = query(conn)
            if self._place.frozen:
                self._place.check()
            return result
        except DamagedStore as damage:
            self._damage = damage
            raise
        finally:
            conn.raw.rollback()

    def _reader(self) -> SqliteConnection:
        conn = getattr(self._local, "conn", None)
        if conn is None:
            with named_errors():
                raw = database.connect(self.path, self._busy_timeout, read_only=True)
                raw.execute("SELECT 1 FROM sqlite_schema").fetchone()
            self._place.check()
            self._readers.append(raw)
            conn = self._local.conn = SqliteConnection(raw, self.vectors, self.segments)
        return conn

    def _write_loop(self) -> None:
        while (jobs := self._jobs.get()) is not None:
            group, closing = jobs, False
            with suppress(queue.Empty):
                while len(group) < MOST_PER_COMMIT:
                    if (waiting := self._jobs.get_nowait()) is None:
                        closing = True
                        break
                    group += waiting
            group = [job for job in group if not job.future.cancelled()]
            if group:
                self._crowded = len(group) > 1
                self._commit(group)
                self._observer.note("commit", len(group))
                self._sweep_segments()
                _answer(group)
                self._place.trim_log()
            if closing:
                return

    def _commit(self, group: list[_Job]) -> None:
        """One transaction for the whole group; a job that fails rolls back only its own savepoint."""
        try:
            self._begin(group)
            if len(group) == 1:
                self._work(group)
            else:
                for _, neighbours in groupby(group, key=attrgetter("company")):
                    self._work_apart([*neighbours])
            self._place.check()
            self._control("COMMIT")
            self._place.check()
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._writer.raw.rollback()
            self._writer.secrets.clear()  # one may have been rolled back
            if isinstance(error, DamagedStore):
                self._damage = error
            elif isinstance(error, IntegrityError) and len(group) > 1:
                # A deferred foreign key failed at the commit: only separate commits show which job caused it.
                for job in group:
                    job.error = None
                    self._commit([job])
                return
            for job in group:
                job.error = job.error or error

    def _sweep_segments(self) -> None:
        """Delete the files of what was deleted from the timeline. If that fails, the next rotation does it."""
        if not self.segments.outdated:
            return
        try:
            self._control("BEGIN IMMEDIATE")
            timeline.sweep(self._writer)
            self._control("COMMIT")
        except (OSError, TulvingError) as error:
            log.warning("files of the timeline could not be deleted: %s", error)
            with suppress(sqlite3.Error):
                self._writer.raw.rollback()

    def _begin(self, group: list[_Job]) -> None:
        """Wait for the write lock in short steps, as long as a caller still waits for an answer."""
        for left in reversed(range(max(1, math.ceil(self._busy_timeout / LONGEST_PAUSE)))):
            try:
                return self._control("BEGIN IMMEDIATE")
            except StoreBusy:
                if not left or all(job.future.cancelled() for job in group):
                    raise

    def _work_apart(self, jobs: list[_Job]) -> None:
        """Execute jobs in a savepoint: neighbours together and, if that fails, each in its own."""
        self._control("SAVEPOINT job")
        try:
            self._work(jobs)
        except BaseException as error:
            if isinstance(error, DamagedStore) or not self._writer.raw.in_transaction:
                raise
            self._control("ROLLBACK TO job")
            self._writer.secrets.clear()
            if len(jobs) == 1:
                jobs[0].error = error
            else:
                for job in jobs:
                    self._work_apart([job])
        self._control("RELEASE job")

    def _work(self, jobs: list[_Job]) -> None:
        self._writer.events = []
        if len(jobs) == 1:
            jobs[0].result = jobs[0].run(self._writer)
        else:
            results = _TOGETHER[jobs[0].transaction](self._writer, [job.args for job in jobs])
            for job, result in zip(jobs, results, strict=True):
                job.result = result
        jobs[0].events = self._writer.events

    def _control(self, statement: str) -> None:
        try:
            self._writer.raw.execute(statement)
        except DRIVER_ERRORS as error:
            raise named_error(error) from error
