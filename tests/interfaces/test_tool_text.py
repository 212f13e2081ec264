"""Tool calls in a model's text: what is carried out, what is refused, and what the model reads of it."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tool_text_parts import VCP_RESULT, abp, events, results, vcp

from tulving import Caller, DamagedStore, InvalidInput, Memory, StoreUnavailable, ToolRunner
from tulving.interfaces.tool_text import CallResult
from tulving.settings import ToolTextConfig

TEA = {"subject": "Anna", "predicate": "drinks", "content": "green tea"}


async def contents(memory: Memory, kind: Any = "fact") -> list[str]:
    return sorted(item.content for item in (await memory.list_memories(kind, limit=100)).items)


# -- carried out -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-001", "000-002")
async def test_calls_are_read_checked_carried_out_and_answered(memory: Memory):
    loose = "And look:\n[[ABP_TOOL:memory_recall]] {'topic': 'tea',} [[END_ABP_TOOL]]"
    said = f"I will note that.\n\n{abp('memory_store_fact', **TEA)}{loose}"
    answer = await ToolRunner(memory).run(said)
    assert (answer.called, answer.protocol, answer.fallback, answer.problems) == (True, "abp", None, ())
    assert answer.prose.startswith("I will note that.") and "ABP_TOOL" not in answer.prose
    stored, recalled = answer.results
    assert (stored.tool, stored.ok, stored.error, stored.value["outcome"]) == (
        "memory_store_fact",
        True,
        None,
        "stored",
    )
    assert [hit["content"] for hit in recalled.value["results"]] == ["green tea"], (
        "the call before it has been carried out"
    )
    (_, told), (_, found) = results(answer.text)
    assert told == stored.value
    assert found == recalled.value
    assert set(found["results"][0]) == {"id", "memory_type", "subject", "predicate", "content", "date", "score"}
    assert await contents(memory) == ["green tea"]
    assert await events(memory) == ["fact_created"]


@pytest.mark.scenario("000-001")
async def test_each_call_stands_alone(memory: Memory, path: Path):
    """What is refused is refused as a whole and says how to correct it; the others are carried out."""
    refused = {
        abp("memory_recal", topic="x"): "tool: there is no 'memory_recal'; allowed: memory_recall",
        abp("Memory_Recall", topic="x"): "memory_recall",
        abp("launch_missiles"): "memory_search, memory_recall, memory_context, ",
        abp(
            "memory_store_fact", **TEA, colour="red"
        ): "colour: is not a parameter of memory_store_fact; allowed: subject, ",
        abp("memory_store_fact", subject="Anna", content="x"): "predicate: is missing; allowed: text (Which property",
        abp("memory_store_fact", **TEA | {"content": 5}): "content: 5 is not text",
        abp("memory_store_fact", **TEA, tags="tea"): "tags: 'tea' is not a list of texts",
        abp("memory_store_fact", **TEA, importance=10.5): "importance: ",
        abp("memory_store_fact", **TEA | {"subject": "x" * 100_000}): "subject: ",
        abp("memory_store_fact", **TEA | {"subject": " "}): "subject: ",
        abp("memory_get", memory_type="fact", memory_id="7"): "memory_id: ",
        abp("memory_recall", topic="x", types=["dream"]): "types: ",
        abp("memory_recall", topic="x", since="yesterday"): "since: 'yesterday' is not a time",
        abp("memory_mark_helpful", rule_id="01a1e422-5bd7-7b67-b8fb-40e943ed7b9e"): "01a1e422",
    }
    for call, problem in refused.items():
        before = await events(memory)
        answer = await ToolRunner(memory).run(call)
        [result] = answer.results
        assert (result.ok, result.value) == (False, None), call
        assert result.error and problem in result.error
        assert results(answer.text) == [(result.tool, {"error": result.error})]
        assert await events(memory) == before, call
    kept = [abp("memory_store_fact", **TEA), abp("memory_store_rule", content="Offer\0 tea\ud800")]
    answer = await ToolRunner(memory).run("".join([kept[0], *refused, kept[1]]))
    assert [each.ok for each in answer.results] == [True, *[False] * len(refused), True]
    assert await contents(memory) == ["green tea"]
    assert await contents(memory, "rule") == ["Offer tea"]


@pytest.mark.parametrize("text", [None, 5, b"[[ABP_TOOL:memory_stats]]"])
async def test_only_text_is_taken(memory: Memory, path: Path, text: Any):
    with pytest.raises(InvalidInput, match="text: is a "):
        await ToolRunner(memory).run(text)


async def test_so_many_calls_of_one_text_are_carried_out(memory: Memory, path: Path):
    memory._env.config = replace(memory.config, tool_text=ToolTextConfig(max_calls=2))
    texts = [abp("memory_store_rule", content=f"rule {number}") for number in range(3)]
    assert [each.ok for each in (await ToolRunner(memory).run("".join(texts[:2]))).results] == [True, True]
    answer = await ToolRunner(memory).run("".join([texts[0], abp("unknown"), texts[2]]))
    assert [each.ok for each in answer.results] == [True, False, False]
    assert answer.results[2].error == "calls: this one was not carried out; allowed: at most 2 in one answer"
    assert await contents(memory, "rule") == ["rule 0", "rule 0", "rule 1"]


# -- rights ------------------------------------------------------------------------------------------------------


async def test_a_runner_has_the_rights_of_its_caller(memory: Memory):
    """What is not the caller's is answered like an unknown id, and nothing in a call says who the caller is."""
    anna, bob = memory.bind(user_id="anna"), memory.bind(user_id="bob")
    other = memory.bind(caller=Caller("other"))
    secret = (await anna.store_fact("anna", "secret", "swordfish")).id
    for stranger in (bob, other):
        calls = [
            abp("memory_get", memory_type="fact", memory_id=str(secret)),
            abp("memory_forget", memory_type="fact", memory_id=str(secret)),
            abp("memory_recall", topic="secret swordfish"),
            abp("memory_recall", topic="secret", user_id="anna"),
            abp("entity_get", entity_id=str(secret), tenant_id="default"),
            abp("memory_store_fact", subject="anna", predicate="secret", content="herring"),
        ]
        answer = await ToolRunner(stranger).run("".join(calls))
        assert "swordfish" not in answer.text
        read_, forgotten, recalled, as_anna, _, stored = answer.results
        assert (read_.value, forgotten.value, recalled.value["results"]) == ({"memory": None}, {"forgotten": False}, [])
        assert (as_anna.ok, stored.value["outcome"]) == (False, "stored")
    answer = await ToolRunner(anna).run(abp("memory_get", memory_type="fact", memory_id=str(secret)))
    assert answer.results[0].value["memory"]["content"] == "swordfish"


async def test_tool_sets_and_rights_bound_what_may_be_called(memory: Memory, path: Path):
    delete = abp("memory_delete", memory_type="fact", memory_id=str((await memory.store_fact("a", "b", "c")).id))
    for runner in (ToolRunner(memory), ToolRunner(memory, tools="all", rights=("read", "write"))):
        [result] = (await runner.run(delete)).results
        assert result.error and result.error.startswith("tool: there is no 'memory_delete'; allowed: ")
        assert "\nmemory_delete:" not in runner.prompt and "\nmemory_recall:" in runner.prompt
    assert await contents(memory) == ["c"]
    memory._env.config = replace(memory.config, tools="all")
    assert (await ToolRunner(memory).run(delete)).results[0].value == {"deleted": True}
    assert await contents(memory) == []
    for wrong in ({"tools": "most"}, {"tools": ""}, {"rights": ("read", "own")}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            ToolRunner(memory, **wrong)


# -- protocols, and how often each was used --------------------------------------------------------------------------


@pytest.mark.scenario("000-003", "000-004")
async def test_each_protocol_and_fallback_is_counted(memory: Memory):
    plain, cut = " \nI know nothing.\n ", 'So be it. [[ABP_TOOL:memory_store_rule]] {"content": "Offer t'
    old = vcp("memory_store_rule", content="Offer 「tea」, or [milk]", tags='["a", "b"]')
    one, both = ToolRunner(memory), ToolRunner(memory, dual=True)
    for text, runner in [(plain, one), (plain, both), (cut, both), (old, one)]:
        answer = await runner.run(text)
        assert (answer.called, answer.results, answer.text, answer.prose) == (False, (), "", text)
        assert (answer.protocol, bool(answer.problems)) == ("plain-text", text is cut)
    assert await events(memory) == []
    answer = await both.run(f"Very well.\n{old}")
    assert (answer.protocol, answer.fallback, answer.prose) == ("vcp", "no ABP marker", "Very well.")
    assert results(answer.text, VCP_RESULT) == [("memory_store_rule", answer.results[0].value)]
    [rule] = (await memory.list_memories("rule")).items
    assert (rule.content, [*rule.tags]) == ("Offer 「tea」, or [milk]", ["a", "b"])
    assert (await both.run(abp("memory_stats"))).protocol == "abp"
    counted = {
        "abp": {"texts": 1, "fallbacks": {}},
        "vcp": {"texts": 1, "fallbacks": {"no ABP marker": 1}},
        "plain-text": {"texts": 4, "fallbacks": {"ABP call can't be read": 1, "no ABP marker": 3}},
    }
    assert (await memory.overview()).tool_text == counted
    assert (await memory.health()).tool_text == counted
    assert set((await memory.stats()).to_dict()) == {"episodes", "facts", "rules"}
    other = memory.bind(caller=Caller("other"))
    nothing = {name: {"texts": 0, "fallbacks": {}} for name in counted}
    assert (await other.overview()).tool_text == (await other.health()).tool_text == nothing
    await ToolRunner(other).run(plain)
    assert (await memory.overview()).tool_text == counted


@pytest.mark.scenario("000-004")
async def test_the_older_protocol_is_read_if_it_is_configured(memory: Memory, path: Path):
    text = vcp("memory_stats")
    assert not (await ToolRunner(memory).run(text)).called
    memory._env.config = replace(memory.config, tool_text=ToolTextConfig(dual_protocol=True))
    assert (await ToolRunner(memory).run(text)).called
    assert not (await ToolRunner(memory, dual=False).run(text)).called


async def test_what_could_not_be_read_is_told_beside_the_results(memory: Memory, path: Path):
    answer = await ToolRunner(memory).run(abp("memory_stats") + '[[ABP_TOOL:memory_store_rule]] {"content": "Off')
    assert [each.tool for each in answer.results] == ["memory_stats"]
    (_, stats), (name, told) = results(answer.text)
    assert stats["facts"]["total"] == 0
    assert (name, told) == ("unreadable", {"error": answer.problems[0]})


async def test_a_text_that_can_not_be_counted_is_answered(
    memory: Memory, path: Path, sql: Callable, caplog: pytest.LogCaptureFixture
):
    sql("ALTER TABLE tool_text_counts RENAME TO gone")
    with caplog.at_level(logging.ERROR, "tulving"):
        answer = await ToolRunner(memory).run(abp("memory_store_rule", content="Offer tea"))
    assert answer.results[0].ok
    assert "could not be counted: " in caplog.text


# -- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DamagedStore("page 7 is damaged"), "page 7 is damaged"),
        (
            ZeroDivisionError("/home/anna/secret"),
            "memory_stats failed unexpectedly (ZeroDivisionError); its log says more",
        ),
    ],
)
async def test_a_failure_is_told_without_its_traceback(
    memory: Memory,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    said: str,
):
    async def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(memory, "stats", fail)
    with caplog.at_level(logging.ERROR, "tulving"):
        answer = await ToolRunner(memory).run(abp("memory_stats") + abp("memory_store_rule", content="Go on"))
    assert [(each.ok, each.error) for each in answer.results] == [(False, said), (True, None)]
    assert str(error) in caplog.text


async def test_a_tool_that_fails_open_is_no_success(
    memory: Memory, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def fail(**_: Any) -> None:
        raise StoreUnavailable("no room")

    monkeypatch.setattr(memory, "store_episode", fail)
    answer = await ToolRunner(memory).run(abp("memory_store_episode", content="x", butler="me"))
    told = {"stored": False, "warning": "the episode was not stored: no room"}
    assert answer.results == (CallResult(tool="memory_store_episode", ok=False, value=told),)
    assert results(answer.text) == [("memory_store_episode", told)]
    assert "memory_store_episode failed, and its caller goes on" in caplog.text
