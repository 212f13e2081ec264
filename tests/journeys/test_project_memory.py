"""The memory of a project from its first day: 002 from one end to the other, with what is shipped and nothing else."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tulving import open_memory
from tulving.settings import MemoryModuleConfig, RetrievalConfig, VectorsConfig
from tulving.storage.sqlite.database import work_folder
from tulving.testing import ManualClock

CONFIG = MemoryModuleConfig(
    embedder="hashing", retrieval=RetrievalConfig(fusion="rrf"), vectors=VectorsConfig(exact_rows=50, ef=50)
)
CHORES = [
    "Cleaned up the parser of configuration files",
    "Renamed the module for payments",
    "Measured the latency of the queue",
    "Wrote the changelog of the release",
    "Moved the icons into one folder",
]


@pytest.mark.scenario(
    *(f"002-0{number:02}" for number in range(1, 13)),
    *("002-014", "002-015", "002-016"),
)
async def test_a_project_memory_from_the_first_note_to_the_next_start(path: Path, clock: ManualClock) -> None:
    file = path.parent / ".tulving" / "memory.db"
    assert not file.parent.exists()
    async with open_memory(file, config=CONFIG, clock=clock, background=False, create="folders") as memory:
        session = await memory.start_session(project="atlas")
        fixed = await memory.store_episode(
            "Fixed authentication bug causing login failures <private>API_KEY=secret123</private>",
            butler="coder",
            title="Login works again",
            project="atlas",
        )
        assert isinstance(fixed.id, UUID)
        with closing(sqlite3.connect(file)) as other:  # another process sees it at once: it is on the disk
            ((words, vector),) = other.execute("SELECT search_text, embedding FROM episodes").fetchall()
            assert "login" in words and len(vector) == 4 * 256
            created = other.execute("SELECT created_at, updated_at, accessed_at FROM episodes").fetchone()
            assert len(set(created)) == 1
            schema = "SELECT sql FROM sqlite_schema WHERE name = 'episodes_fts'"
            assert "fts5" in other.execute(schema).fetchone()[0]
        first = await memory.look("episode", fixed.id)
        assert (first.type, first.session_id) == ("bugfix", session.id)
        assert "secret" not in first.content
        clock.advance(days=1)
        exported = await memory.store_episode(
            "Added new export feature for CSV format", butler="coder", project="atlas", title="CSV export"
        )
        await memory.store_fact("atlas", "database", "SQLite")
        await memory.store_rule("Run the linter before each commit")
        for number in range(110):
            text = f"{CHORES[number % 5]}, part {number}"
            await memory.store_episode(text, butler="coder", project="babel", type="change")
        (counted,) = await memory.sessions()
        assert counted.memories == {"episode": 112, "fact": 1, "rule": 1}

        found = await memory.search("fix authentication bug", mode="keyword", project="atlas")
        assert found[0].item.id == fixed.id and found[0].parts["rank"] > 0
        assert not await memory.search("authentication", mode="keyword", type="decision")
        assert not await memory.search("authentication", mode="keyword", since=clock.now)
        assert len(await memory.search("authentication", mode="keyword", until=clock.now)) == 1
        await memory.ready()
        near = await memory.search("export as CSV", mode="semantic", limit=10, types=["episode"])
        assert len(near) == 10 and near[0].item.id == exported.id
        similar = [hit.parts["similarity"] for hit in near]
        assert similar == sorted(similar, reverse=True)
        both = await memory.search("authentication bug", types=["episode"])
        scores = [hit.score for hit in both]
        assert both[0].item.id == fixed.id and scores == sorted(scores, reverse=True)
        parts = both[0].parts
        assert parts["rrf_score"] == pytest.approx(1 / (60 + parts["semantic_rank"]) + 1 / (60 + parts["keyword_rank"]))

        compact = await memory.search_compact("authentication bug")
        assert (compact.hits[0].id, compact.hits[0].title, compact.hits[0].type) == (
            fixed.id,
            "Login works again",
            "bugfix",
        )
        around = await memory.timeline(fixed.id, window=1)
        assert [(entry.position, entry.id) for entry in around][:2] == [("anchor", fixed.id), ("after", exported.id)]
        (detail,) = await memory.details([fixed.id])
        assert detail.memory.content == first.content

        await memory.edit("episode", fixed.id, content="Repaired the sign-in form")
        assert not await memory.search("authentication", mode="keyword", types=["episode"])
        assert (await memory.search("sign-in form", mode="keyword"))[0].item.id == fixed.id
        ended = await memory.end_session(session.id, summary="sign-in and export", tool_calls=7)
        assert (ended.status, ended.ended_at, ended.summary, ended.tool_calls) == (
            "completed",
            clock.now,
            "sign-in and export",
            7,
        )
    snapshots = list((work_folder(file) / "semantic-index").iterdir())
    assert snapshots, "the graph is kept for the next start"
    clock.advance(days=1)
    async with open_memory(file, config=CONFIG, clock=clock, background=False) as memory:
        again = await memory.search("export as CSV", mode="semantic", limit=10, types=["episode"])
        assert again[0].item.id == exported.id and again[0].parts["similarity"] == similar[0]
        assert (await memory.delete("episode", exported.id)) is True
        assert exported.id not in {hit.item.id for hit in await memory.search("export CSV", limit=50)}
        assert (await memory.get_session(session.id)).session.started_at == clock.now - timedelta(days=2)
