"""Results on the wire: ids and times as text, nothing internal, one form for all surfaces."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tulving import Found, Memory, Page, Stored
from tulving.domain.relevance import SIGNALS
from tulving.interfaces.schemas import schema
from tulving.interfaces.wire import answer, wire
from tulving.services.operations import OPERATIONS
from tulving.testing import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = UUID(int=7)


@pytest.mark.scenario("001-111")
def test_ids_are_text():
    assert wire(ID) == str(ID)
    assert wire({"id": ID, "all": [ID]}) == {"id": str(ID), "all": [str(ID)]}


@pytest.mark.scenario("001-112")
def test_times_are_iso_8601():
    assert wire(NOW) == NOW.isoformat() == "2026-01-01T00:00:00+00:00"


async def test_an_item_has_its_fields_but_nothing_internal(memory: Memory, clock: ManualClock):
    stored = await memory.store_fact("Anna", "color", "green", tags=["a"], metadata={"deep": {"id": 1}})
    fact = await memory.get("fact", stored.id)
    assert fact is not None
    value = wire(fact)
    assert value["id"] == str(stored.id)
    assert value["created_at"] == clock.now.isoformat()
    assert value["state"] == "active"
    assert value["tags"] == ["a"]
    assert value["metadata"] == {"deep": {"id": 1}}
    assert not {"content_hash", "owner", "embedding"} & set(value)
    assert json.loads(json.dumps(value)) == value

    fading = wire(replace(fact, status="fading"))
    assert fading["state"] == "fading"
    assert fading["metadata"] == {"deep": {"id": 1}, "status": "fading"}


async def test_a_fading_rule_says_so_in_its_metadata(memory: Memory):
    stored = await memory.store_rule("Test first")
    rule = await memory.get("rule", stored.id)
    assert rule is not None
    assert "status" not in wire(rule)["metadata"]
    assert wire(replace(rule, status="fading"))["metadata"]["status"] == "fading"  # pyright: ignore


async def test_a_hit_is_the_item_with_the_parts_of_its_score(memory: Memory):
    await memory.store_fact("Anna", "color", "green")
    found = wire(await memory.recall("color"))
    assert set(found) == {"results", "mode", "candidates", "below_confidence", "below_relevance"}
    [hit] = found["results"]
    assert hit["memory_type"] == "fact"
    assert hit["content"] == "green"
    parts = {"similarity", "rank", "semantic_rank", "keyword_rank", "rrf_score"}
    parts |= {"relevance", "importance", "recency", "confidence"}
    parts |= SIGNALS.keys() - {"speaker", "time", "date", "session", "answer"}
    assert hit["score"] > 0
    assert set(hit["parts"]) == parts, "what the query does not call for is no part"


async def test_parts_that_do_not_exist_are_left_out(memory: Memory):
    await memory.store_rule("Always test")
    [hit] = wire(await memory.search("test", mode="keyword"))["results"]
    assert not {"similarity", "semantic_rank", "keyword_rank", "rrf_score"} & set(hit["parts"])
    assert {"rank", "confidence", "relevance"} <= set(hit["parts"])


async def test_a_hit_is_marked_only_where_there_is_something_to_mark(memory: Memory, clock: ManualClock):
    await memory.store_episode("my favourite drink is green tea", butler="b", source="Anna")
    clock.advance(days=2)
    newer = (await memory.store_episode("my favourite drink is black coffee", butler="b", source="Anna")).id
    hits = wire(await memory.search("what is the favourite drink of Anna"))["results"]
    assert [hit.get("newer") for hit in hits if hit["id"] != str(newer)] == [str(newer)]
    assert "newer" not in next(hit for hit in hits if hit["id"] == str(newer))
    assert not any("weak" in hit for hit in hits), "none is"
    hit = (await memory.search("what is the favourite drink of Anna"))[0]
    assert wire(replace(hit, weak=True)) == wire(hit) | {"weak": True}


async def test_an_empty_answer_tells_what_came_closest(memory: Memory):
    await memory.store_fact("Anna", "color", "green")
    found = wire(await memory.search("a green tie", min_relevance=1))
    assert (found["results"], found["below_relevance"]) == ([], 1)
    assert found["closest"]["content"] == "green" and found["closest"]["parts"]["relevance"] < 1
    assert "closest" not in wire(await memory.search("a green tie"))


def test_found_warns_only_when_there_is_something_to_say():
    assert wire(Found(hits=[], mode="keyword", warning="by words only"))["warning"] == "by words only"
    assert "warning" not in wire(Found(hits=[], mode="hybrid"))


def test_stored_always_tells_what_it_superseded():
    stored = Stored(id=ID, outcome="stored")
    assert wire(stored) == {"id": str(ID), "outcome": "stored", "superseded_id": None, "expires_at": None}
    full = Stored(id=ID, outcome="superseded", superseded_id=ID, expires_at=NOW, ref="fact_1", warning="w")
    assert wire(full) == {
        "id": str(ID),
        "outcome": "superseded",
        "superseded_id": str(ID),
        "expires_at": NOW.isoformat(),
        "ref": "fact_1",
        "warning": "w",
    }


def test_a_page_has_items_and_a_cursor():
    assert wire(Page(items=[], next_cursor="c")) == {"items": [], "next_cursor": "c"}


@pytest.mark.parametrize(
    ("tool", "result", "expected"),
    [
        ("memory_confirm", True, {"confirmed": True}),
        ("memory_forget", False, {"forgotten": False}),
        ("memory_get", None, {"memory": None}),
        ("memory_get_links", [], {"links": []}),
        ("memory_context", "# Memory Context\n", {"context": "# Memory Context\n"}),
        ("memory_store_episode", {"stored": False}, {"stored": False}),
    ],
)
def test_bare_results_get_a_name(tool, result, expected):
    assert answer(OPERATIONS[tool], result) == expected


async def test_links_and_events_are_objects(memory: Memory):
    old = await memory.store_fact("Anna", "color", "green")
    new = await memory.store_fact("Anna", "color", "blue")
    [link] = wire(await memory.get_links("fact", new.id))
    assert link["source_id"] == str(new.id)
    assert link["target_id"] == str(old.id)
    events = wire(await memory.events("fact", new.id))
    assert events[0]["entity_id"] == str(new.id)
    assert isinstance(events[0]["occurred_at"], str)


def test_what_has_no_form_is_refused():
    with pytest.raises(TypeError, match="object has no form"):
        wire(object())


async def test_a_conflict_is_told_only_where_there_was_one_and_as_its_schema_says(memory: Memory, clock: ManualClock):
    await memory.store_note("The user drinks green tea in the morning")
    clock.advance(days=1)
    stored = await memory.store_note("The user does not drink green tea in the morning")
    told = answer(OPERATIONS["memory_store_note"], stored)["conflict"]
    assert told["id"] == str(stored.conflict.id)  # pyright: ignore
    assert (told["merged_id"], told["signals"][0]["kind"]) == (None, "semantic")
    assert "owner" not in told
    promised = schema(OPERATIONS["memory_revert_conflict"])
    assert {*promised["required"]} == {*promised["properties"]} == {*told}
    assert promised["properties"]["signals"] == {"type": "array", "items": {"type": "object"}}
    [report] = wire(await memory.conflicts())["items"]
    assert report["settlement"] == told
    assert "conflict" not in wire(Stored(id=ID, outcome="stored"))
