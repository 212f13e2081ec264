import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path

import pytest

from tulving.errors import WeightsError
from tulving.providers import minilm as module
from tulving.providers import weights
from tulving.providers.minilm import MiniLm

TRIO = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def distance(left: Sequence[float], right: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))


@pytest.mark.scenario("001-038")
def test_a_text_becomes_384_floats(minilm: MiniLm) -> None:
    vector = minilm.embed("The user prefers tea.")
    assert isinstance(vector, list) and all(type(number) is float for number in vector)
    assert len(vector) == minilm.dimension == 384
    assert sqrt(dot(vector, vector)) == pytest.approx(1, abs=1e-5)


@pytest.mark.scenario("001-038")
def test_no_text_counts_as_one_space(minilm: MiniLm) -> None:
    assert minilm.embed(None) == minilm.embed("") == minilm.embed(" ")
    assert all(distance(vector, minilm.embed(" ")) < 1e-5 for vector in minilm.embed_batch([None, "", " "]))


@pytest.mark.scenario("001-039")
def test_a_batch_gives_one_vector_per_text_in_order(minilm: MiniLm) -> None:
    texts = ["word " * count + str(count) for count in (300, 1, 40, 2, 90, 3, 250, 17, 0, 5)] * 5 + [None]
    vectors = minilm.embed_batch(texts)
    assert [len(vector) for vector in vectors] == [384] * len(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert distance(vector, minilm.embed(text)) < 1e-5


@pytest.mark.scenario("001-039")
def test_an_empty_batch_is_empty(minilm: MiniLm, tmp_path: Path) -> None:
    assert minilm.embed_batch([]) == []
    assert MiniLm(tmp_path).embed_batch([]) == [], "and needs no weights"


@pytest.mark.scenario("004-002")
def test_it_is_the_true_model(minilm: MiniLm) -> None:
    """The similarities and vectors that the model's authors publish for it."""
    weather, sunny, stadium = minilm.embed_batch(TRIO)
    assert dot(weather, sunny) == pytest.approx(0.6660, abs=1e-4)
    assert dot(weather, stadium) == pytest.approx(0.1046, abs=1e-4)
    assert dot(sunny, stadium) == pytest.approx(0.1411, abs=1e-4)
    example = minilm.embed("This is an example sentence")
    assert example[:4] == pytest.approx([0.06765691, 0.06349593, 0.04871312, 0.07930496], abs=1e-5)


def test_it_tells_what_it_is(minilm: MiniLm) -> None:
    assert (minilm.model, minilm.version, minilm.light) == ("all-MiniLM-L6-v2", "53aa5117", False)


def test_only_the_first_256_tokens_count(minilm: MiniLm) -> None:
    long = "river " * 254
    assert minilm.embed(long + "volcano") == minilm.embed(long)
    assert minilm.embed("river " * 253 + "volcano") != minilm.embed(long)


@pytest.mark.parametrize("text", ["A long story. " * 75_000, "Überraschung " * 80_000, "雨" * 350_000, "x" * 1_000_000])
def test_a_megabyte_costs_little_more_than_its_beginning(minilm: MiniLm, text: str) -> None:
    minilm.embed("loaded")
    before = time.process_time()
    assert len(minilm.embed(text)) == 384
    assert time.process_time() - before < 1


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "a\x00b", "\ufeff\u200b", "👩‍👩‍👧", "\U0010ffff"])
def test_odd_characters_do_no_harm(minilm: MiniLm, text: str) -> None:
    vector = minilm.embed(text)
    assert dot(vector, vector) == pytest.approx(1, abs=1e-5)


def test_control_characters_and_lone_surrogates_are_as_if_absent(minilm: MiniLm) -> None:
    assert minilm.embed("coffee\x00\ud800 house") == minilm.embed("coffee house")


def test_threads_load_it_once_and_get_the_same(minilm_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    class Counted(module._Network):
        def __init__(self, folder: Path) -> None:
            loaded.append(folder)
            super().__init__(folder)

    monkeypatch.setattr(module, "_Network", Counted)
    engine = MiniLm(minilm_home)
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(engine.embed, TRIO * 16))
    assert len(loaded) == 1
    assert vectors == [engine.embed(text) for text in TRIO] * 16


def test_without_weights_it_says_what_to_do(tmp_path: Path) -> None:
    engine = MiniLm(tmp_path)
    problem = engine.unready()
    assert problem is not None and "`tulving init`" in problem and "`tulving init --from PATH`" in problem
    with pytest.raises(WeightsError, match="tulving init"):
        engine.embed("anything")


def test_it_gets_ready_when_the_weights_arrive(minilm_home: Path, tmp_path: Path) -> None:
    engine = MiniLm(tmp_path)
    assert engine.unready()
    weights.install(tmp_path, source=weights.directory(minilm_home))
    assert engine.unready() is None
    assert len(engine.embed("ready")) == 384


def test_weights_of_another_model_are_refused(
    minilm_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = weights.directory(minilm_home) / weights.VOCABULARY.name
    (tmp_path / vocabulary.name).write_bytes(vocabulary.read_bytes())
    with (tmp_path / weights.MODEL.name).open("wb") as model:
        model.truncate(weights.MODEL.size)
    monkeypatch.setenv("TULVING_WEIGHTS", str(tmp_path))
    with pytest.raises(WeightsError, match=r"model\.safetensors.*sha256"):
        MiniLm(tmp_path).embed("anything")


def test_linked_folders_and_files_are_followed(minilm_home: Path, tmp_path: Path) -> None:
    """As in a home on another disk, or a package that uv linked from its cache."""
    real = weights.directory(minilm_home)
    folder = weights.directory(tmp_path)
    folder.mkdir(parents=True)
    for file in weights.FILES:
        (folder / file.name).symlink_to(real / file.name)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    assert len(MiniLm(tmp_path / "link").embed("linked")) == 384


@pytest.mark.parametrize(
    ("query", "trusted"),
    [
        ("where is the key?", True),
        ("Où est la clé de l’hôtel?", True),
        ("где ключ?", False),
        ("鍵はどこ", False),
        ("أين المفتاح", False),
        ("Anna где ключ от машины", False),
        ("keys ключ", True),
        ("42?", True),
        ("", True),
    ],
)
def test_its_similarities_count_less_where_most_letters_are_not_latin(tmp_path, query, trusted):
    assert (MiniLm(tmp_path).trust(query) == 1.0) is trusted
