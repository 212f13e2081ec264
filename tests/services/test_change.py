"""Change over time: spellings of one slot, facts that arrive late, and what held on a past day."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from administration import administer

from tulving import Caller, InvalidInput, NewFact, open_memory
from tulving.domain.scope import Filter
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.storage import edits, items
from tulving.testing import SequentialIds


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def lives(memory, content, since=None, **more):
    return await memory.store_fact("Anna", "lives_in", content, occurred_at=since, **more)


async def told(memory, **more):
    """The history of where Anna lives, as content and state."""
    return [(fact.content, fact.state) for fact in await memory.history("anna", "lives in", **more)]


async def held(memory, moment, kind="fact", state=None):
    wanted = Filter(as_of=moment, state=state)
    found = await memory._read(items.listing, memory.caller.tenant_id, kind, wanted, memory.now(), 100, None)
    return sorted(item.content for item in found)


# -- spellings -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-017", "004-008")
@pytest.mark.parametrize(
    ("subject", "predicate"),
    [
        ("anna", "favorite drink"),
        ("ANNA", "Favorite-Drink"),
        (" Anna ", "favorite__drink"),
        ("Ａｎｎａ", "FAVORITE_DRINK"),
    ],
)
async def test_another_spelling_is_the_same_slot(memory, sql, subject, predicate):
    first = await memory.store_fact("Anna", "favorite_drink", "tea")
    again = await memory.store_fact(subject, predicate, "TEA")
    assert (again.id, again.outcome) == (first.id, "confirmed")
    second = await memory.store_fact(subject, predicate, "coffee")
    assert (second.outcome, second.superseded_id) == ("superseded", first.id)
    rows = sql("SELECT subject, predicate, validity FROM facts ORDER BY content DESC")
    assert rows == [
        {"subject": "Anna", "predicate": "favorite_drink", "validity": "superseded"},
        {"subject": subject.strip(), "predicate": predicate, "validity": "active"},
    ], "stored as given"
    for spelling in (("Anna", "favorite_drink"), (subject, predicate), ("aNNa", "favorite -_ drink")):
        assert [fact.content for fact in await memory.history(*spelling)] == ["tea", "coffee"]
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("004-009")
async def test_names_that_only_look_alike_have_slots_of_their_own(memory):
    for predicate in ("favorite_drink", "favoritedrink", "favorite.drink", "favorite_drinks", "İ", "i", "ı"):
        assert (await memory.store_fact("Anna", predicate, "tea")).outcome == "stored", predicate


async def test_an_entitys_slot_has_spellings_too(memory):
    entity = (await memory.create_entity("Anna", "person")).entity_id
    first = await memory.store_fact("Anna", "lives_in", "Rome", entity_id=entity)
    second = await memory.store_fact("Miss Anna", "Lives In", "Oslo", entity_id=entity)
    assert second.superseded_id == first.id
    assert (await memory.store_fact("Anna", "LIVES-IN", "Bonn")).outcome == "stored", "without the entity"


async def test_a_merge_compares_predicates_in_any_spelling(memory):
    source, target = [(await memory.create_entity(name, "person")).entity_id for name in ("Ann", "Anna")]
    weak = await memory.store_fact("Ann", "Lives-In", "Rome", entity_id=source, confidence=0.5, occurred_at=year(2020))
    strong = await memory.store_fact("Anna", "lives_in", "Oslo", entity_id=target, occurred_at=year(2022))
    merged = await memory.merge_entities(source, target)
    assert (merged.facts_superseded, merged.facts_repointed) == (1, 0)
    gone = await memory.get("fact", weak.id)
    assert (gone.validity, gone.ended_at, gone.entity_id) == ("superseded", year(2022), target)
    assert (await memory.get("fact", strong.id)).validity == "active"


async def test_a_batch_of_several_spellings_and_dates(memory):
    offers = [
        NewFact(subject=subject, predicate=predicate, content=content, occurred_at=since)
        for subject, predicate, content, since in [
            ("Anna", "lives_in", "Oslo", year(2022)),
            ("anna", "lives in", "Rome", year(2018)),
            ("ANNA", "Lives-In", "Paris", year(2020)),
            ("Anna", "lives_in", "oslo", year(2021)),
            ("Ben", "lives_in", "Oslo", year(2019)),
            ("anna", "LIVES IN", "Bonn", None),
            ("Anna", "lives_in", "Ulm", year(2023)),
        ]
    ]
    stored = await memory.store_facts(offers)
    outcomes = ["stored", "outdated", "outdated", "confirmed", "stored", "superseded", "outdated"]
    assert [answer.outcome for answer in stored] == outcomes
    assert [answer.superseded_by for answer in stored if answer.outcome == "outdated"] == [
        stored[0].id,
        stored[0].id,
        stored[5].id,
    ]
    past = await memory.history("anna", "lives_in")
    assert [(fact.content, fact.state) for fact in past] == [
        ("Rome", "superseded"),
        ("Paris", "superseded"),
        ("Oslo", "superseded"),
        ("Ulm", "superseded"),
        ("Bonn", "active"),
    ]
    assert [fact.ended_at for fact in past] == [year(2020), year(2021), year(2023), memory.now(), None]
    assert (await administer(memory).verify()).ok


@pytest.mark.parametrize("name", ["a\x00b", "\x00", "x" * 1001, "", " \t", 7])
async def test_bad_names_are_refused_by_field(memory, name):
    for field in ("subject", "predicate"):
        with pytest.raises(InvalidInput) as refused:
            await memory.store_fact(**{"subject": "Anna", "predicate": "likes", "content": "tea", field: name})
        assert refused.value.field == field
        with pytest.raises(InvalidInput) as refused:
            await memory.history(**{"subject": "Anna", "predicate": "likes", field: name})
        assert refused.value.field == field


async def test_a_name_that_folds_to_more_than_an_index_holds_is_refused_or_kept_as_it_is(memory, sql):
    """One letter of it folds to eighteen."""
    long = "\ufdfa" * 300
    with pytest.raises(InvalidInput, match="too long"):
        await memory.store_fact(long, "p", "tea")
    sql("INSERT INTO facts (tenant_id, subject, predicate, content) VALUES ('default', ?, 'P', 'tea')", long)
    await memory.embed_pending()
    (row,) = sql("SELECT folded_subject, folded_predicate FROM facts")
    assert row == {"folded_subject": long, "folded_predicate": "P"}
    assert (await memory.store_fact("Anna", "é" * 1000, "tea")).outcome == "stored"


# -- rows of other programs ------------------------------------------------------------------------------------

PLAIN = (
    "INSERT INTO facts (tenant_id, subject, predicate, content, created_at, updated_at)"
    " VALUES ('default', ?, ?, ?, ?, ?)"
)


@pytest.mark.scenario("004-001")
async def test_plain_rows_get_their_slot_when_they_are_completed(memory, sql, clock):
    stored = await memory.store_fact("anna", "lives in", "Oslo", occurred_at=year(2022))
    for predicate, content, since in (("lives_in", "Rome", year(2020)), ("Lives-In", "Paris", year(2024))):
        sql(PLAIN, "Anna", predicate, content, since, since)
    assert len((await memory.list_memories("fact")).items) == 3
    assert await memory.embed_pending() == 2
    past = await memory.history("anna", "lives_in")
    assert [(fact.content, fact.state) for fact in past] == [
        ("Rome", "superseded"),
        ("Oslo", "superseded"),
        ("Paris", "active"),
    ]
    assert past[1].ended_at == year(2024) and past[0].ended_at in (year(2022), year(2024))
    assert [link.source_id for link in await memory.get_links("fact", stored.id, "incoming")] == [past[2].id]
    types = [event.event_type for event in await memory.events("fact", stored.id)]
    assert types == ["fact_created", "fact_superseded"]
    assert await memory.embed_pending() == 0
    assert (await administer(memory).verify()).ok
    assert (await memory.store_fact("ANNA", "lives_in", "Bonn")).superseded_id == past[2].id


async def test_a_plain_row_is_in_its_slot_at_once_if_it_is_spelled_alike(memory, sql):
    sql(PLAIN, "Anna", "lives_in", "Rome", year(2020), year(2020))
    (plain,) = (await memory.list_memories("fact")).items
    assert [fact.id for fact in await memory.history("Anna", "lives_in")] == [plain.id]
    assert (await memory.store_fact("Anna", "lives_in", "Ulm", occurred_at=year(2019))).outcome == "outdated"
    assert (await memory.store_fact("Anna", "lives_in", "Oslo")).superseded_id == plain.id
    await memory.embed_pending()
    assert await told(memory) == [("Ulm", "superseded"), ("Rome", "superseded"), ("Oslo", "active")]


async def test_the_slots_of_many_tenants_and_more_rows_than_a_batch(memory, sql):
    """Another tenant may have rows with the same ids, by an import."""
    for number in range(40):
        for at, spelling in enumerate(("lives_in", "Lives In")):
            sql(
                "INSERT INTO facts (tenant_id, id, subject, predicate, content, created_at)"
                " VALUES (?, ?, ?, ?, 'Rome', ?)",
                f"t{number % 3}",
                UUID(int=number // 3 * 2 + at),
                f"s{number}",
                spelling,
                year(2020 + (at + number) % 2),
            )
    assert await administer(memory).embed_pending() == 80
    assert sql("SELECT 1 AS found FROM facts WHERE folded_predicate IS NULL OR folded_subject IS NULL") == []
    (row,) = sql("SELECT COUNT(*) AS active FROM facts WHERE validity = 'active'")
    assert row["active"] == 40
    assert sql("SELECT 1 AS found FROM facts WHERE validity = 'active' AND created_at < ?", year(2021)) == []
    assert (await administer(memory).verify()).ok


# -- what arrives late -----------------------------------------------------------------------------------------


async def test_an_older_fact_is_history_from_the_start(memory, clock):
    current = await lives(memory, "Oslo", year(2023))
    heard = []
    memory.subscribe(heard.extend)
    late = await lives(memory, "Rome", year(2020))
    assert (late.outcome, late.superseded_by, late.superseded_id) == ("outdated", current.id, None)
    fact = await memory.get("fact", late.id)
    assert (fact.validity, fact.next_review_at, fact.occurred_at, fact.ended_at) == (
        "superseded",
        None,
        year(2020),
        year(2023),
    )
    now = await memory.get("fact", current.id)
    assert (now.state, now.ended_at, now.supersedes_id) == ("active", None, None)
    assert [event.event_type for event in heard] == ["fact_created", "fact_superseded"]
    assert heard[1].payload == {"superseded_by": str(current.id)}
    (link,) = await memory.get_links("fact", late.id)
    assert (link.source_id, link.target_id, link.relation) == (current.id, late.id, "supersedes")
    for mode in ("keyword", "semantic", "hybrid"):
        found = [hit.item.content for hit in await memory.search("Anna lives in Rome Oslo", mode=mode)]
        assert "Oslo" in found and "Rome" not in found, mode
    assert await memory.count_pending() == 0, "it has its vector"
    assert (await administer(memory).verify()).ok


async def test_a_value_that_was_true_before_and_is_again(memory):
    rome = await lives(memory, "Rome", year(2020))
    oslo = await lives(memory, "Oslo", year(2023))
    again = await lives(memory, "Rome", year(2021))
    assert (again.id, again.outcome, again.superseded_by) == (rome.id, "outdated", oslo.id)
    fact = await memory.get("fact", rome.id)
    assert (fact.state, fact.occurred_at, fact.restated_at) == ("superseded", year(2020), year(2021))
    assert (await memory.events("fact", rome.id))[-1].payload == {"before": {"restated_at": None}}
    assert await held(memory, year(2022)) == ["Rome"]
    back = await lives(memory, "Rome")
    assert (back.outcome, back.superseded_id) == ("superseded", oslo.id)
    assert [content for content, _ in await told(memory)] == ["Rome", "Oslo", "Rome"]


async def test_telling_it_all_again_changes_nothing(memory, sql):
    dated = [
        ("Rome", year(2020)),
        ("Oslo", year(2023)),
        ("Ulm", year(2021)),
        ("Oslo", year(2022)),
        ("Rome", year(2024)),
    ]
    offers = [NewFact(subject="Anna", predicate="lives_in", content=name, occurred_at=since) for name, since in dated]
    await memory.store_facts(offers)
    rows = "SELECT id, content, occurred_at, ended_at, restated_at, validity FROM facts ORDER BY id"
    before = sql(rows)
    again = await memory.store_facts(offers)
    assert [answer.outcome for answer in again] == ["outdated"] * 4 + ["confirmed"]
    assert sql(rows) == before


async def test_a_repetition_for_an_earlier_time_moves_the_start_if_nothing_was_in_between(memory):
    rome = await lives(memory, "Rome", year(2010))
    oslo = await lives(memory, "Oslo", year(2020))
    again = await lives(memory, "Oslo", year(2015))
    assert (again.id, again.outcome) == (oslo.id, "confirmed")
    assert (await memory.get("fact", oslo.id)).occurred_at == year(2015)
    assert (await memory.get("fact", rome.id)).ended_at == year(2015)
    before = await lives(memory, "Oslo", year(2005))
    assert (before.outcome, before.superseded_by) == ("outdated", oslo.id)
    assert [await held(memory, year(when)) for when in (2004, 2005, 2012, 2016)] == [[], ["Oslo"], ["Rome"], ["Oslo"]]


async def test_a_repetition_for_a_later_time_keeps_the_start(memory):
    oslo = await lives(memory, "Oslo", year(2015))
    await lives(memory, "Oslo", year(2020))
    fact = await memory.get("fact", oslo.id)
    assert (fact.occurred_at, fact.restated_at) == (year(2015), year(2020))
    between = await lives(memory, "Rome", year(2018))
    assert (between.outcome, between.superseded_by) == ("outdated", oslo.id)
    past = await memory.history("Anna", "lives_in")
    assert [(fact.content, fact.occurred_at.year, fact.state) for fact in past] == [
        ("Oslo", 2015, "superseded"),
        ("Rome", 2018, "superseded"),
        ("Oslo", 2020, "active"),
    ]
    assert past[2].id == oslo.id, "the current one keeps its id"
    assert "fact_split" in [event.event_type for event in await memory.events("fact", oslo.id)]
    assert await memory.count_pending() == 1
    await memory.embed_pending()
    assert (await administer(memory).verify()).ok


async def test_what_is_said_without_a_date_is_about_now(memory, clock):
    await lives(memory, "Oslo", memory.now() + timedelta(days=900))
    assert (await lives(memory, "Rome")).outcome == "superseded", "a date in the future does not block the slot"
    clock.advance(days=-1)
    ulm = await lives(memory, "Ulm")
    assert ulm.outcome == "superseded", "nor does a clock that was ahead"
    assert (await lives(memory, "Ulm", year(2020))).id == ulm.id, "and what never held is not in between"


async def test_a_forgotten_fact_does_not_make_others_outdated(memory):
    oslo = await lives(memory, "Oslo", year(2023))
    await memory.forget("fact", oslo.id)
    assert (await lives(memory, "Rome", year(2020))).outcome == "stored"
    assert (await lives(memory, "Bonn", year(2019))).outcome == "outdated"
    assert (await memory.get("fact", oslo.id)).ended_at is None


async def test_two_memories_at_once_leave_one_active(memory, url, clock, embedder):
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        stores = [
            each.store_fact("Anna" if at % 2 else "ANNA", "lives_in" if at % 3 else "Lives In", f"city {at}", **dated)
            for at in range(24)
            for each, dated in [((memory, second)[at % 2], {"occurred_at": year(2000 + at)} if at % 4 else {})]
        ]
        await asyncio.gather(*stores)
    past = await told(memory)
    (active,) = [content for content, state in past if state == "active"]
    assert len(past) == 24 and int(active.split()[1]) % 4 == 0, "one of those that are true now"
    assert (await administer(memory).verify()).ok


async def test_slots_of_other_owners_scopes_and_tenants_are_left_alone(memory):
    first = await lives(memory, "Oslo", year(2023))
    others = [memory.bind(user_id="u"), memory.bind(scope="work"), memory.bind(caller=Caller("other"))]
    for other in others:
        assert (await lives(other, "Rome", year(2020))).outcome == "stored"
    assert (await memory.get("fact", first.id)).validity == "active"


# -- as of a past day ------------------------------------------------------------------------------------------


async def test_a_past_day_shows_what_held_then(memory, clock):
    for content, since in (("Rome", year(2018)), ("Oslo", year(2022)), ("Bonn", year(2020))):
        await lives(memory, content, since)
    days = {2017: [], 2018: ["Rome"], 2019: ["Rome"], 2020: ["Bonn"], 2021: ["Bonn"], 2022: ["Oslo"], 2025: ["Oslo"]}
    assert {when: await held(memory, year(when)) for when in days} == days
    assert await held(memory, year(2020) - timedelta(microseconds=1)) == ["Rome"]
    assert await held(memory, year(2021), state="any") == ["Bonn", "Rome"]
    past = [("Rome", "superseded"), ("Bonn", "superseded"), ("Oslo", "active")]
    assert await told(memory) == past
    assert await told(memory, as_of=year(2023)) == past
    assert await told(memory, as_of=year(2021)) == [("Rome", "superseded"), ("Bonn", "active")]
    assert await told(memory, as_of=year(2017)) == []
    (bonn,) = (await memory.history("anna", "lives in", as_of=year(2021)))[1:]
    assert bonn.ended_at is None
    with pytest.raises(InvalidInput, match="as_of"):
        await memory.history("anna", "lives in", as_of="2021")


async def test_what_a_person_forgot_or_deleted_is_not_shown_as_of_any_day(memory, clock):
    start = clock.now
    ids = {
        "fact": [(await lives(memory, content, since)).id for content, since in (("Rome", year(2020)), ("Oslo", None))],
        "rule": [(await memory.store_rule(content)).id for content in ("be kind", "be brief")],
        "episode": [(await memory.store_episode(content, butler="b")).id for content in ("a walk", "a talk")],
    }
    clock.advance(hours=1)
    for kind, (one, other) in ids.items():
        assert len(await held(memory, clock.now, kind, state="any")) == 2
        await memory.forget(kind, one)
        await memory.delete(kind, other)
        for moment in (year(2021), start, clock.now, clock.now + timedelta(days=1)):
            for state in (None, "any"):
                assert await held(memory, moment, kind, state) == [], (kind, moment)
    assert await told(memory, as_of=start) == []


async def test_what_decay_ended_held_before_unless_it_is_forgotten_later(memory, clock):
    fact, rule = (await lives(memory, "Rome")).id, (await memory.store_rule("be kind")).id
    before = clock.now
    clock.advance(days=800)
    await memory.run_decay_sweep()
    for kind, id_, content in (("fact", fact, "Rome"), ("rule", rule, "be kind")):
        assert (await memory.look(kind, id_)).ended_at == clock.now
        assert await held(memory, clock.now - timedelta(days=1), kind) == [content]
        assert await held(memory, clock.now, kind) == []
        assert await memory.confirm(kind, id_)
        assert (await memory.look(kind, id_)).ended_at is None
        assert await held(memory, clock.now, kind) == [content]
    clock.advance(days=800)
    await memory.run_decay_sweep()
    for kind, id_ in (("fact", fact), ("rule", rule)):
        assert await memory.forget(kind, id_)
        assert await held(memory, before, kind) == []
        assert (await memory.events(kind, id_))[-1].event_type == f"{kind}_forgotten"
        assert await memory.confirm(kind, id_) is False


async def test_an_episode_holds_from_when_it_happened_until_it_expires(memory, clock):
    await memory.store_episode("a walk", butler="b", occurred_at=year(2020))
    stored = await memory.store_episode("a talk", butler="b")
    assert await held(memory, year(2019), "episode") == []
    assert await held(memory, year(2021), "episode") == ["a walk"]
    assert await held(memory, clock.now, "episode") == ["a talk", "a walk"]
    assert await held(memory, stored.expires_at - timedelta(microseconds=1), "episode") == ["a talk", "a walk"]
    assert await held(memory, stored.expires_at, "episode") == []


async def test_the_other_filters_apply_to_the_past_too(memory):
    await lives(memory, "Rome", year(2020), tags=["x"], project="p")
    await lives(memory, "Oslo", year(2022))
    await memory.bind(user_id="u").store_fact("Ben", "lives_in", "Ulm", occurred_at=year(2020))

    async def found(of=memory, **wanted):
        asked = Filter(as_of=year(2021), **wanted)
        rows = await of._read(items.listing, "default", "fact", asked, of.now(), 9, None)
        return sorted(item.content for item in rows)

    assert await found() == ["Rome", "Ulm"]
    assert await found(owner=memory.bind(user_id="u").bound.owner) == ["Ulm"]
    assert await found(tags=["x"]) == await found(project="p") == ["Rome"]
    assert await found(since=year(2021)) == []
    assert await found(state="superseded") == ["Rome"]
    assert await found(unfaded=True) == ["Rome", "Ulm"]


async def test_a_memory_has_the_content_it_had_before_its_edits(memory, clock):
    ids = [
        ("fact", (await lives(memory, "Rome")).id),
        ("rule", (await memory.store_rule("be kind")).id),
        ("episode", (await memory.store_episode("a walk", butler="b")).id),
    ]
    times = [clock.now]
    for number in (1, 2):
        clock.advance(days=1)
        for kind, id_ in ids:
            await memory.edit(kind, id_, content=f"{kind} {number}", tags=[str(number)])
        times.append(clock.now)
    now = [await memory.look(kind, id_) for kind, id_ in ids]

    async def then(moment):
        return [item.content for item in await memory._read(edits.as_of, now, moment)]

    assert await then(year(2000)) == await then(times[0]) == ["Rome", "be kind", "a walk"]
    assert await then(times[1]) == ["fact 1", "rule 1", "episode 1"]
    assert await then(times[1] - timedelta(microseconds=1)) == ["Rome", "be kind", "a walk"]
    assert await memory._read(edits.as_of, now, times[2]) == now
    assert await memory._read(edits.as_of, [], times[0]) == []
    (fact, *_) = await memory._read(edits.as_of, now, times[0])
    assert (list(fact.tags), fact.id, fact.importance) == ([], now[0].id, 5.0)
    assert await told(memory, as_of=times[0]) == [("Rome", "active")]


async def test_a_rule_reads_as_it_did_before_it_became_a_warning(memory, clock):
    id_ = (await memory.store_rule("shout")).id
    before = clock.now
    clock.advance(days=1)
    for _ in range(3):
        await memory.mark_harmful(id_, "rude")
    warning = await memory.invert_rule(id_)
    assert warning.content.startswith("ANTI-PATTERN")
    (rule,) = await memory._read(edits.as_of, [warning], before)
    assert rule.content == "shout"


# -- what another program or an older version left -----------------------------------------------------------------


async def test_rows_that_overlap_do_not_stop_a_fact_that_arrives_late(memory, sql):
    oslo = await lives(memory, "Oslo", year(2020))
    await lives(memory, "Oslo", year(2025))
    sql(
        "INSERT INTO facts (tenant_id, subject, predicate, content, occurred_at, validity, ended_at)"
        " VALUES ('default', 'Anna', 'lives_in', 'Bonn', ?, 'superseded', ?)",
        year(2023),
        year(2026),
    )
    sql(
        "INSERT INTO facts (tenant_id, subject, predicate, content, occurred_at, validity)"
        " VALUES ('default', 'Anna', 'lives_in', 'Ulm', ?, 'superseded')",
        year(2022),
    )
    late = await lives(memory, "Rome", year(2024))
    assert (late.outcome, late.superseded_by) == ("outdated", oslo.id)
    rome = await memory.get("fact", late.id)
    assert (rome.occurred_at, rome.ended_at) == (year(2024), year(2025))
    assert (await lives(memory, "Kiel", year(2021))).outcome == "outdated"
    await memory.embed_pending()
    assert (await told(memory))[-1] == ("Oslo", "active")
    assert (await administer(memory).verify()).ok
