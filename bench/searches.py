"""Search, recall and context for one tenant of a hundred, with the query's vector given."""

import itertools
from collections.abc import Awaitable, Callable
from random import Random
from statistics import mean, median

import numpy

from bench.baseline import Transactions, Vectors, exact_recall, scan
from bench.corpus import Corpus
from bench.embedders import Warm
from bench.engines import Engine
from bench.report import Report, Timings, Watch, milliseconds
from bench.stores import Built, Stores
from tulving import Caller, Memory, get_embedding_engine, open_memory
from tulving.domain.model import Kind

QUERIES = {"100 tenants": 200, "one tenant": 60}
ROUND = 20
TABLES: dict[Kind, str] = {"episode": "episodes", "fact": "facts", "rule": "rules"}
TARGETS = {1_000: 0.002, 10_000: 0.002, 100_000: 0.005}

Ask = Callable[[Memory, str], Awaitable[object]]
VERBS: dict[str, Ask] = {
    "hybrid search": lambda memory, query: memory.search(query),
    "semantic search": lambda memory, query: memory.search(query, mode="semantic"),
    "keyword search": lambda memory, query: memory.search(query, mode="keyword"),
    "recall": lambda memory, query: memory.recall(query),
    "context": lambda memory, query: memory.context(query, "assistant"),
}


def questions(built: Built, count: int, seed: int = 21) -> list[tuple[str, str]]:
    """Tenants and queries, mixed: neighbours concern different tenants."""
    corpus = Corpus(seed)
    tenants = itertools.islice(itertools.cycle(built.texts), count)
    return [(tenant, corpus.query(built.texts[tenant])) for tenant in tenants]


async def run(stores: Stores, report: Report, sizes: list[int]) -> None:
    """A tenant of a hundred; then all memories with one tenant, as for a person who uses it alone."""
    engine = stores.engine
    for size in sizes:
        report.section(f"{engine.name}: {size:,} memories, 100 tenants, query vector given")
        await _measure(engine, report, await stores.of_size(size), size, "100 tenants")
    for size in sizes[1:]:
        report.section(f"{engine.name}: {size:,} memories, one tenant, query vector given")
        await _measure(engine, report, await stores.of_one("hashing", size), size, "one tenant")


async def _measure(store: Engine, report: Report, built: Built, size: int, owners: str) -> None:
    asked = questions(built, QUERIES[owners])
    case = f"{size:,}, {owners}"
    engine = Warm(get_embedding_engine("hashing"))
    engine.warm([query for _, query in asked])
    raw = await store.plain(await store.copy(built.place, f"plain-{size}-{len(built.texts)}"))
    vectors = await raw.vectors()
    tenants = {tenant: numpy.concatenate([rows for _, rows in vectors[tenant].values()]) for tenant in vectors}
    everything = numpy.concatenate(list(tenants.values()))
    queries = {query: numpy.asarray(engine.embed(query), numpy.float32) for _, query in asked}
    ours = {name: Timings() for name in VERBS}
    first, own_scan, full_scan, bump = Timings(), Timings(), Timings(), Timings()
    transactions = await _touches(store, built, engine, asked)
    async with open_memory(built.place, embedder=engine) as memory:
        bound = {tenant: memory.bind(caller=Caller(tenant)) for tenant in built.texts}
        for tenant, query in asked[: len(bound)]:
            with Watch(first):
                await bound[tenant].search(query)
        await _warm_up(bound, asked)
        for at in range(0, len(asked), ROUND):
            for name, verb in VERBS.items():
                for tenant, query in asked[at : at + ROUND]:
                    with Watch(ours[name]):
                        await verb(bound[tenant], query)
            for tenant, query in asked[at : at + ROUND]:
                with Watch(own_scan):
                    scan(tenants[tenant], queries[query])
            for transaction in transactions[at : at + ROUND]:
                with Watch(bump):
                    await raw.replay(transaction)
            for _, query in asked[at : at + ROUND // 4]:
                with Watch(full_scan):
                    scan(everything, queries[query])
        found = {kind: await _recalls(bound, asked, engine, vectors, kind) for kind in TABLES}
    await raw.close()
    for name, timings in ours.items():
        targeted = name == "hybrid search" and owners == "100 tenants" and store.name == "SQLite"
        target = TARGETS[size] if targeted else None
        durable = name in ("recall", "context")
        floor = own_scan.p50 + bump.p50 if durable else own_scan.p50
        report.row(
            f"{name}, {case}",
            str(timings),
            f"tenant scan{' + raw commit of the references' if durable else ''} {milliseconds(floor)}",
            f"{timings.p50 / floor:.1f} x",
            f"p50 <= {milliseconds(target)}" if target else "",
            timings.p50 <= target if target else None,
        )
    if owners == "100 tenants":
        report.row(
            f"hybrid search against a scan of all {size:,}",
            milliseconds(ours["hybrid search"].p50),
            milliseconds(full_scan.p50),
            f"{ours['hybrid search'].p50 / full_scan.p50:.2f} x",
        )
    report.row(f"first search of a tenant, {case}", f"{milliseconds(first.p50)} (max {milliseconds(max(first.wall))})")
    report.row(
        f"recall@10 of semantic search ({', '.join(TABLES.values())}), {case}",
        ", ".join(f"{share:.4f}" for share in found.values()),
        target="1.00",
        met=set(found.values()) == {1.0},
    )
    report.row(f"disk per memory, {case}", f"{await store.bytes_used(built.place) / size:,.0f} bytes")


async def _warm_up(bound: dict[str, Memory], asked: list[tuple[str, str]]) -> None:
    for tenant, query in asked[:ROUND]:
        for verb in VERBS.values():
            await verb(bound[tenant], query)


async def _touches(store: Engine, built: Built, embedder: Warm, asked: list[tuple[str, str]]) -> Transactions:
    """What a recall writes, to be replayed: each question's references, counted once here."""
    async with store.recorded(built.place, embedder) as (memory, transactions):
        for tenant, query in asked:
            await memory.bind(caller=Caller(tenant)).recall(query)
            await memory.settle()
    return transactions


async def _recalls(
    bound: dict[str, Memory], asked: list[tuple[str, str]], engine: Warm, vectors: Vectors, kind: Kind
) -> float:
    """How much of the exact answer semantic search finds, on average."""
    shares = []
    for tenant, query in asked:
        found = await bound[tenant].search(query, types=[kind], mode="semantic")
        ids, rows = vectors[tenant][TABLES[kind]]
        shares.append(exact_recall(ids, rows, engine.embed(query), [str(hit.item.id) for hit in found]))
    return mean(shares)


async def run_minilm(stores: Stores, report: Report) -> None:
    """The whole way of a question, the model included."""
    engine = get_embedding_engine("minilm")
    report.section(f"{stores.engine.name}: 1,000 memories of one tenant, MiniLM, query embedding included")
    if problem := engine.unready():
        return report.note(f"MiniLM search skipped: {problem}")
    built = await stores.of_one("minilm")
    ((tenant, texts),) = built.texts.items()
    corpus, order = Corpus(31, plain=True), Random(5)
    search, recall, alone = Timings(), Timings(), Timings()
    async with open_memory(built.place, embedder=engine, tenant=tenant) as memory:
        for _ in range(10):
            await memory.recall(corpus.query(texts))
        steps = [
            (search, lambda query: memory.search(query)),
            (recall, lambda query: memory.recall(query)),
            (alone, None),
        ]
        for _ in range(60):
            order.shuffle(steps)
            for timings, verb in steps:
                query = corpus.query(texts)
                with Watch(timings):
                    if verb:
                        await verb(query)
                    else:
                        engine.embed(query)
    for name, timings in (("hybrid search", search), ("recall", recall)):
        report.row(
            f"{name} with MiniLM, 1,000",
            str(timings),
            f"embedding alone {alone}",
            f"embedding {median(alone.wall) / timings.p50:.0%} of it",
        )
    used = await stores.engine.bytes_used(built.place)
    report.row("disk per memory, 1,000, MiniLM (384 dimensions)", f"{used / 1_000:,.0f} bytes")
