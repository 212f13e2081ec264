"""What all commands share: the options before the command, the exit codes, and how to speak to the person."""

import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tulving.config import MemoryModuleConfig, find_project, load_config

if TYPE_CHECKING:
    from tulving.bootstrap import Create
    from tulving.services.administration import Administration
    from tulving.services.memory import Memory

FAILED, REFUSED, NOTHING = 1, 2, 3

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the options before the command say."""

    url: str | None = None
    tenant: str | None = None
    embedder: str | None = None
    said: set[str] = field(default_factory=set)
    """Warnings that the person has had: a command may ask for its settings more than once."""

    def config(self) -> MemoryModuleConfig:
        """The settings of this command. What does not count of those lying about is said, once."""
        warning = find_project().warning
        if warning is not None and warning not in self.said:
            self.said.add(warning)
            warn(warning)
        return load_config(url=self.url, tenant=self.tenant, embedder=self.embedder)

    def open(
        self, *, stores: bool = False, create: "Create | None" = None, **options: Any
    ) -> "AbstractAsyncContextManager[Memory]":
        """The memory, for one command: no helper works beside it.

        A command that `stores` may make the store in the person's own place, but none at a URL, which may be mistyped.
        """
        from tulving.bootstrap import open_memory

        return self._open(open_memory, stores, create, **options)

    def administer(
        self, *, stores: bool = False, create: "Create | None" = None, **options: Any
    ) -> "AbstractAsyncContextManager[Administration]":
        """The whole store, for one command."""
        from tulving.bootstrap import open_administration

        return self._open(open_administration, stores, create, **options)

    def _open(self, opener: Any, stores: bool, create: "Create | None", **options: Any) -> Any:
        config = self.config()
        create = create or ("file" if stores and config.url is None else "never")
        return opener(config=config, background=False, create=create, **options)


def complain(error: object) -> None:
    """Say on one line what is wrong."""
    _say("error: ", error, "red")


def warn(message: object) -> None:
    """Say on one line what the person should know."""
    _say("warning: ", message, "yellow")


def _say(label: str, message: object, colour: str) -> None:
    plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
    line = visible(" ".join(str(message).split()))
    typer.echo((label if plain else typer.style(label, fg=colour, bold=True)) + line, err=True)


def print_json(value: Any) -> None:
    """One document, for programs."""
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    typer.echo(json.dumps(value, ensure_ascii=not readable, indent=2))


def visible(text: str) -> str:
    """Text without the control characters by which a memory could take hold of somebody's terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in "\n\t" or not _controls(sign) else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _controls(sign: str) -> bool:
    return sign < " " or "\x7f" <= sign <= "\x9f" or "\u2028" <= sign <= "\u202e" or "\u2066" <= sign <= "\u2069"
