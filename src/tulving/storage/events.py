"""The append-only audit trail."""

from collections.abc import Sequence
from dataclasses import fields, replace
from operator import attrgetter
from uuid import UUID

from tulving.domain.events import Event, Unkeyed
from tulving.domain.scope import Address
from tulving.storage.connection import Connection
from tulving.storage.rows import insert_statement

COLUMNS = tuple(field.name for field in fields(Event) if field.name != "seq")
_SELECT = f"SELECT seq, {', '.join(COLUMNS)} FROM memory_events"
_VALUES = attrgetter(*COLUMNS)
ARRIVAL = "memories_imported"
"""Rows were imported from a file or another store; the payload lists their keys."""
_SECRET = "SELECT secret FROM tenant_keys WHERE tenant_id = :tenant_id"
_NEW_SECRET = insert_statement("tenant_keys", ("tenant_id", "secret"))


def append(conn: Connection, *events: Event) -> None:
    """Write events in the transaction that makes the change, with keyed content hashes. They are published after the
    commit."""
    if events:
        written = _keyed(conn, events)
        conn.insert("memory_events", COLUMNS, [*map(_VALUES, written)])
        conn.events += written


def keyed(conn: Connection, tenant_id: str, unkeyed: Unkeyed) -> str:
    """A hash, keyed with the tenant's secret."""
    if tenant_id not in conn.secrets:
        conn.secrets[tenant_id] = _secret(conn, tenant_id, unkeyed)
    return unkeyed.keyed(conn.secrets[tenant_id])


def _keyed(conn: Connection, events: Sequence[Event]) -> list[Event]:
    written: list[Event] = []
    for event in events:
        if isinstance(unkeyed := event.payload.get("content_hash"), Unkeyed):
            payload = {**event.payload, "content_hash": keyed(conn, event.tenant_id, unkeyed)}
            event = replace(event, payload=payload)
        written.append(event)
    return written


def _secret(conn: Connection, tenant_id: str, unkeyed: Unkeyed) -> str:
    """The tenant's secret, created at its first use. Of two concurrent attempts the first wins."""
    key = {"tenant_id": tenant_id}
    found = conn.fetch_one(_SECRET, key)
    if found is None:
        conn.execute(f"{_NEW_SECRET} ON CONFLICT DO NOTHING", {**key, "secret": unkeyed.new_secret()})
        found = conn.fetch_one(_SECRET, key)
    assert found is not None
    return found["secret"]


def of_item(conn: Connection, address: Address) -> list[Event]:
    """The history of one memory, oldest first."""
    rows = conn.fetch_all(
        f"{_SELECT} WHERE tenant_id = :tenant_id AND entity_id = :entity_id ORDER BY seq",
        {"tenant_id": address.tenant_id, "entity_id": address.id},
    )
    return [Event(**row) for row in rows]


def of_run(conn: Connection, tenant_id: str, run_id: UUID) -> list[Event]:
    """What a run of a model has changed, oldest first."""
    rows = conn.fetch_all(
        f"{_SELECT} WHERE tenant_id = :tenant_id AND run_id = :run_id ORDER BY seq",
        {"tenant_id": tenant_id, "run_id": run_id},
    )
    return [Event(**row) for row in rows]


def arrived(conn: Connection, tenant_id: str) -> set[str]:
    """The keys of all imported rows of a tenant."""
    found = conn.stream(
        "SELECT payload FROM memory_events WHERE tenant_id = :tenant_id AND event_type = :event_type",
        {"tenant_id": tenant_id, "event_type": ARRIVAL},
    )
    return {key for row in found for key in row["payload"].get("ids", ())}
