"""Rows on their way between stores: one stream out of a store and one writer into it, for export, import and copy.

Access tokens and the secrets of tenants stay behind: they belong to a server and to a store, not to the memory. So do
the hashes of forgotten values, which are keyed with those secrets, the counts of tool calls in plain text, and how far
readers of the events have come. Archived episodes move with their content, and arrive unarchived.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal

from tulving.domain.events import Audit, Event
from tulving.domain.learning import Proposal, Run
from tulving.domain.model import Entity, Kind, Link, Session, Settlement, canonical_state
from tulving.domain.text import found_by, search_text
from tulving.errors import IntegrityError
from tulving.storage import embeddings, events, timeline
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

BATCH = 1000
BATCH_CHARACTERS = 8_000_000
"""A batch ends here too: the content of one memory may have millions."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What is moved of a table. `reference` is a column that refers to a row of the same table; where the order of rows
    has a meaning, they are read in the order of `sequence`."""

    columns: tuple[str, ...]
    key: tuple[str, ...] = ("tenant_id", "id")
    kind: Kind | None = None
    reference: str | None = None
    sequence: str | None = None

    def key_text(self, row: Row) -> str:
        """A row's key for a person, without its tenant."""
        return " ".join(str(row[name]) for name in self.key[1:])


def _of(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))


def _memories(kind: Kind, reference: str | None = None) -> Moved:
    columns = (*KIND[kind].columns, "embedding_version", "embedding")
    return Moved(tuple(name for name in columns if name != "segment_id"), kind=kind, reference=reference)


_LINK_KEY = ("tenant_id", "source_type", "source_id", "target_type", "target_id")
_BLOCK_KEY = ("tenant_id", "owner", "block", "number")
_BRIDGED_KEY = ("tenant_id", "episode_id", "fact_id")
_REVISION_KEY = ("tenant_id", "memory_type", "memory_id", "number")

# In an order in which each table finds what it refers to.
MOVED = {
    "entities": Moved((*_of(Entity), "folded_name"), reference="merged_into"),
    "sessions": Moved(_of(Session)),
    "episodes": _memories("episode"),
    "facts": _memories("fact", reference="supersedes_id"),
    "rules": _memories("rule"),
    "rule_applications": Moved(tuple("tenant_id id rule_id outcome applied_at context".split())),
    "memory_links": Moved(("tenant_id", *_of(Link)), _LINK_KEY),
    "revisions": Moved((*_REVISION_KEY, *"content tags metadata importance created_at".split()), _REVISION_KEY),
    "learning_runs": Moved(_of(Run)),
    "proposals": Moved(_of(Proposal)),
    "settlements": Moved(_of(Settlement)),
    "bridged_facts": Moved((*_BRIDGED_KEY, "created_at"), _BRIDGED_KEY),
    "merge_rules": Moved(tuple("tenant_id rules version updated_at".split()), ("tenant_id",)),
    "profile_blocks": Moved(
        (*_BLOCK_KEY, *"user_id household_id persona_id content run_id created_at".split()), _BLOCK_KEY
    ),
    "memory_events": Moved(tuple(name for name in _of(Event) if name != "seq"), sequence="seq"),
}


# -- out -------------------------------------------------------------------------------------------------------


def count(conn: Connection, tenant_id: str | None) -> dict[str, int]:
    """How many rows there are to move from each table, of one tenant or of all."""
    mine = _mine(conn, tenant_id)
    counts = (
        f"SELECT '{table}' AS name, COUNT(*) AS rows FROM {table} WHERE {mine} AND {_kept(table)}" for table in MOVED
    )
    return {row["name"]: row["rows"] for row in conn.fetch_all(" UNION ALL ".join(counts), {"tenant_id": tenant_id})}


def stream(
    conn: Connection,
    table: str,
    tenant_id: str | None,
    after: Row | None = None,
    *,
    by_key: bool = False,
    where: str = "TRUE",
    limit: int | None = None,
) -> Iterator[Row]:
    """The rows of a table, of one tenant or of all, in an order that an index gives; those behind `after`, if given."""
    moved, params = MOVED[table], Row(tenant_id=tenant_id, limit=limit)
    where = f"{_mine(conn, tenant_id)} AND {_kept(table)} AND {where}"
    order = ("tenant_id", moved.sequence) if moved.sequence and not by_key else moved.key
    order = order if tenant_id is None else order[1:] or order
    if after is not None:
        where += f" AND ({', '.join(order)}) > ({', '.join(f':after_{name}' for name in order)})"
        params |= {f"after_{name}": after[name] for name in order}
    names = dict.fromkeys((*moved.columns, *order, *(("segment_id",) if moved.kind == "episode" else ())))
    chosen = ", ".join(conn.vector_value(name) if name == "embedding" else name for name in names)
    most = "" if limit is None else " LIMIT :limit"
    rows = conn.stream(f"SELECT {chosen} FROM {table} WHERE {where} ORDER BY {', '.join(order)}{most}", params)
    return _unarchived(conn, rows) if moved.kind == "episode" else rows


def _unarchived(conn: Connection, rows: Iterator[Row]) -> Iterator[Row]:
    """Episodes with their content, wherever it lies."""
    for batch in batches(rows):
        for row in timeline.restored(conn, batch):
            if row.pop("segment_id") is not None and "unreadable" in row["metadata"] and not row["content"]:
                raise IntegrityError(f"the episode {row['id']} can't be moved: {row['metadata']['unreadable']}")
            yield row


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """As many rows as are written at a time."""
    batch: list[Row] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if len(batch) >= BATCH or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def next_batch(
    conn: Connection, table: str, tenant_id: str | None, after: Row | None, forward: bool = False
) -> list[Row]:
    """The next rows; with `forward` only those that refer to one behind them."""
    where = f"{MOVED[table].reference} > id" if forward else "TRUE"
    return next(batches(stream(conn, table, tenant_id, after, where=where, limit=BATCH)), [])


def _mine(conn: Connection, tenant_id: str | None) -> str:
    if tenant_id is not None:
        return "tenant_id = :tenant_id"
    conn.check_sees_all_tenants()
    return "TRUE"


def _kept(table: str) -> str:
    """An arrival concerns this store alone: the store that the rows go to records its own."""
    return f"event_type <> '{events.ARRIVAL}'" if table == "memory_events" else "TRUE"


# -- in --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrival:
    """How rows come in: by a copy or an import, with vectors of which embedder version (None: without), and by whom,
    whichever tenant they belong to."""

    source: Literal["copy", "import"]
    version: int | None
    audit: Audit


def put(
    conn: Connection, arrival: Arrival, table: str, rows: Sequence[Row], at_a_time: int, line: int | None = None
) -> int:
    """Insert the rows that are not there yet, with an event that says so; how many were new. The others stay as they
    are. `line` is that of the first row in a file."""
    moved = MOVED[table]
    version = None if arrival.version is None else embeddings.active_number(conn, arrival.version)
    ready = [_prepared(conn, moved, row, version) for row in rows]
    new: list[Row] = []
    for start in range(0, len(ready), at_a_time):
        part = ready[start : start + at_a_time]
        try:
            new += conn.merge(table, moved.key, part)
        except IntegrityError as error:
            which = _span(f"{moved.key_text(row)} of {row['tenant_id']}" for row in (part[0], part[-1]))
            where = "" if line is None else f"line {_span((line + start, line + start + len(part) - 1))}: "
            raise type(error)(f"{where}{table} {which} can't be put beside what is stored: {error}") from error
    _record(conn, arrival, table, new)
    return len(new)


def _span(ends: Iterable[object]) -> str:
    return " to ".join(dict.fromkeys(map(str, ends)))


def put_copied(conn: Connection, arrival: Arrival, table: str, rows: Sequence[Row], one_by_one: bool = False) -> int:
    """Put rows of another store, which come in the order of their keys. A reference to a row behind waits, since that
    row may be in a later batch."""
    if (column := MOVED[table].reference) is not None:
        rows = [{**row, column: None} if row[column] is not None and row[column] > row["id"] else row for row in rows]
    return put(conn, arrival, table, rows, 1 if one_by_one else len(rows))


def refer(conn: Connection, table: str, rows: Sequence[Row]) -> None:
    """Set the references that had to wait, in rows that are still as they were put."""
    column = MOVED[table].reference or ""
    conn.execute_many(
        f"UPDATE {table} SET {column} = :{column} WHERE tenant_id = :tenant_id AND id = :id"
        f" AND {column} IS NULL AND updated_at = :updated_at",
        [{name: row[name] for name in ("tenant_id", "id", "updated_at", column)} for row in rows],
    )


def _prepared(conn: Connection, moved: Moved, row: Row, version: int | None) -> Row:
    """A row as this store keeps it: its words as the engine indexes them, its vector under the store's number."""
    row = {name: row[name] for name in moved.columns}
    if "validity" in row:
        row["validity"] = canonical_state(row["validity"])
    if moved.kind is not None:
        table = KIND[moved.kind]
        item = table.item({name: row[name] for name in table.columns if name in row})
        row["search_text"] = conn.index_text(item.tenant_id, search_text(found_by(item)))
        if row["embedding"] is None or version is None:
            row["embedding"] = version = None
        row["embedding_version"] = version
    return row


def _record(conn: Connection, arrival: Arrival, table: str, new: Sequence[Row]) -> None:
    """One event for each tenant that got new rows, with their keys. The arrival of events is not recorded."""
    if table == "memory_events":
        return
    for tenant_id, theirs in groupby(sorted(new, key=itemgetter("tenant_id")), key=itemgetter("tenant_id")):
        ids = [MOVED[table].key_text(row) for row in theirs]
        audit = replace(arrival.audit, caller=replace(arrival.audit.caller, tenant_id=tenant_id))
        payload = {"source": arrival.source, "table": table, "ids": ids}
        events.append(conn, audit.event(events.ARRIVAL, "store", None, **payload))
