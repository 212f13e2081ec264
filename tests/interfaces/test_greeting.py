"""A client over standard input is greeted before the MCP library is loaded, and in the library's own words."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tulving import MemoryModuleConfig
from tulving.interfaces.mcp.greeting import LARGEST_ID, VERSIONS, greeting
from tulving.interfaces.mcp.server import Principal, build_server

pytestmark = pytest.mark.usefixtures("path")  # it does not depend on the engine

CLIENTS: list[dict[str, Any]] = [
    {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    {
        "capabilities": {
            "roots": {"listChanged": True},
            "sampling": {"tools": {}},
            "elicitation": {"form": {}, "url": {}},
            "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}},
            "experimental": {"colours": {}},
            "unheard-of": {},
        },
        "clientInfo": {
            "name": "client",
            "title": "Client…",
            "version": "1.2.3",
            "description": "Asks",
            "websiteUrl": "https://example.com",
        },
    },
]


def initialize(id_: Any = 1, version: Any = "2025-06-18", **changed: Any) -> dict[str, Any]:
    params = {"protocolVersion": version, **CLIENTS[0], **changed}
    return {"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": params}


async def library(asked: Any, config: MemoryModuleConfig) -> Any:
    """What the library answers."""
    answers: list[Any] = []
    to_server, requests = anyio.create_memory_object_stream[Any](1)
    from_server, responses = anyio.create_memory_object_stream[Any](1)
    server = build_server(config, lambda _: Principal(None))  # pyright: ignore[reportArgumentType]
    async with to_server, responses, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, requests, from_server, server.create_initialization_options())
        await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_python(asked)))
        answers.append(await responses.receive())
        tasks.cancel_scope.cancel()
    return answers[0].message.model_dump(by_alias=True, exclude_none=True, mode="json")


@pytest.mark.parametrize("tools", ["minimal", "standard", "all"])
@pytest.mark.parametrize("client", CLIENTS, ids=["short", "long"])
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_the_greeting_is_the_answer_of_the_library(environ, version: str, client: dict[str, Any], tools: str):
    for embedder, id_ in (("minilm", 0), ("hashing", "a-1")):
        config = MemoryModuleConfig(embedder=embedder, tools=tools)
        asked = initialize(id_, version, **client)
        assert json.loads(greeting(json.dumps(asked), config) or "null") == await library(asked, config)


def test_every_version_with_a_handshake_is_known():
    assert VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "words",
        "[" * 100_000,
        "[]",
        "7",
        *map(
            json.dumps,
            [
                [initialize()],
                initialize() | {"method": "ping"},
                initialize() | {"jsonrpc": "1.0"},
                initialize() | {"more": 1},
                initialize() | {"params": []},
                initialize(None),
                initialize(True),
                initialize(1.5),
                initialize(LARGEST_ID),
                initialize("\ud800"),
                initialize(version="2026-07-28"),
                initialize(version="1999-01-01"),
                initialize(version=[]),
                initialize(_meta={}),
                initialize(capabilities=None),
                initialize(capabilities={"roots": True}),
                initialize(capabilities={"roots": {"listChanged": 1}}),
                initialize(capabilities={"sampling": {"tools": True}}),
                initialize(clientInfo={"name": "test"}),
                initialize(clientInfo={"name": "test", "version": 1}),
                initialize(clientInfo={"name": "test", "version": "1", "icons": []}),
            ],
        ),
    ],
)
def test_whatever_is_unusual_is_left_to_the_library(line: str):
    assert greeting(line, MemoryModuleConfig(embedder="hashing")) is None


def say(*lines: Any, **changed: str) -> subprocess.CompletedProcess[bytes]:
    sent = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    command = [sys.executable, "-m", "tulving", "mcp"]
    return subprocess.run(command, input=sent, env=os.environ | changed, capture_output=True, timeout=60)


@pytest.mark.parametrize("asked", [initialize(), initialize(_meta={})], ids=["greeted", "not greeted"])
def test_it_is_answered_once_and_the_session_goes_on(environ, asked: dict[str, Any]):
    again = initialize(3, "2024-11-05")
    ran = say(asked, {"jsonrpc": "2.0", "method": "notifications/initialized"}, again, {**asked, "id": 4})
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (ran.returncode, [answer["id"] for answer in answers]) == (0, [1, 3, 4])
    assert answers[0]["result"] == answers[2]["result"]
    assert answers[1]["result"]["protocolVersion"] == "2024-11-05"


def test_a_client_is_greeted_before_the_library_is_loaded(environ, tmp_path: Path):
    (tmp_path / "mcp.py").write_text("raise ImportError('loaded')")
    ran = say(initialize(), PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    assert json.loads(ran.stdout)["result"]["serverInfo"]["name"] == "tulving"
    assert ran.returncode == 1 and b"loaded" in ran.stderr


def test_nothing_heavy_is_loaded_for_the_greeting(environ):
    script = f"""
import sys
from tulving.config import load_config
from tulving.interfaces.mcp.greeting import greeting
assert greeting({json.dumps(initialize())!r}, load_config(embedder="minilm"))
heavy = "anyio mcp mcp_types numpy onnxruntime pydantic sqlite3 starlette tulving.bootstrap tulving.services.memory"
print([name for name in heavy.split() if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[]", ran.stderr
