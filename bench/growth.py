"""A file that grows: what a tenant of one per cent costs, and one that stays as it is (`--large`)."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import perf_counter

from bench.corpus import TENANTS, Corpus, TenantTexts, tenant_name
from bench.embedders import Topics, Warm
from bench.engines import Engine, Place
from bench.report import Report, Timings, Watch, milliseconds, pair_ratio
from bench.searches import HYBRID, RECALL, VERBS
from bench.stores import EXACT, load, maintain
from tulving import Caller, Memory, open_memory

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SHARE = tenant_name(TENANTS // 2)
SAME, SAME_SIZE = "same", 1_000
"""A tenant whose memories are the same in each file."""
ASKED = (HYBRID, RECALL)
QUERIES, WARM_UP = 100, 10


@dataclass(slots=True)
class Grown:
    """A file, what is asked about two tenants of it, and how long that takes."""

    place: Place
    queries: dict[str, list[str]]
    first: dict[str, float] = field(default_factory=dict)
    timings: dict[str, dict[str, Timings]] = field(
        default_factory=lambda: {tenant: {name: Timings() for name in ASKED} for tenant in (SHARE, SAME)}
    )


async def run(engine: Engine, report: Report) -> None:
    """Cost should follow the size of the tenant, not that of the file."""
    report.section(f"{engine.name}: growth; {TENANTS} tenants of 1 % each beside one of {SAME_SIZE:,}, vectors given")
    embedder, same = Warm(Topics()), Corpus(29).tenant(SAME, SAME_SIZE)
    files = {size: await _fill(engine, report, embedder, same, size) for size in SIZES}
    await _ask(files, embedder)
    smallest = files[SIZES[0]]
    for size, file in files.items():
        for tenant, what in ((SHARE, f"1 % of {size:,}"), (SAME, f"{SAME_SIZE:,} beside {size:,}")):
            report.row(f"first search after opening, {what}", milliseconds(file.first[tenant]))
            for name, timings in file.timings[tenant].items():
                beside = smallest.timings[tenant][name] if tenant == SAME else None
                report.row(
                    f"{name}, {what}",
                    str(timings),
                    f"beside {SIZES[0]:,}: {beside}" if beside else "",
                    f"{pair_ratio(timings.wall, beside.wall):.2f} x" if beside else "",
                )


async def _fill(engine: Engine, report: Report, embedder: Warm, same: TenantTexts, size: int) -> Grown:
    """Texts are made while they are stored: all at once would be much of the memory."""
    place, corpus, asking, seconds = await engine.fresh(f"growth-{size}"), Corpus(), Corpus(23), 0.0
    queries = {}
    async with open_memory(place, embedder=embedder, config=EXACT, background=False) as memory:
        for name in (*map(tenant_name, range(TENANTS)), SAME):
            tenant = same if name == SAME else corpus.tenant(name, size // TENANTS)
            seconds += await load(memory, tenant)
            if name in (SHARE, SAME):
                queries[name] = [asking.query(tenant.texts) for _ in range(WARM_UP + QUERIES)]
                embedder.warm(queries[name])
        await maintain(memory)
    stored, used = size + SAME_SIZE, await engine.bytes_used(place)
    report.row(f"load, {size:,}", f"{stored / seconds:,.0f}/s in {seconds:.0f} s")
    report.row(f"file, {size:,}", f"{used / 1e6:,.0f} MB, {used / stored:,.0f} bytes a memory")
    return Grown(place, queries)


async def _ask(files: dict[int, Grown], embedder: Warm) -> None:
    """The first search of each tenant in a file that was just opened, then one call after another in all files."""
    async with AsyncExitStack() as stack:
        opened: list[tuple[Grown, str, Memory]] = []
        for file in files.values():
            for tenant, queries in file.queries.items():
                memory = await stack.enter_async_context(
                    open_memory(file.place, embedder=embedder, config=EXACT, background=False)
                )
                opened.append((file, tenant, memory.bind(caller=Caller(tenant))))
                begun = perf_counter()
                await opened[-1][2].search(queries[0])
                file.first[tenant] = perf_counter() - begun
        for number in range(WARM_UP + QUERIES):
            for name in ASKED:
                for file, tenant, mine in opened:
                    with Watch(file.timings[tenant][name] if number >= WARM_UP else Timings()):
                        await VERBS[name](mine, file.queries[tenant][number])
                    await mine.settle()
