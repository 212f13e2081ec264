"""Tenants share a database and nothing else; users of one tenant don't get into each other's way."""

import ast
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from administration import administer
from fault_parts import everything, opened, problems
from raw_sql import rows_of, run_sql

import tulving.storage
from tulving.domain.events import Sought
from tulving.domain.model import KIND_OF, KINDS, Fact, Kind, NewEpisode, NewFact, NewRule
from tulving.domain.offers import Offer
from tulving.domain.scope import Bound, Caller, Filter
from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.services.memory import Memory
from tulving.settings import MemoryModuleConfig
from tulving.storage import (
    audit,
    edits,
    entities,
    events,
    facts,
    filters,
    items,
    moving,
    profiles,
    runs,
    timeline,
    timelines,
)
from tulving.storage.kinds import KIND
from tulving.testing import CLOSE, ManualClock, SequentialIds

NAMES = [
    "default",
    "*",
    "%",
    "_",
    "?",
    "'; DROP TABLE facts; --",
    '" OR 1=1 --',
    '{"$ne": 1}',
    "a|b",
    "a",
    "b",
    "ab",
    "a b",
    "a ",
    "A",
    "а",  # Cyrillic
    "á",
    "a\u0301",
    "ａ",  # full width
    "61",  # how "a" is written in hex
    "t61",
    "n",  # its last hex digit is an e, which a stemmer takes off
    "6e",
    "ß",
    "ss",
    "acme",
    "acme-2",
    "acme-22",
    "null",
    "none",
    "NULL",
    "../../etc/passwd",
    "x" * 200,
    "x" * 199,
    "😀",
    "租户",
]
ATTACKS = [
    "\\",
    "\\\\",
    "a\\",
    "'",
    "''",
    "\\'",
    "\\'; DROP TABLE facts; --",
    "'; RESET ALL; --",
    "' || 'a",
    "E'a'",
    "$$; DROP TABLE facts; $$",
    "$1",
    ":tenant_id",
    "${a}",
    "\u2028a",
    "\u0085a",
    "\u202ea",
    "a\u200b",
    "a\u00a0",
    "\\x61",
    "\\u0061",
    "U&'\\0061'",
    "on",
    "DEFAULT",
    "'" * 200,
    "\\" * 200,
    "😀" * 200,
]
assert len({*NAMES, *ATTACKS}) == len(NAMES) + len(ATTACKS)
EVERYBODY = pytest.mark.parametrize("names", [NAMES + ATTACKS], ids=[""])


class Crowd:
    """A memory for each tenant, all on one database. Each has the same ids for its own memories."""

    def __init__(self, memories: dict[str, Memory], canaries: dict[str, dict[str, UUID]]) -> None:
        self.memories, self.canaries = memories, canaries


def word_of(tenant: str) -> str:
    return f"canary{tenant.encode().hex()}"


async def sow(memory: Memory) -> dict[str, UUID]:
    """The same memories for each tenant, but for one word. Two of each kind, and a link between them."""
    word = word_of(memory.caller.tenant_id)
    episode = await memory.store_episode(f"common episode {word}", butler="b", tags=["shared"])
    fact = await memory.store_fact("subject", "predicate", f"common fact {word}", source_episode_id=episode.id)
    rule = await memory.store_rule(f"common rule {word}", source_episode_id=episode.id)
    second = await memory.store_fact("subject", "other predicate", f"common second fact {word}")
    note = await memory.store_note("common note")
    await memory.create_link("fact", fact.id, "rule", rule.id, "supports")
    assert note.ref is not None
    return {"episode": episode.id, "fact": fact.id, "rule": rule.id, "second": second.id, "note": note.id}


@pytest.fixture
def names() -> list[str]:
    """A few will do for changes; everybody reads."""
    return ["default", "a", "b", "ab", "A", "acme", "acme-2", "*", "%", "null"]


@pytest.fixture
async def crowd(url: str, engine: str, names: list[str]) -> AsyncIterator[Crowd]:
    """All tenants at once, with equal ids: what is mixed up is mixed up for sure."""
    async with AsyncExitStack() as stack:
        place: Any = url
        if engine == "postgres":  # all on the connections of a host, one after the other
            place = await stack.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=2))
        memories: dict[str, Memory] = {}
        for name in names:
            opening = opened(place, tenant=name, clock=ManualClock(), ids=SequentialIds(), background=False)
            memories[name] = await stack.enter_async_context(opening)
        canaries = {name: await sow(memory) for name, memory in memories.items()}
        assert all(ids == canaries["default"] for ids in canaries.values())
        yield Crowd(memories, canaries)


def tenants_in(items: Any) -> set[str]:
    return {item.tenant_id for item in items}


async def seen_by(memory: Memory) -> dict[str, Any]:
    """Everything that a tenant gets to see, by every verb that shows something."""
    word = word_of(memory.caller.tenant_id)
    seen: dict[str, Any] = {}
    for kind in KINDS:
        seen[f"list {kind}"] = (await memory.list_memories(kind, state="any", limit=1000)).items
        seen[f"list {kind} by tag"] = (await memory.list_memories(kind, tags=["shared"], limit=1000)).items
    for mode in ("keyword", "semantic", "hybrid"):
        found = await memory.search("common", mode=mode, limit=1000)
        seen[f"search {mode}"] = [hit.item for hit in found]
        seen[f"search {mode} in scope"] = [hit.item for hit in await memory.search("common", mode=mode, scope="b")]
        seen[f"search {mode} own"] = [hit.item for hit in await memory.search(word, mode=mode, limit=1000)]
    vector = memory._env.embedder.embed("common")
    seen["similar"] = [hit.item for hit in await memory.search_similar(vector, limit=1000)]
    seen["window"] = (await memory.query_window(top_k=1000)).events
    seen["recall"] = [hit.item for hit in await memory.recall("common", limit=1000)]
    return seen


# -- tenants ---------------------------------------------------------------------------------------------------


@EVERYBODY
@pytest.mark.scenario("001-116", "001-117")
async def test_each_tenant_sees_its_own_and_no_other(crowd: Crowd) -> None:
    for name, memory in crowd.memories.items():
        seen = await seen_by(memory)
        for verb, found in seen.items():
            assert tenants_in(found) <= {name}, f"{verb} as {name!r}"
            assert {item.id for item in found} <= set(crowd.canaries[name].values())
        assert len(seen["list fact"]) == 3 and len(seen["list episode"]) == len(seen["list rule"]) == 1
        for mode in ("keyword", "semantic", "hybrid"):
            assert len(seen[f"search {mode}"]) == 5, f"{mode} as {name!r}"
        assert len(seen["search keyword own"]) == 4
        assert len(seen["recall"]) == 5
        assert len(seen["window"]) == 1
        context = await memory.context("common", butler="b")
        assert word_of(name) in context
        assert not [other for other in crowd.memories if other != name and f"{word_of(other)} " in context]


@EVERYBODY
@pytest.mark.scenario("001-117")
async def test_reading_by_id_shows_the_tenants_own(crowd: Crowd) -> None:
    """All tenants have the same ids, so that each of these would show another's if it could."""
    for name, memory in crowd.memories.items():
        ids = crowd.canaries[name]
        for kind in KINDS:
            item = await memory.get(kind, ids[kind])
            assert item is not None and item.tenant_id == name and word_of(name) in item.content
            assert item.reference_count == 1, "another tenant's reading was counted here"
        note = await memory.get("fact", ids["note"])
        assert isinstance(note, Fact) and note.ref is not None
        by_ref = await memory.get("fact", note.ref)
        assert by_ref is not None and by_ref.tenant_id == name
        events = await memory.events("fact", ids["fact"])
        assert {event.tenant_id for event in events} == {name}
        assert [event.event_type for event in events] == ["fact_created", "link_created"]
        (link,) = await memory.get_links("fact", ids["fact"])
        assert link.target_id == ids["rule"]


@pytest.mark.scenario("001-116")
async def test_the_same_key_in_two_tenants_is_two_facts(crowd: Crowd) -> None:
    first = crowd.memories["acme"]
    before = {name: await everything(memory) for name, memory in crowd.memories.items() if name != "acme"}
    assert (await first.store_fact("subject", "predicate", "changed")).superseded_id == crowd.canaries["acme"]["fact"]
    assert (await first.store_note("common note")).outcome == "duplicate"
    for name, held in before.items():
        assert await everything(crowd.memories[name]) == held, name


ACTORS = ("a", "b", "ab", "A", "acme", "acme-2", "*")
"""Tenants on both engines; each does something else, since making a crowd takes long."""


async def test_a_change_touches_one_tenant_only(crowd: Crowd) -> None:
    """The ids are the same in all tenants; only the acting one may change."""
    verbs = ["confirm", "forget", "delete", "touch", "supersede", "embed"]
    before = {name: await state_of(memory) for name, memory in crowd.memories.items()}
    for acting, verb in zip(ACTORS, verbs, strict=False):
        await _change(crowd, acting, verb)
        after = {name: await state_of(memory) for name, memory in crowd.memories.items()}
        assert [name for name in after if after[name] != before[name]] == [acting], verb
        before = after
    assert not problems(await administer(crowd.memories["a"]).verify())


async def _change(crowd: Crowd, acting: str, verb: str) -> None:
    actor = crowd.memories[acting]
    actor._env.clock.advance(days=1)  # pyright: ignore[reportAttributeAccessIssue]
    ids = crowd.canaries[acting]
    kinds: tuple[Kind, ...] = ("fact", "rule") if verb == "confirm" else KINDS
    if verb == "touch":
        await actor.recall("common", types=list(KINDS))
        await actor.get("fact", ids["fact"])
        await actor.settle()
    elif verb == "supersede":
        await actor.store_fact("subject", "predicate", "another")
    elif verb == "embed":
        actor._env.embedder.problem = "not ready"  # pyright: ignore[reportAttributeAccessIssue]
        await actor.store_rule("common rule without a vector")
        actor._env.embedder.problem = None  # pyright: ignore[reportAttributeAccessIssue]
        assert await actor.embed_pending() == 1
    else:
        for kind in kinds:
            assert await getattr(actor, verb)(kind, ids[kind]) is True


@pytest.mark.scenario("001-116", "001-117")
async def test_what_is_learned_touches_one_tenant_only(crowd: Crowd, url: str) -> None:
    """The ids of runs and proposals are the same in all tenants, and so is what a model answers."""
    heard: list[str] = []

    async def answer(prompt: str, trigger_source: str) -> str:
        heard.append(prompt)
        fact = {"subject": "subject", "predicate": "predicate", "content": "learned"}
        return json.dumps({"new_facts": [fact], "new_rules": [{"content": "feed it"}]})

    runs = set()
    for name, memory in crowd.memories.items():
        heard.clear()
        await memory.store_episode(f"you must feed {word_of(name)}", butler="b")
        done = await memory.run_consolidation(answer)
        assert (done["facts_updated"] + done["facts_created"], done["held"], done["errors"]) == (1, 1, []), name
        assert word_of(name) in heard[0] and len(heard) == 1
        seen = {word for word in re.findall(r"canary\w+", heard[0]) if len(word) < 200}  # longer ones were cut
        assert seen <= {word_of(name)}
        runs.update(done["runs"])
        await memory.set_profile("work", f"keeper of {word_of(name)}")
    assert len(runs) == 1, "the same id in all tenants"
    verbs = ["learn", "undo", "accept", "reject", "profile", "forget"]
    for name, verb in zip(ACTORS, verbs, strict=False):
        before = _of_others(url, name)
        await _use_what_is_learned(crowd.memories[name], *runs, verb)
        assert _of_others(url, name) == before, verb
    assert not problems(await administer(crowd.memories["a"]).verify())


def _of_others(url: str, name: str) -> list[str]:
    """The rows of all tenants but one."""
    rows = rows_of(url, (*moving.MOVED, *UNMOVED))
    return sorted(repr(row) for row in rows if row[1]["tenant_id"] != name)


async def _use_what_is_learned(actor: Memory, run: str, verb: str) -> None:
    (held,) = await actor.proposals()
    assert held.tenant_id == actor.caller.tenant_id
    if verb == "learn":
        lease = (await actor.learn_prompt("User: I like tea")).lease
        learned = {"newFacts": [{"content": "likes tea", "confidence": 1}], "profile": {"work": "tea"}}
        assert (await actor.learn_apply(json.dumps(learned), lease)).facts_created == 1
    elif verb == "undo":
        assert len((await actor.undo(run)).retracted) == 1
    elif verb == "accept":
        assert (await actor.accept(run)).rules_created == 1
    elif verb == "reject":
        assert await actor.reject(held.id) == 1
    elif verb == "profile":
        assert await actor.delete_profile() == 1
    else:
        (episode,) = [item for item in (await actor.list_memories("episode")).items if "must" in item.content]
        assert await actor.forget("episode", episode.id, derived=True)


@pytest.mark.scenario("001-116", "001-117")
async def test_conflicts_concern_one_tenant_only(crowd: Crowd, url: str) -> None:
    """The ids of settlements and their notes are the same in all tenants, and so are the texts."""
    cello, no_cello = (f"The user {does} the old cello in the evening" for does in ("plays", "does not play"))
    settlements: set[UUID] = set()
    for memory in crowd.memories.values():
        lease = (await memory.learn_prompt("User: hello")).lease
        said = [{"content": text, "confidence": 0.9} for text in (cello, no_cello)]
        await memory.learn_apply(json.dumps({"newFacts": said}), lease)  # a merge of what a model says is held
        settlements.update(report.settlement.id for report in await memory.conflicts())
        await memory.store_note(TEA)
    assert len(settlements) == 1, "the same id in all tenants"
    verbs = ["store", "merge", "revert", "accept", "dismiss", "rules", "tool text"]
    for name, verb in zip(ACTORS, verbs, strict=True):
        before, actor = _of_others(url, name), crowd.memories[name]
        await _disagree(actor, *settlements, verb)
        assert _of_others(url, name) == before, verb
        assert {report.settlement.tenant_id for report in await actor.conflicts()} == {name}
    assert len(await crowd.memories["default"].merge_rules()) == 1
    assert (await crowd.memories["default"].overview()).tool_text["abp"]["texts"] == 0
    assert not problems(await administer(crowd.memories["a"]).verify())


TEA, NO_TEA = (f"The user {does} green tea in the morning" for does in ("drinks", "does not drink"))


async def _disagree(actor: Memory, held: UUID, verb: str) -> None:
    if verb in ("store", "merge", "revert"):
        stored = await actor.store_note(NO_TEA, importance=5 if verb == "merge" else 9)
        assert stored.outcome == ("merged" if verb == "merge" else "superseded")
        if verb == "revert" and stored.conflict is not None:
            assert (await actor.revert_conflict(stored.conflict.id)).status == "reverted"
    elif verb == "accept":
        assert (await actor.accept_conflict(held)).outcome == "merged"
    elif verb == "dismiss":
        assert (await actor.dismiss_conflict(held)).status == "dismissed"
    elif verb == "rules":
        await actor.register_merge_rule({"name": "a"})
        await actor.update_merge_rule("default", {"arbitration": {"default_strategy": "reject"}})
        assert len(await actor.merge_rules()) == 2
    else:
        await actor.count_tool_text("abp", "")
        assert (await actor.overview()).tool_text["abp"]["texts"] == 1


async def test_a_vector_that_comes_late_goes_to_its_own_tenant(crowd: Crowd) -> None:
    """Two tenants wait for the vector of a memory with the same id."""
    waiting = {"a": "heron", "b": "kestrel"}
    for name, word in waiting.items():
        embedder: Any = crowd.memories[name]._env.embedder
        embedder.problem = "not ready"
        stored = await crowd.memories[name].store_rule(f"{word} {word}")
        embedder.problem = None
    count = tulving.storage.embeddings.count_pending
    counts = {name: await crowd.memories["a"]._read(count, name) for name in ("a", "b", "acme", None)}
    assert counts == {"a": 1, "b": 1, "acme": 0, None: 2}
    assert await crowd.memories["a"].embed_pending() == 1
    assert await administer(crowd.memories["b"]).embed_pending() == 1
    for name, word in waiting.items():
        best = (await crowd.memories[name].search(word, mode="semantic"))[0]
        assert best.item.id == stored.id and best.parts["similarity"] == pytest.approx(1, abs=CLOSE)


@pytest.mark.parametrize("backslashes", ["off", "on"], ids="plain special".split())
async def test_a_transaction_knows_its_tenant_until_it_ends(postgres_url: str, backslashes: str) -> None:
    """The setting is what row-level security reads. It is written into a statement, so nothing in a name may end it:
    also where a server takes a backslash for the beginning of an escape."""
    plain = "on" if backslashes == "off" else "off"
    database = run_sql(postgres_url, "SELECT current_database() AS name")[0]["name"]
    run_sql(postgres_url, f'ALTER DATABASE "{database}" SET standard_conforming_strings = {plain}')
    setting = "SELECT current_setting('tulving.tenant_id', true) AS name"
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool, opened(pool) as memory:
        assert await pool.fetchval("SHOW standard_conforming_strings") == plain
        for name in NAMES + ATTACKS:
            mine = memory.bind(caller=Caller(name))
            assert await mine._read(lambda conn: conn.fetch_one(setting)) == {"name": name}
            assert await mine._write(lambda conn: conn.fetch_one(setting)) == {"name": name}
            assert await pool.fetchval(setting) == "", "and then unset"
        assert (await administer(memory)._read(lambda conn: conn.fetch_one(setting)))["name"] in ("", None)
        assert await pool.fetchval("SELECT to_regclass('facts')") is not None


async def state_of(memory: Memory) -> dict[str, Any]:
    """All that a tenant has, without touching it."""
    found: dict[str, Any] = {}
    for mode in ("keyword", "semantic"):
        found[mode] = {hit.item.id for hit in await memory.search("common", mode=mode, limit=1000)}
    items = await everything(memory)
    histories = {kind: [await memory.events(kind, id_) for id_ in items] for kind in KINDS}
    links = {kind: [await memory.get_links(kind, id_) for id_ in items] for kind in KINDS}
    return {"items": items, "found": found, "histories": histories, "links": links}


@pytest.mark.scenario("001-117")
async def test_another_tenants_ids_are_unknown_ids(url: str) -> None:
    async with opened(url, tenant="mine") as mine:
        theirs = mine.bind(caller=Caller("theirs"))
        ids = await sow(theirs)
        own = await mine.store_episode("own episode", butler="b")
        note = await theirs.get("fact", ids["note"])
        assert isinstance(note, Fact) and note.ref is not None
        await theirs.settle()
        before = await state_of(theirs)
        for kind, id_ in [*((kind, ids[kind]) for kind in KINDS), ("fact", note.ref)]:
            assert await mine.get(kind, id_) is None
            assert await mine.forget(kind, id_) is False
            assert await mine.events(kind, id_) == []
            assert await mine.get_links(kind, id_) == []
            if kind != "episode":
                assert await mine.confirm(kind, id_) is False
            with pytest.raises(NotFound):
                await mine.delete(kind, id_)
            for ends in ((kind, id_, "episode", own.id), ("episode", own.id, kind, id_)):
                with pytest.raises(InvalidInput, match="there is no"):
                    await mine.create_link(*ends, "related_to")
        assert await state_of(theirs) == before
        assert set(await everything(mine)) == {own.id}
        assert await mine.get_links("episode", own.id) == []


@pytest.mark.scenario("001-117")
async def test_a_short_reference_leads_to_the_tenants_own(url: str) -> None:
    """Eight digits are soon the same in two tenants."""
    other = SequentialIds(1 << 64 | 1)
    async with opened(url, tenant="one", ids=SequentialIds()) as one, opened(url, tenant="two", ids=other) as two:
        notes = [await one.store_note("note of one"), await two.store_note("note of two")]
        assert notes[0].ref == notes[1].ref is not None and notes[0].id != notes[1].id
        for memory, note, text in ((one, notes[0], "note of one"), (two, notes[1], "note of two")):
            item = await memory.get("fact", note.ref)
            assert item is not None and (item.id, item.content) == (note.id, text)
            assert {event.entity_id for event in await memory.events("fact", note.ref)} == {note.id}


@pytest.mark.scenario("001-117")
async def test_a_reference_into_another_tenant_is_refused(url: str) -> None:
    async with opened(url, tenant="mine") as mine:
        theirs = mine.bind(caller=Caller("theirs"))
        ids = await sow(theirs)
        entity = UUID(int=99)
        run_sql(
            url,
            "INSERT INTO entities (tenant_id, id, canonical_name, folded_name, entity_type, created_at, updated_at)"
            " VALUES ('theirs', ?, 'Ada', 'ada', 'person', '2026-01-01', '2026-01-01')",
            entity,
        )
        assert (await theirs.store_fact("Ada", "born", "1815", entity_id=entity)).outcome == "stored"
        for field, attempt in (
            ("source_episode_id", lambda: mine.store_fact("s", "p", "c", source_episode_id=ids["episode"])),
            ("source_episode_id", lambda: mine.store_rule("c", source_episode_id=ids["episode"])),
            ("entity_id", lambda: mine.store_fact("s", "p", "c", entity_id=entity)),
        ):
            with pytest.raises(InvalidInput) as refusal:
                await attempt()
            assert refusal.value.field == field
        assert await everything(mine) == {}


async def test_an_export_holds_one_tenant_only(crowd: Crowd, tmp_path: Path) -> None:
    for name in ("acme", "*", "%", "a", "null"):
        memory, target = crowd.memories[name], tmp_path / "export.jsonl"
        counts = await memory.export(target)
        assert (counts["episodes"], counts["facts"], counts["rules"], counts["memory_links"]) == (1, 3, 1, 1)
        text = target.read_text()
        assert word_of(name) in text
        for line in map(json.loads, text.splitlines()[1:]):
            assert line["row"].get("tenant_id", name) == name
            content = line["row"].get("content", "")
            assert "canary" not in content or content.endswith(word_of(name))


async def test_an_import_goes_into_ones_own_tenant_only(url: str, tmp_path: Path) -> None:
    async with opened(url, tenant="mine") as mine:
        theirs, third = mine.bind(caller=Caller("theirs")), mine.bind(caller=Caller("third"))
        await sow(theirs)
        before = await everything(theirs)
        await theirs.export(tmp_path / "one.jsonl")
        await mine.import_(tmp_path / "one.jsonl")
        copied = await everything(mine)
        assert set(copied) == set(before) and tenants_in(copied.values()) == {"mine"}
        await administer(theirs).export(tmp_path / "all.jsonl")
        with pytest.raises(InvalidInput):
            await third.import_(tmp_path / "all.jsonl")
        lines = (tmp_path / "all.jsonl").read_text().splitlines()
        header = json.loads(lines[0]) | {"all_tenants": False}
        (tmp_path / "forged.jsonl").write_text("\n".join([json.dumps(header), *lines[1:]]))
        with pytest.raises(InvalidInput):
            await third.import_(tmp_path / "forged.jsonl")
        assert await everything(third) == {}
        assert await everything(theirs) == before


async def test_an_import_does_not_link_to_another_tenants_memory(url: str, tmp_path: Path) -> None:
    async with opened(url, tenant="mine") as mine:
        theirs, source = mine.bind(caller=Caller("theirs")), mine.bind(caller=Caller("source"))
        foreign = await theirs.store_rule("a rule of theirs")
        await sow(source)
        await source.export(tmp_path / "one.jsonl")
        lines = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
        (link,) = [line["row"] for line in lines if line.get("table") == "memory_links"]
        link["target_id"] = str(foreign.id)
        (tmp_path / "forged.jsonl").write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(TulvingError):
            await mine.import_(tmp_path / "forged.jsonl")
        assert await everything(mine) == {}


async def test_another_tenants_cursor_leads_through_ones_own(crowd: Crowd) -> None:
    page = await crowd.memories["acme"].list_memories("fact", limit=1)
    assert page.next_cursor is not None
    rest = await crowd.memories["acme-2"].list_memories("fact", limit=1000, cursor=page.next_cursor)
    assert tenants_in(rest.items) == {"acme-2"}


async def test_a_subscriber_hears_of_its_own_tenant_only(url: str) -> None:
    async with opened(url, tenant="mine") as mine:
        theirs = mine.bind(caller=Caller("theirs"))
        heard: dict[str, list[str]] = {"mine": [], "theirs": []}
        for memory in (mine, theirs):
            name = memory.caller.tenant_id
            memory.subscribe(lambda events, name=name: heard[name].extend(event.tenant_id for event in events))
        await sow(mine)
        await sow(theirs)
        assert heard["mine"] and set(heard["mine"]) == {"mine"}
        assert heard["theirs"] and set(heard["theirs"]) == {"theirs"}


NO_TENANT: list[Any] = [
    "", "   ", "x" * 201, "a\x00", "a\n", "a\ud800", 0, 1, 1.5, True, b"bytes", ["list"], {"$ne": 1}, ("a",), object(),
]  # fmt: skip


@pytest.mark.parametrize("tenant", [*NO_TENANT, None], ids=lambda tenant: repr(tenant)[:20])
async def test_what_is_no_name_is_no_tenant(tmp_path: Path, tenant: Any) -> None:
    with pytest.raises(InvalidInput, match="tenant") as refusal:
        Caller(tenant)
    assert refusal.value.allowed
    if tenant is None:  # to `open_memory`, None means the configured one
        return
    place = tmp_path / "never made" / "memory.db"
    for url in (str(place), "postgresql://nobody@127.0.0.1:1/nowhere"):
        with pytest.raises(InvalidInput, match="tenant"):
            async with opened(url, tenant=tenant):
                pass
    assert not place.parent.exists()


# -- users of one tenant ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["user_id", "household_id", "persona_id"])
async def test_the_same_key_for_two_users_is_two_facts(url: str, part: str) -> None:
    async with opened(url) as memory:
        names = ["ann", "bob", "an", "ann|bob", "1:a", "%", "*", "'; --", "Ann"]
        users = {name: memory.bind(**{part: name}) for name in names}
        stored = {name: await user.store_fact("s", "p", f"common {name}") for name, user in users.items()}
        assert {answer.outcome for answer in stored.values()} == {"stored"}
        notes = {name: await user.store_note("common note") for name, user in users.items()}
        assert {answer.outcome for answer in notes.values()} == {"stored"}
        for name, user in users.items():
            mine = {stored[name].id, notes[name].id}
            assert set(await everything(user)) == mine
            for mode in ("keyword", "semantic", "hybrid"):
                assert {hit.item.id for hit in await user.search("common", mode=mode)} == mine, mode
            assert {hit.item.id for hit in await user.recall("common")} == mine
        answer = await users["ann"].store_fact("s", "p", "common changed")
        assert answer.superseded_id == stored["ann"].id
        kept = await everything(memory)
        assert all(kept[stored[name].id].validity == "active" for name in names if name != "ann")


async def test_another_users_ids_are_unknown_ids(url: str) -> None:
    async with opened(url) as memory:
        ann, bob = memory.bind(user_id="ann"), memory.bind(user_id="bob")
        ids = await sow(bob)
        own = await ann.store_rule("own rule")
        before = await state_of(bob)
        for kind in KINDS:
            assert await ann.get(kind, ids[kind]) is None
            assert await ann.forget(kind, ids[kind]) is False
            assert await ann.events(kind, ids[kind]) == []
            assert await ann.get_links(kind, ids[kind]) == []
            if kind != "episode":
                assert await ann.confirm(kind, ids[kind]) is False
            with pytest.raises(NotFound):
                await ann.delete(kind, ids[kind])
            with pytest.raises(InvalidInput):
                await ann.create_link("rule", own.id, kind, ids[kind], "related_to")
        assert await state_of(bob) == before


@pytest.mark.parametrize("part", ["tenant", "user_id", "persona_id", "scope"])
async def test_the_same_offers_are_taken_by_each(url: str, part: str) -> None:
    """And their graphs, ids and turns are apart, though only one thing about who takes them differs."""
    turn = NewEpisode(content="hello", type="turn", occurred_at=datetime(2026, 1, 1, tzinfo=UTC))
    offers = [
        Offer(memory=NewFact(subject="Ada", predicate="likes", content="tea"), key="1", entity_type="person"),
        Offer(memory=NewRule(content="be brief"), key="2"),
        Offer(memory=replace(turn, content="hello there"), key="3"),
    ]
    async with opened(url, config=MemoryModuleConfig(actor="b")) as memory:
        bound = [{"caller": Caller(name, "b")} if part == "tenant" else {part: name} for name in ("ann", "bob")]
        ann, bob = (memory.bind(**each) for each in bound)
        for each in (ann, bob):
            assert [taken.is_new for taken in await each.take_offers(offers, source="elsewhere")] == [True] * 3
            assert [stored.outcome for stored in await each.record_turns([turn])] == ["stored"]
        [(_, facts)], [(_, theirs)] = await ann.graph(), await bob.graph(["Ada"])
        assert len(facts) == len(theirs) == 1
        before, own = await state_of(bob), await everything(ann)
        foreign = [item for id_, item in before["items"].items() if id_ not in own]
        assert len(foreign) == (2 if part == "tenant" else 4)  # ids that are made of keys are the same in all tenants
        for item in foreign:
            start = str(item.id)[:30]
            assert await bob.complete_id(start) == (KIND_OF[type(item)], str(item.id))
            with pytest.raises(NotFound):
                await ann.complete_id(start)
        await ann.forget_facts([item.id for item in foreign])
        assert await state_of(bob) == before
        await ann.forget_facts([facts[0].id])
        assert await ann.graph() == [] and await state_of(bob) == before


SPEAKERS = {"ann": "Joanna", "bob": "Bartholomew"}


@pytest.mark.parametrize("apart", ["tenant_id", "user_id", "household_id", "persona_id", "project", "scope"])
async def test_two_who_share_a_session_do_not_hear_each_other(url: str, apart: str) -> None:
    """Their turns alternate and have the same words, so that each is the other's nearest neighbour. The speakers are
    names that the other does not know: they are searched like any word."""
    async with opened(url, clock=ManualClock(), background=False) as memory:
        each = {
            name: memory.bind(**({"caller": Caller(name)} if apart == "tenant_id" else {apart: name}))
            for name in SPEAKERS
        }
        for number in range(6):
            name = ("ann", "bob")[number % 2]
            await each[name].store_episode(
                f"a word of {name} about tea",
                butler=name if apart == "scope" else "b",
                source=SPEAKERS[name],
                session_id=UUID(int=7),
                occurred_at=datetime(2026, 1, 1, number, tzinfo=UTC),
            )
        for name, mine in each.items():
            other = {"ann": "bob", "bob": "ann"}[name]
            for query in ("tea", "word", f"what did {SPEAKERS[other]} say about tea?"):
                for found in (await mine.search(query), await mine.recall(query)):
                    assert {hit.item.content for hit in found} == {f"a word of {name} about tea"} and len(found) == 3
                    assert not any("speaker" in hit.parts for hit in found), "an unknown name"
                assert f"word of {other}" not in await mine.context(query, butler=name if apart == "scope" else "b")
            assert all("speaker" in hit.parts for hit in await mine.search(f"what did {SPEAKERS[name]} say?"))


@pytest.mark.parametrize("part", ["user_id", "household_id", "persona_id"])
async def test_what_is_no_name_binds_to_no_user(url: str, part: str) -> None:
    """Above all it must not bind to everybody: an empty user id is a mistake, not a wildcard."""
    async with opened(url) as memory:
        await memory.bind(**{part: "ann"}).store_rule("private to ann")
        for value in NO_TENANT:
            with pytest.raises(InvalidInput, match=part):
                memory.bind(**{part: value})


@pytest.mark.parametrize("part", ["project", "scope"])
async def test_what_is_no_name_binds_to_no_part(url: str, part: str) -> None:
    async with opened(url) as memory:
        for value in ("", "  ", "a\x00b", "a\ud800", "a\nb", "x" * 1001, 0, 1, True, b"bytes", ["list"], {"$ne": 1}):
            with pytest.raises(InvalidInput, match=part):
                memory.bind(**{part: value})


# -- every statement names the tenant --------------------------------------------------------------------------

FOLDER = Path(tulving.storage.__file__).parent
UNMOVED = "forgotten_values tool_text_counts timelines timeline_segments event_cursors".split()
TENANT_TABLES = {*moving.MOVED, *UNMOVED, "access_tokens"}
BEGINNINGS = (
    "SELECT ",
    "(SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE ",
    "WITH ",
    "REPLACE ",
    "FROM ",
    "{_SELECT}",
    "{_MINE}",
    "{_NAMES}",
    "{KIND[",
    "{table.select}",
    "{kind.select}",
    "{_RUNS}",
)
TABLES_BY_NAME = (
    "{KIND[",
    "{table}",
    "{table.select}",
    "{table.table}",
    "{table_of(",
    "{self._table}",
    "{_SELECT}",
    "{_MINE}",
    "{_NAMES}",
    "{kind.select}",
    "{_RUNS}",
)
COMPLETED_ELSEWHERE = {
    "SELECT {', '.join((f'm.{name}' for name in _COLUMNS))} FROM settlements AS m",  # as {_SELECT}
    "SELECT {', '.join((f'm.{name}' for name in _COLUMNS))} FROM sessions AS m",  # as {_SELECT}
    "SELECT {', '.join(_COLUMNS)} FROM access_tokens",  # as {_SELECT}
    "SELECT seq, {', '.join(COLUMNS)} FROM memory_events",  # as {_SELECT}
    "SELECT seq, {', '.join(COLUMNS)} FROM memory_events AS e",  # by audit._condition
    "SELECT id, entity_type, canonical_name, folded_name, aliases FROM entities",  # as {_NAMES}
}
TENANT_CLAUSES = (
    "{where}",
    "{self._where}",
    "{slot}",
    "{_slot(fact)}",
    "{_MINE}",
    "{mine}",
    "{THIS}",
    "{items.THIS}",
    "{_OF_MEMORY}",
    "{_RUNS}",
)  # shown to have the tenant below
WHOLE_STORE = {  # by file and the beginning of the function's name
    ("embeddings.py", "count_unconverted"): "a change of embedder concerns the whole store",
    ("embeddings.py", "unconverted"): "a change of embedder concerns the whole store",
    ("embeddings.py", "_change_over"): "a change of embedder concerns the whole store; joined by tenant and id",
    ("verification.py", "_changed_contents"): "verification concerns the whole store",
    ("verification.py", "_unrecorded"): "verification concerns the whole store; joined by tenant and id",
    ("verification.py", "_foreign_vectors"): "verification concerns the whole store",
    ("verification.py", "loose_links"): "verification concerns the whole store; joined by tenant and id",
    ("verification.py", "loose_runs"): "verification concerns the whole store; joined by tenant and id",
    ("verification.py", "loose_settlements"): "verification concerns the whole store; joined by tenant and id",
    ("learning.py", "shards"): "which tenants and agents a worker has to care for",
    ("moving.py", "stream"): "with a tenant it has that one's clause; an operator may export or copy all",
    ("backpressure.py", "_warned_tenants"): "which tenants a process has warned that is gone",
    ("cleanup.py", "tenants"): "which tenants there are",
    ("timeline.py", "tenants"): "which tenants there are",
    ("tenants.py", "_names"): "which tenants there are",
    ("timeline.py", "unlike_rows"): "verification concerns the whole store",
    ("timeline.py", "sweep"): "which files of the whole store are needed",
    ("sqlite/database.py", "segments_beside"): "a backup holds the whole store",
    ("bridge.py", "tenants"): "which tenants a worker has to care for",
    ("eviction.py", "least_used"): "tenants share the file, and its limit",
    ("eviction.py", "count_protected"): "tenants share the file, and its limit",
    ("eviction.py", "is_exhausted"): "tenants share the file, and its limit",
    ("sqlite/connection.py", "_verify_fts"): "verification concerns the whole store",
    ("merge_rules.py", "unreadable"): "verification concerns the whole store: which tenants have rules",
    ("postgres/lanes.py", "_worded"): "its words have the tenant's mark, and the filter around it names the tenant",
    ("sqlite/lanes.py", "_matches"): "its words have the tenant's mark, and the rows it leads to are filtered",
    ("sqlite/lanes.py", "_worthy"): "its words have the tenant's mark, and the rows it leads to are filtered",
    ("sqlite/lanes.py", "_counts"): "its words have the tenant's mark",
    ("sqlite/store.py", "_merge_segments"): "care of the keyword index, without rows",
    ("sqlite/store.py", "_merge_some"): "care of the keyword index, without rows",
    ("sqlite/values.py", "insertion"): "the columns it is given have the tenant, as below",
    ("sqlite/connection.py", "merge"): "the columns it is given have the tenant, as below",
    ("postgres/connection.py", "_verify_words"): "verification concerns the whole store",
    ("postgres/connection.py", "merge"): "the columns it is given have the tenant, as below",
    ("postgres/arrays.py", "_insertion"): "the columns it is given have the tenant, as below",
    ("postgres/indexes.py", "sizes"): "how many rows the index of a table has to hold",
    ("tokens.py", "everyone"): "the operator sees the tokens of all",
    ("tokens.py", "find"): "it is the token that says which tenant has come in",
    ("tokens.py", "any_kept"): "whether a token is needed, before the caller is known",
    ("sqlite/vectors.py", "mismatches"): "verification concerns the whole store: which tenants there are",
}
ONE_TENANT = re.compile(r"tenant_id = (:tenant_id|\?)")


def concerns_whole_store(file: str, function: str) -> bool:
    return any(file == name and function.startswith(beginning) for name, beginning in WHOLE_STORE)


def statements(file: Path) -> Iterator[tuple[str, str]]:
    """Each SQL text of a module with the function that it is in. What is filled in stands in braces."""

    def text_of(node: ast.AST) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            parts = (text_of(part) or f"{{{ast.unparse(getattr(part, 'value', part))}}}" for part in node.values)
            return "".join(parts)
        return None

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            text = text_of(child)
            if text is None:
                yield from walk(child, name)
            elif text.lstrip().startswith(BEGINNINGS):
                yield name, " ".join(text.split())

    yield from walk(ast.parse(file.read_text()), "")


def on_tenants(statement: str) -> bool:
    words = set(statement.replace("(", " ").replace(",", " ").split())
    return bool(words & TENANT_TABLES) or any(name in statement for name in TABLES_BY_NAME)


STATEMENTS = sorted(
    {
        (str(file.relative_to(FOLDER)), *found)
        for folder in (FOLDER, FOLDER / "sqlite", FOLDER / "postgres")
        for file in folder.glob("*.py")
        for found in statements(file)
        if on_tenants(found[1])
    }
)


@pytest.mark.scenario("001-116", "001-117")
@pytest.mark.parametrize(
    ("file", "function", "statement"),
    STATEMENTS,
    ids=[f"{file}-{function}-{at}" for at, (file, function, _) in enumerate(STATEMENTS)],
)
def test_every_statement_on_a_tenants_table_names_the_tenant(file: str, function: str, statement: str) -> None:
    """New statements too: one without a tenant condition must be listed here with its reason."""
    if (
        concerns_whole_store(file, function)
        or statement in COMPLETED_ELSEWHERE
        or statement == "INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
    ):
        return  # the latter is given columns that have the tenant, as the next test shows
    if statement.startswith("INSERT"):
        assert "tenant_id" in statement, statement
    else:
        assert ONE_TENANT.search(statement) or any(clause in statement for clause in TENANT_CLAUSES), statement


def test_what_is_filled_into_statements_has_the_tenant() -> None:
    for kind in KINDS:
        where, params = filters.visible(None, kind, "mine", Filter(), ManualClock()())  # pyright: ignore[reportArgumentType]
        assert where.startswith("m.tenant_id = :tenant_id AND ")
        assert params["tenant_id"] == "mine"
        assert "tenant_id" in KIND[kind].inserted
    assert "tenant_id" in events.COLUMNS
    assert filters.reach_or_all(None, "fact", "mine", Filter())[0] == "m.tenant_id = :tenant_id"  # pyright: ignore
    assert audit._condition("mine", Bound(), Sought())[0].startswith("e.tenant_id = :tenant_id")
    assert filters.of_tenant("mine", "TRUE")[0] == "m.tenant_id = :tenant_id AND TRUE"
    clauses = (entities._MINE, profiles._MINE, runs._RUNS, items.THIS, edits._OF_MEMORY, timeline.THIS, timelines.THIS)
    for statement in (facts._BY_ENTITY, facts._BY_SUBJECT, facts._BY_CONTENT, *clauses):
        assert "tenant_id = :tenant_id" in statement
    assert all("tenant_id" in table.columns and "tenant_id" in table.key for table in moving.MOVED.values())


def test_the_scan_sees_statements() -> None:
    """And the exceptions are still there, so that none outlives its reason."""
    assert len(STATEMENTS) > 25
    for file, beginning in WHOLE_STORE:
        assert not (FOLDER / file).exists() or any(
            file == name and function.startswith(beginning) for name, function, _ in STATEMENTS
        ), beginning
