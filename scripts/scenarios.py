"""Which scenarios of the specification have no test?

A test names what it shows with `@pytest.mark.scenario("001-034", ...)`, on a function, on a class, as
`pytestmark`, or in `pytest.param(..., marks=...)`. The tests are read, not run. The ids and titles are in
tests/scenarios.tsv; where the specification itself lies beside the repository, its ids must be the same.

Ends with 1 when a mark names an unknown scenario or hides its ids, or when the two lists differ.
A scenario without a test is only reported.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "scenarios.tsv"
SPECIFICATION = ROOT.parent / "shared" / "spec" / "scenarios.tsv"


def read_scenarios(path: Path) -> dict[str, str]:
    """Id -> "requirement: title", in the file's order."""
    scenarios: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        if line.strip():
            identifier, requirement, title = line.split("\t")
            scenarios[identifier] = f"{requirement}: {title}"
    return scenarios


def mark_name(node: ast.expr) -> str:
    """`scenario` for `pytest.mark.scenario` and `pytest.mark.scenario(...)`, '' for anything else."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) in ("pytest.mark", "mark"):
        return target.attr
    return ""


def listed(node: ast.expr) -> Sequence[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]


def mark_groups(tree: ast.AST) -> Iterator[Sequence[ast.expr]]:
    """The marks that apply together: one test's or class's decorators, one `pytestmark`, one `marks=`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                yield node.decorator_list
            case ast.ClassDef():
                yield node.decorator_list
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield listed(value)
            case ast.keyword(arg="marks", value=value):
                yield listed(value)


def marked_ids(path: Path, problems: list[str]) -> Iterator[tuple[str, int]]:
    """The (id, line) pairs of a test file. What is skipped or expected to fail shows nothing."""
    for group in mark_groups(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if {"skip", "xfail"} & {mark_name(mark) for mark in group}:
            continue
        for mark in group:
            if mark_name(mark) != "scenario":
                continue
            arguments = mark.args if isinstance(mark, ast.Call) else []
            if not arguments:
                problems.append(f"{path.relative_to(ROOT)}:{mark.lineno}: a scenario mark without an id")
            for argument in arguments:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value, argument.lineno
                else:
                    where = f"{path.relative_to(ROOT)}:{argument.lineno}"
                    problems.append(f"{where}: write the ids of a scenario mark out as plain strings")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="print the count only, not the list")
    only_count = parser.parse_args().count

    scenarios = read_scenarios(LIST)
    problems: list[str] = []
    if SPECIFICATION.exists():
        for identifier in sorted(scenarios.keys() ^ read_scenarios(SPECIFICATION).keys()):
            missing_in = "the specification" if identifier in scenarios else "tests/scenarios.tsv"
            problems.append(f"{identifier} is not in {missing_in}")

    covered: set[str] = set()
    for path in sorted(LIST.parent.rglob("*.py")):
        for identifier, line in marked_ids(path, problems):
            covered.add(identifier)
            if identifier not in scenarios:
                problems.append(f"{path.relative_to(ROOT)}:{line}: unknown scenario {identifier!r}")

    uncovered = [identifier for identifier in scenarios if identifier not in covered]
    print(f"Scenarios with no test: {len(uncovered)} of {len(scenarios)}")
    if not only_count:
        for identifier in uncovered:
            print(f"  {identifier}  {scenarios[identifier]}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
