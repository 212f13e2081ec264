"""`tulving evaluate`: a person's own questions."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine

STORED = [
    {"key": "tea", "kind": "fact", "subject": "Anna", "predicate": "drink", "content": "green tea"},
    {"key": "note", "kind": "note", "content": "Anna used to drink espresso"},
    {"key": "cello", "kind": "episode", "content": "Bela practised the cello", "occurred_at": "2026-03-01T12:00:00Z"},
    {"key": "door", "kind": "rule", "content": "Lock the door in the evening"},
]
ASKED = [
    {"question": "what does Anna drink", "expected": ["tea"], "outdated": "note", "category": "habits"},
    {"question": "when is the door locked", "expected": "door", "category": "house"},
    {"question": "who practised", "contains": ["CELLO"]},
    {"question": "zither", "answerable": False},
]


@pytest.fixture
def evaluate(cli, tmp_path: Path):
    def run(document: Any, *options: str):
        file = tmp_path / "questions.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return cli("evaluate", str(file), *options)

    return run


def test_the_memories_of_the_file_are_asked_in_a_store_of_their_own(evaluate, cli):
    done = evaluate({"memories": STORED, "questions": ASKED})
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["n", "R@5", "R@10", "R@20", "MRR"]
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["all", "3", "100.0", "(100.0–100.0)"],
        ["habits", "1", "100.0", "(100.0–100.0)"],
        ["house", "1", "100.0", "(100.0–100.0)"],
    ]
    assert "without an answer that got nothing or only weak hits" in done.out
    assert "of 1" in done.out
    assert " ms (p95 " in lines[-1]
    for kind in ("fact", "episode", "rule"):
        assert json.loads(cli("list", kind, "--json").out)["items"] == [], "the person's own store is as it was"


def test_the_same_as_json_with_the_rank_of_each_answer(evaluate):
    done = evaluate({"memories": STORED, "questions": ASKED}, "--verb", "recall", "--limit", "2", "--json")
    value = json.loads(done.out)
    assert (value["verb"], value["limit"], value["scores"]["questions"], value["unanswerable"]) == ("recall", 2, 3, 1)
    assert list(value["scores"]["recall"]) == ["2"]
    assert {"mean", "low", "high"} == set(value["scores"]["mrr"])
    assert [answer["question"]["text"] for answer in value["answers"]] == [asked["question"] for asked in ASKED]
    assert value["answers"][0]["ranks"] == [1]


def test_without_memories_the_own_store_is_asked_and_nothing_in_it_changes(evaluate, cli):
    id_ = json.loads(cli("store", "fact", "Anna", "drink", "green tea", "--json").out)["id"]
    question = {"question": "what does Anna drink", "expected": [id_]}
    for verb in ("search", "recall"):
        value = json.loads(evaluate({"questions": [question]}, "--verb", verb, "--json").out)
        assert value["answers"][0]["ranks"] == [1]
    memory = json.loads(cli("show", id_, "--json").out)["memory"]
    assert (memory["reference_count"], memory["last_referenced_at"]) == (0, None)


def test_the_kinds_and_the_mode_can_be_chosen(evaluate):
    document = {"memories": STORED, "questions": [{"question": "the door in the evening", "contains": "door"}]}
    for options, ranks in (
        (("--types", "rule", "--mode", "keyword"), [1]),
        (("--types", "fact", "--types", "episode"), [None]),
    ):
        assert json.loads(evaluate(document, *options, "--json").out)["answers"][0]["ranks"] == ranks


GOOD = {"question": "what?", "contains": "x"}


@pytest.mark.parametrize(
    ("document", "field", "problem"),
    [
        ("{", "file", "is not JSON"),
        ("[" * 100_000, "file", "is not JSON"),
        ("\x00", "file", "is not JSON"),
        ([], "file", "not an object"),
        ({}, "questions", "must be a list"),
        ({"questions": []}, "questions", "is empty"),
        ({"questions": "what?"}, "questions", "must be a list"),
        ({"questions": [GOOD], "answers": []}, "file.answers", "is not known"),
        ({"questions": ["what?"]}, "questions[0]", "not an object"),
        ({"questions": [GOOD, {"contains": "x"}]}, "questions[1].question", "is missing"),
        ({"questions": [{**GOOD, "question": "  "}]}, "questions[0].question", "is not a text"),
        ({"questions": [{**GOOD, "expect": []}]}, "questions[0].expect", "is not known"),
        ({"questions": [{"question": "what?"}]}, "questions[0].expected", "is missing"),
        ({"questions": [{"question": "what?", "expected": []}]}, "questions[0].expected", "is missing"),
        ({"questions": [{**GOOD, "expected": ["tea"]}]}, "questions[0].expected", "neither a key nor an id"),
        ({"questions": [{**GOOD, "expected": [1]}]}, "questions[0].expected", "is not a text"),
        ({"questions": [{**GOOD, "contains": {"x": 1}}]}, "questions[0].contains", "must be a list"),
        ({"questions": [{**GOOD, "outdated": "tea"}]}, "questions[0].outdated", "neither a key nor an id"),
        ({"questions": [{**GOOD, "category": 3}]}, "questions[0].category", "is not a text"),
        ({"questions": [{**GOOD, "answerable": "no"}]}, "questions[0].answerable", "is not a truth value"),
        ({"questions": [{**GOOD, "answerable": False}]}, "questions[0].contains", "has no answer"),
        ({"questions": [GOOD], "memories": {}}, "memories", "must be a list"),
        ({"questions": [GOOD], "memories": [3]}, "memories[0]", "not an object"),
        ({"questions": [GOOD], "memories": [{"key": "a"}]}, "memories[0].kind", "is not known"),
        ({"questions": [GOOD], "memories": [{"kind": "rule"}]}, "memories[0].key", "is missing"),
        ({"questions": [GOOD], "memories": [STORED[3], STORED[3]]}, "memories[1].key", "is used twice"),
        ({"questions": [GOOD], "memories": [{"kind": "rule", "key": "a"}]}, "memories[0].content", "is missing"),
        ({"questions": [GOOD], "memories": [{**STORED[3], "colour": 1}]}, "memories[0].colour", "is not a parameter"),
        ({"questions": [GOOD], "memories": [{**STORED[2], "occurred_at": "soon"}]}, "memories[0].occurred_at", "time"),
        ({"questions": [GOOD], "memories": [{**STORED[3], "content": " "}]}, "memories[0].content", "is empty"),
        (
            {"questions": [GOOD], "memories": [*STORED, {**STORED[0], "key": "b", "importance": 11}]},
            "memories[4].importance",
            "is 11",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_the_problem_and_what_is_allowed(evaluate, document, field, problem):
    done = evaluate(document)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {field}: ")
    assert problem in done.err
    assert "; allowed: " in done.err


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--verb", "find"), "verb"),
        (("--limit", "0"), "limit"),
        (("--limit", "1001"), "limit"),
        (("--mode", "fast"), "mode"),
        (("--mode", "keyword", "--verb", "recall"), "mode"),
        (("--types", "poem"), "types"),
    ],
)
def test_a_wrong_option_is_refused(evaluate, options, field):
    done = evaluate({"questions": [GOOD]}, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {field}: ")


def test_a_missing_file_is_named(cli):
    done = cli("evaluate", "nowhere.json")
    assert (done.code, done.out) == (1, "")
    assert "nowhere.json" in done.err
