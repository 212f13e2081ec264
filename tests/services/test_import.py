"""What an import and a copy make of what they are given: recorded, put into today's words, or refused whole."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from uuid import UUID

import pytest
from administration import administer
from raw_sql import run_sql

from tulving import Caller, InvalidInput, TulvingError, open_memory
from tulving.bootstrap import copy_store
from tulving.domain.model import KINDS
from tulving.settings import MemoryModuleConfig
from tulving.storage import moving
from tulving.testing import SequentialIds

ARRIVALS = "SELECT * FROM memory_events WHERE event_type = 'memories_imported' ORDER BY seq"


async def fill(memory):
    await memory.store_fact("user", "likes", "tea")
    await memory.store_fact("user", "likes", "coffee", tags=["drink"], metadata={"a": [1, None, "ü🙂"]})
    note = await memory.store_note("Trains are nice")
    rule = await memory.store_rule("offer coffee")
    episode = await memory.store_episode("coffee was served", butler="b", title="Break", session_id=rule.id)
    ann = await memory.create_entity("Ann", "person", aliases=["Annie", 'A. "Q", {b}'])
    await memory.store_fact("Ann", "drinks", "coffee", entity_id=ann.entity_id)
    await memory.create_link("rule", rule.id, "episode", episode.id, "derived_from")
    await memory.edit("rule", rule.id, content="offer black coffee")
    await memory.mark_helpful(rule.id, circumstances={"where": "here"})
    await memory.forget("fact", note.id)
    await disagree(memory)
    await teach(memory)


async def teach(memory):
    """What models leave behind: a run that is done, one whose proposals are held, one that is open, and a profile."""
    lease = (await memory.learn_prompt("Ann: I like trains")).lease
    learned = [{"content": "Ann likes trains", "category": "preference", "confidence": 0.9}]
    await memory.learn_apply(json.dumps({"newFacts": learned, "profile": {"work": "a driver"}}), lease)
    await memory.store_episode("Always offer coffee", butler="c")
    held = {"new_rules": [{"content": "Always offer coffee", "tags": ["a"]}]}
    assert (await memory.run_consolidation(lambda **asked: json.dumps(held), butler="c"))["held"] == 1
    await memory.learn_prompt("Ann: and I like planes")


async def disagree(memory):
    """Notes in conflict: one that replaced another, two that were merged, two that wait for a person."""
    await memory.register_merge_rule({"name": "drinks", "conditions": {"source": ["user"]}})
    outcomes = []
    for text, source in (("Milk is heated on Sundays", "system"), ("Milk is not heated on Sundays", "user")):
        outcomes.append((await memory.store_note(text, source=source)).outcome)
    for text in ("The sauna is open on Mondays", "The sauna is not open on Mondays"):
        outcomes.append((await memory.store_note(text, occurred_at=datetime(2026, 1, 1, tzinfo=UTC))).outcome)
    await memory.update_merge_rule("default", {"arbitration": {"priority_recency": False, "weights": {"recency": 0}}})
    for text in ("Ben likes fast boats", "Ben does not like fast boats"):
        answer = {"newFacts": [{"content": text, "category": "preference", "confidence": 0.9}]}
        learned = await memory.learn_apply(json.dumps(answer), (await memory.learn_prompt(f"Ben: {text}")).lease)
        outcomes += [one.outcome for one in learned.stored]
    assert outcomes == ["stored", "superseded", "stored", "merged", "stored", "held"]


async def problems(memory):
    return [problem for finding in (await administer(memory).verify()).findings for problem in finding.problems]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path, lines):
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


# -- events ----------------------------------------------------------------------------------------------------


async def test_an_import_is_recorded_with_what_it_brought(memory, sql, tmp_path):
    source = memory.bind(caller=Caller("source"))
    await fill(source)
    counts = await source.export(tmp_path / "a.jsonl")
    told = []
    memory.subscribe(told.extend)
    importer = memory.bind(caller=Caller("default", "ann", "r1"))
    await importer.import_(tmp_path / "a.jsonl")
    events = sql(ARRIVALS)
    assert [event["id"] for event in events] == [event.id for event in told if event.entity_type == "store"]
    lines = read(tmp_path / "a.jsonl")[1:]
    for event in events:
        assert (event["tenant_id"], event["actor"], event["request_id"]) == ("default", "ann", "r1")
        assert (event["entity_type"], event["entity_id"], event["payload"]["source"]) == ("store", None, "import")
    assert len({event["run_id"] for event in events}) == 1
    brought = {event["payload"]["table"]: event["payload"]["ids"] for event in events}
    assert {table: len(ids) for table, ids in brought.items()} == {
        table: count for table, count in counts.items() if count and table != "memory_events"
    }
    for table in ("facts", "entities"):
        assert brought[table] == [line["row"]["id"] for line in lines if line["table"] == table]
    await importer.import_(tmp_path / "a.jsonl")
    assert sql(ARRIVALS) == events, "nothing came the second time"


async def test_only_new_rows_are_recorded(memory, sql, tmp_path):
    first = await memory.store_rule("first")
    second = await memory.store_rule("second")
    await memory.export(tmp_path / "a.jsonl")
    await memory.delete("rule", second.id)
    await memory.import_(tmp_path / "a.jsonl")
    (event,) = sql(ARRIVALS)
    assert event["payload"] == {"source": "import", "table": "rules", "ids": [str(second.id)]}
    assert first.id != second.id and await problems(memory) == []


async def test_a_long_import_is_recorded_in_parts(memory, sql, tmp_path, monkeypatch):
    monkeypatch.setattr(moving, "BATCH", 2)
    source = memory.bind(caller=Caller("source"))
    stored = [(await source.store_rule(f"rule {number}")).id for number in range(5)]
    await source.export(tmp_path / "a.jsonl")
    await memory.import_(tmp_path / "a.jsonl")
    parts = [event["payload"]["ids"] for event in sql(ARRIVALS)]
    assert [id_ for part in parts for id_ in part] == [str(id_) for id_ in stored]


async def test_a_memory_that_comes_without_its_events_is_on_record(memory, sql, tmp_path):
    source = memory.bind(caller=Caller("source"))
    await fill(source)
    await source.export(tmp_path / "a.jsonl")
    lines = [line for line in read(tmp_path / "a.jsonl") if line.get("table") != "memory_events"]
    await memory.import_(write(tmp_path / "b.jsonl", lines))
    assert await problems(memory) == []
    sql("INSERT INTO rules (tenant_id, content, content_hash, search_text) VALUES ('default', 'x', 'x', 'x')")
    assert any("has no event" in problem for problem in await problems(memory))


async def test_all_tenants_have_their_own_arrivals(memory, new_url, tmp_path, embedder):
    for tenant in ("one", "two"):
        await memory.bind(caller=Caller(tenant)).store_rule(f"of {tenant}")
    await administer(memory).export(tmp_path / "a.jsonl")
    async with open_memory(new_url(), embedder=embedder) as other:
        await administer(other).import_(tmp_path / "a.jsonl")
        assert await problems(other) == []
        await administer(other).export(tmp_path / "b.jsonl")
    assert read(tmp_path / "a.jsonl") == read(tmp_path / "b.jsonl"), "an arrival is this store's own and stays there"


async def test_a_copy_is_recorded_and_the_two_are_still_the_same(url, new_url, embedder, sql):
    target, third = new_url(), new_url()
    async with open_memory(url, embedder=embedder, background=False) as memory:
        await fill(memory)
    config = MemoryModuleConfig()
    done = await copy_store(url, target, config=config, ids=SequentialIds(5000))
    assert (done.ok, done.differences) == (True, [])
    events = run_sql(target, ARRIVALS)
    assert {event["payload"]["table"]: len(event["payload"]["ids"]) for event in events} == {
        table: counts.copied for table, counts in done.tables.items() if counts.copied and table != "memory_events"
    }
    assert all((event["payload"]["source"], event["actor"]) == ("copy", "maintenance") for event in events)
    again = await copy_store(url, target, config=config)
    assert (again.ok, again.differences, again.digest) == (True, [], done.digest)
    assert run_sql(target, ARRIVALS) == events
    onward = await copy_store(target, third, config=config)
    assert (onward.ok, onward.differences, onward.digest) == (True, [], done.digest)
    assert len(run_sql(third, ARRIVALS)) == len(events), "its own, not those of the store before"
    async with open_memory(third, embedder=embedder, background=False) as memory:
        assert await problems(memory) == []


# -- today's words ---------------------------------------------------------------------------------------------


@pytest.mark.scenario("004-011")
async def test_forgotten_becomes_retracted_on_its_way_in(url, memory, new_url, sql, tmp_path, embedder):
    stored = await memory.store_fact("user", "likes", "tea")
    sql("UPDATE facts SET validity = 'forgotten'")
    assert (await memory.get("fact", stored.id)).validity == "retracted", "in every answer"
    await memory.settle()  # else the copy may miss the reference that this was
    assert [item.id for item in (await memory.list_memories("fact", state="forgotten")).items] == [stored.id]
    await memory.export(tmp_path / "a.jsonl")
    other, target = new_url(), new_url()
    async with open_memory(other, embedder=embedder) as elsewhere:
        await elsewhere.import_(tmp_path / "a.jsonl")
    done = await copy_store(url, target, config=MemoryModuleConfig())
    assert (done.ok, done.differences) == (True, [])
    for place in (other, target):
        assert run_sql(place, "SELECT validity FROM facts") == [{"validity": "retracted"}]


async def test_an_export_of_before_there_was_an_access_time_is_taken(memory, new_url, tmp_path, embedder, clock):
    await fill(memory)
    created = clock.now
    clock.advance(hours=1)
    await memory.recall("coffee")
    await memory.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    for line in lines[1:]:
        line["row"].pop("accessed_at", None)
    async with open_memory(new_url(), embedder=embedder, clock=clock) as other:
        await other.import_(write(tmp_path / "b.jsonl", lines))
        for item in (await other.list_memories("fact", state="any")).items:
            assert item.accessed_at == (item.last_referenced_at or created)


async def test_an_export_of_before_facts_had_slots_and_an_end_is_taken(memory, new_url, tmp_path, embedder, clock):
    """It may have two spellings of what is one slot now. The newer one stays, as soon as the rows are completed."""
    await fill(memory)
    faded = await memory.store_fact("Ben", "likes", "milk", permanence="ephemeral")
    clock.advance(days=90)
    await memory.run_decay_sweep()
    await memory.store_fact("User", "LIKES-", "juice", scope="later")
    await memory.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    for line in lines[1:]:
        for name in ("folded_subject", "folded_predicate", "restated_at", "ended_at"):
            if line["table"] in ("facts", "rules"):
                line["row"].pop(name, None)
        if line["row"].get("scope") == "later":
            line["row"]["scope"] = "global"
    async with open_memory(new_url(), embedder=embedder, clock=clock, background=False) as other:
        await other.import_(write(tmp_path / "b.jsonl", lines))
        await other.embed_pending()
        past = await other.history("user", "likes")
        assert [(fact.content, fact.state) for fact in past] == [
            ("tea", "superseded"),
            ("coffee", "superseded"),
            ("juice", "active"),
        ]
        assert past[0].ended_at == past[0].updated_at and past[1].ended_at == clock.now
        assert (await other.get("fact", faded.id)).ended_at == clock.now
        assert await problems(other) == []


async def test_the_slots_of_an_export_are_kept_and_those_that_are_taken_refused(
    memory, new_url, tmp_path, embedder, sql
):
    await memory.store_fact("Anna", "Lives-In", "Rome", occurred_at=datetime(2020, 1, 1, tzinfo=UTC))
    await memory.store_fact("Anna", "lives_in", "Oslo", occurred_at=datetime(2022, 1, 1, tzinfo=UTC))
    await memory.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    for line in lines[1:]:
        if line["table"] == "facts":
            assert line["row"]["folded_predicate"] == "lives in"
            line["row"]["folded_predicate"] = "another slot"
    where = new_url()
    async with open_memory(where, embedder=embedder, background=False) as other:
        taken = await other.store_fact("ANNA", "lives in", "Bonn")
        with pytest.raises(TulvingError, match="can't be put beside what is stored"):
            await other.import_(write(tmp_path / "b.jsonl", lines))
        await other.delete("fact", taken.id)
        await other.import_(tmp_path / "b.jsonl")
        columns = "SELECT folded_subject, folded_predicate, occurred_at, ended_at, validity FROM facts ORDER BY id"
        assert run_sql(where, columns) == sql(columns)
        assert await problems(other) == []


async def test_what_follows_from_other_fields_is_made_anew(memory, tmp_path, sql):
    source = memory.bind(caller=Caller("source"))
    await source.bind(user_id="ann").store_rule("of Ann")
    await source.create_entity("Ann", "person")
    await source.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    for line in lines[1:]:
        line["row"].update({name: "wrong" for name in ("owner", "folded_name") if name in line["row"]})
    await memory.import_(write(tmp_path / "b.jsonl", lines))
    for table, name in (("rules", "owner"), ("entities", "folded_name")):
        values = [row[name] for row in sql(f"SELECT {name} FROM {table}")]
        assert len(values) == 2 and len(set(values)) == 1


async def test_private_text_is_left_out_and_the_rest_is_hashed(memory, tmp_path, sql):
    """A host may have put it into the table by itself; storing would have removed it."""
    sql("INSERT INTO rules (tenant_id, content) VALUES ('source', 'offer <private>Ann</private>coffee')")
    await memory.embed_pending()
    await memory.bind(caller=Caller("source")).export(tmp_path / "a.jsonl")
    await memory.import_(tmp_path / "a.jsonl")
    (rule,) = (await memory.list_memories("rule")).items
    assert rule.content == "offer coffee"
    assert not any("default" in problem for problem in await problems(memory))


async def test_an_export_of_before_anything_was_learned_is_taken(memory, new_url, tmp_path, embedder, clock):
    await fill(memory)
    await memory.export(tmp_path / "a.jsonl")
    lines = [line for line in read(tmp_path / "a.jsonl") if line.get("table") not in LEARNED]
    for line in lines[1:]:
        if line["table"] in ("facts", "rules"):
            line["row"].pop("run_id")
    async with open_memory(new_url(), embedder=embedder, clock=clock, background=False) as other:
        await other.import_(write(tmp_path / "b.jsonl", lines))
        taken = [item for kind in KINDS for item in (await other.list_memories(kind, state="any")).items]
        assert len(taken) == sum(line["table"] in ("facts", "rules", "episodes") for line in lines[1:])
        assert not [item for item in taken if getattr(item, "run_id", None)]
        assert await problems(other) == []


LEARNED = ("learning_runs", "proposals", "profile_blocks")


async def test_what_was_learned_is_the_same_in_another_store(memory, new_url, tmp_path, embedder, clock):
    """Also undone: the events of a run come with it. A run that was open is nobody's there."""
    await fill(memory)
    await memory.export(tmp_path / "a.jsonl")
    ids = SequentialIds(5000)
    async with open_memory(new_url(), embedder=embedder, clock=clock, ids=ids, background=False) as other:
        await other.import_(tmp_path / "a.jsonl")
        assert await other.proposals() == await memory.proposals()
        assert await other.proposals()
        assert await other.profile() == await memory.profile() != ""
        mine, theirs = [{each.run.id: each.run for each in await side.runs()} for side in (memory, other)]
        assert {id_: run.status for id_, run in mine.items() if run != theirs[id_]} == {max(mine): "open"}
        assert (theirs[max(mine)].status, theirs[max(mine)].lease_until) == ("failed", None)
        done = max(id_ for id_, run in mine.items() if run.job == "extraction" and run.status == "done")
        assert await other.runs(done) == await memory.runs(done)
        await other.undo(done)
        assert await other.profile_blocks() == {}
        assert not [hit for hit in await other.search("trains", mode="keyword") if "likes" in hit.item.content]
        assert await problems(other) == []


# -- a file that was tampered with -----------------------------------------------------------------------------

DEEP: list = []
for _ in range(500):
    DEEP = [DEEP]
POISON = [
    None, True, False, 0, -1, 1, 0.5, 10, 11, 1e40, 10**40, -(10**400), 2**31 - 1, 2**31, float("nan"), float("inf"),
    "", " ", "x", "x" * 1001, "\ud800", "\x00", "a\nb", "<private>x", "forgotten", "active", "fading", "fact", "other",
    [], [1], [None], [["x"]], ["a", "a"], {}, {"a": DEEP}, DEEP, {"merged_into": 5}, {"harmful_reasons": [1]},
    "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999+00:00", "2026-01-01", "9999-12-31T23:59:59-23:59",
    str(UUID(int=0)), "AAAA", "AACAfw==", "🙂" * 700,
]  # fmt: skip


def mutated(random, lines):
    lines = json.loads(json.dumps(lines))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randrange(1, len(lines))
        line = lines[at]
        if not isinstance(line, dict):
            continue
        way = random.randrange(12)
        if way == 0:
            lines.pop(at)
        elif way == 1:
            lines.insert(random.randrange(1, len(lines)), line)
        elif way == 2:
            lines[at] = json.dumps(line)[: random.randrange(200)]
        elif way == 3:
            line["row"].pop(random.choice(list(line["row"])))
        elif way == 4:
            other = random.choice([each for each in lines[1:] if isinstance(each, dict)])
            name = random.choice(list(line["row"]))
            line["row"][name] = other["row"].get(name, other["row"].get("id"))
        else:
            line["row"][random.choice(list(line["row"]))] = random.choice(POISON)
    return lines


async def use(memory, path):
    """All that reads, and some that writes."""
    for kind in KINDS:
        for item in (await memory.list_memories(kind, state="any", limit=100)).items:
            assert (await memory.get(kind, item.id)).id == item.id
            await memory.events(kind, item.id)
            await memory.revisions(kind, item.id)
            await memory.get_links(kind, item.id)
    for mode in ("keyword", "semantic", "hybrid"):
        await memory.search("coffee", mode=mode)
    await memory.recall("coffee tea", types=list(KINDS))
    await memory.context("coffee", butler="b")
    for name in ("Ann", "annie", "an"):
        for candidate in await memory.resolve_entity(name):
            await memory.get_entity(candidate.entity_id)
    await memory.history("user", "likes")
    await memory.merge_rules()
    await use_conflicts(memory)
    await memory.stats()
    await use_what_was_learned(memory)
    await memory.store_fact("user", "likes", "water")
    await memory.export(path)


async def use_conflicts(memory):
    """What does not fit what the notes have become is refused; nothing else is raised."""
    for report in await memory.conflicts():
        settlement = report.settlement
        change = memory.accept_conflict if settlement.status == "held" else memory.revert_conflict
        with suppress(InvalidInput):
            await change(settlement.id)
    assert not await memory.conflicts(status="held") or await memory.conflicts(status="applied")


async def use_what_was_learned(memory):
    assert await memory.profile_blocks() is not None
    await memory.profile()
    for report in await memory.runs():
        await memory.runs(report.run.id)
    held = await memory.proposals()
    for proposal in held[:1]:
        await memory.reject(proposal.id)
    for proposal in held[1:]:
        await memory.accept(proposal.id)
    done = await memory.run_consolidation(lambda **asked: "{}")
    assert not [error for error in done["errors"] if "somebody else" in error], "nobody learns here"
    for report in await memory.runs():
        if report.run.status not in ("open", "undone"):
            await memory.undo(report.run.id)


@pytest.mark.usefixtures("path")
async def test_a_tampered_export_is_refused_whole_or_does_no_harm(memory, sql, tmp_path):
    source = memory.bind(caller=Caller("source"))
    await fill(source)
    await source.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    refused = taken = 0
    for seed in range(50):
        path = write(tmp_path / "b.jsonl", mutated(Random(seed), lines))
        tenant = f"t{seed}"
        importer = memory.bind(caller=Caller(tenant))
        try:
            await importer.import_(path)
        except TulvingError as error:
            refused += 1
            # Whether what a row refers to is there, is seen at the end; then no line can be named.
            assert "line" in str(error) or "fit together" in str(error) or "foreign key" in str(error).lower(), seed
            for table in moving.MOVED:
                assert sql(f"SELECT 1 FROM {table} WHERE tenant_id = ?", tenant) == [], (seed, table)
        else:
            taken += 1
            await use(importer, tmp_path / "c.jsonl")
    assert refused > 5 and taken > 5
    await memory.run_decay_sweep()
    await administer(memory).run_episode_cleanup()
    assert await problems(memory) == []


CANDIDATE = "the candidate of this line"
NO_COUNT = [-1, 1.5, True, "1", 10**10]
REFUSED_IN = {
    "learning_runs": {
        "job": [None, "sleep", 5],
        "status": [None, "asleep", 5],
        "butler": ["", "a\nb", 5],
        "user_id": ["", 5, "a\x00b"],
        "actor": [5, ""],
        "model": [5, "", "\ud800"],
        "lease_until": ["soon", 5],
        "input_tokens": [None, *NO_COUNT],
        "output_tokens": [None, *NO_COUNT],
        "shown": [None, [], "x", {"episodes": 5}, {"facts": ["x"]}, {"rules": "x"}, {"facts": {"a": 1}}],
        "counts": [None, [], {"facts_lost": "many"}, {"facts_lost": None}, *({"held": bad} for bad in NO_COUNT)],
        "last_error": [5, "\x00"],
        "created_at": [None, "x"],
        "finished_at": ["x", 5],
    },
    "proposals": {
        "id": [None, "x"],
        "run_id": [None, "x", 5],
        "owner": [None, 5],
        "action": [None, "new_tenant", 5],
        "offer": [None, [], {}, {"content": "x"}, {"tenant_id": "x"}],
        "reason": [None, 5, "\x00"],
        "created_at": [None, "x"],
    },
    "profile_blocks": {
        "block": [None, "play", 5],
        "number": [None, 0, *NO_COUNT],
        "user_id": ["", 5],
        "content": [None, 5, "\x00"],
        "run_id": ["x", 5],
        "created_at": [None, "x"],
    },
    "facts": {"run_id": ["x", 5]},
    "rules": {"run_id": ["x", 5]},
    "settlements": {
        "id": [None, "x", 5],
        "candidate_id": [None, "x", 5],
        "existing_id": [None, "x", 5, CANDIDATE],
        "winner_id": ["x", 5, str(UUID(int=77))],
        "loser_id": ["x", 5, str(UUID(int=77))],
        "merged_id": ["x", 5, CANDIDATE],
        "owner": [None, 5, "a\x00b"],
        "scope": [None, 5, "", "a\nb"],
        "rule": [None, 5, ""],
        "user_id": ["", 5, "a\x00b"],
        "household_id": ["", 5],
        "persona_id": ["", 5],
        "project": ["", 5, "a\nb"],
        "outcome": [None, "stored", 5],
        "action": [None, "held", 5],
        "confidence": [None, -0.1, 1.1, "x", float("nan")],
        "reason": [None, 5, "\x00"],
        "signals": [None, {}, "x", [5], [None], [[]], [{"kind": "\ud800"}], [{"score": float("nan")}]],
        "status": [None, "fading", 5, "held", "dismissed"],
        "run_id": ["x", 5],
        "created_at": [None, "x", 5],
        "updated_at": [None, "x", 5],
    },
    "merge_rules": {
        "rules": [None, {}, "x", [5], [{}], [{"name": ""}], [{"name": "a", "x": 1}]],
        "version": [None, 0, *NO_COUNT],
        "updated_at": [None, "x", 5],
    },
}
NO_OFFER = {
    "content": [None, "", 5],
    "subject": [None, "", "a\x00b"],
    "predicate": [None, 5],
    "permanence": [None, "eternal"],
    "importance": [None, 11, "x"],
    "confidence": [2, "x"],
    "tags": ["x", [5]],
    "evidence": [None, "x", ["x"], [5], {}],
}


@pytest.mark.parametrize("table", REFUSED_IN)
async def test_a_bad_value_of_what_was_learned_is_refused_by_name(memory, sql, tmp_path, engine, table):
    """Rows are checked before they reach an engine: PostgreSQL gets the first and the last bad value of each column."""

    def step(values):
        return 1 if engine == "sqlite" else max(1, len(values) - 1)

    source = memory.bind(caller=Caller("source"))
    await fill(source)
    await source.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    at = next(at for at, line in enumerate(lines) if line.get("table") == table)
    wrong = [(name, name, bad) for name, values in REFUSED_IN[table].items() for bad in values[:: step(values)]]
    if table == "proposals":
        offer = {"subject": "s", "predicate": "p", "content": "c", "tags": ["t"], "evidence": [str(UUID(int=1))]}
        offer |= {"permanence": "stable", "importance": 5.0, "confidence": None}
        lines[at]["row"] |= {"action": "new_fact", "offer": offer}
        for name, values in NO_OFFER.items():
            wrong += [("offer", f"offer.{name}", {**offer, name: bad}) for bad in values[:: step(values)]]
        wrong += [("offer", "offer", {**offer, "tenant_id": "x"}), ("action", "offer", "updated_fact")]
    for name, told, value in wrong:
        bad = lines[at]["row"]["candidate_id"] if value == CANDIDATE else value
        lines[at]["row"][name], right = bad, lines[at]["row"][name]
        path = write(tmp_path / "b.jsonl", lines)
        lines[at]["row"][name] = right
        with pytest.raises(InvalidInput) as refusal:
            assert await memory.import_(path) is None, (name, bad)
        field = refusal.value.field.partition(", ")[2]
        assert field.startswith(told) or (name, field) == ("offer", "offer"), (name, bad, refusal.value)
        assert refusal.value.allowed, (name, bad)
    for each in moving.MOVED:
        assert sql(f"SELECT 1 FROM {each} WHERE tenant_id = 'default'") == []
    await memory.import_(write(tmp_path / "b.jsonl", lines))


async def test_a_conflict_comes_with_both_notes_of_its_owner_or_not_at_all(memory, sql, tmp_path):
    source = memory.bind(caller=Caller("source"))
    await disagree(source)
    await source.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    at = next(at for at, line in enumerate(lines) if line.get("table") == "settlements")
    row = lines[at]["row"]
    stranger = await memory.bind(caller=Caller("stranger")).store_note("Somebody else's note")
    mine = await memory.bind(user_id="ann").store_note("The note of Ann")
    keyed = await memory.store_fact("user", "likes", "tea")
    wrong = [{"existing_id": str(other.id), "winner_id": None, "loser_id": None} for other in (stranger, mine, keyed)]
    wrong += [{"user_id": "ann"}, {"scope": "chef"}, {"project": "x"}]
    for change in wrong:
        lines[at]["row"] = {**row, **change}
        with pytest.raises(TulvingError, match=f"fit together.*{row['id']}"):
            await memory.import_(write(tmp_path / "b.jsonl", lines))
    without = [line for line in lines if line.get("row", {}).get("id") != row["existing_id"]]
    with pytest.raises(TulvingError, match="fit together"):
        await memory.import_(write(tmp_path / "b.jsonl", without))
    assert sql("SELECT 1 FROM settlements WHERE tenant_id = 'default'") == []
    lines[at]["row"] = row
    await memory.import_(write(tmp_path / "b.jsonl", lines))
    theirs, ours = await source.conflicts(), await memory.conflicts()
    assert [replace(each.settlement, tenant_id="source") for each in ours] == [each.settlement for each in theirs]
    assert [each.merged and each.merged.content for each in ours] == [
        each.merged and each.merged.content for each in theirs
    ]
    done = await memory.revert_conflict(row["id"])
    assert done.status == "reverted" and await problems(memory) == []
    assert await source.conflicts() == theirs


async def test_a_file_that_can_not_be_read_is_named(memory, tmp_path):
    for place in (tmp_path / "nowhere.jsonl", tmp_path):
        with pytest.raises(InvalidInput, match=f"file: {place} can't be read"):
            await memory.import_(place)


async def test_the_line_and_the_field_are_named(memory, tmp_path):
    await memory.create_entity("Ann", "person")
    await memory.export(tmp_path / "a.jsonl")
    lines = read(tmp_path / "a.jsonl")
    lines[1]["row"]["aliases"] = [1]
    with pytest.raises(InvalidInput) as refusal:
        await memory.import_(write(tmp_path / "b.jsonl", lines))
    assert refusal.value.field == "line 2, aliases"
    assert str(refusal.value) == "line 2, aliases: must be text, not int; allowed: 1 to 1000 characters"
