"""README and the docs, followed to the letter: every command and every snippet, in order, in a fresh home.

The language of a fenced block says what becomes of it: `sh`, `python` and `sql` are run, `toml` is read as settings and
saved if its first line is the name of a file, `text` is shown to people only. The blocks of one page are one reader's
afternoon: what one exports or stores, the next ones find.
"""

import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from postgres_server import Server
from raw_sql import in_thread

from tulving.config import parse
from tulving.interfaces.cli import application, log, run
from tulving.providers import weights

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r"""tulving (?:[^|<>&;$`()*?~"'#]|"[^"$`\\!]*"|'[^']*')+(?:\s#.*)?$""")
"""A line of which the shell only makes words."""
COMMAND = re.compile(r"`(tulving [^`]+)`")
SERVERS = ("tulving mcp --http", "tulving worker")
KEPT = "tulving serve "
"""What goes on while the reader types the rest of the page elsewhere."""
TIME_LIMIT = 60


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2].rstrip())
        for found in FENCE.finditer(text)
    ]


@dataclass
class Reader:
    """A person with an empty home who types what a page says. `meant` are the names for which a page expects the
    reader's own: a server, a port, the id of a memory."""

    folder: Path
    environ: dict[str, str]
    server: Server
    meant: dict[str, str] = field(default_factory=dict)
    database: str = "postgres"
    kept: list[subprocess.Popen[str]] = field(default_factory=list)
    hurried: bool = False
    """Runs snippets, and our commands where a line asks nothing else of the shell, in this process: half a second less
    for each."""
    printed: str = ""
    """By what was done last in this process."""
    said: str = ""
    """The first line of what was started last."""

    def follow(self, block: Block) -> None:
        match block.language:
            case "sh":
                for line in block.text.replace("\\\n", " ").splitlines():
                    if line.strip():
                        self._type(line, block)
            case "python" if self.hurried:
                self._here(lambda: exec(block.text, {"__name__": "__main__"}), block)
            case "python":
                self.run([sys.executable, "-c", block.text], block)
            case "sql":
                for statement in re.split(r"^(\\c \w+)$|;(?=\s|$)", re.sub(r"--.*", "", block.text), flags=re.M):
                    if statement and statement.strip():
                        self.execute(statement.strip())
            case "toml":
                parse(tomllib.loads(block.text))
                if named := re.match(r"# (\w+\.toml)$", block.text, re.MULTILINE):
                    (self.folder / named[1]).write_text(block.text)

    def _type(self, line: str, block: Block) -> None:
        for name, value in self.meant.items():
            line = line.replace(name, shlex.quote(value))
        if re.search(r"\bID\b", line):
            line = re.sub(r"\bID\b", self._an_id(), line)
        if line.startswith("make "):
            self.run(["make", "--dry-run", *shlex.split(line, comments=True)[1:]], block, folder=ROOT)
        elif line.startswith(SERVERS) and "--once" not in line:
            self._end(self._start(line), f"{block}: {line}")
        elif line.startswith(KEPT):
            self.kept.append(self._start(line))
        elif self.hurried and PLAIN.match(line):
            self._command(shlex.split(line, comments=True)[1:], block)
        elif line.startswith("export "):
            said = self.run(["bash", "-c", f"{line}\nenv -0"], block)
            self.environ = dict(entry.split("=", 1) for entry in said.split("\0") if entry)
        else:
            self.run(["bash", "-c", line], block)

    def _an_id(self) -> str:
        listed = self.run(["tulving", "list", "fact", "--limit", "1", "--json"])
        return json.loads(listed)["items"][0]["id"]

    def run(self, command: list[str], block: Block | None = None, folder: Path | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=folder or self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )
        assert done.returncode == 0, f"{block}: {command[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _command(self, arguments: list[str], block: Block) -> None:
        assert self._here(lambda: run(arguments), block) == 0, f"{block}: {arguments}\n{self.printed}"

    def _here(self, act: Callable[[], Any], block: Block) -> Any:
        """Do it in this process, as if it had been started in the reader's folder with the reader's environment."""
        printed, level = io.StringIO(), log.level
        with pytest.MonkeyPatch.context() as around, redirect_stdout(printed), redirect_stderr(printed):
            around.chdir(self.folder)
            for name in set(os.environ) - set(self.environ):
                around.delenv(name)
            for name, value in self.environ.items():
                around.setenv(name, value)
            try:
                return act()
            except Exception as error:
                raise AssertionError(f"{block}\n{printed.getvalue()}") from error
            finally:
                log.setLevel(level)
                self.printed = printed.getvalue()

    def _start(self, line: str) -> subprocess.Popen[str]:
        """What runs until it is told to end: wait until it says that it is there."""
        process = subprocess.Popen(
            shlex.split(line, comments=True),
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        self.said = process.stderr.readline()
        return process

    def _end(self, process: subprocess.Popen[str], where: str) -> None:
        process.send_signal(signal.SIGINT)
        said = self.said + process.communicate(timeout=TIME_LIMIT)[1]
        assert process.returncode in (0, 130), f"{where}\n{said}"
        assert "Traceback" not in said, f"{where}\n{said}"

    def leave(self) -> None:
        """End what was kept."""
        for process in self.kept:
            self._end(process, KEPT)

    def execute(self, statement: str) -> None:
        """As the superuser, as psql would."""
        if statement.startswith("\\c "):
            self.database = statement.removeprefix("\\c ")
            return

        async def execute() -> None:
            raw = await asyncpg.connect(self.server.url(self.database))
            try:
                await raw.execute(statement)
            finally:
                await raw.close()

        in_thread(execute())


@pytest.fixture
def reader(tmp_path: Path, postgres: Server, minilm_home: Path) -> Iterator[Reader]:
    home = tmp_path / "home"
    folder = home / "project"
    folder.mkdir(parents=True)
    (folder / ".venv").symlink_to(sys.prefix)
    environ = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "TULVING_WEIGHTS": str(weights.directory(minilm_home)),
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    reader = Reader(folder, environ, postgres, {"8765": port})
    yield reader
    reader.leave()


def as_role(url: str, role: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))


def test_every_block_says_what_it_is() -> None:
    known = {"sh", "python", "sql", "toml", "text"}
    assert [
        f"{block}: {block.language!r}" for page in PAGES for block in blocks(page) if block.language not in known
    ] == []


def test_nothing_tells_to_install_the_other_project() -> None:
    """`pip install tulving langgraph` would fetch the package of that name from the index, which is not this one."""
    texts = [(str(block), block.text) for page in PAGES for block in blocks(page)]
    texts += [(path.name, path.read_text()) for path in sorted((ROOT / "examples").glob("*.py"))]
    other = re.compile(r"(?:\binstall\b.*|\buvx )(?<![\w./-])tulving(?![\w-])")
    assert [(place, found[0]) for place, text in texts for found in other.finditer(text)] == []


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The URL of a new, empty database."""
    url = in_thread(postgres.create_database())
    yield url
    in_thread(postgres.drop_database(url))


def test_the_readme_from_top_to_bottom(reader: Reader, database: str) -> None:
    reader.meant["postgresql://tulving:secret@db.example.com/memory"] = database
    for block in blocks(ROOT / "README.md"):
        reader.follow(block)


def test_the_page_on_postgresql(reader: Reader, postgres: Server) -> None:
    reader.hurried = True
    url = postgres.url("memory")
    for role in ("tulving", "memory_service", "memory_worker"):
        reader.meant[f"postgresql://{role}:secret@db.example.com/memory"] = as_role(url, f"{role}:secret")
    reader.meant["postgresql://owner@db.example.com/memory"] = url
    roles = "memory_service, memory_worker, tulving_service, tulving_maintenance, tulving"
    reader.run(["tulving", "init"])  # README comes first
    try:
        for block in blocks(ROOT / "docs/deploy-postgres.md"):
            reader.follow(block)
    finally:
        in_thread(postgres.drop_database(url))
        reader.database = "postgres"
        reader.execute(f"DROP ROLE IF EXISTS {roles}")


def test_the_host_of_the_module_page(reader: Reader, database: str) -> None:
    reader.environ["DATABASE_URL"] = database
    for block in blocks(ROOT / "docs/host-module.md"):
        reader.follow(block)


def other_pages() -> list[Path]:
    followed = {ROOT / "README.md", ROOT / "docs/deploy-postgres.md", ROOT / "docs/host-module.md"}
    return [page for page in PAGES if page not in followed and any(block.language != "text" for block in blocks(page))]


@pytest.mark.parametrize("page", other_pages(), ids=lambda page: page.stem)
def test_the_other_pages(page: Path, reader: Reader) -> None:
    reader.hurried = True
    for block in blocks(page):
        reader.follow(block)


def test_every_command_that_is_mentioned_exists() -> None:
    """`tulving reindex --method hnsw` in a sentence: the command is there, and so is the option."""
    app: Any = application()
    wrong = []
    for page in PAGES:
        for text in COMMAND.findall(page.read_text()):
            command, words = app, shlex.split(text)[1:]
            known = _options(app)
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
                known |= _options(command)
            options = {word.partition("=")[0] for word in words if word.startswith("-")}
            if (command is app and not options) or options - known:
                wrong.append(f"{page.relative_to(ROOT)}: {text}")
    assert wrong == []


def _options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}
