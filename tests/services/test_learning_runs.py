"""Runs of the configured model: what failures cost, who holds a lease, and what may be spent."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import pytest
from learning_parts import NOTHING, TRUNCATED, fact, facts, noting, said, shown, tell
from raw_sql import run_sql

from tulving import Caller, InvalidInput, MemoryModuleConfig, open_memory
from tulving.domain.learning import LEASE
from tulving.errors import ModelUnavailable, SpendLimitReached
from tulving.ports import Completion
from tulving.settings import LearningConfig, LlmConfig
from tulving.testing import ScriptedLlm, SequentialIds, WordEmbedder

ECHO = "# Memory Context\n\n## Key Facts\n- [user] [prefers]: dark mode (confidence: 0.90)\n"
LEARNING = LearningConfig(episodes_at_a_time=8, max_attempts=4)


class Script:
    """Answers that a test changes as it goes; the last one is repeated."""

    def __init__(self):
        self.answers = [noting]
        self.llm = ScriptedLlm(self._next, forever=True)

    def _next(self, prompt):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(prompt) if callable(answer) else answer

    @property
    def prompts(self):
        return self.llm.prompts


@pytest.fixture
def config():
    return MemoryModuleConfig(learning=LEARNING, llm=LlmConfig(retries=0, max_output_tokens=1000))


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def opened(url, clock, config):
    """Opens the same store once more, as another process would."""
    numbers = iter(range(1, 100))

    @asynccontextmanager
    async def open_one(llm=None, config=config):
        ids = SequentialIds(next(numbers) * 100_000)
        parts = {"config": config, "embedder": WordEmbedder(), "clock": clock, "ids": ids, "background": False}
        async with open_memory(url, llm=llm, **parts) as memory:
            yield memory

    return open_one


@pytest.fixture
async def memory(opened, script):
    async with opened(script.llm) as memory:
        yield memory


def episodes(sql):
    rows = sql("SELECT * FROM episodes ORDER BY created_at, id")
    assert all(row["consolidated"] is (row["consolidation_status"] == "consolidated") for row in rows)
    return rows


def runs(sql):
    return sql("SELECT * FROM learning_runs ORDER BY created_at, id")


# -- failures --------------------------------------------------------------------------------------------------

USELESS = {
    "blank": "  \n",
    "truncated": TRUNCATED,
    "no JSON": "I have canary nothing to say.",
    "invalid JSON": "```json\n{invalid canary\n```",
    "cut off": '{"new_facts": [{"subject": "canary',
}


@pytest.mark.parametrize("answer", USELESS.values(), ids=USELESS)
async def test_a_useless_answer_costs_an_attempt_and_the_wait_doubles(memory, clock, script, sql, answer, caplog):
    script.answers = [answer]
    await tell(memory, "canary one", "canary two")
    waits = []
    for attempt in range(1, LEARNING.max_attempts):
        done = await memory.run_consolidation()
        assert (len(done["errors"]), done["groups_consolidated"], done["episodes_consolidated"]) == (1, 0, 0)
        first = episodes(sql)[0]
        assert (first["consolidation_status"], first["consolidation_attempts"]) == ("pending", attempt)
        assert first["last_consolidation_error"] == "UnusableAnswer"
        waits.append(first["next_consolidation_retry_at"] - clock.now)
        clock.now = first["next_consolidation_retry_at"] - timedelta(seconds=1)
        asked = len(script.prompts)
        await memory.run_consolidation()
        assert len(script.prompts) == asked, "not before its time"
        clock.advance(seconds=1)
    assert waits == [timedelta(minutes=2), timedelta(minutes=4), timedelta(minutes=8)]
    for _ in range(3):
        await memory.run_consolidation()
        clock.advance(hours=1)
    assert {(row["consolidation_status"], row["next_consolidation_retry_at"]) for row in episodes(sql)} == {
        ("dead_letter", None)
    }
    assert (await memory.run_consolidation())["episodes_processed"] == 0
    assert {run["status"] for run in runs(sql)} == {"failed"}
    assert all(run["last_error"].startswith("UnusableAnswer") for run in runs(sql))
    assert "canary" not in str(runs(sql)) + caplog.text + str(sql("SELECT * FROM memory_events"))
    assert await facts(memory) == []


async def test_one_bad_episode_is_given_up_alone(memory, clock, script, sql):
    """Everything that shows it fails; the others are learned all the same."""
    told = await tell(memory, *(f"number {n}" for n in range(8)))
    bad = told[3]
    script.answers = [lambda prompt: "no JSON" if bad in prompt else noting(prompt)]
    for _ in range(30):
        await memory.run_consolidation()
        clock.advance(hours=1)
    assert {str(row["id"]): row["consolidation_status"] for row in episodes(sql)} == {
        id_: "dead_letter" if id_ == bad else "consolidated" for id_ in told
    }
    sizes = [len(shown(prompt)) for prompt in script.prompts if bad in shown(prompt)]
    assert sizes == [8, 4, 2, 1], "half as many each time, and alone in the end"
    assert len(await facts(memory)) == 7


@pytest.mark.parametrize("error", [ModelUnavailable("is away"), RuntimeError("canary")])
async def test_a_model_that_can_not_be_asked_costs_no_attempt(memory, script, sql, error):
    script.answers = [error]
    await tell(memory, "something")
    done = await memory.run_consolidation()
    assert len(done["errors"]) == 1 and "canary" not in str(done)
    (row,) = episodes(sql)
    assert (row["consolidation_attempts"], row["next_consolidation_retry_at"]) == (0, None)
    assert (runs(sql)[0]["status"], runs(sql)[0]["input_tokens"]) == ("failed", 0)
    script.answers = [noting]
    assert (await memory.run_consolidation())["episodes_consolidated"] == 1, "and the lease is free again"


async def test_an_unready_model_is_not_asked(memory, script, sql):
    script.llm.problem = "it is not installed"
    await tell(memory, "something")
    done = await memory.run_consolidation()
    assert "it is not installed" in done["warning"] and done["episodes_processed"] == 1
    assert (runs(sql), script.prompts) == ([], [])


async def test_a_cancelled_run_gives_its_lease_back(memory, script, sql, clock):
    await tell(memory, "something")
    started, forever = asyncio.Event(), asyncio.Event()

    async def hang(prompt, max_tokens):
        started.set()
        await forever.wait()

    script.llm.complete = hang
    task = asyncio.ensure_future(memory.run_consolidation())
    await started.wait()
    (run,) = runs(sql)
    assert (run["status"], run["lease_until"] - clock.now >= LEASE) == ("open", True)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = runs(sql)
    assert (run["status"], run["last_error"], run["lease_until"]) == ("failed", "CancelledError", None)


# -- leases ----------------------------------------------------------------------------------------------------


async def test_two_at_once_learn_each_episode_once(memory, opened, script, sql):
    for butler in ("a", "b", "c"):
        await tell(memory, *(f"{butler} {n}" for n in range(10)), butler=butler)
    other_script = Script()

    async def slowly(prompt, max_tokens):
        await asyncio.sleep(0.01)
        return Completion(noting(prompt))

    script.llm.complete = other_script.llm.complete = slowly
    async with opened(other_script.llm) as other:
        results = await asyncio.gather(*(each.run_consolidation() for each in (memory, other) * 3))
        results.append(await other.run_consolidation())
    assert sum(each["episodes_consolidated"] for each in results) == 30
    assert sum(each["facts_created"] for each in results) == 30
    created = Counter(row["content"] for row in sql("SELECT content FROM facts"))
    assert len(created) == 30 and set(created.values()) == {1}
    done = sql("SELECT entity_id FROM memory_events WHERE event_type = 'episode_consolidated'")
    assert len(done) == len({row["entity_id"] for row in done}) == 30
    assert all("somebody else is learning" in error for each in results for error in each["errors"])


async def test_a_lease_that_is_over_is_taken_over_and_its_run_may_do_no_more(memory, opened, script, sql, clock):
    """A process that was away for longer than its lease comes back with its answer."""
    await tell(memory, "something")

    async def away(prompt, max_tokens):
        async with opened(ScriptedLlm(noting)) as other:
            assert (await other.run_consolidation())["episodes_consolidated"] == 0, "the lease holds"
            clock.advance(hours=2)
            assert (await other.run_consolidation())["facts_created"] == 1
        return Completion(said(new_facts=[fact("late", "late")]))

    script.llm.complete = away
    done = await memory.run_consolidation()
    assert len(done["errors"]) == 1 and done["facts_created"] == 0
    assert len(await facts(memory)) == 1
    late, other = runs(sql)
    assert (late["status"], late["last_error"], other["status"]) == ("failed", "abandoned", "done")


async def test_a_prompt_that_was_handed_out_keeps_its_episodes_until_its_lease_is_over(memory, clock, script, sql):
    told = await tell(memory, "one", "two")
    await tell(memory, "of another agent", butler="c")
    given = await memory.learn_prompt(butler="b")
    assert shown(given.prompt) == told and given.episodes == 2
    assert given.expires_at == clock.now + LEASE
    assert (await memory.learn_prompt(butler="b")).lease is None, "nothing else is to be learned"
    done = await memory.run_consolidation()
    assert (done["episodes_consolidated"], len(script.prompts), len(done["errors"])) == (1, 1, 1)
    clock.advance(hours=1)
    assert (await memory.run_consolidation())["episodes_consolidated"] == 2
    with pytest.raises(InvalidInput, match="lease"):
        await memory.learn_apply(NOTHING, given.lease)
    assert [run["last_error"] for run in runs(sql) if run["id"] == given.lease] == ["abandoned"]


async def test_an_answer_is_taken_once_under_its_lease(memory, sql, script):
    told = await tell(memory, "one", "two")
    given = await memory.learn_prompt()
    for garbage in ("", "no JSON at all", '{"new_facts": [', "[1, 2]", None, b"{}", {}):
        with pytest.raises(InvalidInput, match="answer"):
            await memory.learn_apply(garbage, given.lease)
    assert {row["consolidation_attempts"] for row in episodes(sql)} == {0}
    learned = await memory.learn_apply(noting(given.prompt), str(given.lease))
    assert (learned.run_id, learned.facts_created, learned.episodes_consolidated) == (given.lease, 2, 2)
    (run,) = runs(sql)
    assert (run["status"], run["model"], run["input_tokens"], run["lease_until"]) == ("done", "host", 0, None)
    assert set(run["shown"]["episodes"]) == set(told) and script.prompts == []
    with pytest.raises(InvalidInput, match="lease"):
        await memory.learn_apply(noting(given.prompt), given.lease)
    assert len(await facts(memory)) == 2


async def test_the_same_answer_twice_at_once_is_taken_once(memory, opened, sql):
    await tell(memory, *(f"n{n}" for n in range(5)))
    given = await memory.learn_prompt()
    async with opened() as other:
        calls = (each.learn_apply(noting(given.prompt), given.lease) for each in (memory, other, memory))
        taken = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(each).__name__ for each in taken) == ["InvalidInput", "InvalidInput", "Learned"]
    assert len(await facts(memory)) == 5
    assert len(sql("SELECT id FROM memory_events WHERE event_type = 'episode_consolidated'")) == 5


async def test_an_answer_may_only_name_what_its_prompt_showed(memory):
    await tell(memory, "one")
    given = await memory.learn_prompt()
    (later,) = await tell(memory, "two")
    known = await memory.store_fact("user", "home", "Rome", scope="b")
    answer = said(
        new_facts=[fact("x", "x", evidence=[later]), fact("y", "y")],
        updated_facts=[{**fact("Oslo", "home"), "target_id": known.id}],
        confirmations=[known.id],
    )
    learned = await memory.learn_apply(answer, given.lease)
    assert (learned.facts_created, learned.facts_updated, len(learned.errors)) == (1, 0, 3)
    assert {each.content for each in await facts(memory)} == {"Rome", "y"}


@pytest.mark.parametrize("leave", ["forget", "delete"])
async def test_an_answer_about_a_forgotten_episode_is_refused_and_a_new_prompt_works(memory, leave):
    secret, plain = await tell(memory, "the code is 4711", "it rains")
    given = await memory.learn_prompt()
    await getattr(memory, leave)("episode", secret)
    with pytest.raises(KeyError, match="forgotten, deleted"):
        await memory.learn_apply(said(new_facts=[fact("4711", "code")]), given.lease)
    assert await facts(memory) == []
    again = await memory.learn_prompt()
    assert shown(again.prompt) == [plain] and "4711" not in again.prompt
    assert (await memory.learn_apply(noting(again.prompt), again.lease)).facts_created == 1


async def test_a_lease_serves_only_those_who_reach_its_episodes(memory, script, clock):
    anna, bob = memory.bind(user_id="anna"), memory.bind(user_id="bob")
    home = memory.bind(user_id="anna", household_id="home")
    await tell(home, "at home")
    given = await anna.learn_prompt()
    assert given.lease is not None
    answer = noting(given.prompt)
    strangers = [bob, memory.bind(caller=Caller("other")), memory.bind(scope="c"), anna.bind(household_id="club")]
    for stranger in strangers:
        for lease in (given.lease, None):
            with pytest.raises(InvalidInput, match="lease"):
                await stranger.learn_apply(answer, lease)
    for unknown in (UUID(int=7), "nonsense"):
        with pytest.raises(InvalidInput, match="lease"):
            await memory.learn_apply(answer, unknown)
    assert (await anna.learn_apply(answer, given.lease)).facts_created == 1
    (learned,) = await facts(memory)
    assert (learned.user_id, learned.household_id) == ("anna", "home")


async def test_a_lease_serves_the_project_of_its_episodes(memory):
    mine, theirs = memory.bind(project="mine"), memory.bind(project="theirs")
    await tell(mine, "ours")
    given = await mine.learn_prompt()
    with pytest.raises(InvalidInput, match="lease"):
        await theirs.learn_apply(noting(given.prompt), given.lease)
    await mine.learn_apply(noting(given.prompt), given.lease)
    assert [each.project for each in await facts(memory)] == ["mine"]


async def test_a_lease_can_not_be_used_for_the_run_of_a_configured_model(memory, script):
    await tell(memory, "something")
    refused = []

    async def think(prompt, max_tokens):
        for lease in (None, UUID(int=100_000 + len(shown(prompt)) + 1)):
            with pytest.raises(InvalidInput) as error:
                await memory.learn_apply(noting(prompt), lease)
            refused.append(error.value.field)
        return Completion(noting(prompt))

    script.llm.complete = think
    assert (await memory.run_consolidation())["facts_created"] == 1
    assert refused == ["lease", "lease"]


async def test_without_a_lease_the_newest_open_one_is_meant(memory, clock):
    await tell(memory, "of a", butler="a")
    first = await memory.learn_prompt(butler="a")
    clock.advance(minutes=1)
    await tell(memory, "of b", butler="b")
    second = await memory.learn_prompt(butler="b")
    assert (await memory.learn_apply(noting(second.prompt))).run_id == second.lease
    assert (await memory.learn_apply(noting(first.prompt))).run_id == first.lease
    with pytest.raises(InvalidInput, match="lease"):
        await memory.learn_apply(NOTHING)


async def test_an_expired_lease_is_refused_even_if_nobody_took_over(memory, clock):
    await tell(memory, "something")
    given = await memory.learn_prompt()
    clock.now = given.expires_at
    with pytest.raises(InvalidInput, match="lease"):
        await memory.learn_apply(noting(given.prompt), given.lease)
    clock.advance(seconds=-1)
    assert (await memory.learn_apply(noting(given.prompt), given.lease)).facts_created == 1


async def test_a_conversation_has_a_lease_of_its_own(memory, sql):
    given = await memory.learn_prompt("User: I live in Rome.\nAssistant: Noted.")
    other = await memory.learn_prompt("User: I have a dog.")
    assert "I live in Rome." in given.prompt and given.episodes == 0
    found = {"content": "Lives in Rome", "category": "context", "confidence": 0.9}
    learned = await memory.learn_apply(said(facts=[found]), given.lease)
    assert learned.facts_created == 1 and learned.run_id == given.lease
    assert [each.content for each in await facts(memory)] == ["Lives in Rome"]
    assert {run["id"]: run["status"] for run in runs(sql)} == {given.lease: "done", other.lease: "open"}


async def test_prompts_go_past_silent_episodes(memory, sql, clock):
    await tell(memory, *[ECHO] * (2 * LEARNING.episodes_at_a_time))
    clock.advance(seconds=1)
    (told,) = await tell(memory, "in Rome")
    given = await memory.learn_prompt()
    assert shown(given.prompt) == [told]
    assert Counter(row["consolidation_status"] for row in episodes(sql)) == {"consolidated": 16, "pending": 1}
    await memory.learn_apply(NOTHING, given.lease)
    await tell(memory, ECHO)
    assert (await memory.learn_prompt()).lease is None
    assert {row["consolidation_status"] for row in episodes(sql)} == {"consolidated"}
    assert {run["status"] for run in runs(sql)} == {"done"}


# -- spending --------------------------------------------------------------------------------------------------


def spending(**limits):
    return MemoryModuleConfig(learning=LEARNING, llm=LlmConfig(retries=0, max_output_tokens=1000, **limits))


async def test_what_a_question_cost_replaces_what_it_might_have_cost(memory, script, sql):
    await tell(memory, "something")
    during = []

    def think(prompt):
        during.extend(runs(sql))
        return Completion(NOTHING, False, 120, 30)

    script.answers = [think]
    await memory.run_consolidation()
    assert during[0]["input_tokens"] > 1000, "the longest answer is counted before the question is asked"
    (run,) = runs(sql)
    assert (run["input_tokens"], run["output_tokens"]) == (120, 30)
    assert (await memory.overview()).learning["tokens_today"] == 150


@pytest.mark.parametrize("answer", [Completion(" ", False, 500, 20), Completion("{", True, 500, 20)])
async def test_useless_answers_are_paid_for(memory, script, sql, answer):
    script.answers = [answer]
    await tell(memory, "something")
    await memory.run_consolidation()
    (run,) = runs(sql)
    assert (run["status"], run["input_tokens"], run["output_tokens"]) == ("failed", 500, 20)


@pytest.mark.parametrize("limit", ["tokens_per_run", "tokens_per_day"])
async def test_with_a_limit_of_0_nothing_is_sent(opened, url, limit):
    llm = ScriptedLlm(noting)
    async with opened(llm, spending(**{limit: 0})) as memory:
        await tell(memory, "something")
        done = await memory.run_consolidation()
        assert llm.prompts == [] and f"llm.{limit}" in done["errors"][0]
        with pytest.raises(SpendLimitReached, match=f"llm.{limit}"):
            await memory.learn("User: I live in Rome.")
    assert llm.prompts == []
    (row,) = run_sql(url, "SELECT consolidation_attempts, consolidation_status FROM episodes")
    assert (row["consolidation_attempts"], row["consolidation_status"]) == (0, "pending")
    assert {run["input_tokens"] + run["output_tokens"] for run in run_sql(url, "SELECT * FROM learning_runs")} == {0}


async def test_a_run_ends_where_its_limit_is_and_the_next_goes_on(opened, url):
    llm = ScriptedLlm(lambda prompt: Completion(noting(prompt), False, 3000, 1000), forever=True)
    async with opened(llm, spending(tokens_per_run=9000)) as memory:
        await tell(memory, *(f"n{n}" for n in range(LEARNING.episodes_at_a_time * 3)))
        first = await memory.run_consolidation()
        assert (len(llm.prompts), first["episodes_consolidated"]) == (2, 16), "what was paid for is kept"
        assert "llm.tokens_per_run" in first["errors"][0]
        second = await memory.run_consolidation()
        assert (second["episodes_consolidated"], second["errors"]) == (8, [])


async def test_the_day_changes_at_midnight_utc(opened, clock):
    llm = ScriptedLlm(lambda prompt: Completion(noting(prompt), False, 4000, 1000), forever=True)
    clock.now = clock.now.replace(hour=22, minute=0)
    async with opened(llm, spending(tokens_per_day=6000)) as memory:
        other = memory.bind(caller=Caller("other"))
        for _ in range(2):
            await tell(memory, "something")
            done = await memory.run_consolidation()
        assert "llm.tokens_per_day" in done["errors"][0] and len(llm.prompts) == 1
        await tell(other, "something")
        assert (await other.run_consolidation())["episodes_consolidated"] == 1, "each tenant has its own"
        clock.now = clock.now.replace(hour=23, minute=59)
        assert (await memory.run_consolidation())["episodes_consolidated"] == 0
        clock.advance(minutes=1)
        assert (await memory.run_consolidation())["episodes_consolidated"] == 1


async def test_what_a_run_spends_after_midnight_counts_for_the_new_day(opened, clock):
    def over_midnight(prompt):
        clock.advance(hours=1)
        return Completion(noting(prompt), False, 4000, 1000)

    llm = ScriptedLlm(over_midnight, forever=True)
    clock.now = clock.now.replace(hour=23, minute=30)
    async with opened(llm, spending(tokens_per_day=6000)) as memory:
        await tell(memory, "something")
        assert (await memory.run_consolidation())["episodes_consolidated"] == 1
        await tell(memory, "something else")
        done = await memory.run_consolidation()
        assert len(llm.prompts) == 1 and "llm.tokens_per_day" in done["errors"][0]


async def test_two_at_once_can_not_exceed_the_limit_together(opened, url):
    most = 6000
    seen = []

    async def think(prompt, max_tokens):
        spent = run_sql(url, "SELECT SUM(input_tokens + output_tokens) AS n FROM learning_runs")[0]["n"]
        seen.append(spent)
        await asyncio.sleep(0.02)
        return Completion(noting(prompt), False, 1400, 400)

    llm = ScriptedLlm(NOTHING)
    llm.complete = think
    async with (
        opened(llm, spending(tokens_per_day=most)) as memory,
        opened(llm, spending(tokens_per_day=most)) as other,
    ):
        for number in range(6):
            await tell(memory, "something", butler=f"b{number}")
        calls = (each.run_consolidation(butler=f"b{n}") for n, each in enumerate((memory, other) * 3))
        results = await asyncio.gather(*calls)
    assert max(seen) <= most
    refused = [each for each in results if each["errors"]]
    assert refused and all("llm.tokens_per_day" in each["errors"][0] for each in refused)
    assert len(seen) + len(refused) == 6
    total = run_sql(url, "SELECT SUM(input_tokens + output_tokens) AS n FROM learning_runs")[0]["n"]
    assert total == len(seen) * 1800 <= most
