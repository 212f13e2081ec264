"""PostgreSQL's transactions commit in another order than they number their events: a stream tells each one in its turn,
to those who listen and to those who come back."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import httpx2
import pytest
from bus_parts import START, settled, until
from postgres_stores import Stores
from service_parts import Listener, listening, service

from tulving import Memory
from tulving.services import streams

SLOW = (
    "INSERT INTO memory_events (tenant_id, event_type, entity_type, payload)"
    """ VALUES ('default', 'merge_rule_updated', 'merge_rule', '{"name": "slow"}')"""
)


@pytest.fixture
def url(postgres_stores: Stores) -> Iterator[str]:
    url = postgres_stores.take()
    yield url
    postgres_stores.give_back(url)


@asynccontextmanager
async def running(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A transaction of another program, committed at the end."""
    slow = await asyncpg.connect(url)
    try:
        async with slow.transaction():
            yield slow
    finally:
        await slow.close()


async def quick(memory: Memory, name: str) -> None:
    await memory.register_merge_rule({"name": name})


async def cursor(client: httpx2.AsyncClient, after: str | None = None) -> str:
    """Where a stream begins that is told nothing yet."""
    async with listening(client, last=after) as stream:
        waiting = asyncio.create_task(stream.next())
        await until(lambda: stream.last)
        await asyncio.sleep(0.2)
        assert not waiting.done(), waiting
        waiting.cancel()
        return stream.last


async def names(stream: Listener, count: int) -> list[str]:
    return [(await stream.next(60)).data["payload"]["name"] for _ in range(count)]


@pytest.mark.parametrize("is_numbered_first", [True, False])
async def test_what_is_committed_late_is_neither_skipped_nor_forgotten(environ, url, monkeypatch, is_numbered_first):
    """Whoever only remembered the last number would have passed the slow one when it appears. Nothing announces the end
    of that one, but what it held back is told soon."""
    monkeypatch.setattr(streams, "SLOW_POLL", 600)
    async with service() as here, here.client(await here.create(rights=["read", "review"])) as client:
        memory = await here.memory()
        await quick(memory, "first")
        await settled(memory)
        async with listening(client, after=START) as stream:
            assert await names(stream, 1) == ["first"]
            waiting = asyncio.create_task(names(stream, 2))
            async with running(url) as slow:
                await slow.execute(SLOW if is_numbered_first else "SELECT pg_current_xact_id()")
                await quick(memory, "second")
                resumed, fresh = await cursor(client, stream.last), await cursor(client)
                assert not waiting.done()
                if not is_numbered_first:
                    await slow.execute(SLOW)
            assert await waiting == ["slow", "second"]
        for begin in (resumed, fresh):
            async with listening(client, last=begin) as stream:
                assert await names(stream, 2) == ["slow", "second"]
