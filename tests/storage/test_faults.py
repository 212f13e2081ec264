"""A process that is killed while it writes loses nothing that it acknowledged, and leaves a sound file."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from fault_parts import Children, everything, opened, problems, said, wait_for

from tulving.domain.model import Item, Kind, Settlement
from tulving.services.memory import Memory
from tulving.storage import settlements

SAMPLE = 40


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


@dataclass
class Acknowledged:
    """What the writers said was done, and what they said they were about to do."""

    stored: dict[UUID, tuple[Kind, str]] = field(default_factory=dict)
    forgotten: set[UUID] = field(default_factory=set)
    deleted: set[UUID] = field(default_factory=set)
    perhaps: set[UUID] = field(default_factory=set)
    settled: dict[UUID, list[UUID]] = field(default_factory=dict)
    reverting: set[UUID] = field(default_factory=set)
    reverted: set[UUID] = field(default_factory=set)

    def add(self, lines: list[Any]) -> list[UUID]:
        """Take in a log; the memories that it says were stored."""
        new: list[UUID] = []
        for line in lines:
            for kind, id_, text in line.get("stored", []):
                self.stored[UUID(id_)] = (kind, text)
                new.append(UUID(id_))
            for word, ids in (
                ("forgetting", self.perhaps),
                ("forgot", self.forgotten),
                ("deleting", self.perhaps),
                ("deleted", self.deleted),
                ("reverting", self.reverting),
                ("reverted", self.reverted),
            ):
                if word in line:
                    ids.add(UUID(line[word]))
            for id_, *sides in [line["settled"]] if "settled" in line else []:
                self.settled[UUID(id_)] = [UUID(side) for side in sides]
        return new


async def kill_again_and_again(path: Path, folder: Path, children: Children, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    acknowledged = Acknowledged()
    fruitful = 0
    for number in range(kills):
        log = folder / f"round-{number}.log"
        pid = children.start("write_forever", log, path=str(path), name=f"s{seed}r{number}")
        if number % 4:
            wait_for(log, 1 if number % 2 else 4, pid)  # of three writers, one has said two things by then
            time.sleep(moments.uniform(0, 0.15))
        else:  # while it opens the file, which the one before left with a log to recover
            time.sleep(moments.uniform(0, 0.05))
        assert children.kill(pid) == -9, said(log)
        lines = said(log)
        assert not any("cut" in line for line in lines)
        new = acknowledged.add(lines)
        fruitful += bool(new)
        old = moments.sample(sorted(acknowledged.stored), min(SAMPLE, len(acknowledged.stored)))
        last = number == kills - 1
        await check(path, acknowledged, acknowledged.stored if last else [*new, *old])
        assert {file.name for file in path.parent.iterdir()} <= {path.name, f"{path.name}-wal", f"{path.name}-shm"}
    assert fruitful >= kills // 2
    assert acknowledged.settled


async def check(path: Path, acknowledged: Acknowledged, sought: Any) -> None:
    async with opened(path) as memory:
        items = await everything(memory)
        for id_, (_, text) in acknowledged.stored.items():
            if id_ in items:
                assert items[id_].content == text
                assert id_ not in acknowledged.deleted
            else:
                assert id_ in acknowledged.deleted | acknowledged.perhaps, f"{text} was acknowledged and is gone"
        for id_ in acknowledged.forgotten:
            assert not alive(items[id_]), f"{items[id_].content} was forgotten and is back"
        assert_whole_batches(items)
        assert_one_active_per_key(items)
        listed = await memory._read(settlements.listing, memory.caller.tenant_id, memory.bound, 1_000_000)
        assert_conflicts_are_settled_whole(items, acknowledged, [settlement for settlement, *_ in listed])
        await assert_readable_and_found(memory, items, {id_: acknowledged.stored[id_] for id_ in sought})
        assert not problems(await administer(memory).verify())


def assert_whole_batches(items: dict[UUID, Item]) -> None:
    sizes: dict[tuple[str, str], int] = {}
    for item in items.values():
        if item.tags:
            name, size = item.tags
            assert size == "5"
            key = (name, type(item).__name__)
            sizes[key] = sizes.get(key, 0) + 1
    assert set(sizes.values()) <= {5}, {key: size for key, size in sizes.items() if size != 5}


def assert_one_active_per_key(items: dict[UUID, Item]) -> None:
    facts = [item for item in items.values() if getattr(item, "keyed", False)]
    active = [(fact.subject, fact.predicate) for fact in facts if fact.validity == "active"]
    assert len(active) == len(set(active))
    assert set(active) == {(fact.subject, fact.predicate) for fact in facts}
    replaced = {fact.supersedes_id for fact in facts} - {None}
    assert replaced == {fact.id for fact in facts if fact.validity == "superseded"}


def assert_conflicts_are_settled_whole(
    items: dict[UUID, Item], acknowledged: Acknowledged, listed: list[Settlement]
) -> None:
    """Both sides are there, and one of them is out of use, unless that was reverted."""
    settled = {settlement.id: settlement for settlement in listed}
    assert acknowledged.settled.keys() <= settled.keys(), "a settlement was acknowledged and is gone"
    assert len({settlement.loser_id for settlement in settled.values()}) == len(settled)
    for id_, settlement in settled.items():
        sides = [settlement.candidate_id, settlement.existing_id]
        assert acknowledged.settled.get(id_, sides) == sides
        winner, loser = (items[side] for side in sides)
        assert alive(winner)
        assert alive(loser) is (settlement.status == "reverted")
        if settlement.status == "reverted":
            assert id_ in acknowledged.reverting
        else:
            assert id_ not in acknowledged.reverted, "what was reverted is back"


async def assert_readable_and_found(
    memory: Memory, items: dict[UUID, Item], sought: dict[UUID, tuple[Kind, str]]
) -> None:
    async def one(id_: UUID, kind: Kind, text: str) -> None:
        if id_ not in items:
            return
        item = await memory.get(kind, id_)
        assert item is not None and item.content == text
        for mode in ("keyword", "semantic"):
            found = await memory.search(text, types=[kind], mode=mode, limit=5)
            assert (id_ in [hit.item.id for hit in found]) is alive(item), f"{text} by {mode} search"

    await asyncio.gather(*(one(id_, kind, text) for id_, (kind, text) in sought.items()))


def alive(item: Item) -> bool:
    return getattr(item, "validity", "active") == "active" and not getattr(item, "forgotten", False)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_twenty_kills_lose_nothing_that_was_acknowledged(
    path: Path, tmp_path_factory: pytest.TempPathFactory, children: Children, seed: int
) -> None:
    """Five times for each of four seeds, so that the four can run side by side."""
    await kill_again_and_again(path, tmp_path_factory.mktemp("logs"), children, kills=5, seed=seed)


@pytest.mark.soak
async def test_two_hundred_kills_lose_nothing_that_was_acknowledged(
    path: Path, tmp_path_factory: pytest.TempPathFactory, children: Children
) -> None:
    await kill_again_and_again(path, tmp_path_factory.mktemp("logs"), children, kills=200, seed=5)


async def test_an_answer_means_that_it_is_on_the_disk(path: Path) -> None:
    """A kill leaves what the system has not written yet; a loss of power does not. So each commit is synced."""
    async with opened(path) as memory:
        raw = memory._env.store._writer.raw  # pyright: ignore[reportAttributeAccessIssue]
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
