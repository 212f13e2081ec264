"""Every operation over HTTP: it answers as the library does, to those who have the right, and nothing breaks it."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import http_document
import httpx2
import pytest
from administration import administer
from api_parts import PROBLEM, Api, served
from http_document import Said, operations
from http_parts import bearer, filled
from raw_sql import run_sql

from tulving import Memory
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces.http import openapi
from tulving.interfaces.http.arguments import IN_QUERY
from tulving.interfaces.http.batches import batched
from tulving.interfaces.parameters import accept, parameters
from tulving.interfaces.wire import answer
from tulving.services.operations import Operation
from tulving.testing import ManualClock, SequentialIds

KNOWN = operations()
DOCUMENT = openapi.document()


# -- as the library ----------------------------------------------------------------------------------------------


async def test_every_operation_answers_as_the_library_does(new_url: Callable[[], str]):
    """The same story is told twice, each time to a new store: over HTTP, and to the methods themselves."""
    async with http_document.memory_of(new_url()) as (memory, clock):
        over_http = await http_document.tell(memory, clock)
    assert {said.name for said in over_http} == {*KNOWN}
    async with http_document.memory_of(new_url()) as (memory, clock):
        for said in over_http:
            told = answer(KNOWN[said.name], await _in_library(memory, said))
            assert _comparable(told) == _comparable(said.answer), said.name
            await memory.settle()
            clock.advance(minutes=20)


async def _in_library(memory: Memory, said: Said) -> Any:
    operation = KNOWN[said.name]
    given = dict(said.arguments)
    items = given.pop("items", None)
    taken = accept(operation, given)
    if items is not None:
        (single,) = (each for each in KNOWN.values() if each.batch == said.name)
        taken["offers"] = [
            {single.batch_names.get(name, name): value for name, value in accept(single, item).items()}
            for item in items
        ]
    # Each request over HTTP is a connection of its own.
    store = administer(memory) if operation.effect == "admin" else memory.bind(caller=memory.caller)
    return await getattr(store, operation.name)(**taken)


def _comparable(value: Any, left_out: Sequence[str] = ("request_id", "note")) -> Any:
    """Without the names of requests, and how fast a machine is."""
    if isinstance(value, Mapping):
        return {name: _comparable(each, left_out) for name, each in value.items() if name not in left_out}
    return [_comparable(each, left_out) for each in value] if isinstance(value, list) else value


async def test_what_takes_a_key_takes_effect_once(new_url: Callable[[], str]):
    """The story once more: whatever is said to take an idempotency key is asked twice, and done once."""
    async with http_document.memory_of(new_url()) as (memory, clock):
        told = await http_document.tell(memory, clock)
    asked_twice = set[str]()
    async with http_document.memory_of(new_url()) as (memory, clock), http_document.service(memory) as app:
        api, changes = Api(app, memory, http_document.KEY), _changes(memory)
        for number, said in enumerate(told):
            operation = KNOWN[said.name]
            headers = {"idempotency-key": f"key {number}"} if operation.takes_key else {}
            first = await api.call(operation, said.arguments, headers=headers)
            assert (first.status_code, _comparable(first.json())) == (said.status, _comparable(said.answer)), said.name
            method, path = operation.http.split()
            described = DOCUMENT["paths"][path][method.lower()]["parameters"]
            is_described = {"$ref": "#/components/parameters/Idempotency-Key"} in described
            assert is_described == operation.takes_key
            if is_described:
                changes.clear()
                again = await api.call(operation, said.arguments, headers=headers)
                assert (again.status_code, again.json(), changes) == (first.status_code, first.json(), []), said.name
                asked_twice.add(said.name)
            await memory.settle()
            clock.advance(minutes=20)
    assert {"store_fact", "store_facts", "edit", "delete", "start_session", "merge_entities"} <= asked_twice


# -- rights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ALL_RIGHTS)
async def test_each_operation_is_for_those_with_its_right_alone(memory: Memory, right: str):
    """Who has it is told what is wrong with the arguments; who lacks it, nothing but that."""
    async with served(memory) as api:
        holder = await api.holder(rights=(right,))
        for operation in KNOWN.values():
            answered = await holder.call(operation, {"nonsense": "x"})
            if operation.effect == right:
                assert answered.status_code in (404, 422), operation.name
            else:
                refused(answered, operation, {}, 403)
                assert answered.json()["type"] == "/v1/problems/forbidden"
                assert operation.effect in answered.json()["detail"]


@pytest.mark.parametrize("secret", [None, "", "tulving_" + "x" * 43])
async def test_nobody_without_a_token_gets_anywhere(secret: str | None, memory: Memory, path: Path):
    async with served(memory, failures_per_minute=100_000) as api:
        for operation in KNOWN.values():
            answered = await Api(api.app, memory, secret).call(operation, {})
            refused(answered, operation, {}, 401)
            assert answered.headers["www-authenticate"].startswith('Bearer realm="tulving"')


# -- others ------------------------------------------------------------------------------------------------------

STRANGERS = {"tenant": ("other", {}), "user": ("default", {"tulving-user": "bob"})}
"""Who asks with the ids of others: the tenant of their token, and whom they speak for."""
SHARED = re.compile(r".*(entity|entities|preview_merge|merge_rules?)")
"""What all users of a tenant have in common."""
OF_THE_STORE = ("request_id", "note", "seq", "next_cursor", "content_hash", "rank", "jobs")
"""What an answer tells of the whole store: places in its trail, its key, how long its texts are, its jobs."""
DRAWN = re.compile(r"00000000-0000-0000-0000-00000f[0-9a-f]{6}|(?<=_)[0-9a-f]*f00[0-9a-f]{4}\b")


@pytest.mark.parametrize("who", STRANGERS)
async def test_what_others_have_changes_nothing_that_a_stranger_is_answered(
    new_url: Callable[[], str], who: str, monkeypatch: pytest.MonkeyPatch
):
    """A stranger repeats the whole story with the ids of others: where they have told it, and where they never were.
    Were anything of it told, counted, named or only known to be there, the answers would differ."""
    if who == "user":
        own = [each for each in http_document.STORY if not SHARED.fullmatch(each[0])]
        monkeypatch.setattr(http_document, "STORY", own)
    url = new_url()
    async with http_document.memory_of(url) as (memory, clock):
        told = await http_document.tell(memory, clock)
    before = _rows(url)
    beside = await _answers_to_a_stranger(url, clock, told, who)
    after = _rows(url)
    assert {*before} <= {*after} and (who == "user" or after == before)
    alone = await _answers_to_a_stranger(new_url(), clock, told, who)
    for said, answered in beside.items():
        assert answered == alone[said], said


async def _answers_to_a_stranger(
    url: str, clock: ManualClock, told: list[Said], who: str
) -> dict[tuple[str, int], tuple[int, Any]]:
    tenant, headers = STRANGERS[who]
    answers, made = {}, dict[str, str]()

    def named(match: re.Match[str]) -> str:
        """Ids that were drawn for the stranger, by their order: how many others have drawn is not seen by them."""
        return made.setdefault(match[0], f"id {len(made)}")

    async with http_document.memory_of(url) as (memory, now):
        now.now = clock.now
        memory._env.ids = SequentialIds(0xF000000)
        async with served(memory) as api:
            stranger = await api.holder(tenant, rights=("read", "write", "destroy", "review"))
            for number, said in enumerate(told):
                if (operation := KNOWN[said.name]).effect == "admin":
                    continue
                answered = await stranger.call(operation, said.arguments, headers=headers)
                told_them = json.loads(DRAWN.sub(named, answered.text))
                answers[said.name, number] = answered.status_code, _comparable(told_them, OF_THE_STORE)
                await memory.settle()
    return answers


def _rows(url: str) -> list[str]:
    """All that the story left, in order."""
    tables = ("facts", "episodes", "rules", "entities", "memory_links", "memory_events")
    found = [run_sql(url, f"SELECT * FROM {table} WHERE tenant_id = 'default'") for table in tables]
    return sorted(repr(sorted(row.items())) for rows in found for row in rows if row.get("entity_type") != "token")


# -- hostile values ----------------------------------------------------------------------------------------------

HOSTILE: list[Any] = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "'; DROP TABLE facts; --",
    '" OR "" NEAR( * ) : ^ -',
    "%_\\",
    "../../etc/passwd",
    "{{7*7}}",
    "00000000-0000-0000-0000-00000000ffff",
    "fact_00000000",
    "9999-99-99",
    "0001-01-01T00:00:00+14:00",
    "x" * 3_000,
    -1,
    0,
    10**30,
    10**400,
    1e308,
    0.5,
    True,
    [],
    ["\x00"],
    [1, None],
    [[]],
    ["x"] * 2_000,
    {},
    {"\x00": 1},
    {"a": [{"b": None}]},
]


@pytest.mark.parametrize("part", range(3))
async def test_no_value_breaks_an_operation(part: int, url: str):
    """Each parameter of a third of the operations has each hostile value in turn, while the others are right: it is
    taken, or refused as the document says; nothing is changed then."""
    async with http_document.memory_of(url) as (memory, clock):
        told = {said.name: said.arguments for said in await http_document.tell(memory, clock)}
        async with served(memory) as api:
            changes = _changes(memory)
            for operation in [*KNOWN.values()][part::3]:
                for parameter in parameters(operation):
                    for value in HOSTILE:
                        await _try(api, operation, told[operation.name] | {parameter.name: value}, changes)


async def test_no_item_breaks_a_batch(memory: Memory):
    async with served(memory) as api:
        changes = _changes(memory)
        for operation in (each for each in KNOWN.values() if each.batch):
            example = openapi.recorded()[str(operation.batch)]["arguments"]
            for parameter in parameters(operation):
                for value in HOSTILE:
                    items = [*example["items"], example["items"][0] | {parameter.name: value}]
                    answered = await _try(api, batched(operation), {**example, "items": items}, changes)
                    if answered.status_code == 422:
                        assert answered.json()["field"].startswith(f"items[{len(items) - 1}]"), answered.text


def _changes(memory: Memory) -> list[Any]:
    """The changes that are made from now on."""
    seen: list[Any] = []
    memory._env.subscribers.add(None, seen.extend)
    return seen


async def _try(api: Api, operation: Operation, arguments: dict[str, Any], changes: list[Any]) -> httpx2.Response:
    changes.clear()
    method, path = operation.http.split()
    path, rest = filled(path, arguments)
    query, body = (_as_query(rest), b"") if method in IN_QUERY else (b"", json.dumps(rest).encode())
    answered = await _send(api, method, path, query, body)
    if answered.status_code >= 300:
        refused(answered, operation, arguments)
        assert changes == [], (operation.name, arguments)
    return answered


async def _send(api: Api, method: str, path: str, query: bytes, body: bytes) -> httpx2.Response:
    """Without a client: to put together the address of a long value takes it longer than the service the answer."""
    headers = {"host": "127.0.0.1:8321", "content-type": "application/json", "content-length": str(len(body))}
    scope = {
        **{"type": "http", "http_version": "1.1", "scheme": "http", "method": method, "root_path": ""},
        **{"path": unquote(path), "raw_path": path.encode(), "query_string": query},
        **{"server": ("127.0.0.1", 8321), "client": ("127.0.0.1", 123)},
        "headers": [(name.encode(), value.encode()) for name, value in (headers | bearer(api.secret)).items()],
    }
    sent, said = [{"type": "http.request", "body": body}], list[Any]()

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        said.append(message)

    await api.app(scope, receive, send)
    start, *rest = said
    return httpx2.Response(start["status"], headers=start["headers"], content=b"".join(each["body"] for each in rest))


def _as_query(arguments: Mapping[str, Any]) -> bytes:
    pairs = []
    for name, given in arguments.items():
        for value in given if isinstance(given, list) else [given]:
            text = value if isinstance(value, str) else json.dumps(value)
            pairs.append(f"{name}=" + "".join(f"%{byte:02X}" for byte in text.encode(errors="surrogatepass")))
    return "&".join(pairs).encode()


def refused(answered: httpx2.Response, operation: Operation, arguments: Any, status: int | None = None) -> None:
    """The request was refused as the document says: as a problem that says what is wrong."""
    where = f"{operation.name} {arguments!r:.300}: {answered.status_code} {answered.text[:500]}"
    assert 400 <= answered.status_code < 500 and answered.status_code == (status or answered.status_code), where
    assert answered.headers["content-type"] == PROBLEM, where
    problem = answered.json()
    assert problem["status"] == answered.status_code and problem["title"] and problem["detail"], where
    assert len(answered.content) < 3_000, where
    if answered.status_code == 422:
        assert problem["field"] and problem["problem"], where
    method, path = operation.http.split()
    if problem["type"] != "/v1/problems/unknown-route":  # a value in the path made another one of it
        assert str(answered.status_code) in DOCUMENT["paths"][path][method.lower()]["responses"], where
