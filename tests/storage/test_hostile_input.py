"""Whatever is offered is either stored and found again, or refused by name; nothing is ever half written."""

import asyncio
import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from fault_parts import DIMENSION, everything, opened, problems
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from raw_sql import run_sql

from tulving.domain import intake
from tulving.domain.intake import MAX_QUERY, strip_private
from tulving.domain.model import NewEpisode, NewFact, NewRule
from tulving.domain.scope import Caller
from tulving.domain.text import words
from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.services.memory import Memory
from tulving.storage import moving
from tulving.testing import ScriptedLlm, WordEmbedder

Census = Callable[[], dict[str, Any]]
MEGABYTE = 1_000_000
LONG = 100_000
"""Many times as long as a query or a name may be. A megabyte takes long: one such text goes through every verb, others
are in `HUGE_TEXTS`."""
TEXTS = {
    "a megabyte": "".join(f"word{number} " for number in range(MEGABYTE // 10))[:MEGABYTE],
    "a word again and again": "again " * (LONG // 6),
    "one long word": "x" * LONG,
    "brackets": "(" * LONG + "end",
    "nul": "before\x00after \x00",
    "only a word beside nul": "\x00\x00word\x00",
    "lone surrogates": "before\ud800after \udfff word",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 family 👍🏽",
    "bidi marks": "invoice \u202egnp.exe\u202c \u2066isolated\u2069 \u200f",
    "right to left": "שלום עולם مرحبا بالعالم",
    "combining": "Z\u0351\u036b\u0343\u032a a\u0301\u0302\u0303 re\u0301sume\u0301",
    "zero width": "in\u200bvis\u200dible\ufeff and\u2060joined",
    "crlf": "one\r\ntwo\r\n\r\nthree\r",
    "many lines": "line\n" * (LONG // 5),
    "control characters": "bell\x07 escape\x1b[31m delete\x7f form\x0c feed",
    "sql": "'; DROP TABLE facts; --",
    "more sql": '" OR 1=1); DELETE FROM episodes; /* :tenant_id ? $1 @name',
    "format": "%s %(name)s {0} {content!r} ${HOME} `id` $(id)",
    "markup": "<script>alert(1)</script> &amp; <!-- --> ]]>",
    "json": '{"$ne": 1, "__proto__": {"a": [null, true]}}',
    "noncharacters": "edge \ufffe \uffff \U0010ffff \ufffd end",
    "spaces of all kinds": "a\u00a0b\u2003c\u3000d\u2028e\u2029f\x85g",
    "sharp s and dotted i": "Straße İstanbul ﬁsh ǅ",
    "chinese": "我喜欢喝咖啡，但是不喜欢茶。",
    "indic": "हिन्दी में लिखा गया",
}
HUGE_TEXTS = {
    "lines": "line\n" * (MEGABYTE // 5),
    "short words": "".join(f"{number:x} " for number in range(MEGABYTE // 6))[:MEGABYTE],
    "long words": "".join(f"{number:x}" + "y" * 2040 + " " for number in range(MEGABYTE // 2046)),
    "ideographs": "".join(chr(0x4E00 + number * 7919 % 20_900) for number in range(MEGABYTE // 3)),
    "one ideograph": "茶" * (MEGABYTE // 3),
    "accents": "résumé naïve " * (MEGABYTE // 17),
    "four bytes a letter": "".join(chr(0x10400 + number % 40) + " " * (number % 3) for number in range(MEGABYTE // 5)),
    "around the longest": " ".join("z" * length for length in (2038, 2039, 2040, 2046, 2047, 2048, 10_000)),
}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def stored_form(text: str) -> str:
    return _UNSTORABLE.sub("", text).strip()


@pytest.fixture
async def memory(url: str) -> AsyncIterator[Memory]:
    async with opened(url, llm=ScriptedLlm('{"newFacts": []}', forever=True), background=False) as memory:
        yield memory


@pytest.fixture
def census(url: str) -> Callable[[], dict[str, Any]]:
    """How many rows each table has, seen from outside, and whether any was touched."""
    parts = [f"(SELECT COUNT(*) FROM {table}) AS {table}_rows" for table in (*moving.MOVED, *OF_THE_STORE)]
    for table in ("episodes", "facts", "rules"):
        parts.append(f"(SELECT COALESCE(SUM(reference_count), 0) FROM {table}) AS {table}_references")
        parts.append(f"(SELECT MAX(updated_at) FROM {table}) AS {table}_touched")
    return lambda: run_sql(url, f"SELECT {', '.join(parts)}")[0]


OF_THE_STORE = ("embedding_versions", "next_embeddings", "access_tokens")


# -- texts that are stored -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
async def test_any_text_is_stored_read_back_and_found(memory: Memory, name: str) -> None:
    text, expected = TEXTS[name], stored_form(TEXTS[name])
    details = {"value": text, "deep": [{"er": text}]} if len(text) < 10_000 else {}
    kept = {"value": _UNSTORABLE.sub("", text), "deep": [{"er": _UNSTORABLE.sub("", text)}]} if details else {}
    episode = await memory.store_episode(text, butler="b", metadata=details)
    fact = await memory.store_fact("subject", "predicate", text, metadata=details)
    note = await memory.store_note(text)
    rule = await memory.store_rule(text, metadata=details)
    for kind, id_ in (("episode", episode.id), ("fact", fact.id), ("fact", note.id), ("rule", rule.id)):
        item = await memory.get(kind, id_)
        assert item is not None and item.content == expected
        if id_ != note.id:
            assert item.metadata == kept
    listed = await everything(memory)
    assert {item.content for item in listed.values()} == {expected}
    query = text if len(text) <= MAX_QUERY else " ".join(words(expected)[:30])
    if any(character.isalnum() for character in expected):
        found = await memory.search(query, mode="keyword", limit=10)
        assert {hit.item.id for hit in found} == {episode.id, fact.id, note.id, rule.id}
    await memory.search(query, mode="semantic")
    await memory.recall(query)
    assert len(await memory.context(text, butler="b", token_budget=200)) <= 800
    assert not problems(await administer(memory).verify())


@pytest.mark.parametrize("name", HUGE_TEXTS)
async def test_a_text_of_more_words_than_an_index_takes_is_found_by_its_first(memory: Memory, name: str) -> None:
    text = HUGE_TEXTS[name]
    stored = await memory.store_rule(text)
    item = await memory.get("rule", stored.id)
    assert item is not None and item.content == text.strip()
    for query in (text[:MAX_QUERY], words(text[:MAX_QUERY])[0]):
        assert [hit.item.id for hit in await memory.search(query, mode="keyword")] == [stored.id]
    assert not problems(await administer(memory).verify())


@pytest.mark.parametrize("name", [name for name in TEXTS if len(TEXTS[name]) < 10_000])
async def test_any_text_as_a_name_is_stored_as_it_is_or_refused(memory: Memory, name: str) -> None:
    """Names are compared letter by letter, so nothing may be dropped from them in silence."""
    text = TEXTS[name]
    fine = not re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", text.strip())
    for field in ("title", "butler", "project", "source", "type"):
        offer = {"content": "content", "butler": "b", field: text}
        if fine:
            stored = await memory.store_episode(**offer)
            assert getattr(await memory.get("episode", stored.id), field) == strip_private(text).strip()
        else:
            await assert_refused(memory, "store_episode", offer, field)
    for field in ("subject", "predicate", "scope", "source_butler"):
        offer = {"subject": "s", "predicate": "p", "content": "content", field: text}
        if fine:
            stored = await memory.store_fact(**offer)
            assert getattr(await memory.get("fact", stored.id), field) == strip_private(text).strip()
        else:
            await assert_refused(memory, "store_fact", offer, field)
    if fine:
        stored = await memory.store_rule("content", tags=[text, text, " "])
        item = await memory.get("rule", stored.id)
        assert item is not None and item.tags == [text.strip()]
        page = await memory.list_memories("rule", tags=[text])
        assert [item.id for item in page.items] == [stored.id]
    else:
        await assert_refused(memory, "store_rule", {"content": "content", "tags": ["fine", text]}, "tags")
    assert not problems(await administer(memory).verify())


async def test_names_that_look_alike_are_different_keys(memory: Memory) -> None:
    names = ["café", "cafe", "сafe", "cafe\u200b", "cafe."]
    for name in names:
        assert (await memory.store_fact(name, "p", f"value of {name!r}")).outcome == "stored"
    for name in ("cafe\u0301", "Café", "ＣＡＦÉ"):
        assert (await memory.store_fact(name, "p", f"value of {name!r}")).outcome == "superseded", "spellings of one"
    assert len((await memory.list_memories("fact", state="active")).items) == len(names)


async def test_values_of_a_subclass_are_stored_like_those_of_the_class(memory: Memory, url: str, engine: str) -> None:
    """Libraries have texts, times and ids of their own that are also ours."""

    class Text(str):
        pass

    class Time(datetime):
        pass

    class Id(UUID):
        pass

    class Names(list):
        pass

    moment = Time(2026, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))
    session = Id(int=77)
    stored = await memory.store_episode(
        Text("content"), butler=Text("b"), occurred_at=moment, session_id=session, tags=Names([Text("tag")])
    )
    item = await memory.get("episode", Id(int=stored.id.int))
    assert item is not None
    assert (item.content, item.butler, item.tags) == ("content", "b", ["tag"])
    assert item.occurred_at == datetime(2026, 2, 3, 2, 5, 6, tzinfo=UTC)
    assert item.session_id == UUID(int=77)
    found = await memory.list_memories("episode", since=moment, until=moment + timedelta(seconds=1))
    assert [item.id for item in found.items] == [stored.id]
    (row,) = run_sql(url, "SELECT occurred_at, CAST(occurred_at AS TEXT) AS kept FROM episodes")
    assert row["occurred_at"] == moment
    if engine == "sqlite":
        assert row["kept"] == "2026-02-03T02:05:06.000000+00:00"


def test_tags_that_never_end_take_no_time() -> None:
    """Each could be the start of a private part; searching for the end of each separately would take a minute."""
    text = "<private " * 111_111
    begun = time.perf_counter()
    assert intake.content(text) == text.strip()
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    "hidden", ["<pri\x00vate>", "<\ud800private>", "<private\x00>", "\x00<private>", "<pri<private/>vate>"]
)
async def test_what_is_removed_from_a_text_does_not_hide_a_private_part(memory: Memory, url: str, hidden: str) -> None:
    stored = await memory.store_episode(
        f"seen {hidden}secret</private> seen",
        butler="b",
        tags=["tag"],
        metadata={"key": f"{hidden}secret</private>", f"{hidden}secret</private>": 1},
    )
    item = await memory.get("episode", stored.id)
    assert item is not None and "secret" not in item.content + json.dumps(dict(item.metadata))
    assert "secret" not in repr(run_sql(url, "SELECT * FROM episodes"))


# -- values that are refused -----------------------------------------------------------------------------------

NAN, INFINITY = math.nan, math.inf
HUGE = 10**400
NO_TEXT: list[Any] = [None, 5, 5.5, True, b"bytes", ["list"], {"a": 1}, object()]
NO_CONTENT: list[Any] = ["", " \n\t ", "\x00", "\ud800", "<private>all of it</private>", *NO_TEXT]
NO_NAME: list[Any] = ["", "  ", "a\x00b", "a\ud800b", "a\nb", "x" * 1001, 5, b"bytes", ["list"], {"a": 1}]
NO_ID: list[Any] = ["", "x", "123", 5, b"0" * 16, ["list"], "fact", "\ud800"]
NO_NUMBER: list[Any] = [NAN, INFINITY, -INFINITY, -1, -0.001, 11, HUGE, -HUGE, "5", True, None, b"5", [5], 1j]
NO_OPTIONAL_NUMBER = [value for value in NO_NUMBER if value is not None]
NO_LIMIT: list[Any] = [0, -1, 1001, 10**5000, "10", 1.5, 10.0, True, NAN, [10]]
NO_TAGS: list[Any] = ["text", 5, b"bytes", {"a": 1}, [5], [None], [["a"]], ["a\x00b"], ["a\ud800"], ["x" * 201]]
NO_TAGS.append(["tag"] * 101)
NO_TIME: list[Any] = ["2026-01-01", 5, date(2026, 1, 1), b"x"]
NO_TIME.append(datetime.min.replace(tzinfo=timezone(timedelta(hours=1))))
LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP
DEEP: Any = 1
for _ in range(100_000):
    DEEP = [DEEP]
NO_METADATA: list[Any] = [
    "text", 5, ["list"], [("a", 1)], b"bytes", {"a": NAN}, {"a": [INFINITY]}, {"a": object()}, {"a": b"bytes"},
    {"a": {1, 2}}, {"a": {"b": 1j}}, {"a": datetime(2026, 1, 1)}, {"a": 10**5000}, LOOP, {"a": DEEP},
]  # fmt: skip
NO_WORD: list[Any] = ["", "unknown", "Fact", 5, b"fact", ["fact"], "fact\x00"]
NO_BUDGET: list[Any] = [0, -1, 1, 10**9, HUGE, "3000", 3000.0, True, [1]]

VALID: dict[str, dict[str, Any]] = {
    "store_episode": {"content": "content", "butler": "b"},
    "store_fact": {"subject": "s", "predicate": "p", "content": "content"},
    "store_note": {"content": "content"},
    "store_rule": {"content": "content"},
    "search": {"query": "content"},
    "search_similar": {"embedding": [1.0] + [0.0] * (DIMENSION - 1)},
    "record_event": {"content": "content", "event_type": "task", "user_id": "u"},
    "query_window": {},
    "save_semantic": {"content": "content", "user_id": "u"},
    "recall": {"topic": "content"},
    "context": {"trigger_prompt": "content", "butler": "b"},
    "list_memories": {"memory_type": "fact"},
    "get": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "confirm": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "forget": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "delete": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "events": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "get_links": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "derived": {"memory_type": "fact", "memory_id": UUID(int=1)},
    "learn": {"conversation": "User: I like tea"},
    "learn_prompt": {"conversation": "User: I like tea"},
    "run_consolidation": {},
    "runs": {},
    "profile": {},
    "set_profile": {"block": "work", "content": "content"},
    "delete_profile": {"block": "work"},
    "create_link": {
        "source_type": "fact",
        "source_id": UUID(int=1),
        "target_type": "fact",
        "target_id": UUID(int=2),
        "relation": "supports",
    },
}
NO_CONVERSATION: list[Any] = [
    "", " \n", "\x00", "\ud800", "<private>all of it</private>", "User:", 5, True, b"bytes", {"role": "user"}, object(),
    [], [5], ["text"], [{}], [{"role": "user"}], [{"role": 5, "content": "x"}], [{"role": "user", "content": 5}],
    [{"role": "user", "content": [5]}], [{"role": "robot", "content": "x"}], [{"role": "user", "content": "\x00"}],
]  # fmt: skip
_MINE = {"title": NO_NAME, "type": NO_NAME, "project": NO_NAME, "source": NO_NAME, "tags": NO_TAGS}
_FILTERS: dict[str, list[Any]] = {
    "scope": NO_NAME,
    "project": NO_NAME,
    "tags": NO_TAGS,
    "limit": NO_LIMIT,
}
NO_OWNER: list[Any] = ["x" * 201, *NO_NAME]
_OF_OWNER = dict.fromkeys(("user_id", "household_id", "persona_id"), NO_OWNER)
_WHEN = {"since": NO_TIME, "until": NO_TIME, "type": NO_NAME}
_FOUND = {"types": ["unknown", ["fact", "unknown"], [5], 5, [b"fact"], [["fact"]]], "min_confidence": NO_NUMBER}
REFUSED: dict[str, dict[str, list[Any]]] = {
    "store_episode": {
        "content": NO_CONTENT,
        "butler": NO_NAME,
        "session_id": NO_ID,
        "importance": NO_NUMBER,
        "occurred_at": NO_TIME,
        "metadata": NO_METADATA,
        **_MINE,
    },
    "store_fact": {
        "subject": [None, *NO_NAME],
        "predicate": [None, *NO_NAME],
        "content": NO_CONTENT,
        "importance": NO_OPTIONAL_NUMBER,
        "confidence": [2, *NO_OPTIONAL_NUMBER],
        "permanence": ["forever", *NO_WORD],
        "scope": [None, *NO_NAME],
        "tags": NO_TAGS,
        "entity_id": [*NO_ID, UUID(int=7)],
        "source_episode_id": [*NO_ID, UUID(int=7)],
        "category": NO_WORD,
        "project": NO_NAME,
        "source": NO_NAME,
        "source_butler": NO_NAME,
        "occurred_at": NO_TIME,
        "metadata": NO_METADATA,
    },
    "store_note": {
        "content": NO_CONTENT,
        "category": NO_WORD,
        "importance": NO_OPTIONAL_NUMBER,
        "confidence": NO_OPTIONAL_NUMBER,
        "permanence": NO_WORD,
        "scope": [None, *NO_NAME],
        "tags": NO_TAGS,
    },
    "store_rule": {
        "content": NO_CONTENT,
        "scope": [None, *NO_NAME],
        "tags": NO_TAGS,
        "permanence": NO_WORD,
        "project": NO_NAME,
        "source_butler": NO_NAME,
        "source_episode_id": [*NO_ID, UUID(int=7)],
        "metadata": NO_METADATA,
    },
    "search": {"query": [None, 5, b"bytes", ["list"], {"a": 1}], "mode": ["fuzzy", 5, b"hybrid", ["hybrid"]]}
    | _FILTERS | _WHEN | _FOUND,
    "search_similar": {
        "embedding": [
            None, 5, "text", b"bytes", {}, [], [1.0], [1.0] * (DIMENSION - 1), [1.0] * (DIMENSION + 1), object(),
            [NAN] * DIMENSION, [INFINITY] + [0.0] * (DIMENSION - 1), [None] * DIMENSION, ["1"] * DIMENSION,
            [1.7e308] * DIMENSION, [HUGE] * DIMENSION, [[1.0]] * DIMENSION, "x" * DIMENSION,
            [INFINITY, -INFINITY] + [0.0] * (DIMENSION - 2),
        ],
        "min_similarity": [NAN, INFINITY, -1.001, 1.001, HUGE, "0.5", True, [1]],
        **_OF_OWNER,
    } | _FILTERS | _WHEN | _FOUND,
    "record_event": {
        "content": NO_CONTENT,
        "event_type": [None, *NO_NAME],
        "timestamp": NO_TIME,
        "importance": NO_NUMBER,
        "butler": NO_NAME,
        "session_id": NO_ID,
        "metadata": NO_METADATA,
        **{name: values for name, values in _MINE.items() if name != "type"},
        **_OF_OWNER,
        "user_id": [None, *NO_OWNER],
    },
    "query_window": {
        "since": NO_TIME,
        "until": NO_TIME,
        "last_days": [0, -0.0, 36_501, *(value for value in NO_OPTIONAL_NUMBER if value != 11)],
        "top_k": [None, *NO_LIMIT],
        "event_types": ["task", 5, {"a": 1}, [5], [None], [""], ["a\x00b"], ["x" * 1001], ["a"] * 101],
        "min_importance": NO_OPTIONAL_NUMBER,
        "session_id": NO_ID,
        "butler": NO_NAME,
        "project": NO_NAME,
        "tags": NO_TAGS,
        **_OF_OWNER,
    },
    "save_semantic": {
        "content": NO_CONTENT,
        "importance": NO_OPTIONAL_NUMBER,
        "confidence": [2, *NO_OPTIONAL_NUMBER],
        "category": NO_WORD,
        "embedding": [5, "text", {}, [], [1.0], [0.0] * DIMENSION, [NAN] * DIMENSION, ["1"] * DIMENSION],
        "occurred_at": NO_TIME,
        "session_id": NO_ID,
        "source": NO_NAME,
        "project": NO_NAME,
        "tags": NO_TAGS,
        "metadata": NO_METADATA,
        **_OF_OWNER,
        "user_id": [None, *NO_OWNER],
    },
    "recall": {"topic": [None, 5, b"bytes", ["list"], {"a": 1}]} | _FILTERS | _FOUND,
    "context": {
        "trigger_prompt": [None, 5, b"bytes", ["list"]],
        "butler": NO_NAME,
        "token_budget": NO_BUDGET,
    },
    "list_memories": {
        "memory_type": [None, *NO_WORD],
        "state": ["unknown", 5, b"active", ["active"]],
        "cursor": ["", "x", "////", 5, b"bytes", "\ud800", "MjAyNi0wMS0wMQ==", ["list"]],
    } | _FILTERS | _WHEN | {"limit": [None, *NO_LIMIT]},
    "create_link": {
        "source_type": [None, *NO_WORD],
        "source_id": [None, *NO_ID, UUID(int=7)],
        "target_type": [None, *NO_WORD],
        "target_id": [None, *NO_ID],
        "relation": [None, *NO_WORD],
    },
    "get_links": {"direction": [None, *NO_WORD]},
    "learn": {"conversation": [None, *NO_CONVERSATION], "butler": NO_NAME, "session_id": NO_ID},
    "learn_prompt": {"conversation": NO_CONVERSATION, "butler": NO_NAME},
    "run_consolidation": {"butler": NO_NAME},
    "runs": {"run_id": NO_ID, "limit": [None, *NO_LIMIT]},
    "profile": {"max_tokens": [budget for budget in NO_BUDGET if budget != 1]},
    "set_profile": {"block": [None, *NO_WORD], "content": [*NO_TEXT, "\x00", "\ud800", "<private>x</private>"]},
    "delete_profile": {"block": NO_WORD},
} | {
    verb: {"memory_type": [None, *NO_WORD], "memory_id": [None, *NO_ID]}
    for verb in ("get", "confirm", "forget", "delete", "events", "derived")
}  # fmt: skip


async def assert_refused(memory: Memory, verb: str, args: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await getattr(memory, verb)(**args)
    error = refusal.value
    assert re.split(r"[.\[]", error.field)[0] == field, f"names {error.field}, not {field}: {error}"
    assert error.problem and error.allowed, f"does not say what is allowed: {error}"
    assert len(str(error)) < 1000
    str(error).encode()


async def test_a_bad_value_is_refused_by_name_and_nothing_is_written(memory: Memory, census: Census) -> None:
    await memory.store_fact("s", "p", "kept content")
    before = census()
    wrong: list[str] = []
    for verb, fields in REFUSED.items():
        for field, value in ((field, value) for field, values in fields.items() for value in values):
            try:
                await assert_refused(memory, verb, {**VALID[verb], field: value}, field)
            except (Exception, pytest.fail.Exception) as error:
                told = f"{verb}, {field}: {shown(value)} -> {type(error).__name__}: {error}"
                wrong.append(told.splitlines()[0][:300])
        if census() != before:
            wrong.append(f"{verb}: wrote {census()} over {before}")
            before = census()
    assert not wrong, "\n".join(wrong)
    assert [hit.item.content for hit in await memory.search("content")] == ["kept content"]


def shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"some {type(value).__name__}"


async def test_what_the_bad_values_replace_is_fine(memory: Memory) -> None:
    """So that each refusal above is due to the one value."""
    for verb in VALID:
        own = memory.bind(caller=Caller(verb))
        first = await own.store_fact("first", "p", "content")
        second = await own.store_fact("second", "p", "content")
        args = dict(VALID[verb])
        for name, stored in (("memory_id", first), ("source_id", first), ("target_id", second)):
            if name in args:
                args[name] = stored.id
        await getattr(own, verb)(**args)


GOOD: dict[str, Any] = {
    "store_episodes": lambda text: NewEpisode(content=text, butler="b"),
    "store_facts": lambda text: NewFact(subject="kept", predicate="p", content=text),
    "store_rules": lambda text: NewRule(content=text),
}
LAST_IS_BAD: dict[str, list[Any]] = {
    "store_episodes": [
        NewEpisode(content="", butler="b"),
        NewEpisode(content="c", butler=""),
        NewEpisode(content="c", butler="b", importance=NAN),
        NewEpisode(content="c", butler="b", tags=[5]),  # pyright: ignore[reportArgumentType]
    ],
    "store_facts": [
        NewFact(content=""),
        NewFact(content="c", subject="s"),
        NewFact(content="c", predicate="p"),
        NewFact(content="c", confidence=2),
        NewFact(content="c", source_episode_id=UUID(int=7)),
        NewFact(content="c", entity_id=UUID(int=7)),
        NewFact(content="c", subject="kept", predicate="p", source_episode_id=UUID(int=7)),
    ],
    "store_rules": [
        NewRule(content=" "),
        NewRule(content="c", permanence="forever"),
        NewRule(content="c", source_episode_id=UUID(int=7)),
    ],
}


@pytest.mark.parametrize("verb", LAST_IS_BAD)
async def test_a_batch_with_a_bad_last_item_is_refused_whole(memory: Memory, census: Census, verb: str) -> None:
    await memory.store_fact("kept", "p", "as it was")
    before = census()
    for bad in LAST_IS_BAD[verb]:
        with pytest.raises(InvalidInput):
            await getattr(memory, verb)([GOOD[verb]("first"), GOOD[verb]("second"), bad])
        assert census() == before
    (kept,) = (await everything(memory)).values()
    assert (kept.content, kept.validity) == ("as it was", "active")
    assert not len(await memory.search("first second", mode="keyword"))
    assert await getattr(memory, verb)([]) == []
    assert len(await getattr(memory, verb)([GOOD[verb]("first"), GOOD[verb]("second")])) == 2
    assert not problems(await administer(memory).verify())


@pytest.mark.parametrize("verb", ["get", "confirm", "forget", "delete", "events", "get_links", "derived"])
async def test_ids_that_are_none_of_ours_are_answered_without_a_trace(
    memory: Memory, census: Census, verb: str
) -> None:
    await memory.store_fact("s", "p", "content")
    before = census()
    for id_ in (UUID(int=0), UUID(int=2**128 - 1), f"{{{UUID(int=5)}}}", "fact_", "fact_%", "fact_'"):
        if verb == "delete":
            with pytest.raises(NotFound):
                await memory.delete("fact", id_)
        else:
            assert await getattr(memory, verb)("fact", id_) in (None, False, [])
    assert census() == before


# -- queries ---------------------------------------------------------------------------------------------------

FOUND_BY_QUERY = {
    '"': None,
    '""': None,
    "*": None,
    "+": None,
    "-": None,
    "^": None,
    "(": None,
    ")": None,
    "{": None,
    "NEAR(": "near",
    "NEAR(apple banana, 2)": "apple near banana",
    "apple AND": "apple",
    "AND": "this and that",
    "OR": "this or that",
    "NOT": "not this",
    "NOT apple": "an apple",
    "apple NOT banana": "apple",
    "-apple": "apple",
    "apple -banana": "apple",
    "search_text:": "search text",
    "search_text : apple": "apple",
    "tenant_token:apple": "apple",
    "- search_text : apple": "apple",
    "^apple": "apple",
    "{search_text tenant_token}:apple": "apple",
    "{apple banana}:cherry": "cherry",
    "(apple": "apple",
    "apple)": "apple",
    "apple + banana": "apple banana",
    "app*": "app",
    '"apple': "apple",
    'apple" OR tenant_token : "t': "apple",
    "it's": "it's fine",
    "C++": "C++ and C# are languages",
    "foo-bar": "the foo-bar thing",
    "user@example.com": "write to user@example.com",
    "100%": "sure to 100%",
    "50% off!": "50% off",
    "AC/DC": "AC/DC live",
    "snake_case_name": "a snake_case_name here",
    "path/to/file.py:12": "see path/to/file.py:12",
    "https://example.com/?a=b&c=d#e": "at https://example.com/?a=b&c=d#e",
    "the": "the",
    "to be or not to be": "to be or not to be",
    "咖啡": "我喜欢喝咖啡",
    "コーヒー": "毎朝コーヒーを飲む",
    "कॉफ़ी": "मुझे कॉफ़ी पसंद है",
    "Straße": "die Straße",
    "STRASSE": "die Straße",
    "İstanbul": "in İstanbul",
    "istanbul": "in İstanbul",
    "ISTANBUL": "in istanbul",
    "résumé": "my résumé",
    "resume": "my re\u0301sume\u0301",
    "re\u0301sume\u0301": "my résumé",
    "👍": None,
    "👍 apple": "apple 👍",
    "\x00": None,
    "\x00apple\x00": "apple",
    "\ud800": None,
    "app\ud800le": "apple",
    "apple\r\nbanana": "apple banana",
    "apple\u00a0banana": "apple banana",
    "'; DROP TABLE facts; --": "drop the table of facts",
    "%": None,
    "_": None,
    "%apple_": "apple",
    ":match": "a match",
    "?1": "1",
    "": None,
    "   ": None,
    "<private>apple</private>": "apple",
}


@pytest.mark.parametrize("query", FOUND_BY_QUERY)
def test_a_query_is_words_and_never_syntax(bench: "Bench", query: str) -> None:
    text = FOUND_BY_QUERY[query]
    memory = bench.fresh()

    async def go() -> None:
        await memory.store_fact("something", "else", "zebra crossing")
        expected = set()
        if text is not None:
            expected = {(await memory.store_episode(text, butler="b")).id, (await memory.store_rule(text)).id}
        found = await memory.search(query, mode="keyword")
        assert {hit.item.id for hit in found} == expected
        await memory.search(query, mode="semantic")
        assert expected <= {hit.item.id for hit in await memory.search(query, mode="hybrid")}
        await memory.recall(query)
        await memory.context(query, butler="b")

    bench.runner.run(go())


@pytest.mark.parametrize(
    "query",
    ["apple " * 200_000, "(" * MEGABYTE, '"' * MEGABYTE, "x" * MEGABYTE, "".join(f"w{n} " for n in range(150_000))],
    ids=["words", "brackets", "quotes", "one word", "many words"],
)
async def test_a_query_of_a_megabyte_is_refused_and_its_beginning_is_not(memory: Memory, query: str) -> None:
    stored = await memory.store_fact("s", "p", "apple w1 w2 w3")
    with pytest.raises(InvalidInput, match="topic"):
        await memory.recall(query)
    for mode in ("keyword", "semantic", "hybrid"):
        with pytest.raises(InvalidInput, match="query"):
            await memory.search(query, mode=mode)
        found = await memory.search(query[:MAX_QUERY], mode=mode)
        if "apple" in query or "w1 " in query:
            assert [hit.item.id for hit in found] == [stored.id]
    await memory.recall(query[:MAX_QUERY])
    assert await memory.context(query, butler="b")


# -- arbitrary text --------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)
WORDS = st.text(st.characters(categories=["L", "N", "M", "P", "S", "Zs"]), max_size=40)
# Letters today, but marks in the Unicode of SQLite's tokenizer, so that alone they make no word there.
_MARKS_THEN = re.compile("[\u19b0-\u19c0\u19c8\u19c9\u1cf2\u1cf3]")
PROPERTY = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Bench:
    """One memory for many examples, each with a tenant of its own."""

    def __init__(self, runner: asyncio.Runner, memory: Memory) -> None:
        self.runner, self._memory, self._tenants = runner, memory, 0

    def fresh(self) -> Memory:
        self._tenants += 1
        return self._memory.bind(caller=Caller(f"tenant {self._tenants}"))


@pytest.fixture(scope="module")
def bench(engine: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if engine == "sqlite":
        url = str(tmp_path_factory.mktemp("bench") / "memory.db")
    else:
        url = request.getfixturevalue("opened_stores").take()
    with asyncio.Runner() as runner:
        opening = opened(url, background=False)
        yield Bench(runner, runner.run(opening.__aenter__()))
        runner.run(opening.__aexit__(None, None, None))
    if engine == "postgres":
        request.getfixturevalue("opened_stores").give_back(url)


@PROPERTY
@given(text=st.one_of(ANY_TEXT, WORDS))
@example(text="Straße")
@example(text="İ")
@example(text="e\u0301a")
@example(text="\ud800x")
@example(text="x\x00")
def test_any_text_round_trips_and_finds_itself(bench: Bench, text: str) -> None:
    expected = stored_form(strip_private(text))
    memory = bench.fresh()

    async def go() -> None:
        if not expected:
            with pytest.raises(InvalidInput):
                await memory.store_rule(text)
            return
        stored = await memory.store_rule(text)
        item = await memory.get("rule", stored.id)
        assert item is not None and item.content == expected
        for mode in ("keyword", "hybrid", "semantic"):
            found = await memory.search(expected, mode=mode)
            if mode != "semantic" and any(part.isalnum() for part in _MARKS_THEN.sub("", expected)):
                assert [hit.item.id for hit in found] == [stored.id], mode

    bench.runner.run(go())


@PROPERTY
@given(query=ANY_TEXT, content=WORDS)
def test_any_query_is_answered(bench: Bench, query: str, content: str) -> None:
    memory = bench.fresh()

    async def go() -> None:
        await memory.store_episode(f"content {content}", butler="b")
        for mode in ("keyword", "hybrid", "semantic"):
            await memory.search(query, mode=mode)
        await memory.recall(query)
        assert (await memory.context(query, butler="b")).startswith("# Memory Context")

    bench.runner.run(go())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def without_signs_of_zero(value: Any) -> Any:
    """PostgreSQL knows one zero only."""
    if isinstance(value, dict):
        return {key: without_signs_of_zero(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_signs_of_zero(inner) for inner in value]
    return 0.0 if isinstance(value, float) and value == 0 else value


@PROPERTY
@given(details=st.dictionaries(WORDS, JSON, max_size=4), names=st.lists(ANY_TEXT, max_size=3))
def test_any_details_and_labels_round_trip_or_are_refused(
    bench: Bench, engine: str, details: Any, names: list[str]
) -> None:
    assume("<" not in repr(details) + repr(names))
    memory = bench.fresh()

    def cleaned(value: Any) -> Any:
        if isinstance(value, str):
            return _UNSTORABLE.sub("", value)
        if isinstance(value, dict):
            return {cleaned(key): cleaned(inner) for key, inner in value.items()}
        return [cleaned(inner) for inner in value] if isinstance(value, list) else value

    async def go() -> None:
        labels = [name.strip() for name in names if name.strip()]
        if any(re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", label) for label in labels):
            with pytest.raises(InvalidInput, match="tags"):
                await memory.store_rule("content", tags=names, metadata=details)
            return
        stored = await memory.store_rule("content", tags=names, metadata=details)
        item = await memory.get("rule", stored.id)
        assert item is not None
        assert item.tags == list(dict.fromkeys(labels))
        expected = cleaned(details)
        if engine == "postgres":
            assert json.dumps(item.metadata, sort_keys=True) == json.dumps(
                without_signs_of_zero(expected), sort_keys=True
            )
        else:
            assert json.dumps(item.metadata) == json.dumps(expected)

    bench.runner.run(go())


@PROPERTY
@given(subject=ANY_TEXT, predicate=ANY_TEXT)
def test_any_key_is_kept_as_it_is_or_refused(bench: Bench, subject: str, predicate: str) -> None:
    assume("<" not in subject + predicate)
    memory = bench.fresh()
    names = [subject.strip(), predicate.strip()]

    async def go() -> None:
        try:
            first = await memory.store_fact(subject, predicate, "one")
        except InvalidInput as error:
            assert error.field in ("subject", "predicate")
            assert not all(names) or re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", "".join(names))
            return
        second = await memory.store_fact(subject, predicate, "two")
        assert second.superseded_id == first.id
        item = await memory.get("fact", second.id)
        assert item is not None and [item.subject, item.predicate] == names

    bench.runner.run(go())


# -- a broken embedder -----------------------------------------------------------------------------------------


class BrokenEmbedder(WordEmbedder):
    """Returns a configured value instead of vectors, when configured."""

    answer: Any = None

    def embed_batch(self, texts: Any) -> Any:
        return super().embed_batch(texts) if self.answer is None else self.answer(len(texts))


BROKEN: dict[str, Any] = {
    "three numbers": lambda count: [[1.0, 2.0, 3.0]] * count,
    "one number too many": lambda count: [[1.0] * (DIMENSION + 1)] * count,
    "not a number": lambda count: [[math.nan] * DIMENSION] * count,
    "one not a number": lambda count: [[0.1] * (DIMENSION - 1) + [math.nan]] * count,
    "infinite": lambda count: [[math.inf] + [0.0] * (DIMENSION - 1)] * count,
    "infinite both ways": lambda count: [[math.inf, -math.inf] + [0.0] * (DIMENSION - 2)] * count,
    "too large": lambda count: [[1.7e308] * DIMENSION] * count,
    "texts": lambda count: [["1.0"] * DIMENSION] * count,
    "none": lambda count: [None] * count,
    "too few vectors": lambda count: [[1.0] * DIMENSION] * (count - 1),
    "too many vectors": lambda count: [[1.0] * DIMENSION] * (count + 1),
    "nothing at all": lambda count: None,
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_vector_that_is_none_is_refused_and_later_searches_are_fine(
    url: str, census: Census, broken: str
) -> None:
    embedder = BrokenEmbedder(DIMENSION)
    async with opened(url, embedder=embedder) as memory:
        stored = await memory.store_fact("s", "p", "apple")
        await memory.store_episode("apple episode", butler="b")
        before = census()
        embedder.answer = BROKEN[broken]
        for attempt in (
            lambda: memory.store_episode("one", butler="b"),
            lambda: memory.store_fact("s", "p", "another apple"),
            lambda: memory.store_rule("one"),
            lambda: memory.store_episodes([NewEpisode(content=text, butler="b") for text in ("one", "two", "three")]),
            lambda: memory.search("apple", mode="semantic"),
            lambda: memory.search("apple"),
            lambda: memory.recall("apple"),
        ):
            with pytest.raises(InvalidInput) as refusal:
                await attempt()
            assert refusal.value.field == "embedding"
        assert census() == before
        embedder.answer = None
        for mode in ("keyword", "semantic", "hybrid"):
            found = await memory.search("apple", types=["fact"], mode=mode)
            assert [hit.item.id for hit in found] == [stored.id], mode
        assert (await memory.store_fact("s", "p", "another apple")).superseded_id == stored.id
        assert not problems(await administer(memory).verify())


class ArrayEmbedder(WordEmbedder):
    """Gives its vectors as numpy arrays, as most libraries do."""

    def embed_batch(self, texts: Any) -> Any:
        import numpy

        return numpy.array(super().embed_batch(texts), dtype=numpy.float32)


async def test_vectors_may_be_arrays(url: str) -> None:
    async with opened(url, embedder=ArrayEmbedder(DIMENSION)) as memory:
        stored = await memory.store_fact("s", "p", "apple")
        for mode in ("semantic", "hybrid"):
            assert [hit.item.id for hit in await memory.search("apple", mode=mode)] == [stored.id]
        (vector,) = memory._env.embedder.embed_batch(["apple"])
        assert [hit.item.id for hit in await memory.search_similar(vector)] == [stored.id]
        assert [hit.item.id for hit in await memory.recall("apple")] == [stored.id]
        assert not problems(await administer(memory).verify())


# -- an export that was tampered with --------------------------------------------------------------------------

NESTED: dict[str, Any] = {}
for _ in range(500):
    NESTED = {"a": NESTED}
TAMPERED: list[tuple[str, str, Any]] = [
    ("episodes", "tags", "text"),
    ("episodes", "tags", 5),
    ("episodes", "tags", None),
    ("episodes", "metadata", "text"),
    ("episodes", "metadata", [1]),
    ("episodes", "content", None),
    ("episodes", "content", 5),
    ("episodes", "content", "lone \ud800"),
    ("episodes", "butler", None),
    ("episodes", "butler", ["list"]),
    ("episodes", "user_id", 5),
    ("episodes", "importance", "abc"),
    ("episodes", "importance", 99),
    ("episodes", "importance", 10**40),
    ("episodes", "importance", 1e40),
    ("episodes", "importance", True),
    ("episodes", "importance", math.nan),
    ("episodes", "metadata", NESTED),
    ("episodes", "tags", [1]),
    ("episodes", "tags", ["x" * 201]),
    ("episodes", "tags", ["x"] * 101),
    ("episodes", "owner", 5),
    ("episodes", "user_id", "x" * 201),
    ("episodes", "content_hash", "0" * 32),
    ("episodes", "content", "<private>all of it</private>"),
    ("episodes", "butler", ""),
    ("episodes", "butler", "a\x07b"),
    ("episodes", "title", "x" * 1001),
    ("episodes", "reference_count", -1),
    ("episodes", "reference_count", 2**31),
    ("episodes", "reference_count", 2**31 - 1),
    ("episodes", "reference_count", 1.0),
    ("episodes", "consolidation_status", "done"),
    ("episodes", "session_id", 5),
    ("episodes", "accessed_at", None),
    ("episodes", "reference_count", "abc"),
    ("episodes", "created_at", "yesterday"),
    ("episodes", "created_at", 5),
    ("episodes", "created_at", None),
    ("episodes", "id", "x"),
    ("episodes", "id", None),
    ("episodes", "forgotten", "maybe"),
    ("episodes", "embedding", "AAAA"),
    ("episodes", "embedding", "not base64!"),
    ("episodes", "embedding", 5),
    ("facts", "validity", "unknown"),
    ("facts", "validity", "fading"),
    ("facts", "status", "new"),
    ("facts", "permanence", "forever"),
    ("facts", "decay_rate", -1),
    ("facts", "decay_rate", 1e9),
    ("facts", "subject", "x" * 1001),
    ("facts", "subject", "🙂" * 900),
    ("facts", "keyed", 1),
    ("entities", "aliases", [1]),
    ("entities", "aliases", [None]),
    ("entities", "aliases", [["x"]]),
    ("entities", "aliases", [""]),
    ("entities", "aliases", "Ann"),
    ("entities", "entity_type", "robot"),
    ("entities", "canonical_name", None),
    ("entities", "canonical_name", "a\nb"),
    ("facts", "confidence", 7),
    ("facts", "supersedes_id", "00000000-0000-0000-0000-000000000007"),
    ("rules", "maturity", 5),
    ("rules", "effectiveness_score", "abc"),
    ("memory_links", "relation", "loves"),
    ("memory_links", "target_id", "00000000-0000-0000-0000-000000000007"),
    ("memory_events", "payload", "text"),
    ("memory_events", "payload", NESTED),
    ("memory_events", "event_type", ""),
    ("memory_events", "actor", "x" * 201),
]
NO_LINES = """
text
5
[]
null
"text"
{"table": []}
{"table": {}}
{"table": "episodes"}
{"table": "episodes", "row": []}
{"table": "episodes", "row": {}}
{"table": "sqlite_master", "row": {}}
{"table": "episodes; DROP TABLE facts", "row": {}}
""".split("\n")[:-1]  # the first is empty
NO_LINES += ["{" * 100_000, "[" * 100_000, "\x00"]


@pytest.fixture
async def exported(memory: Memory, tmp_path: Path) -> list[Any]:
    """The lines of an export with a memory of each kind and a link."""
    source = memory.bind(caller=Caller("source"))
    episode = await source.store_episode("apple episode", butler="b", tags=["tag"], metadata={"a": 1})
    fact = await source.store_fact("s", "p", "apple fact")
    await source.store_rule("apple rule")
    await source.create_entity("Ann", "person", aliases=["Annie"])
    await source.create_link("fact", fact.id, "episode", episode.id, "derived_from")
    await source.export(tmp_path / "export.jsonl")
    return [json.loads(line) for line in (tmp_path / "export.jsonl").read_text().splitlines()]


async def assert_import_refused(memory: Memory, census: Census, file: Path, named: str) -> None:
    """Nothing of it is taken in, and the memory goes on as before."""
    await memory.store_fact("own", "p", "apple of my own")
    before = census()
    with pytest.raises(TulvingError, match=named):
        await memory.import_(file)
    assert census() == before
    for mode in ("keyword", "semantic", "hybrid"):
        assert [hit.item.content for hit in await memory.search("apple", mode=mode)] == ["apple of my own"]
    assert len(await everything(memory)) == 1
    await memory.store_fact("own", "p", "another apple")
    assert not problems(await administer(memory).verify())


REFERENCES = ("supersedes_id", "target_id")
"""Looked at by the engine, when all lines are in; everything else is checked before, and so on one engine."""


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(("table", "column", "value"), [each for each in TAMPERED if each[1] not in REFERENCES])
async def test_an_export_with_a_wrong_value_is_refused_whole(
    memory: Memory, census: Census, exported: list[Any], tmp_path: Path, table: str, column: str, value: Any
) -> None:
    number = _spoil(exported, tmp_path, table, column, value)
    await assert_import_refused(memory, census, tmp_path / "tampered.jsonl", f"line {number}, {column}")


@pytest.mark.parametrize(("table", "column", "value"), [each for each in TAMPERED if each[1] in REFERENCES])
async def test_an_export_with_a_wrong_reference_is_refused_whole(
    memory: Memory, census: Census, exported: list[Any], tmp_path: Path, table: str, column: str, value: Any
) -> None:
    _spoil(exported, tmp_path, table, column, value)
    await assert_import_refused(memory, census, tmp_path / "tampered.jsonl", ".")


def _spoil(exported: list[Any], tmp_path: Path, table: str, column: str, value: Any) -> int:
    """Write the export with a value changed; the number of its line."""
    number, line = next(found for found in enumerate(exported, 1) if found[1].get("table") == table)
    line["row"][column] = value
    (tmp_path / "tampered.jsonl").write_text("\n".join(map(json.dumps, exported)))
    return number


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("at", NO_LINES, ids=range(len(NO_LINES)))
async def test_an_export_with_a_line_that_is_none_is_refused_whole(
    memory: Memory, census: Census, exported: list[Any], tmp_path: Path, at: str
) -> None:
    (tmp_path / "tampered.jsonl").write_text("\n".join([*map(json.dumps, exported), at, ""]))
    await assert_import_refused(memory, census, tmp_path / "tampered.jsonl", f"line {len(exported) + 1}")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\x00" * 100, b"{}", b'{"format": "other"}', b"[1]"])
async def test_what_is_no_export_is_refused(memory: Memory, census: Census, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    await assert_import_refused(memory, census, tmp_path / "other", "file|line 1")


async def test_an_export_that_is_as_it_was_is_taken_in(memory: Memory, exported: list[Any], tmp_path: Path) -> None:
    """So that each refusal above is due to the one value."""
    (tmp_path / "same.jsonl").write_text("\n".join(map(json.dumps, exported)))
    await memory.import_(tmp_path / "same.jsonl")
    assert len(await everything(memory)) == 3
    for mode in ("keyword", "semantic", "hybrid"):
        assert len(await memory.search("apple", mode=mode)) == 3
    assert not problems(await administer(memory).verify())
