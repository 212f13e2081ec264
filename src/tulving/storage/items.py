"""Operations on every kind of memory: insert, update, count references, forget, delete, list."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from tulving.domain.editing import forgotten, is_forgotten
from tulving.domain.events import Event
from tulving.domain.model import Episode, Item, Kind
from tulving.domain.scope import Address, Bound, Filter
from tulving.errors import InvalidInput, NotFound
from tulving.storage import events, timeline
from tulving.storage.connection import Connection
from tulving.storage.embeddings import renumbered
from tulving.storage.filters import reachable, visible
from tulving.storage.kinds import KIND, table_of
from tulving.storage.rows import IndexEntry, Row

Reference = tuple[Kind, UUID, int, datetime]
"""A memory by its kind and id, the number of new references, and the time of the last one."""
Offers = Sequence[tuple[Item, IndexEntry, Event]]
"""New episodes or rules with their index entries and audit events."""
THIS = "WHERE tenant_id = :tenant_id AND id = :id"


def insert(conn: Connection, kind: Kind, new: Sequence[tuple[Item, IndexEntry]]) -> None:
    """Insert rows with their index entries; the caller appends the events."""
    table = KIND[kind]
    rows: list[tuple[Any, ...]] = []
    for item, entry in new:
        if item.accessed_at is None:
            item = replace(item, accessed_at=item.created_at)
        words = conn.index_text(item.tenant_id, entry.search_text)
        rows.append((*table.values(item), words, entry.embedding, entry.embedding_version))
    if rows:
        conn.insert(table.table, table.inserted, rows)


def store(conn: Connection, kind: Kind, offers: Offers, bound: Bound) -> None:
    """Store new episodes or rules, all or none."""
    store_each(conn, [(kind, offers, bound)])


def store_each(conn: Connection, calls: Sequence[tuple[Kind, Offers, Bound]]) -> Sequence[None]:
    """Several calls of `store` with the same statements."""
    for _, offers, bound in calls:
        check_sources(conn, bound, [item for item, _, _ in offers])
    for kind, of_kind in groupby(calls, key=itemgetter(0)):
        new = [offer for _, offers, _ in of_kind for offer in offers]
        entries = renumbered(conn, (entry for _, entry, _ in new))
        insert(conn, kind, [(item, entry) for (item, _, _), entry in zip(new, entries, strict=True)])
        events.append(conn, *(event for _, _, event in new))
    return [None] * len(calls)


def check_sources(conn: Connection, bound: Bound, new: Sequence[Item]) -> None:
    """Provenance must point to episodes that the caller may read; others are refused as if they did not exist."""
    sources = [item.source_episode_id for item in new if not isinstance(item, Episode)]
    cited = [id_ for id_ in sources if id_ is not None]
    known = reachable(conn, "episode", new[0].tenant_id, bound, cited) if cited else set()
    for id_ in cited:
        if id_ not in known:
            problem = f"episode {id_} does not exist"
            raise InvalidInput("source_episode_id", problem, "the id of one of your episodes")


def get(conn: Connection, address: Address, *, to_change: bool = False) -> Item | None:
    """One memory in any state, without counting a reference. `to_change` locks it until the transaction ends."""
    table, lock = KIND[address.kind], conn.for_update if to_change else ""
    row = conn.fetch_one(f"{table.select} WHERE m.tenant_id = :tenant_id AND m.id = :id{lock}", _key(address))
    return table.item(timeline.restored(conn, [row])[0]) if row else None


def get_to_change(conn: Connection, address: Address) -> Item:
    """One memory, locked until the transaction ends; raises if it does not exist."""
    item = get(conn, address, to_change=True)
    if item is None:
        raise NotFound(f"there is no {address.kind} {address.id}")
    return item


def locate(conn: Connection, tenant_id: str, kind: Kind, name: UUID | str, bound: Bound) -> Item | None:
    """The memory with an id or short reference; None if there is none that the caller may read."""
    column = "id" if isinstance(name, UUID) else "ref"
    row = conn.fetch_one(
        f"{KIND[kind].select} WHERE m.tenant_id = :tenant_id AND m.{column} = :{column}",
        {"tenant_id": tenant_id, column: name},
    )
    item = KIND[kind].item(row) if row else None
    return item if item is not None and bound.covers(item) else None


def update(conn: Connection, *changes: tuple[Item, Item]) -> None:
    """Write the columns in which each memory, as it was read and locked, differs from what it is to be. The events are
    the caller's."""
    statements: dict[str, list[Row]] = {}
    for old, new in changes:
        table = table_of(old)
        before, after = table.params(old), table.params(new)
        changed = [name for name in table.columns if before[name] != after[name]]
        if changed:
            # A row of an older schema may hold another word for the same state.
            changed += [name for name in ("validity",) if name in table.columns and name not in changed]
            statement = f"UPDATE {table.table} SET {', '.join(f'{name} = :{name}' for name in changed)} {THIS}"
            params = {name: after[name] for name in ("tenant_id", "id", *changed)}
            statements.setdefault(statement, []).append(params)
    for statement, rows in statements.items():
        conn.execute_many(statement, rows)


def touch(conn: Connection, tenant_id: str, references: Sequence[Reference]) -> None:
    """001-021, 001-034: count references, row by row in the given order. Not a mutation: no event."""
    for kind, of_kind in groupby(references, key=itemgetter(0)):
        conn.execute_many(
            f"UPDATE {KIND[kind].table} SET reference_count = reference_count + :count,"
            " last_referenced_at = CASE WHEN last_referenced_at > :last THEN last_referenced_at ELSE :last END,"
            f" accessed_at = CASE WHEN accessed_at > :last THEN accessed_at ELSE :last END {THIS}",
            [{"tenant_id": tenant_id, "id": id_, "count": count, "last": last} for _, id_, count, last in of_kind],
        )


def forget(conn: Connection, address: Address, event: Event) -> bool:
    """001-006, 001-023, 001-024: hide a memory but keep its row; False if there is no such memory."""
    item = get(conn, address, to_change=True)
    if item is None:
        return False
    if not is_forgotten(item):
        update(conn, (item, forgotten(item, event.occurred_at)))
        events.append(conn, event)
    return True


def delete(conn: Connection, address: Address, event: Event) -> bool:
    """Remove a memory, its links, its revisions and its vectors; an event without content remains. On SQLite the
    keyword index drops the words when maintenance merges it."""
    item = get_to_change(conn, address)
    conn.execute(f"DELETE FROM {KIND[address.kind].table} {THIS}", _key(address))
    delete_traces(conn, address.tenant_id, address.kind, [address.id])
    if isinstance(item, Episode):
        timeline.emptied(conn, [{"tenant_id": item.tenant_id, "segment_id": item.segment_id}])
    events.append(conn, event)
    return True


def delete_traces(conn: Connection, tenant_id: str, kind: Kind, ids: Sequence[UUID]) -> None:
    """Remove what other tables hold about deleted memories."""
    for table, kind_column, id_column in (
        ("memory_links", "source_type", "source_id"),
        ("memory_links", "target_type", "target_id"),
        ("revisions", "memory_type", "memory_id"),
        ("next_embeddings", "memory_type", "memory_id"),
    ):
        conn.execute(
            f"DELETE FROM {table} WHERE tenant_id = :tenant_id AND {kind_column} = :kind"
            f" AND {conn.within(id_column, 'ids')}",
            {"tenant_id": tenant_id, "kind": kind, "ids": list(ids)},
        )


def listing(
    conn: Connection,
    tenant_id: str,
    kind: Kind,
    wanted: Filter,
    now: datetime,
    limit: int,
    after: Sequence[Any] | None,
) -> list[Item]:
    """One page of memories, newest first; `after` is the place of the last one of the previous page."""
    where, params = visible(conn, kind, tenant_id, wanted, now)
    if after is not None:
        where += " AND (m.created_at < :after_time OR m.created_at = :after_time AND m.id > :after_id)"
        params |= dict(zip(("after_time", "after_id"), after, strict=True))
    rows = conn.fetch_all(
        f"{KIND[kind].select} WHERE {where} ORDER BY m.created_at DESC, m.id LIMIT :limit", {**params, "limit": limit}
    )
    return [KIND[kind].item(row) for row in timeline.restored(conn, rows)]


def _key(address: Address) -> Row:
    return {"tenant_id": address.tenant_id, "id": address.id}
