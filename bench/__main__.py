"""`python -m bench [--quick] [--only PART ...]`: measure, print, and write bench/results/<time>.md."""

import argparse
import asyncio
import tempfile
from datetime import datetime
from pathlib import Path
from time import perf_counter

from bench import inserts, processes, searches
from bench.report import Report
from bench.stores import Stores

RESULTS = Path(__file__).parent / "results"
PARTS = ("inserts", "minilm", "search", "cold", "memory")


async def measure(parts: list[str], sizes: list[int], report: Report) -> None:
    """All parts, in an order in which each finds the stores it shares with others."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="stores-") as folder:
        stores = Stores(Path(folder), report)
        if "inserts" in parts:
            await inserts.run(stores, report)
        if "search" in parts:
            await searches.run(stores, report, sizes)
        if "minilm" in parts:
            await inserts.run_minilm(stores, report)
            await searches.run_minilm(stores, report)
        if "cold" in parts:
            await processes.run(stores, report)
        if "memory" in parts:
            await processes.run_memory(stores, report, sizes[-1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 and 10,000 memories only")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part only (may be repeated)")
    chosen = parser.parse_args()
    sizes = [1_000, 10_000] if chosen.quick else [1_000, 10_000, 100_000]
    report, begun = Report(), perf_counter()
    asyncio.run(measure(chosen.only or list(PARTS), sizes, report))
    report.note(f"the run took {perf_counter() - begun:.0f} s")
    path = RESULTS / f"{datetime.now():%Y%m%d-%H%M%S}.md"
    path.write_text(report.markdown())
    print(f"\n{report.markdown()}\n{path}")


main()
