"""A file that grows: what a tenant of one per cent costs, and one that stays as it is (`--large`)."""

from time import perf_counter

from bench.corpus import TENANTS, Corpus, tenant_name
from bench.embedders import Topics, Warm
from bench.engines import Engine
from bench.report import Report, Timings, Watch, milliseconds
from bench.searches import HYBRID, RECALL, VERBS
from bench.stores import EXACT, load, maintain
from tulving import Caller, open_memory

SIZES = (1_000, 10_000, 100_000, 1_000_000)
CONSTANT, CONSTANT_SIZE = "constant", 1_000
SHARE = tenant_name(TENANTS // 2)
QUERIES, WARM_UP = 100, 20


async def run(engine: Engine, report: Report) -> None:
    """Cost should follow the size of the tenant, not that of the file."""
    report.section(
        f"{engine.name}: growth; {TENANTS} tenants of 1 % each and one of {CONSTANT_SIZE:,} memories, vectors given"
    )
    smallest: dict[str, Timings] = {}
    for size in SIZES:
        place = await engine.fresh(f"growth-{size}")
        texts, seconds = await _fill(place, size)
        used = await engine.bytes_used(place)
        report.row(f"load, {size:,}", f"{(size + CONSTANT_SIZE) / seconds:,.0f}/s in {seconds:.0f} s")
        report.row(f"file, {size:,}", f"{used / 1e6:,.0f} MB, {used / (size + CONSTANT_SIZE):,.0f} bytes a memory")
        for tenant, what in ((SHARE, f"1 % of {size:,}"), (CONSTANT, f"{CONSTANT_SIZE:,} beside {size:,}")):
            first, timings = await _search(place, tenant, texts[tenant])
            report.row(f"first search after opening, {what}", milliseconds(first))
            for name, each in timings.items():
                beside = smallest.setdefault(name, each) if tenant == CONSTANT else None
                ratio = f"{each.p50 / beside.p50:.2f} x" if beside else ""
                report.row(
                    f"{name}, {what}",
                    str(each),
                    f"beside {SIZES[0]:,}: {milliseconds(beside.p50)}" if beside else "",
                    ratio,
                )


async def _fill(place: str, size: int) -> tuple[dict[str, list[str]], float]:
    """The texts of the tenants that are asked about, and the seconds that storing all took."""
    corpus, texts, seconds = Corpus(), {}, 0.0
    async with open_memory(place, embedder=Topics(), config=EXACT, background=False) as memory:
        for number in range(TENANTS + 1):
            name = tenant_name(number) if number < TENANTS else CONSTANT
            tenant = corpus.tenant(name, size // TENANTS if number < TENANTS else CONSTANT_SIZE)
            if name in (SHARE, CONSTANT):
                texts[name] = tenant.texts
            seconds += await load(memory, tenant)
        await maintain(memory)
    return texts, seconds


async def _search(place: str, tenant: str, texts: list[str]) -> tuple[float, dict[str, Timings]]:
    """The seconds of the first search of a store, and then of searches and recalls, call by call."""
    corpus, embedder = Corpus(23), Warm(Topics())
    queries = [corpus.query(texts) for _ in range(WARM_UP + QUERIES)]
    embedder.warm(queries)
    timings = {name: Timings() for name in (HYBRID, RECALL)}
    async with open_memory(place, embedder=embedder, config=EXACT, background=False) as memory:
        mine, begun = memory.bind(caller=Caller(tenant)), perf_counter()
        await mine.search(queries[0])
        first = perf_counter() - begun
        for number, query in enumerate(queries):
            for name, each in timings.items():
                with Watch(each if number >= WARM_UP else Timings()):
                    await VERBS[name](mine, query)
                await mine.settle()
    return first, timings
