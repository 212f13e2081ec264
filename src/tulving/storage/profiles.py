"""Profiles: the blocks of each owner, of which every version is kept, and the facts that belong to them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import intake
from tulving.domain.editing import check_unchanged
from tulving.domain.events import Audit
from tulving.domain.profile import BLOCKS, Block, ProfileOwner
from tulving.domain.scope import Bound, Filter, Owner
from tulving.domain.text import content_hash
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.filters import behind, visible
from tulving.storage.rows import Row, insert_statement

MOST_FACTS = 1000
_OWNER = ("user_id", "household_id", "persona_id")
_OF_BLOCK = tuple(Block.__slots__)
_INSERT = insert_statement("profile_blocks", ("tenant_id", "owner", *_OWNER, *_OF_BLOCK))
_MINE = "p.tenant_id = :tenant_id AND p.owner = :owner"
_FROM_BLOCKS = f"{', '.join(_OF_BLOCK)} FROM profile_blocks AS p"


def current(conn: Connection, tenant_id: str, owner: Owner, as_of: datetime | None = None) -> dict[str, Block]:
    """The newest version of each block, or the one that was the newest at a moment; empty blocks too."""
    known = "" if as_of is None else " AND created_at <= :as_of"
    rows = conn.fetch_all(
        f"SELECT {_FROM_BLOCKS} WHERE {_MINE} AND number = (SELECT MAX(number) FROM profile_blocks"
        f" WHERE tenant_id = p.tenant_id AND owner = p.owner AND block = p.block{known})",
        {**_key(tenant_id, owner), "as_of": as_of},
    )
    found = {row["block"]: Block(**row) for row in rows}
    return {block: found[block] for block in BLOCKS if block in found}


def history(conn: Connection, tenant_id: str, owner: Owner, block: str) -> list[Block]:
    """Every version of a block, oldest first."""
    rows = conn.fetch_all(
        f"SELECT {_FROM_BLOCKS} WHERE {_MINE} AND p.block = :block ORDER BY p.number",
        {**_key(tenant_id, owner), "block": block},
    )
    return [Block(**row) for row in rows]


def owners(
    conn: Connection, tenant_id: str, bound: Bound, limit: int, after: Sequence[Any] | None
) -> list[ProfileOwner]:
    """Those that have a profile, as far as a caller is bound to them; who was written about last comes first. `after`
    is the place of the last one of the previous page."""
    parts = {name: value for name in _OWNER if (value := getattr(bound.owner, name)) is not None}
    mine = "".join(f" AND p.{name} = :{name}" for name in parts)
    beyond, place = behind(after, "MAX(created_at)", "owner")
    newest = (
        "number = (SELECT MAX(number) FROM profile_blocks"
        " WHERE tenant_id = p.tenant_id AND owner = p.owner AND block = p.block)"
    )
    rows = conn.fetch_all(
        f"SELECT {', '.join(_OWNER)}, COUNT(*) FILTER (WHERE content <> '') AS blocks, MAX(created_at) AS created_at"
        f" FROM profile_blocks AS p WHERE p.tenant_id = :tenant_id{mine} AND {newest}"
        f" GROUP BY owner, {', '.join(_OWNER)} HAVING {beyond} ORDER BY MAX(created_at) DESC, owner DESC LIMIT :limit",
        {"tenant_id": tenant_id, "limit": limit, **parts, **place},
    )
    return [ProfileOwner(written_at=row.pop("created_at"), **row) for row in rows]


def update(
    conn: Connection,
    tenant_id: str,
    owner: Owner,
    blocks: Mapping[str, str],
    audit: Audit,
    unchanged_since: datetime | None = None,
) -> list[str]:
    """Write the blocks whose text differs from what is there, as new versions; returns their names."""
    intake.key("owner", tenant_id, owner.key)
    _lock(conn, tenant_id, owner)
    known = current(conn, tenant_id, owner)
    for block in blocks:
        check_unchanged(f"the block {block}", known[block].created_at if block in known else None, unchanged_since)
    changed = {
        block: content
        for block, content in blocks.items()
        if content != (known[block].content if block in known else "")
    }
    for block, content in changed.items():
        number = known[block].number + 1 if block in known else 1
        written = Block(block=block, number=number, content=content, run_id=audit.run_id, created_at=audit.now)
        values = {name: getattr(written, name) for name in _OF_BLOCK}
        whose = {name: getattr(owner, name) for name in _OWNER}
        conn.execute(_INSERT, {**_key(tenant_id, owner), **whose, **values})
        details = {"block": block, "number": number, "content_hash": content_hash(content)}
        events.append(conn, audit.event("profile_updated", "profile", None, **details))
    return list(changed)


def restore(
    conn: Connection, tenant_id: str, owner: Owner, block: str, number: int, audit: Audit, *, run_id: UUID
) -> bool:
    """Undo the version of a block that a run wrote: the one before it is written again. False if the block says
    something else now, because someone has changed or deleted it since.

    It is the text that counts: undoing a later run brings the version of this one back under a new number. Numbers
    start anew after a deletion, so the run must match as well.
    """
    _lock(conn, tenant_id, owner)
    versions = history(conn, tenant_id, owner, block)
    place = next((at for at, each in enumerate(versions) if (each.number, each.run_id) == (number, run_id)), None)
    if place is None or versions[place].content != versions[-1].content:
        return False
    before = versions[place - 1].content if place else ""
    update(conn, tenant_id, owner, {block: before}, audit)
    return True


def delete(conn: Connection, tenant_id: str, owner: Owner, block: str | None, audit: Audit) -> int:
    """Delete all versions of one block, or (None) of all; returns how many. Events without content remain."""
    _lock(conn, tenant_id, owner)
    deleted = 0
    for each in BLOCKS if block is None else (block,):
        versions = conn.execute(
            f"DELETE FROM profile_blocks AS p WHERE {_MINE} AND p.block = :block",
            {**_key(tenant_id, owner), "block": each},
        )
        if versions:
            events.append(conn, audit.event("profile_deleted", "profile", None, block=each, versions=versions))
        deleted += versions
    return deleted


def facts(conn: Connection, tenant_id: str, bound: Bound, most_characters: int, now: datetime) -> list[Row]:
    """The unkeyed facts in use of exactly the bound owner, with the beginning of their content. Of more than
    `MOST_FACTS`, those with the highest confidence that were confirmed last."""
    wanted = Filter(owner=bound.owner, project=bound.project, scope=bound.scope)
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    unset = "".join(f" AND m.{part} IS NULL" for part in _OWNER if getattr(bound.owner, part) is None)
    return conn.fetch_all(
        "SELECT m.id, m.type, m.predicate, SUBSTR(m.content, 1, :most_characters) AS content, m.confidence,"
        f" m.decay_rate, m.last_confirmed_at, m.created_at FROM facts AS m WHERE {where}{unset} AND NOT m.keyed"
        " ORDER BY m.confidence DESC, COALESCE(m.last_confirmed_at, m.created_at) DESC, m.id LIMIT :limit",
        {**params, "most_characters": most_characters, "limit": MOST_FACTS},
    )


def _lock(conn: Connection, tenant_id: str, owner: Owner) -> None:
    conn.lock(repr(("profile", tenant_id, owner.key)))


def _key(tenant_id: str, owner: Owner) -> Row:
    return {"tenant_id": tenant_id, "owner": owner.key}
