"""PostgreSQL: a small, a larger and a very large tenant in one table, beside queries written by hand."""

from collections.abc import Awaitable, Callable, Sequence
from statistics import mean
from time import perf_counter
from typing import Any

import numpy

from bench.baseline import exact_recall
from bench.corpus import Corpus
from bench.embedders import Topics, Warm
from bench.engines import Engine, Place, connect
from bench.report import Report, Timings, Watch, pair_ratio
from bench.stores import BATCH, Stores
from tulving import Caller, Memory, open_memory
from tulving.bootstrap import migrate_store
from tulving.domain.text import lookup_terms
from tulving.services.administration import Administration
from tulving.settings import MemoryModuleConfig, PostgresConfig
from tulving.storage.kinds import KIND
from tulving.storage.tenant_words import prefixed

# Of a hundred parts. The rest are as small as the first.
SHARES = {"1 %": 1, "10 %": 10, "60 %": 60}
QUERIES = {"1 %": 100, "10 %": 60, "60 %": 30}
LOWEST_RECALL = {"1 %": 1.0, "10 %": 0.95}
MOST_TIMES_BY_HAND = 1.5
RECALLS = 40
WARM_UP = 8  # the server may change its plan after the fifth execution

_FACT = KIND["fact"].selected
_MINE = "m.tenant_id = $1 AND m.validity = 'active'"
# Adding nothing keeps the approximate index away.
EXACT = f"SELECT {_FACT} FROM facts AS m WHERE {_MINE} ORDER BY (m.embedding <=> $2) + 0 LIMIT 10"
BOTH_LANES = f"""
(SELECT 'semantic' AS lane, 1 - (m.embedding <=> $2) AS score, {_FACT} FROM facts AS m WHERE {_MINE}
    ORDER BY (m.embedding <=> $2) + 0 LIMIT 10)
UNION ALL
(SELECT 'keyword', ts_rank(m.search_vector, to_tsquery('english', $3)), {_FACT} FROM facts AS m
    WHERE {_MINE} AND m.search_vector @@ to_tsquery('english', $3) ORDER BY 2 DESC LIMIT 10)"""


async def run(stores: Stores, report: Report, total: int, large: bool) -> None:
    report.section(f"{stores.engine.name}: {total:,} facts in one table, 384 dimensions, query vector given")
    embedder = Warm(Topics())
    sizes = {share: total * part // 100 for share, part in SHARES.items()}
    sizes |= {f"other-{number:02}": total // 100 for number in range(100 - sum(SHARES.values()))}
    place, texts = await _load(stores.engine, report, embedder, "tenants", sizes)
    config = MemoryModuleConfig(postgres=PostgresConfig(exact_rows=total // 10))
    raw = await connect(place)
    async with open_memory(place, embedder=embedder, config=config, background=False) as memory:
        await _reindex(memory, report, "ivfflat")
        for share in SHARES:
            index = " through IVFFlat" if share == "60 %" else ""
            await _measure(memory, report, raw, embedder, share, texts[share], index)
        secured = await _with_row_security(place)
        async with open_memory(secured, embedder=embedder, config=config, background=False) as service:
            for share in ("1 %", "10 %"):
                await _measure(service, report, raw, embedder, share, texts[share], " with row-level security")
        if large:
            await _reindex(memory, report, "hnsw")
            await _measure(memory, report, raw, embedder, "60 %", texts["60 %"], " through HNSW")
    if large:
        config = MemoryModuleConfig(postgres=PostgresConfig(exact_rows=total // 100))
        async with open_memory(place, embedder=embedder, config=config, background=False) as memory:
            await _measure(memory, report, raw, embedder, "10 %", texts["10 %"], " through HNSW")
    await raw.close()
    await _beside_one(stores.engine, report, embedder, total // 5)


async def _beside_one(engine: Engine, report: Report, embedder: Warm, total: int) -> None:
    """Two tenants, of which a plan for any of them could take the small one to have half of the table."""
    place, texts = await _load(engine, report, embedder, "two", {"1 %": total // 100, "99 %": total * 99 // 100})
    raw = await connect(place)
    await raw.execute("ANALYZE")
    async with open_memory(place, embedder=embedder, background=False) as memory:
        await _measure(memory, report, raw, embedder, "1 %", texts["1 %"], f" beside one of {total * 99 // 100:,}")
    await raw.close()


async def _with_row_security(place: Place) -> Place:
    """The same database for the service's role, for which the policies hold."""
    await migrate_store(place, MemoryModuleConfig(), roles=("bench_service", "bench_maintenance"))
    return f"{place}{'&' if '?' in place else '?'}role=bench_service"


async def _load(
    engine: Engine, report: Report, embedder: Warm, name: str, sizes: dict[str, int]
) -> tuple[Place, dict[str, list[str]]]:
    """All facts, in batches; and the texts of the tenants that are asked about."""
    place = await engine.fresh(name)
    corpus, texts, seconds, total = Corpus(7), {}, 0.0, sum(sizes.values())
    async with open_memory(place, embedder=embedder, background=False) as memory:
        for tenant, size in sizes.items():
            offers = corpus.facts(size)
            texts[tenant] = [offer.content for offer in offers]
            mine = memory.bind(caller=Caller(tenant))
            begun = perf_counter()
            for at in range(0, size, BATCH):
                await mine.store_facts(offers[at : at + BATCH])
            seconds += perf_counter() - begun
    report.row(f"Load {total:,} facts of {len(sizes)} tenants", f"{total / seconds:,.0f}/s in {seconds:.1f} s")
    return place, texts


async def _reindex(memory: Memory, report: Report, method: str) -> None:
    begun = perf_counter()
    await Administration(memory._env, memory.caller).reindex(method)
    report.row(f"reindex, {method}", f"{perf_counter() - begun:.1f} s")


async def _measure(
    memory: Memory, report: Report, raw: Any, embedder: Warm, share: str, texts: Sequence[str], how: str
) -> None:
    """Each mode and its statement by hand, call by call; then how much of the exact answer is found."""
    mine = memory.bind(caller=Caller(share))
    corpus = Corpus(21)
    queries = [corpus.query(texts) for _ in range(QUERIES[share] + WARM_UP)]
    embedder.warm(queries)
    case = f"{share} tenant{how}"

    def semantic(query: str) -> Awaitable[object]:
        return mine.search(query, types=["fact"], mode="semantic")

    def hybrid(query: str) -> Awaitable[object]:
        return mine.search(query, types=["fact"])

    async def exact_by_hand(query: str) -> None:
        await _read(raw, EXACT, share, embedder.embed(query))

    async def both_by_hand(query: str) -> None:
        either = " | ".join(prefixed(share, [term]) for term in lookup_terms(query))
        await _read(raw, BOTH_LANES, share, embedder.embed(query), either)

    pairs: dict[str, tuple[Callable[[str], Awaitable[object]], Callable[[str], Awaitable[object]]]] = {
        "semantic search": (semantic, exact_by_hand),
        "hybrid search": (hybrid, both_by_hand),
    }
    for name, (verb, by_hand) in pairs.items():
        ours, hand = Timings(), Timings()
        for number, query in enumerate(queries):
            for timings, ask in ((ours, verb), (hand, by_hand)):
                with Watch(timings if number >= WARM_UP else Timings()):
                    await ask(query)
        ratio = pair_ratio(ours.wall, hand.wall)
        targeted = case == "1 % tenant"
        report.row(
            f"{name}, {case}",
            str(ours),
            f"by hand, exact {hand}",
            f"{ratio:.2f} x",
            f"<= {MOST_TIMES_BY_HAND} x" if targeted else "",
            ratio <= MOST_TIMES_BY_HAND if targeted else None,
        )
    await _recall(report, mine, raw, embedder, share, case, queries[:RECALLS])


async def _recall(
    report: Report, mine: Memory, raw: Any, embedder: Warm, share: str, case: str, queries: Sequence[str]
) -> None:
    rows = await raw.fetch("SELECT id, embedding FROM facts WHERE tenant_id = $1 AND validity = 'active'", share)
    ids = [str(row["id"]) for row in rows]
    matrix = numpy.frombuffer(b"".join(row["embedding"] for row in rows), "<f4").reshape(len(ids), -1)
    shares, fewest = [], 10
    for query in queries:
        found = await mine.search(query, types=["fact"], mode="semantic")
        fewest = min(fewest, len(found))
        shares.append(exact_recall(ids, matrix, embedder.embed(query), [str(hit.item.id) for hit in found]))
    lowest = LOWEST_RECALL.get(share)
    report.row(
        f"recall@10, {case}",
        f"{mean(shares):.4f}, never fewer than {fewest} rows",
        target=f">= {lowest:.2f}" if lowest else "",
        met=mean(shares) >= lowest if lowest else None,
    )


async def _read(raw: Any, sql: str, *args: Any) -> None:
    await raw.execute("BEGIN READ ONLY")
    await raw.fetch(sql, *args)
    await raw.execute("COMMIT")
