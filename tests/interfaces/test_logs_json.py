"""The log as JSON: one object a line, with the request that it belongs to, and a line for each request if asked for."""

import asyncio
import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx2
import pytest
from watched_service import watched

from tulving.errors import ConfigError
from tulving.interfaces import logs
from tulving.interfaces.current_request import CurrentRequest, answering, current
from tulving.interfaces.logs import FORMAT, JsonLines, Lines
from tulving.settings import LogsConfig

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a server of ours logs, as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root, levels = logging.getLogger("tulving"), (logs.access.level, logs.server.level)
    root.addHandler(handler)
    logs.access.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    logs.access.setLevel(levels[0])
    logs.server.setLevel(levels[1])


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_object_on_one_line():
    made = logging.LogRecord("tulving", logging.WARNING, "hosts.py", 1, "refused %s", ("a\nb\x1b[2J\ud83d",), None)
    made.created = 1000.5
    line = JsonLines().format(made)
    assert len(line.splitlines()) == 1
    assert line.isascii()
    assert json.loads(line) == {
        "time": "1970-01-01T00:16:40.500+00:00",
        "level": "warning",
        "logger": "tulving",
        "message": "refused a\nb\x1b[2J\ud83d",
    }


def test_an_error_is_told_with_its_traceback_on_the_same_line():
    try:
        raise ValueError("odd\nforged")
    except ValueError as error:
        made = logging.LogRecord("tulving", logging.ERROR, "x.py", 1, "it failed", (), None)
        made.exc_info = (type(error), error, error.__traceback__)
    line = JsonLines().format(made)
    assert len(line.splitlines()) == 1
    told = json.loads(line)
    assert told["error"] == "ValueError"
    assert "test_logs_json.py" in told["trace"]


def test_both_forms_tell_the_request_that_is_being_answered():
    made = logging.LogRecord("tulving", logging.WARNING, "x.py", 1, "slow", (), None)
    with answering(CurrentRequest("abc-1", TRACE, "acme", "memory_recall")):
        told, line = json.loads(JsonLines().format(made)), Lines(FORMAT).format(made)
    about = {"request_id": "abc-1", "trace_id": TRACE, "tenant": "acme", "operation": "memory_recall"}
    assert {name: told[name] for name in about} == about
    assert line.endswith("slow [abc-1]")
    assert "request_id" not in json.loads(JsonLines().format(made))


async def test_what_goes_on_after_a_request_is_no_part_of_it():
    """A task inherits its context; what it logs later belongs to nobody."""
    go_on = asyncio.Event()

    async def background() -> CurrentRequest | None:
        assert current() is not None
        await go_on.wait()
        return current()

    with answering(CurrentRequest("abc-1")):
        task = asyncio.create_task(background())
        await asyncio.sleep(0)
    go_on.set()
    assert await task is None


async def test_a_request_has_one_line_with_its_trace_tenant_and_operation(url, written):
    async with watched(url) as service:
        headers = {"x-request-id": "order-66", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        body = {"subject": "Anna", "predicate": "drink", "content": "tea"}
        answered = await service.web.post("/v1/facts?secret=word", json=body, headers=headers)
        assert answered.headers["x-request-id"] == "order-66"
        await service.web.post("/v1/facts", json=body, headers=headers)
    refused, stored = lines(written)
    assert stored.pop("duration") > 0  # pyright: ignore
    assert stored.pop("time")
    assert str(stored.pop("message")).startswith("POST /v1/facts 201 ")
    assert stored == {
        "level": "info",
        "logger": "tulving.access",
        "request_id": "order-66",
        "trace_id": TRACE,
        "tenant": "default",
        "operation": "memory_store_fact",
        "method": "POST",
        "route": "/v1/facts",
        "status": 201,
    }
    assert refused["status"] == 422
    assert "secret" not in json.dumps(refused)


@pytest.mark.usefixtures("path")
async def test_a_line_names_the_trace_that_is_exported(url, written, traces, exporter):
    """Which is one of our own, if the client has none."""
    async with watched(url, traces=traces) as service:
        exporter.clear()
        await service.web.get("/livez")
    [line], [span] = lines(written), exporter.get_finished_spans()
    assert line["trace_id"] == f"{span.context.trace_id:032x}"
    assert line["request_id"] == span.attributes["tulving.request_id"]


async def test_what_is_logged_while_a_request_is_answered_has_its_id(url, written, embedder):
    from tulving.errors import EmbedderUnavailable

    async with watched(url, embedder=embedder) as service:
        embedder.error = EmbedderUnavailable("no luck")
        body = {"subject": "Anna", "predicate": "drink", "content": "tea"}
        await service.web.post("/v1/facts", json=body, headers={"x-request-id": "order-66"})
    [warning] = [line for line in lines(written) if line["level"] == "warning"]
    assert warning["message"] == "stored without vectors for now: no luck"
    assert warning["request_id"] == "order-66"
    assert warning["operation"] == "memory_store_fact"


async def test_a_call_over_mcp_is_told_by_its_operation(url, written):
    async with watched(url) as service:
        call = {"name": "memory_recall", "arguments": {"topic": "tea"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        headers = {"accept": "application/json, text/event-stream", "x-request-id": "order-66"}
        answered = await service.web.post("/mcp", json=body, headers=headers)
        assert answered.status_code == 200, answered.text
    [line] = lines(written)
    assert (line["route"], line["operation"], line["tenant"]) == ("/mcp", "memory_recall", "default")


@pytest.mark.parametrize("id_", ["what Anna said to me", "x" * 65, "a/b", ""])
async def test_an_id_that_could_be_a_text_is_not_logged(path, written, id_):
    async with watched(str(path)) as service:
        await service.web.get("/livez", headers={"x-request-id": id_})
    [line] = lines(written)
    assert line["request_id"] != id_
    assert len(str(line["request_id"])) >= 16


async def test_there_is_no_line_for_a_request_unless_it_is_asked_for(path, written):
    logs.arrange(LogsConfig())
    async with watched(str(path)) as service:
        await service.web.get("/livez")
    assert written.getvalue() == ""


@pytest.mark.usefixtures("path")
def test_a_server_logs_nothing_but_json(environ):
    """From its first line, and nothing that would let somebody in."""
    command = [sys.executable, "-m", "tulving", "serve", "127.0.0.1:0", "--log-format", "json", "--access-log"]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = [json.loads(process.stderr.readline()) for _ in range(2)]
        port = int(re.findall(r":(\d+)/mcp", first[0]["message"])[0])
        assert httpx2.get(f"http://127.0.0.1:{port}/livez").status_code == 200
        assert httpx2.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
        process.terminate()
        rest = [json.loads(line) for line in process.stderr]
    assert [line["route"] for line in rest if line["logger"] == "tulving.access"] == ["/livez", "/metrics"]
    assert not any("key=" in line["message"] for line in [*first, *rest])


def test_a_format_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match="text, json"):
        LogsConfig(format="xml")
