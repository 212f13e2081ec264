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
    """The links that a memory's own columns tell of."""
    if not isinstance(item, Fact | Rule):
        return []
    found: list[Link] = []
    if item.source_episode_id is not None:
        found.append(_link(item, "derived_from", Address(item.tenant_id, "episode", item.source_episode_id)))
    if isinstance(item, Fact) and item.supersedes_id is not None:
        found.append(_link(item, "supersedes", Address(item.tenant_id, "fact", item.supersedes_id)))
    return found


def steps(anchor: UUID, links: Sequence[Link]) -> dict[UUID, int]:
    """How many steps each memory lies before (negative) or after the anchor: where it stands in a picture that is read
    from left to right."""
    near: dict[UUID, list[tuple[UUID, int]]] = {}
    for link in links:
        step = FORWARD[link.relation]
        near.setdefault(link.source_id, []).append((link.target_id, step))
        near.setdefault(link.target_id, []).append((link.source_id, -step))
    found, waiting = {anchor: 0}, [anchor]
    for id_ in waiting:
        for other, step in near.get(id_, ()):
            if other not in found:
                found[other] = found[id_] + step
                waiting.append(other)
    return found


def distinct(links: Sequence[Link]) -> list[Link]:
    """The links without repetitions, in order: the same one may be known from a row and from a column."""
    known: dict[tuple[UUID, Relation, UUID], Link] = {}
    for link in links:
        known.setdefault((link.source_id, link.relation, link.target_id), link)
    return list(known.values())


def _link(item: Fact | Rule, relation: Relation, target: Address) -> Link:
    return Link(
        source_type=KIND_OF[type(item)],
        source_id=address_of(item).id,
        target_type=target.kind,
        target_id=target.id,
        relation=relation,
        created_at=item.created_at,
    )
