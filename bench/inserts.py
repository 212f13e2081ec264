"""Durable inserts: one at a time, in batches, and by many writers at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from bench.baseline import Plain, PlainPostgres, Statement, Transactions
from bench.by_hand import ByHand
from bench.corpus import Corpus, Offer, tenant_name, worded
from bench.embedders import Constant
from bench.engines import Engine, Place, Sqlite
from bench.report import Report, Timings, Watch, pair_ratio, rate
from bench.stores import Stores, store_many
from tulving import Memory, NewFact, get_embedding_engine, open_memory

ROUNDS = 12
SINGLE = 100
WRITERS = 32
SHARED = WRITERS * 10
BATCH = 1_000
BATCHES = 6
LOGGED = 20
LENGTHS = (20, 600)
"""The fewest and the most characters of texts of mixed length."""

Call = Callable[[], Awaitable[object]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Goals:
    """The least shares of the statements replayed, or rate, and how much more many writers store than one."""

    one: float
    writers: float
    batch: float
    batch_rate: int | None = None
    batch_by_hand: float = 0.3


GOALS = {"SQLite": Goals(0.75, 5, 0.6), "PostgreSQL": Goals(0.5, 2, 0.9, 3_000)}


@dataclass(slots=True)
class Contest:
    """Stores of their own for ours, for our statements replayed, and for the job by hand, if it is written."""

    memory: Memory
    raw: Plain | PlainPostgres
    hand: ByHand | None
    ours: Timings = field(default_factory=Timings)
    replayed: Timings = field(default_factory=Timings)
    by_hand: Timings = field(default_factory=Timings)

    async def round(
        self, ours: Sequence[Call], transactions: Sequence[Sequence[Statement]], offers: Sequence[Sequence[Offer]]
    ) -> None:
        """They take turns call by call, and who begins changes."""
        replayed = [partial(self.raw.replay, each) for each in transactions]
        contestants = [(self.ours, ours), (self.replayed, replayed)]
        if self.hand:
            contestants.append((self.by_hand, [partial(add, self.hand, each) for each in offers]))
        rounds = [Timings() for _ in contestants]
        for turn in range(len(ours)):
            for number in range(len(contestants)):
                at = (turn + number) % len(contestants)
                with Watch(rounds[at]):
                    await contestants[at][1][turn]()
        for (total, _), calls in zip(contestants, rounds, strict=True):
            total.add(calls)


@asynccontextmanager
async def contest(engine: Engine, empty: Place, name: str) -> AsyncIterator[Contest]:
    """In the end all must have stored the same."""
    place = await engine.copy(empty, name)
    raw = await engine.plain(await engine.copy(empty, f"{name}-plain"))
    hand = engine.by_hand(f"{name}-hand", Constant())
    async with open_memory(place, embedder=Constant(), background=False) as memory:
        yield Contest(memory, raw, hand)
    ours = await engine.plain(place)
    counts, replayed = await ours.counts(), await raw.counts()
    stored = counts["episodes"] + counts["facts"]
    if counts != replayed or (hand and hand.count() != (stored, stored)):
        raise RuntimeError(f"not the same rows: {counts}, replayed {replayed}, by hand {hand and hand.count()}")
    await ours.close()
    await raw.close()
    if hand:
        hand.close()


def calls(memory: Memory, offers: Sequence[Offer]) -> list[Call]:
    """One call of the verb an agent uses per offer, with its arguments, ready to be made."""
    facts = isinstance(offers[0], NewFact)
    return [partial(memory.store_fact if facts else memory.store_episode, **_given(offer)) for offer in offers]


def _given(offer: Offer) -> dict[str, Any]:
    return {name: value for name, value in asdict(offer).items() if value is not None}


async def add(hand: ByHand, offers: Sequence[Offer]) -> None:
    """The same by hand, in one commit."""
    hand.add(tenant_name(0), "fact", [worded(offer) for offer in offers])


async def run(stores: Stores, report: Report) -> None:
    engine = stores.engine
    report.section(f"{engine.name}: inserts, durable, vectors given (384 dimensions)")
    empty = await engine.fresh("empty")
    async with open_memory(empty, embedder=Constant(), background=False):
        pass
    count = (SINGLE + SHARED) * ROUNDS + BATCH * BATCHES
    for name, offers in (("facts", Corpus(11).facts(count)), ("episodes", Corpus(12).episodes(count))):
        single = _parts(offers[: SINGLE * ROUNDS], SINGLE)
        shared = _parts(offers[SINGLE * ROUNDS : -BATCH * BATCHES], SHARED)
        await _one_at_a_time(engine, empty, report, name, single, shared)
        batches = _parts(offers[-BATCH * BATCHES :], BATCH)
        await _in_batches(engine, empty, report, name, batches)
        if isinstance(engine, Sqlite):
            await _logged(engine, empty, report, name, batches[0][: LOGGED * 10])


async def _one_at_a_time(
    engine: Engine,
    empty: Place,
    report: Report,
    name: str,
    single: Sequence[Sequence[Offer]],
    shared: Sequence[Sequence[Offer]],
) -> None:
    recorded = await _recorded(
        engine, empty, f"{name}-one", lambda memory: [call for some in single for call in calls(memory, some)]
    )
    crowd, hand = await engine.copy(empty, f"{name}-many"), engine.by_hand(f"{name}-many-hand", Constant())
    crowded, groups = Timings(), Timings()
    async with (
        contest(engine, empty, f"{name}-one") as rivals,
        open_memory(crowd, embedder=Constant(), background=False) as memory,
    ):
        for some, transactions, more in zip(single, _parts(recorded, SINGLE), shared, strict=True):
            await rivals.round(calls(rivals.memory, some), transactions, [[offer] for offer in some])
            waiting = calls(memory, more)
            with Watch(crowded):
                await asyncio.gather(*(_one_by_one(waiting[number::WRITERS]) for number in range(WRITERS)))
            if hand:
                with Watch(groups):
                    await _one_by_one([partial(add, hand, group) for group in _parts(more, WRITERS)])
    goals = GOALS[engine.name]
    _tell(report, engine, f"One at a time, {name}", rivals, SINGLE, goals.one)
    what, gain = f"{WRITERS} writers at once, {name}", pair_ratio(rivals.ours.wall, crowded.wall) * SHARED / SINGLE
    speed, baseline = rate(SHARED, crowded), f"one writer: {rate(SINGLE, rivals.ours)}"
    report.row(what, speed, baseline, f"{gain:.1f} x", f">= {goals.writers} x", gain >= goals.writers)
    if hand:
        baseline = f"by hand, {WRITERS} rows a commit: {rate(SHARED, groups)}"
        report.row(what, speed, baseline, _share(crowded, groups))
        hand.close()


async def _in_batches(
    engine: Engine, empty: Place, report: Report, name: str, batches: Sequence[Sequence[Offer]]
) -> None:
    recorded = await _recorded(
        engine, empty, f"{name}-batch", lambda memory: [partial(store_many, memory, batch) for batch in batches]
    )
    async with contest(engine, empty, f"{name}-batch") as rivals:
        for batch, transaction in zip(batches, recorded, strict=True):
            await rivals.round([partial(store_many, rivals.memory, batch)], [transaction], [batch])
    goals, what = GOALS[engine.name], f"Batch of {BATCH:,}, {name}"
    _tell(report, engine, what, rivals, BATCH, goals.batch, goals.batch_rate, goals.batch_by_hand)


def _tell(
    report: Report,
    engine: Engine,
    what: str,
    rivals: Contest,
    count: int,
    goal: float,
    or_rate: int | None = None,
    by_hand: float | None = None,
) -> None:
    """Ours beside the statements replayed, and beside the job by hand."""
    speed, share = rate(count, rivals.ours), pair_ratio(rivals.replayed.wall, rivals.ours.wall)
    report.row(
        what,
        speed,
        f"{engine.replayed}: {rate(count, rivals.replayed)}",
        _share(rivals.ours, rivals.replayed),
        f">= {goal}" + (f" or {or_rate:,}/s" if or_rate else ""),
        share >= goal or (or_rate is not None and count / rivals.ours.p50 >= or_rate),
    )
    if rivals.hand:
        report.row(
            what,
            speed,
            f"by hand: {rate(count, rivals.by_hand)}",
            _share(rivals.ours, rivals.by_hand),
            f">= {by_hand}" if by_hand else "",
            pair_ratio(rivals.by_hand.wall, rivals.ours.wall) >= by_hand if by_hand else None,
        )


def _share(ours: Timings, baseline: Timings) -> str:
    """How much of the baseline's speed is left, by the clock and by processor time."""
    return f"{pair_ratio(baseline.wall, ours.wall):.2f} (CPU {pair_ratio(baseline.cpu, ours.cpu):.2f})"


async def _logged(engine: Sqlite, empty: Place, report: Report, name: str, offers: Sequence[Offer]) -> None:
    """What one insert writes to the log of a file that is not empty."""
    place, other = await engine.copy(empty, f"{name}-logged"), f"{name}-logged-hand"
    logs, before, sizes = [Path(f"{file}-wal") for file in (place, await engine.fresh(other))], [0, 0], [0, 0]
    for some in (offers[LOGGED:], offers[:LOGGED]):  # between them the stores are closed, which empties their logs
        async with open_memory(place, embedder=Constant(), background=False) as memory:
            hand = engine.by_hand(other, Constant())
            before = [log.stat().st_size if log.exists() else 0 for log in logs]
            for call, offer in zip(calls(memory, some), some, strict=True):
                await call()
                await add(hand, [offer])
            sizes = [log.stat().st_size - earlier for log, earlier in zip(logs, before, strict=True)]
            hand.close()
    ours, by_hand = (f"{size / LOGGED / 1024:.0f} KiB" for size in sizes)
    report.row(f"Log of one insert, {name}", ours, f"by hand: {by_hand}", f"{sizes[0] / sizes[1]:.1f} x")


async def _recorded(engine: Engine, empty: Place, name: str, made: Callable[[Memory], Sequence[Call]]) -> Transactions:
    """What these calls make our writer execute in an empty store, per transaction."""
    place = await engine.copy(empty, f"{name}-seen")
    async with engine.recorded(place, Constant()) as (memory, transactions):
        await _one_by_one(made(memory))
    return transactions


def _parts(values: Sequence[T], size: int) -> list[Sequence[T]]:
    return [values[at : at + size] for at in range(0, len(values), size)]


async def _one_by_one(stores: Sequence[Call]) -> None:
    """Each waits for its own answer before the next is stored."""
    for store in stores:
        await store()


async def run_minilm(stores: Stores, report: Report) -> None:
    """A batch with a real model: storing should cost little beside embedding."""
    engine = get_embedding_engine("minilm")
    report.section(f"{stores.engine.name}: batch with MiniLM")
    if problem := engine.unready():
        return report.note(f"MiniLM batch skipped: {problem}")
    offers = Corpus(13, plain=True).facts(BATCH)
    engine.embed_batch([worded(offer) for offer in offers[:50]])
    whole, alone = Timings(), Timings()
    async with open_memory(await stores.engine.fresh("minilm-batch"), embedder=engine, background=False) as memory:
        for part in _parts(offers, BATCH // 5):
            texts = [worded(offer) for offer in part]
            with Watch(alone):
                engine.embed_batch(texts)
            with Watch(whole):
                await memory.store_facts(part)
    report.row(
        f"{BATCH:,} facts with MiniLM, in batches of {BATCH // 5}",
        rate(BATCH // 5, whole),
        f"embed_batch alone {rate(BATCH // 5, alone)}",
        f"{(share := pair_ratio(whole.wall, alone.wall)):.2f} x",
        "<= 1.2 x",
        share <= 1.2,
    )


def run_threads(report: Report) -> None:
    """The model alone, with texts of mixed length: a batch beside two threads by hand, of which each has a half."""
    engine = get_embedding_engine("minilm")
    report.section("MiniLM alone")
    if problem := engine.unready():
        return report.note(f"MiniLM skipped: {problem}")
    random, corpus = Random(19), Corpus(19, plain=True)
    texts = [" ".join(corpus.text().split() * 5)[: random.randint(*LENGTHS)] for _ in range(BATCH // 5)]
    ours, by_hand = Timings(), Timings()
    with ThreadPoolExecutor(2) as threads:
        for _ in range(5):
            with Watch(ours):
                engine.embed_batch(texts)
            with Watch(by_hand):
                list(threads.map(engine.embed_batch, (texts[::2], texts[1::2])))
    report.row(
        f"embed_batch of {len(texts)} texts of {LENGTHS[0]} to {LENGTHS[1]} characters",
        rate(len(texts), ours),
        f"a half in each of two threads: {rate(len(texts), by_hand)}",
        _share(ours, by_hand),
    )
