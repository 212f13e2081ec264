"""What language models learn from: the episodes that are due, and what is known already."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.learning import (
    FACTS_SHOWN,
    RULES_SHOWN,
    Group,
    Run,
    after_failure,
    batch,
)
from tulving.domain.model import KINDS, Episode, Fact, Kind, Rule
from tulving.domain.scope import Address, Bound, Owner, address_of
from tulving.settings import LearningConfig
from tulving.storage import items, timeline
from tulving.storage.connection import Connection
from tulving.storage.filters import reach
from tulving.storage.kinds import KIND

log = logging.getLogger("tulving")

_OWNERS = "user_id, household_id, persona_id"
_DUE = """NOT m.forgotten AND m.consolidation_status = 'pending'
    AND (m.next_consolidation_retry_at IS NULL OR m.next_consolidation_retry_at <= :now)"""


@dataclass(frozen=True, slots=True)
class Material:
    """What a model is shown: episodes to learn from, and what is known already. `silent` episodes say nothing of their
    own, so they are not shown."""

    episodes: Sequence[Episode] = ()
    facts: Sequence[Fact] = ()
    rules: Sequence[Rule] = ()
    silent: Sequence[Episode] = ()

    def address(self, id_: UUID) -> Address | None:
        """Where a fact or rule that was shown is."""
        found = next((item for item in (*self.facts, *self.rules) if item.id == id_), None)
        return None if found is None else address_of(found)

    @property
    def ids(self) -> dict[str, list[str]]:
        return {name: [str(item.id) for item in getattr(self, name)] for name in ("episodes", "facts", "rules")}


def groups(conn: Connection, tenant_id: str, bound: Bound, now: datetime, butler: str | None) -> list[Group]:
    """001-044: the episodes that a caller may learn from now, by agent and owner; those that wait the longest first."""
    where, params = reach("episode", tenant_id, bound)
    if butler is not None:
        where, params["butler"] = f"{where} AND m.butler = :butler", butler
    rows = conn.fetch_all(
        f"SELECT butler, {_OWNERS}, COUNT(*) AS episodes FROM episodes AS m WHERE {where} AND {_DUE}"
        f" GROUP BY butler, owner, {_OWNERS} ORDER BY MIN(m.created_at), butler, owner",
        {**params, "now": now},
    )
    return [Group(row.pop("butler"), episodes=row.pop("episodes"), owner=Owner(**row)) for row in rows]


def shards(conn: Connection, as_of: datetime) -> list[tuple[str, str]]:
    """Every tenant and agent with episodes that are due."""
    conn.check_sees_all_tenants()
    rows = conn.fetch_all(
        f"SELECT DISTINCT tenant_id, butler FROM episodes AS m WHERE {_DUE} ORDER BY tenant_id, butler", {"now": as_of}
    )
    return [(row["tenant_id"], row["butler"]) for row in rows]


def material(
    conn: Connection, tenant_id: str, bound: Bound, butler: str, settings: LearningConfig, now: datetime
) -> Material:
    """The next episodes of an owner, oldest first, and what is known about that owner."""
    where, params = reach("episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"{KIND['episode'].select} WHERE {where} AND m.butler = :butler AND m.owner = :owner AND {_DUE}"
        " ORDER BY m.created_at, m.id LIMIT :most",
        {**params, "butler": butler, "owner": bound.owner.key, "now": now, "most": settings.episodes_at_a_time},
    )
    waiting = [Episode(**row) for row in timeline.restored(conn, rows)]
    episodes = batch(waiting, settings.episodes_at_a_time, settings.max_attempts)
    return Material(episodes, *known(conn, tenant_id, bound.owner, butler))


def shown(conn: Connection, run: Run) -> Material:
    """What the prompt of a run has shown, as far as it is still there: nothing else may be referred to."""

    def of_kind(kind: Kind) -> list[Any]:
        table, ids = KIND[kind], [UUID(id_) for id_ in run.shown.get(KIND[kind].table, ())]
        rows = conn.fetch_all(
            f"{table.select} WHERE m.tenant_id = :tenant_id AND {conn.within('m.id', 'ids')} AND {table.in_use}"
            " ORDER BY m.created_at, m.id",
            {"tenant_id": run.tenant_id, "ids": ids},
        )
        return [table.item(row) for row in timeline.restored(conn, rows)]

    return Material(*(of_kind(kind) for kind in KINDS))


def known(conn: Connection, tenant_id: str, owner: Owner, scope: str) -> tuple[list[Fact], list[Rule]]:
    """The facts and rules in use of one owner, in a namespace and the global one, the latest confirmed first."""

    def latest(kind: Kind, most: int) -> list[Any]:
        table = KIND[kind]
        rows = conn.fetch_all(
            f"{table.select} WHERE m.tenant_id = :tenant_id AND m.owner = :owner AND {table.scoped} AND {table.in_use}"
            " ORDER BY COALESCE(m.last_confirmed_at, m.created_at) DESC, m.id LIMIT :most",
            {"tenant_id": tenant_id, "owner": owner.key, "scope": scope, "most": most},
        )
        return [table.item(row) for row in rows]

    return latest("fact", FACTS_SHOWN), latest("rule", RULES_SHOWN)


def fail(conn: Connection, run: Run, ids: Iterable[UUID], error: str, max_attempts: int, now: datetime) -> None:
    """The model's answer about these episodes was of no use: they are tried again later, or given up."""
    for episode in episodes_of(conn, run.tenant_id, ids):
        changes = after_failure(episode, error, max_attempts, now)
        items.update(conn, (episode, replace(episode, **changes, updated_at=now)))


def episodes_of(conn: Connection, tenant_id: str, ids: Iterable[UUID]) -> list[Episode]:
    """These episodes, as far as they still wait to be learned from, oldest first; locked until the transaction ends."""
    rows = conn.fetch_all(
        f"{KIND['episode'].select} WHERE m.tenant_id = :tenant_id AND {conn.within('m.id', 'ids')}"
        f" AND NOT m.forgotten AND m.consolidation_status = 'pending' ORDER BY m.created_at, m.id{conn.for_update}",
        {"tenant_id": tenant_id, "ids": list(ids)},
    )
    return [Episode(**row) for row in timeline.restored(conn, rows)]
