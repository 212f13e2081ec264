"""Help that is read by people: the commands in groups, one line each, fitted to the terminal; `tulving help` and
`tulving version`."""

import re
import shutil
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tulving import __version__
from tulving.interfaces.cli import interruption
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import report

SECTIONS = {
    "Remember": {
        "store": "Store a fact, a note, a rule, an episode or an event",
        "learn": "Learn facts from a conversation",
        "consolidate": "Learn facts and rules from the episodes that wait",
        "entity": "Create, list, show, update, resolve or merge entities",
        "link": "Link two memories",
        "set-profile": "Correct a block of the user's profile",
    },
    "Find": {
        "recall": "What fits a topic and matters now",
        "search": "By words and by meaning",
        "search-compact": "The same, one short line for each hit",
        "similar": "By meaning alone, with words or a vector",
        "context": "The block that belongs into an agent's prompt",
        "window": "What happened in a window of time",
        "timeline": "What came before and after a memory",
        "episodes": "What happened, the latest first",
        "profile": "What is known about the user",
        "profile-block": "One block of the user's profile",
    },
    "Look": {
        "show": "One memory: how it fades, where it comes from, its past",
        "list": "The newest memories of a kind",
        "get": "One memory, field by field",
        "details": "Several memories, field by field",
        "history": "All that was ever true of a subject and predicate",
        "facts": "What is true, by subject and predicate",
        "revisions": "What a memory said before its edits",
        "profile-versions": "What a block of the profile said before its edits",
        "profiles": "Whose profiles there are",
        "events": "The audit events of a memory",
        "audit": "Who changed what, the newest change first",
        "links": "How a memory is linked to others",
        "derived": "What was learned from a memory alone",
        "sessions": "Sessions of agents; start or end one",
        "runs": "What models have learned, run by run",
        "stats": "How many memories there are, by state",
        "growth": "How many memories were stored on each day",
        "fading": "Which facts and rules will fade soon",
        "bridge": "How far the bridge from episodes to facts has come",
    },
    "Keep": {
        "edit": "Correct a memory in place",
        "confirm": "Say that facts or rules still hold",
        "forget": "Forget memories: no longer found, rows kept",
        "delete": "Delete memories for good",
        "delete-profile": "Delete the user's profile, or a block of it",
        "mark-helpful": "Say that a rule has helped",
        "mark-harmful": "Say that a rule has done harm",
        "review": "Accept or reject what models have learned",
        "undo": "Undo a run of a model",
        "conflicts": "Notes in conflict: list, accept, dismiss, revert",
        "merge-rules": "The rules that settle conflicts",
        "cleanup": "Delete episodes that have expired",
        "archive": "Move old episodes into the archive",
        "evict": "Make room in a file that has reached its limit",
        "export": "Write everything to a file of JSON lines",
        "import": "Read such a file in, or the memories of other programs",
        "backup": "Copy the store to a file, also while it is in use",
        "restore": "Put a backup in the place of the store",
        "copy": "Copy a memory to another store",
        "verify": "Check everything in the store against everything else",
        "reembed": "Give every memory a vector of the chosen embedder",
        "reindex": "Build the search indexes anew",
        "migrate": "Bring the schema of the store up to date",
    },
    "Run": {
        "init": "Install the embedder's weights and create the store",
        "demo": "See a memory at work on made-up memories",
        "status": "Whether all is well, on one line",
        "doctor": "What is wrong and what to do about it, on one screen",
        "health": "Try the store, the embedder and the jobs: for monitors",
        "serve": "Serve an HTTP API, a console and MCP on one port",
        "mcp": "Serve the memory to MCP hosts",
        "hook": "Let a coding agent remember by itself",
        "worker": "Run the scheduled jobs",
        "top": "Live figures of a running service",
        "token": "Tokens for use over HTTP: create, list, revoke",
        "tools": "Let a model call tools in plain text",
        "config": "The settings in effect, and where each comes from",
        "trust": "Let the settings and the store of a folder count",
        "evaluate": "Measure how well questions are answered",
        "version": "Show the version",
        "help": "Show the help of a command",
    },
}
"""Every command with one line about it, so that a list of them need not load them."""
WIDEST, NARROWEST = 80, 24
_TYPE = re.compile(r" <[\w\[\]]+>$")
_REQUIRED = re.compile(r"^\{(.*)\}")


def width() -> int:
    """How many columns a help text may take."""
    return max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST) - 2)


class _Fitted:
    """Names take at most half of a line, without Python's types, and what is required has no braces."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write, most = formatter.write_dl, min(30, formatter.width // 2 - 4)
        formatter.write_dl = lambda rows: write([(_TYPE.sub("", name), said) for name, said in rows], col_max=most)
        super().format_help(ctx, formatter)  # pyright: ignore[reportAttributeAccessIssue]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # pyright: ignore[reportAttributeAccessIssue]
        return [_REQUIRED.sub(r"\1", piece) for piece in pieces]


class Command(_Fitted, TyperCommand):
    """A command."""


class Group(_Fitted, TyperGroup):
    """A group of commands under one word."""


class Root(Group):
    """All commands, in their sections."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            interruption.tell(ctx.invoked_subcommand)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        longest = max(map(len, self.commands))
        for heading, section in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(word.ljust(longest), said) for word, said in section.items()])
        with formatter.section("More"):
            formatter.write_text("tulving help COMMAND tells more about one. Options of this page go before it.")


def help(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="Such as: store fact")] = None,
) -> None:
    """Show the help of a command, or of all."""
    root: Any = context.find_root().command
    root.main([*(words or ()), "--help"], prog_name="tulving", standalone_mode=False)


def version(as_json: AsJson = False) -> None:
    """Show the version."""
    report({"version": __version__}, as_json, f"tulving {__version__}")
