"""Which commands there are. Each one is made, and its module loaded, when it is asked for."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tulving.config import load_config
from tulving.errors import InvalidInput
from tulving.interfaces.cli.help import SECTIONS, Command, Group, Root, width
from tulving.interfaces.cli.options import options
from tulving.settings import MemoryModuleConfig

BY_HAND = (
    "init, demo, show, evaluate, health, verify, evict, export, import, reembed, migrate, reindex, copy, backup, "
    "restore, config, trust, worker, top, learn, review, conflicts, sessions, forget, mcp, serve, "
    "token create, token list, token revoke, "
    "merge-rules, merge-rules show, merge-rules add, merge-rules update, merge-rules delete, merge-rules export, "
    "merge-rules load, tools prompt, tools run, confirm, delete, delete-profile, status, doctor, version, help, "
    "hook install, hook uninstall, hook status, hook run"
).split(", ")
"""Commands that do more than call an operation: functions in the module of their first word, unless `MODULES` says
another. A group that is named here alone too does something without a command of its own."""
MODULES = {
    "import": "export",
    "reembed": "indexes",
    "reindex": "indexes",
    "restore": "backup",
    "verify": "health",
    "status": "doctor",
    "version": "help",
    **dict.fromkeys(("confirm", "forget", "delete", "delete_profile"), "memories"),
}
GROUPS = {
    "store": "Store an episode, an event, a fact, a note or a rule.",
    "entity": "Create, list, show, update, resolve or merge entities.",
    "token": "Create, list or revoke a token for use over HTTP.",
    "merge-rules": "List or change the rules that settle conflicts.",
    "hook": "Let a coding agent remember by itself: install, uninstall or show its hooks.",
    "tools": "Let a model call tools in plain text: its instructions, and the calls in its answers.",
}
_PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


def application() -> TyperGroup:
    """The root of all commands: those written by hand, and one for every operation that has a command."""
    about = "A memory for AI agents: what happened, what is true and how to act, in one local file."
    context = {"help_option_names": ["-h", "--help"], "terminal_width": width()}
    app = typer.Typer(help=about, rich_markup_mode=None, cls=Root, context_settings=context)
    app.callback()(options)
    return _with(app, Commands())


class Commands(Mapping[str, Any]):
    """The commands and groups by their first word, section by section."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._made:
            self._made[word] = self._group(word) if word in GROUPS else self._command(word)
        return self._made[word]

    def __iter__(self) -> Iterator[str]:
        return (word for section in SECTIONS.values() for word in section)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _operations(self) -> dict[str, Any]:
        import tulving.services.memory  # noqa: F401  (fills the registry)
        from tulving.services.operations import OPERATIONS

        return {each.command: each for each in OPERATIONS.values() if each.command and each.command not in BY_HAND}

    @cached_property
    def _settings(self) -> MemoryModuleConfig | None:
        """Whose defaults help texts show. A wrong setting is reported by the command that uses it."""
        with suppress(InvalidInput, OSError):
            return load_config()
        return None

    def _group(self, word: str) -> TyperGroup:
        alone = _by_hand(word) if word in BY_HAND else _help
        app = typer.Typer(
            name=word, help=GROUPS[word], callback=alone, invoke_without_command=True, cls=Group, **_PLAIN
        )
        commands = (command for command in (*self._operations, *BY_HAND) if command.startswith(f"{word} "))
        return _with(app, {command.split()[1]: self._command(command) for command in commands})

    def _command(self, command: str) -> Any:
        if command in BY_HAND:
            function = _by_hand(command)
            text = function.__doc__ or ""
        else:
            from tulving.interfaces.cli import operation
            from tulving.interfaces.parameters import describe

            function = operation.command(self._operations[command], self._settings)
            text = operation.in_commands(self._operations[command], describe(self._operations[command]))
        app = typer.Typer(**_PLAIN)
        app.command(command.split()[-1], cls=Command, help=text, short_help=_short(text))(function)
        return get_command(app)


def _by_hand(command: str) -> Callable[..., None]:
    words = command.replace("-", "_").split()
    module = import_module(f"{__package__}.{MODULES.get(words[0], words[0])}")
    return getattr(module, words[-1], None) or getattr(module, f"{words[-1]}_")


def _with(app: typer.Typer, commands: Mapping[str, Any]) -> TyperGroup:
    group: Any = get_command(app)
    group.commands = commands
    return group


def _short(text: str) -> str:
    """The text up to its first full stop or semicolon, which is enough for a list of commands."""
    return re.split(r"[.;]\s|\.?$", text, maxsplit=1)[0]


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
