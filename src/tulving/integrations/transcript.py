"""The messages of a conversation, kept in order as episodes: what chat histories of other frameworks hold."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from tulving.domain import intake
from tulving.domain.model import Episode, NewEpisode
from tulving.domain.text import shortened
from tulving.errors import IntegrityError, NotFound
from tulving.integrations.labels import digest
from tulving.services.memory import Memory

TYPE = "conversation"
SESSIONS = UUID("5c1b1f3e-7d3f-5c0a-9d5c-0e6c0c5a8f52")
"""The namespace of session ids that are made from names."""
PAGE = 1000
AT_ONCE = 100
"""So many messages are deleted at a time: they share commits."""
WITHOUT_TEXT = "(a message without text)"
_BEGINNING = datetime.min.replace(tzinfo=UTC, year=2)
_NEXT = timedelta.resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message as a framework has it, and what it says, and who."""

    message: Mapping[str, Any]
    text: str
    speaker: str | None = None


class Transcript:
    """The conversation of one session.

    Each message is an episode with a type, so that it is kept, found by a search, and learned from by consolidation
    like others. `session_id` may be any text; one that is a UUID is the session's id in Tulving too. `agent` is who
    observed it.
    """

    def __init__(self, memory: Memory, framework: str, session_id: str, agent: str | None = None) -> None:
        self._memory = memory
        self._agent = agent or memory.caller.actor or framework
        name = intake.identifier("session_id", session_id)
        try:
            self._session = UUID(name)
        except ValueError:
            self._session = uuid5(SESSIONS, name)
        self._label = f"{framework}:{digest(memory, name)}"

    async def add(self, turns: Sequence[Turn]) -> None:
        """Add messages at the end, all or none."""
        if not turns:
            return
        last = await self._window(1)
        start = self._memory.now() - (len(turns) - 1) * _NEXT
        if last:
            start = max(start, _since(last[0]) + _NEXT)
        await self._memory.store_episodes(
            [
                NewEpisode(
                    content=self._content(turn.text),
                    butler=self._agent,
                    type=TYPE,
                    session_id=self._session,
                    source=turn.speaker,
                    occurred_at=start + place * _NEXT,
                    tags=[self._label],
                    metadata={"message": turn.message},
                )
                for place, turn in enumerate(turns)
            ]
        )

    async def read(self, most: int | None = None) -> list[Mapping[str, Any]]:
        """The messages in order; at most the last `most` of them."""
        return [_message(episode) for episode in await self._latest(most)]

    async def pop(self) -> Mapping[str, Any] | None:
        """Take the last message out; None if there is none."""
        while last := await self._window(1):
            message = _message(last[0])
            if await self._delete(last[0]):
                return message
        return None

    async def clear(self) -> None:
        """Delete all messages for good. What was learned from them stays."""
        while some := await self._window(AT_ONCE):
            await asyncio.gather(*map(self._delete, some))

    async def _latest(self, most: int | None) -> list[Episode]:
        found: dict[UUID, Episode] = {}
        until = None
        while most is None or len(found) < most:
            wanted = PAGE if most is None else min(PAGE, most - len(found) + 1)
            page = await self._window(wanted, until)
            new = {episode.id: episode for episode in page if episode.id not in found}
            found |= new
            if not new or len(page) < wanted:
                break
            until = _since(page[-1]) + _NEXT  # messages of the same moment may be on both sides of a page's end
        return list(found.values())[:most][::-1]

    async def _window(self, most: int, until: datetime | None = None) -> list[Episode]:
        """The newest messages, the last one first."""
        return (
            await self._memory.query_window(
                since=_BEGINNING, until=until, top_k=most, session_id=self._session, tags=[self._label]
            )
        ).events

    async def _delete(self, episode: Episode) -> bool:
        with suppress(NotFound):  # another caller was faster
            return await self._memory.delete("episode", episode.id)
        return False

    def _content(self, text: str) -> str:
        said = intake.public(text).strip() or WITHOUT_TEXT
        most = self._memory.config.max_content_characters
        return said if most is None else shortened(said, most)[:most]


def _message(episode: Episode) -> Mapping[str, Any]:
    if "message" not in episode.metadata:
        problem = episode.metadata.get("unreadable", "its metadata were changed")
        raise IntegrityError(f"the message {episode.id} can't be read: {problem}")
    return episode.metadata["message"]


def _since(episode: Episode) -> datetime:
    return episode.occurred_at or episode.created_at
