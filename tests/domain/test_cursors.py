"""Cursors: a place in a listing survives being given to a caller and back."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tulving import InvalidInput
from tulving.domain import cursors

WHEN, WHO = datetime(2026, 3, 1, 12, tzinfo=UTC), UUID(int=7)


def test_a_place_is_read_as_it_was_written():
    assert cursors.read(cursors.write("größe", WHEN, WHO), str, datetime, UUID) == ("größe", WHEN, WHO)
    assert cursors.read(None, str) is None


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "....",
        "é",
        7,
        cursors.write("only one"),
        cursors.write("a", "no time", WHO),
        cursors.write("a", datetime(2026, 3, 1), WHO),
        cursors.write("a", WHEN, "no id"),
        cursors.write("a\x00b", WHEN, WHO),
        cursors.write("\ud800", WHEN, WHO),
        cursors.write("a", WHEN, WHO, "more"),
        "WzEsMiwzXQ==",
        "eyJhIjogMX0=",
        "bnVsbA==",
    ],
)
def test_anything_else_is_refused(cursor):
    with pytest.raises(InvalidInput, match="next_cursor"):
        cursors.read(cursor, str, datetime, UUID)
