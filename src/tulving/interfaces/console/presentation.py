"""Templates, and the filters and functions that format values in them."""

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tulving.domain.model import KIND_OF, Episode, Fact, Hit, Item, Rule
from tulving.interfaces.wording import counted, span

HERE = Path(__file__).parent
STATIC = HERE / "static"
CLIP = 280
"""Characters of a memory in a list."""
SETTLED = {"held": "waiting for you", "applied": "settled", "reverted": "taken back", "dismissed": "both kept"}
"""The words for the states of a conflict."""
MINUTE, WEEK = timedelta(minutes=1), timedelta(days=7)
GRAINS = (r"\w+|\s+|[^\w\s]", r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+", r".+")
"""What a diff compares, from fine to coarse: words, sentences, the whole text."""
MOST_PIECES, LONGEST_COMPARED = 500, 50_000


@cache
def environment() -> Environment:
    """The template environment. Values are escaped, and an undefined name is an error."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"ago": ago, "asset": asset, "kind_of": kind_of, "memory_path": memory_path, "path_of": path_of}
    made.globals |= {"settled": SETTLED, "shares": shares, "state_of": state_of, "words": word_diff}
    made.filters |= {"absolute": absolute, "clip": clip, "counted": counted, "day": day, "in_words": in_words}
    made.filters["thousands"] = thousands
    return made


def rendered(template: str, **values: Any) -> str:
    """Render a template. The macros of parts.html are available as `parts`, those of icons.html as `icons`."""
    return environment().get_template(template).render(values | _macros(values))


def rendered_block(template: str, block: str, **values: Any) -> str:
    """Render one block of a template."""
    found = environment().get_template(template)
    return "".join(found.blocks[block](found.new_context(values | _macros(values))))


def _macros(values: dict[str, Any]) -> dict[str, Any]:
    """The macros as variables: a block that is rendered alone does not run the imports of its template."""
    icons = environment().get_template("icons.html").module
    parts = environment().get_template("parts.html").make_module({"visit": values["visit"], "icons": icons})
    return {"parts": parts, "icons": icons}


@cache
def asset(name: str) -> str:
    """The URL of a static file, which contains a hash of its content, so that browsers may cache it indefinitely."""
    return f"/console/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def kind_of(item: Item | Hit) -> str:
    """episode, fact or rule."""
    return item.memory_type if isinstance(item, Hit) else KIND_OF[type(item)]


def memory_path(kind: str, id_: object) -> str:
    """The page of a memory, by its kind and id."""
    return f"/console/memory/{kind}/{id_}"


def path_of(item: Item | Hit) -> str:
    """The page of a memory."""
    return memory_path(kind_of(item), item.id)


def state_of(item: Item, now: datetime) -> str:
    """The state of a memory in a word: the state of a fact, the maturity of a rule unless it is forgotten or fading,
    and for an episode whether it was learned from, archived, expired or forgotten."""
    match item:
        case Fact():
            return item.state
        case Rule():
            return "forgotten" if item.forgotten else "fading" if item.status == "fading" else item.maturity
        case Episode() if item.forgotten:
            return "forgotten"
        case Episode() if item.segment_id is not None:
            return "archived"
        case Episode() if item.expires_at is not None and item.expires_at <= now:
            return "expired"
        case _:
            return "learned" if item.consolidated else "active"


def clip(text: str, most: int = CLIP) -> str:
    """A text, shortened for a list."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def absolute(moment: datetime) -> str:
    """A moment with date, time and time zone."""
    return f"{moment.day} {moment:%b %Y, %H:%M:%S} {moment.tzname() or 'UTC'}"


def day(moment: datetime) -> str:
    """A day."""
    return f"{moment.day} {moment:%b %Y}"


def ago(moment: datetime, now: datetime) -> str:
    """The distance of a moment from now; a date if that is more than a week."""
    distance = abs(now - moment)
    if distance > WEEK:
        return day(moment)
    if distance < MINUTE:
        return "just now" if moment <= now else "in a moment"
    said = span(distance.total_seconds())
    return f"{said} ago" if moment <= now else f"in {said}"


def thousands(number: float) -> str:
    """A number with thousands separators."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"


def in_words(value: Any) -> str:
    """A value of a setting, an event or the result of a job."""
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{name} {in_words(part)}" for name, part in value.items())
        case list() | tuple():
            return ", ".join(map(in_words, value)) or "none"
    return str(value)


def word_diff(old: str, new: str) -> Iterator[tuple[str, str]]:
    """A diff of two texts: pieces that are unchanged (same), added (ins) and removed (del).

    The pieces are words. In long texts they are sentences or, if even those are many, the whole text: the time that a
    diff takes can grow with the square of its pieces, and every request waits for it.
    """
    before, after = list[str](), list[str]()
    for grain in GRAINS if max(len(old), len(new)) <= LONGEST_COMPARED else GRAINS[-1:]:
        before, after = re.findall(grain, old, re.DOTALL), re.findall(grain, new, re.DOTALL)
        if max(len(before), len(after)) <= MOST_PIECES:
            break
    for change, a, b, c, d in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if change == "equal":
            yield "same", "".join(before[a:b])
            continue
        if a < b:
            yield "del", "".join(before[a:b])
        if c < d:
            yield "ins", "".join(after[c:d])


def shares(parts: Sequence[Sequence[Any]], whole: float | None = None) -> list[tuple[str, float, float, float, str]]:
    """The parts of a stacked bar: label, value, start and width in per cent of the `whole`, which is their sum if it is
    not given, and class."""
    total = whole or sum(part[1] for part in parts) or 1
    found, start = [], 0.0
    for number, (label, value, *named) in enumerate(parts, 1):
        width = 100 * value / total
        found.append((label, value, round(start, 2), round(width, 2), named[0] if named else f"series-{number}"))
        start += width
    return found
