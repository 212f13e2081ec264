"""Who hears what on a stream of events: one user's messages, and only for as long as their token is valid."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx2
import pytest
from access_parts import Provider, provider, settings
from bus_parts import START
from service_parts import Service, listening, service

from tulving import Caller, Memory
from tulving.interfaces.http import events
from tulving.testing import ManualClock

LIFETIME = 300
"""Seconds for which a token of the identity provider is valid."""
SECRETS = "the secret of"


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider() as made:
        yield made


async def everybody_speaks(memory: Memory, mine: Memory) -> list[str]:
    """What others say and change, and between it what I do; the ids of mine."""
    here, elsewhere = mine.caller.tenant_id, "elsewhere"
    others = [(here, "bert"), (elsewhere, "anna"), (elsewhere, "bert"), (elsewhere, None)]
    ids = []
    for number in range(2):
        for tenant, user in others:
            other = memory.bind(caller=Caller(tenant), user_id=user)
            theirs = await other.store_episode(f"{SECRETS} {user} {number}", butler="b")
            fact = await other.store_fact("car", f"colour {number}", f"{SECRETS} {user}")
            await other.edit("fact", fact.id, content=f"{SECRETS} {user} in other words")
            await other.set_profile("work", f"{SECRETS} {user} {number}", user_id=user)
            await other.delete("episode", theirs.id)
        ids.append(str((await mine.store_episode(f"mine {number}", butler="b")).id))
    return ids


async def hears_only_mine(here: Service, client: httpx2.AsyncClient, mine: Memory) -> None:
    """Whether the stream is open while it happens, or goes through it afterwards."""
    async with listening(client) as live:
        ids = await everybody_speaks(await here.memory(), mine)
        last = str((await mine.store_episode("the last one", butler="b")).id)
        async with listening(client, after=START) as later:
            for stream in (live, later):
                found = [await stream.next() for _ in range(len(ids) + 1)]
                assert [each.data["payload"]["id"] for each in found] == [*ids, last]
                assert SECRETS not in repr(found)


async def test_the_header_of_a_user_narrows_a_stream_to_them(environ):
    async with service() as here, here.client(await here.create("home")) as client:
        client.headers["tulving-user"] = "anna"
        mine = (await here.memory()).bind(caller=Caller("home"), user_id="anna")
        await hears_only_mine(here, client, mine)


async def test_a_user_of_the_identity_provider_hears_their_own_messages_only(environ, issuer: Provider):
    async with (
        service(jwt=settings(issuer, tenant_claim="org")) as here,
        here.client(issuer.token(org="home")) as client,
    ):
        mine = (await here.memory()).bind(caller=Caller("home"), user_id="anna")
        await hears_only_mine(here, client, mine)
        widened = await client.get("/v1/events", headers={"tulving-user": "bert"})
        assert widened.status_code == 403


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("idle", [True, False])
async def test_a_stream_ends_when_its_token_expires(environ, issuer: Provider, monkeypatch, idle: bool):
    """An idle one at the next check, and one on which something happens before that is sent."""
    monkeypatch.setattr(events, "TRUSTED", 0.0)
    clock = ManualClock(datetime.now(UTC))
    given = settings(issuer, leeway=0)
    async with service({"stream_check": 0.05 if idle else 300}, clock=clock, jwt=given) as here:
        mine = (await here.memory()).bind(user_id="anna")
        async with here.client(issuer.token()) as client, listening(client, after=START) as stream:
            await mine.store_episode("before", butler="b")
            assert (await stream.next()).data["payload"]["content"] == "before"
            clock.advance(seconds=LIFETIME + 1)
            if not idle:
                await mine.store_episode("after", butler="b")
            assert await stream.end() == []
            assert (await client.get("/v1/events")).status_code == 401
