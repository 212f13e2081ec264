"""The shipped graph is what its script builds."""

import importlib.util
from pathlib import Path

import pytest

from tulving.providers import weights

pytest.importorskip("onnx")


def test_the_script_builds_the_shipped_graph(minilm_home: Path) -> None:
    path = Path(__file__).parents[2] / "scripts" / "build_minilm_graph.py"
    spec = importlib.util.spec_from_file_location("build_minilm_graph", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    tensors = script.Tensors(weights.directory(minilm_home) / weights.MODEL.name)
    assert script.build(tensors).SerializeToString(deterministic=True) == script.GRAPH.read_bytes()
