"""Idempotent requests: a change and its answer are committed in one transaction, so that a retry gets the same answer.

No text of a memory is kept here, so that deleting a memory really deletes it. Of a memory in an answer only numbers,
times and states are kept; its text is read from its row when the answer is repeated.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.model import KIND_OF, EntitiesMerged, Entity, EntityCreated, Item, Session, Settlement, Stored
from tulving.domain.scope import Address, Bound
from tulving.errors import InvalidInput, NotFound
from tulving.storage import entities, items, sessions, settlements
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import insert_statement

_KEY = ("tenant_id", "caller", "operation", "idempotency_key")
_INSERT = insert_statement("requests", (*_KEY, "fingerprint", "result", "created_at"))
_RECORDS = {record.__name__: record for record in (Stored, EntityCreated, EntitiesMerged)}
"""Answers that contain only ids and numbers."""
_STATES = frozenset({"maturity", "validity", "status", "consolidation_status", "permanence"})


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a verb with an idempotency key, which its caller may repeat.

    `caller` is a digest of the actor and the owner, which are too long for an index.
    """

    tenant_id: str
    caller: str
    operation: str
    idempotency_key: str
    fingerprint: str
    now: datetime

    @property
    def key(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in _KEY}


class Answered(Exception):
    """Raised with the first answer when a request is repeated."""

    def __init__(self, answer: Any) -> None:
        super().__init__("this request was answered before")
        self.answer = answer


def once(conn: Connection, request: Request, change: Callable[[Connection], Any]) -> Any:
    """Make a change and keep its answer; raises `Answered` if the request has one already."""
    conn.lock(repr(tuple(request.key.values())))
    check(conn, request)
    answer = change(conn)
    params = {**request.key, "fingerprint": request.fingerprint, "created_at": request.now}
    conn.execute(_INSERT, {**params, "result": {"answer": _packed(answer)}})
    return answer


def check(conn: Connection, request: Request) -> None:
    """Raise `Answered` if the request was answered before, and `InvalidInput` if its key was used for another call."""
    row = conn.fetch_one(
        "SELECT fingerprint, result FROM requests WHERE tenant_id = :tenant_id AND caller = :caller"
        " AND operation = :operation AND idempotency_key = :idempotency_key",
        request.key,
    )
    if row is None:
        return
    if row["fingerprint"] != request.fingerprint:
        problem = f"{request.idempotency_key!r:.80} was used before, for another call of {request.operation}"
        raise InvalidInput("idempotency_key", problem, "a new one for each request")
    raise Answered(_unpacked(conn, request.tenant_id, row["result"]["answer"]))


def delete_before(conn: Connection, moment: datetime, limit: int) -> int:
    """Delete old answers of all tenants; returns how many."""
    key = ", ".join(_KEY)
    return conn.execute(
        f"DELETE FROM requests WHERE ({key}) IN (SELECT {key} FROM requests WHERE created_at < :moment LIMIT :limit)",
        {"moment": moment, "limit": limit},
    )


def count_before(conn: Connection, moment: datetime) -> int:
    row = conn.fetch_one("SELECT COUNT(*) AS old FROM requests WHERE created_at < :moment", {"moment": moment})
    return row["old"] if row else 0


def _packed(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case UUID():
            return {"uuid": str(value)}
        case datetime():
            return {"time": value.isoformat()}
        case list():
            return [_packed(inner) for inner in value]
        case _ if type(value).__name__ in _RECORDS:
            values = {field.name: _packed(getattr(value, field.name)) for field in fields(value)}
            return {"record": type(value).__name__, "values": values}
        case _ if type(value) in KIND_OF:
            return {"memory": KIND_OF[type(value)], "id": str(value.id), "values": _wordless(value)}
        case Entity():
            return {"entity": str(value.id)}
        case Settlement():
            return {"settlement": str(value.id)}
        case Session():
            return {"session": str(value.id)}
    raise TypeError(f"{type(value).__name__} can't be kept as an answer")


def _wordless(item: Item) -> dict[str, Any]:
    values = {name: getattr(item, name) for name in KIND[KIND_OF[type(item)]].columns}
    worded = (str, UUID, list, tuple, dict)
    return {name: _packed(value) for name, value in values.items() if name in _STATES or not isinstance(value, worded)}


def _unpacked(conn: Connection, tenant_id: str, value: Any) -> Any:
    match value:
        case {"uuid": text}:
            return UUID(text)
        case {"time": text}:
            return datetime.fromisoformat(text)
        case {"record": name, "values": values}:
            return _RECORDS[name](**{field: _unpacked(conn, tenant_id, part) for field, part in values.items()})
        case {"memory": kind, "id": id_, "values": values}:
            return _memory(conn, Address(tenant_id, kind, UUID(id_)), values)
        case {"entity": id_}:
            return entities.get(conn, tenant_id, UUID(id_))
        case {"settlement": id_}:
            return settlements.get(conn, tenant_id, UUID(id_), Bound())
        case {"session": id_}:
            return sessions.get(conn, tenant_id, UUID(id_), Bound())
        case list():
            return [_unpacked(conn, tenant_id, inner) for inner in value]
    return value


def _memory(conn: Connection, address: Address, values: dict[str, Any]) -> Item:
    item = items.get(conn, address)
    if item is None:
        raise NotFound(f"the request was done before, but the {address.kind} {address.id} has been deleted since")
    return replace(item, **{name: _unpacked(conn, address.tenant_id, part) for name, part in values.items()})
