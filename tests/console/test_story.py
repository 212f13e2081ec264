"""`tulving serve --demo`: a newcomer's first minute, on a store that has something of everything."""

from datetime import UTC, datetime

import httpx2
import pytest
from console_parts import serving

from tulving import open_memory
from tulving.interfaces.cli import story
from tulving.settings import MemoryModuleConfig
from tulving.testing import SequentialIds, WordEmbedder

END = datetime(2026, 11, 18, 21, 30, tzinfo=UTC)


async def told(url, export=None):
    clock, config = story.StoryClock(END), MemoryModuleConfig(conflicts=story.UNSURE)
    options = {"config": config, "clock": clock, "ids": SequentialIds(), "background": False}
    async with open_memory(url, embedder=WordEmbedder(256), **options) as memory:
        await story.tell(memory, clock)
        await memory.settle()
        before = await memory.overview()
        await story.tell(memory, clock)
        assert await memory.overview() == before
        if export:
            await memory.export(export)
        yield memory


@pytest.fixture
async def filled(tmp_path):
    async for memory in told(str(tmp_path / "story.db")):
        yield memory


async def test_the_story_has_something_for_every_page(filled):
    memory = filled
    counts = await memory.overview()
    assert counts.facts.active > 20 and counts.facts.superseded >= 2 and counts.facts.retracted >= 1
    assert {rule.maturity for rule in (await memory.list_memories("rule", limit=50)).items} >= {"proven", "established"}
    assert counts.rules.needs_inversion == 1
    assert {report.settlement.status for report in await memory.conflicts()} == {"held", "applied"}
    assert {report.run.status for report in await memory.runs()} == {"done", "undone"}
    assert sum(report.held for report in await memory.runs()) == 1
    assert {report.session.status for report in await memory.sessions()} == {"active", "completed"}
    assert "Porto" in await memory.profile()
    assert (await memory.resolve_entity("Jon"))[0].canonical_name == "Jon Reed"
    days = {episode.created_at.date() for episode in (await memory.list_memories("episode", limit=50)).items}
    assert len(days) > 5


async def test_the_wrong_date_leads_to_where_it_came_from(filled):
    memory = filled
    [wrong] = [item for item in (await memory.list_memories("fact", limit=100)).items if "12 March" in item.content]
    [link] = [each for each in await memory.get_links("fact", wrong.id) if each.relation == "derived_from"]
    assert (await memory.get("episode", link.target_id)).content == story.BIRTHDAY


async def test_nothing_of_it_is_in_the_future(filled):
    for kind in ("episode", "fact", "rule"):
        page = await filled.list_memories(kind, limit=100)
        assert all(END - story.LENGTH <= item.created_at <= END for item in page.items)


async def test_it_is_the_same_each_time(tmp_path):
    exports = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for export in exports:
        async for _ in told(str(export.with_suffix(".db")), export):
            pass
    assert exports[0].read_bytes() == exports[1].read_bytes()


def test_a_newcomer_sees_it_by_one_command_without_weights_and_without_a_network(tmp_path):
    home = str(tmp_path / "home")
    settings = {"TULVING_HOME": home, "TULVING_LLM__URL": "http://192.0.2.1", "TMPDIR": str(tmp_path)}
    with serving(tmp_path, "--demo", **settings) as link, httpx2.Client(follow_redirects=True) as web:
        shown = web.get(link)
        assert (shown.status_code, shown.url.path) == (200, "/console")
        assert "Overview" in shown.text
        assert [*tmp_path.glob("tulving-demo-*")]
    assert not [*tmp_path.glob("tulving-demo-*")]
