"""Values come out of a store as they went in."""

import struct
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from conformance_parts import NOW, ONE, TEXTS, Opened, episode, fact, put, rule

from tulving.domain.scope import Address
from tulving.storage import items


def test_values_come_out_as_they_went_in(store: Opened) -> None:
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
def test_texts_of_every_script_and_length_are_kept(store: Opened, text: str) -> None:
    kept = rule(1, text, project=text[:200], metadata={text[:200]: text}, tags=[text[:200]])
    store.write(put, kept)
    assert store.read(items.get, Address(ONE, "rule", kept.id)) == kept


def test_a_time_of_another_zone_is_the_same_moment(store: Opened) -> None:
    moment = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    store.write(put, episode(1, occurred_at=moment))
    kept = store.read(items.get, Address(ONE, "episode", UUID(int=1))).occurred_at
    assert kept == moment and kept.utcoffset() == timedelta()


def test_vectors_are_kept_bit_by_bit(store: Opened) -> None:
    vector = (1 / 3, -1e-20, 3e38, 5e-45)
    store.write(put, rule(1), vector=vector)
    kept = store.read(lambda conn: conn.fetch_one(f"SELECT {conn.vector_value('embedding')} FROM rules"))
    assert kept == {"embedding": struct.pack("<4f", *vector)}
