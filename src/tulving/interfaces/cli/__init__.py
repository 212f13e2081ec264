"""The command line. What a memory can do comes from the registry; what a person does around it is written by hand."""

import logging
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import NoReturn

import typer

from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.interfaces.cli.commands import application
from tulving.interfaces.cli.terminal import FAILED, INTERRUPTED, NOTHING, REFUSED, complain, speak_json

log = logging.getLogger("tulving")

BEFORE_THE_COMMAND = {"--url": "URL ", "--tenant": "NAME ", "--embedder": "NAME ", "--verbose": ""}
"""The options that concern every command, with what each takes."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 done, 1 failed, 2 refused, 3 no such memory, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        speak_json("--json" in takewhile(lambda argument: argument != "--", given))
        code = _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it. The interpreter must not try to flush it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _run(arguments: list[str]) -> int:
    try:
        code = application()(arguments or ["--help"], prog_name="tulving", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        raise
    except TulvingError as error:
        complain(error)
        return REFUSED if isinstance(error, InvalidInput) else NOTHING if isinstance(error, NotFound) else FAILED
    except OSError as error:
        complain(OSError(f"{error.filename}: {error.strerror}") if error.filename else error)
        return FAILED
    except typer.Abort:  # the end of input where a question was asked
        complain(UsageError("no answer was given; nothing was done"))
        return FAILED
    except typer.TyperException as error:
        complain(UsageError(_corrected(error)))
        return REFUSED
    except Exception as error:
        log.debug("the command failed", exc_info=True)
        complain(RuntimeError(f"{type(error).__name__}: {error} (tulving --verbose says more)"))
        return FAILED


class UsageError(Exception):
    """A command that can't be understood."""


def _corrected(error: typer.TyperException) -> str:
    """What is wrong with the words of a command, and how to go on."""
    place, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if place is not None and place.parent is not None and option in BEFORE_THE_COMMAND:
        return f"{option} goes before the command: tulving {option} {BEFORE_THE_COMMAND[option]}{place.info_name} ..."
    if place is not None and option == "--json":
        return f"--json goes after the command: {place.command_path} COMMAND --json"
    return f"{error.format_message()} See {place.command_path if place else 'tulving'} --help"
