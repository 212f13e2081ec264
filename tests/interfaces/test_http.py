"""MCP over HTTP: real clients of both eras, tenants kept apart, and requests that must be refused."""

import asyncio
import http.client
import json
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from administration import administer
from http_parts import BASE, JSON, LIST, Served, bearer, new_token, opening_by
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette

from tulving import Caller, Memory, open_memory
from tulving.bootstrap import Served as Store
from tulving.config import load_config
from tulving.errors import ConfigError, InvalidInput, StoreUnavailable
from tulving.interfaces.calls import Opened, open_lazily
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint, host_names, origins
from tulving.interfaces.http.server import listen, parse_address, serve
from tulving.services.administration import Administration
from tulving.services.operations import OPERATIONS
from tulving.services.tokens import TRUSTED, Authentication, Tokens

MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
ONE_ENGINE = pytest.mark.usefixtures("path")
"""For what does not depend on the engine: starting a server takes a second."""
ADDRESS = Endpoint("127.0.0.1", 8321)
STANDARD = {name for name, operation in OPERATIONS.items() if operation.standard}
READING = {name for name in STANDARD if OPERATIONS[name].effect == "read"}


@asynccontextmanager
async def connected(
    url: str, secret: str | None = None, mode: str = "auto", app: Starlette | None = None
) -> AsyncIterator[Client]:
    """A real client, of a server elsewhere or of one in this process."""
    transport = httpx2.ASGITransport(app) if app is not None else None
    async with (
        httpx2.AsyncClient(headers=bearer(secret), transport=transport, timeout=30) as web,
        Client(streamable_http_client(url, http_client=web), mode=mode) as client,
    ):
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@dataclass
class Inside:
    """A server in this process, and the memory behind it."""

    app: Starlette
    opened: Opened[Store]

    async def memory(self) -> Memory:
        return (await self.opened()).memory

    async def create(self, tenant: str = "default", **options: Any) -> str:
        return await new_token(await self.memory(), tenant, **options)

    async def send(self, method: str = "POST", path: str = "/mcp", **options: Any) -> httpx2.Response:
        options.setdefault("headers", {})
        options["headers"] = JSON | options["headers"]
        if method == "POST" and "content" not in options:
            options.setdefault("json", LIST)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url=BASE) as web:
            return await web.request(method, path, **options)

    def client(self, secret: str | None = None, mode: str = "auto") -> Any:
        return connected(f"{BASE}/mcp", secret, mode, self.app)


@asynccontextmanager
async def inside(
    address: Endpoint = ADDRESS, closed: bool = False, opener: Any = None, **settings: Any
) -> AsyncIterator[Inside]:
    config = load_config(**settings)
    opener = opener or (lambda: open_memory(config=config, background=False))
    async with open_lazily(opening_by(opener)) as opened:
        app = application(config, opened, address, Access(opened, is_open=not closed))
        async with app.router.lifespan_context(app):
            yield Inside(app, opened)


# -- sessions --------------------------------------------------------------------------------------------------


@ONE_ENGINE
@MODES
async def test_a_session_of_the_local_caller(server, cli, mode: str):
    served = server("--open")
    assert "WITHOUT A TOKEN (--open): to every program on this machine" in served.said
    async with connected(served.url, mode=mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert "memory_context" in client.instructions
        assert await names(client) == STANDARD
        fact = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="green")
        found = await ask(client, "memory_recall", topic="color of Anna")
        assert [hit["id"] for hit in found["results"]] == [fact["id"]]
        block = await ask(client, "memory_context", trigger_prompt="Anna", butler="me")
        assert "[Anna] [color]: green" in block["context"]
        assert "mode" in await refused(client, "memory_search", query="x", mode="magic")
        assert "there is no tool" in await refused(client, "memory_dream")
    assert "green" in (await asyncio.to_thread(cli, "recall", "color of Anna")).out
    assert served.end()[0] == 0


@MODES
async def test_a_token_means_its_tenant_and_its_actor(environ, mode: str):
    async with inside() as here:
        async with here.client(await here.create("anna", actor="claude"), mode) as client:
            fact = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="green")
        memory = await here.memory()
        events = await memory.bind(caller=Caller("anna")).events("fact", fact["id"])
        assert [event.actor for event in events] == ["claude"]
        assert await memory.get("fact", fact["id"]) is None


@MODES
async def test_no_tenant_reaches_anothers_memory(environ, mode: str):
    async with inside(tools="all") as here:
        anna, bert = await here.create("anna"), await here.create("bert")
        async with here.client(anna, mode) as mine, here.client(bert, mode) as theirs:
            fact = await ask(mine, "memory_store_fact", subject="Anna", predicate="secret", content="heliotrope")
            note = await ask(mine, "memory_store_note", content="heliotrope in the garden")
            rule = await ask(mine, "memory_store_rule", content="never say heliotrope")
            episode = await ask(mine, "memory_store_episode", content="she said heliotrope", butler="me")
            assert len((await ask(mine, "memory_search", query="heliotrope"))["results"]) == 4
            every = {"fact": fact["id"], "rule": rule["id"], "episode": episode["id"]}
            for kind, id_ in [*every.items(), ("fact", note["ref"])]:
                wanted = {"memory_type": kind, "memory_id": id_}
                assert (await ask(theirs, "memory_get", **wanted))["memory"] is None
                assert await ask(theirs, "memory_get_links", **wanted) == {"links": []}
                assert await ask(theirs, "memory_events", **wanted) == {"events": []}
                assert await ask(theirs, "memory_forget", **wanted) == {"forgotten": False}
                assert "there is no" in await refused(theirs, "memory_delete", **wanted)
                assert (await ask(theirs, "memory_list", memory_type=kind))["items"] == []
                if kind != "episode":
                    assert await ask(theirs, "memory_confirm", **wanted) == {"confirmed": False}
            for mode_ in ("hybrid", "semantic", "keyword"):
                assert (await ask(theirs, "memory_search", query="heliotrope", mode=mode_))["results"] == []
            assert (await ask(theirs, "memory_recall", topic="heliotrope"))["results"] == []
            block = await ask(theirs, "memory_context", trigger_prompt="heliotrope", butler="me")
            assert "heliotrope" not in block["context"]
            link = {"source_type": "fact", "source_id": fact["id"], "target_type": "rule", "target_id": rule["id"]}
            assert "there is no" in await refused(theirs, "memory_create_link", **link, relation="supports")
            assert "tenant" in await refused(theirs, "memory_search", query="heliotrope", tenant_id="anna")
            for kind, id_ in every.items():
                memory = (await ask(mine, "memory_get", memory_type=kind, memory_id=id_))["memory"]
                assert "heliotrope" in memory["content"]


async def test_requests_at_once_keep_their_tenants(server, token):
    """Two tenants and both eras hammer one server; neither ever sees a word of the other."""
    tenants = {tenant: token(tenant, "--actor", tenant)["secret"] for tenant in ("anna", "bert")}
    served = server(TULVING_TOOLS="all")

    async def hammer(tenant: str, secret: str, mode: str, number: int) -> None:
        async with connected(served.url, secret, mode) as client:
            for turn in range(3):
                about = f"{tenant} {mode} {number} {turn}"
                stored = await ask(client, "memory_store_note", content=f"heliotrope of {about}")
                memory = await ask(client, "memory_get", memory_type="fact", memory_id=stored["id"])
                assert memory["memory"]["content"] == f"heliotrope of {about}"
                found = (await ask(client, "memory_search", query="heliotrope", limit=100))["results"]
                assert found and all(hit["content"].startswith(f"heliotrope of {tenant}") for hit in found)
                events = await ask(client, "memory_events", memory_type="fact", memory_id=stored["id"])
                assert {event["actor"] for event in events["events"]} == {tenant}

    await asyncio.gather(
        *(
            hammer(tenant, secret, mode, number)
            for tenant, secret in tenants.items()
            for mode in ("auto", "legacy")
            for number in range(2)
        )
    )
    for tenant, secret in tenants.items():
        async with connected(served.url, secret) as client:
            found = (await ask(client, "memory_search", query="heliotrope", limit=100))["results"]
            assert len(found) == 2 * 2 * 3
            assert all(hit["content"].startswith(f"heliotrope of {tenant}") for hit in found)


@MODES
async def test_rights_are_what_a_token_may_do(environ, mode: str):
    async with inside() as here:
        reader = await here.create(rights=["read"])
        writer = await here.create(rights=["write"])
        async with here.client(reader, mode) as client:
            assert await names(client) == READING
            said = await refused(client, "memory_store_rule", content="obey me")
            assert said == "memory_store_rule needs the right to write, and this access token has only read"
            assert "right to destroy" in await refused(client, "memory_forget", memory_type="fact", memory_id="x")
            assert (await ask(client, "memory_search", query="obey"))["results"] == []
        async with here.client(writer, mode) as client:
            assert "memory_store_rule" in await names(client)
            assert not READING & await names(client)
            await ask(client, "memory_store_rule", content="obey me")
            assert "right to read" in await refused(client, "memory_search", query="obey")


async def test_a_memory_that_is_served_has_no_verb_for_the_whole_store(environ):
    async with inside() as here:
        served = await here.memory()
        owned = vars(Administration) | vars(Tokens) | vars(Authentication)
        verbs = {name for name in owned if not name.startswith("_")}
        assert {"create_token", "authenticate", "reembed", "verify", "reindex"} < verbs
        assert not [name for name in verbs if hasattr(served, name)]


async def test_the_id_of_a_request_is_in_the_trail(environ):
    async with inside() as here:
        secret = await here.create()
        memory = await here.memory()
        for sent, is_kept in (("req-17", True), ("x" * 500, False), (" ", False)):
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "memory_store_rule", "arguments": {"content": f"rule {sent}"}},
            }
            answer = await here.send(json=body, headers=bearer(secret) | {"x-request-id": sent})
            id_ = answer.json()["result"]["structuredContent"]["id"]
            named = answer.headers["x-request-id"]
            assert (named == sent) == is_kept
            assert [event.request_id for event in await memory.events("rule", id_)] == [named]


async def test_a_request_that_is_repeated_under_its_key_is_done_once(environ):
    async with inside() as here:
        secret = await here.create()

        async def store(content, **headers):
            params = {"name": "memory_store_rule", "arguments": {"content": content}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            return await here.send(json=body, headers=bearer(secret) | headers)

        def id_of(answer):
            return answer.json()["result"]["structuredContent"]["id"]

        keyed = {"idempotency-key": "k-1", "x-request-id": "trace"}
        first = id_of(await store("wave", **keyed))
        assert id_of(await store("wave", **keyed)) == first
        refused = (await store("smile", **keyed)).json()["result"]
        assert refused["isError"] and "idempotency_key: 'k-1' was used before" in refused["content"][0]["text"]
        traced = {"x-request-id": "trace"}
        assert len({first, id_of(await store("wave", **traced)), id_of(await store("wave", **traced))}) == 3
        for unfit in ("x" * 201, " ", "a\x7fb"):
            answer = await store("bow", **{"idempotency-key": unfit})
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_idempotency_key"), unfit
        listed = (await (await here.memory()).list_memories("rule")).items
        assert sorted(rule.content for rule in listed) == ["wave"] * 3


# -- what must be refused ---------------------------------------------------------------------------------------


@ONE_ENGINE
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "Bearer tulving_" + "A" * 43,
        "Basic dHVsdmluZw==",
        "Token {secret}",
        "{secret}",
        "Bearer {secret}x",
        "Bearer {secret} {secret}",
        "Bearer " + "x" * 20_000,
        "Bearer \xff\xfe",
    ],
)
async def test_a_request_without_a_good_token_is_told_to_get_one(environ, authorization: str | None):
    async with inside() as here:
        secret = await here.create()
        shown = (
            {} if authorization is None else {"authorization": authorization.format(secret=secret).encode("latin-1")}
        )
        answer = await here.send(headers=shown)
        assert answer.status_code == 401
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith('Bearer realm="tulving"')
        assert ('error="invalid_token"' in challenge) == (authorization is not None)
        assert "tools" not in answer.text
        assert secret not in answer.text
        assert (await here.send(headers=bearer(secret))).status_code == 200


async def test_a_token_opens_nothing_beside_the_header(environ):
    async with inside() as here:
        secret = await here.create()
        assert (await here.send(path=f"/mcp?access_token={secret}")).status_code == 401
        assert (await here.send(headers={"cookie": f"authorization=Bearer {secret}"})).status_code == 401
        assert (await here.send(headers={"authorization": f"bEaReR  {secret}"})).status_code == 200


async def test_revocation_and_expiry_count_from_the_next_request(environ, clock):
    config = load_config()
    async with inside(opener=lambda: open_memory(config=config, clock=clock, background=False)) as here:
        short, long = await here.create(days=1), await here.create()
        for secret in (short, long):
            assert (await here.send(headers=bearer(secret))).status_code == 200
        clock.advance(days=1)
        assert (await here.send(headers=bearer(short))).status_code == 401
        memory = await here.memory()
        (lasting,) = (each for each in await administer(memory).list_tokens() if each.expires_at is None)
        await administer(memory).revoke_token(str(lasting.id))
        assert (await here.send(headers=bearer(long))).status_code == 401


@ONE_ENGINE
def test_an_open_server_closes_with_the_first_token_and_stays_closed(server, token, cli, process):
    served = server("--open")
    assert served.post().status_code == 200
    assert served.post(secret="tulving_" + "A" * 43).status_code == 401, "a bad token is never as good as none"
    made = token()
    assert served.post().status_code == 401
    assert served.post(secret=made["secret"]).status_code == 200
    assert cli("token", "revoke", made["id"]).code == 0
    time.sleep(TRUSTED)
    assert served.post(secret=made["secret"]).status_code == 401
    assert served.post().status_code == 401, "revoking the last token does not open the server"
    assert served.end()[0] == 0
    again = process("mcp", "--http", "127.0.0.1:0")
    assert (again.code, "there is no token yet" in again.err) == (2, True), "nor does starting again"
    assert server("--open").post().status_code == 200


async def test_what_was_forwarded_from_elsewhere_needs_a_token_though_the_server_is_open(environ):
    async with inside() as here:
        for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host"):
            assert (await here.send(headers={header: "203.0.113.7"})).status_code == 401
        assert (await here.send()).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
@ONE_ENGINE
def test_without_tokens_it_starts_only_when_told_to_be_open(cli, address: str):
    """A proxy's requests look local with its default settings, so only a person can know that there is none."""
    ran = cli("mcp", "--http", address)
    assert ran.code == 2
    assert ran.err == (
        "error: http: there is no token yet, so every request would be refused; allowed: first `tulving token create`,"
        " or --open for every program on this machine\n"
    )


@pytest.mark.parametrize(("address", "names"), [("0.0.0.0:0", "none"), ("127.0.0.1:0", "memory.example.com")])
@ONE_ENGINE
def test_it_is_never_open_where_others_can_reach_it(cli, monkeypatch: pytest.MonkeyPatch, address: str, names: str):
    monkeypatch.setenv("TULVING_ALLOWED_HOSTS", names)
    ran = cli("mcp", "--http", address, "--open")
    assert ran.code == 2
    assert "open: is not possible where others can reach the server" in ran.err
    assert "`tulving token create`" in ran.err


@ONE_ENGINE
def test_it_is_not_open_to_all_and_to_those_with_a_token(cli, token):
    token()
    ran = cli("mcp", "--http", "127.0.0.1:0", "--open")
    assert ran.code == 2
    assert "open: is not possible, since the store has tokens" in ran.err


@ONE_ENGINE
def test_open_is_a_word_about_http(cli):
    ran = cli("mcp", "--open")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: open: is for a server over HTTP; allowed: --http HOST:PORT --open\n"


@ONE_ENGINE
def test_with_tokens_it_listens_anywhere_and_still_wants_one(server, token, cli):
    made = token()
    served = server(address="0.0.0.0:0")
    assert "to those who have a token" in served.said
    assert served.post().status_code == 401
    assert served.post(secret=made["secret"]).status_code == 200
    assert cli("token", "revoke", made["id"]).code == 0
    assert served.post().status_code == 401


# -- Host and Origin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8321", 200),
        ("localhost:8321", 200),
        ("LocalHost:8321", 200),
        ("[::1]:8321", 200),
        ("evil.example", 421),
        ("evil.example:8321", 421),
        ("localhost", 421),
        ("localhost:80", 421),
        ("localhost:8321.evil.example", 421),
        ("localhost.evil.example:8321", 421),
        ("evil.example@localhost:8321", 421),
        ("192.168.0.1:8321", 421),
        ("0.0.0.0:8321", 421),
        ("", 421),
    ],
)
@ONE_ENGINE
async def test_it_answers_to_its_own_names_only(environ, host: str, status: int):
    async with inside() as here:
        answer = await here.send(headers={"host": host})
        assert answer.status_code == status
        assert (await here.send("GET", "/health", headers={"host": host})).status_code == status
        assert (await here.send(path="/mcp/", headers={"host": host})).status_code == (307 if status == 200 else 421)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8321", 200),
        ("http://127.0.0.1:3000", 200),
        ("https://[::1]:8321", 200),
        ("https://evil.example", 403),
        ("http://localhost.evil.example:8321", 403),
        ("http://localhost@evil.example", 403),
        ("http://[::1", 403),
        ("null", 403),
        ("file://", 403),
        ("chrome-extension://localhost", 403),
        ("", 403),
    ],
)
@ONE_ENGINE
async def test_pages_from_elsewhere_are_refused(environ, origin: str, status: int):
    async with inside() as here:
        answer = await here.send(headers={"origin": origin})
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers


@ONE_ENGINE
async def test_a_good_token_does_not_excuse_a_wrong_page_or_name(environ):
    async with inside() as here:
        secret = await here.create()
        assert (await here.send(headers=bearer(secret) | {"origin": "https://evil.example"})).status_code == 403
        assert (await here.send(headers=bearer(secret) | {"host": "evil.example"})).status_code == 421


@ONE_ENGINE
async def test_of_several_origins_each_must_be_allowed(environ):
    async with inside() as here:
        both = [*JSON.items(), ("origin", "http://localhost:8321"), ("origin", "https://evil.example")]
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(here.app), base_url=BASE) as web:
            assert (await web.post("/mcp", json=LIST, headers=both)).status_code == 403


@ONE_ENGINE
async def test_configured_names_and_pages_are_answered(environ):
    address = Endpoint(
        "192.0.2.1",
        8321,
        is_loopback=False,
        allowed_hosts=host_names("memory.example.com, Proxy.example.com:443"),
        allowed_origins=origins("https://App.example.com"),
    )
    async with inside(address, closed=True) as here:
        secret = await here.create()
        for host, status in {
            "memory.example.com": 200,
            "memory.example.com:8321": 200,
            "memory.example.com:9999": 421,
            "proxy.example.com:443": 200,
            "proxy.example.com": 421,
            "192.0.2.1:8321": 200,
            "198.51.100.1:8321": 421,
        }.items():
            assert (await here.send(headers=bearer(secret) | {"host": host})).status_code == status, host
        good = await here.send(headers=bearer(secret) | {"origin": "https://app.example.com"})
        assert good.status_code == 200
        assert good.headers["access-control-allow-origin"] == "https://app.example.com"
        assert (await here.send(headers=bearer(secret) | {"origin": "http://localhost:8321"})).status_code == 403
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        for origin, status in {"https://app.example.com": 200, "https://evil.example": 403}.items():
            answer = await here.send("OPTIONS", headers=asked | {"origin": origin})
            assert answer.status_code == status
            assert ("access-control-allow-origin" in answer.headers) == (status == 200)


@pytest.mark.parametrize("setting", ["*", "http://x.example", "a b", "x.example/path", "x:y", "a\x00", "é.example"])
def test_a_malformed_host_name_is_refused(setting: str):
    with pytest.raises(ConfigError, match="allowed_hosts"):
        host_names(f"fine.example,{setting}")


@pytest.mark.parametrize("setting", ["*", "x.example", "ftp://x.example", "https://x.example/", "https://", "null"])
def test_a_malformed_origin_is_refused(setting: str):
    with pytest.raises(ConfigError, match="allowed_origins"):
        origins(setting)


# -- bodies ----------------------------------------------------------------------------------------------------


def raw(served: Served, body: bytes, length: int | None = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        connection.putrequest("POST", "/mcp")
        sent = JSON | {"content-length": str(len(body) if length is None else length)}
        for name, value in (sent | {name.replace("_", "-"): value for name, value in headers.items()}).items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@ONE_ENGINE
def test_a_malformed_request_is_refused_and_the_server_goes_on(server):
    served = server("--open")
    modern = {"mcp_protocol_version": "2026-07-28"}
    for era in ({}, modern):
        for body in (b"", b"{", b"\xff\xfe", b"[]", b"7", b"null", b'{"jsonrpc":"2.0"}', b"[" * 100_000, b'{"id":1}'):
            status, said = raw(served, body, **era)
            assert 400 <= status < 500, (era, body[:20], status)
            assert b"Traceback" not in said
        assert raw(served, b"", length=5_000_000, **era)[0] == 413
        assert raw(served, json.dumps(LIST).encode(), content_type="text/plain", **era)[0] == 400
    huge = httpx2.post(served.url, content=iter([b" " * 100_000] * 60), headers=JSON, timeout=30)
    assert huge.status_code == 413
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx2.request(method, served.url, headers={"accept": "text/event-stream"}, timeout=30)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as plain:
        plain.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert b"400" in plain.recv(1000)
    assert served.post().status_code == 200
    code, err = served.end()
    assert code == 0
    assert "Traceback" not in err


@ONE_ENGINE
def test_an_upload_that_is_broken_off_is_worth_one_short_line(server):
    served = server("--open")
    for number in range(40):
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
            era = "mcp-protocol-version: 2026-07-28\r\n" if number % 2 else ""
            sent = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\ncontent-length: 1000\r\n{era}"
            client.sendall((sent + "".join(f"{name}: {value}\r\n" for name, value in JSON.items()) + "\r\n{").encode())
    assert served.post().status_code == 200
    code, err = served.end()
    assert code == 0
    lines = [line for line in err.splitlines() if "pgvector" not in line]
    assert 1 <= len(lines) <= 10
    assert all(" WARNING tulving: a client disconnected before its request was complete [" in line for line in lines)


# -- health ----------------------------------------------------------------------------------------------------


async def healthy(here: Inside) -> None:
    """Wait until the next look, which is a second later at most."""
    async with asyncio.timeout(30):
        while (await here.send("GET", "/health")).status_code != 200:
            await asyncio.sleep(0.05)


# -- when the store is down ------------------------------------------------------------------------------------


class Failing:
    """A way to open a memory that can be cut."""

    def __init__(self) -> None:
        self.down = True

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Any]:
        if self.down:
            raise StoreUnavailable("the disk at /secret/place is gone")
        async with open_memory(config=load_config(), background=False) as memory:
            yield memory


@MODES
async def test_an_open_server_fails_open_while_the_store_is_down(environ, mode: str):
    opener = Failing()
    async with inside(opener=opener) as here, here.client(mode=mode) as client:
        assert await names(client) == STANDARD
        block = await ask(client, "memory_context", trigger_prompt="x", butler="me")
        assert "is gone" in block["context"]
        stored = await ask(client, "memory_store_episode", content="x", butler="me")
        assert stored["stored"] is False
        assert "is gone" in await refused(client, "memory_get", memory_type="fact", memory_id="x")
        opener.down = False
        assert (await ask(client, "memory_store_episode", content="x", butler="me"))["outcome"] == "stored"


async def test_while_tokens_cant_be_checked_every_request_is_refused(environ, caplog):
    opener = Failing()
    async with inside(opener=opener, closed=True) as here:
        with caplog.at_level(logging.ERROR, logger="tulving"):
            answer = await here.send(headers=bearer("tulving_" + "A" * 43))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "/secret/place" not in answer.text
        assert "/secret/place" in caplog.text
        assert "A" * 43 not in caplog.text
        assert (await here.send()).status_code == 401
        opener.down = False
        secret = await here.create()
        assert (await here.send(headers=bearer(secret))).status_code == 200


async def test_a_store_that_comes_back_with_tokens_is_not_seen_by_an_earlier_request(environ, monkeypatch):
    """The look for tokens fails, the store is back a moment later: the call must not reach it."""
    async with open_memory(config=load_config(), background=False) as memory:
        await memory.store_rule("never say heliotrope")
    async with inside() as here:
        checks = type((await here.opened()).authentication)

        async def fail() -> bool:
            raise StoreUnavailable("gone for a moment")

        with monkeypatch.context() as patch:
            patch.setattr(checks, "needs_token", lambda self: fail())
            async with here.client() as client:
                assert "gone for a moment" in await refused(client, "memory_get", memory_type="rule", memory_id="x")
                result = await client.call_tool("memory_search", {"query": "heliotrope"})
                assert "never say" not in result.content[0].text


async def test_it_starts_while_the_store_is_down(server, engine: str, tmp_path: Path):
    """It listens, closed unless it was told to be open, and fails open then, until the store is there."""
    with socket.socket() as deaf:  # bound, but not listening
        deaf.bind(("127.0.0.1", 0))
        broken = tmp_path / "a file"
        broken.touch()
        down = str(broken / "memory.db")
        if engine == "postgres":
            down = f"postgresql://tulving@127.0.0.1:{deaf.getsockname()[1]}/memory"
        served = server("--open", TULVING_URL=down)
        assert "the store can't be used yet" in served.said
        assert served.post().status_code == 200
        assert served.post(secret="tulving_" + "A" * 43).status_code == 503
        closed = server(address="127.0.0.1:0" if engine == "sqlite" else "0.0.0.0:0", TULVING_URL=down)
        assert "to those who have a token" in closed.said
        assert closed.post().status_code == 401
        assert closed.post(secret="tulving_" + "A" * 43).status_code == 503
        assert httpx2.get(f"http://127.0.0.1:{closed.port}/readyz", timeout=30).status_code == 503


@ONE_ENGINE
def test_what_comes_from_elsewhere_forges_no_line_of_the_log(server, tmp_path: Path):
    forged = "2026-01-01 00:00:00,000 ERROR tulving: the store is gone"
    folder = tmp_path / f"x\n{forged}\x1b[2J"
    folder.mkdir()
    served = server("--open", TULVING_URL=str(folder))
    assert f"x\\n{forged}\\x1b[2J" in served.said
    assert forged not in served.said.splitlines()
    assert served.end()[0] == 0


# -- beginning and end -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@ONE_ENGINE
def test_a_request_under_way_is_answered_before_the_end(server, cli, number: int):
    served = server("--open")
    call = {"name": "memory_store_rule", "arguments": {"content": "finish what you began"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.putrequest("POST", "/mcp")
    for name, value in (JSON | {"content-length": str(len(body))}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(body[:10])
    assert served.post().status_code == 200  # by now the server has begun to read the first one
    served.process.send_signal(number)
    with pytest.raises(OSError):  # no further connection is accepted
        while True:
            socket.create_connection(("127.0.0.1", served.port), timeout=5).close()
            time.sleep(0.05)
    assert served.process.poll() is None
    connection.send(body[10:])
    answer = connection.getresponse()
    assert answer.status == 200
    assert json.loads(answer.read())["result"]["structuredContent"]["outcome"] == "stored"
    connection.close()
    assert served.process.wait(30) == 0
    assert "Traceback" not in served.later, served.later
    assert "finish what you began" in cli("list", "rule").out


@ONE_ENGINE
def test_a_client_that_waits_does_not_keep_it_from_ending(server):
    served = server("--open")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as idle, httpx2.Client() as kept:
        assert kept.post(served.url, json=LIST, headers=JSON).status_code == 200
        assert served.end()[0] == 0
        assert idle.recv(1) == b""


@ONE_ENGINE
def test_a_port_in_use_is_an_error_of_one_line(cli):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = cli("mcp", "--http", f"127.0.0.1:{port}")
    assert ran.code == 1
    assert ran.err == f"error: can't listen on 127.0.0.1, port {port}: Address already in use\n"


@pytest.mark.parametrize(
    "address",
    [
        *("", "8321", "127.0.0.1", "127.0.0.1:", ":8321", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", "::1:8321"),
        *("http://127.0.0.1:8321", "127.0.0.1:8321/mcp", "a b:1", "[::1]", "[evil]:1", "h\x00st:1", "127.0.0.1:٣"),
        "x" * 9999,
    ],
)
def test_a_malformed_address_is_refused(address: str):
    with pytest.raises(InvalidInput, match="http: ") as problem:
        parse_address(address)
    assert "HOST:PORT" in str(problem.value)
    assert len(str(problem.value)) < 300


def test_addresses():
    assert parse_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_address("[::1]:65535") == ("::1", 65535)
    assert parse_address("memory.example.com:80") == ("memory.example.com", 80)
    assert "localhost" in Endpoint("localhost", 80).hosts
    assert "localhost" not in Endpoint("localhost", 8080).hosts
    assert "[2001:db8::1]:80" in Endpoint("2001:DB8::1", 80, is_loopback=False).hosts


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70 + ".example", "256.256.256.256"])
def test_an_unknown_host_is_refused(host: str):
    with pytest.raises(InvalidInput, match="is not known"):
        listen(host, 0)


@ONE_ENGINE
def test_a_wrong_setting_is_told_before_anything_is_opened(environ, tmp_path: Path):
    with pytest.raises(ConfigError, match="allowed_hosts"):
        serve(load_config(allowed_hosts="*", url="new.db"), "127.0.0.1:0")
    assert not list(tmp_path.glob("new.db*"))


# -- secrets ---------------------------------------------------------------------------------------------------


@contextmanager
def _ended(served: Served) -> Iterator[list[str]]:
    said: list[str] = []
    yield said
    said.append(served.end()[1])


@pytest.mark.usefixtures("path")
async def test_no_secret_is_in_the_log_or_the_trail(server, token, cli, environ: dict[str, str], tmp_path: Path):
    made, wrong = token("anna"), "tulving_" + "wrong" * 10
    served = server()
    with _ended(served) as said:
        async with connected(served.url, made["secret"]) as client:
            fact = await ask(client, "memory_store_fact", subject="a", predicate="b", content="c")
        for attempt in (wrong, made["secret"] + "x"):
            assert served.post(secret=attempt).status_code == 401
        assert served.post(secret=made["secret"], host="evil.example").status_code == 421
        assert served.post(secret=made["secret"], origin="https://evil.example").status_code == 403
    trail = (await asyncio.to_thread(cli, "--tenant", "anna", "events", "fact", fact["id"], "--json")).out
    assert (await asyncio.to_thread(cli, "export", "--all-tenants", "all.jsonl")).code == 0
    for text in (served.said + said[0], trail, Path("all.jsonl").read_text()):
        assert made["secret"] not in text
        assert wrong not in text
    assert "evil.example" in said[0]
    if "://" not in environ["TULVING_URL"]:
        for file in tmp_path.glob("memory.db*"):
            assert made["secret"].encode() not in file.read_bytes()
