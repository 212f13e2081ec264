"""A record with named fields as a memory."""

from collections.abc import Mapping
from typing import Any

from tulving.domain import intake
from tulving.domain.model import KINDS, NewEpisode, NewFact, NewRule
from tulving.domain.offers import Offer, stable_id
from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped
from tulving.integrations.importers.values import compact, entity_type, label, moment

TARGETS = {
    "episode": "content occurred_at speaker session title type importance tags project agent user_id key".split(),
    "fact": (
        "content subject predicate entity entity_type category occurred_at source importance confidence permanence tags"
        " project agent session user_id key"
    ).split(),
    "rule": "content permanence tags project agent session user_id key".split(),
}
"""What a field of a record may become. One that has such a name already need not be mapped."""


def check(mapped: Mapped) -> None:
    """Refuse a mapping to what a memory does not have."""
    if mapped.kind not in KINDS:
        raise InvalidInput("kind", f"{mapped.kind!r:.60} is not known", ", ".join(KINDS))
    for name in mapped.fields:
        if name not in TARGETS[mapped.kind]:
            raise InvalidInput("map", f"an imported {mapped.kind} has no {name!r:.60}", ", ".join(TARGETS[mapped.kind]))


def record(place: str, item: Mapping[str, Any], mapped: Mapped) -> Offer:
    """The memory that a record becomes. What is not mapped is kept in its metadata."""
    given = {name: _at(item, mapped.fields.get(name, name)) for name in TARGETS[mapped.kind]}
    if given["content"] is None:
        named = mapped.fields.get("content", "content")
        raise InvalidInput(named, "is missing or empty", "the text; --map content=FIELD says where it is")
    used = {mapped.fields.get(name, name).split(".")[0] for name in given}
    rest = {name: value for name, value in item.items() if name not in used}
    session, key = label(given.get("session")), label(given["key"])
    common: dict[str, Any] = {
        "content": given["content"] if isinstance(given["content"], str) else compact(given["content"]),
        "project": label(given["project"]),
        "session_id": stable_id("session", session) if session else None,
        "tags": _tags(given["tags"]),
        "metadata": rest,
    }
    kind = None
    if mapped.kind == "episode":
        memory = NewEpisode(
            **common,
            butler=label(given["agent"]) or "import",
            title=label(given["title"]),
            type=label(given["type"]) or "observation",  # without a type it would expire
            source=label(given["speaker"]),
            occurred_at=moment(given["occurred_at"], "occurred_at"),
            importance=5.0 if (importance := _number(given["importance"], "importance")) is None else importance,
        )
    elif mapped.kind == "fact":
        entity = label(given["entity"])
        kind = entity_type(label(given["entity_type"]) or "") if entity else None
        memory = NewFact(
            **common,
            subject=entity or label(given["subject"]),
            predicate=label(given["predicate"]),
            category=label(given["category"]),
            source=label(given["source"]),
            source_butler=label(given["agent"]),
            occurred_at=moment(given["occurred_at"], "occurred_at"),
            importance=_number(given["importance"], "importance"),
            confidence=_number(given["confidence"], "confidence"),
            permanence=label(given["permanence"]),
        )
    else:
        memory = NewRule(**common, permanence=label(given["permanence"]), source_butler=label(given["agent"]))
    origin = {"id": key} if key else {"place": place}
    name = key or compact(dict(sorted(intake.metadata(item).items())))
    return Offer(memory=memory, key=name, entity_type=kind, user_id=label(given["user_id"]), origin=origin, place=place)


def _at(item: Mapping[str, Any], path: str) -> Any:
    """The value of a field, or of one inside an object, whose names are joined by dots."""
    if path in item:
        return item[path]
    value: Any = item
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _number(value: object, name: str) -> float | None:
    try:
        return None if value is None else float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(name, f"{value!r:.60} is not a number", "a number") from None


def _tags(value: object) -> list[str] | None:
    if isinstance(value, list):
        return [str(each) for each in value]
    return None if value is None else [each.strip() for each in str(value).split(",")]
