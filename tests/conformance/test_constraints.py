"""What the database itself refuses."""

from uuid import UUID

import pytest
from conformance_parts import NOW, ONE, OTHER, Opened, count, episode, event, fact, insert, put, rule

from tulving.domain.model import Item
from tulving.domain.scope import Address, address_of
from tulving.errors import IntegrityError
from tulving.storage import events, items
from tulving.storage.connection import Connection
from tulving.storage.rows import insert_statement


def test_a_key_has_one_active_fact(store: Opened) -> None:
    store.write(insert, fact(1))
    allowed = [{"validity": "superseded"}, {"scope": "work"}, {"owner": "3:bob"}, {"subject": "Ann"}]
    allowed += [{"predicate": "eats"}, {"keyed": False}]
    for number, change in enumerate(allowed, 2):
        store.write(insert, fact(number, **change))
    store.write(insert, fact(1, tenant_id=OTHER), on_behalf=OTHER)
    for clash in (fact(20, "coffee"), fact(21, keyed=False)):
        with pytest.raises(IntegrityError):
            store.write(insert, clash)


def test_events_are_appended_to_and_never_changed(store: Opened) -> None:
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
def test_no_reference_crosses_a_tenant(store: Opened, lost: Item) -> None:
    store.write(put, episode(1), fact(3))
    columns = ("tenant_id", "id", "canonical_name", "folded_name", "entity_type", "created_at", "updated_at")
    entity = dict(zip(columns, (ONE, UUID(int=4), "Ann", "ann", "person", NOW, NOW), strict=True))
    store.write(lambda conn: conn.execute(insert_statement("entities", columns), entity))
    with pytest.raises(IntegrityError):
        store.write(insert, lost, on_behalf=OTHER)


def test_references_may_be_checked_at_the_end(store: Opened) -> None:
    def late(conn: Connection, *new: Item) -> None:
        conn.defer_references()
        put(conn, *new)

    store.write(late, rule(2, source_episode_id=UUID(int=1)), episode(1))
    with pytest.raises(IntegrityError):
        store.write(late, rule(3, source_episode_id=UUID(int=404)))
    assert store.read(lambda conn: (count(conn), count(conn, "episodes"))) == (1, 1)


def test_what_was_learned_outlives_its_source(store: Opened) -> None:
    learned = fact(2, source_episode_id=UUID(int=1)), fact(3, predicate="p", supersedes_id=UUID(int=2))
    store.write(put, episode(1), *learned, rule(4, source_episode_id=UUID(int=1)))
    assert store.write(items.delete, Address(ONE, "episode", UUID(int=1)), event(91))
    assert store.write(items.delete, Address(ONE, "fact", UUID(int=2)), event(92))
    kept = [store.read(items.get, address_of(one)) for one in (learned[1], rule(4))]
    assert (kept[0].supersedes_id, kept[1].source_episode_id) == (None, None)
