"""Errors as problem details (RFC 9457): what is wrong, in which field, and what is allowed."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from tulving import errors
from tulving.errors import InvalidInput, TulvingError
from tulving.interfaces.http.credentials import Refusal

log = logging.getLogger("tulving")

MEDIA_TYPE = "application/problem+json"
TYPES = "/v1/problems/"
SOON, RETRY_SECONDS = "1", "5"
"""The Retry-After of a busy server, and of one whose store can't be reached, in seconds."""


@dataclass
class Problem(Exception):
    """A problem response. `name` is the last segment of its type."""

    status: int
    name: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


TITLES = {
    "invalid-json": "The body is not a JSON object",
    "incomplete-body": "The body ended before it was complete",
    "invalid-header": "A header is refused",
    "invalid-idempotency-key": "The header Idempotency-Key can't be kept",
    "token-required": "An access token is needed",
    "invalid-token": "The access token is not valid",
    "forbidden": "The access token lacks the right to this",
    "forbidden-origin": "Requests from web pages of this origin are refused",
    "not-found": "It does not exist, or is not visible to this caller",
    "unknown-route": "There is no such route",
    "method-not-allowed": "The route does not have this method",
    "conflict": "What is stored does not allow this",
    "changed-since": "It was changed after it was read",
    "misdirected-request": "The server does not answer to this host name",
    "body-too-large": "The body is too large",
    "unsupported-media-type": "The body must be of another media type",
    "invalid-input": "A value is refused",
    "busy": "Too many requests or writes are waiting; nothing was done",
    "timed-out": "The answer took too long",
    "too-many-requests": "This access token has reached a limit",
    "too-many-failures": "Too many invalid access tokens came from this address",
    "internal-error": "Something went wrong inside the service",
    "not-installed": "A part of the service that this needs is not installed",
    "model-failed": "The language model did not answer",
    "unavailable": "The store or another part of the service can't be reached",
    "temporarily-unavailable": "Access tokens can't be checked now",
    "no-space": "The disk of the service is full; nothing was written",
}
"""The title of every problem type."""

_KINDS: tuple[tuple[type[TulvingError], int, str, str | None], ...] = (
    (errors.ConfigError, 500, "internal-error", None),
    (InvalidInput, 422, "invalid-input", None),
    (errors.NotFound, 404, "not-found", None),
    (errors.Forbidden, 403, "forbidden", None),
    (errors.ChangedSince, 412, "changed-since", None),
    (errors.DamagedStore, 500, "internal-error", None),
    (errors.SchemaTooNew, 500, "internal-error", None),
    (errors.EmbedderMismatch, 500, "internal-error", None),
    (errors.IntegrityError, 409, "conflict", None),
    (errors.DiskFull, 507, "no-space", None),
    (errors.StoreBusy, 429, "busy", SOON),
    (errors.StoreUnavailable, 503, "unavailable", RETRY_SECONDS),
    (errors.EmbedderUnavailable, 503, "unavailable", RETRY_SECONDS),
    (errors.RerankerUnavailable, 503, "unavailable", RETRY_SECONDS),
    (errors.SpendLimitReached, 429, "too-many-requests", "3600"),
    (errors.ModelUnavailable, 502, "model-failed", None),
    (errors.MissingExtra, 501, "not-installed", None),
)
"""The status, type and Retry-After of each error; the first entry that matches applies."""


def problem_of(error: Exception, is_admin: bool = False) -> Problem:
    """The problem for an error. What the caller can't correct is logged, with details that only administrators get:
    they may name files, hosts and database users."""
    problem = _of(error)
    if problem.status >= 500 and not isinstance(error, Refusal):  # a refusal is logged where it is raised
        log.error("a request failed: %s", error, exc_info=None if isinstance(error, TulvingError) else error)
        if not is_admin and not isinstance(error, errors.MissingExtra):
            return replace(problem, detail="the log of the service says more")
    return problem


def respond(error: Exception, is_admin: bool = False) -> Response:
    """The response for an error."""
    problem = problem_of(error, is_admin)
    told = {
        "type": TYPES + problem.name,
        "title": TITLES.get(problem.name, problem.name.replace("-", " ")),
        "status": problem.status,
        "detail": problem.detail,
        **problem.more,
    }
    # With escapes: the message may quote a lone surrogate, which has no UTF-8 encoding.
    return Response(json.dumps(told), problem.status, dict(problem.headers), MEDIA_TYPE)


def refused(scope: Scope, refusal: Refusal) -> Response:
    """The response to a refusal before routing, in the form of the surface that was asked."""
    if f"{scope['path']}/".startswith("/v1/"):
        return respond(refusal)
    if scope["path"].startswith("/console"):
        return PlainTextResponse(f"{refusal.problem}\n", refusal.status, refusal.headers)
    return refusal.respond()


def _of(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, Refusal):
        return Problem(error.status, error.error.replace("_", "-"), error.problem, error.headers)
    fitting = ((status, name, retry) for kind, status, name, retry in _KINDS if isinstance(error, kind))
    status, name, retry = next(fitting, (500, "internal-error", None))
    if status == 500:
        return Problem(500, name, "the log of the service says more")
    if isinstance(error, errors.ModelUnavailable) and error.wait:
        retry = str(math.ceil(error.wait))
    more = {}
    if isinstance(error, InvalidInput):
        more = {"field": error.field, "problem": error.problem, "allowed": error.allowed}
    return Problem(status, name, str(error), {} if retry is None else {"Retry-After": retry}, more)
