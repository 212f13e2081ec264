"""Text as it is kept, indexed, embedded and compared. One function per meaning, for both engines."""

import hashlib
import re
import unicodedata

from tulving.domain.model import Episode, Fact, Item
from tulving.domain.stopwords import STOP_WORDS

SEARCH_TEXT_BYTES = 1_048_576
_MONTHS = ("January February March April May June July August September October November December").split()
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]{1,255}")  # PostgreSQL leaves out longer ones; in pieces they are found
_PIECE = re.compile(r".{1,4080}(?:\s|$)|.{1,4080}")  # of 16 times the longest word, so that no word changes
_ACCENT = re.compile(r"[\u0300-\u036f]+")
_IDEOGRAPH = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


def clean(text: str) -> str:
    """Without NUL and lone surrogates, which no database can hold; nothing else is touched."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text if text.isascii() else _SURROGATE.sub("", text)


def preprocess_text(text: str | None) -> str:
    """001-041, 001-042: what goes into the keyword index: one line, single spaces, at most 1 MB of UTF-8."""
    line = preprocess_search_query(text)
    if len(line) * 4 <= SEARCH_TEXT_BYTES:
        return line
    encoded = line.encode()
    if len(encoded) <= SEARCH_TEXT_BYTES:
        return line
    return encoded[:SEARCH_TEXT_BYTES].decode(errors="ignore").rstrip()


def preprocess_search_query(query: str | None) -> str:
    """001-043: a query on one line; empty when there is nothing to search for."""
    return " ".join(clean(query).split()) if query else ""


def fold(text: str) -> str:
    """The form in which two texts are the same text: case and white space do not count."""
    return " ".join(text.casefold().split())


def content_hash(text: str) -> str:
    """Identity of a content, equal for contents that differ in case or white space only."""
    return hashlib.sha256(fold(text).encode()).hexdigest()[:32]


def words(text: str) -> list[str]:
    """The words of a text as both engines index them: folded, without accents.

    An ideograph is a word of its own, since such scripts do not mark words by spaces.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return _WORD.findall(_IDEOGRAPH.sub(r" \1 ", bare))


def query_terms(query: str | None, most: int = 64) -> list[str]:
    """The distinct words to look up. Stop words count only when there is nothing else."""
    found = dict.fromkeys(words(preprocess_search_query(query)))
    return ([term for term in found if term not in STOP_WORDS] or list(found))[:most]


def found_by(item: Item) -> str:
    """What a memory is found by, in words and in meaning: the one place where that is decided."""
    if isinstance(item, Fact):
        return f"{item.subject} {item.predicate} {item.content}"
    if isinstance(item, Episode):
        when = item.occurred_at
        date = f"[{when.day} {_MONTHS[when.month - 1]} {when.year}]" if when else None
        said = f"{item.source}: {item.content}" if item.source else item.content
        return " ".join(part for part in (date, item.title, said) if part)
    return item.content


def search_text(text: str) -> str:
    """The stored form that the keyword index reads: words with single spaces between them.

    Made piece by piece, so that other threads have their turn while a long one is made.
    """
    return " ".join(word for piece in _PIECE.findall(preprocess_text(text)) for word in words(piece))


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters: of a longer one the beginning, and a mark that says how long it is."""
    if len(text) <= most:
        return text
    mark = f" … [cut: {len(text):,} characters in all]"
    return text[: max(0, most - len(mark))] + mark


def count_tokens(text: str) -> int:
    """The default token counter: four characters a token, rounded up."""
    return -(-len(text) // 4)
