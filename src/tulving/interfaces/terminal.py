"""What all commands share: the options before the command, the exit codes, and how to speak to the person."""

import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tulving.config import MemoryModuleConfig, load_config

if TYPE_CHECKING:
    from tulving.services.memory import Memory

FAILED, REFUSED, NOTHING = 1, 2, 3

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the options before the command say."""

    url: str | None = None
    tenant: str | None = None
    embedder: str | None = None

    def config(self) -> MemoryModuleConfig:
        return load_config(url=self.url, tenant=self.tenant, embedder=self.embedder)

    def open(self, **options: Any) -> "AbstractAsyncContextManager[Memory]":
        """The memory, for one command: no helper works beside it."""
        from tulving.bootstrap import open_memory

        return open_memory(config=self.config(), background=False, **options)


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
