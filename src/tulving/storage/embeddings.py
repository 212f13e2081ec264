"""Vectors: the embedder that made them, memories that wait for theirs, and the change to another embedder."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from tulving.domain.events import Audit, AuditOf
from tulving.domain.model import KINDS, Item, Kind
from tulving.errors import EmbedderMismatch
from tulving.ports import Embedder
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.filters import of_tenant
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, Row

# -- embedder versions -----------------------------------------------------------------------------------------


def active_version(conn: Connection) -> Row | None:
    return conn.fetch_one("SELECT number, model, version, dimension FROM embedding_versions WHERE status = 'active'")


def adopt_version(conn: Connection, embedder: Embedder, now: datetime, may_differ: bool = False) -> int | None:
    """001-119: the version number of the store's embedder. The first embedder is recorded, a different one refused.

    With `may_differ` a different one gets None: it may re-embed the store, but not search or write vectors.
    """
    active = active_version(conn)
    if active is None:
        conn.lock("embedder")  # one of several concurrent processes records it, the others find it recorded
        active = active_version(conn)
    if active is None:
        with conn.vectors_of(embedder.dimension):
            return add_version(conn, _version(embedder), "active", now)
    if _same(active, embedder):
        return active["number"]
    if may_differ:
        return None
    raise EmbedderMismatch(
        f"this store holds vectors of {active['model']} {active['version']} ({active['dimension']} dimensions), but"
        f" the configured embedder is {embedder.model} {embedder.version} ({embedder.dimension});"
        " use the former, or run `tulving reembed` to convert the store"
    )


ACTIVE_OF_OURS = """
SELECT number, dimension FROM embedding_versions WHERE status = 'active' AND (model, version, dimension) IN
    (SELECT model, version, dimension FROM embedding_versions WHERE number = :ours)"""


def active_number(conn: Connection, ours: int | None, dimension: int | None = None, locking: Sequence[str] = ()) -> int:
    """The version number of the active vectors, if they are from the embedder of version `ours`; raises otherwise.
    Another process may have re-embedded the store: with the same embedder only the number changes."""
    key = {"ours": ours}
    active = conn.fetch_locked(locking, ACTIVE_OF_OURS, key) if locking else conn.fetch_one(ACTIVE_OF_OURS, key)
    if active is None or dimension not in (None, active["dimension"]):
        raise mismatch(conn)
    return active["number"]


def mismatch(conn: Connection) -> EmbedderMismatch:
    """The error for a process whose embedder is no longer the store's."""
    active = active_version(conn)
    now = f"{active['model']} {active['version']} ({active['dimension']} dimensions)" if active else "another embedder"
    return EmbedderMismatch(f"this store holds vectors of {now} now; open it again with that embedder")


def renumbered(conn: Connection, entries: Iterable[IndexEntry], locking: Sequence[str] = ()) -> list[IndexEntry]:
    """Entries with the active version number. Raises for vectors of another embedder, which must not be written. The
    names are locked on the way."""
    entries = list(entries)
    numbers = {entry.embedding_version for entry in entries if entry.embedding is not None}
    if locking and not numbers:
        conn.lock(*locking)
    current = {number: active_number(conn, number, locking=locking) for number in numbers}
    if all(number == active for number, active in current.items()):
        return entries
    return [
        entry if entry.embedding is None else replace(entry, embedding_version=current[entry.embedding_version])
        for entry in entries
    ]


def _version(embedder: Embedder) -> Row:
    return {"model": embedder.model, "version": embedder.version, "dimension": embedder.dimension}


def _same(row: Row, embedder: Embedder) -> bool:
    return _version(embedder).items() <= row.items()


def add_version(conn: Connection, version: Row, status: str, now: datetime) -> int:
    """Record an embedder by its model, version and dimension; returns its number."""
    row = conn.fetch_one(
        "INSERT INTO embedding_versions (model, version, dimension, status, created_at)"
        " VALUES (:model, :version, :dimension, :status, :now) RETURNING number",
        {**version, "status": status, "now": now},
    )
    assert row is not None
    return row["number"]


# -- missing vectors -------------------------------------------------------------------------------------------


def count_pending(conn: Connection, tenant_id: str | None) -> int:
    """How many memories of a tenant, or (None) of all tenants, lack a vector."""
    where, params = of_tenant(tenant_id, "m.embedding IS NULL")
    counts = " UNION ALL ".join(
        f"SELECT COUNT(*) AS pending FROM {KIND[kind].table} AS m WHERE {where} AND {KIND[kind].at_hand}"
        for kind in KINDS
    )
    return sum(row["pending"] for row in conn.fetch_all(counts, params))


def pending(conn: Connection, tenant_id: str | None, limit: int) -> list[tuple[Kind, Item]]:
    """Some of the memories that lack a vector."""
    where, params = of_tenant(tenant_id, "m.embedding IS NULL")
    found: list[tuple[Kind, Item]] = []
    for kind in KINDS:
        rows = conn.fetch_all(
            f"{KIND[kind].select} WHERE {where} AND {KIND[kind].at_hand} LIMIT :limit",
            {**params, "limit": limit - len(found)},
        )
        found.extend((kind, KIND[kind].item(row)) for row in rows)
    return found


Indexed = tuple[Kind, Item, IndexEntry]
"""A memory and what it is found by."""


def set_embeddings(conn: Connection, pending: Sequence[Indexed], audit_of: AuditOf) -> int:
    """Add missing vectors; returns how many. A memory that was deleted, has a vector by now, or has other content is
    skipped."""
    entries = renumbered(conn, (entry for _, _, entry in pending))
    done = 0
    for (kind, item, _), entry in zip(pending, entries, strict=True):
        if conn.execute(
            f"UPDATE {KIND[kind].table} SET embedding = :embedding, embedding_version = :version"
            " WHERE tenant_id = :tenant_id AND id = :id AND content = :content AND embedding IS NULL",
            {
                "tenant_id": item.tenant_id,
                "id": item.id,
                "content": item.content,
                "embedding": entry.embedding,
                "version": entry.embedding_version,
            },
        ):
            events.append(conn, audit_of(item.tenant_id).event(f"{kind}_embedded", kind, item.id))
            done += 1
    return done


# -- re-embedding ----------------------------------------------------------------------------------------------


def begin_reembedding(conn: Connection, embedder: Embedder, now: datetime) -> int:
    """The version under construction; an interrupted run with the same embedder is resumed."""
    building = conn.fetch_one(
        "SELECT number, model, version, dimension FROM embedding_versions WHERE status = 'building'"
    )
    if building and _same(building, embedder):
        return building["number"]
    conn.execute("DELETE FROM next_embeddings")
    # Kept, so that its number is never reused: a process that still works on it must not add to the next one.
    conn.execute("UPDATE embedding_versions SET status = 'retired' WHERE status = 'building'")
    return add_version(conn, _version(embedder), "building", now)


# Not NOT EXISTS, which PostgreSQL may plan as a join of all rows with all rows.
_MISSING = (
    "(SELECT n.memory_id FROM next_embeddings AS n WHERE n.tenant_id = m.tenant_id"
    " AND n.memory_type = :kind AND n.memory_id = m.id) IS NULL"
)


def count_unconverted(conn: Connection) -> tuple[int, int]:
    """The number of memories without a vector of the version under construction, and of all memories."""
    missing = total = 0
    for kind in KINDS:
        row = conn.fetch_one(
            f"SELECT COUNT(*) AS total, COUNT(*) FILTER (WHERE {_MISSING}) AS missing FROM {KIND[kind].table} AS m"
            f" WHERE {KIND[kind].at_hand}",
            {"kind": kind},
        )
        assert row is not None
        missing += row["missing"]
        total += row["total"]
    return missing, total


def unconverted(conn: Connection, limit: int, after: tuple[Kind, Item] | None = None) -> list[tuple[Kind, Item]]:
    """Some of the memories without a vector of the version under construction, after the last one converted: scanning
    from the beginning would take longer with each batch."""
    found: list[tuple[Kind, Item]] = []
    for kind in KINDS[KINDS.index(after[0]) if after else 0 :]:
        where, params = f"{KIND[kind].at_hand} AND {_MISSING}", {"kind": kind, "limit": limit - len(found)}
        if after and after[0] == kind:
            where += " AND (m.tenant_id, m.id) > (:tenant_id, :id)"
            params |= {"tenant_id": after[1].tenant_id, "id": after[1].id}
        rows = conn.fetch_all(
            f"{KIND[kind].select} WHERE {where} ORDER BY m.tenant_id, m.id LIMIT :limit",
            params,
        )
        found.extend((kind, KIND[kind].item(row)) for row in rows)
    return found


def add_converted(conn: Connection, version: int, converted: Sequence[tuple[Kind, Item, IndexEntry]]) -> None:
    """Add vectors beside the old ones, which stay in use until the switch. Not a mutation of any memory.

    A vector of content that was edited concurrently is left out; the next round finds the memory again.
    """
    _dimension_of(conn, version)
    for kind in KINDS:
        this = f"FROM {KIND[kind].table} WHERE tenant_id = :tenant_id AND id = :id AND content = :content"
        conn.execute_many(
            "INSERT INTO next_embeddings (tenant_id, memory_type, memory_id, embedding_version, search_text, embedding)"
            f" SELECT tenant_id, :kind, id, :version, :search_text, :embedding {this} ON CONFLICT DO NOTHING",
            [
                {
                    "tenant_id": item.tenant_id,
                    "kind": kind,
                    "id": item.id,
                    "content": item.content,
                    "version": version,
                    "search_text": conn.index_text(item.tenant_id, entry.search_text),
                    "embedding": entry.embedding,
                }
                for of_kind, item, entry in converted
                if of_kind == kind
            ],
        )


def switch(conn: Connection, version: int, audit: Audit, leave_late: bool = False) -> bool:
    """001-120: switch all memories to the new vectors at once; False if some were added since and must be converted.

    With `leave_late` those are left without a vector and get one later, like memories stored without an embedder.
    """
    conn.lock_store()
    if not leave_late and count_unconverted(conn)[0]:
        return False
    with conn.vectors_of(_dimension_of(conn, version)):
        for kind in KINDS:
            _change_over(conn, kind)
    conn.execute("DELETE FROM next_embeddings")
    conn.execute("UPDATE embedding_versions SET status = 'retired' WHERE status = 'active'")
    conn.execute("UPDATE embedding_versions SET status = 'active' WHERE number = :number", {"number": version})
    events.append(conn, audit.event("store_reembedded", "store", None, embedding_version=version))
    return True


def _dimension_of(conn: Connection, version: int) -> int:
    """The dimension of a version that is not retired; it is locked, so that it stays so until the transaction ends."""
    kept = "SELECT dimension FROM embedding_versions WHERE number = :number AND status <> 'retired'" + conn.for_update
    row = conn.fetch_one(kept, {"number": version})
    if row is None:
        raise EmbedderMismatch("another re-embedding of this store was started in the meantime; this one was abandoned")
    return row["dimension"]


def _change_over(conn: Connection, kind: Kind) -> None:
    this = "tenant_id = m.tenant_id AND memory_type = :kind AND memory_id = m.id"
    conn.execute(
        f"UPDATE {KIND[kind].table} AS m SET"
        f" embedding_version = (SELECT embedding_version FROM next_embeddings WHERE {this}),"
        f" embedding = (SELECT embedding FROM next_embeddings WHERE {this})",
        {"kind": kind},
    )
    conn.execute(
        f"UPDATE {KIND[kind].table} AS m SET search_text = (SELECT search_text FROM next_embeddings WHERE {this})"
        f" WHERE search_text <> (SELECT search_text FROM next_embeddings WHERE {this})",
        {"kind": kind},
    )
