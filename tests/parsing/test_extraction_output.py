import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tulving.domain.learning import ExtractedFact, Extraction
from tulving.domain.model import CATEGORIES
from tulving.domain.profile import BLOCKS
from tulving.parsing.extraction import FACTS, parse_extraction_output

FACT = {"content": "Prefers tea", "category": "preference", "confidence": 0.9}
ALLOWED = ", ".join(CATEGORIES)


def parse(**sections) -> Extraction:
    return parse_extraction_output(json.dumps(sections))


@pytest.mark.scenario("003-001")
@pytest.mark.parametrize("key", FACTS)
@pytest.mark.parametrize("template", ["%s", "```json\n%s\n```", "<think>{}</think>Sure!\n%s\nAnything else?"])
def test_facts_are_read_from_a_models_answer(key, template):
    found = parse_extraction_output(template % json.dumps({key: [FACT, FACT]}))
    assert found == Extraction(facts=[ExtractedFact(**FACT)] * 2, parse_errors=[])


@pytest.mark.parametrize("text", ["", "Nothing to remember.", "[]"])
def test_without_json_there_is_one_error(text):
    assert parse_extraction_output(text) == Extraction(parse_errors=["No JSON block found in extraction output"])


def test_broken_json_is_one_error():
    (error,) = parse_extraction_output("```json\n{invalid}\n```").parse_errors
    assert error.startswith("Invalid JSON")


@pytest.mark.parametrize("text", ["{}", '{"facts": null, "profile": null}', '{"facts": [], "user": {}}', '{"mood": 1}'])
def test_nothing_found_is_no_error(text):
    assert parse_extraction_output(text) == Extraction(facts=[], parse_errors=[])


@pytest.mark.scenario("003-002")
@pytest.mark.parametrize(
    ("given", "category"),
    [(" Preference ", "preference"), ("GOAL", "goal"), ("", "context"), ("  ", "context"), (None, "context")],
)
def test_a_category_is_folded_or_context(given, category):
    assert parse(facts=[{**FACT, "category": given}, {"content": "a"}]) == Extraction(
        facts=[
            ExtractedFact(content="Prefers tea", category=category, confidence=0.9),
            ExtractedFact(content="a", category="context", confidence=0.5),
        ],
        parse_errors=[],
    )


@pytest.mark.scenario("003-002")
@pytest.mark.parametrize("category", ["hobby", 42, ["goal"], True, {}])
def test_an_unknown_category_is_refused(category):
    found = parse(facts=[{**FACT, "category": category}, *({**FACT, "category": each} for each in CATEGORIES)])
    assert [fact.category for fact in found.facts] == list(CATEGORIES)
    assert found.parse_errors == [f"facts[0]: category is not known; allowed: {ALLOWED}"]


@pytest.mark.parametrize(
    ("given", "confidence"),
    [("1.5", 1.0), ("-0.5", 0.0), ("0", 0.0), ("1", 1.0), ("0.75", 0.75), ("9" * 5_000, 1.0)]
    + [(given, 0.5) for given in ("null", '"0.9"', '"high"', "NaN", "Infinity", "-Infinity", "true", "[]")],
)
def test_confidence_is_clamped(given, confidence):
    found = parse_extraction_output(json.dumps({"facts": [{**FACT, "confidence": "?"}]}).replace('"?"', given))
    assert ([fact.confidence for fact in found.facts], found.parse_errors) == ([confidence], [])


@pytest.mark.parametrize(
    ("fact", "problem"),
    [("text", "not an object"), (None, "not an object"), ([FACT], "not an object"), ({}, "content is missing")]
    + [({**FACT, "content": content}, "content is missing") for content in (None, "", " \n\t", "\x00")]
    + [({**FACT, "content": content}, "content is not text") for content in (42, ["a"], {}, False)],
)
def test_a_fact_without_content_is_skipped(fact, problem):
    found = parse(newFacts=[FACT, fact])
    assert (len(found.facts), found.parse_errors) == (1, [f"newFacts[1]: {problem}"])


def test_facts_are_a_list_of_at_most_200():
    assert parse(facts={"content": "a"}).parse_errors == ["facts: not a list"]
    found = parse(facts=[FACT] * 201)
    assert (len(found.facts), len(found.parse_errors)) == (200, 1)


def test_the_profile_has_blocks_of_text():
    found = parse(profile={block: f" about {block}\x00 " for block in BLOCKS})
    assert (found.profile, found.parse_errors) == ({block: f"about {block}" for block in BLOCKS}, [])


NESTED = {
    "user": {
        "workContext": {"summary": "Baker", "shouldUpdate": True},
        "personalContext": {"summary": "Two cats"},
        "topOfMind": {"summary": "Old news", "shouldUpdate": False},
    },
    "history": {
        "recentMonths": "Moved",
        "earlierContext": {"summary": None},
        "longTermBackground": {"summary": "Born in Bern"},
    },
}


@pytest.mark.parametrize("sections", [NESTED, {"profile": NESTED}])
def test_the_profile_may_be_nested(sections):
    found = parse(**sections)
    assert found.profile == {"work": "Baker", "personal": "Two cats", "recent": "Moved", "background": "Born in Bern"}
    assert found.parse_errors == []


@pytest.mark.parametrize(
    "value",
    [None, "", "  ", 42, ["a"], True, {}, "unchanged", "(No change)", "N/A.", {"summary": 1}, {"shouldUpdate": True}]
    + [{"summary": "x", "shouldUpdate": should} for should in (None, "false", 0)],
)
def test_a_block_without_new_text_stays(value):
    found = parse(profile={"work": value, "recent": "Moved"})
    assert (found.profile, found.parse_errors) == ({"recent": "Moved"}, [])


def test_unknown_blocks_are_named():
    found = parse(profile={"work": "Baker", "horoscope": "Leo", "x" * 90: "y"}, user="Ann", history=[1])
    assert found.profile == {"work": "Baker"}
    shown = ("horoscope, " + "x" * 90)[:60]
    assert found.parse_errors == [
        f"profile: no such block: {shown}; allowed: {', '.join(BLOCKS)}",
        "user: not an object",
        "history: not an object",
    ]


def test_a_long_block_is_cut():
    assert parse(profile={"work": "x" * 3_999 + " y"}).profile == {"work": "x" * 3_999}


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(CATEGORIES),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["content", "category", "confidence", "user", "history", "summary", "workContext", *BLOCKS])
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*FACTS, "profile", "user", "history"]), VALUES))
@settings(deadline=None)
def test_no_shape_raises(sections):
    found = parse(**sections)
    assert set(found.profile) <= set(BLOCKS) and all(found.profile.values())
    assert all(f.content and f.category in CATEGORIES and 0 <= f.confidence <= 1 for f in found.facts)
    assert all(len(error) < 250 for error in found.parse_errors)


@given(st.text())
@settings(deadline=None)
def test_no_text_raises(text):
    assert isinstance(parse_extraction_output(text), Extraction)
