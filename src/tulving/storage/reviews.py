"""The decay sweep over facts and rules, in small batches, and confirmation, which undoes decay."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from tulving.domain.days import EARLIEST
from tulving.domain.decay import reviewed
from tulving.domain.editing import confirmed, is_forgotten
from tulving.domain.events import AuditOf, Event
from tulving.domain.model import Fact, Kind, Rule
from tulving.domain.ranking import NEUTRAL_IMPORTANCE
from tulving.domain.scope import Address, Bound
from tulving.errors import InvalidInput
from tulving.storage import events, facts, growth, items
from tulving.storage.connection import Connection
from tulving.storage.filters import reach_or_all
from tulving.storage.kinds import KIND, REVIEWED
from tulving.storage.rows import Row

# Matches the expression and the conditions of the indexes ix_facts_review and ix_rules_review. A row without a review
# date has been due since its creation.
_DUE_AT = "COALESCE(m.next_review_at, m.created_at)"
_BECOMING = {"fading": "m.status IS NULL", "expiring": "m.status = 'fading'"}
"""What a memory becomes at its review if nothing confirms it."""
MOST_WEIGHED = 5_000
"""How many of those that are due soonest are compared by their importance."""


def count_due(conn: Connection, tenant_id: str | None, bound: Bound, as_of: datetime) -> int:
    """How many memories of one caller, or (None) of all tenants, are due for a review."""
    counts = 0
    for kind in REVIEWED:
        where, params = _due(conn, kind, tenant_id, bound, as_of)
        row = conn.fetch_one(f"SELECT COUNT(*) AS due FROM {KIND[kind].table} AS m WHERE {where}", params)
        counts += row["due"] if row else 0
    return counts


def sweep(
    conn: Connection, kind: Kind, tenant_id: str | None, bound: Bound, as_of: datetime, limit: int, audit_of: AuditOf
) -> Counter[str]:
    """Review the memories that have been due the longest; counts how many were checked and what became of them.

    None of them is due afterwards, so the next batch continues after them. Two concurrent sweeps share the work: each
    waits for rows that the other has locked, which are then no longer due.
    """
    where, params = _due(conn, kind, tenant_id, bound, as_of)
    rows = conn.fetch_all(
        f"{KIND[kind].select} WHERE {where} ORDER BY {_DUE_AT}, m.id, m.tenant_id LIMIT :limit{conn.for_update}",
        {**params, "limit": limit},
    )
    counts: Counter[str] = Counter(checked=len(rows))
    changes: list[tuple[Fact | Rule, Fact | Rule]] = []
    happened: list[Event] = []
    for item in _items(kind, rows):
        audit = audit_of(item.tenant_id)
        new, became, believed = reviewed(item, as_of, audit.now)
        changes.append((item, new))
        if became is not None:
            counts[became] += 1
            details = {"by": "decay", "effective_confidence": round(believed, 6)}
            happened.append(audit.event(f"{kind}_{became}", kind, item.id, **details))
    items.update(conn, *changes)
    events.append(conn, *happened)
    return counts


def forecast(conn: Connection, kind: Kind, tenant_id: str | None, bound: Bound, as_of: datetime) -> Counter[str]:
    """The counts that a sweep would return. Nothing is written."""
    counts: Counter[str] = Counter(checked=0)
    where, params = _due(conn, kind, tenant_id, bound, as_of)
    for item in _items(kind, conn.stream(f"{KIND[kind].select} WHERE {where}", params)):
        counts["checked"] += 1
        if (became := reviewed(item, as_of, as_of).became) is not None:
            counts[became] += 1
    return counts


def due_by_day(conn: Connection, tenant_id: str, bound: Bound, days: Sequence[datetime]) -> list[dict[str, int]]:
    """How many memories will begin to fade and how many will expire on each day. What is overdue counts for the first
    one."""
    counts = [dict.fromkeys(_BECOMING, 0) for _ in days]
    times = [EARLIEST, *growth.ends(days)[1:]]
    for kind in REVIEWED:
        due, params = _due(conn, kind, tenant_id, bound, times[-1])
        for what, condition in _BECOMING.items():
            found = growth.between(conn, kind, f"{due} AND {condition}", _DUE_AT, params, times, _index(conn, kind))
            for of_day, count in zip(counts, found, strict=True):
                of_day[what] += count
    return counts


def due_first(conn: Connection, tenant_id: str, bound: Bound, until: datetime, limit: int) -> list[Fact | Rule]:
    """The most important memories that will fade or expire by a time. Of more than `MOST_WEIGHED` the first ones are
    compared; a rule has no importance, and counts as one of average importance."""
    found: list[Fact | Rule] = []
    for kind in REVIEWED:
        where, params = _due(conn, kind, tenant_id, bound, until)
        weight = "m.importance" if kind == "fact" else str(NEUTRAL_IMPORTANCE)
        due = (
            f"SELECT m.id, {weight} AS weight, {_DUE_AT} AS due_at FROM {KIND[kind].table} AS m{_index(conn, kind)}"
            f" WHERE {where} ORDER BY {_DUE_AT} LIMIT {MOST_WEIGHED}"
        )
        heaviest = f"SELECT due.id FROM ({due}) AS due ORDER BY due.weight DESC, due.due_at, due.id LIMIT :limit"
        rows = conn.fetch_all(
            f"{KIND[kind].select} WHERE m.tenant_id = :tenant_id AND m.id IN ({heaviest})", {**params, "limit": limit}
        )
        found += _items(kind, rows)
    return sorted(found, key=_urgency)[:limit]


def _index(conn: Connection, kind: Kind) -> str:
    return conn.by_index(f"ix_{KIND[kind].table}_review")


def _urgency(item: Fact | Rule) -> tuple[float, datetime, str]:
    weight = item.importance if isinstance(item, Fact) else NEUTRAL_IMPORTANCE
    return -weight, item.next_review_at or item.created_at, str(item.id)


def confirm(conn: Connection, address: Address, event: Event) -> bool:
    """001-022: restart the decay of a fact or rule, and bring it back if it had expired.

    False if it does not exist, was superseded, or was deliberately forgotten.
    """
    item = items.get(conn, address, to_change=True)
    if not isinstance(item, Fact | Rule) or not _holds_again(item):
        return False
    if isinstance(item, Fact):
        _check_place(conn, item)
    items.update(conn, (item, confirmed(item, event.occurred_at)))
    events.append(conn, event)
    return True


def _due(conn: Connection, kind: Kind, tenant_id: str | None, bound: Bound, as_of: datetime) -> tuple[str, Row]:
    where, params = reach_or_all(conn, kind, tenant_id, bound)
    due = f"{where} AND {_DUE_AT} <= :as_of AND m.decay_rate > 0 AND {KIND[kind].reviewed}"
    return due, {**params, "as_of": as_of}


def _items(kind: Kind, rows: "Iterator[Row] | list[Row]") -> Iterator[Fact | Rule]:
    for row in rows:
        item = KIND[kind].item(row)
        assert isinstance(item, Fact | Rule)
        yield item


def _holds_again(item: Fact | Rule) -> bool:
    """Whether it is in use, or only decay took it out of use."""
    return item.validity in ("active", "expired") if isinstance(item, Fact) else not is_forgotten(item)


def _check_place(conn: Connection, fact: Fact) -> None:
    """Raise if an expired fact would come back to a key that another fact has taken since."""
    if fact.validity == "active" or (other := facts.holder(conn, fact)) is None:
        return
    problem = f"the fact {fact.ref or fact.id} has expired, and {other.ref or other.id} has taken its place"
    raise InvalidInput("memory_id", problem, "confirm that one, or forget it first")
