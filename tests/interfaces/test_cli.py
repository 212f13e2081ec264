"""The command line as a person uses it: what it prints, where, and with which exit code."""

import io
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import psutil
import pytest
from raw_sql import run_sql

from tulving import DiskFull, __version__
from tulving.interfaces.cli.terminal import printable, table
from tulving.location import store_name
from tulving.services.memory import Memory

UNKNOWN = str(UUID(int=1))
ONE_ENGINE = pytest.mark.usefixtures("path")
"""For what does not depend on the engine."""


@pytest.fixture
def fact(cli) -> str:
    """The id of a fact that is there."""
    return json.loads(cli("store", "fact", "Anna", "color", "green", "--json").out)["id"]


class TestAsAProcess:
    """The main paths, through a real shell's eyes."""

    @ONE_ENGINE
    def test_a_day_with_a_memory(self, process):
        stored = process("store", "fact", "Anna", "favorite_color", "-", stdin="deep green\n")
        assert (stored.code, stored.err) == (0, "")
        assert stored.out.startswith("stored fact ")
        recalled = process("recall", "which color does Anna like?")
        assert recalled.code == 0
        assert "Anna · favorite_color: deep green" in recalled.out
        assert "relevance" in recalled.out
        answer = json.loads(process("search", "Anna", "--json").out)
        assert [hit["content"] for hit in answer["results"]] == ["deep green"]
        shown = process("show", "fact", UNKNOWN)
        assert (shown.code, shown.out, shown.err) == (3, "", f"error: there is no fact {UNKNOWN}\n")

    @ONE_ENGINE
    def test_help_loads_nothing_heavy(self, environ: dict[str, str]):
        script = "import sys; from tulving.interfaces.cli import run; run(['--help']); print('loaded', *sys.modules)"
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        help_text, loaded = ran.stdout.split("loaded ")
        assert "Usage: tulving" in help_text
        heavy = {"numpy", "onnxruntime", "sqlalchemy", "alembic", "mcp", "rich", "pydantic", "sqlite3", "platformdirs"}
        assert not heavy & set(loaded.split())

    @pytest.mark.parametrize(
        ("arguments", "not_needed"),
        [
            (["--version"], ("tulving.services", "asyncio", "tulving.interfaces.cli.render")),
            (["config", "--json"], ("tulving.interfaces.cli.worker", "tulving.interfaces.cli.operation")),
            (["list", "fact"], ("tulving.interfaces.cli.config", "tulving.interfaces.cli.init", "rich")),
        ],
    )
    @ONE_ENGINE
    def test_a_command_loads_what_it_needs(self, environ, arguments: list[str], not_needed: tuple[str, ...]):
        script = f"import sys; from tulving.interfaces.cli import run; run({arguments}); print('loaded', *sys.modules)"
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        loaded = ran.stdout.split("loaded ")[1].split()
        assert "tulving.interfaces.cli.commands" in loaded
        assert not set(not_needed) & set(loaded)

    @ONE_ENGINE
    def test_help_is_cheap(self, environ: dict[str, str]):
        def cpu() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        before = cpu()
        subprocess.run([sys.executable, "-m", "tulving", "--help"], capture_output=True, timeout=60, check=True)
        assert cpu() - before < 1.0, "far above the 0.2 seconds that it takes"

    @ONE_ENGINE
    def test_interrupting_ends_with_130(self, environ: dict[str, str]):
        with subprocess.Popen(
            [sys.executable, "-m", "tulving", "store", "note", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whoever runs the tests in the background may have told us to ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as waiting:
            used, before = psutil.Process(waiting.pid).cpu_times, None
            while before != (before := used()) or not before.user:
                time.sleep(0.5)
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(20) == 130
            assert waiting.stderr and waiting.stderr.read() == ""

    @ONE_ENGINE
    def test_a_closed_pipe_is_silent(self, environ: dict[str, str]):
        with subprocess.Popen(
            [sys.executable, "-m", "tulving", "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as ran:
            assert ran.stdout and ran.stderr
            ran.stdout.close()
            ran.wait(20)
            assert ran.stderr.read() == b""

    @ONE_ENGINE
    def test_colours_are_for_terminals_only(self, environ: dict[str, str], fact: str):
        command = f"{sys.executable} -m tulving recall color"
        plain = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60).stdout
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
        leader, follower = os.openpty()
        subprocess.run(command, shell=True, stdout=follower, env=environment, timeout=60)
        os.close(follower)
        coloured = os.read(leader, 65536).decode()
        os.close(leader)
        assert "\x1b[" in coloured
        assert "\x1b[" not in plain
        assert "Anna · color: green" in plain


@ONE_ENGINE
def test_without_arguments_it_explains_itself(cli):
    assert cli().out == cli("--help").out
    assert cli().code == 0
    assert "fact" in cli("store").out
    assert cli("--version").out == f"tulving {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dream"], "No such command"),
        (["search"], "Missing argument"),
        (["search", "x", "--nope"], "No such option"),
        (["search", "x", "--limit", "many"], "limit: 'many' is not a whole number"),
        (["search", "x", "--limit", "0"], "a whole number from 1 to 1000"),
        (["search", "x", "--types", "dream"], "allowed: episode, fact, rule"),
        (["search", "x", "--since", "soon"], "ISO 8601"),
        (["store", "episode", "x", "--metadata", "[1]"], "a JSON object"),
        (["store", "note", ""], "content: is empty"),
        (["show", "fact", "x"], "a UUID"),
        (["init", "cursor"], "--mcp"),
        (["init", "--mcp", "emacs"], "claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf, zed"),
        (["init", "--mcp", "--yes"], "--mcp claude-code|"),
        (["init", "--print"], "--mcp"),
        (["import", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--embedder", "magic", "list", "fact"], "minilm, hashing"),
        (["--url", "redis://x", "list", "fact"], "sqlite:///"),
        (["--url", "x.db", "init", "--project"], "one of the two"),
    ],
)
@ONE_ENGINE
def test_what_is_refused_is_said_on_one_line_with_code_2(cli, arguments: list[str], said: str):
    ran = cli(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "confirm", "forget", "delete"])
def test_what_is_not_there_ends_with_code_3(cli, command: str):
    ran = cli(command, "fact", UNKNOWN)
    assert (ran.code, ran.out, ran.err) == (3, "", f"error: there is no fact {UNKNOWN}\n")
    assert cli(command, "fact", UNKNOWN, "--json").code == 3


@ONE_ENGINE
class TestStoring:
    def test_the_same_again_takes_over_only_what_is_given(self, cli):
        shown = cli("store", "fact", "--help").out
        for default in ("0 to 10 [default: 5]", "ephemeral [default: standard]", "0 to 1 [default: 1]"):
            assert default in " ".join(shown.split())
        given = ("--importance", "9", "--tags", "home", "--permanence", "stable")
        fact = json.loads(cli("store", "fact", "Anna", "color", "green", *given, "--json").out)["id"]
        assert cli("store", "fact", "Anna", "color", "Green", "--confidence", "0.5").out.startswith("known already")
        memory = json.loads(cli("get", "fact", fact, "--json").out)["memory"]
        assert (memory["importance"], memory["permanence"], memory["confidence"]) == (9.0, "stable", 0.5)
        assert memory["tags"] == ["home"]

    def test_outcomes_are_told_in_words(self, cli, fact: str):
        newer = cli("store", "fact", "Anna", "color", "blue")
        assert f"which supersedes {fact}" in newer.out
        again = cli("store", "fact", "Anna", "color", "Blue")
        assert again.out.startswith("known already, so confirmed: fact ")
        note = cli("store", "note", "Likes tea")
        assert "(fact_" in note.out
        assert cli("store", "note", "LIKES tea").out.startswith("known already: note ")
        assert "expires" in cli("store", "episode", "We met").out

    def test_the_butler_is_the_command_line_itself(self, cli):
        id_ = json.loads(cli("store", "episode", "We met", "--json").out)["id"]
        assert json.loads(cli("show", "episode", id_, "--json").out)["memory"]["butler"] == "agent"

    def test_options_take_lists_objects_and_times(self, cli):
        stored = cli(
            *("store", "episode", "We met", "--butler", "diary", "--tags", "a", "--tags", "b"),
            *("--metadata", '{"k": 1}', "--occurred-at", "2026-01-02T03:04:05Z", "--importance", "7", "--json"),
        )
        value = json.loads(cli("show", "episode", json.loads(stored.out)["id"], "--json").out)["memory"]
        assert (value["butler"], value["tags"], value["metadata"]) == ("diary", ["a", "b"], {"k": 1})
        assert (value["occurred_at"], value["importance"]) == ("2026-01-02T03:04:05+00:00", 7.0)

    def test_a_dash_reads_standard_input(self, cli, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
        cli("store", "note", "-")
        assert "from a pipe" in cli("list", "fact").out


@ONE_ENGINE
class TestReading:
    def test_search_without_hits_is_no_error(self, cli):
        ran = cli("search", "anything")
        assert (ran.code, ran.out) == (0, "nothing found\n")

    @pytest.mark.parametrize("options", [(), ("--title", "Walk"), ("--source", "Ann")])
    def test_every_kind_is_found_with_or_without_its_details(self, cli, options: tuple[str, ...]):
        cli("store", "episode", "Walked the dog", *options)
        cli("store", "note", "The dog is Rex")
        cli("store", "fact", "Rex", "kind", "a dog")
        cli("store", "rule", "Walk the dog first")
        found = cli("search", "dog")
        assert (found.code, found.err) == (0, "")
        for content in ("Walked the dog", "The dog is Rex", "a dog", "Walk the dog first"):
            assert content in found.out
        assert all(option in found.out for option in options[1:])

    def test_hits_have_a_score_its_parts_and_an_id(self, cli, fact: str):
        cli("store", "rule", "Paint in Anna's color")
        out = cli("recall", "color").out
        assert out.count("relevance") == out.count("confidence") == 2
        assert fact in out
        assert "words match" in out

    def test_show_prints_all_that_is_known(self, cli, fact: str):
        out = cli("show", "fact", fact).out
        assert out.startswith(f"fact  {fact}\n  green\n")
        assert "predicate" in out
        assert "null" not in out

    def test_lists_go_on_with_a_cursor(self, cli, fact: str):
        cli("store", "fact", "Anna", "city", "Porto", "--tags", "home")
        first = cli("list", "fact", "--limit", "1").out
        assert "Porto" in first
        assert "#home" in first
        assert "green" in cli("list", "fact", "--limit", "1", "--cursor", first.split("--cursor ")[1].strip()).out
        assert cli("list", "rule").out == "no rules\n"

    def test_context_is_printed_as_it_is(self, cli, fact: str):
        ran = cli("context", "the color of Anna")
        assert ran.out == "# Memory Context\n\n## Key Facts\n- [Anna] [color]: green (confidence: 1.00)\n"
        assert json.loads(cli("context", "the color of Anna", "--json").out) == {"context": ran.out}

    def test_configured_defaults_are_in_the_help(self, cli, tmp_path: Path):
        (tmp_path / "tulving.toml").write_text("[retrieval]\ndefault_limit = 33\n")
        assert "[default: 33]" in cli("search", "--help").out
        assert "you if left out" in " ".join(cli("context", "--help").out.split())


def test_changing_a_memory(cli, fact: str):
    note = json.loads(cli("store", "note", "Likes tea", "--json").out)["ref"]
    assert cli("confirm", "fact", fact).out == f"confirmed fact {fact}\n"
    assert cli("link", "fact", fact, "related_to", "fact", note).out.startswith("created ")
    again = cli("link", "fact", fact, "related_to", "fact", note)
    assert (again.code, again.out.startswith("was there already:")) == (0, True)
    assert "related_to" in cli("links", "fact", fact).out
    assert cli("forget", "fact", note).out.startswith("forgotten fact ")
    assert "fact_forgotten" in cli("events", "fact", note).out
    assert cli("delete", "fact", fact, "--yes").out == f"deleted fact {fact}\n"
    assert cli("show", "fact", fact).code == 3


class TestFailing:
    def test_a_damaged_store_is_named(self, cli, path: Path):
        path.write_bytes(b"\x01" * 9000)
        ran = cli("context", "x")
        assert (ran.code, ran.out) == (1, "")
        assert str(path) in ran.err

    def test_errors_of_any_kind_are_one_line(self, cli, monkeypatch: pytest.MonkeyPatch):
        for error, said in ((DiskFull("no room"), "no room"), (ZeroDivisionError("odd"), "--verbose")):

            async def broken(*arguments, _error=error, **named):
                raise _error

            monkeypatch.setattr(Memory, "look", broken)
            ran = cli("confirm", "fact", UNKNOWN)
            assert (ran.code, ran.err.count("\n")) == (1, 1)
            assert said in ran.err


class TestSetup:
    def test_init_creates_the_store_with_its_folders_and_says_where(self, cli, tmp_path: Path):
        path = tmp_path / ".tulving files" / "b" / "memory.db"
        ran = cli("--url", str(path), "init")
        assert (ran.code, ran.err) == (0, "")
        assert f"store     {path} (new)" in ran.out
        assert "(new)" not in cli("--url", str(path), "init").out
        assert "tulving demo" in ran.out
        assert ran.out.count(f"tulving --url '{path}' ") == 3
        assert "tulving --tenant ann recall" in cli("--tenant", "ann", "init").out

    def test_init_for_a_project(self, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("TULVING_URL")
        below = tmp_path / "src"
        below.mkdir()
        assert "--url" not in cli("init", "--project").out
        assert (tmp_path / ".tulving" / "memory.db").is_file()
        assert (tmp_path / ".tulving" / ".gitignore").read_text().endswith("*\n")
        cli("store", "note", "kept here")
        monkeypatch.chdir(below)
        assert "kept here" in cli("list", "fact").out

    def test_init_takes_the_weights_from_a_folder_and_refuses_wrong_ones(self, cli, tmp_path: Path):
        (tmp_path / "weights").mkdir()
        (tmp_path / "weights" / "model.safetensors").write_bytes(b"x")
        ran = cli("--embedder", "minilm", "init", "--from", str(tmp_path / "weights"))
        assert ran.code == 1
        assert ran.err.startswith("error: ")

    def test_the_demo_convinces(self, cli, url: str):
        ran = cli("--url", url, "demo")
        assert (ran.code, ran.err) == (0, "")
        assert "lives in Porto" in ran.out
        assert "relevance" in ran.out
        assert "# Memory Context" in ran.out
        assert f"tulving --url {shlex.quote(store_name(url))} list" in ran.out
        assert "knows the story already" in cli("--url", url, "demo").out

    def test_the_demo_leaves_the_configured_store_alone(self, cli, fact: str):
        assert cli("demo").code == 0
        assert "Porto" not in cli("list", "fact").out

    def test_the_demo_works_without_weights_and_leaves_the_users_store_alone(
        self, cli, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.delenv("TULVING_URL")
        monkeypatch.setenv("TULVING_EMBEDDER", "minilm")
        ran = cli("demo")
        assert ran.code == 0
        assert "tulving init" in ran.err
        assert "lives in Porto" in ran.out
        assert not Path(environ["TULVING_HOME"], "memory.db").exists()

    def test_warnings_go_beside_the_output(self, cli):
        ran = cli("--embedder", "minilm", "store", "note", "x")
        assert ran.out.startswith("stored note ")
        assert ran.err.startswith("warning: ")
        assert "tulving init" in ran.err


class TestUpkeep:
    def test_verify_lists_its_checks(self, cli, fact: str):
        ran = cli("verify")
        assert (ran.code, ran.err) == (0, "")
        heading, *checks = ran.out.splitlines()
        assert heading.split() == ["check", "result"]
        assert all(line.endswith("ok") for line in checks)
        assert json.loads(cli("verify", "--json").out)["ok"] is True

    def test_verify_counts_what_waits_for_vectors(self, cli):
        cli("--embedder", "minilm", "store", "note", "x")
        assert "1 memories wait for their vectors" in cli("--embedder", "minilm", "verify").err

    def test_verify_fails_on_problems(self, cli, fact: str, url: str):
        run_sql(url, "UPDATE facts SET content = 'something else'")
        ran = cli("verify")
        assert ran.code == 1
        assert json.loads(cli("verify", "--json").out)["ok"] is False

    def test_export_and_import(self, cli, fact: str, monkeypatch: pytest.MonkeyPatch):
        assert cli("export", "all.jsonl").out == "wrote 1 fact, 1 event to all.jsonl\n"
        assert cli("--url", "other.db", "import", "all.jsonl").out == "added 1 fact, 1 event\n"
        assert cli("--url", "other.db", "import", "all.jsonl").out == "skipped 1 fact, 1 event\n"
        assert "green" in cli("--url", "other.db", "list", "fact").out
        exported = cli("export", "-").out
        assert exported == Path("all.jsonl").read_text()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.encode())))
        assert json.loads(cli("--url", "third.db", "import", "-", "--json").out)["facts"]["added"] == 1

    def test_an_export_to_nowhere_names_the_file_that_was_given(self, cli, fact: str):
        ran = cli("export", "nowhere/all.jsonl")
        assert ran.code == 2 and "nowhere/all.jsonl" in ran.err and ".part" not in ran.err

    def test_reembed(self, cli, fact: str, monkeypatch: pytest.MonkeyPatch):
        assert cli("reembed").out == "every memory has its vector already\n"
        assert cli("reembed", "--force").out == "embedded 1 memories\n"
        monkeypatch.setenv("TULVING_DIMENSION", "128")
        assert cli("list", "fact").code == 1
        assert json.loads(cli("reembed", "--json").out) == {"embedded": 1}
        assert cli("list", "fact").code == 0

    def test_config_tells_where_settings_come_from(self, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "tulving.toml").write_text('project = "house"\n[retrieval]\ndefault_limit = 7\n')
        cli("trust")
        monkeypatch.setenv("TULVING_TENANT", "family")
        said = json.loads(cli("--embedder", "minilm", "config", "--json").out)
        settings = {row["setting"]: (row["value"], row["source"]) for row in said["settings"]}
        file = str(tmp_path / "tulving.toml")
        assert settings["project"] == ("house", file)
        assert settings["retrieval.default_limit"] == (7, file)
        assert settings["tenant"] == ("family", "environment")
        assert settings["embedder"] == ("minilm", "option")
        assert settings["busy_timeout"] == (30.0, "default")
        assert said["settings_file"] == file
        assert "tulving init" in said["embedder"]
        assert cli("config").code == 0


def test_tenants_are_chosen_before_the_command(cli, fact: str):
    assert cli("--tenant", "other", "list", "fact").out == "no facts\n"
    assert cli("--tenant", "other", "show", "fact", fact).code == 3


def test_memories_cannot_take_hold_of_a_terminal(cli, capsys: pytest.CaptureFixture[str]):
    hostile = "\x1b[2J\x1b]0;title\x07 [red]x[/red] \u202egnp.exe \x9b1m"
    assert printable(hostile) == "\ufffd[2J\ufffd]0;title\ufffd [red]x[/red] \ufffdgnp.exe \ufffd1m"
    assert printable("Grüße, 世界\n\tok") == "Grüße, 世界\n\tok"
    table([[hostile, "x"]])
    assert "\x1b" not in capsys.readouterr().out
    cli("store", "note", f"clear {hostile}")
    for arguments in (["list", "fact"], ["search", "clear"]):
        out = cli(*arguments).out
        assert "\x1b" not in out
        assert "[red]x[/red]" in out
