"""Two stores compared by hashes of their rows, whichever engines they are on."""

import hashlib
import json
from array import array
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any

from tulving.domain.model import canonical_state
from tulving.errors import EmbedderMismatch
from tulving.storage import moving
from tulving.storage.connection import Connection
from tulving.storage.export_file import plain
from tulving.storage.rows import Row

Key = tuple[Any, ...]
NOTHING = (0, "")
"""The digest of a table without rows."""
_NEGATIVE_ZERO = array("f", [-0.0]).tobytes()
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=plain).encode


def digests(conn: Connection, table: str, tenant_id: str | None) -> dict[str, tuple[int, str]]:
    """By tenant, how many rows a table has and a hash over them all. They come in the same order from both engines."""
    found = {}
    for tenant, rows in groupby(moving.stream(conn, table, tenant_id), key=itemgetter("tenant_id")):
        number, total = 0, hashlib.sha256()
        for number, row in enumerate(rows, 1):  # noqa: B007
            total.update(row_hash(table, row))
        found[tenant] = (number, total.hexdigest())
    return found


def next_hashes(conn: Connection, table: str, tenant_id: str, after: Key | None) -> dict[Key, bytes]:
    """The hashes of a tenant's next rows by key; fewer than a batch has only at the end."""
    key = moving.MOVED[table].key[1:]
    last: Row | None = None if after is None else dict(zip(key, after, strict=True))
    found = moving.stream(conn, table, tenant_id, last, by_key=True, limit=moving.BATCH)
    return {tuple(row[name] for name in key): row_hash(table, row) for row in found}


def deleted(conn: Connection, table: str, tenant_id: str, keys: Sequence[Key]) -> set[Key]:
    """Which of these rows were memories that have been deleted for good."""
    kind = moving.MOVED[table].kind
    if kind is None or not keys:
        return set()
    found = conn.fetch_all(
        "SELECT entity_id FROM memory_events WHERE tenant_id = :tenant_id AND event_type = :event_type"
        f" AND {conn.within('entity_id', 'ids')}",
        {"tenant_id": tenant_id, "event_type": f"{kind}_deleted", "ids": [id_ for (id_,) in keys]},
    )
    return {(row["entity_id"],) for row in found}


def row_hash(table: str, row: Row) -> bytes:
    """Of what a row says. The number of its embedder is left out: that depends on the history of the store."""
    if "validity" in row:
        row = {**row, "validity": canonical_state(row["validity"])}
    values = (row[name] for name in moving.MOVED[table].columns if name != "embedding_version")
    said = [_canonical(value) if type(value) in (dict, list, bytes) else value for value in values]
    return hashlib.sha256(_encode(said).encode()).digest()


def _canonical(value: Any) -> Any:
    """One form for values that the engines return differently: jsonb writes
    1e16 as a whole number, and pgvector has no negative zero."""
    match value:
        case dict():
            return {name: _canonical(inner) for name, inner in value.items()}
        case list():
            return [_canonical(inner) for inner in value]
        case float() if value.is_integer():
            return int(Decimal(repr(value)))
        case bytes() if _NEGATIVE_ZERO in value:
            return array("f", [number + 0.0 for number in array("f", value)]).tobytes()
    return value


def check_embedders(ours: Row | None, theirs: Row | None) -> None:
    """Raise if two stores have vectors of different embedders, which can't be compared or be in one store."""
    if ours and theirs and any(ours[name] != theirs[name] for name in ("model", "version", "dimension")):
        source, target = (f"{row['model']} {row['version']} ({row['dimension']} dimensions)" for row in (ours, theirs))
        raise EmbedderMismatch(
            f"the source holds vectors of {source}, the target those of {target};"
            " run `tulving reembed` on one of them with the embedder of the other, or copy to a new store"
        )
