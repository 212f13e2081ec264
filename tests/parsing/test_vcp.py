import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsing.tool_text_corpus import VCP_END, VCP_START, vcp
from tulving.parsing.tool_calls import read
from tulving.parsing.vcp import TOOL_KEYS

PAIR = "write each parameter as key:「始」value「末」"


@pytest.mark.scenario("000-004")
def test_values_are_texts_and_the_tool_is_one_of_the_pairs():
    text = f"{VCP_START}\nquery:「始」 3 「末」\ntool_name:「始」 memory_search 「末」,\nlimit:「始」3「末」\n{VCP_END}"
    (call,) = read(text, dual=True).calls
    assert (call.tool, call.parameters, call.protocol) == ("memory_search", {"query": "3", "limit": "3"}, "vcp")
    assert list(call.parameters) == ["query", "limit"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (VCP_START, f"{VCP_END} is missing"),
        (f"{VCP_START}{vcp(tool_name='x')}", f"{VCP_END} is missing"),
        (VCP_START + VCP_END, "tool_name is missing"),
        (vcp(tool_name=""), "tool_name is missing"),
        (vcp(name="x"), "tool_name is missing"),
        (f"{VCP_START}tool:「始」x「末」a b:「始」1「末」{VCP_END}", PAIR),
        (f"{VCP_START}tool:「始」x「末」a「始」1「末」{VCP_END}", PAIR),
        (f"{VCP_START}tool:「始」x「末」:「始」1「末」{VCP_END}", PAIR),
        (f"{VCP_START}tool:「始」x「末」a{VCP_END}", PAIR),
        (f"{VCP_START}tool:「始」x{VCP_END}", "a value lacks its 「始」 or 「末」, so nothing behind it was read"),
        (f"{VCP_START}tool:x「末」{VCP_END}", "a value lacks its 「始」 or 「末」, so nothing behind it was read"),
        (vcp(tool="「始」x"), "a value lacks its 「始」 or 「末」, so nothing behind it was read"),
    ],
)
def test_what_can_not_be_read_is_said_to_the_model(text, problem):
    assert read(text, dual=True).problems[0] == f"VCP call: {problem}"


def test_nothing_is_read_behind_a_value_that_is_not_closed():
    torn = vcp(tool_name="memory_search", query="x").replace("x「末」", "x")
    assert read(f"{torn}\n{vcp(tool_name='memory_stats')}", dual=True).calls == ()
    unnamed = vcp(query="x")
    assert [call.tool for call in read(f"{unnamed}\n{vcp(tool_name='memory_stats')}", dual=True).calls] == [
        "memory_stats"
    ]


KEYS = st.text("abc_é中", min_size=1, max_size=6).filter(lambda key: key not in TOOL_KEYS)
VALUES = st.lists(
    st.sampled_from([VCP_START, VCP_END, "```\n", '"', "{", "\n", ",", ":", "<think>"]) | st.text(max_size=4)
)


@given(
    st.dictionaries(KEYS, VALUES.map("".join).filter(lambda value: "「" not in value and "」" not in value), max_size=4)
)
@settings(deadline=None)
def test_any_values_arrive_whole(pairs):
    text = f"Well.\n{vcp(tool_name='the tool', **pairs)}\nThen:\n{vcp(tool_name='memory_stats')}"
    found = [(call.tool, call.parameters) for call in read(text, dual=True).calls]
    assert found == [("the tool", {key: value.strip() for key, value in pairs.items()}), ("memory_stats", {})]
