"""A row from a file that anybody may have written: every field is read and checked as storing checks it."""

import base64
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tulving.domain import intake
from tulving.domain.decay import PERMANENCE
from tulving.domain.model import ENTITY_TYPES, KINDS, RELATIONS, canonical_state
from tulving.domain.resolution import aliases, folded
from tulving.domain.scope import Caller, Owner
from tulving.domain.text import clean, content_hash
from tulving.errors import InvalidInput
from tulving.storage.rows import FLAGS, TIMES, UUIDS, WHOLE_NUMBERS, Row

Check = Callable[[str, Any], Any]
"""Makes the stored value of a field's value in JSON, or refuses it."""

MOST_COUNTED = 1_000_000_000
"""Counters go on from what is imported; the columns end at twice as much."""
FASTEST_DECAY = 1_000.0

NULLABLE = frozenset(
    "content_hash user_id household_id persona_id project type last_referenced_at session_id title source occurred_at"
    " last_consolidation_error next_consolidation_retry_at expires_at ref entity_id source_butler source_episode_id"
    " supersedes_id last_confirmed_at next_review_at last_applied_at last_evaluated_at merged_into summary"
    " ended_at actor request_id run_id context embedding embedding_version facts.status rules.status"
    " revisions.importance".split()
)


def read(table: str, row: Mapping[str, Any]) -> Row:
    """The row as it is stored; the first field that is not as it should be is refused by name. What follows from others
    (the owner's key, the folded name) is made anew."""
    read = {name: _value(table, name, value) for name, value in row.items()}
    Caller(read["tenant_id"], read.get("actor"), read.get("request_id"))
    if "owner" in read:
        read["owner"] = Owner(read["user_id"], read["household_id"], read["persona_id"]).key
    if "content_hash" in read:
        read["content_hash"] = _hash(row, read["content"])
    if table == "entities":
        read["folded_name"] = folded(read["canonical_name"])
    for names in _KEYS.get(table, ()):
        intake.key(names[-1], *(read[name] for name in ("tenant_id", *names)))
    return read


def _value(table: str, name: str, value: Any) -> Any:
    if value is None:
        if name in NULLABLE or f"{table}.{name}" in NULLABLE:
            return None
        raise InvalidInput(name, "is missing", "a value")
    return (_CHECKS.get(f"{table}.{name}") or _CHECKS[name])(name, value)


def _hash(row: Mapping[str, Any], content: str) -> str | None:
    """Of the words as they are stored. One that does not suit its content tells of damage on the way; a row without
    one is completed later."""
    if row["content_hash"] is None:
        return None
    if row["content_hash"] != content_hash(row["content"]):
        raise InvalidInput("content_hash", "is not that of the content", "the content as it was exported, or null here")
    return content_hash(content)


# -- values ----------------------------------------------------------------------------------------------------


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(name, f"must be text, not {type(value).__name__}", "a string")
    if clean(value) != value:
        raise InvalidInput(name, "holds what no database can", "no NUL and no lone surrogates")
    return value


def _content(name: str, value: Any) -> str:
    return intake.content(_text(name, value), name)


def _moment(name: str, value: Any) -> datetime | None:
    try:
        return intake.moment(name, datetime.fromisoformat(_text(name, value)))
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(name, f"{value!r:.80} is not a time", "a time such as 2026-01-31T12:00:00+00:00") from None


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(name, f"must be true or false, not {type(value).__name__}", "true, false")
    return value


def _tags(name: str, value: Any) -> list[str]:
    return intake.tags(value)


def _object(name: str, value: Any) -> dict[str, Any]:
    try:
        read = intake.metadata(value)
    except InvalidInput as error:
        raise InvalidInput(error.field.replace("metadata", name, 1), error.problem, error.allowed) from None
    for text in _texts(value):
        _text(name, text)
    return read


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value if isinstance(value, list) else (*value, *value.values()):
            yield from _texts(inner)


def _vector(name: str, value: Any) -> bytes:
    try:
        packed = base64.b64decode(_text(name, value), validate=True)
        numbers = array("f", packed)
    except ValueError as error:
        raise InvalidInput(name, f"can't be read ({error})", "32-bit numbers in base64") from None
    if not all(map(math.isfinite, numbers)):
        raise InvalidInput(name, "holds what is not a number", "finite numbers")
    return packed


def _validity(name: str, value: Any) -> str:
    states = ("active", "superseded", "expired", "retracted")
    return intake.one_of(name, canonical_state(_text(name, value)), states)


def _one_of(*words: str) -> Check:
    return lambda name, value: intake.one_of(name, value, words)


def _number(low: float, high: float) -> Check:
    return lambda name, value: intake.number(name, value, low, high)


def _each(names: str | frozenset[str], check: Check) -> dict[str, Check]:
    return dict.fromkeys(names.split() if isinstance(names, str) else names, check)


# By column, or by table and column where the same name means something else.
_CHECKS: dict[str, Check] = {
    **_each(TIMES, _moment),
    **_each(UUIDS, intake.memory_id),
    **_each(FLAGS, _flag),
    **_each(WHOLE_NUMBERS, lambda name, value: intake.whole(name, value, 0, MOST_COUNTED)),
    "number": lambda name, value: intake.whole(name, value, 1, MOST_COUNTED),
    **_each("project type title source source_butler subject predicate scope butler ref", intake.name),
    **_each("canonical_name event_type entity_type", intake.name),
    **_each("tenant_id owner user_id household_id persona_id actor request_id content_hash folded_name", _text),
    **_each("last_consolidation_error summary", _text),
    **_each("metadata payload context", _object),
    **_each("source_type target_type memory_type", _one_of(*KINDS)),
    "content": _content,
    "tags": _tags,
    "aliases": lambda name, value: aliases(value, most=None),
    "embedding": _vector,
    "importance": _number(0, 10),
    "confidence": _number(0, 1),
    "effectiveness_score": _number(0, 1),
    "decay_rate": _number(0, FASTEST_DECAY),
    "consolidation_status": _one_of("pending", "consolidated", "failed", "dead_letter"),
    "validity": _validity,
    "status": _one_of("fading"),
    "sessions.status": _one_of("active", "completed", "abandoned"),
    "permanence": _one_of(*PERMANENCE),
    "maturity": _one_of("candidate", "established", "proven", "anti_pattern"),
    "relation": _one_of(*RELATIONS),
    "entities.entity_type": _one_of(*ENTITY_TYPES),
    "outcome": _one_of("helpful", "harmful"),
}
# What is looked up together, beside the tenant.
_KEYS: dict[str, Sequence[tuple[str, ...]]] = {
    "episodes": [("butler",)],
    "facts": [("scope", "owner", "predicate", "subject")],
    "rules": [("scope",)],
    "entities": [("canonical_name",), ("folded_name",)],
}
