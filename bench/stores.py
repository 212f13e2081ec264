"""The stores that are searched: built through the batch verbs, once per run."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from bench.corpus import TENANTS, Corpus, TenantTexts, tenant_name
from bench.embedders import Warm
from bench.engines import Engine, Place
from bench.report import Report
from tulving import Caller, Memory, get_embedding_engine, open_memory

SAMPLED = range(0, TENANTS, 10)
BATCH = 1_000


@dataclass(slots=True)
class Built:
    """A store, and the texts of the tenants that will be asked about."""

    place: Place
    texts: dict[str, list[str]]


class Stores:
    """Makes an engine's stores when they are first asked for."""

    def __init__(self, engine: Engine, report: Report) -> None:
        self.engine = engine
        self._report = report
        self._built: dict[str, Built] = {}

    async def of_size(self, size: int) -> Built:
        """A hundred tenants with as many memories each, and hashed vectors."""
        return await self._once(
            f"search-{size}",
            "hashing",
            lambda corpus: [corpus.tenant(tenant_name(number), size // TENANTS) for number in range(TENANTS)],
            size,
        )

    async def of_one(self, embedder: str, size: int = 1_000) -> Built:
        """One tenant only; for a model that knows English, with English words."""
        return await self._once(
            f"one-{embedder}-{size}",
            embedder,
            lambda corpus: [corpus.tenant(tenant_name(0), size)],
            size,
            plain=embedder == "minilm",
        )

    async def _once(
        self,
        name: str,
        embedder: str,
        make: Callable[[Corpus], list[TenantTexts]],
        size: int,
        plain: bool = False,
    ) -> Built:
        if name not in self._built:
            tenants = make(Corpus(plain=plain))
            place = await self.engine.fresh(name)
            engine = Warm(get_embedding_engine(embedder))
            begun = perf_counter()
            async with open_memory(place, embedder=engine) as memory:
                for tenant in tenants:
                    await load(memory, tenant)
            seconds = perf_counter() - begun
            self._report.row(
                f"Load {size:,} memories, {len(tenants)} tenant{'s' if len(tenants) > 1 else ''}, {embedder}",
                f"{size / seconds:,.0f}/s in {seconds:.1f} s",
                f"embedding alone {engine.seconds:.1f} s",
                f"{seconds / engine.seconds:.2f} x",
            )
            sampled = [tenants[number] for number in SAMPLED if number < len(tenants)]
            self._built[name] = Built(place, {tenant.tenant: tenant.texts for tenant in sampled})
        return self._built[name]


async def load(memory: Memory, tenant: TenantTexts) -> None:
    """Store all of one tenant's memories, in batches of at most a thousand."""
    mine = memory.bind(caller=Caller(tenant.tenant))
    for verb, offers in (
        (mine.store_episodes, tenant.episodes),
        (mine.store_facts, tenant.facts),
        (mine.store_rules, tenant.rules),
    ):
        for at in range(0, len(offers), BATCH):
            await verb(offers[at : at + BATCH])  # pyright: ignore[reportArgumentType]
