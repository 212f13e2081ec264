"""Merge rules in a store: they belong to a tenant, survive a restart, and leave a trail."""

import asyncio
import json

import pytest
from administration import administer

from tulving import Caller, IntegrityError, InvalidInput, NotFound, open_memory
from tulving.bootstrap import copy_store
from tulving.domain.merge_rules import MergeRuleRegistry
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig

ROWS = "SELECT * FROM merge_rules ORDER BY tenant_id"
WORK = {
    "name": "work",
    "priority": 5,
    "conditions": {"source": ["user", "skill"], "importance_range": {"min": 0.5}},
    "arbitration": {"weights": {"recency": 0.25}, "source_priorities": {"zoe": 3, "bot": 1.5, "ännä 🙂": 1000}},
    "merge": {"content_strategy": "replace"},
}


def events(sql):
    return sql("SELECT * FROM memory_events WHERE entity_type = 'merge_rule' ORDER BY seq")


async def reopened(url, embedder, clock, tenant="default"):
    async with open_memory(url, embedder=embedder, clock=clock, background=False) as memory:
        there = memory.bind(caller=Caller(tenant))
        return await there.merge_rules(), await there.export_merge_rules()


@pytest.mark.scenario("000-037", "000-039", "000-041", "000-042")
async def test_rules_survive_a_restart_and_leave_a_trail(memory, sql, url, embedder, clock):
    assert [rule.name for rule in await memory.merge_rules()] == ["default"]
    assert await memory.load_merge_rules([{"name": "default"}]) == 0
    assert sql(ROWS) == [], "nothing was changed"
    told = []
    memory.subscribe(told.extend)
    mine = memory.bind(caller=Caller("default", "ann", "r1"))
    registered = await mine.register_merge_rule(WORK)
    assert registered == await memory.merge_rule("work") and registered.own == {**WORK, "version": 1}
    clock.advance(hours=1)
    await mine.register_merge_rule({"name": "late", "extends": "work"})
    updated = await mine.update_merge_rule("work", {"priority": None, "merge": {"keywords": "intersection"}})
    assert (updated.priority, updated.version, updated.merge.content_strategy) == (0, 2, "replace")
    await mine.delete_merge_rule("late")
    assert await memory.merge_rule("late") is None

    [row] = sql(ROWS)
    assert (row["tenant_id"], row["version"], row["updated_at"]) == ("default", 5, clock.now)
    pure = MergeRuleRegistry(row["rules"], row["version"])
    assert pure.rules() == await memory.merge_rules()
    exported = await memory.export_merge_rules()
    assert json.dumps(exported) == json.dumps(pure.export_rules()), "the same order on both engines"
    assert await reopened(url, embedder, clock) == (pure.rules(), exported)

    trail = events(sql)
    last = {**WORK, "merge": {"content_strategy": "replace", "keywords": "intersection"}, "version": 2}
    del last["priority"]
    late = {"name": "late", "extends": "work", "version": 1}
    assert [(each["event_type"], each["payload"]) for each in trail] == [
        ("merge_rule_registered", {"name": "work", "config": {**WORK, "version": 1}}),
        ("merge_rule_registered", {"name": "late", "config": late}),
        ("merge_rule_updated", {"name": "work", "config": last}),
        ("merge_rule_deleted", {"name": "late", "config": late}),
    ]
    assert {(each["entity_id"], each["actor"], each["request_id"]) for each in trail} == {(None, "ann", "r1")}
    assert [event.id for event in told] == [each["id"] for each in trail]
    assert not [each for each in (await administer(memory).verify()).findings if each.problems]


@pytest.mark.scenario("000-042")
async def test_rules_belong_to_one_tenant_and_only_all_of_it_may_change_them(memory, sql):
    theirs = memory.bind(caller=Caller("other"))
    assert await memory.load_merge_rules([{"name": "heir", "extends": "base"}, {"name": "base", "priority": 3}]) == 2
    await theirs.update_merge_rule("default", {"arbitration": {"allow_merge": False}})
    assert [rule.name for rule in await theirs.merge_rules()] == ["default"]
    assert [(row["tenant_id"], row["version"]) for row in sql(ROWS)] == [("default", 3), ("other", 2)]
    assert (await memory.merge_rule("heir")).priority == 3
    assert (await memory.merge_rule("default")).arbitration.allow_merge
    assert await memory.load_merge_rules(await memory.export_merge_rules()) == 0

    assert {each.effect for name, each in OPERATIONS.items() if "merge_rule" in name} == {"review"}, "not for a model"
    before = sql(ROWS), events(sql)
    for bound in ({"user_id": "ann"}, {"household_id": "h"}, {"persona_id": "p"}, {"project": "x"}, {"scope": "s"}):
        part = memory.bind(**bound)
        assert (await part.merge_rule("heir")).priority == 3
        assert len(await part.merge_rules()) == len(await part.export_merge_rules()) == 3
        for change in (
            part.register_merge_rule({"name": "mine"}),
            part.update_merge_rule("heir", {"priority": 1}),
            part.delete_merge_rule("heir"),
            part.load_merge_rules([{"name": "mine"}]),
        ):
            with pytest.raises(InvalidInput, match="merge_rules: they hold for the whole tenant"):
                await change
    refused = [
        (memory.register_merge_rule({"name": "heir"}), InvalidInput, "there is a rule heir already"),
        (memory.register_merge_rule({"name": "a\x00b"}), InvalidInput, "U\\+0000"),
        (memory.register_merge_rule({"name": "x", "extends": "y"}), InvalidInput, "x extends y, which is not there"),
        (memory.update_merge_rule("base", {"extends": "heir"}), InvalidInput, "base extends heir extends base"),
        (
            memory.update_merge_rule("heir", {"merge": {"boost_amount": float("nan")}}),
            InvalidInput,
            "merge.boost_amount",
        ),
        (memory.update_merge_rule("nothing", {}), NotFound, "Rule not found: nothing"),
        (memory.delete_merge_rule("nothing"), NotFound, "Rule not found: nothing"),
        (memory.delete_merge_rule("base"), InvalidInput, "base is extended by heir"),
        (memory.delete_merge_rule("default"), InvalidInput, "Cannot delete default rule"),
        (memory.load_merge_rules([{"name": "good"}, {"name": "bad", "priority": 0.5}]), InvalidInput, "rules\\[1\\]"),
    ]
    for change, error, said in refused:
        with pytest.raises(error, match=said):
            await change
    assert (sql(ROWS), events(sql)) == before


async def test_changes_at_the_same_time_are_all_felt(memory, url, embedder):
    async with open_memory(url, embedder=embedder, background=False) as second:
        sides = (memory, second)
        await asyncio.gather(*(sides[n % 2].register_merge_rule({"name": f"r{n}"}) for n in range(6)))
        await asyncio.gather(
            memory.update_merge_rule("r0", {"priority": 5}),
            second.update_merge_rule("r0", {"merge": {"keywords": "intersection"}}),
        )
        rule = await memory.merge_rule("r0")
        assert (rule.priority, rule.merge.keywords, rule.version) == (5, "intersection", 3)
        assert {rule.name for rule in await second.merge_rules()} == {"default", *(f"r{n}" for n in range(6))}


async def test_rules_that_were_spoilt_by_hand_are_an_error_of_their_tenant_alone(memory, sql):
    await memory.register_merge_rule({"name": "a"})
    other = memory.bind(caller=Caller("other"))
    await other.register_merge_rule({"name": "b"})
    for wrong in ('[{"name": "x", "extends": "x"}]', '[{"name": "a", "colour": 1}]', "[5]"):
        sql(f"UPDATE merge_rules SET rules = '{wrong}' WHERE tenant_id = 'default'")
        for attempt in (memory.merge_rules(), memory.register_merge_rule({"name": "c"}), memory.load_merge_rules([])):
            with pytest.raises(IntegrityError, match=r"merge rules of default can't be read: .*; correct or delete"):
                await attempt
        assert [rule.name for rule in await other.merge_rules()] == ["b", "default"]
        await other.update_merge_rule("b", {"priority": 1})
    [found] = [each for each in (await administer(memory).verify()).findings if each.problems]
    assert found.check == "merge rules" and len(found.problems) == 1 and "of default" in found.problems[0]
    sql("DELETE FROM merge_rules WHERE tenant_id = 'default'")
    assert [rule.name for rule in await memory.merge_rules()] == ["default"]


@pytest.mark.scenario("000-042")
async def test_rules_are_the_same_in_another_store(memory, url, new_url, embedder, clock, tmp_path, sql):
    await memory.register_merge_rule(WORK)
    await memory.register_merge_rule({"name": "heir", "extends": "work", "version": 7})
    assert (await memory.export(tmp_path / "a.jsonl"))["merge_rules"] == 1
    imported, copied = new_url(), new_url()
    async with open_memory(imported, embedder=embedder, clock=clock, background=False) as other:
        assert (await other.import_(tmp_path / "a.jsonl"))["merge_rules"] == {"added": 1, "skipped": 0}
        await other.update_merge_rule("work", {"priority": 9})
        assert (await other.import_(tmp_path / "a.jsonl"))["merge_rules"] == {"added": 0, "skipped": 1}
        assert (await other.merge_rule("heir")).priority == 9, "what is there stays"
        assert (await other.merge_rule("heir")).version == 7
    done = await copy_store(url, copied, config=MemoryModuleConfig())
    assert (done.ok, done.tables["merge_rules"].copied) == (True, 1)
    assert await reopened(copied, embedder, clock) == (await memory.merge_rules(), await memory.export_merge_rules())

    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    row = next(line["row"] for line in lines if line.get("table") == "merge_rules")
    there = memory.bind(caller=Caller("there"))
    for name, told, bad in (
        ("rules", "rules", None),
        ("rules", "rules", {}),
        ("rules", "rules[0]", [5]),
        ("rules", "rules[0].merge.keywords", [{"name": "a", "merge": {"keywords": "x"}}]),
        ("rules", "rules[1].name", [{"name": "a"}, {"name": "a"}]),
        ("rules", "rules", [{"name": "a\x00"}]),
        ("rules", "extends", [{"name": "a", "extends": "b"}]),
        ("version", "version", 0),
        ("version", "version", 1.5),
        ("version", "version", 10**10),
        ("updated_at", "updated_at", "soon"),
    ):
        spoilt = [{**line, "row": {**row, name: bad}} if line.get("row") is row else line for line in lines]
        (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, spoilt)))
        with pytest.raises(InvalidInput) as refusal:
            await there.import_(tmp_path / "b.jsonl")
        assert refusal.value.field.endswith(f", {told}"), (bad, refusal.value)
    row["rules"] = [{"name": "a", "priority": None, "conditions": {"source": " User"}, "merge": {}}]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    await there.import_(tmp_path / "b.jsonl")
    assert [each["rules"][1:] for each in sql(ROWS) if each["tenant_id"] == "there"] == [
        [{"name": "a", "conditions": {"source": "user"}, "version": 1}]
    ], "as they would have been registered"
