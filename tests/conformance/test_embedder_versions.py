"""One embedder per store, and the change to another."""

from dataclasses import replace

import pytest
from conformance_parts import EAST, NOW, ONE, Opened, ask, entry, episode, fact, found, put, rule

from tulving.domain.events import Audit
from tulving.domain.model import KINDS
from tulving.domain.scope import Caller
from tulving.errors import EmbedderMismatch, IntegrityError
from tulving.storage import embeddings, verification
from tulving.testing import CLOSE, SequentialIds, WordEmbedder


def test_a_store_has_one_embedder(store: Opened) -> None:
    assert store.read(embeddings.adopt_version, WordEmbedder(4), NOW) == 1
    assert store.read(embeddings.adopt_version, WordEmbedder(5), NOW, True) is None
    with pytest.raises(EmbedderMismatch):
        store.read(embeddings.adopt_version, WordEmbedder(5), NOW)
    for wrong in ({"embedding_version": 2}, {"vector": (1.0, 0.0)}):
        with pytest.raises(EmbedderMismatch):
            store.read(ask, **{"vector": EAST, **wrong})


def test_vectors_may_change_their_dimension(store: Opened) -> None:
    store.write(put, rule(1), fact(2), episode(3), vector=EAST)
    audit = Audit(Caller(ONE), NOW, SequentialIds(900))
    for dimension in (3, 4, 2000):
        vector = (1.0,) * dimension
        embedder = WordEmbedder(dimension, version=f"for {dimension}")
        number = store.write(embeddings.begin_reembedding, embedder, NOW, on_behalf=None)
        assert store.write(embeddings.switch, number, audit, on_behalf=None) is False, "some are not converted yet"
        waiting = store.read(embeddings.unconverted, 10, on_behalf=None)
        converted = [(kind, item, replace(entry(item, vector), embedding_version=number)) for kind, item in waiting]
        store.write(embeddings.add_converted, number, converted, on_behalf=None)
        assert store.write(embeddings.switch, number, audit, on_behalf=None)
        lanes = store.read(ask, *KINDS, vector=vector, embedding_version=number)
        assert sorted(found(lanes.semantic)) == [1, 2, 3]
        assert list(lanes.semantic.values()) == pytest.approx([1.0] * 3, abs=CLOSE)
        assert [one for one in store.read(verification.verify, on_behalf=None) if one.problems] == []


def test_each_embedder_has_a_number_of_its_own(store: Opened) -> None:
    """A process that still converts to an abandoned version must not write into the next one."""
    first = store.write(embeddings.begin_reembedding, WordEmbedder(4, version="a"), NOW, on_behalf=None)
    second = store.write(embeddings.begin_reembedding, WordEmbedder(4, version="b"), NOW, on_behalf=None)
    assert first != second
    late = [("rule", rule(1), replace(entry(rule(1), EAST), embedding_version=first))]
    with pytest.raises(IntegrityError):
        store.write(embeddings.add_converted, first, late, on_behalf=None)
