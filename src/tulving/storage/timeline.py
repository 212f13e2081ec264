"""The archive of old episodes. The content of an archived one lies in a segment; a slim row stays, by which links,
windows, exports and deletions find it.

A segment is written first, and its rows are emptied afterwards, a few at a time: whatever is interrupted, each episode
has its content in one place, and the next rotation goes on.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from uuid import UUID

from tulving.domain.events import Audit
from tulving.domain.model import Episode
from tulving.domain.segments import Archived, Contents, DamagedSegment, Segment, checksum, pack
from tulving.domain.text import content_hash, found_by, search_text
from tulving.errors import IntegrityError
from tulving.storage import events, timelines
from tulving.storage.connection import Connection, Interrupted
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row, insert_statement

_COLUMNS = tuple(field.name for field in fields(Segment))
_SEGMENTS = f"SELECT {', '.join(_COLUMNS)} FROM timeline_segments WHERE tenant_id = :tenant_id"
_INSERT = insert_statement("timeline_segments", (*_COLUMNS, "body"))
_DATED = KIND["episode"].dated_by
THIS = "WHERE tenant_id = :tenant_id AND id = :id"
# Not deleted and inserted: on PostgreSQL another transaction that waits for the row would not find the new one.
_REPLACE = f"UPDATE timeline_segments SET {', '.join(f'{name} = :{name}' for name in (*_COLUMNS[2:], 'body'))} {THIS}"


# -- reading ---------------------------------------------------------------------------------------------------


def restored(conn: Connection, rows: Sequence[Row]) -> list[Row]:
    """Rows with the content of those that are archived episodes. One whose segment is damaged says so in its
    metadata."""
    archived: dict[tuple[str, UUID], list[UUID]] = {}
    for row in rows:
        if row.get("segment_id") is not None:
            archived.setdefault((row["tenant_id"], row["segment_id"]), []).append(row["id"])
    if not archived:
        return list(rows)
    found: dict[tuple[str, UUID], Archived] = {}
    for (tenant_id, segment_id), ids in archived.items():
        contents = _readable(conn, tenant_id, segment_id)
        found |= {(tenant_id, id_): contents[id_] for id_ in ids if id_ in contents}
    return [_filled(row, found.get((row["tenant_id"], row["id"]))) for row in rows]


def _filled(row: Row, archived: Archived | None) -> Row:
    if row.get("segment_id") is None:
        return row
    if archived is None:
        problem = f"its segment {row['segment_id']} of the timeline is damaged; `tulving health` says what to do"
        return {**row, "metadata": {"unreadable": problem}}
    return {**row, "content": archived.content, "metadata": archived.metadata}


def _readable(conn: Connection, tenant_id: str, segment_id: UUID) -> Contents:
    segment = find(conn, tenant_id, segment_id)
    if segment is None:
        return {}
    try:
        return contents(conn, segment)
    except DamagedSegment:
        return {}


def contents(conn: Connection, segment: Segment) -> Contents:
    """What a segment holds; raises if it is damaged."""
    known = conn.segments.known(segment)
    return _read(conn, segment) if known is None else known


def _read(conn: Connection, segment: Segment) -> Contents:
    # In one statement: while a transaction of PostgreSQL writes, another one may write the segment anew.
    row = conn.fetch_one(f"SELECT {', '.join(_COLUMNS)}, body FROM timeline_segments {THIS}", _key(segment))
    body = row.pop("body") if row else None
    try:
        return conn.segments.read(Segment(**row) if row else segment, body)
    except FileNotFoundError as error:
        this = f"SELECT id FROM timeline_segments {THIS} AND generation = :generation"
        if conn.fetch_now(this, {**_key(segment), "generation": segment.generation}) is None:
            raise Interrupted(f"the segment {segment.id} was replaced") from error
        raise DamagedSegment("its file is missing") from error


def find(conn: Connection, tenant_id: str, segment_id: UUID, *, to_change: bool = False) -> Segment | None:
    lock = conn.for_update if to_change else ""
    row = conn.fetch_one(f"{_SEGMENTS} AND id = :id{lock}", {"tenant_id": tenant_id, "id": segment_id})
    return Segment(**row) if row else None


def listing(conn: Connection, tenant_id: str) -> list[Segment]:
    """A tenant's segments, oldest first."""
    rows = conn.fetch_all(f"{_SEGMENTS} ORDER BY first_at, id", {"tenant_id": tenant_id})
    return [Segment(**row) for row in rows]


def unlike_rows(conn: Connection) -> Iterator[str]:
    """Segments that are damaged, or hold other episodes than the rows say."""
    for row in conn.fetch_all(f"SELECT {', '.join(_COLUMNS)} FROM timeline_segments ORDER BY tenant_id, id"):
        segment = Segment(**row)
        try:
            held = _read(conn, segment)
        except DamagedSegment as error:
            yield f"the segment {segment.id} of {segment.tenant_id} is damaged: {error}"
            continue
        rows = conn.fetch_all(
            "SELECT id, content_hash FROM episodes WHERE tenant_id = :tenant_id AND segment_id = :id", _key(segment)
        )
        wrong = [each for each in rows if each["id"] not in held or _hash(held[each["id"]]) != each["content_hash"]]
        extra = 0 if segment.status == "filling" else len(held) - len(rows)
        if wrong or extra:
            yield f"the segment {segment.id} of {segment.tenant_id} does not match {len(wrong) + abs(extra)} episodes"
    lost = (
        "SELECT tenant_id, id FROM episodes AS m WHERE segment_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM"
        " timeline_segments AS s WHERE s.tenant_id = m.tenant_id AND s.id = m.segment_id) LIMIT 20"
    )
    for row in conn.fetch_all(lost):
        yield f"episode {row['id']} of {row['tenant_id']} lies in a segment that is not there"


# -- rotation --------------------------------------------------------------------------------------------------


def tenants(conn: Connection) -> list[str]:
    """The tenants that have episodes or segments."""
    conn.check_sees_all_tenants()
    rows = conn.fetch_all("SELECT tenant_id FROM episodes UNION SELECT tenant_id FROM timeline_segments")
    return sorted(row["tenant_id"] for row in rows)


def counts(conn: Connection, tenant_id: str, before: datetime | None) -> tuple[int, int, int]:
    """How many episodes are at hand, how many of them could be archived, and how many of these are old."""
    old = "FALSE" if before is None else f"{_DATED} < :before"
    row = conn.fetch_one(
        "SELECT COUNT(*) AS at_hand, COUNT(*) FILTER (WHERE m.consolidated) AS archivable,"
        f" COUNT(*) FILTER (WHERE m.consolidated AND {old}) AS old FROM episodes AS m"
        " WHERE m.tenant_id = :tenant_id AND m.segment_id IS NULL AND NOT m.forgotten",
        {"tenant_id": tenant_id} | ({} if before is None else {"before": before}),
    )
    assert row is not None
    return row["at_hand"], row["archivable"], row["old"]


def oldest(conn: Connection, tenant_id: str, limit: int) -> list[Row]:
    """The oldest episodes that could be archived, with their content."""
    return conn.fetch_all(
        f"SELECT m.id, m.content, m.metadata, {_DATED} AS occurred_at FROM episodes AS m WHERE m.tenant_id = :tenant_id"
        " AND m.segment_id IS NULL AND m.consolidated AND NOT m.forgotten AND m.content_hash IS NOT NULL"
        f" ORDER BY {_DATED}, m.id LIMIT :limit",
        {"tenant_id": tenant_id, "limit": limit},
    )


def packed(tenant_id: str, segment_id: UUID, rows: Sequence[Row], now: datetime) -> tuple[Segment, bytes]:
    """A new segment of these episodes, and its body."""
    body = pack(Archived(row["id"], row["content"], row["metadata"]) for row in rows)
    times = [row["occurred_at"] for row in rows]
    return Segment(
        tenant_id=tenant_id,
        id=segment_id,
        status="filling",
        episodes=len(rows),
        size=len(body),
        checksum=checksum(body),
        first_at=min(times),
        last_at=max(times),
        created_at=now,
    ), body


def begin(conn: Connection, segment: Segment, body: bytes, audit: Audit) -> bool:
    """Write the open segment. Its episodes are moved into it from now on, and another one is open. False, without any
    effect, if another process was faster."""
    if not timelines.close(conn, audit, segment.id):
        return False
    _put(conn, segment, body)
    return True


def move(conn: Connection, segment: Segment, entries: Collection[Archived], audit: Audit) -> int:
    """Empty the rows of episodes that a segment holds; returns how many. Those that were changed since are left."""
    current = find(conn, segment.tenant_id, segment.id, to_change=True)
    if current is None or current.generation != segment.generation:  # it may not hold them any more
        return 0
    moved = [each.id for each in entries if _empty(conn, segment, each)]
    conn.execute(  # what a re-embedding in progress made of them
        "DELETE FROM next_embeddings WHERE tenant_id = :tenant_id AND memory_type = 'episode'"
        f" AND {conn.within('memory_id', 'ids')}",
        {"tenant_id": segment.tenant_id, "ids": moved},
    )
    events.append(conn, *(audit.event("episode_archived", "episode", id_, segment_id=str(segment.id)) for id_ in moved))
    return len(moved)


def _empty(conn: Connection, segment: Segment, entry: Archived) -> int:
    return conn.execute(
        "UPDATE episodes SET content = '', metadata = :metadata, search_text = '', embedding = NULL,"
        " embedding_version = NULL, segment_id = :segment_id WHERE tenant_id = :tenant_id AND id = :id"
        " AND segment_id IS NULL AND consolidated AND NOT forgotten AND content_hash = :content_hash",
        {
            "tenant_id": segment.tenant_id,
            "id": entry.id,
            "segment_id": segment.id,
            "content_hash": _hash(entry),
            "metadata": {},
        },
    )


def seal(conn: Connection, segment: Segment) -> None:
    """All episodes are moved. What the segment holds of others, which were changed or deleted since, is removed."""
    if trim(conn, segment.tenant_id, segment.id) is not None:
        conn.execute(f"UPDATE timeline_segments SET status = 'sealed' {THIS}", _key(segment))


def trim(conn: Connection, tenant_id: str, segment_id: UUID) -> Segment | None:
    """Write a segment anew if it holds episodes that are not in it any more; without any it goes. A damaged
    one goes with its last episode."""
    segment = find(conn, tenant_id, segment_id, to_change=True)
    if segment is None:
        return None
    rows = conn.fetch_all(
        f"SELECT m.id, {_DATED} AS occurred_at FROM episodes AS m WHERE tenant_id = :tenant_id AND segment_id = :id",
        _key(segment),
    )
    if not rows:
        return _drop(conn, segment)
    try:
        held = contents(conn, segment)
    except DamagedSegment:
        return segment
    if len(held) == len(rows):
        return segment
    found = [(row, held[row["id"]]) for row in rows if row["id"] in held]
    kept = [{**row, "content": entry.content, "metadata": entry.metadata} for row, entry in found]
    anew, body = packed(tenant_id, segment_id, kept, segment.created_at)
    anew = replace(anew, generation=segment.generation + 1, status=segment.status)
    _put(conn, anew, body, _REPLACE)
    conn.segments.outdated = True
    return anew


def merge(conn: Connection, segments: Sequence[Segment], segment_id: UUID, now: datetime) -> int:
    """000-016: put the contents of small segments into one; returns how many were merged."""
    tenant_id = segments[0].tenant_id
    current = [find(conn, tenant_id, each.id, to_change=True) for each in sorted(segments, key=lambda each: each.id)]
    sources = [each for each in current if each is not None and each.status == "sealed"]
    if len(sources) < 2:
        return 0
    held = {id_: entry for each in sources for id_, entry in contents(conn, each).items()}
    first, last = min(each.first_at for each in sources), max(each.last_at for each in sources)
    body = pack(held.values())
    merged = replace(
        sources[0],
        id=segment_id,
        generation=1,
        episodes=len(held),
        size=len(body),
        checksum=checksum(body),
        first_at=first,
        last_at=last,
        created_at=now,
    )
    _put(conn, merged, body)
    for each in sources:
        conn.execute(
            "UPDATE episodes SET segment_id = :into WHERE tenant_id = :tenant_id AND segment_id = :id",
            {**_key(each), "into": segment_id},
        )
        _drop(conn, each)
    return len(sources)


def sweep(conn: Connection) -> int:
    """Delete the files that no segment of any tenant names any more; returns how many."""
    named = conn.fetch_all("SELECT id, generation FROM timeline_segments WHERE body IS NULL")
    return conn.segments.sweep({f"{row['id']}-{row['generation']}.segment" for row in named})


def count_before(conn: Connection, tenant_id: str, moment: datetime) -> int:
    row = conn.fetch_one(
        f"SELECT COUNT(*) AS old FROM episodes AS m WHERE m.tenant_id = :tenant_id AND {_DATED} < :moment",
        {"tenant_id": tenant_id, "moment": moment},
    )
    return row["old"] if row else 0


# -- changes ---------------------------------------------------------------------------------------------------


def emptied(conn: Connection, rows: Collection[Row]) -> None:
    """Remove the contents of episodes whose rows were deleted from their segments."""
    for tenant_id, segment_id in sorted({(row["tenant_id"], row["segment_id"]) for row in rows if row["segment_id"]}):
        trim(conn, tenant_id, segment_id)


def bring_back(conn: Connection, episode: Episode, audit: Audit) -> Episode:
    """Put an archived episode back into its row, with its content, because it is to be changed. Maintenance makes its
    vector."""
    if episode.segment_id is None:
        return episode
    if "unreadable" in episode.metadata and not episode.content:
        raise IntegrityError(f"the episode {episode.id} can't be changed: {episode.metadata['unreadable']}")
    conn.execute(
        f"UPDATE episodes SET content = :content, metadata = :metadata, search_text = :search_text,"
        f" segment_id = NULL {THIS}",
        {
            "tenant_id": episode.tenant_id,
            "id": episode.id,
            "content": episode.content,
            "metadata": dict(episode.metadata),
            "search_text": conn.index_text(episode.tenant_id, search_text(found_by(episode))),
        },
    )
    trim(conn, episode.tenant_id, episode.segment_id)
    events.append(conn, audit.event("episode_restored", "episode", episode.id))
    return replace(episode, segment_id=None)


# -- damage ----------------------------------------------------------------------------------------------------


def damage(conn: Connection, tenant_id: str, anew: bool) -> list[tuple[Segment, str | None]]:
    """000-017: the segments of a tenant whose status is not what reading them shows, with what is wrong with each, or
    None if it is well again. Unless `anew`, those that this process has read before are skipped."""
    changed: list[tuple[Segment, str | None]] = []
    for segment in listing(conn, tenant_id):
        if segment.status != "damaged" and not anew and conn.segments.is_sound(segment):
            continue
        try:
            _read(conn, segment)
            problem = None
        except DamagedSegment as error:
            problem = str(error)
        if (problem is None) == (segment.status == "damaged"):
            changed.append((segment, problem))
    return changed


def record_damage(conn: Connection, changed: Sequence[tuple[Segment, str | None]], audit: Audit) -> None:
    """Note which segments can't be read, or can be read again, and warn as long as there are any."""
    for segment, problem in changed:
        status = "sealed" if problem is None else "damaged"
        conn.execute(
            f"UPDATE timeline_segments SET status = :status, problem = :problem {THIS} AND generation = :generation",
            {**_key(segment), "status": status, "problem": problem, "generation": segment.generation},
        )
        if problem is not None:
            conn.segments.set_aside(segment)
        trim(conn, segment.tenant_id, segment.id)
    broken = _broken(conn, audit.caller.tenant_id)
    if not broken:
        return timelines.recover(conn, audit) if is_over(conn, audit.caller.tenant_id) else None
    episodes = sum(each.episodes for each in broken)
    names = ", ".join(str(each.id) for each in broken[:3])
    warning = f"{len(broken)} segments with {episodes} archived episodes can't be read ({names}: {broken[0].problem})"
    hint = "put the files back from a backup, or delete these episodes; then run `tulving archive`"
    return timelines.warn(conn, audit, warning, "critical", hint)


def is_over(conn: Connection, tenant_id: str) -> bool:
    """Whether the warning is about damage, and there is none any more: it is well again, or deleted."""
    its = timelines.find(conn, tenant_id)
    return its is not None and its["severity"] == "critical" and not _broken(conn, tenant_id)


def _broken(conn: Connection, tenant_id: str) -> list[Segment]:
    return [each for each in listing(conn, tenant_id) if each.status == "damaged"]


def _put(conn: Connection, segment: Segment, body: bytes, statement: str = _INSERT) -> None:
    row = {name: getattr(segment, name) for name in _COLUMNS}
    conn.execute(statement, {**row, "body": conn.segments.put(segment, body)})


def _drop(conn: Connection, segment: Segment) -> None:
    conn.execute(f"DELETE FROM timeline_segments {THIS}", _key(segment))
    conn.segments.outdated = True


def _key(segment: Segment) -> Row:
    return {"tenant_id": segment.tenant_id, "id": segment.id}


def _hash(entry: Archived) -> str:
    return content_hash(entry.content)
