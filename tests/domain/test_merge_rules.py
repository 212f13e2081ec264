import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.arbitration import ArbitrationPolicy
from tulving.domain.merge_rule_config import DEFAULT, LAST_VERSION, MOST_NAMES, MOST_RULES, MergeRule
from tulving.domain.merge_rules import MOST_BASES, MergeRuleRegistry, ResolvedRule, RuleEvent
from tulving.domain.merging import MergePolicy
from tulving.domain.model import Fact
from tulving.errors import InvalidInput, NotFound

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FACT = Fact(
    tenant_id="t",
    id=UUID(int=1),
    content="c",
    content_hash="h",
    created_at=NOW,
    updated_at=NOW,
    subject="s",
    predicate="p",
)


def registry(*rules: dict[str, Any]) -> MergeRuleRegistry:
    made = MergeRuleRegistry()
    for rule in rules:
        made.register_rule(rule)
    return made


def got(rules: MergeRuleRegistry, name: str) -> ResolvedRule:
    rule = rules.get_rule(name)
    assert rule is not None
    return rule


def found(rules: MergeRuleRegistry, existing: Fact | None = None, **values: Any) -> str:
    candidate = replace(FACT, **values)
    return rules.find_matching_rule(candidate, existing or candidate).name


def state(rules: MergeRuleRegistry) -> Any:
    return rules.version, rules.export_rules(), rules.rules()


# -- registration and lookup -----------------------------------------------------------------------------------


@pytest.mark.scenario("000-037")
def test_the_default_rule_is_always_there() -> None:
    rules = MergeRuleRegistry()
    rule = got(rules, "default")
    assert (rules.version, rule.priority, rule.enabled, rule.version) == (1, 0, True, 1)
    assert (rule.conditions, rule.extends) == ({}, None)
    assert (rule.arbitration, rule.merge) == (ArbitrationPolicy(), MergePolicy())
    assert rules.rules() == [rule]
    assert rules.export_rules() == [{"name": "default", "version": 1}]


@pytest.mark.scenario("000-037")
def test_a_registered_rule_is_found_by_its_name() -> None:
    rules = MergeRuleRegistry()
    given = {
        "name": "work",
        "priority": 10,
        "enabled": False,
        "conditions": {"user_id": "ann", "importance_range": {"min": 0.5}},
        "arbitration": {"merge_threshold": 0.5, "weights": {"recency": 1}, "default_strategy": "reject"},
        "merge": {"content_strategy": "replace", "deduplicate": False},
    }
    rule = rules.register_rule(given)
    assert rules.get_rule("work") == rule
    assert (rule.name, rule.priority, rule.enabled, rule.version, rules.version) == ("work", 10, False, 1, 2)
    assert rule.conditions == given["conditions"]
    weights = {**ArbitrationPolicy().weights, "recency": 1.0}
    assert rule.arbitration == replace(
        ArbitrationPolicy(), merge_threshold=0.5, weights=weights, default_strategy="reject"
    )
    assert rule.merge == replace(MergePolicy(), content_strategy="replace", deduplicate=False)
    assert rule.own == {**given, "version": 1}
    assert rules.get_rule("nothing") is None


def test_a_rule_may_also_be_given_as_a_value() -> None:
    value = MergeRule(name="work", extends="default", merge=MappingProxyType({"keywords": "intersection"}))
    rule = MergeRuleRegistry().register_rule(value)
    assert (rule.extends, rule.merge.keywords) == ("default", "intersection")
    for wrong in (replace(value, priority=10**6), replace(value, merge={"x": 1}), replace(value, name="")):
        with pytest.raises(InvalidInput):
            MergeRuleRegistry().register_rule(wrong)


def test_every_value_of_the_policies_can_be_set() -> None:
    """Their fields are the keys, whatever is added to them."""
    policies: dict[str, Any] = {"arbitration": ArbitrationPolicy(), "merge": MergePolicy()}
    for part, policy in policies.items():
        for each in fields(policy):
            value = getattr(policy, each.name)
            given = dict(value) if isinstance(value, Mapping) else value
            rules = registry({"name": "a", part: {each.name: given}})
            assert getattr(got(rules, "a"), part) == policy
            assert rules.export_rules()[1][part] == {each.name: given}


def test_a_name_is_taken_once() -> None:
    rules = registry({"name": "a", "priority": 1})
    before = state(rules)
    for name in ("a", "default"):
        with pytest.raises(InvalidInput, match=f"name: there is a rule {name} already"):
            rules.register_rule({"name": name, "merge": {"keywords": "union"}})
    assert state(rules) == before


def test_the_callers_values_are_not_shared() -> None:
    given: dict[str, Any] = {"name": "a", "conditions": {"source": ["user"]}, "merge": {"keywords": "union"}}
    rules = registry(given)
    given["merge"]["keywords"] = "nonsense"
    given["conditions"]["source"].append("x")
    exported = rules.export_rules()
    assert exported[1] == {
        "name": "a",
        "conditions": {"source": ["user"]},
        "merge": {"keywords": "union"},
        "version": 1,
    }
    exported[1]["merge"]["keywords"] = "nonsense"
    exported[1]["conditions"]["source"].append("x")
    assert found(rules, source="x") == "default"
    assert got(rules, "a").merge.keywords == "union"
    assert rules.export_rules()[1]["merge"] == {"keywords": "union"}


PARTS = ("conditions", "arbitration", "merge")
NO_NAME = [None, "", "  ", 5, ["a"], "a\x00b", "\ud800", "a\nb", "x" * 101, b"a"]
REFUSED: list[tuple[Any, str]] = [
    (None, "rule"),
    ([], "rule"),
    ("a", "rule"),
    ({"name": "a", "colour": 1}, "rule"),
    ({"name": "a", 5: 1}, "rule"),
    ({"name": "a", "x" * 10**6: 1}, "rule"),
    ({"name": "a", "\ud800": 1}, "rule"),
    ({}, "name"),
    *(({"name": name}, "name") for name in NO_NAME),
    *(({"name": "a", "extends": name}, "extends") for name in NO_NAME if name is not None),
    *(({"name": "a", "priority": bad}, "priority") for bad in (-1001, 1001, 0.5, "1", True, float("nan"), 10**5000)),
    *(({"name": "a", "enabled": bad}, "enabled") for bad in (1, 0, "yes", [])),
    *(({"name": "a", "version": bad}, "version") for bad in (0, -1, 1.5, True, LAST_VERSION + 1)),
    *(
        ({"name": "a", part: bad}, part)
        for part in ("conditions", "arbitration", "merge")
        for bad in (1, "x", [], True)
    ),
    *(({"name": "a", part: {"x": 1}}, part) for part in ("conditions", "arbitration", "merge")),
    *(
        ({"name": "a", "conditions": {who: bad}}, f"conditions.{who}")
        for who in ("user_id", "persona_id", "source")
        for bad in (5, "", [], [5], [""], {}, "a\x00", ["\udfff"], "x" * 201, [str(n) for n in range(MOST_NAMES + 1)])
    ),
    ({"name": "a", "conditions": {"importance_range": [0, 1]}}, "conditions.importance_range"),
    ({"name": "a", "conditions": {"importance_range": {"low": 0}}}, "conditions.importance_range"),
    ({"name": "a", "conditions": {"importance_range": {"min": 0.6, "max": 0.5}}}, "conditions.importance_range"),
    *(
        ({"name": "a", "conditions": {"importance_range": {end: bad}}}, f"conditions.importance_range.{end}")
        for end in ("min", "max")
        for bad in (-0.000001, 1.000001, "1", True, float("nan"), float("inf"))
    ),
    *(
        ({"name": "a", "arbitration": {name: bad}}, f"arbitration.{name}")
        for name in ("prefer_detail", "priority_importance", "priority_recency", "priority_source", "allow_merge")
        for bad in (1, "true", {})
    ),
    *(
        ({"name": "a", "arbitration": {"weights": {name: bad}}}, f"arbitration.weights.{name}")
        for name in ("importance", "recency", "source", "semantic")
        for bad in (-0.000001, 1.000001, "1", False, float("nan"))
    ),
    ({"name": "a", "arbitration": {"weights": {"beauty": 1}}}, "arbitration.weights"),
    ({"name": "a", "arbitration": {"weights": 1}}, "arbitration.weights"),
    ({"name": "a", "arbitration": {"merge_threshold": 1.000001}}, "arbitration.merge_threshold"),
    *(
        ({"name": "a", "arbitration": {"default_strategy": bad}}, "arbitration.default_strategy")
        for bad in ("keep", 5, [], "KEEP-EXISTING")
    ),
    *(
        ({"name": "a", "arbitration": {"source_priorities": {"user": bad}}}, "arbitration.source_priorities.user")
        for bad in (-0.000001, 1000.000001, "1", True, float("nan"))
    ),
    *(
        ({"name": "a", "arbitration": {"source_priorities": bad}}, "arbitration.source_priorities")
        for bad in (5, {"": 1}, {5: 1}, {"a\x00": 1}, {"User": 1, "user ": 2}, dict.fromkeys(map(str, range(51)), 1))
    ),
    *(
        ({"name": "a", "merge": {name: bad}}, f"merge.{name}")
        for name in ("similarity_threshold", "deduplicate_threshold", "boost_amount")
        for bad in (-0.000001, 1.000001, "1", True, float("nan"))
    ),
    *(
        ({"name": "a", "merge": {name: bad}}, f"merge.{name}")
        for name in ("content_strategy", "importance", "timestamp", "keywords", "source")
        for bad in ("x", 5, [], True)
    ),
    ({"name": "a", "merge": {"deduplicate": 1}}, "merge.deduplicate"),
    *(
        ({"name": "default", name: value}, name)
        for name, value in (("extends", "a"), ("priority", 0), ("enabled", True), ("conditions", {"source": "user"}))
    ),
]


@pytest.mark.parametrize(("config", "field"), REFUSED, ids=range(len(REFUSED)))
def test_a_wrong_value_is_refused_by_its_path(config: Any, field: str) -> None:
    rules = MergeRuleRegistry()
    before = state(rules)
    told: list[RuleEvent] = []
    rules.subscribe(told.append)
    with pytest.raises(InvalidInput) as refusal:
        rules.register_rule(config)
    assert refusal.value.field == field and refusal.value.allowed
    assert len(str(refusal.value)) < 500 and str(refusal.value).encode()
    with pytest.raises(InvalidInput) as refusal:
        rules.load_rules([{"name": "good"}, config])
    assert refusal.value.field in ("rules[1]", f"rules[1].{field}", "conditions.importance_range")
    assert (state(rules), told) == (before, [])


@pytest.mark.parametrize(
    "values",
    [
        {"priority": -1000},
        {"priority": 1000},
        {"version": LAST_VERSION},
        {"conditions": {"importance_range": {"min": 0.5, "max": 0.5}}},
        {"conditions": {"importance_range": {"min": 0, "max": 1}}},
        {"conditions": {"user_id": "u" * 200, "source": [str(n) for n in range(MOST_NAMES)]}},
        {"arbitration": {"weights": dict.fromkeys(("importance", "recency", "source", "semantic"), 0)}},
        {"arbitration": {"merge_threshold": 1, "source_priorities": {str(n): 1000 for n in range(MOST_NAMES)}}},
        {"arbitration": {"source_priorities": {"user": 0}}},
        {"merge": {"similarity_threshold": 0, "deduplicate_threshold": 1, "boost_amount": 1}},
    ],
)
def test_the_bounds_themselves_are_allowed(values: dict[str, Any]) -> None:
    rules = registry({"name": "n" * 100, **values})
    assert rules.export_rules()[1] == {"name": "n" * 100, "version": 1, **values}


def test_the_name_is_required_in_these_words() -> None:
    for config in ({}, {"name": None}, {"name": ""}, {"name": " "}):
        with pytest.raises(InvalidInput, match="Rule name is required"):
            MergeRuleRegistry().register_rule(config)
    for verb in (MergeRuleRegistry().get_rule, MergeRuleRegistry().delete_rule):
        with pytest.raises(InvalidInput, match="Rule name is required"):
            verb("")


def test_there_are_so_many_rules_and_no_more() -> None:
    rules = MergeRuleRegistry([{"name": f"r{n}"} for n in range(MOST_RULES - 1)])
    before = state(rules)
    with pytest.raises(InvalidInput, match="rules: there would be 201; allowed: at most 200"):
        rules.register_rule({"name": "one more"})
    with pytest.raises(InvalidInput, match="at most 200"):
        rules.load_rules([{"name": "one more"}])
    with pytest.raises(InvalidInput, match="rules: has 201 entries; allowed: at most 200"):
        rules.load_rules([{"name": f"r{n}"} for n in range(MOST_RULES + 1)])
    assert state(rules) == before


# -- inheritance -----------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-038")
def test_all_that_a_rule_does_not_say_comes_from_its_base() -> None:
    rules = registry(
        {
            "name": "base",
            "priority": 7,
            "enabled": False,
            "conditions": {"user_id": "ann", "importance_range": {"min": 0.2}},
            "arbitration": {"allow_merge": False, "weights": {"recency": 0.9, "source": 0.8}},
            "merge": {"keywords": "intersection"},
        },
        {
            "name": "heir",
            "extends": "base",
            "conditions": {"importance_range": {"max": 0.6}, "source": "skill"},
            "arbitration": {"merge_threshold": 0.4, "weights": {"source": 0.1}},
        },
    )
    heir = got(rules, "heir")
    assert (heir.extends, heir.priority, heir.enabled, heir.version) == ("base", 7, False, 1)
    assert heir.conditions == {"user_id": "ann", "importance_range": {"min": 0.2, "max": 0.6}, "source": "skill"}
    weights = {**ArbitrationPolicy().weights, "recency": 0.9, "source": 0.1}
    assert heir.arbitration == ArbitrationPolicy(allow_merge=False, merge_threshold=0.4, weights=weights)
    assert heir.merge == MergePolicy(keywords="intersection")
    assert got(rules, "base").arbitration.weights["source"] == 0.8, "nothing goes up"


@pytest.mark.scenario("000-038")
def test_a_rule_may_say_otherwise() -> None:
    base = {"name": "base", "priority": 7, "enabled": False, "merge": {"deduplicate": False}}
    rules = registry(
        base, {"name": "heir", "extends": "base", "priority": 0, "enabled": True, "merge": {"deduplicate": True}}
    )
    heir = got(rules, "heir")
    assert (heir.priority, heir.enabled, heir.merge.deduplicate) == (0, True, True)


@pytest.mark.scenario("000-038")
def test_inheritance_over_three_levels_and_more() -> None:
    rules = registry(
        {"name": "a", "arbitration": {"merge_threshold": 0.1, "allow_merge": False}, "priority": 3},
        {"name": "b", "extends": "a", "arbitration": {"merge_threshold": 0.2}, "merge": {"importance": "max"}},
        {"name": "c", "extends": "b", "merge": {"timestamp": "min"}},
        {"name": "d", "extends": "c", "arbitration": {"allow_merge": True}},
    )
    c, d = got(rules, "c"), got(rules, "d")
    assert (c.priority, c.arbitration.merge_threshold, c.arbitration.allow_merge) == (3, 0.2, False)
    assert (c.merge.importance, c.merge.timestamp) == ("max", "min")
    assert (d.arbitration.merge_threshold, d.arbitration.allow_merge, d.merge) == (0.2, True, c.merge)


@pytest.mark.scenario("000-038")
def test_a_changed_base_is_felt() -> None:
    rules = registry({"name": "a"}, {"name": "b", "extends": "a"}, {"name": "c", "extends": "b"}, {"name": "alone"})
    rules.register_rule({"name": "d", "extends": "default"})
    rules.update_rule("a", {"priority": 9, "merge": {"keywords": "intersection"}})
    rules.update_rule("default", {"merge": {"timestamp": "min"}})
    assert [(got(rules, name).priority, got(rules, name).merge.keywords) for name in "abc"] == [(9, "intersection")] * 3
    assert got(rules, "d").merge.timestamp == "min"
    assert got(rules, "alone").merge == MergePolicy(), "without a base, the built-in values hold"
    assert [got(rules, name).version for name in ("a", "b", "default")] == [2, 1, 2]


def test_unknown_bases_and_circles_are_refused_with_the_chain() -> None:
    rules = registry({"name": "z"}, {"name": "a"}, {"name": "b", "extends": "a"}, {"name": "c", "extends": "b"})
    rules.update_rule("z", {"extends": "a"})
    before = state(rules)
    refused = [
        (lambda: rules.register_rule({"name": "x", "extends": "y"}), "x extends y, which is not there"),
        (lambda: rules.register_rule({"name": "x", "extends": "x"}), "x extends x, which is a circle"),
        (lambda: rules.update_rule("a", {"extends": "c"}), "a extends c extends b extends a, which is a circle"),
        (lambda: rules.update_rule("a", {"extends": "a"}), "a extends a, which is a circle"),
        (lambda: rules.update_rule("a", {"extends": "y"}), "a extends y, which is not there"),
        (lambda: rules.load_rules([{"name": "x", "extends": "y"}]), "x extends y, which is not there"),
        (
            lambda: rules.load_rules([{"name": "p", "extends": "q"}, {"name": "q", "extends": "p"}]),
            "p extends q extends p, which is a circle",
        ),
        (lambda: rules.load_rules([{"name": "b", "extends": "c"}]), "b extends c extends b, which is a circle"),
        (lambda: MergeRuleRegistry([{"name": "x", "extends": "x"}]), "x extends x, which is a circle"),
    ]
    for attempt, said in refused:
        with pytest.raises(InvalidInput) as refusal:
            attempt()
        assert (refusal.value.field, refusal.value.problem) == ("extends", said)
    assert state(rules) == before


def test_a_rule_has_at_most_so_many_bases() -> None:
    rules = registry({"name": "r0"}, *({"name": f"r{n}", "extends": f"r{n - 1}"} for n in range(1, MOST_BASES + 1)))
    before = state(rules)
    with pytest.raises(InvalidInput, match=r"r11 extends r10 .* extends r0, which is too deep; allowed: at most 10"):
        rules.register_rule({"name": "r11", "extends": "r10"})
    with pytest.raises(InvalidInput, match=r"r10 extends .* extends default, which is too deep"):
        rules.update_rule("r0", {"extends": "default"})
    assert state(rules) == before


def test_a_range_that_would_be_empty_for_an_heir_is_refused() -> None:
    low = {"conditions": {"importance_range": {"min": 0.5}}}
    rules = registry({"name": "a", **low}, {"name": "b", "extends": "a"})
    rules.update_rule("b", {"conditions": {"importance_range": {"max": 0.6}}})
    before = state(rules)
    with pytest.raises(InvalidInput, match=r"importance_range: of b would be empty: from 0\.7 to 0\.6"):
        rules.update_rule("a", {"conditions": {"importance_range": {"min": 0.7}}})
    assert state(rules) == before


# -- updates ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-039")
def test_an_update_keeps_what_it_does_not_name() -> None:
    rules = registry(
        {
            "name": "a",
            "priority": 5,
            "conditions": {"user_id": "ann", "importance_range": {"min": 0.1, "max": 0.9}},
            "arbitration": {"merge_threshold": 0.5, "weights": {"source": 0.5, "recency": 0.5}},
        }
    )
    updated = rules.update_rule(
        "a",
        {
            "enabled": False,
            "conditions": {"importance_range": {"max": 0.8}},
            "arbitration": {"weights": {"source": 0.6}, "source_priorities": {"Bot": 3}},
        },
    )
    assert updated == rules.get_rule("a")
    assert rules.export_rules()[1] == {
        "name": "a",
        "priority": 5,
        "enabled": False,
        "conditions": {"user_id": "ann", "importance_range": {"min": 0.1, "max": 0.8}},
        "arbitration": {
            "merge_threshold": 0.5,
            "weights": {"recency": 0.5, "source": 0.6},
            "source_priorities": {"bot": 3},
        },
        "version": 2,
    }
    assert rules.version == 3
    assert updated.arbitration.source_priorities == {**ArbitrationPolicy().source_priorities, "bot": 3}


@pytest.mark.scenario("000-039")
def test_null_takes_back_the_rules_own_value() -> None:
    rules = registry(
        {"name": "base", "priority": 3, "merge": {"keywords": "intersection"}},
        {
            "name": "a",
            "extends": "base",
            "priority": 5,
            "conditions": {"importance_range": {"min": 0.5}},
            "arbitration": {"source_priorities": {"user": 1}},
            "merge": {"keywords": "union"},
        },
    )
    changes: dict[str, Any] = {
        "priority": None,
        "conditions": {"importance_range": {"min": None}},
        "arbitration": None,
        "merge": {"keywords": None},
    }
    rule = rules.update_rule("a", changes)
    assert (rule.priority, rule.conditions, rule.merge.keywords) == (3, {}, "intersection")
    assert rule.own == {"name": "a", "extends": "base", "version": 2}
    assert rules.update_rule("a", {"extends": None, "enabled": None}).merge.keywords == "union"
    rules.update_rule("a", {"arbitration": {"source_priorities": {"x": 1, "y": 2}}})
    rules.update_rule("a", {"arbitration": {"source_priorities": {"X": None}}})
    assert rules.export_rules()[-1]["arbitration"] == {"source_priorities": {"y": 2}}
    assert registry({"name": "n", "priority": None, "merge": {"keywords": None}}).export_rules()[1] == {
        "name": "n",
        "version": 1,
    }


@pytest.mark.scenario("000-039")
def test_a_wrong_update_changes_nothing() -> None:
    rules = registry({"name": "a", "conditions": {"importance_range": {"min": 0.5}}})
    crowd = dict.fromkeys((f"s{n}" for n in range(MOST_NAMES)), 1)
    rules.update_rule("a", {"arbitration": {"source_priorities": crowd}})
    before = state(rules)
    refused: list[tuple[Any, str]] = [
        (None, "rule"),
        ([], "rule"),
        ({"name": "b"}, "rule"),
        ({"version": 7}, "rule"),
        ({"colour": 1}, "rule"),
        ({"priority": 1, "merge": {"keywords": "x"}}, "merge.keywords"),
        ({"conditions": {"importance_range": {"max": 0.4}}}, "conditions.importance_range"),
        ({"arbitration": {"source_priorities": {"one more": 1}}}, "arbitration.source_priorities"),
    ]
    for updates, field in refused:
        with pytest.raises(InvalidInput) as refusal:
            rules.update_rule("a", updates)
        assert refusal.value.field == field
    for verb in (lambda: rules.update_rule("x", {}), lambda: rules.delete_rule("x")):
        with pytest.raises(NotFound) as missing:
            verb()
        assert str(missing.value) == "Rule not found: x"
    assert state(rules) == before


@pytest.mark.scenario("000-039")
def test_the_default_rule_can_be_updated_but_not_deleted_disabled_or_restricted() -> None:
    rules = MergeRuleRegistry()
    rule = rules.update_rule("default", {"arbitration": {"default_strategy": "keep-existing"}})
    assert (rule.arbitration.default_strategy, rule.version, rules.version) == ("keep-existing", 2, 2)
    with pytest.raises(InvalidInput, match="Cannot delete default rule"):
        rules.delete_rule("default")
    for updates in ({"enabled": False}, {"priority": 5}, {"extends": "a"}, {"conditions": {"user_id": "ann"}}):
        with pytest.raises(InvalidInput, match="the default rule is for all facts and is tried last"):
            rules.update_rule("default", updates)
    assert rules.version == 2


def test_a_base_can_not_be_deleted() -> None:
    rules = registry({"name": "a"}, {"name": "b", "extends": "a"}, {"name": "c", "extends": "a"})
    with pytest.raises(InvalidInput, match="name: a is extended by b, c"):
        rules.delete_rule("a")
    assert rules.version == 4
    for name in "bca":
        rules.delete_rule(name)
    assert (rules.version, rules.get_rule("a"), len(rules.rules())) == (7, None, 1)


def test_a_version_stops_at_its_end() -> None:
    rules = registry({"name": "a", "version": LAST_VERSION})
    assert rules.update_rule("a", {"priority": 1}).version == LAST_VERSION
    assert MergeRuleRegistry(rules.export_rules()).export_rules() == rules.export_rules()


# -- matching --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-040")
def test_the_highest_priority_wins_then_the_first_registered() -> None:
    rules = registry(
        {"name": "low", "priority": -5},
        {"name": "high", "priority": 5},
        {"name": "same", "priority": 5},
        {"name": "off", "priority": 9, "enabled": False},
    )
    assert [rule.name for rule in rules.rules()] == ["off", "high", "same", "low", "default"]
    assert found(rules) == "high"
    rules.update_rule("high", {"enabled": False})
    assert found(rules) == "same"
    rules.update_rule("same", {"priority": -6})
    assert found(rules) == "low", "also a negative priority comes before the default rule"
    rules.update_rule("off", {"enabled": True})
    assert found(rules) == "off"


@pytest.mark.scenario("000-040")
@pytest.mark.parametrize(
    ("conditions", "matching", "others"),
    [
        ({"user_id": "ann"}, [{"user_id": "ann"}], [{"user_id": "ben"}, {}, {"user_id": "Ann"}]),
        ({"persona_id": "p"}, [{"persona_id": "p"}], [{"persona_id": "q"}, {}]),
        ({"user_id": ["ann", "ben"]}, [{"user_id": "ann"}, {"user_id": "ben"}], [{"user_id": "cid"}, {}]),
        ({"source": "Skill"}, [{"source": "skill"}, {"source": " SKILL "}], [{"source": "user"}, {}]),
        ({"source": "user"}, [{}, {"source": "user"}], [{"run_id": UUID(int=9)}]),
        ({"source": ["inferred"]}, [{"run_id": UUID(int=9)}, {"source": "inferred"}], [{}]),
        ({"importance_range": {"min": 0.7}}, [{"importance": 7.0}, {"importance": 10.0}], [{"importance": 6.999}]),
        ({"importance_range": {"max": 0.3}}, [{"importance": 3.0}, {"importance": 0.0}], [{"importance": 3.001}]),
        ({"importance_range": {"min": 0.8}}, [{"importance": (0.7 + 0.1) * 10}], []),
        (
            {"user_id": "ann", "source": "user", "importance_range": {"min": 0.2, "max": 0.6}},
            [{"user_id": "ann", "importance": 2.0}, {"user_id": "ann", "importance": 6.0}],
            [{"user_id": "ann", "source": "x"}, {"user_id": "ben"}, {"user_id": "ann", "importance": 7.0}],
        ),
        ({}, [{}, {"user_id": "ann"}], []),
    ],
)
def test_conditions(conditions: Any, matching: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    rules = registry({"name": "a", "conditions": conditions})
    assert [found(rules, **values) for values in matching] == ["a"] * len(matching)
    assert [found(rules, **values) for values in others] == ["default"] * len(others)


@pytest.mark.scenario("000-040")
def test_user_and_persona_are_those_of_both_facts_and_the_rest_is_the_candidates() -> None:
    rules = registry(
        {"name": "a", "conditions": {"user_id": "ann", "source": "skill", "importance_range": {"min": 0.9}}}
    )
    known = replace(FACT, user_id="ann", source="other", importance=1.0)
    assert found(rules, known, user_id="ann", source="skill", importance=9.0) == "a"
    assert found(rules, replace(known, user_id="ben"), user_id="ann", source="skill", importance=9.0) == "default"


# -- events ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-041")
def test_each_change_is_told_with_name_and_configuration() -> None:
    rules = MergeRuleRegistry()
    told: list[RuleEvent] = []
    rules.subscribe(told.append)
    seen: list[int] = []
    rules.subscribe(lambda event: seen.append(rules.version))
    rules.register_rule({"name": "a", "priority": 1})
    rules.update_rule("a", {"merge": {"keywords": "union"}})
    rules.register_rule({"name": "b", "extends": "a"})
    rules.delete_rule("b")
    rules.delete_rule("a")
    with pytest.raises(NotFound):
        rules.delete_rule("a")
    last = {"name": "a", "priority": 1, "merge": {"keywords": "union"}, "version": 2}
    assert told == [
        RuleEvent("rule:registered", "a", {"name": "a", "priority": 1, "version": 1}),
        RuleEvent("rule:updated", "a", last),
        RuleEvent("rule:registered", "b", {"name": "b", "extends": "a", "version": 1}),
        RuleEvent("rule:deleted", "b", {"name": "b", "extends": "a", "version": 1}),
        RuleEvent("rule:deleted", "a", last),
    ]
    assert seen == [2, 3, 4, 5, 6], "the change is made before it is told"


@pytest.mark.scenario("000-041")
def test_the_error_of_a_listener_rises_and_the_change_stays() -> None:
    rules = MergeRuleRegistry()

    def fail(event: RuleEvent) -> None:
        raise RuntimeError(event.name)

    rules.subscribe(fail)
    with pytest.raises(RuntimeError, match="a"):
        rules.register_rule({"name": "a"})
    assert rules.version == 2 and rules.get_rule("a")


def test_a_reset_leaves_the_default_rule() -> None:
    rules = registry({"name": "a"}, {"name": "b", "extends": "a"})
    rules.update_rule("default", {"merge": {"keywords": "intersection"}})
    told: list[RuleEvent] = []
    rules.subscribe(told.append)
    rules.reset()
    assert [(event.type, event.name, event.config) for event in told] == [
        ("rule:deleted", "a", {"name": "a", "version": 1}),
        ("rule:deleted", "b", {"name": "b", "extends": "a", "version": 1}),
        ("rule:updated", "default", {"name": "default", "version": 3}),
    ]
    assert (rules.version, rules.export_rules()) == (7, [{"name": "default", "version": 3}])
    assert got(rules, "default").merge == MergePolicy()
    rules.reset()
    assert rules.version == 7, "there was nothing to reset"


# -- export and load -------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-042")
def test_rules_are_exported_with_what_they_extend_and_loaded_in_any_order() -> None:
    rules = registry({"name": "a", "priority": 2}, {"name": "b", "extends": "a"}, {"name": "c", "extends": "b"})
    exported = rules.export_rules()
    assert [(rule["name"], rule.get("extends")) for rule in exported] == [
        ("default", None),
        ("a", None),
        ("b", "a"),
        ("c", "b"),
    ]
    fresh = MergeRuleRegistry()
    told: list[RuleEvent] = []
    fresh.subscribe(told.append)
    assert fresh.load_rules(exported[::-1]) == 3
    assert fresh.version == 4
    assert {rule.name: rule for rule in fresh.rules()} == {rule.name: rule for rule in rules.rules()}
    assert [(event.type, event.name) for event in told] == [("rule:registered", name) for name in "cba"]


@pytest.mark.scenario("000-042")
def test_loading_replaces_what_differs_and_leaves_the_rest() -> None:
    rules = registry({"name": "a", "priority": 2}, {"name": "b"}, {"name": "c", "merge": {"keywords": "union"}})
    told: list[RuleEvent] = []
    rules.subscribe(told.append)
    changed = rules.load_rules(
        [{"name": "c"}, {"name": "new"}, {"name": "a", "priority": 2}, {"name": "b", "version": 5}]
    )
    assert (changed, rules.version) == (3, 7)
    assert [(event.type, event.name, event.config["version"]) for event in told] == [
        ("rule:updated", "c", 2),
        ("rule:registered", "new", 1),
        ("rule:updated", "b", 5),
    ]
    assert [(rule["name"], rule["version"]) for rule in rules.export_rules()] == [
        ("default", 1),
        ("a", 1),
        ("b", 5),
        ("c", 2),
        ("new", 1),
    ]
    assert rules.load_rules(rules.export_rules()) == 0
    assert rules.load_rules([{"name": "a", "priority": 1, "version": 1}]) == 1
    assert got(rules, "a").version == 2, "a version never goes back"


@pytest.mark.scenario("000-042")
def test_a_load_is_all_or_nothing() -> None:
    rules = registry({"name": "a"})
    before = state(rules)
    for wrong, field in (
        ([{"name": "x"}, {"name": "x"}], "rules[1].name"),
        ([{"name": "x"}, {}], "rules[1].name"),
        ([{"name": "x"}, {"name": "a", "merge": {"keywords": 5}}], "rules[1].merge.keywords"),
        ({"name": "x"}, "rules"),
        ("x", "rules"),
        (None, "rules"),
        ([{"name": "default", "enabled": False}], "rules[0].enabled"),
    ):
        with pytest.raises(InvalidInput) as refusal:
            rules.load_rules(wrong)  # pyright: ignore[reportArgumentType]
        assert refusal.value.field == field
    assert state(rules) == before


# -- any rules -------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "default")
SHARES = st.sampled_from([0, 0.25, 1, 1.0])
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "extends": st.sampled_from([*NAMES, None]),
        "priority": st.sampled_from([-1, 0, 1, None]),
        "enabled": st.sampled_from([True, False, None]),
        "conditions": st.fixed_dictionaries(
            {},
            optional={
                "user_id": st.sampled_from(["ann", ["ann", "ben"], None]),
                "importance_range": st.fixed_dictionaries({}, optional={"min": SHARES, "max": SHARES}),
            },
        ),
        "arbitration": st.fixed_dictionaries(
            {},
            optional={
                "merge_threshold": SHARES,
                "allow_merge": st.booleans(),
                "weights": st.fixed_dictionaries({}, optional={"source": SHARES, "recency": SHARES | st.none()}),
                "source_priorities": st.dictionaries(st.sampled_from(["user", "Bot", "x y"]), SHARES | st.none()),
            },
        ),
        "merge": st.fixed_dictionaries({}, optional={"keywords": st.sampled_from(["union", "intersection", None])}),
    },
)
VERBS = st.lists(
    st.tuples(st.sampled_from(["register", "update", "delete"]), st.sampled_from(NAMES), CONFIGS), max_size=20
)


def changed(verbs: list[tuple[str, str, dict[str, Any]]]) -> tuple[MergeRuleRegistry, int]:
    """The registry after these changes, of which many are refused, and how many were told."""
    rules, told = MergeRuleRegistry(), list[RuleEvent]()
    rules.subscribe(told.append)
    for verb, name, config in verbs:
        before, count = state(rules), len(told)
        try:
            if verb == "register":
                rules.register_rule({"name": name, **config})
            elif verb == "update":
                rules.update_rule(name, config)
            else:
                rules.delete_rule(name)
        except (InvalidInput, NotFound):
            assert (state(rules), len(told)) == (before, count), "what is refused changes nothing"
        else:
            assert len(told) == count + 1
    return rules, len(told)


@given(VERBS, st.randoms(use_true_random=False))
def test_any_rules_are_the_same_after_an_export(verbs: Any, random: Any) -> None:
    rules, told = changed(verbs)
    assert rules.version == 1 + told
    exported = json.loads(json.dumps(rules.export_rules(), sort_keys=True))
    fresh = MergeRuleRegistry()
    fresh.load_rules(exported)
    assert state(fresh)[1:] == state(rules)[1:]
    stored = MergeRuleRegistry(exported, rules.version)
    assert state(stored) == state(rules)
    assert json.dumps(stored.export_rules()) == json.dumps(rules.export_rules()), "also the order of the keys"
    random.shuffle(exported)
    shuffled = MergeRuleRegistry(exported)
    assert {rule.name: rule for rule in shuffled.rules()} == {rule.name: rule for rule in rules.rules()}


@given(VERBS, CONFIGS)
def test_any_update_keeps_the_siblings(verbs: Any, config: dict[str, Any]) -> None:
    rules, _ = changed(verbs)
    for before in rules.export_rules():
        try:
            after = rules.update_rule(before["name"], config).own
        except InvalidInput:
            continue
        for part in PARTS:
            kept = {name: value for name, value in before.get(part, {}).items() if name not in config.get(part, {})}
            assert kept.items() <= after.get(part, {}).items()


@given(VERBS, st.sampled_from(["ann", "ben", None]), st.floats(0, 10))
def test_any_rules_have_a_match(verbs: Any, user_id: str | None, importance: float) -> None:
    rules, _ = changed(verbs)
    fact = replace(FACT, user_id=user_id, importance=importance)
    match = rules.find_matching_rule(fact, fact)
    tried = [rule for rule in rules.rules() if rule.enabled]
    assert tried[-1].name == DEFAULT
    assert match == next(rule for rule in tried if rule.matches(fact, fact))
    assert all(rule.priority >= after.priority for rule, after in pairwise(tried[:-1]))
