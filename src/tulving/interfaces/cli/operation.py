"""An operation as a command: its parameters as arguments and options, its answer printed."""

import asyncio
import inspect
import logging
import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from tulving.domain.model import Found
from tulving.errors import NotFound
from tulving.interfaces.calls import invoke, open_lazily
from tulving.interfaces.cli.addresses import NOUNS, completed, in_singular
from tulving.interfaces.cli.options import AsJson, Chosen, Why
from tulving.interfaces.cli.terminal import FAILED, NOTHING, complain, print_json, progress, warn
from tulving.interfaces.parameters import Parameter, accept, parameters, returned
from tulving.interfaces.wire import answer
from tulving.services.operations import OPERATIONS, Operation
from tulving.settings import MemoryModuleConfig

log = logging.getLogger("tulving")

ARGUMENTS = {"memory_type": "KIND", "memory_id": "ID", "run_id": "RUN", "rule_id": "RULE", "entity_id": "ENTITY"}
"""How positional parameters are called here, if not by their names."""
FREE_TEXT = ("content", "query", "topic", "trigger_prompt")
METAVARS = {"number": "NUMBER", "integer": "NUMBER", "object": "JSON"}
LONGEST_METAVAR = 25
"""Characters. More words than that are named in the text, which can be wrapped."""


def command(operation: Operation, settings: MemoryModuleConfig | None) -> Callable[..., None]:
    """A function with the signature from which Typer makes a command."""
    taken = {parameter.name: parameter for parameter in parameters(operation, settings)}
    order = dict.fromkeys((*operation.positional, *taken))

    def run(context: typer.Context, as_json: bool, why: bool = False, **given: Any) -> None:
        given = {name: in_singular(taken[name], value) for name, value in given.items()}
        if operation.positional and given[operation.positional[-1]] == "-":
            given[operation.positional[-1]] = sys.stdin.read()
        perform(context.obj, operation, accept(operation, given), as_json, why)

    run.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [
            _keyword("context", typer.Context),
            *(_offered(operation, taken[name]) for name in order),
            *([_keyword("why", Why, False)] if returned(operation) is Found else []),
            _keyword("as_json", AsJson, False),
        ]
    )
    return run


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def in_commands(operation: Operation, text: str) -> str:
    """A text about an operation, with commands and options in the place of tools and parameters."""
    for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text):
        told = OPERATIONS[name].command if name in OPERATIONS else None
        if told:
            text = re.sub(rf"`?\b{name}\b`?", f"`tulving {told}`", text)
        elif name in inspect.signature(operation.method).parameters:
            text = re.sub(rf"\b{name}\b", f"--{name.replace('_', '-')}", text)
    return text


def _offered(operation: Operation, parameter: Parameter) -> inspect.Parameter:
    """A parameter as an argument or an option. Its text is read by `accept`, as on every other surface."""
    positional = parameter.name in operation.positional
    words, note = parameter.choices, in_commands(operation, parameter.help)
    if parameter.name in NOUNS and parameter.type == "string":
        note = re.sub(r" \(a UUID(?:; [^)]*)?\)", "", note) + ", or the first characters of it"
    if parameter.type == "boolean":
        name = parameter.name.replace("_", "-")
        if parameter.default is None and not parameter.required:  # left out is neither
            either = typer.Option(f"--{name}/--no-{name}", help=note, show_default=False)
            return _keyword(parameter.name, Annotated[bool | None, either], None)
        return _keyword(parameter.name, Annotated[bool, typer.Option(f"--{name}", help=note)], False)
    complete = (lambda incomplete: [word for word in words if word.startswith(incomplete)]) if words else None
    default = inspect.Parameter.empty if parameter.required else None
    if positional:
        if parameter.name in FREE_TEXT:
            note += "; - reads it from standard input"
        name = ARGUMENTS.get(parameter.name, parameter.name.upper())
        info = typer.Argument(metavar=name, help=note, autocompletion=complete)
    else:
        shown, among = parameter.default, "|".join(words)
        if len(among) > LONGEST_METAVAR:
            note, among = f"{note}: {', '.join(words)}", "WORD"
        note += "; may be repeated" if parameter.type == "array" else ""
        note += f" [default: {shown:g}]" if isinstance(shown, float) else f" [default: {shown}]" if shown else ""
        metavar = "TIME" if parameter.is_time else among or METAVARS.get(parameter.type, "TEXT")
        info = typer.Option(metavar=metavar, help=note, show_default=False, autocompletion=complete)
    kind = list[str] | None if parameter.type == "array" else str | None
    return _keyword(parameter.name, Annotated[kind, info], default)


def perform(
    chosen: Chosen, operation: Operation, arguments: Mapping[str, Any], as_json: bool, why: bool = False
) -> None:
    """Call an operation and print its answer; a memory that does not exist has an exit code of its own."""
    arguments = dict(arguments)
    failures: list[Exception] = []

    def note(_: Operation, error: Exception) -> None:
        failures.append(error)

    async def ask() -> Any:
        async with open_lazily(lambda: chosen.open(stores=operation.effect == "write")) as memory:
            if arguments.keys() & NOUNS.keys():
                arguments.update(await completed(await memory(), arguments))
            return await invoke(memory, operation, arguments, note, by_person=True, offers={"progress": tell})

    with progress(f"{operation.command}:") as tell:
        result = asyncio.run(ask())
    named = next((name for name in ("memory_id", "entity_id") if name in arguments), None)
    nothing = named is not None and (result is None or result is False)
    if as_json:
        print_json(answer(operation, result))
    elif isinstance(result, str) or not (nothing or failures):
        from tulving.interfaces.cli import render

        render.answer(operation, arguments, result, why)
        warning = result.get("warning") if isinstance(result, Mapping) else getattr(result, "warning", None)
        if warning:
            warn(warning)
    if failures:
        log.debug("failed open", exc_info=failures[0])
        complain(failures[0])
        raise typer.Exit(FAILED)
    if isinstance(result, Mapping) and result.get("errors"):
        from tulving.interfaces.cli.lessons import failed

        if failed(result):
            raise typer.Exit(FAILED)
    if nothing:
        complain(NotFound(f"there is no {arguments.get('memory_type', 'entity')} {arguments[str(named)]}"))
        raise typer.Exit(NOTHING)
