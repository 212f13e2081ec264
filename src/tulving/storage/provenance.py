"""The memories around one, along their links."""

from uuid import UUID

from tulving.domain.model import Episode, Item, Link
from tulving.domain.provenance import Provenance, distinct, own_links
from tulving.domain.scope import Address, Bound, address_of
from tulving.storage import items, layers, links, settlements
from tulving.storage.connection import Connection
from tulving.storage.filters import reach
from tulving.storage.kinds import KIND, REVIEWED


def around(conn: Connection, address: Address, bound: Bound, depth: int, most: int) -> Provenance | None:
    """A memory with those that at most `depth` links lead to, the nearest first, `most` in all; None if it is gone."""
    anchor = items.get(conn, address)
    if anchor is None:
        return None
    known: dict[UUID, Item] = {anchor.id: anchor}
    found: list[Link] = []
    edge, partial = [anchor], False
    for _ in range(depth):
        for item in edge:
            found += [*links.of_item(conn, address_of(item), "both", bound), *own_links(item)]
            if isinstance(item, Episode):
                found += _learned(conn, item, bound, most)
        ends = dict.fromkeys(id_ for link in found for id_ in (link.source_id, link.target_id) if id_ not in known)
        room = most - len(known)
        partial = partial or len(ends) > room
        edge = layers.find(conn, address.tenant_id, bound, [*ends][:room])
        known |= {item.id: item for item in edge}
    among = [link for link in distinct(found) if link.source_id in known and link.target_id in known]
    about = settlements.of_fact(conn, address.tenant_id, address.id, bound) if address.kind == "fact" else []
    return Provenance([*known.values()], among, about, partial)


def _learned(conn: Connection, episode: Episode, bound: Bound, most: int) -> list[Link]:
    """The links of the facts and rules that name an episode as their source."""
    found: list[Link] = []
    for kind in REVIEWED:
        where, params = reach(kind, episode.tenant_id, bound)
        rows = conn.fetch_all(
            f"{KIND[kind].select} WHERE {where} AND m.source_episode_id = :episode ORDER BY m.created_at, m.id"
            " LIMIT :most",
            {**params, "episode": episode.id, "most": most},
        )
        own = [link for row in rows for link in own_links(KIND[kind].item(row))]
        found += [link for link in own if link.target_id == episode.id]
    return found
