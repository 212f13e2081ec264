"""The merge rules of a tenant: one row with what each rule says itself. Without a row there is the default rule."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from tulving.domain.events import Audit, Event
from tulving.domain.merge_rules import MergeRuleRegistry, RuleEvent
from tulving.errors import IntegrityError, InvalidInput
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.rows import insert_statement

T = TypeVar("T")

_GET = "SELECT rules, version FROM merge_rules WHERE tenant_id = :tenant_id"
_PUT = (
    insert_statement("merge_rules", ("tenant_id", "rules", "version", "updated_at"))
    + " ON CONFLICT (tenant_id) DO UPDATE SET rules = excluded.rules, version = excluded.version,"
    " updated_at = excluded.updated_at"
)


def load(conn: Connection, tenant_id: str) -> MergeRuleRegistry:
    """The rules of a tenant. Rules that were changed by hand and make no sense are an error of this tenant alone."""
    row = conn.fetch_one(_GET, {"tenant_id": tenant_id})
    try:
        return MergeRuleRegistry() if row is None else MergeRuleRegistry(row["rules"], row["version"])
    except InvalidInput as error:
        problem = f"the merge rules of {tenant_id} can't be read: {error}"
        raise IntegrityError(f"{problem}; correct or delete their row in the table merge_rules") from error


def change(conn: Connection, tenant_id: str, verb: Callable[[MergeRuleRegistry], T], audit: Audit) -> T:
    """Apply a verb to the rules of a tenant, with an event for each rule that it changes."""
    conn.lock(repr(("merge_rules", tenant_id)))
    registry, told = load(conn, tenant_id), list[RuleEvent]()
    registry.subscribe(told.append)
    answer = verb(registry)
    if told:
        row = {"tenant_id": tenant_id, "rules": registry.export_rules(), "version": registry.version}
        conn.execute(_PUT, {**row, "updated_at": audit.now})
        events.append(conn, *(_recorded(event, audit) for event in told))
    return answer


def unreadable(conn: Connection) -> Iterator[str]:
    """What is wrong with the rules of any tenant."""
    for row in conn.fetch_all("SELECT tenant_id FROM merge_rules ORDER BY tenant_id"):
        try:
            load(conn, row["tenant_id"])
        except IntegrityError as error:
            yield str(error)


def _recorded(event: RuleEvent, audit: Audit) -> Event:
    event_type = f"merge_rule_{event.type.removeprefix('rule:')}"
    return audit.event(event_type, "merge_rule", None, name=event.name, config=event.config)
