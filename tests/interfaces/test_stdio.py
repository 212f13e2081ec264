"""What a client says over standard input, well or badly put: it is always answered, and the conversation goes on."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import JSONRPCNotification, JSONRPCRequest
from raw_sql import run_sql

from tulving.interfaces.mcp.stdio import BATCHES, Refused, decode, parse

pytestmark = pytest.mark.usefixtures("path")  # the transport does not depend on the engine

LIST = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
NOT_MESSAGES = {
    "words": ("not json", -32700, None),
    "an unfinished line": ('{"jsonrpc": "2.0", "id": 1', -32700, None),
    "depth": ("[" * 100_000, -32700, None),
    "a number": ("7", -32600, None),
    "null": ("null", -32600, None),
    "no method": ('{"jsonrpc": "2.0", "id": 17}', -32600, 17),
    "another version": ('{"jsonrpc": "1.0", "id": "a", "method": "ping"}', -32600, "a"),
    "params that are a list": ('{"jsonrpc": "2.0", "id": 18, "method": "ping", "params": [1]}', -32600, 18),
    "an id that is null": ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
    "an id that is a fraction": ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
    "an id that is a list": ('{"jsonrpc": "2.0", "id": [1], "method": "ping"}', -32600, None),
    "an id that is true": ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
}


def opening(version: str = "2025-06-18") -> list[Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return [{"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}, INITIALIZED]


def call(id_: int | str, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def store(id_: int | str, content: str) -> dict[str, Any]:
    return call(id_, "memory_store_episode", content=content, butler="me")


@pytest.fixture
def converse(environ: dict[str, str]):
    """Say lines to a server and hear its lines. Those that are not bytes are sent as JSON, as JavaScript writes it."""

    def say(*lines: Any) -> list[Any]:
        sent = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
        command = [sys.executable, "-m", "tulving", "mcp"]
        ran = subprocess.run(command, input=sent, env=os.environ, capture_output=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        assert b"Traceback" not in ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return say


# -- one line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "code", "id_"), NOT_MESSAGES.values(), ids=NOT_MESSAGES)
def test_what_is_not_a_message_is_refused_under_its_id(line: str, code: int, id_: object):
    with pytest.raises(Refused) as refused:
        parse(decode(line))
    answer = refused.value.response
    assert (answer.error.code, answer.id) == (code, id_)
    assert '"id":' in answer.model_dump_json(exclude_unset=True)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (r"a \ud83d b", "a � b"),
        (r"\ude00", "�"),
        (r"\uD83D\uD83D\uDE00\uDE00", "�😀�"),
        (r"\\ud83d \ud83d", "\\ud83d �"),
        (r"\\\ud83d\n", "\\�\n"),
        (r"\ud83dx\ude00", "�x�"),
        (r"\ud83d\ude00", "😀"),
        (r"\\ud83d", "\\ud83d"),
        (r"\ufffd\u0000", "�\x00"),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character(sent: str, meant: str):
    message = parse(decode(f'{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"text": "{sent}"}}}}'))
    assert isinstance(message, JSONRPCRequest)
    assert (message.id, message.params) == (1, {"text": meant})


def test_a_notification_has_no_id():
    assert isinstance(parse(INITIALIZED), JSONRPCNotification)


# -- conversations ---------------------------------------------------------------------------------------------


def test_every_bad_line_gets_its_answer_and_the_good_ones_theirs(converse, url: str):
    bad = [line.encode() for line, _, _ in NOT_MESSAGES.values()]
    emoji = store(2, "half an emoji \ud83d")
    said = converse(*opening(), *bad, b"", b"  \r", emoji, json.dumps(store(3, "x")).encode()[:-3] + b"\xff\xfe")
    assert sorted((answer["error"]["code"], str(answer["id"])) for answer in said if "error" in answer) == sorted(
        [*((code, str(id_)) for _, code, id_ in NOT_MESSAGES.values()), (-32700, "None")]
    )
    assert [answer["id"] for answer in said if "result" in answer] == ["first", 2]
    assert run_sql(url, "SELECT content FROM episodes") == [{"content": "half an emoji �"}]


def test_bytes_that_are_not_utf_8_become_replacement_characters(converse, url: str):
    *_, answer = converse(*opening(), json.dumps(store(2, "caf?")).encode().replace(b"?", b"\xe9"))
    assert (answer["id"], answer["result"]["structuredContent"]["outcome"]) == (2, "stored")
    assert run_sql(url, "SELECT content FROM episodes") == [{"content": "caf�"}]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_client_goes_on_after_a_bad_line(environ: dict[str, str], mode: str):
    """The shell says something of its own into the conversation first."""
    server = shlex.join([sys.executable, "-m", "tulving", "mcp"])
    talking = StdioServerParameters(
        command="sh", args=["-c", rf"(printf 'not json\n{{}}\n'; exec cat) | {server}"], env=environ
    )
    async with Client(talking, mode=mode) as client:
        cut = "half an emoji 😀"[:-1] + "\ufffd"
        result = await client.call_tool("memory_store_fact", {"subject": "a", "predicate": "b", "content": cut})
        assert result.structured_content["outcome"] == "stored"
        assert (await client.call_tool("memory_recall", {"topic": "emoji"})).structured_content["results"]


@pytest.mark.parametrize("lines", [(), (b"not json",)])
def test_a_client_that_asks_nothing_does_not_keep_the_server(path: Path, converse, lines: tuple[bytes, ...]):
    assert [answer["error"]["code"] for answer in converse(*lines)] == [-32700 for _ in lines]


# -- batches ---------------------------------------------------------------------------------------------------


def test_a_batch_is_answered_by_one_array(converse, url: str):
    unknown = {"jsonrpc": "2.0", "id": "u", "method": "no/such/method"}
    batch = [store(2, "one"), INITIALIZED, store("three", "two"), 7, unknown, store(2, "the same id again")]
    said = converse(*opening(BATCHES), batch, LIST)
    assert [each["id"] for each in said if isinstance(each, dict)] == ["first", 5]
    (answers,) = (each for each in said if isinstance(each, list))
    stored = {each["id"]: each["result"]["structuredContent"]["outcome"] for each in answers if "result" in each}
    assert stored == {2: "stored", "three": "stored"}
    assert sorted((str(each["id"]), each["error"]["code"]) for each in answers if "error" in each) == [
        ("2", -32600),
        ("None", -32600),
        ("u", -32601),
    ]
    kept = {row["content"] for row in run_sql(url, "SELECT content FROM episodes")}
    assert kept == {"one", "two"}


def test_a_batch_of_notifications_is_not_answered_and_one_of_nothing_is_refused(path: Path, converse):
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    said = converse(*opening(BATCHES), [INITIALIZED, cancelled], [], [1, 2], LIST)
    assert len(said) == 4
    assert {answer["id"] for answer in said if isinstance(answer, dict)} == {"first", None, 5}
    (refused,) = (answer for answer in said if isinstance(answer, list))
    assert [each["error"]["code"] for each in refused] == [-32600, -32600]


def test_an_id_that_is_in_use_costs_no_other_request_its_answer(converse, url: str):
    said = converse(*opening(BATCHES), [store(2, "one"), store(3, "two")], store(2, "again"))
    (answers,) = (each for each in said if isinstance(each, list))
    assert sorted(each["id"] for each in answers if "result" in each) == [2, 3]
    (refused,) = (each for each in said if "error" in each)
    assert (refused["id"], refused["error"]["code"]) == (2, -32600)
    assert run_sql(url, "SELECT count(*) AS n FROM episodes") == [{"n": 2}]


def test_a_batch_does_not_wait_for_what_was_cancelled(converse):
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    said = converse(*opening(BATCHES), [store(2, "one"), LIST], cancelled)
    answered = {each["id"] for answer in said for each in (answer if isinstance(answer, list) else [answer])}
    assert {"first", 5} <= answered


def test_a_batch_that_cancels_one_of_its_requests_is_answered_once(path: Path, converse):
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    said = converse(*opening(BATCHES), [7, store(2, "one"), cancelled, LIST])
    (answers,) = (each for each in said if isinstance(each, list))
    assert [each["id"] for each in answers] == [None, 5]


@pytest.mark.parametrize("version", ["2025-06-18", None])
def test_a_batch_in_another_version_is_refused(path: Path, converse, version: str | None):
    said = converse(*(opening(version) if version else []), [store(2, "one"), LIST])
    assert [(answer["id"], answer["error"]["code"]) for answer in said if "error" in answer] == [(None, -32600)]
    assert BATCHES in said[-1]["error"]["message"]
