"""Sessions: stretches of an agent's work, whose memories carry the session's id."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from administration import administer
from lesson_parts import consolidate, learn, told

from tulving import Caller, InvalidInput, NewEpisode, NewFact, NewRule, NotFound
from tulving.domain.scope import Address
from tulving.storage import events

UNKNOWN = UUID(int=404)


async def events_of(memory, session_id):
    return await memory._read(events.of_item, Address(memory.caller.tenant_id, "episode", session_id))


@pytest.mark.scenario("002-015")
async def test_a_session_from_start_to_end(memory, clock):
    started = await memory.start_session("website", butler="coder", metadata={"branch": "main"})
    assert (started.status, started.project, started.butler) == ("active", "website", "coder")
    assert (started.started_at, started.ended_at, started.summary) == (clock.now, None, None)
    assert memory.session_id == started.id
    made = [
        ("episode", (await memory.store_episode("Fixed the login page", butler="coder")).id),
        ("fact", (await memory.store_fact("login", "owner", "Anna")).id),
        ("fact", (await memory.store_note("The user likes green buttons")).id),
        ("rule", (await memory.store_rule("Run the tests first")).id),
        ("episode", (await memory.store_episodes([NewEpisode(content="a", butler="b")]))[0].id),
        ("fact", (await memory.store_facts([NewFact(content="The release is on Monday")]))[0].id),
        ("rule", (await memory.store_rules([NewRule(content="Write it down")]))[0].id),
        ("episode", (await memory.record_event("Anna looked in", "conversation", user_id="anna")).id),
        ("fact", (await memory.save_semantic("Anna likes short mails", user_id="anna")).id),
    ]
    elsewhere = await memory.store_episode("Of another session", butler="coder", session_id=UUID(int=7))
    clock.advance(minutes=5)
    ended = await memory.end_session(
        summary="Fixed <private>secret</private>the login", tool_calls={"edit": 3, "run": 4}
    )
    assert (ended.id, ended.status, ended.ended_at) == (started.id, "completed", clock.now)
    assert (ended.summary, ended.tool_calls) == ("Fixed the login", 7)
    assert ended.metadata == {"branch": "main", "tool_calls": {"edit": 3, "run": 4}}
    assert memory.session_id is None
    for kind, id_ in made:
        assert (await memory.look(kind, id_)).session_id == started.id, kind
    assert (await memory.look("episode", elsewhere.id)).session_id == UUID(int=7)
    later = await memory.store_episode("After the session", butler="coder")
    assert (await memory.look("episode", later.id)).session_id is None
    report = await memory.get_session(str(started.id))
    assert (report.session, report.memories) == (ended, {"episode": 3, "fact": 4, "rule": 2})
    audit = [(event.event_type, event.entity_type, event.payload) for event in await events_of(memory, started.id)]
    assert audit == [("session_started", "session", {}), ("session_ended", "session", {"tool_calls": 7})]


async def test_a_session_ends_once_and_only_if_it_is_known(memory):
    with pytest.raises(InvalidInput, match="session_id: is missing: no session was started here"):
        await memory.end_session()
    first, second = (await memory.start_session()).id, (await memory.start_session()).id
    assert memory.session_id == second, "the newest is the current one"
    await memory.end_session(first, tool_calls=2)
    assert memory.session_id == second, "another one has ended"
    with pytest.raises(InvalidInput, match=f"the session {first} was ended before"):
        await memory.end_session(first)
    with pytest.raises(NotFound, match=f"there is no session {UNKNOWN}"):
        await memory.end_session(UNKNOWN)
    assert await memory.get_session(UNKNOWN) is None
    for wrong in ({"summary": " "}, {"summary": 3}, {"tool_calls": -1}, {"tool_calls": True}, {"tool_calls": "3"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await memory.end_session(**wrong)
    for wrong in ({"edit": -1}, {"": 1}, {"a\x00": 1}, {"edit": 2**31 - 1, "run": 1}):
        with pytest.raises(InvalidInput, match="tool_calls"):
            await memory.end_session(tool_calls=wrong)
    for wrong in ("x", None, 3):
        with pytest.raises(InvalidInput, match="session_id"):
            await memory.get_session(wrong)
    with pytest.raises(InvalidInput, match="session_id"):
        memory.bind(session_id="x")
    for wrong in ({"project": "\ud800"}, {"butler": ""}, {"metadata": [1]}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await memory.start_session(**wrong)
    for wrong in ({"status": "ended"}, {"limit": 0}, {"limit": 1001}, {"project": 1}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await memory.sessions(**wrong)
    assert memory.session_id == second
    assert (await memory.get_session(second)).session.status == "active"
    ended = await memory.end_session(summary="x" * 1_000_000, tool_calls=2**31 - 1)
    assert (len(ended.summary), ended.tool_calls) == (1_000_000, 2**31 - 1)
    third = (await memory.start_session()).id
    await memory.bind(caller=memory.caller).end_session(third)
    with pytest.raises(InvalidInput, match=f"the session {third} was ended before"):
        await memory.end_session()
    assert memory.session_id is None, "somebody else has ended it, so nothing more belongs to it"


async def test_sessions_are_listed_newest_first_by_status_and_project(memory, clock):
    ids = []
    for project in ("a", "b", "a"):
        ids.append((await memory.start_session(project)).id)
        clock.advance(minutes=1)
    await memory.store_episode("x", butler="b", session_id=ids[1])
    forgotten = await memory.store_note("y", session_id=ids[1])
    await memory.forget("fact", forgotten.id)
    await memory.end_session(ids[0])

    async def listed(**given):
        return [report.session.id for report in await memory.sessions(**given)]

    assert await listed() == ids[::-1]
    assert await listed(limit=2) == [ids[2], ids[1]]
    assert await listed(project="a") == [ids[2], ids[0]]
    assert await listed(status="completed") == [ids[0]]
    assert await listed(status="active", project="a") == [ids[2]]
    counts = {report.session.id: report.memories for report in await memory.sessions()}
    nothing = {"episode": 0, "fact": 0, "rule": 0}
    assert counts == {ids[0]: nothing, ids[1]: nothing | {"episode": 1}, ids[2]: nothing}


async def test_a_connection_sees_and_ends_its_own_sessions_only(memory):
    anna, ben = memory.bind(user_id="anna"), memory.bind(user_id="ben")
    other = memory.bind(caller=Caller("other"))
    web, coder = memory.bind(project="web"), memory.bind(scope="coder")
    theirs = await anna.start_session("p", butler="b")
    assert (theirs.user_id, theirs.owner) == ("anna", anna.bound.owner.key)
    assert (memory.session_id, ben.session_id) == (None, None)
    for stranger in (ben, other, web, coder):
        assert not await stranger.sessions()
        assert await stranger.get_session(theirs.id) is None
        with pytest.raises(NotFound, match=f"there is no session {theirs.id}"):
            await stranger.end_session(theirs.id)
    assert [report.session for report in await memory.sessions()] == [theirs], "the whole tenant is reached"
    assert (await web.start_session("elsewhere")).project == "web"
    assert (await coder.start_session(butler="other")).butler == "coder"
    assert [len(await each.sessions()) for each in (anna, web, coder)] == [1, 1, 1]
    await ben.store_note("Not Anna's", session_id=theirs.id)
    assert [report.memories["fact"] for report in await anna.sessions()] == [0], "what others store is not counted"


async def test_who_is_in_the_current_session(memory):
    id_ = (await memory.start_session()).id
    assert memory.bind(idempotency_key="k").session_id == id_
    assert memory.bind().session_id == id_
    for given in ({"user_id": "anna"}, {"project": "p"}, {"scope": "s"}, {"caller": Caller("default", "x")}):
        assert memory.bind(**given).session_id is None
    bound = memory.bind(user_id="anna", session_id=str(UUID(int=9)))
    stored = await bound.store_note("Bound to a session that the host knows")
    assert (await bound.look("fact", stored.id)).session_id == UUID(int=9)
    await bound.start_session()
    assert memory.session_id == id_, "each connection has its own"


async def test_a_repeated_request_starts_and_ends_one_session(memory):
    first = await memory.bind(idempotency_key="k").start_session("p", metadata={"a": 1})
    assert memory.session_id == first.id
    memory._session.id = None  # as in another process
    again = memory.bind(idempotency_key="k")
    assert (await again.start_session("p", metadata={"a": 1}), memory.session_id) == (first, first.id)
    ended = await memory.bind(idempotency_key="e").end_session(summary="done")
    assert memory.session_id is None
    assert await memory.bind(idempotency_key="e").end_session(summary="done") == ended
    assert len(await memory.sessions()) == 1


async def test_a_block_is_a_session(memory):
    async with memory.session("web", butler="b") as work:
        inside = await work.store_note("Made inside the block")
        outside = await memory.store_note("Somewhere else at the same time")
        async with memory.session() as second:
            assert second.session_id != work.session_id
    sessions = {report.session.id: report for report in await memory.sessions()}
    note = await memory.look("fact", inside.id)
    report = sessions[note.session_id]
    assert (report.session.status, report.session.project, report.memories["fact"]) == ("completed", "web", 1)
    assert (await memory.look("fact", outside.id)).session_id is None
    async with memory.session() as work:
        ended = await work.end_session(summary="By hand")
    assert (await memory.get_session(ended.id)).session.summary == "By hand"
    async with memory.session() as work:
        await memory.end_session(work.session_id, summary="By somebody else")
    async with memory.session() as work:
        first, second = work.session_id, (await work.start_session()).id
    assert (await memory.get_session(first)).session.status == "completed"
    assert (await memory.get_session(second)).session.status == "active", "nobody has ended it"
    with pytest.raises(ZeroDivisionError):
        async with memory.session():
            _ = 1 / 0
    session = (await memory.sessions(limit=1))[0].session
    assert (session.status, session.summary) == ("completed", "ended by ZeroDivisionError")


async def test_a_session_that_nobody_ends_is_abandoned(memory, clock):
    start = clock.now
    idle, busy, quiet = [(await memory.start_session(butler=name)).id for name in ("idle", "busy", "quiet")]
    clock.advance(hours=1)
    await memory.store_rule("Made in it", session_id=idle)
    clock.advance(hours=1)
    await memory.store_note("Made in the busy one", session_id=busy)
    last = start + timedelta(hours=1)
    assert await memory.close_abandoned(as_of=start + timedelta(hours=24, microseconds=-1)) == 0
    assert await memory.close_abandoned(as_of=datetime.min) == 0, "as early as it gets"
    assert await memory.close_abandoned(as_of=start + timedelta(hours=25), dry_run=True) == 2
    assert [report.session.status for report in await memory.sessions()] == ["active"] * 3
    theirs = memory.bind(caller=Caller("other"))
    other = (await theirs.start_session()).id
    clock.advance(hours=23)
    assert await memory.close_abandoned() == 2
    clock.advance(hours=1)
    assert await administer(memory).close_abandoned() == 2, "of all tenants"
    assert (await theirs.get_session(other)).session.status == "abandoned"
    [_, event] = await events_of(theirs, other)
    assert (event.event_type, event.actor) == ("session_abandoned", "maintenance")
    found = {report.session.id: report.session for report in await memory.sessions()}
    assert (found[idle].status, found[idle].ended_at) == ("abandoned", last)
    assert (found[quiet].status, found[quiet].ended_at) == ("abandoned", start)
    assert (found[busy].status, found[busy].ended_at) == ("abandoned", start + timedelta(hours=2))
    assert [event.event_type for event in await events_of(memory, idle)] == ["session_started", "session_abandoned"]
    assert await memory.close_abandoned() == 0

    late = await memory.store_episode("Later", butler="b", session_id=idle)
    assert (await memory.look("episode", late.id)).session_id == idle, "the id is a label"
    assert (await memory.get_session(idle)).session.status == "abandoned"
    ended = await memory.end_session(idle, summary="It was only asleep")
    assert (ended.status, ended.ended_at) == ("completed", clock.now)


async def test_a_start_closes_the_crashed_predecessor_of_the_same_owner(memory, clock):
    anna, ben = memory.bind(user_id="anna"), memory.bind(user_id="ben")
    crashed, others = (await anna.start_session()).id, (await ben.start_session()).id
    clock.advance(hours=24)
    await anna.start_session()
    assert (await memory.get_session(crashed)).session.status == "abandoned"
    assert (await memory.get_session(others)).session.status == "active"


async def test_what_a_model_learns_during_a_session_belongs_to_it(memory):
    id_ = (await memory.start_session()).id
    learned = await learn(memory, "Rows on the lake")
    explicit = await learn(memory, "Sings in a choir", session_id=UUID(int=7))
    _, result, _ = await consolidate(memory, new_facts=[told("Anna", "likes", "tea")], new_rules=[{"content": "Greet"}])
    assert (result["facts_created"], result["rules_created"]) == (1, 1)
    assert (await memory.look("fact", learned.stored[0].id)).session_id == id_
    assert (await memory.look("fact", explicit.stored[0].id)).session_id == UUID(int=7)
    assert (await memory.get_session(id_)).memories == {"episode": 1, "fact": 2, "rule": 1}
