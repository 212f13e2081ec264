"""Entities: made, found by name, changed, and two made one."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from uuid import UUID

import asyncpg
import pytest
from administration import administer
from postgres_server import Server
from postgres_stores import Stores

from tulving import Caller, open_memory
from tulving.bootstrap import copy_store
from tulving.domain.model import NewFact
from tulving.domain.resolution import similarity, trigrams
from tulving.errors import InvalidInput
from tulving.interfaces import wire
from tulving.interfaces.mcp.tools import tool
from tulving.services import entities as verbs
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig
from tulving.testing import SequentialIds, WordEmbedder

NOBODY = UUID(int=999)


async def make(memory, name: str, *aliases: str, type: str = "person", **metadata: object) -> UUID:
    made = await memory.create_entity(name, type, aliases=list(aliases), metadata=metadata)
    return made.entity_id


async def found(memory, name: str, **options: object) -> list[tuple[str, str, float]]:
    return [(each.canonical_name, each.name_match, each.score) for each in await memory.resolve_entity(name, **options)]


@pytest.fixture
def postgres_url(postgres_stores: Stores) -> Iterator[str]:
    """A store of our own, for what SQLite has no counterpart of."""
    url = postgres_stores.take()
    yield url
    postgres_stores.give_back(url)


# -- the registry ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-061")
async def test_an_entity_is_a_row_with_its_names(memory, clock, sql):
    id_ = await make(memory, " Anna Smith ", "Annie", "A. Smith", born=1990)
    entity = await memory.get_entity(str(id_))
    assert (entity.id, entity.tenant_id, entity.canonical_name, entity.entity_type) == (
        id_,
        "default",
        "Anna Smith",
        "person",
    )
    assert (list(entity.aliases), entity.metadata, entity.merged_into) == (["Annie", "A. Smith"], {"born": 1990}, None)
    assert entity.created_at == entity.updated_at == clock.now
    (row,) = sql("SELECT * FROM entities")
    assert (row["tenant_id"], row["id"], row["folded_name"]) == ("default", id_, "anna smith")
    (event,) = sql("SELECT event_type, entity_type, entity_id, payload FROM memory_events")
    assert event == {
        "event_type": "entity_created",
        "entity_type": "entity",
        "entity_id": id_,
        "payload": {"aliases": 2},
    }
    plain = await memory.get_entity(await make(memory, "Rome", type="place"))
    assert (list(plain.aliases), plain.metadata) == ([], {})
    assert await memory.get_entity(NOBODY) is None


ODD_ALIASES = ['a "quoted" one', "comma, comma", "{braces}", "back\\slash", "it's", "NULL", "a:b", "Ä, Ö", "100 %_!"]


@pytest.mark.scenario("001-061")
async def test_aliases_are_a_list_of_texts_whatever_is_in_them(memory, engine, sql, url, new_url, tmp_path):
    id_ = await make(memory, "Anna", *ODD_ALIASES)
    await make(memory, "Bob")
    assert (await memory.get_entity(id_)).aliases == ODD_ALIASES
    for alias in ODD_ALIASES:
        found = await memory.resolve_entity(alias)
        assert [(each.entity_id, each.name_match) for each in found] == [(id_, "alias")], alias
    if engine == "postgres":
        kind = "SELECT format_type(atttypid, atttypmod) AS kind, attnotnull AS required FROM pg_attribute"
        where = " WHERE attrelid = 'entities'::regclass AND attname = 'aliases'"
        assert sql(kind + where) == [{"kind": "text[]", "required": True}]
        assert sql("SELECT id FROM entities WHERE 'comma, comma' = ANY (aliases)") == [{"id": id_}]
    else:
        (row,) = sql("SELECT aliases ->> 1 AS alias FROM entities WHERE id = ?", id_)
        assert row == {"alias": "comma, comma"}
    await memory.export(tmp_path / "a.jsonl")
    target = new_url()
    assert (await copy_store(url, target, config=MemoryModuleConfig())).differences == []
    async with open_memory(new_url(), embedder=WordEmbedder(), background=False) as other:
        await other.import_(tmp_path / "a.jsonl")
        assert (await other.get_entity(id_)).aliases == ODD_ALIASES


@pytest.mark.scenario("001-062")
async def test_a_name_and_type_is_there_once(memory, sql):
    first = await make(memory, "Anna")
    with pytest.raises(ValueError, match=f"canonical_name: there is already an entity .*{first}"):
        await make(memory, "Anna")
    assert len(sql("SELECT 1 FROM memory_events")) == 1
    for name, type_ in (("Anna", "organization"), ("anna", "person"), ("Anna ß", "person")):
        await make(memory, name, type=type_)
    assert await make(memory.bind(caller=Caller("other")), "Anna") != first


async def test_of_two_that_make_the_same_at_once_one_is_told(memory, sql):
    made = await asyncio.gather(*(make(memory, "Anna") for _ in range(8)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in made) == ["InvalidInput"] * 7 + ["UUID"]
    assert len(sql("SELECT 1 FROM entities")) == len(sql("SELECT 1 FROM memory_events")) == 1


@pytest.mark.scenario("001-063")
async def test_a_type_is_one_of_four(memory):
    with pytest.raises(ValueError, match="entity_type: 'robot' is not known; allowed: organization, other, person, pl"):
        await make(memory, "R2", type="robot")
    with pytest.raises(ValueError, match="entity_type"):
        await memory.resolve_entity("R2", entity_type="robot")


@pytest.mark.scenario("001-064")
async def test_an_update_replaces_names_and_adds_details(memory, clock):
    id_ = await make(memory, "Anna", "Annie", "Nan", city="Rome", born=1990)
    began = clock.now
    clock.advance(days=1)
    changed = await memory.update_entity(id_, canonical_name="Anna Smith", aliases=["Ann"], metadata={"city": "Oslo"})
    assert changed == await memory.get_entity(id_)
    assert (changed.canonical_name, list(changed.aliases)) == ("Anna Smith", ["Ann"])
    assert changed.metadata == {"city": "Oslo", "born": 1990}
    assert (changed.created_at, changed.updated_at) == (began, clock.now)
    assert await found(memory, "anna smith") == [("Anna Smith", "exact", 100.0)]
    assert await found(memory, "nan") == []
    clock.advance(days=1)
    untouched = await memory.update_entity(str(id_))
    assert (untouched.canonical_name, list(untouched.aliases), untouched.metadata) == (
        "Anna Smith",
        ["Ann"],
        changed.metadata,
    )
    assert untouched.updated_at == clock.now
    assert list((await memory.update_entity(id_, aliases=[])).aliases) == []
    assert await memory.update_entity(NOBODY, canonical_name="x") is None


async def test_a_name_can_be_changed_to_a_free_one_only(memory, sql):
    anna, ben = await make(memory, "Anna"), await make(memory, "Ben")
    with pytest.raises(InvalidInput, match=f"canonical_name: there is already .*{anna}"):
        await memory.update_entity(ben, canonical_name="Anna")
    assert (await memory.update_entity(ben, canonical_name="Ben")).canonical_name == "Ben"
    assert (await memory.update_entity(ben, canonical_name="BEN")).canonical_name == "BEN"
    assert [row["event_type"] for row in sql("SELECT event_type FROM memory_events ORDER BY seq")] == [
        "entity_created",
        "entity_created",
        "entity_updated",
        "entity_updated",
    ]


async def test_a_change_is_published(memory):
    seen = []
    memory.subscribe(seen.extend)
    one, two = await make(memory, "a"), await make(memory, "b")
    await memory.update_entity(one, metadata={"k": 1})
    await memory.update_entity(NOBODY, metadata={"k": 1})
    await memory.merge_entities(one, two)
    assert [event.event_type for event in seen] == [
        "entity_created",
        "entity_created",
        "entity_updated",
        "entity_merge",
    ]


async def test_a_request_that_is_repeated_is_done_once(memory, sql, clock):
    def asking(request: str):
        return memory.bind(idempotency_key=request)

    first = await asking("1").create_entity("Bob", "person")
    assert await asking("1").create_entity("Bob", "person") == first
    robert = await make(memory, "Robert")
    await asking("2").update_entity(robert, metadata={"city": "Rome"})
    clock.advance(days=1)
    await memory.update_entity(robert, metadata={"city": "Oslo"})
    again = await asking("2").update_entity(robert, metadata={"city": "Rome"})
    assert again.metadata == {"city": "Oslo"}, "a late repetition undoes nothing"
    merged = await asking("3").merge_entities(first.entity_id, robert)
    assert await asking("3").merge_entities(first.entity_id, robert) == merged
    assert len(sql("SELECT 1 FROM memory_events")) == 5
    with pytest.raises(InvalidInput, match="idempotency_key: '3' was used before, for another call of merge_entities"):
        await asking("3").merge_entities(robert, first.entity_id)


async def test_private_text_is_no_name(memory, sql):
    await make(
        memory, "Anna <private>secret123</private>", "Nan<private>secret123", note="<private>secret123</private>"
    )
    assert "secret123" not in repr(sql("SELECT * FROM entities"))
    assert await found(memory, "anna <private>x</private>") == [("Anna", "exact", 100.0)]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"canonical_name": ""}, "canonical_name"),
        ({"canonical_name": " \t"}, "canonical_name"),
        ({"canonical_name": None}, "canonical_name"),
        ({"canonical_name": 7}, "canonical_name"),
        ({"canonical_name": "a\x00b"}, "canonical_name"),
        ({"canonical_name": "a\ud800"}, "canonical_name"),
        ({"canonical_name": "a\nb"}, "canonical_name"),
        ({"canonical_name": "x" * 1001}, "canonical_name"),
        ({"canonical_name": "x" * 1_000_000}, "canonical_name"),
        ({"canonical_name": "東" * 1000}, "canonical_name"),
        ({"canonical_name": "\ufdfa" * 200}, "canonical_name"),
        ({"entity_type": None}, "entity_type"),
        ({"entity_type": ["person"]}, "entity_type"),
        ({"aliases": "Annie"}, "aliases"),
        ({"aliases": [""]}, "aliases"),
        ({"aliases": ["a", 7]}, "aliases"),
        ({"aliases": ["a\ud800"]}, "aliases"),
        ({"aliases": ["x" * 1_000_000]}, "aliases"),
        ({"aliases": [str(n) for n in range(1001)]}, "aliases"),
        ({"aliases": {"a": 1}}, "aliases"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"merged_into": "x"}}, "metadata"),
        ({"metadata": {"x": float("nan")}}, "metadata.x"),
        ({"tenant_id": "other"}, "tenant_id"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"tenant_id": None}, "tenant_id"),
        ({"tenant_id": ["default"]}, "tenant_id"),
    ],
)
async def test_a_bad_entity_is_refused_by_field(memory, sql, arguments, field):
    with pytest.raises(InvalidInput) as refused:
        await memory.create_entity(**{"canonical_name": "Anna", "entity_type": "person", **arguments})
    assert refused.value.field == field
    assert len(str(refused.value)) < 500
    assert sql("SELECT 1 FROM entities") == sql("SELECT 1 FROM memory_events") == []
    if field != "entity_type" and None not in arguments.values():
        id_ = await make(memory, "Ben")
        with pytest.raises(InvalidInput) as refused:
            await memory.update_entity(id_, **arguments)
        assert refused.value.field == field
        assert len(sql("SELECT 1 FROM memory_events")) == 1


async def test_the_longest_names_are_kept_and_found(memory):
    for name in ("x" * 999, "ab" * 499, "東京" * 400, "\ufdfa" * 40, "'; -- \\ \" % _ ! $1 :id {}", "İıſK"):
        id_ = await make(memory, name, name[::-1] + "?", "y" * 1000)
        assert (await memory.resolve_entity(name))[0].entity_id == id_
        assert (await memory.resolve_entity(name[::-1] + "?"))[0].entity_id == id_
        assert id_ in {each.entity_id for each in await memory.resolve_entity(name, enable_fuzzy=True)}
    many = await make(memory, "Many", *(f"alias {n} " + "z" * 900 for n in range(1000)))
    assert await found(memory, "ALIAS 77 " + "Z" * 900) == [("Many", "alias", 80.0)]
    assert len((await memory.get_entity(many)).aliases) == 1000


# -- resolution --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-065", "001-066", "001-067", "001-071", "001-072")
async def test_the_tiers_in_their_order(memory):
    ids = {
        "Sam": await make(memory, "Sam"),
        "Samuel Beckett": await make(memory, "Samuel Beckett", "SAM"),
        "Samantha": await make(memory, "Samantha"),
        "Uncle Bob": await make(memory, "Uncle Bob", "Old Samson"),
        "Ben": await make(memory, "Ben"),
    }
    candidates = await memory.resolve_entity(" sAm ")
    assert [(each.canonical_name, each.name_match, each.score) for each in candidates] == [
        ("Sam", "exact", 100.0),
        ("Samuel Beckett", "alias", 80.0),
        ("Samantha", "prefix", 50.0),
        ("Uncle Bob", "prefix", 50.0),
    ]
    assert [each.entity_id for each in candidates] == [ids[each.canonical_name] for each in candidates]
    assert {"entity_id", "canonical_name", "entity_type", "score", "name_match", "aliases"} <= set(
        wire.wire(candidates[0])
    )
    assert list(candidates[1].aliases) == ["SAM"]
    assert await found(memory, "Zoe") == []
    assert len(await memory.resolve_entity("e")) == len(await memory.resolve_entity("e", limit=None)) == 3
    assert len(await memory.resolve_entity("e", limit=2)) == 2


@pytest.mark.scenario("001-072")
@pytest.mark.parametrize("name", ["", " ", "\t\n", "\x00", "\ud800", "<private>Anna</private>"])
async def test_an_empty_name_has_no_candidates(memory, sql, name):
    await make(memory, "Anna")
    assert await memory.resolve_entity(name, enable_fuzzy=True) == []
    assert len(sql("SELECT 1 FROM entities")) == 1


@pytest.mark.parametrize("letter", ["%", "_", "!", "\\", '"', "'", "[", "]", ",", "*", "?", "^", "-", ":"])
async def test_no_letter_is_a_wildcard(memory, letter):
    await make(memory, "Anna", "Annie")
    assert await found(memory, letter) == []
    assert await found(memory, f"A{letter}a") == []
    await make(memory, f"100{letter}5", f"so{letter}So")
    assert await found(memory, f"0{letter}5") == [(f"100{letter}5", "prefix", 50.0)]
    assert await found(memory, f"SO{letter}so") == [(f"100{letter}5", "alias", 80.0)]
    assert await found(memory, f"O{letter}s") == [(f"100{letter}5", "prefix", 50.0)]


@pytest.mark.parametrize(
    ("name", "alias", "asked"),
    [
        ("Straße", "Größe", "STRASSE"),
        ("Ελλάς", "x", "ΕΛΛΆΣ"),
        ("José", "x", "JOSE\u0301"),
        ("x", "Strauß", "strauss"),
        ("x", "ÉMILE", "émile"),
        ("x", "\u212aelvin", "kelvin"),
        ("x", "IAN", "ian"),
        ("x", "ＦＵＬＬ", "full"),
        ("x", "東京タワー", "東京タワー"),
        ("x", "Anna  Maria", "anna maria"),
    ],
)
async def test_case_is_folded_alike_on_every_engine(memory, name, alias, asked):
    await make(memory, name, alias)
    ((_, way, _),) = await found(memory, asked)
    assert way == ("alias" if name == "x" else "exact")
    ((_, way, _),) = await found(memory, asked[:2])
    assert way == "prefix"


async def test_only_one_type_may_be_asked_for(memory):
    await make(memory, "Paris")
    await make(memory, "Paris", type="place")
    assert [each.entity_type for each in await memory.resolve_entity("paris", entity_type="place")] == ["place"]
    assert len(await memory.resolve_entity("paris")) == 2


@pytest.mark.scenario("001-068")
@pytest.mark.usefixtures("fuzzy")
async def test_similar_names_are_found_when_asked_for(memory):
    await make(memory, "Katherine Johnson")
    await make(memory, "Bob", "Kathrin Jonson")
    await make(memory, "Zo")
    assert await found(memory, "Kathrine Johnson") == []
    assert await found(memory, "Kathrine Johnson", enable_fuzzy=True) == [
        ("Katherine Johnson", "fuzzy", 20.0),
        ("Bob", "fuzzy", 20.0),
    ], "the most similar first"
    by_name = {each.canonical_name: each for each in await memory.resolve_entity("kathrine johnson", enable_fuzzy=True)}
    expected = similarity(trigrams("kathrine johnson"), "katherine johnson")
    assert by_name["Katherine Johnson"].similarity == round(expected, 4)
    assert await found(memory, "Zö", enable_fuzzy=True) == [], "two letters are too few"
    assert await found(memory, "Zoe", enable_fuzzy=True) == [("Zo", "fuzzy", 20.0)]
    assert await found(memory, "kath", enable_fuzzy=True) == [
        ("Bob", "prefix", 50.0),
        ("Katherine Johnson", "prefix", 50.0),
    ]


@pytest.mark.scenario("001-068")
@pytest.mark.usefixtures("fuzzy")
async def test_the_threshold_of_similarity_is_inclusive(memory):
    await make(memory, "abcwxyz")
    await make(memory, "abcxyz")
    assert await found(memory, "abcd", enable_fuzzy=True) == [("abcxyz", "fuzzy", 20.0), ("abcwxyz", "fuzzy", 20.0)]
    assert await found(memory, "abcdef", enable_fuzzy=True) == []


@pytest.mark.usefixtures("fuzzy")
async def test_similar_names_of_every_script(memory):
    for name in ("Владимир Набоков", "Nguyễn Văn An", "Ελευθερία", "東京都庁舎"):
        await make(memory, name)
    for asked, name in (
        ("владимер набоков", "Владимир Набоков"),
        ("nguyễn van an", "Nguyễn Văn An"),
        ("Ελευθερια", "Ελευθερία"),
        ("東京都庁", "東京都庁舎"),
    ):
        assert [each[0] for each in await found(memory, asked, enable_fuzzy=True)] == [name]


@pytest.mark.scenario("001-068")
async def test_without_pg_trgm_nothing_is_similar(postgres_url):
    raw = await asyncpg.connect(postgres_url)
    await raw.execute("DROP EXTENSION IF EXISTS pg_trgm")
    await raw.close()
    async with open_memory(postgres_url, embedder=WordEmbedder()) as memory:
        await make(memory, "Katherine")
        await make(memory, "Katherina", "Кэтрин")
        assert await found(memory, "Kathrine", enable_fuzzy=True) == []
        assert await found(memory, "katherine", enable_fuzzy=True) == [("Katherine", "exact", 100.0)]
        assert await found(memory, "kath", enable_fuzzy=True) == [
            ("Katherina", "prefix", 50.0),
            ("Katherine", "prefix", 50.0),
        ]


@pytest.mark.scenario("001-068")
@pytest.mark.usefixtures("fuzzy")
async def test_the_similarity_is_that_of_pg_trgm(postgres_url):
    random = Random(7)
    pieces = ["an", "na", "smi", "th", "joh", "son", "É", "ö", "ß", "ска", "я", "東", "京", "λό", "9", "42", "X"]
    joints = ["", "", "", " ", "-", "_", "'", "  ", ".", "%", "—", "\t"]
    texts = [
        "".join(random.choice(pieces) + random.choice(joints) for _ in range(random.randint(0, 9))) for _ in range(6000)
    ]
    pairs = list(zip(texts, random.sample(texts, len(texts)), strict=True))
    pairs += [(text, text[:-2] + random.choice(pieces)) for text in texts]
    raw = await asyncpg.connect(postgres_url)
    rows = await raw.fetch(
        "SELECT similarity(a, b) AS s, a % b AS alike"
        " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS p (a, b, n) ORDER BY n",
        *map(list, zip(*pairs, strict=True)),
    )
    shown = await raw.fetchval("SELECT show_trgm('Anna-Maria O''Neil_2')")
    await raw.close()
    ours = [similarity(trigrams(a), b) for a, b in pairs]
    assert [row["alike"] for row in rows] == [each >= 0.3 for each in ours]
    assert [row["s"] for row in rows if row["alike"]] == pytest.approx([each for each in ours if each >= 0.3], abs=1e-6)
    assert sum(row["alike"] for row in rows) > 3000
    assert set(shown) == trigrams("Anna-Maria O'Neil_2")


@pytest.mark.parametrize(
    "locale",
    ["LOCALE_PROVIDER libc LOCALE 'C'", "LOCALE_PROVIDER libc LOCALE 'C.UTF-8'", "LOCALE_PROVIDER icu ICU_LOCALE 'tr'"],
)
@pytest.mark.usefixtures("fuzzy")
async def test_the_locale_of_the_server_does_not_count(postgres: Server, postgres_url: str, locale: str):
    name = f"{postgres_url.partition('?')[0].rpartition('/')[2]}_locale"
    raw = await asyncpg.connect(postgres_url)
    try:
        await raw.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' {locale}")
        await check_names(postgres.url(name))
    except asyncpg.FeatureNotSupportedError as error:
        pytest.skip(f"this server has no such locale: {error}")
    finally:
        await raw.execute(f"DROP DATABASE IF EXISTS {name}")
        await raw.close()


async def check_names(url: str) -> None:
    async with open_memory(url, embedder=WordEmbedder()) as memory:
        await make(memory, "Владимир", "ИРИНА", "Strauß")
        await make(memory, "IAN FLEMING", "ÉTÉ INDIEN")
        assert await found(memory, "владимер", enable_fuzzy=True) == [("Владимир", "fuzzy", 20.0)]
        assert await found(memory, "ирина") == await found(memory, "STRAUSS") == [("Владимир", "alias", 80.0)]
        assert await found(memory, "ian flemming", enable_fuzzy=True) == [("IAN FLEMING", "fuzzy", 20.0)]
        assert await found(memory, "été indian", enable_fuzzy=True) == [("IAN FLEMING", "fuzzy", 20.0)]


@pytest.mark.usefixtures("fuzzy")
async def test_both_engines_find_the_same(postgres_url, tmp_path, clock):
    """Whatever the letters: what SQL finds too much or too little of, one function in Python decides."""
    random = Random(11)
    letters = "aAnNiIsSßÉéİıΣςσкК東ﬁＡK%_!\\\"'[]{},:;*?-. 7①´"

    def word() -> str:
        return "".join(random.choice(letters) for _ in range(random.randint(1, 9)))

    names = {name: [word() + "x" for _ in range(random.randrange(3))] for _ in range(150) if (name := word().strip())}
    known = [name for entry in names.items() for name in (entry[0], *entry[1])]
    asked = [word() for _ in range(150)] + random.sample(known, 100)
    asked += [name.swapcase()[1:] for name in random.sample(known, 100)]
    asked += [name[:-1] + random.choice(letters) for name in random.sample(known, 100)]
    answers = []
    for url in (postgres_url, str(tmp_path / "memory.db")):
        async with open_memory(url, embedder=WordEmbedder(), clock=clock, ids=SequentialIds()) as memory:
            for name, aliases in names.items():
                await make(memory, name, *aliases)
            answers.append([await memory.resolve_entity(name, enable_fuzzy=True, limit=1000) for name in asked])
    assert answers[0] == answers[1]
    ways = {each.name_match for found in answers[0] for each in found}
    assert ways == {"exact", "alias", "prefix", "fuzzy"}


@pytest.mark.scenario("001-069")
async def test_facts_about_a_candidate_speak_for_it(memory):
    painter, plumber = await make(memory, "Anna", type="person"), await make(memory, "Anna", type="other")
    await memory.store_fact("Anna", "works_as", "painter in Rome", entity_id=painter)
    await memory.store_fact("Anna", "works_as", "plumber", entity_id=plumber)
    ranked = await memory.resolve_entity("anna", context_hints={"topic": "painter Rome"})
    assert [(each.entity_id, each.score) for each in ranked] == [(painter, 108.0), (plumber, 100.0)]
    ranked = await memory.resolve_entity("anna", context_hints={"mentioned_with": ["Works", "as PLUMBER"]})
    assert [(each.entity_id, each.score) for each in ranked] == [(plumber, 120.0), (painter, 106.6667)]
    assert {each.score for each in await memory.resolve_entity("anna", context_hints={"topic": "the and"})} == {100.0}
    assert {each.score for each in await memory.resolve_entity("anna", context_hints={})} == {100.0}


@pytest.mark.scenario("001-069")
async def test_facts_out_of_use_do_not_count_for_an_entity(memory, clock):
    anna = await make(memory, "Anna")
    gone = await memory.store_fact("Anna", "works_as", "painter", entity_id=anna)
    await memory.store_fact("Anna", "works_as", "plumber", entity_id=anna)
    await memory.store_facts([NewFact(content="sings", entity_id=anna)])
    assert (await memory.get("fact", gone.id)).validity == "superseded"
    (plain,) = await memory.resolve_entity("anna", context_hints={"topic": "painter"})
    (sings,) = await memory.resolve_entity("anna", context_hints={"topic": "sings"})
    assert (plain.score, sings.score) == (100.0, 104.0), "works, as, plumber, knowledge, sings"


@pytest.mark.scenario("001-069")
async def test_the_newest_500_facts_are_read(memory, clock):
    anna = await make(memory, "Anna")
    await memory.store_fact("Anna", "painter", "painter", entity_id=anna)
    clock.advance(seconds=1)
    await memory.store_facts(
        [NewFact(subject="Anna", predicate=f"p{n}", content=f"p{n}", entity_id=anna) for n in range(499)]
    )
    hints = {"topic": "painter"}
    assert [each.score for each in await memory.resolve_entity("anna", context_hints=hints)] == [100.04]
    clock.advance(seconds=1)
    await memory.store_fact("Anna", "one_more", "more", entity_id=anna)
    assert [each.score for each in await memory.resolve_entity("anna", context_hints=hints)] == [100.0]


async def test_the_facts_of_another_user_do_not_count(memory):
    anna = await make(memory, "Anna")
    ben, eve = memory.bind(user_id="ben"), memory.bind(user_id="eve")
    await ben.store_fact("Anna", "secret", "vault", entity_id=anna)
    hints = {"topic": "secret vault"}
    assert [each.score for each in await ben.resolve_entity("anna", context_hints=hints)] == [120.0]
    assert [each.score for each in await eve.resolve_entity("anna", context_hints=hints)] == [100.0]


@pytest.mark.scenario("001-070")
async def test_domain_scores_add_to_all_else_and_what_falls_to_zero_is_dropped(memory):
    painter, plumber, part = (
        await make(memory, "Anna"),
        await make(memory, "Bea", "Anna"),
        await make(memory, "Annabel"),
    )
    await memory.store_fact("Anna", "works_as", "painter", entity_id=painter)
    topic = {"topic": "works as painter"}

    async def scored(**scores):
        by_id = {str(id_): scores[name] for name, id_ in ids.items() if name in scores}
        ranked = await memory.resolve_entity("anna", context_hints={**topic, "domain_scores": by_id})
        names = {id_: name for name, id_ in ids.items()}
        return [(names[each.entity_id], each.score) for each in ranked]

    ids = {"painter": painter, "plumber": plumber, "part": part}
    assert await scored() == [("painter", 120.0), ("plumber", 80.0), ("part", 50.0)]
    assert await scored(painter=1.5, plumber=45, part=-10.25) == [
        ("plumber", 125.0),
        ("painter", 121.5),
        ("part", 39.75),
    ]
    assert await scored(painter=-119.9999, plumber=-80, part=-50.0001) == [("painter", 0.0001)]
    assert await scored(painter=-120, plumber=-1e300, part=1e300) == [("part", 1e300)]


@pytest.mark.scenario("001-070")
async def test_scores_from_elsewhere_are_added(memory, caplog):
    anna, ann, nan = await make(memory, "Anna"), await make(memory, "Ann"), await make(memory, "Annabel", "Anna")
    scores = {str(anna): -30.25, str(nan): 5, str(ann): "high", str(NOBODY): 7, "nonsense": 1}
    ranked = await memory.resolve_entity("anna", context_hints={"domain_scores": scores})
    assert [(each.entity_id, each.score) for each in ranked] == [(nan, 85.0), (anna, 69.75)]
    assert str(ann) in caplog.text
    caplog.clear()
    await memory.resolve_entity("anna", context_hints={"domain_scores": {"x\n2026-01-01 ERROR all is lost": "high"}})
    assert "x\\n2026" in caplog.messages[0] and "\n" not in caplog.messages[0]
    ranked = await memory.resolve_entity("anna", context_hints={"domain_scores": {anna: -100, nan: 0.00004}})
    assert [(each.entity_id, each.score) for each in ranked] == [(nan, 80.0)]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": None}, "name"),
        ({"name": 7}, "name"),
        ({"name": "x" * 1001}, "name"),
        ({"name": "x" * 1_000_000, "enable_fuzzy": True}, "name"),
        ({"context_hints": "tea"}, "context_hints"),
        ({"context_hints": {"topic": 7}}, "context_hints"),
        ({"enable_fuzzy": "yes"}, "enable_fuzzy"),
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": 2**31}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"tenant_id": "other"}, "tenant_id"),
    ],
)
async def test_a_bad_question_is_refused_by_field(memory, arguments, field):
    with pytest.raises(InvalidInput) as refused:
        await memory.resolve_entity(**{"name": "Anna", **arguments})
    assert refused.value.field == field


async def test_many_names_are_compared_elsewhere(memory, monkeypatch):
    monkeypatch.setattr(verbs, "MANY", 3)
    ids = [await make(memory, f"Anna {n}") for n in range(6)]
    hints = {"topic": "x", "domain_scores": {str(ids[5]): 1}}
    ranked = await memory.resolve_entity("anna", context_hints=hints, limit=4)
    assert [each.entity_id for each in ranked] == [ids[5], *ids[:3]]


@pytest.mark.scenario("001-071")
async def test_all_whom_a_name_may_mean_are_candidates(memory):
    """More than any limit, and the facts of each are read."""
    names = [f"Anna {n:04}" for n in range(1100)]
    for name in names:
        await make(memory, name)
    assert [each[0] for each in await found(memory, "anna")] == names
    last = (await memory.resolve_entity("anna 1099"))[0].entity_id
    await memory.store_fact("Anna", "works_as", "painter", entity_id=last)
    ranked = await found(memory, "anna", context_hints={"topic": "painter"})
    assert [each[0] for each in ranked] == ["Anna 1099", *names[:-1]]
    assert len(await memory.resolve_entity("anna", limit=1099)) == 1099


# -- merging -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-073", "001-075", "001-076", "001-077")
async def test_a_merge_moves_facts_and_names(memory, clock, sql):
    source = await make(memory, "Bob", "Bobby", "AL", city="Rome", age=40)
    target = await make(memory, "Robert", "Al", city="Oslo")
    fact = await memory.store_fact("Bob", "likes", "tea", entity_id=source)
    loose = (await memory.store_facts([NewFact(content="sings", entity_id=source)]))[0]
    kept = await memory.store_fact("Robert", "lives_in", "Oslo", entity_id=target)
    clock.advance(hours=1)
    merged = await memory.merge_entities(str(source), target)
    assert wire.wire(merged) == {
        "target_entity_id": str(target),
        "source_entity_id": str(source),
        "facts_repointed": 2,
        "facts_superseded": 0,
        "aliases_added": 2,
    }
    for stored in (fact, loose, kept):
        moved = await memory.get("fact", stored.id)
        assert (moved.entity_id, moved.validity) == (target, "active")
    now = await memory.get_entity(target)
    assert list(now.aliases) == ["Al", "Bob", "Bobby"]
    assert now.metadata == {"city": "Oslo", "age": 40}
    assert now.updated_at == clock.now
    gone = await memory.get_entity(source)
    assert (gone.merged_into, gone.metadata["merged_into"]) == (target, str(target))
    assert (gone.updated_at, gone.created_at) == (clock.now, clock.now - timedelta(hours=1))
    (event,) = sql("SELECT * FROM memory_events WHERE event_type = 'entity_merge'")
    assert (event["entity_type"], event["entity_id"]) == ("entity", target)
    assert event["payload"] == wire.wire(merged)
    assert [each.entity_id for each in await memory.resolve_entity("bob")] == [target]
    assert [each.entity_id for each in await memory.resolve_entity("rome", enable_fuzzy=True)] == []


@pytest.mark.scenario("001-074")
@pytest.mark.parametrize(("ours", "theirs", "source_wins"), [(0.9, 0.8, True), (0.8, 0.8, False), (0.7, 0.8, False)])
async def test_of_two_facts_in_one_slot_the_surer_stays(memory, sql, ours, theirs, source_wins):
    source, target = await make(memory, "Bob"), await make(memory, "Robert")
    mine = (await memory.store_fact("Bob", "lives_in", "Rome", entity_id=source, confidence=ours)).id
    other = (await memory.store_fact("Robert", "lives_in", "Oslo", entity_id=target, confidence=theirs)).id
    await memory.store_fact("Bob", "lives_in", "Bonn", entity_id=source, scope="work")
    merged = await memory.merge_entities(source, target)
    assert (merged.facts_superseded, merged.facts_repointed) == (1, 2 if source_wins else 1)
    winner, loser = (mine, other) if source_wins else (other, mine)
    kept, lost = await memory.get("fact", winner), await memory.get("fact", loser)
    assert (kept.validity, kept.supersedes_id, kept.entity_id) == ("active", loser, target)
    assert (lost.validity, lost.supersedes_id, lost.entity_id, lost.next_review_at) == (
        "superseded",
        None,
        target,
        None,
    )
    (link,) = await memory.get_links("fact", winner)
    assert (link.source_id, link.target_id, link.relation) == (winner, loser, "supersedes")
    assert [event.event_type for event in await memory.events("fact", loser)] == ["fact_created", "fact_superseded"]
    assert sql("SELECT 1 FROM facts WHERE entity_id = ?", source) == []
    assert {hit.item.content for hit in await memory.search("lives in")} == {"Bonn", "Rome" if source_wins else "Oslo"}


async def test_users_do_not_conflict(memory):
    source, target = await make(memory, "Bob"), await make(memory, "Robert")
    mine = await memory.bind(user_id="ann").store_fact("Bob", "likes", "tea", entity_id=source)
    other = await memory.bind(user_id="eve").store_fact("Bob", "likes", "beer", entity_id=target)
    assert (await memory.merge_entities(source, target)).facts_superseded == 0
    for stored in (mine, other):
        fact = await memory.get("fact", stored.id)
        assert (fact.validity, fact.entity_id) == ("active", target)


async def test_what_is_no_longer_true_moves_too(memory, sql):
    source, target = await make(memory, "Bob"), await make(memory, "Robert")
    old = await memory.store_fact("Bob", "likes", "tea", entity_id=source)
    new = await memory.store_fact("Bob", "likes", "beer", entity_id=source)
    retracted = await memory.store_fact("Bob", "fears", "cats", entity_id=source)
    await memory.forget("fact", retracted.id)
    await memory.store_fact("Bob", "fears", "dogs", entity_id=target)
    merged = await memory.merge_entities(source, target)
    assert (merged.facts_repointed, merged.facts_superseded) == (3, 0)
    for stored, validity in ((old, "superseded"), (new, "active"), (retracted, "retracted")):
        fact = await memory.get("fact", stored.id)
        assert (fact.entity_id, fact.validity) == (target, validity)
    assert (await memory.get("fact", new.id)).supersedes_id == old.id


@pytest.mark.scenario("001-073", "001-077")
async def test_each_fact_that_is_repointed_has_its_own_event(memory, clock, sql):
    source, target = await make(memory, "Bob"), await make(memory, "Robert")
    moved = [(await memory.store_fact("Bob", f"p{n}", "tea", entity_id=source)).id for n in range(3)]
    retracted = (await memory.store_fact("Bob", "fears", "cats", entity_id=source)).id
    await memory.forget("fact", retracted)
    lost = (await memory.store_fact("Bob", "lives_in", "Rome", entity_id=source, confidence=0.5)).id
    won = (await memory.store_fact("Bob", "works_as", "painter", entity_id=source, confidence=0.9)).id
    kept = (await memory.store_fact("Robert", "lives_in", "Oslo", entity_id=target)).id
    ousted = (await memory.store_fact("Robert", "works_as", "plumber", entity_id=target, confidence=0.5)).id
    heard = []
    memory.subscribe(heard.extend)
    clock.advance(hours=1)
    merged = await memory.merge_entities(source, target)
    assert (merged.facts_repointed, merged.facts_superseded) == (5, 2)
    repointed = [event for event in heard if event.event_type == "fact_repointed"]
    assert {event.entity_id for event in repointed} == {*moved, retracted, won}
    assert [event.event_type for event in heard if event.entity_id in (lost, ousted)] == ["fact_superseded"] * 2
    assert kept not in {event.entity_id for event in heard}
    for event in repointed:
        assert (event.entity_type, event.occurred_at, event.payload) == (
            "fact",
            clock.now,
            {"source_entity_id": str(source), "target_entity_id": str(target), "by": "entity_merge"},
        )
        assert (await memory.events("fact", event.entity_id))[-1].id == event.id
    assert heard[-1].event_type == "entity_merge"
    assert [row["id"] for row in sql("SELECT id FROM memory_events ORDER BY seq")][-len(heard) :] == [
        event.id for event in heard
    ]
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("001-074")
@pytest.mark.parametrize("source_wins", [True, False])
async def test_a_winner_keeps_what_it_superseded_before(memory, source_wins):
    source, target = await make(memory, "Bob"), await make(memory, "Robert")
    side, other = (source, target) if source_wins else (target, source)
    first = (await memory.store_fact("Bob", "lives_in", "Bonn", entity_id=side)).id
    winner = (await memory.store_fact("Bob", "lives_in", "Rome", entity_id=side)).id
    loser = (await memory.store_fact("Bob", "lives_in", "Oslo", entity_id=other, confidence=0.5)).id
    await memory.merge_entities(source, target)
    assert (await memory.get("fact", winner)).supersedes_id == first
    linked = {(link.target_id, link.relation) for link in await memory.get_links("fact", winner, "outgoing")}
    assert linked == {(first, "supersedes"), (loser, "supersedes")}
    assert (await memory.get("fact", loser)).state == "superseded"
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("001-078")
async def test_a_merge_needs_two_that_are_there(memory, sql):
    bob, robert, rob = await make(memory, "Bob"), await make(memory, "Robert"), await make(memory, "Rob")
    theirs = await make(memory.bind(caller=Caller("other")), "Bob")
    await memory.merge_entities(bob, robert)
    before = sql("SELECT * FROM entities ORDER BY id"), sql("SELECT 1 FROM memory_events")
    for source, target, message in (
        (rob, rob, "target_entity_id: is the source itself"),
        (rob, str(rob).upper(), "target_entity_id: is the source itself"),
        (bob, rob, f"source_entity_id: the entity {bob} was merged into {robert}"),
        (rob, bob, f"target_entity_id: the entity {bob} was merged into {robert}"),
        (bob, robert, "source_entity_id"),
        (NOBODY, rob, f"source_entity_id: there is no entity {NOBODY}"),
        (rob, NOBODY, "target_entity_id"),
        (theirs, rob, "source_entity_id"),
        (rob, theirs, "target_entity_id"),
        ("Bob", rob, "source_entity_id: 'Bob' is not an id"),
        (rob, None, "target_entity_id"),
    ):
        with pytest.raises(ValueError, match=message):
            await memory.merge_entities(source, target)
    with pytest.raises(InvalidInput, match="tenant_id"):
        await memory.merge_entities(rob, robert, tenant_id="other")
    assert (sql("SELECT * FROM entities ORDER BY id"), sql("SELECT 1 FROM memory_events")) == before


async def test_a_tombstone_is_not_used_again(memory):
    bob, robert = await make(memory, "Bob"), await make(memory, "Robert")
    await memory.merge_entities(bob, robert)
    with pytest.raises(InvalidInput, match=f"entity_id: entity {bob} was merged into {robert}"):
        await memory.store_fact("Bob", "likes", "tea", entity_id=bob)
    with pytest.raises(InvalidInput, match=f"entity_id: the entity {bob} was merged into {robert}"):
        await memory.update_entity(bob, metadata={"k": 1})
    with pytest.raises(InvalidInput, match=f"{bob}, which was merged into {robert}"):
        await make(memory, "Bob")


async def test_merges_may_follow_each_other(memory):
    first, second, third = [await make(memory, name) for name in ("A1", "A2", "A3")]
    fact = await memory.store_fact("A", "likes", "tea", entity_id=first)
    await memory.merge_entities(first, second)
    await memory.merge_entities(second, third)
    assert (await memory.get("fact", fact.id)).entity_id == third
    assert list((await memory.get_entity(third)).aliases) == ["A2", "A1"]
    assert (await memory.get_entity(first)).merged_into == second


async def test_a_merge_is_done_or_not(memory, sql, engine):
    source, target = await make(memory, "Bob", "Bobby"), await make(memory, "Robert")
    await memory.store_fact("Bob", "likes", "tea", entity_id=source, confidence=0.9)
    await memory.store_fact("Bob", "likes", "beer", entity_id=target, confidence=0.5)
    if engine == "sqlite":
        sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON memory_events WHEN new.event_type = 'entity_merge'"
            " BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    else:
        sql("ALTER TABLE memory_events ADD CONSTRAINT no CHECK (event_type <> 'entity_merge')")
    tables = ("entities", "facts", "memory_links", "memory_events")
    before = [sql(f"SELECT * FROM {table}") for table in tables]
    with pytest.raises(Exception, match="no"):
        await memory.merge_entities(source, target)
    assert [sql(f"SELECT * FROM {table}") for table in tables] == before


async def test_an_entity_of_another_tenant_does_not_exist(memory):
    other = memory.bind(caller=Caller("other"))
    theirs = await make(other, "Anna")
    assert await memory.get_entity(theirs) is None
    assert await memory.update_entity(theirs, canonical_name="Mine") is None
    assert await memory.resolve_entity("anna", enable_fuzzy=True) == []
    with pytest.raises(InvalidInput, match="does not exist"):
        await memory.store_fact("Anna", "likes", "tea", entity_id=theirs)
    assert (await other.get_entity(theirs)).canonical_name == "Anna"


async def test_the_tenant_may_be_named_if_it_is_ones_own(memory):
    acme = memory.bind(caller=Caller("acme"))
    for tenant in ("acme", "default"):
        made = await acme.create_entity(f"Anna {tenant}", "person", tenant_id=tenant)
        entity = await acme.get_entity(made.entity_id, tenant_id=tenant)
        assert entity.tenant_id == "acme"
        assert len(await acme.resolve_entity(f"anna {tenant}", tenant_id=tenant)) == 1
    with pytest.raises(InvalidInput, match="tenant_id: the entities of another tenant can't be read"):
        await acme.get_entity(made.entity_id, tenant_id="bolt")
    assert await memory.resolve_entity("anna") == []


# -- at the same time --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-079")
async def test_merges_at_the_same_time_take_turns(memory, sql):
    """Every pair both ways, at once: each entity is merged once at most, and facts end with one that is alive."""
    ids = [await make(memory, f"Bob {n}") for n in range(6)]
    await memory.store_facts(
        [
            NewFact(subject="Bob", predicate=f"p{n % 4}", content=f"c{at}", entity_id=id_, confidence=n / 8)
            for at, id_ in enumerate(ids)
            for n in range(4)
        ]
    )
    pairs = [(a, b) for a in ids for b in ids if a != b]
    done = await asyncio.gather(*(memory.merge_entities(*pair) for pair in pairs), return_exceptions=True)
    assert {type(each).__name__ for each in done} == {"EntitiesMerged", "InvalidInput"}
    assert len([each for each in done if not isinstance(each, Exception)]) == 5
    (alive,) = sql("SELECT id, aliases FROM entities WHERE merged_into IS NULL")
    assert len(alive["aliases"]) == 5
    active = sql("SELECT entity_id, predicate FROM facts WHERE validity = 'active'")
    assert sorted(row["predicate"] for row in active) == ["p0", "p1", "p2", "p3"]
    assert {row["entity_id"] for row in sql("SELECT entity_id FROM facts")} == {alive["id"]}


@pytest.mark.scenario("001-079")
async def test_a_fact_that_is_stored_during_a_merge_is_not_lost(memory, sql):
    """Either it was there before and moved, or it is refused: never is it left with the tombstone."""
    for turn in range(10):
        source, target = await make(memory, f"Bob {turn}"), await make(memory, f"Robert {turn}")
        stores = [
            memory.store_facts(
                [
                    NewFact(subject="Bob", predicate=f"p{n % 3}", content=f"{n}", entity_id=first),
                    NewFact(subject="Bob", predicate=f"p{n % 3}", content=f"{n}", entity_id=second),
                ]
            )
            for n in range(6)
            for first, second in ((source, target) if n % 2 else (target, source),)
        ]
        stores[3:3] = [memory.merge_entities(source, target)]
        done = await asyncio.gather(*stores, return_exceptions=True)
        assert not isinstance(done[3], Exception), done[3]
        assert all(isinstance(each, list | InvalidInput | type(done[3])) for each in done), done
        assert sql("SELECT id FROM facts WHERE entity_id = ?", source) == []
    slots = sql("SELECT entity_id, predicate, COUNT(*) AS n FROM facts WHERE validity = 'active' GROUP BY 1, 2")
    assert {row["n"] for row in slots} == {1}


@pytest.mark.scenario("001-079")
async def test_both_rows_are_locked_during_a_merge(postgres_url):
    """Seen from outside: while another transaction holds either row, a merge waits; it then goes by what it finds."""
    async with open_memory(postgres_url, embedder=WordEmbedder()) as memory:
        source, target = await make(memory, "Bob"), await make(memory, "Robert")
        raw = await asyncpg.connect(postgres_url)
        for held in (source, target):
            async with raw.transaction():
                await raw.execute("UPDATE entities SET metadata = '{\"seen\": true}' WHERE id = $1", held)
                merging = asyncio.create_task(memory.merge_entities(source, target))
                await asyncio.sleep(0.3)
                assert not merging.done()
                merging.cancel()
                await asyncio.gather(merging, return_exceptions=True)
        async with raw.transaction():
            await raw.execute("SELECT 1 FROM entities WHERE id = $1 FOR UPDATE", source)
            await raw.execute("UPDATE entities SET merged_into = $1 WHERE id = $2", target, source)
            merging = asyncio.create_task(memory.merge_entities(source, target))
            storing = asyncio.create_task(memory.store_fact("Bob", "likes", "tea", entity_id=source))
            await asyncio.sleep(0.3)
        with pytest.raises(InvalidInput, match="was merged into"):
            await merging
        with pytest.raises(InvalidInput, match="was merged into"):
            await storing
        await raw.close()


# -- tools -------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-085")
def test_the_tools_have_the_specified_parameters():
    specified = {
        "entity_create": {"canonical_name", "entity_type", "tenant_id", "aliases", "metadata"},
        "entity_get": {"entity_id", "tenant_id"},
        "entity_update": {"entity_id", "tenant_id", "canonical_name", "aliases", "metadata"},
        "entity_resolve": {"name", "tenant_id", "entity_type", "context_hints", "enable_fuzzy"},
        "entity_merge": {"source_entity_id", "target_entity_id", "tenant_id"},
    }
    for name, parameters in specified.items():
        operation = OPERATIONS[name]
        made = tool(operation, MemoryModuleConfig())
        properties = made.input_schema["properties"]
        assert operation.standard and parameters <= set(properties), name
        assert properties["tenant_id"]["default"] == "default"
    properties = tool(OPERATIONS["entity_resolve"], MemoryModuleConfig()).input_schema["properties"]
    assert properties["enable_fuzzy"]["default"] is False
    assert properties["entity_type"]["enum"] == ["person", "organization", "place", "other"]
    required = {name: tool(OPERATIONS[name], MemoryModuleConfig()).input_schema["required"] for name in specified}
    assert required["entity_create"] == ["canonical_name", "entity_type"]
    assert required["entity_resolve"] == ["name"]


async def test_answers_are_plain_json(memory):
    created = await memory.create_entity("Bob", "person", aliases=["Bobby"])
    robert = await make(memory, "Robert")
    assert wire.answer(OPERATIONS["entity_create"], created) == {"entity_id": str(created.entity_id)}
    shown = wire.answer(OPERATIONS["entity_get"], await memory.get_entity(created.entity_id))["entity"]
    assert (shown["id"], shown["aliases"], shown["merged_into"]) == (str(created.entity_id), ["Bobby"], None)
    assert "folded_name" not in shown
    assert wire.answer(OPERATIONS["entity_get"], await memory.get_entity(NOBODY)) == {"entity": None}
    found = wire.answer(OPERATIONS["entity_resolve"], await memory.resolve_entity("bob"))
    assert found["candidates"][0]["entity_id"] == str(created.entity_id)
    merged = wire.answer(OPERATIONS["entity_merge"], await memory.merge_entities(created.entity_id, robert))
    assert json.loads(json.dumps(merged))["target_entity_id"] == str(robert)
