"""Candidates on SQLite: FTS5 for words, the vector cache for meaning."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from tulving.storage.connection import LaneRequest, Lanes
from tulving.storage.filters import visible
from tulving.storage.rows import SELECTED, TABLES, Row
from tulving.storage.vectors import VectorCache

if TYPE_CHECKING:
    from tulving.storage.sqlite import SqliteConnection

Condition = tuple[str, Row]


def find_lanes(conn: "SqliteConnection", vectors: VectorCache, request: LaneRequest) -> Lanes:
    """Both lanes of one kind, each up to the limit, from rows that the filter lets through."""
    where = visible(conn, request.kind, request.tenant_id, request.filter, request.now)
    rows: dict[UUID, Row] = {}
    keyword = _keyword(conn, request, where, rows) if request.terms else {}
    semantic = _semantic(conn, vectors, request, where, rows) if request.vector is not None else {}
    return Lanes(semantic, keyword, rows)


def match_expression(tenant_id: str, terms: Sequence[str], joint: str) -> str:
    """An FTS5 query in which every word of the user's is quoted: it can't be syntax."""
    words = f" {joint} ".join('"' + term.replace('"', '""') + '"' for term in terms)
    return f'tenant_token : "t{tenant_id.encode().hex()}" AND search_text : ({words})'


def _keyword(
    conn: "SqliteConnection", request: LaneRequest, where: Condition, rows: dict[UUID, Row]
) -> dict[UUID, float]:
    """Memories with all the words first; those with any of them fill up.

    The rank is 1 to 2 for the former and 0 to 1 for the latter, within that by BM25.
    """
    found: dict[UUID, float] = {}
    for joint, bonus in (("AND", 1.0), ("OR", 0.0)):
        for row in _matches(conn, request, where, joint):
            bm25 = row.pop("bm25")
            if len(found) < request.limit and row["id"] not in found:
                found[row["id"]] = bonus + bm25 / (1.0 + bm25)
                rows[row["id"]] = row
        if len(found) >= request.limit or len(request.terms) == 1:
            break
    return found


def _matches(conn: "SqliteConnection", request: LaneRequest, where: Condition, joint: str) -> list[Row]:
    table, (condition, params) = TABLES[request.kind], where
    return conn.all(
        f"""
        SELECT {SELECTED[request.kind]}, best.bm25
        FROM (SELECT m.num, -bm25({table}_fts, 0.0, 1.0) AS bm25
              FROM {table}_fts JOIN {table} AS m ON m.num = {table}_fts.rowid
              WHERE {table}_fts MATCH :match AND {condition}
              ORDER BY 2 DESC, m.created_at DESC, m.id LIMIT :limit) AS best
        JOIN {table} AS m ON m.num = best.num
        ORDER BY best.bm25 DESC, m.created_at DESC, m.id""",
        {**params, "match": match_expression(request.tenant_id, request.terms, joint), "limit": request.limit},
    )


def _semantic(
    conn: "SqliteConnection", vectors: VectorCache, request: LaneRequest, where: Condition, rows: dict[UUID, Row]
) -> dict[UUID, float]:
    """Walk down the exact ranking; a filter that leaves too few of its head is first resolved to rows in SQL."""
    assert request.vector is not None
    ranking = vectors.rank(conn, request.tenant_id, request.kind, request.vector, request.embedding_version)
    if ranking is None or not len(ranking):
        return {}
    best = ranking.best(2 * request.limit)
    found = _fetch(conn, request, where, [id_ for id_, _ in best])
    if len(found) < request.limit and len(best) < len(ranking):
        table, (condition, params) = TABLES[request.kind], where
        allowed = conn.all(f"SELECT m.id FROM {table} AS m WHERE {condition}", params)
        best = ranking.best(request.limit, among={str(row["id"]) for row in allowed})
        found = _fetch(conn, request, where, [id_ for id_, _ in best])
    lane: dict[UUID, float] = {}
    for id_, similarity in best:
        if len(lane) < request.limit and (row := found.get(id_)) is not None:
            lane[row["id"]] = similarity
            rows[row["id"]] = row
    return lane


def _fetch(conn: "SqliteConnection", request: LaneRequest, where: Condition, ids: list[str]) -> dict[str, Row]:
    condition, params = where
    rows = conn.all(
        f"SELECT {SELECTED[request.kind]} FROM {TABLES[request.kind]} AS m"
        f" WHERE {condition} AND {conn.within('m.id', 'ids')}",
        {**params, "ids": ids},
    )
    return {str(row["id"]): row for row in rows}
