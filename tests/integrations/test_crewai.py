"""The storage of CrewAI. Its package can't be in one environment with that of MCP, so it gets one of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("crewai_memory.py")


@pytest.mark.install
@pytest.mark.timeout(600)
def test_a_memory_of_crewai_beside_the_base_install(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    python = tmp_path / "env/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "env"], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "crewai", ROOT], check=True)
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "HOME": str(tmp_path)}
    done = subprocess.run(
        [python, SCRIPT, tmp_path / "memory.db"], env={**os.environ, **quiet}, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr
