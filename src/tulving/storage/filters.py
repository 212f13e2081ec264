"""Which rows a read may see, as one SQL condition on the table alias `m`."""

from datetime import datetime

from tulving.domain.model import Kind
from tulving.domain.scope import Filter
from tulving.storage.connection import Connection
from tulving.storage.rows import Row

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


def visible(conn: Connection, kind: Kind, tenant_id: str, wanted: Filter, now: datetime) -> tuple[str, Row]:
    """The condition and its parameters. The tenant comes first and is never optional."""
    if kind == "fact" and wanted.state:
        alive = _FACT_STATE[wanted.state]
    elif wanted.state == "any":
        alive = "TRUE"
    else:
        alive = ALIVE[kind]
    clauses = ["m.tenant_id = :tenant_id", alive]
    params: Row = {"tenant_id": tenant_id, "now": now}
    if wanted.unfaded and kind != "episode":
        clauses.append(_UNFADED)
    if wanted.scope is not None:
        clauses.append("m.butler = :scope" if kind == "episode" else "m.scope IN ('global', :scope)")
        params["scope"] = wanted.scope
    for column in ("user_id", "household_id", "persona_id"):
        if (value := getattr(wanted.owner, column)) is not None:
            clauses.append(f"m.{column} = :{column}")
            params[column] = value
    for column in ("type", "project"):
        if (value := getattr(wanted, column)) is not None:
            clauses.append(f"m.{column} = :{column}")
            params[column] = value
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
