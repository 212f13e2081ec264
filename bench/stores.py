"""The stores that are searched: built through the batch verbs, once per run, and by hand beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.by_hand import ByHand
from bench.corpus import TENANTS, Corpus, Offer, People, TenantTexts, tenant_name, worded
from bench.embedders import Warm, embedder_named
from bench.engines import Engine, Place
from bench.report import Report
from tulving import Caller, Memory, MemoryModuleConfig, NewEpisode, NewFact, NewRule, open_memory
from tulving.services.administration import Administration
from tulving.settings import VectorsConfig

SAMPLED = range(0, TENANTS, 10)
BATCH = 1_000
EXACT = MemoryModuleConfig(vectors=VectorsConfig(exact_rows=10**9), max_size_bytes=None)
"""Any size, and all vectors compared, as without the extra `hnsw`: a graph would be built while others are measured."""


@dataclass(slots=True)
class Built:
    """A store, the texts of the tenants that will be asked about, and the name of the same store by hand."""

    place: Place
    texts: dict[str, list[str]]
    by_hand: str


class Stores:
    """Makes an engine's stores when they are first asked for."""

    def __init__(self, engine: Engine, report: Report) -> None:
        self.engine = engine
        self._report = report
        self._built: dict[str, Built] = {}

    async def of_size(self, size: int) -> Built:
        """A hundred tenants with as many memories each."""
        name, corpus = f"search-{size}", Corpus()
        if name not in self._built:
            tenants = [corpus.tenant(tenant_name(number), size // TENANTS) for number in range(TENANTS)]
            self._built[name] = await self._build(name, "topics", tenants)
        return self._built[name]

    async def of_one(self, embedder: str, size: int = 1_000) -> Built:
        """One tenant only: made-up vectors and a name in most texts, or for a model that knows English, its words."""
        name = f"one-{embedder}-{size}"
        if name not in self._built:
            corpus = People() if embedder == "topics" else Corpus(plain=embedder == "minilm")
            self._built[name] = await self._build(name, embedder, [corpus.tenant(tenant_name(0), size)])
        return self._built[name]

    async def _build(self, name: str, embedder: str, tenants: Sequence[TenantTexts]) -> Built:
        place, engine = await self.engine.fresh(name), Warm(embedder_named(embedder))
        hand = self.engine.by_hand(f"{name}-hand", embedder_named(embedder)) if embedder == "topics" else None
        ours = by_hand = 0.0
        async with open_memory(place, embedder=engine, config=EXACT, background=False) as memory:
            for tenant in tenants:
                ours += await load(memory, tenant)
                if hand:
                    by_hand += load_by_hand(hand, tenant)
            await maintain(memory)
        if hand:
            hand.close()
        size = sum(len(tenant.texts) for tenant in tenants)
        self._report.row(
            f"Load {size:,} memories, {len(tenants)} tenant{'s' if len(tenants) > 1 else ''}, {embedder}",
            f"{size / ours:,.0f}/s in {ours:.1f} s, embedding {engine.seconds:.1f} s of it",
            f"by hand {size / by_hand:,.0f}/s" if hand else "",
            f"{by_hand / ours:.2f}" if hand else "",
        )
        sampled = [tenants[number] for number in SAMPLED if number < len(tenants)]
        return Built(place, {tenant.tenant: tenant.texts for tenant in sampled}, f"{name}-hand")


async def load(memory: Memory, tenant: TenantTexts) -> float:
    """Store all of one tenant's memories, in batches of at most a thousand; the seconds that it took."""
    mine, begun = memory.bind(caller=Caller(tenant.tenant)), perf_counter()
    for offers in (tenant.episodes, tenant.facts, tenant.rules):
        for at in range(0, len(offers), BATCH):
            await store_many(mine, offers[at : at + BATCH])
    return perf_counter() - begun


async def store_many(memory: Memory, offers: Sequence[Offer]) -> None:
    """The batch verb."""
    verbs = {NewEpisode: memory.store_episodes, NewFact: memory.store_facts, NewRule: memory.store_rules}
    await verbs[type(offers[0])](offers)  # pyright: ignore[reportArgumentType]


def load_by_hand(hand: ByHand, tenant: TenantTexts) -> float:
    """The same batches by hand."""
    begun = perf_counter()
    for kind, offers in (("episode", tenant.episodes), ("fact", tenant.facts), ("rule", tenant.rules)):
        for at in range(0, len(offers), BATCH):
            hand.add(tenant.tenant, kind, [worded(offer) for offer in offers[at : at + BATCH]])
    return perf_counter() - begun


async def maintain(memory: Memory) -> None:
    """What the job `index_maintenance` does every hour."""
    await Administration(memory._env, memory.caller).reindex(only_outgrown=True)
