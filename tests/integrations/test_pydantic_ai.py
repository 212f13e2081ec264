"""The toolset of Pydantic AI: the operations as the MCP server offers them, called by a model's own means."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from tulving import Memory, StoreUnavailable, open_memory_sync
from tulving.errors import ConfigError
from tulving.integrations.pydantic_ai import tulving_toolset
from tulving.interfaces.instructions import described
from tulving.services.operations import OPERATIONS
from tulving.testing import WordEmbedder

pytestmark = pytest.mark.usefixtures("path")  # SQLite only: the verbs are those that both engines are tested with


class Script:
    """A model that makes the calls that were written for it, and keeps what it was told and given."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls, self.told, self.info = list(calls), [], None

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.told, self.info = messages, info
        if not self.calls:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(*self.calls.pop(0))])

    def parts(self, kind: type) -> list[Any]:
        return [part for message in self.told for part in message.parts if isinstance(part, kind)]


async def run(memory: Any, *calls: tuple[str, dict[str, Any]], **options: Any) -> Script:
    script = Script(*calls)
    agent = Agent(FunctionModel(script), toolsets=[tulving_toolset(memory, **options)], retries=2)
    assert (await agent.run("go")).output == "done"
    return script


async def test_a_model_is_offered_the_operations(memory: Memory) -> None:
    for tools in (None, "all"):
        script = await run(memory, tools=tools)
        assert script.info is not None
        offered = {each.name: each for each in script.info.function_tools}
        assert set(offered) == {
            name for name, each in OPERATIONS.items() if each.standard or (tools and each.for_models)
        }
        for name, tool in offered.items():
            _, description, schema = described(OPERATIONS[name], memory.config)
            assert (tool.description, tool.parameters_json_schema) == (description, schema)
        assert "memory across sessions" in str(script.told[0])
    with pytest.raises(ConfigError, match="standard"):
        tulving_toolset(memory, tools="some")


async def test_a_model_stores_and_recalls(memory: Memory) -> None:
    stored = {"subject": "Ada", "predicate": "drink", "content": "espresso", "importance": "8"}
    script = await run(
        memory, ("memory_store_fact", stored), ("memory_recall", {"topic": "Ada's drink", "limit": None})
    )
    first, second = [part.content for part in script.parts(ToolReturnPart)]
    assert first["outcome"] == "stored"
    assert second["results"][0]["content"] == "espresso"
    [hit] = await memory.recall("espresso")
    assert hit.item.importance == 8  # type: ignore[union-attr]


async def test_a_model_can_correct_what_is_refused(memory: Memory) -> None:
    unknown = {"memory_type": "fact", "memory_id": "00000000-0000-0000-0000-000000000001"}
    script = await run(
        memory,
        ("memory_recall", {}),
        ("memory_recall", {"topic": "x", "nonsense": 1}),
        ("memory_recall", {"topic": "x"}),
        ("memory_delete", unknown),
        tools="all",
    )
    answers = script.parts(ToolReturnPart)
    assert [part.outcome for part in answers] == ["retried", "retried", "success", "retried"]
    said = [part.content for part in answers]
    assert said[0].startswith("topic: is missing")
    assert said[1].startswith("nonsense: is not a parameter")
    assert said[3].startswith("there is no fact")


async def test_what_no_model_can_correct_is_raised(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("no disk")

    monkeypatch.setattr(memory._env.store, "write", write)
    with pytest.raises(StoreUnavailable, match="no disk"):
        await run(memory, ("memory_store_fact", {"subject": "a", "predicate": "b", "content": "c"}))


async def test_a_model_has_the_part_that_the_memory_is_bound_to(memory: Memory) -> None:
    call = ("memory_store_fact", {"subject": "me", "predicate": "drink", "content": "tea"})
    await run(memory.bind(user_id="ada"), call)
    assert len(await memory.bind(user_id="ada").recall("tea")) == 1
    assert len(await memory.bind(user_id="bob").recall("tea")) == 0


def test_a_blocking_memory_and_an_agent_without_a_loop(path: Path) -> None:
    with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
        model = TestModel(call_tools=["memory_stats", "memory_recall"])
        answer = Agent(model, toolsets=[tulving_toolset(memory)]).run_sync("go")
        assert '"memory_recall":{"results":[]' in answer.output
