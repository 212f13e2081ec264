"""Rules: marks of how their use turned out, and the inversion of harmful ones."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tulving.domain import maturity
from tulving.domain.events import Audit, Event
from tulving.domain.maturity import Mark
from tulving.domain.model import Rule
from tulving.domain.scope import Address, Bound, address_of
from tulving.errors import NotFound
from tulving.storage import edits, events, items
from tulving.storage.connection import Connection
from tulving.storage.filters import reach_or_all, reachable
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, insert_statement

_APPLY = insert_statement("rule_applications", ("tenant_id", "id", "rule_id", "outcome", "applied_at", "context"))


def mark(
    conn: Connection,
    address: Address,
    outcome: maturity.Use,
    reason: str | None,
    context: Mapping[str, Any] | None,
    audit: Audit,
) -> Rule:
    """001-090, 001-091, 001-118: record one more use of a rule and update its standing."""
    rule = get(conn, address, to_change=True)
    if rule is None:
        raise NotFound(f"Rule not found: {address.id}")
    helpful = outcome == "helpful"
    marked = maturity.marked_helpful(rule, audit.now) if helpful else maturity.marked_harmful(rule, reason, audit.now)
    items.update(conn, (rule, marked))
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
    return marked


def marks(conn: Connection, tenant_id: str, bound: Bound, ids: Sequence[UUID], most: int) -> dict[UUID, list[Mark]]:
    """The latest marks of each of these rules, oldest first."""
    seen = reachable(conn, "rule", tenant_id, bound, ids)
    found: dict[UUID, list[Mark]] = {}
    for id_ in seen:
        rows = conn.fetch_all(
            "SELECT rule_id, outcome, applied_at FROM rule_applications"
            " WHERE tenant_id = :tenant_id AND rule_id = :rule_id ORDER BY applied_at DESC, id DESC LIMIT :limit",
            {"tenant_id": tenant_id, "rule_id": id_, "limit": most},
        )
        found[id_] = [Mark(**row) for row in reversed(rows)]
    return found


def invert(conn: Connection, made: Rule, entry: IndexEntry, event: Event) -> tuple[Rule | None, bool]:
    """001-013: replace a rule by the warning `made`, if that still matches the rule.

    Returns the current rule and whether that is final: it is not if reasons were added in between, which `made` lacks.
    None for a rule that was deleted or is no longer refuted.
    """
    rule = get(conn, address_of(made), to_change=True)
    if rule is not None and rule.maturity == "anti_pattern":
        return rule, True
    if rule is None or not maturity.is_refuted(rule):
        return None, True
    inverted = maturity.inverted(rule, event.occurred_at)
    if inverted.content != made.content:
        return rule, False
    edits.keep(conn, rule, event.occurred_at)
    items.update(conn, (rule, inverted))
    edits.reindex(conn, inverted, entry)
    events.append(conn, event)
    return inverted, True


def refuted(conn: Connection, tenant_id: str | None, bound: Bound, limit: int, after: Rule | None) -> list[Rule]:
    """Rules of one caller, or (None) of all tenants, that are due for inversion, in the order of their ids."""
    where, params = reach_or_all(conn, "rule", tenant_id, bound)
    if after is not None:
        where += " AND (m.tenant_id, m.id) > (:after_tenant, :after_id)"
        params |= {"after_tenant": after.tenant_id, "after_id": after.id}
    rows = conn.fetch_all(
        f"{KIND['rule'].select} WHERE {where} AND m.needs_inversion AND NOT m.forgotten"
        " ORDER BY m.tenant_id, m.id LIMIT :limit",
        {**params, "limit": limit},
    )
    return [_rule(KIND["rule"].item(row)) for row in rows]


def get(conn: Connection, address: Address, *, to_change: bool = False) -> Rule | None:
    found = items.get(conn, address, to_change=to_change)
    return None if found is None else _rule(found)


def _rule(item: Any) -> Rule:
    assert isinstance(item, Rule)
    return item
