"""PostgreSQL's announcements: processes hear of each other's changes, whatever becomes of their connections."""

import asyncio
from pathlib import Path

import asyncpg
import pytest
from bus_parts import listeners, opened, until, without_clock
from fault_parts import Children
from raw_sql import run_sql

from tulving import MemoryModuleConfig, PostgresConfig
from tulving.domain.messages import Message

SAVED = "memory:episodic:saved"


async def test_a_lost_listener_comes_back(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tulving.storage.postgres.announcements.RECONNECT", 0.01)
    without_clock(monkeypatch)
    async with opened(postgres_url, dimension=512) as reader, opened(postgres_url, dimension=512) as writer:
        told: list[Message] = []
        stop = await reader.on(SAVED, told.append)
        await until(lambda: listeners(postgres_url))
        (before,) = listeners(postgres_url)
        run_sql(postgres_url, "SELECT pg_terminate_backend(?)", before["pid"])
        await until(lambda: listeners(postgres_url) not in ([], [before]))
        await writer.store_episode("after the loss", butler="b")
        await until(lambda: told)
        stop()
        await until(lambda: not listeners(postgres_url))


@pytest.mark.parametrize("size", [1, 2])
async def test_a_small_pool_is_not_used_up_by_listening(postgres_url: str, size: int) -> None:
    """Neither one of our own nor one that a host lends us."""
    config = MemoryModuleConfig(postgres=PostgresConfig(pool_size=size))
    async with asyncio.timeout(20), asyncpg.create_pool(postgres_url, min_size=1, max_size=size) as pool:
        async with opened(postgres_url, dimension=512, config=config) as own, opened(pool, dimension=512) as lent:
            told: list[Message] = []
            for memory in (own, lent):
                await memory.on(SAVED, told.append)
            await asyncio.gather(*(own.store_episode(f"e{n}", butler="b") for n in range(5)))
            await lent.store_episode("of the host", butler="b")
            for memory in (own, lent):
                memory._env.streams._open.copy().pop().wake()  # with one connection they look by the clock
            await until(lambda: len(told) >= 6)
        assert pool.get_idle_size() == pool.get_size(), "the host has its connections back"


async def test_closing_makes_the_last_announcement(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tulving.storage.postgres.announcements.INTERVAL", 600)
    without_clock(monkeypatch)
    async with asyncio.timeout(30), opened(postgres_url, dimension=512) as reader:
        told: list[Message] = []
        await reader.on(SAVED, told.append)
        await until(lambda: listeners(postgres_url))
        async with opened(postgres_url, dimension=512) as writer:
            await writer.store_episode("one", butler="b")
            await until(lambda: told)
            await writer.store_episode("two", butler="b")
        await until(lambda: len(told) == 2)


async def test_another_process_is_heard(
    postgres_url: str, children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without looking by the clock."""
    without_clock(monkeypatch)
    async with asyncio.timeout(30), opened(postgres_url, dimension=512) as reader:
        told: list[Message] = []
        await reader.on(SAVED, told.append)
        await until(lambda: listeners(postgres_url))
        args = {"content": "from elsewhere", "butler": "b"}
        [id_] = await asyncio.to_thread(
            children.run, "call", tmp_path / "log", path=postgres_url, verb="store_episode", args=args
        )
        await until(lambda: told)
        assert [(each.payload["id"], each.payload["content"]) for each in told] == [(id_, "from elsewhere")]
