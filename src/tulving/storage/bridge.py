"""The bridge from episodes to facts: it follows the audit trail, makes facts of some episodes, and settles what becomes
of them when their episodes are gone. Each batch of events is one transaction with the cursor that it moves, so that it
takes effect once, however many processes run the bridge."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.editing import in_use
from tulving.domain.events import Audit, Event
from tulving.domain.messages import PRUNED, SAVED, TOPIC_OF, Cursor, Read, pruned_because
from tulving.domain.model import Episode, Fact, Link, Settlement
from tulving.domain.routing import BRIDGE, Policy, becomes_fact, demoted, fate, lag_ms
from tulving.domain.scope import Address, Bound, Owner, address_of
from tulving.errors import DamagedStore, EmbedderMismatch, IntegrityError, InvalidInput
from tulving.ports import Finding
from tulving.settings import ConflictsConfig
from tulving.storage import event_stream, events, facts, forgotten, items, links, timeline, timelines
from tulving.storage.connection import Connection, Interrupted, savepoint
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, insert_statement

log = logging.getLogger("tulving")

NAME = BRIDGE
"""Of the cursor."""
BY_OTHERS = ("fact_confirmed", "fact_edited", "fact_restated", "fact_restored", "link_created")
"""Events by which someone other than the bridge has vouched for a fact."""
_BRIDGE = insert_statement("bridged_facts", ("tenant_id", "episode_id", "fact_id", "created_at"))
_PAST = {"demote": "demoted", "forget": "forgotten", "delete": "deleted"}

Offer = tuple[Episode, Fact, IndexEntry]


@dataclass(frozen=True, slots=True)
class Due:
    """What the bridge of a tenant has to do next: the events after its place, and the episodes that they announce.
    Nothing is done while the timeline has a `warning`."""

    place: Cursor
    state: Mapping[str, Any]
    events: Sequence[Read]
    episodes: Sequence[Episode]
    warning: str | None
    more: bool

    @property
    def concerned(self) -> bool:
        """Whether any of the events is for the bridge."""
        return any(TOPIC_OF.get(event.event_type) in (SAVED, PRUNED) for _, event in self.events)

    @property
    def suspended(self) -> bool:
        return bool(self.state.get("suspended"))


@dataclass(slots=True)
class Carried:
    """What came of a batch."""

    counts: Counter[str] = field(default_factory=Counter)
    merges: list[Settlement] = field(default_factory=list)


def tenants(conn: Connection) -> list[str]:
    """The tenants that have episodes, or whose bridge has begun."""
    conn.check_sees_all_tenants()
    rows = conn.fetch_all(
        "SELECT tenant_id FROM episodes UNION SELECT tenant_id FROM event_cursors WHERE name = :name",
        {"name": NAME},
    )
    return sorted(row["tenant_id"] for row in rows)


def begin(conn: Connection, tenant_id: str, since: datetime | None, now: datetime) -> None:
    """The bridge begins with the events of a moment, unless it has begun before; without a moment, with all events,
    whether it has begun or not. A place that is ahead of the store, which was restored, does not count."""
    at = Cursor() if since is None else event_stream.since(conn, tenant_id, since)
    event_stream.begin(conn, tenant_id, NAME, at, now)
    known = event_stream.cursor(conn, tenant_id, NAME, to_change=True)
    if known is not None and (since is None or known[0] > event_stream.end(conn, tenant_id)):
        event_stream.move(conn, tenant_id, NAME, at, known[1], now)


def due(conn: Connection, tenant_id: str) -> Due | None:
    """What is to be done next; None before the bridge has begun."""
    known = event_stream.cursor(conn, tenant_id, NAME)
    if known is None or known[0] > event_stream.end(conn, tenant_id):
        return None
    place, state = known
    found = event_stream.read(conn, tenant_id, place)
    saved = [event.entity_id for _, event in found if TOPIC_OF.get(event.event_type) == SAVED and event.entity_id]
    its, episodes = timelines.find(conn, tenant_id), _episodes(conn, tenant_id, saved, "")
    # Damage that nobody has noticed yet.
    lost = (each.metadata["unreadable"] for each in episodes if not each.content and "unreadable" in each.metadata)
    warning = its["warning"] if its and its["warning"] else next(lost, None)
    return Due(place, state, found, episodes, warning, len(found) == event_stream.BATCH)


def suspend(conn: Connection, seen: Due, audit: Audit) -> None:
    """000-021: say once that the bridge waits for the timeline to recover."""
    tenant_id = audit.caller.tenant_id
    known = event_stream.cursor(conn, tenant_id, NAME, to_change=True)
    if known is not None and not known[1].get("suspended"):
        event_stream.move(conn, tenant_id, NAME, known[0], {**known[1], "suspended": True}, audit.now)
        events.append(conn, audit.event("bridge_suspended", "bridge", None, warning=seen.warning))


def carry_out(
    conn: Connection,
    seen: Due,
    offers: Sequence[Offer],
    policy: Policy,
    conflicts: ConflictsConfig,
    audit: Audit,
) -> Carried | None:
    """Do what was seen to be due. None, without any effect, if another process has done it, or if an episode has
    changed since: then it is to be read again."""
    tenant_id, now = audit.caller.tenant_id, audit.now
    if event_stream.cursor(conn, tenant_id, NAME, to_change=True) != (seen.place, seen.state):
        return None
    lasting = {each.id: each for each in _episodes(conn, tenant_id, [e.id for e, _, _ in offers], conn.for_update)}
    if any(episode.id in lasting and lasting[episode.id].content != episode.content for episode, _, _ in offers):
        return None
    carried, offered = Carried(), [fact for _, fact, _ in offers]
    conn.lock(*map(claims.key, offered), *map(claims.neighbourhood, offered))
    for episode, fact, entry in offers:
        kept = lasting.get(episode.id)
        wanted = kept is not None and becomes_fact(kept, policy, now)
        what = _ingest(conn, episode, fact, entry, conflicts, audit, carried) if wanted else "skipped"
        carried.counts[what] += 1
    announced = sum(TOPIC_OF.get(event.event_type) == SAVED for _, event in seen.events)
    carried.counts["skipped"] += announced - len(offers)
    pruned: dict[str, list[Event]] = {}
    for _, event in seen.events:
        if TOPIC_OF.get(event.event_type) == PRUNED:
            pruned.setdefault(pruned_because(event), []).append(event)
    for reason, gone in pruned.items():
        carried.counts += _reconcile(conn, gone, reason, audit)
    carried.counts["handled"] = announced + sum(map(len, pruned.values()))
    event_stream.move(conn, tenant_id, NAME, seen.events[-1][0], _noted(conn, seen, carried, audit), now)
    return carried


def _noted(conn: Connection, seen: Due, carried: Carried, audit: Audit) -> dict[str, Any]:
    """000-019: the diagnostics of the bridge after a batch."""
    totals = Counter({name: value for name, value in seen.state.items() if type(value) is int})
    ours = [event.occurred_at for _, event in seen.events if TOPIC_OF.get(event.event_type) in (SAVED, PRUNED)]
    return {
        **(totals + carried.counts),
        "timelineLagMs": lag_ms(ours[0] if ours else None, audit.now),
        "segmentCount": segment_count(conn, audit.caller.tenant_id),
        "suspended": False,
    }


def finding(conn: Connection, tenant_id: str) -> Finding:
    """What `health` says about a tenant's bridge."""
    found = due(conn, tenant_id)
    if found is None:
        return Finding("bridge", note="has not begun")
    wrong = (f"suspended until the timeline is well again: {found.warning}",) if found.warning else ()
    note = f"{found.state.get('ingested', 0)} facts of {found.state.get('handled', 0)} events"
    return Finding("bridge", wrong, note)


def segment_count(conn: Connection, tenant_id: str) -> int:
    row = conn.fetch_one(
        "SELECT COUNT(*) AS segments FROM timeline_segments WHERE tenant_id = :tenant_id", {"tenant_id": tenant_id}
    )
    return row["segments"] if row else 0


def _ingest(
    conn: Connection,
    episode: Episode,
    fact: Fact,
    entry: IndexEntry,
    conflicts: ConflictsConfig,
    audit: Audit,
    carried: Carried,
) -> str:
    """Make a fact of an episode; returns how to count it. An error concerns this episode alone."""
    try:
        with savepoint(conn):
            if _facts_of(conn, episode.tenant_id, [episode.id]):
                return "skipped"
            if forgotten.is_unwanted(conn, fact, audit.new_id):
                return "unwanted"
            [stored] = facts.store(conn, [(fact, entry, {})], audit, Bound(), conflicts)
            ours = fact.id if stored.outcome != "duplicate" else stored.id
            if stored.outcome != "duplicate" or _is_ours(conn, episode.tenant_id, ours):
                _record(conn, episode, ours, audit.now)
            if stored.conflict is not None and stored.conflict.merged_id is not None:
                carried.merges.append(stored.conflict)
            return "duplicates" if stored.outcome == "duplicate" else "ingested"
    except (DamagedStore, EmbedderMismatch, Interrupted):  # they concern the whole store, or the whole transaction
        raise
    except (InvalidInput, IntegrityError) as error:
        told = "" if isinstance(error, IntegrityError) else f": {error}"  # the database may quote the row
        log.warning("the bridge could not make a fact of the episode %s: %s%s", episode.id, type(error).__name__, told)
        return "failed"


def _record(conn: Connection, episode: Episode, fact_id: UUID, now: datetime) -> None:
    key = {"tenant_id": episode.tenant_id, "episode_id": episode.id, "fact_id": fact_id}
    conn.execute(f"{_BRIDGE} ON CONFLICT DO NOTHING", {**key, "created_at": now})
    link = Link(
        source_type="fact",
        source_id=fact_id,
        target_type="episode",
        target_id=episode.id,
        relation="derived_from",
        created_at=now,
    )
    links.insert(conn, episode.tenant_id, link)


def _reconcile(conn: Connection, gone: Sequence[Event], reason: str, audit: Audit) -> Counter[str]:
    """000-020: demote, forget or delete the facts that the bridge made of episodes that are gone, and for which nothing
    else speaks."""
    tenant_id, counts = audit.caller.tenant_id, Counter[str]()
    by_episode = {event.entity_id: event for event in gone}
    asked = [id_ for id_ in by_episode if id_ is not None]
    # The rows count, not what an imported event says.
    there = {episode.id for episode in _episodes(conn, tenant_id, asked, "") if not episode.forgotten}
    ids = [id_ for id_ in asked if id_ not in there]
    made = _facts_of(conn, tenant_id, ids)
    if not made:
        return counts
    conn.execute(
        f"DELETE FROM bridged_facts WHERE tenant_id = :tenant_id AND {conn.within('episode_id', 'ids')}",
        {"tenant_id": tenant_id, "ids": ids},
    )
    for fact_id, episode_id in made.items():
        fact = items.get(conn, Address(tenant_id, "fact", fact_id), to_change=True)
        if isinstance(fact, Fact) and _same_owner(by_episode[episode_id], fact):
            counts[_settle(conn, fact, reason, audit)] += 1
    reconciled = audit.event(
        "bridge_reconciled", "bridge", None, reason=reason, ids=[str(id_) for id_ in ids], **counts
    )
    events.append(conn, reconciled)
    log.info("%d episodes are gone (%s), and of their facts: %s", len(ids), reason, dict(counts))
    return counts


def _settle(conn: Connection, fact: Fact, reason: str, audit: Audit) -> str:
    address, what = address_of(fact), fate(reason)
    if _is_supported(conn, address) or (what == "demote" and not in_use(fact)):
        return "kept"
    if what == "demote":
        items.update(conn, (fact, new := demoted(fact, audit.now)))
        details = {"before": fact.confidence, "confidence": getattr(new, "confidence", None), "reason": reason}
        events.append(conn, audit.event("fact_demoted", "fact", fact.id, **details))
    elif what == "forget":
        forgotten.forget(conn, address, audit, Bound())
    else:
        forgotten.delete(conn, address, audit)
    return _PAST[what]


def _is_supported(conn: Connection, address: Address) -> bool:
    """Whether there is other evidence: another episode or memory, or someone who confirmed or edited the fact."""
    if _is_ours(conn, address.tenant_id, address.id) or links.has_source(conn, address):
        return True
    return (
        conn.fetch_one(
            "SELECT seq FROM memory_events WHERE tenant_id = :tenant_id AND entity_id = :id"
            f" AND {conn.within('event_type', 'types')} AND (actor IS NULL OR actor <> :actor) LIMIT 1",
            {"tenant_id": address.tenant_id, "id": address.id, "types": list(BY_OTHERS), "actor": BRIDGE},
        )
        is not None
    )


def _same_owner(event: Event, fact: Fact) -> bool:
    """Whether a fact has the owner that the event of a deletion names, if it does."""
    told = event.payload
    named = Owner(told.get("user_id"), told.get("household_id"), told.get("persona_id"))
    return "butler" not in told or named.key == fact.owner


def _is_ours(conn: Connection, tenant_id: str, fact_id: UUID) -> bool:
    found = conn.fetch_one(
        "SELECT fact_id FROM bridged_facts WHERE tenant_id = :tenant_id AND fact_id = :fact_id LIMIT 1",
        {"tenant_id": tenant_id, "fact_id": fact_id},
    )
    return found is not None


def _facts_of(conn: Connection, tenant_id: str, episodes: Sequence[UUID]) -> dict[UUID, UUID]:
    """The facts that were made of episodes, each with one of these, in the order of their ids."""
    rows = conn.fetch_all(
        "SELECT fact_id, episode_id FROM bridged_facts WHERE tenant_id = :tenant_id"
        f" AND {conn.within('episode_id', 'ids')} ORDER BY fact_id, episode_id",
        {"tenant_id": tenant_id, "ids": list(episodes)},
    )
    return {row["fact_id"]: row["episode_id"] for row in rows}


def _episodes(conn: Connection, tenant_id: str, ids: Sequence[UUID], lock: str) -> list[Episode]:
    if not ids:
        return []
    rows = conn.fetch_all(
        f"{KIND['episode'].select} WHERE m.tenant_id = :tenant_id AND {conn.within('m.id', 'ids')} ORDER BY m.id{lock}",
        {"tenant_id": tenant_id, "ids": list(ids)},
    )
    return [Episode(**row) for row in timeline.restored(conn, rows)]
