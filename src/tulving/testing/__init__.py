"""Deterministic parts for tests of your own: a clock you turn, ids that count, an embedder without a model.

`tulving.testing.conformance` is the contract of a storage engine as tests; it needs pytest.
"""

from tulving.testing.parts import CLOSE, ManualClock, SequentialIds, WordEmbedder

__all__ = ["CLOSE", "ManualClock", "SequentialIds", "WordEmbedder"]
