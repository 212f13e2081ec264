"""Whose runs are whose: prompts handed out anew, what a bound caller sees, what a rolled back part leaves behind."""

from collections.abc import Callable

from learning_parts import Spawner, fact, said, tell

from tulving import Caller, Memory


async def test_a_prompt_is_handed_out_anew_to_the_one_who_has_it(memory: Memory):
    await tell(memory, "Anna has moved to Lyon", "She sold her car")
    first = await memory.learn_prompt()
    refused = await memory.learn_prompt()
    assert (refused.lease, refused.prompt, refused.episodes, refused.expires_at) == (None, "", 2, first.expires_at)
    other = memory.bind(caller=Caller(actor="other"))
    assert (await other.learn_prompt(again=True)).lease is None
    second = await memory.learn_prompt(again=True)
    assert second.lease not in (None, first.lease)
    assert (second.episodes, second.prompt) == (first.episodes, first.prompt)
    learned = await memory.learn_apply(said(new_facts=[fact("Lyon", "home")]))
    assert (learned.run_id, learned.facts_created, learned.episodes_consolidated) == (second.lease, 1, 2)


async def test_a_run_that_a_model_works_on_is_not_taken_over(memory: Memory):
    await tell(memory, "Anna has moved to Lyon")

    async def during(prompt: str, trigger_source: str) -> str:
        assert (await memory.learn_prompt(again=True)).lease is None
        return said(new_facts=[fact("Lyon", "home")])

    assert (await memory.run_consolidation(cc_spawner=during))["facts_created"] == 1


async def test_a_secret_that_was_rolled_back_is_not_used(memory: Memory, sql: Callable, engine: str):
    """A tenant whose rows came by plain SQL has no secret until its first event, which may be rolled back."""
    other = memory.bind(caller=Caller("fresh"))
    await memory.store_episode("x", butler="b")
    sql("UPDATE episodes SET tenant_id = 'fresh'")
    bad = "EXISTS (SELECT 1 FROM facts WHERE id = new.source_id AND predicate = 'bad')"
    if engine == "sqlite":
        raised = "BEGIN SELECT RAISE(ABORT, 'no'); END"
        sql(f"CREATE TRIGGER refuse BEFORE INSERT ON memory_links WHEN {bad} {raised}")
    else:
        raised = f"BEGIN IF {bad} THEN RAISE EXCEPTION 'no'; END IF; RETURN new; END"
        sql(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {raised} $$")
        sql("CREATE TRIGGER refuse BEFORE INSERT ON memory_links FOR EACH ROW EXECUTE FUNCTION refuse()")
    answer = said(new_facts=[fact("bad", "bad"), fact("good", "good")])
    done = await other.run_consolidation(cc_spawner=Spawner(answer))
    assert (done["facts_created"], len(done["errors"])) == (1, 1)
    assert len(sql("SELECT * FROM tenant_keys WHERE tenant_id = 'fresh'")) == 1


async def test_a_bound_caller_sees_the_runs_over_what_belongs_to_it(memory: Memory):
    """A user's episodes may also belong to a household, and so do the runs over them."""
    anna = memory.bind(user_id="anna")
    await tell(anna.bind(household_id="h"), "Anna has moved to Lyon", "Always ring twice")
    answer = said(new_facts=[fact("Lyon", "home")], new_rules=[{"content": "Always ring twice"}])
    done = await anna.run_consolidation(cc_spawner=Spawner(answer))
    assert (done["facts_created"], done["held"]) == (1, 1)
    for caller in (memory, anna, anna.bind(household_id="h")):
        [report] = await caller.runs()
        assert (report.held, len(await caller.proposals())) == (1, 1)
        assert (await caller.runs(report.run.id))[0].changes
    for other in (memory.bind(user_id="bob"), anna.bind(household_id="other"), anna.bind(scope="other")):
        assert not [*await other.runs(), *await other.proposals()]
    assert len((await anna.undo(done["runs"][0])).retracted) == 1
