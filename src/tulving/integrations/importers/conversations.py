"""Messages of a chat as episodes of one session."""

from dataclasses import dataclass
from datetime import datetime

from tulving.domain.model import NewEpisode
from tulving.domain.offers import Offer, stable_id
from tulving.integrations.importers.values import label, moment

SPEAKERS = {"human": "user"}


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of a program: its id there, its title, and when it began."""

    program: str
    id: str
    title: object
    began: datetime | None

    def message(self, id_: str, speaker: str, content: str, time: object, place: str) -> Offer:
        """What somebody said. A message without a time has that of its conversation."""
        episode = NewEpisode(
            content=content,
            butler=self.program,
            type="conversation",
            title=label(self.title),
            source=SPEAKERS.get(speaker, speaker),
            session_id=stable_id(self.program, self.id),
            occurred_at=moment(time) or self.began,
        )
        origin = {"id": id_, "conversation": self.id}
        return Offer(memory=episode, key=f"{self.id} {id_}", origin=origin, place=place)
