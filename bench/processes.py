"""What a fresh process costs: start, memory, and what is installed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path
from statistics import median
from time import perf_counter

import psutil

from bench.corpus import TENANTS, tenant_name
from bench.engines import Place
from bench.report import Report
from bench.searches import LARGE
from bench.stores import Stores
from tulving import get_embedding_engine

TIMES = 5
MOST_UNTIL_INITIALIZED, MOST_FIRST_RECALL, MOST_MEMORY = 0.5, 0.7, 100
ROOT = Path(__file__).parent.parent
FIRST_RECALL = """
import asyncio, sys
from tulving import open_memory
async def main():
    async with open_memory(sys.argv[1], embedder=sys.argv[2], tenant=sys.argv[3]) as memory:
        assert len(await memory.recall("the coffee in the kitchen"))
asyncio.run(main())
"""
ALL_TENANTS = """
import asyncio, sys
from bench.embedders import Topics
from bench.processes import resident
from tulving import Caller, open_memory
async def main(place, tenants):
    topics = Topics()
    topics.embed("the coffee in the kitchen")
    before = resident()
    async with open_memory(place, embedder=topics, background=False) as memory:
        for tenant in tenants:
            await memory.bind(caller=Caller(tenant)).search("the coffee in the kitchen")
        print(resident() - before)
asyncio.run(main(sys.argv[1], sys.argv[2:]))
"""
ALL_BY_HAND = """
import sys
from bench.by_hand import ByHand
from bench.embedders import Topics
from bench.processes import resident
topics = Topics()
topics.embed("the coffee in the kitchen")
before = resident()
hand = ByHand(sys.argv[1], topics)
for tenant in sys.argv[2:]:
    hand.search(tenant, "the coffee in the kitchen")
print(resident() - before)
"""


def resident() -> float:
    """The memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _run(*arguments: str, settings: Mapping[str, str] | None = None) -> tuple[float, float, str]:
    """Wall and processor seconds of a process from its start to its end, and what it printed."""
    begun = perf_counter()
    environment = {**os.environ, **(settings or {})}
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        output = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with {process.returncode}")
    return perf_counter() - begun, usage.ru_utime + usage.ru_stime, output


def _start(
    report: Report,
    what: str,
    *arguments: str,
    target: float | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    _run(*arguments, settings=settings)
    runs = [_run(*arguments, settings=settings) for _ in range(TIMES)]
    cpu, wall = median(run[1] for run in runs), median(run[0] for run in runs)
    report.row(
        what,
        f"CPU {cpu:.2f} s, wall {wall:.2f} s (min {min(run[0] for run in runs):.2f})",
        target=f"CPU <= {target} s" if target else "",
        met=cpu <= target if target else None,
    )


async def run(stores: Stores, report: Report) -> None:
    report.section(f"{stores.engine.name}: cold start, a fresh process from start to end, median of {TIMES}")
    _start(report, "python alone", "-c", "pass")
    _start(report, "import tulving", "-c", "import tulving")
    for embedder, target in (("hashing", None), ("minilm", MOST_FIRST_RECALL)):
        if problem := get_embedding_engine(embedder).unready():
            report.note(f"cold start with {embedder} skipped: {problem}")
            continue
        built = await stores.of_one(embedder)
        arguments = ("-c", FIRST_RECALL, built.place, embedder, tenant_name(0))
        _start(report, f"open, first recall of 1,000, {embedder}", *arguments, target=target)
    if util.find_spec("tulving.interfaces") is None or util.find_spec("tulving.__main__") is None:
        return report.note("command line and MCP server skipped: tulving has no interfaces yet")
    _start(report, "tulving --help", "-m", "tulving", "--help")
    built = await stores.of_one("hashing")
    _start(
        report,
        "tulving recall of 1,000, hashing",
        *("-m", "tulving", "recall", "the coffee in the kitchen"),
        settings={"TULVING_URL": built.place, "TULVING_EMBEDDER": "hashing", "TULVING_TENANT": tenant_name(0)},
    )
    empty = await stores.engine.fresh("mcp")
    try:
        shakes = [_handshake(empty) for _ in range(TIMES + 1)][1:]
    except (OSError, ValueError, psutil.Error) as error:
        return report.note(f"MCP handshake skipped: {error!r}")
    cpu, wall = median(shake[0] for shake in shakes), median(shake[1] for shake in shakes)
    report.row(
        "tulving mcp until it has answered initialize",
        f"CPU {cpu:.2f} s, wall {wall:.2f} s",
        target=f"CPU <= {MOST_UNTIL_INITIALIZED} s",
        met=cpu <= MOST_UNTIL_INITIALIZED,
    )


def _handshake(place: Place) -> tuple[float, float]:
    """Processor and wall seconds of a server on a store of its own, until it answers."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    }
    begun = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "tulving", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TULVING_URL": place},
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        wall = perf_counter() - begun
        used = psutil.Process(server.pid).cpu_times()
        server.stdin.close()
        server.wait(20)
    if "result" not in answer:
        raise ValueError(f"answered {answer}")
    return used.user + used.system, wall


async def run_memory(stores: Stores, report: Report, size: int) -> None:
    report.section("Memory and size")
    built = await stores.of_size(size)
    tenants = [tenant_name(number) for number in range(TENANTS)]
    empty = await stores.engine.fresh("memory")
    alone = float(_run("-c", ALL_TENANTS, empty, tenants[0])[2])
    full = float(_run("-c", ALL_TENANTS, built.place, *tenants)[2])
    by_hand = float(_run("-c", ALL_BY_HAND, await stores.engine.fresh(built.by_hand), *tenants)[2])
    report.row(
        f"memory after searching all {TENANTS} tenants of {size:,}",
        f"{full:.0f} MB more than before opening; {alone:.0f} for an empty store",
        f"by hand {by_hand:.0f} MB",
        f"{full / by_hand:.2f} x",
        f"<= {MOST_MEMORY} MB" if size >= LARGE else "",
        full <= MOST_MEMORY if size >= LARGE else None,
    )
    missing, total = _installed()
    if missing:
        report.note(f"not installed here, not counted: {', '.join(missing)}")
    largest = sorted(total, key=lambda name: -total[name])[:4]
    megabytes = sum(total.values()) / 1e6
    report.row(
        f"Installed size of the {len(total)} base packages, compiled files included",
        f"{megabytes:.0f} MB ({', '.join(f'{name} {total[name] / 1e6:.0f}' for name in largest)})",
        target="<= 250 MB",
        met=megabytes <= 250,
    )


def _installed() -> tuple[list[str], dict[str, int]]:
    """Bytes of each package that requirements/base.txt names, as installed in this environment."""
    missing, total = [], {}
    for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements/base.txt").read_text(), re.MULTILINE):
        try:
            files = metadata.distribution(name).files or []
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        total[name] = sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file())
    return missing, total
