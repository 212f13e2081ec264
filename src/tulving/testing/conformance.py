"""The contract of an engine, as tests. For those who write a `Store` of their own, and for ours.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def new_store(self, tmp_path):
            return lambda: MyStore.open(tmp_path / uuid4().hex)  # a coroutine that gives a new, empty store

Needs pytest and nothing else: no plugin for asyncio. A method says one thing that every store must do. For messages
that show the values, call `pytest.register_assert_rewrite("tulving.testing.conformance")` before the import.
"""

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from tulving.domain.events import Audit
from tulving.domain.model import KINDS, Item
from tulving.domain.scope import Address, Bound, Caller, Filter, address_of
from tulving.errors import EmbedderMismatch, IntegrityError, StoreUnavailable
from tulving.ports import Store
from tulving.storage import events, facts, items, links, maintenance, transfer
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import insert_statement
from tulving.testing.conformance_parts import (
    BETWEEN,
    EAST,
    NORTH,
    NOW,
    NOWHERE,
    ONE,
    OTHER,
    TEXTS,
    Opened,
    ask,
    by_vector,
    by_words,
    count,
    entry,
    episode,
    event,
    fact,
    found,
    insert,
    put,
    rows_of,
    rule,
    run,
)
from tulving.testing.parts import CLOSE, SequentialIds, WordEmbedder

NewStore = Callable[[], Awaitable[Store]]


class StoreConformance:
    """Subclass it and say in `new_store` how a store is opened."""

    @pytest.fixture
    def new_store(self) -> NewStore:
        raise NotImplementedError("override new_store: a function that opens a new, empty store")

    @pytest.fixture
    def opened(self, new_store: NewStore) -> Iterator[Callable[[], Opened]]:
        """Opens stores for vectors of four dimensions, and closes them at the end."""
        with asyncio.Runner() as runner:
            made: list[Opened] = []

            def new() -> Opened:
                made.append(Opened(runner, run(runner, new_store())))
                assert made[-1].write(maintenance.adopt_version, WordEmbedder(4), NOW, on_behalf=None) == 1
                return made[-1]

            yield new
            for each in made:
                run(runner, each.store.close())

    @pytest.fixture
    def store(self, opened: Callable[[], Opened]) -> Opened:
        return opened()

    # -- values

    def test_values_come_out_as_they_went_in(self, store: Opened) -> None:
        """UUIDs, times to the microsecond, numbers, flags, lists, objects, and None."""
        full = fact(
            2,
            entity_id=None,
            tags=["red", "ünï ✓", ""],
            metadata={"a": [1, 2.5, None, True, {"b": "c"}], "": {}, "large": 10**30, "wide": 1e23, "small": 1e-300},
            importance=0.1 + 0.2,
            confidence=1 / 3,
            keyed=False,
            ref="fact_00000002",
            source_episode_id=UUID(int=1),
            reference_count=7,
            last_referenced_at=NOW + timedelta(microseconds=1),
            occurred_at=datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
            next_review_at=datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC),
        )
        store.write(put, episode(1, forgotten=True, consolidated=False), full)
        kept = store.read(items.get, Address(ONE, "fact", full.id))
        assert kept == full
        assert [type(value) for value in kept.metadata["a"]] == [int, float, type(None), bool, dict]
        assert store.read(items.get, Address(ONE, "episode", UUID(int=1))).forgotten is True

    @pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{len(text)} letters")
    def test_texts_of_every_script_and_length_are_kept(self, store: Opened, text: str) -> None:
        kept = rule(1, text, project=text[:200], metadata={text[:200]: text}, tags=[text[:200]])
        store.write(put, kept)
        assert store.read(items.get, Address(ONE, "rule", kept.id)) == kept

    def test_a_time_of_another_zone_is_the_same_moment(self, store: Opened) -> None:
        moment = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
        store.write(put, episode(1, occurred_at=moment))
        kept = store.read(items.get, Address(ONE, "episode", UUID(int=1))).occurred_at
        assert kept == moment and kept.utcoffset() == timedelta()

    def test_vectors_are_kept_bit_by_bit(self, store: Opened) -> None:
        vector = (1 / 3, -1e-20, 3e38, 5e-45)
        store.write(put, rule(1), vector=vector)
        kept = store.read(lambda conn: conn.fetch_one(f"SELECT {conn.vector_value('embedding')} FROM rules"))
        assert kept == {"embedding": struct.pack("<4f", *vector)}

    # -- statements

    def test_statements_tell_what_they_did(self, store: Opened) -> None:
        """`run` how many rows it touched, `one` a row or None; `many` runs once for each row of parameters."""
        store.write(put, rule(1), rule(2))
        update = "UPDATE rules SET content = :content WHERE tenant_id = :tenant_id AND id = :id"
        rows = [{"tenant_id": ONE, "id": UUID(int=number), "content": f"new {number}"} for number in (1, 2, 3)]
        assert [store.write(lambda conn, row=row: conn.execute(update, row)) for row in rows] == [1, 1, 0]
        store.write(lambda conn: conn.execute_many(update, [{**row, "content": "newer"} for row in rows]))
        query = "SELECT id, content FROM rules WHERE tenant_id = :tenant_id AND id = :id"
        found = [store.read(lambda conn, row=row: conn.fetch_one(query, row)) for row in rows]
        assert found == [{"id": UUID(int=1), "content": "newer"}, {"id": UUID(int=2), "content": "newer"}, None]

    def test_each_gives_what_all_gives(self, store: Opened) -> None:
        store.write(put, *map(rule, range(1, 1201)))
        query = "SELECT id, tags, created_at FROM rules ORDER BY id"

        def both(conn: Connection) -> None:
            streamed = conn.stream(query)
            first = next(streamed)
            assert count(conn) == 1200, "another statement meanwhile"
            assert [first, *streamed] == conn.fetch_all(query)
            next(conn.stream(query))
            assert count(conn) == 1200, "one that was left half read is in nobody's way"

        store.read(both)

    def test_within_is_membership(self, store: Opened) -> None:
        store.write(put, *map(rule, range(1, 5)))

        def ids(conn: Connection, *wanted: int) -> list[int]:
            query = f"SELECT id FROM rules WHERE {conn.within('id', 'ids')} ORDER BY id"
            return [row["id"].int for row in conn.fetch_all(query, {"ids": [UUID(int=number) for number in wanted]})]

        assert store.read(ids, 4, 2, 9) == [2, 4]
        assert store.read(ids) == []

    def test_tagged_is_having_every_tag(self, store: Opened) -> None:
        store.write(put, rule(1, tags=["a", "b"]), rule(2, tags=["b"]), rule(3, tags=["ab", "it's"]), rule(4))

        def ids(conn: Connection, *wanted: str) -> list[int]:
            query = f"SELECT id FROM rules WHERE {conn.tagged('tags', 'tags')} ORDER BY id"
            return [row["id"].int for row in conn.fetch_all(query, {"tags": list(wanted)})]

        assert store.read(ids, "b") == [1, 2]
        assert store.read(ids, "b", "a") == [1]
        assert store.read(ids, "it's") == [3]
        assert store.read(ids) == [1, 2, 3, 4]

    # -- transactions

    def test_a_write_is_seen_by_its_own_transaction_and_then_by_all(self, store: Opened) -> None:
        def twice(conn: Connection) -> tuple[int, int]:
            put(conn, rule(1))
            return count(conn), count(conn, "memory_events")

        assert store.write(twice) == (1, 1)
        assert store.read(count) == 1

    def test_a_transaction_that_fails_leaves_nothing(self, store: Opened) -> None:
        def fail(conn: Connection) -> None:
            put(conn, rule(1))
            raise LookupError("a bug of the caller's own")

        with pytest.raises(LookupError, match="of the caller's own"):
            store.write(fail)
        assert store.read(lambda conn: (count(conn), count(conn, "memory_events"))) == (0, 0)

    def test_of_many_at_once_only_those_that_fail_are_undone(self, store: Opened) -> None:
        """Some fail at a statement, one at its very end."""

        def late(conn: Connection) -> None:
            conn.defer_references()
            insert(conn, rule(100, source_episode_id=UUID(int=404)))

        store.write(put, rule(5))
        writes = [lambda conn, number=number: put(conn, rule(number)) for number in range(1, 11)]
        answers = store.write_at_once(*writes[:3], late, *writes[3:])
        failed = [at for at, answer in enumerate(answers) if answer is not None]
        assert failed == [3, 5], "the one without its episode, and the one whose id is taken"
        assert all(isinstance(answers[at], IntegrityError) for at in failed)
        assert store.read(count) == 10

    def test_a_read_sees_one_moment(self, store: Opened) -> None:
        store.write(put, rule(1))
        written = False

        def look(conn: Connection) -> set[int]:
            seen, deadline = {count(conn)}, time.monotonic() + 20
            while not written and time.monotonic() < deadline:
                seen.add(count(conn))
            return seen | {count(conn)}

        async def together() -> set[int]:
            nonlocal written
            looking = asyncio.ensure_future(store.store.read(ONE, look))
            await asyncio.sleep(0.05)
            await store.store.write(ONE, put, rule(2))
            written = True
            return await looking

        assert store.run(together()) == {1}
        assert store.read(count) == 2

    def test_a_row_read_for_update_is_changed_by_one_at_a_time(self, store: Opened) -> None:
        store.write(put, rule(1))
        key = {"tenant_id": ONE, "id": UUID(int=1)}

        def increase(conn: Connection) -> None:
            query = "SELECT reference_count FROM rules WHERE tenant_id = :tenant_id AND id = :id"
            row = conn.fetch_one(query + conn.for_update, key)
            assert row is not None
            update = "UPDATE rules SET reference_count = :more WHERE tenant_id = :tenant_id AND id = :id"
            conn.execute(update, {**key, "more": row["reference_count"] + 1})

        assert store.write_at_once(*[increase] * 12) == [None] * 12
        assert store.read(items.get, Address(ONE, "rule", UUID(int=1))).reference_count == 12

    def test_a_name_is_locked_by_one_at_a_time(self, store: Opened) -> None:
        log: list[tuple[str, int]] = []

        def work(conn: Connection, number: int) -> None:
            conn.lock("b", f"of {number} alone", "a")
            log.append(("begins", number))
            assert [count(conn) for _ in range(3)] == [0] * 3
            log.append(("ends", number))

        store.write_at_once(*(lambda conn, number=number: work(conn, number) for number in range(6)))
        assert len(log) == 12
        assert all(log[at][1] == log[at + 1][1] for at in range(0, 12, 2)), log

    def test_one_that_is_alone_meets_no_other_writer(self, store: Opened) -> None:
        log: list[str] = []

        def work(conn: Connection, name: str) -> None:
            if name == "alone":
                conn.lock_store()
            log.append(name)
            assert [count(conn) for _ in range(5)] == [0] * 5
            log.append(name)

        names = ["a", "b", "alone", "c", "d"]
        store.write_at_once(*(lambda conn, name=name: work(conn, name) for name in names))
        at = log.index("alone")
        assert log[at : at + 2] == ["alone", "alone"], log
        assert sorted(log) == sorted(names * 2)

    def test_a_closed_store_says_so(self, store: Opened) -> None:
        store.run(store.store.close())
        with pytest.raises(StoreUnavailable):
            store.write(put, rule(1))
        with pytest.raises(StoreUnavailable):
            store.read(count)

    # -- what the database refuses

    def test_a_key_has_one_active_fact(self, store: Opened) -> None:
        store.write(insert, fact(1))
        allowed = [{"validity": "superseded"}, {"scope": "work"}, {"owner": "3:bob"}, {"subject": "Ann"}]
        allowed += [{"predicate": "eats"}, {"keyed": False}]
        for number, change in enumerate(allowed, 2):
            store.write(insert, fact(number, **change))
        store.write(insert, fact(1, tenant_id=OTHER), on_behalf=OTHER)
        for clash in (fact(20, "coffee"), fact(21, keyed=False)):
            with pytest.raises(IntegrityError):
                store.write(insert, clash)

    def test_events_are_appended_to_and_never_changed(self, store: Opened) -> None:
        store.write(events.append, event(1, entity_id=UUID(int=9), payload={"n": 1}), event(2, entity_id=UUID(int=9)))
        for change in ("UPDATE memory_events SET actor = 'me'", "DELETE FROM memory_events"):
            with pytest.raises(IntegrityError):
                store.write(lambda conn, change=change: conn.execute(change))
        kept = store.read(events.of_item, Address(ONE, "fact", UUID(int=9)))
        assert [(each.id.int, each.actor, dict(each.payload)) for each in kept] == [(1, None, {"n": 1}), (2, None, {})]
        assert kept[0].seq < kept[1].seq

    @pytest.mark.parametrize(
        "lost",
        [
            fact(2, tenant_id=OTHER, source_episode_id=UUID(int=1)),
            fact(2, tenant_id=OTHER, supersedes_id=UUID(int=3)),
            fact(2, tenant_id=OTHER, entity_id=UUID(int=4)),
            rule(2, tenant_id=OTHER, source_episode_id=UUID(int=1)),
        ],
        ids=["a fact's episode", "what it supersedes", "a fact's entity", "a rule's episode"],
    )
    def test_no_reference_crosses_a_tenant(self, store: Opened, lost: Item) -> None:
        store.write(put, episode(1), fact(3))
        columns = ("tenant_id", "id", "canonical_name", "folded_name", "entity_type", "created_at", "updated_at")
        entity = dict(zip(columns, (ONE, UUID(int=4), "Ann", "ann", "person", NOW, NOW), strict=True))
        store.write(lambda conn: conn.execute(insert_statement("entities", columns), entity))
        with pytest.raises(IntegrityError):
            store.write(insert, lost, on_behalf=OTHER)

    def test_references_may_be_checked_at_the_end(self, store: Opened) -> None:
        def late(conn: Connection, *new: Item) -> None:
            conn.defer_references()
            put(conn, *new)

        store.write(late, rule(2, source_episode_id=UUID(int=1)), episode(1))
        with pytest.raises(IntegrityError):
            store.write(late, rule(3, source_episode_id=UUID(int=404)))
        assert store.read(lambda conn: (count(conn), count(conn, "episodes"))) == (1, 1)

    def test_what_was_learned_outlives_its_source(self, store: Opened) -> None:
        learned = fact(2, source_episode_id=UUID(int=1)), fact(3, predicate="p", supersedes_id=UUID(int=2))
        store.write(put, episode(1), *learned, rule(4, source_episode_id=UUID(int=1)))
        assert store.write(items.delete, Address(ONE, "episode", UUID(int=1)), event(91))
        assert store.write(items.delete, Address(ONE, "fact", UUID(int=2)), event(92))
        kept = [store.read(items.get, address_of(one)) for one in (learned[1], rule(4))]
        assert (kept[0].supersedes_id, kept[1].source_episode_id) == (None, None)

    # -- merging

    def test_merge_adds_what_is_new_in_order(self, store: Opened) -> None:
        columns = transfer.TABLES["memory_events"]
        rows = [{name: getattr(event(number, payload={"n": number}), name) for name in columns} for number in (5, 3, 4)]
        key = ("tenant_id", "id")
        assert store.write(lambda conn: conn.merge("memory_events", key, rows[:1])) == rows[:1]
        assert store.write(lambda conn: conn.merge("memory_events", key, rows)) == rows[1:]
        assert store.write(lambda conn: conn.merge("memory_events", key, [*rows, *rows])) == []
        changed = [{**row, "payload": {"n": 0}} for row in rows]
        assert store.write(lambda conn: conn.merge("memory_events", key, changed)) == [], "what is there stays"
        kept = store.read(lambda conn: conn.fetch_all("SELECT id, payload FROM memory_events ORDER BY seq"))
        assert kept == [{"id": UUID(int=number), "payload": {"n": number}} for number in (5, 3, 4)]

    def test_a_dump_loaded_elsewhere_is_the_same(self, opened: Callable[[], Opened]) -> None:
        source, target = opened(), opened()
        source.write(put, episode(1, TEXTS[3], title="t", occurred_at=NOW), vector=BETWEEN)
        source.write(put, fact(2, source_episode_id=UUID(int=1), metadata={"a": [None]}), rule(3, tags=["x"]))
        ends = Address(ONE, "rule", UUID(int=3)), Address(ONE, "fact", UUID(int=2))
        assert source.write(links.create, *ends, "supports", event(90))
        rows = source.read(rows_of)
        audit = Audit(Caller(ONE), NOW, SequentialIds(1000))
        for added in (len(rows), 0):
            counts, told = target.write(transfer.load, lambda: enumerate(rows, 2), ONE, 1, 4, lambda tenant: audit)
            arrived = [(each.payload["table"], len(each.payload["ids"])) for each in told]
            assert arrived == ([("episodes", 1), ("facts", 1), ("rules", 1), ("memory_links", 1)] if added else [])
            assert sum(table["added"] for table in counts.values()) == added
            assert sum(table["skipped"] for table in counts.values()) == len(rows) - added
        assert target.read(rows_of) == rows
        assert target.read(by_words, "tea") == [3]

    # -- facts written at the same time

    def test_writers_of_one_key_take_turns(self, store: Opened) -> None:
        audit = Audit(Caller(ONE), NOW, SequentialIds(1000))

        def offer(number: int) -> Callable[[Connection], Any]:
            new = fact(number, f"tea {number}")
            return lambda conn: facts.store(conn, [(new, entry(new, EAST), {})], audit, Bound())

        answers = [answer[0][0] for answer in store.write_at_once(*map(offer, range(1, 9)))]
        assert sorted(answer.outcome for answer in answers) == ["stored"] + ["superseded"] * 7
        kept = store.read(items.listing, ONE, "fact", Filter(state="any"), NOW, 100, None)
        assert [one.state for one in kept].count("active") == 1 and len(kept) == 8
        assert len({one.supersedes_id for one in kept}) == 8, "a chain: each was superseded once"

    # -- finding by words

    def test_words_are_found_in_their_forms_and_in_any_script(self, store: Opened) -> None:
        for number, text in enumerate(("Gardening!", "the garden, again", "кофе", "東京タワー", "v2.0 beta", "OR"), 1):
            store.write(put, rule(number, text, created_at=NOW - timedelta(hours=number)))
        wanted = {"garden": [1, 2], "gardens": [1, 2], "кофе": [3], "京": [4], "beta": [5], "or": [6], "near": []}
        for word, numbers in wanted.items():
            assert sorted(store.read(by_words, word)) == numbers, word

    def test_all_words_go_before_any_word(self, store: Opened) -> None:
        texts = "tea tea tea tea", "green " + "leaf " * 30 + "tea", "green", "coffee"
        store.write(put, *(rule(number, text) for number, text in enumerate(texts, 1)))
        order = store.read(by_words, "green", "tea")
        assert order[0] == 2 and sorted(order) == [1, 2, 3]

        def ranks(conn: Connection) -> list[float]:
            return sorted(ask(conn, terms=("green", "tea")).keyword.values())

        low, middle, high = store.read(ranks)
        assert 0 < low <= middle < 1 <= high < 2

    def test_of_equal_matches_the_newest_go_first(self, store: Opened) -> None:
        """Then the lower id; also where the limit cuts, and whatever came in last."""
        store.write(put, *(rule(number) for number in range(30, 10, -1)))
        store.write(put, *(rule(number, created_at=NOW - timedelta(days=1)) for number in range(1, 11)))
        for limit in (1, 3, 20, 25, 40):
            expected = [*range(11, 31), *range(1, 11)][:limit]
            assert store.read(by_words, "tea", limit=limit) == expected

    # -- finding by meaning

    def test_similarity_is_the_cosine(self, store: Opened) -> None:
        store.write(put, rule(1), vector=EAST)
        store.write(put, rule(2), vector=tuple(100 * part for part in BETWEEN))
        store.write(put, rule(3), vector=NORTH)
        store.write(put, rule(4), vector=(-1.0, 0.0, 0.0, 0.0))
        store.write(put, rule(5), vector=NOWHERE)
        store.write(put, rule(6))

        def similarities(conn: Connection) -> dict[int, float]:
            lanes = ask(conn, vector=(7.0, 0.0, 0.0, 0.0))
            return {lanes.rows[key]["id"].int: value for key, value in lanes.semantic.items()}

        expected = {1: 1.0, 2: 0.5**0.5, 3: 0.0, 5: 0.0, 4: -1.0}
        got = store.read(similarities)
        assert list(got) == list(expected) and got == pytest.approx(expected, abs=CLOSE)
        assert store.read(by_vector, NOWHERE) == [], "a query without direction finds nothing"

    def test_of_equal_similarities_the_lower_id_goes_first(self, store: Opened) -> None:
        store.write(put, *(rule(number) for number in range(20, 0, -1)), vector=BETWEEN)
        for limit in (1, 7, 20, 30):
            assert store.read(by_vector, limit=limit) == list(range(1, 21))[:limit]

    # -- both lanes

    def test_filters_apply_before_the_limit(self, store: Opened) -> None:
        """One match among many better ones that the filter keeps out."""
        store.write(put, *(rule(number, "tea", project="no") for number in range(1, 60)), vector=EAST)
        store.write(put, rule(99, "tea and very many other words", project="yes"), vector=NORTH)
        wanted = {"limit": 1, "filter": Filter(project="yes")}
        assert store.read(by_words, "tea", **wanted) == [99]
        assert store.read(by_vector, **wanted) == [99]

    def test_a_small_tenant_beside_a_large_one_gets_all_it_asks_for(self, store: Opened) -> None:
        large = [rule(number, tenant_id=OTHER) for number in range(1, 301)]
        store.write(put, *large, vector=EAST, on_behalf=OTHER)
        store.write(put, *map(rule, range(1, 8)), vector=NORTH)
        for limit in (1, 5, 7, 50):
            expected = list(range(1, 8))[:limit]
            assert store.read(by_vector, limit=limit) == expected
            assert store.read(by_words, "tea", limit=limit) == expected

    def test_only_what_is_alive_is_found(self, store: Opened) -> None:
        gone = NOW - timedelta(seconds=1)
        dead = episode(1, forgotten=True), episode(2, expires_at=gone), fact(3, validity="superseded")
        store.write(put, *dead, rule(4, forgotten=True), vector=EAST)
        store.write(put, episode(5, expires_at=NOW + timedelta(days=1)), fact(6), rule(7), vector=EAST)
        lanes = store.read(ask, *KINDS, terms=["tea"], vector=EAST)
        assert sorted(found(lanes.semantic, lanes)) == sorted(found(lanes.keyword, lanes)) == [5, 6, 7]
        for one in (episode(5), fact(6), rule(7)):
            assert store.write(items.delete, address_of(one), event(90 + one.id.int, one))
        lanes = store.read(ask, *KINDS, terms=["tea"], vector=EAST)
        assert not lanes.semantic and not lanes.keyword

    def test_the_limit_is_that_of_each_kind_and_rows_are_whole(self, store: Opened) -> None:
        store.write(put, *map(episode, range(1, 6)), *map(rule, range(11, 16)), vector=EAST)

        def look(conn: Connection) -> None:
            lanes = ask(conn, *KINDS, terms=["tea"], vector=EAST, limit=2)
            for lane in (lanes.semantic, lanes.keyword):
                assert [key[0] for key in lane] == ["episode", "episode", "rule", "rule"], "those of a kind together"
            for kind, id_ in lanes.keyword:
                made = episode if kind == "episode" else rule
                row = lanes.rows[kind, id_]
                assert row == KIND[kind].params(made(row["id"].int))

        store.read(look)

    # -- embedders

    def test_a_store_has_one_embedder(self, store: Opened) -> None:
        assert store.read(maintenance.adopt_version, WordEmbedder(4), NOW) == 1
        assert store.read(maintenance.adopt_version, WordEmbedder(5), NOW, True) is None
        with pytest.raises(EmbedderMismatch):
            store.read(maintenance.adopt_version, WordEmbedder(5), NOW)
        for wrong in ({"embedding_version": 2}, {"vector": (1.0, 0.0)}):
            with pytest.raises(EmbedderMismatch):
                store.read(ask, **{"vector": EAST, **wrong})

    def test_vectors_may_change_their_dimension(self, store: Opened) -> None:
        store.write(put, rule(1), fact(2), episode(3), vector=EAST)
        audit = Audit(Caller(ONE), NOW, SequentialIds(900))
        for dimension in (3, 4, 2000):
            vector = (1.0,) * dimension
            embedder = WordEmbedder(dimension, version=f"for {dimension}")
            number = store.write(maintenance.begin_reembedding, embedder, NOW, on_behalf=None)
            assert store.write(maintenance.switch, number, audit, on_behalf=None) is None, "some are not converted yet"
            waiting = store.read(maintenance.unconverted, 10, on_behalf=None)
            converted = [(kind, item, replace(entry(item, vector), embedding_version=number)) for kind, item in waiting]
            store.write(maintenance.add_converted, number, converted, on_behalf=None)
            assert store.write(maintenance.switch, number, audit, on_behalf=None)
            lanes = store.read(ask, *KINDS, vector=vector, embedding_version=number)
            assert sorted(found(lanes.semantic, lanes)) == [1, 2, 3]
            assert list(lanes.semantic.values()) == pytest.approx([1.0] * 3, abs=CLOSE)
            assert [one for one in store.read(maintenance.verify, on_behalf=None) if one.problems] == []

    def test_the_number_of_an_embedder_is_nobody_elses(self, store: Opened) -> None:
        """Whoever still works for one that was given up must not add to the next."""
        first = store.write(maintenance.begin_reembedding, WordEmbedder(4, version="a"), NOW, on_behalf=None)
        second = store.write(maintenance.begin_reembedding, WordEmbedder(4, version="b"), NOW, on_behalf=None)
        assert first != second
        late = [("rule", rule(1), replace(entry(rule(1), EAST), embedding_version=first))]
        with pytest.raises(IntegrityError):
            store.write(maintenance.add_converted, first, late, on_behalf=None)

    # -- the rest

    def test_a_healthy_store_is_found_healthy(self, store: Opened) -> None:
        store.write(put, episode(1), fact(2), rule(3), vector=EAST)
        store.write(put, rule(1, tenant_id=OTHER), vector=EAST, on_behalf=OTHER)
        store.write(items.forget, Address(ONE, "rule", UUID(int=3)), NOW, event(90))
        store.read(by_vector)
        findings = [*store.read(lambda conn: conn.verify_engine(), on_behalf=None), *store.run(store.store.health())]
        assert findings and [finding for finding in findings if finding.problems] == []
