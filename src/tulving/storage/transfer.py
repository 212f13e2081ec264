"""Everything a store holds as plain JSON values, out and in again without loss."""

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from tulving.domain.events import Audit, Event
from tulving.domain.model import Kind
from tulving.domain.text import found_by, search_text
from tulving.errors import IntegrityError, InvalidInput
from tulving.storage import events, foreign_rows, maintenance
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

BATCH_CHARACTERS = 8_000_000
"""A batch of rows ends here too: the content of one memory may have millions."""
RECORDED_AT_A_TIME = 1000

_INDEX = ("embedding_version", "embedding")
_LINK_KEY = ("tenant_id", "source_type", "source_id", "target_type", "target_id")
_REVISION_KEY = ("tenant_id", "memory_type", "memory_id", "number")

# In an order in which each table finds what it refers to.
TABLES: dict[str, tuple[str, ...]] = {
    "entities": tuple(
        "tenant_id id canonical_name folded_name entity_type aliases metadata merged_into created_at updated_at".split()
    ),
    "sessions": tuple("tenant_id id project status summary tool_calls metadata started_at ended_at".split()),
    "episodes": KIND["episode"].columns + _INDEX,
    "facts": KIND["fact"].columns + _INDEX,
    "rules": KIND["rule"].columns + _INDEX,
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
_KIND_OF: dict[str, Kind] = {table.table: kind for kind, table in KIND.items()}
_Parsed = tuple[int, str, Row]
"""The number of a line, and the table and row that are in it."""


def dump(conn: Connection, tenant_id: str | None, sink: Callable[[Row], None]) -> dict[str, int]:
    """Hand every row to the sink, of one tenant (then without naming it) or of all; counts per table."""
    if tenant_id is None:
        conn.check_sees_all_tenants()
    counts = {}
    for table, columns in TABLES.items():
        chosen = ", ".join(conn.vector_value(name) if name == "embedding" else name for name in columns)
        mine = "" if tenant_id is None else " AND tenant_id = :tenant_id"
        order = _ORDER.get(table, "tenant_id, id")
        counts[table] = 0
        query = f"SELECT {chosen} FROM {table} WHERE {kept(table)}{mine} ORDER BY {order}"
        for row in conn.stream(query, {"tenant_id": tenant_id}):
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
    audit_of: Callable[[str], Audit],
) -> tuple[dict[str, dict[str, int]], list[Event]]:
    """Take rows in, all or none. A row that is there already is skipped; without `version`, vectors are left out.

    With a tenant every row becomes that tenant's; without one each row must name its own.
    """
    if version is not None:
        version = maintenance.active_number(conn, version)
    conn.defer_references()
    counts = {table: {"added": 0, "skipped": 0} for table in TABLES}
    happened: list[Event] = []
    parsed = (_prepared(conn, number, line, tenant_id, version, dimension) for number, line in lines())
    for table, group in groupby(parsed, key=itemgetter(1)):
        new: list[Row] = []
        for batch in _batches(group, conn.merged_at_a_time):
            rows = [row for _, _, row in batch]
            try:
                added = conn.merge(table, KEYS.get(table, ID), rows)
            except IntegrityError as error:
                where = f"line {batch[0][0]}" if len(batch) == 1 else f"lines {batch[0][0]} to {batch[-1][0]}"
                raise IntegrityError(f"{where}: {table} that do not fit what is stored: {error}") from error
            counts[table]["added"] += len(added)
            counts[table]["skipped"] += len(rows) - len(added)
            new += [_key(table, row) for row in added]
            if len(new) >= RECORDED_AT_A_TIME:
                happened += record(conn, "import", table, new, audit_of)
                new.clear()
        happened += record(conn, "import", table, new, audit_of)
    if loose := maintenance.loose_links(conn, tenant_id):
        raise IntegrityError(f"the file does not fit together: {loose[0]}")
    return counts, happened


def _batches(parsed: Iterable[_Parsed], most: int) -> Iterator[list[_Parsed]]:
    """As many rows as the engine likes at a time, or fewer if they are long: any number may be in a file."""
    batch: list[_Parsed] = []
    characters = 0
    for each in parsed:
        batch.append(each)
        characters += sum(len(value) for value in each[2].values() if isinstance(value, str | bytes))
        if len(batch) == most or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _prepared(
    conn: Connection, number: int, line: Any, tenant_id: str | None, version: int | None, dimension: int
) -> _Parsed:
    try:
        table, row = _parse(line, tenant_id)
        row = foreign_rows.read(table, row)
        if table in _KIND_OF:
            _index(conn, table, row, version, dimension)
    except InvalidInput as error:
        where = f"line {number}, {error.field}" if error.field else f"line {number}"
        raise InvalidInput(where, error.problem, error.allowed) from error
    return number, table, row


def _parse(line: Any, tenant_id: str | None) -> tuple[str, Row]:
    named = line.get("table") if isinstance(line, dict) else None
    if not isinstance(named, str) or named not in TABLES or not isinstance(line.get("row"), dict):
        raise InvalidInput("", "is not a row of a Tulving export", f"table one of {', '.join(TABLES)}")
    table, row = named, dict(line["row"])
    if tenant_id is None and not isinstance(row.get("tenant_id"), str):
        raise InvalidInput("", "does not name its tenant", "an export of all tenants")
    if tenant_id is not None and row.setdefault("tenant_id", tenant_id) != tenant_id:
        raise InvalidInput("", f"belongs to the tenant {row['tenant_id']!r:.80}", f"rows of {tenant_id!r}")
    if table in _KIND_OF:  # exports of before there was such a column are still good
        row.setdefault("accessed_at", row.get("last_referenced_at") or row.get("created_at"))
    if wrong := set(TABLES[table]).symmetric_difference(row):
        raise InvalidInput("", f"has missing or unknown columns: {', '.join(sorted(wrong))}")
    return table, row


def _index(conn: Connection, table: str, row: Row, version: int | None, dimension: int) -> None:
    """What the memory is found by, made anew from its words; its vector is kept if it is of the store's embedder."""
    kind = _KIND_OF[table]
    item = KIND[kind].item({name: row[name] for name in KIND[kind].columns})
    row["search_text"] = conn.index_text(item.tenant_id, search_text(found_by(item)))
    if row["embedding"] is not None and version is not None and len(row["embedding"]) != 4 * dimension:
        raise InvalidInput("embedding", f"has {len(row['embedding'])} bytes", f"{4 * dimension} bytes")
    if row["embedding"] is None or version is None:
        row["embedding"] = version = None
    row["embedding_version"] = version


def record(
    conn: Connection, source: str, table: str, new: Sequence[Row], audit_of: Callable[[str], Audit]
) -> list[Event]:
    """One event for each tenant that got new rows, with their keys. Imported events are not recorded again."""
    happened: list[Event] = []
    if table != "memory_events":
        for tenant_id, theirs in groupby(sorted(new, key=itemgetter("tenant_id")), key=itemgetter("tenant_id")):
            ids = [key_text(table, row) for row in theirs]
            event = audit_of(tenant_id).event(events.ARRIVAL, "store", None, source=source, table=table, ids=ids)
            happened.append(event)
    events.append(conn, *happened)
    return happened


def kept(table: str) -> str:
    """The condition for rows that leave the store with the others. An arrival concerns this store alone: where the rows
    go, it has one of its own."""
    return f"event_type <> '{events.ARRIVAL}'" if table == "memory_events" else "TRUE"


def key_text(table: str, row: Row) -> str:
    """A row's key for a person, without its tenant."""
    return " ".join(str(row[part]) for part in KEYS.get(table, ID)[1:])


def _key(table: str, row: Row) -> Row:
    return {name: row[name] for name in KEYS.get(table, ID)}


def _to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value
