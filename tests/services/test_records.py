"""What verbs return: a line in a terminal, a value for JSON."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tulving import Caller, CompactFound, Found, Hit, Page, Window
from tulving.domain.records import Record, plain
from tulving.interfaces.wire import wire


@pytest.fixture
async def records(memory) -> dict[str, Record]:
    """What many verbs return, of a memory that holds something of everything."""
    anna = memory.bind(user_id="anna", caller=Caller(actor="gardener"))
    async with anna.session(project="garden") as work:
        await work.store_episode("Planted roses " * 50, title="Roses")
    await anna.record_event("Watered the roses", "custom")
    fact = await anna.store_fact("roses", "color", "red", tags=["garden"], metadata={"seen": [1, 2.5, None]})
    newer = await anna.store_fact("roses", "color", "white")
    rule = await anna.store_rule("Water the roses in the morning " * 40)
    await anna.edit("fact", newer.id, content="pale white")
    entity = await memory.create_entity("Anna", "person", aliases=["Annie"])
    found = await anna.recall("roses")
    return {
        "stored": newer,
        "found": found,
        "hit": found[0],
        "similar": await anna.search_similar(query="roses"),
        "compact": await anna.search_compact("roses"),
        "page": await anna.list_memories("fact", state="any"),
        "window": await anna.query_window(),
        "rule": await anna.mark_helpful(rule.id),
        "fact": await anna.look("fact", fact.id),
        "report": (await anna.sessions())[0],
        "link": (await anna.get_links("fact", newer.id))[0],
        "event": (await anna.events("fact", newer.id))[0],
        "revision": (await anna.revisions("fact", newer.id))[0],
        "detail": (await anna.details([newer.id]))[0],
        "entry": (await anna.timeline(fact.id, "fact"))[0],
        "created": entity,
        "entity": await memory.get_entity(entity.entity_id),
        "candidate": (await memory.resolve_entity("Annie"))[0],
        "statistics": await anna.stats(),
        "overview": await anna.overview(),
        "health": await memory.health(),
        "readiness": await memory.readiness(),
        "bridge": await memory.bridge_status(),
        "merge rule": (await memory.merge_rules())[0],
    }


async def test_a_record_is_a_line(records):
    for name, record in records.items():
        assert isinstance(record, Record), name
        assert len(repr(record)) < 400, f"{name}: {record!r}"
        assert "\n" not in repr(record)
    fact, hit = records["fact"], records["hit"]
    assert repr(fact) == f"Fact(id='{fact.id}', subject='roses', predicate='color', content='red', state='superseded')"
    assert repr(hit).startswith(f"Hit(memory_type='{hit.memory_type}', score=0.")
    assert len(repr(hit)) < 180
    assert f"… {len(records['found']) - 1} more]" in repr(records["found"])
    assert repr(records["statistics"].rules) == "RuleCounts(total=1, candidate=1)"
    assert "…" in repr(records["rule"])
    assert len(repr(records["rule"])) < 180


async def test_a_record_is_a_value_for_json(records):
    for name, record in records.items():
        told = record.to_dict()
        assert json.loads(json.dumps(told)) == told, name
    fact = records["fact"].to_dict()
    assert (fact["id"], fact["state"], fact["metadata"]) == (
        str(records["fact"].id),
        "superseded",
        {"seen": [1, 2.5, None]},
    )
    assert datetime.fromisoformat(fact["created_at"]) == records["fact"].created_at
    assert not {"content_hash", "owner", "folded_subject"} & fact.keys()
    hit = records["hit"]
    assert hit.to_dict() | {"id": str(hit.id), "content": hit.content, "score": hit.score} == hit.to_dict()
    assert [each["id"] for each in records["found"].to_dict()["results"]] == [str(hit.id) for hit in records["found"]]
    assert len(records["rule"].to_dict()["content"]) > 1000, "nothing is cut"


async def test_the_form_is_that_of_the_other_surfaces(records):
    for name in ("stored", "rule", "fact", "report", "link", "event", "revision", "entity", "candidate", "statistics"):
        assert records[name].to_dict() == wire(records[name]), name


async def test_a_fading_memory_says_so_in_its_metadata(memory, clock):
    await memory.store_fact("roses", "color", "red")
    rule = await memory.store_rule("Water them")
    clock.advance(days=205)
    await memory.run_decay_sweep()
    [fact] = await memory.list_memories("fact")
    assert (fact.to_dict()["metadata"], fact.to_dict()["state"]) == ({"status": "fading"}, "fading")
    assert (await memory.look("rule", rule.id)).to_dict()["metadata"] == {"status": "fading"}


async def test_a_listing_is_a_sequence(records):
    for name, kind in {"found": Found, "compact": CompactFound, "page": Page, "window": Window}.items():
        listing = records[name]
        assert isinstance(listing, kind)
        assert isinstance(listing, Sequence)
        listed = list(listing)
        assert (len(listing), listing[0], listing[-1], listing[:2]) == (len(listed), listed[0], listed[-1], listed[:2])
        assert listing.index(listed[-1]) == len(listed) - 1
        assert listed[0] in listing
        assert list(reversed(listing)) == listed[::-1]
        with pytest.raises(IndexError):
            listing[len(listed)]
    assert all(isinstance(hit, Hit) for hit in records["found"])


def test_what_json_cannot_hold_is_refused():
    assert plain({UUID(int=1): [datetime(2026, 1, 1, tzinfo=UTC), (1, None)]}) == {
        str(UUID(int=1)): ["2026-01-01T00:00:00+00:00", [1, None]]
    }
    with pytest.raises(TypeError, match="bytes has no form in JSON"):
        plain([b"vector"])
