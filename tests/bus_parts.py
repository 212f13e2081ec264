"""What tests of the bus and the bridge have in common."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from raw_sql import run_sql

from tulving import Memory, open_memory
from tulving.domain.messages import Cursor, Message
from tulving.services import streams
from tulving.services.streams import Streams
from tulving.storage import event_stream
from tulving.testing import ManualClock, WordEmbedder

START = "0.0"


async def settled(memory: Memory) -> None:
    """On PostgreSQL, until no other transaction of the server holds back what has been committed here."""

    def waits(conn: Any) -> bool:
        last = conn.fetch_one(
            f"SELECT {conn.event_order.transaction} AS transaction_id, seq FROM memory_events ORDER BY 1 DESC LIMIT 1"
        )
        return last is not None and last["transaction_id"] > event_stream.end(conn, "").transaction_id

    async with asyncio.timeout(20):
        while await memory._read(waits):
            await asyncio.sleep(0.01)


async def heard(memory: Memory, topics: Any = None, after: str = START) -> list[Message]:
    """All messages after a cursor that there are by now."""
    await settled(memory)
    closed = Streams(memory._env.store)
    await closed.close()  # so that a stream ends where it would wait
    reader = Memory(replace(memory._env, streams=closed), memory.caller, memory.bound)
    async with aclosing(reader.messages(topics, after=after)) as found:
        return [message async for message in found]


async def end(memory: Memory) -> str:
    await settled(memory)
    place: Cursor = await memory._read(event_stream.end, memory.caller.tenant_id)
    return str(place)


async def until(condition: Any, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def without_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams look when they are woken, and at no other time."""
    for name in ("POLL", "SLOW_POLL", "SOON"):
        monkeypatch.setattr(streams, name, 600)


def opened(url: Any, **options: Any) -> Any:
    return open_memory(
        url,
        **{
            "embedder": WordEmbedder(options.pop("dimension", 64)),
            "clock": ManualClock(),
            "background": False,
            **options,
        },
    )


def listeners(url: str) -> list[Any]:
    """The connections to a PostgreSQL database that wait for announcements."""
    return run_sql(
        url,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"
        " AND state = 'idle'",
    )
