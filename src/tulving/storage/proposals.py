"""Proposals: what a run of a model would do, held until a person decides."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from tulving.domain.events import Audit
from tulving.domain.learning import Action, Proposal, Run
from tulving.domain.scope import Address, Bound
from tulving.storage import events, runs
from tulving.storage.connection import Connection
from tulving.storage.filters import behind
from tulving.storage.rows import Row, insert_statement

_COLUMNS = tuple(each.name for each in fields(Proposal))
_INSERT = insert_statement("proposals", _COLUMNS)


def hold(conn: Connection, run: Run, action: Action, offer: Mapping[str, Any], reason: str, audit: Audit) -> bool:
    """Keep an action for a person; False if the same one is held already."""
    same = {"tenant_id": run.tenant_id, "owner": run.owner, "action": action}
    about = {name: offer.get(name) for name in ("target_id", "subject", "predicate", "content")}
    equal = " AND ".join(f"offer ->> '{name}' {f'= :{name}' if about[name] else 'IS NULL'}" for name in about)
    if _where(conn, f"action = :action AND owner = :owner AND {equal}", {**same, **about}):
        return False
    params = {**same, "id": audit.new_id(), "run_id": run.id, "offer": offer, "reason": reason}
    conn.execute(_INSERT, {**params, "created_at": audit.now})
    events.append(conn, audit.event("proposal_held", "proposal", params["id"], action=action))
    return True


def listing(conn: Connection, tenant_id: str, bound: Bound, limit: int, after: Sequence[Any] | None) -> list[Proposal]:
    """What waits for a person's decision, oldest first; `after` is the place of the last one of the previous page."""
    where, params = _reach(tenant_id, bound)
    beyond, place = behind(after, "created_at", "id", comparison=">")
    return _where(conn, f"{where} AND {beyond}", {**params, **place, "limit": limit}, " LIMIT :limit")


def count_held(conn: Connection, tenant_id: str, bound: Bound) -> Counter[UUID]:
    """How many proposals that a caller may see wait for a person, by their runs."""
    where, params = _reach(tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT run_id, COUNT(*) AS waiting FROM proposals WHERE tenant_id = :tenant_id AND {where} GROUP BY run_id",
        params,
    )
    return Counter({row["run_id"]: row["waiting"] for row in rows})


def of_ids(conn: Connection, tenant_id: str, bound: Bound, ids: Sequence[UUID]) -> list[Proposal]:
    """The proposals with these ids, or of the runs with these ids."""
    where, params = _reach(tenant_id, bound)
    which = f"({conn.within('id', 'ids')} OR {conn.within('run_id', 'ids')})"
    return _where(conn, f"{where} AND {which}", {**params, "ids": list(ids)})


def remove(conn: Connection, proposal: Proposal, decision: str, audit: Audit) -> bool:
    """A person has decided, and nothing remains but an event; False if it is gone already."""
    removed = conn.execute(
        "DELETE FROM proposals WHERE tenant_id = :tenant_id AND id = :id",
        {"tenant_id": proposal.tenant_id, "id": proposal.id},
    )
    if removed:
        events.append(conn, audit.event(f"proposal_{decision}", "proposal", proposal.id, run=str(proposal.run_id)))
    return bool(removed)


def learned_from(conn: Connection, episode: Address) -> list[Proposal]:
    """What is held and has this episode as its only source."""
    found = _where(conn, "TRUE", {"tenant_id": episode.tenant_id})
    return [proposal for proposal in found if proposal.offer.get("evidence") == [str(episode.id)]]


def _reach(tenant_id: str, bound: Bound) -> tuple[str, Row]:
    """The condition for what a caller may see: that of one owner and agent, if it is bound to them."""
    reached, mine = runs.reach(bound)
    of_runs = f"run_id IN (SELECT id FROM learning_runs WHERE tenant_id = :tenant_id AND {reached})"
    return of_runs if mine else "TRUE", {"tenant_id": tenant_id, **mine}


def _where(conn: Connection, condition: str, params: Mapping[str, Any], most: str = "") -> list[Proposal]:
    rows = conn.fetch_all(
        f"SELECT {', '.join(_COLUMNS)} FROM proposals WHERE tenant_id = :tenant_id AND {condition}"
        f" ORDER BY created_at, id{most}",
        params,
    )
    return [Proposal(**row) for row in rows]
