"""Messages as server-sent events: nothing is lost, whatever breaks; nobody hears what they may not."""

import asyncio
import random
import socket
import time
from typing import Any

import httpx2
import pytest
from administration import administer
from bus_parts import START, heard, settled, until
from http_parts import Served
from service_parts import Heard, client_of, listening, service, service_process

from tulving import Caller, Memory, open_memory
from tulving.domain.messages import PRUNED, SAVED, TOPICS
from tulving.interfaces.http import events
from tulving.interfaces.wire import LONGEST_CONTENT

QUICK = {"stream_check": 0.1}
ENDINGS = (asyncio.CancelledError, StopAsyncIteration, TimeoutError, httpx2.TransportError)
"""How a stream ends for a client whose server is killed."""


def ids(found: list[Heard]) -> list[Any]:
    return [each.data["payload"].get("id") for each in found]


async def store(memory: Memory, count: int, word: str = "number") -> list[str]:
    return [str((await memory.store_episode(f"{word} {each}", butler="b")).id) for each in range(count)]


async def problem(client: httpx2.AsyncClient, **sent: Any) -> tuple[int, dict[str, Any]]:
    answer = await client.get("/v1/events", **sent)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()


async def test_messages_come_as_they_happen_and_are_those_of_the_bus(environ):
    async with service() as here, here.client(await here.create()) as client:
        memory = await here.memory()
        before = str((await memory.store_episode("before", butler="b")).id)
        await settled(memory)
        async with listening(client) as stream:
            made = await store(memory, 3)
            await memory.delete("episode", made[0])
            found = [await stream.next() for _ in range(4)]
        assert stream.retry > 0
        assert ids(found) == [*made, None]
        told = await heard(memory)
        assert before in {each.payload.get("id") for each in told}
        assert [each.data for each in found[1:3]] == [each.to_dict() for each in told][2:4]
        assert [(each.event, each.id) for each in found] == [(each.topic, each.cursor) for each in told][1:]
        assert found[3].event == PRUNED and found[3].data["payload"]["ids"] == made[:1]


async def test_a_stream_goes_on_after_any_cursor_and_before_its_first_message(environ):
    async with service() as here, here.client(await here.create()) as client:
        memory = await here.memory()
        async with listening(client) as stream:
            waiting = asyncio.create_task(stream.next())
            await until(lambda: stream.last)
            waiting.cancel()
        begin = stream.last
        made = await store(memory, 4)
        async with listening(client, last=begin) as stream:
            first = await stream.next()
            assert ids([first]) == made[:1]
        async with listening(client, after=begin, last=first.id) as stream:
            assert ids([await stream.next() for _ in range(3)]) == made[1:], "the header is newer than the address"
        async with listening(client, after=START) as stream:
            assert ids([await stream.next() for _ in range(4)]) == made


async def test_only_the_topics_that_were_asked_for(environ):
    async with service() as here, here.client(await here.create(rights=["read", "review"])) as client:
        memory = await here.memory()
        await memory.store_note("a note")
        [episode] = await store(memory, 1)
        await memory.register_merge_rule({"name": "careful"})
        for asked in ("rule,memory:episodic", ["rule", "memory:episodic"]):
            async with listening(client, after=START, topics=asked) as stream:
                found = [await stream.next() for _ in range(2)]
                assert [each.event for each in found] == [SAVED, "rule:registered"]
                assert ids(found)[0] == episode


async def test_who_may_not_list_merge_rules_is_told_nothing_of_them(environ):
    async with service() as here, here.client(await here.create()) as client:
        memory = await here.memory()
        await memory.register_merge_rule({"name": "careful"})
        await store(memory, 1)
        for asked in ({}, {"topics": "rule,memory"}):
            async with listening(client, after=START, **asked) as stream:
                assert (await stream.next()).event == SAVED
        status, said = await problem(client, params={"topics": "rule"})
        assert status == 403 and "review" in said["detail"]


async def test_nothing_that_happens_after_a_token_was_revoked_is_sent(environ, monkeypatch):
    """However seldom the token of an idle stream is checked."""
    monkeypatch.setattr(events, "TRUSTED", 0.0)
    async with service({"stream_check": 300}) as here:
        secret = await here.create()
        async with here.client(secret) as client, listening(client, after=START) as stream:
            memory = await here.memory()
            await store(memory, 1)
            assert (await stream.next()).event == SAVED
            [token] = await administer(memory).list_tokens()
            await administer(memory).revoke_token(str(token.id))
            await store(memory, 1, "a secret")
            with pytest.raises(ENDINGS):
                await stream.next()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    "query",
    [{"after": "7"}, {"after": "x.y"}, {"topics": "dreams"}, {"topics": ",rule"}, {"offset": "1"}],
)
async def test_what_cant_be_understood_is_a_problem_with_its_field(environ, query):
    async with service() as here, here.client(await here.create()) as client:
        status, said = await problem(client, params=query)
        assert (status, said["field"]) == (422, next(iter(query)))
        assert said["allowed"]
        status, said = await problem(client, headers={"last-event-id": "never seen"})
        assert (status, said["field"]) == (422, "Last-Event-ID")
        status, said = await problem(client, params=[("after", START), ("after", START)])
        assert (status, said["problem"]) == (422, "is given twice")
        assert TOPICS[0] in (await problem(client, params={"topics": "dreams"}))[1]["allowed"]


async def test_a_cursor_of_another_store_is_told_apart(environ, engine):
    """Of a store on the other engine, and of one that has come further."""
    async with service() as here, here.client(await here.create()) as client:
        await store(await here.memory(), 3)
        for foreign in (f"{2**60}.1", "0.9000"):
            status, said = await problem(client, params={"after": foreign})
            assert (status, said["field"]) == (422, "after")
            assert "restored" in said["problem"] and "no cursor" in said["allowed"]


@pytest.mark.usefixtures("path")
async def test_who_asks_for_the_head_alone_gets_that(environ):
    async with service() as here, here.client(await here.create()) as client:
        answer = await client.head("/v1/events")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert answer.headers["cache-control"] == "no-store"


# -- who may ---------------------------------------------------------------------------------------------------


async def test_nobody_hears_of_another_tenant(environ):
    async with service(QUICK) as here:
        mine, theirs = await here.create("anna"), await here.create("bert")
        memory = await here.memory()
        anna, bert = (memory.bind(caller=Caller(name)) for name in ("anna", "bert"))
        async with here.client(mine) as client, listening(client, after=START) as stream:
            for round_ in range(3):
                await store(bert, 3, "bert's")
                made = await store(anna, 2)
                assert ids([await stream.next() for _ in range(2)]) == made, round_
            with pytest.raises(TimeoutError):
                await stream.next(0.3)
        async with here.client(theirs) as client, listening(client, after=START) as stream:
            assert len(set(ids([await stream.next() for _ in range(9)]))) == 9


async def test_a_bound_service_tells_of_its_part_only(environ, monkeypatch):
    monkeypatch.setenv("TULVING_USER_ID", "ann")
    async with service(QUICK) as here, here.client(await here.create()) as client:
        ann = await here.memory()
        bob = Memory(ann._env, ann.caller).bind(user_id="bob")
        async with listening(client, after=START) as stream:
            [theirs] = await store(bob, 1, "the secret of bob")
            await bob.delete("episode", theirs)
            mine = await store(ann, 2)
            assert ids([await stream.next() for _ in range(2)]) == mine
            with pytest.raises(TimeoutError):
                await stream.next(0.3)


async def test_it_needs_a_token_with_the_right_to_read(environ):
    async with service() as here:
        async with here.client() as client:
            assert (await problem(client))[0] == 401
        async with here.client(await here.create(rights=["write"])) as client:
            status, said = await problem(client)
            assert status == 403 and "read" in said["detail"]


async def test_an_open_service_tells_everybody(environ):
    async with service(closed=False) as here, here.client() as client, listening(client, after=START) as stream:
        made = await store(await here.memory(), 1)
        assert ids([await stream.next()]) == made


@pytest.mark.parametrize("busy", [False, True])
async def test_a_revoked_token_hears_nothing_more(environ, busy):
    async with service(QUICK) as here:
        secret, memory = await here.create(), await here.memory()
        async with here.client(secret) as client, listening(client) as stream:
            await store(memory, 1)
            await stream.next()
            await here.revoke(secret)
            writing = asyncio.create_task(store(memory, 10_000)) if busy else None
            try:
                await stream.end(10)
            finally:
                if writing:
                    writing.cancel()
                    await asyncio.wait([writing])
            assert (await problem(client))[0] == 401


@pytest.mark.usefixtures("path")
async def test_a_token_and_the_server_have_so_many_streams(environ):
    async with service({"max_streams": 3, "max_streams_per_token": 2}) as here:
        one, other = await here.create(name="one"), await here.create(name="other")
        async with here.client(one) as mine, here.client(other) as theirs:
            async with listening(mine), listening(theirs):
                async with listening(mine):
                    status, said = await problem(mine)
                    assert status == 429 and "2 streams" in said["detail"]
                    assert "all 3" in (await problem(theirs))[1]["detail"]
                    assert (await theirs.get("/v1/events")).headers["retry-after"]
                await until(lambda: here.access.streams._of.total() == 2)
                async with listening(theirs):
                    pass
            await until(lambda: not here.access.streams._of)


# -- time ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("path")
async def test_signs_of_life_come_while_nothing_happens(environ):
    async with service(QUICK) as here, here.client(await here.create()) as client:
        begun = time.monotonic()
        async with listening(client) as stream:
            waiting = asyncio.create_task(stream.next(60))
            await until(lambda: stream.comments >= 3)
            assert time.monotonic() - begun >= 3 * QUICK["stream_check"]
            assert not waiting.done()
            waiting.cancel()


async def test_the_server_ends_its_streams_when_it_ends(environ):
    async with service() as here, here.client(await here.create()) as client, listening(client) as stream:
        here.server.should_exit = True
        assert await stream.end() == []


@pytest.mark.usefixtures("path")
async def test_a_reader_who_takes_nothing_is_not_waited_for(environ):
    """What waits for them is bounded: the rest stays where it is, in the store."""
    async with service({"request_timeout": 0.5}) as here:
        secret, memory = await here.create(), await here.memory()
        await memory.store_episodes([{"content": f"{n} " + "x" * 3_900, "butler": "b"} for n in range(2_000)])
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", here.port))
            slow.sendall(
                f"GET /v1/events?after={START} HTTP/1.1\r\nhost: 127.0.0.1:{here.port}\r\n"
                f"authorization: Bearer {secret}\r\n\r\n".encode()
            )
            await until(lambda: here.access.streams._of.total() == 1)
            await until(lambda: not here.access.streams._of and not here.connections)
        assert memory._env.streams._open == set()


async def test_a_client_that_vanishes_leaves_nothing_behind(environ):
    async with service() as here:
        secret, memory = await here.create(), await here.memory()
        tasks, subscribers = len(asyncio.all_tasks()), len(memory._env.subscribers._publishers)
        for _ in range(8):
            async with here.client(secret) as client, listening(client, after=START):
                pass
        await until(lambda: not here.access.streams._of and not here.connections)
        assert memory._env.streams._open == set() and len(memory._env.subscribers._publishers) == subscribers
        await until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_a_long_content_is_cut(environ):
    async with service() as here, here.client(await here.create()) as client:
        long = "long\n" * 10_000
        await (await here.memory()).store_episode(long, butler="b")
        async with listening(client, after=START) as stream:
            payload = (await stream.next()).data["payload"]
        assert len(payload["content"]) == LONGEST_CONTENT and payload["contentLength"] == len(long.strip())


# -- several processes -----------------------------------------------------------------------------------------


async def test_what_one_process_does_is_heard_at_another(environ, token):
    secret = token()["secret"]
    with service_process() as other:
        async with (
            service() as here,
            here.client(secret) as reader,
            client_of(other, secret) as writer,
            listening(reader) as stream,
        ):
            for number in range(3):
                sent = {"content": f"number {number}", "butler": "b"}
                made = (await writer.post("/v1/episodes", json=sent)).json()
                assert (await stream.next()).data["payload"]["id"] == made["id"]


async def test_nothing_is_lost_or_moved_when_connections_and_servers_die(environ, token):
    """A client that goes on after the last id has in the end what the audit trail has, in its order."""
    secret, chance, count = token()["secret"], random.Random(17), 80
    found: list[str] = []
    last = START

    async def listen(served: Served, most: int) -> None:
        nonlocal last
        async with client_of(served, secret) as client, listening(client, last=last) as stream:
            for _ in range(most):
                event = await stream.next(5)
                found.append(event.data["cursor"])
                last = event.id

    async with open_memory(background=False) as memory:

        async def write() -> None:
            for number in range(count):
                await memory.store_episode(f"number {number}", butler="b")
                await asyncio.sleep(chance.random() / 100)

        writing = asyncio.create_task(write())
        while not (writing.done() and len(found) >= count):
            with service_process() as served:
                for cut_off in (*[True] * chance.randint(0, 2), False):
                    listener = asyncio.create_task(listen(served, chance.randint(1, 60)))
                    await asyncio.wait([listener], timeout=chance.random())
                    listener.cancel() if cut_off else served.process.kill()
                    [ended] = await asyncio.gather(listener, return_exceptions=True)
                    assert ended is None or isinstance(ended, ENDINGS), ended
        await writing
        assert found == [each.cursor for each in await heard(memory)]
