"""Candidates on SQLite: FTS5 for words, the vector cache for meaning."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate, combinations, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tulving.domain.model import Kind
from tulving.errors import DamagedStore
from tulving.storage.embeddings import active_number
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND
from tulving.storage.lanes import JUDGED, SIDES, CandidateRows, Key, LaneRequest, Lanes, Neighbours
from tulving.storage.rows import Row
from tulving.storage.sqlite.matrix import Compared, Ranked, Ranking, Reader
from tulving.storage.sqlite.values import columns, decoded, encoded
from tulving.storage.sqlite.vector_codes import similarities
from tulving.storage.sqlite.vectors import VectorCache
from tulving.storage.tenant_words import prefixed

if TYPE_CHECKING:
    from tulving.storage.sqlite.connection import SqliteConnection

_READERS = {kind: columns(table.columns) for kind, table in KIND.items()}
# So many more than the limit are looked up by their words, because some may not pass the filter.
_SPARE = 20
# So many more of those are looked up each time that too few have passed it.
_MORE = 4
# The best candidates, in multiples of the limit, that a filter is tried on before it is applied to the whole tenant.
_WINDOWS = (1, 2)
SCORED = 4_000
"""So many matches of a kind are scored by all their words; with more, those that only have common words are not scored,
unless they have two of them (ADR 0042)."""
PAIRED = 6
"""Of so many common words two are looked for together."""


def find_lanes(conn: "SqliteConnection", vectors: VectorCache, request: LaneRequest) -> Lanes:
    """Both lanes of each kind, each up to the limit, from rows that pass the filter."""
    rows = CandidateRows(request.tenant_id, _decode_time)
    lanes = Lanes({}, {}, {}, rows)
    searches: dict[Kind, _KindSearch] = {kind: _KindSearch(conn, request, kind, rows) for kind in request.kinds}
    rankings: dict[Kind, Ranked] = {}
    # The cache holds what is committed today. Facts beside another one are asked for by the transaction that stores it.
    cached = request.filter.as_of is None and request.filter.beside is None
    if request.vector is not None and cached:
        readers: dict[Kind, Reader] = {kind: search.vectors for kind, search in searches.items()}
        rankings = vectors.rank(conn, request.tenant_id, readers, request.vector, request.embedding_version)
    elif request.vector is not None and any(request.vector):
        active_number(conn, request.embedding_version, len(request.vector))
        rankings = {kind: search.uncached(request.vector) for kind, search in searches.items()}
    for kind, search in searches.items():
        known = len(rankings[kind]) if kind in rankings else 0
        if request.terms:
            some, many = (True, known > SCORED) if known and cached else search.size()
            if some:
                lanes.keyword.update(search.keyword(many))
        if known:
            lanes.semantic.update(search.semantic(rankings[kind]))
    if request.neighbours and (turns := rows.turns()):
        lanes.neighbours.update(searches["episode"].neighbours(turns))
    for kind, ranking in rankings.items():
        found = ranking.of(id_ for of_kind, id_ in rows if of_kind == kind)  # pyright: ignore[reportArgumentType]
        lanes.similarities.update({(kind, id_): similarity for id_, similarity in found.items()})
    return lanes


def read_memories(conn: "SqliteConnection", tenant_id: str, keys: Collection[Key]) -> dict[Key, Row]:
    found: dict[Key, Row] = {}
    for kind, table in KIND.items():
        if ids := [id_ for of_kind, id_ in keys if of_kind == kind]:
            rows = conn.tuples(
                f"{table.select} WHERE m.tenant_id = :tenant_id AND {conn.within('m.id', 'ids')}",
                {"tenant_id": tenant_id, "ids": ids},
            )
            found |= {(kind, row[table.columns.index("id")]): decoded(_READERS[kind], row) for row in rows}
    return found


def match_expression(tenant_id: str, terms: Sequence[str], joint: str) -> str:
    """An FTS5 query for terms (`text.lookup_terms`). Every word is quoted, so that user input is never syntax."""
    either = (prefixed(tenant_id, term.split("|"), '" OR "') for term in terms)
    return f" {joint} ".join(f'("{words}")'.replace('*"', '"*') for words in either)


def _decode_time(value: str | None) -> datetime | None:
    try:
        return None if value is None else datetime.fromisoformat(value)
    except (ValueError, TypeError) as error:
        raise DamagedStore(f"the database file is damaged: a stored time can't be read ({error})") from error


def _episode(id_: str | None) -> Key | None:
    return None if id_ is None else ("episode", id_)


class _KindSearch:
    """The search of one kind. All rows it reads are kept, with their vectors, so that none is fetched twice."""

    def __init__(self, conn: "SqliteConnection", request: LaneRequest, kind: Kind, rows: CandidateRows) -> None:
        self._conn, self._request, self._rows = conn, request, rows
        self._kind: Kind = kind
        self._table = KIND[kind].table
        self._where, self._params = visible(conn, kind, request.tenant_id, request.filter, request.now)
        self._judged = f"{JUDGED[kind]}, {'NULL' if request.vector is None else 'm.embedding'}"
        self._vectors: dict[str, tuple[str, str, bytes]] = {}
        self._passed: dict[str, tuple[Any, ...]] = {}
        """What was read for its vector, and may become a candidate."""

    def size(self) -> tuple[bool, bool]:
        """Whether the tenant has any rows of this kind, and whether it has many."""
        mine = f"SELECT 1 FROM {self._table} WHERE tenant_id = :tenant_id LIMIT 1"
        [(some, many)] = self._conn.tuples(
            f"SELECT EXISTS ({mine}), EXISTS ({mine} OFFSET :most)",
            {"tenant_id": self._request.tenant_id, "most": SCORED},
        )
        return some, many

    def keyword(self, many: bool) -> dict[Key, float]:
        """Memories with all the words first, then those with any of them.

        The rank is 1 to 2 for the former and 0 to 1 for the latter, in each case by BM25.
        """
        found: dict[Key, float] = {}
        for row in self._matches(many):
            *_, vector, complete, bm25 = row
            if vector is not None:
                self._vectors[row[0]] = row[0], row[1], vector
            found[self._rows.add(self._kind, row[:-3])] = complete + bm25 / (1.0 + bm25)
        return found

    def semantic(self, ranking: Ranked) -> dict[Key, float]:
        """Filter the head of the ranking; if too few pass, the filter is resolved to ids in SQL."""
        limit = self._request.limit
        found: dict[Key, float] = {}
        for window in _WINDOWS:
            best = ranking.best(window * limit, alike=self._request.alike)
            found = self._allowed(best)
            if len(found) >= limit or len(best) < window * limit or len(best) == len(ranking):
                break
        else:
            ids = self._conn.tuples(f"SELECT m.id FROM {self._table} AS m WHERE {self._where}", self._params)
            found = self._allowed(ranking.best(limit, {id_ for (id_,) in ids}, self._request.alike))
        return dict(list(found.items())[:limit])

    def neighbours(self, turns: Sequence[Hashable]) -> Neighbours:
        """The episodes next to the turns among the candidates; they become candidates themselves."""
        before, after = (self._adjacent(sign, order) for _, sign, order in SIDES)
        near = self._conn.tuples(
            f"SELECT a.id, {before}, {after} FROM json_each(:turns) AS turn CROSS JOIN episodes AS a"
            " ON a.tenant_id = :tenant_id AND a.id = turn.value",
            {**self._params, "turns": turns},
        )
        self._allowed([(id_, 0.0) for _, *pair in near for id_ in pair if id_ is not None])
        return {("episode", turn): (_episode(before), _episode(after)) for turn, before, after in near}

    def _adjacent(self, sign: str, order: str) -> str:
        """The next episode on one side of the episode `a`: of those that happened and were stored at the same time, of
        those that happened at the same time, of the others. For one comparison of rows SQLite would not use the whole
        index, and read all turns of the session, or of an import."""
        mine = KIND["episode"].dated_by
        its = mine.replace("m.", "a.")
        select = f"SELECT m.id FROM episodes AS m WHERE {self._where} AND m.session_id = a.session_id"
        ways = (
            (f"{mine} = {its} AND m.created_at = a.created_at AND m.id {sign} a.id", ["m.id"]),
            (f"{mine} = {its} AND m.created_at {sign} a.created_at", ["m.created_at", "m.id"]),
            (f"{mine} {sign} {its}", [mine, "m.created_at", "m.id"]),
        )
        return "COALESCE({})".format(
            ", ".join(
                f"({select} AND {condition} ORDER BY {', '.join(f'{part} {order}' for part in by)} LIMIT 1)"
                for condition, by in ways
            )
        )

    def uncached(self, vector: Sequence[float]) -> Ranked:
        """The memories that pass the filter, by similarity, from their rows."""
        import numpy

        kept = {
            row[0]: row
            for row in self._conn.tuples(
                f"SELECT m.id, m.created_at, m.embedding FROM {self._table} AS m"
                f" WHERE {self._where} AND m.embedding IS NOT NULL",
                self._params,
            )
        }
        query, places = numpy.asarray(vector, numpy.float32), {id_: at for at, id_ in enumerate(kept)}
        compared = Compared(query / numpy.linalg.norm(query), lambda ids: [kept[id_] for id_ in ids])
        exact = similarities([blob for *_, blob in kept.values()], compared.query)
        return Ranking(list(kept), places, exact, exact, compared)

    def _matches(self, many: bool) -> list[tuple[Any, ...]]:
        """The best matches that pass the filter. First only the best of the index are filtered. If too few pass, or
        ties with the last one are cut off (the index does not know which are newer), they are looked up further."""
        table, request = self._table, self._request
        window = request.limit + _SPARE
        params = {
            **self._params,
            "any": self._expression(request.terms, "AND" if request.every else "OR"),
            "window": window,
        }
        complete = "1"
        if len(request.terms) > 1 and not request.every:
            complete = f"{table}_fts.rowid IN (SELECT rowid FROM {table}_fts WHERE {table}_fts MATCH :every)"
            params["every"] = self._expression(request.terms, "AND")
        scored = f"""SELECT rowid AS num, {complete} AS complete, -bm25({table}_fts) AS bm25 FROM {table}_fts
            WHERE {table}_fts MATCH :any"""
        if many and not request.every and (worthy := self._worthy(params)):
            best = self._ordered(f"{scored} AND +rowid IN ({worthy}) ORDER BY 2 DESC, 3 DESC, rowid DESC", params)
            found = self._looked_up([each] for each in best)
            if len(found) >= request.limit:
                return found  # else the filter lets few pass, and others must not be missing
        if not many:
            head = self._conn.tuples(
                f"""
                SELECT {self._judged}, best.complete, best.bm25, {self._where}
                FROM ({scored} ORDER BY 2 DESC, 3 DESC, rowid DESC LIMIT :window) AS best
                JOIN {table} AS m ON m.num = best.num
                ORDER BY best.complete DESC, best.bm25 DESC, m.created_at DESC, m.id""",
                params,
            )
            found = [row[:-1] for row in head if row[-1]]
            cut = len(head) == window
            if not cut or (len(found) >= request.limit and found[request.limit - 1][-2:] != head[-1][-3:-1]):
                return found[: request.limit]
        best = self._ordered(f"{scored} ORDER BY 2 DESC, 3 DESC", params)
        return self._looked_up(list(ties) for _, ties in groupby(best, key=itemgetter(1, 2)))

    def _ordered(self, sql: str, params: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Rows that are fetched as far as they are needed."""
        return self._conn.raw.execute(sql, encoded(params))

    def _worthy(self, params: dict[str, Any]) -> str:
        """Which of many matches are scored, as a query; empty if all are. Each row with one of the rarer words, the
        newest with two of the others, and if there is nothing else to tell them apart, the newest ones."""
        terms = sorted(self._request.terms, key=(counts := self._counts()).__getitem__)
        totals = accumulate(counts[term] for term in terms)
        rare = [term for term, total in zip(terms, totals, strict=True) if total <= SCORED]
        if len(rare) == len(terms):
            return ""
        common = terms[len(rare) :][:PAIRED]
        pairs = [self._expression(pair, "AND") for pair in combinations(common, 2)]
        params |= {"rare": self._expression(rare, "OR"), "pairs": f"({') OR ('.join(pairs)})", "most": SCORED}
        params["enough"] = params["window"] if rare or pairs else SCORED
        match = f"SELECT rowid FROM {self._table}_fts WHERE {self._table}_fts MATCH"
        parts = [f"{match} :any ORDER BY rowid DESC LIMIT :enough"]
        if rare:
            parts.append(f"{match} :rare")
        if pairs:
            parts.append(f"{match} :pairs ORDER BY rowid DESC LIMIT :most")
        return " UNION ".join(f"SELECT rowid FROM ({part})" for part in parts)

    def _counts(self) -> dict[str, int]:
        """How many rows have each of the terms, as far as it matters."""
        table = self._table
        count = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table}_fts WHERE {table}_fts MATCH :term LIMIT :most)"
        counts: dict[str, int] = {}
        for term in self._request.terms:
            params = {"term": self._expression([term], "OR"), "most": SCORED + 1}
            [(counts[term],)] = self._conn.tuples(count, params)
        return counts

    def _expression(self, terms: Sequence[str], joint: str) -> str:
        return match_expression(self._request.tenant_id, terms, joint)

    def _looked_up(self, best: Iterable[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """The first matches that pass the filter. `best` are the numbers of rows with their ranks, best first, those
        together of which a part must not be left out."""
        limit, wanted = self._request.limit, self._request.limit + _SPARE
        found: list[tuple[Any, ...]] = []
        best = iter(best)
        while len(found) < limit:
            ranks: dict[int, tuple[Any, ...]] = {}
            for ties in best:
                ranks |= {num: rank for num, *rank in ties}
                if len(ranks) >= wanted:
                    break
            if not ranks:
                break
            rows = self._conn.tuples(
                f"SELECT {self._judged}, m.num FROM json_each(:nums) AS chosen CROSS JOIN {self._table} AS m"
                f" ON m.num = chosen.value WHERE {self._where}",
                {**self._params, "nums": list(ranks)},
            )
            some = sorted([(*row[:-1], *ranks[row[-1]]) for row in rows], key=itemgetter(0))
            some.sort(key=itemgetter(1), reverse=True)
            some.sort(key=itemgetter(-2, -1), reverse=True)
            found += some
            wanted *= _MORE
        return found[:limit]

    def vectors(self, ids: Sequence[str]) -> list[tuple[str, str, bytes]]:
        """The ids, creation times and vectors of those of these memories that are stored."""
        self._read([id_ for id_ in ids if id_ not in self._vectors])
        return [self._vectors[id_] for id_ in ids if id_ in self._vectors]

    def _allowed(self, best: list[tuple[str, float]]) -> dict[Key, float]:
        """The candidates that pass the filter; rows that were read already have passed it or not."""
        self._read([id_ for id_, _ in best if id_ not in self._vectors and (self._kind, id_) not in self._rows])
        allowed: dict[Key, float] = {}
        for id_, similarity in best:
            key: Key = self._kind, id_
            if key not in self._rows and id_ in self._passed:
                self._rows.add(self._kind, self._passed[id_])
            if key in self._rows:
                allowed[key] = similarity
        return allowed

    def _read(self, ids: Sequence[str]) -> None:
        if ids:
            for row in self._conn.tuples(
                # By id first: an index for the filter would lead to all rows of the tenant.
                f"SELECT {self._judged}, {self._where} FROM json_each(:ids) AS chosen CROSS JOIN {self._table} AS m"
                " ON m.tenant_id = :tenant_id AND m.id = chosen.value",
                {**self._params, "ids": ids},
            ):
                if row[-2] is not None:
                    self._vectors[row[0]] = row[0], row[1], row[-2]
                if row[-1]:
                    self._passed[row[0]] = row[:-2]
