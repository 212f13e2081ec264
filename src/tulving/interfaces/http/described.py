"""Descriptions of the routes that do not come from the registry, for the OpenAPI document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tulving.interfaces.parameters import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A route that is not the call of an operation, such as a stream or a file.

    A module that serves such a route defines one of these, and `openapi.BY_HAND` lists it; a test fails for a route
    under `/v1` without one. `http` is the method and path, `name` the operation id in the document, `text` the
    description, whose first sentence is the summary, and `rights` those that a caller needs (none: no token).
    `parameters` are in the path if it contains their names, else in the query, and `headers` describes those of the
    request. `body` and `answer` are the schemas of the request and the response by media type; for a stream, the schema
    of one line or event. `problems` are the error statuses that the route may have in addition to the general ones.
    `example` is a response to a request with `example_parameters`.
    """

    http: str
    name: str
    text: str
    rights: Sequence[str] = ("read",)
    parameters: Sequence[Parameter] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    answer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: Sequence[int] = ()
    example: Any = None
    example_parameters: Mapping[str, Any] = field(default_factory=dict)
