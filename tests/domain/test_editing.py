"""What an edit, a confirmation and a repetition make of a memory, without a database."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tulving.domain.decay import next_review_at
from tulving.domain.editing import (
    Revision,
    confirmed,
    differing,
    edited,
    forgotten,
    offer_of,
    restated,
    reverting,
)
from tulving.domain.events import Event
from tulving.domain.maturity import inverted
from tulving.domain.model import Episode, Fact, NewEpisode, NewFact, NewRule, Rule
from tulving.domain.text import content_hash

MADE = datetime(2026, 1, 1, tzinfo=UTC)
NOW = MADE + timedelta(days=300)
COMMON = {"tenant_id": "t", "id": UUID(int=1), "created_at": MADE, "updated_at": MADE, "last_confirmed_at": MADE}
FACT = Fact(
    **COMMON,
    content="tea",
    content_hash=content_hash("tea"),
    subject="user",
    predicate="likes",
    tags=("a",),
    status="fading",
)
RULE = Rule(**COMMON, content="greet", content_hash=content_hash("greet"), metadata={"by": "me"})


@pytest.mark.scenario("001-022")
@pytest.mark.parametrize("fact", [FACT, replace(FACT, validity="expired", status=None, next_review_at=None)])
def test_a_confirmed_fact_is_in_use_and_its_decay_restarts(fact: Fact):
    assert confirmed(fact, NOW) == replace(
        FACT,
        status=None,
        validity="active",
        last_confirmed_at=NOW,
        updated_at=NOW,
        next_review_at=next_review_at(1.0, 0.008, NOW, NOW),
    )


def test_a_confirmed_rule_is_forgotten_no_more():
    gone = replace(RULE, forgotten=True, metadata={"by": "me", "forgotten": True})
    back = confirmed(gone, NOW)
    assert (back.forgotten, back.metadata, back.last_confirmed_at) == (False, {"by": "me"}, NOW)
    assert confirmed(replace(RULE, metadata={"forgotten": "keys"}), NOW).metadata == {"forgotten": "keys"}


def test_a_repetition_takes_over_what_is_given_and_nothing_else():
    given = {"confidence": 0.4, "permanence": "volatile", "decay_rate": 0.03, "tags": ["a"]}
    assert differing(FACT, given) == {"confidence": 0.4, "permanence": "volatile", "decay_rate": 0.03}
    again = restated(FACT, given, NOW)
    assert again == replace(confirmed(FACT, NOW), **given, next_review_at=next_review_at(0.4, 0.03, NOW, NOW))
    assert restated(FACT, {}, NOW) == confirmed(FACT, NOW)


@pytest.mark.scenario("001-013")
def test_a_warning_does_not_decay_whatever_happens_to_it():
    warning = inverted(replace(RULE, decay_rate=0.1, permanence="ephemeral", harmful_count=3), NOW)
    for each in (warning, confirmed(warning, NOW), edited(warning, {"content": "do not greet"}, NOW)):
        assert (each.permanence, each.decay_rate, each.next_review_at, each.status) == ("permanent", 0.0, None, None)


@pytest.mark.scenario("004-011")
def test_a_fact_never_calls_itself_forgotten():
    legacy = replace(FACT, validity="forgotten")
    assert (legacy.validity, legacy.state) == ("retracted", "retracted")


def test_what_is_stored_once_more_is_as_it_was():
    fact = offer_of(replace(FACT, type="preference", keyed=True, confidence=0.4, metadata={"forgotten": "keys"}))
    assert isinstance(fact, NewFact)
    assert (fact.subject, fact.predicate, fact.category, fact.confidence) == ("user", "likes", "preference", 0.4)
    assert fact.metadata == {"forgotten": "keys"}
    made = {name: COMMON[name] for name in ("tenant_id", "id", "created_at", "updated_at")}
    episode = offer_of(Episode(**made, content="tea?", content_hash="", butler="me"))
    assert isinstance(episode, NewEpisode)
    assert (episode.content, episode.butler, episode.occurred_at) == ("tea?", "me", made["created_at"])


def test_a_note_is_stored_once_more_without_a_key():
    note = offer_of(replace(FACT, keyed=False, predicate="preference", type="preference"))
    assert isinstance(note, NewFact)
    assert (note.subject, note.predicate, note.category) == (None, None, "preference")


def test_a_rule_is_stored_once_more_without_the_mark_of_its_forgetting():
    rule = offer_of(forgotten(RULE, NOW))
    assert isinstance(rule, NewRule)
    assert (rule.content, rule.metadata) == ("greet", {"by": "me"})


def test_a_revision_comes_back_with_what_only_its_event_knows():
    old = Revision(number=2, content="milk", tags=("b",), metadata={}, importance=3.0, created_at=MADE)
    told = {"revision": 2, "before": {"type": "goal", "confidence": None}}
    events = [edit_of({"revision": 1, "before": {"type": "knowledge"}}), edit_of(told)]
    assert reverting(FACT, old, events) == {"content": "milk", "tags": ["b"], "importance": 3.0, "category": "goal"}
    assert reverting(RULE, old, []) == {"content": "milk", "tags": ["b"]}


def edit_of(payload: dict[str, Any]) -> Event:
    about = {"tenant_id": "t", "id": UUID(int=2), "entity_type": "fact", "entity_id": FACT.id, "occurred_at": NOW}
    return Event(**about, event_type="fact_edited", payload=payload)
