"""Every operation is on every surface, with all its parameters: no surface is written by hand."""

import inspect
import re
from dataclasses import is_dataclass
from typing import Annotated, get_origin, get_type_hints, is_typeddict

import httpx2
import pytest
from starlette.applications import Starlette

from tulving import Administration, Found, Memory
from tulving.interfaces.answers import takes_detail
from tulving.interfaces.cli import application
from tulving.interfaces.cli.commands import BY_HAND
from tulving.interfaces.cli.render import RENDERERS
from tulving.interfaces.http import api
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.mcp.tools import tool
from tulving.interfaces.parameters import describe, parameters, returned, undescribed, without_none
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig

EVERY = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


COMMANDS = {name: each for name, each in OPERATIONS.items() if each.command and each.command not in BY_HAND}
EVERY_COMMAND = pytest.mark.parametrize("operation", COMMANDS.values(), ids=COMMANDS)
IN_ONE_COMMAND = {
    "memory_learn",
    "memory_learn_prompt",
    "memory_learn_apply",
    "memory_conflict",
    "memory_conflicts",
    "memory_revert_conflict",
    "memory_accept_conflict",
    "memory_dismiss_conflict",
    "memory_proposals",
    "memory_accept",
    "memory_reject",
    "memory_merge_rules",
    "memory_merge_rule",
    "memory_register_merge_rule",
    "memory_update_merge_rule",
    "memory_delete_merge_rule",
    "memory_create_token",
    "memory_tokens",
    "memory_revoke_token",
    "memory_tenants",
    "memory_jobs",
    "memory_run_job",
    "memory_verify",
    "memory_session_start",
    "memory_session_end",
    "memory_sessions",
}
"""What the commands written by hand call: `tulving learn`, `conflicts`, `sessions`, `review`, `merge-rules`, `token`,
`worker` and `verify`; and what only an administrator of a remote service needs."""


def signature(operation) -> list[str]:
    """The parameters for everybody. Those without a description are for Python only."""
    hints = get_type_hints(operation.method, include_extras=True)
    taken = inspect.signature(operation.method).parameters
    return [name for name in taken if get_origin(hints.get(name)) is Annotated]


def command_of(operation):
    command = application()
    for word in operation.command.split():
        command = command.commands[word]  # pyright: ignore
    return command


@EVERY
def test_the_library_has_it(operation):
    assert getattr(Administration if operation.effect == "admin" else Memory, operation.name) is operation.method
    assert operation.method.__doc__
    if operation.by_person:
        assert hasattr(Memory, operation.by_person)


@EVERY
def test_it_is_a_route_with_all_its_parameters(operation):
    method, path = operation.http.split()
    assert method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    assert (method == "GET") <= (operation.effect in ("read", "review", "admin"))
    in_path = re.findall(r"{(\w+)}", path)
    assert re.fullmatch(r"/v1(/([a-z]+(-[a-z]+)*|{\w+}))+", path)
    assert {*in_path} <= {*signature(operation)}
    if operation.batch:
        assert inspect.iscoroutinefunction(getattr(Memory, operation.batch))


def test_no_two_operations_share_a_route():
    served = [re.sub(r"{\w+}", "{}", operation.http) for operation in OPERATIONS.values()]
    served += [f"{operation.http}/batch" for operation in OPERATIONS.values() if operation.batch]
    assert len({*served}) == len(served)


async def test_every_operation_is_answered_by_the_api():
    """Each route leads to its own operation, whatever other routes match the path too."""
    reached = []

    class Nobody(Access):
        async def admit(self, headers, credential=None):
            raise Refusal(401, "token_required", "nobody")

    app = Starlette(routes=api.routes(MemoryModuleConfig(), Nobody(None)))  # pyright: ignore
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://api") as web:
        for operation in OPERATIONS.values():
            method, path = operation.http.split()
            answered = await web.request(method, re.sub(r"{\w+}", "x", path))
            reached.append((operation.tool, answered.status_code))
    assert reached == [(tool, 401) for tool in OPERATIONS]


@EVERY
def test_every_parameter_is_described(operation):
    assert [each.name for each in parameters(operation)] == signature(operation)
    assert all(each.help for each in parameters(operation))


@EVERY
def test_what_is_for_python_only_may_be_left_out(operation):
    taken = inspect.signature(operation.method).parameters
    assert all(taken[name].default is not inspect.Parameter.empty for name in undescribed(operation))
    assert undescribed(operation) <= {"cc_spawner", "progress", "secret"}, "it lacks a description"


@EVERY
def test_it_is_a_tool_with_all_its_parameters(operation):
    made = tool(operation, MemoryModuleConfig())
    extra = ["detail"] if takes_detail(operation) else []
    assert list(made.input_schema["properties"]) == signature(operation) + extra
    assert made.description == describe(operation)
    assert made.description.startswith(" ".join((operation.method.__doc__ or "").split(".")[0].split()))


@EVERY_COMMAND
def test_it_is_a_command_with_all_its_parameters(operation):
    options = {each.name: each for each in command_of(operation).params}
    explained = {"why"} if returned(operation) is Found else set()
    assert set(options) - {"help"} == {*signature(operation), "as_json"} | explained
    arguments = [each.name for each in options.values() if each.param_type_name == "argument"]
    assert arguments == list(operation.positional)
    for name in set(signature(operation)) - set(operation.positional):
        assert f"--{name.replace('_', '-')}" in options[name].opts


@EVERY_COMMAND
def test_its_answer_can_be_shown_to_a_person(operation):
    """A list needs a renderer; a record without one is shown field by field."""
    answered = without_none(returned(operation))
    shown = answered in RENDERERS or answered in (str, bool) or is_dataclass(answered) or is_typeddict(answered)
    assert shown


def test_no_two_operations_share_a_command():
    commands = [operation.command for operation in OPERATIONS.values() if operation.command]
    assert len(set(commands)) == len(commands)
    assert {name for name, each in OPERATIONS.items() if not each.command} == IN_ONE_COMMAND
    assert {"learn", "conflicts", "sessions", "review", "merge-rules", "worker", "verify"} <= {*BY_HAND}


PROPERTIES = {
    "as_of": {"type": "string", "format": "date-time"},
    "since": {"type": "string", "format": "date-time"},
    "until": {"type": "string", "format": "date-time"},
    "min_relevance": {"type": "number"},
}


@pytest.mark.parametrize(
    ("tool_name", "names"),
    [
        ("memory_search", ("since", "until", "as_of", "min_relevance")),
        ("memory_recall", ("since", "until", "as_of", "min_relevance")),
        ("memory_context", ("as_of", "min_relevance")),
    ],
)
def test_the_tools_that_find_take_a_time_and_a_floor(tool_name, names):
    schema = tool(OPERATIONS[tool_name], MemoryModuleConfig()).input_schema
    for name in names:
        assert PROPERTIES[name].items() <= _either(schema["properties"][name]).items(), schema["properties"][name]
        assert name not in schema["required"]


def _either(schema):
    """What a schema says besides that a value may be null."""
    (said,) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return said
