"""What a person sees of a search: why each memory was found, and why nothing was."""

import json

import pytest

from tulving.domain.relevance import SIGNALS

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine


@pytest.fixture
def stored(cli):
    for words in (
        ("store", "fact", "Anna", "drink", "green tea"),
        ("store", "rule", "Serve green tea hot"),
        ("store", "episode", "We drank green tea on the terrace", "--source", "Anna"),
    ):
        assert cli(*words).code == 0


@pytest.mark.parametrize("command", ["search", "recall"])
def test_why_tells_each_signal_in_words(cli, stored, command):
    plain, told = cli(command, "what does Anna drink").out, cli(command, "what does Anna drink", "--why").out
    if command == "search":
        assert [line for line in told.splitlines() if line in plain.splitlines()] == plain.splitlines(), "and no less"
    for name in ("words", "speaker", "substance"):
        assert SIGNALS[name].reason in told and SIGNALS[name].reason not in plain
    assert SIGNALS["date"].reason not in told, "nothing was asked of a date"


def test_nothing_found_says_what_came_closest_and_why_it_was_left_out(cli, stored):
    ran = cli("search", "green wall", "--min-relevance", "1")
    assert ran.code == 0
    assert "nothing found; looked at 3 (3 not relevant enough)" in ran.out
    assert "closest: " in ran.out and "green tea" in ran.out
    assert SIGNALS["words"].reason in ran.out
    assert cli("search", "zirconium", "--mode", "keyword").out.strip() == "nothing found"


def test_a_weak_hit_and_a_newer_one_are_marked(cli):
    cli("store", "episode", "my favourite drink is green tea", "--source", "Anna", "--occurred-at", "2025-01-01")
    newer = cli("store", "episode", "my favourite drink is black coffee", "--source", "Anna", "--json").out
    shown = cli("search", "what is the favourite drink of Anna").out
    assert f"a newer memory says something similar: {json.loads(newer)['id']}" in shown
    assert "weak" not in shown.split("black coffee")[0]
    for n in range(8):
        cli("store", "episode", f"the {n} walls of the house are of stone")
    assert "weak · " in cli("search", "who drinks at the house", "--limit", "20").out


def test_as_of_since_and_until(cli):
    for city, day in (("Rome", "2020-01-01"), ("Oslo", "2022-01-01")):
        cli("store", "fact", "Anna", "lives_in", city, "--occurred-at", day)
    assert "Rome" in cli("recall", "Anna", "--as-of", "2021-01-01").out
    assert "Oslo" in cli("recall", "Anna").out
    assert "Rome" in cli("context", "Anna", "--butler", "me", "--as-of", "2021-01-01").out
    assert "Oslo" in cli("context", "Anna", "--butler", "me").out
    assert "Oslo" not in cli("search", "Anna", "--until", "2022-01-01").out
    assert "Oslo" in cli("recall", "Anna", "--since", "2022-01-01").out
    assert "nothing found" in cli("recall", "Anna", "--since", "2023-01-01").out


@pytest.mark.parametrize("command", ["search", "recall"])
@pytest.mark.parametrize("value", ["2", "much", "-1"])
def test_a_bad_floor_is_refused_by_name(cli, command, value):
    ran = cli(command, "tea", "--min-relevance", value)
    assert (ran.code, ran.out) == (2, "")
    assert "min_relevance" in ran.err.replace("-", "_")


def test_as_json_it_is_the_same_answer_as_everywhere(cli, stored):
    found = json.loads(cli("search", "what does Anna drink", "--json").out)
    assert {"results", "mode", "candidates", "below_confidence", "below_relevance"} <= found.keys()
    assert all("relevance" in hit["parts"] and "speaker" in hit["parts"] for hit in found["results"])
    nothing = json.loads(cli("search", "green wall", "--min-relevance", "1", "--json").out)
    assert nothing["results"] == [] and nothing["closest"]["parts"]["relevance"] < 1
