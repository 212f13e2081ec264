"""`tulving doctor`: what is wrong and what to do about it, on one screen; `tulving status`: its first line."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from tulving import __version__
from tulving.config import find_project
from tulving.errors import (
    ConfigError,
    DamagedStore,
    DiskFull,
    SchemaTooNew,
    StoreBusy,
    StoreUnavailable,
    TulvingError,
)
from tulving.interfaces.cli.options import AsJson, Chosen
from tulving.interfaces.cli.terminal import FAILED, Line, lines, moment, print_json, size
from tulving.interfaces.wire import wire
from tulving.settings import MemoryModuleConfig

EXTRAS = {"mcp": "mcp", "postgres": "asyncpg", "hnsw": "usearch", "onnx": "tokenizers"}
"""The extras of the package, each with a module that it brings."""
LIBRARIES = ("onnxruntime", "numpy")
LEAST_FREE = 200_000_000
LARGEST_LOG = 256_000_000
REMEDIES: dict[type[Exception], str] = {
    ConfigError: "correct the setting; `tulving config` shows where each one comes from",
    SchemaTooNew: "upgrade this Tulving: pip install --upgrade tulving",
    DamagedStore: "put a backup in its place: tulving restore FILE",
    StoreBusy: "wait, or end the process that holds the store",
    DiskFull: "make room on the disk",
    StoreUnavailable: "check that the file can be read and written, or that the database server can be reached",
}
"""What to do when the store can't be opened, the more special errors first."""
ADVICE = {
    "embedder": "tulving init installs the weights anew; tulving reembed converts a store to another embedder",
    "jobs": "tulving worker --list says why; tulving worker --once JOB tries it again",
    "language model": "see the table [llm] in docs/configuration.md",
    "reranker": "see the table [reranker] in docs/configuration.md",
    "size": "tulving evict --dry-run shows what would go",
    "timeline": "tulving verify says which segments; tulving restore puts a backup in place",
    "vector index": "tulving reindex",
}
ANYTHING = "tulving verify checks the whole store"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong, and what to do about it."""

    check: str
    problem: str
    do: str


@dataclass(slots=True)
class Diagnosis:
    """What is known of this installation and its store."""

    store: dict[str, Any] = field(default_factory=dict)
    schema: str | None = None
    memories: dict[str, int] | None = None
    pending: int | None = None
    embedder: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    jobs: list[Any] | None = None
    passed: list[str] = field(default_factory=list)
    warming: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def status(self) -> str:
        """The state on one line."""
        if self.problems:
            first = self.problems[0]
            more = f" (and {len(self.problems) - 1} more)" if self.problems[1:] else ""
            return f"{first.check}: {first.problem}{more}"
        held = ", ".join(_counted(count, kind) for kind, count in (self.memories or {}).items())
        waiting = f", {self.pending:,} without a vector yet" if self.pending else ""
        return f"tulving {__version__} · {self.store.get('location')} · {held}{waiting}"


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Say on one line whether all is well: the first line of `tulving doctor`, without trying anything. The exit code
    is 1 if something is wrong."""
    found = _glanced(context.obj)
    if as_json:
        print_json({"ok": not found.problems, "status": found.status(), "version": __version__})
    else:
        lines([_first(found, " · tulving doctor says more")])
    if found.problems:
        raise typer.Exit(FAILED)


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Look at everything and say what is wrong and what to do about it: the store, its schema, the embedder and its
    weights, the jobs, the disk, versions, and which settings count here. The exit code is 1 if something is wrong."""
    found = _glanced(context.obj)
    if found.schema:
        _try(context.obj, found)
    project = find_project()
    around = {
        "project": {"settings_file": str(project.settings_file or "") or None, "ignored": wire(project.ignored)},
        "versions": _versions(),
        "extras": {extra: find_spec(module) is not None for extra, module in EXTRAS.items()},
        "telemetry": _telemetry(),
    }
    found.warnings += [f"{each} is ignored: {each.reason}" for each in project.ignored]
    if as_json:
        about = {"ok": not found.problems, "status": found.status(), "version": __version__}
        print_json({**about, **wire(found), **around})
    else:
        lines(_screen(found, around))
    if found.problems:
        raise typer.Exit(FAILED)


def _glanced(chosen: Chosen) -> Diagnosis:
    """What can be known quickly."""
    found = Diagnosis()
    try:
        _describe(found, chosen.config())
    except (TulvingError, OSError) as error:
        found.problems.append(_unopened("settings", error))
        return found
    try:
        seen = chosen.run(lambda memory: memory.glance(), may_reembed=True)
    except (TulvingError, OSError) as error:
        found.problems.insert(0, _unopened("store", error))  # the gravest
        return found
    from tulving.storage.schema import HEAD

    found.store |= seen.engine
    found.schema, found.memories, found.pending, found.jobs = HEAD, seen.memories, seen.pending, seen.jobs
    found.problems += [
        Problem("jobs", f"{job.job} failed", ADVICE["jobs"]) for job in seen.jobs or () if job.state == "failed"
    ]
    return found


def _describe(found: Diagnosis, config: MemoryModuleConfig) -> None:
    """The store from outside, and the embedder without loading it."""
    from tulving.embedders import choose_embedder
    from tulving.location import database_path, is_postgres, store_name

    found.model = config.llm.model or config.llm.url or " ".join(config.llm.command or ()) or None
    found.store["location"] = store_name(config.url)
    embedder = choose_embedder(config)
    found.embedder = {"name": config.embedder, "model": embedder.model, "version": embedder.version}
    if problem := embedder.unready():
        found.problems.append(Problem("embedder", problem, ADVICE["embedder"]))
    if is_postgres(config.url):
        return
    path = database_path(config.url).absolute()
    found.store |= {"bytes": _bytes(path), "log_bytes": _bytes(path.with_name(f"{path.name}-wal"))}
    free = shutil.disk_usage(next(each for each in path.parents if each.exists())).free
    found.store["disk_free_bytes"] = free
    if free < max(LEAST_FREE, 2 * (found.store["bytes"] or 0)):
        found.warnings.append(f"only {size(free)} are free on the disk: a backup or an index may not fit")
    if (found.store["log_bytes"] or 0) > LARGEST_LOG:
        found.warnings.append(f"the write-ahead log has {size(found.store['log_bytes'])}: a process holds an old read")


def _try(chosen: Chosen, found: Diagnosis) -> None:
    """Try the store, the embedder with its weights, and the model's settings."""
    try:
        health = chosen.run(lambda memory: memory.health(), may_reembed=True)
    except (TulvingError, OSError) as error:
        found.problems.append(_unopened("store", error))
        return
    told = {(each.check, each.problem) for each in found.problems}
    for finding in health.findings:
        if finding.check == "jobs":  # already told
            continue
        found.problems += [
            Problem(finding.check, problem, ADVICE.get(finding.check, ANYTHING))
            for problem in finding.problems
            if (finding.check, problem) not in told
        ]
        if finding.warming:
            found.warming.append(f"{finding.check}: {finding.warming}")
        if not finding.problems:
            found.passed.append(finding.check)
    found.embedder["verified"] = "embedder" in found.passed


def _unopened(check: str, error: Exception) -> Problem:
    remedy = next((said for kind, said in REMEDIES.items() if isinstance(error, kind)), ANYTHING)
    if isinstance(error, ConfigError) and error.problem.startswith("there is no memory"):
        return Problem(check, error.problem, "tulving init creates it; --url before the command names another one")
    if isinstance(error, ConfigError):
        remedy = f"allowed: {error.allowed}" if error.allowed else remedy
        return Problem(check, f"{error.field}: {error.problem}", remedy)
    return Problem(check, str(error), remedy)


def _versions() -> dict[str, str | None]:
    import sqlite3

    found: dict[str, str | None] = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for library in LIBRARIES:
        try:
            found[library] = version_of(library)
        except PackageNotFoundError:
            found[library] = None
    return found


def _telemetry() -> str:
    """onnxruntime would report home; it is told not to before it is loaded."""
    reports = "onnxruntime" in sys.modules and os.environ.get("ORT_DISABLE_TELEMETRY") != "1"
    return "on, in onnxruntime" if reports else "off"


def _bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _first(found: Diagnosis, more: str = "") -> Line:
    state = ("wrong", "bold red") if found.problems else ("fine", "bold green")
    return 0, state, f"  {found.status()}", (more if found.problems else "", "dim")


def _screen(found: Diagnosis, around: dict[str, Any]) -> Iterator[Line]:
    yield _first(found)
    rows = {name: value for name, value in _rows(found, around) if value}
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        yield 0, (name.ljust(width), "dim"), value
    for job in found.jobs or ():
        if job.last_run is not None:
            style = "red" if job.state == "failed" else ""
            yield 0, ("job".ljust(width), "dim"), (f"{job.job} {job.state}, {moment(job.last_run)}", style)
    for warning in found.warnings:
        yield 0, ("warning".ljust(width), "yellow"), warning
    for each in found.problems:
        yield 0, ("problem".ljust(width), "red"), f"{each.check}: {each.problem}"
        yield 0, ("do".ljust(width), "dim"), each.do


def _rows(found: Diagnosis, around: dict[str, Any]) -> Iterator[tuple[str, str]]:
    store, embedder = found.store, found.embedder
    yield "store", store.get("location", "")
    parts = [store.get("engine"), f"pgvector {store['pgvector']}" if store.get("pgvector") else ""]
    parts.append(size(store["bytes"]) if store.get("bytes") is not None else "")
    parts.append(f"log {size(store['log_bytes'])}" if store.get("log_bytes") else "")
    if "row_security" in store:
        parts.append(f"row-level security {'on' if store['row_security'] else 'off'}")
    yield "engine", ", ".join(filter(None, parts))
    yield "disk", f"{size(store['disk_free_bytes'])} free" if "disk_free_bytes" in store else ""
    yield "schema", found.schema or ""
    if embedder:
        checked = ", checked" if embedder.get("verified") else ""
        yield "embedder", f"{embedder['name']}: {embedder['model']} {embedder['version']}{checked}"
    yield "vectors", f"{found.pending:,} memories wait for theirs" if found.pending else ""
    yield "model", found.model or "none; `tulving learn --prompt` works with any by pipe"
    yield "project", around["project"]["settings_file"] or "no settings file here"
    yield "versions", ", ".join(f"{name} {each}" for name, each in around["versions"].items() if each)
    here, gone = ([extra for extra, there in around["extras"].items() if there is each] for each in (True, False))
    missing = f"; missing: {', '.join(gone)} (pip install 'tulving[{','.join(gone)}]')" if gone else ""
    yield "extras", f"{', '.join(here) or 'none'}{missing}"
    yield "telemetry", around["telemetry"]
    yield "checks", ", ".join(found.passed)
    yield "warming", "; ".join(found.warming)
    if found.jobs is not None and not any(job.last_run for job in found.jobs):
        yield "jobs", "none has run yet; `tulving worker` runs them"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
