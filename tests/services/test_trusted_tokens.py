"""A token that was good is trusted for a moment: not longer, not once it is revoked here, and never a bad one."""

import asyncio
import threading
from typing import Any

import pytest
from administration import administer, authentication

from tulving import Memory
from tulving.bootstrap import new_secret
from tulving.services import tokens
from tulving.storage.sqlite.store import READERS
from tulving.testing import ManualClock


@pytest.fixture
async def secret(memory: Memory) -> str:
    made = new_secret()
    await administer(memory).create_token(made, name="mine", days=2)
    return made


@pytest.fixture
def lookups(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that the store is asked for a token."""
    asked: list[str] = []
    find = tokens.storage.tokens.find

    def counted(conn: Any, hash_: str, now: Any) -> Any:
        asked.append(hash_)
        return find(conn, hash_, now)

    monkeypatch.setattr(tokens.storage.tokens, "find", counted)
    return asked


async def revoke_elsewhere(memory: Memory) -> None:
    """As another process does it, of which this one is not told."""
    await memory._write(lambda conn: conn.execute("UPDATE access_tokens SET revoked_at = created_at"))


async def test_many_requests_at_once_are_one_lookup(memory, secret, lookups):
    here = authentication(memory)
    found = await asyncio.gather(*(here.authenticate(secret) for _ in range(50)))
    assert {token.name for token in found if token} == {"mine"} and None not in found
    assert len(lookups) == 1
    assert await here.authenticate(secret) and len(lookups) == 1


async def test_what_another_process_revokes_ends_within_the_time(memory, secret, monkeypatch):
    monkeypatch.setattr(tokens, "TRUSTED", 0.1)
    here = authentication(memory)
    assert await here.authenticate(secret)
    await revoke_elsewhere(memory)
    await asyncio.sleep(0.1)
    assert await here.authenticate(secret) is None
    assert await here.authenticate(secret) is None


async def test_what_is_revoked_here_ends_at_once(memory, secret):
    here = authentication(memory)
    token = await here.authenticate(secret)
    assert token
    await administer(memory).revoke_token(str(token.id))
    assert await here.authenticate(secret) is None


async def test_what_is_revoked_while_it_is_looked_up_is_not_remembered(memory, secret, monkeypatch):
    here, looked, go = authentication(memory), asyncio.Event(), asyncio.Event()
    [token] = await administer(memory).list_tokens()
    look_up = memory._env.store.look_up

    async def late(*asked: Any) -> Any:
        found = await look_up(*asked)
        looked.set()
        await go.wait()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(memory._env.store, "look_up", late)
        asked = asyncio.create_task(here.authenticate(secret))
        async with asyncio.timeout(10):
            await looked.wait()
    await administer(memory).revoke_token(str(token.id))
    go.set()
    await asked
    assert await here.authenticate(secret) is None


async def test_it_expires_by_the_clock(memory, clock: ManualClock, secret):
    here = authentication(memory)
    assert await here.authenticate(secret)
    clock.advance(days=2)
    assert await here.authenticate(secret) is None


async def test_a_bad_one_is_never_remembered_and_few_good_ones_are(memory, secret, lookups, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_TRUSTED", 2)
    here = authentication(memory)
    assert await here.authenticate("tulving_bad") is None
    assert await here.authenticate("tulving_bad") is None and len(lookups) == 2
    assert not here._good
    for _ in range(5):
        more = new_secret()
        await administer(memory).create_token(more)
        assert await here.authenticate(more)
    assert len(here._good) == 2 and not here._looking


async def test_a_caller_that_gives_up_does_not_disturb_the_others(memory, secret):
    here = authentication(memory)
    first, second = (asyncio.create_task(here.authenticate(secret)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second


@pytest.mark.usefixtures("path")
async def test_neither_tokens_nor_readiness_wait_behind_searches(memory, secret):
    free, store = threading.Event(), memory._env.store
    searches = [asyncio.create_task(store.read(None, lambda conn: free.wait(60))) for _ in range(2 * READERS)]
    try:
        await asyncio.sleep(0)
        assert await authentication(memory).authenticate(secret)
        assert (await memory.readiness()).state == "ready"
        assert not any(each.done() for each in searches)
    finally:
        free.set()
        await asyncio.gather(*searches)
