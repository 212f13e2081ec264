"""What a tool may need from the client: its model, and someone who wants to hear of progress."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import asking
import httpx2
import model_command
import pytest
from asking import ASK, Script, ask_model
from http_parts import bearer
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CreateMessageResult, ErrorData, TextContent

from tulving import open_memory
from tulving.interfaces.calls import invoke, open_lazily
from tulving.interfaces.mcp.sampling import MOST_ROUNDS
from tulving.interfaces.mcp.server import Principal, build_server
from tulving.interfaces.parameters import accept, parameters, undescribed
from tulving.services.memory import Memory
from tulving.services.operations import OPERATIONS
from tulving.settings import LlmConfig, MemoryModuleConfig
from tulving.testing import WordEmbedder

BOTH_ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
Connect = Callable[..., AbstractAsyncContextManager[Client]]


class Model:
    """The client's model: it answers, unless a `refusal` or a `stop_reason` says otherwise."""

    def __init__(
        self,
        answer: Callable[[str], str] = "answer to {}".format,
        refusal: str | None = None,
        stop_reason: str = "endTurn",
    ) -> None:
        self.answer, self.refusal, self.stop_reason = answer, refusal, stop_reason
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> CreateMessageResult | ErrorData:
        self.asked.append(params)
        if self.refusal:
            return ErrorData(code=-1, message=self.refusal)
        content = TextContent(type="text", text=self.answer(params.messages[0].content.text))
        return CreateMessageResult(role="assistant", content=content, model="m", stop_reason=self.stop_reason)


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool is there, in this process."""
    monkeypatch.setitem(OPERATIONS, ASK.tool, ASK)
    monkeypatch.setattr(Memory, ask_model.__name__, ask_model, raising=False)
    monkeypatch.setattr(Script, "cancelled", 0)


@pytest.fixture
def within(path: Path, asks: None) -> Connect:
    """A client of a server in this process."""

    @asynccontextmanager
    async def client(
        mode: str, model: Model | None = None, who: Callable[[], str] = str, **llm: Any
    ) -> AsyncIterator[Client]:
        config = MemoryModuleConfig(url=str(path), embedder="hashing", llm=LlmConfig(**llm))
        opener = open_lazily(lambda: open_memory(config=config, embedder=WordEmbedder()))
        async with opener as memory:
            server = build_server(config, lambda _: Principal(memory, who=who()))
            async with Client(server, mode=mode, sampling_callback=model) as connected:
                yield connected

    return client


@pytest.fixture
def over_stdio(path: Path, environ: dict[str, str]) -> Connect:
    """A client of a server process, on SQLite: the protocol does not depend on the engine."""

    @asynccontextmanager
    async def client(mode: str, model: Model | None = None, **changed: str) -> AsyncIterator[Client]:
        server = StdioServerParameters(
            command=sys.executable, args=[asking.__file__, "mcp"], env=environ | changed, cwd=Path.cwd()
        )
        async with Client(server, mode=mode, sampling_callback=model) as connected:
            yield connected

    return client


async def ask(client: Client, questions: int = 1, **options: Any) -> dict[str, Any]:
    result = await client.call_tool(ASK.tool, {"questions": questions}, **options)
    assert not result.is_error, result.content
    return result.structured_content or {}


# -- learning ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("path")  # whatever the engine
@BOTH_ERAS
async def test_consolidation_uses_the_clients_model(connect, mode: str):
    model = Model(model_command.answer)
    async with connect(mode, sampling_callback=model) as client:
        await client.call_tool("memory_store_episode", {"content": "Moved to Berlin", "butler": "painter"})
        result = await client.call_tool("memory_run_consolidation")
        done = result.structured_content
        assert (done["facts_created"], done["episodes_consolidated"], done["errors"]) == (1, 1, []), done
        found = await client.call_tool("memory_recall", {"topic": "Berlin", "types": ["fact"], "scope": "painter"})
        assert [hit["content"] for hit in found.structured_content["results"]] == [model_command.CITY]
    assert len(model.asked) == 1


@pytest.mark.usefixtures("path")
@BOTH_ERAS
async def test_a_call_that_is_cancelled_leaves_nothing_open(connect, mode: str):
    asked = anyio.Event()

    async def silent(context: Any, params: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    async with connect(mode, sampling_callback=silent, TULVING_TOOLS="all", TULVING_LLM__TIMEOUT="1") as client:
        await client.call_tool("memory_store_episode", {"content": "Moved to Berlin", "butler": "painter"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "memory_run_consolidation")
            await asked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            while True:
                [report] = (await client.call_tool("memory_runs")).structured_content["runs"]
                if (run := report["run"])["status"] != "open":
                    break
                await anyio.sleep(0.05)
        assert (run["status"], run["input_tokens"], run["output_tokens"]) == ("failed", 0, 0)


@BOTH_ERAS
@pytest.mark.usefixtures("path")  # whatever the engine
async def test_without_a_model_consolidation_counts_and_says_what_to_do(connect, mode: str):
    async with connect(mode) as client:
        await client.call_tool("memory_store_episode", {"content": "Moved to Berlin", "butler": "painter"})
        done = (await client.call_tool("memory_run_consolidation")).structured_content
        assert (done["groups"], done["facts_created"]) == ({"painter": 1}, 0)
        assert "memory_learn_prompt" in done["warning"]
        assert "memory_learn_prompt" not in client.instructions, "it is not offered"


@pytest.mark.usefixtures("path")  # whatever the engine
@BOTH_ERAS
async def test_the_model_that_is_already_there_learns(connect, mode: str):
    """Without sampling: the host's model calls two tools, and answers the prompt in between."""
    async with connect(mode, TULVING_TOOLS="all") as client:
        assert "memory_learn_prompt" in client.instructions and "memory_learn_apply" in client.instructions
        await client.call_tool("memory_store_episode", {"content": "Moved to Berlin", "butler": "painter"})
        prompt = (await client.call_tool("memory_learn_prompt")).structured_content
        answer = {"answer": model_command.answer(prompt["prompt"]), "lease": prompt["lease"]}
        learned = (await client.call_tool("memory_learn_apply", answer)).structured_content
        assert (learned["run_id"], learned["facts_created"]) == (prompt["lease"], 1)
        [report] = (await client.call_tool("memory_runs", {"run_id": learned["run_id"]})).structured_content["runs"]
        assert model_command.CITY in {change["content"] for change in report["changes"]}
        undone = (await client.call_tool("memory_undo", {"run_id": learned["run_id"]})).structured_content
        assert undone["retracted"] and not undone["refused"]
        assert (await client.call_tool("memory_learn_prompt")).structured_content["lease"] is None


# -- parameters for Python only ----------------------------------------------------------------------------------


def test_a_parameter_without_a_description_is_on_no_surface():
    assert [each.name for each in parameters(ASK)] == ["questions"]
    assert undescribed(ASK) == {"cc_spawner", "progress", "unheard_of"}
    with pytest.raises(ValueError, match="cc_spawner"):
        accept(ASK, {"cc_spawner": "rm"})


async def test_a_method_is_given_what_it_needs_of_what_is_offered(path: Path, asks: None):
    told: list[Any] = []

    class Spawner:
        name = "mine"

        async def trigger(self, **given: Any) -> str:
            told.append(given)
            return "yes"

    async with open_lazily(lambda: open_memory(path, embedder=WordEmbedder())) as memory:
        answered = await invoke(memory, ASK, {}, offers={"cc_spawner": Spawner(), "progress": None, "butler": "me"})
        assert answered["answers"] == ["yes"]
        assert told == [{"prompt": "question 1", "trigger_source": "schedule:test"}]
        stored = await invoke(memory, OPERATIONS["memory_stats"], {}, offers={"scope": "other", "progress": print})
        assert stored.facts.total == 0


# -- sampling ----------------------------------------------------------------------------------------------------


@BOTH_ERAS
async def test_the_clients_model_answers_over_stdio(over_stdio: Connect, mode: str):
    model = Model()
    async with over_stdio(mode, model, TULVING_LLM__MAX_OUTPUT_TOKENS="777") as client:
        answered = await ask(client, 3)
        assert answered["answers"] == [f"answer to question {number}" for number in (1, 2, 3)]
        assert answered["model"] == "the model of mcp"
        assert [params.max_tokens for params in model.asked] == [777] * 3
        assert (await client.call_tool("memory_stats")).structured_content, "the conversation goes on"
        assert (await ask(client, 0))["answers"] == []


@pytest.mark.usefixtures("path")  # whatever the engine
async def test_the_clients_model_answers_over_http(environ: dict[str, str]):
    """By rounds, since 2026-07-28. Before that a stateless server could not ask, and does not try to."""
    command = [sys.executable, asking.__file__, "mcp", "--http", "127.0.0.1:0", "--open"]
    with subprocess.Popen(
        command, env=os.environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr
            url = next(line for line in server.stderr if line.startswith("Tulving serves ")).split()[2]
            async with Client(url, mode="auto", sampling_callback=Model()) as client:
                assert (await ask(client, 2))["answers"] == ["answer to question 1", "answer to question 2"]
            async with Client(url, mode="legacy", sampling_callback=Model()) as client:
                assert (await ask(client, 2))["model"] is None
        finally:
            server.kill()


@BOTH_ERAS
async def test_two_calls_at_a_time_get_their_own_answers(within: Connect, mode: str):
    answers: dict[int, Any] = {}

    async def call(client: Client, questions: int) -> None:
        answers[questions] = (await ask(client, questions))["answers"]

    async with within(mode, Model()) as client, anyio.create_task_group() as tasks:
        for questions in (1, 2, 4):
            tasks.start_soon(call, client, questions)
    expected = [f"answer to question {number}" for number in (1, 2, 3, 4)]
    assert answers == {1: expected[:1], 2: expected[:2], 4: expected}


@BOTH_ERAS
async def test_a_client_without_a_model_is_not_asked(within: Connect, mode: str):
    async with within(mode) as client:
        assert (await ask(client))["model"] is None


@BOTH_ERAS
async def test_a_configured_model_goes_first(within: Connect, mode: str):
    model = Model()
    async with within(mode, model, command=["no-such-model"]) as client:
        assert (await ask(client))["model"] is None
    assert not model.asked


async def test_a_refusal_is_an_unavailable_model(within: Connect):
    async with within("legacy", Model(refusal="the user said no")) as client:
        answered = await ask(client)
    assert answered["warning"] == "ModelUnavailable: the client's model did not answer: the user said no"


@BOTH_ERAS
async def test_an_answer_that_was_cut_off_is_unusable(within: Connect, mode: str):
    async with within(mode, Model(stop_reason="maxTokens")) as client:
        assert (await ask(client))["warning"].startswith("UnusableAnswer: ")


async def test_questions_end_before_a_client_gives_up(within: Connect):
    """By rounds, since 2026-07-28: the client counts them."""
    model = Model()
    async with within("auto", model) as client:
        answered = await ask(client, MOST_ROUNDS + 2)
    assert len(answered["answers"]) == len(model.asked) == MOST_ROUNDS
    assert answered["warning"].startswith("ModelUnavailable: clients answer only 10")


async def test_a_call_whose_client_does_not_come_back_ends(within: Connect):
    async with within("auto", Model(refusal="no"), timeout=0.05) as client:
        with pytest.raises(Exception, match="no"):
            await ask(client)
        with anyio.fail_after(30):
            while not Script.cancelled:
                await anyio.sleep(0.01)


async def test_a_call_that_waits_ends_with_the_server(within: Connect):
    async with within("auto", Model(refusal="no")) as client:
        with pytest.raises(Exception, match="no"):
            await ask(client)
        assert not Script.cancelled
    assert Script.cancelled == 1


async def test_a_call_that_has_ended_is_not_resumed(within: Connect):
    async with within("auto", Model()) as client:
        result = await client.call_tool(ASK.tool, {}, request_state="made up", input_responses={})
    assert result.is_error
    assert "ended" in result.content[0].text


async def test_nobody_else_can_go_on_with_a_call(within: Connect):
    who = ["anna"]
    async with within("auto", Model(), who=lambda: who[0]) as client:
        first = await client.session.call_tool(ASK.tool, {}, allow_input_required=True)
        state = {"request_state": first.request_state, "input_responses": {}}
        who[0] = "eve"
        assert (await client.call_tool(ASK.tool, {}, **state)).is_error
        who[0] = "anna"
        assert not (await client.call_tool(ASK.tool, {}, **state)).is_error


async def test_a_question_is_not_repeated(within: Connect):
    """A client that comes back without an answer has none."""
    async with within("auto", Model()) as client:
        first = await client.session.call_tool(ASK.tool, {}, allow_input_required=True)
        result = await client.call_tool(ASK.tool, {}, request_state=first.request_state, input_responses={})
    assert result.structured_content["warning"] == "ModelUnavailable: the client's model did not answer"


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_client_that_leaves_while_it_is_asked_ends_the_server(environ: dict[str, str]):
    """Otherwise the server would wait for an answer that can't come any more."""
    client = {"capabilities": {"sampling": {}}, "clientInfo": {"name": "t", "version": "1"}}
    asking_twice = {"name": ASK.tool, "arguments": {"questions": 2}}
    said = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **client}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asking_twice},
    )
    text = "".join(json.dumps(line) + "\n" for line in said)
    command = [sys.executable, asking.__file__, "mcp"]
    ran = subprocess.run(command, input=text, env=os.environ, capture_output=True, text=True, timeout=60)
    heard = [json.loads(line) for line in ran.stdout.splitlines()]
    answer = next(line for line in heard if line.get("id") == 2 and "result" in line)
    assert answer["result"]["structuredContent"]["warning"].endswith("the client is gone")
    assert ran.returncode == 0


# -- progress ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "model"), [("legacy", None), ("auto", Model())], ids=["alone", "sampling"])
async def test_progress_is_reported_over_stdio(over_stdio: Connect, mode: str, model: Model | None):
    steps: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async with over_stdio(mode, model) as client:
        await ask(client, 3, progress_callback=note)
        assert steps == [(1, 3), (2, 3), (3, 3)]
        await ask(client, 1)
        assert len(steps) == 3, "only who asks is told"


async def test_progress_is_reported_over_http_to_who_asks(path: Path, server, token):
    """Of a real call: a command is the model."""
    steps: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    secret = token()["secret"]
    served = server(TULVING_LLM__COMMAND=shlex.join([sys.executable, model_command.__file__]))
    for mode in ("auto", "legacy"):
        web = httpx2.AsyncClient(headers=bearer(secret), timeout=60)
        async with web, Client(streamable_http_client(served.url, http_client=web), mode=mode) as client:
            for butler in ("anna", "ben"):
                episode = {"content": f"I moved to Berlin, {mode}", "butler": butler}
                await client.call_tool("memory_store_episode", episode)
            learned = await client.call_tool("memory_run_consolidation", {}, progress_callback=note)
            assert learned.structured_content["episodes_consolidated"] == 2
            assert steps == [(1, 2), (2, 2)]
            again = await client.call_tool("memory_run_consolidation", {})
            assert (again.structured_content["episodes_processed"], len(steps)) == (0, 2)
            steps.clear()


@pytest.mark.parametrize("model", [None, Model()], ids=["alone", "sampling"])
@BOTH_ERAS
async def test_progress_comes_before_the_response(within: Connect, mode: str, model: Model | None):
    steps: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with within(mode, model) as client:
        await ask(client, 5, progress_callback=note)
    assert steps == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_command_shows_a_bar_on_a_terminal(environ: dict[str, str]):
    """Standard error is a terminal there, and the bar is told what the method tells."""
    from pty import openpty

    reader, terminal = openpty()
    command = [sys.executable, asking.__file__, "ask", "7"]
    ran = subprocess.run(
        command, env=os.environ | {"TERM": "xterm"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal
    )
    os.close(terminal)
    assert ran.returncode == 0
    assert b"answers" in ran.stdout
    assert b"ask:" in (shown := os.read(reader, 65_536)) and b"7/7" in shown
    os.close(reader)
