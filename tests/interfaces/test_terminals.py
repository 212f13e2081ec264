"""What is printed fits the terminal, whatever its width; programs get JSON, also of what goes wrong."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tulving.interfaces.cli.interruption import LEFT
from tulving.interfaces.cli.terminal import table

pytestmark = pytest.mark.usefixtures("path")

WIDTHS = [40, 60, 80, 120]
HEADINGS = {"0", "id", "job", "name", "extends", "setting", "value", "from"}
"""Of tables that are printed as lists where they do not fit."""
DRAWN = set("█▁▂▃▄▅▆▇ ")
COMMANDS = (
    ["recall", "tea", "--why"],
    ["list", "facts"],
    ["stats"],
    ["context", "tea"],
    ["history", "Anna", "drink"],
    ["worker", "--list"],
    ["verify"],
    ["doctor"],
    ["merge-rules"],
    ["token", "list"],
    ["sessions"],
    ["config"],
)


@pytest.fixture
def memories(cli: Callable) -> str:
    """Some memories; the id of one."""
    cli("store", "fact", "Anna", "drink", "green tea in the morning, and nothing but water after six in the evening")
    cli("store", "rule", "Ask whether somebody is allergic before a recipe with nuts is suggested to the guests")
    cli("store", "episode", "東京でお茶を飲みながら、来年の旅行について長い時間話し合いました。", "--source", "Anna")
    cli("sessions", "start")
    cli("token", "create", "--name", "laptop")
    return json.loads(cli("store", "note", "likes tea", "--json").out)["id"]


def cells(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(line)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_too_long_and_no_word_is_broken_that_would_fit(
    cli: Callable, memories: str, width: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", str(width))
    for command in (*COMMANDS, ["show", memories], ["events", "fact", memories]):
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        plain = cli(*command).out
        monkeypatch.setenv("FORCE_COLOR", "1")
        shown = re.sub(r"\x1b\[[0-9;]*m", "", cli(*command).out)
        assert max(map(cells, shown.splitlines())) <= width, command
        if command[0] in ("recall", "stats", "show", "doctor"):  # figures change while one looks
            plain = re.sub(r"\d", "0", plain)
            shown = re.sub(r"\d", "0", shown)
        ascii_words = {word for word in plain.split() if word.isascii() and len(word) <= min(width, 36)}
        assert ascii_words - set(shown.split()) <= HEADINGS, command


def test_the_chart_takes_the_width_that_there_is(cli: Callable, memories: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    widths = []
    for columns in ("40", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        shown = re.sub(r"\x1b\[[0-9;]*m", "", cli("show", memories).out)
        [chart] = [line for line in shown.splitlines() if line.startswith("  0.0 ")]
        widths.append(len(chart) - len("  0.0 "))
        assert set(chart[6:]) <= DRAWN
    assert widths == [32, 60]
    assert len(json.loads(cli("show", memories, "--json").out)["forecast"]["values"]) == 60, "whatever the terminal"


def test_a_real_terminal(environ: dict[str, str], memories: str):
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 40, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "tulving", "list", "facts"]
    subprocess.run(command, stdout=follower, stderr=follower, env=environment, timeout=60)
    os.close(follower)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", os.read(leader, 65536).decode())
    os.close(leader)
    assert memories in shown
    assert max(map(cells, shown.splitlines())) <= 40


def test_a_table_has_its_headings_in_a_pipe_too(capsys: pytest.CaptureFixture[str]):
    table([("a", "1"), ("bb", "2")], ("job", "runs"))
    assert capsys.readouterr().out == "job  runs\na    1\nbb   2\n"


class TestErrorsAsJson:
    @pytest.mark.parametrize(
        ("arguments", "code", "expected"),
        [
            (["list", "person"], 2, {"type": "InvalidInput", "field": "memory_type", "allowed": "episode, fact, rule"}),
            (["show", "00000000-0000-0000-0000-000000000001"], 3, {"type": "NotFound", "field": None}),
            (["recall"], 2, {"type": "UsageError", "message": "Missing argument 'TOPIC'. See tulving recall --help"}),
            (["nothing"], 2, {"type": "UsageError"}),
            (["--url", "missing.db", "stats"], 2, {"type": "ConfigError", "field": "url"}),
        ],
    )
    def test_with_the_same_exit_codes(self, cli: Callable, arguments: list[str], code: int, expected: dict):
        plain, told = cli(*arguments), cli(*arguments, "--json")
        assert (plain.code, told.code, told.out) == (code, code, "")
        assert plain.err.startswith("error: ")
        error = json.loads(told.err)["error"]
        assert error.keys() == {"type", "field", "problem", "allowed", "message"}
        assert error | expected == error
        assert plain.err == f"error: {error['message']}\n"

    def test_warnings_are_json_too(self, cli: Callable):
        ran = cli("worker", "--once", "consolidation", "--json")
        assert json.loads(ran.out) is not None
        assert "model" in json.loads(ran.err)["warning"]["message"]

    def test_after_two_dashes_it_is_a_text(self, cli: Callable):
        assert cli("list", "person", "--", "--json").err.startswith("error: ")


@pytest.mark.parametrize("command", ["reembed", "import", "verify", "consolidate"])
def test_an_interrupted_command_says_what_it_leaves(cli: Callable, monkeypatch: pytest.MonkeyPatch, command: str):
    from tulving.interfaces.cli.options import Chosen

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    if command == "import":
        cli("export", "file")
    monkeypatch.setattr(Chosen, "open", interrupted)
    ran = cli(command, *(["file"] if command == "import" else []))
    assert (ran.code, ran.out, ran.err) == (130, "", f"interrupted: {LEFT[command]}\n")


def test_ctrl_c_ends_a_long_command_with_130_and_a_word(environ: dict[str, str], path: Path):
    """While it waits for what was said."""
    os.mkfifo("answer")
    with subprocess.Popen(
        [sys.executable, "-m", "tulving", "learn", "answer"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as waiting:
        with open("answer", "w"):  # opens when the command reads it
            time.sleep(0.2)
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(30) == 130
        assert waiting.stderr and waiting.stderr.read() == f"interrupted: {LEFT['learn']}\n"
