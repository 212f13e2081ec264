"""The vector indexes on PostgreSQL: when they are used, how widely they are searched, and when they are rebuilt.

An approximate index covers all tenants. A search for one tenant has to skip the rows of the others, so for a small
tenant comparing all of its rows is both exact and faster. An IVFFlat index keeps the centres that it had when it was
built; on an empty table it has none. So there is no index until a tenant is large enough to be searched by it: every
insert would pay for it.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tulving.domain.intake import one_of
from tulving.domain.model import Kind
from tulving.errors import StoreBusy
from tulving.storage.kinds import KIND, MEMORY_TABLES
from tulving.storage.postgres.schema import SAFE_PGVECTOR
from tulving.storage.postgres.values import ANY_POOL, Raw

if TYPE_CHECKING:
    from tulving.storage.postgres.connection import PostgresConnection

METHODS = ("ivfflat", "hnsw")
Progress = Callable[[str, int, int], None]
"""Called with the table that is being indexed, the rows done, and the rows in total."""

FEWEST_LISTS, MOST_LISTS = 20, 1000
EF_SEARCH = 200
LARGEST_INDEXED = 2000
"""pgvector's limit of dimensions for an index."""
LARGEST_IN_ROW = 1500
REMEMBERED = 60.0
BUILD_LOCK = 0x54554C5649445831  # "TULVIDX1"
_MARK = "tulving: built over "


def lists_for(rows: int) -> int:
    """How many lists an IVFFlat index over this many rows should have; at least the specified 20."""
    return min(MOST_LISTS, max(FEWEST_LISTS, math.isqrt(rows)))


def probes_for(lists: int) -> int:
    """Half of the lists: with fewer, too many near vectors are in lists that are not read."""
    return math.ceil(lists / 2)


def kilobytes_for(lists: int, dimension: int) -> int:
    """The memory that pgvector needs to find the centres of this many lists: a sample of the vectors, and the distance
    of each from each centre. It refuses to build with less; a server's default is 64 MB."""
    vector, sample = 4 * dimension + 8, max(10_000, 50 * lists)
    needed = sample * (vector + 4 * lists + 8) + lists * (2 * vector + 4 * lists + 12)
    return needed // 1000 + 1000


def outgrown(method: str, rows: int, built_over: int) -> bool:
    """Whether an index was built over too few of its table's rows. HNSW adapts as the table grows; IVFFlat does not."""
    return method == "ivfflat" and rows >= 1000 and rows >= 2 * built_over


def suits(method: str | None, rows: int, table_rows: int, exact_rows: int) -> bool:
    """Whether the index is faster than comparing all rows of a tenant, given how many others it must skip."""
    if method is None or rows <= exact_rows:
        return False
    return method == "hnsw" or 2 * rows > table_rows


@dataclass(frozen=True, slots=True)
class IndexState:
    """The current state of a table's vector index."""

    method: str | None
    lists: int
    built_over: int
    table_rows: int
    dimension: int


class VectorIndexes:
    """Cached knowledge of the indexes and the tenants' sizes; it guides the search and need not be exact."""

    def __init__(self, exact_rows: int) -> None:
        self.exact_rows = exact_rows
        self._suits: dict[tuple[str, Kind], tuple[float, bool]] = {}
        self._probes = FEWEST_LISTS

    def forget(self) -> None:
        """Drop the cache: the indexes have changed."""
        self._suits.clear()

    def suits(self, conn: "PostgresConnection", tenant_id: str, kind: Kind) -> bool:
        """Whether a tenant is large enough to be searched through the index."""
        now = time.monotonic()
        until, known = self._suits.get((tenant_id, kind), (0.0, False))
        if now < until:
            return known
        row = conn.fetch_one(
            f"SELECT count(*) AS rows FROM"
            f" (SELECT 1 FROM {KIND[kind].table} WHERE tenant_id = :tenant_id LIMIT :most) AS few",
            {"tenant_id": tenant_id, "most": self.exact_rows + 1},
        )
        assert row is not None
        large = row["rows"] > self.exact_rows and self._worthwhile(conn, tenant_id, kind)
        self._suits[tenant_id, kind] = now + REMEMBERED, large
        return large

    def _worthwhile(self, conn: "PostgresConnection", tenant_id: str, kind: Kind) -> bool:
        table = KIND[kind].table
        now = state(conn, table)
        self._probes = max(self._probes, probes_for(now.lists))
        row = conn.fetch_one(
            f"SELECT count(*) AS rows FROM {table} WHERE tenant_id = :tenant_id", {"tenant_id": tenant_id}
        )
        assert row is not None
        return suits(now.method, row["rows"], now.table_rows, self.exact_rows)

    def widen(self, conn: "PostgresConnection") -> None:
        """Search widely enough for one tenant among many, until the transaction ends."""
        conn.records(
            "SELECT set_config('ivfflat.probes', :probes, true), set_config('ivfflat.iterative_scan', 'relaxed_order',"
            " true), set_config('hnsw.ef_search', :ef, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),"
            # A generic plan does not know that this tenant is large, and would not use the index.
            " set_config('plan_cache_mode', 'force_custom_plan', true)",
            {"probes": str(self._probes), "ef": str(EF_SEARCH)},
        )

    @contextmanager
    def of_dimension(self, conn: "PostgresConnection", dimension: int) -> Iterator[None]:
        """Set the dimension of the vector columns. Where it changes, the old vectors are dropped, and the indexes are
        built when the block ends."""
        now = {table: state(conn, table) for table in MEMORY_TABLES}
        changed = [table for table in now if now[table].dimension != dimension]
        for table in changed:
            conn.execute(f"DROP INDEX IF EXISTS ix_{table}_embedding")
            conn.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_embedding_version")
            conn.execute(f"ALTER TABLE {table} ALTER COLUMN embedding TYPE vector({dimension}) USING NULL")
            storage = "PLAIN" if dimension <= LARGEST_IN_ROW else "EXTERNAL"
            conn.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE {storage}")
        yield
        for table in changed:
            conn.execute(
                f"ALTER TABLE {table} ADD CONSTRAINT {table}_embedding_version"
                " CHECK ((embedding IS NULL) = (embedding_version IS NULL))"
            )
            method, found = now[table].method or "ivfflat", conn.fetch_all(sizes(table))[0]
            needed = method == "hnsw" or suits(method, found["largest"], found["rows"], self.exact_rows)
            if needed and dimension <= LARGEST_INDEXED:
                for statement in building(table, method, found["rows"], dimension):
                    conn.execute(statement)
        self.forget()


def sizes(table: str) -> str:
    """The query for the number of vectors in a table, and how many of them its largest tenant has."""
    return (
        "SELECT COALESCE(SUM(own), 0)::bigint AS rows, COALESCE(MAX(own), 0) AS largest"
        f" FROM (SELECT COUNT(*) AS own FROM {table} WHERE embedding IS NOT NULL GROUP BY tenant_id) AS tenants"
    )


def state(conn: "PostgresConnection", table: str) -> IndexState:
    row = conn.fetch_one(STATE, {"rel": table})
    assert row is not None
    return read_state(row)


STATE = """
SELECT a.amname AS method, obj_description(i.indexrelid) AS note, t.reltuples::bigint AS rows,
    (SELECT split_part(o, '=', 2)::int FROM unnest(x.reloptions) AS o WHERE o LIKE 'lists=%') AS lists,
    (SELECT atttypmod FROM pg_attribute WHERE attrelid = t.oid AND attname = 'embedding') AS dimension
FROM pg_class AS t
LEFT JOIN pg_index AS i ON i.indrelid = t.oid AND i.indisvalid
    AND i.indexrelid = to_regclass('ix_' || t.relname || '_embedding')
LEFT JOIN pg_class AS x ON x.oid = i.indexrelid
LEFT JOIN pg_am AS a ON a.oid = x.relam
WHERE t.oid = to_regclass(:rel)"""


def read_state(row: Any) -> IndexState:
    note = row["note"] or ""
    built_over = int(note.removeprefix(_MARK)) if note.startswith(_MARK) else 0
    return IndexState(row["method"], row["lists"] or FEWEST_LISTS, built_over, max(0, row["rows"]), row["dimension"])


def building(table: str, method: str, rows: int, dimension: int, beside: bool = False) -> list[str]:
    """The statements that build an index and record over how many rows; in a transaction, or `beside` the existing one
    without blocking writers."""
    name = f"ix_{table}_embedding{'_next' if beside else ''}"
    lists = lists_for(rows)
    options = f"lists = {lists}" if method == "ivfflat" else "m = 16, ef_construction = 128"
    room = kilobytes_for(lists, dimension) if method == "ivfflat" else 0
    return [
        _SETTINGS.format(room=room, local=not beside, safe=list(SAFE_PGVECTOR)),
        f"CREATE INDEX {'CONCURRENTLY ' if beside else ''}{name} ON {table}"
        f" USING {method} (embedding vector_cosine_ops) WITH ({options})",
        f"COMMENT ON INDEX {name} IS '{_MARK}{rows}'",
    ]


# Enough memory, and no parallel workers where they may write out of bounds (CVE-2026-3172).
_SETTINGS = """
SELECT set_config(name, CASE name WHEN 'maintenance_work_mem' THEN greatest(setting::bigint, {room}) || 'kB'
    ELSE '0' END, {local})
FROM pg_settings, (SELECT string_to_array(substring(extversion FROM '^[0-9.]+'), '.')::int[] AS version
    FROM pg_extension WHERE extname = 'vector') AS pgvector
WHERE name = 'maintenance_work_mem' OR (name = 'max_parallel_maintenance_workers' AND version < ARRAY{safe})"""


# Only the owner may do this. The server does it too, when it vacuums the table.
_ENTER_PENDING_WORDS = f"""
SELECT gin_clean_pending_list(oid) FROM pg_class
WHERE oid IN (SELECT to_regclass('ix_' || name || '_words') FROM unnest(ARRAY{list(MEMORY_TABLES)}) AS name)
    AND pg_has_role(relowner, 'USAGE')"""


async def rebuild(
    raw: Raw,
    watcher: Raw | None,
    method: str | None,
    only_outgrown: bool,
    progress: Progress | None,
    exact_rows: int,
) -> list[str]:
    """Build each index under another name, then replace the old one. Readers and writers are not blocked. With
    `only_outgrown`, only an index that is missing or has been outgrown, and that searches of a tenant would use."""
    if method is not None:
        one_of("method", method, METHODS)
    if not await raw.fetchval("SELECT pg_try_advisory_lock($1)", BUILD_LOCK):
        if only_outgrown:
            return []
        raise StoreBusy("another process is building the indexes; try again when it is done")
    try:
        await raw.execute("SET statement_timeout = 0")
        await raw.execute(_ENTER_PENDING_WORDS)
        done = []
        for table in MEMORY_TABLES:
            if await _rebuild_one(raw, watcher, table, method, only_outgrown, progress, exact_rows):
                done.append(table)
        return done
    finally:
        with suppress(Exception):
            await raw.execute(
                "RESET statement_timeout; RESET maintenance_work_mem; RESET max_parallel_maintenance_workers"
            )
            await raw.execute("SELECT pg_advisory_unlock($1)", BUILD_LOCK)


async def _rebuild_one(
    raw: Raw,
    watcher: Raw | None,
    table: str,
    method: str | None,
    only_outgrown: bool,
    progress: Progress | None,
    exact_rows: int,
) -> bool:
    sql, _ = ANY_POOL.numbered(STATE)
    now = read_state(await raw.fetchrow(sql, table))
    wanted = method or now.method or "ivfflat"
    rows, largest = await raw.fetchrow(sizes(table))
    needed = outgrown(wanted, rows, now.built_over) and suits(wanted, largest, rows, exact_rows)
    if now.dimension > LARGEST_INDEXED or (only_outgrown and not needed):
        return False
    fresh = f"ix_{table}_embedding_next"
    await raw.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {fresh}")  # left by a killed run
    watching = None
    if progress and watcher:
        watching = asyncio.create_task(_watch(watcher, raw.get_server_pid(), table, rows, progress))
    try:
        for statement in building(table, wanted, rows, now.dimension, beside=True):
            await raw.execute(statement)
    finally:
        if watching:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    async with raw.transaction():
        await raw.execute(f"DROP INDEX IF EXISTS ix_{table}_embedding")
        await raw.execute(f"ALTER INDEX {fresh} RENAME TO ix_{table}_embedding")
    await raw.execute(f"ANALYZE {table}")
    if progress:
        progress(table, rows, rows)
    return True


async def _watch(watcher: Raw, pid: int, table: str, rows: int, progress: Progress) -> None:
    while True:
        done = await watcher.fetchrow(
            "SELECT greatest(tuples_done, 0) AS rows, blocks_done, nullif(blocks_total, 0) AS blocks"
            " FROM pg_stat_progress_create_index WHERE pid = $1",
            pid,
        )
        if done:
            by_blocks = rows * done["blocks_done"] // done["blocks"] if done["blocks"] else 0
            progress(table, min(rows, max(done["rows"], by_blocks)), rows)
        await asyncio.sleep(0.2)
