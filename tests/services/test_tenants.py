"""The tenants of a store, as an administrator sees them."""

import pytest
from administration import administer

from tulving import Caller, InvalidInput, Memory
from tulving.testing import ManualClock


def of(memory: Memory, tenant: str) -> Memory:
    return memory.bind(caller=Caller(tenant))


async def test_each_has_its_counts_tokens_and_last_change(memory: Memory, clock: ManualClock):
    assert list(await administer(memory).list_tenants()) == []
    anna, boss = of(memory, "anna"), administer(memory)
    await anna.store_fact("Anna", "drink", "tea")
    await anna.store_rule("Ask first")
    clock.advance(days=1)
    later = clock()
    await memory.store_episode("something happened")
    tokens = [await boss.create_token(tenant_id="ben", days=days) for days in (1, None, None)]
    await boss.revoke_token(str(tokens[1].id))
    clock.advance(days=2)
    await anna.store_rule("Ask twice")
    anna_, ben, default = await boss.list_tenants()
    assert (anna_.tenant_id, anna_.memories, anna_.tokens) == ("anna", {"episode": 0, "fact": 1, "rule": 2}, 0)
    assert (ben.tenant_id, sum(ben.memories.values()), ben.tokens) == ("ben", 0, 1)
    assert (default.tenant_id, default.memories["episode"], default.last_change) == ("default", 1, later)
    assert anna_.last_change == clock()


async def test_pages_by_name(memory: Memory):
    names = ["Zoe", "anna", "ben", "Émile", "x:y"]
    for name in names:
        await of(memory, name).store_rule("Ask first")
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await administer(memory).list_tenants(limit=2, cursor=cursor)
        seen, cursor, pages = [*seen, *(each.tenant_id for each in page)], page.next_cursor, pages + 1
    assert (pages, sorted(seen)) == (3, sorted(names))
    assert len({*seen}) == len(names)
    assert (await administer(memory).list_tenants(limit=len(names))).next_cursor is None


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 1001}, {"cursor": ""}, {"cursor": "\x00"}])
async def test_bad_input_is_refused(memory: Memory, given):
    with pytest.raises(InvalidInput):
        await administer(memory).list_tenants(**given)
