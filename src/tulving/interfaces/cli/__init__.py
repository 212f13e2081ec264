"""The command line. What a memory can do comes from the registry; what a person does around it is written by hand."""

import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.interfaces.cli.commands import application
from tulving.interfaces.cli.terminal import FAILED, INTERRUPTED, NOTHING, REFUSED, complain

log = logging.getLogger("tulving")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 done, 1 failed, 2 refused, 3 no such memory, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
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
