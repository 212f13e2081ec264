"""`get_embedding_engine`: lazy, shared, light to import."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tulving import embedders
from tulving.config import load_config
from tulving.embedders import choose_embedder, get_embedding_engine
from tulving.errors import InvalidInput
from tulving.providers import EMBEDDERS, Provider


@pytest.fixture(autouse=True)
def no_engines_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedders, "_engines", {})


@pytest.mark.scenario("001-040")
def test_the_same_arguments_give_the_same_engine() -> None:
    first = get_embedding_engine()
    assert first.model == "all-MiniLM-L6-v2"
    assert get_embedding_engine() is first
    assert get_embedding_engine("minilm", dimension=384) is first
    hashing = get_embedding_engine("hashing")
    assert get_embedding_engine("hashing", dimension=256) is hashing
    assert get_embedding_engine("hashing", home=Path("anywhere")) is hashing


def test_other_arguments_give_another_engine(tmp_path: Path) -> None:
    engines = [
        get_embedding_engine(),
        get_embedding_engine(home=tmp_path),
        get_embedding_engine("hashing"),
        get_embedding_engine("hashing", dimension=128),
    ]
    assert len(set(map(id, engines))) == 4
    assert engines[3].dimension == 128


@pytest.mark.scenario("001-115")
def test_callers_on_many_threads_share_one_engine() -> None:
    together = Barrier(8)

    def ask(_: int) -> object:
        together.wait()
        return get_embedding_engine("hashing")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(ask, range(8))))) == 1


@pytest.mark.scenario("001-115")
def test_nothing_heavy_is_loaded_until_a_text_is_embedded() -> None:
    program = """
import sys
from tulving import get_embedding_engine
assert "platformdirs" not in sys.modules
engine = get_embedding_engine()
engine.unready()
print(sorted({"numpy", "onnxruntime", "pydantic"} & set(sys.modules)))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"'bert'.*minilm, hashing"):
        get_embedding_engine("bert")


def test_minilm_has_one_dimension() -> None:
    with pytest.raises(InvalidInput, match="384"):
        get_embedding_engine("minilm", dimension=256)


def test_the_table_is_true() -> None:
    """What is known of an embedder without importing it."""
    for name, provider in EMBEDDERS.items():
        if provider.table is not None:
            continue  # it depends on the settings
        engine = get_embedding_engine(name)
        assert (engine.dimension, type(engine).__module__) == (provider.dimension, provider.place.partition(":")[0])


def test_an_embedder_is_registered_by_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings, the command line and the choice of an embedder all read the table."""
    monkeypatch.setitem(EMBEDDERS, "words", Provider("tulving.testing:WordEmbedder", 64, ("dimension",), False))
    config = load_config(environ={}, embedder="words", dimension=8)
    engine = choose_embedder(config)
    assert (engine.model, engine.dimension) == ("words", 8)
    assert choose_embedder(config, "minilm").dimension == 384, "a dimension is for those that have a choice"
    with pytest.raises(InvalidInput, match=r"minilm, hashing, .*words"):
        load_config(environ={}, embedder="bert")
