"""What search in layers reads: the memories around one in time, and memories of any kind by their ids."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from tulving.domain.layers import chronological
from tulving.domain.model import KINDS, Item, Kind
from tulving.domain.scope import Address, Bound, Filter
from tulving.storage import items, timeline
from tulving.storage.connection import Connection
from tulving.storage.filters import reach, reachable, visible
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

_DATED_BY: dict[Kind, str] = {"episode": KIND["episode"].dated_by, "fact": "m.created_at", "rule": "m.created_at"}
"""`layers.moment` in SQL; each has an index."""


def around(
    conn: Connection,
    anchor: Item,
    kinds: Sequence[Kind],
    wanted: Filter,
    session_id: UUID | None,
    now: datetime,
    window: int,
) -> list[Item]:
    """The memories of some kinds that are nearest to an anchor in time, `window` on each side, in order; with it."""
    before, after = list[Item](), list[Item]()
    for kind in kinds:
        where, params = visible(conn, kind, anchor.tenant_id, wanted, now)
        if session_id is not None:
            where += " AND m.session_id = :session_id"
            params["session_id"] = session_id
        before += _side(conn, kind, where, params, anchor, "<", window)
        after += _side(conn, kind, where, params, anchor, ">", window)
    before.sort(key=chronological, reverse=True)
    return [*reversed(before[:window]), anchor, *sorted(after, key=chronological)[:window]]


def _side(
    conn: Connection, kind: Kind, where: str, params: Row, anchor: Item, sign: str, window: int
) -> Iterator[Item]:
    """The nearest memories of one kind on one side of an anchor, in `chronological` order."""
    at, down = _DATED_BY[kind], " DESC" if sign == "<" else ""
    time, created_at, id_ = chronological(anchor)
    rows = conn.fetch_all(
        f"{KIND[kind].select} WHERE {where} AND {at} {sign}= :at AND"
        f" ({at} {sign} :at OR m.created_at {sign} :created_at OR m.created_at = :created_at AND m.id {sign} :id)"
        f" ORDER BY {at}{down}, m.created_at{down}, m.id{down} LIMIT :limit",
        {**params, "at": time, "created_at": created_at, "id": id_, "limit": window},
    )
    return map(KIND[kind].item, timeline.restored(conn, rows))


def find(conn: Connection, tenant_id: str, bound: Bound, names: Sequence[UUID | str]) -> list[Item]:
    """The memories with these ids or short references that the caller may read, in the order of the names."""
    ids = [name for name in names if isinstance(name, UUID)]
    addresses: dict[UUID | str, Address] = {
        id_: Address(tenant_id, kind, id_) for kind in KINDS for id_ in reachable(conn, kind, tenant_id, bound, ids)
    }
    if refs := [name for name in names if isinstance(name, str)]:
        where, params = reach("fact", tenant_id, bound)
        rows = conn.fetch_all(
            f"SELECT m.ref, m.id FROM facts AS m WHERE {where} AND {conn.within('m.ref', 'refs')}",
            {**params, "refs": refs},
        )
        addresses |= {row["ref"]: Address(tenant_id, "fact", row["id"]) for row in rows}
    wanted = dict.fromkeys(addresses[name] for name in names if name in addresses)
    return [item for address in wanted if (item := items.get(conn, address)) is not None]
