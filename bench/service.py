"""`python -m bench.service [--seconds N]`: the service under load, compared with the same calls through the library.

`tulving serve` runs in one process and 64 clients in another. Each client sends its next request when the last one was
answered: nine of ten recall, one stores an episode. Then 64 tasks make the same calls through the library, on a copy
of the store. No response may have a status of 500 or more.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from time import perf_counter, sleep
from typing import Any

import httpx2
import psutil

from bench.corpus import Corpus, tenant_name
from bench.engines import Place, Sqlite, postgres
from bench.report import Report, Timings, milliseconds
from bench.stores import Stores
from tulving import get_embedding_engine, open_memory
from tulving.bootstrap import new_secret, open_administration

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
CLIENTS = 64
STORED = 0.1
"""The share of requests that store something."""
SIZE = 5_000
WARM_UP = 30.0
"""Seconds after which memory must not grow much more. In runs of less than twice this time it is only reported."""
MOST_GROWTH = 1.5
Call = Callable[[str, str], Awaitable[int]]
"""Recalls or stores a text, and returns the status."""


@dataclass(slots=True)
class Load:
    """The result of a load: durations by verb, and the number of responses with each status."""

    times: dict[str, Timings] = field(default_factory=lambda: {"recall": Timings(), "store": Timings()})
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu: float = 0.0
    """Processor seconds of the process that handled the calls."""

    @property
    def count(self) -> int:
        return self.statuses.total()

    def out(self) -> str:
        times = {verb: timings.wall for verb, timings in self.times.items()}
        return json.dumps([times, list(self.statuses.items()), self.seconds, self.cpu])

    @classmethod
    def read(cls, text: str) -> "Load":
        times, statuses, seconds, cpu = json.loads(text)
        return cls({verb: Timings(wall) for verb, wall in times.items()}, Counter(dict(statuses)), seconds, cpu)


# -- in separate processes -------------------------------------------------------------------------------------


async def clients(texts: Sequence[str], seconds: float, connect: Callable[[], Call]) -> Load:
    """Run `CLIENTS` concurrent clients."""
    load, corpus = Load(), Corpus(1_000)
    end = perf_counter() + seconds

    async def client(number: int) -> None:
        call, chance = connect(), Random(number)
        while perf_counter() < end:
            verb = "store" if chance.random() < STORED else "recall"
            text = corpus.text() if verb == "store" else corpus.query(texts)
            begun = perf_counter()
            status = await call(verb, text)
            load.times[verb].wall.append(perf_counter() - begun)
            load.statuses[status] += 1

    begun = perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    load.seconds = perf_counter() - begun
    return load


async def over_http(url: str, secret: str, texts: Sequence[str], seconds: float) -> Load:
    """Load on a service, with a connection for each client."""
    async with AsyncExitStack() as opened:
        headers = {"authorization": f"Bearer {secret}"}
        made = [httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) for _ in range(CLIENTS)]
        for each in made:
            await opened.enter_async_context(each)

        def connect() -> Call:
            web = made.pop()

            async def call(verb: str, text: str) -> int:
                if verb == "recall":
                    answer = await web.post("/v1/recall", json={"topic": text})
                else:
                    answer = await web.post("/v1/episodes", json={"content": text, "butler": "assistant"})
                return answer.status_code

            return call

        return await clients(texts, seconds, connect)


async def by_library(place: Place, embedder: str, texts: Sequence[str], seconds: float) -> Load:
    """The same calls through the library."""
    async with open_memory(place, embedder=embedder, tenant=tenant_name(0)) as memory:

        async def call(verb: str, text: str) -> int:
            if verb == "recall":
                await memory.recall(text)
            else:
                await memory.store_episode(text, butler="assistant")
            return 200

        before = _cpu(psutil.Process())
        load = await clients(texts, seconds, lambda: call)
        load.cpu = _cpu(psutil.Process()) - before
        return load


# -- the measurement -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watched:
    """The result of a load on a server."""

    load: Load
    memory: list[float]
    """The memory of the server in megabytes, each second."""


async def run(stores: Stores, report: Report, embedder: str, seconds: float, size: int) -> None:
    if problem := get_embedding_engine(embedder).unready():
        return report.note(f"the service with {embedder} skipped: {problem}")
    name = stores.engine.name
    built = await stores.of_one(embedder, size)
    [texts] = built.texts.values()
    report.section(f"{name}, {embedder}: {CLIENTS} clients for {seconds:g} s, 90 % recall, 10 % store; {size:,} stored")
    copies = [await stores.engine.copy(built.place, f"{kind}-{embedder}") for kind in ("service", "library")]
    secret = new_secret()
    async with open_administration(copies[0], embedder=embedder, tenant=tenant_name(0)) as administration:
        await administration.create_token(secret, name="bench")
    served = await asyncio.to_thread(serve, copies[0], embedder, secret, texts, seconds)
    library = await asyncio.to_thread(_alone, copies[1], embedder, texts, seconds)
    for verb in ("recall", "store"):
        ours, theirs = served.load.times[verb], library.times[verb]
        report.row(
            f"{verb}: p50, p99",
            f"{milliseconds(ours.p50)}, {milliseconds(ours.quantile(0.99))}",
            f"library {milliseconds(theirs.p50)}, {milliseconds(theirs.quantile(0.99))}",
            f"{ours.p50 / theirs.p50:.2f} x",
        )
    rates = [load.count / load.seconds for load in (served.load, library)]
    report.row("requests", f"{rates[0]:,.0f}/s", f"library {rates[1]:,.0f}/s", f"{rates[0] / rates[1]:.2f}")
    cpu = [load.cpu / load.count for load in (served.load, library)]
    report.row(
        "processor time of a call, without the clients'",
        milliseconds(cpu[0]),
        f"library {milliseconds(cpu[1])}",
        f"{cpu[0] / cpu[1]:.2f} x",
    )
    failed = sum(count for status, count in served.load.statuses.items() if status >= 500)
    others = {status: count for status, count in served.load.statuses.items() if status not in (200, 201)}
    report.row(
        f"statuses of {served.load.count:,} requests",
        f"{failed} of 500 or more, {others or 'no others than 200 and 201'}",
        target="none of 500 or more",
        met=not failed,
    )
    least, last, most = served.memory[0], served.memory[-1], max(served.memory)
    if seconds < 2 * WARM_UP:
        return report.row("memory of the server at first, at the end", f"{least:.0f}, {last:.0f} MB")
    warm = served.memory[int(WARM_UP)]
    report.row(
        f"memory of the server at first, after {WARM_UP:g} s, at the end, at most",
        f"{least:.0f}, {warm:.0f}, {last:.0f}, {most:.0f} MB",
        target=f"at the end <= {MOST_GROWTH:g} x that after {WARM_UP:g} s",
        met=last <= warm * MOST_GROWTH,
    )


def serve(place: Place, embedder: str, secret: str, texts: Sequence[str], seconds: float) -> Watched:
    """Start a service, put it under load, and measure it."""
    settings = {
        "TULVING_URL": place,
        "TULVING_EMBEDDER": embedder,
        "TULVING_TENANT": tenant_name(0),
        "TULVING_HTTP__MAX_CONNECTIONS_PER_ADDRESS": "none",
    }
    command = [sys.executable, "-m", "tulving", "serve", "127.0.0.1:0"]
    with tempfile.NamedTemporaryFile("w+") as said:
        server = subprocess.Popen(command, stderr=said, env={**os.environ, **settings}, cwd=ROOT)
        try:
            url = _address(server, Path(said.name))
            return _watched(psutil.Process(server.pid), {"url": url, "secret": secret}, texts, seconds)
        finally:
            server.terminate()
            server.wait()


def _address(server: subprocess.Popen[bytes], said: Path) -> str:
    while server.poll() is None:
        if found := re.search(r"Tulving serves (http://\S+)/mcp", said.read_text()):
            return found[1]
        sleep(0.05)
    raise RuntimeError(f"the service ended: {said.read_text()}")


def _watched(server: psutil.Process, at: dict[str, str], texts: Sequence[str], seconds: float) -> Watched:
    before, memory = _cpu(server), list[float]()
    with _sent({**at, "texts": texts, "seconds": seconds}) as (clients, answer):
        while clients.poll() is None:
            memory.append(server.memory_info().rss / 1e6)
            sleep(1)
        load = Load.read(answer.read_text())
    load.cpu = _cpu(server) - before
    return Watched(load, memory)


def _alone(place: Place, embedder: str, texts: Sequence[str], seconds: float) -> Load:
    """The calls through the library, in a separate process."""
    with _sent({"place": place, "embedder": embedder, "texts": texts, "seconds": seconds}) as (process, answer):
        if process.wait():
            raise RuntimeError("the calls through the library failed")
        return Load.read(answer.read_text())


@contextmanager
def _sent(job: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that makes the calls, and the file to which it writes the result."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "job.json", Path(folder) / "load.json"
        given.write_text(json.dumps(job))
        command = [sys.executable, "-m", "bench.service", "--job", str(given), "--answer", str(answer)]
        process = subprocess.Popen(command, cwd=ROOT)
        try:
            yield process, answer
        finally:
            process.kill()
            process.wait()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def measure(chosen: argparse.Namespace, report: Report) -> None:
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="stores-") as folder:
        asked = chosen.seconds, chosen.size
        if "sqlite" in chosen.engines:
            files = Stores(Sqlite(Path(folder)), report)
            for embedder in chosen.embedders:
                await run(files, report, embedder, *asked)
        if "postgres" in chosen.engines:
            async with postgres() as server:
                databases = Stores(server, report)
                for embedder in chosen.embedders:
                    await run(databases, report, embedder, *asked)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="duration of each load [default: 300]")
    parser.add_argument("--size", type=int, default=SIZE, help=f"number of memories in the store [default: {SIZE}]")
    parser.add_argument("--engine", action="append", choices=("sqlite", "postgres"), dest="engines")
    parser.add_argument("--embedder", action="append", choices=("hashing", "minilm"), dest="embedders")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.job:
        job = json.loads(chosen.job.read_text())
        work = over_http if "url" in job else by_library
        chosen.answer.write_text(asyncio.run(work(**job)).out())
        return
    chosen.engines, chosen.embedders = chosen.engines or ("sqlite", "postgres"), chosen.embedders or ("hashing",)
    report = Report()
    asyncio.run(measure(chosen, report))
    path = RESULTS / f"service-{datetime.now():%Y%m%d-%H%M%S}.md"
    path.write_text(report.markdown())
    print(f"\n{report.markdown()}\n{path}")


if __name__ == "__main__":
    main()
