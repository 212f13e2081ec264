import json
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tulving.parsing.json_blocks import LONGEST_ANSWER, find_object

WANTED = ("facts", "rules")
ANSWER = {"facts": [{"content": 'a "}" and a \\ and a ``` {'}]}
TEXT = json.dumps(ANSWER)
PRETTY = json.dumps(ANSWER, indent=2)


@pytest.mark.scenario("001-048")
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{PRETTY}\n```",
        f"```\n{TEXT}\n```",
        f"~~~JSON\n{TEXT}\n~~~",
        f"````json5\n{TEXT}\n````",
        f"```json {TEXT}```",
        f"```{TEXT}``` as you asked",
        f"Here it is: ```json\n{TEXT}\n``` Good luck {{you}}!",
        f"  ```json\r\n{TEXT}\r\n  ```\r\n",
        f"```json\n{TEXT}",
        f"```json\n{TEXT}\n```\n\nAnother bare one: " + '{"facts": []}',
        f'```json\n{{"facts": []}}\n```\nBetter:\n```json\n{TEXT}\n```',
        f'```json\n{TEXT}\n```\nThe other one:\n```json\n{{"note": 1}}\n```',
        f'```json\n{TEXT}\n```\nThe other one:\n```json\n{{"facts": [}}\n```',
        f'```python\nx = {{"facts": 1}}\n```\n```json\n{TEXT}\n```',
        f'It is 5" {{ long.\n```json\n{TEXT}\n```',
    ],
)
def test_a_fenced_object_is_found(text):
    assert find_object(text, WANTED) == (ANSWER, None)


@pytest.mark.scenario("001-049")
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f'Well, "so": {TEXT} is all.',
        f'{{"facts": []}} or rather {TEXT}',
        f"{TEXT} or rather {{}} or {{'a'}}",
        f"A {{stray brace. {TEXT}",
        f"A stray brace }} and a quote \" and don't. {TEXT}",
        f"[{TEXT}]",
        f'<think>Perhaps {{"facts": [1]}}?</think>{TEXT}',
        f'So. <think>Perhaps {{"facts": [1]}}? <b></think>\n{TEXT}',
        f'Perhaps {{"facts": [1]}}?\n</think>\n{TEXT}',
        f'{TEXT}\n<thinking>\n{{"facts": [1]}}\n</thinking>',
        f'{TEXT}\n<think>\n{{"facts": [1]}}',
        f"```python\nprint(1)\n```\n{TEXT}",
    ],
)
def test_a_bare_object_is_found(text):
    assert find_object(text, WANTED) == (ANSWER, None)


def test_a_tag_in_a_string_is_no_thought():
    answer = {"facts": ["<think>", "</think>", "</think>{"]}
    assert find_object(json.dumps(answer), WANTED) == (answer, None)
    assert find_object(json.dumps(answer, indent=1), WANTED) == (answer, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("Nothing to learn: {}", {}),
        ('```json\n{}\n```\n{"note": 1}', {}),
        ('{"note": {"deep": []}}', {"note": {"deep": []}}),
        ("Use {name} here. {}", {}),
        ("No {facts} here. {}", {}),
        ('{"facts": 1, "facts": 2}', {"facts": 2}),
        ('{"facts": [NaN, Infinity, -Infinity]}', {"facts": [None, None, None]}),
        ('{"facts": ' + "9" * 5_000 + "}", {"facts": float("inf")}),
        ('{"facts": "a\nb\tc"}', {"facts": "a\nb\tc"}),
        ('{"facts": "\\ud800\x00"}', {"facts": "\ud800\x00"}),
    ],
)
def test_whatever_decodes_is_taken(text, value):
    assert find_object(text, WANTED) == (value, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"facts": ["a", "b",],}',
        "{'facts': ['a', 'b']}",
        '{facts: ["a", "b"]} // done',
        '{"facts": ["a" "b"]}',
        '{"facts": ["a", "b"]',
        '{} {"facts": ["a", "b",]}',
        '```json\n{"facts": ["a", "b"]\n```\nThat is all.',
        '{"facts": ["a", "b", /* two */ ]}',
    ],
)
def test_a_slightly_broken_object_is_repaired(text):
    assert find_object(text, WANTED) == ({"facts": ["a", "b"]}, None)


@pytest.mark.parametrize(
    "text", ["", "nothing", "[]", "}", "<think>{}</think>", '<think>{"facts": []}', "```json\n[]\n```"]
)
def test_no_brace_is_no_error(text):
    assert find_object(text, WANTED) == (None, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```json\n{invalid json here}\n```", "Expecting property name"),
        ("{invalid", "not closed"),
        ('{"note": {"a": 1}', "not closed"),
        ('[{"content": "a"}, {"content": "b"}]', "a list"),
        ('{"facts": [{"content": "a"}, {"content": "lives in Ber', "cut off"),
        ('{} {"facts": [{"content": "lives in Ber', "cut off"),
        ('```json\n{"facts": ["a", ', "cut off"),
        ('{"a": ' * 101 + "1" + "}" * 101, "100 levels"),
        ('{"facts": ' + "[" * 100_000, "100 levels"),
        ('{"facts": [' + '"a" b" ' * 10_000 + "]}", "too long to be repaired"),
        ('{"facts": ' + "a:b," * 5_000 + "]}", "too long to be repaired"),
        ("{}" + " " * LONGEST_ANSWER, "1,000,002 characters"),
        ('{"note": "facts: 1",, }', "Expecting property name"),
    ],
)
def test_what_can_not_be_read_is_said(text, problem):
    value, error = find_object(text, WANTED)
    assert value is None
    assert error is not None and error.startswith("Invalid JSON: ")
    assert problem in error
    assert len(error) < 200


def test_nesting_is_counted_from_the_outermost_object():
    text = '{"facts": ' + "[" * 99 + "]" * 99 + "}"
    assert find_object(f"{text} {text}", WANTED)[1] is None
    stray = "{" + "]" * 2_000 + '{"facts":' * 2_000 + "1" + "}" * 2_000
    assert find_object(stray, WANTED) == (None, "Invalid JSON: nested more than 100 levels")


def test_repair_is_loaded_only_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "json_repair", None)
    assert find_object(f"{{broken}} {TEXT}", WANTED) == (ANSWER, None)
    with pytest.raises(ModuleNotFoundError):
        find_object('{"facts": [1,]}', WANTED)


UNITS = (
    *'{ } {} {x} [{ {" "{ {"facts": {"facts":1} ~~~ ``` <think> {"a":"\\'.split(),
    *("```\n{\n", "```{}```\n", "</think>\n", "\n ", "facts "),
)


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_answer_is_read_in_one_pass(unit):
    """With quadratic work this would run into the time limit of tests by far."""
    text = "{" + unit * (LONGEST_ANSWER // 2 // len(unit)) + "}"
    assert find_object(text, WANTED)[0] in (None, {}, {"facts": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(WANTED),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.sampled_from(WANTED), inner),
    max_leaves=12,
)
PIECES = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", '"', "'", "\\", ":", ",", "```", "~~~", "json", "\n", "<think>", "</think>", "facts"]
    )
    | st.text(max_size=3)
).map("".join)


@given(st.text() | PIECES)
@example("\ud800{\x00}")
@settings(deadline=None)
def test_no_text_raises(text):
    value, error = find_object(text, WANTED)
    assert value is None or error is None
    assert isinstance(value, dict | None)
    assert error is None or error.startswith("Invalid JSON: ")


@given(JSON, PIECES, st.integers(min_value=0), st.integers(0, 3))
@settings(deadline=None)
def test_no_mutated_json_raises(value, noise, place, cut):
    text = json.dumps({"facts": value})
    at = place % len(text)
    find_object(text[:at] + noise + text[at + cut :], WANTED)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=3), st.text(alphabet="ab \"'.,:}]\n"), st.text(max_size=20))
@settings(deadline=None)
def test_an_object_is_found_in_any_prose(extra, before, after):
    answer = json.loads(json.dumps({**extra, "facts": 1.5}), parse_constant=lambda _: None, parse_int=float)
    prose = after.replace("{", "").replace("<", "")
    assert find_object(before + json.dumps(answer) + prose, WANTED) == (answer, None)
