"""`python -m bench [--quick] [--large] [--only PART ...]`: measure, print, and write bench/results/<time>.md."""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from time import perf_counter

from bench import conflicts, entities, growth, inserts, network, processes, searches, tenants, tool_text, vectors
from bench.engines import Sqlite, connect, postgres
from bench.report import Report
from bench.stores import Stores

RESULTS = Path(__file__).parent / "results"
PARTS = (
    *("inserts", "conflicts", "minilm", "search", "cold", "memory", "tenants", "trips", "transfer", "entities"),
    *("tool_text", "vectors", "growth"),
)
ENGINES = ("sqlite", "postgres")


async def measure(chosen: argparse.Namespace, report: Report) -> None:
    """Each engine's parts, in an order in which each finds the stores it shares with others."""
    parts = chosen.only or PARTS
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="stores-") as folder:
        files = Stores(Sqlite(Path(folder)), report)
        if "sqlite" in chosen.engines:
            sizes = [1_000, 10_000] if chosen.quick else [1_000, 10_000, 100_000]
            await _common(files, report, parts, sizes)
            if "memory" in parts:
                await processes.run_memory(files, report, sizes[-1])
            if "growth" in parts and chosen.large:
                await growth.run(files.engine, report)
        if "vectors" in (chosen.only or ()):  # minutes, and only where the data sets are
            await vectors.run(report, chosen.quick)
        if "tool_text" in parts:
            tool_text.run(report)
        if "minilm" in parts:
            inserts.run_threads(report)
        if "entities" in (chosen.only or ()):  # minutes, and only where the data sets are
            await entities.run(report)
        if "postgres" in chosen.engines:
            async with postgres() as server:
                databases = Stores(server, report)
                await _common(databases, report, parts, [1_000, 10_000])
                if "tenants" in parts:
                    await tenants.run(databases, report, 10_000 if chosen.quick else 100_000, chosen.large)
                if "trips" in parts:
                    await network.run_trips(databases, report)
                if "transfer" in parts:
                    source = await files.of_one("hashing", network.ROWS)
                    await network.run_transfer(databases, report, source.place)
                await _tell_version(await server.fresh("version"), report)


async def _common(stores: Stores, report: Report, parts: Sequence[str], sizes: list[int]) -> None:
    if "inserts" in parts:
        await inserts.run(stores, report)
    if "conflicts" in parts:
        await conflicts.run(stores, report)
    if "search" in parts:
        await searches.run(stores, report, sizes)
    if "minilm" in parts:
        await inserts.run_minilm(stores, report)
        await searches.run_minilm(stores, report)
    if "cold" in parts:
        await processes.run(stores, report)


async def _tell_version(place: str, report: Report) -> None:
    raw = await connect(place)
    pgvector = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    report.note(
        f"PostgreSQL {await raw.fetchval('SHOW server_version')}, pgvector {await raw.fetchval(pgvector)}, "
        f"shared_buffers {await raw.fetchval('SHOW shared_buffers')}, "
        f"synchronous_commit {await raw.fetchval('SHOW synchronous_commit')}, through a socket"
    )
    await raw.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 10,000 memories")
    parser.add_argument(
        "--large", action="store_true", help="growth to a million memories, and PostgreSQL with HNSW: minutes each"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="this part only (may be repeated)")
    parser.add_argument("--engine", action="append", choices=ENGINES, dest="engines", help="this engine only")
    chosen = parser.parse_args()
    chosen.engines = chosen.engines or ENGINES
    report, begun = Report(), perf_counter()
    asyncio.run(measure(chosen, report))
    report.note(f"the run took {perf_counter() - begun:.0f} s")
    path = RESULTS / f"{datetime.now():%Y%m%d-%H%M%S}.md"
    path.write_text(report.markdown())
    print(f"\n{report.markdown()}\n{path}")


main()
