"""The count of scenarios without a test: by engine, from the tests as pytest collects them."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent / "scripts"
FIXTURES = """
import pytest

def pytest_generate_tests(metafunc):
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", ["sqlite"] if "path" in metafunc.fixturenames else ["sqlite", "postgres"])

@pytest.fixture
def memory(engine): ...

@pytest.fixture
def path(): ...

@pytest.fixture
def postgres(): ...

@pytest.fixture
def database(postgres): ...
"""
TESTS = """
import pytest

@pytest.mark.scenario("both", "twice")
def test_memory(memory): ...

@pytest.mark.scenario("file", "once")
def test_file(memory, path): ...

@pytest.mark.scenario("alone")
def test_path(path): ...

@pytest.mark.scenario("server", "twice")
def test_server(database): ...

@pytest.mark.scenario("pure")
class TestPure:
    def test_pure(self): ...

@pytest.mark.skip
@pytest.mark.scenario("skipped")
def test_skipped(): ...

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.xfail), 2])
@pytest.mark.scenario("half")
def test_half(memory, n): ...

@pytest.mark.xfail
@pytest.mark.scenario("failing")
def test_failing(): ...

@pytest.mark.scenario
def test_nothing(): ...
"""
PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from scenarios import collect
marked = collect(Path(sys.argv[2]))
print(json.dumps([{name: sorted(engines) for name, engines in marked.shown.items()}, marked.problems]))
"""


def collected(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = scenario\n")
    command = [sys.executable, "-c", PROGRAM, str(SCRIPTS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    shown, problems = json.loads(done.stdout)
    return shown, problems


def test_a_scenario_is_counted_on_the_engines_of_its_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FIXTURES)
    (tmp_path / "test_all.py").write_text(TESTS)
    shown, problems = collected(tmp_path)
    both, file, server = ["postgres", "sqlite"], ["sqlite"], ["postgres"]
    assert {name for name, engines in shown.items() if engines == both} == {"both", "twice", "pure", "half"}
    assert {name for name, engines in shown.items() if engines == file} == {"file", "once", "alone"}
    assert {name for name, engines in shown.items() if engines == server} == {"server"}
    assert len(shown) == 8 and problems == ["test_all.py::test_nothing: a scenario mark without an id"]


def test_tests_that_can_not_be_collected_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text("import nothing_of_that_name\n")
    _, (problem,) = collected(tmp_path)
    assert "can't be collected" in problem and "nothing_of_that_name" in problem
