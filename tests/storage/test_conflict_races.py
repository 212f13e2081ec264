"""Contrary notes that are stored at the same time: one stays, whoever comes first, and nobody waits for who waits."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from administration import administer
from fault_parts import Children, everything, opened, problems, said

from tulving import InvalidInput, NewFact
from tulving.storage.postgres.errors import Conflict
from tulving.storage.postgres.store import PostgresStore

TEA = "The user drinks green tea in the morning"
NO_TEA = "The user does not drink green tea in the morning"
BOATS = "The user likes fast boats and slow trains"
NO_BOATS = "The user does not like fast boats and slow trains"
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that PostgreSQL has found. The loser is retried, but only after a second."""
    found: list[str] = []
    real = PostgresStore._transact

    async def transact(*args: Any, **options: Any) -> Any:
        try:
            return await real(*args, **options)
        except Conflict as error:
            found.extend([str(error)] if "deadlock" in str(error) else [])
            raise

    monkeypatch.setattr(PostgresStore, "_transact", transact)
    return found


def active(items: dict[Any, Any]) -> list[str]:
    return sorted(f"{fact.scope}: {fact.content}" for fact in items.values() if fact.validity == "active")


async def test_of_many_contrary_notes_at_once_one_stays(url, deadlocks):
    async with opened(url, background=False) as memory:
        notes = [(TEA, NO_TEA, TEA.upper(), f"{NO_TEA}!")[number % 4] for number in range(16)]
        answers = await asyncio.gather(*map(memory.store_note, notes))
        outcomes = Counter(answer.outcome for answer in answers)
        facts = await everything(memory, ["fact"])
        assert len(active(facts)) == 1, active(facts)
        assert outcomes["stored"] == 1 and outcomes["merged"] == 0
        settled = await memory.conflicts(limit=100)
        assert len(settled) == outcomes["superseded"] + outcomes["kept"] == len(facts) - 1
        assert outcomes["duplicate"] == 16 - len(facts)
        assert deadlocks == [] and problems(await administer(memory).verify()) == []


async def test_batches_in_opposite_order_wait_for_each_other_in_turn(url, deadlocks):
    async with opened(url, background=False) as memory:
        batches = []
        for number in range(12):
            text = (BOATS, NO_BOATS)[number % 2] if number % 3 else (TEA, NO_TEA)[number % 2]
            keyed = NewFact(subject="user", predicate="city", content=f"city {number % 2}", scope="b")
            offers = [NewFact(content=text, scope="a"), keyed, NewFact(content=text, scope="c")]
            batches.append(offers[:: 1 if number % 2 else -1])
        await asyncio.gather(*map(memory.store_facts, batches))
        found = active(await everything(memory, ["fact"]))
        assert [line[0] for line in found] == ["a", "a", "b", "c", "c"], found
        assert deadlocks == [] and problems(await administer(memory).verify()) == []


async def test_a_merge_and_its_reversal_beside_a_note_that_says_the_same(url, deadlocks):
    """What a merge says is known only after it has begun; a note that says it is stored at the same time."""
    async with opened(url, background=False) as memory:
        await memory.update_merge_rule("default", {"merge": {"content_strategy": "concatenate", "deduplicate": False}})

        async def one(number: int) -> None:
            mine = memory.bind(user_id=f"user {number}")
            await mine.store_note(TEA, occurred_at=WHEN)
            merged, *_ = await asyncio.gather(
                mine.store_note(NO_TEA, occurred_at=WHEN),
                mine.store_note(f"{TEA}\n{NO_TEA}", occurred_at=WHEN),
                mine.store_note(f"{NO_TEA}\n{TEA}", occurred_at=WHEN),
            )
            again = [mine.store_note(text, occurred_at=WHEN) for text in (TEA, NO_TEA, f"{TEA}\n{NO_TEA}")]
            reverting = [mine.revert_conflict(merged.conflict.id)] if merged.conflict else []
            for answer in await asyncio.gather(*again, *reverting, return_exceptions=True):
                assert not isinstance(answer, Exception) or isinstance(answer, InvalidInput), answer

        await asyncio.gather(*map(one, range(6)))
        facts = [fact for fact in (await everything(memory, ["fact"])).values() if fact.validity == "active"]
        same = Counter((fact.owner, fact.content_hash) for fact in facts)
        assert {fact.user_id for fact in facts} == {f"user {number}" for number in range(6)}
        assert set(same.values()) == {1}
        assert deadlocks == [] and problems(await administer(memory).verify()) == []


async def test_what_a_model_learns_beside_what_is_stored(url, deadlocks):
    async with opened(url, background=False) as memory:

        async def learned(number: int) -> Any:
            mine = memory.bind(user_id=f"user {number}")
            lease = (await mine.learn_prompt("User: hello")).lease
            facts = [{"content": text, "category": "preference", "confidence": 0.9} for text in (TEA, BOATS)]
            learning = mine.learn_apply(json.dumps({"newFacts": facts}), lease)
            storing = [mine.store_note(text) for text in (BOATS, NO_TEA, TEA, NO_BOATS)]
            answer, *_ = await asyncio.gather(learning, *storing)
            return answer

        answers = await asyncio.gather(*map(learned, range(6)))
        assert [answer.errors for answer in answers] == [[]] * 6
        assert deadlocks == [] and problems(await administer(memory).verify()) == []


async def test_processes_that_disagree_leave_one_note(url, children: Children, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    logs = [folder / f"{number}.log" for number in range(3)]
    go = folder / "go"
    texts = [[TEA, NO_TEA], [NO_TEA, TEA], [TEA.upper(), NO_TEA]]
    pids = [
        children.start("disagree", log, path=str(url), texts=each, number=4, go=str(go))
        for log, each in zip(logs, texts, strict=True)
    ]
    go.touch()
    assert [children.wait(pid) for pid in pids] == [0, 0, 0], [said(log) for log in logs]
    async with opened(url, background=False) as memory:
        facts = await everything(memory, ["fact"])
        assert len(active(facts)) == 1, active(facts)
        for line in (line for log in logs for line in said(log)):
            assert line["id"] in map(str, facts), line
        assert problems(await administer(memory).verify()) == []
