"""Which rows a read may see, as one SQL condition on the table alias `m`."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from tulving.domain.model import Kind
from tulving.domain.scope import Bound, Filter
from tulving.storage.connection import Connection
from tulving.storage.rows import TABLES, Row

ALIVE: dict[Kind, str] = {
    "episode": "NOT m.forgotten AND (m.expires_at IS NULL OR m.expires_at > :now)",
    "fact": "m.validity = 'active'",
    "rule": "NOT m.forgotten",
}
_FACT_STATE = {
    "active": "m.validity = 'active' AND m.status IS NULL",
    "fading": "m.validity = 'active' AND m.status = 'fading'",
    "superseded": "m.validity = 'superseded'",
    "expired": "m.validity = 'expired'",
    "retracted": "m.validity IN ('retracted', 'forgotten')",
    "any": "TRUE",
}
# An active memory is due for review at the moment at which it begins to fade. One that came without that moment is
# let through: the formula decides.
_UNFADED = (
    "(m.decay_rate = 0 OR m.last_confirmed_at IS NOT NULL AND (m.status IS NULL OR m.status <> 'fading')"
    " AND (m.next_review_at IS NULL OR m.next_review_at > :now))"
)
_WHEN: dict[Kind, str] = {
    "episode": "COALESCE(m.occurred_at, m.created_at)",
    "fact": "COALESCE(m.occurred_at, m.created_at)",
    "rule": "m.created_at",
}


def reach(kind: Kind, tenant_id: str, bound: Bound) -> tuple[str, Row]:
    """What a connection may read at all, in whatever state (`Bound.covers`). The tenant comes first and is never
    optional."""
    clauses = ["m.tenant_id = :tenant_id"]
    params: Row = {"tenant_id": tenant_id}
    if bound.scope is not None:
        clauses.append("m.butler = :scope" if kind == "episode" else "m.scope IN ('global', :scope)")
        params["scope"] = bound.scope
    for column in ("user_id", "household_id", "persona_id"):
        if (value := getattr(bound.owner, column)) is not None:
            clauses.append(f"m.{column} = :{column}")
            params[column] = value
    if bound.project is not None:
        clauses.append("m.project = :project")
        params["project"] = bound.project
    return " AND ".join(clauses), params


def reachable(conn: Connection, kind: Kind, tenant_id: str, bound: Bound, ids: Collection[UUID]) -> set[UUID]:
    """Those of some memories that exist and that a connection may read."""
    if not ids:
        return set()
    where, params = reach(kind, tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT m.id FROM {TABLES[kind]} AS m WHERE {where} AND {conn.within('m.id', 'ids')}",
        {**params, "ids": list(ids)},
    )
    return {row["id"] for row in rows}


def visible(conn: Connection, kind: Kind, tenant_id: str, wanted: Filter, now: datetime) -> tuple[str, Row]:
    """What a filter leaves of it, as a condition and its parameters."""
    if kind == "fact" and wanted.state:
        alive = _FACT_STATE[wanted.state]
    elif wanted.state == "any":
        alive = "TRUE"
    else:
        alive = ALIVE[kind]
    where, params = reach(kind, tenant_id, wanted)
    clauses = [where, alive]
    params["now"] = now
    if wanted.unfaded and kind != "episode":
        clauses.append(_UNFADED)
    if wanted.type is not None:
        clauses.append("m.type = :type")
        params["type"] = wanted.type
    if wanted.since is not None:
        clauses.append(f"{_WHEN[kind]} >= :since")
        params["since"] = wanted.since
    if wanted.until is not None:
        clauses.append(f"{_WHEN[kind]} < :until")
        params["until"] = wanted.until
    if wanted.tags:
        clauses.append(conn.tagged("m.tags", "tags"))
        params["tags"] = list(wanted.tags)
    return " AND ".join(clauses), params
