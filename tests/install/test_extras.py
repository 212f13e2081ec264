"""Each extra in an environment of its own: what it installs works there, and what is missing says how to get it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest
from onnx_model import write_model
from postgres_server import Server
from raw_sql import in_thread

from tulving.extras import EXTRAS

pytestmark = pytest.mark.install

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
OPTIONAL = sorted({module for modules in EXTRAS.values() for module in modules} | {"sqlalchemy", "starlette"})
BESIDE = ("langchain-mcp-adapters", "crewai", "semantic-kernel")
"""Packages that can't live beside mcp 2 or SQLAlchemy 2.1."""

PROGRAM = """
import asyncio
from tulving import open_memory, open_memory_sync

async def main():
    async with open_memory("memory.db", embedder="hashing") as memory:
        await memory.store_fact("Anna", "favorite_drink", "green tea")

asyncio.run(main())
with open_memory_sync("memory.db", embedder="hashing") as memory:
    print([hit.item.content for hit in memory.recall("what does Anna drink?")])
"""


def uv(*words: object) -> str:
    done = subprocess.run([UV, *map(str, words)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """An environment that holds Tulving, and a person with an empty home who uses it."""

    environment: Path
    home: Path

    def run(self, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "HOME": str(self.home),
            "PATH": f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TULVING_EMBEDDER": "hashing",
            **variables,
        }
        command = [str(self.environment / "bin" / str(words[0])), *map(str, words[1:])]
        return subprocess.run(
            command, cwd=self.home, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    def says(self, *words: object, **variables: str) -> str:
        done = self.run(*words, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lacks(self) -> list[str]:
        """The optional modules that are not there."""
        program = f"from importlib.util import find_spec; print(*(m for m in {OPTIONAL} if not find_spec(m)))"
        return self.says("python", "-c", program).split()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture
def install(wheel: Path, tmp_path: Path) -> Callable[[str], Installed]:
    """Install Tulving, with the pinned versions of what it needs, into a new environment."""

    def install(extra: str = "") -> Installed:
        environment, home = tmp_path / "environment", tmp_path / "home"
        home.mkdir()
        python = environment / "bin" / "python"
        uv("venv", "--python", sys.executable, environment)
        pinned = tmp_path / "pinned.txt"
        pins = re.findall(r"^[a-z0-9.-]+==\S+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
        pinned.write_text("\n".join(pins))
        wanted = f"tulving{extra} @ {wheel.as_uri()}"
        uv("pip", "install", "--python", python, "--constraint", pinned, wanted)
        return Installed(environment, home)

    return install


def test_the_base(install: Callable[[str], Installed]) -> None:
    base = install("")
    assert base.lacks() == OPTIONAL
    assert base.says("python", "-c", PROGRAM) == "['green tea']\n"
    base.says("tulving", "store", "fact", "Anna", "favorite_color", "deep green")
    assert "deep green" in base.says("tulving", "recall", "which colour does Anna like?")
    base.says("tulving", "worker", "--once", "decay_sweep")
    base.says("tulving", "verify")

    refused = base.run("tulving", "mcp")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "error: an MCP server needs the extra `mcp`: pip install 'tulving[mcp]'\n"
    refused = base.run("tulving", "serve")
    assert refused.stderr == "error: the service needs the extra `server`: pip install 'tulving[server]'\n"
    refused = base.run("tulving", "--url", "postgresql://nobody@127.0.0.1:1/nothing", "stats")
    assert refused.returncode == 1
    assert "a store on PostgreSQL needs the extra `postgres`: pip install 'tulving[postgres]'" in refused.stderr
    variables = {"TULVING_EMBEDDER": "onnx", "TULVING_ONNX__FOLDER": str(write_model(base.home / "model"))}
    stored = base.run("tulving", "--url", "own.db", "init", **variables)
    assert "the embedder `onnx` needs the extra `onnx`: pip install 'tulving[onnx]'" in stored.stderr


async def test_mcp(install: Callable[[str], Installed]) -> None:
    from mcp import Client, StdioServerParameters

    served = install("[mcp]")
    assert not {"mcp", "uvicorn"} & set(served.lacks())
    environ = {"HOME": str(served.home), "PATH": os.environ["PATH"], "TULVING_EMBEDDER": "hashing"}
    tulving = str(served.environment / "bin" / "tulving")
    async with Client(StdioServerParameters(command=tulving, args=["mcp"], env=environ)) as client:
        arguments = {"subject": "Anna", "predicate": "favorite_drink", "content": "green tea"}
        assert not (await client.call_tool("memory_store_fact", arguments)).is_error
        found = await client.call_tool("memory_recall", {"topic": "what does Anna drink?"})
    assert "green tea" in json.dumps(found.structured_content)


def test_server(install: Callable[[str], Installed]) -> None:
    served = install("[server]")
    assert served.lacks() == [name for name in OPTIONAL if name not in (*EXTRAS["mcp"], *EXTRAS["server"], "starlette")]
    served.says("tulving", "store", "fact", "Anna", "favorite_drink", "green tea")
    command = [str(served.environment / "bin" / "tulving"), "serve", "127.0.0.1:0"]
    environ = {"HOME": str(served.home), "PATH": os.environ["PATH"], "TULVING_EMBEDDER": "hashing"}
    with subprocess.Popen(command, cwd=served.home, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = [process.stderr.readline() for _ in range(2)]
            link = said[1].removeprefix("Console: ").strip()
            base, key = link.partition("/console")[0], link.partition("key=")[2]
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            asked = Request(f"{base}/v1/recall", b'{"topic": "what does Anna drink?"}', headers)
            assert "green tea" in urlopen(asked, timeout=30).read().decode()
            with build_opener(HTTPCookieProcessor()).open(link, timeout=30) as page:
                assert "Overview" in page.read().decode()
        finally:
            process.terminate()


def test_postgres(install: Callable[[str], Installed], postgres: Server) -> None:
    stored = install("[postgres]")
    url = in_thread(postgres.create_database())
    try:
        stored.says("tulving", "--url", url, "init")
        stored.says("tulving", "--url", url, "store", "fact", "Anna", "favorite_drink", "green tea")
        assert "green tea" in stored.says("tulving", "--url", url, "recall", "what does Anna drink?")
    finally:
        in_thread(postgres.drop_database(url))


def test_hnsw(install: Callable[[str], Installed]) -> None:
    searched = install("[hnsw]")
    program = """
import asyncio
from tulving import NewFact, open_memory

async def main():
    async with open_memory("memory.db") as memory:
        await memory.store_facts([NewFact(content=f"box {n} holds {n * 7} pears") for n in range(300)])
        for _ in range(100):
            found = await memory.search("pears in box 17", types=["fact"], mode="semantic")
            health = await memory.health()
            if health.state == "ready":
                break
            await asyncio.sleep(0.1)
        print(found[0].item.content, health.state)

asyncio.run(main())
import sys
print("usearch" in sys.modules)
"""
    assert searched.says("python", "-c", program, TULVING_VECTORS__EXACT_ROWS="10").split()[-2:] == ["ready", "True"]


def test_onnx(install: Callable[[str], Installed]) -> None:
    own = install("[onnx]")
    variables = {"TULVING_EMBEDDER": "onnx", "TULVING_ONNX__FOLDER": str(write_model(own.home / "model"))}
    assert own.run("tulving", "--url", "own.db", "init", **variables).stderr == ""
    own.says("tulving", "--url", "own.db", "store", "note", "the cat drinks tea", **variables)
    found = own.says("tulving", "--url", "own.db", "search", "cat tea", "--mode", "semantic", **variables)
    assert "the cat drinks tea" in found


def test_all(install: Callable[[str], Installed]) -> None:
    everything = install("[all]")
    assert everything.lacks() == []
    assert re.fullmatch(r"tulving \d+\.\d+\.\d+\n", everything.says("tulving", "--version"))


@pytest.mark.parametrize("package", BESIDE)
def test_the_base_takes_nothing_from_what_it_lives_beside(wheel: Path, tmp_path: Path, package: str) -> None:
    """A resolver must not have to choose an older version because Tulving is there too."""

    def resolved(*wanted: str) -> str:
        asked = tmp_path / "asked.in"
        asked.write_text("\n".join(wanted))
        pins = uv("pip", "compile", "--python-version", "3.12", "--no-header", "--quiet", asked)
        found = re.search(rf"^{package}==(\S+)", pins, re.MULTILINE)
        assert found, pins
        return found[1]

    assert resolved(package, f"tulving @ {wheel.as_uri()}") == resolved(package)
