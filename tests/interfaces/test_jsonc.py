"""JSON that is edited in place: the value is there, and everything else is as it was, to the letter."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tulving import InvalidInput
from tulving.interfaces.hosts import jsonc

ENTRY = {"command": "/bin/tulving", "args": ["mcp"], "env": {"A": "1"}}
ZED = """\
// Zed settings
{
  "theme": "One Dark", // the dark one
  /* servers */
  "context_servers": {
    "other": { "command": "x", "args": [] }, // mine
  },
}
"""


def test_a_comment_a_trailing_comma_and_the_order_stay():
    after = jsonc.put(ZED, ("context_servers", "tulving"), ENTRY)
    added = """\
    "tulving": {
      "command": "/bin/tulving",
      "args": ["mcp"],
      "env": {
        "A": "1"
      }
    },
"""
    assert after == ZED.replace("// mine\n", f"// mine\n{added}")
    assert jsonc.put(after, ("context_servers", "tulving"), ENTRY) == after
    assert jsonc.drop(after, ("context_servers", "tulving")) == ZED


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// nothing yet\n", '// nothing yet\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{"a": {"b": 2}}', '{"a": {"b": 1}}'),
        ('{\n\t"x": 1 // one\n}', '{\n\t"x": 1, // one\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ('{\r\n  "x": 1\r\n}\r\n', '{\r\n  "x": 1,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('{"a": 5, "a": {"b": 2}}', '{"a": 5, "a": {"b": 1}}'),
        ('\ufeff{"x": "}// no comment"}', '\ufeff{"x": "}// no comment", "a": {"b": 1}}'),
    ],
)
def test_a_value_is_put_where_it_belongs(text: str, after: str):
    assert jsonc.put(text, ("a", "b"), 1) == after


def test_elements_of_a_list_come_and_go():
    text = '{\n  "hooks": {\n    "Start": [\n      1, // one\n      {"x": 2}\n    ]\n  }\n}\n'
    more = jsonc.add(text, ("hooks", "Start"), {"ours": True})
    assert jsonc.read(more)["hooks"]["Start"] == [1, {"x": 2}, {"ours": True}]
    assert "// one" in more
    assert jsonc.drop(more, ("hooks", "Start", 2)) == text
    assert jsonc.read(jsonc.drop(more, ("hooks", "Start", 0)))["hooks"]["Start"] == [{"x": 2}, {"ours": True}]
    assert jsonc.read(jsonc.add(text, ("hooks", "End"), 3))["hooks"]["End"] == [3]
    assert jsonc.drop(text, ("hooks", "nothing")) == text


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"a": [ // }\n1]}', '{"a": [ // }\n]}'),
        ('{"a": [1, /* ] */ 2, // ]\n3]}', '{"a": [1, /* ] */ 2 // ]\n]}'),
        ('{"a": [1\n// one\n, 2 /* two */]}', '{"a": [1\n// one\n /* two */]}'),
        ('{"a": [\r\n  1, // one\r\n  2, /* two */ ]}', '{"a": [\r\n  1, // one\r\n  /* two */ ]}'),
        ('{"a": [ /* one */ 1 ]}', '{"a": [ /* one */ ]}'),
        ('{"a": [\n  1\n]}', '{"a": []}'),
    ],
)
def test_a_comment_never_swallows_what_follows(text: str, after: str):
    last = len(jsonc.read(text)["a"]) - 1
    assert jsonc.drop(text, ("a", last)) == after
    assert len(jsonc.read(after)["a"]) == last


def test_a_long_text_takes_no_more_room_than_it_has():
    """The files of some hosts keep whole conversations."""
    text = json.dumps({"history": "x" * 1_000_000 + "\\" * 1000})
    tracemalloc.start()
    after = jsonc.put(text, ("a",), 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert jsonc.read(after) == {**json.loads(text), "a": 1}
    assert peak < 20 * len(text)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3", "',' or '}' is missing"),
        ("{", "line 1, column 2", "is missing"),
        ('{"a": }', "line 1, column 7", "a value is missing"),
        ('{"a": tru}', "line 1, column 7", "'tru' is not a value"),
        ('{"a": NaN}', "line 1, column 7", "is not a value"),
        ("{} {}", "line 1, column 4", "more after the end"),
        ('{"a": "x\n"}', "line 1, column 7", "does not end"),
        ("{'a': 1}", "line 1, column 2", "a key in quotes"),
        ("/* open", "line 1, column 1", "can't begin so"),
        ("[" * 5000, "line 1, column 102", "too deep"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(text: str, place: str, problem: str):
    with pytest.raises(InvalidInput, match=problem) as refused:
        jsonc.put(text, ("a",), 1)
    assert refused.value.field == place


def test_what_is_no_object_is_refused():
    with pytest.raises(InvalidInput, match=r"a\.b: is not an object"):
        jsonc.put('{"a": {"b": [1]}}', ("a", "b", "c"), 1)
    with pytest.raises(InvalidInput, match="the whole file: is not an object"):
        jsonc.put("[1]", ("a",), 1)
    with pytest.raises(InvalidInput, match="a: is not a list"):
        jsonc.add('{"a": {}}', ("a",), 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=4), st.sampled_from([None, 2, "\t"]), VALUES)
def test_whatever_there_is_stays(before: dict, indent: int | str | None, value: object):
    text = json.dumps(before, indent=indent)
    other = {name: each for name, each in before.items() if name != "ours"}
    after = jsonc.put(text, ("ours",), value)
    assert jsonc.read(after) == json.loads(after) == {**other, "ours": value}
    assert jsonc.read(jsonc.drop(after, ("ours",))) == other
