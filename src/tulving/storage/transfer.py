"""Everything a store holds as plain JSON values, out and in again without loss."""

import base64
import math
from array import array
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any
from uuid import UUID

from tulving.domain.intake import moment, whole
from tulving.domain.model import Kind
from tulving.domain.text import clean, found_by, search_text
from tulving.errors import IntegrityError, InvalidInput
from tulving.storage import maintenance, rows
from tulving.storage.connection import Connection
from tulving.storage.rows import COLUMNS, DOCUMENTS, FLAGS, NUMBERS, TIMES, UUIDS, WHOLE_NUMBERS, Row

_INDEX = ("embedding_version", "embedding")
_LINK_KEY = ("tenant_id", "source_type", "source_id", "target_type", "target_id")
_REVISION_KEY = ("tenant_id", "memory_type", "memory_id", "number")

# In an order in which each table finds what it refers to.
TABLES: dict[str, tuple[str, ...]] = {
    "entities": tuple(
        "tenant_id id canonical_name folded_name entity_type aliases metadata merged_into created_at updated_at".split()
    ),
    "sessions": tuple("tenant_id id project status summary tool_calls metadata started_at ended_at".split()),
    "episodes": COLUMNS["episode"] + _INDEX,
    "facts": COLUMNS["fact"] + _INDEX,
    "rules": COLUMNS["rule"] + _INDEX,
    "rule_applications": tuple("tenant_id id rule_id outcome applied_at context".split()),
    "memory_links": (*_LINK_KEY, "relation", "created_at"),
    "revisions": (*_REVISION_KEY, "content", "tags", "metadata", "importance", "created_at"),
    "memory_events": tuple(
        "tenant_id id event_type entity_type entity_id occurred_at actor request_id run_id payload".split()
    ),
}
ID = ("tenant_id", "id")
KEYS = {"memory_links": _LINK_KEY, "revisions": _REVISION_KEY}
_ORDER = {**{table: ", ".join(key) for table, key in KEYS.items()}, "memory_events": "seq"}
_KIND_OF: dict[str, Kind] = {table: kind for kind, table in rows.TABLES.items()}


def dump(conn: Connection, tenant_id: str | None, sink: Callable[[Row], None]) -> dict[str, int]:
    """Hand every row to the sink, of one tenant (then without naming it) or of all; counts per table."""
    if tenant_id is None:
        conn.check_sight()
    counts = {}
    for table, columns in TABLES.items():
        chosen = ", ".join(conn.vector_value(name) if name == "embedding" else name for name in columns)
        where = "" if tenant_id is None else " WHERE tenant_id = :tenant_id"
        order = _ORDER.get(table, "tenant_id, id")
        counts[table] = 0
        found = conn.each(f"SELECT {chosen} FROM {table}{where} ORDER BY {order}", {"tenant_id": tenant_id})
        for row in found:
            if tenant_id is not None:
                del row["tenant_id"]
            counts[table] += 1
            sink({"table": table, "row": {name: _to_json(value) for name, value in row.items()}})
    return counts


def load(
    conn: Connection,
    lines: Callable[[], Iterable[tuple[int, Any]]],
    tenant_id: str | None,
    version: int | None,
    dimension: int,
) -> dict[str, dict[str, int]]:
    """Take rows in, all or none. A row that is there already is skipped; without `version`, vectors are left out.

    With a tenant every row becomes that tenant's; without one each row must name its own.
    """
    if version is not None:
        version = maintenance.active_number(conn, version)
    conn.defer_references()
    counts = {table: {"added": 0, "skipped": 0} for table in TABLES}
    parsed = (_prepared(conn, number, line, tenant_id, version, dimension) for number, line in lines())
    for table, group in groupby(parsed, key=itemgetter(1)):
        while batch := list(islice(group, conn.merged_at_a_time)):
            rows = [row for _, _, row in batch]
            try:
                added = conn.merge(table, KEYS.get(table, ID), rows)
            except IntegrityError as error:
                where = f"line {batch[0][0]}" if len(batch) == 1 else f"lines {batch[0][0]} to {batch[-1][0]}"
                raise IntegrityError(f"{where}: {table} that do not fit what is stored: {error}") from error
            counts[table]["added"] += added
            counts[table]["skipped"] += len(rows) - added
    if loose := maintenance.loose_links(conn, tenant_id):
        raise IntegrityError(f"the file does not fit together: {loose[0]}")
    return counts


def _prepared(
    conn: Connection, number: int, line: Any, tenant_id: str | None, version: int | None, dimension: int
) -> tuple[int, str, Row]:
    table, row = _parse(number, line, tenant_id)
    if table in _KIND_OF:
        _index(conn, number, table, row, version, dimension)
    return number, table, row


def _index(conn: Connection, number: int, table: str, row: Row, version: int | None, dimension: int) -> None:
    """What the memory is found by, made anew from its words; its vector is kept if it is of the store's embedder."""
    kind = _KIND_OF[table]
    item = rows.to_item(kind, {name: row[name] for name in COLUMNS[kind]})
    try:
        row["search_text"] = conn.index_text(item.tenant_id, search_text(found_by(item)))
    except (TypeError, AttributeError) as error:
        raise InvalidInput(f"line {number}", f"holds words that are no text ({error})") from error
    if row["embedding"] is not None and version is not None and len(row["embedding"]) != 4 * dimension:
        raise InvalidInput(f"line {number}", f"has a vector of {len(row['embedding'])} bytes", f"{4 * dimension}")
    if row["embedding"] is None or version is None:
        row["embedding"] = version = None
    row["embedding_version"] = version


def _parse(number: int, line: Any, tenant_id: str | None) -> tuple[str, Row]:
    where = f"line {number}"
    named = line.get("table") if isinstance(line, dict) else None
    if not isinstance(named, str) or named not in TABLES or not isinstance(line.get("row"), dict):
        raise InvalidInput(where, "is not a row of a Tulving export", f"table one of {', '.join(TABLES)}")
    table, row = line["table"], dict(line["row"])
    if tenant_id is None and not isinstance(row.get("tenant_id"), str):
        raise InvalidInput(where, "does not name its tenant", "an export of all tenants")
    if tenant_id is not None and row.setdefault("tenant_id", tenant_id) != tenant_id:
        raise InvalidInput(where, f"belongs to the tenant {row['tenant_id']!r:.80}", f"rows of {tenant_id!r}")
    expected = set(TABLES[table])
    if wrong := expected.symmetric_difference(row):
        raise InvalidInput(where, f"has missing or unknown columns: {', '.join(sorted(wrong))}")
    try:
        return table, {name: _from_json(name, value) for name, value in row.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(where, f"holds a value that can't be read: {error}") from error


def _to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _from_json(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in TIMES:
        return moment(name, datetime.fromisoformat(value))
    if name in UUIDS:
        return UUID(value)
    if name == "embedding":
        return _vector(base64.b64decode(value, validate=True))
    if name in WHOLE_NUMBERS:
        return whole(name, value, 0, 2**31 - 1)
    wanted = bool if name in FLAGS else int | float if name in NUMBERS else list | dict if name in DOCUMENTS else str
    if not isinstance(value, wanted) or (name in NUMBERS and isinstance(value, bool)):
        raise TypeError(f"{name} is a {type(value).__name__}")
    if not _storable(value):
        raise ValueError(f"{name} holds what no database can: NUL, half a character or an endless number")
    return value


def _vector(packed: bytes) -> bytes:
    if not all(map(math.isfinite, array("f", packed))):
        raise ValueError("embedding holds what is not a number")
    return packed


def _storable(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_storable(key) and _storable(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_storable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or clean(value) == value
