"""Help: in groups, for every command, and in words that belong to the command line."""

import json
import re

import pytest

from tulving import __version__
from tulving.interfaces.cli.commands import BY_HAND, Commands, application
from tulving.interfaces.cli.interruption import LEFT
from tulving.services.operations import OPERATIONS

pytestmark = pytest.mark.usefixtures("path")


def test_the_commands_come_in_groups_one_line_each(cli):
    shown = cli("--help").out
    headings = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert headings == ["Options", "Remember", "Find", "Look", "Keep", "Run", "More"]
    listed = re.findall(r"^  ([a-z][a-z-]*)  +\S", shown, re.MULTILINE)
    assert sorted(listed) == sorted(Commands()), "each once"
    assert max(map(len, shown.splitlines())) <= 80
    assert "..." not in shown.split("Remember:")[1], "a text is cut"


def test_the_groups_name_every_command_and_none_that_is_gone():
    commands = {each.command for each in OPERATIONS.values() if each.command} | {*BY_HAND}
    assert {*Commands()} == {command.split()[0] for command in commands}
    assert LEFT.keys() <= {*Commands()}
    assert len(BY_HAND) == len({*BY_HAND})


def test_every_way_to_ask_for_help(cli):
    whole = cli("--help")
    assert [cli(*words).out for words in (("-h",), ("help",), ())] == [whole.out] * 3
    one = cli("store", "fact", "--help").out
    assert [cli(*words).out for words in (("store", "fact", "-h"), ("help", "store", "fact"))] == [one] * 2
    unknown = cli("help", "recal")
    assert (unknown.code, "'recall'" in unknown.err) == (2, True)


def test_the_version(cli):
    assert cli("version").out == cli("--version").out == f"tulving {__version__}\n"
    assert json.loads(cli("version", "--json").out) == {"version": __version__}


def test_help_speaks_of_commands_and_options_and_shows_what_is_required(cli):
    """Not of tools and parameters, which people do not see."""
    words = [[word] for word in Commands()] + [["store", "fact"], ["store", "note"], ["entity", "merge"]]
    inside = re.compile(rf"\b({'|'.join(OPERATIONS)}|dry_run|as_of|occurred_at)\b")
    for command in words:
        shown = cli(*command, "--help").out
        assert not inside.search(shown), command
        assert "{" not in shown.splitlines()[0], command
        assert not re.search(r"<\w*(str|int|float|path)", shown), command
    assert "QUERY\n" in cli("search", "-h").out
    for command in (["store", "note"], ["search"]):
        assert "standard input" in " ".join(cli(*command, "-h").out.split())


@pytest.mark.parametrize("option", ["--tenant", "--url", "--embedder", "--verbose"])
def test_an_option_behind_the_command_is_told_its_place(cli, option: str):
    ran = cli("list", "facts", option, "x")
    assert ran.code == 2
    assert ran.err.startswith(f"error: {option} goes before the command: tulving {option} ")
    assert ran.err.endswith("list ...\n")


@pytest.mark.parametrize("words", [["tulving"], ["tulving", "token"]])
def test_an_option_before_the_command_is_told_its_place(cli, words: list[str]):
    ran = cli(*words[1:], "--json", "list")
    told = f"--json goes after the command: {' '.join(words)} COMMAND --json"
    assert (ran.code, json.loads(ran.err)["error"]["message"]) == (2, told)


def test_an_unknown_embedder_is_named(cli):
    assert "'gpt' is not known" in cli("--embedder", "gpt", "stats").err


def test_help_at_forty_columns(cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    for words in ((), ("search",), ("store", "fact"), ("confirm",)):
        assert max(map(len, cli(*words, "--help").out.splitlines())) <= 40
    assert application().commands
