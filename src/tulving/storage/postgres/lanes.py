"""Candidates on PostgreSQL: tsvector for words, pgvector for meaning, all lanes in one statement."""

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING

from tulving.domain.model import Kind
from tulving.domain.ranking import SIMILARITY_DECIMALS
from tulving.storage.embeddings import ACTIVE_OF_OURS, mismatch
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND
from tulving.storage.lanes import JUDGED, SIDES, CandidateRows, Key, LaneRequest, Lanes
from tulving.storage.postgres.values import decoded
from tulving.storage.rows import DOCUMENTS, Row
from tulving.storage.tenant_words import prefixed

if TYPE_CHECKING:
    from tulving.storage.postgres.connection import PostgresConnection

# As text: inside a record the driver decodes them in binary form, which a host's own codec may not support.
_SELECTED = {
    kind: ", ".join(f"m.{name}::text" if name in DOCUMENTS else f"m.{name}" for name in table.columns)
    for kind, table in KIND.items()
}
_MEMORIES = " UNION ALL ".join(
    f"SELECT '{kind}', ROW({_SELECTED[kind]}) FROM {table.table} AS m"
    f" WHERE m.tenant_id = :tenant_id AND m.id = ANY(:{kind})"
    for kind, table in KIND.items()
)
_WORDS = """words AS MATERIALIZED (
    SELECT every, replace(every::text, '&', '|')::tsquery AS either FROM {}_tsquery('english', :words) AS every)"""
_PROBE = "probe AS MATERIALIZED (SELECT :embedding AS vector)"
_ACTIVE = f"SELECT 'active', number, NULL::float8, ROW(dimension) FROM ({ACTIVE_OF_OURS}) AS ours"
# A zero vector has similarity 0 to everything. Adding zero turns -0.0 into 0.0.
_SIMILARITY = (
    "round((1 - COALESCE(NULLIF(m.embedding <=> (SELECT vector FROM probe), 'NaN'), 1))"
    f" * 1e{SIMILARITY_DECIMALS}) / 1e{SIMILARITY_DECIMALS} + 0.0"
)
_KNOWN_SIMILARITY = f"CASE WHEN m.embedding IS NOT NULL THEN {_SIMILARITY} END"


def find_lanes(conn: "PostgresConnection", request: LaneRequest) -> Lanes:
    """Both lanes of each kind, each up to the limit. If an index returned fewer, all rows are compared."""
    vector = request.vector if request.vector is not None and any(request.vector) else None
    near: Sequence[Kind] = []
    if vector is not None and request.filter.as_of is None:
        near = [kind for kind in request.kinds if conn.indexes.suits(conn, request.tenant_id, kind)]
    if near:
        conn.indexes.widen(conn)
    rows = CandidateRows(request.tenant_id, lambda value: value)
    similarities: dict[Key, float] = {}
    found = _ask(conn, request, rows, similarities, request.kinds, bool(request.terms), vector, near)
    short: list[Kind] = [kind for kind in near if len(found.get(("semantic", kind), {})) < request.limit]
    if short:
        found |= _ask(conn, request, rows, similarities, short, False, vector, ())
    lanes = Lanes({}, {}, similarities, rows)
    for kind in request.kinds:
        lanes.keyword.update(found.get(("keyword", kind), {}))
        lanes.semantic.update(found.get(("semantic", kind), {}))
    if request.neighbours and (turns := rows.turns()):
        _add_neighbours(conn, request, lanes, turns, vector)
    return lanes


def read_memories(conn: "PostgresConnection", tenant_id: str, keys: Collection[Key]) -> dict[Key, Row]:
    ids = {kind: [id_ for of_kind, id_ in keys if of_kind == kind] for kind in KIND}
    rows = conn.records(_MEMORIES, {"tenant_id": tenant_id, **ids}) if keys else []
    found = [(kind, decoded(zip(KIND[kind].columns, row, strict=True))) for kind, row in rows]
    return {(kind, row["id"]): row for kind, row in found}


def _add_neighbours(
    conn: "PostgresConnection",
    request: LaneRequest,
    lanes: Lanes,
    turns: Sequence[Hashable],
    vector: Sequence[float] | None,
) -> None:
    """Add the episodes next to the turns among the candidates."""
    where, params = visible(conn, "episode", request.tenant_id, request.filter, request.now)
    probe = f"WITH {_PROBE} " if vector is not None else ""
    sides = " UNION ALL ".join(_adjacent(*side, where) for side in SIDES)
    near = conn.records(
        f"{probe}SELECT a.id, m.side, {_KNOWN_SIMILARITY if probe else 'NULL::float8'}, ROW({JUDGED['episode']})"
        f" FROM episodes AS a CROSS JOIN LATERAL ({sides}) AS m"
        f" WHERE a.tenant_id = :tenant_id AND {conn.within('a.id', 'turns')}",
        {**params, "turns": list(turns), **({"embedding": vector} if probe else {})},
    )
    found: dict[Key, dict[str, Key]] = {}
    for turn, side, similarity, row in near:
        key = lanes.rows.add("episode", row)
        found.setdefault(("episode", turn), {})[side] = key
        if similarity is not None:
            lanes.similarities[key] = similarity
    lanes.neighbours.update({turn: (pair.get("before"), pair.get("after")) for turn, pair in found.items()})


def _adjacent(side: str, sign: str, order: str, where: str) -> str:
    """The next episode on one side of the episode `a` in its session."""
    mine = KIND["episode"].dated_by, "m.created_at", "m.id"
    its = ", ".join(mine).replace("m.", "a.")
    return (
        f"(SELECT '{side}' AS side, m.* FROM episodes AS m WHERE {where} AND m.session_id = a.session_id"
        f" AND ({', '.join(mine)}) {sign} ({its}) ORDER BY {', '.join(f'{part} {order}' for part in mine)} LIMIT 1)"
    )


def _ask(
    conn: "PostgresConnection",
    request: LaneRequest,
    rows: CandidateRows,
    similarities: dict[Key, float],
    kinds: Sequence[Kind],
    by_words: bool,
    vector: Sequence[float] | None,
    near: Sequence[Kind],
) -> dict[tuple[str, Kind], dict[Key, float]]:
    """The candidates by lane and kind, from one statement."""
    tables: list[str] = []
    arms: list[str] = []
    params: Row = {"limit": request.limit}
    if by_words:
        either = (prefixed(request.tenant_id, term.split("|"), " | ") for term in request.terms)
        params["words"] = " & ".join(f"({words})".replace("*", ":*") for words in either)
        plain = not {"*", "|"} & {*params["words"]}
        tables.append(_WORDS.format("plainto" if plain else "to"))  # 001-029: plain words
    if vector is not None:
        tables.append(_PROBE)
        arms.append(_ACTIVE)
        params |= {"embedding": vector, "ours": request.embedding_version}
    for kind in kinds:
        where, values = visible(conn, kind, request.tenant_id, request.filter, request.now)
        params |= values
        if by_words:
            similarity = "NULL::float8" if vector is None else _KNOWN_SIMILARITY
            wanted = "every" if request.every else "either"
            best = _by_words(kind, where, conn.row_security, wanted)
            arms.append(_arm(f"keyword {kind}", kind, best, similarity))
        if vector is not None:
            best = _by_index(kind, where) if kind in near else _exact(kind, where)
            if request.alike and kind not in near:
                best = f"SELECT * FROM ({best}) AS best WHERE score > 0"
            arms.append(_arm(f"semantic {kind}", kind, best, "best.score"))
    found: dict[tuple[str, Kind], dict[Key, float]] = {}
    if not arms:
        return found
    dimension = None
    for arm, score, similarity, row in conn.records(f"WITH {', '.join(tables)} {' UNION ALL '.join(arms)}", params):
        if arm == "active":
            dimension = row[0]
            continue
        lane, _, kind = arm.partition(" ")
        key = rows.add(kind, row)
        found.setdefault((lane, kind), {})[key] = score
        if similarity is not None:
            similarities[key] = similarity
    if vector is not None and dimension != len(vector):
        raise mismatch(conn)
    return found


def _arm(name: str, kind: Kind, best: str, similarity: str) -> str:
    return (
        f"(SELECT '{name}', best.score, {similarity}, ROW({JUDGED[kind]}) FROM ({best}) AS best"
        f" JOIN {KIND[kind].table} AS m ON m.tenant_id = :tenant_id AND m.id = best.id"
        " ORDER BY best.score DESC, m.created_at DESC, m.id)"
    )


def _by_words(kind: Kind, where: str, row_security: bool, wanted: str) -> str:
    """Memories with all the words first, then those with any of them (unless every one is `wanted`), each ordered by
    ts_rank.

    Words carry the tenant's prefix, so the full-text index alone leads to the tenant's rows: OFFSET keeps the planner
    from reading an index on the tenant as well. Appending '' copies the tsvector, which is stored out of line and would
    otherwise be fetched for each use.
    """
    return f"""
    SELECT m.id, (m.its_words @@ (SELECT every FROM words))::int
        + ts_rank(m.its_words, (SELECT either FROM words), 33) AS score
    FROM ({_worded(kind, row_security, wanted)}) AS m
    WHERE {where} ORDER BY score DESC, m.created_at DESC, m.id LIMIT :limit"""


def _worded(kind: Kind, row_security: bool, wanted: str) -> str:
    """Rows with any, or every one, of the words. Under row-level security only the view can use the full-text index."""
    table = KIND[kind].table
    matching = f"WHERE search_vector @@ (SELECT {wanted} FROM words) OFFSET 0"
    if not row_security:
        return f"SELECT *, search_vector || '' AS its_words FROM {table} {matching}"
    return (
        f"SELECT t.*, found.its_words FROM (SELECT id, search_vector || '' AS its_words FROM {table}_words {matching})"
        " AS found"
        f" JOIN {table} AS t ON t.tenant_id = :tenant_id AND t.id = found.id"
    )


def _exact(kind: Kind, where: str) -> str:
    """Compare all rows of the tenant. The order is by a rounded similarity, which no index provides."""
    return f"""
    SELECT m.id, {_SIMILARITY} AS score FROM {KIND[kind].table} AS m WHERE m.embedding IS NOT NULL AND {where}
    ORDER BY score DESC, m.created_at DESC, m.id LIMIT :limit"""


def _by_index(kind: Kind, where: str) -> str:
    return f"""
    SELECT m.id, {_SIMILARITY} AS score FROM {KIND[kind].table} AS m WHERE m.embedding IS NOT NULL AND {where}
    ORDER BY m.embedding <=> (SELECT vector FROM probe) LIMIT :limit"""
