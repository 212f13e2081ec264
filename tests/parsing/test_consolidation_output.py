import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tulving.domain.decay import PERMANENCE
from tulving.domain.learning import ConsolidationResult, LearnedFact, LearnedRule, UpdatedFact
from tulving.parsing.consolidation import EVIDENCE, SECTIONS, parse_consolidation_output

A, B, C = (UUID(int=number) for number in (1, 2, 3))
FACT = {"subject": "Ann", "predicate": "drinks", "content": "green tea"}
UPDATE = {**FACT, "target_id": str(A)}


def parse(episodes=None, known=None, **sections) -> ConsolidationResult:
    return parse_consolidation_output(json.dumps(sections), episodes, known)


@pytest.mark.scenario("001-048", "001-049")
@pytest.mark.parametrize("template", ["%s", "```json\n%s\n```", "Here:\n%s\nDone {sic}."])
def test_fenced_and_bare_answers_are_read(template):
    answer = {
        "new_facts": [{**FACT, "permanence": "stable", "importance": 7, "tags": ["tea"], "confidence": 0.8}],
        "updated_facts": [{**UPDATE, "permanence": "volatile"}],
        "new_rules": [{"content": "Offer tea first", "tags": ["tea"], "evidence": [str(B)]}],
        "confirmations": [str(C)],
    }
    assert parse_consolidation_output(template % json.dumps(answer), [B], {A, C}) == ConsolidationResult(
        new_facts=[LearnedFact(**FACT, permanence="stable", importance=7.0, tags=["tea"], confidence=0.8)],
        updated_facts=[UpdatedFact(**FACT, target_id=A, permanence="volatile")],
        new_rules=[LearnedRule(content="Offer tea first", tags=["tea"], evidence=(B,))],
        confirmations=[C],
        parse_errors=[],
    )


@pytest.mark.scenario("001-053")
@pytest.mark.parametrize("text", ["no JSON", "", "I learned nothing.", "<think>{}</think>"])
def test_without_json_there_is_one_error(text):
    errors = ["No JSON block found in consolidation output"]
    assert parse_consolidation_output(text) == ConsolidationResult(parse_errors=errors)


def test_broken_json_is_one_error():
    result = parse_consolidation_output("```json\n{invalid json}\n```")
    assert len(result.parse_errors) == 1
    assert result.parse_errors[0].startswith("Invalid JSON")


@pytest.mark.parametrize("sections", [{}, dict.fromkeys(SECTIONS), {s: [] for s in SECTIONS}, {"thoughts": [1]}])
def test_nothing_learned_is_no_error(sections):
    result = parse(**sections)
    assert not any(getattr(result, field) for field in (*SECTIONS, "parse_errors"))


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("value", [{}, "text", 1, True, {"0": FACT}])
def test_a_section_that_is_no_list_costs_only_itself(section, value):
    others = {"new_facts": [FACT], "new_rules": [{"content": "a"}]}
    result = parse(**{**others, section: value})
    assert result.parse_errors == [f"{section}: not a list"]
    assert len(result.new_facts) + len(result.new_rules) == 2 - (section in others)


@pytest.mark.scenario("001-050")
@pytest.mark.parametrize("field", FACT)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "missing"),
        ("", "missing"),
        (" \n\x00", "missing"),
        (42, "not text"),
        (["a"], "not text"),
        ({}, "not text"),
    ],
)
def test_a_new_fact_needs_subject_predicate_and_content(field, value, problem):
    result = parse(new_facts=[FACT, FACT, {**FACT, field: value}, {k: v for k, v in FACT.items() if k != field}])
    assert len(result.new_facts) == 2
    assert result.parse_errors == [f"new_facts[2]: {field} is {problem}", f"new_facts[3]: {field} is missing"]


@pytest.mark.scenario("001-050")
@pytest.mark.parametrize("value", ["super_permanent", None, 5, ["stable"], {}, "Stable "])
def test_an_invalid_permanence_is_standard(value):
    result = parse(new_facts=[{**FACT, "permanence": value}], updated_facts=[{**UPDATE, "permanence": value}])
    assert result.new_facts[0].permanence == "standard"
    assert result.updated_facts[0].permanence is None
    assert result.parse_errors == []


@pytest.mark.parametrize("value", PERMANENCE)
def test_a_valid_permanence_is_kept(value):
    assert parse(new_facts=[{**FACT, "permanence": value}]).new_facts[0].permanence == value


@pytest.mark.scenario("001-050")
@pytest.mark.parametrize(
    ("value", "importance"),
    [("-5", 1.0), ("99", 10.0), ("5.5", 5.5), ("1", 1.0), ("1e999", 10.0), ("9" * 5_000, 10.0), ("-" + "9" * 400, 1.0)]
    + [(value, 5.0) for value in ('"high"', "null", "NaN", "Infinity", "true", "[7]", '"7"')],
)
def test_importance_is_clamped(value, importance):
    text = json.dumps({"new_facts": [{**FACT, "importance": "?"}]}).replace('"?"', value)
    result = parse_consolidation_output(text)
    assert [fact.importance for fact in result.new_facts] == [importance]
    assert result.parse_errors == []


@pytest.mark.scenario("001-050")
@pytest.mark.parametrize(
    ("value", "tags"),
    [(None, []), ("tea", []), ({}, []), (["a", 1, None, " b\x00 ", "", "a", ["c"]], ["a", "b"])],
)
def test_tags_are_a_list_of_texts(value, tags):
    result = parse(new_facts=[{**FACT, "tags": value}], new_rules=[{"content": "a", "tags": value}])
    assert [result.new_facts[0].tags, result.new_rules[0].tags, result.parse_errors] == [tags, tags, []]


@pytest.mark.parametrize(
    ("value", "confidence"),
    [(None, None), ("0.9", None), (True, None), (float("nan"), None), (7, 1.0), (-1, 0.0), (0.3, 0.3)],
)
def test_confidence_is_a_number_or_unknown(value, confidence):
    assert parse(new_facts=[{**FACT, "confidence": value}]).new_facts[0].confidence == confidence


@pytest.mark.parametrize("key", EVIDENCE)
def test_evidence_has_several_names(key):
    result = parse({A, B}, new_facts=[{**FACT, key: [str(B), str(A), str(B)]}])
    assert (result.new_facts[0].evidence, result.parse_errors) == ((B, A), [])


@pytest.mark.parametrize("value", [None, []])
def test_evidence_may_be_left_out(value):
    assert parse({A}, new_facts=[{**FACT, "evidence": value}]).new_facts[0].evidence == ()


@pytest.mark.parametrize("value", [[str(C)], [str(A), str(C)], ["nonsense"], [None], [1], [[str(A)]]])
def test_evidence_that_was_not_shown_costs_the_entry(value):
    claims = {
        "new_facts": [FACT, {**FACT, "evidence": value}],
        "updated_facts": [UPDATE, {**UPDATE, "evidence": value}],
        "new_rules": [{"content": "a"}, {"content": "b", "evidence": value}],
    }
    result = parse({A, B}, **claims)
    assert [len(getattr(result, section)) for section in claims] == [1, 1, 1]
    assert result.parse_errors == [f"{section}[1]: names an episode that it was not shown" for section in claims]


def test_evidence_is_a_list():
    assert parse({A}, new_facts=[{**FACT, "evidence": str(A)}]).parse_errors == ["new_facts[0]: evidence is not a list"]


@pytest.mark.scenario("001-051")
@pytest.mark.parametrize("field", UPDATE)
def test_an_updated_fact_needs_all_its_fields(field):
    result = parse(updated_facts=[{**UPDATE, field: None}, UPDATE])
    assert result.updated_facts == [UpdatedFact(**FACT, target_id=A)]
    assert result.parse_errors == [f"updated_facts[0]: {field} is missing"]


@pytest.mark.scenario("001-051")
@pytest.mark.parametrize("value", ["not-a-uuid", "1", f"{A}0"])
def test_the_target_of_an_update_is_a_uuid(value):
    result = parse(updated_facts=[{**UPDATE, "target_id": value}])
    assert (result.updated_facts, result.parse_errors) == ([], ["updated_facts[0]: the id is not a UUID"])


@pytest.mark.scenario("001-052")
def test_invalid_confirmations_are_skipped():
    result = parse(confirmations=[str(A), "not-a-uuid", str(B), str(A), 7])
    assert result.confirmations == [A, B]
    assert result.parse_errors == [f"confirmations[{index}]: the id is not a UUID" for index in (1, 4)]


def test_only_what_was_shown_can_be_changed():
    result = parse(known=[B], updated_facts=[UPDATE], confirmations=[str(A), str(B)])
    assert (result.updated_facts, result.confirmations) == ([], [B])
    assert result.parse_errors == [
        "updated_facts[0]: names a memory that it was not shown",
        "confirmations[0]: names a memory that it was not shown",
    ]


def test_whatever_else_the_model_adds_is_ignored():
    added = dict.fromkeys(("tenant_id", "owner", "scope", "id", "user_id", "metadata"), "intruder")
    result = parse(**added, new_facts=[{**FACT, **added}], new_rules=[{"content": " a\x00\ud800 ", **added}])
    assert result == ConsolidationResult(
        new_facts=[LearnedFact(**FACT, tags=[])],
        new_rules=[LearnedRule(content="a", tags=[])],
        updated_facts=[],
        confirmations=[],
        parse_errors=[],
    )


@pytest.mark.parametrize("entry", [None, "text", 1, [], [FACT]])
def test_an_entry_that_is_no_object_is_skipped(entry):
    result = parse(new_facts=[entry, FACT])
    assert (len(result.new_facts), result.parse_errors) == (1, ["new_facts[0]: not an object"])


def test_at_most_200_entries_are_read():
    result = parse(new_facts=[FACT] * 200, new_rules=[{"content": "a"}] * 201)
    assert (len(result.new_facts), len(result.new_rules)) == (200, 200)
    assert result.parse_errors == ["new_rules: has 201 entries; only the first 200 were read"]


FIELDS = ("subject", "predicate", "content", "target_id", "permanence", "importance", "tags", "confidence", *EVIDENCE)


def entries(inner):
    return st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), inner, max_size=8)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from([str(A), "stable"]),
    lambda inner: st.lists(inner, max_size=4) | entries(inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(SECTIONS), VALUES | st.lists(entries(VALUES), max_size=3)))
@settings(deadline=None)
def test_no_shape_raises_and_no_error_quotes_much(sections):
    result = parse({A}, {A}, **sections)
    assert all(len(error) < 120 for error in result.parse_errors)
    for fact in result.new_facts:
        assert fact.subject and fact.predicate and fact.content and fact.permanence in PERMANENCE
        assert 1 <= fact.importance <= 10 and set(fact.evidence) <= {A}
        assert fact.confidence is None or 0 <= fact.confidence <= 1


@given(st.text())
@settings(deadline=None)
def test_no_text_raises(text):
    assert isinstance(parse_consolidation_output(text), ConsolidationResult)
