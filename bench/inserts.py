"""Durable inserts: one at a time, in batches, and by many writers at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import TypeVar

from bench.baseline import Plain, PlainPostgres, Statement, Transactions
from bench.corpus import Corpus
from bench.embedders import Constant
from bench.engines import Engine, Place
from bench.report import Report, pair_ratio, rate
from bench.stores import Stores
from tulving import Memory, NewEpisode, NewFact, get_embedding_engine, open_memory

ROUNDS = 12
SINGLE = 100
WRITERS = 32
SHARED = WRITERS * 10
BATCH = 1_000
BATCHES = 5

Offer = NewFact | NewEpisode
Call = Callable[[], Awaitable[object]]
T = TypeVar("T")


def calls(memory: Memory, offers: Sequence[Offer]) -> list[Call]:
    """One call of the verb an agent uses per offer, with its arguments, ready to be made."""
    facts = isinstance(offers[0], NewFact)
    return [partial(memory.store_fact if facts else memory.store_episode, **_given(offer)) for offer in offers]


async def store_many(memory: Memory, offers: Sequence[Offer]) -> None:
    """The batch verb."""
    verb = memory.store_facts if isinstance(offers[0], NewFact) else memory.store_episodes
    await verb(offers)  # pyright: ignore[reportArgumentType]


def _given(offer: Offer) -> dict[str, object]:
    return {name: value for name, value in asdict(offer).items() if value is not None}


async def run(stores: Stores, report: Report) -> None:
    engine = stores.engine
    report.section(f"{engine.name}: inserts, durable, vectors given ({engine.dimension} dimensions)")
    empty = await engine.fresh("empty")
    async with open_memory(empty, embedder=Constant(engine.dimension), background=False):
        pass
    count = (SINGLE + SHARED) * ROUNDS + BATCH * BATCHES
    await _measure(engine, empty, report, "facts", Corpus(11).facts(count))
    await _measure(engine, empty, report, "episodes", Corpus(12).episodes(count))


async def _measure(engine: Engine, empty: Place, report: Report, name: str, offers: Sequence[Offer]) -> None:
    embedder = Constant(engine.dimension)
    single = _parts(offers[: SINGLE * ROUNDS], SINGLE)
    shared = _parts(offers[SINGLE * ROUNDS : -BATCH * BATCHES], SHARED)
    batches = _parts(offers[-BATCH * BATCHES :], BATCH)
    ones, thousands = await _recorded(engine, empty, name, single, batches)
    ours, plain, many = [], [], []
    raw = await engine.plain(await engine.copy(empty, f"{name}-one-plain"))
    async with (
        open_memory(await engine.copy(empty, f"{name}-one"), embedder=embedder) as memory,
        open_memory(await engine.copy(empty, f"{name}-many"), embedder=embedder) as crowded,
    ):
        for some, statements, more in zip(single, _parts(ones, SINGLE), shared, strict=True):
            seconds = await _alternately(calls(memory, some), raw, statements)
            ours.append(seconds[0])
            plain.append(seconds[1])
            many.append(await _at_once(calls(crowded, more)))
    await raw.close()
    report.row(
        f"One at a time, {name}",
        rate(SINGLE, ours),
        f"{engine.by_hand}: {rate(SINGLE, plain)}",
        f"{(share := pair_ratio(plain, ours)):.2f}",
        ">= 0.5",
        share >= 0.5,
    )
    report.row(
        f"{WRITERS} writers at once, {name}",
        rate(SHARED, many),
        f"one writer: {rate(SINGLE, ours)}",
        f"{(gain := pair_ratio(ours, many) * SHARED / SINGLE):.1f} x",
        ">= 2 x",
        gain >= 2,
    )
    ours, plain = [], []
    raw = await engine.plain(await engine.copy(empty, f"{name}-batch-plain"))
    async with open_memory(await engine.copy(empty, f"{name}-batch"), embedder=embedder) as memory:
        for batch, statements in zip(batches, thousands, strict=True):
            seconds = await _alternately([partial(store_many, memory, batch)], raw, [statements])
            ours.append(seconds[0])
            plain.append(seconds[1])
    await raw.close()
    report.row(
        f"Batch of {BATCH:,}, {name}",
        rate(BATCH, ours),
        rate(BATCH, plain),
        f"{pair_ratio(plain, ours):.2f}",
        ">= 3,000/s",
        BATCH / sorted(ours)[len(ours) // 2] >= 3_000,
    )


async def _recorded(
    engine: Engine, empty: Place, name: str, single: Sequence[Sequence[Offer]], batches: Sequence[Sequence[Offer]]
) -> tuple[Transactions, Transactions]:
    """What the same offers make our writer execute, per transaction."""
    place = await engine.copy(empty, f"{name}-seen")
    async with engine.recorded(place, Constant(engine.dimension)) as (memory, transactions):
        for some in single:
            await _one_by_one(calls(memory, some))
        for batch in batches:
            await store_many(memory, batch)
    return transactions[: -len(batches)], transactions[-len(batches) :]


def _parts(values: Sequence[T], size: int) -> list[Sequence[T]]:
    return [values[at : at + size] for at in range(0, len(values), size)]


async def _one_by_one(stores: Sequence[Call]) -> float:
    begun = perf_counter()
    for store in stores:
        await store()
    return perf_counter() - begun


async def _at_once(stores: Sequence[Call]) -> float:
    """Tasks that each wait for their own answer before they store the next."""
    begun = perf_counter()
    await asyncio.gather(*(_one_by_one(stores[number::WRITERS]) for number in range(WRITERS)))
    return perf_counter() - begun


async def _alternately(
    stores: Sequence[Call], raw: Plain | PlainPostgres, transactions: Sequence[Sequence[Statement]]
) -> tuple[float, float]:
    """Ours and the raw work, call by call; the seconds of each."""
    ours = plain = 0.0
    for store, transaction in zip(stores, transactions, strict=True):
        begun = perf_counter()
        await store()
        between = perf_counter()
        await raw.replay(transaction)
        plain += perf_counter() - between
        ours += between - begun
    return ours, plain


async def run_minilm(stores: Stores, report: Report) -> None:
    """A batch with a real model: storing should cost little beside embedding."""
    engine = get_embedding_engine("minilm")
    report.section(f"{stores.engine.name}: batch with MiniLM")
    if problem := engine.unready():
        return report.note(f"MiniLM batch skipped: {problem}")
    offers = Corpus(13, plain=True).facts(BATCH)
    texts = [f"{offer.subject} {offer.predicate} {offer.content}" for offer in offers]
    engine.embed_batch(texts[:50])
    whole, alone = [], []
    async with open_memory(await stores.engine.fresh("minilm-batch"), embedder=engine) as memory:
        for at in range(0, BATCH, BATCH // 5):
            part = slice(at, at + BATCH // 5)
            begun = perf_counter()
            engine.embed_batch(texts[part])
            alone.append(perf_counter() - begun)
            begun = perf_counter()
            await memory.store_facts(offers[part])
            whole.append(perf_counter() - begun)
    report.row(
        f"{BATCH:,} facts with MiniLM, in batches of {BATCH // 5}",
        f"{BATCH / sum(whole):,.0f}/s in {sum(whole):.2f} s",
        f"embed_batch alone {sum(alone):.2f} s",
        f"{(share := pair_ratio(whole, alone)):.2f} x",
        "<= 1.2 x",
        share <= 1.2,
    )
