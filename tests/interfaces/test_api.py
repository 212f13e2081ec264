"""The HTTP API itself: bodies, pages, versions, repeated requests, and for whom a caller speaks."""

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from api_parts import BASE, PROBLEM, Api, served
from http_parts import JSON, Served, bearer
from service_parts import client_of, service, service_process

from tulving import Memory, errors
from tulving.interfaces.http import openapi, problems
from tulving.testing import ManualClock

ANNA = {"subject": "Anna", "predicate": "color", "content": "green"}
AS_JSON = {"content-type": "application/json"}
MISSING = "00000000-0000-0000-0000-00000000ffff"
BY_SIZE = pytest.mark.usefixtures("path")
"""For what does not depend on the engine."""


@pytest.fixture
async def api(memory: Memory) -> AsyncIterator[Api]:
    async with served(memory) as here:
        yield here


def is_problem(answered: Any, status: int, name: str) -> dict[str, Any]:
    assert (answered.status_code, answered.headers["content-type"]) == (status, PROBLEM), answered.text
    told = answered.json()
    assert (told["type"], told["title"]) == (problems.TYPES + name, problems.TITLES[name])
    assert told["status"] == status and told["detail"]
    return told


async def fact(api: Api, **changed: Any) -> str:
    made = await api.post("/v1/facts", ANNA | changed)
    assert made.status_code == 201, made.text
    return f"/v1/memories/fact/{made.json()['id']}"


# -- what is stored ----------------------------------------------------------------------------------------------


async def test_what_is_new_is_created_and_what_was_known_is_not(api: Api):
    first = await api.post("/v1/facts", ANNA)
    assert (first.status_code, first.json()["outcome"]) == (201, "stored")
    again = await api.post("/v1/facts", ANNA)
    assert (again.status_code, again.json()["outcome"]) == (200, "confirmed")
    other = await api.post("/v1/facts", ANNA | {"content": "blue"})
    assert (other.status_code, other.json()["superseded_id"]) == (201, first.json()["id"])
    found = await api.post("/v1/recall", {"topic": "the color of Anna"})
    assert [hit["content"] for hit in found.json()["results"]] == ["blue"]


async def test_text_of_a_megabyte_is_kept_whole(api: Api):
    content = "Ελλάδα " * 150_000
    at = await fact(api, content=content)
    assert (await api.get(at)).json()["memory"]["content"] == content.strip()
    listed = (await api.get("/v1/memories/fact")).json()["items"][0]
    assert len(listed["content"]) < 5_000 and listed["content_length"] == len(content.strip())


@pytest.mark.parametrize("query", ['"', "* OR NEAR(", "content:x", "a AND NOT b", "^-:()", "%' OR 1=1 --", "\u202e"])
async def test_a_query_is_never_syntax(api: Api, query: str):
    await fact(api)
    for path, name in (("/v1/search", "query"), ("/v1/recall", "topic"), ("/v1/context", "trigger_prompt")):
        more = {"butler": "b"} if name == "trigger_prompt" else {}
        assert (await api.post(path, {name: query, **more})).status_code == 200


# -- batches -----------------------------------------------------------------------------------------------------


async def test_a_batch_is_stored_in_order(api: Api):
    items = [ANNA, ANNA | {"content": "blue"}, ANNA | {"predicate": "size", "content": "small"}]
    made = await api.post("/v1/facts/batch", {"items": items})
    assert made.status_code == 201
    stored = made.json()["items"]
    assert [each["outcome"] for each in stored] == ["stored", "superseded", "stored"]
    assert stored[1]["superseded_id"] == stored[0]["id"]
    again = await api.post("/v1/facts/batch", {"items": items[1:]})
    assert again.status_code == 200 and {each["outcome"] for each in again.json()["items"]} == {"confirmed"}


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([ANNA, ANNA | {"importance": 11}], "items[1].importance"),
        ([ANNA, ANNA | {"content": " "}], "items[1].content"),
        ([ANNA, {"content": "no key"}], "items[1].subject"),
        ([ANNA, ANNA | {"nonsense": 1}], "items[1].nonsense"),
        ([ANNA, "text"], "items[1]"),
        ([ANNA, ANNA | {"tags": ["a", 1]}], "items[1].tags"),
        ([ANNA | {"metadata": [1]}], "items[0].metadata"),
        ([ANNA | {"category": "magic"}], "items[0].category"),
        ([ANNA, ANNA | {"entity_id": "00000000-0000-0000-0000-00000000ffff"}], "items[1].entity_id"),
        ([ANNA, ANNA | {"entity_id": "00000000-0000-0000-0000-00000000FFFF"}], "items[1].entity_id"),
        ([ANNA | {"entity_id": "00000000-0000-0000-0000-00000000ffff"}] * 2, "items"),
        ([], "items"),
        ([ANNA] * 1_001, "items"),
        (ANNA, "items"),
        (None, "items"),
    ],
)
async def test_one_wrong_item_refuses_the_whole_batch(api: Api, items: Any, field: str):
    refused = await api.post("/v1/facts/batch", {"items": items})
    told = is_problem(refused, 422, "invalid-input")
    assert told["field"] == field and told["problem"] and told["detail"].startswith(field)
    assert (await api.get("/v1/memories/fact")).json()["items"] == []


async def test_events_of_a_batch_have_one_owner_and_their_own_names(api: Api):
    event = {"content": "Paid", "event_type": "task", "timestamp": "2026-01-01T09:00:00Z"}
    made = await api.post("/v1/timeline/events/batch", {"items": [event, event], "user_id": "ada"})
    assert [each["outcome"] for each in made.json()["items"]] == ["stored", "duplicate"]
    for item, field in (({"content": "x"}, "event_type"), (event | {"user_id": "bob"}, "user_id")):
        refused = await api.post("/v1/timeline/events/batch", {"items": [event, item], "user_id": "ada"})
        assert is_problem(refused, 422, "invalid-input")["field"] == f"items[1].{field}"
    refused = await api.post("/v1/timeline/events/batch", {"items": [event | {"event_type": " "}], "user_id": "ada"})
    assert is_problem(refused, 422, "invalid-input")["field"] == "items[0].event_type"


# -- pages -------------------------------------------------------------------------------------------------------


async def test_pages_lead_from_one_to_the_next_by_link_and_by_cursor(api: Api, clock: ManualClock):
    for number in range(5):
        await fact(api, predicate=f"p{number}", project="a & b")
        await fact(api, predicate=f"q{number}", project="another")
        clock.advance(seconds=1)
    path, seen = "/v1/memories/fact?limit=2&project=a+%26+b&tags=", []
    path = path.removesuffix("&tags=")
    while path:
        page = await api.get(path)
        seen.append([each["predicate"] for each in page.json()["items"]])
        link = page.headers.get("link", "")
        assert bool(link) == bool(page.json()["next_cursor"])
        path = link.partition(">")[0].removeprefix("<")
        assert not link or (link.endswith('rel="next"') and path.startswith("/v1/memories/fact?"))
        assert (await api.send("HEAD", page.request.url.raw_path.decode())).headers.get("link", "") == link
    assert seen == [["p4", "p3"], ["p2", "p1"], ["p0"]]


async def test_every_long_list_has_links(api: Api, clock: ManualClock):
    for number in range(3):
        await api.post("/v1/facts", {"subject": "Anna", "predicate": "city", "content": f"city {number}"})
        await api.post("/v1/sessions", {"project": f"p{number}"})
        clock.advance(seconds=1)
    for path, items, told in (
        ("/v1/sessions?limit=2", "sessions", lambda each: each["session"]["project"]),
        ("/v1/history?subject=Anna&predicate=city&limit=2", "facts", lambda each: each["content"]),
    ):
        first = await api.get(path)
        link = first.headers["link"].removeprefix("<").removesuffix('>; rel="next"')
        rest = await api.get(link)
        assert (rest.json()["next_cursor"], "link" in rest.headers) == (None, False)
        seen = [[told(each)[-1] for each in page.json()[items]] for page in (first, rest)]
        assert seen == ([["2", "1"], ["0"]] if items == "sessions" else [["1", "2"], ["0"]])
    for path in ("/v1/runs", "/v1/review", "/v1/conflicts"):
        page = await api.get(path, params={"limit": 1})
        assert page.json() == {{"review": "proposals"}.get(path[4:], path[4:]): [], "next_cursor": None}


async def test_a_page_that_does_not_exist_is_refused(api: Api):
    def packed(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode()

    times = ("2026-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00")
    places = [packed(json.dumps([time, MISSING])) for time in times] + [packed(f"{time} {MISSING}") for time in times]
    nonsense = ("nonsense", "", "W10=", "e30=", "\ud800".encode("utf-8", "surrogatepass"), packed("[" * 20_000))
    for path, cursors in (
        ("/v1/memories/fact", (*nonsense, *places)),
        ("/v1/episodes", (*nonsense, *places)),
        ("/v1/facts", nonsense),
        ("/v1/entities", nonsense),
        ("/v1/audit", nonsense),
        ("/v1/runs", (*nonsense, *places)),
        ("/v1/review", (*nonsense, *places)),
        ("/v1/conflicts", (*nonsense, *places)),
        ("/v1/sessions", (*nonsense, *places)),
        ("/v1/profiles", nonsense),
        ("/v1/history?subject=a&predicate=b", (*nonsense, *places)),
    ):
        for cursor in cursors:
            refused = await api.get(f"{path}{'&' if '?' in path else '?'}{urlencode({'cursor': cursor})}")
            assert is_problem(refused, 422, "invalid-input")["field"] == "cursor"


# -- versions ----------------------------------------------------------------------------------------------------


async def test_an_edit_of_an_older_version_is_refused(api: Api, clock: ManualClock):
    at = await fact(api)
    read = (await api.get(at)).headers["etag"]
    clock.advance(minutes=1)
    edited = await api.send("PATCH", at, json={"content": "blue"}, headers={"if-match": read})
    assert edited.status_code == 200 and edited.headers["etag"] != read
    clock.advance(minutes=1)
    for old in (read, f"W/{read}", '"nonsense"', '""', "", '"2026-13-01"'):
        lost = await api.send("PATCH", at, json={"content": "red"}, headers={"if-match": old})
        is_problem(lost, 412, "changed-since")
    assert (await api.get(at)).json()["memory"]["content"] == "blue"
    for fine in (edited.headers["etag"], "*"):
        clock.advance(minutes=1)
        done = await api.send("PATCH", at, json={"tags": [fine]}, headers={"if-match": fine})
        assert done.status_code == 200, done.text
    is_problem(await api.send("PATCH", at, json={"tags": []}, headers={"if-match": '"a", "b"'}), 400, "invalid-header")
    transport, own = httpx2.ASGITransport(api.app), [*bearer(api.secret).items()]
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as web:
        both = await web.patch(at, json={"tags": []}, headers=[*own, ("if-match", "*"), ("if-match", read)])
        is_problem(both, 400, "invalid-header")
    twice = {"content": "x", "unchanged_since": "2026-01-01T00:00:00Z"}
    told = is_problem(await api.send("PATCH", at, json=twice, headers={"if-match": read}), 422, "invalid-input")
    assert told["field"] == "unchanged_since"


@BY_SIZE
async def test_a_condition_that_is_not_checked_is_refused(api: Api):
    at = await fact(api)
    for method, path in (("DELETE", at), ("POST", f"{at}/confirm"), ("POST", f"{at}/forget")):
        refused = await api.send(method, path, headers={"if-match": '"2020-01-01T00:00:00+00:00"'})
        is_problem(refused, 400, "invalid-header")
    for name in ("if-none-match", "if-unmodified-since"):
        is_problem(await api.send("PATCH", at, json={"content": "red"}, headers={name: "*"}), 400, "invalid-header")
    for name in ("if-match", "if-none-match", "if-unmodified-since"):
        batch = await api.post("/v1/facts/batch", {"items": [ANNA | {"content": "red"}]}, headers={name: "*"})
        is_problem(batch, 400, "invalid-header")
    ignored = {"if-match": "*", "if-none-match": "x", "idempotency-key": "k"}
    found = (await api.get(at, headers=ignored)).json()["memory"]
    assert (found["state"], found["content"]) == ("active", "green")


@BY_SIZE
async def test_a_key_that_would_not_be_kept_is_refused(api: Api):
    """Else a repeated request would take effect twice."""
    for path in ("/v1/learn", "/v1/review/accept", "/v1/merge-rules"):
        is_problem(await api.send("POST", path, json={}, headers={"idempotency-key": "k"}), 400, "invalid-header")
    for _ in range(2):
        assert (await api.send("POST", "/v1/timeline/rotate", json={}, headers={"idempotency-key": "k"})).is_success


@pytest.mark.parametrize("kind", ["fact", "entity", "block"])
async def test_of_edits_at_once_all_but_one_are_refused(api: Api, clock: ManualClock, kind: str):
    method, change = "PATCH", lambda number: {"content": f"shade {number}"}
    match kind:
        case "fact":
            at = await fact(api)
        case "entity":
            made = await api.post("/v1/entities", {"canonical_name": "Anna", "entity_type": "person"})
            at, change = f"/v1/entities/{made.json()['entity_id']}", lambda number: {"aliases": [f"Ann {number}"]}
        case _:
            at, method = "/v1/profile/work", "PUT"
            await api.send("PUT", at, json={"content": "Paints"})
    headers = {"if-match": (await api.get(at)).headers["etag"]}
    clock.advance(seconds=1)
    edits = [api.send(method, at, json=change(number), headers=headers) for number in range(5)]
    assert sorted(done.status_code for done in await asyncio.gather(*edits)) == [200, 412, 412, 412, 412]


async def test_entities_and_blocks_of_the_profile_have_versions_too(api: Api, clock: ManualClock):
    made = await api.post("/v1/entities", {"canonical_name": "Anna", "entity_type": "person"})
    await api.send("PUT", "/v1/profile/work", json={"content": "Paints"})
    for at, method, change in (
        (f"/v1/entities/{made.json()['entity_id']}", "PATCH", {"aliases": ["Ann"]}),
        ("/v1/profile/work", "PUT", {"content": "Paints walls"}),
    ):
        read = (await api.get(at)).headers["etag"]
        clock.advance(seconds=1)
        assert (await api.send(method, at, json=change, headers={"if-match": read})).status_code == 200
        clock.advance(seconds=1)
        is_problem(await api.send(method, at, json=change, headers={"if-match": read}), 412, "changed-since")


async def test_what_the_caller_has_is_not_sent_again(api: Api, memory: Memory, clock: ManualClock):
    at = await fact(api)
    tag = (await api.get(at)).headers["etag"]
    await memory.settle()  # being read is no change
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        answered = await api.get(at, headers={"if-none-match": known})
        assert (answered.status_code, answered.content, answered.headers["etag"]) == (304, b"", tag)
    for other in ('"x"', "", tag.strip('"')):
        assert (await api.get(at, headers={"if-none-match": other})).status_code == 200
    clock.advance(seconds=1)
    await api.send("PATCH", at, json={"content": "blue"})
    assert (await api.get(at, headers={"if-none-match": tag})).json()["memory"]["content"] == "blue"


# -- repeated requests -------------------------------------------------------------------------------------------


async def test_a_repeated_request_takes_effect_once(api: Api, memory: Memory, clock: ManualClock):
    headers = {"idempotency-key": "k1"}
    said = [await api.post("/v1/episodes", {"content": "It rained"}, headers=headers) for _ in range(3)]
    assert len({(each.status_code, each.content) for each in said}) == 1 and said[0].status_code == 201
    other = await api.post("/v1/episodes", {"content": "It snowed"}, headers=headers)
    told = is_problem(other, 422, "invalid-input")
    assert told["field"] == "idempotency_key" and told["allowed"] == "a new one for each request"
    at_once = [api.post("/v1/episodes", {"content": "Hail"}, headers={"idempotency-key": "k2"}) for _ in range(8)]
    assert len({each.content for each in await asyncio.gather(*at_once)}) == 1
    batch = {"items": [{"content": "Fog"}, {"content": "Sun"}]}
    for _ in range(2):
        done = await api.post("/v1/episodes/batch", batch, headers={"idempotency-key": "k3"})
        assert done.status_code == 201
    listed = (await api.get("/v1/memories/episode")).json()["items"]
    assert sorted(each["content"] for each in listed) == ["Fog", "Hail", "It rained", "Sun"]


async def test_a_repeated_edit_is_no_lost_update(api: Api, clock: ManualClock):
    """The answer was lost on the way: the caller asks again, with the version that was right then."""
    at = await fact(api)
    headers = {"if-match": (await api.get(at)).headers["etag"], "idempotency-key": "e1"}
    clock.advance(seconds=1)
    first, again = [await api.send("PATCH", at, json={"content": "blue"}, headers=headers) for _ in range(2)]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json() and first.headers["etag"] == again.headers["etag"]
    gone = [await api.send("DELETE", at, headers={"idempotency-key": "d1"}) for _ in range(2)]
    assert [(each.status_code, each.json()) for each in gone] == [(200, {"deleted": True})] * 2
    is_problem(await api.send("DELETE", at), 404, "not-found")


async def test_a_key_belongs_to_one_caller(api: Api):
    other, stranger = await api.holder(actor="other"), await api.holder("elsewhere")
    headers = {"idempotency-key": "same"}
    callers = [(api, {}), (other, {}), (stranger, {}), (api, {"tulving-user": "ada"})]
    made = [await each.post("/v1/rules", {"content": "Ask"}, headers=headers | more) for each, more in callers]
    assert len({each.json()["id"] for each in made}) == len(callers)


@BY_SIZE
@pytest.mark.parametrize("key", ["", " ", "x" * 201])
async def test_a_key_that_cannot_be_kept_is_refused(api: Api, key: str):
    refused = await api.post("/v1/rules", {"content": "Ask"}, headers={"idempotency-key": key})
    is_problem(refused, 400, "invalid-idempotency-key")
    assert (await api.get("/v1/memories/rule")).json()["items"] == []


@BY_SIZE
async def test_a_key_or_a_credential_is_given_once(api: Api):
    """Which of two counts depends on the reader, and a proxy may have read the other one."""
    transport, own = httpx2.ASGITransport(api.app), [*bearer(api.secret).items()]
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as web:
        twice = [("idempotency-key", "one"), ("idempotency-key", "two")]
        refused = await web.post("/v1/rules", json={"content": "Ask"}, headers=[*own, *twice])
        is_problem(refused, 400, "invalid-idempotency-key")
        is_problem(await web.get("/v1/stats", headers=[*own, *own]), 401, "invalid-token")
    assert (await api.get("/v1/memories/rule")).json()["items"] == []


# -- the body ----------------------------------------------------------------------------------------------------


@BY_SIZE
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"1",
        b'{"query": "x"} trailing',
        b'{"query": "x"}{"query": "y"}',
        b'{"query": "x", "query": "y"}',
        b'{"query": "x", "filters": {"a": 1, "a": 2}}',
        b'{"query": NaN}',
        b'{"query": "x", "limit": Infinity}',
        b'{"query": "x", "limit": -Infinity}',
        b"{'query': 'x'}",
        b'{"query": "x",}',
        b'\xef\xbb\xbf{"query": "x"}',
        '{"query": "x"}'.encode("utf-16"),
        b'{"query": "\xff"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"query": "\n"}',
    ],
    ids=repr,
)
async def test_a_body_that_is_no_json_object_is_refused(api: Api, body: bytes):
    is_problem(await api.send("POST", "/v1/search", content=body, headers=AS_JSON), 400, "invalid-json")


@BY_SIZE
async def test_the_size_and_the_type_of_a_body_are_bounded(api: Api):
    large = json.dumps({"query": "x" * 5_000_000}).encode()
    is_problem(await api.send("POST", "/v1/search", content=large, headers=AS_JSON), 413, "body-too-large")
    body = b'{"query": "x"}'
    for media in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "application/xml"):
        refused = await api.send("POST", "/v1/search", content=body, headers={"content-type": media})
        is_problem(refused, 415, "unsupported-media-type")
    is_problem(await api.send("POST", "/v1/search", content=body), 415, "unsupported-media-type")
    packed = {"content": gzip.compress(body), "headers": AS_JSON | {"content-encoding": "gzip"}}
    is_problem(await api.send("POST", "/v1/search", **packed), 415, "unsupported-media-type")
    for media in ("application/json; charset=utf-8", "Application/JSON"):
        taken = await api.send("POST", "/v1/search", content=body, headers={"content-type": media})
        assert taken.status_code == 200


@BY_SIZE
async def test_every_argument_has_one_place(api: Api):
    at = await fact(api)
    for method, path, body, field in (
        ("POST", "/v1/search?query=x", {}, "query"),
        ("PATCH", at, {"memory_id": "x", "content": "y"}, "memory_id"),
        ("GET", f"{at}?memory_type=rule", None, "memory_type"),
        ("GET", "/v1/memories/fact?limit=1&limit=2", None, "limit"),
        ("GET", "/v1/memories/fact?nonsense=1", None, "nonsense"),
        ("POST", "/v1/search", {"nonsense": 1, "query": "x"}, "nonsense"),
        ("POST", "/v1/search", {}, "query"),
        ("POST", "/v1/search", {"query": None}, "query"),
    ):
        refused = await api.send(method, path, **({} if body is None else {"json": body}))
        assert is_problem(refused, 422, "invalid-input")["field"] == field
    listed = await api.get("/v1/memories/fact?tags=a&tags=b&limit=5")
    assert listed.status_code == 200


@BY_SIZE
async def test_a_body_that_would_not_be_read_is_refused(api: Api):
    """Who sends the arguments of a deletion as its body would delete more than they meant."""
    for block in ("work", "personal"):
        await api.send("PUT", f"/v1/profile/{block}", json={"content": block})

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"block": "work"}'

    for body in ({"json": {"block": "work"}}, {"content": chunks()}):
        for method, path in (("DELETE", "/v1/profile"), ("GET", "/v1/profile")):
            told = is_problem(await api.send(method, path, **body), 422, "invalid-input")
            assert told["field"] == "body"
    for block in ("work", "personal"):
        assert (await api.get(f"/v1/profile/{block}")).json()["block"]["content"] == block


# -- routes ------------------------------------------------------------------------------------------------------


@BY_SIZE
async def test_a_path_answers_its_own_methods_and_says_which(api: Api):
    for path, methods in openapi.document()["paths"].items():
        names = {name.upper() for name in methods}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"} - names:
            answered = await api.send(method, path)
            is_problem(answered, 405, "method-not-allowed")
            assert {*answered.headers["allow"].split(", ")} == names | ({"HEAD"} if "GET" in names else set())


@BY_SIZE
@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/facts/",
        "/v1//facts",
        "/v1/facts/x/y",
        "/v1/nothing",
        "/v1/%00",
        "/v1/x%0Ay",
        "/v1/facts%0A",
        "/v1/merge-rules/a%0Ab",
    ],
)
async def test_what_is_no_route_is_a_problem_too(api: Api, path: str):
    is_problem(await api.send("POST", path, json={}), 404, "unknown-route")


@BY_SIZE
async def test_a_name_with_a_slash_is_one_part_of_a_path(api: Api):
    assert (await api.post("/v1/merge-rules", {"config": {"name": "home/tea"}})).status_code == 200
    at = "/v1/merge-rules/home%2Ftea"
    assert (await api.get(at)).json()["merge_rule"]["name"] == "home/tea"
    assert (await api.send("PATCH", at, json={"updates": {"priority": 3}})).json()["priority"] == 3
    assert (await api.send("DELETE", at)).json() == {"deleted": True}


@pytest.mark.usefixtures("path")
async def test_head_is_get_without_the_body(environ: dict[str, str], token: Callable[..., Any]):
    """Asked of a real server, which leaves the body out."""
    with service_process() as process:
        async with client_of(process, token()["secret"]) as web:
            got, head = await web.get("/v1/stats"), await web.head("/v1/stats")
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == got.headers["content-length"]
            assert (await web.head("/v1/nothing")).status_code == 404
            for endless in ("/v1/export", "/v1/events"):
                head = await web.head(endless)
                assert head.status_code == 200 and "content-length" not in head.headers, "its length is not known"


@pytest.mark.parametrize(
    ("error", "status", "name", "after"),
    [
        (errors.StoreBusy("full"), 429, "busy", "1"),
        (errors.StoreUnavailable("gone"), 503, "unavailable", "5"),
        (errors.EmbedderUnavailable("gone"), 503, "unavailable", "5"),
        (errors.DiskFull("full"), 507, "no-space", None),
        (errors.SpendLimitReached("spent"), 429, "too-many-requests", "3600"),
        (errors.ModelUnavailable("busy", wait=2.1), 502, "model-failed", "3"),
        (errors.ModelUnavailable("gone"), 502, "model-failed", None),
        (errors.MissingExtra("none"), 501, "not-installed", None),
        (errors.DamagedStore("the file /secret/place"), 500, "internal-error", None),
        (ValueError("/secret/place"), 500, "internal-error", None),
    ],
)
def test_a_problem_says_when_to_try_again_and_no_secret(error: Exception, status: int, name: str, after: str | None):
    answered = problems.respond(error)
    assert (answered.status_code, answered.headers.get("retry-after")) == (status, after)
    assert json.loads(answered.body)["type"] == problems.TYPES + name
    assert b"/secret/place" not in answered.body


@BY_SIZE
async def test_the_types_of_problems_say_what_they_mean(api: Api):
    nobody = Api(api.app, api.memory)
    for name, title in problems.TITLES.items():
        assert (await nobody.get(problems.TYPES + name)).json() == {"type": problems.TYPES + name, "title": title}
    is_problem(await nobody.get(f"{problems.TYPES}nonsense"), 404, "unknown-route")
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    assert [name for name in problems.TITLES if f"`{name}`" not in page] == []


@BY_SIZE
async def test_who_asks_under_another_name_or_from_a_foreign_page_is_told_in_the_same_form(api: Api):
    for headers, status, name in (
        ({"host": "evil.example"}, 421, "misdirected-request"),
        ({"origin": "https://evil.example"}, 403, "forbidden-origin"),
    ):
        for path in ("/v1/stats", "/v1"):
            is_problem(await api.get(path, headers=headers), status, name)
        assert (await api.get("/health", headers=headers)).json()["error"] == name.replace("-", "_")


@BY_SIZE
async def test_everybody_may_read_the_document(api: Api):
    told = await Api(api.app, api.memory).get("/v1/openapi.json")
    assert told.headers["content-type"] == "application/json"
    assert told.json() == json.loads(json.dumps(openapi.document(api.memory.config)))


@BY_SIZE
async def test_nothing_of_the_inside_is_told(api: Api, monkeypatch: pytest.MonkeyPatch, caplog: Any):
    async def broken(self: Memory) -> None:
        raise RuntimeError("canary at /srv/secret/memory.db")

    monkeypatch.setattr(Memory, "stats", broken)
    told = is_problem(await api.get("/v1/stats"), 500, "internal-error")
    assert "canary" not in str(told) and "canary" in caplog.text


async def test_a_request_has_a_name(api: Api, memory: Memory):
    mine = await api.post("/v1/rules", {"content": "Ask"}, headers={"x-request-id": "mine-1"})
    assert mine.headers["x-request-id"] == "mine-1"
    (event,) = await memory.events("rule", mine.json()["id"])
    assert event.request_id == "mine-1"
    answers = [
        await api.get("/v1/nothing"),
        await Api(api.app, memory).get("/v1/stats"),
        await api.get("/livez", headers={"x-request-id": "x" * 201}),
        await api.get("/v1/stats", headers={"host": "evil.example.com"}),
    ]
    names = [each.headers["x-request-id"] for each in answers]
    assert len({*names}) == 4 and all(len(name) == 36 for name in names)


@BY_SIZE
@pytest.mark.parametrize(
    "header", [b"Bearer \xe9", b"Bearer", b"Bearer  ", b"Basic eDp4", b"\xff", b"Bearer " + b"x" * 9_000]
)
async def test_a_credential_that_makes_no_sense_is_no_credential(api: Api, header: bytes):
    answered = await Api(api.app, api.memory).get("/v1/stats", headers={"authorization": header})
    assert answered.status_code == 401 and answered.headers["content-type"] == PROBLEM


# -- for whom a caller speaks ------------------------------------------------------------------------------------


async def test_a_trusted_caller_speaks_for_one_user_at_a_time(api: Api):
    for user, content in (("ada", "green"), ("Ren%C3%A9", "red")):
        made = await api.post("/v1/facts", ANNA | {"content": content}, headers={"tulving-user": user})
        assert made.json()["outcome"] == "stored"

    async def contents(**headers: str) -> set[str]:
        listed = await api.get("/v1/memories/fact", headers={f"tulving-{name}": each for name, each in headers.items()})
        return {each["content"] for each in listed.json()["items"]}

    assert await contents() == {"green", "red"}
    assert await contents(user="ada") == {"green"}
    assert await contents(user="Ren%C3%A9") == {"red"}
    assert await contents(user="nobody") == await contents(household="h") == await contents(project="p") == set()
    at = f"/v1/memories/fact/{made.json()['id']}"
    for method, body in (("GET", None), ("PATCH", {"content": "mine"}), ("DELETE", None)):
        asked = {} if body is None else {"json": body}
        answered = await api.send(method, at, headers={"tulving-user": "ada"}, **asked)
        is_problem(answered, 404, "not-found")
    note = await api.post("/v1/knowledge", {"content": "x", "user_id": "bob"}, headers={"tulving-user": "ada"})
    assert is_problem(note, 422, "invalid-input")["field"] == "user_id"


async def test_each_header_narrows_what_is_stored_and_seen(api: Api):
    narrow = {"user": "u", "household": "h", "persona": "p", "project": "j", "scope": "s"}
    headers = {f"tulving-{name}": value for name, value in narrow.items()}
    made = await api.post("/v1/facts", ANNA, headers=headers)
    told = (await api.get(f"/v1/memories/fact/{made.json()['id']}", headers=headers)).json()["memory"]
    assert [told[name] for name in ("user_id", "household_id", "persona_id", "project", "scope")] == [*narrow.values()]
    for header in headers:
        seen = await api.get("/v1/memories/fact", headers=headers | {header: "another"})
        assert seen.json()["items"] == []


async def test_no_header_leads_beyond_what_the_settings_bind(memory: Memory):
    await memory.bind(user_id="bob").store_fact("Bob", "color", "red")
    async with served(memory.bind(user_id="ada")) as api:
        assert (await api.post("/v1/facts", ANNA, headers={"tulving-user": "ada"})).status_code == 201
        is_problem(await api.get("/v1/memories/fact", headers={"tulving-user": "bob"}), 403, "forbidden")
        narrower = await api.get("/v1/memories/fact", headers={"tulving-project": "p"})
        assert narrower.json()["items"] == []


@BY_SIZE
@pytest.mark.parametrize("value", ["", " ", "x" * 201, "%00", "%ff", "Ren\u00e9", "%ED%A0%80"])
async def test_a_name_that_cannot_be_read_is_refused(api: Api, value: str):
    sent = {"tulving-user": value.encode("latin-1")}
    is_problem(await api.get("/v1/stats", headers=sent), 400, "invalid-header")


@BY_SIZE
async def test_a_caller_speaks_for_a_user_over_mcp_as_well(api: Api):
    async def tool(name: str, user: str, **arguments: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        answered = await api.send("POST", "/mcp", json=body, headers=JSON | {"tulving-user": user})
        return answered.json()

    async with api.app.router.lifespan_context(api.app):
        await tool("memory_store_fact", "ada", **ANNA)
        for user, number in (("ada", 1), ("bob", 0)):
            found = await tool("memory_search", user, query="green")
            assert len(found["result"]["structuredContent"]["results"]) == number
        refused = await tool("memory_search", "%ff", query="green")
        assert refused["error"] == "invalid_header"


# -- a real service ----------------------------------------------------------------------------------------------


async def test_an_answer_that_was_lost_is_given_again(environ: dict[str, str], token: Callable[..., Any]):
    """The connection breaks at every moment of a request; whoever asks again gets the one answer."""
    body = json.dumps({"content": "It rained"}).encode()
    secret = token()["secret"]

    async def ask(whole: bool, upto: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        writer.write((head + body)[:upto])
        await writer.drain()
        answered = await reader.readuntil(b"}") if whole else b""
        writer.close()
        return answered.rpartition(b"\r\n\r\n")[2]

    with service_process() as process:
        head = (
            f"POST /v1/episodes HTTP/1.1\r\nhost: 127.0.0.1:{process.port}\r\nauthorization: Bearer {secret}\r\n"
            f"content-type: application/json\r\nidempotency-key: lost\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        for upto in (10, len(head), len(head) + 5, len(head + body), len(head + body)):
            await ask(False, upto)
        first, second = [await ask(True, len(head + body)) for _ in range(2)]
        assert first == second and json.loads(first)["outcome"] == "stored"
        async with client_of(process, secret) as web:
            listed = (await web.get("/v1/memories/episode")).json()
            assert [each["id"] for each in listed["items"]] == [json.loads(first)["id"]]


async def test_a_key_holds_for_all_servers_of_a_store_and_after_their_end(environ: dict[str, str]):
    keys = [f"key {number}" for number in range(5)]

    async def ask(key: str, *webs: httpx2.AsyncClient) -> set[bytes]:
        sent: Any = {"json": {"content": "It rained"}, "headers": {"idempotency-key": key}}
        asked = [web.post("/v1/episodes", **sent) for web in webs * 4]
        return {answered.content for answered in await asyncio.gather(*asked)}

    async with service() as one, service() as other:
        secret = await one.create()
        async with one.client(secret) as here, other.client(secret) as there:
            first = [await ask(key, here, there) for key in keys]
            assert [len(each) for each in first] == [1] * len(keys)
    async with service() as again, again.client(secret) as here:
        assert [await ask(key, here) for key in keys] == first
        assert len((await here.get("/v1/memories/episode")).json()["items"]) == len(keys)


@pytest.mark.usefixtures("path")
async def test_a_service_of_its_own_answers_and_keeps_what_it_was_told(
    environ: dict[str, str], token: Callable[..., Any]
):
    secret = token()["secret"]

    async def talk(process: Served, *requests: tuple[str, str, Any]) -> list[Any]:
        async with client_of(process, secret) as web:
            return [await web.request(method, path, json=body) for method, path, body in requests]

    with service_process() as process:
        made, found = await talk(process, ("POST", "/v1/facts", ANNA), ("POST", "/v1/recall", {"topic": "Anna color"}))
        assert (made.status_code, found.status_code) == (201, 200), (made.text, found.text)
        assert "content-encoding" not in found.headers and "server" not in found.headers
        process.end()
    with service_process() as process:
        (kept,) = await talk(process, ("GET", f"/v1/memories/fact/{made.json()['id']}", None))
        assert kept.json()["memory"]["content"] == "green"
