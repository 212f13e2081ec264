"""`tulving tools`: a model's instructions, and what it says in return, by pipe."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STORE = '[[ABP_TOOL:memory_store_fact]]{"subject": "Anna", "predicate": "drinks", "content": "tea"}[[END_ABP_TOOL]]'
RECALL = '[[ABP_TOOL:memory_recall]] {"topic": "what Anna drinks"}'
VCP = "<<<[TOOL_REQUEST]>>>tool_name:「始」memory_stats「末」<<<[END_TOOL_REQUEST]>>>"


@pytest.fixture
def said(tmp_path: Path) -> Callable[[str], str]:
    """A file with what a model said."""

    def write(text: str) -> str:
        (tmp_path / "said.txt").write_text(text, encoding="utf-8")
        return str(tmp_path / "said.txt")

    return write


@pytest.mark.scenario("000-001")
def test_a_model_uses_the_memory_by_pipe(cli):
    """A shell plays the model: it answers the instructions with a call."""
    tulving = f"{sys.executable} -m tulving"
    model = f"sed -n '/ABP_TOOL/,/END_ABP/p; /a fact with/i {STORE}'"
    line = f"{tulving} tools prompt | {model} | {tulving} tools run"
    ran = subprocess.run(["sh", "-c", line], env=os.environ, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1), ran.stderr
    assert ran.stderr.startswith("19 tools, about ")
    assert ran.stdout.startswith('[[ABP_RESULT:memory_store_fact]]\n{"id": ')
    assert "\n\n[[ABP_RESULT:memory_recall]]\n" in ran.stdout
    assert '"content": "tea"' in ran.stdout and ran.stdout.endswith("\n[[END_ABP_RESULT]]\n")
    assert "Anna · drinks: tea" in cli("search", "tea").out


def test_what_is_printed_and_how_it_ends(cli, said):
    plain = cli("tools", "run", said("  I know nothing.\n\n"))
    assert (plain.code, plain.out, plain.err) == (0, "  I know nothing.\n\n", "")
    failed = cli("tools", "run", said(f'{STORE}\n[[ABP_TOOL:memory_recall]]{{"topc": "tea"}}[[END_ABP_TOOL]]'))
    assert failed.code == 1
    assert '[[ABP_RESULT:memory_recall]]\n{"error": "topc: is not a parameter of memory_recall' in failed.out
    cut = cli("tools", "run", said('Wait. [[ABP_TOOL:memory_recall]] {"topic": "wh'))
    assert (cut.code, cut.out.startswith("Wait. [[ABP_TOOL"), cut.err.startswith("warning: ")) == (1, True, True)
    answer = json.loads(cli("tools", "run", "--json", said(f"Look: {RECALL}")).out)
    assert (answer["called"], answer["prose"], answer["protocol"], answer["problems"]) == (True, "Look:", "abp", [])
    assert answer["results"][0]["value"]["results"][0]["content"] == "tea"
    assert json.loads(answer["text"].split("\n")[1])["results"][0]["content"] == "tea"
    assert cli("tools", "run", said(VCP)).out == VCP + "\n"
    assert cli("tools", "run", "--dual", said(VCP)).out.startswith(
        "<<<[TOOL_RESULT]>>>\ntool_name:「始」memory_stats「末」"
    )
    shown = cli("stats").out
    assert (
        "tool calls in text\n  abp                         2\n  vcp                         1  no ABP marker: 1\n"
        in shown
    )
    assert "  plain-text                  3  ABP call can't be read: 1, no ABP marker: 2\n" in shown
    assert "abp 2, vcp 1, plain-text 3" in cli("health").out
    assert json.loads(cli("stats", "--json").out)["tool_text"]["vcp"] == {"texts": 1, "fallbacks": {"no ABP marker": 1}}


def test_nothing_is_said_of_texts_where_there_were_none(cli, path):
    assert "tool calls" not in cli("stats").out + cli("health").out


def test_tool_sets(cli, path, said, monkeypatch):
    standard, every = cli("tools", "prompt"), cli("tools", "prompt", "--tools", "all")
    assert (standard.code, "\nmemory_health: " in standard.out, "\nmemory_health: " in every.out) == (0, False, True)
    call = said('[[ABP_TOOL:memory_list]]{"memory_type": "fact"}[[END_ABP_TOOL]]')
    assert cli("tools", "run", call).code == 1
    assert cli("tools", "run", "--tools", "all", call).code == 0
    monkeypatch.setenv("TULVING_TOOLS", "all")
    assert cli("tools", "prompt").out == every.out
    assert cli("tools", "run", call).code == 0


def test_the_instructions_need_no_store(cli, path, monkeypatch):
    monkeypatch.setenv("TULVING_URL", str(path.with_name("missing.db")))
    assert cli("tools", "prompt").code == 0
    assert cli("tools").out.startswith("Usage: tulving tools")
    assert not path.with_name("missing.db").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "--tools", "most", "{said}"], "allowed: minimal, standard, all"),
        (["prompt", "--tools", "most"], "allowed: minimal, standard, all"),
        (["run", "{empty}"], "is empty"),
    ],
)
def test_what_is_not_meant_is_refused(cli, path, said, arguments, problem):
    files = {"said": path.with_name("said.txt"), "empty": path.with_name("empty.txt")}
    files["empty"].write_text(" \n")
    said(STORE)
    ran = cli("tools", *(each.format(**files) for each in arguments))
    assert (ran.code, ran.out, problem in ran.err) == (2, "", True), ran
    assert cli("list", "fact").out == "no facts\n"
