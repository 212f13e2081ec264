"""The verbs of a memory's life as a model and a person use them."""

import json
from uuid import UUID

import pytest

UNKNOWN = str(UUID(int=1))


async def ask(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


@pytest.mark.scenario("001-082", "001-083")
async def test_a_model_marks_counts_and_cleans_up(connect):
    async with connect(TULVING_TOOLS="all") as client:
        rule = (await ask(client, "memory_store_rule", content="greet first"))["id"]
        marked = await ask(client, "memory_mark_helpful", rule_id=rule)
        assert (marked["id"], marked["applied_count"], marked["effectiveness_score"]) == (rule, 1, 1.0)
        for reason in ("rude", None, "late"):
            given = {"reason": reason} if reason else {}
            marked = await ask(client, "memory_mark_harmful", rule_id=rule, circumstances={"task": 7}, **given)
        assert marked["metadata"] == {"harmful_reasons": ["rude", "late"], "needs_inversion": True}
        assert "Rule not found" in await refused(client, "memory_mark_helpful", rule_id=UNKNOWN)
        assert "rule_id" in await refused(client, "memory_mark_harmful")
        episode = (await ask(client, "memory_store_episode", content="it rained", butler="b"))["id"]
        counts = await ask(client, "memory_stats")
        assert counts["episodes"]["unconsolidated"] == counts["episodes"]["total"] == 1
        assert 0 <= counts["episodes"]["backlog_age_hours"] < 1
        assert (counts["rules"]["candidate"], counts["rules"]["needs_inversion"]) == (1, 1)
        assert (await ask(client, "memory_stats", scope="health"))["facts"]["total"] == 0
        await ask(client, "memory_forget", memory_type="episode", memory_id=episode)
        cleaned = await ask(client, "memory_run_episode_cleanup", max_entries=5)
        assert cleaned == {"expired_deleted": 1, "capacity_deleted": 0, "remaining": 0}
        assert "max_entries" in await refused(client, "memory_run_episode_cleanup", max_entries=-1)
        future = {"as_of": "2999-01-01T00:00:00Z"}
        assert "in the future" in await refused(client, "memory_run_episode_cleanup", **future)
        assert (await ask(client, "memory_run_episode_cleanup", dry_run=True, **future))["remaining"] == 0
        edited = await ask(client, "memory_edit", memory_type="rule", memory_id=rule, content="greet last")
        assert edited["memory"]["content"] == "greet last"
        [revision] = (await ask(client, "memory_revisions", memory_type="rule", memory_id=rule))["revisions"]
        assert (revision["number"], revision["content"]) == (1, "greet first")


def test_a_person_marks_and_edits(cli):
    rule = json.loads(cli("store", "rule", "greet first", "--json").out)["id"]
    marked = cli("mark-helpful", rule)
    assert (marked.code, marked.err) == (0, "")
    assert marked.out.startswith(f"rule  {rule}\n  greet first\n")
    assert json.loads(cli("mark-harmful", rule, "--reason", "rude", "--json").out)["harmful_count"] == 1
    unknown = cli("mark-helpful", UNKNOWN)
    assert (unknown.code, unknown.out, unknown.err) == (3, "", f"error: Rule not found: {UNKNOWN}\n")
    assert cli("revisions", "rule", rule).out == "never edited\n"
    edited = cli("edit", "rule", rule, "--content", "greet last", "--tags", "manners")
    assert (edited.code, "greet last" in edited.out) == (0, True)
    listed = cli("revisions", "rule", rule).out.splitlines()
    assert listed[0].startswith("1  until 2")
    assert listed[1] == "   greet first"
    assert cli("edit", "rule", rule).code == 2
    assert cli("edit", "rule", UNKNOWN, "--content", "x").code == 3


def test_a_person_looks_at_the_counts(cli):
    assert cli("stats").out == "episodes  0\nfacts  0\nrules  0\n"
    for colour in ("green", "blue", "red"):
        cli("store", "fact", "Anna", "color", colour)
    cli("store", "episode", "it rained")
    lines = cli("stats").out.splitlines()
    assert lines[0] == "episodes  1"
    assert lines[1].split() == ["unconsolidated", "1", "█" * 30]
    assert lines[2].split()[:3] == ["backlog", "age", "hours"]
    assert [line.split() for line in lines[3:6]] == [
        ["facts", "3"],
        ["active", "1", "█" * 10],
        ["superseded", "2", "█" * 20],
    ]
    assert json.loads(cli("stats", "--json").out)["facts"]["superseded"] == 2


def test_a_person_cleans_up(cli):
    id_ = json.loads(cli("store", "episode", "it rained", "--json").out)["id"]
    cli("forget", "episode", id_)
    rehearsed = json.loads(cli("cleanup", "--dry-run", "--json").out)
    assert rehearsed == {"expired_deleted": 1, "capacity_deleted": 0, "remaining": 0}
    assert cli("show", "episode", id_).code == 0
    assert json.loads(cli("cleanup", "--json").out) == rehearsed
    assert cli("show", "episode", id_).code == 3
