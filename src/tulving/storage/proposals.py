"""Proposals: what a run of a model would do, held until a person decides."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from tulving.domain.events import Audit
from tulving.domain.learning import Action, Proposal, Run
from tulving.domain.scope import Address, Bound
from tulving.storage import events, runs
from tulving.storage.connection import Connection
from tulving.storage.rows import insert_statement

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


def held(conn: Connection, tenant_id: str, bound: Bound, condition: str = "TRUE", **params: Any) -> list[Proposal]:
    """All that waits for a person's decision, oldest first; of one owner and agent, if the caller is bound to them."""
    reached, mine = runs.reach(bound)
    if mine:
        condition += f" AND run_id IN (SELECT id FROM learning_runs WHERE tenant_id = :tenant_id AND {reached})"
    return _where(conn, condition, {"tenant_id": tenant_id, **mine, **params})


def of_ids(conn: Connection, tenant_id: str, bound: Bound, ids: Sequence[UUID]) -> list[Proposal]:
    """The proposals with these ids, or of the runs with these ids."""
    which = f"({conn.within('id', 'ids')} OR {conn.within('run_id', 'ids')})"
    return held(conn, tenant_id, bound, which, ids=list(ids))


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
    found = held(conn, episode.tenant_id, Bound())
    return [proposal for proposal in found if proposal.offer.get("evidence") == [str(episode.id)]]


def _where(conn: Connection, condition: str, params: Mapping[str, Any]) -> list[Proposal]:
    rows = conn.fetch_all(
        f"SELECT {', '.join(_COLUMNS)} FROM proposals WHERE tenant_id = :tenant_id AND {condition}"
        " ORDER BY created_at, id",
        params,
    )
    return [Proposal(**row) for row in rows]
