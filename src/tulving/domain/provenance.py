"""Where a memory comes from and what came of it: the memories around it, and how they belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tulving.domain.model import KIND_OF, Fact, Item, Link, Relation, Rule, Settlement
from tulving.domain.scope import Address, address_of

FORWARD: Mapping[Relation, int] = {
    "derived_from": -1,
    "supersedes": -1,
    "supports": 1,
    "contradicts": 0,
    "related_to": 0,
}
"""In time, from the source of a link to its target: a step back, a step ahead, or none."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The memories around one, itself the first, the links among them, and the conflicts in which it was a side or the
    result. `partial` means that there are more than these."""

    items: Sequence[Item]
    links: Sequence[Link]
    settlements: Sequence[Settlement] = ()
    partial: bool = False


def own_links(item: Item) -> list[Link]:
    """The links that follow from a memory's own columns."""
    if not isinstance(item, Fact | Rule):
        return []
    found: list[Link] = []
    if item.source_episode_id is not None:
        found.append(_link(item, "derived_from", Address(item.tenant_id, "episode", item.source_episode_id)))
    if isinstance(item, Fact) and item.supersedes_id is not None:
        found.append(_link(item, "supersedes", Address(item.tenant_id, "fact", item.supersedes_id)))
    return found


def steps(anchor: UUID, links: Sequence[Link]) -> dict[UUID, int]:
    """How many steps each memory is before (negative) or after the anchor, for a graph that is laid out in time. What
    led to a memory is before it; what is only related to it is in the same place."""
    ends = dict.fromkeys(id_ for link in links for id_ in (link.source_id, link.target_id))
    ways = [_in_time(link) for link in links if FORWARD[link.relation]]
    found = dict.fromkeys((anchor, *ends), 0)
    for _ in found:  # the longest path has at most so many steps; a cycle ends somewhere
        for earlier, later in ways:
            found[later] = max(found[later], found[earlier] + 1)
    later_ones = {later for _, later in ways}
    for id_ in found:
        if id_ not in later_ones and (next_ones := [found[later] for earlier, later in ways if earlier == id_]):
            found[id_] = min(next_ones) - 1
    dated = {id_ for way in ways for id_ in way} | {anchor}
    for link in links:
        for one, other in ((link.source_id, link.target_id), (link.target_id, link.source_id)):
            if one not in dated and other in dated:
                found[one] = found[other]
    return {id_: step - found[anchor] for id_, step in found.items()}


def distinct(links: Sequence[Link]) -> list[Link]:
    """The links without duplicates, in order: a link may be known both from its row and from a column."""
    known: dict[tuple[UUID, Relation, UUID], Link] = {}
    for link in links:
        known.setdefault((link.source_id, link.relation, link.target_id), link)
    return list(known.values())


def _in_time(link: Link) -> tuple[UUID, UUID]:
    """The ends of a link, the earlier one first."""
    ends = link.source_id, link.target_id
    return ends if FORWARD[link.relation] > 0 else (ends[1], ends[0])


def _link(item: Fact | Rule, relation: Relation, target: Address) -> Link:
    return Link(
        source_type=KIND_OF[type(item)],
        source_id=address_of(item).id,
        target_type=target.kind,
        target_id=target.id,
        relation=relation,
        created_at=item.created_at,
    )
