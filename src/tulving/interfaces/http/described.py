"""Routes that are not made from the registry, as the OpenAPI document describes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tulving.interfaces.parameters import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A route that a module serves by itself, for what is no call with an answer: a stream, a file.

    The module has one beside each such route, and `openapi.BY_HAND` names it; a test fails for a route under `/v1` that
    has none. `http` is its method and path, `name` the id of its operation in the document, `text` what it does (the
    first sentence is its summary), `right` the effect that a caller needs (None: no token). `parameters` are in the
    path, if it has their names, or in the query. `headers` are those of the request and `answered` those of the
    response, each with its meaning. `body` and `answer` are the schemas of the request and the response by media type;
    of a stream, that of one line or event. `problems` are the statuses that it may answer beside those of every route.

        EVENTS = Described(
            http="GET /v1/events",
            name="follow_events",
            text="Follow what happens to memories. ...",
            right="read",
            parameters=[parameter("types", Annotated[list[str] | None, "Only these"], None)],
            headers={"Last-Event-ID": "The id of the last event that was received"},
            answer={"text/event-stream": {"type": "string"}},
        )

    `parameters.parameter` makes a parameter of a name, an annotated type and a default (`inspect.Parameter.empty` where
    it must be given). `example` is what a request with `example_body` or `example_parameters` may be answered.
    """

    http: str
    name: str
    text: str
    right: str | None = "read"
    parameters: Sequence[Parameter] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    answered: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    answer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    status: int = 200
    problems: Sequence[int] = ()
    example: Any = None
    example_body: Any = None
    example_parameters: Mapping[str, Any] = field(default_factory=dict)
