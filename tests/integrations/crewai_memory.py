"""A CrewAI memory on a Tulving store, run by `test_crewai.py` in an environment that has both."""

import asyncio
import sys
from datetime import datetime, timedelta

from crewai.memory.storage.backend import StorageBackend
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

from tulving import open_memory_sync
from tulving.integrations.crewai import TulvingStorage


def contents(found: list) -> list[str]:
    return [record.content for record in found]


def keep_records(storage: TulvingStorage) -> None:
    old = datetime(2020, 1, 1)
    first = MemoryRecord(content="Ada drinks espresso", scope="/team/ada", categories=["taste"], metadata={"n": [1.5]})
    second = MemoryRecord(content="Bob drives a Volvo", scope="/team/bob", created_at=old, private=True, source="b")
    third = MemoryRecord(content="Teamwork matters", scope="/teams", importance=0.9)
    storage.save([first, second, third])
    assert storage.get_record(first.id) == first, "as it was, without its vector"
    assert storage.get_record("unknown") is None
    assert contents(storage.list_records()) == ["Teamwork matters", "Ada drinks espresso", "Bob drives a Volvo"]
    assert contents(storage.list_records("/team", limit=1, offset=1)) == ["Bob drives a Volvo"]
    assert (storage.count(), storage.count("/team"), storage.count("team/ada/")) == (3, 2, 1)
    assert storage.list_scopes() == ["/team", "/teams"]
    assert storage.list_scopes("/team") == ["/team/ada", "/team/bob"]
    assert storage.list_categories("/team") == {"taste": 1}
    info = storage.get_scope_info("/team")
    assert (info.record_count, info.oldest_record, info.child_scopes) == (2, old, ["/team/ada", "/team/bob"])

    [vector] = storage.embed(["espresso coffee"])
    [(best, score), *_] = storage.search(vector)
    assert (best.content, 0 < score <= 1) == ("Ada drinks espresso", True)
    assert contents([record for record, _ in storage.search(vector, "/team/bob")]) == ["Bob drives a Volvo"]
    assert storage.search(vector, metadata_filter={"n": [2]}) == []
    assert storage.search(vector, categories=["other"]) == []
    assert storage.search(vector, min_score=1.0) == []
    assert len(asyncio.run(storage.asearch(vector, categories=["taste"], limit=1))) == 1

    moved = first.model_copy(update={"content": "Ada drinks tea", "scope": "/teams/ada"})
    storage.update(moved)
    assert storage.get_record(first.id) == moved
    assert (storage.count("/team"), storage.count("/teams")) == (1, 2)
    assert storage.delete(older_than=old + timedelta(days=1)) == 1
    assert storage.delete(record_ids=["unknown"]) == 0
    assert asyncio.run(storage.adelete(record_ids=[first.id, third.id], categories=["taste"])) == 1
    storage.reset("/teams")
    assert storage.count() == 0


def remember(storage: TulvingStorage) -> None:
    """CrewAI's own memory over it: without a language model, so everything is said."""
    memory = Memory(storage=storage, embedder=storage.embed, llm="none")
    memory.remember("The deploy runs on Fridays", scope="/ops", categories=["work"], importance=0.8)
    memory.remember("Rex is afraid of thunder", scope="/home", categories=["pets"], importance=0.5)
    [match, *_] = memory.recall("Rex the dog afraid of storms", depth="shallow", limit=1)
    assert match.record.content == "Rex is afraid of thunder"
    assert memory.recall("deploy", scope="/home", categories=["work"], depth="shallow") == []
    assert memory.forget(scope="/home") == 1
    assert contents(memory.list_records()) == ["The deploy runs on Fridays"]
    memory.close()


with open_memory_sync(sys.argv[1], create="file", embedder="hashing", background=False) as opened:
    shared = TulvingStorage(opened)
    assert isinstance(shared, StorageBackend)
    keep_records(shared)
    remember(shared)
    assert [hit.item.content for hit in opened.recall("deploy on Fridays")] == ["The deploy runs on Fridays"]
    assert TulvingStorage(opened.bind(user_id="ada")).count() == 0
print("done")
