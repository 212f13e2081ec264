"""Segments as bytes, and which of them are made, merged and past their time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.segments import Archived, DamagedSegment, Segment, checksum, cutoff, pack, surplus, to_merge, unpack

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ENTRY = st.builds(Archived, st.uuids(), TEXT, st.dictionaries(TEXT, st.none() | st.integers() | st.lists(TEXT)))


@given(st.lists(ENTRY, unique_by=lambda entry: entry.id))
def test_what_is_packed_is_unpacked(entries: list[Archived]) -> None:
    body = pack(entries)
    assert unpack(body, checksum(body)) == {entry.id: entry for entry in entries}
    assert pack(reversed(entries)) == body


def test_any_flipped_bit_and_any_cut_are_found() -> None:
    body = pack(Archived(UUID(int=number), f"walk {number} ü", {"n": number}) for number in range(5))
    other = pack([Archived(UUID(int=9), "another", {})])
    broken = [body[:at] + bytes([body[at] ^ 1 << at % 8]) + body[at + 1 :] for at in range(len(body))]
    broken += [body[:at] for at in range(len(body))] + [body + b"\x00", other, b""]
    for each in broken:
        with pytest.raises(DamagedSegment):
            unpack(each, checksum(body))


@pytest.mark.parametrize(
    ("at_hand", "capacity", "archivable", "expected"),
    [(10, 10, 10, 0), (11, 10, 11, 1), (11, 10, 0, 0), (20, 10, 3, 3), (5, 0, 5, 5), (0, 10, 0, 0)],
)
@pytest.mark.scenario("000-016")
def test_what_exceeds_the_capacity(at_hand: int, capacity: int, archivable: int, expected: int) -> None:
    assert surplus(at_hand, capacity, archivable) == expected


def test_the_time_before_which_episodes_are_old() -> None:
    assert cutoff(NOW, None) is None
    assert cutoff(NOW, 0) == NOW
    assert cutoff(NOW, 1.5) == NOW - timedelta(days=1, hours=12)
    assert cutoff(NOW, 10_000_000) is None, "before the beginning of time"


def of(*sizes: int, **given: str) -> list[Segment]:
    return [
        Segment(
            tenant_id="t",
            id=UUID(int=number),
            status=given.get("status", "sealed"),  # pyright: ignore[reportArgumentType]
            episodes=size,
            size=1,
            checksum="",
            first_at=NOW + timedelta(days=number),
            last_at=NOW + timedelta(days=number),
            created_at=NOW,
        )
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ((), []),
        ((1,), []),
        ((5, 5), [0, 1]),
        ((6, 5), []),
        ((6, 5, 5, 1), [1, 2]),
        ((5, 6, 5), []),
        ((5, 6, 4, 3), [2, 3]),
        ((1, 2, 3, 4, 1), [0, 1, 2, 3]),
        ((4, 4, 4), [0, 1]),
        ((10, 10), []),
    ],
)
@pytest.mark.scenario("000-016")
def test_neighbours_that_are_at_most_half_full_are_merged(sizes: tuple[int, ...], merged: list[int]) -> None:
    assert [each.id.int for each in to_merge(of(*sizes), 10)] == merged
    assert [each.id.int for each in to_merge(of(*sizes)[::-1], 10)] == merged
    assert to_merge(of(*sizes, status="filling"), 10) == to_merge(of(*sizes, status="damaged"), 10) == []
