"""`python -m bench.peers [--sizes 1000 10000 100000]`: LangGraph's stores and LanceDB on the same vectors and texts,
in turn with Tulving and with the job by hand. In an environment of its own: see bench/peers.md."""

import argparse
import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import lancedb  # pyright: ignore[reportMissingImports]
import pyarrow  # pyright: ignore[reportMissingImports]
from lancedb.index import FTS, BTree  # pyright: ignore[reportMissingImports]
from langgraph.store.base import PutOp  # pyright: ignore[reportMissingImports]
from langgraph.store.sqlite import SqliteStore  # pyright: ignore[reportMissingImports]
from langgraph.store.sqlite.aio import AsyncSqliteStore  # pyright: ignore[reportMissingImports]

from bench.by_hand import ByHand
from bench.corpus import TENANTS, Corpus, tenant_name
from bench.embedders import Topics
from bench.report import Timings, Watch, machine, milliseconds, pair_ratio
from bench.stores import EXACT, maintain, store_many
from tulving import Caller, Memory, NewEpisode, NewFact, open_memory

ROUNDS, SINGLE, WRITERS, SHARED, BATCH = 5, 50, 32, 160, 1_000
QUERIES, WARM_UP, ASKED = 60, 5, 10
DIMENSION = 384
PACKAGES = ("langgraph-checkpoint-sqlite", "lancedb", "sqlite-vec", "aiosqlite")


class Given:
    """Vectors made before and chosen by the text: for each store the same ones, at next to no cost."""

    model, version, dimension, light = "bench-given", "1", DIMENSION, True

    def __init__(self) -> None:
        self._vectors = Topics().embed_batch([str(number) for number in range(4096)])

    def unready(self) -> None:
        """It always can embed."""

    def embed(self, text: str | None) -> list[float]:
        return self._vectors[zlib.crc32((text or "").encode()) % 4096]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Peer:
    """A store of texts, and what is done with it."""

    modes: tuple[str, ...] = ("semantic", "hybrid")

    async def add(self, tenant: str, text: str) -> None:
        await self.add_many(tenant, [text])

    async def add_many(self, tenant: str, texts: Sequence[str]) -> None:
        raise NotImplementedError

    async def search(self, tenant: str, query: str, mode: str) -> Sequence[Any]:
        raise NotImplementedError

    async def count(self) -> int:
        raise NotImplementedError

    async def crowd(self, tenant: str, texts: Sequence[str]) -> None:
        """Writers that each wait for their own answer before they store the next."""

        async def write(mine: Sequence[str]) -> None:
            for text in mine:
                await self.add(tenant, text)

        await asyncio.gather(*(write(texts[number::WRITERS]) for number in range(WRITERS)))

    async def loaded(self) -> None:
        """Make the indexes that are not kept up to date by themselves."""


class Tulving(Peer):
    """Facts with a key of their own each, or episodes."""

    def __init__(self, memory: Memory, offer: type[NewFact] | type[NewEpisode]) -> None:
        self._memory, self._offer, self._numbers = memory, offer, count()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, embedder: Given, offer: type[NewFact] | type[NewEpisode]) -> AsyncIterator[Peer]:
        async with open_memory(path / "tulving.db", embedder=embedder, config=EXACT, background=False) as memory:
            yield cls(memory, offer)

    async def add(self, tenant: str, text: str) -> None:
        mine, fact = self._memory.bind(caller=Caller(tenant)), ("memory", f"property_{next(self._numbers)}", text)
        await (mine.store_fact(*fact) if self._offer is NewFact else mine.store_episode(text, "assistant"))

    async def add_many(self, tenant: str, texts: Sequence[str]) -> None:
        await store_many(self._memory.bind(caller=Caller(tenant)), [self._given(text) for text in texts])

    async def search(self, tenant: str, query: str, mode: str) -> Sequence[Any]:
        found = await self._memory.bind(caller=Caller(tenant)).search(query, mode=mode)  # pyright: ignore
        return found.hits

    async def count(self) -> int:
        table = "facts" if self._offer is NewFact else "episodes"
        [row] = await self._memory._read(lambda conn: conn.fetch_all(f"SELECT COUNT(*) AS number FROM {table}"))
        return row["number"]

    async def loaded(self) -> None:
        await maintain(self._memory)

    def _given(self, text: str) -> NewFact | NewEpisode:
        if self._offer is NewFact:
            return NewFact(subject="memory", predicate=f"property_{next(self._numbers)}", content=text)
        return NewEpisode(content=text, butler="assistant")


class Manual(Peer):
    """The job by hand; what 32 writers offer at once is one commit."""

    def __init__(self, hand: ByHand) -> None:
        self._hand = hand

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, embedder: Given) -> AsyncIterator[Peer]:
        hand = ByHand(path / "by-hand.db", embedder)
        yield cls(hand)
        hand.close()

    async def add_many(self, tenant: str, texts: Sequence[str]) -> None:
        self._hand.add(tenant, "fact", texts)

    async def crowd(self, tenant: str, texts: Sequence[str]) -> None:
        for at in range(0, len(texts), WRITERS):
            self._hand.add(tenant, "fact", texts[at : at + WRITERS])

    async def search(self, tenant: str, query: str, mode: str) -> Sequence[Any]:
        return self._hand.search(tenant, query, mode)

    async def count(self) -> int:
        return self._hand.count()[0]


def _puts(tenant: str, texts: Sequence[str]) -> list[Any]:
    return [PutOp((tenant,), str(uuid4()), {"text": text, "kind": "fact", "importance": 5.0}) for text in texts]


class LangGraph(Peer):
    """Each writer in a thread of its own."""

    modes = ("semantic",)

    def __init__(self, store: Any) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(WRITERS)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, embedder: Given) -> AsyncIterator[Peer]:
        index: Any = {"dims": DIMENSION, "embed": embedder.embed_batch, "text_fields": ["text"]}
        with SqliteStore.from_conn_string(str(path / "langgraph.db"), index=index) as store:
            store.setup()
            yield cls(store)

    async def add(self, tenant: str, text: str) -> None:
        self._put(tenant, text)

    async def add_many(self, tenant: str, texts: Sequence[str]) -> None:
        self._store.batch(_puts(tenant, texts))

    async def crowd(self, tenant: str, texts: Sequence[str]) -> None:
        def write(mine: Sequence[str]) -> None:
            for text in mine:
                self._put(tenant, text)

        await asyncio.to_thread(lambda: list(self._threads.map(write, (texts[at::WRITERS] for at in range(WRITERS)))))

    async def search(self, tenant: str, query: str, mode: str) -> Sequence[Any]:
        return self._store.search((tenant,), query=query, limit=10)

    async def count(self) -> int:
        [(rows,)] = self._store.conn.execute("SELECT COUNT(*) FROM store JOIN store_vectors USING (prefix, key)")
        return rows

    def _put(self, tenant: str, text: str) -> None:
        [put] = _puts(tenant, [text])
        self._store.put(put.namespace, put.key, put.value)


class LangGraphAsync(Peer):
    """What waits together is one batch."""

    modes = ("semantic",)

    def __init__(self, store: Any) -> None:
        self._store = store

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, embedder: Given) -> AsyncIterator[Peer]:
        async def embed(texts: Sequence[str]) -> list[list[float]]:
            return embedder.embed_batch(texts)

        index: Any = {"dims": DIMENSION, "embed": embed, "text_fields": ["text"]}
        async with AsyncSqliteStore.from_conn_string(str(path / "langgraph-async.db"), index=index) as store:
            await store.setup()
            yield cls(store)

    async def add(self, tenant: str, text: str) -> None:
        [put] = _puts(tenant, [text])
        await self._store.aput(put.namespace, put.key, put.value)

    async def add_many(self, tenant: str, texts: Sequence[str]) -> None:
        await self._store.abatch(_puts(tenant, texts))

    async def search(self, tenant: str, query: str, mode: str) -> Sequence[Any]:
        return await self._store.asearch((tenant,), query=query, limit=10)

    async def count(self) -> int:
        joined = "SELECT COUNT(*) FROM store JOIN store_vectors USING (prefix, key)"
        async with self._store.conn.execute(joined) as cursor:
            return (await cursor.fetchone())[0]


class Lance(Peer):
    """A table with an index of tenants and one of words; vectors are compared one by one, as in the others."""

    def __init__(self, table: Any, embedder: Given) -> None:
        self._table, self._embedder = table, embedder

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, embedder: Given) -> AsyncIterator[Peer]:
        texts = [(name, pyarrow.string()) for name in ("id", "tenant", "kind", "text")]
        schema = pyarrow.schema([*texts, ("vector", pyarrow.list_(pyarrow.float32(), DIMENSION))])
        connection = await lancedb.connect_async(path / "lance")
        table = await connection.create_table("memories", schema=schema)
        yield cls(table, embedder)
        table.close()

    async def add_many(self, tenant: str, texts: Sequence[str]) -> None:
        vectors = self._embedder.embed_batch(texts)
        await self._table.add(
            [
                {"id": str(uuid4()), "tenant": tenant, "kind": "fact", "text": text, "vector": vector}
                for text, vector in zip(texts, vectors, strict=True)
            ]
        )

    async def search(self, tenant: str, query: str, mode: str) -> Sequence[Any]:
        asked = self._table.vector_search(self._embedder.embed(query)).distance_type("cosine")
        if mode == "hybrid":
            asked = asked.nearest_to_text(query)
        columns = ["id", "kind", "text"]
        return await asked.where(f"tenant = '{tenant}'").limit(10).select(columns).to_list()

    async def count(self) -> int:
        return await self._table.count_rows()

    async def loaded(self) -> None:
        await self._table.create_index("tenant", config=BTree())
        await self._table.create_index("text", config=FTS())
        await self._table.optimize()


OPENED: dict[str, Callable[[Path, Given], Any]] = {
    "Tulving, facts": lambda path, embedder: Tulving.open(path, embedder, NewFact),
    "Tulving, episodes": lambda path, embedder: Tulving.open(path, embedder, NewEpisode),
    "by hand": Manual.open,
    "LangGraph SqliteStore": LangGraph.open,
    "LangGraph AsyncSqliteStore": LangGraphAsync.open,
    "LanceDB": Lance.open,
}
OURS = "Tulving, facts"
Figures = dict[str, Timings]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[dict[str, Peer]]:
    """Each in a new folder of its own."""
    embedder, peers = Given(), {}
    async with AsyncExitStack() as stack:
        for number, (name, open_) in enumerate(OPENED.items()):
            path = folder / str(number)
            path.mkdir(parents=True)
            peers[name] = await stack.enter_async_context(open_(path, embedder))
        yield peers


async def check(peers: dict[str, Peer], expected: int) -> None:
    for name, peer in peers.items():
        if (rows := await peer.count()) != expected:
            raise RuntimeError(f"{name} has {rows} rows instead of {expected}")


async def writes(folder: Path) -> None:
    tenant, corpus = tenant_name(0), Corpus(41)
    figures: dict[str, Figures] = {
        what: {name: Timings() for name in OPENED}
        for what in ("one writer", f"{WRITERS} writers", f"batch of {BATCH:,}")
    }
    one, crowd, batch = figures.values()
    async with opened(folder) as peers:
        for number in range(ROUNDS + 1):  # the first round is not counted
            texts = corpus.texts(SINGLE + SHARED + BATCH)
            for name, peer in _turned(peers, number):
                with Watch(one[name] if number else Timings()):
                    for text in texts[:SINGLE]:
                        await peer.add(tenant, text)
            for name, peer in _turned(peers, number):
                with Watch(crowd[name] if number else Timings()):
                    await peer.crowd(tenant, texts[SINGLE : SINGLE + SHARED])
            for name, peer in _turned(peers, number):
                with Watch(batch[name] if number else Timings()):
                    await peer.add_many(tenant, texts[SINGLE + SHARED :])
        await check(peers, (ROUNDS + 1) * (SINGLE + SHARED + BATCH))
    for (what, each), rows in zip(figures.items(), (SINGLE, SHARED, BATCH), strict=True):
        tell(f"{what}, rows/s", each, lambda timings, rows=rows: f"{rows / timings.p50:,.0f}")


async def searches(folder: Path, size: int) -> None:
    corpus, texts = Corpus(42), {}
    figures = {mode: {name: Timings() for name in OPENED} for mode in ("semantic", "hybrid")}
    loading = {name: Timings() for name in OPENED}
    async with opened(folder) as peers:
        for number in range(TENANTS):
            tenant = tenant_name(number)
            texts[tenant] = corpus.texts(size // TENANTS)
            for name, peer in _turned(peers, number):
                with Watch(loading[name]):
                    for at in range(0, len(texts[tenant]), BATCH):
                        await peer.add_many(tenant, texts[tenant][at : at + BATCH])
        await check(peers, size)
        for peer in peers.values():
            await peer.loaded()
        for number in range(WARM_UP + QUERIES):
            tenant = tenant_name(number % ASKED * (TENANTS // ASKED))
            query = corpus.query(texts[tenant])
            for mode, each in figures.items():
                for name, peer in _turned(peers, number):
                    if mode in peer.modes:
                        with Watch(each[name] if number >= WARM_UP else Timings()):
                            found = await peer.search(tenant, query, mode)
                        if mode == "semantic" and len(found) != min(10, size // TENANTS):
                            raise RuntimeError(f"{name} found {len(found)} of {tenant}")
    tell(f"load {size:,}, a batch for each tenant, rows/s", loading, lambda timings: f"{size / sum(timings.wall):,.0f}")
    for mode, each in figures.items():
        tell(f"{mode}, 1 % of {size:,}", each, lambda timings: milliseconds(timings.p50))


def _turned(peers: dict[str, Peer], number: int) -> list[tuple[str, Peer]]:
    """Another one begins each time."""
    items, at = list(peers.items()), number % len(peers)
    return items[at:] + items[:at]


def tell(what: str, figures: Figures, shown: Callable[[Timings], str]) -> None:
    """A row: each figure, and in brackets how many times as fast as it Tulving is with facts."""
    cells = []
    for name, timings in figures.items():
        ratio = f" ({pair_ratio(timings.wall, figures[OURS].wall):.2f})" if timings.wall and name != OURS else ""
        cells.append(f"{shown(timings)}{ratio}" if timings.wall else "none")
    print(f"| {what} | {' | '.join(cells)} |", flush=True)


async def run(sizes: Sequence[int]) -> None:
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    print(f"{machine()} {', '.join(f'{name} {version(name)}' for name in PACKAGES)}.\n")
    print(f"| | {' | '.join(OPENED)} |\n|{'---|' * (len(OPENED) + 1)}")
    parts: list[Callable[[Path], Awaitable[None]]] = [writes]
    parts += [lambda folder, size=size: searches(folder, size) for size in sizes]
    for part in parts:
        with TemporaryDirectory(dir=results, prefix="peers-") as folder:
            await part(Path(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000], help="memories that are searched"
    )
    asyncio.run(run(parser.parse_args().sizes))
