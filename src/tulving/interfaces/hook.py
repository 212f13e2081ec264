"""What a coding agent's hook runs: `python -P -m tulving.interfaces.hook HOST EVENT`. It reads the event as JSON.

The host waits for it, so it loads little, is over in 300 ms whatever happens, and never fails.

A watching thread ends the process at the deadline, with nothing said. What takes longer, storing a session, is done by
another process that the host does not wait for. Errors go to a file in the data directory.
"""

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tulving.interfaces.hosts.hook_events import EVENTS

DEADLINE = 0.3
"""Seconds from the start of the process to its end."""
MARGIN = 0.04
"""For its end, and for what starting it took where that can't be measured."""
LONGEST_START = 10.0
LATER = "--later"
"""Instead of an event's name: store a session, without haste."""
LONGEST_STORING = 300.0
LONGEST_INPUT = 10_000_000
LARGEST_LOG = 1_000_000
LOG = "hooks.log"


def main(arguments: list[str], seconds: float | None = None) -> NoReturn:
    """Carry out one event and end the process; 0 is always its exit code. `seconds` instead of the deadline are for
    people, who can wait."""
    gc.disable()  # what is loaded stays until the end, which is near
    what = " ".join(arguments[:2])
    later = LATER in arguments
    allowed = seconds or (LONGEST_STORING if later else DEADLINE - MARGIN - _since_start())
    threading.Thread(target=_end_at, args=(allowed, what), daemon=True).start()
    try:
        answer = _later(arguments[0]) if later else _answer(*arguments)
        if answer:
            sys.stdout.write(answer)
            sys.stdout.flush()
    except BaseException as error:
        note(f"{what}: {type(error).__name__}: {error}")
    os._exit(0)


def _since_start() -> float:
    """The seconds that this process has been running for: loading the interpreter counts too."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        since = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError, IndexError):  # not Linux
        return MARGIN
    return since if 0 <= since < LONGEST_START else MARGIN  # some sandboxes do not tell the truth


def _end_at(seconds: float, what: str) -> None:
    time.sleep(max(0.0, seconds))
    # A thread of its own: a slow disk, or a module that is being loaded just now, must not hold up the end.
    logging = threading.Thread(target=note, args=(f"{what}: not done in time",), daemon=True)
    logging.start()
    logging.join(MARGIN / 2)
    os._exit(0)


def note(problem: str) -> None:
    """Add a line to the log, which is emptied when it is too long: nobody looks after it."""
    with suppress(Exception):
        from tulving.config import data_directory
        from tulving.interfaces.logs import escaped

        file = data_directory() / LOG
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(file, flags, 0o600)
        try:
            if os.fstat(descriptor).st_size > LARGEST_LOG:
                os.ftruncate(descriptor, 0)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(descriptor, f"{stamp} {escaped(problem)[:1000]}\n".encode())
        finally:
            os.close(descriptor)


def _answer(host: str, event: str) -> str | None:
    """What the host is to be told at an event."""
    moment = EVENTS.get(host, {}).get(event)
    if moment is None:
        raise ValueError(f"there is no hook for {event} of {host}")
    told = _told()
    if moment == "end":
        _store_later(host, told)
        return None
    prompt = told.get("prompt")
    if moment == "prompt" and (not isinstance(prompt, str) or not prompt.strip() or prompt.startswith("/")):
        return None
    if moment == "start" and told.get("source") == "resume":
        return None  # it was given at the start, and is still in the session
    import asyncio

    from tulving.interfaces.hosts import hook_session

    block = asyncio.run(hook_session.recollect(host, moment, told))
    if not block:
        return None
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}})


def _told() -> dict[str, Any]:
    """The event as the host tells it."""
    with open(0, "rb", closefd=False) as file:
        told = json.loads(file.read(LONGEST_INPUT))
    if not isinstance(told, dict):
        raise ValueError("the event is not an object")
    folder = told.get("cwd")
    if isinstance(folder, str) and folder:
        with suppress(OSError):
            os.chdir(folder)  # whose settings and store count
    return told


def _store_later(host: str, told: Mapping[str, Any]) -> None:
    """Start a process that outlives this one, and give it what it needs to know."""
    import subprocess

    told = {name: told.get(name) for name in ("cwd", "session_id", "transcript_path")}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "tulving.interfaces.hook", host, LATER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        os._exit(0)  # without waiting for it


def _later(host: str) -> None:
    import asyncio

    from tulving.interfaces.hosts import hook_session

    gc.enable()
    with suppress(OSError):
        os.nice(10)  # the person goes on working
    for problem in asyncio.run(hook_session.keep(host, _told())):
        note(f"{host}: a turn was not stored: {problem}")


if __name__ == "__main__":
    main(sys.argv[1:])
