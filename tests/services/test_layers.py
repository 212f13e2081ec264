"""Search in layers: compact hits, the timeline around one, and the whole of what is wanted."""

import json
import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput, NewEpisode
from tulving.domain.layers import MOST_TOKENS, compact, cut
from tulving.domain.text import count_tokens
from tulving.interfaces.wire import answer, wire
from tulving.services.operations import OPERATIONS
from tulving.storage import layers

UNKNOWN = UUID(int=404)
WORDS = (
    "the login page failed for users whose session had expired because a cookie was read before the token was renewed "
    "so we moved the check into the middleware added a test and wrote down what the deployment needs next time"
).split()


def realistic(number: int) -> NewEpisode:
    """An episode of 150 to 300 words, as an agent writes them."""
    chance = random.Random(number)
    words = [chance.choice(WORDS) for _ in range(chance.randint(150, 300))]
    content = f"Deployment report {number}: " + " ".join(words)
    title = f"Report {number} on the deployment" if number % 2 else None
    return NewEpisode(content=content, butler="coder", title=title, type="bugfix")


def tokens_of(tool: str, result: Any) -> int:
    """What an agent reads of a tool's answer."""
    return count_tokens(json.dumps(answer(OPERATIONS[tool], result), ensure_ascii=False))


@pytest.mark.scenario("002-012")
async def test_an_agent_reads_ten_times_fewer_tokens_and_finds_the_same(memory):
    stored = await memory.store_episodes([realistic(number) for number in range(20)])
    full = await memory.search("deployment report", limit=20)
    small = await memory.search_compact("deployment report")
    assert len(full) == len(small.hits) == 20
    assert [hit.id for hit in small.hits] == [hit.item.id for hit in full]
    assert tokens_of("memory_search", full) >= 10 * tokens_of("memory_search_compact", small)
    best = small.hits[0]
    around = await memory.timeline(best.id, best.memory_type)
    assert {entry.id for entry in around} <= {each.id for each in stored}
    [detail] = await memory.details([best.id])
    read = sum(
        tokens_of(tool, result)
        for tool, result in (
            ("memory_search_compact", small),
            ("memory_timeline", around),
            ("memory_details", [detail]),
        )
    )
    assert tokens_of("memory_search", full) >= 4 * read, "all three layers together"
    assert detail.memory.content == full[0].item.content, "the same item, whole"


@pytest.mark.scenario("002-012")
async def test_a_compact_hit_is_short_and_without_content(memory, clock):
    titled = await memory.store_episode("Long words about the harbour", butler="b", title="Harbour news", type="note")
    plain = await memory.store_episode("The harbour\n was closed  " + "because of a storm " * 20, butler="b")
    fact = await memory.store_fact("harbour", "opening_hours", "from nine to five")
    note = await memory.store_note("The harbour is small")
    rule = await memory.store_rule("Ask for the harbour first")
    found = await memory.search_compact("harbour")
    value = answer(OPERATIONS["memory_search_compact"], found)
    assert set(value) == {"results"}
    assert all(list(hit) == ["id", "memory_type", "title", "type", "score", "created_at"] for hit in value["results"])
    titles = {hit.id: hit.title for hit in found.hits}
    assert titles == {
        titled.id: "Harbour news",
        plain.id: "The harbour was closed because of a storm…",
        fact.id: "harbour opening_hours from nine to five",
        note.id: "The harbour is small",
        rule.id: "Ask for the harbour first",
    }
    hits = {hit.id: hit for hit in found.hits}
    assert (hits[titled.id].type, hits[titled.id].memory_type, hits[titled.id].created_at) == (
        "note",
        "episode",
        clock.now,
    )
    full = {hit.item.id: hit.score for hit in await memory.search("harbour")}
    assert {hit.id: hit.score for hit in found.hits} == {id_: round(score, 3) for id_, score in full.items()}
    await memory.settle()
    assert (await memory.look("episode", titled.id)).reference_count == 0
    assert [hit.id for hit in (await memory.search_compact("harbour", types=["rule"])).hits] == [rule.id]
    assert [hit.id for hit in (await memory.search_compact("harbour", type="note", limit=1)).hits] == [titled.id]
    assert (await memory.search_compact("harbour", project="p", mode="keyword")).hits == []
    with pytest.raises(InvalidInput, match="limit"):
        await memory.search_compact("harbour", limit=0)


async def test_whatever_is_stored_a_compact_hit_has_at_most_100_tokens(memory):
    long = "x" * 1000
    await memory.store_episodes(
        [
            NewEpisode(content="alpha " + "字" * 50_000, butler="b", type=long),
            NewEpisode(content="alpha beta", butler="b", title='"\\' * 400, type=long[:300]),
            NewEpisode(content="alpha gamma", butler="b", title="😀" * 900),
        ]
    )
    await memory.store_fact(long, long[:900], "alpha " + long)
    hits = (await memory.search("alpha")).hits
    assert len(hits) == 4
    for count in (count_tokens, lambda text: -(-len(text) // 2)):
        for hit in hits:
            spent = count(json.dumps(wire(compact(hit, count)), ensure_ascii=False))
            assert spent <= MOST_TOKENS
            assert count is count_tokens or spent > 90, "only as much is cut as must be"
    assert compact(hits[0], lambda text: MOST_TOKENS + 1).title == "", "a counter may ask for too much"
    assert all(len(compact(hit, count_tokens).title) > 20 for hit in hits), "a long type leaves room for it"


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("one two", 7, "one two"),
        ("one two", 6, "one…"),
        ("one two three", 8, "one two…"),
        ("unbreakable", 5, "unbr…"),
        ("字字字字", 3, "字字…"),
        ("one", 0, ""),
        ("one", 1, ""),
    ],
)
def test_a_text_is_cut_at_a_word(text, most, expected):
    assert cut(text, most) == expected


@pytest.mark.scenario("002-012")
async def test_a_timeline_shows_what_came_before_and_after(memory, clock):
    start, ids = clock.now, []
    for hour in range(13):
        clock.now = start + timedelta(hours=hour)
        ids.append((await memory.store_episode(f"hour {hour}", butler="b")).id)
    entries = await memory.timeline(ids[6])
    assert [entry.id for entry in entries] == ids[1:12], "five on each side"
    assert [entry.position for entry in entries] == ["before"] * 5 + ["anchor"] + ["after"] * 5
    assert [entry.distance_ms for entry in entries] == [3_600_000 * abs(n) for n in range(-5, 6)]
    assert wire(entries[0]) == {
        "id": str(ids[1]),
        "memory_type": "episode",
        "title": "hour 1",
        "type": "observation",
        "created_at": (start + timedelta(hours=1)).isoformat(),
        "occurred_at": None,
        "position": "before",
        "distance_ms": 5 * 3_600_000,
    }
    assert [entry.id for entry in await memory.timeline(ids[0], window=1)] == ids[:2]
    assert [entry.id for entry in await memory.timeline(ids[12], window=2)] == ids[10:]
    assert [entry.id for entry in await memory.timeline(ids[6], window=0)] == [ids[6]]
    late = await memory.store_episode("told late", butler="b", occurred_at=start + timedelta(hours=5, minutes=30))
    await memory.forget("episode", ids[5])
    nearest = await memory.timeline(str(ids[6]), window=2)
    assert [entry.id for entry in nearest] == [ids[4], late.id, ids[6], ids[7], ids[8]]
    assert (nearest[1].distance_ms, nearest[1].occurred_at) == (1_800_000, start + timedelta(hours=5, minutes=30))
    assert await memory.timeline(ids[5]) == [], "it is forgotten"
    assert await memory.timeline(UNKNOWN) == []
    await memory.settle()
    assert (await memory.look("episode", ids[6])).reference_count == 0


async def test_a_timeline_is_in_one_order_where_times_are_equal(memory, clock):
    when = clock.now
    ids = [
        stored.id for stored in await memory.store_episodes([NewEpisode(content=f"{n}", butler="b") for n in "abcd"])
    ]
    clock.advance(hours=1)
    late = await memory.store_episode("stored later, happened then", butler="b", occurred_at=when)
    line = [*ids, late.id]
    for place, id_ in enumerate(line):
        entries = await memory.timeline(id_, window=10)
        assert [entry.id for entry in entries] == line
        assert [entry.position for entry in entries].index("anchor") == place
    near = await memory.timeline(ids[2], window=1)
    assert [entry.id for entry in near] == ids[1:4]


async def test_a_timeline_of_one_kind_or_several_and_filtered(memory, clock):
    session = UUID(int=77)
    made: dict[str, UUID] = {}

    async def step(name, stored):
        clock.advance(minutes=1)
        made[name] = (await stored).id

    await step("e1", memory.store_episode("fixed it", butler="b", type="bugfix", project="p", session_id=session))
    # When a fact began to hold does not move it: it was learned here.
    await step("f1", memory.store_fact("a", "b", "c", occurred_at=clock.now - timedelta(days=9), session_id=session))
    await step("r1", memory.store_rule("do this"))
    await step("e2", memory.store_episode("seen", butler="c", type="discovery", session_id=session))
    await step("n1", memory.store_note("Something else", category="goal"))
    await step("e3", memory.store_episode("fixed that", butler="b", type="bugfix"))

    async def line(name, kind="episode", **given):
        names = {id_: name for name, id_ in made.items()}
        return [names[entry.id] for entry in await memory.timeline(made[name], kind, **given)]

    assert await line("e2") == ["e1", "e2", "e3"]
    assert await line("f1", "fact") == ["f1", "n1"]
    assert await line("r1", "rule") == ["r1"]
    assert await line("r1", "rule", types=["episode", "fact", "rule"]) == ["e1", "f1", "r1", "e2", "n1", "e3"]
    assert await line("r1", "rule", types=["fact", "episode"], window=1) == ["f1", "r1", "e2"]
    assert await line("e2", type="bugfix") == ["e1", "e2", "e3"]
    assert await line("e2", type="goal", types=["fact"]) == ["e2", "n1"]
    assert await line("e2", project="p") == ["e1", "e2"]
    assert await line("e3", session_id=str(session), types=["episode", "fact", "rule"]) == ["e1", "f1", "e2", "e3"]
    assert await memory.timeline(made["e1"], "fact") == [], "there is no such fact"
    note = await memory.look("fact", made["n1"])
    assert [entry.position for entry in await memory.timeline(note.ref, "fact")] == ["before", "anchor"]

    for bound in ({"user_id": "u"}, {"project": "q"}, {"caller": Caller("other")}):
        assert await memory.bind(**bound).timeline(made["e1"]) == []
    assert [entry.id for entry in await memory.bind(scope="b").timeline(made["e1"])] == [made["e1"], made["e3"]]
    assert await memory.bind(scope="b").timeline(made["e2"]) == []
    for wrong in ({"window": -1}, {"window": 101}, {"window": True}, {"types": ["x"]}, {"session_id": "x"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await memory.timeline(made["e1"], **wrong)
    with pytest.raises(InvalidInput, match="memory_type"):
        await memory.timeline(made["e1"], "thought")
    with pytest.raises(InvalidInput, match="memory_id"):
        await memory.timeline("x")


async def test_an_archived_episode_stays_on_the_timeline(memory, clock, sql):
    first = await memory.store_episode("first", butler="b", title="The first one")
    clock.advance(minutes=1)
    second = await memory.store_episode("second", butler="b")
    sql("UPDATE episodes SET segment_id = ? WHERE id = ?", UUID(int=5), first.id)
    assert [entry.id for entry in await memory.timeline(second.id)] == [first.id, second.id]


@pytest.mark.scenario("002-012")
async def test_details_are_whole_and_only_of_what_is_asked(memory):
    long = "word " * 20_000 + "end"
    episode = await memory.store_episode(long, butler="b")
    fact = await memory.store_fact("a", "b", "c")
    rule = await memory.store_rule("d")
    note = await memory.store_note("e")
    await memory.store_note("Not asked for")
    found = await memory.details([str(rule.id), UNKNOWN, episode.id, str(note.ref), fact.id, rule.id, note.id])
    assert [(each.memory_type, each.memory.id) for each in found] == [
        ("rule", rule.id),
        ("episode", episode.id),
        ("fact", note.id),
        ("fact", fact.id),
    ], "in the order asked, each once"
    told = answer(OPERATIONS["memory_details"], found)["memories"]
    assert told[1]["memory"]["content"] == long, "not cut"
    assert told[0]["memory_type"] == "rule" and not {"owner", "content_hash"} & {*told[0]["memory"]}
    assert [each.memory.reference_count for each in found] == [1] * 4
    await memory.settle()
    assert (await memory.look("rule", rule.id)).reference_count == 1
    assert [each.memory.reference_count for each in await memory.look_at([rule.id])] == [1], "nothing is counted"

    assert await memory.details([]) == await memory.details(["fact_nothing1"]) == []
    assert len(await memory.details([fact.id] * 100)) == 1
    for bound in ({"user_id": "u"}, {"project": "q"}, {"caller": Caller("other")}):
        assert await memory.bind(**bound).details([episode.id, rule.id, str(note.ref)]) == []
    for wrong in ([fact.id] * 101, str(fact.id), None, ["x"], [None], ["fact_\x00"], ["fact_" + "x" * 40]):
        with pytest.raises(InvalidInput, match="ids"):
            await memory.details(wrong)


@pytest.mark.parametrize(
    ("kind", "index"), [("episode", "ix_episodes_time"), ("fact", "ix_facts_created"), ("rule", "ix_rules_created")]
)
async def test_a_side_of_a_timeline_is_read_from_an_index(memory, engine, kind, index):
    stored = await memory.store_episode("x", butler="b")
    anchor = await memory.look("episode", stored.id)

    def explain(conn):
        seen = []
        real = conn.fetch_all
        conn.fetch_all = lambda sql, params=None: seen.append((sql, params)) or real(sql, params)
        layers.around(conn, anchor, [kind], memory._filter(), None, memory.now(), 5)
        if engine == "sqlite":
            return [str(conn.tuples(f"EXPLAIN QUERY PLAN {sql}", params)) for sql, params in seen]
        list(conn.records("SET LOCAL enable_seqscan = off"))
        list(conn.records("SET LOCAL enable_sort = off"))
        return ["\n".join(row[0] for row in conn.records(f"EXPLAIN {sql}", params)) for sql, params in seen]

    plans = await memory._env.store.write(None, explain)
    assert len(plans) == 2
    for plan in plans:
        assert index in plan, plan


async def test_a_search_that_fails_says_so(memory):
    fallback = OPERATIONS["memory_search_compact"].fallback
    assert fallback is not None
    assert wire(fallback(RuntimeError("out of reach"))) == {
        "results": [],
        "warning": "memory could not be searched: out of reach",
    }
    memory._env.embedding.embedder.problem = "no weights"
    await memory.store_note("The harbour")
    assert "no weights" in (await memory.search_compact("harbour")).warning
