"""Completes rows that were inserted by plain SQL (004-001) with what the database can't derive from their content."""

from tulving.domain.editing import completed, superseded
from tulving.domain.events import Audit, AuditOf
from tulving.domain.model import KINDS, Fact, Item, Kind
from tulving.domain.scope import address_of
from tulving.domain.text import found_by, search_text
from tulving.storage import events, facts, items
from tulving.storage.connection import Connection
from tulving.storage.filters import of_tenant
from tulving.storage.kinds import KIND, table_of

_INCOMPLETE = "(m.content_hash IS NULL OR m.search_text IS NULL)"
_UNSETTLED = "m.folded_predicate IS NULL"


def waiting(conn: Connection, tenant_id: str | None) -> bool:
    """Whether a tenant, or (None) any tenant, has a row to complete."""
    asked = [(KIND[kind].table, _INCOMPLETE) for kind in KINDS] + [("facts", _UNSETTLED)]
    for table, condition in asked:
        where, params = of_tenant(tenant_id, condition)
        if conn.fetch_one(f"SELECT 1 AS found FROM {table} AS m WHERE {where} LIMIT 1", params):
            return True
    return False


def complete(conn: Connection, tenant_id: str | None, limit: int, audit_of: AuditOf) -> int:
    """Complete some rows of each kind, of one tenant or (None) of all; returns how many."""
    done = 0
    where, params = of_tenant(tenant_id, _INCOMPLETE)
    for kind in KINDS:
        rows = conn.fetch_all(_some(conn, kind, where), {**params, "limit": limit})
        for row in rows:
            _complete(conn, KIND[kind].item(row), audit_of(row["tenant_id"]))
        done += len(rows)
    where, params = of_tenant(tenant_id, _UNSETTLED)
    unsettled = [Fact(**row) for row in conn.fetch_all(_some(conn, "fact", where), {**params, "limit": limit})]
    facts.settle(conn, unsettled, audit_of)
    return done + len(unsettled)


def _some(conn: Connection, kind: Kind, where: str) -> str:
    return f"{KIND[kind].select} WHERE {where} ORDER BY m.tenant_id, m.id LIMIT :limit{conn.for_update}"


def _complete(conn: Connection, item: Item, audit: Audit) -> None:
    address = address_of(item)
    events.append(conn, audit.event(f"{address.kind}_created", address.kind, item.id, by="insert"))
    new = completed(item, audit.now)
    if isinstance(new, Fact) and (same := facts.same_content(conn, new)) is not None:
        # Only one of two facts with equal content stays active: the one that was completed first.
        new = superseded(new, same.since, audit.now)
        events.append(conn, audit.event("fact_superseded", "fact", item.id, superseded_by=str(same.id)))
    items.update(conn, (item, new))
    conn.execute(
        f"UPDATE {table_of(item).table} SET search_text = :search_text {items.THIS}",
        {
            "tenant_id": item.tenant_id,
            "id": item.id,
            "search_text": conn.index_text(item.tenant_id, search_text(found_by(new))),
        },
    )
