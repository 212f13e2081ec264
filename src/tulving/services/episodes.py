"""Verbs on episodes: what happened."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Annotated, Any

from tulving.domain import intake
from tulving.domain.model import Episode, MemoryId, NewEpisode, Stored
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import Service, T, offered


def _not_stored(error: Exception) -> dict[str, Any]:
    return {"stored": False, "warning": f"the episode was not stored: {error}"}


class Episodes(Service):
    """Verbs on episodes."""

    @operation(
        "memory_store_episode", effect="write", command="store episode", positional=("content",), fallback=_not_stored
    )
    @once
    async def store_episode(
        self,
        content: Annotated[str, "What happened, in plain words"],
        butler: Annotated[str, "The agent that observed it"],
        session_id: Annotated[MemoryId | None, "Its session (a UUID); turns of a session are found together"] = None,
        importance: Annotated[float, "0 to 10"] = 5.0,
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
    async def store_episodes(self, offers: Sequence[NewEpisode]) -> list[Stored]:
        """Remember many things that happened: one embedding batch, one transaction, all or none."""
        return await self._store_episodes(offers, list)

    async def _store_episodes(self, offers: Sequence[NewEpisode], of: Callable[[list[Stored]], T]) -> T:
        """`of` makes the verb's answer from the results."""
        now = self._env.clock()
        audit = self._audit(now)
        episodes = [self._episode(offer, now) for offer in offers]
        rows = [
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
        warning = self.warning
        stored = [
            Stored(id=episode.id, outcome="stored", expires_at=episode.expires_at, warning=warning)
            for episode in episodes
        ]
        return await self._store("episode", rows, of(stored))

    def _episode(self, offer: NewEpisode, now: datetime) -> Episode:
        title = intake.optional_name("title", offer.title)
        butler = self.bound.scope or intake.name("butler", offer.butler)
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
            importance=intake.number("importance", offer.importance, 0, 10),
            expires_at=None if days is None else now + timedelta(days=days),
        )
