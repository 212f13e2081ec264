"""Embedding sends no telemetry and leaves nothing behind, not even what our libraries do by default."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tulving.providers import weights

PROGRAM = """
import json, os, sys, threading
from pathlib import Path

asked = []
sys.addaudithook(lambda event, args: asked.append(event) if event.startswith("socket.") else None)

def threads():
    return len(os.listdir("/proc/self/task"))

def opened():
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sorted({os.readlink(link) for link in links if os.path.lexists(link)})

import numpy  # its own threads only calculate
calculating, before = threads(), opened()

from tulving.providers.minilm import MiniLm
vector = MiniLm(Path(sys.argv[1])).embed("a text")
print(json.dumps({
    "dimension": len(vector),
    "switch": os.environ.get("ORT_DISABLE_TELEMETRY"),
    "asked": asked,
    "threads": threads() - calculating,
    "opened": [name for name in opened() if name not in before],
}))
"""


@pytest.mark.parametrize("switch", [None, "0"], ids=["not asked", "asked for"])
def test_embedding_contacts_no_host_and_writes_only_to_its_own_folder(
    minilm_home: Path, tmp_path: Path, switch: str | None
) -> None:
    """onnxruntime's telemetry comes from a thread, with a file in the home, so the absence of both is what is tested:
    it may look up its host minutes later. /proc shows what its C++ does; an audit hook sees no more
    than Python."""
    real, ours, home = weights.directory(minilm_home), tmp_path / "ours", tmp_path / "home"
    home.mkdir()
    weights.directory(ours).mkdir(parents=True)
    for file in weights.FILES:
        (weights.directory(ours) / file.name).symlink_to(real / file.name)
    kept = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
    environ = {name: os.environ[name] for name in kept if name in os.environ}
    environ |= {"HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    if switch is not None:
        environ["ORT_DISABLE_TELEMETRY"] = switch
    command = [sys.executable, "-c", PROGRAM, str(ours)]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    new_files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(new_files) == [
        "ours/models/all-MiniLM-L6-v2/model.safetensors",
        "ours/models/all-MiniLM-L6-v2/vocab.txt",
        "ours/models/digests.json",
    ]
    assert found == {"dimension": 384, "switch": "1", "asked": [], "threads": 0, "opened": []}
