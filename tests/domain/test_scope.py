"""What a connection may reach: the rule itself, without a database."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tulving.domain.model import Episode, Fact, Item, Rule
from tulving.domain.scope import Address, Bound, Filter, Owner, address_of

COMMON = {
    "tenant_id": "t",
    "id": UUID(int=1),
    "content": "c",
    "content_hash": "h",
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
}


def episode(**parts: str) -> Item:
    return Episode(**{**COMMON, "butler": "b", **parts})


def fact(**parts: str) -> Item:
    return Fact(**{**COMMON, "subject": "s", "predicate": "p", **parts})


def rule(**parts: str) -> Item:
    return Rule(**{**COMMON, **parts})


@pytest.mark.parametrize("make", [episode, fact, rule])
@pytest.mark.parametrize("part", ["user_id", "household_id", "persona_id", "project"])
def test_each_part_that_is_set_is_demanded(make, part):
    bound = Bound(project="ann") if part == "project" else Bound(Owner(**{part: "ann"}))
    for item, reached in ((make(**{part: "ann"}), True), (make(**{part: "bob"}), False), (make(), False)):
        assert bound.covers(item) is bound.may_change(item) is reached
        assert Bound().covers(item) and Bound().may_change(item)


def test_all_parts_are_demanded_together():
    bound = Bound(Owner("ann", "home", "nurse"), "atlas", "work")
    whole = {"user_id": "ann", "household_id": "home", "persona_id": "nurse", "project": "atlas", "scope": "work"}
    assert bound.covers(fact(**whole)) and bound.may_change(fact(**whole))
    for part in whole:
        assert not bound.covers(fact(**{**whole, part: "other"})), part


@pytest.mark.parametrize(
    ("item", "read", "changed"),
    [
        (episode(butler="work"), True, True),
        (episode(butler="other"), False, False),
        (episode(butler="global"), False, False),
        (fact(scope="work"), True, True),
        (fact(scope="other"), False, False),
        (fact(), True, False),
        (rule(scope="work"), True, True),
        (rule(scope="other"), False, False),
        (rule(), True, False),
    ],
)
def test_a_scope_reads_what_is_global_and_changes_its_own(item, read, changed):
    bound = Bound(scope="work")
    assert (bound.covers(item), bound.may_change(item)) == (read, changed)
    assert Bound(scope="global").may_change(item) == (item in (episode(butler="global"), fact(), rule()))


def test_only_what_is_bound_to_nothing_reaches_everything():
    assert Bound().everything and Filter(state="any", type="note").everything
    for bound in (Bound(Owner("ann")), Bound(project="p"), Bound(scope="global"), Filter(project="")):
        assert not bound.everything


def test_a_memory_knows_its_address():
    assert address_of(rule()) == Address("t", "rule", UUID(int=1))
    assert {address_of(item).kind for item in (episode(), fact(), rule())} == {"episode", "fact", "rule"}
