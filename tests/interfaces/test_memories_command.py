"""What a person decides about memories: by the beginning of their ids, several at once, and asked before deleting."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest
from raw_sql import run_sql

UNKNOWN = "00000000-0000-0000-0000-000000000001"
FACTS = [f"{start}-0000-7000-8000-000000000000" for start in ("abcd1111", "abcd2222", "ef012345")]


def stored(cli: Callable, *words: str) -> str:
    return json.loads(cli("store", *words, "--json").out)["id"]


@pytest.fixture
def facts(cli, url: str) -> list[str]:
    """Three facts with ids that were chosen for their beginnings."""
    made = [stored(cli, "fact", "Anna", predicate, "x") for predicate in ("one", "two", "three")]
    for old, new in zip(made, FACTS, strict=True):
        run_sql(url, f"UPDATE facts SET id = '{new}' WHERE id = '{old}'")
    return FACTS


def test_the_beginning_of_an_id_is_enough_for_every_command(cli, facts):
    whole = facts[2]
    for words in (
        ("show", "ef01"),
        ("show", "fact", "EF012345-0"),
        ("get", "facts", "ef01"),
        ("details", "ef01"),
        ("confirm", "ef01"),
        ("edit", "fact", "ef01", "--importance", "3"),
        ("link", "fact", "ef01", "related_to", "fact", "abcd1"),
        ("forget", "ef01"),
    ):
        ran = cli(*words)
        assert (ran.code, whole in ran.out) == (0, True), (words, ran)
    for verb in ("revisions", "links", "derived", "timeline", "events"):
        kind = () if verb == "timeline" else ("fact",)
        assert cli(verb, *kind, "ef01").out == cli(verb, *kind, whole).out


def test_what_is_not_clear_is_refused_and_nothing_is_changed(cli, facts):
    for words in (("forget", "ef01", "abcd"), ("delete", "ef01", "abcd", "--yes"), ("forget", "ef01", "abc")):
        ran = cli(*words)
        assert (ran.code, ran.out) == (2, ""), words
    assert "abcd is the beginning of several ids" in cli("show", "abcd").err
    assert all(f"fact {id_}" in cli("show", "abcd").err for id_ in facts[:2])
    assert "more of the id" in cli("show", "abcd").err
    assert "too short" in cli("show", "abc").err
    assert len(json.loads(cli("list", "facts", "--json").out)["items"]) == 3


@pytest.mark.usefixtures("path")  # whatever the engine
def test_no_more_than_a_few_candidates_are_named(cli, url: str):
    for number in range(7):
        id_ = stored(cli, "fact", "Anna", f"p{number}", "x")
        run_sql(url, f"UPDATE facts SET id = 'abcd000{number}-0000-7000-8000-000000000000' WHERE id = '{id_}'")
    said = cli("show", "abcd").err
    assert (said.count("fact abcd"), ", ..." in said) == (5, True)


def test_ids_of_others_are_not_there(cli, facts):
    assert cli("--tenant", "other", "show", "ef01").code == 3
    stored_there = json.loads(cli("--tenant", "other", "store", "rule", "x", "--json").out)["id"]
    assert cli("show", stored_there[:13]).code == 3
    assert cli("get", "rule", "ef01").code == 3, "it is a fact"


def test_ids_of_other_owners_and_scopes_are_not_there(cli, facts, monkeypatch: pytest.MonkeyPatch):
    for name, value in (("TULVING_USER_ID", "ann"), ("TULVING_PROJECT", "p")):
        monkeypatch.setenv(name, value)
        assert cli("show", "ef01").code == 3
        for noun, words in (
            ("session", ("sessions", "show")),
            ("run", ("undo",)),
            ("conflict", ("conflicts", "revert")),
        ):
            ran = cli(*words, "ef01")
            assert (ran.code, noun in ran.err) == (3, True)
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("path")  # whatever the engine
def test_sessions_entities_and_short_refs(cli):
    session = json.loads(cli("sessions", "start", "--json").out)["id"]
    assert session in cli("sessions", "show", session[:18]).out
    assert cli("sessions", "end", session[:18]).out == f"ended session {session}\n"
    entity = json.loads(cli("entity", "create", "Anna", "person", "--json").out)["entity_id"]
    assert entity in cli("entity", "show", entity[:18]).out
    ref = json.loads(cli("store", "note", "likes tea", "--json").out)["ref"]
    assert [cli(*words).code for words in (("show", ref), ("confirm", ref), ("forget", "fact", ref))] == [0, 0, 0]


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_plural_names_a_kind(cli, facts):
    assert cli("list", "facts").out == cli("list", "fact").out
    assert cli("list", "rules").out == "no rules\n"
    assert cli("search", "x", "--types", "facts", "--types", "rules").code == 0
    assert cli("list", "factses").code == 2


@pytest.mark.usefixtures("path")  # whatever the engine
@pytest.mark.parametrize(("verb", "done", "more"), [
    ("confirm", "confirmed", []), ("forget", "forgotten", []), ("delete", "deleted", ["--yes"]),
])  # fmt: skip
def test_several_at_once_each_reported(cli, facts, verb: str, done: str, more: list[str]):
    ran = cli(verb, "facts", "abcd1", UNKNOWN, facts[1], "abcd1", *more)
    assert ran.code == 3
    assert ran.out == "".join(f"{done} fact {id_}\n" for id_ in facts[:2])
    assert ran.err == f"error: there is no fact {UNKNOWN}\n"
    told = cli(verb, facts[2], UNKNOWN, "--json", *more)
    answer = json.loads(told.out)
    assert answer == {done: False, "memories": [{"memory_type": "fact", "memory_id": facts[2], done: True}]}
    assert json.loads(told.err)["error"]["type"] == "NotFound"


@pytest.mark.usefixtures("path")  # whatever the engine
def test_one_that_cannot_be_confirmed_does_not_keep_the_others_from_it(cli, facts):
    old = stored(cli, "fact", "Ben", "drink", "tea")
    stored(cli, "fact", "Ben", "drink", "coffee")
    ran = cli("confirm", old, facts[0])
    assert (ran.code, ran.out) == (3, f"confirmed fact {facts[0]}\n")
    assert f"the fact {old} is out of use" in ran.err
    episode = stored(cli, "episode", "we met")
    assert cli("confirm", "episode", episode).code == 2
    assert cli("confirm", episode).code == 3


@pytest.mark.usefixtures("path")
class TestAsking:
    def test_who_cannot_be_asked_must_have_said_yes(self, cli, facts, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        for words in (("delete", "fact", facts[0]), ("delete-profile",)):
            ran = cli(*words)
            assert (ran.code, ran.out) == (2, "")
            assert "--yes" in ran.err
        assert cli("show", facts[0]).code == 0

    @pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0), (b"\x04", 1)])
    def test_a_person_is_shown_what_would_be_gone(self, environ, cli, facts, answer: bytes, code: int):
        cli("edit", "fact", facts[0], "--content", "x\x1b[2J")
        leader, follower = pty.openpty()
        os.write(leader, answer)
        ran = subprocess.run(
            [sys.executable, "-m", "tulving", "delete", facts[0], facts[1]],
            stdin=follower,
            capture_output=True,
            text=True,
            timeout=60,
        )
        os.close(leader), os.close(follower)
        assert ran.returncode == code
        assert "fact  Anna · one: x\ufffd[2J" in ran.stderr, "it can't take hold of the terminal"
        assert "Delete these 2 memories for good? [y/N]" in ran.stderr
        assert cli("show", facts[0]).code == (3 if code == 0 else 0)


def test_a_key_that_was_never_used_says_so(cli):
    assert cli("history", "Anna", "shoe size").out == "nothing was ever stored for Anna · shoe size\n"
    assert json.loads(cli("history", "Anna", "shoe size", "--json").out) == {"facts": [], "next_cursor": None}
