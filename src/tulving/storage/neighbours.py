"""The known facts that an unkeyed fact is compared with when it is stored."""

from array import array
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tulving.domain.conflicts import Neighbour, comparable, shared_terms
from tulving.domain.events import Audit
from tulving.domain.intake import LAST
from tulving.domain.model import Fact
from tulving.domain.scope import Filter
from tulving.domain.text import lookup_terms
from tulving.domain.validity import start
from tulving.domain.vectors import cosine
from tulving.settings import ConflictsConfig
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND
from tulving.storage.lanes import CONTENT, Key, LaneRequest
from tulving.storage.rows import IndexEntry

_FIRST = datetime.min.replace(tzinfo=UTC)


def find(conn: Connection, fact: Fact, entry: IndexEntry, settings: ConflictsConfig, audit: Audit) -> list[Neighbour]:
    """The known facts that an offer may be in conflict with: where words decide, those with most words in common; else
    also the most similar by meaning; and where any signal counts, those of about the same time."""
    wanted = Filter(beside=fact)
    request = LaneRequest(
        tenant_id=fact.tenant_id, kinds=("fact",), filter=wanted, now=audit.now, limit=settings.neighbours
    )
    vector = array("f", entry.embedding) if entry.embedding else None
    if settings.mode == "cautious" or vector is None:
        request = replace(request, terms=shared_terms(fact.content), every=True)
    else:  # also by words: a fact may have no vector yet
        terms, version = lookup_terms(fact.content), entry.embedding_version
        request = replace(request, terms=terms, vector=vector, alike=True, embedding_version=version)
    lanes = conn.lanes(request)
    near = comparable(fact.content, {key: row[CONTENT] for key, row in lanes.rows.items()}, settings)
    alike = lanes.similarities or _similarities(conn, fact, vector, near)
    rows = conn.memories(fact.tenant_id, near)
    found = {row["id"]: Neighbour(Fact(**row), alike.get(key)) for key, row in rows.items()}
    if settings.mode == "literal":
        found = {near.fact.id: near for near in _of_about_the_same_time(conn, fact, wanted, settings, audit)} | found
    return sorted(found.values(), key=lambda near: (-(near.similarity or 0.0), near.fact.id))


def _similarities(
    conn: Connection, fact: Fact, vector: Sequence[float] | None, keys: Collection[Key]
) -> dict[Key, float]:
    """How similar these facts are to an offer by meaning, as far as they have a vector."""
    if vector is None or not keys:
        return {}
    ids = {str(key[1]): key for key in keys}
    rows = conn.fetch_all(
        f"SELECT id, {conn.vector_value('embedding')} FROM facts WHERE tenant_id = :tenant_id"
        f" AND {conn.within('id', 'ids')} AND embedding IS NOT NULL",
        {"tenant_id": fact.tenant_id, "ids": list(map(UUID, ids))},
    )
    return {ids[str(row["id"])]: cosine(vector, array("f", row["embedding"])) for row in rows}


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
