"""Rules: what became of them when they were applied, and turning round those that did harm."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tulving.domain import maturity
from tulving.domain.events import Audit, Event
from tulving.domain.model import Rule
from tulving.domain.scope import Address, address_of
from tulving.storage import edits, events, items
from tulving.storage.connection import Connection
from tulving.storage.rows import SELECTED, IndexEntry, insert_statement, to_item

_MARKED = (
    "applied_count success_count harmful_count effectiveness_score maturity needs_inversion metadata"
    " last_applied_at last_evaluated_at updated_at"
).split()
_INVERTED = (
    "content content_hash maturity permanence decay_rate needs_inversion status metadata"
    " last_confirmed_at next_review_at updated_at"
).split()
_APPLY = insert_statement("rule_applications", ("tenant_id", "id", "rule_id", "outcome", "applied_at", "context"))


def mark(
    conn: Connection,
    address: Address,
    outcome: maturity.Outcome,
    reason: str | None,
    context: Mapping[str, Any] | None,
    audit: Audit,
) -> tuple[Rule | None, list[Event]]:
    """001-090, 001-091, 001-118: judge a rule by one more use, and keep a record of it; None when there is none."""
    rule = get(conn, address, to_change=True)
    if rule is None:
        return None, []
    helpful = outcome == "helpful"
    marked = maturity.marked_helpful(rule, audit.now) if helpful else maturity.marked_harmful(rule, reason, audit.now)
    edits.update(conn, "rule", marked, _MARKED)
    application = audit.new_id()
    conn.execute(
        _APPLY,
        {
            "tenant_id": rule.tenant_id,
            "id": application,
            "rule_id": rule.id,
            "outcome": outcome,
            "applied_at": audit.now,
            "context": context or None,
        },
    )
    event = audit.event(
        f"rule_marked_{outcome}",
        "rule",
        rule.id,
        application_id=str(application),
        effectiveness_score=marked.effectiveness_score,
        maturity=marked.maturity,
        maturity_before=rule.maturity,
        needs_inversion=marked.needs_inversion,
    )
    events.append(conn, event)
    return marked, [event]


def invert(conn: Connection, made: Rule, entry: IndexEntry, event: Event) -> tuple[Rule | None, bool, list[Event]]:
    """001-013: put the warning in the rule's place, if the rule is still what the warning was made from.

    The rule as it is now, and whether that is final: it is not, when people said more about the harm meanwhile. None
    for a rule that is gone or not refuted any more.
    """
    rule = get(conn, address_of(made), to_change=True)
    if rule is not None and rule.maturity == "anti_pattern":
        return rule, True, []
    if rule is None or not maturity.is_refuted(rule):
        return None, True, []
    inverted = maturity.inverted(rule, event.occurred_at)
    if inverted.content != made.content:
        return rule, False, []
    edits.update(conn, "rule", inverted, _INVERTED)
    edits.reindex(conn, "rule", inverted, entry)
    return inverted, True, events.append(conn, event)


def refuted(conn: Connection, limit: int, after: tuple[str, UUID] | None) -> list[Rule]:
    """Rules of any tenant that are to be turned round, in the order of their ids."""
    if after is None:
        conn.check_sees_all_tenants()
    later = "" if after is None else " AND (m.tenant_id, m.id) > (:tenant_id, :id)"
    rows = conn.fetch_all(
        f"SELECT {SELECTED['rule']} FROM rules AS m WHERE m.needs_inversion AND NOT m.forgotten{later}"
        " ORDER BY m.tenant_id, m.id LIMIT :limit",
        {"limit": limit, **({} if after is None else {"tenant_id": after[0], "id": after[1]})},
    )
    return [_rule(to_item("rule", row)) for row in rows]


def get(conn: Connection, address: Address, *, to_change: bool = False) -> Rule | None:
    found = items.get(conn, address, to_change=to_change)
    return None if found is None else _rule(found)


def _rule(item: Any) -> Rule:
    assert isinstance(item, Rule)
    return item
