"""Reading the audit trail backward: who has changed what, the newest change first.

Events are numbered in the order of their writing, and every search follows an index in that order: that of one memory,
of one run, or of the tenant. There is no index for kinds, actors and times, since each write would have to maintain it.
A search for them examines a limited number of events per page, and says how far it has come.
"""

from tulving.domain.events import Event, Sought
from tulving.domain.model import KINDS
from tulving.domain.scope import Bound
from tulving.storage import runs
from tulving.storage.connection import Connection
from tulving.storage.events import COLUMNS
from tulving.storage.filters import reach
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

LOOKED_AT = 200_000
"""How many events a search examines per page, unless they are those of one memory or run."""
_EVENTS = f"SELECT seq, {', '.join(COLUMNS)} FROM memory_events AS e"
_PLACE = "SELECT seq, occurred_at FROM memory_events AS e WHERE e.tenant_id = :tenant_id"
_EQUAL = ("actor", "entity_id", "run_id")


def search(
    conn: Connection, tenant_id: str, bound: Bound, sought: Sought, limit: int
) -> tuple[list[Event], Row | None]:
    """The newest events that a caller may see, and the event at which the next page continues, if there may be more."""
    where, params = _condition(tenant_id, bound, sought)
    most = limit if sought.matches_all and bound.everything else LOOKED_AT
    end = None if sought.is_narrow else _place(conn, tenant_id, sought.before, most)
    if end is not None:
        where, params["end"] = f"{where} AND e.seq >= :end", end["seq"]
    rows = conn.fetch_all(f"{_EVENTS} WHERE {where} ORDER BY e.seq DESC LIMIT :limit", {**params, "limit": limit + 1})
    if len(rows) > limit:
        end = rows[limit - 1]
    return [Event(**row) for row in rows[:limit]], end


def _place(conn: Connection, tenant_id: str, before: int | None, most: int) -> Row | None:
    """The event so many places back; None if there are not more than that."""
    earlier, params = "", {"tenant_id": tenant_id, "most": most - 1}
    if before is not None:
        earlier, params["before"] = " AND e.seq < :before", before
    found = conn.fetch_all(f"{_PLACE}{earlier} ORDER BY e.seq DESC LIMIT 2 OFFSET :most", params)
    return found[0] if len(found) > 1 else None


def _condition(tenant_id: str, bound: Bound, sought: Sought) -> tuple[str, Row]:
    clauses, params = ["e.tenant_id = :tenant_id"], Row(tenant_id=tenant_id)
    for name in _EQUAL:
        if (value := getattr(sought, name)) is not None:
            clauses.append(f"e.{name} = :{name}")
            params[name] = value
    if sought.event_type is not None:
        clauses.append("(e.event_type = :event_type OR substr(e.event_type, 1, length(:begins)) = :begins)")
        params |= {"event_type": sought.event_type, "begins": f"{sought.event_type}_"}
    for name, comparison in (("since", ">="), ("until", "<")):
        if (value := getattr(sought, name)) is not None:
            clauses.append(f"e.occurred_at {comparison} :{name}")
            params[name] = value
    if sought.before is not None:
        clauses.append("e.seq < :before")
        params["before"] = sought.before
    if not bound.everything:
        reached, more = _reached(tenant_id, bound)
        clauses.append(reached)
        params |= more
    return " AND ".join(clauses), params


def _reached(tenant_id: str, bound: Bound) -> tuple[str, Row]:
    """The events that a connection bound to a part of the tenant may see: those of the memories and runs that it may
    read. The owner of a deleted memory is not known any more, and other events concern the whole tenant."""
    of_run, params = runs.reach(bound)
    ways = [
        "e.entity_type = 'run' AND e.entity_id IN"
        f" (SELECT id FROM learning_runs WHERE tenant_id = :tenant_id AND {of_run})"
    ]
    for kind in KINDS:
        where, more = reach(kind, tenant_id, bound)
        params |= more
        ways.append(
            f"e.entity_type = '{kind}' AND EXISTS (SELECT 1 FROM {KIND[kind].table} AS m WHERE m.id = e.entity_id"
            f" AND {where})"
        )
    return "(" + " OR ".join(f"({way})" for way in ways) + ")", params
