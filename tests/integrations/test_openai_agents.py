"""The session of the OpenAI Agents SDK, with its real runner and a model that plays its part."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SessionSettings,
    TResponseInputItem,
    Usage,
    function_tool,
)
from agents.memory import Session
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tulving import InvalidInput, Memory, open_memory_sync
from tulving.integrations.openai_agents import TulvingSession
from tulving.testing import WordEmbedder

pytestmark = pytest.mark.usefixtures("path")  # SQLite only: the verbs are those that both engines are tested with

ITEMS: list[Any] = [
    {"role": "user", "content": "What is 2 + 2? 😀"},
    {"role": "user", "content": [{"type": "input_text", "text": "and 3?"}, {"type": "input_image", "image_url": "x"}]},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "I must add"}]},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 2, "b": 2}', "id": "f1"},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "5"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4", "annotations": []}]},
    {"type": "item_reference", "id": "x", "nested": {"deep": [1, 2.5, None, {}]}},
]


class Script(Model):
    """A model that gives the answers that were written for it, and notes what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.asked.append(input)
        return ModelResponse(output=[self.answers.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def says(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


async def test_items_come_back_as_they_were(memory: Memory) -> None:
    session: Session = TulvingSession(memory, "one")
    assert isinstance(session, Session)
    assert await session.get_items() == []
    await session.add_items([])
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    assert await session.get_items() == ITEMS
    assert await session.get_items(limit=3) == ITEMS[-3:]
    assert await session.get_items(limit=100) == ITEMS
    assert await session.get_items(limit=0) == []
    assert await TulvingSession(memory, "other").get_items() == []
    brief = TulvingSession(memory, "one", session_settings=SessionSettings(limit=2))
    assert (await brief.get_items(), await brief.get_items(3)) == (ITEMS[-2:], ITEMS[-3:])


async def test_items_are_popped_and_cleared(memory: Memory) -> None:
    session = TulvingSession(memory, "one")
    await session.add_items(ITEMS)
    assert await session.pop_item() == ITEMS[-1]
    popped = await asyncio.gather(*(session.pop_item() for _ in range(3)))
    assert sorted(map(str, popped)) == sorted(map(str, ITEMS[-4:-1])), "each item is popped once"
    await session.add_items(ITEMS[-1:])
    assert await session.get_items() == [*ITEMS[:4], ITEMS[-1]]
    await session.clear_session()
    assert (await session.get_items(), await session.pop_item()) == ([], None)


async def test_items_are_found_by_what_they_say(memory: Memory) -> None:
    await TulvingSession(memory.bind(user_id="ada"), "one", agent="adder").add_items(ITEMS)
    window = await memory.query_window(user_id="ada", top_k=20, butler="adder", event_types=["conversation"])
    assert [(event.source, event.content) for event in reversed(window.events)] == [
        ("ada", "What is 2 + 2? 😀"),
        ("ada", "and 3?"),
        ("reasoning", "I must add"),
        ("function_call", 'add({"a": 2, "b": 2})'),
        ("function_call_output", "4"),
        ("function_call_output", "5"),
        ("assistant", "4"),
        ("item_reference", "(a message without text)"),
    ]


async def test_an_item_that_cannot_be_kept_is_refused(memory: Memory) -> None:
    session = TulvingSession(memory, "one")
    bad: TResponseInputItem = {"role": "user", "content": float("inf")}  # type: ignore[typeddict-item]
    with pytest.raises(InvalidInput, match="metadata"):
        await session.add_items([ITEMS[0], bad])
    assert await session.get_items() == []


async def test_a_runner_remembers_between_runs(memory: Memory) -> None:
    call = ResponseFunctionToolCall(arguments='{"a": 2, "b": 3}', call_id="c1", name="add", type="function_call")
    model = Script(call, says("It is 5"), says("You asked for 2 + 3"))

    @function_tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    agent = Agent("adder", model=model, tools=[add])
    quiet = RunConfig(tracing_disabled=True)
    first = await Runner.run(agent, "What is 2 + 3?", session=TulvingSession(memory, "chat"), run_config=quiet)
    second = await Runner.run(agent, "What did I ask?", session=TulvingSession(memory, "chat"), run_config=quiet)
    assert (first.final_output, second.final_output) == ("It is 5", "You asked for 2 + 3")
    assert [item.get("content", item.get("output")) for item in model.asked[-1]][::4] == [
        "What is 2 + 3?",
        "What did I ask?",
    ]
    assert [item.get("type") for item in model.asked[-1]] == [
        None,
        "function_call",
        "function_call_output",
        "message",
        None,
    ]
    assert len(await TulvingSession(memory, "chat").get_items()) == 6


def test_a_blocking_memory_and_a_runner_without_a_loop(path: Path) -> None:
    with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
        agent = Agent("echo", model=Script(says("Hello"), says("Again")))
        for said in ("Hi", "Hi again"):
            session = TulvingSession(memory, "chat")
            Runner.run_sync(agent, said, session=session, run_config=RunConfig(tracing_disabled=True))
        assert len(asyncio.run(session.get_items())) == 4
