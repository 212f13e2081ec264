"""Answers that may be asked for again: a change and what it answered are kept in one transaction.

No words of a memory are kept here, so that deleting it really deletes it: of a memory in an answer its numbers, times
and states are, and its words are read from its row when the answer is given again.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.model import KIND_OF, EntitiesMerged, EntityCreated, Item, Kind, Stored
from tulving.errors import InvalidInput, NotFound
from tulving.storage import items
from tulving.storage.connection import Connection
from tulving.storage.rows import COLUMNS, insert_statement

_INSERT = insert_statement("requests", ("tenant_id", "request_id", "operation", "fingerprint", "result", "created_at"))
_RECORDS = {record.__name__: record for record in (Stored, EntityCreated, EntitiesMerged)}
"""Answers that hold ids and numbers only."""
_STATES = frozenset({"maturity", "validity", "status", "consolidation_status", "permanence"})


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a verb under an id that its caller may use again for the same call."""

    tenant_id: str
    request_id: str
    operation: str
    fingerprint: str
    now: datetime

    @property
    def key(self) -> dict[str, str]:
        return {"tenant_id": self.tenant_id, "request_id": self.request_id, "operation": self.operation}


class Answered(Exception):
    """The request was answered before, like this."""

    def __init__(self, answer: Any) -> None:
        super().__init__("this request was answered before")
        self.answer = answer


def once(conn: Connection, request: Request, change: Callable[[Connection], Any], answer: Callable[[Any], Any]) -> Any:
    """Make a change and keep its answer, unless the request has one already: then `Answered` is raised."""
    conn.lock(repr(tuple(request.key.values())))
    check(conn, request)
    result = change(conn)
    params = {**request.key, "fingerprint": request.fingerprint, "created_at": request.now}
    conn.run(_INSERT, {**params, "result": {"answer": _packed(answer(result))}})
    return result


def check(conn: Connection, request: Request) -> None:
    """Raise the answer of a request that has one; one that was for something else is refused."""
    row = conn.one(
        "SELECT fingerprint, result FROM requests WHERE tenant_id = :tenant_id AND request_id = :request_id"
        " AND operation = :operation",
        request.key,
    )
    if row is None:
        return
    if row["fingerprint"] != request.fingerprint:
        problem = f"{request.request_id!r:.80} was used before, for another call of {request.operation}"
        raise InvalidInput("request_id", problem, "a new one for each request")
    raise Answered(_unpacked(conn, request.tenant_id, row["result"]["answer"]))


def delete_before(conn: Connection, moment: datetime, limit: int) -> int:
    """Drop old answers of all tenants; how many."""
    old = "SELECT tenant_id, request_id, operation FROM requests WHERE created_at < :moment LIMIT :limit"
    return conn.run(
        f"DELETE FROM requests WHERE (tenant_id, request_id, operation) IN ({old})",
        {"moment": moment, "limit": limit},
    )


def count_before(conn: Connection, moment: datetime) -> int:
    row = conn.one("SELECT COUNT(*) AS old FROM requests WHERE created_at < :moment", {"moment": moment})
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
    raise TypeError(f"{type(value).__name__} can't be kept as an answer")


def _wordless(item: Item) -> dict[str, Any]:
    values = {name: getattr(item, name) for name in COLUMNS[KIND_OF[type(item)]]}
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
            return _memory(conn, tenant_id, kind, UUID(id_), values)
        case list():
            return [_unpacked(conn, tenant_id, inner) for inner in value]
    return value


def _memory(conn: Connection, tenant_id: str, kind: Kind, id_: UUID, values: dict[str, Any]) -> Item:
    item = items.get(conn, tenant_id, kind, id_)
    if item is None:
        raise NotFound(f"the request was done before, but the {kind} {id_} is deleted since")
    return replace(item, **{name: _unpacked(conn, tenant_id, part) for name, part in values.items()})
