"""Where is each requirement and each name of the specification in this repository?

docs/specification.tsv says it by hand: a row for each requirement of the five texts and for each name that they give to
a thing, with where it is here and, if we decided differently, why. From it, from the scenarios in tests/scenarios.tsv
and from the marks of the tests come the tables of docs/specification.md.

A place is a dotted Python path, or a kind and a name: `table facts`, `table facts.validity`, `index ux_facts_subject`,
`tool memory_search`, `command merge-rules show`, `setting retrieval.fusion`, `event entity_merge`, `file docs/adr`.
Several are separated by semicolons.

Writes the document, or with --check tells whether it is current. Ends with 1 if it is not, if a place does not exist,
or if a requirement has no row.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path

from scenarios import LIST, ONE_ENGINE, ROOT

ROWS = ROOT / "docs" / "specification.tsv"
DOCUMENT = ROOT / "docs" / "specification.md"
SOURCE = ROOT / "src" / "tulving"
COLUMNS = ("text", "kind", "name", "scenarios", "here", "note")
KINDS = ("requirement", "class", "function", "table", "tool", "setting", "event", "file", "constant")
ENGINE_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
SECTION = re.compile(r"(<!-- text (\d{3}) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """A requirement or a name of a text, where it is here, and what we decided differently."""

    text: str
    kind: str
    name: str
    scenarios: tuple[str, ...]
    here: tuple[str, ...]
    note: str

    def __str__(self) -> str:
        return f"{self.text} {self.kind} {self.name!r}"


@dataclass(frozen=True)
class Scenario:
    """A scenario of a text, the requirement that it belongs to, and the files whose tests show it."""

    id: str
    requirement: str
    title: str
    tests: Sequence[Path]

    @property
    def text(self) -> str:
        return self.id[:3]


# -- reading -----------------------------------------------------------------------------------------------------


def read_rows(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{path.name}:{number} has {len(cells)} columns instead of {len(COLUMNS)}")
        text, kind, name, scenarios, here, note = (cell.strip() for cell in cells)
        rows.append(Row(text, kind, name, tuple(scenarios.split()), tuple(filter(None, here.split("; "))), note))
    return rows


def read_scenarios(path: Path, marks: Mapping[str, Sequence[Path]]) -> list[Scenario]:
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    cells = (line.split("\t") for line in lines if line.strip())
    return [Scenario(id_, requirement, title, marks.get(id_, ())) for id_, requirement, title in cells]


def read_marks(tests: Path) -> dict[str, list[Path]]:
    """The test files by the scenarios that their marks name, as scripts/scenarios.py would find them; but read and not
    collected, which takes a tenth of the time. Tests that are marked to be skipped or to fail do not count."""
    marks: dict[str, list[Path]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for id_ in sorted(set(_named(ast.parse(text).body))) if "mark.scenario" in text else ():
            marks.setdefault(id_, []).append(path)
    return marks


def _named(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The scenarios that the marks beside statements name, not those inside of functions."""
    for node in body:
        parts: Sequence[ast.AST] = [node]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            parts = node.decorator_list
            if any(_is_mark(part, "skip", "xfail") for part in parts):
                continue
            if isinstance(node, ast.ClassDef):
                yield from _named(node.body)
        for call in (inner for part in parts for inner in ast.walk(part)):
            if isinstance(call, ast.Call) and _is_mark(call, "scenario"):
                yield from (str(each.value) for each in call.args if isinstance(each, ast.Constant))


def _is_mark(node: ast.AST, *names: str) -> bool:
    mark = node.func if isinstance(node, ast.Call) else node
    return isinstance(mark, ast.Attribute) and mark.attr in names and ast.unparse(mark.value) == "pytest.mark"


# -- checking ----------------------------------------------------------------------------------------------------


def problems(rows: Sequence[Row], scenarios: Sequence[Scenario]) -> Iterator[str]:
    """What is wrong with the rows."""
    requirements = dict.fromkeys((each.text, each.requirement) for each in scenarios)
    known = {each.id for each in scenarios}
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        if (key := (row.text, row.kind, row.name)) in seen:
            yield f"{row} is there twice"
        seen.add(key)
        if row.kind not in KINDS:
            yield f"{row} is of an unknown kind: {', '.join(KINDS)}"
        if row.kind == "requirement":
            if (row.text, row.name) not in requirements:
                yield f"{row} is not in tests/scenarios.tsv"
        elif not row.scenarios:
            yield f"{row} names no scenario, so no test shows it"
        for id_ in row.scenarios:
            if id_ not in known or not id_.startswith(row.text):
                yield f"{row} names {id_}, which is no scenario of this text"
        if not row.here and not row.note:
            yield f"{row} is nowhere, and does not say why"
        for place in row.here:
            if not exists(place):
                yield f"{row} is said to be at {place}, which does not exist"
        for decision in re.findall(r"ADR (\d+)", row.note):
            if decision_page(decision) is None:
                yield f"{row} names ADR {decision}, which does not exist"
    for text, requirement in requirements:
        if (text, "requirement", requirement) not in seen:
            ids = ", ".join(each.id for each in scenarios if (each.text, each.requirement) == (text, requirement))
            yield f"{text} requirement {requirement!r} has no row, so these scenarios lead nowhere: {ids}"


def exists(place: str) -> bool:
    """Whether a place is in this repository."""
    kind, _, name = place.partition(" ")
    if not name:
        return module_of(place) is not None
    return kind in PLACES and PLACES[kind](name)


@cache
def module_of(path: str) -> Path | None:
    """The file with the module of a dotted Python path, if the path leads to something."""
    names = path.split(".")
    for length in range(len(names), 0, -1):
        try:
            module = import_module(".".join(names[:length]))
        except ModuleNotFoundError:
            continue
        found: object = module
        for name in names[length:]:
            if is_dataclass(found) and name in {field.name for field in fields(found)}:
                return Path(str(module.__file__)) if name == names[-1] else None
            if not hasattr(found, name):
                return None
            found = getattr(found, name)
        return Path(str(module.__file__))
    return None


def schema(statements: Iterable[str]) -> set[str]:
    """The tables, their columns and the indexes that statements leave, as places."""
    found = set[str]()
    for statement in statements:
        if table := re.match(r"CREATE (?:VIRTUAL )?TABLE (\w+)\s*(.*)", statement, re.DOTALL):
            columns = re.findall(r"^ *([a-z_]+) [A-Z]", table[2], re.MULTILINE)
            found.update((f"table {table[1]}", *(f"table {table[1]}.{column}" for column in columns)))
        elif column := re.match(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", statement):
            found.add(f"table {column[1]}.{column[2]}")
        elif index := re.match(r"(CREATE|DROP) (?:UNIQUE )?INDEX (\w+)", statement):
            (found.add if index[1] == "CREATE" else found.discard)(f"index {index[2]}")
    return found


@cache
def _schema() -> set[str]:
    """Those of both engines."""
    from tulving.storage.migrations.statements import statements
    from tulving.storage.schema import REVISIONS, migration

    texts = [text for revision in REVISIONS for text in migration(revision).STATEMENTS]
    return schema(statements("sqlite", texts)) | schema(statements("postgresql", texts))


def _is_tool(name: str) -> bool:
    import tulving.services.memory  # noqa: F401  (fills the registry)
    from tulving.services.operations import OPERATIONS

    return name in OPERATIONS


def _is_command(name: str) -> bool:
    from tulving.interfaces.cli.commands import BY_HAND
    from tulving.services.operations import OPERATIONS

    return name in BY_HAND or any(name == each.command for each in OPERATIONS.values())


def _is_setting(name: str) -> bool:
    from tulving.settings import MemoryModuleConfig

    found: object = MemoryModuleConfig()
    for part in name.split("."):
        if not is_dataclass(found) or part not in {field.name for field in fields(found)}:
            return False
        found = getattr(found, part)
    return True


@cache
def _code() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))


PLACES: Mapping[str, Callable[[str], bool]] = {
    "table": lambda name: f"table {name}" in _schema(),
    "index": lambda name: f"index {name}" in _schema(),
    "tool": _is_tool,
    "command": _is_command,
    "setting": _is_setting,
    "event": lambda name: f'"{name}"' in _code(),
    "file": lambda name: (ROOT / name).exists(),
}


# -- writing -----------------------------------------------------------------------------------------------------


def generated(text: str, rows: Sequence[Row], scenarios: Sequence[Scenario]) -> str:
    """The document with its tables made anew."""
    return SECTION.sub(lambda found: f"{found[1]}{_section(found[2], rows, scenarios)}\n{found[3]}", text)


def _section(text: str, rows: Sequence[Row], scenarios: Sequence[Scenario]) -> str:
    own = [row for row in rows if row.text == text]
    shown = [each for each in scenarios if each.text == text]
    requirements = []
    for row in own:
        if row.kind == "requirement":
            ids = [each.id for each in shown if each.requirement == row.name]
            requirements.append((_plain(row.name), _span(ids), _places(row), _note(row)))
    names = [
        (_name(row.name), row.kind, " ".join(row.scenarios), _places(row), _note(row))
        for row in own
        if row.kind != "requirement"
    ]
    tests = [(f"{each.id} {_plain(each.title)}{_one_engine(each)}", _tests(each)) for each in shown]
    return "\n".join(
        (
            "\n### Requirements\n",
            _table(("Requirement", "Scenarios", "Here", "Differences and remarks"), requirements),
            "### Names\n",
            _table(("Name in the text", "Kind", "Scenarios", "Here", "Differences and remarks"), names),
            "### Tests\n",
            _table(("Scenario", "Test files"), tests),
        )
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _name(name: str) -> str:
    """Words as they are, a name in code as code."""
    return _plain(name).replace("<", "&lt;") if " " in name else f"`{_plain(name)}`"


def _span(ids: Sequence[str]) -> str:
    return ", ".join(ids) if len(ids) < 3 else f"{ids[0]} to {ids[-1]}"


def _places(row: Row) -> str:
    """What is of the same kind stands together, and the kind before it once."""
    groups = groupby(row.here, lambda place: place.partition(" ")[0] if " " in place else "")
    return ", ".join(_group(kind, list(places)) for kind, places in groups) or "not here"


def _group(kind: str, places: Sequence[str]) -> str:
    if not kind:
        return ", ".join(map(_code_link, places))
    names = [place.partition(" ")[2] for place in places]
    if kind == "file":
        return ", ".join(f"[`{name.rpartition('/')[2]}`](../{name})" for name in names)
    shown = ", ".join(f"`tulving {name}`" if kind == "command" else f"`{name}`" for name in names)
    return shown if kind == "command" else f"{kind} {shown}"


def _code_link(path: str) -> str:
    file, short = module_of(path), f"`{'.'.join(path.split('.')[-2:])}`"
    return f"[{short}](../{file.relative_to(ROOT)})" if file else short


def _note(row: Row) -> str:
    def link(found: re.Match[str]) -> str:
        page = decision_page(found[1])
        return f"[{found[0]}](adr/{page.name})" if page else found[0]

    return _plain(re.sub(r"ADR (\d+)", link, row.note))


@cache
def decision_page(number: str) -> Path | None:
    return next((ROOT / "docs" / "adr").glob(f"{number}-*.md"), None)


def _one_engine(scenario: Scenario) -> str:
    reasons = ((name, ONE_ENGINE[engine].get(scenario.id)) for engine, name in ENGINE_NAMES.items())
    return "".join(f" ({name} only: it {reason})" for name, reason in reasons if reason)


def _tests(scenario: Scenario) -> str:
    return ", ".join(f"[{path.stem}](../{path.relative_to(ROOT)})" for path in scenario.tests) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, tell whether the document is current")
    check = parser.parse_args().check

    rows, scenarios = read_rows(ROWS), read_scenarios(LIST, read_marks(LIST.parent))
    wrong = list(problems(rows, scenarios))
    text = DOCUMENT.read_text(encoding="utf-8")
    new = generated(text, rows, scenarios)
    if check and new != text:
        wrong.append(f"{DOCUMENT.relative_to(ROOT)} is not current: run `make specification`")
    if not check:
        DOCUMENT.write_text(new, encoding="utf-8")
    for problem in wrong:
        print(problem, file=sys.stderr)
    print(f"{len(rows)} rows for {len(scenarios)} scenarios, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
