"""Durable inserts: one at a time, in batches, and by many writers at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import TypeVar

from bench.baseline import Plain, Statement, record
from bench.corpus import Corpus
from bench.embedders import Constant
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
    report.section("Inserts, durable, vectors given (256 dimensions)")
    async with open_memory(stores.fresh("empty"), embedder=Constant()):
        pass
    count = (SINGLE + SHARED) * ROUNDS + BATCH * BATCHES
    await _measure(stores, report, "facts", Corpus(11).facts(count))
    await _measure(stores, report, "episodes", Corpus(12).episodes(count))


async def _measure(stores: Stores, report: Report, name: str, offers: Sequence[Offer]) -> None:
    empty = stores.fresh("empty")
    single = _parts(offers[: SINGLE * ROUNDS], SINGLE)
    shared = _parts(offers[SINGLE * ROUNDS : -BATCH * BATCHES], SHARED)
    batches = _parts(offers[-BATCH * BATCHES :], BATCH)
    ones, thousands = await _recorded(stores, name, single, batches)
    ours, plain, many = [], [], []
    raw = Plain(stores.copy(empty, f"{name}-one-plain"))
    async with (
        open_memory(stores.copy(empty, f"{name}-one"), embedder=Constant()) as memory,
        open_memory(stores.copy(empty, f"{name}-many"), embedder=Constant()) as crowded,
    ):
        for some, statements, more in zip(single, _parts(ones, SINGLE), shared, strict=True):
            ours.append(await _one_by_one(calls(memory, some)))
            plain.append(_replay(raw, statements))
            many.append(await _at_once(calls(crowded, more)))
    raw.close()
    report.row(
        f"One at a time, {name}",
        rate(SINGLE, ours),
        rate(SINGLE, plain),
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
    raw = Plain(stores.copy(empty, f"{name}-batch-plain"))
    async with open_memory(stores.copy(empty, f"{name}-batch"), embedder=Constant()) as memory:
        for batch, statements in zip(batches, thousands, strict=True):
            begun = perf_counter()
            await store_many(memory, batch)
            ours.append(perf_counter() - begun)
            plain.append(_replay(raw, [statements]))
    raw.close()
    report.row(
        f"Batch of {BATCH:,}, {name}",
        rate(BATCH, ours),
        rate(BATCH, plain),
        f"{pair_ratio(plain, ours):.2f}",
        ">= 3,000/s",
        BATCH / sorted(ours)[len(ours) // 2] >= 3_000,
    )


async def _recorded(
    stores: Stores, name: str, single: Sequence[Sequence[Offer]], batches: Sequence[Sequence[Offer]]
) -> tuple[list[list[Statement]], list[list[Statement]]]:
    """What the same offers make our writer execute, per transaction."""
    async with open_memory(stores.copy(stores.fresh("empty"), f"{name}-seen"), embedder=Constant()) as memory:
        transactions = record(memory)
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


def _replay(raw: Plain, transactions: Sequence[Sequence[Statement]]) -> float:
    begun = perf_counter()
    for transaction in transactions:
        raw.replay(transaction)
    return perf_counter() - begun


async def run_minilm(stores: Stores, report: Report) -> None:
    """A batch with a real model: storing should cost little beside embedding."""
    engine = get_embedding_engine("minilm")
    report.section("Batch with MiniLM")
    if problem := engine.unready():
        return report.note(f"MiniLM batch skipped: {problem}")
    offers = Corpus(13, plain=True).facts(BATCH)
    texts = [f"{offer.subject} {offer.predicate} {offer.content}" for offer in offers]
    engine.embed_batch(texts[:50])
    whole, alone = [], []
    async with open_memory(stores.fresh("minilm-batch"), embedder=engine) as memory:
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
