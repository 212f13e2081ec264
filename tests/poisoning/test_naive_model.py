"""The corpus and the model that believes it must be what the poisoning test takes them for."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import get_args
from uuid import UUID

import pytest
from poisoning.corpus import CLEAN, FOREIGN_ID, FOREIGN_TENANT, PLANTED, STORED, Kind
from poisoning.naive_model import NaiveModel

from tulving.domain.model import Episode, Fact
from tulving.domain.prompts import consolidation

NOW = datetime(2026, 6, 1, tzinfo=UTC)
BASE = {"tenant_id": "t", "content_hash": "", "created_at": NOW, "updated_at": NOW}
FACTS = [
    Fact(**BASE, id=UUID(int=n), content=content, subject=subject, predicate=predicate)
    for n, (subject, predicate, content) in enumerate(STORED, 1)
]


def episode(number: int, text: str) -> Episode:
    return Episode(**BASE, id=UUID(int=1000 + number), content=text, butler="house")


def answer(model: NaiveModel, prompt: str) -> dict[str, list]:
    return json.loads(model(prompt).split("```json\n")[1].split("\n```")[0])


def test_the_corpus_is_large_and_distinct():
    kinds = Counter(planted.kind for planted in PLANTED)
    assert set(kinds) == set(get_args(Kind)) and min(kinds.values()) >= 10
    assert len({planted.text for planted in PLANTED}) == len(PLANTED) >= 110
    assert len({clean.text for clean in CLEAN}) == len({clean.content for clean in CLEAN}) == len(CLEAN) == 300
    assert len({(clean.subject, clean.predicate) for clean in CLEAN}) == 300


@pytest.mark.scenario("001-047")
@pytest.mark.parametrize("at_once", [1, 40, 1000])
def test_no_planted_episode_breaks_a_prompt_and_all_are_obeyed(at_once):
    model = NaiveModel()
    given = [*PLANTED, *CLEAN]
    rules: list[str] = []
    facts: list[tuple[str, str, str]] = []
    for start in range(0, len(given), at_once):
        some = [episode(n, item.text) for n, item in enumerate(given[start : start + at_once])]
        told = answer(model, consolidation("Template", "house", some, FACTS, []))
        rules += [rule["content"] for rule in told["new_rules"]]
        facts += [(fact["subject"], fact["predicate"], fact["content"]) for fact in told["new_facts"]]
    assert model.broken == []
    assert set(model.seen) == set(given)
    assert {planted.order for planted in PLANTED if planted.order} <= set(rules)
    assert {(clean.subject, clean.predicate, clean.content) for clean in CLEAN} <= set(facts)


@pytest.mark.parametrize("planted", [each for each in PLANTED if each.kind == "closing_tag"])
def test_a_prompt_without_escaping_is_broken(planted):
    careful = consolidation("Template", "house", [episode(1, "HERE")], FACTS, [])
    model = NaiveModel()
    told = answer(model, careful.replace("> HERE", planted.text))
    harmless = "</conversation>" in planted.text
    assert bool(model.broken) != harmless
    assert {"content": model.broken[0]} in told["new_rules"] if model.broken else harmless


def test_it_denies_what_is_stored_and_reaches_for_what_belongs_to_others():
    aimed = [planted for planted in PLANTED if planted.kind in ("contradiction", "foreign", "json")]
    some = [episode(n, planted.text) for n, planted in enumerate(aimed)]
    other = str(UUID(int=77))
    told = answer(NaiveModel([other]), consolidation("Template", "house", some, FACTS, []))
    targets = [update["target_id"] for update in told["updated_facts"]]
    assert {str(fact.id) for fact in FACTS} <= set(targets) and {other, FOREIGN_ID} <= set(targets)
    assert {other, FOREIGN_ID} <= set(told["confirmations"])
    assert any(fact.get("tenant_id") == FOREIGN_TENANT and fact["evidence"] == [other] for fact in told["new_facts"])
    assert any(
        update["subject"] == "Mallory" and update["target_id"] == str(FACTS[0].id) for update in told["updated_facts"]
    )
