"""Text as it is stored, indexed, embedded and compared: one function for each, shared by both engines."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from tulving.domain.model import Episode, Fact, Item
from tulving.domain.stopwords import OTHER_STOP_WORDS, STOP_WORDS

SEARCH_TEXT_BYTES = 1_048_576
MONTHS = ("January February March April May June July August September October November December").split()
LONGEST_COMPOUND = 30
"""Of a longer word of a query, parts further behind are not looked for."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]{1,255}")  # PostgreSQL does not index longer words, so they are split
# Invisible characters may stand between; at the end of a text, what is shown after it follows.
_TAG = re.compile(r"<(?=[\s\x00-\x1f\x7f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*(?:[^\W\d_]|[/!?]|\Z))")
LONGEST_PIECE = 4080  # 16 times the longest word, so that splitting changes no word
_PIECE = re.compile(rf".{{1,{LONGEST_PIECE}}}(?:\s|$)|.{{1,{LONGEST_PIECE}}}")
_TATWEEL = "\u0640"  # stretches an Arabic word, for looks only
# The article and prepositions, which Arabic writes as part of the next word.
_CLITICS = ("", *"ال و وال ب بال ل لل".split())
_CLITIC = re.compile("(?:[وفبك]?ال|لل)(?=..)")
_UMLAUT = re.compile("(?<=[aou])e")  # as in "fuer", typed where a keyboard has no umlauts
_ARABIC = re.compile("[\u0621-\u064a]")
_IDEOGRAPH = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


def clean(text: str) -> str:
    """The text without NUL and lone surrogates, which no database can store."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text if text.isascii() else _SURROGATE.sub("", text)


def preprocess_text(text: str | None) -> str:
    """001-041, 001-042: the input of the keyword index: one line, single spaces, at most 1 MB of UTF-8."""
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
    """The form in which texts are compared: case and white space do not count."""
    return " ".join(text.casefold().split())


def content_hash(text: str) -> str:
    """The identity of a content; equal for contents that differ only in case or white space."""
    return hashlib.sha256(fold(text).encode()).hexdigest()[:32]


def words(text: str) -> list[str]:
    """The words of a text as both engines index them: folded, without accents and other marks.

    Each ideograph is a word of its own, since such scripts do not separate words by spaces.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    letters = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(c for c in letters if c.isascii() or (unicodedata.category(c)[0] != "M" and c != _TATWEEL))
    return _WORD.findall(_IDEOGRAPH.sub(r" \1 ", bare))


def lookup_terms(query: str | None, most: int = 64) -> list[str]:
    """The distinct words of a query, as the keyword index is asked for them; stop words only if there are no others.

    Only English words are stemmed in the index. A term of another language therefore lists alternatives, separated by
    `|`; one that ends with `*` stands for every word that begins with it. Neither character occurs in a word.
    """
    terms, language = understood(query)
    if language == "en":
        return terms[:most]
    return ["|".join(dict.fromkeys(_forms(term, language))) for term in terms[:most]]


def understood(query: str | None) -> tuple[list[str], str]:
    """The words of a query without the stop words of its language, and the language: the one with the most stop words;
    without any, English if all is ASCII, else unknown ("")."""
    line = preprocess_search_query(query)
    found = list(dict.fromkeys(words(line)))
    counts = {name: len(stops.intersection(found)) for name, stops in OTHER_STOP_WORDS.items()}
    language = max(counts, key=counts.__getitem__)
    english = len(STOP_WORDS.intersection(found))
    if english > counts[language] or (english == counts[language] and line.isascii()):
        return [word for word in found if word not in STOP_WORDS] or found, "en"
    if not counts[language]:
        return found, ""
    return [word for word in found if word not in OTHER_STOP_WORDS[language]] or found, language


def _forms(word: str, language: str) -> list[str]:
    """A word and the beginnings of words that may be forms of it, or part of the same compound."""
    if _ARABIC.match(word):
        core = _CLITIC.sub("", word, count=1)
        return [word, *(f"{clitic}{_stub(core)}*" for clitic in _CLITICS)]
    if len(word) < 4 or not word.isalpha():
        return [word]
    forms = [word, f"{_stub(word)}*"]
    if language == "de":
        forms.append(f"{_stub(_UMLAUT.sub('', word))}*")
    if len(word) > 9:
        forms += (f"{word[at : at + 5]}*" for at in range(3, min(len(word), LONGEST_COMPOUND) - 4))
    return forms


def _stub(word: str) -> str:
    """The first two thirds of a word, at least 3 letters: what its inflected forms have in common."""
    return word[: max(3, -(-2 * len(word) // 3))]


def found_by(item: Item) -> str:
    """The text that a memory's words are indexed from. Decided only here."""
    if isinstance(item, Fact):
        return f"{item.subject} {item.predicate} {item.content}"
    if isinstance(item, Episode):
        when = item.occurred_at
        date = f"[{when.day} {MONTHS[when.month - 1]} {when.year}]" if when else None
        said = f"{item.source}: {item.content}" if item.source else item.content
        return " ".join(part for part in (date, item.title, said) if part)
    return item.content


def meant_by(item: Item) -> str:
    """The text that a memory is embedded by. Speaker and date are left out: they are signals of their own, and in the
    text they drown its meaning. A long text is embedded by its opening, which says what it is about: the whole would
    hide a short message behind the long reply to it."""
    if not isinstance(item, Episode):
        return found_by(item)
    text = f"{item.title or ''}\n{item.content}".strip()
    if len(text) <= LONGEST_MEANT:
        return text
    opening = _OPENING.match(text)
    return (opening[0] if opening else text)[:LONGEST_MEANT].rstrip()


LONGEST_MEANT = 1_000
"""Characters, about as many as MiniLM reads: 256 tokens."""
_OPENING = re.compile(r"(?s:.){240,}?(?=\n|$)")


def search_text(text: str) -> str:
    """The words of a text separated by single spaces, as stored for the keyword index.

    Processed in pieces, so that a long text does not block other threads.
    """
    line = preprocess_text(text)
    if len(line) <= LONGEST_PIECE:
        return " ".join(words(line))
    return " ".join(word for piece in _PIECE.findall(line) for word in words(piece))


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters; a longer one is cut and ends with a note of its full length."""
    if len(text) <= most:
        return text
    mark = f" … [cut: {len(text):,} characters in all]"
    return text[: max(0, most - len(mark))] + mark


def levelled(texts: Sequence[str], budget: int, least: int, most: int) -> list[str]:
    """Texts of at most `most` characters each and about `budget` in all: as if water were poured over them, the longest
    are cut to one length and shorter ones stay whole. That length is never below `least`. A text that is cut ends with
    a note of what is missing."""
    left, waiting = budget, len(texts)
    for length in sorted(map(len, texts)):
        if length * waiting > left:
            most = max(least, min(most, left // waiting))
            break
        left, waiting = left - length, waiting - 1
    return [
        text if len(text) <= most else f"{text[:most]} … [{len(text) - most:,} more characters; memory_get has all]"
        for text in texts
    ]


def escape_markup(text: str) -> str:
    """Stored text for a prompt: what could begin a tag can't, so that it closes no block and opens none. All other text
    is unchanged."""
    return _TAG.sub("&lt;", text)


CHARACTERS_A_TOKEN = 16
"""More than any text has: a longer one is too long without being counted."""


def count_tokens(text: str) -> int:
    """The default token counter: four characters per token, rounded up."""
    return -(-len(text) // 4)
