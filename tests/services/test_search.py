"""Finding: lanes, fusion, scopes, filters, recall, context."""

from datetime import UTC, datetime

import pytest
from administration import administer

from tulving import (
    EmbedderUnavailable,
    InvalidInput,
    MemoryModuleConfig,
    NewEpisode,
    NewFact,
    NewRule,
    RetrievalConfig,
    open_memory,
)
from tulving.config import load_config
from tulving.domain.ranking import relevance, rrf_score
from tulving.services.search import RECALLED
from tulving.testing import CLOSE
from tulving.workers.jobs import JOBS

LITERAL = pytest.mark.parametrize("config", [MemoryModuleConfig(retrieval=RetrievalConfig(fusion="rrf"))], ids=["rrf"])
"""The order of 001 to the letter."""


@pytest.mark.scenario("001-025")
async def test_a_scope_includes_the_global_one(memory):
    for scope in ("global", "relationship", "health"):
        await memory.store_fact("user", "note", f"{scope} detail", scope=scope)
        await memory.store_rule(f"{scope} detail rule", scope=scope)
    found = await memory.search("detail", types=["fact", "rule"], scope="relationship", limit=50)
    assert {hit.item.scope for hit in found} == {"global", "relationship"}
    assert len(found) == 4


@pytest.mark.scenario("001-026")
async def test_an_episodes_scope_is_its_butler(memory):
    await memory.store_episode("detail one", butler="health")
    await memory.store_episode("detail two", butler="travel")
    found = await memory.search("detail", types=["episode"], scope="travel")
    assert [hit.item.content for hit in found] == ["detail two"]


@pytest.mark.scenario("001-027", "001-031")
async def test_without_a_scope_everything_of_every_kind(memory):
    await memory.store_fact("user", "detail", "one", scope="health")
    await memory.store_rule("detail two", scope="travel")
    await memory.store_episode("detail three", butler="b")
    found = await memory.search("detail")
    assert {hit.memory_type for hit in found} == {"episode", "fact", "rule"}
    assert {hit.memory_type for hit in await memory.search("detail", types=["rule", "rule"])} == {"rule"}


@pytest.mark.scenario("001-028")
async def test_semantic_search_is_by_cosine(memory, embedder):
    await memory.store_rule("alpha beta gamma")
    await memory.store_rule("alpha beta delta")
    await memory.store_rule("omega")
    forgotten = await memory.store_rule("alpha beta gamma twin")
    await memory.forget("rule", forgotten.id)
    await memory.store_fact("alpha", "beta", "old")
    await memory.store_fact("alpha", "beta", "new")
    found = await memory.search("alpha beta gamma", mode="semantic")
    similarities = [hit.parts["similarity"] for hit in found]
    assert similarities == sorted(similarities, reverse=True)
    assert found[0].item.content == "alpha beta gamma"
    assert found[0].parts["similarity"] == pytest.approx(1.0, abs=CLOSE)
    assert found[0].score == found[0].parts["similarity"]
    assert {hit.item.content for hit in found} == {"alpha beta gamma", "alpha beta delta", "omega", "new"}
    by_vector = await memory.search_similar(embedder.embed("alpha beta gamma"))
    assert [hit.item.id for hit in by_vector] == [hit.item.id for hit in found]


@pytest.mark.scenario("001-029", "002-004")
async def test_keyword_search_is_by_bm25(memory):
    await memory.store_episode("fix the authentication bug", butler="b", type="bugfix", project="atlas")
    await memory.store_episode("authentication is a topic of long and winding talks about gardens", butler="b")
    await memory.store_episode("gardening", butler="b")
    found = await memory.search("fix authentication bug", mode="keyword")
    assert [hit.item.content[:6] for hit in found] == ["fix th", "authen"]
    ranks = [hit.parts["rank"] for hit in found]
    assert ranks == sorted(ranks, reverse=True) and ranks[-1] > 0
    assert not any("similarity" in hit.parts for hit in found)
    for nothing in ("", "   ", "\x00", "!!!"):
        assert len(await memory.search(nothing, mode="keyword")) == 0
    assert len(await memory.search("authentication", mode="keyword", type="bugfix")) == 1
    assert len(await memory.search("authentication", mode="keyword", project="atlas")) == 1
    assert len(await memory.search("authentication", mode="keyword", project="other")) == 0


@pytest.mark.scenario("002-004")
async def test_search_by_date(memory):
    for day in (1, 2, 3):
        await memory.store_episode(f"meeting {day}", butler="b", occurred_at=datetime(2025, 5, day, 12, tzinfo=UTC))
    found = await memory.search(
        "meeting", since=datetime(2025, 5, 2, tzinfo=UTC), until=datetime(2025, 5, 3, tzinfo=UTC)
    )
    assert [hit.item.content for hit in found] == ["meeting 2"]
    assert (await memory.search("3 May 2025", mode="keyword"))[0].item.content == "meeting 3", "the date is indexed"


async def test_all_words_go_before_any_word(memory):
    await memory.store_episode("tea tea tea tea", butler="b")
    await memory.store_episode("green " + "filler " * 30 + "tea", butler="b")
    found = await memory.search("green tea", mode="keyword", types=["episode"])
    assert [hit.item.content[:5] for hit in found] == ["green", "tea t"]


async def test_of_equal_matches_the_newest_are_found(memory, clock):
    for number in range(30):
        clock.advance(minutes=1)
        await memory.store_episode("the same words", butler="b", title=None, metadata={"number": number})
    found = await memory.search("same words", mode="keyword", limit=5)
    assert [hit.item.metadata["number"] for hit in found] == [29, 28, 27, 26, 25]


@LITERAL
@pytest.mark.scenario("001-030", "002-011")
async def test_hybrid_fuses_both_lanes(memory):
    both = await memory.store_rule("alpha beta")
    memory._env.embedder.embed_batch = lambda texts: [[1.0] + [0.1] * 63 for _ in texts]
    await memory.store_rule("omega psi")
    del memory._env.embedder.embed_batch
    found = await memory.search("alpha beta", types=["rule"], limit=5)
    first, second = found.hits
    assert first.item.id == both.id
    assert (first.parts["semantic_rank"], first.parts["keyword_rank"], first.parts["rrf_score"]) == (
        1,
        1,
        rrf_score(1, 1),
    )
    assert first.score == first.parts["rrf_score"]
    assert (second.parts["semantic_rank"], second.parts["keyword_rank"]) == (2, 6), "a missing lane counts as limit + 1"
    assert second.parts["rrf_score"] == pytest.approx(1 / 62 + 1 / 66)


async def test_kinds_compete_by_how_well_they_match(memory):
    """The best of a kind that does not match stands below what matches, whatever its kind."""
    await memory.store_rule("omega psi chi")
    for number in range(3):
        await memory.store_fact("alpha", f"beta{number}", "gamma")
    found = await memory.search("alpha gamma", types=["rule", "fact"], limit=5)
    assert [hit.memory_type for hit in found] == ["fact"] * 3
    assert [hit.memory_type for hit in await memory.search("omega", types=["rule", "fact"])] == ["rule"]


@pytest.mark.scenario("001-031")
async def test_what_is_not_believed_is_left_out(memory, clock):
    await memory.store_fact("user", "mood", "sunny", permanence="ephemeral")
    await memory.store_fact("user", "name", "sunny", permanence="permanent")
    clock.advance(days=16.05)  # exp(-0.1 * 16.05) = 0.2009
    assert len(await memory.search("sunny")) == 2
    clock.advance(days=0.1)
    found = await memory.search("sunny")
    assert [hit.item.predicate for hit in found] == ["name"]
    assert found.below_confidence == 1
    assert len(await memory.search("sunny", min_confidence=0)) == 2
    assert len(await memory.search("sunny", min_confidence=1)) == 1


async def test_expired_episodes_are_not_found(memory, clock):
    await memory.store_episode("short lived", butler="b")
    clock.advance(days=7, seconds=-1)
    assert len(await memory.search("short lived")) == 1
    clock.advance(seconds=1)
    assert len(await memory.search("short lived")) == 0
    assert (await memory.list_memories("episode")).items == []


@pytest.mark.parametrize("mode", ["semantic", "hybrid", "keyword"])
async def test_a_selective_filter_never_starves_the_result(memory, mode):
    """Filters apply before the limit: the rare matches are found behind hundreds of better ones."""
    await memory.store_episodes([NewEpisode(content="red apple", butler="many") for _ in range(300)])
    await memory.store_episodes([NewEpisode(content=f"red apple and pear {n}", butler="few") for n in range(12)])
    found = await memory.search("red apple", types=["episode"], scope="few", mode=mode, limit=10)
    assert len(found) == 10
    assert {hit.item.butler for hit in found} == {"few"}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"mode": "fuzzy"}, "mode"),
        ({"types": ["dream"]}, "types"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "10"}, "limit"),
        ({"min_confidence": -0.1}, "min_confidence"),
        ({"min_confidence": 1.1}, "min_confidence"),
        ({"scope": ""}, "scope"),
        ({"query": 5}, "query"),
        ({"tags": "x"}, "tags"),
    ],
)
async def test_a_bad_search_names_the_field(memory, arguments, field):
    with pytest.raises(InvalidInput) as refused:
        await memory.search(**{"query": "x", **arguments})
    assert refused.value.field == field


@pytest.mark.scenario("001-032", "001-034")
@pytest.mark.parametrize("fusion", ["evidence", "rrf"])
async def test_recall_orders_by_all_that_matters(url, clock, embedder, fusion):
    config = MemoryModuleConfig(retrieval=RetrievalConfig(fusion=fusion))
    async with (
        open_memory(url, config=config, embedder=embedder, clock=clock, background=False) as memory,
        open_memory(url, config=config, embedder=embedder, clock=clock, background=False) as another,
    ):
        await _recall_orders_by_all_that_matters(memory, another, clock, fusion)


async def _recall_orders_by_all_that_matters(memory, another, clock, fusion):
    plain = await memory.store_fact("tea", "kind", "green")
    vital = await memory.store_fact("tea", "allergy", "green", importance=10)
    rule = await memory.store_rule("offer green tea")
    await memory.store_episode("green tea was served", butler="b", occurred_at=datetime(2025, 1, 1, tzinfo=UTC))
    clock.advance(days=1)
    found = await memory.recall("green tea")
    assert {hit.memory_type for hit in found} == {"episode", "fact", "rule"}
    assert found[0].item.id == vital.id
    for hit in found:
        expected = (
            0.4 * hit.parts["relevance"]
            + 0.3 * hit.parts["importance"]
            + 0.2 * hit.parts["recency"]
            + 0.1 * hit.parts["confidence"]
        )
        assert hit.score == pytest.approx(expected)
        if fusion == "rrf":
            assert hit.parts["relevance"] == relevance(hit.parts["rrf_score"], 3 * RECALLED)
        assert (hit.item.reference_count, hit.item.last_referenced_at) == (1, clock.now)
    by_id = {hit.item.id: hit for hit in found}
    assert by_id[rule.id].parts["importance"] == 0.5
    assert by_id[plain.id].parts["recency"] == 0.0, "never referenced before"
    await memory.settle()
    clock.advance(days=7)
    again = {hit.item.id: hit for hit in await another.recall("green tea")}
    assert again[plain.id].parts["recency"] == pytest.approx(0.5)
    assert again[plain.id].item.reference_count == 2
    await another.settle()
    assert (await memory.get("fact", plain.id)).reference_count == 3


async def test_recall_covers_the_kinds_that_are_asked_for(memory):
    await memory.store_fact("tea", "kind", "green")
    await memory.store_episode("green tea was served", butler="b", importance=9)
    (hit,) = await memory.recall("green tea", types=["episode"])
    assert (hit.memory_type, hit.parts["confidence"], hit.parts["importance"]) == ("episode", 1.0, 0.9)


async def test_recall_leaves_out_the_faded(memory, clock):
    await memory.store_fact("user", "mood", "sunny", permanence="ephemeral")
    clock.advance(days=30)
    assert len(await memory.recall("sunny")) == 0
    await memory.store_rule("be sunny")
    assert len(await memory.recall("sunny")) == 1, "a new rule can be recalled at once"


@pytest.mark.scenario("001-126")
@pytest.mark.parametrize(
    "config",
    [MemoryModuleConfig(retrieval=RetrievalConfig(score_weights={"relevance": 0, "recency": 0, "confidence": 0}))],
)
@pytest.mark.parametrize("kind", ["fact", "rule"])
async def test_equal_scores_go_to_the_newer_then_to_the_lower_id(memory, clock, sql, kind):
    """In every search, at the cut too; how mature a rule is does not count."""

    async def store(number):
        if kind == "rule":
            return (await memory.store_rule("drink some tea", tags=[str(number)])).id
        return (await memory.store_fact("drink", "some", "tea", scope=f"s{number}")).id

    early = [await store(number) for number in range(14)]
    clock.advance(hours=2)
    late = [await store(number) for number in range(14, 18)]
    clock.advance(hours=-1)
    between = [await store(number) for number in range(18, 22)]
    if kind == "rule":
        sql("UPDATE rules SET maturity = 'proven' WHERE id = ?", early[-1])
        sql("UPDATE rules SET maturity = 'established' WHERE id = ?", late[-1])
    expected = [*late, *between, *early]
    for limit in (3, 6, 10, 50):
        for mode in ("keyword", "semantic", "hybrid"):
            found = await memory.search("drink some tea", mode=mode, limit=limit)
            assert [hit.item.id for hit in found] == expected[:limit], (mode, limit)
        recalled = await memory.recall("drink some tea", limit=limit)
        assert len({hit.score for hit in recalled}) == 1
        assert [hit.item.id for hit in recalled] == expected[:limit]
    if kind == "rule":
        lines = (await memory.context("drink some tea", butler="b", token_budget=10_000)).splitlines()
        shown = [line.split("maturity: ")[1].split(",")[0] for line in lines if "maturity" in line]
        assert shown == ["candidate"] * 3 + ["established"] + ["candidate"] * 16, "as in recall; the proven one is cut"


@pytest.mark.scenario("001-126")
async def test_equal_scores_of_several_kinds_go_to_the_newer(memory, clock):
    ids = []
    for number in range(3):
        ids.insert(0, (await memory.store_fact("tea", "is", "green", scope=f"s{number}")).id)
        clock.advance(minutes=1)
        ids.insert(0, (await memory.store_rule("tea is green", scope=f"s{number}")).id)
        clock.advance(minutes=1)
    found = await memory.search("tea is green", mode="semantic")
    assert len({hit.score for hit in found}) == 1
    assert [hit.item.id for hit in found] == ids


@pytest.mark.scenario("001-087", "001-089")
async def test_context_uses_the_butlers_scope(memory):
    await memory.store_fact("user", "likes", "tea", scope="global")
    await memory.store_fact("user", "drinks", "tea daily", scope="kitchen")
    await memory.store_fact("user", "grows", "tea", scope="garden")
    await memory.store_rule("serve tea hot", scope="kitchen")
    text = await memory.context("tea", butler="kitchen")
    assert text.startswith("# Memory Context\n")
    assert "- [user] [likes]: tea (confidence: 1.00)" in text
    assert "- [user] [drinks]: tea daily (confidence: 1.00)" in text
    assert "- serve tea hot (maturity: candidate, effectiveness: 0.00)" in text
    assert "grows" not in text
    assert await memory.context("nothing known", butler="attic") != ""


@pytest.mark.scenario("001-089")
async def test_context_takes_up_to_twenty(memory):
    await memory.store_facts([NewFact(subject="user", predicate=f"likes_{n}", content="tea") for n in range(30)])
    assert (await memory.context("tea", butler="b", token_budget=10_000)).count("\n- ") == 20


@pytest.mark.scenario("001-127")
async def test_the_shares_of_facts_and_rules_in_a_context_are_configured(new_url, tmp_path, embedder, clock):
    counts = {}
    for share in (0.3, 0.7):
        quotas = f"section_quotas = {{facts = {share}, rules = {1 - share:.1f}}}"
        (tmp_path / "tulving.toml").write_text(f"[retrieval]\ndefault_limit = 60\n{quotas}\n")
        config = load_config(tmp_path, {})
        async with open_memory(new_url(), config=config, embedder=embedder, clock=clock, background=False) as memory:
            await memory.store_facts([NewFact(content=f"tea {n} " + "f" * 60) for n in range(30)])
            await memory.store_rules([NewRule(content=f"tea {n} " + "r" * 60) for n in range(30)])
            block = await memory.context("tea", butler="b", token_budget=500)
        facts, rules = block.split("## Active Rules")
        counts[share] = facts.count("\n- "), rules.count("\n- ")
        assert len(block) <= 2000
    assert counts[0.3][0] < counts[0.3][1] and counts[0.7][0] > counts[0.7][1], counts


@pytest.mark.scenario("001-088", "001-098")
@pytest.mark.parametrize(
    "config", [MemoryModuleConfig(retrieval=RetrievalConfig(context_token_budget=50, default_limit=7))]
)
async def test_the_budget_and_the_limit_are_configured(memory):
    await memory.store_facts([NewFact(subject="user", predicate=f"likes_{n}", content="tea") for n in range(30)])
    text = await memory.context("tea", butler="b")
    assert len(text) <= 200
    assert (await memory.context("tea", butler="b", token_budget=10_000)).count("\n- ") == 7
    assert len(await memory.search("tea")) == len(await memory.recall("tea")) == 7
    assert len(await memory.search("tea", limit=3)) == 3
    for budget in (4, 0, -1, "100", 2.5):
        with pytest.raises(InvalidInput, match="token_budget"):
            await memory.context("tea", butler="b", token_budget=budget)


@pytest.mark.scenario("001-098")
@pytest.mark.parametrize(
    "config",
    [
        MemoryModuleConfig(
            retrieval=RetrievalConfig(default_mode="keyword", score_weights={"relevance": 0, "importance": 1})
        )
    ],
)
async def test_mode_and_weights_are_configured(memory):
    await memory.store_fact("tea", "kind", "green green tea", importance=1)
    high = await memory.store_fact("tea", "other", "black", importance=9)
    assert (await memory.recall("green tea"))[0].item.id == high.id
    found = await memory.search("green")
    assert found.mode == "keyword" and len(found) == 1


async def test_without_an_embedder_words_must_do(memory, embedder, clock):
    embedder.problem = "no weights yet: run `tulving init`"
    stored = await memory.store_fact("user", "likes", "tea")
    assert stored.warning == "no weights yet: run `tulving init`"
    found = await memory.search("tea")
    assert (len(found), found.mode, found.warning) == (1, "keyword", embedder.problem)
    assert len(await memory.search("tea", mode="semantic")) == 0
    recalled = await memory.recall("tea")
    assert recalled[0].parts["relevance"] == pytest.approx(1.0)
    assert await memory.count_pending() == 1
    embedder.problem = None
    heard = []
    memory.subscribe(heard.extend)
    assert await memory.embed_pending() == 1
    assert [event.event_type for event in heard] == ["fact_embedded"]
    assert await memory.count_pending() == 0
    assert len(await memory.search("tea", mode="semantic")) == 1
    assert [event.event_type for event in await memory.events("fact", stored.id)] == ["fact_created", "fact_embedded"]


STORED = {
    "rule": lambda memory: memory.store_rule("greet Anna"),
    "fact": lambda memory: memory.store_fact("Anna", "likes", "to greet"),
    "note": lambda memory: memory.store_note("Anna likes to greet"),
    "episode": lambda memory: memory.store_episode("Anna did greet", butler="b"),
}


@pytest.mark.parametrize("store", STORED.values(), ids=STORED)
async def test_an_embedder_that_fails_costs_no_memory_and_is_told_of(memory, embedder, store):
    embedder.error = EmbedderUnavailable("out of order")
    assert memory.warning is None, "it says that it is ready"
    stored = await store(memory)
    assert "out of order" in stored.warning
    assert memory.warning == memory.bind(user_id="ann").warning == stored.warning
    found = await memory.search("greet")
    assert [hit.item.id for hit in found] == [stored.id] and "out of order" in found.warning
    assert await memory.embed_pending() == 0
    assert (await administer(memory).verify()).pending == 1
    embedder.error = None
    assert await memory.embed_pending() == 1
    assert memory.warning is None
    assert (await memory.store_rule("and now all is well")).warning is None
    assert (await memory.search("greet")).warning is None


async def test_an_embedder_that_failed_is_tried_again_at_the_next_search(memory, embedder):
    await memory.store_rule("greet")
    embedder.error = EmbedderUnavailable("out of order")
    assert (await memory.search("greet")).mode == "keyword"
    embedder.error = None
    assert (await memory.search("greet")).mode == "hybrid"
    assert memory.warning is None


async def test_a_job_tries_an_embedder_that_failed_again(memory, embedder, clock):
    embedder.error = EmbedderUnavailable("out of order")
    await memory.store_rule("greet")
    job = JOBS["index_maintenance"]
    assert (await job.run(administer(memory), clock.now, ""))["embedded"] == 0
    embedder.error = None
    assert (await job.run(administer(memory), clock.now, ""))["embedded"] == 1


async def test_any_other_error_of_an_embedder_rises_and_nothing_is_stored(memory, embedder, sql):
    embedder.error = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        await memory.store_rule("greet")
    assert sql("SELECT id FROM rules") == []


@pytest.mark.parametrize("vector", [[1.0], [float("nan")] * 64, [float("inf")] * 64, ["x"] * 64, [1.0] * 65])
async def test_a_wrong_vector_is_refused(memory, embedder, vector, sql):
    await memory.store_rule("greet")
    with pytest.raises(InvalidInput, match="embedding"):
        await memory.search_similar(vector)
    embedder.embed_batch = lambda texts: [vector for _ in texts]
    with pytest.raises(InvalidInput, match="embedding"):
        await memory.store_rule("other")
    del embedder.embed_batch
    assert len(sql("SELECT 1 FROM rules")) == 1
    assert len(await memory.search("greet")) == 1


@pytest.mark.scenario("002-005")
async def test_the_keyword_index_follows_the_rows(memory, sql):
    stored = await memory.store_episode("alpha", butler="b")
    sql("UPDATE episodes SET search_text = replace(search_text, 'alpha', 'beta') WHERE id = ?", stored.id)
    assert len(await memory.search("alpha", mode="keyword")) == 0
    assert len(await memory.search("beta", mode="keyword")) == 1
    await memory.delete("episode", stored.id)
    assert len(await memory.search("beta", mode="keyword")) == 0
    assert (await administer(memory).verify()).ok


async def test_what_is_found_by_meaning_follows_the_rows(memory):
    first = await memory.store_fact("user", "likes", "tea")
    assert len(await memory.search("likes", mode="semantic")) == 1
    second = await memory.store_fact("user", "likes", "coffee")
    assert [hit.item.id for hit in await memory.search("likes", mode="semantic")] == [second.id]
    await memory.forget("fact", second.id)
    assert len(await memory.search("likes", mode="semantic")) == 0
    third = await memory.store_fact("user", "likes", "milk")
    rules = [(await memory.store_rule(f"rule {n}")).id for n in range(10)]
    assert len(await memory.search("rule", types=["rule"], mode="semantic")) == 10
    for id_ in rules[::2]:
        await memory.delete("rule", id_)
    left = {hit.item.id for hit in await memory.search("rule", types=["rule"], mode="semantic")}
    assert left == set(rules[1::2])
    assert [hit.item.id for hit in await memory.search("likes", mode="semantic", types=["fact"])] == [third.id]
    assert first.id != third.id
    assert (await administer(memory).verify()).ok


@pytest.mark.parametrize("config", [MemoryModuleConfig(vector_cache_mb=1)])
async def test_the_cache_gives_way_and_comes_back(memory, path):
    from tulving import Caller

    for tenant in range(12):
        mine = memory.bind(caller=Caller(f"tenant-{tenant}"))
        await mine.store_episodes([NewEpisode(content=f"word{n} of {tenant}", butler="b") for n in range(500)])
    for _ in range(2):
        for tenant in range(12):
            mine = memory.bind(caller=Caller(f"tenant-{tenant}"))
            (hit, *_rest) = await mine.search(f"word7 of {tenant}", mode="semantic", limit=3)
            assert hit.item.content == f"word7 of {tenant}"
    assert sum(part.nbytes for part in memory._env.store.vectors._partitions.values()) <= 1024 * 1024
