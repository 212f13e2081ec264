"""What a model proposes after reading episodes. It can only name ids that it was shown; all else it adds is ignored."""

from collections.abc import Collection
from functools import partial
from typing import Any
from uuid import UUID

from tulving.domain.decay import PERMANENCE
from tulving.domain.learning import ConsolidationResult, LearnedFact, LearnedRule, UpdatedFact
from tulving.domain.text import clean
from tulving.parsing.entries import Unusable, first_of, number, object_, read, text
from tulving.parsing.json_blocks import find_object

SECTIONS = ("new_facts", "updated_facts", "new_rules", "confirmations")
EVIDENCE = ("evidence", "evidence_episode_ids", "source_episode_ids", "episodes")
Shown = Collection[UUID] | None


def parse_consolidation_output(output: str, episodes: Shown = None, known: Shown = None) -> ConsolidationResult:
    """001-048 to 001-053: the proposals in a model's answer. Whatever can't be used is reported, never raised.

    `episodes` are the ids that may be named as evidence, `known` those of the facts and rules that may be updated or
    confirmed; without them any id may.
    """
    value, problem = find_object(output, SECTIONS)
    if value is None:
        return ConsolidationResult(parse_errors=[problem or "No JSON block found in consolidation output"])
    errors: list[str] = []
    facts = read("new_facts", value.get("new_facts"), partial(_new_fact, episodes), errors)
    updates = read("updated_facts", value.get("updated_facts"), partial(_updated_fact, episodes, known), errors)
    rules = read("new_rules", value.get("new_rules"), partial(_new_rule, episodes), errors)
    confirmed = read("confirmations", value.get("confirmations"), partial(_known_id, known), errors)
    return ConsolidationResult(
        new_facts=facts,
        updated_facts=updates,
        new_rules=rules,
        confirmations=list(dict.fromkeys(confirmed)),
        parse_errors=errors,
    )


def _new_fact(episodes: Shown, value: object) -> LearnedFact:
    entry = object_(value)
    importance = number(entry.get("importance"), 1.0, 10.0)
    return LearnedFact(
        **_claim(entry),
        permanence=_permanence(entry) or "standard",
        importance=5.0 if importance is None else importance,
        tags=_tags(entry),
        confidence=number(entry.get("confidence"), 0.0, 1.0),
        evidence=_evidence(episodes, entry),
    )


def _updated_fact(episodes: Shown, known: Shown, value: object) -> UpdatedFact:
    entry = object_(value)
    return UpdatedFact(
        target_id=_known_id(known, text(entry, "target_id")),
        **_claim(entry),
        permanence=_permanence(entry),
        evidence=_evidence(episodes, entry),
    )


def _new_rule(episodes: Shown, value: object) -> LearnedRule:
    entry = object_(value)
    return LearnedRule(content=text(entry, "content"), tags=_tags(entry), evidence=_evidence(episodes, entry))


def _claim(entry: dict[str, Any]) -> dict[str, str]:
    return {field: text(entry, field) for field in ("subject", "predicate", "content")}


def _permanence(entry: dict[str, Any]) -> str | None:
    level = entry.get("permanence")
    return level if isinstance(level, str) and level in PERMANENCE else None


def _tags(entry: dict[str, Any]) -> list[str]:
    tags = entry.get("tags")
    texts = (clean(tag).strip() for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    return list(dict.fromkeys(filter(None, texts)))


def _evidence(episodes: Shown, entry: dict[str, Any]) -> tuple[UUID, ...]:
    _, named = first_of(entry, *EVIDENCE)
    if not isinstance(named, list | None):
        raise Unusable("evidence is not a list")
    ids = [_id(each) for each in named or ()]
    if None in ids or (episodes is not None and not set(ids) <= set(episodes)):
        raise Unusable("names an episode that it was not shown")
    return tuple(dict.fromkeys(filter(None, ids)))


def _known_id(known: Shown, value: object) -> UUID:
    id_ = _id(value)
    if id_ is None:
        raise Unusable("the id is not a UUID")
    if known is not None and id_ not in known:
        raise Unusable("names a memory that it was not shown")
    return id_


def _id(value: object) -> UUID | None:
    try:
        return UUID(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None
