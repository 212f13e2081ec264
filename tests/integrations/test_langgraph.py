"""The LangGraph store, held to what LangGraph's own stores do, on both engines."""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from tulving import Caller, InvalidInput, Memory, open_memory, open_memory_sync
from tulving.integrations.importers import Mapped
from tulving.integrations.importers.detecting import detect
from tulving.integrations.importers.writer import take
from tulving.integrations.langgraph import TulvingStore
from tulving.testing import ManualClock, WordEmbedder

NOTES = ("notes",)
TOKEN = "ghp_" + "Qz7CANARYx9Kd2Lm4Np6Rt8Vw0YbaB3dE5g"


@pytest.fixture
async def store(memory: Memory) -> TulvingStore:
    return TulvingStore(memory)


class TestAnItem:
    async def test_is_read_as_it_was_put(self, store: TulvingStore, clock: ManualClock) -> None:
        value: dict[str, Any] = {
            "text": "naïve 日本 😀 'quoted' \"double\" \\ back\nnew line",
            "nested": {"list": [1, 2.5, -0.0, 1e300, 2**80, True, None, [], {}, ""], "deep": {"er": {"est": "x"}}},
            "one": 1.0,
            "long": "word " * 20_000,
        }
        await store.aput(NOTES, "a", value)
        item = await store.aget(NOTES, "a")
        assert item is not None
        assert item.value == value
        assert type(item.value["one"]) is float
        assert (item.namespace, item.key) == (NOTES, "a")
        assert item.created_at == item.updated_at == clock()

    async def test_is_none_where_there_is_none(self, store: TulvingStore) -> None:
        assert await store.aget(NOTES, "a") is None
        await store.adelete(NOTES, "a")
        assert await store.asearch(NOTES) == []
        assert await store.alist_namespaces() == []

    async def test_is_replaced_and_keeps_when_it_was_created(self, store: TulvingStore, clock: ManualClock) -> None:
        created_at = clock()
        await store.aput(NOTES, "a", {"text": "old", "more": 1})
        for value in ({"text": "new"}, {"text": "NEW"}, {"text": "NEW", "more": None}):
            clock.advance(minutes=1)
            await store.aput(NOTES, "a", value)
            item = await store.aget(NOTES, "a")
            assert item is not None
            assert item.value == value
            assert (item.created_at, item.updated_at) == (created_at, clock())
        assert [item.value for item in await store.asearch(NOTES)] == [value]

    async def test_is_the_last_one_written_though_a_clock_is_put_back(
        self, store: TulvingStore, clock: ManualClock
    ) -> None:
        for at in range(20):
            clock.advance(seconds=1 if at < 19 else -60)
            await store.aput(NOTES, "a", {"n": at})
        item = await store.aget(NOTES, "a")
        assert item is not None
        assert item.value == {"n": 19}

    async def test_is_deleted_with_its_former_values(self, store: TulvingStore, memory: Memory, sql: Any) -> None:
        await store.aput(NOTES, "a", {"text": "first secret"})
        await store.aput(NOTES, "a", {"text": "second secret"})
        await store.aput(NOTES, "b", {"text": "another"})
        await store.adelete(NOTES, "a")
        assert await store.aget(NOTES, "a") is None
        assert [item.key for item in await store.asearch(NOTES)] == ["b"]
        assert len(sql("SELECT id FROM facts")) == 1
        await store.aput(NOTES, "a", {"text": "again"})
        item = await store.aget(NOTES, "a")
        assert item is not None
        assert item.value == {"text": "again"}

    async def test_has_an_exact_name(self, store: TulvingStore) -> None:
        """A fact has the same key whatever its case and separators; an item has not."""
        names = [
            "Key",
            "key",
            "KEY",
            "ke y",
            "ke_y",
            "ke-y",
            " key",
            "key ",
            "a/b",
            "a",
            "",
            "ｋey",
            "x" * 5000,
            "api_key: 1",
        ]
        for name in names:
            await store.aput(NOTES, name, {"name": name})
        for path in (("notes", "a"), ("Notes",), ("notes ",), ("notes/a",), ("notes", "a", "b")):
            await store.aput(path, "b", {"name": "/".join(path)})
        for name in names:
            item = await store.aget(NOTES, name)
            assert item is not None, name
            assert (item.key, item.value) == (name, {"name": name})
        item = await store.aget(("notes",), "a/b")
        assert item is not None
        assert item.value == {"name": "a/b"}
        assert len(await store.asearch(NOTES, limit=100)) == len(names) + 2
        assert len(await store.asearch((), limit=100)) == len(names) + 5

    async def test_does_not_fade(self, store: TulvingStore, memory: Memory, clock: ManualClock) -> None:
        await store.aput(NOTES, "a", {"text": "kept for years"})
        clock.advance(days=4000)
        await memory.run_decay_sweep()
        assert await store.aget(NOTES, "a") is not None
        assert len(await store.asearch(NOTES, query="years")) == 1

    async def test_loses_private_text(self, store: TulvingStore) -> None:
        await store.aput(NOTES, "a", {"text": "open <private>hidden</private>", "all": "<private>hidden</private>"})
        await store.aput(NOTES, "b", {"all": "<private>hidden"})
        first, second = await store.abatch([GetOp(NOTES, "a"), GetOp(NOTES, "b")])
        assert first.value == {"text": "open ", "all": ""}  # type: ignore[union-attr]
        assert second.value == {"all": ""}  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("namespace", "key", "value"),
        [
            (NOTES, "a", {"x": float("nan")}),
            (NOTES, "a", {"x": object()}),
            (NOTES, "a", ["no mapping"]),
            (NOTES, "a\x00", {"x": 1}),
            (NOTES, "half \ud83d", {"x": 1}),
            (NOTES, "<private>a</private>", {"x": 1}),
            (("half \ud83d",), "a", {"x": 1}),
        ],
    )
    async def test_that_cannot_be_kept_is_refused(
        self, store: TulvingStore, namespace: tuple[str, ...], key: str, value: Any
    ) -> None:
        with pytest.raises(InvalidInput):
            await store.abatch([PutOp(("other",), "b", {"x": 1}), PutOp(namespace, key, value)])
        assert await store.asearch(()) == []

    async def test_needs_a_proper_namespace(self, store: TulvingStore) -> None:
        for namespace in ((), ("",), ("a.b",), ("langgraph",), (1,)):
            with pytest.raises(InvalidNamespaceError):
                await store.aput(namespace, "a", {"x": 1})  # type: ignore[arg-type]
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([GetOp(("a.b",), "a")])


class TestABatch:
    async def test_reads_before_it_writes_and_the_last_put_counts(self, store: TulvingStore) -> None:
        await store.aput(NOTES, "a", {"n": 0})
        results = await store.abatch(
            [
                PutOp(NOTES, "a", {"n": 1}),
                GetOp(NOTES, "a"),
                PutOp(NOTES, "a", {"n": 2}),
                PutOp(NOTES, "b", {"n": 3}),
                PutOp(NOTES, "b", None),
                SearchOp(NOTES),
                ListNamespacesOp(),
                GetOp(NOTES, "c"),
            ]
        )
        item, [found] = results[1], results[5]  # type: ignore[misc]
        assert item.value == found.value == {"n": 0}  # type: ignore[union-attr]
        assert [results[at] for at in (0, 2, 3, 4, 6, 7)] == [None, None, None, None, [NOTES], None]
        assert [found.value for found in await store.asearch(NOTES)] == [{"n": 2}]

    async def test_of_nothing(self, store: TulvingStore) -> None:
        assert await store.abatch([]) == []

    async def test_of_many_callers_at_once(self, store: TulvingStore) -> None:
        async def write(at: int) -> None:
            await store.aput(("many", str(at % 3)), f"k{at}", {"n": at})
            await store.aput(("shared",), "one", {"n": at})

        await asyncio.gather(*map(write, range(30)))
        assert {item.value["n"] for item in await store.asearch(("many",), limit=100)} == set(range(30))
        assert len(await store.asearch(("shared",))) == 1
        assert await store.alist_namespaces(prefix=("many",)) == [("many", "0"), ("many", "1"), ("many", "2")]


class TestASearch:
    @pytest.fixture(autouse=True)
    async def documents(self, store: TulvingStore, clock: ManualClock) -> None:
        values: list[dict[str, Any]] = [
            {"kind": "book", "year": 1974, "title": "the dispossessed", "tags": ["a", "b"], "by": {"name": "ursula"}},
            {"kind": "book", "year": 1969, "title": "left hand of darkness", "tags": ["a"], "by": {"name": "ursula"}},
            {"kind": "film", "year": 1972, "title": "solaris", "tags": [], "by": {"name": "andrei"}},
            {"kind": "film", "year": None, "title": "lost reel", "published": "1931-05-11"},
        ]
        for at, value in enumerate(values):
            clock.advance(seconds=1)
            await store.aput(("shelf", value["kind"]), str(at), value)
        await store.aput(("shelfs",), "x", {"kind": "book", "year": 1974})

    async def test_by_a_filter(self, store: TulvingStore) -> None:
        wanted: list[tuple[dict[str, Any] | None, str]] = [
            (None, "3210"),
            ({}, "3210"),
            ({"kind": "book"}, "10"),
            ({"kind": "film", "year": 1972}, "2"),
            ({"year": {"$eq": 1969}}, "1"),
            ({"year": {"$ne": 1969}}, "320"),
            ({"year": {"$gt": 1969}}, "20"),
            ({"year": {"$gte": 1969, "$lt": 1974}}, "21"),
            ({"year": {"$lte": 1969.0}}, "1"),
            ({"published": {"$lt": "1940"}}, "3"),
            ({"title": {"$gt": 5}}, ""),
            ({"by": {"name": "ursula"}}, "10"),
            ({"by": {"name": {"$ne": "ursula"}}}, "2"),
            ({"tags": ["a", "b"]}, "0"),
            ({"year": None}, "3"),
            ({"unknown": 1}, ""),
        ]
        for conditions, keys in wanted:
            found = await store.asearch(("shelf",), filter=conditions)
            assert ("".join(item.key for item in found), conditions) == (keys, conditions)
            assert all(item.score is None for item in found)

    async def test_by_an_unknown_operator_is_refused(self, store: TulvingStore) -> None:
        with pytest.raises(InvalidInput, match=r"\$in.*\$eq"):
            await store.asearch(("shelf",), filter={"year": {"$in": [1]}})

    async def test_page_by_page(self, store: TulvingStore) -> None:
        pages = [await store.asearch(("shelf",), limit=3, offset=offset) for offset in (0, 3, 6)]
        assert [[item.key for item in page] for page in pages] == [["3", "2", "1"], ["0"], []]
        assert await store.asearch(("shelf",), limit=0) == []

    async def test_by_words_within_a_prefix_and_a_filter(self, store: TulvingStore) -> None:
        best, *_ = await store.asearch(("shelf",), query="darkness of the left hand")
        assert best.key == "1"
        assert best.score is not None
        assert 0 < best.score <= 1
        found = await store.asearch(("shelf", "film"), query="darkness solaris")
        assert [item.key for item in found] == ["2"]
        found = await store.asearch(("shelf",), query="ursula book", filter={"year": {"$lt": 1970}})
        assert [item.key for item in found] == ["1"]
        assert [item.key for item in await store.asearch(("shelf",), query="ursula", limit=1, offset=1)] in (
            ["0"],
            ["1"],
        )
        assert await store.asearch(("nothing",), query="ursula") == []

    async def test_finds_the_new_value_only(self, store: TulvingStore) -> None:
        await store.aput(("shelf", "film"), "2", {"title": "stalker"})
        first, *others = await store.asearch((), query="stalker")
        assert first.value == {"title": "stalker"}
        assert "solaris" not in str(others)
        await store.adelete(("shelf", "film"), "2")
        assert "stalker" not in str(await store.asearch((), query="stalker"))

    async def test_by_the_indexed_fields(self, store: TulvingStore) -> None:
        await store.aput(
            ("x",), "some", {"seen": "apples", "unseen": "pears", "many": [{"t": "figs"}]}, ["seen", "many[*].t"]
        )
        await store.aput(("x",), "none", {"seen": "apples"}, False)
        for words, keys in (("apples", ["some"]), ("figs", ["some"]), ("pears", [])):
            assert [item.key for item in await store.asearch(("x",), query=words)] == keys
        assert {item.key for item in await store.asearch(("x",))} == {"some", "none"}

    async def test_by_the_fields_of_the_store(self, memory: Memory) -> None:
        store = TulvingStore(memory, fields=["title"], mode="keyword")
        await store.aput(("x",), "a", {"title": "cherries", "text": "plums"})
        assert len(await store.asearch(("x",), query="cherries")) == 1
        assert await store.asearch(("x",), query="plums") == []

    async def test_with_a_very_long_query(self, store: TulvingStore) -> None:
        assert (await store.asearch((), query="solaris " * 5_000))[0].key == "2"


async def test_namespaces_are_listed_by_conditions(store: TulvingStore) -> None:
    paths = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "f")]
    for path in paths:
        await store.aput(path, "one", {"x": 1})
        await store.aput(path, "two", {"x": 1})
    assert await store.alist_namespaces() == sorted(paths)
    shallow = [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
    assert await store.alist_namespaces(prefix=("a", "b"), max_depth=3) == shallow
    assert await store.alist_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f"), ("b", "f")]
    assert await store.alist_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
    assert await store.alist_namespaces(prefix=("a",), suffix=("c", "f")) == [("a", "c", "f")]
    assert await store.alist_namespaces(prefix=("b", "f", "g")) == []
    assert await store.alist_namespaces(limit=2, offset=1) == sorted(paths)[1:3]
    both = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("a", "c")))
    assert await store.abatch([ListNamespacesOp(both)]) == [[("a", "c", "f")]]


async def test_answers_are_those_of_langgraphs_own_store(store: TulvingStore) -> None:
    """The same operations, drawn at random, give the same answers, but for the order of a search."""
    draw, other = random.Random(7), InMemoryStore()
    paths = [("a",), ("a", "b"), ("a", "b", "c"), ("A",), ("d", "b")]

    def operation() -> Op:
        path, key = draw.choice(paths), draw.choice("xyz")
        return draw.choice(
            [
                PutOp(path, key, {"n": draw.randrange(4), "in": {"t": draw.choice("uv")}, "l": [draw.randrange(2)]}),
                PutOp(path, key, {"n": draw.randrange(4)}),
                PutOp(path, key, None),
                GetOp(path, key),
                SearchOp(path[: draw.randrange(3)], draw.choice([None, {"n": 1}, {"n": {"$gt": 1}}]), limit=50),
                SearchOp((), draw.choice([{"in": {"t": "u"}}, {"n": {"$ne": 2, "$lte": 3}}, {"l": [1]}]), limit=50),
                ListNamespacesOp((MatchCondition("prefix", path),), max_depth=draw.choice([None, 1, 2])),
                ListNamespacesOp((MatchCondition("suffix", ("b",)),), limit=2, offset=draw.randrange(2)),
            ]
        )

    def comparable(result: Any) -> Any:
        if isinstance(result, list) and result and isinstance(result[0], Item):
            return sorted((item.namespace, item.key, str(sorted(item.value.items()))) for item in result)
        return (result.namespace, result.key, result.value) if isinstance(result, Item) else result

    for _ in range(80):
        ops = sorted(
            (operation() for _ in range(draw.randrange(1, 6))), key=lambda op: type(op) is not ListNamespacesOp
        )
        for path in [path for path, items in other._data.items() if not items]:
            del other._data[path]  # it lists namespaces that were only read, or that hold nothing any more
        mine, theirs = await store.abatch(ops), await other.abatch(ops)
        assert [comparable(each) for each in mine] == [comparable(each) for each in theirs], ops


class TestImportedItems:
    async def test_are_items_of_the_store(self, memory: Memory, clock: ManualClock, tmp_path: Path) -> None:
        other, store = InMemoryStore(), TulvingStore(memory)
        other.put(("users", "ann"), "Profile", {"text": "Ann is a vet", "n": [1, {"m": None}]})
        other.put(("users",), "profile", {"kind": "Memory", "content": {"content": "likes tea"}})
        items = other.search(())
        await store.aput(("users",), "profile", {"content": "put since"})
        assert await imported(
            memory, tmp_path, *(item.dict() | {"updated_at": "2025-01-01T10:00:00"} for item in items)
        ) == (2, 0)
        assert await store.aget(("users", "ann"), "Profile") == Item(
            value=items[0].value,
            key="Profile",
            namespace=("users", "ann"),
            created_at=datetime(2025, 1, 1, 10, tzinfo=UTC),
            updated_at=datetime(2025, 1, 1, 10, tzinfo=UTC),
        )
        assert [item.value for item in await store.asearch(("users",))] == [{"content": "put since"}, items[0].value]
        [found] = await store.asearch(("users", "ann"), query="Ann is a vet")
        assert found.key == "Profile"
        assert await store.alist_namespaces() == [("users",), ("users", "ann")]
        await store.aput(("users", "ann"), "Profile", {"text": "retired"})
        assert [item.value for item in await store.asearch(("users", "ann"))] == [{"text": "retired"}]
        assert await imported(memory.bind(user_id="bob"), tmp_path, items[0].dict()) == (1, 0)
        assert [item.key for item in await TulvingStore(memory.bind(user_id="bob")).asearch(())] == ["Profile"]

    async def test_of_a_file_of_sqlite(self, memory: Memory, clock: ManualClock, tmp_path: Path) -> None:
        path, store = tmp_path / "store.db", TulvingStore(memory)
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)")
            times = ("2025-01-01 00:00:00", "9999-12-31 23:59:59", None)
            for key, minutes in (("a", None), ("b", 60.0), ("c", 1e300)):
                conn.execute(
                    "INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?)", ("x.y", key, b'{"t":1}', *times, minutes)
                )
        assert detect(path) == "langgraph"
        report = await take(memory, "langgraph", [path], Mapped())
        assert (report.added["facts"], report.refused) == (3, 0)
        assert {item.key for item in await store.asearch(("x", "y"))} == set("abc")
        clock.advance(hours=2)
        assert {item.key for item in await store.asearch(("x", "y"))} == set("ac")
        await store.aput(("x", "y"), "a", {"t": 2})
        assert (await store.aget(("x", "y"), "a")).value == {"t": 2}

    async def test_bad_ones_are_refused(self, memory: Memory, tmp_path: Path) -> None:
        good: dict[str, Any] = {"namespace": ["a"], "key": "k", "value": {"t": 1}}
        bad = [{"namespace": "\x00"}, {"namespace": [1]}, {"key": None}, {"key": TOKEN}, {"value": [1]}, {"value": "{"}]
        bad += [{"updated_at": "soon"}, {"ttl_minutes": -1}, {"ttl_minutes": "x"}, {"key": "<private>x</private>"}]
        assert await imported(memory, tmp_path, good, *(good | each for each in bad)) == (1, len(bad))


async def imported(memory: Memory, folder: Path, *items: dict[str, Any]) -> tuple[int, int]:
    """Import items; how many were added, and how many refused."""
    path = folder / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, items)))
    report = await take(memory, "langgraph", [path], Mapped())
    assert TOKEN not in repr(report)
    return report.added["facts"], report.refused


class TestSecrets:
    async def test_are_redacted_in_values_and_refused_in_names(self, store: TulvingStore) -> None:
        await store.aput(NOTES, "a", {"password": "hunter2", "text": f"use {TOKEN}", TOKEN: 1, "n": 1})
        item = await store.aget(NOTES, "a")
        assert item is not None
        mark = "[redacted: GitHub token]"
        assert item.value == {"password": "[redacted: password]", "text": f"use {mark}", mark: 1, "n": 1}
        for path, key in (((TOKEN,), "a"), (NOTES, TOKEN)):
            with pytest.raises(InvalidInput, match="can't be kept exactly") as refused:
                await store.aput(path, key, {"n": 1})
            assert TOKEN not in str(refused.value)


async def test_other_facts_with_its_key_or_tags_are_no_items(memory: Memory, store: TulvingStore) -> None:
    """A model that sees a tag in an answer may use it too."""
    await store.aput(NOTES, "a", {"text": "a mine"})
    await store.aput(NOTES, "b", {"text": "b mine"})
    a, b = sorted((await memory.list_memories("fact")).items, key=lambda fact: fact.content)
    await memory.store_fact("user", "likes", "mine", tags=a.tags)
    for number, forged in enumerate(({"ttl": "x"}, {"name": None}, {"updated_at": "9999-12-31T23:59:59-10:00"}, None)):
        details = {**a.metadata, "document": forged and {**a.metadata["document"], **forged}}
        await memory.store_fact("user", f"forged {number}", "mine", tags=a.tags, metadata=details)
    await memory.store_fact(b.subject, b.predicate, "not an item")
    assert await store.aget(NOTES, "b") is None
    for found in (await store.asearch(NOTES), await store.asearch(NOTES, query="mine", limit=1)):
        assert [item.key for item in found] == ["a"]
    await store.aput(NOTES, "b", {"text": "again"})
    assert (await store.aget(NOTES, "b")).value == {"text": "again"}


class TestTheTimeToLive:
    async def test_ends_an_item_unless_it_is_read(
        self, store: TulvingStore, memory: Memory, clock: ManualClock
    ) -> None:
        await store.aput(NOTES, "short", {"x": "apples"}, ttl=10)
        await store.aput(NOTES, "lasting", {"x": "apples"})
        clock.advance(minutes=9)
        assert await store.aget(NOTES, "short") is not None  # counts as an access
        await memory._env.references.settle()
        clock.advance(minutes=9)
        assert await store.aget(NOTES, "short", refresh_ttl=False) is not None
        assert len(await store.asearch(NOTES, query="apples", refresh_ttl=False)) == 2
        clock.advance(minutes=1)
        assert [item.key for item in await store.asearch(NOTES, query="apples")] == ["lasting"]
        assert await store.aget(NOTES, "short") is None
        assert [item.key for item in await store.asearch(NOTES)] == ["lasting"]

    async def test_begins_again_with_a_new_value_and_can_be_taken_away(
        self, store: TulvingStore, clock: ManualClock
    ) -> None:
        await store.aput(NOTES, "a", {"x": 1}, ttl=10)
        clock.advance(minutes=9)
        await store.aput(NOTES, "a", {"x": 1}, ttl=10)
        clock.advance(minutes=9)
        assert await store.aget(NOTES, "a", refresh_ttl=False) is not None
        await store.aput(NOTES, "a", {"x": 1}, ttl=None)
        clock.advance(days=1)
        assert await store.aget(NOTES, "a") is not None

    async def test_is_swept(self, memory: Memory, clock: ManualClock, sql: Any) -> None:
        store = TulvingStore(memory, ttl={"default_ttl": 10})
        for value in (1, 2):
            await store.aput(NOTES, "a", {"x": value})
        await store.aput(NOTES, "b", {"x": 1}, ttl=60)
        clock.advance(minutes=11)
        assert await store.asweep_ttl() == 1
        assert await asyncio.to_thread(store.sweep_ttl) == 0
        assert len(sql("SELECT id FROM facts")) == 1


class TestOwners:
    async def test_have_items_of_their_own(self, memory: Memory) -> None:
        stores = [
            TulvingStore(each)
            for each in (
                memory,
                memory.bind(user_id="ada"),
                memory.bind(user_id="ada", persona_id="cook"),
                memory.bind(user_id="bob"),
                memory.bind(project="p"),
                memory.bind(scope="s"),
                memory.bind(caller=Caller("other")),
            )
        ]
        for at, store in enumerate(stores):
            await store.aput(NOTES, "a", {"apples": at})
        for at, store in enumerate(stores):
            item = await store.aget(NOTES, "a")
            assert item is not None
            assert item.value == {"apples": at}
            assert [found.value for found in await store.asearch(())] == [{"apples": at}]
            assert [found.value for found in await store.asearch((), query="apples")] == [{"apples": at}]
        await stores[0].adelete(NOTES, "a")
        assert await stores[1].alist_namespaces() == [NOTES]
        assert await stores[0].alist_namespaces() == []

    async def test_recall_items_like_other_facts(self, memory: Memory) -> None:
        await TulvingStore(memory).aput(("users", "ada"), "breakfast", {"likes": "porridge"})
        [hit] = await memory.recall("porridge")
        assert (hit.item.content, hit.item.subject) == ("likes: porridge", "langgraph")  # type: ignore[union-attr]


class TestPlainCalls:
    async def test_from_another_thread(self, store: TulvingStore) -> None:
        def work() -> list[Any]:
            store.put(NOTES, "a", {"x": 1})
            return store.batch([GetOp(NOTES, "a"), ListNamespacesOp()])

        item, namespaces = await asyncio.to_thread(work)
        assert (item.value, namespaces) == ({"x": 1}, [NOTES])

    async def test_in_the_loop_of_the_memory_are_refused(self, store: TulvingStore) -> None:
        with pytest.raises(asyncio.InvalidStateError, match="await"):
            store.get(NOTES, "a")

    async def test_from_another_loop(self, store: TulvingStore) -> None:
        await asyncio.to_thread(asyncio.run, store.aput(NOTES, "a", {"x": 1}))
        assert await store.aget(NOTES, "a") is not None

    def test_need_a_loop_or_a_blocking_memory(self, path: Path) -> None:
        async def opened() -> Memory:
            async with open_memory(path, embedder=WordEmbedder(), background=False) as memory:
                return memory

        memory = asyncio.run(opened())
        with pytest.raises(RuntimeError, match="open_memory_sync"):
            TulvingStore(memory)

    def test_of_a_blocking_memory(self, path: Path) -> None:
        with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
            store = TulvingStore(memory.bind(user_id="ada"))
            store.put(NOTES, "a", {"x": "apples"})
            asyncio.run(store.aput(NOTES, "b", {"x": "pears"}))

            async def in_a_notebook() -> list[str]:
                return [item.key for item in store.search(NOTES, query="pears")]

            assert asyncio.run(in_a_notebook()) == ["b"]
        with pytest.raises(RuntimeError, match="closed"):
            store.get(NOTES, "a")
        with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
            kept = TulvingStore(memory.bind(user_id="ada")).search(NOTES)
            assert {item.key: item.value for item in kept} == {"a": {"x": "apples"}, "b": {"x": "pears"}}


class State(TypedDict):
    said: str
    known: list[str]


class TestAGraph:
    """A graph whose nodes remember what is said, and look for what is known about it."""

    async def test_runs_with_asynchronous_nodes(self, store: TulvingStore) -> None:
        async def look(state: State, runtime: Runtime) -> dict[str, Any]:
            assert runtime.store is not None
            found = await runtime.store.asearch(("said",), query=state["said"])
            await runtime.store.aput(("said",), state["said"], {"text": state["said"]})
            return {"known": [item.value["text"] for item in found]}

        graph = StateGraph(State)
        graph.add_node("look", look)
        graph.add_edge(START, "look")
        graph.add_edge("look", END)
        compiled = graph.compile(store=store)
        first = await compiled.ainvoke({"said": "apples are red", "known": []})
        second = await compiled.ainvoke({"said": "which fruit is red", "known": []})
        assert (first["known"], second["known"]) == ([], ["apples are red"])

    async def test_runs_with_plain_nodes(self, store: TulvingStore) -> None:
        def look(state: State, runtime: Runtime) -> dict[str, Any]:
            assert runtime.store is not None
            runtime.store.put(("said",), "last", {"text": state["said"]})
            item = runtime.store.get(("said",), "last")
            assert item is not None
            return {"known": [item.value["text"]]}

        graph = StateGraph(State)
        graph.add_node("look", look)
        graph.add_edge(START, "look")
        graph.add_edge("look", END)
        compiled = graph.compile(store=store)
        assert (await compiled.ainvoke({"said": "pears", "known": []}))["known"] == ["pears"]
        done = await asyncio.to_thread(compiled.invoke, {"said": "figs", "known": []})
        assert done["known"] == ["figs"]


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("langgraph", "langgraph"),
        ("langchain", "langchain-core"),
        ("openai_agents", "openai-agents"),
        ("pydantic_ai", "pydantic-ai-slim"),
        ("crewai", "crewai"),
    ],
)
def test_without_its_package_an_adapter_says_what_to_install(module: str, package: str) -> None:
    code = f"""
import sys
for name in ("langgraph", "langchain_core", "agents", "pydantic_ai", "crewai"):
    sys.modules[name] = None
import tulving.integrations.{module}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"pip install {package}" in done.stderr.splitlines()[-1]
