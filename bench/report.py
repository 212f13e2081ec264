"""Figures, and the table they end in."""

import os
import platform
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

HEADER = ("What", "Tulving", "Baseline", "Ratio", "Target", "Met")


@dataclass(slots=True)
class Timings:
    """Seconds per call, on the wall and on the processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.wall)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def p50(self) -> float:
        return statistics.median(self.wall)

    @property
    def cpu_p50(self) -> float:
        return statistics.median(self.cpu)

    def __str__(self) -> str:
        cpu = f", CPU {milliseconds(self.cpu_p50)}" if self.cpu else ""
        high, low = milliseconds(self.quantile(0.95)), milliseconds(min(self.wall))
        return f"{milliseconds(self.p50)} (p95 {high}, min {low}{cpu})"

    def add(self, calls: "Timings") -> None:
        """One round of several calls."""
        self.wall.append(sum(calls.wall))
        self.cpu.append(sum(calls.cpu))


class Watch:
    """Times one call: `with Watch(timings): ...`."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings

    def __enter__(self) -> None:
        self._cpu, self._wall = process_time(), perf_counter()

    def __exit__(self, *_: object) -> None:
        self._timings.wall.append(perf_counter() - self._wall)
        self._timings.cpu.append(process_time() - self._cpu)


@dataclass(slots=True)
class Report:
    """Rows of the table, printed as they come."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    circumstances: str = field(default_factory=lambda: machine())

    def section(self, title: str) -> None:
        self.rows.append((f"**{title}**", "", "", "", "", ""))
        print(f"\n{title}", flush=True)

    def row(
        self, what: str, ours: str, baseline: str = "", ratio: str = "", target: str = "", met: bool | None = None
    ) -> None:
        row = (what, ours, baseline, ratio, target, "" if met is None else "yes" if met else "**no**")
        self.rows.append(row)
        print("  " + " | ".join(cell for cell in row if cell), flush=True)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"  note: {text}", flush=True)

    def markdown(self) -> str:
        lines = [f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        load = f"Load average at the end {os.getloadavg()[0]:.1f}."
        return "\n".join([f"{self.circumstances} {load}", "", *lines, "", *(f"- {note}" for note in self.notes), ""])


def milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.3f} ms" if value < 0.1 else f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def rate(count: int, rounds: Timings) -> str:
    """Calls per second in the median round and in the best, and the processor time of one."""
    best, cpu = count / min(rounds.wall), milliseconds(rounds.cpu_p50 / count)
    return f"{count / rounds.p50:,.0f}/s (best {best:,.0f}, CPU {cpu} each)"


def pair_ratio(upper: Sequence[float], lower: Sequence[float]) -> float:
    """The median of the ratios of neighbouring rounds: noise that lasts longer than a round drops out."""
    return statistics.median(a / b for a, b in zip(upper, lower, strict=True))


def commit() -> str:
    """Which version was measured."""
    try:
        folder = Path(__file__).parent
        name = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=folder, text=True).strip()
        changed = subprocess.check_output(["git", "status", "--porcelain", "../src"], cwd=folder, text=True).strip()
        return f"{name} with uncommitted changes" if changed else name
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> str:
    """The kind of machine, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Commit {commit()}. {os.cpu_count()} vCPU, {memory:.0f} GiB, {platform.system()} {platform.machine()}; "
        f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}. "
        f"Load average at the beginning {os.getloadavg()[0]:.1f}."
    )
