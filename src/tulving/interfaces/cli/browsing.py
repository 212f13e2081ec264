"""Listings by page and by day, as lines for the terminal."""

from collections.abc import Iterator, Sequence

from tulving.domain.model import EntityReport, MergePreview, Page
from tulving.domain.profile import Block, ProfileOwner
from tulving.domain.statistics import Fading, Growth
from tulving.domain.text import shortened
from tulving.interfaces.cli.terminal import Line, moment, more
from tulving.interfaces.wording import counted

CLIP = 200


def growth(grown: Growth) -> Iterator[Line]:
    for day in grown:
        counts = f"{day.episodes:8,} episodes {day.facts:8,} facts {day.rules:8,} rules"
        yield 0, (f"{day.day:%Y-%m-%d}", "dim"), counts


def fading(coming: Fading) -> Iterator[Line]:
    for day in coming.days:
        yield 0, (f"{day.day:%Y-%m-%d}", "dim"), f"{day.fading:8,} begin to fade {day.expiring:8,} expire"
    for item in coming.memories:
        yield 0, shortened(item.content, CLIP)
        yield 3, (str(item.id), "dim")


def entities(page: Page[EntityReport]) -> Iterator[Line]:
    for each in page:
        names = f"  ({', '.join(each.entity.aliases)})" if each.entity.aliases else ""
        yield (
            0,
            (each.entity.canonical_name, "bold"),
            f"  {each.entity.entity_type}  {counted(each.facts, 'fact')}",
            (names, "dim"),
        )
        yield 3, (str(each.entity.id), "dim")
    if not page:
        yield 0, "no entities"
    yield from more(page.next_cursor)


def preview(coming: MergePreview) -> Iterator[Line]:
    facts = counted(coming.moving, "fact")
    yield 0, f"{facts} would move from {coming.source.canonical_name} to {coming.target.canonical_name}"
    if coming.aliases:
        yield 0, f"which would also be called {', '.join(coming.aliases)}"
    for pair in coming.superseded:
        stays, gone = (shortened(each.content, CLIP) for each in (pair.stays, pair.superseded))
        yield 0, (pair.stays.predicate, "cyan"), f"  {stays}", ("  supersedes  ", "dim"), gone


def owners(found: Page[ProfileOwner]) -> Iterator[Line]:
    for owner in found:
        named = (owner.user_id, owner.household_id, owner.persona_id)
        yield 0, " · ".join(filter(None, named)) or "everybody", (f"  {counted(owner.blocks, 'block')}", "dim")
    if not found:
        yield 0, "no profiles"
    yield from more(found.next_cursor)


def versions(found: Sequence[Block]) -> Iterator[Line]:
    for version in found:
        yield 0, (str(version.number), "bold"), (f"  {moment(version.created_at)}", "dim")
        yield 3, version.content or "(emptied)"
    if not found:
        yield 0, "never written"
