"""Values that a person has forgotten or deleted. What remains of them is a keyed hash, so that no model stores them
again; a person may."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.editing import in_use
from tulving.domain.events import Audit, Unkeyed
from tulving.domain.messages import whose
from tulving.domain.model import Episode, Fact, Item, Rule
from tulving.domain.scope import Address, Bound, address_of
from tulving.storage import events, items, links, proposals, runs
from tulving.storage.connection import Connection
from tulving.storage.kinds import table_of

NewId = Callable[[], UUID]
_NOTE = """INSERT INTO forgotten_values (tenant_id, hash, created_at) VALUES (:tenant_id, :hash, :created_at)
    ON CONFLICT (tenant_id, hash) DO UPDATE SET created_at = excluded.created_at"""


def forget(conn: Connection, address: Address, audit: Audit, bound: Bound, derived: bool = False) -> bool:
    """`items.forget` by a person; `derived` also forgets what was learned from this memory alone."""
    learned = derived_alone(conn, address, bound) if derived else []
    for each in (address, *map(address_of, learned)):
        gone = _gone(_note(conn, each, audit))
        if not items.forget(conn, each, audit.event(f"{each.kind}_forgotten", each.kind, each.id, **gone)):
            return False
    _withdraw(conn, address, audit)
    return True


def delete(conn: Connection, address: Address, audit: Audit) -> bool:
    """`items.delete` by a person."""
    gone = _gone(_note(conn, address, audit))
    _withdraw(conn, address, audit)
    return items.delete(conn, address, audit.event(f"{address.kind}_deleted", address.kind, address.id, **gone))


def derived_alone(conn: Connection, address: Address, bound: Bound) -> list[Item]:
    """What is in use, may be changed, and was learned from this memory and from nothing else."""
    found = [items.get(conn, each) for each in links.derived_alone(conn, address)]
    return [item for item in found if item is not None and in_use(item) and bound.may_change(item)]


def permit(conn: Connection, item: Item, new_id: NewId) -> None:
    """A person wants this value after all."""
    conn.execute(
        "DELETE FROM forgotten_values WHERE tenant_id = :tenant_id AND hash = :hash",
        {"tenant_id": item.tenant_id, "hash": _hash(conn, item, new_id)},
    )


def note(conn: Connection, item: Item, audit: Audit) -> None:
    """Keep the hash of a value that a person does not want."""
    if not isinstance(item, Episode):
        hashed = {"tenant_id": item.tenant_id, "hash": _hash(conn, item, audit.new_id)}
        conn.execute(_NOTE, {**hashed, "created_at": audit.now})


def is_unwanted(conn: Connection, item: Fact | Rule, new_id: NewId) -> bool:
    """Whether a person has forgotten this value and nobody but a model has stored it since."""
    noted = noted_at(conn, item, new_id)
    if noted is None:
        return False
    kind = table_of(item)
    stored_again = conn.fetch_all(
        f"{kind.select} WHERE m.tenant_id = :tenant_id AND m.owner = :owner AND m.content_hash = :content_hash"
        f" AND m.created_at >= :since AND m.run_id IS NULL AND {kind.kept}",
        {**kind.params(item), "since": noted},
    )
    return not any(_value(kind.item(row)) == _value(item) for row in stored_again)


def noted_at(conn: Connection, item: Item, new_id: NewId) -> datetime | None:
    """When a person last forgot, deleted or rejected this value."""
    row = conn.fetch_one(
        "SELECT created_at FROM forgotten_values WHERE tenant_id = :tenant_id AND hash = :hash",
        {"tenant_id": item.tenant_id, "hash": _hash(conn, item, new_id)},
    )
    return row["created_at"] if row else None


def _withdraw(conn: Connection, address: Address, audit: Audit) -> None:
    """What was learned from an episode alone is not proposed any more."""
    for proposal in proposals.learned_from(conn, address) if address.kind == "episode" else ():
        proposals.remove(conn, proposal, "withdrawn", audit)
        runs.settle(conn, proposal.tenant_id, proposal.run_id)


def _note(conn: Connection, address: Address, audit: Audit) -> Item | None:
    if (item := items.get(conn, address, to_change=True)) is not None:
        note(conn, item, audit)
    return item


def _gone(item: Item | None) -> dict[str, Any]:
    return whose(table_of(item).params(item)) if isinstance(item, Episode) else {}


def _hash(conn: Connection, item: Item, new_id: NewId) -> str:
    return events.keyed(conn, item.tenant_id, Unkeyed(repr(_value(item)), new_id))


def _value(item: Item) -> tuple[str | None, ...]:
    """What makes two memories say the same: owner, key and content. The namespace does not count."""
    if isinstance(item, Fact) and item.keyed:
        return "fact", item.owner, claims.folded(item.subject), claims.folded(item.predicate), item.content_hash
    return type(item).__name__, item.owner, item.content_hash
