"""A language model behind a command, such as a coding agent without its terminal: `claude -p`, `codex exec -`."""

import asyncio
import os
import shlex
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tulving.domain.redaction import presentable
from tulving.errors import ModelUnavailable
from tulving.ports import Completion
from tulving.providers.json_endpoint import ApiKey

MOST_BYTES = 1_000_000
GRACE = 2.0
"""Seconds that a command has to end by itself, and what it started after its own end."""
POLL = 0.05
_KEPT = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "TERM")
_KEPT_PREFIXES = ("LC_", "XDG_")
_LAST_WORDS = 4096


class Command:
    """The answer is what the command writes after reading the prompt. It runs in a new, empty folder, so that an agent
    does not read the project of the user, with few variables of the environment, and ends with all that it started."""

    def __init__(self, argv: Sequence[str], *, key_variable: str | None, timeout: float) -> None:
        self._program, *self._arguments = argv
        self.name = shlex.join(argv)
        self._key, self._timeout = ApiKey("llm", key_variable), timeout

    def unready(self) -> str | None:
        """Whether the program or the key is missing."""
        if self._found() is None:
            return f"llm.command names {self._program}, which is not a program on the path: install it, or correct it"
        return self._key.unready()

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The output of the command. It can't be told how long that may be."""
        program = self._found()
        if (problem := self.unready()) or program is None:
            raise ModelUnavailable(str(problem))
        with TemporaryDirectory(prefix="tulving-", ignore_cleanup_errors=True) as folder:
            pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
            how = {"cwd": folder, "env": self._environment(), "start_new_session": True}
            try:
                process = await asyncio.create_subprocess_exec(program, *self._arguments, **pipes, **how)
            except (OSError, ValueError) as error:
                raise ModelUnavailable(f"{self.name} can't be started: {error}") from error
            try:
                async with asyncio.timeout(self._timeout):
                    output, errors = await _talk(process, prompt.encode(errors="ignore"))
            except TimeoutError as error:
                problem = f"{self.name} did not answer within {self._timeout:g} seconds"
                raise ModelUnavailable(problem, passing=True) from error
            finally:
                await _stop(process)
        if len(output) > MOST_BYTES:
            raise ModelUnavailable(f"{self.name} answered with more than {MOST_BYTES:,} bytes")
        if process.returncode:
            raise self._failure(process.returncode, errors, prompt)
        return Completion(output.decode(errors="replace"))

    def _found(self) -> str | None:
        found = shutil.which(os.path.expanduser(self._program))
        return found and str(Path(found).absolute())

    def _environment(self) -> dict[str, str]:
        kept = (*_KEPT, self._key.variable)
        return {name: text for name, text in os.environ.items() if name in kept or name.startswith(_KEPT_PREFIXES)}

    def _failure(self, code: int, errors: bytes, prompt: str) -> ModelUnavailable:
        lines = errors.decode(errors="replace").strip().splitlines()
        said = presentable(lines[-1], self._key.read(), [prompt]) if lines else ""
        problem = f"{self.name} ended with exit code {code}" + (f": {said}" if said else "")
        return ModelUnavailable(problem, passing=code == os.EX_TEMPFAIL)


async def _talk(process: Process, prompt: bytes) -> tuple[bytes, bytes]:
    """What the command writes, up to a little more than it may, and the end of what it complains."""
    assert process.stdin and process.stdout and process.stderr
    sending, complaining = process.stdin, process.stderr

    async def send() -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may answer without having read all
            sending.write(prompt)
            await sending.drain()
        sending.close()

    async def last_words() -> bytes:
        words = b""
        while chunk := await complaining.read(65_536):
            words = (words + chunk)[-_LAST_WORDS:]
        return words

    async def end_the_rest() -> None:
        """What the command left behind would keep the pipes open. `wait` would wait for that too."""
        while process.returncode is None:
            await asyncio.sleep(POLL)
        await asyncio.sleep(GRACE)
        _signal(process, signal.SIGKILL)

    ending = asyncio.create_task(end_the_rest())
    others = asyncio.gather(last_words(), send())
    try:
        output = bytearray()
        while len(output) <= MOST_BYTES and (chunk := await process.stdout.read(65_536)):
            output += chunk
        if len(output) > MOST_BYTES:
            return bytes(output), b""  # it is still running
        errors, _ = await others
        await process.wait()
        return bytes(output), errors
    finally:
        ending.cancel()
        others.cancel()
        await asyncio.gather(ending, others, return_exceptions=True)


async def _stop(process: Process) -> None:
    """End the command and all processes that it started: politely, then for good."""
    try:
        _signal(process, signal.SIGTERM)
        await _ended(process)
    finally:
        _signal(process, signal.SIGKILL)
        closed: Any = process  # its pipes may be open for a moment yet, and there is no public way to close them
        closed._transport.close()
    await _ended(process)


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _ended(process: Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
