"""Verbs on episodes: what happened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Annotated, Any

from tulving import storage
from tulving.domain import intake
from tulving.domain.events import Event
from tulving.domain.model import Episode, MemoryId, NewEpisode, Stored
from tulving.domain.windows import EVENT_TYPES, event_key
from tulving.services.offers import each_of, offered, read_offers
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import HouseholdId, PersonaId, Service, T, UserId
from tulving.storage.connection import Connection
from tulving.storage.rows import IndexEntry


def _not_stored(error: Exception) -> dict[str, Any]:
    return {"stored": False, "warning": f"the episode was not stored: {error}"}


class Episodes(Service):
    """Verbs on episodes."""

    @operation(
        "memory_store_episode",
        http="POST /v1/episodes",
        batch="store_episodes",
        effect="write",
        command="store episode",
        positional=("content",),
        fallback=_not_stored,
    )
    @once
    async def store_episode(
        self,
        content: Annotated[str, "What happened, in plain words"],
        butler: Annotated[str | None, "The agent that observed it, you if left out"] = None,
        session_id: Annotated[MemoryId | None, "Its session (a UUID); turns of a session are found together"] = None,
        importance: Annotated[float, "How much it matters, 0 to 10", intake.IMPORTANCE] = 5.0,
        title: Annotated[str | None, "A short heading"] = None,
        type: Annotated[str | None, "What kind of event; inferred from the words if left out"] = None,
        project: Annotated[str | None, "The project it belongs to"] = None,
        source: Annotated[str | None, "Who said or reported it: questions name people"] = None,
        occurred_at: Annotated[datetime | None, "When it happened, if not now: questions name times"] = None,
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
    ) -> Stored:
        """Remember something that happened.

        An episode expires after a week unless it is given a type, which makes it a lasting project memory. Text
        between <private> and </private> is removed before anything else is done with it.
        """
        return await self._store_episodes([offered(NewEpisode, locals())], itemgetter(0))

    @once
    async def store_episodes(self, offers: Sequence[NewEpisode | Mapping[str, Any]]) -> list[Stored]:
        """Remember many things that happened: one embedding batch, one transaction, all or none. A mapping has the
        fields of `NewEpisode`."""
        return await self._store_episodes(read_offers(NewEpisode, offers), list)

    @operation(
        "memory_record_event",
        http="POST /v1/timeline/events",
        batch="record_events",
        batch_names={"event_type": "type", "timestamp": "occurred_at"},
        effect="write",
        command="store event",
        positional=("event_type", "content"),
        standard=False,
        idempotent=True,
    )
    @once
    async def record_event(
        self,
        content: Annotated[str, "What happened, in plain words"],
        event_type: Annotated[str, f"What kind of event: {', '.join(EVENT_TYPES)}, or a name of your own"],
        timestamp: Annotated[datetime | None, "When it happened, if not now"] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        importance: Annotated[float, "How much it matters, 0 to 10", intake.IMPORTANCE] = 5.0,
        source: Annotated[str | None, "Who said or reported it"] = None,
        butler: Annotated[str | None, "The agent that observed it, you if left out"] = None,
        title: Annotated[str | None, "A short heading"] = None,
        project: Annotated[str | None, "The project it belongs to"] = None,
        session_id: Annotated[MemoryId | None, "Its session (a UUID)"] = None,
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
    ) -> Stored:
        """Record an event of a user's timeline.

        Events may come late and in any order: each takes its place by its timestamp. The same event again (same owner,
        type, timestamp and content) is a duplicate, and the answer has the id of the first. An event does not expire.
        """
        offer = NewEpisode(
            content=content,
            butler=butler,
            session_id=session_id,
            importance=importance,
            title=title,
            type=intake.name("event_type", event_type),
            project=project,
            source=source,
            occurred_at=intake.moment("timestamp", timestamp),
            tags=tags,
            metadata=metadata,
        )
        mine = self._within(user_id, household_id, persona_id, of_a_user=True)
        return await mine._record_events([offer], itemgetter(0))

    @once
    async def record_events(
        self,
        offers: Sequence[NewEpisode | Mapping[str, Any]],
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
    ) -> list[Stored]:
        """Record many events of a user's timeline: one embedding batch, one transaction, all or none. Each needs a
        type; a mapping has the fields of `NewEpisode`."""
        mine = self._within(user_id, household_id, persona_id, of_a_user=True)
        return await mine._record_events(read_offers(NewEpisode, offers), list)

    @once
    async def record_turns(self, offers: Sequence[NewEpisode]) -> list[Stored]:
        """Record what was said in a conversation, like `record_events`, but of no user in particular: the same turn
        again (same type, time and content) is a duplicate."""
        return await self._record_events(offers, list)

    async def _record_events(self, offers: Sequence[NewEpisode], of: Callable[[list[Stored]], T]) -> T:
        """000-012: `of` makes the verb's answer from the results."""
        now = self._env.clock()
        rows = await self._created(each_of(offers, lambda offer: self._event(offer, now)), now)
        warning = self.warning

        def record(conn: Connection) -> T:
            stored = storage.windows.record(conn, rows)
            return of(
                [Stored(id=id_, outcome="stored" if new else "duplicate", warning=warning) for id_, new in stored]
            )

        return await self._write_once(record) if rows else of([])

    def _event(self, offer: NewEpisode, now: datetime) -> Episode:
        intake.name("type", offer.type)  # without one it would expire
        episode = self._episode(offer, now)
        happened_at = episode.occurred_at or now
        key = event_key(self.bound, str(episode.type), happened_at, str(episode.content_hash))
        return replace(episode, occurred_at=happened_at, event_key=key)

    async def _store_episodes(self, offers: Sequence[NewEpisode], of: Callable[[list[Stored]], T]) -> T:
        """`of` makes the verb's answer from the results."""
        now = self._env.clock()
        episodes = each_of(offers, lambda offer: self._episode(offer, now))
        rows = await self._created(episodes, now)
        warning = self.warning
        stored = [
            Stored(id=episode.id, outcome="stored", expires_at=episode.expires_at, warning=warning)
            for episode in episodes
        ]
        return await self._store("episode", rows, of(stored))

    async def _created(self, episodes: Sequence[Episode], now: datetime) -> list[tuple[Episode, IndexEntry, Event]]:
        """New episodes with their index entries and audit events."""
        audit = self._audit(now)
        return [
            (
                episode,
                entry,
                audit.event(
                    "episode_created",
                    "episode",
                    episode.id,
                    content_hash=episode.content_hash,
                    importance=episode.importance,
                ),
            )
            for episode, entry in zip(episodes, await self._env.embedding.index(episodes), strict=True)
        ]

    def _episode(self, offer: NewEpisode, now: datetime) -> Episode:
        title = intake.optional_name("title", offer.title)
        butler = self.bound.scope or self._agent(offer.butler)
        intake.key("butler", self.caller.tenant_id, butler)
        days = None if offer.type is not None else self._env.config.episode_ttl_days
        common = self._common(offer, self._env.ids(), now)
        words = f"{title or ''} {common['content'][:2000]}"
        return Episode(
            **common,
            type=intake.optional_name("type", offer.type) or intake.classify(words),
            butler=butler,
            title=title,
            source=intake.optional_name("source", offer.source),
            occurred_at=intake.moment("occurred_at", offer.occurred_at),
            importance=intake.number("importance", offer.importance, *intake.IMPORTANCE),
            expires_at=None if days is None else now + timedelta(days=days),
        )
