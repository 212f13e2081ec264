import json
import re
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.parsing.tool_text_corpus import (
    CORPUS,
    END,
    EVIL,
    STORE,
    VCP_END,
    VCP_START,
    A,
    B,
    Case,
    abp,
    vcp,
)
from tulving.parsing.json_blocks import LONGEST_ANSWER
from tulving.parsing.tool_calls import MOST_PROBLEMS, ToolText, read


def calls_in(text, *, dual=False):
    return [(call.tool, call.parameters) for call in read(text, dual=dual).calls]


# -- the corpus --------------------------------------------------------------------------------------------------------


def test_the_corpus_is_large_and_has_no_case_twice():
    assert len(CORPUS) >= 200
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    assert sum(not case.calls for case in CORPUS) >= 100


@pytest.mark.scenario("000-001")
@pytest.mark.scenario("000-002")
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_each_text_has_its_calls_and_no_others(case: Case):
    found = read(case.text, dual=case.dual)
    assert [(call.tool, call.parameters) for call in found.calls] == case.calls
    assert found.text is case.text
    assert found.protocol == (found.calls[0].protocol if case.calls else "plain-text")
    assert (found.fallback is None) == (found.protocol == "abp")
    assert all(len(problem) < 500 for problem in found.problems)
    _check_places(found)


def _check_places(found: ToolText) -> None:
    at = 0
    for call in found.calls:
        assert at <= call.start < call.end <= len(found.text)
        assert re.match(r"\[\[\s*abp_tool|<<<\s*\[", found.text[call.start :], re.IGNORECASE)
        assert call.tool in found.text[call.start : call.end]
        assert call.protocol == found.protocol
        at = call.end


# -- which protocol, and why -------------------------------------------------------------------------------------------

REQUEST = vcp(tool_name="memory_search", query="tea")
UNREADABLE = abp("memory_search", " tea ")


@pytest.mark.scenario("000-003")
@pytest.mark.scenario("000-004")
@pytest.mark.parametrize(
    ("text", "dual", "protocol", "fallback", "problems"),
    [
        (A, False, "abp", None, 0),
        (A, True, "abp", None, 0),
        (f"{REQUEST}{A}", True, "abp", None, 0),
        (f"{UNREADABLE}{A}", False, "abp", None, 1),
        ("Hello!", False, "plain-text", "no ABP marker", 0),
        ("Hello!", True, "plain-text", "no ABP marker", 0),
        (REQUEST, False, "plain-text", "no ABP marker", 0),
        (REQUEST, True, "vcp", "no ABP marker", 0),
        (f"`{EVIL}`", False, "plain-text", "ABP call is only quoted", 0),
        (f"`{EVIL}`\n{REQUEST}", True, "vcp", "ABP call is only quoted", 0),
        (vcp(tool_name="x", text=EVIL), True, "vcp", "ABP call is only quoted", 0),
        (UNREADABLE, False, "plain-text", "ABP call can't be read", 1),
        (UNREADABLE, True, "plain-text", "ABP call can't be read", 1),
        (f"{UNREADABLE}\n{REQUEST}", False, "plain-text", "ABP call can't be read", 1),
        (f"{UNREADABLE}\n{REQUEST}", True, "vcp", "ABP call can't be read", 1),
        (f"{UNREADABLE}\n{VCP_START}", True, "plain-text", "ABP call can't be read", 2),
        (VCP_START, True, "plain-text", "no ABP marker", 1),
        (A + " " * (LONGEST_ANSWER - len(A)), False, "abp", None, 0),
        (A + " " * (LONGEST_ANSWER + 1 - len(A)), True, "plain-text", "too long", 0),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_the_protocol_and_the_reason_are_told(text, dual, protocol, fallback, problems):
    found = read(text, dual=dual)
    assert (found.protocol, found.fallback, len(found.problems)) == (protocol, fallback, problems)
    assert found.text is text
    if protocol == "plain-text":
        assert found.calls == () and found.prose == text.strip()


def test_prose_is_what_stands_beside_the_calls():
    assert read(f" I look. {A} Then:\n{B}\nDone. ").prose == "I look.  Then:\n\nDone."
    assert read(f"So:\n{REQUEST}\n", dual=True).prose == "So:"
    assert read(A).prose == ""
    assert read(f"Like `{EVIL}`.\n{A}").prose == f"Like `{EVIL}`."
    assert read(f"So: {UNREADABLE}{A}").prose == f"So: {UNREADABLE}"


def test_the_places_of_calls_are_told():
    text = f"First {A}, then {B}."
    first, second = read(text).calls
    assert text[first.start : first.end] == A
    assert text[second.start : second.end] == B
    assert not first.repaired
    assert read(abp("memory_search", '{"query": "tea",}')).calls[0].repaired
    (request,) = read(f"So:\n{REQUEST}\n", dual=True).calls
    assert request.start == 4 and request.end == 4 + len(REQUEST) and not request.repaired


def test_problems_are_few_and_in_order():
    many = read("".join(abp(f"tool_{n}", "?") for n in range(MOST_PROBLEMS)))
    assert len(many.problems) == MOST_PROBLEMS and "tool_0:" in many.problems[0] and "tool_19:" in many.problems[-1]
    more = read("".join(abp(f"tool_{n}", "?") for n in range(MOST_PROBLEMS + 2)))
    assert more.problems == (*many.problems, "2 more calls can't be read")


# -- any text ----------------------------------------------------------------------------------------------------------

PIECES = st.lists(
    st.sampled_from(
        [
            *("[[ABP_TOOL:", "[[ABP_TOOL:x]]", END, "]]", "[[", A, B, '{"a": 1}', '{"a": "', '"}', '{"a":"b",}'),
            *("{", "}", "[", "]", '"', "'", "\\", ":", ",", "1", "a", " ", "\n", "\n\n", "```", "~~~", "`", ">", "//"),
            *(
                "<think>",
                "</think>",
                VCP_START,
                VCP_END,
                "tool:「始」x「末」",
                "「始」",
                "「末」",
                "：",
                "NaN",
                "...",
                "None",
            ),
        ]
    )
    | st.text(max_size=3)
).map("".join)


@given(PIECES | st.text(), st.booleans())
@example("\ud800[[ABP_TOOL:\x00]]{\x00}", True)
@settings(deadline=None, max_examples=200)
def test_no_text_raises_and_nothing_is_invented(text, dual):
    found = read(text, dual=dual)
    assert found.text is text
    assert len(found.problems) <= MOST_PROBLEMS + 1
    _check_places(found)
    for call in found.calls:
        inside = text[call.start : call.end]
        assert all(
            word in inside or json.dumps(word, ensure_ascii=False)[1:-1] in inside for word in _texts(call.parameters)
        )
        json.dumps(call.parameters, allow_nan=False)


def _texts(value):
    if isinstance(value, str):
        return [value]
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in _texts(part)]


HOSTILE = st.lists(
    st.sampled_from(
        [A, EVIL, END, "[[ABP_TOOL:x]]", VCP_START, VCP_END, "```\n", "`", "<think>", "</think>", '"', "{", "}"]
    )
    | st.text(max_size=4)
).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=8,
)
PARAMETERS = st.dictionaries(HOSTILE, JSON, max_size=4).filter(lambda given: given.keys() != {"action", "parameters"})


@given(PARAMETERS, st.booleans(), st.sampled_from([END, ""]), st.sampled_from([None, 1]))
@settings(deadline=None)
def test_any_parameters_arrive_whole(parameters, as_ascii, end, indent):
    body = json.dumps(parameters, ensure_ascii=as_ascii, indent=indent)
    text = f"Well. [[ABP_TOOL:the tool]]{body}{end}\nThen:\n{B}"
    assert calls_in(text, dual=True) == [("the tool", parameters), STORE]


@given(PARAMETERS, st.integers(min_value=0))
@settings(deadline=None)
def test_no_call_that_is_cut_off_is_read(parameters, place):
    text = abp("x", {**parameters, "last": 1}, end="")
    if END not in text:  # cut off just behind a quoted end mark, a call looks like one that lacks its quote
        assert calls_in(text[: place % len(text)], dual=True) == []


@given(PARAMETERS, st.integers(min_value=0), st.sampled_from(["", '"', ",", "{", "}", "[", "\n", ":"]))
@settings(deadline=None, max_examples=50)
def test_a_damaged_call_has_its_own_words_or_is_not_read(parameters, place, sign):
    """A sign that is lost or added never makes another tool be called, and never takes a word away. (Only a quotation
    whose marks happen to fit those around it can't be told from calls.)"""
    body = json.dumps({"first": parameters, "last": 1}, ensure_ascii=False)
    at = place % len(body)
    if body[at] in '"{}[],: ' and body[at - 1] != "\\" and not re.search(r"END_ABP_TOOL\]\].*ABP_TOOL:x\]\]", body):
        text = abp("the tool", body[:at] + sign + body[at + 1 :])
        for tool, found in calls_in(f"{text}\n"):
            assert tool == "the tool"
            assert _letters(found) == _letters({"first": parameters, "last": 1})


def _letters(value):
    text = re.sub(r"\\(u....|[nrtbf])", "", json.dumps(value, ensure_ascii=False))
    return sorted(letter for letter in text if letter.isalpha())


# -- work grows with the length only -----------------------------------------------------------------------------------

UNITS = (
    *(
        "[[ABP_TOOL:",
        "[[ABP_TOOL:x]]",
        "[[ABP_TOOL:x]]{",
        '[[ABP_TOOL:x]]{"a":"',
        "[[ABP_TOOL:x]]{}",
        A,
        EVIL[:-20],
        END,
    ),
    *(
        "{",
        '"',
        "[{",
        '{"a":',
        "```\n",
        "```x ",
        "````\n```x\n",
        "` ``",
        "~~~\n",
        ">\n",
        "<think>",
        "</think>",
        " ",
        "// ",
        "\\",
    ),
    *(VCP_START, "key:「始」", "key:「始」v「末」", REQUEST, abp("x", '{"a":1,}'), abp("x", '{"a":"b}') + "\n"),
    *('[[ABP_TOOL:x]]{\\"' + end for end in (f"{END}\n", f'{END}\n" "')),
    *('{"[[ABP_TOOL:x]]",', '{"\\[[ABP_TOOL:x]]', "[1]", "a: b, "),
)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("template", [f"{A}%s{A}{REQUEST}", f'[[ABP_TOOL:x]]{{"a": %s}}{END}{VCP_START}%s{VCP_END}'])
def test_work_grows_with_the_length_only(unit, template):
    def seconds(length: int) -> float:
        text = template.replace("%s", unit * (length // len(unit) // template.count("%s")))
        begun = process_time()
        read(text, dual=True)
        return process_time() - begun

    assert min(seconds(32_000), seconds(32_000)) <= 16 * min(seconds(4_000), seconds(4_000)) + 0.05
