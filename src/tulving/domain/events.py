"""The audit trail: every mutation is one event, written in the mutation's own transaction."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from tulving.domain.records import Listing, Record
from tulving.domain.scope import Caller


@lru_cache(64)
def _begun(secret: str) -> hmac.HMAC:
    return hmac.new(bytes.fromhex(secret), digestmod="sha256")


@dataclass(frozen=True, slots=True)
class Unkeyed:
    """A content hash before it is written into an event. Short contents could be guessed from a plain hash, so it is
    keyed with the tenant's secret; `new_id` supplies one if the tenant has none yet."""

    content_hash: str
    new_id: Callable[[], UUID]

    def keyed(self, secret: str) -> str:
        digest = _begun(secret).copy()
        digest.update(self.content_hash.encode())
        return digest.hexdigest()

    def new_secret(self) -> str:
        return self.new_id().hex + self.new_id().hex


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Event(Record):
    """What changed, when, and who changed it. The payload holds ids, hashes and numbers, never content."""

    _shown = ("event_type", "entity_id", "occurred_at", "actor", "payload")

    tenant_id: str
    id: UUID
    event_type: str
    entity_type: str
    entity_id: UUID | None
    occurred_at: datetime
    actor: str | None = None
    request_id: str | None = None
    run_id: UUID | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    seq: int | None = None

    @property
    def created_at(self) -> datetime:
        """001's name for `occurred_at`."""
        return self.occurred_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A query of the audit trail; None matches anything. `event_type` may be a prefix: `fact`, `token`. `before` is the
    sequence number below which the search begins."""

    event_type: str | None = None
    actor: str | None = None
    entity_id: UUID | None = None
    run_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether it is about one memory or one run, which have few events."""
        return self.entity_id is not None or self.run_id is not None

    @property
    def matches_all(self) -> bool:
        """Whether every event matches."""
        return not self.is_narrow and (self.event_type, self.actor, self.since, self.until) == (None,) * 4


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trail(Record, Listing[Event]):
    """A page of the audit trail, newest events first: a sequence of them. `next_cursor` continues it and is None at the
    beginning of the trail; `reaches` is the time up to which the page has searched."""

    events: list[Event]
    next_cursor: str | None = None
    reaches: datetime | None = None

    @property
    def _listed(self) -> list[Event]:
        return self.events


@dataclass(frozen=True, slots=True)
class Audit:
    """Makes the events of one verb call: one caller, one time, one run."""

    caller: Caller
    now: datetime
    new_id: Callable[[], UUID]
    run_id: UUID | None = None

    def event(self, event_type: str, entity_type: str, entity_id: UUID | None, **payload: Any) -> Event:
        if payload.get("content_hash") is not None:
            payload["content_hash"] = Unkeyed(payload["content_hash"], self.new_id)
        return Event(
            tenant_id=self.caller.tenant_id,
            id=self.new_id(),
            event_type=event_type,
            entity_type=entity_type,
            entity_id=entity_id,
            occurred_at=self.now,
            actor=self.caller.actor,
            request_id=self.caller.request_id,
            run_id=self.run_id,
            payload=payload,
        )


AuditOf = Callable[[str], Audit]
"""The `Audit` of each tenant, for work on several tenants."""
