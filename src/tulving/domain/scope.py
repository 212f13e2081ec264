"""Who asks, whose memory it is, and which part of it is meant."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tulving.domain.intake import identifier
from tulving.domain.model import Item


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Comes from authentication or the local owner, never from a verb's argument."""

    tenant_id: str = "default"
    actor: str | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        identifier("tenant_id", self.tenant_id, most=200)
        for name in ("actor", "request_id"):
            if getattr(self, name) is not None:
                identifier(name, getattr(self, name), most=200)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory it is inside a tenant. Unset parts mean: nobody's in particular."""

    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("user_id", "household_id", "persona_id"):
            if getattr(self, name) is not None:
                identifier(name, getattr(self, name), most=200)

    @property
    def key(self) -> str:
        """One text for the unique keys; '' when nothing is set. A length before each part keeps it unambiguous."""
        parts = (self.household_id, self.user_id, self.persona_id)
        if not any(parts):
            return ""
        return "|".join(f"{len(part)}:{part}" if part else "" for part in parts)

    def covers(self, item: Item) -> bool:
        """Whether a memory has every part that is set here."""
        parts = ("user_id", "household_id", "persona_id")
        return all(getattr(self, part) in (None, getattr(item, part)) for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories a read may return, beside those of the caller's tenant that are alive.

    `unfaded` leaves out facts and rules that are fading, or should be by now.
    """

    scope: str | None = None
    owner: Owner = field(default_factory=Owner)
    type: str | None = None
    project: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Sequence[str] = ()
    state: str | None = None
    unfaded: bool = False
