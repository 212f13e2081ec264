"""The ids are those of the `tokenizers` package."""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from tulving.providers import weights
from tulving.providers.wordpiece import WordPiece

Ids = Callable[[str], list[int]]

TRICKY = [
    "",
    " ",
    "\t\r\n",
    "Hello, World!",
    "It's the user's e-mail: jane.doe@example.com, isn't it?",
    "snake_case camelCase $5+3=8 C++ #tag `code` ~x^y",
    "unaffable tokenization antidisestablishmentarianism supercalifragilistic",
    "café CAFÉ cafe\u0301 naïve Ångström ÀÉÎÕÜ",
    "ΟΔΥΣΣΕΥΣ Σ ς İstanbul ıI STRASSE straße ﬁ Ⅷ ① ½",
    "日本語テスト 中文字符 한국어 ㄱㄴㄷ",
    "नमस्ते दुनिया مرحبا بالعالم שָׁלוֹם สวัสดี",
    "👩‍👩‍👧 🏳️‍🌈 emoji 😀done",
    "a\x0bb\x0cc\x1cd\x1fe\x7ff\x85g\u200bh\ufeffi\u00adj",
    "a\u00a0b\u2028c\u2029d\u202fe\u3000f\u1680g",
    "\x00nul\x00 \ufffdreplaced\ufffd",
    "[CLS] [SEP] a[MASK]b [PAD][UNK] [mask] [ SEP ] [[SEP]] [SEP",
    "“quotes” «guillemets» …—–‐ ¿qué? ¡sí!",
    "x" * 100,
    "x" * 101,
    "y" * 5_000 + " end",
    "a" * 2_047 + " b",
    "a " * 1_023 + "boundary word",
    "é" * 2_048 + "e",
    "word " * 1_000,
    ",." * 400,
    "[SEP]" * 300,
]


@pytest.fixture(scope="module")
def reference(minilm_home: Path) -> Ids:
    tokenizer = BertWordPieceTokenizer(str(weights.directory(minilm_home) / weights.VOCABULARY.name), lowercase=True)
    tokenizer.enable_truncation(256)
    return lambda text: tokenizer.encode(text).ids


@pytest.fixture(scope="module")
def ids(minilm_home: Path) -> Ids:
    return WordPiece.from_file(weights.directory(minilm_home) / weights.VOCABULARY.name).ids


@pytest.mark.parametrize("text", TRICKY, ids=lambda text: ascii(text)[:30])
def test_tricky_texts(ids: Ids, reference: Ids, text: str) -> None:
    assert ids(text) == reference(text)


@pytest.fixture(scope="module")
def agreed(ids: Ids, reference: Ids) -> Callable[[str], bool]:
    """Whether a character is old enough for both to have it in their tables."""
    return cache(lambda character: ids(f"a{character}b") == reference(f"a{character}b"))


@given(text=st.text(max_size=200))
def test_any_text(ids: Ids, reference: Ids, agreed: Callable[[str], bool], text: str) -> None:
    assume(all(map(agreed, text)))
    assert ids(text) == reference(text)


@given(
    words=st.lists(st.sampled_from("The memory, of [SEP] don't\n ünsure 記憶 2024-05-08 \x00 e\u0301 #1".split(" ")))
)
def test_any_mixture_of_words(ids: Ids, reference: Ids, words: list[str]) -> None:
    for glue in ("", " "):
        assert ids(glue.join(words)) == reference(glue.join(words))


def test_all_common_characters(agreed: Callable[[str], bool]) -> None:
    latin_greek_cyrillic, punctuation, kana = range(0x530), range(0x2000, 0x2070), range(0x3000, 0x3100)
    assert [
        hex(code) for block in (latin_greek_cyrillic, punctuation, kana) for code in block if not agreed(chr(code))
    ] == []


def test_only_young_characters_differ(agreed: Callable[[str], bool]) -> None:
    codes = [code for code in range(0, 0x110000, 31) if not 0xD800 <= code <= 0xDFFF]
    assert sum(not agreed(chr(code)) for code in codes) < len(codes) / 1_000


@pytest.mark.parametrize(
    "text", ["The end. " * 110_000, "é" * 1_000_000, "字" * 1_000_000, " " * 1_000_000, "[" * 1_000_000]
)
def test_a_megabyte_costs_little(ids: Ids, text: str) -> None:
    ids("warm")
    before = time.process_time()
    assert len(ids(text)) <= 256
    assert time.process_time() - before < 0.5


def test_lone_surrogates_are_dropped(ids: Ids) -> None:
    assert ids("a\ud800b") == ids("ab")
