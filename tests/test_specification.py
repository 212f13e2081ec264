"""docs/specification.md leads from every requirement and name of the specification to a place that exists."""

from dataclasses import replace
from pathlib import Path

import pytest
import specification
from specification import Row, Scenario

pytestmark = pytest.mark.xdist_group("specification")  # so that one process of the tests reads all marks

FACT = Row("001", "table", "facts", ("001-002",), ("table facts",), "")
LEADS_NOWHERE = "001 table 'facts' is said to be at {}, which does not exist"
MARKED = """
import pytest

pytestmark = pytest.mark.scenario("module")

@pytest.mark.scenario("class")
class TestThing:
    @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.scenario("parameter")), 2])
    @pytest.mark.scenario("one", "two")
    async def test_thing(self, n): ...

@pytest.mark.skip(reason="not now")
@pytest.mark.scenario("skipped")
def test_skipped(): ...

@pytest.mark.xfail
@pytest.mark.scenario("failing")
def test_failing(): ...

TEXT = '@pytest.mark.scenario("text")'
"""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return specification.read_rows(specification.ROWS)


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    marks = specification.read_marks(specification.LIST.parent)
    return specification.read_scenarios(specification.LIST, marks)


def test_every_requirement_and_name_leads_to_a_place_that_exists(rows: list[Row], scenarios: list[Scenario]) -> None:
    wrong = list(specification.problems(rows, scenarios))
    assert not wrong, "\n".join(wrong)


def test_the_document_is_current(rows: list[Row], scenarios: list[Scenario]) -> None:
    text = specification.DOCUMENT.read_text(encoding="utf-8")
    assert specification.generated(text, rows, scenarios) == text, "run `make specification`"


@pytest.mark.parametrize(
    "place",
    [
        "tulving.services.facts.Facts.store_fact",
        "tulving.domain.model.NewFact.content",
        "tulving.domain.decay",
        "table facts",
        "table facts_fts",
        "table facts.search_vector",
        "table facts.folded_subject",
        "index ux_facts_entity",
        "index ix_episodes_unembedded",
        "tool memory_store_fact",
        "command merge-rules show",
        "command store fact",
        "setting retrieval.default_limit",
        "setting tenant",
        "event entity_merge",
        "file src/tulving/prompts/consolidation/SKILL.md",
    ],
)
def test_a_place_that_exists_is_found(place: str) -> None:
    assert specification.exists(place)
    assert specification.exists(f"{place}x") is False


@pytest.mark.parametrize(
    "place",
    [
        "fact facts",
        "table",
        "tulving.nothing",
        "tulving.domain.model.Fact.content.upper",
        "setting retrieval.fusion.x",
        "event entity_mer",
    ],
)
def test_a_place_that_does_not_exist_is_a_problem(place: str, scenarios: list[Scenario]) -> None:
    assert LEADS_NOWHERE.format(place) in specification.problems([replace(FACT, here=(place,))], scenarios)


def test_the_schema_is_what_all_statements_leave() -> None:
    statements = [
        "CREATE TABLE a (\n  b TEXT,\n  c INTEGER)",
        "CREATE UNIQUE INDEX ab ON a (b)",
        "CREATE INDEX ac ON a (c)",
    ]
    changes = ["ALTER TABLE a ADD COLUMN d TEXT", "DROP INDEX ab", "UPDATE a SET b = 1"]
    left = {"table a", "table a.b", "table a.c", "table a.d", "index ac"}
    assert specification.schema([*statements, *changes]) == left


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"kind": "noun"}, "001 noun 'facts' is of an unknown kind: "),
        ({"kind": "requirement"}, "001 requirement 'facts' is not in tests/scenarios.tsv"),
        ({"scenarios": ()}, "001 table 'facts' names no scenario"),
        ({"scenarios": ("001-999",)}, "001 table 'facts' names 001-999, which is no scenario of this text"),
        ({"scenarios": ("004-003",)}, "001 table 'facts' names 004-003, which is no scenario of this text"),
        ({"here": ()}, "001 table 'facts' is nowhere, and does not say why"),
        ({"note": "As ADR 9999 says."}, "001 table 'facts' names ADR 9999, which does not exist"),
    ],
)
def test_a_row_that_says_something_wrong_is_a_problem(
    changed: dict[str, object], problem: str, scenarios: list[Scenario]
) -> None:
    found = list(specification.problems([replace(FACT, **changed)], scenarios))  # pyright: ignore[reportArgumentType]
    own = [each for each in found if "'facts'" in each]
    assert len(own) == 1 and own[0].startswith(problem)


def test_a_thing_that_is_not_here_says_why(scenarios: list[Scenario]) -> None:
    found = specification.problems([replace(FACT, here=(), note="We have another one (ADR 0001).")], scenarios)
    assert not [each for each in found if "'facts'" in each]


def test_a_requirement_without_a_row_and_a_row_that_is_there_twice(rows: list[Row], scenarios: list[Scenario]) -> None:
    known = [row for row in rows if row.name != "Privacy Filter"]
    problems = [*specification.problems([*known, known[-1]], scenarios)]
    told = "002 requirement 'Privacy Filter' has no row, so these scenarios lead nowhere: 002-014"
    assert told in problems and f"{known[-1]} is there twice" in problems


def test_a_line_of_the_data_has_all_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("head\n001\ttable\tfacts\t001-002 001-004\ttable facts; tool x\t\n001\ttable\tfacts\t\t\tno\n")
    row = replace(FACT, scenarios=("001-002", "001-004"), here=("table facts", "tool x"))
    assert specification.read_rows(path) == [row, replace(FACT, scenarios=(), here=(), note="no")]
    path.write_text(path.read_text() + "001\ttable\tfacts\n")
    with pytest.raises(ValueError, match=r"rows.tsv:4 has 3 columns instead of 6"):
        specification.read_rows(path)


def test_marks_are_read_as_they_would_be_collected(tmp_path: Path) -> None:
    path = tmp_path / "part" / "test_marked.py"
    path.parent.mkdir()
    path.write_text(MARKED)
    (tmp_path / "test_plain.py").write_text("def test_plain(): ...\n")
    assert specification.read_marks(tmp_path) == {
        name: [path] for name in ("class", "module", "one", "parameter", "two")
    }


def test_a_section_has_requirements_names_and_tests() -> None:
    test = specification.ROOT / "tests" / "test_ids.py"
    scenarios = [Scenario("002-005", "Words", "Kept up to date", [test]), Scenario("002-006", "Words", "Found", [])]
    rows = [
        Row("002", "requirement", "Words", (), ("tulving.domain.text.words",), "Or a|b (ADR 0003)."),
        Row("002", "table", "memory_fts", ("002-005",), ("table facts_fts", "command search"), ""),
        Row("002", "constant", "the <private> tag", ("002-005",), (), "Left out."),
        Row("003", "table", "other", ("003-001",), ("table facts",), ""),
    ]
    text = "before\n<!-- text 002 -->\nold\n<!-- end -->\nafter\n"
    made = specification.generated(text, rows, scenarios)
    assert specification.generated(made, rows, scenarios) == made
    assert made.startswith("before\n<!-- text 002 -->\n") and made.endswith("\n<!-- end -->\nafter\n")
    adr = "[ADR 0003](adr/0003-shared-sql-text-two-engines.md)"
    assert [line for line in made.splitlines() if line.startswith("| ") and "---" not in line][1::2] == [
        f"| Words | 002-005, 002-006 | [`text.words`](../src/tulving/domain/text.py) | Or a\\|b ({adr}). |",
        "| `memory_fts` | table | 002-005 | table `facts_fts`, `tulving search` |  |",
        "| Scenario | Test files |",
        "| 002-006 Found (SQLite only: it is about the index in the process) | none |",
    ]
    assert "| the &lt;private> tag | constant | 002-005 | not here | Left out. |" in made
    assert "| 002-005 Kept up to date (SQLite only: it is about FTS5) | [test_ids](../tests/test_ids.py) |" in made
    assert "old" not in made and "other" not in made


def test_the_script_writes_the_document_or_checks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, data = tmp_path / "page.md", tmp_path / "rows.tsv"
    page.write_text("<!-- text 001 -->\n<!-- end -->\n")
    data.write_text("\t".join(specification.COLUMNS) + "\n" + "001\ttable\tfacts\t001-002\ttable facts\t\n")
    (tmp_path / "scenarios.tsv").write_text("id\trequirement\tscenario\n")
    for name, value in {"ROOT": tmp_path, "ROWS": data, "DOCUMENT": page, "LIST": tmp_path / "scenarios.tsv"}.items():
        monkeypatch.setattr(specification, name, value)

    def run(*options: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["specification.py", *options])
        return specification.main(), capsys.readouterr().err

    unknown = "001 table 'facts' names 001-002, which is no scenario of this text\n"
    assert run("--check") == (1, f"{unknown}page.md is not current: run `make specification`\n")
    assert "facts" not in page.read_text()
    assert run() == (1, unknown) and "facts" in page.read_text()
    (tmp_path / "scenarios.tsv").write_text("id\trequirement\tscenario\n001-002\tTypes\tFact\n")
    data.write_text(data.read_text() + "001\trequirement\tTypes\t\ttable facts\t\n")
    assert run() == (0, "") and run("--check") == (0, "")
