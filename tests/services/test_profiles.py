"""The profile of a person: what is shown of it, its versions, and whose it is."""

import asyncio
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput, MemoryModuleConfig, NewFact, RetrievalConfig, open_memory
from tulving.bootstrap import copy_store
from tulving.domain.events import Audit
from tulving.domain.profile import BLOCKS
from tulving.domain.scope import Owner
from tulving.errors import IntegrityError
from tulving.settings import LearningConfig
from tulving.storage import profiles
from tulving.testing import SequentialIds, WordEmbedder

NOBODY = Owner()
RUN, OTHER_RUN = UUID(int=10**6), UUID(int=10**6 + 1)


@pytest.fixture
def new_id():
    return SequentialIds(10**8)


@pytest.fixture
def write(memory, clock, new_id):
    """A change as a run of a model makes it."""

    async def change(blocks, run_id=RUN):
        audit = Audit(Caller(), clock.now, new_id, run_id)
        return await memory._write(profiles.update, "default", NOBODY, blocks, audit)

    return change


@pytest.fixture
def restore(memory, clock, new_id):
    async def undo(block, number):
        audit = Audit(Caller(), clock.now, new_id)
        return await memory._write(profiles.restore, "default", NOBODY, block, number, audit, run_id=RUN)

    return undo


async def versions(memory, block):
    return [each.content for each in await memory._read(profiles.history, "default", NOBODY, block)]


def events(sql, of="profile"):
    return sql("SELECT * FROM memory_events WHERE entity_type = ? ORDER BY seq", of)


# -- the verbs -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("003-011")
async def test_blocks_and_facts_to_the_letter(memory, clock):
    assert await memory.profile() == ""
    assert await memory.profile_blocks() == {}
    await memory.set_profile("recent", "moved to\n Oslo")
    await memory.set_profile("work", "baker <b>at</b> R&D")
    await memory.store_note("likes tea", category="preference", confidence=0.5)
    await memory.store_note("wants to row", category="goal", confidence=0.95, permanence="permanent")
    clock.advance(days=1)
    await memory.store_note("knows C", confidence=0.5)
    assert await memory.profile() == (
        "User Context:\n- Work: baker &lt;b>at&lt;/b> R&D\n\nHistory:\n- Recent: moved to Oslo\n\n"
        "Facts:\n- [goal | 0.95] wants to row\n- [knowledge | 0.50] knows C\n- [preference | 0.50] likes tea"
    )
    assert await memory.profile_blocks() == {"work": "baker <b>at</b> R&D", "recent": "moved to\n Oslo"}


@pytest.mark.scenario("003-011")
async def test_facts_come_by_what_is_believed_now_then_newest(memory, clock):
    await memory.store_note("old and fading", permanence="volatile")
    clock.advance(days=30)
    await memory.store_facts([NewFact(content=f"n{n}", confidence=0.6) for n in range(3)])
    clock.advance(seconds=1)
    await memory.store_note("newest", confidence=0.6, permanence="permanent")
    await memory.store_note("permanent", confidence=0.7, permanence="permanent")
    lines = (await memory.profile()).splitlines()[1:]
    assert [line.split("] ")[1] for line in lines] == ["permanent", "newest", "n0", "n1", "n2", "old and fading"]
    assert lines[-1] == "- [knowledge | 0.41] old and fading"


async def test_of_equal_confidence_the_newest_is_first_whichever_was_confirmed_last(memory, clock):
    first = (await memory.store_note("first", permanence="permanent")).id
    clock.advance(days=1)
    await memory.store_note("second", permanence="permanent")
    clock.advance(days=1)
    await memory.confirm("fact", first)
    assert await memory.profile() == "Facts:\n- [knowledge | 1.00] second\n- [knowledge | 1.00] first"


async def test_only_unkeyed_facts_in_use_belong_to_the_profile(memory):
    await memory.store_fact("user", "likes", "keyed tea", category="preference")
    gone = await memory.store_note("forgotten tea")
    await memory.store_note("tea")
    await memory.forget("fact", gone.id)
    await memory.store_rule("serve tea")
    await memory.store_episode("had tea", butler="b")
    assert await memory.profile() == "Facts:\n- [knowledge | 1.00] tea"


@pytest.mark.scenario("003-012")
@pytest.mark.parametrize("config", [MemoryModuleConfig(learning=LearningConfig(profile_tokens=30))])
async def test_the_budget_is_configured_or_given(memory):
    await memory.store_facts([NewFact(content=f"note {n}", confidence=n / 10) for n in range(1, 10)])
    text = await memory.profile()
    assert len(text) <= 120
    assert [line[-1] for line in text.splitlines()[1:]] == ["9", "8", "7", "6"]
    assert (await memory.profile(2000)).count("\n") == 9
    assert (await memory.profile(max_tokens=9)) == "Facts:\n- [knowledge | 0.90] note 9"
    await memory.set_profile("work", "x" * 200)
    assert await memory.profile() == "User Context:\n- Work: " + "x" * 94 + "\n..."
    for wrong in (0, -1, 1_000_001, "many", 2.5, True):
        with pytest.raises(InvalidInput, match="max_tokens"):
            await memory.profile(wrong)


async def test_the_default_budget_is_two_thousand_tokens(memory):
    await memory.store_facts([NewFact(content=f"{n:03} " + "x" * 190) for n in range(100)])
    assert 8000 - 215 < len(await memory.profile()) <= 8000


async def test_the_counter_of_the_memory_counts(url, embedder, clock):
    words = lambda text: len(text.split())  # noqa: E731
    async with open_memory(url, embedder=embedder, clock=clock, tokens=words, background=False) as memory:
        await memory.store_facts([NewFact(content=f"one two three {n}") for n in range(20)])
        assert words(await memory.profile(40)) == 33


async def test_a_fact_of_millions_of_characters_does_no_harm(memory):
    await memory.store_note("y" * 3_000_000, confidence=0.9)
    await memory.store_note("small", confidence=1.0)
    assert await memory.profile() == "Facts:\n- [knowledge | 1.00] small"


async def test_of_thousands_of_facts_the_best_are_shown(memory):
    await memory.store_facts([NewFact(content=f"n{n}", confidence=0.5) for n in range(profiles.MOST_FACTS)])
    await memory.store_note("best", confidence=0.6)
    lines = (await memory.profile(1_000_000)).splitlines()
    assert len(lines) == 1 + profiles.MOST_FACTS
    assert lines[1] == "- [knowledge | 0.60] best"


async def test_setting_a_block(memory, clock, sql):
    assert await memory.set_profile("work", "  baker<private> in debt</private> ") is True
    assert await memory.profile_blocks() == {"work": "baker"}
    assert await memory.set_profile("work", "baker") is False
    clock.advance(days=1)
    assert await memory.set_profile("work", "rower") is True
    assert await memory.set_profile("work", " \n") is True, "blank text empties it"
    assert await memory.set_profile("personal", "") is False
    assert await memory.profile_blocks() == {}
    assert await memory.profile() == ""
    assert await versions(memory, "work") == ["baker", "rower", ""]
    found = events(sql)
    assert [event["payload"]["number"] for event in found] == [1, 2, 3]
    assert {event["payload"]["block"] for event in found} == {"work"}
    assert {(event["event_type"], event["entity_id"], event["run_id"]) for event in found} == {
        ("profile_updated", None, None)
    }
    assert len({event["payload"]["content_hash"] for event in found}) == 3
    assert not any(word in str(found) for word in ("baker", "rower"))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("block", "content", "field"),
    [
        ("hobby", "x", "block"),
        ("topofmind", "x", "block"),
        (None, "x", "block"),
        (["work"], "x", "block"),
        ("work", None, "content"),
        ("work", 5, "content"),
        ("work", "<private>x</private>", "content"),
        ("work", "\x00", "content"),
    ],
)
async def test_what_is_no_block_is_refused(memory, sql, block, content, field):
    with pytest.raises(InvalidInput) as refused:
        await memory.set_profile(block, content)
    assert refused.value.field == field
    assert sql("SELECT * FROM profile_blocks") == events(sql) == []


@pytest.mark.parametrize("config", [MemoryModuleConfig(max_content_characters=5)])
async def test_a_block_is_as_long_as_any_memory_at_most(memory):
    with pytest.raises(InvalidInput, match="max_content_characters"):
        await memory.set_profile("work", "123456")
    assert await memory.set_profile("work", "12345")


async def test_deleting_takes_every_version_along(memory, sql):
    for block in ("work", "recent"):
        for number in range(3):
            await memory.set_profile(block, f"secret {number}")
    assert await memory.delete_profile("work") == 3
    assert await memory.profile_blocks() == {"recent": "secret 2"}
    assert await memory.delete_profile("work") == 0
    with pytest.raises(InvalidInput, match="block"):
        await memory.delete_profile("hobby")
    await memory.set_profile("topOfMind", "more")
    assert await memory.delete_profile() == 4
    assert sql("SELECT * FROM profile_blocks") == []
    deleted = [event["payload"] for event in events(sql) if event["event_type"] == "profile_deleted"]
    assert deleted == [
        {"block": "work", "versions": 3},
        {"block": "topOfMind", "versions": 1},
        {"block": "recent", "versions": 3},
    ]
    assert await memory.set_profile("work", "again") is True


async def test_deleting_the_profile_leaves_the_facts(memory):
    await memory.store_note("likes tea")
    await memory.set_profile("work", "baker")
    await memory.delete_profile()
    assert await memory.profile() == "Facts:\n- [knowledge | 1.00] likes tea"


async def test_a_request_that_is_repeated_is_done_once(memory):
    once = memory.bind(idempotency_key="r-1")
    assert await once.set_profile("work", "baker") is True
    await memory.set_profile("work", "rower")
    assert await once.set_profile("work", "baker") is True
    assert await memory.profile_blocks() == {"work": "rower"}
    assert await once.delete_profile() == await once.delete_profile() == 2


# -- whose it is -----------------------------------------------------------------------------------------------


async def test_a_profile_belongs_to_exactly_one_owner(memory):
    who = {
        "nobody": memory,
        "anna": memory.bind(user_id="anna"),
        "bob": memory.bind(user_id="bob"),
        "home": memory.bind(household_id="anna"),
        "anna at home": memory.bind(user_id="anna", household_id="home"),
        "persona": memory.bind(user_id="anna", persona_id="p"),
        "tenant": memory.bind(caller=Caller("other")),
        "anna of the tenant": memory.bind(caller=Caller("other"), user_id="anna"),
    }
    for name, each in who.items():
        await each.set_profile("work", f"work of {name}")
        await each.store_note(f"note of {name}")
    for name, each in who.items():
        expected = f"User Context:\n- Work: work of {name}\n\nFacts:\n- [knowledge | 1.00] note of {name}"
        assert await each.profile() == expected
        assert await each.profile_blocks() == {"work": f"work of {name}"}
        block = await each.context("zzz", butler="b")
        assert block == f"# Memory Context\n\n## Profile\n- Work: work of {name}\n"
    assert await who["anna"].delete_profile() == 1
    assert {name for name, each in who.items() if await each.profile_blocks()} == who.keys() - {"anna"}


async def test_rows_of_other_origin_belong_to_whom_their_columns_name(memory, sql, clock):
    sql(
        "INSERT INTO facts (tenant_id, id, subject, predicate, content, keyed, user_id, created_at, updated_at)"
        " VALUES ('default', ?, 'user', 'goal', 'to row', FALSE, 'anna', ?, ?)",
        UUID(int=99),
        clock.now,
        clock.now,
    )
    await memory.embed_pending()
    assert await memory.profile() == ""
    assert await memory.bind(user_id="anna").profile() == "Facts:\n- [goal | 1.00] to row"


async def test_facts_come_from_within_the_bound_scope_and_project(memory):
    await memory.store_note("everywhere")
    await memory.store_note("here", scope="here")
    await memory.store_note("there", scope="there")
    await memory.bind(project="atlas").store_note("of atlas")

    async def shown(bound):
        return {line.split("] ")[1] for line in (await bound.profile()).splitlines()[1:]}

    assert await shown(memory) == {"everywhere", "here", "there", "of atlas"}
    assert await shown(memory.bind(scope="here")) == {"everywhere", "here", "of atlas"}
    assert await shown(memory.bind(project="atlas")) == {"of atlas"}


# -- versions and runs -----------------------------------------------------------------------------------------


async def test_a_run_writes_what_differs_under_its_id(memory, write, sql):
    await memory.set_profile("work", "baker")
    changed = await write({"work": "baker", "recent": "Oslo", "earlier": ""})
    assert changed == ["recent"]
    (event,) = [each for each in events(sql) if each["run_id"] is not None]
    assert (event["run_id"], event["payload"]["block"], event["payload"]["number"]) == (RUN, "recent", 1)
    blocks = await memory._read(profiles.current, "default", NOBODY)
    assert {name: (block.number, block.run_id) for name, block in blocks.items()} == {
        "work": (1, None),
        "recent": (1, RUN),
    }
    with pytest.raises(IntegrityError):
        await write({"work": "rower", "hobby": "x"})
    assert await versions(memory, "work") == ["baker"], "all or nothing"


async def test_the_blocks_come_in_their_order(memory):
    for block in reversed(BLOCKS):
        await memory.set_profile(block, block)
    assert list(await memory._read(profiles.current, "default", NOBODY)) == list(BLOCKS)


async def test_undoing_writes_the_version_before(memory, write, restore, sql):
    await memory.set_profile("work", "baker")
    await write({"work": "rower", "recent": "Oslo"})
    assert await restore("work", 2) is True
    assert await restore("recent", 1) is True
    assert await memory.profile_blocks() == {"work": "baker"}
    assert await versions(memory, "work") == ["baker", "rower", "baker"]
    assert await versions(memory, "recent") == ["Oslo", ""]
    before = events(sql)
    assert await restore("work", 2) is False, "it is undone already"
    assert events(sql) == before


@pytest.mark.parametrize("since", ["changed", "deleted", "written anew", "written anew by another run"])
async def test_what_was_changed_since_is_not_undone(memory, write, restore, since):
    await write({"work": "rower"})
    if since == "changed":
        await memory.set_profile("work", "baker")
    else:
        await memory.delete_profile("work")
    if since == "written anew":
        await memory.set_profile("work", "baker")
    elif since == "written anew by another run":
        await write({"work": "baker"}, run_id=OTHER_RUN)
    assert await restore("work", 1) is False
    assert await memory.profile_blocks() == ({} if since == "deleted" else {"work": "baker"})


async def test_many_writers_number_their_versions_without_gaps(memory, url, clock, embedder):
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        texts = [f"{at} {n}" for at in range(2) for n in range(8)]
        writers = (each.set_profile("work", text) for each, text in zip((memory, second) * 8, texts, strict=True))
        assert await asyncio.gather(*writers) == [True] * 16
    kept = await memory._read(profiles.history, "default", NOBODY, "work")
    assert [each.number for each in kept] == list(range(1, 17))
    assert {each.content for each in kept} == set(texts)


async def test_profiles_travel(memory, url, new_url, tmp_path, config):
    anna = memory.bind(user_id="anna", persona_id="p")
    await anna.set_profile("work", "baker")
    await anna.set_profile("work", "rower")
    await memory.export(tmp_path / "out.jsonl")
    async with open_memory(new_url(), config=config, embedder=WordEmbedder(), background=False) as other:
        await other.import_(tmp_path / "out.jsonl")
        assert await other.bind(user_id="anna", persona_id="p").profile_blocks() == {"work": "rower"}
        assert await other.profile_blocks() == {}
    copied = await copy_store(url, new_url(), config=config)
    assert copied.ok
    assert copied.tables["profile_blocks"].copied == 2


# -- in the context --------------------------------------------------------------------------------------------


async def fill(memory):
    for block in BLOCKS:
        await memory.set_profile(block, f"{block} " + "words and more " * 5)
    await memory.store_facts([NewFact(content=f"green tea f{n} " + "f" * 60) for n in range(30)])


@pytest.mark.scenario("001-127")
async def test_the_profile_is_the_first_section(memory):
    await memory.store_fact("Anna", "likes", "green tea")
    without = await memory.context("green tea", butler="b")
    await memory.set_profile("topOfMind", "the\nlaunch </facts>")
    await memory.set_profile("work", "baker")
    block = await memory.context("green tea", butler="b")
    profile = "\n## Profile\n- Work: baker\n- Current Focus: the launch &lt;/facts>\n"
    assert block == without.replace("# Memory Context\n", "# Memory Context\n" + profile, 1)
    await memory.set_profile("work", "")
    await memory.delete_profile("topOfMind")
    assert await memory.context("green tea", butler="b") == without, "an empty profile has no section"


@pytest.mark.scenario("001-127")
@pytest.mark.parametrize("quota", [0.0, 0.1, 0.5, 1.0])
async def test_its_quota_is_configured_and_kept(new_url, embedder, clock, quota):
    config = MemoryModuleConfig(retrieval=RetrievalConfig(section_quotas={"profile": quota}))
    async with open_memory(new_url(), config=config, embedder=embedder, clock=clock, background=False) as memory:
        await fill(memory)
        for budget in (5, 30, 60, 100, 300):
            block = await memory.context("green tea", butler="b", token_budget=budget)
            assert len(block) <= 4 * budget
            assert block == await memory.context("green tea", butler="b", token_budget=budget)
            profile = block.split("\n## Key Facts")[0].removeprefix("# Memory Context\n")
            assert len(profile) <= 4 * (int(budget * quota) + 1)
        assert bool(profile) == (quota > 0)
        assert "## Key Facts" in block


@pytest.mark.scenario("001-127")
async def test_the_counter_of_the_memory_counts_in_the_context(url, embedder, clock):
    words = lambda text: len(text.split())  # noqa: E731
    async with open_memory(url, embedder=embedder, clock=clock, tokens=words, background=False) as memory:
        await fill(memory)
        block = await memory.context("green tea", butler="b", token_budget=200)
        profile, facts = block.split("\n## Key Facts")
        assert words(block) <= 200 < len(block) / 4
        assert words(profile.removeprefix("# Memory Context\n")) <= 40
        assert profile.count("\n- ") >= 1 and facts.count("\n- ") >= 10


async def test_the_profile_of_the_past_is_that_of_the_past(memory, clock):
    await memory.set_profile("work", "baker")
    then = clock.now
    clock.advance(days=1)
    await memory.set_profile("work", "rower")
    await memory.set_profile("personal", "cats")
    assert "- Work: rower\n- Personal: cats\n" in await memory.context("x", butler="b")
    assert (await memory.context("x", butler="b", as_of=then)).endswith("## Profile\n- Work: baker\n")


async def test_a_caller_may_name_whose_profile_it_is(memory, clock):
    await memory.set_profile("work", "Leads the bookings.", user_id="mira")
    clock.advance(hours=1)
    await memory.set_profile("work", "Leads everything.", user_id="mira")
    await memory.set_profile("recent", "Is on leave.", user_id="mira")
    await memory.set_profile("recent", "", user_id="mira")
    led = clock.now
    clock.advance(hours=1)
    await memory.set_profile("personal", "Has two dogs.", user_id="jon", household_id="home")
    mira = memory.bind(user_id="mira")
    assert (await mira.profile_block("work")) == (await memory.profile_block("work", user_id="mira"))
    assert "Leads everything." in await memory.profile(user_id="mira")
    assert [each.content for each in await memory.profile_versions("work", user_id="mira")] == [
        "Leads the bookings.",
        "Leads everything.",
    ]
    assert await memory.profile_versions("work") == []
    with pytest.raises(InvalidInput, match="bound"):
        await mira.profile(user_id="jon")
    owners = await memory.profile_owners()
    assert [(each.user_id, each.household_id, each.blocks) for each in owners] == [
        ("jon", "home", 1),
        ("mira", None, 1),
    ]
    assert owners[1].written_at == led
    assert [each.user_id for each in await mira.profile_owners()] == ["mira"]
    assert not await memory.bind(caller=Caller("other")).profile_owners()
    assert await memory.delete_profile(user_id="mira") == 4
    assert [each.user_id for each in await memory.profile_owners()] == ["jon"]
