"""The known facts that an unkeyed fact is compared with when it is stored."""

from array import array
from datetime import UTC, datetime, timedelta

from tulving.domain.conflicts import Neighbour, resembling
from tulving.domain.events import Audit
from tulving.domain.intake import LAST
from tulving.domain.model import Fact
from tulving.domain.scope import Filter
from tulving.domain.text import lookup_terms
from tulving.domain.validity import start
from tulving.settings import ConflictsConfig
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND
from tulving.storage.lanes import CONTENT, LaneRequest
from tulving.storage.rows import IndexEntry

_FIRST = datetime.min.replace(tzinfo=UTC)


def find(conn: Connection, fact: Fact, entry: IndexEntry, settings: ConflictsConfig, audit: Audit) -> list[Neighbour]:
    """The known facts that an offer may be in conflict with: the most similar ones, by meaning, and by words unless all
    have a vector; where any signal counts, also those of about the same time."""
    wanted = Filter(beside=fact)
    by_words = not entry.embedding or _some_lack_vectors(conn, fact.tenant_id)
    request = LaneRequest(
        tenant_id=fact.tenant_id,
        kinds=("fact",),
        filter=wanted,
        now=audit.now,
        limit=settings.neighbours,
        terms=lookup_terms(fact.content) if by_words else (),
        vector=array("f", entry.embedding) if entry.embedding else None,
        alike=True,
        embedding_version=entry.embedding_version,
    )
    lanes = conn.lanes(request)
    texts = {key: (row[CONTENT], lanes.similarities.get(key)) for key, row in lanes.rows.items()}
    rows = conn.memories(fact.tenant_id, resembling(fact.content, texts, settings))
    found = {row["id"]: Neighbour(Fact(**row), lanes.similarities.get(key)) for key, row in rows.items()}
    if settings.mode == "literal":
        found = {near.fact.id: near for near in _of_about_the_same_time(conn, fact, wanted, settings, audit)} | found
    return sorted(found.values(), key=lambda near: (-(near.similarity or 0.0), near.fact.id))


def _some_lack_vectors(conn: Connection, tenant_id: str) -> bool:
    """Whether facts of a tenant still wait for their vectors. The expression keeps the index of the tenant's facts from
    being used: that of facts without a vector is short."""
    return bool(
        conn.fetch_all(
            "SELECT 1 AS found FROM facts WHERE embedding IS NULL AND tenant_id || '' = :tenant_id LIMIT 1",
            {"tenant_id": tenant_id},
        )
    )


def _of_about_the_same_time(
    conn: Connection, fact: Fact, wanted: Filter, settings: ConflictsConfig, audit: Audit
) -> list[Neighbour]:
    where, params = visible(conn, "fact", fact.tenant_id, wanted, audit.now)
    window, since = timedelta(seconds=settings.time_window), start(fact)
    dated = KIND["fact"].dated_by
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE {where} AND {dated} BETWEEN :earliest AND :latest"
        f" ORDER BY {dated} DESC, m.id LIMIT :most",
        {
            **params,
            "earliest": since - min(window, since - _FIRST),
            "latest": since + min(window, LAST - since),
            "most": settings.neighbours,
        },
    )
    return [Neighbour(Fact(**row)) for row in rows]
