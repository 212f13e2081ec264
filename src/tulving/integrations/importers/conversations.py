"""Messages of a chat as episodes of one session."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tulving.domain.model import NewEpisode
from tulving.domain.offers import Offer, stable_id
from tulving.integrations.importers.values import label, moment

SPEAKERS = {"human": "user"}


def message(
    program: str,
    conversation: Mapping[str, Any],
    conversation_id: str,
    title: object,
    speaker: str,
    content: str,
    time: object,
    began: datetime | None,
    message_id: str,
    place: str,
) -> Offer:
    """What somebody said. A message without a time has that of its conversation."""
    episode = NewEpisode(
        content=content,
        butler=program,
        type="conversation",
        title=label(title),
        source=SPEAKERS.get(speaker, speaker),
        session_id=stable_id(program, conversation_id),
        occurred_at=moment(time) or began,
    )
    origin = {"id": message_id, "conversation": conversation_id}
    return Offer(memory=episode, key=f"{conversation_id} {message_id}", origin=origin, place=place)
