"""What the fault tests share: how they open a memory, read all of it, and start processes that may be killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import tulving
from tulving.bootstrap import open_memory
from tulving.domain.model import KINDS, Item, Kind
from tulving.errors import IntegrityError, StoreUnavailable
from tulving.services.memory import Memory
from tulving.settings import MemoryModuleConfig
from tulving.testing import WordEmbedder

NAMED = (IntegrityError, StoreUnavailable)
"""What a broken, missing or unreachable store may answer with; DamagedStore and DiskFull are among them."""

DIMENSION = 512
SOURCE = Path(tulving.__file__).parents[1]


def opened(place: Any, **parts: Any) -> AbstractAsyncContextManager[Memory]:
    """A memory that depends on nothing around it: no settings file, no environment, no model, no folder."""
    parts.setdefault("config", MemoryModuleConfig())
    parts.setdefault("create", "folders")
    parts.setdefault("embedder", WordEmbedder(DIMENSION))
    return open_memory(place, **parts)


async def everything(memory: Memory, kinds: Iterable[Kind] = KINDS) -> dict[UUID, Item]:
    """All rows of a tenant, in whatever state, read without leaving a trace."""
    items: dict[UUID, Item] = {}
    for kind in kinds:
        cursor = None
        while True:
            page = await memory.list_memories(kind, state="any", limit=1000, cursor=cursor)
            items |= {item.id: item for item in page.items}
            if (cursor := page.next_cursor) is None:
                break
    return items


def problems(verification: Any) -> list[str]:
    """What `verify` complains of, so that a failing test shows it."""
    return [f"{finding.check}: {problem}" for finding in verification.findings for problem in finding.problems]


def digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


class Children:
    """Processes forked on demand by `fault_child.py`, which has loaded all that they need."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TULVING_")}
        paths = [str(SOURCE), str(Path(__file__).parents[1]), *filter(None, [environment.get("PYTHONPATH")])]
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fault_child.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._answer() == "ready"

    def start(self, job: str, log: Path | None = None, **args: Any) -> int:
        """Let a child do one of the jobs; its id."""
        return self._ask({"job": job, "log": None if log is None else str(log), "args": args})

    def wait(self, pid: int) -> int:
        """The exit code: 0 when the job is done, 1 when it failed, -9 when it was killed."""
        return self._ask({"wait": pid})

    def kill(self, pid: int) -> int:
        """End a child without warning. Until it is waited for, its id is its own, so no other can be hit."""
        os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def run(self, job: str, log: Path, **args: Any) -> list[Any]:
        """Do a job and wait for it; what it said."""
        assert self.wait(self.start(job, log, **args)) == 0, said(log)
        return said(log)

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)

    def _ask(self, order: Any) -> Any:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._server.stdout is not None
        return json.loads(self._server.stdout.readline())


def said(log: Path) -> list[Any]:
    """What children said. Each line was one write to a file opened for appending; a kill may cut the last."""
    if not log.exists():
        return []
    *lines, rest = log.read_text().split("\n")
    return [json.loads(line) for line in lines] + ([] if not rest else [{"cut": rest}])


def wait_for(log: Path, lines: int, pid: int, seconds: float = 60) -> None:
    """Until a child has said so much, or is gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if log.exists() and log.read_bytes().count(b"\n") >= lines:
            return
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.002)
    raise TimeoutError(f"{log.name} has {said(log)}")
