"""A row from a file of unknown origin: every field is checked as storing checks it."""

import base64
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any, get_args

from tulving.domain import claims, intake
from tulving.domain.decay import PERMANENCE
from tulving.domain.events import Event
from tulving.domain.learning import (
    Action,
    ExtractedFact,
    LearnedFact,
    LearnedRule,
    Proposal,
    Run,
    RunStatus,
    UpdatedFact,
)
from tulving.domain.merge_rules import MergeRuleRegistry
from tulving.domain.model import (
    ENTITY_TYPES,
    KINDS,
    RELATIONS,
    SESSION_STATUSES,
    SETTLEMENT_STATUSES,
    Entity,
    Link,
    Session,
    Settlement,
    SettlementAction,
    canonical_state,
)
from tulving.domain.profile import BLOCKS
from tulving.domain.resolution import aliases, folded
from tulving.domain.scope import Caller, Owner
from tulving.domain.text import clean, content_hash
from tulving.errors import InvalidInput
from tulving.storage.kinds import INDEX_COLUMNS, KIND
from tulving.storage.moving import MOVED
from tulving.storage.rows import FLAGS, TIMES, UUIDS, WHOLE_NUMBERS, Row, optional

Check = Callable[[str, Any], Any]
"""From a field's name and its value in JSON to the stored value; raises if that is refused."""

MOST_COUNTED = 1_000_000_000
"""Counters continue from the imported value; their columns hold twice as much."""
FASTEST_DECAY = 1_000.0
VALIDITIES = ("active", "superseded", "expired", "retracted")
SETTLED = ("kept", "superseded", "merged", "rejected", "held")

_RECORDS = {
    "entities": Entity,
    "learning_runs": Run,
    "memory_events": Event,
    "memory_links": Link,
    "proposals": Proposal,
    "sessions": Session,
    "settlements": Settlement,
}
_NULLABLE = {
    **{table: optional(record) for table, record in _RECORDS.items()},
    **{kind.table: optional(kind.record) - {"accessed_at"} | {*INDEX_COLUMNS} for kind in KIND.values()},
    "rule_applications": frozenset({"context"}),
    "revisions": frozenset({"importance"}),
    "profile_blocks": frozenset({"user_id", "household_id", "persona_id", "run_id"}),
    "bridged_facts": frozenset(),
    "merge_rules": frozenset(),
}


def read(line: Any, tenant_id: str | None, dimension: int | None) -> tuple[str, Row]:
    """The table and the row in a line of an export, as it is stored; the first field that is wrong is refused by name.
    What follows from others (the owner's key, the folded name) is made anew. Vectors must have the dimension, if given.
    """
    table, given = _parsed(line, tenant_id)
    row = {name: _value(table, name, value) for name, value in given.items()}
    Caller(row["tenant_id"], row.get("actor"), row.get("request_id"))
    if table == "proposals":
        _check_offer(row["action"], row["offer"])
    if table == "settlements":
        _check_sides(row)
    if {"owner", "user_id"} <= row.keys():
        row["owner"] = Owner(row["user_id"], row["household_id"], row["persona_id"]).key
    if row.get("content_hash") is not None:  # a row without one is completed later
        if row["content_hash"] != content_hash(given["content"]):
            raise InvalidInput("content_hash", "does not match the content", "the content as exported, or null here")
        row["content_hash"] = content_hash(row["content"])
    if table == "learning_runs" and row["status"] == "open":  # whoever works on it does so in another store
        row |= {"status": "failed", "last_error": "abandoned", "lease_until": None}
    if table == "entities":
        row["folded_name"] = folded(row["canonical_name"])
    if row.get("folded_predicate") is not None:  # a fact without one is completed later
        row |= {f"folded_{name}": claims.folded(row[name]) for name in ("subject", "predicate")}
    for names in _KEYS.get(table, ()):
        intake.key(names[-1].removeprefix("folded_"), *(row[name] or "" for name in ("tenant_id", *names)))
    vector = row.get("embedding")
    if vector is not None and dimension is not None and len(vector) != 4 * dimension:
        raise InvalidInput("embedding", f"has {len(vector)} bytes", f"{4 * dimension} bytes")
    return table, row


def _parsed(line: Any, tenant_id: str | None) -> tuple[str, Row]:
    table = line.get("table") if isinstance(line, dict) else None
    if not isinstance(table, str) or table not in MOVED or not isinstance(line.get("row"), dict):
        raise InvalidInput("", "is not a row of a Tulving export", f"table one of {', '.join(MOVED)}")
    row = dict(line["row"])
    if tenant_id is None and not isinstance(row.get("tenant_id"), str):
        raise InvalidInput("", "does not name its tenant", "an export of all tenants")
    if tenant_id is not None and row.setdefault("tenant_id", tenant_id) != tenant_id:
        raise InvalidInput("", f"belongs to the tenant {row['tenant_id']!r:.80}", f"rows of {tenant_id!r}")
    if MOVED[table].kind is not None:  # an export from before these columns existed is still good
        row.setdefault("accessed_at", row.get("last_referenced_at") or row.get("created_at"))
        row.setdefault("session_id", None)
        for name in {"folded_subject", "folded_predicate", "restated_at", "run_id", "event_key"} & {
            *MOVED[table].columns
        }:
            row.setdefault(name, None)
        if "ended_at" in MOVED[table].columns:
            out = row.get("validity") in ("superseded", "expired")
            row.setdefault("ended_at", row.get("updated_at") if out else None)
    if table == "sessions":
        row = {"owner": "", **dict.fromkeys(("user_id", "household_id", "persona_id", "butler")), **row}
    if wrong := set(MOVED[table].columns).symmetric_difference(row):
        raise InvalidInput("", f"has missing or unknown columns: {', '.join(sorted(wrong))}")
    return table, row


def _value(table: str, name: str, value: Any) -> Any:
    if value is None:
        if name in _NULLABLE[table]:
            return None
        raise InvalidInput(name, "is missing", "a value")
    if any(clean(text) != text for text in _texts(value)):
        raise InvalidInput(name, "has a character that no database can hold", "no NUL and no lone surrogates")
    return (_CHECKS.get(f"{table}.{name}") or _CHECKS.get(name, intake.name))(name, value)


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as several:
                waiting += several
            case dict() as several:
                waiting += (*several, *several.values())


# -- values ----------------------------------------------------------------------------------------------------


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(name, f"must be text, not {type(value).__name__}", "a string")
    return value


def _moment(name: str, value: Any) -> datetime | None:
    text = _text(name, value)
    try:
        return intake.moment(name, datetime.fromisoformat(text))
    except ValueError:
        raise InvalidInput(name, f"{text!r:.80} is not a time", "a time such as 2026-01-31T12:00:00+00:00") from None


def _object(name: str, value: Any) -> dict[str, Any]:
    try:
        return intake.metadata(value)
    except InvalidInput as error:
        raise InvalidInput(error.field.replace("metadata", name, 1), error.problem, error.allowed) from None


def _objects(name: str, value: Any) -> list[dict[str, Any]]:
    several = intake.items(name, value, None, "a list of objects")
    if None in several:
        raise InvalidInput(name, "holds null", "a list of objects")
    return [_object(name, each) for each in several]


def _ids(name: str, value: Any) -> list[str]:
    return [str(intake.memory_id(name, each)) for each in intake.items(name, value, None, "a list of UUIDs")]


def _each(check: Check, name: str, value: Any) -> dict[str, Any]:
    return {key: check(f"{name}.{key}", each) for key, each in _object(name, value).items()}


def _check_offer(action: Action, offer: Row) -> None:
    """A proposal is taken as it is once a person accepts it."""
    record = ExtractedFact if action == "new_fact" and "category" in offer else _OFFERED[action]
    columns = {"target_id"} if record is None else {field.name for field in fields(record)}
    if wrong := columns.symmetric_difference(offer):
        raise InvalidInput("offer", f"has missing or unknown values: {', '.join(sorted(wrong))}", "a whole proposal")
    nullable = frozenset() if record is None else optional(record)
    for name, value in offer.items():
        if value is not None or name not in nullable:
            try:
                _CHECKS.get(name, intake.name)(name, value)
            except InvalidInput as error:
                raise InvalidInput(f"offer.{error.field}", error.problem, error.allowed) from None


def _check_sides(settlement: Row) -> None:
    """What is settled is between two notes, and is carried out if a person accepts it."""
    sides = {settlement["candidate_id"], settlement["existing_id"]}
    if len(sides) < 2:
        raise InvalidInput("existing_id", "is the candidate itself", "another note")
    for name in ("winner_id", "loser_id"):
        if settlement[name] not in (None, *sides):
            raise InvalidInput(name, "is neither side", "the candidate, the existing note, or null")
    if (settlement["outcome"] == "held") != (settlement["status"] in ("held", "dismissed")):
        problem = f"{settlement['status']} does not fit the outcome {settlement['outcome']}"
        raise InvalidInput("status", problem, "held or dismissed for what was held, and for nothing else")
    if (settlement["outcome"] == "merged") != (settlement["merged_id"] is not None):
        raise InvalidInput("merged_id", f"does not fit the outcome {settlement['outcome']}", "the note of a merge")


_OFFERED: dict[Action, type | None] = {
    "new_fact": LearnedFact,
    "updated_fact": UpdatedFact,
    "new_rule": LearnedRule,
    "confirmation": None,
}


def _vector(name: str, value: Any) -> bytes:
    try:
        packed = base64.b64decode(_text(name, value), validate=True)
        numbers = array("f", packed)
    except ValueError as error:
        raise InvalidInput(name, f"can't be read ({error})", "32-bit numbers in base64") from None
    if not all(map(math.isfinite, numbers)):
        raise InvalidInput(name, "holds NaN or infinity", "finite numbers")
    return packed


# By column, or by table and column where the same name means something else. Every other column is a name.
_CHECKS: dict[str, Check] = {
    **dict.fromkeys(TIMES, _moment),
    **dict.fromkeys(UUIDS, intake.memory_id),
    **dict.fromkeys(FLAGS, intake.flag),
    **dict.fromkeys(WHOLE_NUMBERS, partial(intake.whole, low=0, high=MOST_COUNTED)),
    **dict.fromkeys(
        "tenant_id owner user_id household_id persona_id actor request_id content_hash folded_name"
        " folded_subject folded_predicate last_consolidation_error last_error reason summary".split(),
        _text,
    ),
    **dict.fromkeys(("metadata", "payload", "context", "offer"), _object),
    "shown": partial(_each, _ids),
    "counts": partial(_each, partial(intake.whole, low=0, high=MOST_COUNTED)),
    "evidence": _ids,
    **dict.fromkeys(("source_type", "target_type", "memory_type"), partial(intake.one_of, allowed=KINDS)),
    "number": partial(intake.whole, low=1, high=MOST_COUNTED),
    "content": lambda name, value: intake.content(value, name),
    "tags": lambda name, value: intake.tags(value),
    "aliases": lambda name, value: aliases(value, most=None),
    "embedding": _vector,
    "importance": partial(intake.number, low=0, high=10),
    "confidence": partial(intake.number, low=0, high=1),
    "effectiveness_score": partial(intake.number, low=0, high=1),
    "decay_rate": partial(intake.number, low=0, high=FASTEST_DECAY),
    "consolidation_status": partial(intake.one_of, allowed=("pending", "consolidated", "failed", "dead_letter")),
    "validity": lambda name, value: intake.one_of(name, canonical_state(value), VALIDITIES),
    "status": partial(intake.one_of, allowed=("fading",)),
    "learning_runs.status": partial(intake.one_of, allowed=get_args(RunStatus)),
    "profile_blocks.content": _text,
    "block": partial(intake.one_of, allowed=BLOCKS),
    "action": partial(intake.one_of, allowed=get_args(Action)),
    "job": partial(intake.one_of, allowed=("consolidation", "extraction")),
    "sessions.status": partial(intake.one_of, allowed=SESSION_STATUSES),
    "permanence": partial(intake.one_of, allowed=tuple(PERMANENCE)),
    "maturity": partial(intake.one_of, allowed=("candidate", "established", "proven", "anti_pattern")),
    "relation": partial(intake.one_of, allowed=RELATIONS),
    "entities.entity_type": partial(intake.one_of, allowed=ENTITY_TYPES),
    "outcome": partial(intake.one_of, allowed=("helpful", "harmful")),
    "settlements.outcome": partial(intake.one_of, allowed=SETTLED),
    "settlements.action": partial(intake.one_of, allowed=get_args(SettlementAction)),
    "settlements.status": partial(intake.one_of, allowed=SETTLEMENT_STATUSES),
    "signals": _objects,
    "rules": lambda name, value: MergeRuleRegistry(value).export_rules(),
    "merge_rules.version": partial(intake.whole, low=1, high=MOST_COUNTED),
}
# What is looked up together, beside the tenant.
_KEYS: dict[str, Sequence[tuple[str, ...]]] = {
    "episodes": [("butler",)],
    "facts": [("scope", "owner", "predicate", "subject"), ("scope", "owner", "folded_predicate", "folded_subject")],
    "rules": [("scope",)],
    "entities": [("canonical_name",), ("folded_name",)],
    "profile_blocks": [("owner",)],
}
