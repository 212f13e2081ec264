"""Intake: what a caller passes in is stripped of private text, validated and classified."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from tulving.domain.text import clean
from tulving.errors import InvalidInput

MAX_CONTENT_BYTES = 16 * 1024 * 1024
MAX_QUERY = 10_000
MAX_NAME = 1_000
MAX_KEY_BYTES = 2_500
MAX_TAGS = 100
MAX_DEPTH = 32
MAX_DIGITS = 300
T = TypeVar("T", bound=str)


class Between(NamedTuple):
    """The numbers that a value may be, both included: what is checked here, and what schemas tell beforehand."""

    low: int
    high: int


class OneOf(tuple[str, ...]):
    """The words that a value may be, for schemas; `one_of` checks them."""


IMPORTANCE = Between(0, 10)
FRACTION = Between(0, 1)
_PRIVATE = re.compile(r"<(/?)\s*private\b[^<>]*>", re.IGNORECASE)
_PIECE = re.compile(r"[<>]|[^<>]+")
# PostgreSQL's driver takes the very first and last moment for infinities.
_FIRST = datetime.min.replace(microsecond=1, tzinfo=UTC)
LAST = datetime.max.replace(microsecond=999_998, tzinfo=UTC)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

EPISODE_TYPES = ("bugfix", "feature", "refactor", "decision", "discovery", "change", "observation")
_WORD = re.compile(r"\w+")
_SIGNS = (
    "fix bug error crash failure broken patch",
    "add new feature creat create implement introduc introduce",
    "refactor restructur restructure reorganis reorganise reorganiz reorganize cleanup simplify simplifie",
    "decid decide chose chosen decision pick select prefer preferr",
    "found discover learn realiz realize notic notice insight",
    "chang change updat update modify modifie adjust tweak alter",
)
_TYPE_OF = {
    stem + ending: place
    for place, stems in reversed(list(enumerate(_SIGNS)))
    for stem in stems.split()
    for ending in ("", "s", "es", "d", "ed", "ing")
}


def classify(text: str) -> str:
    """002-016: the type of an episode by the first family of words that it uses."""
    nothing = len(_SIGNS)
    return EPISODE_TYPES[min((_TYPE_OF.get(word, nothing) for word in _WORD.findall(text.lower())), default=nothing)]


def strip_private(text: str) -> str:
    """002-014: without the text between <private> tags; an unclosed one hides all that follows, <private/> nothing.

    Removing a part can join its neighbours to another tag, which counts too. One pass finds them all in linear time:
    text is only ever removed from the end of `kept`, and each piece is tried once, since a `>` that ends no tag rules
    out every `<` before it.
    """
    if "<" not in text or _PRIVATE.search(text) is None:
        return text
    kept: list[str] = []
    # For the text and each private part nested in it: where it begins, and each `<` that may begin a tag.
    parts: list[tuple[int, list[int]]] = [(0, [])]
    for piece in _PIECE.finditer(text):
        kept.append(piece[0])
        brackets = parts[-1][1]
        if piece[0] == "<":
            brackets.append(len(kept) - 1)
        elif piece[0] == ">" and brackets:
            start = brackets.pop()
            tag = _PRIVATE.fullmatch("".join(kept[start:]))
            if tag is None:
                brackets.clear()
                continue
            del kept[start:]
            if not tag[1]:
                if not tag[0][:-1].rstrip().endswith("/"):
                    parts.append((start, []))
            elif len(parts) > 1:
                del kept[parts.pop()[0] :]
    if len(parts) > 1:
        del kept[parts[1][0] :]
    return "".join(kept)


def public(text: str) -> str:
    """Text without the characters that a database can't hold, and then without its private parts."""
    return strip_private(clean(text))


def content(value: object, field: str = "content", most: int | None = None) -> str:
    """The content of a memory: not empty without its private text, and of at most `most` characters."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, not {type(value).__name__}", "a non-empty string")
    text = public(value).strip()
    if not text:
        problem = "is empty once private text is removed" if value.strip() else "is empty"
        raise InvalidInput(field, problem, "a non-empty string")
    if len(text) > MAX_CONTENT_BYTES or len(text.encode()) > MAX_CONTENT_BYTES:
        raise InvalidInput(field, "is too long", f"at most {MAX_CONTENT_BYTES:,} bytes of UTF-8")
    if most is not None and len(text) > most:
        raise InvalidInput(field, f"has {len(text):,} characters", f"at most {most:,} (max_content_characters)")
    return text


def search_query(field: str, value: object, *, cut: bool = False) -> str:
    """A query. An empty one finds nothing; one that is too long is refused, or cut."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, not {type(value).__name__}", "a string")
    if len(value) > MAX_QUERY and not cut:
        raise InvalidInput(field, f"has {len(value):,} characters", f"at most {MAX_QUERY:,} characters")
    return value[:MAX_QUERY]


def identifier(field: str, value: object, most: int = MAX_NAME) -> str:
    """A name that is compared exactly, so nothing in it is silently changed."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, not {type(value).__name__}", f"1 to {most} characters")
    if not value.strip():
        raise InvalidInput(field, "is empty", f"1 to {most} characters")
    if len(value) > most:
        raise InvalidInput(field, f"has {len(value)} characters", f"1 to {most} characters")
    if bad := _CONTROL.search(value):
        raise InvalidInput(
            field, f"holds the character U+{ord(bad[0]):04X}", "no control characters or lone surrogates"
        )
    return value


def name(field: str, value: object, most: int = MAX_NAME) -> str:
    """A name that may contain private text, which is removed."""
    return identifier(field, strip_private(value).strip() if isinstance(value, str) else value, most)


def key(field: str, *names: str) -> None:
    """Names that form one key; PostgreSQL's indexes can't hold a longer one."""
    if sum(map(len, names)) * 4 <= MAX_KEY_BYTES:  # a character has four bytes at most
        return
    size = sum(len(name.encode()) for name in names)
    if size > MAX_KEY_BYTES:
        problem = f"is too long: with its tenant, owner and namespace it has {size:,} bytes"
        raise InvalidInput(field, problem, f"at most {MAX_KEY_BYTES:,} bytes of UTF-8 in all")


def optional_name(field: str, value: object) -> str | None:
    return None if value is None else name(field, value)


def number(field: str, value: object, low: float, high: float) -> float:
    """A finite number, `low` and `high` included."""
    allowed = f"a number from {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, f"must be a number, not {type(value).__name__}", allowed)
    if not low <= value <= high:  # also of NaN
        raise InvalidInput(field, f"is {_shown(value)}", allowed)
    return float(value)


def whole(field: str, value: object, low: int, high: int) -> int:
    """A whole number, `low` and `high` included."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(field, f"must be a whole number, not {type(value).__name__}", f"{low} to {high}")
    if not low <= value <= high:
        raise InvalidInput(field, f"is {_shown(value)}", f"a whole number from {low} to {high}")
    return value


def flag(field: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be true or false, not {type(value).__name__}", "true, false")
    return value


def one_of(field: str, value: object, allowed: Sequence[T]) -> T:
    """One of the allowed words."""
    for word in allowed:
        if word == value:
            return word
    raise InvalidInput(field, f"{_shown(value)} is not known", ", ".join(sorted(allowed)))


def items(field: str, value: object, most: int | None, allowed: str) -> Sequence[Any]:
    """A list of at most `most` entries."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInput(field, f"must be a list, not {type(value).__name__}", allowed)
    if most is not None and len(value) > most:
        raise InvalidInput(field, f"has {len(value)} entries", f"at most {most}")
    return value


def memory_id(field: str, value: object) -> UUID:
    """A UUID, or the text of one."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)  # pyright: ignore[reportArgumentType]
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(field, f"{_shown(value)} is not an id", "a UUID") from None


def optional_id(field: str, value: object) -> UUID | None:
    return None if value is None else memory_id(field, value)


def moment(field: str, value: object) -> datetime | None:
    """A time in UTC; a time without a zone is taken to be in UTC."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"must be a time, not {type(value).__name__}", "a datetime")
    try:
        utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(field, f"is {value}, out of range in UTC", "years 1 to 9999") from None
    return min(max(utc, _FIRST), LAST)


def tags(value: object) -> list[str]:
    """Labels: stripped, without duplicates, in the order given."""
    given = [] if value is None else items("tags", value, MAX_TAGS, "a list of short texts")
    for tag in given:
        if not isinstance(tag, str):
            raise InvalidInput("tags", f"holds a {type(tag).__name__}", "a list of short texts")
    kept = filter(None, (strip_private(tag).strip() for tag in given))
    return list(dict.fromkeys(identifier("tags", tag, most=200) for tag in kept))


def metadata(value: object) -> dict[str, Any]:
    """Free details: JSON values only, private text removed from every string."""
    if not isinstance(value, Mapping | None):
        raise InvalidInput("metadata", f"must be an object, not {type(value).__name__}", "a JSON object")
    return _json_value(value or {}, "metadata", 0)


def _shown(value: object) -> str:
    """A value as an error message shows it: shortened, and without failing itself."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):  # a number of thousands of digits, or a very deep structure
        return f"some {type(value).__name__}"


def _json_value(value: object, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidInput("metadata", "is nested too deeply", f"at most {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and abs(value) < 10**MAX_DIGITS:
        return int(value)
    if isinstance(value, str):
        return public(value)
    if isinstance(value, Mapping):
        return {public(str(key)): _json_value(inner, f"{where}.{key}", depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner, f"{where}[{index}]", depth + 1) for index, inner in enumerate(value)]
    raise InvalidInput(
        clean(where)[:200], f"{_shown(value)} is not a JSON value", "text, number, true, false, null, list, object"
    )
