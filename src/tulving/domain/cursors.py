"""Opaque cursors: the place in a listing at which a page ended, as text."""

import base64
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from tulving.errors import InvalidInput

Place = str | datetime | UUID
Row = TypeVar("Row")


def write(*place: Place) -> str:
    """The cursor of a place: the sort key of the last row of a page."""
    parts = [part.isoformat() if isinstance(part, datetime) else str(part) for part in place]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def read(cursor: object, *types: type) -> tuple[Place, ...] | None:
    """The place of a cursor, whose parts have these types; None without a cursor."""
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(str(cursor).encode()))
        return tuple(_READ[kind](part) for kind, part in zip(types, parts, strict=True))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidInput("cursor", "is not valid", "the next_cursor of the previous page") from None


def page(found: Sequence[Row], limit: int, place: Callable[[Row], Sequence[Place]]) -> tuple[list[Row], str | None]:
    """The rows of a page, and the cursor of the next one if there is one: `found` has a row more than the page then."""
    return [*found[:limit]], write(*place(found[limit - 1])) if len(found) > limit else None


def _text(part: object) -> str:
    if not isinstance(part, str) or "\x00" in part:
        raise ValueError(part)
    part.encode()
    return part


def _time(part: str) -> datetime:
    moment = datetime.fromisoformat(part)
    if moment.tzinfo is None:
        raise ValueError(part)
    return moment.astimezone(UTC)


_READ = {str: _text, datetime: _time, UUID: UUID}
