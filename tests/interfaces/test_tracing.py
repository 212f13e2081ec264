"""Traces: what spans there are, when there are any, and how they hang together; and that neither they nor the metrics
nor the logs ever hold what was stored, asked or answered."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from raw_sql import run_sql
from watched_service import WatchedService, watched

from tulving import open_memory
from tulving.interfaces.logs import FORMAT, JsonLines, Lines
from tulving.interfaces.parameters import Parameter, parameters
from tulving.interfaces.traces import configured
from tulving.ports import Completion
from tulving.services.operations import OPERATIONS, Operation
from tulving.testing import ScriptedLlm, WordEmbedder

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
JWT = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnlqd3QifQ.canaryjwtsignature"
CANARY = "zqcanary"


async def test_a_request_goes_on_with_the_trace_of_its_caller(url, traces, exporter):
    async with watched(url, traces=traces) as service:
        exporter.clear()
        body = {"subject": "Anna", "predicate": "drink", "content": "tea"}
        await service.web.post(
            "/v1/facts", json=body, headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "order-66"}
        )
    spans = {span.name: span for span in exporter.get_finished_spans()}
    request, operation = spans["POST /v1/facts"], spans["operation memory_store_fact"]
    embedding, transaction = spans["embedding"], spans["transaction facts.store"]
    assert {f"{span.context.trace_id:032x}" for span in (request, operation, embedding, transaction)} == {TRACE}
    assert f"{request.parent.span_id:016x}" == PARENT
    assert operation.parent.span_id == request.context.span_id
    assert {embedding.parent.span_id, transaction.parent.span_id} == {operation.context.span_id}
    assert request.attributes["http.response.status_code"] == 201
    assert request.attributes["http.route"] == "/v1/facts"
    assert request.attributes["tulving.request_id"] == "order-66"
    assert operation.attributes["tulving.outcome"] == "ok"
    assert operation.attributes["tulving.tenant"] == "default"
    assert embedding.attributes["tulving.texts"] == 1


async def test_a_span_tells_how_it_failed_without_the_message(url, traces, exporter):
    async with watched(url, traces=traces) as service:
        await service.web.post("/v1/search", json={"query": "tea", "mode": CANARY})
    [span] = [span for span in exporter.get_finished_spans() if span.name == "operation memory_search"]
    assert span.attributes["tulving.outcome"] == "refused"
    assert span.attributes["error.type"] == "InvalidInput"
    assert span.status.is_unset
    assert not span.events


def test_a_span_of_something_unexpected_has_its_type_only(traces, exporter):
    with pytest.raises(RuntimeError), traces.during("operation", operation="memory_recall", tenant="default"):
        raise RuntimeError(CANARY)
    [span] = exporter.get_finished_spans()
    assert (span.attributes["tulving.outcome"], span.attributes["error.type"]) == ("failed", "RuntimeError")
    assert span.status.status_code is StatusCode.ERROR
    assert CANARY not in span.to_json()


async def test_references_are_written_in_a_trace_of_their_own(url, traces, exporter):
    """They are of many requests."""
    async with watched(url, traces=traces) as service:
        await service.post("/v1/facts", subject="Anna", predicate="drink", content="tea")
        await service.post("/v1/recall", topic="tea")
        await service.memory.settle()
    [touch] = [span for span in exporter.get_finished_spans() if span.name == "transaction items.touch"]
    assert touch.parent is None


async def test_a_host_may_observe_a_memory_of_its_own(url, traces, exporter):
    async with open_memory(url, embedder=WordEmbedder(), observer=traces, background=False) as memory:
        await memory.store_fact("Anna", "drink", "tea")
    assert "transaction facts.store" in {span.name for span in exporter.get_finished_spans()}


@pytest.mark.parametrize(
    "environ",
    [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}],
)
def test_there_are_no_traces_unless_they_are_configured(environ):
    assert configured(environ) is None


@pytest.mark.parametrize(
    ("environ", "exporter"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, "otlp_proto_http"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp_proto_grpc"),
    ],
)
def test_an_exporter_that_is_not_installed_is_named(environ, exporter, caplog):
    assert configured(environ) is None
    assert exporter in caplog.text


@pytest.mark.usefixtures("path")
def test_the_variables_of_opentelemetry_configure_a_service(process):
    """With the exporter that the SDK itself has."""
    ran = process("worker", "--once", "decay_sweep", OTEL_TRACES_EXPORTER="console")
    assert ran.code == 0, ran.err
    names = re.findall(r'"name": "(.*?)"', ran.out)
    assert "job decay_sweep" in names
    assert '"service.name": "tulving"' in ran.out


def test_nothing_of_it_is_loaded_before_it_is_needed():
    """A library, a command and a server over standard input and output observe nothing."""
    program = (
        "import sys, tulving.bootstrap, tulving.interfaces.cli, tulving.interfaces.mcp.stdio, tulving.services.memory;"
        "print([name for name in ('prometheus_client', 'opentelemetry.sdk') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, timeout=60)
    assert ran.stdout.strip() == "[]", ran.stderr


@contextmanager
def logged() -> Iterator[list[str]]:
    """Every record of our loggers, as text and as JSON."""
    written = [io.StringIO(), io.StringIO()]
    handlers = [logging.StreamHandler(stream) for stream in written]
    for handler, formatter in zip(handlers, (Lines(FORMAT), JsonLines()), strict=True):
        handler.setFormatter(formatter)
    loggers = [logging.getLogger(name) for name in ("tulving", "tulving.access")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.DEBUG)
    for handler in handlers:
        loggers[0].addHandler(handler)
    text: list[str] = []
    try:
        yield text
    finally:
        for handler in handlers:
            loggers[0].removeHandler(handler)
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
        text += [stream.getvalue() for stream in written]


def canary(parameter: Parameter, tool: str) -> Any:
    """A value that a call may have, with a word by which it is found again wherever that is possible."""
    word = f"{CANARY} {tool} {parameter.name}"
    if parameter.choices:
        return [parameter.choices[0]] if parameter.type == "array" else parameter.choices[0]
    if parameter.is_time:
        return "2026-01-01T00:00:00+00:00"
    by_type = {
        "string": word,
        "array": [1.0] * 64 if parameter.items == "number" else [word],
        "object": {word: word},
        "boolean": False,
        "integer": 5,
        "number": 0.5,
    }
    return by_type[parameter.type]


def fitting(parameter: Parameter, known: dict[str, str]) -> Any:
    """The same, but an id where one is asked for, so that the call gets further."""
    name = parameter.name
    if name == "id" or name.endswith("_id"):
        return known["id"]
    return {"memory_type": "fact", "type": "note", "kind": "fact", "rating": "helpful"}.get(
        name, canary(parameter, "fitting")
    )


async def every_call(service: WatchedService) -> None:
    """Call each operation with a canary in every textual argument: with all of them, with the required ones, and with
    ids that are there; and with a false token and a false JWT."""
    stored = await service.post(
        "/v1/facts", subject=f"{CANARY} subject", predicate="drink", content=f"{CANARY} content <private>x</private>"
    )
    known = {"id": stored.json()["id"]}
    for operation in OPERATIONS.values():
        taken = parameters(operation)
        required = [each for each in taken if each.required or f"{{{each.name}}}" in operation.http]
        for arguments in (
            {each.name: canary(each, operation.tool) for each in taken},
            {each.name: canary(each, operation.tool) for each in required},
            {each.name: fitting(each, known) for each in required},
        ):
            await service.call(operation, arguments, **{"x-request-id": f"{CANARY} id", "idempotency-key": CANARY})
        for false in (JWT, "tulving_" + CANARY * 8):
            refused = await service.call(operation, arguments, authorization=f"Bearer {false}")
            assert refused.status_code == 401
    await service.web.get(f"/{CANARY}/page?{CANARY}=1", headers={"traceparent": CANARY})
    await service.web.get(f"/console/{CANARY}?q={CANARY}")
    note = {"subject": "Anna", "predicate": "drink", "content": f"{CANARY} over mcp"}
    store = "memory_store_fact"
    for tool, arguments in ((store, note), (store, note | {CANARY: CANARY}), (CANARY, note)):
        call = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answered = await service.web.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})
        assert answered.json()["result"].get("isError", False) == (arguments is not note or tool == CANARY)


def leaks(told: list[str], secret: str) -> list[tuple[str, str]]:
    """Where a canary or a secret is told, with what is around it."""
    forbidden = (CANARY, JWT, JWT.split(".")[1], "canaryjwt", secret)
    return [
        (word, part[max(0, part.index(word) - 200) : part.index(word) + 120])
        for part in told
        for word in forbidden
        if word in part
    ][:10]


async def test_nothing_that_was_stored_asked_or_sent_is_told(url, traces, exporter):
    """Over every operation of the registry, on both engines."""

    def answer(prompt: str) -> Completion:
        return Completion(f"{CANARY} is no JSON")

    with logged() as text:
        async with watched(url, traces=traces, llm=ScriptedLlm(answer, forever=True)) as service:
            await every_call(service)
            secret, figures = service.secret, service.metrics.text().decode()
    spans = exporter.get_finished_spans()
    called = {span.attributes["tulving.operation"] for span in spans if span.name.startswith("operation ")}
    assert len(called) > len(OPERATIONS) * 0.8, "most calls must get as far as their verb"
    assert not leaks([*(span.to_json() for span in spans), figures, *text], secret)
    for line in text[1].splitlines():
        assert json.loads(line)["message"]
    assert sum(span.name.startswith("operation ") for span in spans) > len(OPERATIONS)


async def test_nothing_is_told_of_what_failed_either(url, traces, exporter):
    """A store that lacks its tables makes most calls fail unexpectedly: then the most is logged."""
    with logged() as text:
        async with watched(url, traces=traces) as service:
            await service.post("/v1/facts", subject=CANARY, predicate="drink", content=f"{CANARY} content")
            for table in ("facts", "episodes", "rules", "entities", "sessions", "memory_events"):
                run_sql(url, f"ALTER TABLE {table} RENAME TO {table}_gone")
            for operation in OPERATIONS.values():
                taken = parameters(operation)
                arguments = {each.name: canary(each, operation.tool) for each in taken if each.required}
                arguments |= {name: canary_of(operation, name) for name in re.findall(r"{(\w+)}", operation.http)}
                await service.call(operation, arguments)
            figures = service.metrics.text().decode()
    failed = [span for span in exporter.get_finished_spans() if span.attributes.get("tulving.outcome") == "failed"]
    assert len({span.attributes.get("tulving.operation") for span in failed}) > 10
    assert any(json.loads(line)["level"] == "error" for line in text[1].splitlines())
    assert not leaks([*(span.to_json() for span in exporter.get_finished_spans()), figures, *text], service.secret)


def canary_of(operation: Operation, name: str) -> Any:
    [parameter] = [each for each in parameters(operation) if each.name == name]
    return canary(parameter, operation.tool)
