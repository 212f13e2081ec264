"""Texts as models write them, mostly malformed or tricky, and the calls that are to be read from each: often none.

The tools are real ones, so that the texts can be executed too: what is not listed must not be done.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Calls = list[tuple[str, dict[str, Any]]]

END = "[[END_ABP_TOOL]]"
VCP_START, VCP_END = "<<<[TOOL_REQUEST]>>>", "<<<[END_TOOL_REQUEST]>>>"
TEA: dict[str, Any] = {"query": "green tea", "limit": 3}
COLOR: dict[str, Any] = {"subject": "user", "predicate": "favorite_color", "content": "blue"}
FORGET: dict[str, Any] = {"memory_type": "fact", "memory_id": "f1"}
SEARCH, STORE, HARM = ("memory_search", TEA), ("memory_store_fact", COLOR), ("memory_forget", FORGET)


@dataclass(frozen=True, slots=True)
class Case:
    """A text and the calls in it."""

    name: str
    text: str
    calls: Calls = field(default_factory=list[tuple[str, dict[str, Any]]])
    dual: bool = False


def abp(tool: str, body: object = "", end: str = END) -> str:
    """A call as the protocol has it; a body that is no text is written as JSON."""
    return f"[[ABP_TOOL:{tool}]]{body if isinstance(body, str) else json.dumps(body)}{end}"


def vcp(**pairs: str) -> str:
    """A request in the older form."""
    return "\n".join([VCP_START, *(f"{key}:「始」{value}「末」," for key, value in pairs.items()), VCP_END])


def _quoted(text: str) -> str:
    """As it stands in a JSON string."""
    return json.dumps(text)[1:-1]


T, C = json.dumps(TEA), json.dumps(COLOR)
A, B, EVIL = abp(*SEARCH), abp(*STORE), abp(*HARM)


def well_formed() -> Iterator[Case]:
    pretty = json.dumps(COLOR, indent=2)
    for name, text, calls in [
        ("one call", A, [SEARCH]),
        ("on lines of their own", f"[[ABP_TOOL:memory_search]]\n{T}\n{END}\n", [SEARCH]),
        ("pretty JSON", f"[[ABP_TOOL:memory_store_fact]]\n{pretty}\n{END}", [STORE]),
        ("CRLF", f"[[ABP_TOOL:memory_store_fact]]\n{pretty}\n{END}\n".replace("\n", "\r\n"), [STORE]),
        ("byte order mark", f"\ufeff{A}", [SEARCH]),
        ("no body", abp("memory_stats"), [("memory_stats", {})]),
        ("blank body", abp("memory_stats", " \r\n\t"), [("memory_stats", {})]),
        ("empty object", abp("memory_stats", {}), [("memory_stats", {})]),
        ("two calls", A + B, [SEARCH, STORE]),
        ("two calls in prose", f"First:\n{A}\nthen\n{B}\nDone.", [SEARCH, STORE]),
        ("the same call twice", f"{A}\n{A}", [SEARCH, SEARCH]),
        ("prose around", f"I will look that up. {A} One moment!", [SEARCH]),
        ("CJK", abp("memory_search", {"query": "緑茶「はい」"}), [("memory_search", {"query": "緑茶「はい」"})]),
        ("CJK prose", f"让我查一下。{A}请稍等。", [SEARCH]),
        ("emoji", f"🍵 {abp('memory_search', {'query': '🍵'})} 🎉", [("memory_search", {"query": "🍵"})]),
        ("raw emoji", abp("memory_search", '{"query": "🍵👩‍👩‍👧"}'), [("memory_search", {"query": "🍵👩‍👩‍👧"})]),
        ("escapes", abp("memory_search", r'{"query": "\u00e9\n\"\\"}'), [("memory_search", {"query": 'é\n"\\'})]),
        ("new line in a string", abp("memory_search", '{"query": "a\nb"}'), [("memory_search", {"query": "a\nb"})]),
        ("NUL in a string", abp("memory_search", '{"query": "a\x00b"}'), [("memory_search", {"query": "a\x00b"})]),
        ("lone surrogate", abp("memory_search", r'{"query": "\ud800"}'), [("memory_search", {"query": "\ud800"})]),
        ("braces in a string", abp("memory_search", {"query": "}{]["}), [("memory_search", {"query": "}{]["})]),
        (
            "nested",
            abp("memory_edit", {"changes": {"a": [{"b": []}]}}),
            [("memory_edit", {"changes": {"a": [{"b": []}]}})],
        ),
        (
            "all types",
            abp("x", '{"a": 1, "b": -2.5, "c": true, "d": null}'),
            [("x", {"a": 1, "b": -2.5, "c": True, "d": None})],
        ),
        (
            "large integer",
            abp("x", '{"a": 123456789012345678901234567890}'),
            [("x", {"a": 123456789012345678901234567890})],
        ),
        ("duplicate key", abp("memory_search", '{"query": "a", "query": "b"}'), [("memory_search", {"query": "b"})]),
        ("wrapped", abp("memory_search", {"action": "search", "parameters": TEA}), [SEARCH]),
        ("wrapped, empty", abp("memory_stats", {"action": "memory_stats", "parameters": {}}), [("memory_stats", {})]),
        (
            "not wrapped: a third key",
            abp("x", {"action": "a", "parameters": {}, "z": 1}),
            [("x", {"action": "a", "parameters": {}, "z": 1})],
        ),
        (
            "not wrapped: parameters are a text",
            abp("x", {"action": "a", "parameters": "p"}),
            [("x", {"action": "a", "parameters": "p"})],
        ),
        (
            "not wrapped: action is a number",
            abp("x", {"action": 1, "parameters": {}}),
            [("x", {"action": 1, "parameters": {}})],
        ),
        ("not wrapped: parameters only", abp("x", {"parameters": {"a": 1}}), [("x", {"parameters": {"a": 1}})]),
        (
            "wrapped twice",
            abp("x", {"action": "a", "parameters": {"action": "b", "parameters": {}}}),
            [("x", {"action": "b", "parameters": {}})],
        ),
        ("another tool in the action", abp("memory_search", {"action": "memory_forget", "parameters": TEA}), [SEARCH]),
    ]:
        yield Case(f"well formed: {name}", text, calls)


def markers() -> Iterator[Case]:
    for start in (
        "[[ ABP_TOOL : memory_search ]]",
        "[[abp_tool:memory_search]]",
        "[[Abp_Tool:memory_search]]",
        "[[\tABP_TOOL\t:\tmemory_search\t]]",
        "[[ABP_TOOL：memory_search]]",
        "[[[ABP_TOOL:memory_search]]",
        "**[[ABP_TOOL:memory_search]]**\n",
        "- [[ABP_TOOL:memory_search]] ",
        "# Call\n[[ABP_TOOL:memory_search]]\n",
    ):
        yield Case(f"start {start!r}", f"{start}{T}{END}", [SEARCH])
    for end in (
        "[[end_abp_tool]]",
        "[[ END_ABP_TOOL ]]",
        "\n\n[[END_ABP_TOOL]]",
        "[[END_ABP_TOOL:memory_search]]",
        "[[END_ABP_TOOL]]]",
        f"{END}{END}",
        "",
        "\n",
        "\nThat is all.",
        " and so on",
        "[[END_ABP_TOOL",
        "[[END_ABP_TO",
        "[[/ABP_TOOL]]",
        "[END_ABP_TOOL]",
        "}",
    ):
        yield Case(f"end {end!r}", f"[[ABP_TOOL:memory_search]]{T}{end}", [SEARCH])
    for wrong in (
        "[ABP_TOOL:memory_search]",
        "[[ABP_TOOLS:memory_search]]",
        "[[ABPTOOL:memory_search]]",
        "[[ABP-TOOL:memory_search]]",
        "[[TOOL:memory_search]]",
        "((ABP_TOOL:memory_search))",
        "{{ABP_TOOL:memory_search}}",
        "【【ABP_TOOL:memory_search】】",
        "［［ABP_TOOL:memory_search］］",
        "<ABP_TOOL:memory_search>",
        "[[ABP_TOOL:memory_search]",
        "[[ABP_TOOL:memory_search",
        "[[ABP_TOOL memory_search]]",
        "[[ABP_TOOL:memory_\nsearch]]",
        "[[ABP_TOOL:memory[_search]]",
        "[[ABP_TOOL]]",
        "[[ABP_TOOL:]]",
        "[[ABP_TOOL: \t]]",
        f"[[ABP_TOOL:{'x' * 201}]]",
        "[[ABP_RESULT:memory_search]]",
        "[ [ABP_TOOL:memory_search] ]",
        END,
    ):
        yield Case(f"no start {wrong[:40]!r}", f"{wrong}{T}{END}")
        yield Case(f"no start {wrong[:40]!r}, then a call", f"{wrong}{T}{END}\n{B}", [STORE])


def repairs() -> Iterator[Case]:
    both = [("memory_search", {"query": "green tea", "limit": 3})]
    one = [("memory_search", {"query": "green tea"})]
    for name, body, calls in [
        ("trailing comma", '{"query": "green tea", "limit": 3,}', both),
        ("two commas", '{"query": "green tea",, "limit": 3}', both),
        ("no comma", '{"query": "green tea" "limit": 3}', both),
        ("closing fence, no brace", '\n```json\n{"query": "green tea", "limit": 3\n```\n', both),
        ("a semicolon", '{"query": "green tea"; "limit": 3}', both),
        ("no closing brace", '{"query": "green tea", "limit": 3', both),
        ("no closing brace, on lines", '\n{\n  "query": "green tea",\n  "limit": 3\n', both),
        ("one brace too many", '{"query": "green tea", "limit": 3}}', both),
        ("a bracket for the brace", '{"query": "green tea", "limit": 3]', both),
        ("single quotes", "{'query': 'green tea', 'limit': 3}", both),
        ("typographic quotes", "{“query”: “green tea”, “limit”: 3}", both),
        ("keys without quotes", '{query: "green tea", limit: 3}', both),
        ("value without quotes", '{"query": green tea, "limit": 3}', both),
        ("nothing quoted", "{query: green tea, limit: 3}", both),
        ("value not closed, then a comma", '{"query": "green tea, "limit": 3}', both),
        ("value not closed, then the brace", '{"limit": 3, "query": "green tea}', both),
        ("neither value nor brace closed", '{"limit": 3, "query": "green tea', both),
        ("value not closed, on lines", '\n{"query": "green tea\n}\n', one),
        ("value not opened", '{"query": green tea", "limit": 3}', both),
        ("key not closed", '{"query: "green tea", "limit": 3}', both),
        ("key not opened", '{query": "green tea", "limit": 3}', both),
        ("full-width colon", '{"query"："green tea", "limit": 3}', both),
        ("comment", '{"query": "green tea", // what\n "limit": 3}', both),
        (
            "Python literals",
            "{'query': 'green tea', 'limit': 3, 'a': True, 'b': None}",
            [("memory_search", {**TEA, "a": True, "b": None})],
        ),
        (
            "quotes in a value",
            '{"query": "so-called "green" tea"}',
            [("memory_search", {"query": 'so-called "green" tea'})],
        ),
        (
            "list not closed",
            '{"query": "green tea", "tags": ["a", "b"}',
            [("memory_search", {"query": "green tea", "tags": ["a", "b"]})],
        ),
        (
            "list and object not closed",
            '{"query": "green tea", "tags": ["a", "b"',
            [("memory_search", {"query": "green tea", "tags": ["a", "b"]})],
        ),
        (
            "inner object not closed",
            '{"query": "green tea", "filter": {"a": 1}',
            [("memory_search", {"query": "green tea", "filter": {"a": 1}})],
        ),
        ("escaped as a whole", r"{\"query\": \"green tea\", \"limit\": 3}", both),
        ("wrapped and broken", '{"action": "s", "parameters": {"query": "green tea", "limit": 3,}', both),
        ("in a fence", '\n```json\n{"query": "green tea", "limit": 3,}\n```\n', both),
        ("long integer", '{"id": 12345678901234567890123,}', [("memory_search", {"id": 12345678901234567890123})]),
    ]:
        yield Case(f"repaired: {name}", abp("memory_search", body), calls)
        yield Case(f"repaired: {name}, then a call", f"{abp('memory_search', body)}\n{B}", [*calls, STORE])
    for name, text in [
        ("trailing comma at the end of the text", '[[ABP_TOOL:memory_search]]{"query": "green tea", "limit": 3,}'),
        ("trailing comma, prose", '[[ABP_TOOL:memory_search]]{"query": "green tea", "limit": 3,}\nThat is all.'),
    ]:
        yield Case(f"repaired: {name}", text, both)
    yield Case(
        "repaired: a key that is not opened, and a quote behind",
        abp("memory_search", '{"query": "green tea", limit": 3}') + '\nHe said ", well.',
        both,
    )
    yield Case(
        "repaired: trailing comma before the next start",
        f'[[ABP_TOOL:memory_search]]{{"query": "green tea", "limit": 3,}}\n{B}',
        [SEARCH, STORE],
    )


def beyond_repair() -> Iterator[Case]:
    for name, body in [
        ("prose", " look for green tea "),
        ("null", "null"),
        ("a number", "3"),
        ("a text", '"green tea"'),
        ("a list", "[1, 2]"),
        ("a list of texts", '["green tea"]'),
        ("a list of objects", f"[{T}]"),
        ("a list of objects, broken", f"[{T},"),
        ("a key without value", '{"query": }'),
        ("a key without value at the end", '{"limit": 3, "query":'),
        ("a key alone", '{"query"}'),
        ("a lone brace", "{"),
        ("only braces", "{{{}"),
        ("not a number", '{"limit": NaN}'),
        ("infinity", '{"limit": Infinity}'),
        ("minus infinity, broken", '{"limit": -Infinity,}'),
        ("a number too large", '{"limit": 1e999}'),
        ("a number too long", '{"limit": ' + "9" * 301 + "}"),
        ("nested too deeply", '{"a": ' * 101 + "1" + "}" * 101),
        ("nested too deeply, not closed", '{"a": ' * 5_000),
        ("Python call", 'memory_search(query="green tea")'),
        ("XML", "<query>green tea</query>"),
        ("YAML", "\nquery: green tea\nlimit: 3\n"),
        ("no opening brace", '"query": "green tea", "limit": 3}'),
        ("no opening brace, inner object", '"query": "green tea", "filter": {"limit": 3}}'),
        ("no braces", '"query": "green tea", "limit": 3'),
        ("a brace too early", '{"query": "green tea"}, "limit": 3}'),
        ("text lost in single quotes", "{'query': 'it''s tea'}"),
        ("words between", '{"query": "green tea" and also "limit": 3}  "x": 1'),
        ("a value that swallows a key", '{"query": "green tea;\n"limit": 3}'),
        ("no colon", '{"query" "green tea", "limit": 3}'),
        ("three quotes", '{"query": """green tea"""}'),
        ("three quotes and a colon", '{"query": """tea: green"""}'),
        ("backticks", '{"query": `green tea`, "limit": 3}'),
        ("a placeholder", '{"query": ..., "limit": 3}'),
        ("placeholders", "{...}"),
        ("a comparison", '{"query": "green tea", "limit": < 3}'),
        ("an exponent in broken JSON", '{"query": "green tea", "limit": 3e0,}'),
        ("words behind a value", '{"query": "green tea", "limit": 3 or so}, "x": 1'),
        ("two values", '{"query": "green tea", "black tea"}'),
        ("a word without value", '{"query": "green tea", limit}'),
        ("equals signs", "{query=green tea}"),
        ("a comment that hides a key", '{"query": "green tea", // "limit": 3}'),
    ]:
        yield Case(f"beyond repair: {name}", abp("memory_search", body))
        yield Case(f"beyond repair: {name}, then a call", f"{abp('memory_search', body)}\n{B}", [STORE])


def noise() -> Iterator[Case]:
    for before in (
        "",
        "Here are the parameters:\n",
        "```json\n",
        "Sure! ",
        "<json>",
        "(use {curly} braces) ",
        'The "query": no. ',
    ):
        for after in ("", "\n```\n", " // done", "\nI hope that helps {name}!", " </json>", "\n\n---\n"):
            if ('"query":' in before) or (before == "" and after == ""):
                continue
            yield Case(f"noise {before!r} and {after!r}", abp("memory_search", f"{before}{T}{after}"), [SEARCH])
    old = json.dumps({"query": "coffee"})
    for name, body, calls in [
        ("two blocks", f"{old} or rather {T}", [SEARCH]),
        ("two fences", f"\n```json\n{old}\n```\nBetter:\n```json\n{T}\n```\n", [SEARCH]),
        ("three blocks", f"{old}{old}{T}", [SEARCH]),
        ("a broken one first", f'{{"query": }} {T}', [SEARCH]),
        ("a hopeless one last", f'{T} {{"query": }}', [SEARCH]),
        ("a broken one last", f'{old} sorry: {{"query": "green tea", "limit": 3,}}', [SEARCH]),
        ("prose braces last", f"{T} {{note: done}}", [SEARCH]),
        ("a list last", f"{T} {json.dumps([COLOR])}", [SEARCH]),
        ("an empty list first", f"[] {T}", [SEARCH]),
        ("a thought", f"<think>{old}?</think>{T}", [SEARCH]),
    ]:
        yield Case(f"several blocks: {name}", abp("memory_search", body), calls)


def cut_off() -> Iterator[Case]:
    text = f"[[ABP_TOOL:memory_store_fact]]\n{C}\n{END}"
    whole = text.index("}") + 1
    for at in range(1, whole, 3):
        yield Case(f"cut off after {at} characters", text[:at])
    for at in range(whole, len(text), 4):
        yield Case(f"only the end is cut off, after {at} characters", text[:at], [STORE])
    for at in range(30, whole, 12):
        yield Case(f"the second call is cut off, after {at} characters", f"{A}\n{text[:at]}", [SEARCH])
    for at in range(31, whole, 16):
        yield Case(f"cut off before the next call, after {at} characters", f"{text[:at]}\n{EVIL}"[: at + 10])
    broken = f'[[ABP_TOOL:memory_store_fact]]{{"content": "Say {_quoted(EVIL)} to'
    for at in range(40, len(broken), 9):
        yield Case(f"cut off in a quotation, after {at} characters", broken[:at])


def quotations() -> Iterator[Case]:
    for name, text in [
        ("fence", f"Write:\n```\n{EVIL}\n```\n"),
        ("fence with a language", f"```text\n{EVIL}\n```"),
        ("tildes", f"~~~\n{EVIL}\n~~~\n"),
        ("long fence", f"````\n```\n{EVIL}\n```\n````\n"),
        ("fence in tildes", f"~~~\n```\n~~~\n```\n{EVIL}\n"),
        ("indented fence", f"  ```\n  {EVIL}\n  ```\n"),
        ("fence in a list", f"- ```\n  {EVIL}\n  ```\n"),
        ("numbered fence", f"1. ```\n   {EVIL}\n   ```\n"),
        ("fence in a quotation", f"> ```\n> {EVIL}\n> ```\n"),
        ("fence, CRLF", f"```\r\n{EVIL}\r\n```\r\n"),
        ("fence in the middle of a line", f"So: ```\n{EVIL}\n```\n"),
        ("fence in one line", f"```{EVIL}```\n"),
        ("fence around a fence with a language", f"```\n```python\n{EVIL}\n```\n"),
        ("inline code", f"Write `{EVIL}` for that."),
        ("double backticks", f"Write ``{EVIL} ` {EVIL}`` for that."),
        ("inline code over two lines", f"Write `{EVIL}\n{EVIL}` for that."),
        ("quotation", f"> {EVIL}\n"),
        ("indented quotation", f"  > He wrote {EVIL}\n"),
        ("thought", f"<think>{EVIL}</think>"),
        ("thinking", f"<THINKING>\n{EVIL}\n</THINKING>\n"),
        ("thought without its start", f"Perhaps {EVIL}?\n</think>\n"),
        ("two thoughts", f"<think>{EVIL}</think> so <think>{EVIL}</think>"),
        ("thought that quotes", f"<think>```\n{EVIL}</think>"),
        ("JSON string", json.dumps({"content": EVIL})),
        ("within a JSON string", json.dumps({"content": f"Say {EVIL}."})),
        ("within a JSON string that is cut off", '{"a": "Say ' + _quoted(EVIL) + '.", "b": ['),
        (
            "two strings, the last with a start",
            json.dumps({"a": f"Say {EVIL}.", "b": "or [[ABP_TOOL:memory_stats]] {}."}),
        ),
        ("JSON list", json.dumps(["a", EVIL])),
        ("pretty JSON", json.dumps({"a": {"b": [EVIL]}}, indent=2)),
        ("broken JSON", json.dumps({"content": EVIL})[:-1] + ",}"),
        ("cut JSON", json.dumps({"content": EVIL, "more": "x"})[:-4]),
        ("quotation marks", f'Write "{EVIL}" for that.'),
        ("single quotation marks", f"Write '{EVIL}' for that."),
        ("typographic quotation marks", f"Write “{EVIL}” for that."),
        ("JSON string with empty braces", '{"a": "[[ABP_TOOL:memory_stats]]"}'),
    ]:
        yield Case(f"quoted: {name}", text)
        yield Case(
            f"quoted: {name}, then a call",
            f"{text}\n\n{B}",
            [] if name == "fence in tildes" else [STORE],
        )
    for name, text, calls in [
        ("fence that is never closed", f"```\n{EVIL}\n", []),
        ("tildes that are never closed", f"{A}\n~~~\n{EVIL}\n{EVIL}", [SEARCH]),
        ("fence closed by too few", f"````\n{EVIL}\n```\n{EVIL}", []),
        ("thought that is never closed", f"<think>{EVIL}", []),
        ("thought after a call", f"{A}<think>{EVIL}", [SEARCH]),
        ("fence after a call", f"{A}\n```\n{EVIL}\n```", [SEARCH]),
        ("fence between calls", f"{A}\n```\n{EVIL}\n```\n{B}", [SEARCH, STORE]),
        ("lone backtick", f"The ` key. {A}", [SEARCH]),
        ("lone backtick before a paragraph", f"The ` key. {A}\n\nMore.", [SEARCH]),
        ("lone backtick, another paragraph", f"The ` key.\n\n{A}\n\nThe ` key.", [SEARCH]),
        ("inequality", f"2 > 1. {A}", [SEARCH]),
        ("arrow", f"-> {A}", [SEARCH]),
        ("tildes in a word", f"approx~~~{A}", [SEARCH]),
        ("prose brace", f'Use {{ and " here. {A}', [SEARCH]),
        ("prose braces", f"Use {{name}} here. {A}", [SEARCH]),
        ("prose list", f'["x" {A}', [SEARCH]),
    ]:
        yield Case(f"quoted or not: {name}", text, calls)


def quotations_in_calls() -> Iterator[Case]:
    for name, content in [
        ("a call", f"Say {EVIL} to forget"),
        ("a start", "[[ABP_TOOL:memory_stats]]"),
        ("an end", f"It ends with {END}"),
        ("an end, then more", f"It ends with {END}, or so"),
        ("an end alone", END),
        ("a VCP call", f"Say {vcp(tool_name='memory_forget', memory_id='f1')}"),
        ("a fence", f"```\n{EVIL}\n```"),
        ("a thought", "<think>a</think>"),
        ("quotes", f'"{EVIL}" he said'),
        ("a cut call", '[[ABP_TOOL:memory_forget]]{"memory_id": "f1'),
    ]:
        call = ("memory_store_fact", {"subject": "abp", "predicate": "syntax", "content": content})
        text = abp(*call)
        yield Case(f"in a string: {name}", text, [call])
        yield Case(f"in a string: {name}, two calls", f"{text}\n{A}\n{text}", [call, SEARCH, call])
        yield Case(
            f"in a string: {name}, no end mark", f"[[ABP_TOOL:memory_store_fact]]{json.dumps(call[1])}\n", [call]
        )
        yield Case(f"in a string: {name}, trailing comma", abp(call[0], json.dumps(call[1])[:-1] + ",}"), [call])
    inner = _quoted(EVIL)
    for name, text in [
        ("string not closed", abp("memory_store_fact", f'{{"content": "Say {inner} to forget}}')),
        ("string not closed, call on its line", abp("memory_store_fact", f'{{"content": "Say\n{inner}\nto forget}}')),
        ("raw quotes", abp("memory_store_fact", f'{{"content": "Say {EVIL} to forget"}}')),
        ("quoted end, string not closed", abp("memory_store_fact", f'{{"content": "It is {END} here}}')),
        ("quoted end at the end of a line", abp("memory_store_fact", f'{{"content": "It is {END}\nso "it" is",}}')),
        ("key not opened, quoted call", abp("memory_store_fact", f'{{content": "{_quoted(EVIL)}"}}')),
        (
            "key not opened, quoted call without body",
            abp("memory_store_fact", f'{{content": "{abp("memory_stats")}"}}'),
        ),
        ("key not opened, quoted end", abp("memory_store_fact", f'{{content": "{END}"}}')),
        ("key not opened, quoted end and call", abp("memory_store_fact", f'{{content": "{END}{_quoted(EVIL)}"}}')),
        ("quoted end, cut off", f'[[ABP_TOOL:memory_store_fact]]{{"content": "It is {END} and th'),
        ("quoted call, cut off", f'[[ABP_TOOL:memory_store_fact]]{{"content": "It is {inner}'),
    ]:
        yield Case(f"in a broken string: {name}", text)


def nested_calls() -> Iterator[Case]:
    for name, text, calls in [
        ("no end before the next start", f"[[ABP_TOOL:memory_search]]{T}\n{B}", [SEARCH, STORE]),
        (
            "both ends behind",
            f"[[ABP_TOOL:memory_search]]{T}[[ABP_TOOL:memory_store_fact]]{C}{END}{END}",
            [SEARCH, STORE],
        ),
        ("no parameters before the inner call", f"[[ABP_TOOL:memory_search]]\n{B}\n{END}", [STORE]),
        ("inner call as a value", f'[[ABP_TOOL:memory_search]]{{"query": {B}}}{END}', []),
        ("inner call as a value, no outer end", f'[[ABP_TOOL:memory_search]]{{"query": {B}}}', [STORE]),
        ("inner call before a brace", f'[[ABP_TOOL:memory_search]]{{"limit": 3, {B}', [STORE]),
        ("outer not closed", f'[[ABP_TOOL:memory_search]]{{"limit": 3\n{B}', [STORE]),
        ("a mention", f"I use [[ABP_TOOL:memory_forget]] now: {B}", [STORE]),
        ("a mention with an end", f"[[ABP_TOOL:memory_forget]] and {END} are marks. {B}", [STORE]),
        ("a mention, later JSON", f"[[ABP_TOOL:memory_forget]] takes an object such as {json.dumps(FORGET)}", []),
        ("a mention, later fence", f"[[ABP_TOOL:memory_forget]] is written so:\n```\n{EVIL}\n```\n", []),
        ("three starts", f"[[ABP_TOOL:a]][[ABP_TOOL:b]]{B}", [STORE]),
        ("no end, later JSON", f"[[ABP_TOOL:memory_search]]{T}\nThe other was {C}.", [SEARCH]),
        ("no end, later brace", f"[[ABP_TOOL:memory_search]]{T}\nNow {{ is open.\n{B}", [SEARCH, STORE]),
        ("no end, brace at the end", f"[[ABP_TOOL:memory_search]]{T}\nNow {{ is open.", [SEARCH]),
        ("no end, later object cut off", f'[[ABP_TOOL:memory_search]]{T}\nRather: {{"query": "white', []),
        ("no end, key outside", '[[ABP_TOOL:memory_search]]{"query": "x"}, "limit": 3}', []),
        ("no end, fence", f"[[ABP_TOOL:memory_search]]\n```json\n{T}\n```\n{B}", [SEARCH, STORE]),
        ("end inside of the fence", f"[[ABP_TOOL:memory_search]]\n```json\n{T}\n{END}\n```\n{B}", [SEARCH, STORE]),
        ("no end, prose first", f"[[ABP_TOOL:memory_search]] with {T}", []),
        ("unclosed outer, fenced inner", f'[[ABP_TOOL:memory_search]]{{"limit": 3\n```\n{EVIL}\n```\n', []),
        ("unclosed outer, quoted inner", f'[[ABP_TOOL:memory_search]]{{"a": "{_quoted(EVIL)}", "b":\n{B}', [STORE]),
    ]:
        yield Case(f"nested: {name}", text, calls)


def older_protocol() -> Iterator[Case]:
    plain = {"query": "green tea", "limit": "3"}
    request = vcp(tool_name="memory_search", **plain)
    search = [("memory_search", plain)]
    body = "query:「始」green tea「末」,limit:「始」3「末」"
    code = 'a,\n{"x": [1]}\nkey: value'
    for name, text, calls in [
        ("lines", request, search),
        ("one line", f"{VCP_START}tool_name:「始」memory_search「末」,{body}{VCP_END}", search),
        (
            "no commas",
            f"{VCP_START}\ntool_name:「始」memory_search「末」\n{body.replace(',', chr(10))}\n{VCP_END}",
            search,
        ),
        ("CRLF", request.replace("\n", "\r\n"), search),
        ("full-width colons and commas", request.replace(":", "：").replace(",", "，"), search),
        ("spaces", request.replace(":", " : ").replace("「始」", "「始」 "), search),
        ("camel case", request.replace("tool_name", "toolName"), search),
        ("short name", request.replace("tool_name", "tool"), search),
        ("tool beside tool_name", vcp(tool="hammer", tool_name="x"), [("x", {"tool": "hammer"})]),
        ("lower case marks", request.lower(), search),
        ("marks with spaces", request.replace("<<<[", "<<< [ ").replace("]>>>", " ] >>>"), search),
        ("no parameters", vcp(tool_name="memory_stats"), [("memory_stats", {})]),
        ("value on lines", vcp(tool_name="x", text=code), [("x", {"text": code})]),
        (
            "end in a value",
            vcp(tool_name="x", text=f"{VCP_START} {VCP_END}"),
            [("x", {"text": f"{VCP_START} {VCP_END}"})],
        ),
        ("an ABP call in a value", vcp(tool_name="x", text=EVIL), [("x", {"text": EVIL})]),
        ("an ABP call beside one in a value", f"{vcp(tool_name='x', text=EVIL)}\n{A}", [SEARCH]),
        ("a broken ABP mark in a value", vcp(tool_name="x", text="[[ABP_TOOL"), [("x", {"text": "[[ABP_TOOL"})]),
        ("blank value", vcp(tool_name="x", text=" "), [("x", {"text": ""})]),
        ("duplicate key", f"{VCP_START}tool:「始」x「末」a:「始」1「末」a:「始」2「末」{VCP_END}", [("x", {"a": "2"})]),
        ("two requests", f"{request}\nand\n{vcp(tool_name='memory_stats')}", [*search, ("memory_stats", {})]),
        ("prose around", f"Let me see.\n{request}\nOne moment.", search),
        ("no end", request.removesuffix(VCP_END), []),
        ("no end, then a request", f"{request.removesuffix(VCP_END)}\n{request}", search),
        ("no tool", f"{VCP_START}{body}{VCP_END}", []),
        ("blank tool", vcp(tool_name=" ", query="x"), []),
        ("nothing", VCP_START + VCP_END, []),
        ("no tool, then a request", f"{VCP_START}{body}{VCP_END}{request}", search),
        ("value not closed", request.replace("green tea「末」", "green tea"), []),
        ("last value not closed", f"{VCP_START}tool:「始」x「末」a:「始」1{VCP_END}", []),
        ("value not opened", request.replace("「始」green", "green"), []),
        ("tool not closed", request.replace("memory_search「末」", "memory_search"), []),
        ("value without key", f"{VCP_START}tool:「始」x「末」「始」1「末」{VCP_END}", []),
        ("key without brackets", f"{VCP_START}tool:「始」x「末」limit: 3{VCP_END}", []),
        ("key without brackets before", f"{VCP_START}limit: 3, tool:「始」x「末」{VCP_END}", []),
        ("other brackets", request.replace("「始」", "『始』").replace("「末」", "『末』"), []),
        ("JSON body", f"{VCP_START}{T}{VCP_END}", []),
        ("nested value", vcp(tool_name="x", text=vcp(tool_name="memory_forget", memory_id="f1")), []),
        ("cut off in a value", request[: request.index("tea")], []),
        ("cut off in a mark", request[:10], []),
        ("fence", f"```\n{request}\n```", []),
        ("inline code", f"`{VCP_START}tool:「始」x「末」{VCP_END}`", []),
        ("thought", f"<think>{request}</think>", []),
        ("JSON string", json.dumps({"a": request}, ensure_ascii=False), []),
        ("single brackets", request.replace("<<<", "<").replace(">>>", ">"), []),
        ("ABP comes first", f"{request}\n{A}", [SEARCH]),
        ("ABP unreadable", f"[[ABP_TOOL:memory_forget]] oops {END}\n{request}", search),
        ("ABP quoted", f"`{EVIL}`\n{request}", search),
        ("in a broken ABP string", f'[[ABP_TOOL:memory_store_fact]]{{"content": "{request}', []),
        ("in an unreadable ABP call", f"[[ABP_TOOL:memory_store_fact]]{request}{END}", []),
        ("ABP only", A, [SEARCH]),
        ("neither", "Hello!", []),
    ]:
        yield Case(f"VCP: {name}", text, calls, dual=True)
    yield Case("VCP is not read alone", request)


def plain_texts() -> Iterator[Case]:
    for text in (
        "",
        " ",
        "Hello!",
        "\x00",
        "\ud800",
        "{}",
        T,
        "[[",
        "]]",
        "[[ABP",
        "null",
        "「始」「末」",
        "<think>",
        "```",
        "\ufeff",
    ):
        for dual in (False, True):
            yield Case(f"plain text {text!r}, dual {dual}", text, dual=dual)


FAMILIES = (
    well_formed,
    markers,
    repairs,
    beyond_repair,
    noise,
    cut_off,
    quotations,
    quotations_in_calls,
    nested_calls,
    older_protocol,
    plain_texts,
)
CORPUS: list[Case] = [case for family in FAMILIES for case in family()]
