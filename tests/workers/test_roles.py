"""Under row-level security: which database users may do the jobs, and which may not even read them."""

from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tulving import StoreUnavailable, open_memory
from tulving.bootstrap import migrate_store, open_scheduler
from tulving.settings import MemoryModuleConfig


@pytest.fixture
async def secured(postgres, postgres_template):
    """A database with row-level security, and its URLs as the service and as maintenance."""
    url = await postgres.create_database(template=postgres_template)
    name = urlsplit(url).path.lstrip("/")
    roles = (f"service_{name}", f"maintenance_{name}")
    await migrate_store(url, MemoryModuleConfig(embedder="hashing"), roles=roles)
    raw = await asyncpg.connect(url)
    logins = {}
    for role in roles:
        await raw.execute(f'CREATE ROLE "{role}_login" LOGIN PASSWORD \'x\' IN ROLE "{role}"')
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        logins[role] = urlunsplit(parts._replace(netloc=f"{role}_login:x@{host}"))
    yield raw, *logins.values()
    for role in roles:
        await raw.execute(f'DROP OWNED BY "{role}_login", "{role}"; DROP ROLE "{role}_login"; DROP ROLE "{role}"')
    await raw.close()
    await postgres.drop_database(url)


def config(url):
    return MemoryModuleConfig(url=url, embedder="hashing")


async def test_maintenance_works_without_further_rights(secured):
    raw, _, maintenance = secured
    async with open_scheduler(config(maintenance)) as scheduler:
        await scheduler.look()
        run, _ = await scheduler.once("decay_sweep")
        assert run.error is None
    assert await raw.fetchval("SELECT last_error FROM jobs WHERE name = 'decay_sweep'") is None


async def test_the_service_of_one_tenant_may_not_and_is_not_disturbed(secured):
    raw, service, _ = secured
    async with open_scheduler(config(service)) as scheduler:
        for attempt in (scheduler.run(), scheduler.once("decay_sweep")):
            with pytest.raises(StoreUnavailable, match="maintenance role"):
                await attempt
    async with open_memory(config=config(service)) as memory:
        await memory.store_fact("user", "likes", "tea")
    assert await raw.fetchval("SELECT count(*) FROM jobs") == 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        other = await asyncpg.connect(service)
        try:
            await other.fetch("SELECT name FROM jobs")
        finally:
            await other.close()


async def test_a_user_who_may_write_the_schedule_but_sees_one_tenant_only_is_refused(secured):
    """Otherwise a sweep that has passed over the other tenants would be recorded as done."""
    raw, service, _ = secured
    role = urlsplit(service).username
    await raw.execute(f'GRANT ALL ON jobs TO "{role}"')
    async with open_scheduler(config(service)) as scheduler:
        with pytest.raises(StoreUnavailable, match="maintenance role"):
            await scheduler.once("decay_sweep")


async def test_the_service_is_healthy_and_sees_no_jobs(secured):
    _, service, maintenance = secured
    for url, jobs in ((maintenance, []), (service, None)):
        async with open_memory(config=config(url), background=False) as memory:
            health = await memory.health()
        assert health.ok, health
        assert health.jobs == jobs
