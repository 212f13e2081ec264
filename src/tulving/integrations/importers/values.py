"""What the fields of other programs' records become."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tulving.domain.model import EntityType
from tulving.errors import InvalidInput

LONGEST_LABEL = 200
_MILLISECONDS = 100_000_000_000
"""A number above this, as seconds, would be a time in the year 5138 or later."""
_BREAKS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")
_TYPES: dict[str, EntityType] = {
    **dict.fromkeys(("person", "people", "human", "user", "contact", "friend", "colleague"), "person"),
    **dict.fromkeys(("organization", "organisation", "company", "team", "org", "institution"), "organization"),
    **dict.fromkeys(("place", "location", "city", "country", "address"), "place"),
}


def mapping(place: str, value: object) -> Mapping[str, Any]:
    """A record that has to be an object."""
    if not isinstance(value, Mapping):
        raise InvalidInput(place, f"is a {type(value).__name__}", "a JSON object")
    return value


def text(value: object, name: str) -> str:
    """A field that has to be text."""
    if not isinstance(value, str):
        raise InvalidInput(name, "is missing" if value is None else f"is a {type(value).__name__}", "text")
    return value


def label(value: object) -> str | None:
    """A heading or name on one line, shortened; None if it has no words."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    return _BREAKS.sub(" ", str(value)).strip()[:LONGEST_LABEL].strip() or None


def moment(value: object, name: str = "time") -> datetime | None:
    """A time: in ISO 8601, or a number of seconds or milliseconds since 1970. Without a zone it is in UTC."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and not re.fullmatch(r"-?\d+(\.\d+)?", value):
            return datetime.fromisoformat(value.strip())
        seconds = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        if seconds is not None:
            return datetime.fromtimestamp(seconds / 1000 if abs(seconds) > _MILLISECONDS else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInput(name, f"{value!r:.60} is not a time", "ISO 8601, or seconds since 1970")


def compact(value: object) -> str:
    """A value as short JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def entity_type(name: str) -> EntityType:
    """The type of entity that another program's word stands for."""
    return _TYPES.get(name.strip().casefold(), "other")
