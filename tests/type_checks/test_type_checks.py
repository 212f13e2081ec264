"""The types as users see them: mypy and pyright complain of wrong programs, where they should, and of nothing else."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import blocking_stub

HERE = Path(__file__).parent
PROGRAMS = [HERE / "asynchronous.py", HERE / "synchronous.py"]
Complaints = Counter[tuple[str, int, str]]
"""The name of a program, the line, and the rule."""


def expected(checker: str) -> Complaints:
    """What the comments of the programs say."""
    said: Complaints = Counter()
    for program in PROGRAMS:
        for number, line in enumerate(program.read_text().splitlines(), 1):
            if rules := re.search(rf"#.*\b{checker}: ([\w, -]+)", line):
                said.update((program.name, number, rule.strip()) for rule in rules[1].split(","))
    assert said
    return said


def check(module: str, *options: str) -> str:
    command = [sys.executable, "-m", module, *options, *map(str, PROGRAMS)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=110)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_mypy(tmp_path: Path) -> None:
    said = check("mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", "")
    found = re.findall(r"^(?:.*/)?(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE)
    assert Counter((name, int(line), rule) for name, line, rule in found) == expected("mypy")


def test_pyright() -> None:
    said = json.loads(check("pyright", "--outputjson", "--pythonpath", sys.executable))
    found = [(each["file"], each["range"]["start"]["line"], each["rule"]) for each in said["generalDiagnostics"]]
    assert Counter((Path(file).name, line + 1, rule) for file, line, rule in found) == expected("pyright")


def test_the_types_of_the_synchronous_memory_are_those_of_the_asynchronous_one() -> None:
    assert blocking_stub.STUB.read_text() == blocking_stub.written(), "run: python scripts/blocking_stub.py"
