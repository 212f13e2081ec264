"""The OpenAPI document of the HTTP API, generated from the registry and the descriptions of other routes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import NoneType
from typing import Any

from tulving import __version__
from tulving.domain.access import NewToken
from tulving.domain.model import Entity, EntityCreated, Episode, Fact, Rule, Session, Stored
from tulving.domain.profile import Block
from tulving.interfaces.http import problems
from tulving.interfaces.http.arguments import IN_QUERY, UNCHANGED
from tulving.interfaces.http.batches import MOST_ITEMS, batched, of_an_item
from tulving.interfaces.http.described import Described
from tulving.interfaces.http.events import EVENTS
from tulving.interfaces.http.narrowing import NARROWING
from tulving.interfaces.http.shapes import Shapes
from tulving.interfaces.http.tags import TAGS, tag_of
from tulving.interfaces.http.transfers import EXPORT, IMPORT
from tulving.interfaces.parameters import Parameter, among, describe, parameters, returned, schema
from tulving.services.operations import OPERATIONS, Operation
from tulving.settings import MemoryModuleConfig

PATH = "/v1/openapi.json"
JSON = "application/json"
ABOUT = """\
Every operation of the memory has a route. Searches are POST requests, so that queries do not appear in URLs and logs.

A response is a JSON object: a record, or a single value under its name. Errors are problem details (RFC 9457); those
about a value have its `field`, the `problem` and what is `allowed`. Long lists come in pages: a page has a
`next_cursor` and a Link header unless it is the last one. Whatever can be edited has an ETag; an edit with If-Match is
refused with 412 if there is a newer version. A request that is repeated with the same Idempotency-Key takes effect once
and gets the same response."""
SELF = Described(
    http=f"GET {PATH}",
    name="openapi",
    text="This document. It needs no token.",
    rights=(),
    answer={JSON: {"type": "object"}},
)
PROBLEM_TYPE = Described(
    http=f"GET {problems.TYPES}{{name}}",
    name="problem_type",
    text="Describe a problem type. The type of each problem is the path of this route. It needs no token.",
    rights=(),
    parameters=[
        Parameter(
            name="name",
            help="The last segment of the problem type",
            type="string",
            required=True,
            choices=(*problems.TITLES,),
        )
    ],
    answer={
        JSON: {
            "type": "object",
            "properties": {"type": {"type": "string"}, "title": {"type": "string"}},
            "required": ["type", "title"],
        }
    },
    problems=[404],
    example={"type": "/v1/problems/not-found", "title": problems.TITLES["not-found"]},
    example_parameters={"name": "not-found"},
)
BY_HAND: Sequence[Described] = (EVENTS, EXPORT, IMPORT, SELF, PROBLEM_TYPE)
"""The routes that do not come from the registry."""

_EXAMPLES = "examples.json"
_REQUEST_HEADERS = {
    "Idempotency-Key": "Up to 200 characters of the client's choice: if the request is repeated with the same key, it "
    "takes effect once and gets the same response; a different request with the same key is refused",
    "If-Match": "The ETag of the version to be edited: 412 if there is a newer one",
    "If-None-Match": "The ETag of the version that the client has: 304 without a body if it is still current",
    "X-Request-Id": "The client's own id for the request, recorded in the audit events and returned in the response",
    **NARROWING,
}
_KEPT = ("Idempotency-Key", *NARROWING)
"""Request headers whose values are stored, and refused if they can't be."""
_SHORT = {"type": "string", "minLength": 1, "maxLength": 200}
_RESPONSE_HEADERS = {
    "X-Request-Id": "The id of the request: the client's own, or a generated one",
    "ETag": "The version of the response, for If-Match and If-None-Match",
    "Link": 'The next page, with rel="next"; absent on the last page',
    "Retry-After": "The number of seconds after which another attempt may succeed",
    "WWW-Authenticate": "How to authenticate (RFC 6750)",
}
_PROBLEMS: Mapping[int, tuple[str, str, Mapping[str, str]]] = {
    400: ("invalid-json", "the body can't be read: Expecting value: line 1 column 1 (char 0)", {}),
    401: ("token-required", "a token is needed", {}),
    403: ("forbidden", "memory_store_fact needs the right to write, and this access token has only read", {}),
    404: ("not-found", "there is no fact 00000000-0000-0000-0000-000000000001", {}),
    409: ("conflict", "the key of this fact is taken by another one", {}),
    412: ("changed-since", "it was changed at 2026-01-01T00:00:00+00:00, after it was read", {}),
    413: ("body-too-large", "the body has more than 4,194,304 bytes", {}),
    415: ("unsupported-media-type", "the body must be application/json", {}),
    422: (
        "invalid-input",
        "importance: is 11; allowed: a number from 0 to 10",
        {"field": "importance", "problem": "is 11", "allowed": "a number from 0 to 10"},
    ),
    429: ("busy", "too many writes are waiting", {}),
    500: ("internal-error", "the log of the service says more", {}),
    501: ("not-installed", "a part of the service is not installed", {}),
    502: ("model-failed", "the language model did not answer", {}),
    503: ("unavailable", "the store can't be reached", {}),
    507: ("no-space", "the disk is full", {}),
}
"""An example of each problem status: its type, its detail and its further members."""
_BATCH = "An item has the fields of a single call. Errors name the field of an item, such as items[3].content."
_ALWAYS = (400, 401, 403, 422, 429, 500, 503)
_OWNERS = ("tenant_id", "user_id", "household_id", "persona_id")
"""Ids that are never unknown."""
_WITH_MODEL = ("/v1/learn", "/v1/learn/consolidate")
"""Routes that call a language model."""
_WORD = re.compile(r"\w+")
_WITH_ETAG = {Episode, Fact, Rule, Entity, Block}


def document(
    config: MemoryModuleConfig | None = None,
    examples: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The document, with the configured defaults and the examples in the package."""
    return _Document(config, recorded() if examples is None else examples).made()


@cache
def recorded() -> Mapping[str, Mapping[str, Any]]:
    """A recorded call for each operation id: its `arguments`, `status` and `answer`."""
    return json.loads((files("tulving.interfaces.http") / _EXAMPLES).read_text())


class _Document:
    def __init__(self, config: MemoryModuleConfig | None, examples: Mapping[str, Mapping[str, Any]]) -> None:
        self._config, self._examples, self._shapes = config, examples, Shapes()

    def made(self) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for operation in sorted(OPERATIONS.values(), key=lambda each: each.http):
            _put(paths, operation.http, self._single(operation))
            if operation.batch:
                _put(paths, f"{operation.http}/batch", self._batch(operation))
        for route in BY_HAND:
            _put(paths, route.http, _by_hand(route))
        paths = dict(sorted(paths.items()))
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Tulving",
                "version": __version__,
                "summary": "A memory for agents",
                "description": ABOUT,
                "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"bearer": []}],
            "tags": [{"name": name, "description": about} for name, (about, _) in TAGS.items()],
            "paths": paths,
            "components": {
                "schemas": {**dict(sorted(self._shapes.named.items())), "Problem": _problem()},
                "responses": {_component(status): _answered_problem(status) for status in _PROBLEMS},
                "headers": {name: _meant(text) for name, text in _RESPONSE_HEADERS.items()},
                "parameters": {
                    name: {
                        "name": name,
                        "in": "header",
                        **_meant(text),
                        **({"schema": _SHORT} if name in _KEPT else {}),
                    }
                    for name, text in _REQUEST_HEADERS.items()
                },
                "securitySchemes": {
                    "bearer": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "A token made by `tulving token create` or issued by the configured identity "
                        "provider. The role of an operation is the right that the token needs.",
                    }
                },
            },
        }

    def _single(self, operation: Operation) -> dict[str, Any]:
        return self._described(operation, self._parameters(operation), schema, describe(operation))

    def _batch(self, single: Operation) -> dict[str, Any]:
        operation = batched(single)
        items = schema([*self._as_configured(single)])

        def body(taken: Sequence[Parameter]) -> dict[str, Any]:
            made = schema(taken)
            described = {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS, "items": items}
            return {**made, "properties": {"items": described, **made["properties"]}, "required": ["items"]}

        text = f"{_text(describe(single))['summary']}, for a list of items in one transaction, all or nothing. {_BATCH}"
        return self._described(operation, parameters(operation), body, text)

    def _as_configured(self, operation: Operation) -> Iterator[Parameter]:
        mine = {each.name for each in of_an_item(operation)}
        return (each for each in self._parameters(operation) if each.name in mine)

    def _parameters(self, operation: Operation) -> list[Parameter]:
        return [replace(each, help=in_ids(each.help)) for each in parameters(operation, self._config)]

    def _described(self, operation: Operation, taken: Sequence[Parameter], body: Any, text: str) -> dict[str, Any]:
        method, path = operation.http.split()
        example = self._examples.get(operation.name, {})
        given = example.get("arguments", {})
        in_path = [each for each in taken if f"{{{each.name}}}" in path]
        others = [each for each in taken if each not in in_path]
        described: dict[str, Any] = {
            "operationId": operation.name,
            "tags": [tag_of(path)],
            **_text(text),
            "security": [{"bearer": [operation.effect]}],
            "parameters": [_located(each, "path", given) for each in in_path],
        }
        if method in IN_QUERY:
            described["parameters"] += [_located(each, "query", given) for each in others]
        else:
            content = {"schema": body(others)}
            if example:
                content["example"] = {name: value for name, value in given.items() if f"{{{name}}}" not in path}
            required = bool(content["schema"]["required"])
            described["requestBody"] = {"required": required, "content": {JSON: content}}
        headers = [*_request_headers(operation)]
        described["parameters"] += [{"$ref": f"#/components/parameters/{name}"} for name in headers]
        described["responses"] = {**self._answers(operation, example), **_refused(_statuses(operation))}
        return described

    def _answers(self, operation: Operation, example: Mapping[str, Any]) -> dict[str, Any]:
        headers = ["X-Request-Id"]
        if _is_versioned(operation):
            headers.append("ETag")
        answer = self._shapes.answer(operation)
        if operation.http.startswith("GET") and "next_cursor" in _properties(answer, self._shapes):
            headers.append("Link")
        said = {}
        for status, meaning in _successes(operation).items():
            content = {"schema": answer}
            if example.get("status") == status:
                content["example"] = example["answer"]
            said[str(status)] = {"description": meaning, "headers": _headers(headers), "content": {JSON: content}}
        if _is_versioned(operation) and operation.http.startswith("GET"):
            known = "The version in If-None-Match is still current"
            said["304"] = {"description": known, "headers": _headers(["X-Request-Id", "ETag"])}
        return said


def _is_versioned(operation: Operation) -> bool:
    """Whether the response has an ETag."""
    return not _WITH_ETAG.isdisjoint(among(returned(operation)))


def _by_hand(route: Described) -> dict[str, Any]:
    path = route.http.split()[1]
    given = route.example_parameters
    described: dict[str, Any] = {
        "operationId": route.name,
        "tags": [tag_of(path)],
        **_text(route.text),
        "security": [{"bearer": list(route.rights)}] if route.rights else [],
        "parameters": [
            _located(each, "path" if f"{{{each.name}}}" in path else "query", given) for each in route.parameters
        ],
    }
    described["parameters"] += [
        {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
        for name, text in route.headers.items()
    ]
    if route.body:
        content = {media: {"schema": {**shape}} for media, shape in route.body.items()}
        described["requestBody"] = {"required": True, "content": content}
    example = {} if route.example is None else {"example": route.example}
    answer = {media: {"schema": {**shape}, **example} for media, shape in route.answer.items()}
    success = {"description": "Done", "headers": _headers(["X-Request-Id"]), "content": answer}
    statuses = {*route.problems, *(_ALWAYS if route.rights else (429, 500, 503))}
    described["responses"] = {"200": success, **_refused(statuses)}
    return described


def _put(paths: dict[str, dict[str, Any]], http: str, described: dict[str, Any]) -> None:
    method, path = http.split()
    paths.setdefault(path, {})[method.lower()] = described


def in_ids(text: str) -> str:
    """A description with the ids of operations in the place of the names of their tools."""
    return _WORD.sub(lambda word: f"`{OPERATIONS[word[0]].name}`" if word[0] in OPERATIONS else word[0], text)


def _text(text: str) -> dict[str, str]:
    described = in_ids(text)
    return {"summary": re.split(r"[.;:](?:\s|$)", described, maxsplit=1)[0].rstrip("."), "description": described}


def _meant(text: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": "string"}}


def _located(parameter: Parameter, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    shape = dict(parameter.schema)
    described = {
        "name": parameter.name,
        "in": place,
        "description": shape.pop("description"),
        "required": parameter.required or place == "path",
        "schema": shape,
    }
    return {**described, "example": given[parameter.name]} if parameter.name in given else described


def _request_headers(operation: Operation) -> Iterator[str]:
    if operation.takes_key:
        yield "Idempotency-Key"
    if any(each.name == UNCHANGED for each in parameters(operation)):
        yield "If-Match"
    if operation.http.startswith("GET") and _is_versioned(operation):
        yield "If-None-Match"
    yield "X-Request-Id"
    if operation.effect != "admin":
        yield from NARROWING


def _successes(operation: Operation) -> dict[int, str]:
    result = returned(operation)
    if result in (EntityCreated, NewToken) or (result is Session and "{" not in operation.http):
        return {201: "Created"}
    if result is Stored or result == list[Stored]:
        return {201: "Stored", 200: "Known already: a duplicate, or confirmed by this call"}
    return {200: "Done"}


def _statuses(operation: Operation) -> set[int]:
    """The error statuses that an operation may have."""
    method, path = operation.http.split()
    found = {*_ALWAYS}
    named = any(each.name.endswith(("_id", "ids")) and each.name not in _OWNERS for each in parameters(operation))
    if named or "{" in path or NoneType in among(returned(operation)):
        found.add(404)
    if method != "GET" and operation.effect != "read":
        found |= {409, 507}
    if any(each.name == UNCHANGED for each in parameters(operation)):
        found.add(412)
    if method not in IN_QUERY:
        found |= {413, 415}
    if path in _WITH_MODEL:
        found |= {501, 502}
    return found


def _refused(statuses: set[int]) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{_component(status)}"} for status in sorted(statuses)}


def _component(status: int) -> str:
    return "".join(word.capitalize() for word in _PROBLEMS[status][0].split("-"))


def _answered_problem(status: int) -> dict[str, Any]:
    name, detail, more = _PROBLEMS[status]
    headers = ["X-Request-Id"]
    headers += ["Retry-After"] if status in (429, 502, 503) else []
    headers += ["WWW-Authenticate"] if status == 401 else []
    told = {"type": problems.TYPES + name, "title": problems.TITLES[name], "status": status, "detail": detail, **more}
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": told}}
    return {"description": problems.TITLES[name], "headers": _headers(headers), "content": content}


def _problem() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "An error (RFC 9457).",
        "properties": {
            "type": {**text, "description": "The path of a route that describes this problem type"},
            "title": {**text, "description": "A summary of the problem type"},
            "status": {"type": "integer"},
            "detail": {**text, "description": "What is wrong with this request"},
            "field": {**text, "description": "The field with the refused value"},
            "problem": {**text, "description": "What is wrong with the value"},
            "allowed": {**text, "description": "What is allowed instead"},
        },
        "required": ["type", "title", "status", "detail"],
    }


def _headers(names: Sequence[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _properties(shape: Mapping[str, Any], shapes: Shapes) -> Mapping[str, Any]:
    found = shapes.named[shape["$ref"].rpartition("/")[2]] if "$ref" in shape else shape
    return found.get("properties", {})
