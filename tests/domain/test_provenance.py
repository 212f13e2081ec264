"""How memories around one stand to it in time."""

from datetime import UTC, datetime
from uuid import UUID

from tulving.domain.model import Fact, Link, Rule
from tulving.domain.provenance import distinct, own_links, steps

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SAID, FACT, NEWER, RULE = (UUID(int=number) for number in range(1, 5))


def link(source, relation, target):
    return Link(
        source_type="fact", source_id=source, target_type="fact", target_id=target, relation=relation, created_at=NOW
    )


def test_what_led_to_another_stands_before_it():
    links = [link(FACT, "derived_from", SAID), link(NEWER, "supersedes", FACT)]
    assert steps(FACT, links) == {SAID: -1, FACT: 0, NEWER: 1}
    assert steps(SAID, links) == {SAID: 0, FACT: 1, NEWER: 2}


def test_a_shortcut_does_not_put_two_in_one_place():
    links = [link(FACT, "derived_from", SAID), link(RULE, "derived_from", FACT), link(RULE, "derived_from", SAID)]
    assert steps(FACT, links) == {SAID: -1, FACT: 0, RULE: 1}


def test_a_late_source_stands_just_before_what_it_led_to():
    links = [link(FACT, "derived_from", SAID), link(NEWER, "supersedes", FACT), link(RULE, "supports", NEWER)]
    assert steps(NEWER, links)[RULE] == -1


def test_support_comes_before_what_it_supports_and_contradiction_beside():
    links = [link(SAID, "supports", FACT), link(NEWER, "contradicts", FACT)]
    assert steps(FACT, links) == {SAID: -1, FACT: 0, NEWER: 0}


def test_a_circle_ends():
    links = [link(FACT, "derived_from", NEWER), link(NEWER, "derived_from", FACT)]
    assert set(steps(FACT, links)) == {FACT, NEWER}
    assert steps(FACT, links)[FACT] == 0


def test_one_that_is_alone_stands_in_its_place():
    assert steps(FACT, []) == {FACT: 0}


def test_a_memory_tells_its_own_links():
    common = {"tenant_id": "t", "content": "x", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    fact = Fact(**common, id=NEWER, subject="s", predicate="p", source_episode_id=SAID, supersedes_id=FACT)
    told = [(each.relation, each.target_type, each.target_id) for each in own_links(fact)]
    assert told == [("derived_from", "episode", SAID), ("supersedes", "fact", FACT)]
    [from_episode] = own_links(Rule(**common, id=RULE, source_episode_id=SAID))
    assert (from_episode.source_type, from_episode.source_id) == ("rule", RULE)
    assert distinct([from_episode, from_episode]) == [from_episode]
