"""The bridge: episodes that become facts by themselves, without a model."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from tulving import storage
from tulving.domain.events import Audit
from tulving.domain.messages import PRUNED, SAVED, TOPIC_OF
from tulving.domain.model import Episode, Fact
from tulving.domain.records import Record
from tulving.domain.routing import as_fact, becomes_fact, lag_ms
from tulving.domain.scope import Bound, Caller, Owner
from tulving.errors import InvalidInput, StoreUnavailable
from tulving.services.facts import Facts
from tulving.services.operations import operation
from tulving.services.service import log
from tulving.storage.bridge import NAME, Due, Offer

COUNTED = "handled ingested duplicates skipped unwanted failed demoted forgotten deleted kept".split()
MOST_TRIES = 5
PAUSE = 0.05
"""Seconds in which changes gather before the bridge looks at them."""
RETRY = 5.0
"""Seconds until it tries again after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BridgeStatus(Record):
    """How far the bridge of a tenant has come.

    `timeline_lag_ms` is how long the oldest of the `waiting` events (at most 500 are counted) has waited. `suspended`
    says what is wrong with the timeline; until that is settled nothing is done, and nothing is lost. The other counts
    are those of all events handled so far.
    """

    enabled: bool
    suspended: str | None
    timeline_lag_ms: int
    segment_count: int
    waiting: int
    handled: int
    ingested: int
    duplicates: int
    skipped: int
    unwanted: int
    failed: int
    demoted: int
    forgotten: int
    deleted: int
    kept: int


class Bridge(Facts):
    """Verbs of the bridge."""

    async def run_bridge(self, *, from_start: bool = False) -> dict[str, int]:
        """Handle what has happened to episodes since the last time; counts of what came of it.

        The first run begins with the present, later ones continue where the last one ended, whichever process ran it.
        `from_start` begins with the oldest event; what was handled before is not done twice.
        """
        if not self._env.config.bridge.enabled:
            raise InvalidInput("bridge", "is switched off", "the setting bridge.enabled")
        self._check_reach()
        now = self._env.clock()
        if from_start:
            await self._write(storage.bridge.begin, self.caller.tenant_id, None, now)
        return await self._run(now)

    @operation("memory_bridge_status", http="GET /v1/bridge", effect="read", command="bridge", standard=False)
    async def bridge_status(self) -> BridgeStatus:
        """Tell how far the bridge has come that makes facts of important episodes, and whether it is suspended."""
        self._check_reach()
        due = await self._read(storage.bridge.due, self.caller.tenant_id)
        segments = await self._read(storage.bridge.segment_count, self.caller.tenant_id)
        found = [event for _, event in due.events] if due else []
        waiting = [event.occurred_at for event in found if TOPIC_OF.get(event.event_type) in (SAVED, PRUNED)]
        return BridgeStatus(
            enabled=self._env.config.bridge.enabled,
            suspended=due.warning if due else None,
            timeline_lag_ms=lag_ms(waiting[0] if waiting else None, self._env.clock()),
            segment_count=segments,
            waiting=len(waiting),
            **{name: int(due.state.get(name, 0)) if due else 0 for name in COUNTED},
        )

    async def carry_on(self) -> None:
        """Until the memory is closed: handle what happens to episodes, soon after it has."""
        opened, own = self._env.clock(), self.caller.tenant_id
        changed = {own}
        with self._env.streams.watch(self._env.subscribers, None) as woken:
            end = self._env.subscribers.add(None, lambda events: changed.update(e.tenant_id for e in events))
            try:
                while True:
                    closing, tenants, failed = woken.closing, sorted(changed | {own}), set[str]()
                    changed.clear()
                    for tenant_id in tenants:
                        if not await Bridge(self._env, Caller(tenant_id, NAME))._tried(opened):
                            failed.add(tenant_id)
                    if closing:
                        return
                    changed |= failed
                    if not failed:
                        await woken.wait()
                    await woken.pause(RETRY if failed else PAUSE)
            finally:
                end()

    async def begin_bridge(self) -> None:
        """Begin with the present, if the bridge has not begun yet and the store can be written to."""
        now, tenant_id = self._env.clock(), self.caller.tenant_id
        if await self._read(storage.event_stream.cursor, tenant_id, NAME) is None:
            try:
                await self._write(storage.bridge.begin, tenant_id, now, now)
            except StoreUnavailable as error:
                log.warning("the bridge can't begin: %s", error)

    def _check_reach(self) -> None:
        """Its counts, too, tell of everybody's episodes."""
        if not self.bound.everything:
            problem = "works on the whole tenant, and this connection is bound to a part of it"
            raise InvalidInput("bridge", problem, "a connection to the whole tenant")

    async def _tried(self, since: datetime) -> bool:
        try:
            await self._run(since)
        except StoreUnavailable as error:
            log.info("the bridge waits: %s", error)
            return False
        except Exception:
            log.exception("the bridge failed")
            return False
        return True

    async def _run(self, since: datetime) -> dict[str, int]:
        """Handle all that is due; a bridge that has not begun begins with the events since a moment."""
        total, tries, tenant_id = Counter[str](), 0, self.caller.tenant_id
        while tries < MOST_TRIES:
            now = self._env.clock()
            due = await self._read(storage.bridge.due, tenant_id)
            if due is None:
                await self._write(storage.bridge.begin, tenant_id, since, now)
                continue
            audit = Audit(Caller(tenant_id, NAME, self.caller.request_id), now, self._env.ids)
            if due.warning is not None:
                await self._suspend(due, audit)
                break
            if not due.events or not (due.concerned or due.more or due.suspended):
                break
            settings = self._env.config
            carry_out, offers = storage.bridge.carry_out, await self._offers(due, now)
            carried = await self._write(carry_out, due, offers, settings.bridge, settings.conflicts, audit)
            if carried is None:
                tries += 1
                continue
            total += carried.counts
            await self._finish_merges(carried.merges)
            if not due.more:
                break
        return {name: total[name] for name in COUNTED}

    async def _suspend(self, due: Due, audit: Audit) -> None:
        if not due.suspended:
            log.warning("the bridge of %s is suspended: %s", audit.caller.tenant_id, due.warning)
            await self._write(storage.bridge.suspend, due, audit)

    async def _offers(self, due: Due, now: datetime) -> list[Offer]:
        """The episodes that become facts, with those facts and their vectors."""
        policy, made = self._env.config.bridge, list[tuple[Episode, Fact]]()
        for episode in due.episodes:
            if becomes_fact(episode, policy, now):
                owner = Owner(episode.user_id, episode.household_id, episode.persona_id)
                try:
                    fact = Facts(self._env, self.caller, Bound(owner))._fact(as_fact(episode, policy), now)
                    made.append((episode, fact))
                except InvalidInput as error:
                    log.warning("the bridge can't make a fact of the episode %s: %s", episode.id, error)
        entries = await self._env.embedding.index([fact for _, fact in made])
        return [(episode, fact, entry) for (episode, fact), entry in zip(made, entries, strict=True)]
