"""The messages of the event bus: audit events as subscribers see them, with what the memory itself says.

An audit event holds ids, hashes and numbers. The payload of a message is built from it and from the row, as that is
when the message is delivered, and holds plain JSON values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from tulving.domain.editing import is_forgotten
from tulving.domain.events import Event
from tulving.domain.model import KINDS, Episode, Fact, Item, Kind
from tulving.domain.records import Record
from tulving.domain.scope import Bound
from tulving.errors import InvalidInput

SAVED, PRUNED = "memory:episodic:saved", "memory:episodic:pruned"
WARNING, HEALTHY = "memory:episodic:warning", "memory:episodic:healthy"
LEARNED = "memory:semantic:saved"
MONITORING = "memory:monitoring:warning"
CHANGED = "audit:changed"
"""The topic of all other changes, which is sent only to those who name it."""
TOPIC_OF = {
    "episode_created": SAVED,
    "episode_deleted": PRUNED,
    "episode_forgotten": PRUNED,
    "timeline_warning": WARNING,
    "timeline_recovered": HEALTHY,
    "fact_created": LEARNED,
    **{f"merge_rule_{what}": f"rule:{what}" for what in ("registered", "updated", "deleted")},
}
"""The topic of each audit event that has one of its own. A warning is also sent to `MONITORING`."""
TOPICS = tuple(dict.fromkeys((*TOPIC_OF.values(), MONITORING)))
LAST = 2**63 - 1
WHOSE = ("user_id", "household_id", "persona_id", "project", "butler")
"""What the event says by which an episode is forgotten or deleted: who could read it."""


class Cursor(NamedTuple):
    """A place in the audit trail: events are read in the order of transactions, and of `seq` in each. On SQLite, where
    that is the order of `seq` alone, the transaction is 0."""

    transaction_id: int = 0
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.transaction_id}.{self.seq}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Message(Record):
    """One message. Who has handled it may continue after its `cursor` later, in another process too."""

    topic: str
    tenant_id: str
    cursor: str
    seq: int
    occurred_at: datetime
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What the reader of some events may read: the memories they concern, and the open segment of the timeline."""

    bound: Bound
    items: Mapping[tuple[Kind, UUID], Item]
    segment_id: UUID | None


Read = tuple[Cursor, Event]


def read_cursor(text: object) -> Cursor:
    """The cursor of a message, given back."""
    parts = text.split(".") if isinstance(text, str) and text.isascii() else []
    if len(parts) != 2 or not all(part.isdigit() and len(part) < 20 and int(part) <= LAST for part in parts):
        raise InvalidInput("after", f"{text!r:.60} is not a cursor", "the cursor of a message")
    return Cursor(*map(int, parts))


def chosen(topics: str | Sequence[str] | None) -> frozenset[str]:
    """The topics that are named, in full or by their beginning (`memory:episodic`); None means all but `CHANGED`."""
    if topics is None:
        return frozenset(TOPICS)
    known = (*TOPICS, CHANGED)
    named = list(topics) if isinstance(topics, list | tuple | frozenset) else [topics]
    found = frozenset[str]()
    for name in named:
        prefix = f"{name.rstrip(':')}:" if isinstance(name, str) else None
        matching = frozenset(topic for topic in known if prefix and f"{topic}:".startswith(prefix))
        if not matching:
            raise InvalidInput("topics", f"there is no topic {name!r:.60}", ", ".join(known))
        found |= matching
    if not found:
        raise InvalidInput("topics", "is empty", ", ".join(known))
    return found


def concerned(events: Iterable[Event], topics: frozenset[str]) -> dict[Kind, list[UUID]]:
    """The memories whose rows are needed to build the messages of these events."""
    wanted: dict[Kind, list[UUID]] = {kind: [] for kind in KINDS}
    for event in events:
        kind = event.entity_type
        if event.entity_id is not None and kind in KINDS and _topic(event) in topics & {SAVED, LEARNED, CHANGED}:
            wanted[kind].append(event.entity_id)
    return wanted


def messages(events: Iterable[Read], topics: frozenset[str], context: Context) -> list[Message]:
    """The messages of some events, in their order. What one run prunes in a row, of one owner and for one
    reason, is one message."""
    made: list[Message] = []
    for _, group in groupby(events, key=_together):
        made += _of(list(group), topics, context)
    return made


def whose(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the event says by which an episode is forgotten or deleted (`WHOSE`)."""
    return {name: row[name] for name in WHOSE if row[name] is not None}


def pruned_because(event: Event) -> str:
    """Why an episode is gone: what made room, or what a person did."""
    return str(event.payload.get("by") or event.event_type.removeprefix("episode_"))


def _of(events: Sequence[Read], topics: frozenset[str], context: Context) -> list[Message]:
    (cursor, event) = events[-1]
    topic = _topic(event)
    if topic == PRUNED:
        events = [read for read in events if _may_know(read[1], context.bound)]
    said = _payload(topic, [event for _, event in events], context) if events else None
    if said is None:
        return []
    sent = [(topic, cursor, said)]
    if topic == WARNING:
        # Who stops between the two continues after the cursor of the first, and must not miss the second.
        sent = [(WARNING, cursor._replace(seq=cursor.seq - 1), said), (MONITORING, cursor, {**said, "topic": WARNING})]
    return [
        Message(
            topic=name,
            tenant_id=event.tenant_id,
            cursor=str(place),
            seq=cursor.seq,
            occurred_at=event.occurred_at,
            payload=payload,
        )
        for name, place, payload in sent
        if name in topics
    ]


def _topic(event: Event) -> str:
    return TOPIC_OF.get(event.event_type, CHANGED)


def _payload(topic: str, events: Sequence[Event], context: Context) -> Mapping[str, Any] | None:
    event = events[-1]
    if topic == PRUNED:
        ids = [str(each.entity_id) for each in events]
        return {"ids": ids, "reason": pruned_because(event), **_owner(event.payload)}
    if topic in (SAVED, LEARNED):
        return _saved(event, context)
    if topic in (WARNING, HEALTHY):
        when = {"timestamp": event.occurred_at.isoformat(), "segmentId": _text(context.segment_id)}
        return when | {name: event.payload[name] for name in ("warning", "severity", "hint") if name in event.payload}
    if topic == CHANGED:
        return _changed(event, context)
    return {"name": event.payload.get("name"), "config": event.payload.get("config")}


def _saved(event: Event, context: Context) -> Mapping[str, Any] | None:
    """000-005, 000-019. A connection that is bound to a part of a tenant is not told of what it can't read, or can't
    read any more."""
    item = context.items.get((_kind(event), event.entity_id)) if event.entity_id else None
    if item is None and not context.bound.everything:
        return None
    payload: dict[str, Any] = {
        "id": str(event.entity_id),
        **_owner({name: getattr(item, name, None) for name in WHOSE}),
        "eventType": item and item.type,
        "timestamp": (getattr(item, "occurred_at", None) or event.occurred_at).isoformat(),
        "importance": item.importance if isinstance(item, Episode | Fact) else event.payload.get("importance"),
        "content": None if item is None or is_forgotten(item) else item.content,
    }
    if isinstance(item, Fact):
        return payload | {"subject": item.subject, "predicate": item.predicate, "keyed": item.keyed}
    if _kind(event) == "fact":
        return payload
    return payload | {"segmentId": _text(getattr(item, "segment_id", None) or context.segment_id)}


def _changed(event: Event, context: Context) -> Mapping[str, Any] | None:
    """What has changed. A connection that is bound to a part of a tenant gets changes of memories that it can read."""
    if not context.bound.everything and (event.entity_type, event.entity_id) not in context.items:
        return None
    run = _text(event.run_id)
    return {"id": _text(event.entity_id), "kind": event.entity_type, "change": event.event_type, "runId": run}


def _together(read: Read) -> tuple[object, ...]:
    cursor, event = read
    if TOPIC_OF.get(event.event_type) != PRUNED or event.run_id is None:
        return (cursor,)
    return event.run_id, pruned_because(event), *(event.payload.get(name) for name in WHOSE[:3])


def _may_know(event: Event, bound: Bound) -> bool:
    """Whether the connection could read an episode that is gone; if the event does not tell, it could not."""
    asked = (*(getattr(bound.owner, name) for name in WHOSE[:3]), bound.project, bound.scope)
    return all(part in (None, event.payload.get(name)) for name, part in zip(WHOSE, asked, strict=True))


def _kind(event: Event) -> Kind:
    return "fact" if event.entity_type == "fact" else "episode"


def _owner(whose: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "userId": whose.get("user_id"),
        "householdId": whose.get("household_id"),
        "personaId": whose.get("persona_id"),
    }


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
