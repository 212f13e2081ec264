"""What decay does to facts and rules, and what undoes it: the sweep, in small batches over all tenants, and
confirmation."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from tulving.domain.decay import Standing, review
from tulving.domain.editing import confirmed
from tulving.domain.events import Audit, Event
from tulving.domain.model import Fact, Kind, Rule
from tulving.domain.scope import Address, address_of
from tulving.errors import InvalidInput
from tulving.storage import edits, events, facts, items
from tulving.storage.connection import Connection
from tulving.storage.rows import SELECTED, TABLES, Row, to_item

REVIEWED: tuple[Kind, ...] = ("fact", "rule")
Transition = Literal["fading", "expired", "recovered"]

_ALIVE: dict[Kind, str] = {
    "fact": "m.validity = 'active'",
    "rule": "NOT m.forgotten AND m.maturity <> 'anti_pattern'",
}
# The expression and the conditions of the indexes ix_facts_review and ix_rules_review. A row that was inserted without
# a time for its review has been due since it was made.
_DUE_AT = "COALESCE(m.next_review_at, m.created_at)"
_DUE = {kind: f"{_DUE_AT} <= :as_of AND m.decay_rate > 0 AND {_ALIVE[kind]}" for kind in REVIEWED}
_CONFIRMED_RULE = ("forgotten", "metadata", "status", "last_confirmed_at", "next_review_at", "updated_at")
_ENDS_OF_RULES = ("rule_expired", "rule_forgotten")
_MINE = "WHERE tenant_id = :tenant_id AND id = :id"
_EXPIRE: dict[Kind, str] = {
    "fact": "UPDATE facts SET validity = 'expired', status = NULL, next_review_at = NULL, updated_at = :now " + _MINE,
    "rule": "UPDATE rules SET forgotten = TRUE, status = NULL, next_review_at = NULL, updated_at = :now,"
    f" metadata = :metadata {_MINE}",
}


def count_due(conn: Connection, as_of: datetime) -> int:
    """How many memories of all tenants are due for a review."""
    conn.check_sees_all_tenants()
    counts = " UNION ALL ".join(
        f"SELECT COUNT(*) AS due FROM {TABLES[kind]} AS m WHERE {_DUE[kind]}" for kind in REVIEWED
    )
    return sum(row["due"] for row in conn.fetch_all(counts, {"as_of": as_of}))


def sweep(
    conn: Connection, kind: Kind, as_of: datetime, limit: int, audit_of: Callable[[str], Audit]
) -> tuple[Counter[str], list[Event]]:
    """Review the memories that are due the longest: how many were looked at and what became of them, with the events.

    Each is due no more afterwards, so that the next batch goes on behind it. Two sweeps at once share the work: a row
    that the other one holds is waited for, and is then due no more.
    """
    rows = conn.fetch_all(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE {_DUE[kind]}"
        f" ORDER BY {_DUE_AT}, m.id, m.tenant_id LIMIT :limit{conn.for_update}",
        {"as_of": as_of, "limit": limit},
    )
    counts: Counter[str] = Counter(checked=len(rows))
    changes: dict[str, list[Row]] = {}
    happened: list[Event] = []
    for row in rows:
        item = _item(kind, row)
        standing = _standing(item, as_of)
        became = _transition(item, standing)
        audit = audit_of(item.tenant_id)
        statement, params = _change(kind, item, standing, became, audit.now)
        changes.setdefault(statement, []).append(params)
        if became is not None:
            counts[became] += 1
            believed = round(standing.believed, 6)
            happened.append(audit.event(f"{kind}_{became}", kind, item.id, by="decay", effective_confidence=believed))
    for statement, theirs in changes.items():
        conn.execute_many(statement, theirs)
    events.append(conn, *happened)
    return counts, happened


def forecast(conn: Connection, kind: Kind, as_of: datetime) -> Counter[str]:
    """What a sweep would come to. Nothing is written."""
    counts: Counter[str] = Counter(checked=0)
    found = f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE {_DUE[kind]}"
    for row in conn.stream(found, {"as_of": as_of}):
        item = _item(kind, row)
        counts["checked"] += 1
        if (became := _transition(item, _standing(item, as_of))) is not None:
            counts[became] += 1
    return counts


def confirm(conn: Connection, address: Address, now: datetime, event: Event) -> bool:
    """001-022: start the decay of a fact or rule anew, and bring back what decay has taken out of use.

    False when there is none, and for what is out of use for another reason: superseded, or forgotten by a person.
    """
    item = items.get(conn, address, to_change=True)
    if not isinstance(item, Fact | Rule) or not _holds_again(conn, item):
        return False
    if isinstance(item, Fact):
        _check_place(conn, item)
        edits.update(conn, address.kind, confirmed(item, now), facts.CONFIRMED)
    else:
        edits.update(conn, address.kind, confirmed(item, now), _CONFIRMED_RULE)
    events.append(conn, event)
    return True


def _holds_again(conn: Connection, item: Fact | Rule) -> bool:
    """Whether it is in use, or only decay has ended that. Of a forgotten rule its last event says which it was."""
    if isinstance(item, Fact):
        return item.validity in ("active", "expired")
    return not item.forgotten or events.last(conn, address_of(item), _ENDS_OF_RULES) == "rule_expired"


def _check_place(conn: Connection, fact: Fact) -> None:
    """A fact that expired can't come back to a key that another one has taken since."""
    if fact.validity == "active" or (other := facts.holder(conn, fact)) is None:
        return
    problem = f"the fact {fact.ref or fact.id} has expired, and {other['ref'] or other['id']} has taken its place"
    raise InvalidInput("memory_id", problem, "confirm that one, or forget it first")


def _item(kind: Kind, row: Row) -> Fact | Rule:
    item = to_item(kind, row)
    assert isinstance(item, Fact | Rule)
    return item


def _standing(item: Fact | Rule, as_of: datetime) -> Standing:
    """What was never confirmed has been fading since it was made."""
    return review(item.confidence, item.decay_rate, item.last_confirmed_at or item.created_at, as_of)


def _transition(item: Fact | Rule, standing: Standing) -> Transition | None:
    if standing.state == "expired":
        return "expired"
    if (standing.state == "fading") == (item.status == "fading"):
        return None
    return "fading" if standing.state == "fading" else "recovered"


def _change(
    kind: Kind, item: Fact | Rule, standing: Standing, became: Transition | None, now: datetime
) -> tuple[str, Row]:
    """The statement that writes down what was found, and its parameters."""
    params: Row = {"tenant_id": item.tenant_id, "id": item.id, "review": standing.next_review_at}
    if became is None:
        return f"UPDATE {TABLES[kind]} SET next_review_at = :review {_MINE}", params
    params["now"] = now
    if became == "expired":
        return _EXPIRE[kind], {**params, "metadata": {**item.metadata, "forgotten": True}}
    params["status"] = "fading" if became == "fading" else None
    return f"UPDATE {TABLES[kind]} SET status = :status, next_review_at = :review, updated_at = :now {_MINE}", params
