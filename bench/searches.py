"""Search, recall and context, with the query's vector given, beside the same search by hand."""

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from statistics import mean, median

from bench.baseline import exact_recall
from bench.by_hand import ByHand
from bench.corpus import NAMES, Corpus
from bench.embedders import Topics, Warm
from bench.engines import Engine
from bench.report import Report, Timings, Watch, milliseconds, pair_ratio
from bench.stores import EXACT, Built, Stores
from tulving import Caller, Memory, get_embedding_engine, open_memory
from tulving.domain.model import Kind
from tulving.ports import Embedder

QUERIES, QUERIES_OF_ONE, MODEL_QUERIES = 200, 40, 60
WARM_UP = 10
OPENED = 5
TABLES: dict[Kind, str] = {"episode": "episodes", "fact": "facts", "rule": "rules"}
MOST_BY_HAND = {1_000: 3.0, 10_000: 3.0, 100_000: 2.0}
MOST_OF_SEARCH = 1.5
LARGE = 100_000
"""The number of memories for which the goals below are set."""
MOST_WITH_NAME, MOST_FIRST, MOST_BYTES, MOST_EMBEDDING = 0.025, 0.3, 3_000, 1.1

Question = tuple[str, str]
"""A tenant, and what it asks."""
Ask = Callable[[Memory, str], Awaitable[object]]


async def _recall_and_count(memory: Memory, query: str) -> None:
    await memory.recall(query)
    await memory.settle()


HYBRID, SEMANTIC, KEYWORD, RECALL = "hybrid search", "semantic search", "keyword search", "recall"
VERBS: dict[str, Ask] = {
    HYBRID: lambda memory, query: memory.search(query),
    SEMANTIC: lambda memory, query: memory.search(query, mode="semantic"),
    KEYWORD: lambda memory, query: memory.search(query, mode="keyword"),
    RECALL: lambda memory, query: memory.recall(query),
    "recall until its references are counted": _recall_and_count,
    "context": lambda memory, query: memory.context(query, "assistant"),
}
BY_HAND = {HYBRID: "hybrid", SEMANTIC: "semantic"}


def questions(built: Built, count: int, seed: int = 21) -> list[Question]:
    """Tenants and queries, mixed: neighbours concern different tenants."""
    corpus = Corpus(seed)
    tenants = itertools.islice(itertools.cycle(built.texts), count)
    return [(tenant, corpus.query(built.texts[tenant])) for tenant in tenants]


async def run(stores: Stores, report: Report, sizes: list[int]) -> None:
    """A tenant of a hundred; then all memories with one tenant, as for a person who uses it alone."""
    engine = stores.engine
    for size in sizes:
        report.section(f"{engine.name}: {size:,} memories, 100 tenants, query vector given (384 dimensions)")
        built = await stores.of_size(size)
        await _of_many(engine, report, built, size)
    size = sizes[-1]
    report.section(f"{engine.name}: {size:,} memories, one tenant, query vector given (384 dimensions)")
    await _of_one(engine, report, await stores.of_one("topics", size), size)


async def _of_many(engine: Engine, report: Report, built: Built, size: int) -> None:
    asked, embedder = questions(built, QUERIES), Warm(Topics())
    embedder.warm([query for _, query in asked])
    hand, first = engine.by_hand(built.by_hand, embedder), Timings()
    async with open_memory(built.place, embedder=embedder, config=EXACT, background=False) as memory:
        bound = {tenant: memory.bind(caller=Caller(tenant)) for tenant in built.texts}
        for tenant, query in asked[: len(bound)]:
            with Watch(first):
                await bound[tenant].search(query)
        timings = await _in_turn(bound, hand, asked)
        found = await _found(engine, built, bound, asked, embedder)
        other = await engine.bytes_used(await engine.fresh(built.by_hand)) if hand else 0
        tuned = None
        if hand:
            hand.tune()
            tuned = await _in_turn(bound, hand, asked, [HYBRID])
            hand.close()
    case = f"1 % of {size:,}"
    _tell(report, case, *timings, most_by_hand=MOST_BY_HAND[size])
    if tuned:
        _tell(report, f"{case}; by hand in one segment and without stop words", *tuned)
    report.row(f"first search of a tenant, {case}", f"{milliseconds(first.p50)} (max {milliseconds(max(first.wall))})")
    _tell_found(report, case, found)
    used, goal = await engine.bytes_used(built.place), MOST_BYTES if size >= LARGE else None
    report.row(
        f"disk per memory, {size:,}, 100 tenants",
        f"{used / size:,.0f} bytes",
        f"by hand {other / size:,.0f} bytes" if hand else "",
        f"{used / other:.2f} x" if hand else "",
        f"<= {goal:,}" if goal else "",
        used / size <= goal if goal else None,
    )


async def _of_one(engine: Engine, report: Report, built: Built, size: int) -> None:
    rare = questions(built, QUERIES_OF_ONE)
    named = {
        f"with a name in {share:.0%} of them": [(tenant, f"{name} {query}") for tenant, query in rare]
        for name, share in NAMES.items()
    }
    embedder = Warm(Topics())
    embedder.warm([query for asked in (rare, *named.values()) for _, query in asked])
    await _first_of_one(engine, report, built, embedder, rare, size)
    hand = engine.by_hand(built.by_hand, embedder)
    async with open_memory(built.place, embedder=embedder, config=EXACT, background=False) as memory:
        bound = {tenant: memory.bind(caller=Caller(tenant)) for tenant in built.texts}
        case = f"{size:,} of one tenant"
        _tell(report, case, *await _in_turn(bound, hand, rare))
        for how, asked in named.items():
            timings = await _in_turn(bound, hand, asked, (HYBRID, RECALL))
            _tell(report, f"{case}, {how}", *timings, most=MOST_WITH_NAME if size >= LARGE else None)
        _tell_found(report, case, await _found(engine, built, bound, rare[:WARM_UP], embedder))
    if hand:
        hand.close()


async def _first_of_one(
    engine: Engine, report: Report, built: Built, embedder: Warm, asked: Sequence[Question], size: int
) -> None:
    """Each time the store is opened anew; its file is in the system's memory."""
    ours, by_hand = Timings(), Timings()
    for tenant, query in asked[:OPENED]:
        async with open_memory(built.place, embedder=embedder, config=EXACT, tenant=tenant, background=False) as memory:
            with Watch(ours):
                await memory.search(query)
        if hand := engine.by_hand(built.by_hand, embedder):
            with Watch(by_hand):
                hand.search(tenant, query)
            hand.close()
    report.row(
        f"first search after opening, {size:,} of one tenant",
        str(ours),
        f"by hand {by_hand}" if by_hand.wall else "",
        f"{pair_ratio(ours.wall, by_hand.wall):.1f} x" if by_hand.wall else "",
        f"<= {milliseconds(MOST_FIRST)}" if size >= LARGE else "",
        ours.p50 <= MOST_FIRST if size >= LARGE else None,
    )


async def _in_turn(
    bound: Mapping[str, Memory], hand: ByHand | None, asked: Sequence[Question], names: Iterable[str] = VERBS
) -> tuple[dict[str, Timings], dict[str, Timings]]:
    """Each question in each way, and then by hand, call by call."""
    ours = {name: Timings() for name in names}
    by_hand = {name: Timings() for name in BY_HAND if hand and name in ours}
    for number, (tenant, query) in enumerate([*asked[:WARM_UP], *asked]):
        for name in ours:
            with Watch(ours[name] if number >= WARM_UP else Timings()):
                await VERBS[name](bound[tenant], query)
            await bound[tenant].settle()  # so that the next one need not share the processor with it
            if hand and name in by_hand:
                with Watch(by_hand[name] if number >= WARM_UP else Timings()):
                    hand.search(tenant, query, BY_HAND[name])
    return ours, by_hand


def _tell(
    report: Report,
    case: str,
    ours: Mapping[str, Timings],
    by_hand: Mapping[str, Timings],
    most_by_hand: float | None = None,
    most: float | None = None,
) -> None:
    """A row for each way: searches beside those by hand, and what is built on searches beside them."""
    for name, timings in ours.items():
        beside, what, limit = by_hand.get(name), "by hand", most_by_hand if name == HYBRID else None
        if name not in (HYBRID, SEMANTIC, KEYWORD):
            beside, what, limit = ours[HYBRID], HYBRID, MOST_OF_SEARCH if name == RECALL else None
        ratio = pair_ratio(timings.wall, beside.wall) if beside else 0.0
        target, met = "", None
        if most and name == HYBRID:
            target, met = f"p50 <= {milliseconds(most)}", timings.p50 <= most
        elif beside and limit:
            target, met = f"<= {limit:g} x", ratio <= limit
        cpu = pair_ratio(timings.cpu, beside.cpu) if beside else 0.0
        baseline = (f"{what} {beside}", f"{ratio:.1f} x (CPU {cpu:.1f})") if beside else ("", "")
        report.row(f"{name}, {case}", str(timings), *baseline, target, met)


async def _found(
    engine: Engine, built: Built, bound: Mapping[str, Memory], asked: Sequence[Question], embedder: Warm
) -> list[float]:
    """How much of the exact answer semantic search finds, on average, for each kind."""
    raw = await engine.plain(built.place)
    vectors = await raw.vectors()
    await raw.close()
    shares: dict[Kind, list[float]] = {kind: [] for kind in TABLES}
    for (tenant, query), kind in itertools.product(asked, TABLES):
        hits = await bound[tenant].search(query, types=[kind], mode="semantic")
        ids, rows = vectors[tenant][TABLES[kind]]
        shares[kind].append(exact_recall(ids, rows, embedder.embed(query), [str(hit.item.id) for hit in hits]))
    return [mean(each) for each in shares.values()]


def _tell_found(report: Report, case: str, found: Sequence[float]) -> None:
    report.row(
        f"recall@10 of semantic search ({', '.join(TABLES.values())}), {case}",
        ", ".join(f"{share:.4f}" for share in found),
        target="1.00",
        met=set(found) == {1.0},
    )


async def run_minilm(stores: Stores, report: Report) -> None:
    """The whole way of a question, the model included; and what embedding it adds to a recall whose vector is known."""
    engine = get_embedding_engine("minilm")
    report.section(f"{stores.engine.name}: 1,000 memories of one tenant, MiniLM, query embedding included")
    if problem := engine.unready():
        return report.note(f"MiniLM search skipped: {problem}")
    built = await stores.of_one("minilm")
    ((tenant, texts),) = built.texts.items()
    corpus, order, known = Corpus(31, plain=True), Random(5), Warm(engine, light=True)
    async with (
        open_memory(built.place, embedder=engine, tenant=tenant, background=False) as memory,
        open_memory(built.place, embedder=known, tenant=tenant, background=False) as given,
    ):
        timings = {name: Timings() for name in (HYBRID, RECALL, "vector given", "alone")}
        for number in range(10 + MODEL_QUERIES):
            query, other = corpus.query(texts), corpus.query(texts)
            known.warm([query])
            steps: list[tuple[str, Callable[[], Awaitable[object]]]] = [
                (HYBRID, partial(memory.search, other)),
                (RECALL, partial(memory.recall, query)),
                ("vector given", partial(given.recall, query)),
                ("alone", partial(_embed, engine, corpus.query(texts))),
            ]
            order.shuffle(steps)
            for name, step in steps:
                with Watch(timings[name] if number >= 10 else Timings()):
                    await step()
                await memory.settle()
                await given.settle()
    alone, without = timings["alone"], timings["vector given"]
    for name in (HYBRID, RECALL):
        share = f"embedding {alone.p50 / timings[name].p50:.0%} of it"
        report.row(f"{name} with MiniLM, 1,000", str(timings[name]), f"embedding alone {alone}", share)
    added = [whole - given for whole, given in zip(timings[RECALL].wall, without.wall, strict=True)]
    ratio = median(added) / alone.p50
    report.row(
        "embedding the query in a recall with MiniLM",
        f"{milliseconds(median(added))} more than with its vector given ({milliseconds(without.p50)})",
        f"embedding alone {milliseconds(alone.p50)}",
        f"{ratio:.2f} x",
        f"<= {MOST_EMBEDDING} x",
        ratio <= MOST_EMBEDDING,
    )


async def _embed(engine: Embedder, query: str) -> None:
    engine.embed(query)
