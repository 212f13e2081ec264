async def test_it_opens(visitor, memory):
    e = await memory.store_episode("Mira said that she moved", butler="b", source="Mira")
    f = await memory.store_fact("Mira", "home", "lives in Porto", source_episode_id=e.id)
    g = await memory.store_fact("Mira", "home", "lives in Braga")
    n = await memory.store_note("Mira likes tea")
    r = await memory.store_rule("Ask before cooking")
    for kind, each in (("episode", e), ("fact", f), ("fact", g), ("fact", n), ("rule", r)):
        await visitor.open(f"/console/memory/{kind}/{each.id}")
        assert visitor.status == 200, visitor.text
