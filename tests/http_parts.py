"""Servers over HTTP, and what is sent to them: in this process, on a memory, and in a process of their own."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2
from administration import administer, authentication
from http_document import in_query

import tulving
from tulving import Caller, Memory
from tulving.bootstrap import Served as Store
from tulving.bootstrap import new_secret
from tulving.interfaces.http.arguments import IN_QUERY
from tulving.services.operations import Operation

BASE = "http://127.0.0.1:8321"
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
SOURCE = str(Path(tulving.__file__).parent.parent)


def bearer(secret: str | None) -> dict[str, str]:
    return {} if secret is None else {"authorization": f"Bearer {secret}"}


def asked(operation: Operation, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The request that calls an operation, each argument where it belongs: method, path, and what goes with it."""
    method, path = operation.http.split()
    path, rest = filled(path, arguments)
    return method, path, {"params": in_query(rest)} if method in IN_QUERY else {"json": rest}


def filled(path: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A path with its parameters, and the arguments that are left."""
    names = re.findall(r"{(\w+)}", path)
    full = path
    for name in names:
        full = full.replace(f"{{{name}}}", _quoted(str(arguments.get(name, "-"))))
    return full, {name: value for name, value in arguments.items() if name not in names}


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode(errors="surrogatepass"))


# -- in this process -------------------------------------------------------------------------------------------


def opening(memory: Memory) -> Callable[[], AbstractAsyncContextManager[Store]]:
    """How a server opens the store of a memory that a test has open."""
    return opening_by(lambda: nullcontext(memory))


def opening_by(
    opener: Callable[[], AbstractAsyncContextManager[Memory]],
) -> Callable[[], AbstractAsyncContextManager[Store]]:
    """How a server opens the store of a memory that is yet to be opened."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        async with opener() as memory:
            yield Store(memory, authentication(memory), administer(memory))

    return opened


async def new_token(memory: Memory, tenant: str | None = None, **options: Any) -> str:
    """The secret of a new token, for the tenant of the memory unless another is given."""
    secret, owner = new_secret(), memory if tenant is None else memory.bind(caller=Caller(tenant))
    await administer(owner).create_token(secret, **options)
    return secret


# -- in a process of their own ---------------------------------------------------------------------------------


@dataclass
class Served:
    """A server in a process of its own, and what it said until it was ready."""

    process: subprocess.Popen[bytes]
    port: int
    said: str
    log: IO[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def later(self) -> str:
        """What it has said since."""
        return _read(self.log).removeprefix(self.said)

    def post(self, body: Any = LIST, secret: str | None = None, **headers: str) -> httpx2.Response:
        return httpx2.post(self.url, json=body, headers=JSON | bearer(secret) | headers, timeout=30)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit status, and what it has said since it was ready."""
        self.process.send_signal(number)
        return self.process.wait(40), self.later


@contextmanager
def started(
    *arguments: str, cwd: Path | None = None, environ: Mapping[str, str] = os.environ, files: int | None = None
) -> Iterator[Served]:
    """`tulving serve` or `tulving mcp --http`, with these arguments and perhaps so many files at most; killed at the
    end. What it says goes to a file, since nobody empties a pipe while a test runs."""
    limited = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*limited, sys.executable, "-m", "tulving", *arguments],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            last = r"(?:Console|API): .*\n" * 2 if arguments[0] == "serve" else ""
            ready = re.compile(rf"^Tulving serves \S+:(\d+)/mcp.*\n{last}", re.MULTILINE)
            while not (found := ready.search(_read(log))):
                assert process.poll() is None, _read(log)
                time.sleep(0.02)
            yield Served(process, int(found[1]), found.string[: found.end()], log)
        finally:
            process.kill()
            process.wait()


def _read(log: IO[bytes]) -> str:
    """All that is in it; where the process writes next stays as it is."""
    return os.pread(log.fileno(), 10_000_000, 0).decode()
