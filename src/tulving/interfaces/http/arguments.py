"""The arguments of a call over HTTP: from the path, the query, the JSON body and conditional headers."""

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from tulving.domain.model import Entity, Episode, Fact, Rule
from tulving.domain.profile import Block
from tulving.errors import ChangedSince, InvalidInput
from tulving.interfaces.http.problems import Problem
from tulving.interfaces.parameters import accept, parameters
from tulving.services.operations import Operation

IN_QUERY = ("GET", "HEAD", "DELETE")
"""Methods without a body, whose parameters are in the query string."""
UNSUPPORTED = ("If-None-Match", "If-Unmodified-Since")
"""Conditions of HTTP that no change checks: to ignore one would overwrite what it protects."""
UNCHANGED = "unchanged_since"
"""The parameter that the header `If-Match` sets."""


async def given(request: Request, operation: Operation, largest_body: int) -> dict[str, Any]:
    """The arguments for the method of an operation."""
    check_headers(request, operation)
    known = parameters(operation)
    if request.method in IN_QUERY:
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            raise InvalidInput("body", f"is not read with {request.method}", "the arguments in the query")
        arguments = _queried(request, {each.name for each in known if each.type == "array"})
    else:
        arguments = await json_object(request, largest_body)
    fixed: dict[str, Any] = dict(request.path_params)
    if _is_versioned(operation) and (read := _condition(request)):
        fixed[UNCHANGED] = read.isoformat()
    for name in fixed:
        if name in arguments:
            raise InvalidInput(name, "is given twice", "once, in the path or by the header If-Match")
    return accept(operation, arguments | fixed)


def check_headers(request: Request, operation: Operation) -> None:
    """Refuse a header that would change what the call does, if the operation does not support it."""
    if request.method in ("GET", "HEAD"):
        return
    is_keyed = operation.takes_key or operation.idempotent or operation.effect == "read"
    supported = {"If-Match": _is_versioned(operation) or operation.effect == "read", "Idempotency-Key": is_keyed}
    for name in (*UNSUPPORTED, *(name for name, is_supported in supported.items() if not is_supported)):
        if name in request.headers:
            raise Problem(400, "invalid-header", f"{name} is not supported here; nothing was done")


async def json_object(request: Request, largest_body: int) -> dict[str, Any]:
    """The JSON object in the body; empty without a body."""
    if request.query_params:
        raise InvalidInput(f"{next(iter(request.query_params)):.80}", "is in the query", "a field of the JSON body")
    body = b"".join([part async for part in body_parts(request, largest_body)])
    if not body:
        return {}
    if media_type(request) != (allowed := "application/json"):
        problem = f"the body must be {allowed}, not compressed"
        raise Problem(415, "unsupported-media-type", problem, {"Accept-Post": allowed})
    try:
        read = json.loads(body.decode(), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, "invalid-json", f"the body can't be read: {said:.200}") from None
    if not isinstance(read, dict):
        raise Problem(400, "invalid-json", "the body must be one JSON object")
    return read


def media_type(request: Request) -> str:
    """The type of the body, without parameters; empty if it is compressed."""
    if request.headers.get("content-encoding", "identity") != "identity":
        return ""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_parts(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body in chunks, at most so many bytes in all."""
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise Problem(413, "body-too-large", f"the body has more than {most:,} bytes")
            yield part
    except ClientDisconnect:
        raise Problem(400, "incomplete-body", "the client disconnected before the body was complete") from None


def etag(result: Any) -> str | None:
    """The entity tag of something that can be edited: the time of its last change. None for anything else."""
    match result:
        case Episode() | Fact() | Rule() | Entity():
            return f'"{result.updated_at.isoformat()}"'
        case Block():
            return f'"{result.created_at.isoformat()}"'
    return None


def is_known(request: Request, tag: str) -> bool:
    """Whether the caller's copy is up to date (`If-None-Match`)."""
    asked = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return tag in asked or asked == ["*"]


def _is_versioned(operation: Operation) -> bool:
    return any(each.name == UNCHANGED for each in parameters(operation))


def _condition(request: Request) -> datetime | None:
    """The version that the caller has read (`If-Match`), as the time of its last change; None for any version."""
    if "if-match" not in request.headers or (tag := ",".join(request.headers.getlist("if-match")).strip()) == "*":
        return None
    if "," in tag:
        raise Problem(400, "invalid-header", "If-Match must be one ETag, or *")
    try:
        return datetime.fromisoformat(tag.removeprefix("W/").strip('"'))
    except ValueError:
        raise ChangedSince("If-Match is not the ETag of any version") from None


def _queried(request: Request, lists: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise InvalidInput(f"{name:.80}", "is given twice", "once")
        else:
            found[name] = value
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r:.80} is given twice")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
