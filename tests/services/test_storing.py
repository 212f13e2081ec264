"""What becomes of an offer: episodes, facts and rules as they are stored."""

from datetime import timedelta
from uuid import UUID

import pytest
from administration import administer

from tulving import InvalidInput, NewEpisode, NewFact, NewRule, open_memory
from tulving.settings import MemoryModuleConfig


@pytest.mark.scenario("001-001", "001-016", "004-001", "004-002")
async def test_an_episode_has_its_defaults(memory, clock, sql):
    stored = await memory.store_episode("The user asked for a table", butler="switchboard")
    assert isinstance(stored.id, UUID)
    assert stored.expires_at == clock.now + timedelta(days=7)
    (row,) = sql("SELECT * FROM episodes")
    assert row["id"] == stored.id
    assert row["tenant_id"] == "default"
    assert row["butler"] == "switchboard"
    assert row["session_id"] is None
    assert row["importance"] == 5.0
    assert row["reference_count"] == 0
    assert row["consolidated"] is False
    assert row["consolidation_status"] == "pending"
    assert row["consolidation_attempts"] == 0
    assert row["last_consolidation_error"] is None
    assert row["next_consolidation_retry_at"] is None
    assert row["last_referenced_at"] is None
    assert row["metadata"] == {}
    assert row["created_at"] == row["updated_at"] == clock.now
    assert row["expires_at"] == clock.now + timedelta(days=7)
    assert len(row["search_text"].split()) == 6
    assert len(row["embedding"]) == 64 * 4
    assert (await memory.search("tables", mode="keyword"))[0].item.id == stored.id


@pytest.mark.scenario("001-002", "001-004", "004-003", "004-004")
async def test_a_fact_has_its_defaults(memory, clock, sql):
    stored = await memory.store_fact("user", "likes", "tea")
    (row,) = sql("SELECT * FROM facts")
    assert (row["subject"], row["predicate"], row["content"]) == ("user", "likes", "tea")
    assert (row["importance"], row["confidence"], row["decay_rate"]) == (5.0, 1.0, 0.008)
    assert (row["permanence"], row["validity"], row["scope"]) == ("standard", "active", "global")
    assert (row["tags"], row["metadata"], row["reference_count"]) == ([], {}, 0)
    for empty in ("source_butler", "source_episode_id", "supersedes_id", "entity_id", "last_referenced_at", "ref"):
        assert row[empty] is None
    assert row["last_confirmed_at"] == row["created_at"] == clock.now
    assert row["next_review_at"] is not None
    assert [word[7:] for word in row["search_text"].split()] == ["user", "likes", "tea"]
    assert len(row["embedding"]) == 64 * 4
    fact = await memory.get("fact", stored.id)
    assert fact.state == fact.validity == "active"
    forever = await memory.store_fact("user", "born", "1970", permanence="permanent")
    (row,) = sql("SELECT decay_rate, next_review_at FROM facts WHERE id = ?", forever.id)
    assert row == {"decay_rate": 0.0, "next_review_at": None}


@pytest.mark.scenario("001-003", "001-019", "004-005")
async def test_a_rule_starts_as_a_candidate(memory, clock, sql):
    stored = await memory.store_rule("Answer in the language of the question", tags=["style"])
    assert stored.outcome == "stored"
    (row,) = sql("SELECT * FROM rules")
    assert (row["maturity"], row["confidence"], row["decay_rate"]) == ("candidate", 0.5, 0.01)
    assert (row["permanence"], row["scope"], row["tags"]) == ("standard", "global", ["style"])
    assert (row["effectiveness_score"], row["applied_count"], row["success_count"], row["harmful_count"]) == (
        0,
        0,
        0,
        0,
    )
    assert row["last_confirmed_at"] == clock.now
    for empty in ("source_episode_id", "source_butler", "last_applied_at", "last_evaluated_at", "last_referenced_at"):
        assert row[empty] is None
    stable = await memory.store_rule("Be brief", permanence="stable")
    assert (await memory.get("rule", stable.id)).decay_rate == 0.002


async def test_a_memory_of_any_kind_names_its_session(memory, sql):
    session = UUID(int=7)
    stored = {
        "episode": await memory.store_episode("tea was served", butler="b", session_id=session),
        "fact": await memory.store_fact("s", "p", "tea", session_id=str(session)),
        "rule": await memory.store_rule("offer tea", session_id=session),
    }
    for kind, answer in stored.items():
        assert (await memory.get(kind, answer.id)).session_id == session
    await memory.bind(user_id="u").store_fact("s", "p", "tea")
    await memory.store_fact("s", "p", "tea", session_id=UUID(int=8))
    found = {row["session_id"] for row in sql("SELECT session_id FROM facts")}
    assert found == {session, None}, "confirming is not creating"
    with pytest.raises(InvalidInput, match="session_id"):
        await memory.store_rule("offer tea", session_id="seven")


@pytest.mark.scenario("001-005", "001-017", "004-008")
async def test_a_new_value_supersedes_the_old_one(memory, sql):
    old = await memory.store_fact("user", "favorite_color", "green")
    new = await memory.store_fact("user", "favorite_color", "blue")
    assert (new.outcome, new.superseded_id) == ("superseded", old.id)
    assert (await memory.get("fact", old.id)).validity == "superseded"
    fact = await memory.get("fact", new.id)
    assert (fact.validity, fact.supersedes_id) == ("active", old.id)
    (link,) = await memory.get_links("fact", new.id)
    assert (link.source_id, link.target_id, link.relation) == (new.id, old.id, "supersedes")
    assert [hit.item.content for hit in await memory.search("favorite color", types=["fact"])] == ["blue"]
    assert len(sql("SELECT 1 FROM facts WHERE validity = 'active'")) == 1


@pytest.mark.scenario("001-017")
async def test_supersession_is_one_transaction(memory, sql, engine):
    old = await memory.store_fact("user", "favorite_color", "green")
    if engine == "sqlite":
        sql("CREATE TRIGGER refuse BEFORE INSERT ON memory_links BEGIN SELECT RAISE(ABORT, 'no'); END")
    else:
        sql("ALTER TABLE memory_links ADD CONSTRAINT no CHECK (false) NOT VALID")
    before = sql("SELECT count(*) AS n FROM memory_events")
    with pytest.raises(Exception, match="no"):
        await memory.store_fact("user", "favorite_color", "blue")
    assert (await memory.get("fact", old.id)).validity == "active"
    assert len(sql("SELECT 1 FROM facts")) == 1
    assert sql("SELECT count(*) AS n FROM memory_events") == before


@pytest.mark.scenario("004-009")
async def test_another_key_is_left_alone(memory, sql):
    kept = await memory.store_fact("user", "favorite_color", "green")
    for subject, predicate, scope in (
        ("user", "eye_color", "global"),
        ("anna", "favorite_color", "global"),
        ("user", "favorite_color", "health"),
    ):
        stored = await memory.store_fact(subject, predicate, "blue", scope=scope)
        assert (stored.outcome, stored.superseded_id) == ("stored", None)
    assert (await memory.get("fact", kept.id)).validity == "active"
    assert len(sql("SELECT 1 FROM facts WHERE validity = 'active'")) == 4


async def test_the_same_again_confirms(memory, clock):
    first = await memory.store_fact("user", "likes", "green tea")
    clock.advance(days=30)
    again = await memory.store_fact("user", "likes", "  Green TEA ")
    assert (again.id, again.outcome, again.superseded_id) == (first.id, "confirmed", None)
    fact = await memory.get("fact", first.id)
    assert (fact.last_confirmed_at, fact.content) == (clock.now, "green tea")
    assert [event.event_type for event in await memory.events("fact", first.id)] == ["fact_created", "fact_confirmed"]


async def test_a_note_is_skipped_when_it_is_there(memory, sql):
    first = await memory.store_note("The user takes the train", category="behavior")
    assert first.ref is not None and first.ref.startswith("fact_") and len(first.ref) == 13
    again = await memory.store_note("the USER takes the Train")
    assert (again.id, again.outcome, again.ref) == (first.id, "duplicate", first.ref)
    assert len(sql("SELECT 1 FROM facts")) == 1
    assert len(sql("SELECT 1 FROM memory_events")) == 1, "a skipped duplicate changes nothing"
    other = await memory.store_note("The user takes the bus", category="behavior")
    assert other.outcome == "stored", "an unkeyed fact has no slot to conflict in"
    fact = await memory.get("fact", first.ref)
    assert (fact.id, fact.subject, fact.predicate, fact.keyed, fact.type) == (
        first.id,
        "user",
        "behavior",
        False,
        "behavior",
    )
    with pytest.raises(InvalidInput, match="category"):
        await memory.store_note("x", category="gossip")


async def test_a_reference_is_unique_in_its_tenant(url, embedder, clock):
    class Clashing:
        """Ids whose last eight digits are the same every other time."""

        count = 0

        def __call__(self) -> UUID:
            self.count += 1
            return UUID(int=(self.count << 64) + self.count // 4)

    async with open_memory(url, embedder=embedder, clock=clock, ids=Clashing()) as memory:
        refs = [(await memory.store_note(f"note {number}")).ref for number in range(20)]
    assert len(set(refs)) == 20


async def test_two_users_do_not_share_a_slot(memory):
    anna, ben = memory.bind(user_id="anna"), memory.bind(user_id="ben")
    first = await anna.store_fact("user", "favorite_color", "green")
    second = await ben.store_fact("user", "favorite_color", "blue")
    assert second.outcome == "stored"
    assert (await memory.get("fact", first.id)).validity == "active"
    assert [hit.item.content for hit in await anna.search("color")] == ["green"]
    assert await anna.get("fact", second.id) is None
    assert not await anna.forget("fact", second.id)
    assert {hit.item.content for hit in await memory.search("color")} == {"green", "blue"}


async def test_a_binding_wins_over_arguments(memory):
    work = memory.bind(project="atlas", scope="work")
    stored = await work.store_fact("user", "role", "lead", scope="elsewhere", project="other")
    fact = await memory.get("fact", stored.id)
    assert (fact.scope, fact.project) == ("work", "atlas")
    await memory.store_fact("user", "role", "guest", scope="home")
    assert [hit.item.content for hit in await work.search("role", scope="home")] == ["lead"]


@pytest.mark.scenario("001-018")
async def test_an_entity_must_exist(memory, sql):
    unknown = UUID(int=999)
    with pytest.raises(ValueError, match=f"entity_id: entity {unknown} does not exist"):
        await memory.store_fact("Anna", "works_at", "ACME", entity_id=unknown)
    assert sql("SELECT 1 FROM facts") == sql("SELECT 1 FROM memory_events") == []


@pytest.mark.scenario("001-005")
async def test_an_entity_is_the_key_when_given(memory, sql):
    entity, other = UUID(int=999), UUID(int=998)
    for id_, tenant in ((entity, "default"), (other, "someone-else")):
        sql(
            "INSERT INTO entities (tenant_id, id, canonical_name, folded_name, entity_type, created_at, updated_at)"
            " VALUES (?, ?, ?, 'anna', 'person', '2026-01-01', '2026-01-01')",
            tenant,
            id_,
            f"Anna {id_}",
        )
    plain = await memory.store_fact("Anna", "works_at", "ACME")
    first = await memory.store_fact("Anna", "works_at", "ACME", entity_id=entity)
    second = await memory.store_fact("A. Smith", "works_at", "Initech", entity_id=str(entity))
    assert (first.outcome, second.outcome, second.superseded_id) == ("stored", "superseded", first.id)
    assert (await memory.get("fact", first.id)).validity == "superseded"
    assert (await memory.get("fact", second.id)).supersedes_id == first.id
    assert (await memory.get("fact", plain.id)).validity == "active"
    theirs = await memory.bind(user_id="ben").store_fact("Anna", "works_at", "Hooli", entity_id=entity)
    assert theirs.outcome == "stored", "two users do not share a slot, with an entity or without"
    with pytest.raises(InvalidInput, match="entity_id"):
        await memory.store_fact("Anna", "works_at", "ACME", entity_id=other)


async def test_provenance_must_exist(memory):
    episode = await memory.store_episode("Anna said she moved", butler="b")
    fact = await memory.store_fact("Anna", "lives_in", "Rome", source_episode_id=episode.id, source_butler="b")
    assert (await memory.get("fact", fact.id)).source_episode_id == episode.id
    for store in (
        memory.store_rule("x", source_episode_id=UUID(int=77)),
        memory.store_fact("a", "b", "c", source_episode_id=UUID(int=77)),
    ):
        with pytest.raises(InvalidInput, match=r"source_episode_id: episode .* does not exist"):
            await store
    await memory.delete("episode", episode.id)
    assert (await memory.get("fact", fact.id)).source_episode_id is None


@pytest.mark.scenario("002-003")
async def test_a_project_memory_is_typed_titled_and_kept(memory, clock, sql):
    stored = await memory.store_episode(
        "Tokens expired too early", butler="coder", type="bugfix", title="Fix login", project="atlas", tags=["auth"]
    )
    assert stored.expires_at is None
    episode = await memory.get("episode", stored.id)
    assert (episode.type, episode.title, episode.project, list(episode.tags)) == (
        "bugfix",
        "Fix login",
        "atlas",
        ["auth"],
    )
    assert episode.created_at == episode.updated_at == episode.accessed_at == clock.now
    assert [hit.item.id for hit in await memory.search("login", mode="keyword")] == [stored.id], "the title is indexed"
    assert [hit.item.id for hit in await memory.search("tokens expired", mode="semantic")] == [stored.id]


async def test_an_episode_is_classified_and_still_expires(memory):
    stored = await memory.store_episode("Fixed the crash on start", butler="coder")
    assert stored.expires_at is not None
    assert (await memory.get("episode", stored.id)).type == "bugfix"


async def store_secrets(memory):
    await memory.store_episode(
        "login <private>API_KEY=secret123</private> ok",
        butler="b",
        title="t <private>secret123",
        tags=["x<private>secret123</private>"],
        metadata={"k": "<private>secret123</private>"},
    )
    await memory.store_fact("me <private>secret123</private>", "p", "v <private>secret123")
    await memory.store_rule("act <private>secret123</private> well")
    built = "<pri<private>x</private>vate>secret123</private>"
    details = {"title": f"t{built}", "tags": [f"b{built}"], "metadata": {built: [built]}}
    await memory.store_episode(f"a{built}", butler="b", **details)
    await memory.store_fact(f"you {built}", "p", f"w {built}")
    await memory.store_rule(f"act {built} better")
    await administer(memory).verify()


@pytest.mark.scenario("002-014")
async def test_private_text_reaches_no_file(memory, path):
    await store_secrets(memory)
    for file in path.parent.iterdir():
        assert b"secret123" not in file.read_bytes()


@pytest.mark.scenario("002-014")
async def test_private_text_reaches_no_table(memory, sql):
    await store_secrets(memory)
    for table in ("episodes", "facts", "rules", "memory_events"):
        rows = sql(f"SELECT * FROM {table}")
        assert rows and "secret123" not in repr(rows)
    assert (await memory.search("login", mode="keyword"))[0].item.content == "login  ok"


async def test_batches_are_whole_or_not_at_all(memory, sql):
    stored = await memory.store_episodes([NewEpisode(content=f"event {n}", butler="b") for n in range(5)])
    assert len({answer.id for answer in stored}) == 5
    rules = await memory.store_rules([NewRule(content="a"), NewRule(content="b", scope="x")])
    assert [answer.outcome for answer in rules] == ["stored", "stored"]
    facts = await memory.store_facts(
        [
            NewFact(subject="a", predicate="p", content="1"),
            NewFact(subject="a", predicate="p", content="2"),
            NewFact(subject="a", predicate="p", content="2"),
            NewFact(content="free"),
            NewFact(content="FREE"),
        ]
    )
    assert [answer.outcome for answer in facts] == ["stored", "superseded", "confirmed", "stored", "duplicate"]
    before = sql("SELECT count(*) AS n FROM memory_events")
    with pytest.raises(InvalidInput, match="content"):
        await memory.store_episodes([NewEpisode(content="fine", butler="b"), NewEpisode(content=" ", butler="b")])
    with pytest.raises(InvalidInput, match="source_episode_id"):
        await memory.store_facts([NewFact(content="fine"), NewFact(content="bad", source_episode_id=UUID(int=404))])
    assert sql("SELECT count(*) AS n FROM memory_events") == before
    assert await memory.store_facts([]) == await memory.store_rules([]) == await memory.store_episodes([]) == []


RATES = {"permanent": 0.0, "stable": 0.002, "standard": 0.008, "volatile": 0.03, "ephemeral": 0.1}


@pytest.mark.scenario("001-014", "004-013")
@pytest.mark.parametrize(("permanence", "rate"), RATES.items())
async def test_a_memory_is_stored_with_the_rate_of_its_permanence(memory, sql, permanence, rate):
    fact = await memory.store_fact("user", "likes", "tea", permanence=permanence)
    note = await memory.store_note("tea is liked", permanence=permanence)
    rule = await memory.store_rule("offer tea", permanence=permanence)
    for kind, stored in (("fact", fact), ("fact", note), ("rule", rule)):
        item = await memory.get(kind, stored.id)
        assert (item.permanence, item.decay_rate) == (permanence, rate)
    for table, count in (("facts", 2), ("rules", 1)):
        kept = [{"permanence": permanence, "decay_rate": rate}] * count
        assert sql(f"SELECT permanence, decay_rate FROM {table}") == kept


@pytest.mark.scenario("001-015")
@pytest.mark.parametrize("permanence", ["super_permanent", "", "Standard", 5])
async def test_storing_with_an_unknown_permanence_names_the_levels(memory, sql, permanence):
    offers = (
        memory.store_fact("user", "likes", "tea", permanence=permanence),
        memory.store_note("tea is liked", permanence=permanence),
        memory.store_rule("offer tea", permanence=permanence),
    )
    for offer in offers:
        with pytest.raises(ValueError, match=r"permanence: .*ephemeral, permanent, stable, standard, volatile"):
            await offer
    for table in ("facts", "rules", "memory_events"):
        assert sql(f"SELECT 1 FROM {table}") == []


async def test_half_a_key_is_no_key(memory):
    with pytest.raises(InvalidInput, match="predicate: is missing"):
        await memory.store_facts([NewFact(subject="a", content="x")])


@pytest.mark.parametrize("config", [MemoryModuleConfig(episode_ttl_days=None), MemoryModuleConfig(episode_ttl_days=1)])
async def test_the_time_to_live_is_configured(memory, clock, config):
    stored = await memory.store_episode("x", butler="b")
    days = config.episode_ttl_days
    assert stored.expires_at == (None if days is None else clock.now + timedelta(days=days))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"importance": 11}, "importance"),
        ({"confidence": 1.5}, "confidence"),
        ({"permanence": "eternal"}, "permanence"),
        ({"scope": ""}, "scope"),
        ({"tags": "a"}, "tags"),
        ({"metadata": []}, "metadata"),
        ({"entity_id": "nobody"}, "entity_id"),
        ({"subject": None}, "subject"),
        ({"predicate": "\x00"}, "predicate"),
        ({"content": None}, "content"),
        ({"occurred_at": "today"}, "occurred_at"),
    ],
)
async def test_a_bad_fact_is_refused_by_field(memory, sql, arguments, field):
    with pytest.raises(InvalidInput) as refused:
        await memory.store_fact(**{"subject": "s", "predicate": "p", "content": "c", **arguments})
    assert refused.value.field == field
    assert isinstance(refused.value, ValueError)
    assert sql("SELECT 1 FROM facts") == sql("SELECT 1 FROM memory_events") == []
