"""Windows of episodes by time, newest first, and recorded events, each of which is kept once."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from uuid import UUID

from tulving.domain.events import Event
from tulving.domain.model import Episode
from tulving.domain.windows import Window, WindowDiagnostics, WindowRequest
from tulving.storage import events, items, timeline
from tulving.storage.connection import Connection
from tulving.storage.embeddings import renumbered
from tulving.storage.filters import reach
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, Row

_EPISODE = KIND["episode"]
_ASKED = tuple(field.name for field in fields(WindowRequest) if field.name != "bound")
_SIDES = {
    "since": (f"{_EPISODE.dated_by} >= :since", f"{_EPISODE.dated_by} < :since"),
    "until": (f"{_EPISODE.dated_by} < :until", f"{_EPISODE.dated_by} >= :until"),
}
"""The ends of a window: the condition to be inside, and the one to be outside."""
MOST_COUNTED = 1_000
"""How many episodes on either side of a window are counted at most: a window of a few days must not cost a look at
years."""


def record(conn: Connection, offers: Sequence[tuple[Episode, IndexEntry, Event]]) -> list[tuple[UUID, bool]]:
    """Store recorded events; for each its id, and whether it is new. One that was recorded before, in this batch or
    by anyone, even if it is forgotten by now, is left as it is."""
    entries = renumbered(conn, (entry for _, entry, _ in offers))
    known = _recorded(conn, [episode for episode, _, _ in offers])
    new: list[tuple[Episode, IndexEntry]] = []
    told: list[Event] = []
    answers: list[tuple[UUID, bool]] = []
    for (episode, _, event), entry in zip(offers, entries, strict=True):
        is_new = episode.event_key not in known
        if is_new:
            new.append((episode, entry))
            told.append(event)
        answers.append((known.setdefault(episode.event_key, episode.id), is_new))
    items.insert(conn, "episode", new)
    events.append(conn, *told)
    return answers


def _recorded(conn: Connection, offered: Sequence[Episode]) -> dict[str | None, UUID]:
    """The ids of events that are recorded already. Their keys stay locked: the unique index alone would make writers of
    the same events wait for each other in a circle."""
    if not offered:
        return {}
    tenant_id, keys = offered[0].tenant_id, [episode.event_key for episode in offered]
    conn.lock(*(f"event {tenant_id} {key}" for key in keys))
    found = conn.fetch_all(
        f"SELECT id, event_key FROM episodes WHERE tenant_id = :tenant_id AND {conn.within('event_key', 'keys')}",
        {"tenant_id": tenant_id, "keys": keys},
    )
    return {row["event_key"]: row["id"] for row in found}


def find(conn: Connection, tenant_id: str, wanted: WindowRequest, now: datetime) -> Window:
    """The episodes of a window, archived ones included, and why others are not among them."""
    where, reached = reach("episode", tenant_id, wanted.bound)
    where = f"{where} AND {_EPISODE.alive}"
    asked = {name: given for name in _ASKED if (given := getattr(wanted, name)) is not None}
    params = {**asked, "now": now, **reached}  # what is asked for never replaces what the connection is bound to
    sides = [sides for name, sides in _SIDES.items() if name in asked]
    inside = " AND ".join(within for within, _ in sides) or "TRUE"
    conditions = dict(each for name, each in _conditions(conn).items() if name in asked)
    outside = " + ".join(_counted(where, beyond) for _, beyond in sides) or "0"
    counts = _count(conn, where, inside, outside, conditions, params)
    meeting = " AND ".join((inside, *conditions.values()))
    rows = conn.fetch_all(
        f"{KIND['episode'].select} WHERE {where} AND {meeting}"
        f" ORDER BY {_EPISODE.dated_by} DESC, m.created_at DESC, m.id DESC LIMIT :limit",
        params,
    )
    found = [Episode(**row) for row in timeline.restored(conn, rows)]
    dropped = {name: counts[name] for name in ("outside_window", *conditions)}
    scanned = counts["outside_window"] + counts["inside"]
    dropped["over_limit"] = scanned - sum(dropped.values()) - len(found)
    return Window(events=found, diagnostics=WindowDiagnostics(scanned=scanned, returned=len(found), dropped=dropped))


def _conditions(conn: Connection) -> dict[str, tuple[str, str]]:
    """What may be asked for beside the window: the reason for which an episode is dropped, and the condition."""
    return {
        "types": ("other_type", conn.within("m.type", "types")),
        "butler": ("other_butler", "m.butler = :butler"),
        "project": ("other_project", "m.project = :project"),
        "session_id": ("other_session", "m.session_id = :session_id"),
        "tags": ("lacks_tags", conn.tagged("m.tags", "tags")),
        "min_importance": ("less_important", "m.importance >= :min_importance"),
    }


def _counted(where: str, beyond: str) -> str:
    """How many episodes lie on one side of the window."""
    those = f"SELECT 1 FROM episodes AS m WHERE {where} AND {beyond} LIMIT {MOST_COUNTED}"
    return f"(SELECT COUNT(*) FROM ({those}) AS those)"


def _count(conn: Connection, where: str, inside: str, outside: str, conditions: dict[str, str], params: Row) -> Row:
    """How many episodes are outside the window, how many inside, and of these how many fail each condition but none
    before it."""
    met: list[str] = []
    counted = [f"{outside} AS outside_window", "COUNT(*) AS inside"]
    for reason, condition in conditions.items():
        counted.append(f"COUNT(*) FILTER (WHERE {' AND '.join((*met, f'({condition}) IS NOT TRUE'))}) AS {reason}")
        met.append(condition)
    row = conn.fetch_one(f"SELECT {', '.join(counted)} FROM episodes AS m WHERE {where} AND {inside}", params)
    assert row is not None
    return row
