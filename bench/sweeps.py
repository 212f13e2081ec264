"""`python -m bench.sweeps [SIZE]`: the decay sweep of a large store of which one per cent is due, against a small one
that is all due; on both engines. The large one may take three times as long."""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.postgres_server import open_server
from tulving import NewFact, open_memory
from tulving.testing import ManualClock

DUE = 1_000
ROUNDS = 5
BATCH = 1_000


class Constant:
    """Vectors of the usual size that cost nothing: searching is not measured here."""

    light = True
    model, version, dimension = "constant", "1", 384

    def unready(self) -> None:
        return None

    def embed(self, text: str | None) -> list[float]:
        return [1.0] + [0.0] * 383

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


async def measure(url: str, size: int) -> float:
    """The median time of a sweep that lets DUE of so many facts fade; they are confirmed before the next one."""
    clock = ManualClock()
    async with open_memory(url, embedder=Constant(), clock=clock, background=False) as memory:
        every = size // DUE
        due = []
        for at in range(0, size, BATCH):
            offers = [
                NewFact(content=f"note {n}", permanence="standard" if n % every else "ephemeral")
                for n in range(at, at + BATCH)
            ]
            stored = await memory.store_facts(offers)
            due += [answer.id for answer, offer in zip(stored, offers, strict=True) if offer.permanence == "ephemeral"]
        times, swept = [], {}
        for _ in range(ROUNDS):
            as_of = clock.advance(days=17)
            begun = perf_counter()
            swept = await memory.run_decay_sweep(as_of=as_of)
            times.append(perf_counter() - begun)
            assert swept["facts_fading"] == swept["facts_checked"] == DUE, swept
            for id_ in due:
                await memory.confirm("fact", id_)
        assert await memory.run_decay_sweep(as_of=clock.now - timedelta(days=1)) == dict.fromkeys(swept, 0)
        return median(times)


async def run(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_server() as server:
        for engine in ("sqlite", "postgres"):
            times = []
            for facts in (DUE, size):
                url = str(Path(folder) / f"{facts}.db") if engine == "sqlite" else await server.create_database()
                times.append(await measure(url, facts))
            small, large = times
            print(
                f"{engine}: {DUE:,} due of {DUE:,} in {small * 1000:.0f} ms, of {size:,} in {large * 1000:.0f} ms,"
                f" {large / small:.2f} times as long",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
