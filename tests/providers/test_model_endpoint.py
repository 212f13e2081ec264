"""Language models behind an HTTP endpoint, in both dialects, against a real server."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from model_server import DROP, HANG, ModelServer, Reply, Stream, chat, message

from tulving import open_memory
from tulving.bootstrap import choose_llm
from tulving.config import parse
from tulving.errors import ConfigError, ModelUnavailable
from tulving.ports import Completion, Llm
from tulving.providers.anthropic import Anthropic
from tulving.providers.chat_endpoint import ChatEndpoint
from tulving.providers.model_endpoint import ModelEndpoint
from tulving.settings import MemoryModuleConfig
from tulving.testing import ScriptedLlm, WordEmbedder

KEY = "sk-very-secret-0123456789"
PROMPT = "What does Ann like?\nAnn asked for a second pot of tea again."
ANSWER = Completion("Ann likes tea.", False, 7, 5)
DIALECTS = ("openai", "anthropic")

Make = Callable[..., ModelEndpoint]


@pytest.fixture
def make(server: ModelServer) -> Make:
    def make(dialect: str = "openai", **settings: Any) -> ModelEndpoint:
        made = choose_llm(parse({"llm": {"url": server.url, "model": "small", "dialect": dialect, **settings}}))
        assert isinstance(made, ModelEndpoint)
        return made

    return make


async def refused(llm: Llm) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as failure:
        await llm.complete(PROMPT, 100)
    assert "pot of tea" not in str(failure.value)
    return failure.value


def test_there_is_none_by_default() -> None:
    assert choose_llm(MemoryModuleConfig()) is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_and_what_it_cost(server: ModelServer, make: Make, dialect: str, stream: bool) -> None:
    assert await make(dialect, stream=stream).complete(PROMPT, 100) == ANSWER
    [request] = server.requests
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert "x-api-key" not in request.headers
    common = {"model": "small", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 100, "stream": stream}
    if dialect == "anthropic":
        assert (request.path, request.body) == ("/v1/messages", common)
        assert request.headers["anthropic-version"] == "2023-06-01"
    else:
        usage = {"stream_options": {"include_usage": True}} if stream else {}
        assert (request.path, request.body) == ("/v1/chat/completions", {**common, "temperature": 0, **usage})


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_was_cut_off(server: ModelServer, make: Make, stream: bool) -> None:
    server.replies += [chat("Ann", stream, "length"), message("Ann", stream, "max_tokens")]
    for dialect in DIALECTS:
        assert await make(dialect, stream=stream).complete(PROMPT, 100) == Completion("Ann", True, 7, 5)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/api/v1"])
async def test_the_address(server: ModelServer, make: Make, path: str) -> None:
    await make(url=server.url + path).complete(PROMPT, 100)
    path = path.replace("chat/completions", "messages")
    await make("anthropic", url=server.url + path).complete(PROMPT, 100)
    version = ("/api" if "api" in path else "") + "/v1/"
    assert [request.path for request in server.requests] == [version + "chat/completions", version + "messages"]


@pytest.mark.parametrize(
    ("dialect", "url", "posted", "variable", "cls"),
    [
        (
            "openai",
            "https://api.openai.com/v1",
            "https://api.openai.com/v1/chat/completions",
            "OPENAI_API_KEY",
            ChatEndpoint,
        ),
        (
            "anthropic",
            "https://api.anthropic.com",
            "https://api.anthropic.com/v1/messages",
            "ANTHROPIC_API_KEY",
            Anthropic,
        ),
    ],
)
def test_without_a_url_it_is_the_vendors(
    monkeypatch: pytest.MonkeyPatch, dialect: str, url: str, posted: str, variable: str, cls: type
) -> None:
    monkeypatch.delenv(variable, raising=False)
    llm = choose_llm(parse({"llm": {"model": "m", "dialect": dialect}}))
    assert isinstance(llm, cls)
    assert llm.name == f"m at {url}"
    assert llm.unready() == f"llm.key_variable names {variable}, which is not set in the environment"
    monkeypatch.setenv(variable, KEY)
    assert llm.unready() is None
    assert llm._url == posted
    monkeypatch.delenv("OWN_KEY", raising=False)
    own = choose_llm(parse({"llm": {"model": "m", "dialect": dialect, "key_variable": "OWN_KEY"}}))
    assert own is not None
    assert "OWN_KEY" in str(own.unready())


def test_the_name_and_what_must_be_set(make: Make) -> None:
    assert make(url="http://localhost:11434/v1/", model="qwen3").name == "qwen3 at http://localhost:11434/v1"
    with pytest.raises(ConfigError, match=r"llm\.model: is not set"):
        make(model="")


@pytest.mark.parametrize(("dialect", "header"), [("openai", "authorization"), ("anthropic", "x-api-key")])
async def test_the_key_is_sent_and_never_told(
    server: ModelServer,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    dialect: str,
    header: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MODEL_KEY", f"{KEY}\n")
    llm = make(dialect, key_variable="MODEL_KEY", stream=True)
    assert await llm.complete(PROMPT, 100) == ANSWER
    assert server.requests[0].headers[header].removeprefix("Bearer ") == KEY
    server.replies += [
        Reply(401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
        Reply(500, {"error": KEY}),
        Stream([{"error": {"message": f"{KEY} has no credit"}}]),
        DROP,
    ]
    told = [str(await refused(llm)) for _ in range(4)]
    assert "401: Incorrect API key: ..." in told[0]
    assert "failed: ... has no credit" in told[2]
    assert "POST" in caplog.text
    assert KEY not in "".join((caplog.text, *told, repr(llm), repr(vars(llm)), repr(vars(llm._key))))
    monkeypatch.setenv("MODEL_KEY", "two\nlines")
    assert "MODEL_KEY" in str(failure := await refused(llm))
    assert not failure.passing
    assert len(server.requests) == 5, "nothing is sent with a key that can't be"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503, 529])
async def test_a_refusal_that_may_pass(server: ModelServer, make: Make, status: int) -> None:
    server.replies.append(Reply(status, {"error": {"message": "busy"}}, {"retry-after": "7"}))
    failure = await refused(make())
    assert (failure.passing, failure.wait) == (True, 7.0)
    assert str(failure) == f"{server.url}/v1/chat/completions answered {status}: busy"
    server.replies.append(Reply(status, b"busy", {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}))
    assert (await refused(make())).wait == 0


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 413, 422])
async def test_a_refusal_that_stays(server: ModelServer, make: Make, status: int) -> None:
    server.replies.append(Reply(status, {"error": {"message": "model 'small' not found"}}))
    failure = await refused(make())
    assert not failure.passing
    assert str(failure).endswith(f"answered {status}: model 'small' not found")


@pytest.mark.parametrize(
    "said", ["bad input: What does Ann like?", "can't read 'asked for a second pot of tea'", "second pot of tea again"]
)
async def test_a_refusal_that_quotes_the_prompt_is_not_repeated(server: ModelServer, make: Make, said: str) -> None:
    server.replies += [Reply(400, {"error": {"message": said}}), Stream([{"error": {"message": said}}])]
    assert str(await refused(make())).endswith("answered 400")
    assert str(await refused(make())).endswith("completions failed")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_connections_that_break(server: ModelServer, make: Make, dialect: str, stream: bool) -> None:
    server.replies.append(DROP)
    assert "can't be reached" in str(failure := await refused(make(dialect, stream=stream)))
    assert failure.passing
    server.stop()
    assert "can't be reached" in str(failure := await refused(make(dialect, stream=stream)))
    assert failure.passing
    server.start()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_does_not_answer(server: ModelServer, make: Make, stream: bool) -> None:
    server.replies.append(HANG)
    failure = await refused(make(timeout=0.2, stream=stream))
    assert failure.passing
    assert str(failure).endswith("did not answer within 0.2 seconds")


@pytest.mark.parametrize("answer", [chat, message])
async def test_a_stream_that_stops(server: ModelServer, make: Make, answer: Callable[..., Stream]) -> None:
    """Wherever it does: what has come until then may be anything, and is not taken for an answer."""
    dialect = "openai" if answer is chat else "anthropic"
    events = answer("Ann likes tea.", True).parts
    last = next(n for n, event in enumerate(events) if "'stop'" in str(event) or "'end_turn'" in str(event))
    for length in range(last + 1):
        for how, said in ((DROP, "can't be reached"), ("", "broke off its answer")):
            server.replies.append(Stream([*events[:length], how] if how else events[:length]))
            failure = await refused(make(dialect, stream=True))
            assert failure.passing
            assert said in str(failure)
    server.replies.append(Stream([*events[:last], HANG]))
    assert "did not answer within 0.3 seconds" in str(await refused(make(dialect, stream=True, timeout=0.3)))
    server.replies.append(Stream(events[: last + 1]))
    assert (await make(dialect, stream=True).complete(PROMPT, 100)).text == "Ann likes tea."


async def test_the_time_limit_of_a_stream_begins_anew_with_each_event(server: ModelServer, make: Make) -> None:
    """But not with those that only keep the connection open."""

    class Slow:
        """Parts that come late: iterating them waits."""

        def __init__(self, parts: list[Any]) -> None:
            self._parts = parts

        def __iter__(self) -> Any:
            for part in self._parts:
                server.over.wait(0.1)
                yield part

    whole = chat("x" * 150, True)
    assert isinstance(whole, Stream)
    slow: Any = Slow(list(whole.parts))
    server.replies.append(Stream(slow))
    completion = await make(stream=True, timeout=2.5).complete(PROMPT, 100)
    assert completion.text == "x" * 150, "it took more than 3 seconds, but no event more than 2.5"
    pings: Any = Slow([{"type": "ping"}] * 100)
    server.replies.append(Stream(pings))
    assert "did not answer within 1 seconds" in str(await refused(make("anthropic", stream=True, timeout=1)))


async def test_a_stream_that_is_kept_open_after_its_end(server: ModelServer, make: Make) -> None:
    whole = chat("Ann likes tea.", True)
    assert isinstance(whole, Stream)
    server.replies.append(Stream([*whole.parts, HANG]))
    assert await make(stream=True).complete(PROMPT, 100) == ANSWER


async def test_a_server_that_does_not_stream_when_asked_to_or_does_unasked(server: ModelServer, make: Make) -> None:
    server.replies += [chat("Ann likes tea."), chat("Ann likes tea.", True)]
    assert await make(stream=True).complete(PROMPT, 100) == ANSWER
    assert await make().complete(PROMPT, 100) == ANSWER


def choices(*given: Any, **more: Any) -> Reply:
    return Reply(200, {"choices": list(given), **more})


@pytest.mark.parametrize(
    ("dialect", "reply", "said"),
    [
        ("openai", Reply(200, b"<html>"), "not JSON"),
        ("openai", Reply(200, b"\xff\xfe"), "not JSON"),
        ("openai", Reply(200, b"[" * 100_000), "not JSON"),
        ("openai", Reply(200, b""), "not JSON"),
        ("openai", Reply(200, []), "no text"),
        ("openai", Reply(200, "text"), "no text"),
        ("openai", Reply(200, None), "no text"),
        ("openai", Reply(200, {}), "no text"),
        ("openai", Reply(200, {"choices": "text"}), "no text"),
        ("openai", Reply(200, {"choices": {"message": {}}}), "no text"),
        ("openai", choices(), "no text"),
        ("openai", choices(5), "no text"),
        ("openai", choices({"text": "of another API"}), "no text"),
        ("openai", choices({"message": ["x"]}), "no text"),
        ("openai", choices({"message": {"content": 5}}), "no text"),
        ("openai", choices({"message": {"content": {"text": "x"}}}), "no text"),
        ("openai", Reply(200, {"error": {"message": "no such model", "code": 404}}), "failed: no such model"),
        ("openai", Reply(200, {"error": "no such model"}), "failed: no such model"),
        ("openai", Reply(200, {"error": {"message": [1], "code": [2], "type": {}}}), "failed$"),
        ("openai", Stream(["{"]), "not JSON"),
        ("openai", Reply(200, b"x" * 1_200_000), "more than 1,100,000 bytes"),
        ("openai", Stream([{"choices": [], "padding": "x" * 100_000}] * 12), "more than 1,100,000 bytes"),
        ("anthropic", Reply(200, {"content": None}), "no text"),
        ("anthropic", Reply(200, {"content": {"text": "x"}}), "no text"),
        ("anthropic", Reply(200, {"content": 5, "usage": []}), "no text"),
        ("anthropic", Reply(200, {"delta": [], "stop_reason": []}), "no text"),
    ],
)
async def test_a_wrong_answer_is_told(
    server: ModelServer, make: Make, dialect: str, reply: Reply | Stream, said: str
) -> None:
    server.replies.append(reply)
    with pytest.raises(ModelUnavailable, match=said) as failure:
        await make(dialect).complete(PROMPT, 100)
    assert not failure.value.passing
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "completion"),
    [
        (chat(None), Completion("", False, 7, 5)),
        (chat([{"type": "text", "text": "a"}, {"type": "image"}, 5, {"text": 5}, {"text": "b"}]), ("ab", 7, 5)),
        (choices({"message": {"content": "a"}}), ("a", None, None)),
        (choices({"message": {"content": "a"}}, usage=None), ("a", None, None)),
        (choices({"message": {"content": "a"}}, usage="7"), ("a", None, None)),
        (choices({"message": {"content": "a"}}, usage={"prompt_tokens": "7", "completion_tokens": True}), ("a", None)),
        (choices({"message": {"content": "a"}}, usage={"prompt_tokens": -1, "completion_tokens": 5}), ("a", None, 5)),
        (choices({"message": {"content": "a"}}, usage={"prompt_tokens": 10**30}), ("a", None)),
        (choices({"message": {"content": "a"}}, error=None), ("a", None, None)),
        (choices({"message": {"content": "a"}, "finish_reason": ["length"]}), ("a", None, None)),
        (Stream([{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]), ("", None, None)),
        (Stream([5, None, [], {"choices": [None]}, {"choices": [{"delta": 5}]}, "[DONE]"]), ("", None, None)),
    ],
)
async def test_an_answer_of_an_unusual_shape(
    server: ModelServer, make: Make, reply: Reply | Stream, completion: Any
) -> None:
    if not isinstance(completion, Completion):
        text, asked, answered = (*completion, None)[:3]
        completion = Completion(text, False, asked, answered)
    server.replies.append(reply)
    assert await make().complete(PROMPT, 100) == completion


@pytest.mark.parametrize(
    ("dialect", "error", "passing"),
    [
        ("anthropic", {"type": "overloaded_error", "message": "Overloaded"}, True),
        ("anthropic", {"type": "invalid_request_error", "message": "too long"}, False),
        ("openai", {"code": 502, "message": "upstream is down"}, True),
        ("openai", {"code": "context_length_exceeded", "message": "too long"}, False),
    ],
)
async def test_an_error_within_an_answer(
    server: ModelServer, make: Make, dialect: str, error: dict[str, Any], passing: bool
) -> None:
    first = {"openai": chat, "anthropic": message}[dialect]("Ann likes tea.", True)
    assert isinstance(first, Stream)
    server.replies.append(Stream([*first.parts[:4], {"type": "error", "error": error}]))
    failure = await refused(make(dialect, stream=True))
    assert failure.passing is passing
    assert str(failure).endswith(f"failed: {error['message']}")


async def test_parameters_that_a_model_does_not_accept(server: ModelServer, make: Make) -> None:
    """OpenAI's newer models want another name for the length, and choose the temperature themselves."""

    def unsupported(parameter: str) -> Reply:
        return Reply(400, {"error": {"message": f"Unsupported parameter: '{parameter}'", "param": parameter}})

    server.replies += [unsupported("max_tokens"), unsupported("temperature")]
    llm = make()
    assert await llm.complete(PROMPT, 100) == ANSWER
    assert await llm.complete(PROMPT, 100) == ANSWER
    kept = {"model", "messages", "stream"}
    assert [request.body.keys() - kept for request in server.requests] == [
        {"max_tokens", "temperature"},
        {"max_completion_tokens", "temperature"},
        {"max_completion_tokens"},
        {"max_completion_tokens"},
    ]
    assert server.requests[-1].body["max_completion_tokens"] == 100
    server.replies += [unsupported("max_tokens"), unsupported("messages"), unsupported("max_completion_tokens")]
    for _ in range(3):
        assert "Unsupported parameter" in str(await refused(llm))
    server.replies.append(Reply(400, {"error": {"message": "no", "param": ["max_tokens"]}}))
    assert str(await refused(make())).endswith("answered 400: no")


async def test_lone_surrogates_are_left_out(server: ModelServer, make: Make) -> None:
    await make().complete("a\ud800b é", 100)
    assert server.requests[0].body["messages"][0]["content"] == "ab é"


async def test_cancelling_hangs_up(server: ModelServer, make: Make) -> None:
    server.replies.append(HANG)
    asking = asyncio.create_task(make().complete(PROMPT, 100))
    while not server.requests:
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_every_loop_may_ask(make: Make) -> None:
    llm = make()
    assert [asyncio.run(llm.complete(PROMPT, 100)) for _ in range(2)] == [ANSWER, ANSWER]


async def test_settings_of_the_machine_that_can_not_be_used(
    server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://proxy")
    assert "can't be asked" in str(await refused(make()))


async def test_a_memory_has_the_configured_one_or_ones_own(server: ModelServer, path: Any) -> None:
    config = parse({"llm": {"url": server.url, "model": "small", "max_output_tokens": 50}})
    options = {"embedder": WordEmbedder(), "background": False}
    async with open_memory(path, **options) as memory:
        assert memory._env.model is None
    async with open_memory(path, config=config, **options) as memory:
        model = memory._env.model
        assert model is not None
        assert (model.name, model.unready()) == (f"small at {server.url}", None)
        assert await model.ask(PROMPT) == ANSWER
        assert server.requests[0].body["max_tokens"] == 50
    async with open_memory(path, config=config, llm=ScriptedLlm("own"), **options) as memory:
        model = memory._env.model
        assert model is not None
        assert (await model.ask(PROMPT)).text == "own"
