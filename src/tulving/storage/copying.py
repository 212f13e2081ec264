"""One store's rows for another: read in the order of their keys, put where they are not yet, compared by their hashes.

Access tokens and the secrets of tenants are left behind: they are a server's and a store's own, not memory.
"""

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from tulving.domain.events import Audit
from tulving.domain.model import Kind, canonical_state
from tulving.domain.text import found_by, search_text
from tulving.errors import EmbedderMismatch, IntegrityError
from tulving.storage import maintenance
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import DOCUMENTS, IndexEntry, Row
from tulving.storage.transfer import BATCH_CHARACTERS, ID, KEYS, TABLES, kept, key_text, record

BATCH = 1000

Key = tuple[Any, ...]
Versions = Mapping[int | None, int | None]
"""The numbers that the source's embedder versions have in the target; a row without a vector has none."""

KIND_OF: dict[str, Kind] = {table.table: kind for kind, table in KIND.items()}
REFERENCES = {"entities": "merged_into", "facts": "supersedes_id"}
"""Columns that point to another row of the same table."""
SEQUENCES = {"memory_events": ("tenant_id", "seq")}
"""Tables whose order says something, and what it is by."""
_VERSION = ("model", "version", "dimension")
# What the engines, or the history of a store, decide is not part of what a row says.
_COMPARED = {table: [name for name in columns if name != "embedding_version"] for table, columns in TABLES.items()}


# -- embedder versions -----------------------------------------------------------------------------------------


def adopt(conn: Connection, made: Row | None, now: datetime) -> Versions:
    """Take over the embedder that made the source's vectors, if the target has none; another one is refused."""
    if made is None:
        return {None: None}
    active = maintenance.active_version(conn)
    check_embedder(made, active)
    if active is not None:
        return {None: None, made["number"]: active["number"]}
    with conn.vectors_of(made["dimension"]):
        return {None: None, made["number"]: maintenance.add_version(conn, made, "active", now)}


def check_embedder(made: Row | None, active: Row | None) -> None:
    """Vectors of different embedders can't be in one store, nor be compared."""
    if made is None or active is None or all(made[name] == active[name] for name in _VERSION):
        return
    theirs, ours = (f"{row['model']} {row['version']} ({row['dimension']} dimensions)" for row in (made, active))
    raise EmbedderMismatch(
        f"the source holds vectors of {theirs}, the target those of {ours};"
        " run `tulving reembed` on one of them with the embedder of the other, or copy to a new store"
    )


# -- reading ---------------------------------------------------------------------------------------------------


def count(conn: Connection, tenant_id: str | None) -> dict[str, int]:
    """How many rows each table has, of one tenant or of all."""
    if tenant_id is None:
        conn.check_sees_all_tenants()
    mine = "" if tenant_id is None else " AND tenant_id = :tenant_id"
    found = (
        conn.fetch_one(f"SELECT COUNT(*) AS rows FROM {table} WHERE {kept(table)}{mine}", {"tenant_id": tenant_id})
        for table in TABLES
    )
    return {table: row["rows"] if row else 0 for table, row in zip(TABLES, found, strict=True)}


def next_rows(conn: Connection, table: str, tenant_id: str | None, after: Row | None) -> list[Row]:
    """The next rows of a table. Events come in their sequence, so that they get the same one elsewhere."""
    order = SEQUENCES.get(table) or KEYS.get(table, ID)
    found: list[Row] = []
    characters = 0
    for row in _ordered(conn, table, TABLES[table], order, tenant_id, after, BATCH):
        found.append(row)
        characters += sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if characters >= BATCH_CHARACTERS:
            break
    return found


def late_references(conn: Connection, table: str, tenant_id: str | None, after: Row | None) -> list[Row]:
    """Rows that point to one behind them: when they were put, it might not have been there."""
    reference = REFERENCES[table]
    columns = (*ID, reference, "updated_at")
    return list(_ordered(conn, table, columns, ID, tenant_id, after, BATCH, where=(f"{reference} > id",)))


def _ordered(
    conn: Connection,
    table: str,
    columns: Iterable[str],
    order: Sequence[str],
    tenant_id: str | None,
    after: Row | None = None,
    limit: int | None = None,
    where: Sequence[str] = (),
) -> Iterator[Row]:
    """Rows in an order that an index gives, from behind one that was read before."""
    where = (kept(table), *where)
    if tenant_id is not None:
        where = ("tenant_id = :tenant_id", *where)
        order = [name for name in order if name != "tenant_id"]
    params: Row = {"tenant_id": tenant_id, "limit": limit}
    if after is not None:
        where = (*where, f"({', '.join(order)}) > ({', '.join(f':after_{name}' for name in order)})")
        params |= {f"after_{name}": after[name] for name in order}
    chosen = (conn.vector_value(name) if name == "embedding" else name for name in dict.fromkeys((*columns, *order)))
    return conn.stream(
        f"SELECT {', '.join(chosen)} FROM {table} WHERE {' AND '.join(where)} ORDER BY {', '.join(order)}"
        + (" LIMIT :limit" if limit is not None else ""),
        params,
    )


# -- writing ---------------------------------------------------------------------------------------------------


def put(
    conn: Connection, table: str, batch: Sequence[Row], versions: Versions, audit_of: Callable[[str], Audit]
) -> int:
    """Insert the rows that are not there yet, and say so in an event; how many were new. Those that are there stay as
    they are."""
    conn.defer_references()
    prepared = [_prepared(conn, table, row, versions) for row in batch]
    if table in REFERENCES:
        _let_wait(prepared, REFERENCES[table])
    if table in KIND_OF:
        vectors = [IndexEntry("", row["embedding"], row["embedding_version"]) for row in prepared]
        for row, vector in zip(prepared, maintenance.renumbered(conn, vectors), strict=True):
            row["embedding_version"] = vector.embedding_version
    new = conn.merge(table, KEYS.get(table, ID), prepared)
    record(conn, "copy", table, new, audit_of)
    return len(new)


def _prepared(conn: Connection, table: str, row: Row, versions: Versions) -> Row:
    """A row as the target has it: found by its words in the target's way, its vector under the target's number."""
    row = {name: row[name] for name in TABLES[table]}
    if "validity" in row:
        row["validity"] = canonical_state(row["validity"])
    if table in KIND_OF:
        kind = KIND_OF[table]
        item = KIND[kind].item({name: row[name] for name in KIND[kind].columns})
        row["search_text"] = conn.index_text(item.tenant_id, search_text(found_by(item)))
        if row["embedding_version"] not in versions:
            raise EmbedderMismatch("the source was re-embedded while it was copied; copy to a new store")
        row["embedding_version"] = versions[row["embedding_version"]]
    return row


def _let_wait(prepared: Sequence[Row], reference: str) -> None:
    """Leave out references to what a later batch brings: the rows of the last tenant behind the last one."""
    last = prepared[-1]
    for row in prepared:
        if row["tenant_id"] == last["tenant_id"] and row[reference] is not None and row[reference] > last["id"]:
            row[reference] = None


def refer(conn: Connection, table: str, batch: Sequence[Row]) -> None:
    """Set the references that had to wait, in rows that are still as they were put."""
    reference = REFERENCES[table]
    conn.execute_many(
        f"UPDATE {table} SET {reference} = :{reference} WHERE tenant_id = :tenant_id AND id = :id"
        f" AND {reference} IS NULL AND updated_at = :updated_at",
        batch,
    )


def name_refused(conn: Connection, table: str, batch: Sequence[Row], versions: Versions) -> None:
    """Raise the error of the first row that can't be put, so that a person can look at it. Nothing is kept."""
    for row in batch:
        alone = _prepared(conn, table, row, versions)
        if table in REFERENCES:
            alone[REFERENCES[table]] = None
        try:
            conn.merge(table, KEYS.get(table, ID), [alone])
        except IntegrityError as error:
            which = f"{key_text(table, row)} of {row['tenant_id']}"
            raise IntegrityError(f"{table} {which} can't be put into the target: {error}") from error
    first, last = (key_text(table, row) for row in (batch[0], batch[-1]))
    raise IntegrityError(f"{table} {first} to {last} can't be put into the target together")


# -- comparing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Digest:
    """A tenant's rows of one table: how many, and a hash over them all."""

    rows: int
    hash: str


def digests(conn: Connection, table: str, tenant_id: str | None) -> dict[str, Digest]:
    """Each tenant's digest of a table. A tenant's rows come in the same order from every engine."""
    order = SEQUENCES.get(table) or KEYS.get(table, ID)
    found = {}
    every = _ordered(conn, table, ("tenant_id", *_COMPARED[table]), order, tenant_id)
    for tenant, theirs in groupby(every, key=itemgetter("tenant_id")):
        number, total = 0, hashlib.sha256()
        for number, row in enumerate(theirs, 1):  # noqa: B007
            total.update(_hash(table, row))
        found[tenant] = Digest(number, total.hexdigest())
    return found


def hashes(conn: Connection, table: str, tenant_id: str, after: Key | None) -> dict[Key, bytes]:
    """The next rows of a tenant by key, each with its hash; as many as a batch has, if there are so many."""
    key = KEYS.get(table, ID)[1:]
    last: Row | None = None if after is None else dict(zip(key, after, strict=True))
    found = _ordered(conn, table, _COMPARED[table], key, tenant_id, last, BATCH)
    return {tuple(row[name] for name in key): _hash(table, row) for row in found}


def deleted(conn: Connection, kind: Kind, tenant_id: str, ids: Sequence[UUID]) -> set[UUID]:
    """Which of these memories were here once and were deleted for good."""
    found = conn.fetch_all(
        "SELECT entity_id FROM memory_events WHERE tenant_id = :tenant_id AND event_type = :event_type"
        f" AND {conn.within('entity_id', 'ids')}",
        {"tenant_id": tenant_id, "event_type": f"{kind}_deleted", "ids": ids},
    )
    return {row["entity_id"] for row in found}


def _hash(table: str, row: Row) -> bytes:
    """Of what a row says, whichever engine it comes from."""
    values = [_READ[name](row[name]) if name in _READ else row[name] for name in _COMPARED[table]]
    return hashlib.sha256(_text(values).encode()).digest()


def _canonical(value: Any) -> Any:
    """A document's value with one form for each number: a whole one may come back from jsonb without exponent."""
    match value:
        case dict():
            return {name: _canonical(inner) for name, inner in value.items()}
        case list():
            return [_canonical(inner) for inner in value]
        case float() if value.is_integer():
            return int(Decimal(repr(value)))
    return value


_READ: Mapping[str, Callable[[Any], Any]] = {**dict.fromkeys(DOCUMENTS, _canonical), "validity": canonical_state}


def _plain(value: Any) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case UUID():
            return str(value)
        case bytes():
            return _vector(value).hex()
    raise TypeError(f"{type(value).__name__} is no value of a row")


_NEGATIVE_ZERO = array("f", [-0.0]).tobytes()


def _vector(value: bytes) -> bytes:
    """pgvector's zero has no sign."""
    if _NEGATIVE_ZERO not in value:
        return value
    return array("f", [number + 0.0 for number in array("f", value)]).tobytes()


_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode
