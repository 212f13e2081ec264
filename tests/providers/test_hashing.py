import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.stopwords import STOP_WORDS
from tulving.errors import InvalidInput
from tulving.providers.hashing import Hashing, fnv1a, idf, words


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def length(vector: Sequence[float]) -> float:
    return sqrt(dot(vector, vector))


@pytest.fixture(scope="module")
def hashing() -> Hashing:
    return Hashing()


@pytest.mark.scenario("002-009")
@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968), (b"hello", 0x4F9F2CAB)],
)
def test_fnv1a_gives_its_published_values(data: bytes, value: int) -> None:
    assert fnv1a(data) == value


@pytest.mark.scenario("002-009")
def test_words_are_lowercased_and_split_at_whitespace_and_punctuation() -> None:
    text = "Deploy-Server\tnode_7 (PostgreSQL),e-mail:jane@x.org\nSTRASSE/straße"
    assert words(text) == [
        *("deploy", "server", "node", "7", "postgresql", "e", "mail", "jane", "x", "org"),
        *("strasse", "strasse"),
    ]


@pytest.mark.scenario("002-009")
def test_stop_words_are_removed() -> None:
    assert words("I don't know what the user's coffee is") == ["know", "user", "coffee"]
    assert all(word == word.casefold() for word in STOP_WORDS)
    assert 100 < len(STOP_WORDS) < 200


def test_words_of_other_scripts() -> None:
    assert words("Café CAFÉ cafe\u0301") == ["café"] * 3
    assert words("नमस्ते दुनिया") == ["नमस्ते", "दुनिया"]
    assert words("我喜欢咖啡!") == list("我喜欢咖啡")
    assert words("a1\x00b2\ud800c3") == ["a1", "b2", "c3"]


@pytest.mark.scenario("002-009")
def test_a_word_goes_to_its_bucket_with_its_weight(hashing: Hashing) -> None:
    coffee, zebra = fnv1a(b"coffee") % 256, fnv1a(b"zebra") % 256
    assert coffee != zebra
    vector = hashing.embed("coffee zebra coffee, the COFFEE")
    ratio = (1 + log(3)) * idf("coffee") / idf("zebra")
    assert abs(vector[coffee] / vector[zebra]) == pytest.approx(ratio)
    assert {bucket for bucket, weight in enumerate(vector) if weight} == {coffee, zebra}


@pytest.mark.scenario("002-009")
def test_the_sign_is_the_highest_bit_of_the_hash(hashing: Hashing) -> None:
    for word in ("coffee", "zebra", "python", "doctor", "budget"):
        value = fnv1a(word.encode())
        assert hashing.embed(word)[value % 256] == (-1 if value >> 31 else 1)


@pytest.mark.scenario("002-009")
def test_rare_words_weigh_more(hashing: Hashing) -> None:
    assert 0 < idf("used") < idf("coffee") < idf("zebra") < idf("qwxyzzy") == idf("another unknown")
    plain, rare = hashing.embed("person python"), hashing.embed("python")
    assert dot(plain, rare) > dot(plain, hashing.embed("person"))


@pytest.mark.scenario("002-010")
@pytest.mark.parametrize("dimension", [16, 128, 256, 1_000, 4_096])
def test_every_text_has_the_same_dimension(dimension: int) -> None:
    hashing = Hashing(dimension)
    texts = ["short", "a much longer text about many things " * 100, "日本語", None, ""]
    assert [len(vector) for vector in hashing.embed_batch(texts)] == [dimension] * 5
    assert (hashing.dimension, hashing.model) == (dimension, f"hashing-{dimension}")


@pytest.mark.scenario("002-010")
def test_the_default_dimension_is_256(hashing: Hashing) -> None:
    assert hashing.dimension == len(hashing.embed("anything")) == 256


@pytest.mark.scenario("002-010")
@given(text=st.text())
def test_the_same_text_has_the_same_vector_of_length_1(text: str) -> None:
    vector = Hashing().embed(text)
    assert vector == Hashing().embed(text)
    if words(text) and any(vector):
        assert length(vector) == pytest.approx(1)


@pytest.mark.scenario("002-010")
def test_a_changed_vector_needs_a_new_version(hashing: Hashing) -> None:
    """Stores keep vectors under `version`: if this fails, raise IDF_VERSION before the value here."""
    texts = ["The user prefers dark roast coffee.", "Déjà vu: 2 naïve CAFÉS", "zebra zebra python", "記憶"]
    vectors = [[round(number, 9) for number in hashing.embed(text)] for text in texts]
    seen = hashlib.sha256(json.dumps([vectors, sorted(STOP_WORDS)]).encode()).hexdigest()
    assert (hashing.version, seen[:16]) == ("idf-en-1", "3fbd18da700ad118")


@pytest.mark.parametrize("text", [None, "", " ", "the and of it's", "?!", "\x00"])
def test_a_text_without_words_is_all_zeros(hashing: Hashing, text: str | None) -> None:
    assert hashing.embed(text) == [0.0] * 256


def test_similar_texts_are_near_and_unrelated_ones_are_not(hashing: Hashing) -> None:
    coffee, same, other = hashing.embed_batch(
        [
            "The user likes strong coffee in the morning",
            "User drinks strong coffee each morning",
            "The database server was deployed on Friday",
        ]
    )
    assert dot(coffee, same) > 0.5
    assert abs(dot(coffee, other)) < 0.2


def test_a_batch_keeps_the_order(hashing: Hashing) -> None:
    texts = ["coffee", None, "zebra", "python"]
    assert hashing.embed_batch(texts) == [hashing.embed(text) for text in texts]
    assert hashing.embed_batch([]) == []


@pytest.mark.parametrize("dimension", [0, 15, 4_097, -256, 256.0, True, "256", None])
def test_a_bad_dimension_is_refused(dimension: object) -> None:
    with pytest.raises(InvalidInput, match="16 to 4096"):
        Hashing(dimension)  # type: ignore[arg-type]


def test_it_is_light_and_always_ready(hashing: Hashing) -> None:
    assert hashing.light and hashing.unready() is None
    text = "The user asked to move the weekly planning meeting with the design team from Monday to Thursday " * 2
    hashing.embed(text)
    fastest = min(_seconds(hashing, text) for _ in range(50))
    assert fastest < 500e-6


def _seconds(hashing: Hashing, text: str) -> float:
    before = time.perf_counter()
    hashing.embed(text)
    return time.perf_counter() - before


@pytest.mark.parametrize("text", ["many words " * 90_000, "x" * 1_000_000, "字" * 330_000])
def test_a_megabyte_is_no_problem(hashing: Hashing, text: str) -> None:
    before = time.process_time()
    assert length(hashing.embed(text)) == pytest.approx(1)
    assert time.process_time() - before < 2


def test_threads_may_share_it() -> None:
    hashing = Hashing()
    texts = [f"text number {number} about topic {number % 7}" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(hashing.embed, texts)) == Hashing().embed_batch(texts)
