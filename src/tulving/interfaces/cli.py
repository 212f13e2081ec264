"""The command line. What a memory can do comes from the registry; what a person does around it is written by hand."""

import asyncio
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import tulving.services.memory  # noqa: F401  (fills the registry)
from tulving import __version__
from tulving.config import MemoryModuleConfig, load_config
from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.interfaces import copying, demo, health, logs, safety, schema, setup, tokens, trust, upkeep, views, worker
from tulving.interfaces.calls import call, open_lazily
from tulving.interfaces.parameters import Parameter, accept, describe, parameters
from tulving.interfaces.terminal import FAILED, NOTHING, REFUSED, AsJson, Chosen, complain, print_json, warn
from tulving.providers import EMBEDDERS
from tulving.services.operations import OPERATIONS, Operation

log = logging.getLogger("tulving")

BUTLER = "cli"
"""The agent on whose behalf a person acts by hand, unless the person says otherwise."""

INTERRUPTED = 130
_FIRST = ("init", "demo")
_BY_HAND = ("health",)
"""Commands that do more than call their operation."""
_LAST = ("token",)
_METAVARS = {"number": "NUMBER", "integer": "NUMBER", "object": "JSON"}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 done, 1 failed, 2 refused, 3 there is no such memory, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. The interpreter must not try to flush it again on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = application()(given or ["--help"], prog_name="tulving", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        raise
    except InvalidInput as error:
        complain(error)
        return REFUSED
    except NotFound as error:
        complain(error)
        return NOTHING
    except TulvingError as error:
        complain(error)
        return FAILED
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else error)
        return FAILED
    except typer.TyperException as error:
        place = getattr(error, "ctx", None)
        complain(f"{error.format_message()} See {place.command_path if place else 'tulving'} --help")
        return REFUSED
    except Exception as error:
        log.debug("the command failed", exc_info=True)
        complain(f"{type(error).__name__}: {error} (tulving --verbose says more)")
        return FAILED


class Commands(TyperGroup):
    """The commands in the order in which a person meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """First what prepares a memory, then what fills it, then the rest."""

        def place(name: str) -> tuple[bool, bool, bool]:
            return name not in _FIRST, name in _LAST, not isinstance(self.commands[name], TyperGroup)

        return sorted(self.commands, key=place)


def application() -> typer.Typer:
    """All commands: those written by hand, and one for every operation that has a command."""
    app = typer.Typer(
        cls=Commands,
        help="A memory for AI agents: what happened, what is true and how to act, in one local file.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for command in (setup.init, demo.demo):
        app.command(short_help=_short(command.__doc__))(command)
    _add_operations(app, _settings())
    app.command(short_help=_short(views.show.__doc__))(views.show)
    care = (health.health, upkeep.verify, upkeep.export, upkeep.import_, upkeep.reembed, schema.migrate, schema.reindex)
    for command in (*care, copying.copy, safety.backup, safety.restore, upkeep.config, trust.trust, worker.worker, mcp):
        app.command(command.__name__.rstrip("_"), short_help=_short(command.__doc__))(command)
    access = typer.Typer(invoke_without_command=True, callback=_help, rich_markup_mode=None)
    for command in (tokens.create, tokens.list_, tokens.revoke):
        access.command(command.__name__.rstrip("_"), short_help=_short(command.__doc__))(command)
    app.add_typer(access, name="token", help="Create, list or revoke a token for use over HTTP.")
    return app


def _short(text: str | None) -> str:
    """What stands before the first full stop or semicolon; a list of commands needs no more."""
    return re.split(r"[.;]\s|\.?$", text or "", maxsplit=1)[0]


def _show_version(given: bool) -> None:
    if given:
        typer.echo(f"tulving {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The store: a path, sqlite:///path or postgresql://...")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Whose memory")] = None,
    embedder: Annotated[str | None, typer.Option(metavar="NAME", help=" or ".join(EMBEDDERS))] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what happens to standard error")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    logs.to_stderr()
    # A command tells the person itself what went wrong; a server has only its log.
    quiet = logging.WARNING if context.invoked_subcommand == "mcp" else logging.CRITICAL
    log.setLevel(logging.DEBUG if verbose else quiet)
    context.obj = Chosen(url, tenant, embedder)


def mcp(
    context: typer.Context,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Over HTTP instead, at this address; see `tulving token`")
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="With --http: to every program on this machine, while there is no token")
    ] = False,
) -> None:
    """Serve the memory to MCP hosts, over standard input and output or over HTTP."""
    from tulving.bootstrap import is_postgres, new_file

    config = context.obj.config()
    if not is_postgres(config.url) and (file := new_file(config.url)):
        typer.echo(f"There is no memory at {file} yet: a new one is made.", err=True)
    if http is not None:
        from tulving.interfaces.http.server import serve as serve_http

        return serve_http(config, http, open_)
    if open_:
        raise InvalidInput("open", "is for a server over HTTP", "--http HOST:PORT --open")
    if sys.stdin.isatty():
        typer.echo("A program should be speaking here: see `tulving init --mcp`. Ctrl-C ends the server.", err=True)
    from tulving.interfaces.mcp.server import serve

    serve(config)


def _settings() -> MemoryModuleConfig | None:
    """Whose defaults help texts show. A setting that is wrong is the affair of the command that uses it."""
    with suppress(InvalidInput, OSError):
        return load_config()
    return None


def _add_operations(app: typer.Typer, settings: MemoryModuleConfig | None) -> None:
    """One command for each operation; those of two words go into a group."""
    named = {each.command: each for each in OPERATIONS.values() if each.command and each.command not in _BY_HAND}
    commands = {tuple(command.split()): each for command, each in named.items()}
    groups: dict[tuple[str, ...], typer.Typer] = {(): app}
    for words, operation in commands.items():
        group = words[:-1]
        if group not in groups:
            groups[group] = typer.Typer(invoke_without_command=True, callback=_help, rich_markup_mode=None)
            last = [other[-1] for other in commands if other[:-1] == group]
            app.add_typer(groups[group], name=group[0], help=_group_help(group[0], last))
        text = describe(operation)
        groups[group].command(words[-1], help=text, short_help=_short(text))(_command(operation, settings))


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _group_help(first: str, last: Sequence[str]) -> str:
    """A verb for several nouns (store fact), or a noun with several verbs (entity merge)."""
    if first == "store":
        return f"Store {_any_of([_with_article(noun) for noun in last])}."
    return f"{_any_of(last).capitalize()} {_with_article(first)}."


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _any_of(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _command(operation: Operation, settings: MemoryModuleConfig | None) -> Callable[..., None]:
    """A function with the signature from which Typer makes a command."""
    taken = {parameter.name: parameter for parameter in parameters(operation, settings)}
    order = dict.fromkeys((*operation.positional, *taken))

    def command(context: typer.Context, as_json: bool, **given: Any) -> None:
        if operation.positional and given[operation.positional[-1]] == "-":
            given[operation.positional[-1]] = sys.stdin.read()
        perform(context.obj, operation, accept(operation, given), as_json)

    command.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [
            inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(_offered(taken[name], name in operation.positional) for name in order),
            inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
        ]
    )
    return command


def _offered(parameter: Parameter, positional: bool) -> inspect.Parameter:
    """A parameter as an argument or an option. Its text is read by `accept`, as on every other surface."""
    words = list(parameter.choices)
    note, kind = parameter.help, list[str] | None if parameter.type == "array" else str | None
    if parameter.type == "boolean":
        flag = typer.Option(f"--{parameter.name.replace('_', '-')}", help=note)
        return inspect.Parameter(
            parameter.name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, flag]
        )
    complete = (lambda incomplete: [word for word in words if word.startswith(incomplete)]) if words else None
    default = BUTLER if parameter.name == "butler" else inspect.Parameter.empty if parameter.required else None
    if positional:
        info = typer.Argument(metavar=parameter.name.upper(), help=note, autocompletion=complete)
    else:
        shown = default if default == BUTLER else parameter.default
        note += "; may be repeated" if parameter.type == "array" else ""
        note += f" [default: {shown:g}]" if isinstance(shown, float) else f" [default: {shown}]" if shown else ""
        metavar = "TIME" if parameter.is_time else "|".join(words) or _METAVARS.get(parameter.type, "TEXT")
        info = typer.Option(metavar=metavar, help=note, show_default=False, autocompletion=complete)
    return inspect.Parameter(
        parameter.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def perform(chosen: Chosen, operation: Operation, arguments: Mapping[str, Any], as_json: bool) -> None:
    """Call an operation and print its answer; one that says "there is none" ends with a code of its own."""
    failures: list[Exception] = []

    async def ask() -> dict[str, Any]:
        async with open_lazily(lambda: chosen.open(stores=operation.effect == "write")) as memory:
            return await call(memory, operation, arguments, lambda _, error: failures.append(error), by_person=True)

    value = asyncio.run(ask())
    bare = value[operation.answer] if operation.answer else value
    named = next((name for name in ("memory_id", "entity_id") if name in arguments), None)
    nothing = named is not None and (bare is None or bare is False)
    if as_json:
        print_json(value)
    elif isinstance(bare, str) or not (nothing or failures):
        from tulving.interfaces import show

        show.answer(operation, arguments, value)
        if warning := value.get("warning"):
            warn(warning)
    if failures:
        log.debug("failed open", exc_info=failures[0])
        complain(failures[0])
        raise typer.Exit(FAILED)
    if nothing:
        complain(f"there is no {arguments.get('memory_type', 'entity')} {arguments[str(named)]}")
        raise typer.Exit(NOTHING)
