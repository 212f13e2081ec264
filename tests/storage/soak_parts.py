"""A process that uses all of a memory at once: what it does, and what must be true of the store afterwards."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from administration import administer
from fault_parts import everything, problems

from tulving.domain.model import Episode, Fact
from tulving.services.memory import Memory
from tulving.settings import (
    BridgeConfig,
    ConflictsConfig,
    MemoryModuleConfig,
    TimelineConfig,
    VectorsConfig,
    WritesConfig,
)
from tulving.storage import timeline
from tulving.storage.connection import Connection

CONFIG = MemoryModuleConfig(
    timeline=TimelineConfig(capacity=30, segment_episodes=12),
    bridge=BridgeConfig(enabled=True),
    conflicts=ConflictsConfig(enabled=False),
    vectors=VectorsConfig(exact_rows=40, ef=50),
    writes=WritesConfig(max_waiting=3, latency_target=60),
    max_size_bytes=1_500_000,
)
"""So that everything happens soon: archiving, merging, evicting, graphs and their snapshots, waiting for a place."""
PADDING = " and the boats lay still under a grey sky" * 6
Say = Callable[[Any], None]


class Life:
    """The tasks of one process. What it says before a change may have happened, what it says after one has."""

    def __init__(self, memory: Memory, say: Say, name: str) -> None:
        self._memory, self._say, self._name = memory, say, name
        self._chance = random.Random(name)
        self._mine: list[Any] = []
        self.stopping = False

    async def live(self) -> None:
        """Until killed, or told to stop."""
        async with asyncio.TaskGroup() as tasks:
            for each in (self._record, self._converse, self._change, self._read, self._rotate, self._tend):
                tasks.create_task(self._repeat(each))

    async def _repeat(self, step: Callable[[], Any]) -> None:
        while not self.stopping:
            await step()
            await asyncio.sleep(self._chance.random() * 0.01)

    async def _converse(self) -> None:
        async with self._memory.bind(user_id="cleo").session() as memory:
            for _ in range(3):
                await self._record(memory)

    async def _record(self, memory: Memory | None = None) -> None:
        memory = memory or self._memory.bind(user_id=self._chance.choice(("ann", "ben")))
        text = f"{self._name} saw {self._chance.getrandbits(60):x}{PADDING}"
        kind, importance = self._chance.choice((("task", 2), ("observation", 9), ("observation", 1)))
        happened = memory.now()
        self._say({"storing": text})
        stored = [await memory.record_event(text, kind, happened, importance=importance) for _ in range(2)]
        for each in {each.id: each for each in reversed(stored)}.values():  # two if the first was evicted at once
            assert each.outcome == "stored"
            self._say({"stored": str(each.id), "text": text, "fact": kind == "task" or importance == 9})
            self._mine.append(each.id)

    async def _change(self) -> None:
        if len(self._mine) < 20:
            return
        id_ = self._mine.pop(self._chance.randrange(len(self._mine)))
        verb = self._chance.choice(("edit", "forget", "delete", "get", "get"))
        options = {"content": f"was changed {id_}{PADDING}"} if verb == "edit" else {}
        self._say({verb: str(id_), "begun": True, **options})
        with suppress(KeyError):  # it was evicted
            await getattr(self._memory, verb)("episode", id_, **options)
            self._say({verb: str(id_), "done": True, **options})

    async def _read(self) -> None:
        window = await self._memory.query_window(last_days=1, top_k=200)
        for item in window.events:
            assert item.content and "unreadable" not in item.metadata, item
        if window.events:
            await self._memory.timeline(self._chance.choice(window.events).id, window=20)
        for hit in await self._memory.search("boats under a grey sky", limit=5):
            assert hit.item.content
        health = await self._memory.readiness()
        assert health.state in ("ready", "warming"), health

    async def _rotate(self) -> None:
        learned = "UPDATE episodes SET consolidated = TRUE WHERE tenant_id = 'default' AND forgotten = FALSE"
        await self._memory._write(lambda conn: conn.execute(learned))
        assert not (await self._memory.rotate_timeline())["damaged"]

    async def _tend(self) -> None:
        """What maintenance and the bridge of a process do."""
        memory, administration = self._memory, administer(self._memory)
        await administration.embed_pending()
        await memory.run_bridge()
        if self._chance.random() < 0.1:
            await administration.evict()
            await memory._env.store.reindex(only_outgrown=True)


class Listener:
    """Follows all messages, and now and then continues from its last cursor, as a reader that was restarted."""

    def __init__(self) -> None:
        self.after, self.heard = "0.0", list[Any]()

    async def listen(self, memory: Memory, stopping: Callable[[], bool]) -> None:
        while not stopping():
            with suppress(TimeoutError):
                async with asyncio.timeout(1), aclosing(memory.messages(after=self.after, poll=0.05)) as found:
                    async for message in found:
                        self.heard.append(message)
                        self.after = message.cursor

    async def assert_complete(self, memory: Memory) -> None:
        """Every event of an episode was told, in the order of the trail."""
        told = [id_ for each in self.heard for id_ in each.payload.get("ids") or [each.payload.get("id")]]
        places = [tuple(map(int, each.cursor.split("."))) for each in self.heard]
        assert places == sorted(set(places)), "out of order, or twice"
        events = await memory._read(_events)
        topics = Counter(told)
        for event_type, id_ in events:
            assert topics[id_] > 0, f"nobody was told of {event_type} of {id_}"
            topics[id_] -= 1
        assert not +topics, "told of what did not happen"


def _events(conn: Connection) -> list[tuple[str, str]]:
    told = "('episode_created', 'episode_deleted', 'episode_forgotten', 'fact_created')"
    rows = conn.fetch_all(
        f"SELECT event_type, entity_id FROM memory_events WHERE tenant_id = 'default' AND event_type IN {told}"
    )
    return [(row["event_type"], str(row["entity_id"])) for row in rows]


def _evicted(conn: Connection) -> set[str]:
    rows = conn.fetch_all(
        "SELECT entity_id, payload FROM memory_events WHERE tenant_id = 'default' AND event_type = 'episode_deleted'"
    )
    return {str(row["entity_id"]) for row in rows if row["payload"].get("by") == "eviction"}


def _bridged(conn: Connection) -> dict[str, str]:
    rows = conn.fetch_all("SELECT episode_id, fact_id FROM bridged_facts WHERE tenant_id = 'default'")
    made = {str(row["episode_id"]): str(row["fact_id"]) for row in rows}
    assert len(made) == len(rows), "an episode has two facts"
    return made


async def assert_whole(memory: Memory, lines: list[Any]) -> dict[str, int]:
    """Nothing that was acknowledged is lost, doubled or mixed up; returns what there was."""
    assert problems(await administer(memory).verify()) == []
    items = await everything(memory, ["episode", "fact"])
    episodes = {str(id_): item for id_, item in items.items() if isinstance(item, Episode)}
    facts = {str(id_): item for id_, item in items.items() if isinstance(item, Fact)}
    evicted, made = await memory._read(_evicted), await memory._read(_bridged)
    stored = {line["stored"]: line for line in lines if "stored" in line}

    def told(verb: str, when: str) -> dict[str, str]:
        return {line[verb]: line.get("content", "") for line in lines if verb in line and when in line}

    lost = stored.keys() - episodes.keys() - evicted - told("delete", "begun").keys()
    assert not lost, f"{len(lost)} acknowledged events are gone"
    assert not told("delete", "done").keys() & episodes.keys(), "what was deleted is back"
    texts = [episode.content for episode in episodes.values()]
    assert len(set(texts)) == len(texts), "an event is there twice"
    offered = {line["storing"] for line in lines if "storing" in line}
    edits, forgotten = told("edit", "begun"), told("forget", "done")
    said = {fact.content for fact in facts.values()}
    for id_, episode in episodes.items():
        allowed = {edits.get(id_), stored[id_]["text"]} if id_ in stored else offered
        assert episode.content in allowed | {edits.get(id_)}, (id_, episode.content, allowed)
        if id_ in told("edit", "done"):
            assert episode.content == edits[id_]
        assert episode.forgotten >= (id_ in forgotten)
        if id_ in stored and not episode.forgotten:
            # The fact may be that of the same event, which was evicted and recorded again.
            found = id_ in made or stored[id_]["text"].strip()[:512].strip() in said
            assert found == stored[id_]["fact"], (id_, "has no fact, or should have none")
    for episode_id, fact_id in made.items():
        fact, expected = facts[fact_id], {edits.get(episode_id), episodes[episode_id].content}
        expected |= {stored[episode_id]["text"]} if episode_id in stored else set()
        assert fact.content in {text.strip()[:512].strip() for text in expected if text}, (fact.content, expected)
    gone = {str(fact.source_episode_id) for fact in facts.values() if fact.state == "active"} & (
        told("delete", "done").keys() | forgotten.keys()
    )
    assert not gone, "the fact of a deleted or forgotten episode is still believed"
    archived = sum(episode.segment_id is not None for episode in episodes.values())
    return {
        "stored": len(stored),
        "left": len(episodes),
        "archived": archived,
        "evicted": len(evicted),
        "bridged": len(made),
    }


async def assert_tidy(memory: Memory, work: Path) -> None:
    """The folder beside the file holds the segments that are named, and snapshots, and nothing else."""
    named = {segment.name for segment in await memory._read(timeline.listing, "default")}
    assert {file.name for file in (work / "timeline").iterdir()} == named
    assert {file.suffix for file in (work / "semantic-index").iterdir()} <= {".hnsw"}
    assert {file.name for file in work.iterdir()} <= {"timeline", "semantic-index"}
