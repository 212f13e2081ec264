"""Archived episodes in a search that asks for them. No index knows them, so they are found by their words alone."""

from dataclasses import replace
from uuid import UUID

from tulving.domain.model import Episode
from tulving.domain.relevance import word_scores
from tulving.domain.text import found_by, search_text
from tulving.storage import timeline
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND
from tulving.storage.lanes import CONTENT, JUDGED, LaneRequest, Lanes


def add(conn: Connection, request: LaneRequest, lanes: Lanes) -> None:
    """Put the archived episodes with any of the words into the keyword lane, as many as its limit allows."""
    if not request.terms or "episode" not in request.kinds:
        return
    where, params = visible(conn, "episode", request.tenant_id, replace(request.filter, archived=True), request.now)
    where += " AND m.segment_id IS NOT NULL"
    rows = timeline.restored(conn, conn.fetch_all(f"{KIND['episode'].select} WHERE {where}", params))
    found: dict[UUID, Episode] = {row["id"]: Episode(**row) for row in rows if row["content"]}
    texts = {id_: search_text(found_by(episode)) for id_, episode in found.items()}
    scores = word_scores(request.terms, texts)
    best = sorted(scores, key=lambda id_: (-scores[id_], -found[id_].created_at.timestamp(), id_))[: request.limit]
    judged = conn.tuples(
        f"SELECT {JUDGED['episode']} FROM episodes AS m WHERE {where} AND {conn.within('m.id', 'ids')}",
        {**params, "ids": best},
    )
    for row in judged:
        id_ = UUID(str(row[0]))
        words = conn.index_text(request.tenant_id, texts[id_])
        key = lanes.rows.add("episode", (*row[:CONTENT], found[id_].content, *row[CONTENT + 1 : -1], words))
        lanes.keyword[key] = scores[id_]
