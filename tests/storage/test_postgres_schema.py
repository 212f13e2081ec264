"""The schema on PostgreSQL: every table, column, key and index as specified, and how it comes into a database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import asyncpg
import pytest
from administration import administer
from fault_parts import Children, everything, opened, problems, said
from postgres_server import Server
from raw_sql import in_thread, run_sql

from tulving.errors import SchemaTooNew, StoreUnavailable, TulvingError
from tulving.storage import rows
from tulving.storage.kinds import KIND, MEMORY_TABLES
from tulving.storage.migrations import postgres_script
from tulving.storage.postgres import schema
from tulving.storage.postgres.schema import VERSION_TABLE, prepare
from tulving.storage.schema import HEAD, REVISIONS
from tulving.testing import CLOSE, WordEmbedder

COLUMNS_OF = """
SELECT c.relname AS rel, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS kind, a.attnotnull AS required,
    pg_get_expr(d.adbin, d.adrelid) AS value, a.attstorage::text AS storage, a.attgenerated::text AS made,
    a.attidentity::text AS counted
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid AND c.relkind = 'r'
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped"""
CONSTRAINTS_OF = """
SELECT c.relname AS rel, k.conname AS name, k.contype::text AS kind, pg_get_constraintdef(k.oid) AS text,
    k.confdeltype::text AS deleting, k.convalidated AS valid,
    ARRAY(SELECT attname::text FROM unnest(k.conkey) WITH ORDINALITY AS x (num, place)
        JOIN pg_attribute ON attrelid = k.conrelid AND attnum = x.num ORDER BY place) AS names,
    ARRAY(SELECT attname::text FROM unnest(k.confkey) WITH ORDINALITY AS x (num, place)
        JOIN pg_attribute ON attrelid = k.confrelid AND attnum = x.num ORDER BY place) AS theirs,
    ARRAY(SELECT attname::text FROM unnest(k.confdelsetcols) AS x (num)
        JOIN pg_attribute ON attrelid = k.conrelid AND attnum = x.num) AS unset
FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid WHERE k.connamespace = 'public'::regnamespace"""
INDEXES_OF = """
SELECT t.relname AS rel, x.relname AS name, i.indisunique AS alone, i.indisvalid AS valid,
    split_part(pg_get_indexdef(x.oid), ' USING ', 2) AS text
FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid JOIN pg_class AS t ON t.oid = i.indrelid
WHERE t.relnamespace = 'public'::regnamespace"""
TRIGGERS_OF = """
SELECT c.relname AS rel, g.tgname AS name, pg_get_triggerdef(g.oid) AS text
FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid WHERE NOT g.tgisinternal"""


class Catalog:
    """What a database says of its own tables."""

    def __init__(self, url: str) -> None:
        self.columns = {(row["rel"], row["name"]): row for row in run_sql(url, COLUMNS_OF)}
        self.constraints = run_sql(url, CONSTRAINTS_OF)
        self.indexes = run_sql(url, INDEXES_OF)
        self.triggers = run_sql(url, TRIGGERS_OF)
        self.extensions = {row["name"] for row in run_sql(url, "SELECT extname AS name FROM pg_extension")}

    @property
    def tables(self) -> set[str]:
        return {table for table, _ in self.columns}

    def of(self, table: str, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.constraints if row["rel"] == table and row["kind"] == kind]

    def indexed(self, table: str) -> set[str]:
        return {row["text"] for row in self.indexes if row["rel"] == table}

    def sorted(self) -> list[Any]:
        """All of it, in an order, to be compared."""
        rows = [*self.columns.values(), *self.constraints, *self.indexes, *self.triggers]
        return sorted(map(repr, rows))


@pytest.fixture(scope="module")
def schema_url(postgres: Server, postgres_template: str) -> Iterator[str]:
    """A database with the schema as it is before an embedder has chosen another dimension. Not changed by the tests."""
    url = in_thread(postgres.create_database(template=postgres_template))
    yield url
    in_thread(postgres.drop_database(url))


@pytest.fixture(scope="module")
def catalog(schema_url: str) -> Catalog:
    return Catalog(schema_url)


class Undone(Exception):
    """So that nothing of it stays."""


@pytest.fixture
async def raw(schema_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection in a transaction that is rolled back."""
    raw = await asyncpg.connect(schema_url)
    try:
        async with raw.transaction():
            yield raw
            raise Undone
    except Undone:
        pass
    finally:
        await raw.close()


# -- tables ----------------------------------------------------------------------------------------------------

NOW = "now()"
COMMON = {
    "tenant_id": ("text", True, None),
    "id": ("uuid", True, "gen_random_uuid()"),
    "content": ("text", True, None),
    "embedding": ("vector(384)", False, None),
    "metadata": ("jsonb", True, "'{}'::jsonb"),
    "reference_count": ("integer", True, "0"),
    "created_at": ("timestamp with time zone", True, NOW),
    "last_referenced_at": ("timestamp with time zone", False, None),
    "session_id": ("uuid", False, None),
    "accessed_at": ("timestamp with time zone", True, NOW),
}
DECAYING = {
    "decay_rate": ("double precision", True, "0.01"),
    "permanence": ("text", True, "'standard'::text"),
    "scope": ("text", True, "'global'::text"),
    "tags": ("jsonb", True, "'[]'::jsonb"),
    "source_butler": ("text", False, None),
    "source_episode_id": ("uuid", False, None),
    "last_confirmed_at": ("timestamp with time zone", False, None),
}
SPECIFIED: dict[str, dict[str, tuple[str, bool, str | None]]] = {
    "episodes": COMMON
    | {
        "butler": ("text", True, None),
        "importance": ("double precision", True, "5.0"),
        "consolidated": ("boolean", True, "false"),
        "consolidation_status": ("text", True, "'pending'::text"),
        "consolidation_attempts": ("integer", True, "0"),
        "last_consolidation_error": ("text", False, None),
        "next_consolidation_retry_at": ("timestamp with time zone", False, None),
        "expires_at": ("timestamp with time zone", False, "(now() + '7 days'::interval)"),
    },
    "facts": COMMON
    | DECAYING
    | {
        "subject": ("text", True, None),
        "predicate": ("text", True, None),
        "importance": ("double precision", True, "5.0"),
        "confidence": ("double precision", True, "1.0"),
        "decay_rate": ("double precision", True, "0.008"),
        "validity": ("text", True, "'active'::text"),
        "supersedes_id": ("uuid", False, None),
        "entity_id": ("uuid", False, None),
    },
    "rules": COMMON
    | DECAYING
    | {
        "maturity": ("text", True, "'candidate'::text"),
        "confidence": ("double precision", True, "0.5"),
        "effectiveness_score": ("double precision", True, "0.0"),
        "applied_count": ("integer", True, "0"),
        "success_count": ("integer", True, "0"),
        "harmful_count": ("integer", True, "0"),
        "last_applied_at": ("timestamp with time zone", False, None),
        "last_evaluated_at": ("timestamp with time zone", False, None),
    },
    "memory_links": {
        "tenant_id": ("text", True, None),
        "source_type": ("text", True, None),
        "source_id": ("uuid", True, None),
        "target_type": ("text", True, None),
        "target_id": ("uuid", True, None),
        "relation": ("text", True, None),
        "created_at": ("timestamp with time zone", True, NOW),
    },
    "entities": {
        "tenant_id": ("text", True, None),
        "id": ("uuid", True, "gen_random_uuid()"),
        "canonical_name": ("text", True, None),
        "entity_type": ("text", True, None),
        "aliases": ("text[]", True, "'{}'::text[]"),
        "metadata": ("jsonb", True, "'{}'::jsonb"),
        "created_at": ("timestamp with time zone", True, NOW),
        "updated_at": ("timestamp with time zone", True, NOW),
    },
    "memory_events": {
        "tenant_id": ("text", True, None),
        "id": ("uuid", True, "gen_random_uuid()"),
        "seq": ("bigint", True, None),
        "event_type": ("text", True, None),
        "entity_type": ("text", True, None),
        "entity_id": ("uuid", False, None),
        "occurred_at": ("timestamp with time zone", True, NOW),
        "actor": ("text", False, None),
        "request_id": ("text", False, None),
        "payload": ("jsonb", True, "'{}'::jsonb"),
    },
}


@pytest.mark.scenario("001-001", "001-002", "001-003", "001-061", "001-106", "001-107", "001-108")
@pytest.mark.parametrize("table", SPECIFIED)
def test_a_table_has_the_columns_of_the_specification(catalog: Catalog, table: str) -> None:
    wrong = {}
    for name, expected in SPECIFIED[table].items():
        found = catalog.columns.get((table, name))
        seen = found and (found["kind"], found["required"], found["value"])
        if seen != expected:
            wrong[name] = seen
    assert not wrong


def test_a_column_is_read_as_the_type_that_it_has(catalog: Catalog) -> None:
    """SQLite has text for most of these: there only the name tells how a value is read."""
    read_as = {
        "timestamp with time zone": rows.TIMES,
        "uuid": rows.UUIDS,
        "boolean": rows.FLAGS,
        "jsonb": rows.DOCUMENTS,
        "text[]": rows.ARRAYS,
    }
    for (table, name), column in catalog.columns.items():
        found = {type_ for type_, names in read_as.items() if name in names}
        assert found == {column["kind"]} & read_as.keys(), f"{table}.{name}"


@pytest.mark.parametrize("kind", KIND)
def test_the_tables_have_the_columns_of_the_model(catalog: Catalog, kind: str) -> None:
    names = {name for table, name in catalog.columns if table == KIND[kind].table}
    assert names == {*KIND[kind].columns, "search_text", "search_vector", "embedding", "embedding_version"}


@pytest.mark.scenario("001-001", "001-002", "001-003", "004-002")
@pytest.mark.parametrize("table", MEMORY_TABLES)
def test_words_are_indexed_by_the_database_and_vectors_stay_in_the_row(catalog: Catalog, table: str) -> None:
    words = catalog.columns[table, "search_vector"]
    assert (words["kind"], words["made"]) == ("tsvector", "s")
    assert words["value"] == "to_tsvector('english'::regconfig, search_text)"
    assert catalog.columns[table, "embedding"]["storage"] == "p", "out of line it takes three times as long to compare"


OURS = ("tenant_id, content", "'t', 'c'")
LEAST = {
    "episodes": (f"{OURS[0]}, butler", f"{OURS[1]}, 'b'"),
    "facts": (f"{OURS[0]}, subject, predicate", f"{OURS[1]}, 's', 'p'"),
    "rules": OURS,
    "entities": ("tenant_id, canonical_name, folded_name, entity_type", "'t', 'Ada', 'ada', 'person'"),
    "memory_links": (
        "tenant_id, source_type, source_id, target_type, target_id, relation",
        "'t', 'fact', gen_random_uuid(), 'rule', gen_random_uuid(), 'supports'",
    ),
    "memory_events": ("tenant_id, event_type, entity_type", "'t', 'fact_created', 'fact'"),
    "sessions": ("tenant_id, started_at", "'t', now()"),
    "embedding_versions": ("model, version, dimension, status, created_at", "'m', '1', 8, 'retired', now()"),
}


async def insert(raw: asyncpg.Connection, table: str, **other: str) -> asyncpg.Record:
    """A row of only what must be given, and what the test gives, as SQL."""
    names, values = LEAST[table]
    named = dict(zip(names.split(", "), values.split(", "), strict=True)) | other
    row = await raw.fetchrow(
        f"INSERT INTO {table} ({', '.join(named)}) VALUES ({', '.join(named.values())}) RETURNING *"
    )
    assert row is not None
    return row


@pytest.mark.scenario("001-001", "001-002", "001-003", "004-001", "004-004", "004-005")
async def test_rows_inserted_by_hand_have_their_defaults(raw: asyncpg.Connection) -> None:
    now = await raw.fetchval("SELECT now()")
    episode = await insert(raw, "episodes")
    assert (episode["importance"], episode["consolidation_status"], episode["consolidated"]) == (5.0, "pending", False)
    assert (episode["consolidation_attempts"], episode["reference_count"], episode["metadata"]) == (0, 0, "{}")
    assert (episode["created_at"], (episode["expires_at"] - now).days) == (now, 7)
    fact = await insert(raw, "facts")
    assert (fact["importance"], fact["confidence"], fact["decay_rate"]) == (5.0, 1.0, 0.008)
    assert (fact["permanence"], fact["validity"], fact["scope"], fact["keyed"]) == (
        "standard",
        "active",
        "global",
        True,
    )
    assert (fact["tags"], fact["metadata"], fact["owner"]) == ("[]", "{}", "")
    rule = await insert(raw, "rules")
    assert (rule["maturity"], rule["confidence"], rule["effectiveness_score"]) == ("candidate", 0.5, 0.0)
    assert (rule["applied_count"], rule["success_count"], rule["harmful_count"]) == (0, 0, 0)
    for row in (episode, fact, rule):
        assert (row["content_hash"], row["search_text"], row["search_vector"], row["accessed_at"]) == (*[None] * 3, now)
    worded = await insert(raw, "rules", search_text="'w'")
    assert str(worded["search_vector"]) == "'w':1"
    assert len({episode["id"], fact["id"], rule["id"]}) == 3
    event = await insert(raw, "memory_events")
    assert (event["occurred_at"], event["payload"], event["actor"]) == (now, "{}", None)
    assert (await insert(raw, "memory_events"))["seq"] > event["seq"]


REFUSED = [
    ("episodes", "importance", "10.1"),
    ("episodes", "importance", "-0.1"),
    ("episodes", "importance", "'NaN'"),
    ("episodes", "consolidation_status", "'done'"),
    ("episodes", "tags", "'{}'"),
    ("episodes", "metadata", "'[]'"),
    ("episodes", "embedding_version", "1"),
    ("facts", "importance", "11"),
    ("facts", "confidence", "1.1"),
    ("facts", "confidence", "-1"),
    ("facts", "decay_rate", "-0.1"),
    ("facts", "permanence", "'forever'"),
    ("facts", "validity", "'fading'"),
    ("facts", "status", "'new'"),
    ("facts", "embedding_version", "1"),
    ("rules", "maturity", "'old'"),
    ("rules", "confidence", "2"),
    ("rules", "permanence", "''"),
    ("rules", "decay_rate", "-1"),
    ("memory_links", "relation", "'loves'"),
    ("memory_links", "source_type", "'entity'"),
    ("memory_links", "target_type", "'entity'"),
    ("entities", "entity_type", "'robot'"),
    ("entities", "aliases", "'{NULL}'"),
    ("memory_events", "payload", "'[]'"),
    ("sessions", "status", "'ended'"),
    ("embedding_versions", "dimension", "0"),
    ("embedding_versions", "status", "'old'"),
]


@pytest.mark.scenario("001-106", "001-107", "004-014")
@pytest.mark.parametrize(("table", "column", "value"), REFUSED)
async def test_the_database_refuses_what_has_no_meaning(
    raw: asyncpg.Connection, table: str, column: str, value: str
) -> None:
    await insert(raw, table)
    if table == "facts":
        value_of_key = {"subject": "'another'"}
    else:
        value_of_key = {"canonical_name": "'Bob'"} if table == "entities" else {}
    with pytest.raises(asyncpg.CheckViolationError):
        await insert(raw, table, **value_of_key, **{column: value})


# -- keys and indexes ------------------------------------------------------------------------------------------

OF_THE_STORE = {"embedding_versions", "jobs", VERSION_TABLE}
NOT_BY_TENANT = {"access_tokens_hash_key"}
"""A token is found by its secret before its tenant is known."""


def test_the_tenant_comes_first_in_every_key(catalog: Catalog) -> None:
    """So that nothing is unique, or refers to anything, beyond its tenant."""
    keys = [row for row in catalog.indexes if row["alone"] and row["rel"] not in OF_THE_STORE]
    assert len(keys) >= 14
    wrong = [row for row in keys if not row["text"].startswith(("btree (tenant_id, ", "btree (tenant_id)"))]
    assert {row["name"] for row in wrong} == NOT_BY_TENANT
    references = [row for row in catalog.constraints if row["kind"] == "f" and "embedding_version" not in row["names"]]
    assert len(references) == 11
    for row in references:
        assert row["names"][0] == row["theirs"][0] == "tenant_id", row["text"]
    for table in catalog.tables - OF_THE_STORE:
        (key,) = catalog.of(table, "p")
        assert key["names"][0] == "tenant_id", table


def test_everything_is_valid(catalog: Catalog) -> None:
    assert all(row["valid"] for row in (*catalog.constraints, *catalog.indexes))


@pytest.mark.scenario("001-002", "001-003", "001-107")
@pytest.mark.parametrize(
    ("table", "column", "deleting"),
    [
        ("facts", "source_episode_id", "n"),
        ("facts", "supersedes_id", "n"),
        ("facts", "entity_id", "r"),
        ("rules", "source_episode_id", "n"),
        ("settlements", "candidate_id", "c"),
        ("settlements", "existing_id", "c"),
        ("settlements", "merged_id", "c"),
        ("rule_applications", "rule_id", "c"),
        ("entities", "merged_into", "a"),
    ],
)
def test_what_becomes_of_a_reference(catalog: Catalog, table: str, column: str, deleting: str) -> None:
    """n: it is unset, and it alone, not the tenant; r: what it refers to must stay; c: it goes too."""
    (key,) = [row for row in catalog.of(table, "f") if column in row["names"]]
    assert (key["names"], key["theirs"], key["deleting"]) == (["tenant_id", column], ["tenant_id", "id"], deleting)
    assert key["unset"] == ([column] if deleting == "n" else [])
    assert "DEFERRABLE" in key["text"], "an import brings rows in any order"


@pytest.mark.scenario("001-002", "001-107")
async def test_references_hold(raw: asyncpg.Connection) -> None:
    episode, entity = (await insert(raw, "episodes"))["id"], (await insert(raw, "entities"))["id"]
    old = (await insert(raw, "facts"))["id"]
    await raw.execute("UPDATE facts SET validity = 'superseded'")
    fact = await insert(
        raw, "facts", source_episode_id=f"'{episode}'", entity_id=f"'{entity}'", supersedes_id=f"'{old}'"
    )
    rule = await insert(raw, "rules", source_episode_id=f"'{episode}'")
    for table, column, id_ in (
        ("facts", "source_episode_id", episode),
        ("facts", "supersedes_id", old),
        ("facts", "entity_id", entity),
        ("rules", "source_episode_id", episode),
    ):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            async with raw.transaction():
                await insert(raw, table, tenant_id="'another'", **{column: f"'{id_}'"})
    with pytest.raises((asyncpg.RestrictViolationError, asyncpg.ForeignKeyViolationError)):
        async with raw.transaction():
            await raw.execute("DELETE FROM entities")
    await raw.execute("DELETE FROM episodes")
    await raw.execute("DELETE FROM facts WHERE id = $1", old)
    left = await raw.fetchrow("SELECT * FROM facts WHERE id = $1", fact["id"])
    assert left is not None
    assert (left["tenant_id"], left["source_episode_id"], left["supersedes_id"]) == ("t", None, None)
    assert left["entity_id"] == entity
    left = await raw.fetchrow("SELECT tenant_id, source_episode_id FROM rules WHERE id = $1", rule["id"])
    assert left is not None and tuple(left) == ("t", None)


BY_VECTOR = "ivfflat (embedding vector_cosine_ops) WITH (lists='20')"
WORDS = {"gin (search_vector) WITH (fastupdate='on', gin_pending_list_limit='256')"}
INDEXES = {
    "episodes": WORDS
    | {
        "btree (tenant_id, butler, created_at DESC)",
        "btree (expires_at) WHERE (expires_at IS NOT NULL)",
        "btree (tenant_id, butler, created_at) WHERE (consolidation_status = 'pending'::text)",
    },
    "facts": WORDS
    | {
        "btree (tenant_id, scope, validity) WHERE (validity = 'active'::text)",
        "btree (tenant_id, subject, predicate)",
        "gin (tags)",
    },
    "rules": WORDS | {"btree (tenant_id, scope, maturity)"},
    "memory_links": {"btree (tenant_id, target_type, target_id)"},
    "entities": {
        "btree (tenant_id, canonical_name)",
        "btree (tenant_id, canonical_name, entity_type)",
        "gin (aliases)",
        "gin (metadata)",
    },
    "memory_events": {"btree (event_type, occurred_at DESC)", "btree (tenant_id, occurred_at DESC)"},
}


@pytest.mark.scenario("001-103", "001-104", "001-106", "001-107", "001-108", "004-015")
@pytest.mark.parametrize("table", INDEXES)
def test_a_table_has_the_indexes_of_the_specification(catalog: Catalog, table: str) -> None:
    """That of the vectors is built when a tenant is large enough to be searched by it."""
    assert INDEXES[table] - catalog.indexed(table) == set()
    assert not [text for text in catalog.indexed(table) if text.startswith("ivfflat")]


@pytest.mark.scenario("001-105", "004-010")
async def test_at_most_one_active_fact_has_a_key(catalog: Catalog, raw: asyncpg.Connection) -> None:
    unique = {row["text"] for row in catalog.indexes if row["rel"] == "facts" and row["alone"]}
    active = "(validity = 'active'::text)"
    names = [f"COALESCE(folded_{name}, {name})" for name in ("subject", "predicate")]
    assert {
        f"btree (tenant_id, entity_id, scope, owner, predicate) WHERE ({active} AND (entity_id IS NOT NULL) AND keyed)",
        f"btree (tenant_id, scope, owner, subject, predicate) WHERE ({active} AND (entity_id IS NULL) AND keyed)",
        f"btree (tenant_id, scope, owner, content_hash) WHERE ({active} AND (NOT keyed))",
        f"btree (tenant_id, entity_id, scope, owner, {names[1]})"
        f" WHERE ({active} AND (entity_id IS NOT NULL) AND keyed)",
        f"btree (tenant_id, scope, owner, {', '.join(names)}) WHERE ({active} AND (entity_id IS NULL) AND keyed)",
    } <= unique
    entity = f"'{(await insert(raw, 'entities'))['id']}'"
    both: list[dict[str, str]] = [{}, {"entity_id": entity}, {"keyed": "FALSE", "content_hash": "'h'"}]
    for key in both:
        await insert(raw, "facts", **key)
    for key in both:
        with pytest.raises(asyncpg.UniqueViolationError):
            async with raw.transaction():
                await insert(raw, "facts", **key)
        for other in ({"validity": "'superseded'"}, {"scope": "'x'"}, {"owner": "'x'"}):
            await insert(raw, "facts", **key, **other)
    await insert(raw, "facts", tenant_id="'another'")


@pytest.mark.scenario("001-106", "004-007")
async def test_a_link_is_there_once(catalog: Catalog, raw: asyncpg.Connection) -> None:
    (key,) = catalog.of("memory_links", "p")
    assert key["names"] == ["tenant_id", "source_type", "source_id", "target_type", "target_id"]
    first = await insert(raw, "memory_links")
    same = {name: f"'{first[name]}'" for name in ("source_id", "target_id")}
    with pytest.raises(asyncpg.UniqueViolationError):
        async with raw.transaction():
            await insert(raw, "memory_links", **same, relation="'contradicts'")
    await insert(raw, "memory_links", **same, tenant_id="'another'")


@pytest.mark.scenario("001-107")
async def test_an_entity_has_its_name_for_itself(catalog: Catalog, raw: asyncpg.Connection) -> None:
    assert ["tenant_id", "canonical_name", "entity_type"] in [key["names"] for key in catalog.of("entities", "u")]
    await insert(raw, "entities")
    await insert(raw, "entities", entity_type="'place'")
    await insert(raw, "entities", tenant_id="'another'")
    with pytest.raises(asyncpg.UniqueViolationError):
        await insert(raw, "entities")


@pytest.mark.scenario("001-108", "004-012")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memory_events SET actor = 'x'",
        "UPDATE memory_events SET actor = 'x' WHERE FALSE",
        "DELETE FROM memory_events",
        "TRUNCATE memory_events",
        "TRUNCATE memory_events CASCADE",
        "INSERT INTO memory_events (tenant_id, id, event_type, entity_type)"
        " SELECT tenant_id, id, 'x', 'x' FROM memory_events ON CONFLICT (tenant_id, id) DO UPDATE SET actor = 'x'",
        "MERGE INTO memory_events USING (VALUES (1)) AS x ON TRUE WHEN MATCHED THEN DELETE",
    ],
)
async def test_events_are_only_added(raw: asyncpg.Connection, change: str) -> None:
    await insert(raw, "memory_events")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await raw.execute(change)


# -- how it comes into a database ------------------------------------------------------------------------------


async def prepared(url: str) -> None:
    raw = await asyncpg.connect(url)
    try:
        await prepare(raw)
    finally:
        await raw.close()


def as_role(url: str, role: str) -> str:
    """The same database with the rights of a role, on any server that we are an administrator of."""
    return url + ("&" if "?" in url else "?") + urlencode({"role": role})


@pytest.fixture
def role(postgres: Server) -> Iterator[str]:
    """A role that may connect, and nothing else."""
    name = f"tulving_test_{uuid4().hex[:8]}"
    run_sql(postgres.url("postgres"), f"CREATE ROLE {name}")
    yield name
    run_sql(postgres.url("postgres"), f"DROP ROLE {name}")


@pytest.fixture
def with_role(role: str, postgres: Server) -> Iterator[Callable[..., str]]:
    """Makes databases in which a role may have some rights; dropped before the role."""
    made: list[str] = []

    def new(template: str | None = None) -> str:
        made.append(in_thread(postgres.create_database(template=template)))
        return made[-1]

    yield new
    for url in made:
        in_thread(postgres.drop_database(url))


@pytest.mark.scenario("001-102", "004-016")
async def test_an_empty_database_gets_the_schema_and_the_extensions(new_database: Callable[..., str]) -> None:
    url = new_database()
    before = Catalog(url)
    assert before.tables == set() and before.extensions == {"plpgsql"}
    await prepared(url)
    after = Catalog(url)
    tables = {*MEMORY_TABLES, "memory_links", "memory_events", "entities"}
    assert tables <= after.tables
    offered = {row["name"] for row in run_sql(url, "SELECT name FROM pg_available_extensions")}
    assert after.extensions == {"plpgsql", "vector"} | offered & {"uuid-ossp", "pg_trgm"}
    where = run_sql(url, "SELECT extname AS name, extnamespace::regnamespace::text AS place FROM pg_extension")
    assert {row["place"] for row in where if row["name"] != "plpgsql"} == {"public"}
    assert run_sql(url, f"SELECT version_num FROM {VERSION_TABLE}") == [{"version_num": HEAD}]
    async with opened(url, embedder=WordEmbedder(384)) as memory:
        await memory.store_rule("greet")
        assert not problems(await administer(memory).verify())
    assert Catalog(url).sorted() == after.sorted(), "opening it changes nothing"


async def test_the_dimension_is_the_embedders(new_database: Callable[..., str], postgres_template: str) -> None:
    """The schema says 384; the first embedder that opens the store may have another."""
    url = new_database(postgres_template)
    for dimension in (8, 1500, 1501, 2000, 2001):
        copy = new_database(url)
        async with opened(copy, embedder=WordEmbedder(dimension), background=False) as memory:
            stored = await memory.store_rule("greet the guests")
            (hit,) = await memory.search("greet the guests", mode="semantic")
            assert hit.item.id == stored.id and hit.parts["similarity"] == pytest.approx(1, abs=CLOSE)
            assert not problems(await administer(memory).verify())
        found = Catalog(copy)
        for table in MEMORY_TABLES:
            column = found.columns[table, "embedding"]
            assert column["kind"] == f"vector({dimension})"
            assert column["storage"] == ("p" if dimension <= 1500 else "e"), "a row must fit into a page"
            assert [row["name"] for row in found.of(table, "c") if row["name"].endswith("embedding_version")]


OLD: list[tuple[str, str]] = [
    ("mem_001", "episodes"),
    ("mem_001", "facts"),
    ("mem_001", "rules"),
    ("mem_001", "memory_links"),
    ("mem_002", "entities"),
    ("mem_003", "memory_events"),
]


@pytest.mark.scenario("004-016", "001-061")
@pytest.mark.parametrize("old", REVISIONS[:-1])
async def test_an_older_schema_is_upgraded_with_all_that_it_holds(
    new_database: Callable[..., str], schema_url: str, old: str
) -> None:
    url = new_database()
    raw = await asyncpg.connect(url)
    async with raw.transaction():
        await raw.execute(postgres_script(None, VERSION_TABLE, old))
    tables = [table for since, table in OLD if since <= old]
    words = {"content_hash": "'h'", "search_text": "'w'"}
    for table in tables:
        given = {"aliases": """ARRAY['A, b', '"Q" {c}', 'Zoë']"""} if table == "entities" else {}
        given |= words if table in MEMORY_TABLES else {}
        await insert(raw, table, **given)
        await insert(raw, table, **given, tenant_id="'another'")
    assert await raw.fetchval(f"SELECT version_num FROM {VERSION_TABLE}") == old
    before = {table: await raw.fetch(f"SELECT * FROM {table} ORDER BY tenant_id") for table in tables}
    await prepare(raw)
    for table in tables:
        after = await raw.fetch(f"SELECT {', '.join(before[table][0].keys())} FROM {table} ORDER BY tenant_id")
        assert after == before[table], table
    await raw.close()
    assert run_sql(url, f"SELECT version_num FROM {VERSION_TABLE}") == [{"version_num": HEAD}]
    assert Catalog(url).sorted() == Catalog(schema_url).sorted(), "as if it had been made now"
    async with opened(url, tenant="t", embedder=WordEmbedder(384), background=False) as memory:
        assert len(await everything(memory)) == 3
        assert await administer(memory).embed_pending() == 6
        await memory.store_fact("s", "p", "another")


@pytest.mark.parametrize(("rows", "method"), [(10_000, "ivfflat"), (10_001, "ivfflat"), (5, "hnsw")])
async def test_a_vector_index_over_few_rows_is_dropped(
    new_database: Callable[..., str], rows: int, method: str
) -> None:
    """One that a tenant may be searched by is kept, and so is one that somebody has chosen."""
    url = new_database()
    raw = await asyncpg.connect(url)
    async with raw.transaction():
        await raw.execute(postgres_script(None, VERSION_TABLE, "mem_009"))
    if method == "hnsw":
        await raw.execute("DROP INDEX ix_rules_embedding")
        await raw.execute("CREATE INDEX ix_rules_embedding ON rules USING hnsw (embedding vector_cosine_ops)")
    await raw.execute(
        "INSERT INTO rules (tenant_id, content) SELECT 't', 'rule ' || number FROM generate_series(1, $1) AS number",
        rows,
    )
    await prepare(raw)
    await raw.close()
    kept = [text for text in Catalog(url).indexed("rules") if text.startswith(method)]
    assert len(kept) == (rows > 10_000 or method == "hnsw")
    if kept and method == "ivfflat":
        assert kept == [BY_VECTOR]


@pytest.mark.scenario("004-016")
async def test_of_many_that_start_at_once_one_makes_the_schema(
    new_database: Callable[..., str], schema_url: str
) -> None:
    url = new_database()
    await asyncio.gather(*(prepared(url) for _ in range(5)))
    assert Catalog(url).sorted() == Catalog(schema_url).sorted()
    assert run_sql(url, f"SELECT version_num FROM {VERSION_TABLE}") == [{"version_num": HEAD}]


@pytest.mark.scenario("004-016")
async def test_processes_that_start_at_once_on_an_empty_database(
    new_database: Callable[..., str], children: Children, tmp_path: Any
) -> None:
    """Each makes the schema if it is not there, and records its embedder: one of them does, and all can work."""
    url, go = new_database(), tmp_path / "go"
    started = [
        children.start("open_and_store", tmp_path / f"{name}.log", path=url, name=f"child{name}", go=str(go))
        for name in range(5)
    ]
    go.touch()
    codes = [children.wait(pid) for pid in started]
    answers = [line for name in range(5) for line in said(tmp_path / f"{name}.log")]
    assert codes == [0] * 5, answers
    async with opened(url) as memory:
        assert sorted(map(str, await everything(memory))) == sorted(line["id"] for line in answers)
        assert len(await memory.search("here", mode="semantic")) == 5
        assert not problems(await administer(memory).verify())
    assert len(run_sql(url, "SELECT 1 FROM embedding_versions")) == 1


async def waits_for_a_lock(url: str, seconds: float = 30) -> int:
    """The server process that does, once one does."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    raw = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(seconds):
            while (pid := await raw.fetchval(waiting)) is None:
                await asyncio.sleep(0.01)
            return pid
    finally:
        await raw.close()


@pytest.mark.parametrize("end", ["killed", "cancelled"])
async def test_a_migration_that_is_cut_off_leaves_nothing(new_database: Callable[..., str], end: str) -> None:
    """It is blocked in the middle by another transaction that creates a table of the same name."""
    url = new_database()
    other = await asyncpg.connect(url)
    try:
        held = other.transaction()
        await held.start()
        await other.execute("CREATE TABLE memory_links ()")
        migration = asyncio.create_task(prepared(url))
        pid = await waits_for_a_lock(url)
        if end == "killed":
            await other.execute("SELECT pg_terminate_backend($1)", pid)
            with pytest.raises(StoreUnavailable):
                await migration
        else:
            migration.cancel()
            with pytest.raises(asyncio.CancelledError):
                await migration
        await held.rollback()
    finally:
        await other.close()
    assert Catalog(url).tables == set()
    await prepared(url)
    assert run_sql(url, f"SELECT version_num FROM {VERSION_TABLE}") == [{"version_num": HEAD}]


async def test_what_a_host_has_in_its_database_is_left_alone(new_database: Callable[..., str]) -> None:
    url = new_database()
    raw = await asyncpg.connect(url)
    await raw.execute(
        "CREATE TABLE alembic_version (version_num TEXT PRIMARY KEY); INSERT INTO alembic_version VALUES ('abc');"
        "CREATE TABLE users (id INT PRIMARY KEY, name TEXT); INSERT INTO users VALUES (1, 'Ada');"
        "CREATE SCHEMA other; CREATE TABLE other.facts (id INT); INSERT INTO other.facts VALUES (7)"
    )
    before = {name: found for (table, name), found in Catalog(url).columns.items() if table == "users"}
    async with opened(url) as memory:
        await memory.store_fact("s", "p", "o")
    assert [tuple(row) for row in await raw.fetch("SELECT * FROM alembic_version")] == [("abc",)]
    assert [tuple(row) for row in await raw.fetch("SELECT * FROM users")] == [(1, "Ada")]
    assert [tuple(row) for row in await raw.fetch("SELECT * FROM other.facts")] == [(7,)]
    after = {name: found for (table, name), found in Catalog(url).columns.items() if table == "users"}
    assert before == after
    await raw.close()


async def test_a_host_table_with_one_of_our_names_is_left_alone(new_database: Callable[..., str]) -> None:
    """Then we can't work there, and say so; in a schema of our own we can."""
    url = new_database()
    run_sql(url, "CREATE TABLE facts AS SELECT 7 AS id")
    with pytest.raises(TulvingError, match="facts"):
        await prepared(url)
    assert Catalog(url).tables == {"facts"} and run_sql(url, "SELECT * FROM facts") == [{"id": 7}]
    run_sql(url, "CREATE SCHEMA memory")
    own = url + ("&" if "?" in url else "?") + urlencode({"search_path": "memory, public"})
    async with opened(own) as memory:
        stored = await memory.store_fact("s", "p", "apple")
        for mode in ("keyword", "semantic", "hybrid"):
            assert [hit.item.id for hit in await memory.search("apple", mode=mode)] == [stored.id]
        assert not problems(await administer(memory).verify())
    assert Catalog(url).tables == {"facts"} and run_sql(url, "SELECT * FROM facts") == [{"id": 7}]


@pytest.mark.parametrize("unknown", ["mem_999", "mem_013"])
async def test_an_unknown_schema_is_not_touched(
    new_database: Callable[..., str], opened_template: str, unknown: str
) -> None:
    url = new_database(opened_template)
    async with opened(url) as memory:
        await memory.store_rule("greet")
    run_sql(url, f"UPDATE {VERSION_TABLE} SET version_num = '{unknown}'")
    run_sql(url, "ALTER TABLE rules ADD COLUMN mood TEXT")
    before = Catalog(url).sorted(), run_sql(url, "SELECT * FROM rules"), run_sql(url, "SELECT * FROM memory_events")
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match=f"{unknown}.*newer version, or by one from before the first release"):
            async with opened(url):
                pass
    after = Catalog(url).sorted(), run_sql(url, "SELECT * FROM rules"), run_sql(url, "SELECT * FROM memory_events")
    assert before == after


@pytest.mark.scenario("001-102")
async def test_a_server_without_pgvector_says_how_to_get_it(new_database: Callable[..., str]) -> None:
    url = new_database()
    (database,) = run_sql(
        url, "SELECT current_database() AS name, current_setting('server_version_num')::int AS version"
    )
    if database["version"] < 180000:
        pytest.skip("only PostgreSQL 18 can hide its extensions")
    run_sql(url, f"ALTER DATABASE {database['name']} SET extension_control_path = '/nowhere'")
    with pytest.raises(StoreUnavailable, match=r"pgvector.*apt install postgresql-\d+-pgvector") as refusal:
        async with opened(url):
            pass
    assert "vector" in str(refusal.value)
    assert Catalog(url).tables == set()
    run_sql(url, f"ALTER DATABASE {database['name']} RESET extension_control_path")
    async with opened(url) as memory:
        await memory.store_rule("greet")


@pytest.mark.scenario("001-102")
async def test_a_role_that_may_not_create_the_extension_is_told_who_may(
    role: str, with_role: Callable[..., str]
) -> None:
    url = with_role()
    run_sql(url, f"GRANT CREATE ON SCHEMA public TO {role}")
    with pytest.raises(StoreUnavailable, match="CREATE EXTENSION vector"):
        async with opened(as_role(url, role)):
            pass
    assert Catalog(url).tables == set()
    run_sql(url, "CREATE EXTENSION vector")
    async with opened(as_role(url, role)) as memory:
        await memory.store_rule("greet")
        assert len(await memory.search("greet", mode="semantic")) == 1
        assert not problems(await administer(memory).verify())
    assert run_sql(url, "SELECT tableowner AS name FROM pg_tables WHERE tablename = 'rules'") == [{"name": role}]


async def test_a_role_that_may_not_create_tables_is_told_so(role: str, with_role: Callable[..., str]) -> None:
    url = with_role()
    run_sql(url, "CREATE EXTENSION vector")
    with pytest.raises(StoreUnavailable, match=r"lacks a right.*permission denied for schema public"):
        async with opened(as_role(url, role)):
            pass
    assert Catalog(url).tables == set()


async def test_another_role_works_with_the_rights_it_was_given(
    role: str, with_role: Callable[..., str], opened_template: str
) -> None:
    url = with_role(opened_template)
    async with opened(url) as memory:
        stored = await memory.store_rule("greet")
    with pytest.raises(StoreUnavailable, match=r"lacks a right.*permission denied for table"):
        async with opened(as_role(url, role)):
            pass
    run_sql(url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    async with opened(as_role(url, role)) as memory:
        assert [hit.item.id for hit in await memory.search("greet")] == [stored.id]
        assert (await memory.list_memories("rule")).items[0].id == stored.id
        with pytest.raises(StoreUnavailable, match="lacks a right"):
            await memory.store_rule("another")
        assert [hit.item.id for hit in await memory.recall("greet")] == [stored.id], "the reference is not counted"
    run_sql(url, f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    async with opened(as_role(url, role)) as memory:
        fact = await memory.store_fact("s", "p", "o")
        await memory.store_fact("s", "p", "other")
        await memory.delete("fact", fact.id)
        assert not problems(await administer(memory).verify())
    assert [row["content"] for row in run_sql(url, "SELECT content FROM facts")] == ["other"]


async def test_processes_that_start_at_once_with_an_embedder_do_not_deadlock(
    new_database: Callable[..., str], postgres_template: str
) -> None:
    url = new_database(postgres_template)

    async def come() -> None:
        async with opened(url, background=False) as memory:
            await memory.store_rule("was here")

    await asyncio.gather(*(come() for _ in range(8)))
    assert run_sql(url, "SELECT count(*) AS n FROM rules") == [{"n": 8}]
    statement = "SELECT deadlocks AS n FROM pg_stat_database WHERE datname = current_database()"
    assert run_sql(url, statement) == [{"n": 0}]


async def test_a_process_that_waited_for_the_migration_of_another_sees_it(new_database: Callable[..., str]) -> None:
    url = new_database()
    one, other = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        assert await schema.revision(other) is None
        held = one.transaction()
        await held.start()
        await one.execute("SELECT pg_advisory_xact_lock($1)", schema._LOCK)
        waiting = asyncio.create_task(schema.migrate(other))
        await asyncio.sleep(0.3)
        await one.execute(f"CREATE TABLE {schema.VERSION_TABLE} (version_num text)")
        await one.execute(f"INSERT INTO {schema.VERSION_TABLE} VALUES ('{HEAD}')")
        await held.commit()
        assert await waiting == ()
    finally:
        await one.close()
        await other.close()
