"""Every program in `examples/`, run as a user would: in a home of its own, without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tulving.providers import weights

ELSEWHERE = {"crewai_memory"}
"""Whose packages can't be in this environment: `integrations/test_crewai.py` runs it in another."""
EXAMPLES = sorted(
    path for path in (Path(__file__).parent.parent / "examples").glob("*.py") if path.stem not in ELSEWHERE
)
PRINTS = re.compile(r"^# Prints:\n((?:#.*\n)+)", re.MULTILINE)
NO_NETWORK = """
import runpy, socket, sys

def refuse(self, address, connect=socket.socket.connect):
    host = address[0] if isinstance(address, tuple) else None
    if host not in (None, "127.0.0.1", "::1", "localhost"):
        raise OSError(f"an example may not connect to {address}")
    return connect(self, address)

socket.socket.connect = refuse
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example(example: Path, tmp_path: Path, minilm_home: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "TULVING_WEIGHTS": str(weights.directory(minilm_home)),
    }
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK, example],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "an example shows what it does"
    if told := PRINTS.search(example.read_text()):
        assert done.stdout == re.sub(r"^# ?", "", told[1], flags=re.MULTILINE)
