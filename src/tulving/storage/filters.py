"""Which rows a read may return, as one SQL condition on the table alias `m`."""

from collections.abc import Collection, Sequence
from datetime import datetime
from string import ascii_lowercase
from typing import Any
from uuid import UUID

from tulving.domain.model import Kind
from tulving.domain.scope import Bound, Filter
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

# An active memory is due for review when it begins to fade. One without a review date passes the filter: the formula
# decides.
_UNFADED = (
    "(m.decay_rate = 0 OR m.last_confirmed_at IS NOT NULL AND (m.status IS NULL OR m.status <> 'fading')"
    " AND (m.next_review_at IS NULL OR m.next_review_at > :now))"
)
_BESIDE = (
    "NOT m.keyed AND m.scope = :its_scope AND m.owner = :its_owner AND COALESCE(m.project, '') = :its_project"
    " AND m.id <> :its_id"
)

_EQUAL = ("type", "session_id", "source", "entity_id")
"""What a filter may ask for that a column holds as it is."""


def reach(kind: Kind, tenant_id: str, bound: Bound) -> tuple[str, Row]:
    """What a connection may read at all, in any state (`Bound.covers`). The tenant is never optional."""
    clauses = ["m.tenant_id = :tenant_id"]
    params: Row = {"tenant_id": tenant_id}
    if bound.scope is not None:
        clauses.append(KIND[kind].scoped)
        params["scope"] = bound.scope
    for column in ("user_id", "household_id", "persona_id"):
        if (value := getattr(bound.owner, column)) is not None:
            clauses.append(f"m.{column} = :{column}")
            params[column] = value
    if bound.project is not None:
        clauses.append("m.project = :project")
        params["project"] = bound.project
    return " AND ".join(clauses), params


def of_tenant(tenant_id: str | None, condition: str) -> tuple[str, Row]:
    """A condition on the rows of one tenant, or (None) on all rows that the connection sees."""
    if tenant_id is None:
        return condition, {}
    return f"m.tenant_id = :tenant_id AND {condition}", {"tenant_id": tenant_id}


def reach_or_all(conn: Connection, kind: Kind, tenant_id: str | None, bound: Bound) -> tuple[str, Row]:
    """What one caller may read, or (None) the memories of all tenants; raises if not all of them are visible."""
    if tenant_id is not None:
        return reach(kind, tenant_id, bound)
    conn.check_sees_all_tenants()
    return "TRUE", {}


def reachable(conn: Connection, kind: Kind, tenant_id: str, bound: Bound, ids: Collection[UUID]) -> set[UUID]:
    """The ids among these that exist and that a connection may read."""
    if not ids:
        return set()
    where, params = reach(kind, tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT m.id FROM {KIND[kind].table} AS m WHERE {where} AND {conn.within('m.id', 'ids')}",
        {**params, "ids": list(ids)},
    )
    return {row["id"] for row in rows}


def behind(place: Sequence[Any] | None, *order: str, comparison: str = "<") -> tuple[str, Row]:
    """What follows a place in a listing in this order, which descends (`<`) or ascends (`>`); everything without a
    place. An index is used for the comparison even if it has the first columns only."""
    if place is None:
        return "TRUE", {}
    params = {f"after_{letter}": part for letter, part in zip(ascii_lowercase, place, strict=False)}
    return f"({', '.join(order)}) {comparison} ({', '.join(f':{name}' for name in params)})", params


def visible(conn: Connection, kind: Kind, tenant_id: str, wanted: Filter, now: datetime) -> tuple[str, Row]:
    """The rows that a filter lets through, as a condition and its parameters."""
    table = KIND[kind]
    where, params = reach(kind, tenant_id, wanted)
    clauses = [where]
    params["now"] = now
    if wanted.as_of is not None:
        clauses += [table.kept, f"{table.dated_by} <= :as_of"]
        params["as_of"] = wanted.as_of
    if wanted.state is not None:
        clauses.append({"any": "TRUE", **table.states}[wanted.state])
    else:
        clauses.append(table.alive if wanted.as_of is None else table.lasting)
    if not wanted.archived and table.at_hand != "TRUE":
        clauses.append(table.at_hand)
    if wanted.unfaded and table.reviewed and wanted.as_of is None:
        clauses.append(_UNFADED)
    if wanted.beside is not None:
        clauses.append(_BESIDE)
        params |= {f"its_{name}": getattr(wanted.beside, name) or "" for name in ("id", "scope", "owner", "project")}
    for column in _EQUAL:
        if (value := getattr(wanted, column)) is not None:
            clauses.append(f"m.{column} = :its_{column}")
            params[f"its_{column}"] = value
    if wanted.keyed is not None:
        clauses.append("m.keyed" if wanted.keyed else "NOT m.keyed")
    if wanted.since is not None:
        clauses.append(f"{table.dated_by} >= :since")
        params["since"] = wanted.since
    if wanted.until is not None:
        clauses.append(f"{table.dated_by} < :until")
        params["until"] = wanted.until
    if wanted.tags:
        clauses.append(conn.tagged("m.tags", "tags"))
        params["tags"] = list(wanted.tags)
    return " AND ".join(clauses), params
