"""The storage of CrewAI. Its package can't be in one environment with that of MCP, so it gets one of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tulving.providers import weights

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("crewai_memory.py")


@pytest.mark.install
@pytest.mark.timeout(600)
def test_a_memory_of_crewai_beside_the_base_install(tmp_path: Path, minilm_home: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    python = tmp_path / "env/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "env"], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "crewai", ROOT], check=True)
    environ = {
        **os.environ,
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
        "HOME": str(tmp_path),
        "TULVING_WEIGHTS": str(weights.directory(minilm_home)),
    }
    for program in (SCRIPT, ROOT / "examples/crewai_memory.py"):
        done = subprocess.run(
            [python, program, tmp_path / "test.db"], cwd=tmp_path, env=environ, capture_output=True, text=True
        )
        last = program.read_text().rstrip().splitlines()[-1].removeprefix("# ")
        assert done.stdout.splitlines()[-1:] == ["done" if program is SCRIPT else last], done.stdout + done.stderr
