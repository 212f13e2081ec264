import json

import pytest

from tests.parsing.tool_text_corpus import END, EVIL, SEARCH, STORE, A, B, T, abp
from tulving.parsing import abp as protocol
from tulving.parsing.json_blocks import DEEPEST, LONGEST_NUMBER
from tulving.parsing.tool_calls import read


def calls_in(text):
    return [(call.tool, call.parameters) for call in read(text).calls]


@pytest.mark.scenario("000-001")
def test_the_tool_is_named_by_the_marker_and_the_parameters_are_typed():
    (call,) = read(
        '[[ABP_TOOL: memory_store_fact ]]\n{"content": "a", "importance": 7, "tags": ["x"], "ok": true}\n' + END
    ).calls
    assert (call.tool, call.protocol, call.repaired) == ("memory_store_fact", "abp", False)
    assert call.parameters == {"content": "a", "importance": 7, "tags": ["x"], "ok": True}
    assert type(call.parameters["importance"]) is int


@pytest.mark.scenario("000-002")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[ABP_TOOL:]]{}" + END, "ABP call: write the tool's name into its start, [[ABP_TOOL:name]]"),
        ("[[ABP_TOOL]]{}" + END, "ABP call: write the tool's name into its start, [[ABP_TOOL:name]]"),
        ("[[ABP_TOOL:x]{}" + END, "ABP call of x: its start is not closed by ]]"),
        ('[[ABP_TOOL:x]]{"a": "b', "ABP call of x: it is cut off"),
        ("[[ABP_TOOL:x]]{", "ABP call of x: it is cut off"),
        ("[[ABP_TOOL:x]]", f"ABP call of x: neither its parameters nor {END} follow its start"),
        (abp("x", "?"), "ABP call of x: no JSON object between its marks"),
        (abp("x", "[{}]"), "ABP call of x: invalid JSON: a list, not an object"),
        (abp("x", '{"a": }'), "ABP call of x: invalid JSON: Expecting value at line 1, column 7 of the block"),
        (abp("x", '{"a": 1e999}'), "ABP call of x: invalid JSON: a number is too large"),
        (abp("x", '{"a": NaN}'), "ABP call of x: invalid JSON: NaN, Infinity and ... are no values"),
        (abp("x", '{"a": 1}, "b": 2}'), "ABP call of x: a part of its parameters is outside of the braces"),
        (f'[[ABP_TOOL:x]]{{"a": 1 {B}', "ABP call of x: its JSON is not closed before the next call"),
        (
            f'[[ABP_TOOL:x]]{{"a": "{EVIL}',
            "ABP call of x: a string or brace is not closed, so nothing behind it was read",
        ),
    ],
)
def test_what_can_not_be_read_is_said_to_the_model(text, problem):
    assert read(text).problems[0] == problem


def test_other_marks_are_none():
    assert read("[[ABP_TOOLS:x]]{}" + END).fallback == "no ABP marker"


def test_what_would_have_to_be_read_again_and_again_is_left_alone():
    found = read(f'[[ABP_TOOL:x]]{{\\"{END}\n' * 50)
    assert found.problems[-1] == "The rest of the text can't be read: its quotes are not closed"
    assert len(found.problems) < 10


def test_limits_are_inclusive():
    name = "x" * 200
    assert calls_in(abp(name, {})) == [(name, {})]
    assert calls_in(abp(f"{name}x", {})) == []
    deep = '{"a": ' * DEEPEST + "1" + "}" * DEEPEST
    assert calls_in(abp("x", deep)) == [("x", json.loads(deep))]
    assert calls_in(abp("x", f'{{"a": {deep}}}')) == []
    assert read(abp("x", f'{{"a": {deep}}}')).problems == (
        f"ABP call of x: its JSON is nested more than {DEEPEST} levels",
    )
    lists = '{"a": ' + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1) + "}"
    assert len(calls_in(abp("x", lists))) == 1
    assert calls_in(abp("x", f'{{"a": {lists}}}')) == []
    digits = "9" * LONGEST_NUMBER
    assert calls_in(abp("x", f'{{"a": {digits}}}')) == [("x", {"a": int(digits)})]
    assert calls_in(abp("x", f'{{"a": {digits}9}}')) == []
    assert calls_in(abp("x", '{"a": 1e308}')) == [("x", {"a": 1e308})]


def test_a_repaired_call_says_so():
    whole, broken = read(f"{A}\n{abp('memory_search', T[:-1])}").calls
    assert whole.parameters == broken.parameters
    assert (whole.repaired, broken.repaired) == (False, True)


def test_repairs_of_one_text_are_limited_together(monkeypatch):
    broken = abp("x", '{"a": 1,}')
    few = read(f"{broken}\n" * 100)
    assert len(few.calls) == 100 and not few.problems
    many = read(f"{broken}\n" * 300 + A)
    assert 100 < len(many.calls) < 200 and many.calls[-1].tool == "memory_search"
    assert many.problems[0] == "ABP call of x: invalid JSON: repairing it would take too long"
    long = abp("x", json.dumps({"a": "b" * protocol.COSTLIEST_REPAIRS})[:-1])
    assert len(long) > 1_000_000 and read(long).fallback == "too long"
    assert "take too long" in read(abp("x", '{"a": "' + "b" * 50_000)).problems[0]


def test_repair_is_loaded_only_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "json_repair", None)
    assert calls_in(f"{A} {abp('x', '?')} {abp('y', '{z}')}") == [SEARCH]
    with pytest.raises(ModuleNotFoundError):
        read(abp("x", '{"a": 1,}'))


def test_a_fence_that_ends_behind_the_call_hides_nothing():
    for text in (
        f"[[ABP_TOOL:memory_search]]\n```json\n{T}\n{END}\n```\n{B}",
        f"[[ABP_TOOL:memory_search]] ~~~\n{T}\n~~~\n\n{B}",
    ):
        first, second = read(text).calls
        assert (first.tool, second.parameters) == ("memory_search", STORE[1])
        assert "`" not in read(text).prose and "~" not in read(text).prose
    # A fence within a string is none, so the one behind it is another.
    content = abp("memory_search", {"query": "```"})
    assert len(calls_in(f"{content}\n```\n{EVIL}\n```\n")) == 1
