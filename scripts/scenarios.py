"""Which scenarios of the specification have no test, and on which engine?

A test names what it shows with `@pytest.mark.scenario("001-034", ...)`, on a function, on a class, as
`pytestmark`, or in `pytest.param(..., marks=...)`. The tests are collected, not run. What is skipped or expected to
fail shows nothing. The ids and titles are in tests/scenarios.tsv; where the specification itself lies beside the
repository, its ids must be the same.

Ends with 1 when a mark names no scenario or an unknown one, when the tests can't be collected, or when the two lists
differ. A scenario without a test is only reported.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "scenarios.tsv"
SPECIFICATION = ROOT.parent / "shared" / "spec" / "scenarios.tsv"

ENGINES = ("sqlite", "postgres")
ONE_ENGINE = {
    "sqlite": {
        "000-010": "writes the index of a file",
        "002-001": "creates the database file",
        "002-002": "writes the database file to disk",
        "002-005": "is about FTS5",
        "002-006": "is about the index in the process",
        "002-007": "is about the index in the process",
        "002-008": "is about the index in the process",
        "002-013": "limits the size of the file",
    },
    "postgres": {
        "001-102": "is about extensions of PostgreSQL",
        "001-103": "names GIN or IVFFlat indexes",
        "001-104": "names GIN or IVFFlat indexes",
        "001-107": "names GIN or IVFFlat indexes",
        "001-108": "names UUID, JSONB and TIMESTAMPTZ columns",
        "004-015": "is about the planner of PostgreSQL",
        "004-016": "migrates the database of a host",
    },
}
"""Scenarios that apply to one engine only, and why."""


def read_scenarios(path: Path) -> dict[str, str]:
    """Id -> "requirement: title", in the file's order."""
    scenarios: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        if line.strip():
            identifier, requirement, title = line.split("\t")
            scenarios[identifier] = f"{requirement}: {title}"
    return scenarios


class Marked:
    """A plugin of pytest: which scenarios the collected tests show, and on which engines."""

    def __init__(self) -> None:
        self.shown: dict[str, set[str]] = {}
        self.problems: list[str] = []

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("skip") or item.get_closest_marker("xfail"):
                continue
            for mark in item.iter_markers("scenario"):
                if not mark.args:
                    self.problems.append(f"{item.nodeid}: a scenario mark without an id")
                for identifier in mark.args:
                    self.shown.setdefault(identifier, set()).update(engines_of(item))


def engines_of(item: pytest.Item) -> Sequence[str]:
    """On which engines a test shows what it shows, by the fixtures of tests/conftest.py. One that has no store at all
    counts for both."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if "engine" in fixtures:
        return [item.callspec.params["engine"]]  # pyright: ignore[reportAttributeAccessIssue]
    if "postgres" in fixtures:
        return ["postgres"]
    return ["sqlite"] if fixtures & {"path", "new_store", "empty_store"} else ENGINES


def collect(tests: Path) -> Marked:
    """Read the marks of all tests in a folder, the long ones too."""
    marked, said = Marked(), io.StringIO()
    options = ["--collect-only", "-qq", "-n", "0", "-p", "no:cacheprovider", "-m", ""]
    with redirect_stdout(said):
        code = pytest.main([*options, str(tests)], plugins=[marked])
    if code != pytest.ExitCode.OK:
        marked.problems.append(f"the tests can't be collected:\n{said.getvalue()}")
    return marked


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="print the count only, not the list")
    only_count = parser.parse_args().count

    scenarios = read_scenarios(LIST)
    marked = collect(LIST.parent)
    problems = marked.problems
    if SPECIFICATION.exists():
        for identifier in sorted(scenarios.keys() ^ read_scenarios(SPECIFICATION).keys()):
            missing_in = "the specification" if identifier in scenarios else "tests/scenarios.tsv"
            problems.append(f"{identifier} is not in {missing_in}")
    for identifier in sorted(marked.shown.keys() - scenarios.keys()):
        problems.append(f"a mark names the unknown scenario {identifier!r}")

    only = {identifier: engine for engine, ids in ONE_ENGINE.items() for identifier in ids}
    missing: dict[str, list[str]] = {}
    for identifier in scenarios:
        wanted, shown = [only[identifier]] if identifier in only else ENGINES, marked.shown.get(identifier, ())
        if lacking := [engine for engine in wanted if engine not in shown]:
            missing[identifier] = lacking
    counts = ", ".join(f"{sum(engine in lacking for lacking in missing.values())} on {engine}" for engine in ENGINES)
    print(f"Scenarios with no test: {len(missing)} of {len(scenarios)} ({counts})")
    if not only_count:
        for identifier, lacking in missing.items():
            print(f"  {identifier}  {scenarios[identifier]} ({' and '.join(lacking)})")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
