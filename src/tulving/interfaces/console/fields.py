"""The values of form fields and query parameters, which arrive as text."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tulving.errors import InvalidInput

Fields = Mapping[str, Any]


def text(fields: Fields, name: str) -> str:
    """A field without surrounding whitespace; empty if it is missing."""
    return str(fields.get(name, "")).strip()


def prose(fields: Fields, name: str) -> str:
    """A text of several lines, as it was before the browser gave it the line ends of forms (CRLF)."""
    return str(fields.get(name, "")).replace("\r\n", "\n")


def number(fields: Fields, name: str) -> float | None:
    """A number; None if the field is empty."""
    given = text(fields, name)
    try:
        return float(given) if given else None
    except ValueError:
        raise InvalidInput(name, f"{given!r:.40} is not a number", "a number") from None


def whole(fields: Fields, name: str) -> int | None:
    """A whole number; None if the field is empty."""
    given = text(fields, name)
    try:
        return int(given) if given else None
    except ValueError:
        raise InvalidInput(name, f"{given!r:.40} is not a whole number", "a whole number") from None


def moment(fields: Fields, name: str) -> datetime | None:
    """A time, in UTC unless it has an offset; None if the field is empty."""
    if not (given := text(fields, name)):
        return None
    try:
        read = datetime.fromisoformat(given)
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(name, f"{given!r:.40} is not a time", "such as 2026-01-31T18:00, in UTC") from None


def tags(fields: Fields) -> list[str]:
    """The labels in the field `tags`, which commas separate."""
    return [tag for each in text(fields, "tags").split(",") if (tag := each.strip())]


def problem(error: InvalidInput) -> str:
    """Why a form was refused, with the name of the field as people write it."""
    return str(error).replace(error.field, error.field.replace("_", " ").capitalize(), 1)
