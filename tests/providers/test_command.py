"""A language model behind a command: a real program of ours that reads the prompt and writes the answer."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tulving.bootstrap import choose_llm
from tulving.config import parse
from tulving.errors import ModelUnavailable
from tulving.ports import Completion
from tulving.providers import command
from tulving.providers.command import MOST_BYTES, Command

KEY = "sk-very-secret-0123456789"
PROMPT = "What does Ann like?\nAnn asked for a second pot of tea again. é 茶"

Write = Callable[..., Path]
Make = Callable[..., Command]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A program with this body, which may use `prompt`."""

    def write(body: str, reads: bool = True) -> Path:
        program = tmp_path / "a model"
        reading = "prompt = sys.stdin.buffer.read().decode()\n" if reads else ""
        program.write_text(f"#!{sys.executable}\nimport json, os, signal, subprocess, sys, time\n{reading}{body}\n")
        program.chmod(0o755)
        return program

    return write


@pytest.fixture
def make(write: Write) -> Make:
    def make(body: str, *arguments: str, reads: bool = True, **settings: Any) -> Command:
        made = choose_llm(parse({"llm": {"command": [str(write(body, reads)), *arguments], **settings}}))
        assert isinstance(made, Command)
        return made

    return make


async def failure_of(llm: Command, prompt: str = PROMPT) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as failure:
        await llm.complete(prompt, 100)
    return failure.value


async def appears(path: Path) -> int:
    """The number in a file, once it is there."""
    while not (path.exists() and path.read_text().endswith("\n")):
        await asyncio.sleep(0.01)
    return int(path.read_text())


async def ends(pid: int) -> bool:
    """Whether a process ends within ten seconds. One that nobody waits for has ended too."""
    for _ in range(1000):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_the_prompt_goes_in_and_the_answer_comes_out(make: Make) -> None:
    llm = make("print('You asked:', prompt)")
    assert llm.unready() is None
    assert await llm.complete(PROMPT, 100) == Completion(f"You asked: {PROMPT}\n")
    assert await llm.complete("", 100) == Completion("You asked: \n")
    assert await llm.complete("a\ud800b", 100) == Completion("You asked: ab\n")


async def test_arguments_are_no_shell_text(make: Make, tmp_path: Path) -> None:
    arguments = ["-p", "$(touch owned)", "; touch owned", "two words", ""]
    llm = make("print(json.dumps(sys.argv[1:]))", *arguments)
    assert json.loads((await llm.complete(PROMPT, 100)).text) == arguments
    assert not list(tmp_path.glob("**/owned"))
    assert llm.name == f"'{tmp_path}/a model' -p '$(touch owned)' '; touch owned' 'two words' ''"


async def test_a_large_prompt_and_a_program_that_reads_nothing(make: Make) -> None:
    large = "tea " * 500_000
    assert (await make("print(len(prompt))").complete(large, 100)).text == "2000000\n"
    assert (await make("print('done')", reads=False).complete(large, 100)).text == "done\n"


async def test_it_runs_in_an_empty_folder_that_is_removed(make: Make) -> None:
    llm = make("open('left', 'w').write('x'); print(json.dumps([os.getcwd(), os.listdir()]))")
    (first, listed), (second, _) = [json.loads((await llm.complete(PROMPT, 100)).text) for _ in range(2)]
    assert listed == ["left"]
    assert first != second
    assert Path(first).parent == Path(tempfile.gettempdir()).resolve()
    assert not os.path.exists(first)
    assert not os.path.exists(second)


async def test_the_environment_is_scrubbed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OPENAI_API_KEY": "a", "MODEL_KEY": KEY, "TULVING_URL": "b", "LD_PRELOAD_X": "c", "PYTHONPATH": "/d"}
    kept = {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "XDG_CONFIG_HOME": "/tmp",
        "USER": "ann",
        "TERM": "dumb",
    }
    for name, text in (given | kept).items():
        monkeypatch.setenv(name, text)
    seen = json.loads((await make("print(json.dumps(dict(os.environ)))").complete(PROMPT, 100)).text)
    assert seen.keys() & given.keys() == set()
    assert {name: seen[name] for name in kept} == kept
    assert seen["PATH"] == os.environ["PATH"]
    keyed = make("print(os.environ['MODEL_KEY'])", key_variable="MODEL_KEY")
    assert (await keyed.complete(PROMPT, 100)).text == f"{KEY}\n"


async def test_what_it_complains_is_told_as_far_as_it_may(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", KEY)

    async def told(body: str) -> str:
        llm = make(body, key_variable="MODEL_KEY")
        failure = await failure_of(llm)
        assert not failure.passing
        return str(failure).removeprefix(llm.name)

    assert await told("sys.exit(3)") == " ended with exit code 3"
    assert await told("sys.exit('first\\nnot logged in\\n\\n')") == " ended with exit code 1: not logged in"
    assert await told("sys.exit(f'bad key {os.environ[\"MODEL_KEY\"]}')") == " ended with exit code 1: bad key ..."
    assert await told("sys.exit('x' * 10_000)") == f" ended with exit code 1: {'x' * 200}"
    assert await told("sys.exit(f'can not parse {prompt}')") == " ended with exit code 1"
    assert await told("sys.exit(f'near: {prompt[30:60]}')") == " ended with exit code 1"
    assert await told("sys.stderr.buffer.write(b'caf\\xe9'); sys.exit(1)") == " ended with exit code 1: caf\ufffd"
    assert await told("print('out'); os.kill(os.getpid(), signal.SIGKILL)") == " ended with exit code -9"
    assert (await failure_of(make(f"sys.exit({os.EX_TEMPFAIL})"))).passing, "the code that asks for another attempt"


async def test_complaints_of_a_program_that_succeeds_do_not_matter(make: Make) -> None:
    assert await make("sys.stderr.write('x' * 500_000); print('fine')").complete(PROMPT, 100) == Completion("fine\n")


async def test_output_that_is_no_text_or_none_or_too_much(make: Make) -> None:
    assert (await make("sys.stdout.buffer.write(b'caf\\xe9')").complete(PROMPT, 100)).text == "caf\ufffd"
    assert await make("").complete(PROMPT, 100) == Completion("")
    most = await make(f"sys.stdout.write('x' * {MOST_BYTES})").complete(PROMPT, 100)
    assert most == Completion("x" * MOST_BYTES)
    assert "more than 1,000,000 bytes" in str(await failure_of(make(f"sys.stdout.write('x' * {MOST_BYTES + 1})")))


async def test_a_program_that_never_stops_writing_is_stopped(make: Make, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    llm = make(f"print(os.getpid(), file=open({str(pid)!r}, 'w'), flush=True)\nwhile True: print('x' * 1000)")
    assert "more than 1,000,000 bytes" in str(await failure_of(llm))
    assert await ends(await appears(pid))


STUBBORN = """
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
                          "print(flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, file=open(sys.argv[1], "w"), flush=True)
"""
"""Starts a process that ignores the polite signal, and tells its number."""


async def test_a_timeout_ends_the_program_and_what_it_started(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "GRACE", 0.2)
    llm = make(STUBBORN + "time.sleep(600)", str(tmp_path / "pid"), timeout=0.5)
    while not (tmp_path / "pid").exists():
        llm._timeout *= 2  # a busy machine may need longer to start it
        failure = await failure_of(llm)
        assert failure.passing
        assert str(failure) == f"{llm.name} did not answer within {llm._timeout:g} seconds"
    assert await ends(await appears(tmp_path / "pid"))


async def test_cancelling_ends_the_program_and_what_it_started(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "GRACE", 0.2)
    before = set(Path(tempfile.gettempdir()).glob("tulving-*"))
    asking = asyncio.create_task(
        make(STUBBORN + "time.sleep(600)", str(tmp_path / "pid")).complete(PROMPT, 100), name="asking"
    )
    child = await appears(tmp_path / "pid")
    parent = psutil.Process(child).ppid()
    [folder] = {path for path in set(Path(tempfile.gettempdir()).glob("tulving-*")) - before if _is_cwd(path, parent)}
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await ends(parent)
    assert await ends(child)
    assert not folder.exists()


def _is_cwd(path: Path, pid: int) -> bool:
    return psutil.Process(pid).cwd() == str(path.resolve())


async def test_it_is_asked_politely_first(make: Make, tmp_path: Path) -> None:
    trap = "signal.signal(signal.SIGTERM, lambda *_: (print(1, file=open(sys.argv[2], 'w'), flush=True), sys.exit()))\n"
    ready = "print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True)\n"
    llm = make(trap + ready + "time.sleep(600)", *(str(tmp_path / name) for name in ("pid", "cleaned up")))
    asking = asyncio.create_task(llm.complete(PROMPT, 100))
    pid = await appears(tmp_path / "pid")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await ends(pid)
    assert (tmp_path / "cleaned up").exists()


async def test_what_it_leaves_behind_is_ended_too(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "GRACE", 0.2)
    llm = make(STUBBORN + "print('done')", str(tmp_path / "pid"))
    assert (await llm.complete(PROMPT, 100)).text == "done\n"
    assert await ends(await appears(tmp_path / "pid"))


async def test_a_program_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    llm = Command(["no-such-program", "-p"], key_variable=None, timeout=10)
    assert str(llm.unready()).startswith("llm.command names no-such-program, which is not a program on the path")
    assert "no-such-program" in str(failure := await failure_of(llm))
    assert not failure.passing
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    assert "plain" in str(Command([str(tmp_path / "plain")], key_variable=None, timeout=10).unready())
    broken = write("")
    broken.write_text("#!/no/such/interpreter\n")
    assert "can't be started" in str(await failure_of(Command([str(broken)], key_variable=None, timeout=10)))


async def test_it_is_found_on_the_path_in_the_working_directory_or_at_home(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("print('found')").rename(tmp_path / "model")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for program in ("model", "./model", "~/model"):
        llm = Command([program], key_variable=None, timeout=60)
        assert (llm.name.strip("'"), (await llm.complete(PROMPT, 100)).text) == (program, "found\n")


def test_a_missing_key_makes_it_unready(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL_KEY", raising=False)
    assert "MODEL_KEY" in str(make("", key_variable="MODEL_KEY").unready())


def test_it_runs_in_a_loop_of_another_thread(make: Make) -> None:
    from concurrent.futures import ThreadPoolExecutor

    llm = make("print('done')")
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, llm.complete(PROMPT, 100)).result().text == "done\n"
