"""What a person looks at: one memory with its past and its future, and how a fact has changed."""

import json

import pytest

from tulving.interfaces.cli.show import area


@pytest.fixture
def changed(cli) -> tuple[str, str]:
    """The ids of a fact and of the one that replaced it."""
    old = json.loads(cli("store", "fact", "Anna", "drink", "tea", "--json").out)["id"]
    return old, json.loads(cli("store", "fact", "Anna", "drink", "coffee", "--json").out)["id"]


def test_an_id_is_enough(cli, changed):
    old, new = changed
    shown = cli("show", new)
    assert (shown.code, shown.err) == (0, "")
    for part in ("coffee", "how it will fade", "█", "fading from", f"supersedes  fact {old}", "fact_created"):
        assert part in shown.out
    assert cli("show", "fact", new).out.splitlines()[0] == shown.out.splitlines()[0]
    over = cli("show", old).out
    assert "fact_superseded" in over
    assert "how it will fade" not in over, "it is out of use"


def test_the_view_as_json(cli, changed):
    _, new = changed
    value = json.loads(cli("show", new, "--json").out)
    assert (value["memory_type"], value["memory"]["content"]) == ("fact", "coffee")
    assert value["forecast"]["values"][0] > value["forecast"]["values"][-1]
    assert [event["event_type"] for event in value["events"]] == ["fact_created"]
    assert [link["relation"] for link in value["links"]] == ["supersedes"]


def test_other_kinds_are_found_by_their_id_too(cli):
    for words in (("store", "rule", "Be kind"), ("store", "episode", "we met")):
        id_ = json.loads(cli(*words, "--json").out)["id"]
        assert words[2] in cli("show", id_).out


@pytest.mark.parametrize("words", [("nothing", "like", "it"), ("person", "x"), ("not-an-id",)])
def test_what_names_no_memory_is_refused(cli, words):
    shown = cli("show", *words)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("error: ")


def test_an_unknown_id_has_a_code_of_its_own(cli):
    shown = cli("show", "00000000-0000-0000-0000-000000000000")
    assert (shown.code, shown.out) == (3, "")


def test_another_tenants_memory_is_not_there(cli, changed):
    assert cli("--tenant", "other", "show", changed[1]).code == 3
    assert cli("--tenant", "other", "history", "Anna", "drink").out == "nothing was ever stored for Anna · drink\n"


def test_a_fact_has_a_history(cli, changed):
    lines = cli("history", "Anna", "drink").out.splitlines()
    assert [line.split()[3:] for line in lines[::2]] == [["superseded", "tea"], ["active", "coffee"]]
    assert [line.strip() for line in lines[1::2]] == list(changed)
    facts = json.loads(cli("history", "Anna", "drink", "--limit", "1", "--json").out)["facts"]
    assert [fact["content"] for fact in facts] == ["coffee"], "the newest"
    assert cli("history", "Anna", "drink", "--limit", "0").code == 2
    cursor = json.loads(cli("history", "Anna", "drink", "--limit", "1", "--json").out)["next_cursor"]
    assert cli("history", "Anna", "drink", "--limit", "1").out.endswith(f"\nmore: --cursor {cursor}\n")
    assert cli("history", "Anna", "drink", "--cursor", cursor).out.splitlines() == lines[:-2]


def test_a_fact_that_arrives_late_is_in_its_place_of_the_history(cli, changed):
    late = cli("store", "fact", "anna", "Drink", "milk", "--occurred-at", "2020-05-01")
    assert late.code == 0 and late.out.startswith("kept as history: fact ")
    assert f", since {changed[1]} is newer" in late.out
    lines = cli("history", "ANNA", "drink").out.splitlines()[::2]
    assert lines[0].startswith("2020-05-01")
    assert [line.split()[3:] for line in lines] == [["superseded", "milk"], ["superseded", "tea"], ["active", "coffee"]]
    (line,) = cli("history", "Anna", "drink", "--as-of", "2021-01-01").out.splitlines()[::2]
    assert line.split()[3:] == ["active", "milk"]
    answer = json.loads(cli("store", "fact", "Anna", "drink", "water", "--occurred-at", "2019-05-01", "--json").out)
    assert (answer["outcome"], answer["superseded_by"]) == ("outdated", changed[1])
    assert "folded" not in cli("get", "fact", answer["id"], "--json").out


@pytest.mark.scenario("001-021", "001-034")
def test_a_person_who_looks_is_no_reference_and_a_recall_is_one(cli, changed):
    _, new = changed
    for words in (("show", new), ("show", "fact", new), ("get", "fact", new), ("get", "fact", new, "--json")):
        assert cli(*words).code == 0
    assert json.loads(cli("show", new, "--json").out)["memory"]["reference_count"] == 0
    (hit,) = json.loads(cli("recall", "Anna coffee", "--json").out)["results"]
    assert (hit["id"], hit["reference_count"]) == (new, 1)
    assert json.loads(cli("get", "fact", new, "--json").out)["memory"]["reference_count"] == 1, (
        "before the command ended"
    )
    assert "count" not in cli("show", "--help").out


def test_a_long_content_is_cut_in_lists_and_hits_and_whole_by_get(cli):
    """With its full length, in text and as JSON."""
    words = "tea " * 5_000
    id_ = json.loads(cli("store", "rule", words, "--json").out)["id"]
    for command in (("recall", "tea"), ("search", "tea"), ("list", "rule")):
        shown = cli(*command)
        assert "… (19,999 characters)" in shown.out and len(shown.out) < 1_000
        answer = json.loads(cli(*command, "--json").out)
        (cut,) = answer.get("results") or answer["items"]
        assert cut["content"].endswith("[cut: 19,999 characters in all]") and cut["content_length"] == 19_999
    assert words.strip() in cli("get", "rule", id_).out.replace("\n", " ")
    assert json.loads(cli("get", "rule", id_, "--json").out)["memory"]["content"] == words.strip()
    assert words.strip() in json.loads(cli("show", id_, "--json").out)["memory"]["content"]


def test_a_query_that_is_too_long_is_refused(cli):
    shown = cli("search", "x" * 10_001)
    assert (shown.code, shown.out) == (2, "")
    assert "query: has 10,001 characters; allowed: at most 10,000 characters" in shown.err


def test_an_area_is_drawn_in_eighths():
    assert area([1.0, 0.5, 0.25, 0.0], 2) == ["█   ", "██▄ "]
    assert area([0.0001], 1) == ["▁"], "what is there is seen"
    assert area([], 3) == ["", "", ""]
