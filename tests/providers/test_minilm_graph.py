"""The shipped graph is what its script builds."""

from pathlib import Path

import pytest

from tulving.providers import weights

pytest.importorskip("onnx")


def test_the_script_builds_the_shipped_graph(minilm_home: Path) -> None:
    import build_minilm_graph as script

    tensors = script.Tensors(weights.directory(minilm_home) / weights.MODEL.name)
    assert script.build(tensors).SerializeToString(deterministic=True) == script.GRAPH.read_bytes()
