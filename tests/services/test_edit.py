"""Memories put into other words, and a change that is asked for twice."""

import asyncio
from uuid import UUID

import pytest
from administration import administer

from tulving import Caller, InvalidInput, NewFact, NotFound, open_memory
from tulving.bootstrap import copy_store
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import CLOSE, SequentialIds, WordEmbedder

NOBODY = UUID(int=404)
KINDS = pytest.mark.parametrize("kind", ["episode", "fact", "note", "rule"])


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def store(memory, kind, content="tea at noon"):
    stored = {
        "episode": lambda: memory.store_episode(content, butler="b", tags=["old"]),
        "fact": lambda: memory.store_fact("user", "likes", content, tags=["old"]),
        "note": lambda: memory.store_note(content, tags=["old"]),
        "rule": lambda: memory.store_rule(content, tags=["old"]),
    }
    return ("fact" if kind == "note" else kind), (await stored[kind]()).id


@KINDS
async def test_new_words_take_the_place_of_the_old(memory, clock, kind):
    kind, id_ = await store(memory, kind)
    before = await memory.get(kind, id_)
    clock.advance(days=3)
    item = await memory.edit(kind, str(id_), content="  coffee<private>!</private> at dawn ", tags=["new", "new"])
    assert (item.id, item.content, item.tags) == (id_, "coffee at dawn", ["new"])
    assert (item.created_at, item.updated_at) == (before.created_at, clock.now)
    stored = await memory.get(kind, id_)
    assert (stored.content, stored.tags, stored.content_hash) == (item.content, item.tags, item.content_hash)
    for mode in ("keyword", "semantic"):
        assert [hit.item.id for hit in await memory.search("coffee dawn", mode=mode)] == [id_]
    assert len(await memory.search("noon", mode="keyword")) == 0
    [revision] = await memory.revisions(kind, id_)
    assert (revision.number, revision.content, revision.tags) == (1, "tea at noon", ["old"])
    assert (revision.created_at, revision.metadata) == (clock.now, {})
    assert revision.importance == (None if kind == "rule" else 5.0)
    event = (await memory.events(kind, id_))[-1]
    assert (event.event_type, event.payload["revision"]) == (f"{kind}_edited", 1)
    assert event.payload["changed"] == ["content", "tags"]
    assert not any(word in str(event.payload) for word in ("coffee", "tea"))
    assert (await administer(memory).verify()).ok


@KINDS
async def test_what_changes_nothing_leaves_no_trace(memory, clock, kind):
    kind, id_ = await store(memory, kind)
    before = await memory.get(kind, id_)
    clock.advance(days=3)
    again = await memory.edit(kind, id_, content="tea at noon", tags=["old"])
    assert (again.updated_at, again.content) == (before.updated_at, "tea at noon")
    assert await memory.revisions(kind, id_) == []
    assert len(await memory.events(kind, id_)) == 1


async def test_tags_and_importance_alone_keep_the_vector_and_the_decay(memory, clock, embedder):
    kind, id_ = await store(memory, "fact")
    before = await memory.get(kind, id_)
    clock.advance(days=100)
    embedder.error = RuntimeError("not to be asked")
    item = await memory.edit(kind, id_, importance=9, tags=[])
    assert (item.importance, item.tags, item.content) == (9.0, [], "tea at noon")
    assert (item.last_confirmed_at, item.next_review_at) == (before.last_confirmed_at, before.next_review_at)
    [revision] = await memory.revisions(kind, id_)
    assert (revision.importance, revision.tags) == (5.0, ["old"])
    assert (await memory.events(kind, id_))[-1].payload["changed"] == ["tags", "importance"]


@pytest.mark.parametrize("kind", ["fact", "rule"])
async def test_new_words_confirm(memory, clock, kind):
    kind, id_ = await store(memory, kind)
    clock.advance(days=210)
    await memory.run_decay_sweep()
    assert (await memory.get(kind, id_)).status == "fading"
    item = await memory.edit(kind, id_, content="coffee")
    assert (item.status, item.last_confirmed_at) == (None, clock.now)
    assert item.next_review_at > clock.now
    assert (await memory.search("coffee"))[0].parts["confidence"] == item.confidence


async def test_what_is_out_of_use_stays_so(memory, clock):
    kind, old = await store(memory, "fact")
    await memory.store_fact("user", "likes", "coffee")
    item = await memory.edit(kind, old, content="green tea")
    assert (item.state, item.next_review_at) == ("superseded", None)
    kind, id_ = await store(memory, "rule")
    await memory.forget(kind, id_)
    assert (await memory.edit(kind, id_, content="wave")).forgotten
    assert len(await memory.search("wave green", min_confidence=0)) == 0


async def test_revisions_are_numbered_in_their_order(memory, clock):
    kind, id_ = await store(memory, "note", "v0")
    for number in range(1, 5):
        await memory.edit(kind, id_, content=f"v{number}")
    assert [(each.number, each.content) for each in await memory.revisions(kind, id_)] == [
        (1, "v0"),
        (2, "v1"),
        (3, "v2"),
        (4, "v3"),
    ]
    ref = (await memory.get(kind, id_)).ref
    assert len(await memory.revisions("fact", ref)) == 4


async def test_edits_at_the_same_time_all_leave_their_revision(memory, url, clock, embedder):
    kind, id_ = await store(memory, "rule", "v")
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        edits = [
            each.edit(kind, id_, content=f"v{at} {n}") for at, each in enumerate((memory, second)) for n in range(8)
        ]
        await asyncio.gather(*edits)
    revisions = await memory.revisions(kind, id_)
    assert [each.number for each in revisions] == list(range(1, 17))
    last = (await memory.get(kind, id_)).content
    everything = {f"v{at} {n}" for at in range(2) for n in range(8)} | {"v"}
    assert {each.content for each in revisions} | {last} == everything
    assert (await memory.search_similar(embedder.embed(last)))[0].parts["similarity"] == pytest.approx(1.0, abs=CLOSE)
    assert (await administer(memory).verify()).ok


async def test_two_notes_can_not_say_the_same(memory):
    _, tea = await store(memory, "note", "likes tea")
    _, coffee = await store(memory, "note", "likes coffee")
    ref = (await memory.get("fact", tea)).ref
    with pytest.raises(InvalidInput, match=f"content: the fact {ref} says this already"):
        await memory.edit("fact", coffee, content="Likes  TEA")
    assert (await memory.get("fact", coffee)).content == "likes coffee"
    assert await memory.revisions("fact", coffee) == []
    assert (await memory.edit("fact", coffee, content="likes COFFEE")).content == "likes COFFEE"
    await memory.forget("fact", tea)
    assert (await memory.edit("fact", coffee, content="likes tea")).content == "likes tea"
    mine = memory.bind(user_id="anna")
    _, other = await store(mine, "note", "likes milk")
    assert (await mine.edit("fact", other, content="likes tea")).content == "likes tea", "another owner: no conflict"


async def test_two_notes_that_become_the_same_at_once(memory, url, clock, embedder):
    ids = [(await store(memory, "note", f"note {n}"))[1] for n in range(2)]
    new = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=new, background=False) as second:
        edits = [each.edit("fact", id_, content="same") for each, id_ in zip((memory, second), ids, strict=True)]
        results = await asyncio.gather(*edits, return_exceptions=True)
    refused = [result for result in results if isinstance(result, InvalidInput)]
    assert len(refused) == 1


@pytest.mark.parametrize(
    ("kind", "arguments", "field"),
    [
        ("fact", {}, "content"),
        ("fact", {"content": " "}, "content"),
        ("fact", {"content": "<private>x</private>"}, "content"),
        ("fact", {"content": 5}, "content"),
        ("fact", {"tags": "tea"}, "tags"),
        ("fact", {"importance": 10.1}, "importance"),
        ("fact", {"importance": "high"}, "importance"),
        ("rule", {"importance": 5}, "importance"),
    ],
)
async def test_what_can_not_be_is_refused(memory, kind, arguments, field):
    kind, id_ = await store(memory, kind)
    with pytest.raises(InvalidInput) as refused:
        await memory.edit(kind, id_, **arguments)
    assert refused.value.field == field
    assert await memory.revisions(kind, id_) == []


async def test_editing_needs_a_memory_of_ones_own(memory):
    _, theirs = await store(memory.bind(caller=Caller("other")), "fact")
    _, annas = await store(memory.bind(user_id="anna"), "fact")
    for who, id_ in (
        (memory, NOBODY),
        (memory, theirs),
        (memory.bind(user_id="bob"), annas),
        (memory, "fact_00000000"),
    ):
        with pytest.raises(NotFound, match="there is no fact"):
            await who.edit("fact", id_, content="x")
        assert await who.revisions("fact", id_) == []
    with pytest.raises(InvalidInput, match="memory_type"):
        await memory.edit("dream", theirs, content="x")


@KINDS
async def test_deleting_takes_the_revisions_along(memory, sql, kind):
    kind, id_ = await store(memory, kind, "zanzibar trip")
    await memory.edit(kind, id_, content="no trip")
    keeper, kept = await store(memory, "rule", "stay")
    await memory.edit(keeper, kept, content="stay here")
    await memory.delete(kind, id_)
    assert [row["content"] for row in sql("SELECT content FROM revisions")] == ["stay"]


async def test_without_an_embedder_the_new_words_wait_for_their_vector(memory, embedder):
    kind, id_ = await store(memory, "fact")
    embedder.problem = "no weights"
    await memory.edit(kind, id_, content="coffee")
    assert await memory.count_pending() == 1
    assert [hit.item.id for hit in await memory.search("coffee")] == [id_]
    embedder.problem = None
    await memory.embed_pending()
    assert (await memory.search_similar(embedder.embed("user likes coffee")))[0].parts["similarity"] == pytest.approx(
        1.0, abs=CLOSE
    )


async def test_an_edit_in_the_middle_of_re_embedding_is_not_lost(memory, url, clock, config, monkeypatch, sql):
    """What the re-embedding made of the old words must not come to be the vector of the new ones."""
    kind, id_ = await store(memory, "rule", "tea at noon")
    another = WordEmbedder(32, model="other")
    opened = open_memory(
        url, config=config, embedder=another, clock=clock, ids=SequentialIds(10**9), may_reembed=True, background=False
    )
    async with opened as second:
        administration = administer(second)
        really = administration._convert

        async def convert(*args):
            await really(*args)
            if (await memory.get(kind, id_)).content == "tea at noon":
                await memory.edit(kind, id_, content="coffee at dawn")

        monkeypatch.setattr(administration, "_convert", convert)
        await administration.reembed()
        found = await second.search_similar(another.embed("coffee at dawn"))
        assert (found[0].item.content, found[0].parts["similarity"]) == (
            "coffee at dawn",
            pytest.approx(1.0, abs=CLOSE),
        )
        assert (await administer(second).verify()).ok


async def test_revisions_travel(memory, new_url, url, clock, tmp_path, config):
    kind, id_ = await store(memory, "fact")
    await memory.edit(kind, id_, content="coffee", importance=8)
    await memory.edit(kind, id_, content="water")
    kept = await memory.revisions(kind, id_)
    assert (await memory.export(tmp_path / "out.jsonl"))["revisions"] == 2
    target = new_url()
    async with open_memory(target, config=config, embedder=WordEmbedder(), background=False) as other:
        assert (await other.import_(tmp_path / "out.jsonl"))["revisions"] == {"added": 2, "skipped": 0}
        assert await other.revisions(kind, id_) == kept
        assert (await other.import_(tmp_path / "out.jsonl"))["revisions"] == {"added": 0, "skipped": 2}
    copied = await copy_store(url, new_url(), config=config)
    assert copied.ok
    assert (copied.tables["revisions"].copied, copied.tables["revisions"].verified) == (2, 2)


# -- the same request again ------------------------------------------------------------------------------------


def as_request(memory, key, tenant="default", actor="anna", **owner):
    return memory.bind(caller=Caller(tenant, actor, idempotency_key=key), **owner)


async def count(sql):
    tables = ("episodes", "facts", "rules", "memory_events", "rule_applications", "revisions", "memory_links")
    (counted,) = sql(f"SELECT {', '.join(f'(SELECT COUNT(*) FROM {table}) AS {table}_rows' for table in tables)}")
    return list(counted.values())


CHANGES = {
    "store_episode": lambda memory, ids: memory.store_episode(
        "it rained", butler="b", metadata={"a": [1, {"b": None}]}
    ),
    "store_fact": lambda memory, ids: memory.store_fact("user", "likes", "coffee"),
    "store_note": lambda memory, ids: memory.store_note("likes milk"),
    "store_rule": lambda memory, ids: memory.store_rule("wave"),
    "confirm": lambda memory, ids: memory.confirm("fact", ids["fact"]),
    "forget": lambda memory, ids: memory.forget("rule", ids["rule"]),
    "delete": lambda memory, ids: memory.delete("episode", ids["episode"]),
    "create_link": lambda memory, ids: memory.create_link("fact", ids["fact"], "rule", ids["rule"], "supports"),
    "mark_helpful": lambda memory, ids: memory.mark_helpful(ids["rule"]),
    "mark_harmful": lambda memory, ids: memory.mark_harmful(ids["rule"], "rude"),
    "edit": lambda memory, ids: memory.edit("fact", ids["fact"], content="green tea"),
}


@pytest.mark.parametrize("verb", CHANGES)
async def test_a_request_that_is_repeated_is_done_once(memory, clock, sql, verb):
    ids = {kind: (await store(memory, kind))[1] for kind in ("episode", "fact", "rule")}
    heard = []
    memory.subscribe(heard.extend)
    first = await CHANGES[verb](as_request(memory, "r-1"), ids)
    after, told = await count(sql), len(heard)
    clock.advance(days=1)
    assert await CHANGES[verb](as_request(memory, "r-1"), ids) == first
    assert (await count(sql), len(heard)) == (after, told), "and no subscriber is notified twice"
    [row] = sql("SELECT * FROM requests")
    assert not any(word in str(row) for word in ("tea", "coffee", "rude", "milk", "wave")), "it holds no words"
    if verb not in ("delete",):
        other = await CHANGES[verb](as_request(memory, "r-2"), ids)
        assert verb in ("confirm", "forget", "create_link", "edit") or other != first


async def test_the_first_answer_is_the_answer_whatever_came_after(memory, clock):
    _, id_ = await store(memory, "rule")
    first = await as_request(memory, "r-1").mark_helpful(id_)
    for _ in range(5):
        clock.advance(hours=1)
        await memory.mark_helpful(id_)
    again = await as_request(memory, "r-1").mark_helpful(id_)
    assert again == first
    assert (again.applied_count, again.maturity) == (1, "candidate")
    assert (await memory.get("rule", id_)).applied_count == 6
    await memory.delete("rule", id_)
    with pytest.raises(NotFound, match=r"done before.*deleted"):
        await as_request(memory, "r-1").mark_helpful(id_)


async def test_the_same_key_for_something_else_is_refused(memory, sql):
    mine = as_request(memory, "r-1")
    await mine.store_fact("user", "likes", "tea")
    refusal = r"idempotency_key: 'r-1' was used before, for another call of store_fact;"
    for arguments in (("user", "likes", "coffee"), ("user", "hates", "tea")):
        with pytest.raises(InvalidInput, match=refusal):
            await mine.store_fact(*arguments)
    with pytest.raises(InvalidInput, match="idempotency_key"):
        await mine.store_fact("user", "likes", "tea", importance=6)
    with pytest.raises(InvalidInput, match="idempotency_key"):
        await as_request(memory, "r-1", project="atlas").store_fact("user", "likes", "tea")
    assert len(sql("SELECT 1 FROM facts")) == 1


async def test_the_refusal_names_the_verb_that_was_called(memory):
    entity = (await memory.create_entity("Ada", "person")).entity_id
    calls = {
        "store_note": lambda mine, text: mine.store_note(text),
        "store_rule": lambda mine, text: mine.store_rule(text),
        "store_episode": lambda mine, text: mine.store_episode(text, butler="b"),
        "store_facts": lambda mine, text: mine.store_facts([NewFact(content=text)]),
        "update_entity": lambda mine, text: mine.update_entity(entity, canonical_name=text),
    }
    for verb, call in calls.items():
        mine = as_request(memory, "r-1")
        await call(mine, f"first {verb}")
        with pytest.raises(InvalidInput, match=f"for another call of {verb};"):
            await call(mine, f"second {verb}")


async def test_a_key_belongs_to_its_caller_and_to_one_verb(memory, sql):
    """Two users of a tenant, two actors, two tenants and two verbs may count their calls alike."""
    mine = as_request(memory, "1")
    first = await mine.store_fact("user", "likes", "tea")
    others = [
        as_request(memory, "1", user_id="bob"),
        as_request(memory, "1", user_id="anna"),
        as_request(memory, "1", household_id="bob"),
        as_request(memory, "1", tenant="other"),
    ]
    for number, other in enumerate(others):
        assert (await other.store_fact("user", "likes", f"milk {number}")).outcome == "stored"
    assert (await as_request(memory, "1", actor="ben").store_fact("user", "likes", "wine")).superseded_id == first.id
    assert (await as_request(memory, "1", actor=None).store_fact("user", "likes", "water")).outcome == "superseded"
    assert (await mine.store_rule("wave")).outcome == "stored"
    assert await mine.store_fact("user", "likes", "tea") == first
    assert len(sql("SELECT 1 FROM requests")) == 8


async def test_the_longest_names_fit_into_the_key(memory):
    longest = "\U0001f600" * 200
    mine = memory.bind(
        caller=Caller(longest, longest, longest, longest), user_id=longest, household_id=longest, persona_id=longest
    )
    first = await mine.store_rule("wave")
    assert await mine.store_rule("wave") == first


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\nb", "a\x00", "\ud800", 7, b"k"])
async def test_what_is_no_key_is_refused(memory, key):
    with pytest.raises(InvalidInput, match="idempotency_key"):
        memory.bind(idempotency_key=key)
    with pytest.raises(InvalidInput, match="idempotency_key"):
        Caller(idempotency_key=key)


async def test_two_calls_of_one_trace_are_two_calls(memory):
    """The id of a request is a label in the events: a trace may have many calls."""
    traced = memory.bind(caller=Caller("default", "anna", request_id="trace-1"))
    stored = [await traced.store_fact("user", "likes", word) for word in ("tea", "coffee")]
    assert [each.outcome for each in stored] == ["stored", "superseded"]
    assert {event.request_id for each in stored for event in await memory.events("fact", each.id)} == {"trace-1"}
    assert (await traced.store_episode("it rained", butler="b")).id != (
        await traced.store_episode("it rained", butler="b")
    ).id


async def test_a_bound_key_is_of_that_connection_only(memory, sql):
    first = await memory.bind(idempotency_key="k").store_rule("wave")
    assert await memory.bind(idempotency_key="k", project=None).store_rule("wave") == first
    assert memory.caller.idempotency_key is None
    assert (await memory.store_rule("wave")).id != first.id
    assert len(sql("SELECT 1 FROM rules")) == 2


async def test_a_task_that_a_subscriber_starts_can_store(memory, sql):
    """It is a call of its own, not a part of the request that it heard of."""
    tasks = []

    def learn(events):
        if events[0].event_type == "episode_created":
            tasks.append(asyncio.create_task(memory.store_fact("user", "likes", "tea")))
            tasks.append(asyncio.create_task(as_request(memory, "r-1").store_rule("wave")))

    memory.subscribe(learn)
    first = await as_request(memory, "r-1").store_episode("tea again", butler="b")
    fact, rule = await asyncio.gather(*tasks)
    assert (fact.outcome, rule.outcome) == ("stored", "stored")
    assert [row["content"] for row in sql("SELECT content FROM facts")] == ["tea"]
    assert await as_request(memory, "r-1").store_episode("tea again", butler="b") == first
    assert await as_request(memory, "r-1").store_rule("wave") == rule
    assert len(tasks) == 2


async def test_what_failed_may_be_tried_again(memory, sql):
    mine = as_request(memory, "r-1")
    with pytest.raises(InvalidInput):
        await mine.store_fact("user", "likes", " ")
    with pytest.raises(NotFound):
        await mine.delete("fact", NOBODY)
    with pytest.raises(NotFound):
        await mine.mark_helpful(NOBODY)
    assert sql("SELECT * FROM requests") == []
    assert (await mine.store_fact("user", "likes", "tea")).outcome == "stored"


async def test_a_change_and_its_answer_are_kept_together_or_not_at_all(memory, sql, monkeypatch):
    from tulving.storage import requests

    def fail(value):
        raise RuntimeError("boom")

    monkeypatch.setattr(requests, "_packed", fail)
    mine = as_request(memory, "r-1")
    with pytest.raises(RuntimeError):
        await mine.store_fact("user", "likes", "tea")
    assert sql("SELECT * FROM facts") == sql("SELECT * FROM memory_events") == sql("SELECT * FROM requests") == []
    monkeypatch.undo()
    first = await mine.store_fact("user", "likes", "tea")
    assert await mine.store_fact("user", "likes", "tea") == first


async def test_the_same_request_many_times_at_once(memory, url, clock, embedder, sql):
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        callers = [as_request(each, "r-1") for each in (memory, second) for _ in range(8)]
        answers = await asyncio.gather(*(each.store_episode("it rained", butler="b") for each in callers))
    assert len({answer.id for answer in answers}) == 1
    assert len(sql("SELECT 1 FROM episodes")) == len(sql("SELECT 1 FROM memory_events")) == 1


async def test_without_a_key_nothing_is_kept(memory, sql):
    await memory.store_episode("it rained", butler="b")
    await memory.store_episode("it rained", butler="b")
    assert len(sql("SELECT 1 FROM episodes")) == 2
    assert sql("SELECT * FROM requests") == []


async def test_old_requests_are_forgotten(memory, clock, sql):
    mine = as_request(memory, "r-1")
    first = await mine.store_episode("it rained", butler="b")
    clock.advance(days=7)
    assert await administer(memory).forget_requests() == 0
    assert await mine.store_episode("it rained", butler="b") == first
    clock.advance(microseconds=1)
    assert await administer(memory).forget_requests(dry_run=True) == await administer(memory).forget_requests() == 1
    assert sql("SELECT * FROM requests") == []
    assert (await mine.store_episode("it rained", butler="b")).id != first.id


async def test_even_arguments_that_no_verb_takes_are_refused_in_the_verbs_words(memory):
    mine = as_request(memory, "r-1")
    with pytest.raises(InvalidInput, match="metadata"):
        await mine.store_rule("wave", metadata={1: {2: object()}})
    with pytest.raises(InvalidInput, match="content"):
        await mine.store_rule(b"\xff")
    endless: list = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="metadata"):
        await mine.store_rule("wave", metadata={"a": endless})
