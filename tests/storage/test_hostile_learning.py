"""Whatever is given to the verbs that learn, by a caller or by a model, is taken safely or refused by name: other
tenants and owners are out of reach, and nothing is half written."""

import json
from collections.abc import AsyncIterator, Callable
from itertools import islice
from random import Random
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from fault_parts import everything, opened, problems
from raw_sql import rows_of, run_sql

from tulving import Caller
from tulving.domain.learning import LEASE
from tulving.errors import InvalidInput, NotFound, UnusableAnswer
from tulving.services.memory import Memory
from tulving.settings import LearningConfig, MemoryModuleConfig
from tulving.storage import moving
from tulving.testing import ManualClock, ScriptedLlm

Contents = Callable[[], dict[str, Any]]
NO_ID: list[Any] = [None, "", "x", "123", 5, b"0" * 16, ["list"], "fact", "\ud800", "\x00", "x" * 1_000_000]
UNKNOWN = [UUID(int=0), UUID(int=2**128 - 1), str(UUID(int=5))]
MEGABYTE = 1_000_000


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(learning=LearningConfig(review_rules=True))


@pytest.fixture
async def memory(url: str, config: MemoryModuleConfig, clock: ManualClock) -> AsyncIterator[Memory]:
    async with opened(url, config=config, clock=clock, background=False) as memory:
        yield memory


@pytest.fixture
def contents(url: str) -> Contents:
    """All rows of what can be moved, and of the values that were forgotten."""

    def read() -> dict[str, Any]:
        tables = (*moving.MOVED, "forgotten_values")
        rows = rows_of(url, tables)
        return {table: sorted(repr(row) for name, row in rows if name == table) for table in tables}

    return read


async def taught(memory: Memory) -> dict[str, Any]:
    """A run that is done, one that is held, an open lease, and a profile."""
    await memory.store_fact("canary", "colour", "yellow")
    episode = await memory.store_episode("the canary is green, so feed it", butler="b")

    async def answer(prompt: str, trigger_source: str) -> str:
        fact = {"subject": "canary", "predicate": "colour", "content": "green"}
        return json.dumps({"new_facts": [fact], "new_rules": [{"content": "feed the canary"}]})

    done = await memory.run_consolidation(answer)
    assert (done["held"], done["errors"]) == (1, [])
    (held,) = await memory.proposals()
    await memory.set_profile("work", "keeper of a canary")
    lease = (await memory.learn_prompt("User: my canary sings")).lease
    return {"run": UUID(done["runs"][0]), "proposal": held.id, "lease": lease, "episode": episode.id}


def on_id(memory: Memory) -> dict[str, Callable[[Any], Any]]:
    """The verbs that take the id of a run, a proposal or a lease."""
    return {
        "run_id": memory.undo,
        "ids": lambda id_: memory.accept([id_]),
        "ids ": lambda id_: memory.reject([id_]),
        "lease": lambda id_: memory.learn_apply('{"newFacts": []}', id_),
    }


@pytest.mark.scenario("001-117")
@pytest.mark.parametrize("who", ["nobody", "another tenant", "another user", "another persona"])
async def test_what_is_not_ones_own_is_unknown(memory: Memory, contents: Contents, who: str) -> None:
    owner = memory.bind(user_id="ann")
    ids = await taught(owner)
    stranger = {
        "nobody": owner,
        "another tenant": memory.bind(caller=Caller("theirs"), user_id="ann"),
        "another user": memory.bind(user_id="bob"),
        "another persona": memory.bind(user_id="ann", persona_id="x"),
    }[who]
    before = contents()
    for field, verb in on_id(stranger).items():
        for id_ in UNKNOWN if who == "nobody" else ids.values():
            with pytest.raises((NotFound, InvalidInput)) as refusal:
                await verb(id_)
            told = str(refusal.value)
            assert "lease: is unknown" in told if field == "lease" else str(id_) in told
    for id_ in UNKNOWN if who == "nobody" else ids.values():
        with pytest.raises(NotFound):
            await stranger.runs(id_)
    if who != "nobody":
        assert not [*await stranger.runs(), *await stranger.proposals()]
        assert (await stranger.profile_blocks(), await stranger.profile()) == ({}, "")
        assert await stranger.derived("episode", ids["episode"]) == []
        assert await stranger.forget("episode", ids["episode"], derived=True) is False
        assert await stranger.delete_profile() == 0
        assert (await stranger.run_consolidation(lambda **asked: "{}"))["episodes_processed"] == 0
        assert (await stranger.learn_prompt()).lease is None
        with pytest.raises(InvalidInput, match="lease"):
            await stranger.learn_apply('{"newFacts": []}')
    assert contents() == before


async def test_what_is_no_id_is_refused_by_name(memory: Memory, contents: Contents) -> None:
    await taught(memory)
    before = contents()
    for field, verb in on_id(memory).items():
        for bad in NO_ID:
            if (field, bad) == ("lease", None):
                continue  # the newest one
            with pytest.raises(InvalidInput) as refusal:
                await verb(bad)
            error = refusal.value
            assert (error.field, error.allowed) == (field.strip(), "a UUID"), (field, str(bad)[:80])
            assert len(str(error).encode()) < 1000
    for verb in (memory.accept, memory.reject):
        for no_list in (None, 7, {}):
            with pytest.raises(InvalidInput, match="ids: must be a list"):
                await verb(no_list)
        with pytest.raises(InvalidInput, match="ids: is empty"):
            await verb([])
    assert contents() == before


async def test_one_unknown_id_among_others_decides_nothing(memory: Memory, contents: Contents) -> None:
    ids = await taught(memory)
    before = contents()
    for verb in (memory.accept, memory.reject):
        for others in ((ids["proposal"], UUID(int=5)), (ids["run"], ids["lease"]), (UUID(int=5), ids["run"])):
            with pytest.raises(NotFound):
                await verb(others)
    assert contents() == before


async def test_a_lease_that_is_over_or_used_is_refused(memory: Memory, contents: Contents, clock: ManualClock) -> None:
    ids = await taught(memory)
    await memory.learn_apply('{"newFacts": []}', ids["lease"])
    late = (await memory.learn_prompt("User: and now?")).lease
    clock.advance(seconds=LEASE.total_seconds())
    before = contents()
    for lease in (ids["lease"], late, ids["run"], None):
        with pytest.raises(InvalidInput, match="lease: is unknown, used or over"):
            await memory.learn_apply('{"newFacts": []}', lease)
    assert contents() == before


NO_ANSWER: list[Any] = [
    None, 5, b"{}", True, ["{}"], {"newFacts": []}, object(), "", " ", "\x00", "\ud800", "no JSON at all", "{", "[]",
    "{" * 100_000, "[" * 100_000, "x" * MEGABYTE, "\x00" * MEGABYTE, '{"newFacts": [' + "1," * 100_000,
]  # fmt: skip


async def test_an_answer_that_is_none_is_refused_and_the_lease_stays(memory: Memory, contents: Contents) -> None:
    ids = await taught(memory)
    before = contents()
    wrong = []
    for bad in NO_ANSWER:
        try:
            await memory.learn_apply(bad, ids["lease"])
        except InvalidInput as error:
            if error.field != "answer" or not error.allowed or len(str(error)) > 1000:
                wrong.append((repr(bad)[:40], str(error)[:200]))
        except Exception as error:
            wrong.append((repr(bad)[:40], repr(error)[:200]))
        else:
            wrong.append((repr(bad)[:40], "was taken"))
    assert not wrong, "\n".join(map(str, wrong))
    assert contents() == before
    assert (await memory.learn_apply('{"newFacts": []}', ids["lease"])).errors == []


HOSTILE: list[Any] = [
    None, 5, True, [], {}, "x", {"content": None}, {"content": 5}, {"content": ""}, {"content": "\x00"},
    {"content": "\ud800"}, {"content": "<private>x</private>"}, {"content": "c", "subject": "\x00", "predicate": "p"},
    {"content": "c", "subject": "s" * 2000, "predicate": "p"}, {"content": "c", "subject": [], "predicate": {}},
    {"content": "c", "subject": "😀" * 900, "predicate": "p"}, {"content": "c", "subject": "a\nb", "predicate": "p"},
    {"content": "c", "subject": "s", "predicate": "p", "evidence": ["x"]},
    {"content": "c", "subject": "s", "predicate": "p", "evidence": [str(UUID(int=7))]},
    {"target_id": str(UUID(int=7)), "content": "c", "subject": "s", "predicate": "p"},
    {"target_id": "x", "content": "c", "subject": "s", "predicate": "p"},
    {"content": "c", "category": "unheard of"}, {"content": "c", "category": 5, "confidence": "very"},
]  # fmt: skip
SECTIONS = ("new_facts", "updated_facts", "new_rules", "confirmations", "newFacts", "facts")


@pytest.mark.parametrize("job", ["extraction", "consolidation"])
async def test_hostile_entries_of_an_answer_leave_the_good_one(memory: Memory, url: str, job: str) -> None:
    """A model can't name a tenant or an owner either, nor any memory that it was not shown."""
    theirs = memory.bind(caller=Caller("theirs"))
    foreign = (await taught(theirs))["episode"]
    secret = await theirs.store_fact("vault", "place", "cellar")
    before = await everything(theirs)
    named = {"tenant_id": "theirs", "user_id": "bob", "owner": "|3:bob|", "id": str(secret.id), "run_id": str(foreign)}
    good = {"content": "good", "subject": "s", "predicate": "p", "confidence": 0.9, "category": "goal", **named}
    stolen = {**good, "content": "stolen"}
    answer: dict[str, Any] = {section: [*HOSTILE, HOSTILE, good] for section in SECTIONS}
    answer["updated_facts"] = [*HOSTILE, {**stolen, "target_id": str(secret.id)}]
    answer["confirmations"] = [*HOSTILE, str(secret.id), str(foreign)]
    answer |= {name: HOSTILE for name in ("tenant_id", "shown", "counts", "profile", "user", "history")}
    ann = memory.bind(user_id="ann")
    if job == "extraction":
        prompt = await ann.learn_prompt("User: good")
    else:
        await ann.store_episode("something good", butler="b")
        prompt = await ann.learn_prompt()
    learned = await ann.learn_apply(json.dumps(answer), prompt.lease)
    assert learned.facts_created >= 1 and learned.facts_updated == 0
    assert len(learned.errors) > 10 and all(len(error) < 1000 for error in learned.errors)
    facts = (await memory.list_memories("fact", state="any")).items
    assert facts and {(fact.tenant_id, fact.user_id) for fact in facts} == {("default", "ann")}
    assert {fact.run_id for fact in facts} == {prompt.lease}
    assert "stolen" not in {fact.content for fact in facts}
    assert await everything(theirs) == before
    assert not problems(await administer(memory).verify())
    await memory.undo(learned.run_id)
    assert (await memory.list_memories("fact", state="active")).items == []


async def test_sections_that_are_no_lists_are_no_reason_to_fail(memory: Memory) -> None:
    for section in (*SECTIONS, "profile", "user", "history"):
        for bad in (5, "x", True, {"a": {"b": []}}, [[[]]], None):
            lease = (await memory.learn_prompt("User: x")).lease
            try:
                learned = await memory.learn_apply(json.dumps({"newFacts": [], section: bad}), lease)
            except InvalidInput as error:
                assert error.field == "answer"
            else:
                assert not learned.stored and not learned.profile
    assert await everything(memory) == {}


@pytest.mark.parametrize("size", [MEGABYTE], ids=["a megabyte"])
async def test_a_long_conversation_and_a_long_answer(memory: Memory, size: int) -> None:
    said = "User: " + "word " * (size // 5)
    prompt = await memory.learn_prompt(said)
    assert len(prompt.prompt) < 2 * size
    answer = {
        "newFacts": [{"content": "x" * (size // 3)}, *({"content": f"fact {n}"} for n in range(600))],
        "profile": {"work": "y" * (size // 3), "recent": "\x00z\ud800"},
    }
    learned = await memory.learn_apply(json.dumps(answer), prompt.lease)
    assert learned.profile and len(await memory.profile()) <= 2000 * 4 + 10
    assert len((await memory.list_memories("fact", limit=1000)).items) <= 601
    assert not problems(await administer(memory).verify())


async def test_texts_that_no_database_holds_are_cleaned_or_refused(memory: Memory, url: str) -> None:
    prompt = await memory.learn_prompt([{"role": "user", "content": "a\x00b \ud800c"}])
    assert "\x00" not in prompt.prompt and "\ud800" not in prompt.prompt
    answer = (
        '{"newFacts": [{"content": "a\\u0000b\\ud800c", "confidence": 1}], "profile": {"work": "d\\u0000e\\udfff"}}'
    )
    await memory.learn_apply(answer, prompt.lease)
    await memory.set_profile("recent", "f\x00g\ud800")
    for row in (*run_sql(url, "SELECT content FROM facts"), *run_sql(url, "SELECT content FROM profile_blocks")):
        assert set(row["content"]) <= set("abcdefg")


async def test_an_owner_too_long_for_an_index_is_refused_by_name(memory: Memory, contents: Contents) -> None:
    """Their key has the tenant and all parts of the owner. The letters are such that it can't be compressed."""
    letters = iter("".join(map(chr, Random(0).sample(range(0x20000, 0x2A000), 800))))
    names = ["".join(islice(letters, 200)) for _ in range(4)]
    owner = memory.bind(caller=Caller(names[0]), user_id=names[1], household_id=names[2], persona_id=names[3])
    for store in (lambda: owner.store_note("content"), lambda: owner.set_profile("work", "content")):
        with pytest.raises(InvalidInput, match="is too long: with its tenant"):
            await store()
    lease = (await owner.learn_prompt("User: x")).lease
    before = contents()
    with pytest.raises(InvalidInput, match="is too long: with its tenant"):
        await owner.learn_apply('{"newFacts": [], "profile": {"work": "content"}}', lease)
    assert {table for table, rows in contents().items() if rows != before[table]} == {"learning_runs"}, "it has failed"


FAILURES: dict[str, Any] = {
    "blank": " ",
    "no JSON": "I would rather not",
    "an error": RuntimeError("boom"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_model_that_fails_leaves_a_failed_run_and_nothing_else(
    url: str, contents: Contents, config: MemoryModuleConfig, failure: str
) -> None:
    llm = ScriptedLlm(FAILURES[failure], forever=True)
    async with opened(url, llm=llm, config=config, clock=ManualClock(), background=False) as memory:
        await memory.store_fact("s", "p", "kept")
        before = contents()
        with pytest.raises((UnusableAnswer, RuntimeError)):
            await memory.learn("User: I like tea")
        after = contents()
        assert {table for table in after if after[table] != before[table]} == {"learning_runs"}
        (report,) = await memory.runs()
        assert (report.run.status, report.run.lease_until) == ("failed", None)
        assert "boom" not in str(report.run.last_error), "errors of others may hold anything"
