"""The known names of each tenant, cached and kept up to date by its events.

Only reads may use the cache: in a writing transaction it would keep what may be rolled back later. A bound connection
has names of its own, from the episodes that it reaches, so that a search does not reveal whose names others use.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tulving.domain.names import Names
from tulving.domain.resolution import NamedEntity
from tulving.domain.scope import Bound
from tulving.storage import entities
from tulving.storage.connection import Connection
from tulving.storage.filters import reach
from tulving.storage.kinds import KIND

MOST_OF_EACH = 5_000
"""So many sources (the most frequent), and so many entities (the last changed), of one tenant."""
MOST_ALIASES = 20
MOST_NAMES = 100_000
"""In all: the least recently used tenants are dropped above it."""
RELOAD_ABOVE = 1_000
"""With more changes than this, everything is read again."""
_LAST = "SELECT COALESCE(MAX(seq), 0) AS seq FROM memory_events WHERE tenant_id = :tenant_id"
_CHANGES = """
SELECT entity_type, entity_id FROM memory_events
WHERE tenant_id = :tenant_id AND seq > :since AND entity_type IN ('episode', 'entity', 'store') LIMIT :most"""


@dataclass(frozen=True, slots=True)
class _Known:
    """The names as of the event `seen`; `before` is the last event that was seen before that."""

    before: int
    seen: int
    entities: Sequence[NamedEntity]
    sources: frozenset[str]
    names: Names

    @property
    def size(self) -> int:
        return 1 + len(self.entities) + len(self.sources)


class KnownNames:
    """The names that were used last, of several tenants. Its lock is never held during a query, since on PostgreSQL all
    reads share one thread."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, Bound], _Known] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def of(self, conn: Connection, tenant_id: str, bound: Bound | None = None) -> Names:
        """The names that a connection may know; one query, and the same object, if nothing has changed."""
        key = _key(tenant_id, bound)
        with self._lock:
            known = self._known.get(key)
        row = conn.fetch_one(_LAST, {"tenant_id": tenant_id})
        last = row["seq"] if row else 0
        if known is None or known.seen < last:
            known = _current(conn, *key, known, last)
        self._keep(key, known)
        return known.names

    def last(self, tenant_id: str, bound: Bound | None = None) -> Names | None:
        """The names as they were last read; None if they were not."""
        with self._lock:
            known = self._known.get(_key(tenant_id, bound))
        return known and known.names

    def _keep(self, key: tuple[str, Bound], known: _Known) -> None:
        with self._lock:
            old = self._known.get(key)
            if old is None or old.seen <= known.seen:
                self._known[key] = known
                self._size += known.size - (old.size if old else 0)
            self._known.move_to_end(key)
            while self._size > self._most and len(self._known) > 1:
                self._size -= self._known.popitem(last=False)[1].size


def _key(tenant_id: str, bound: Bound | None) -> tuple[str, Bound]:
    return tenant_id, Bound(bound.owner, bound.project, bound.scope) if bound else Bound()


def _current(conn: Connection, tenant_id: str, bound: Bound, known: _Known | None, last: int) -> _Known:
    """The names after the changes since `known`: new sources are added; after anything else, all are read again.

    Each change is read twice, because on PostgreSQL a transaction may commit after others with higher numbers.
    """
    before = known.seen if known else 0
    added = _added_sources(conn, tenant_id, bound, known.before) if known else None
    if known is None or added is None:
        named = entities.names(conn, tenant_id, MOST_OF_EACH)
        named = [replace(entity, aliases=entity.aliases[:MOST_ALIASES]) for entity in named]
        sources = _all_sources(conn, tenant_id, bound)
        return _Known(before, last, named, sources, Names(named, sources))
    sources = known.sources | added
    if len(sources) == len(known.sources) or len(sources) > MOST_OF_EACH:
        return replace(known, before=before, seen=last)
    return _Known(before, last, known.entities, sources, Names(known.entities, sources))


def _added_sources(conn: Connection, tenant_id: str, bound: Bound, since: int) -> set[str] | None:
    """The sources of the episodes that have changed; None if something else has, or an episode is gone."""
    changes = conn.fetch_all(_CHANGES, {"tenant_id": tenant_id, "since": since, "most": RELOAD_ABOVE + 1})
    if not changes:
        return set()
    if len(changes) > RELOAD_ABOVE or any(change["entity_type"] != "episode" for change in changes):
        return None
    ids = {change["entity_id"] for change in changes}
    where, params = reach("episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT m.source, CASE WHEN {where} THEN 1 ELSE 0 END AS reached FROM episodes AS m"
        f" WHERE m.tenant_id = :tenant_id AND {KIND['episode'].in_use} AND {conn.within('m.id', 'ids')}",
        {**params, "ids": list(ids)},
    )
    return {row["source"] for row in rows if row["reached"] and row["source"]} if len(rows) == len(ids) else None


def _all_sources(conn: Connection, tenant_id: str, bound: Bound) -> frozenset[str]:
    where, params = reach("episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT m.source FROM episodes AS m WHERE {where} AND {KIND['episode'].in_use} AND m.source IS NOT NULL"
        " GROUP BY m.source ORDER BY COUNT(*) DESC, m.source LIMIT :most",
        {**params, "most": MOST_OF_EACH},
    )
    return frozenset(row["source"] for row in rows)
