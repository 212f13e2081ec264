"""The names that a tenant knows, and where a query mentions them.

All memories of a speaker carry the speaker's name, so it says little about what a query is after: `Names.without`
leaves such names out. A name may also be an ordinary word ("Will", "May", a source "garden"); then its capital letter
decides, and in doubt the word stays.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from tulving.domain.resolution import NamedEntity
from tulving.domain.stopwords import STOP_WORDS

MOST_WORDS = 6
"""A longer name is a title or a description, and seldom mentioned in full."""
ROLES = frozenset(
    """
    agent ai anonymous assistant bot caller chat chatbot client cli api customer developer document email file function
    guest human i import input llm mail me meeting message model myself none note notes operator output person phone
    self sms speaker system test tool unknown user web website you
    """.split()
)
"""Sources that are roles or channels and not names."""
MONTHS = frozenset("april may june august".split())
NAME_WORDS = MONTHS | frozenset(
    """
    amber art ash autumn bill brook candy chance charity chase cherry chip clay cliff crystal daisy dale dawn dean
    destiny don drew duke earl eve faith fern forest frank gene ginger grace grant gray green guy harmony hazel heath
    heather honey hope hunter iris ivy jade jasmine jewel joy justice king kitty lance lane liberty lily mark mason
    mercy miles misty olive page pat patience pearl penny pierce poppy prince rain ray reed rich river robin rocky rose
    ruby rusty sage sandy sky star sterling stone storm sue summer sunny trip van victor violet ward will wren
    """.split()
)
"""Names that are at least as often English words."""
_TITLES = frozenset("dr mr mrs ms prof professor sir".split())
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_POSSESSIVE = re.compile(r"['’](?:s\b|(?=\s|$))", re.IGNORECASE)
_BEGINNING = re.compile(r"(?:^|[.!?…:;\n])[\s\"'“„«(¿¡-]*$")


@dataclass(frozen=True, slots=True)
class Mention:
    """A known name in a query: where it is (in the query's NFC form, with a possessive 's), and the sources (as stored)
    and entities that it may mean. `certain`: it is the name of a speaker or a person and not an ordinary word."""

    start: int
    end: int
    sources: frozenset[str]
    entity_ids: frozenset[UUID]
    certain: bool


@dataclass(slots=True)
class _Known:
    """What a name stands for. `proper`: it was written with a capital letter, or in a script that has none."""

    sources: frozenset[str] = frozenset()
    entity_ids: frozenset[UUID] = frozenset()
    proper: bool = False
    person: bool = False


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    folded: str
    capital: bool


class Names:
    """The names of a tenant's entities and the sources of its episodes. Looking for them takes a time in proportion to
    the words of the query, however many names there are."""

    def __init__(self, entities: Iterable[NamedEntity] = (), sources: Iterable[str] = ()) -> None:
        self._known: dict[tuple[str, ...], _Known] = {}
        for source in sources:
            if form := _form(source):
                self._add(form, source, person=True).sources |= {source}
        self._add_entities(list(entities))
        self._longest: dict[str, int] = {}
        for form in self._known:
            self._longest[form[0]] = max(len(form), self._longest.get(form[0], 0))

    def mentioned(self, query: str) -> list[Mention]:
        """The known names in a query, as whole words in any case; of overlapping ones the first, of nested ones the
        longest."""
        return list(self._mentions(unicodedata.normalize("NFC", query)))

    def without(self, query: str) -> str:
        """The query without the names that are certain; unchanged if nothing but stop words would be left."""
        text = unicodedata.normalize("NFC", query)
        parts: list[str] = []
        at = 0
        for mention in self._mentions(text):
            if mention.certain:
                parts.append(text[at : mention.start])
                at = mention.end
        if not parts:
            return query
        rest = " ".join(" ".join((*parts, text[at:])).split())
        return rest if any(word.folded not in STOP_WORDS for word in _words(rest)) else query

    def _add(self, form: tuple[str, ...], written: str, *, person: bool) -> _Known:
        known = self._known.get(form)
        if known is None:
            known = self._known[form] = _Known()
        known.proper |= written[:1].lower() != written[:1] or written.lower() == written.upper()
        known.person |= person
        return known

    def _add_entities(self, entities: list[NamedEntity]) -> None:
        speakers = {form: known.sources for form, known in self._known.items()}
        names = [[(_form(name), name) for name in (entity.canonical_name, *entity.aliases)] for entity in entities]
        firsts = [(_form(first), first) for first in map(_first, entities)]
        bearers = Counter(
            form for mine, first in zip(names, firsts, strict=True) for form in {form for form, _ in (*mine, first)}
        )
        for entity, mine, first in zip(entities, names, firsts, strict=True):
            if bearers[first[0]] == 1:
                mine.append(first)
            mine = [(form, name) for form, name in mine if form]
            sources = frozenset[str]().union(*(speakers.get(form, ()) for form, _ in mine))
            for form, name in mine:
                known = self._add(form, name, person=entity.entity_type == "person")
                known.entity_ids |= {entity.entity_id}
                known.sources |= sources

    def _mentions(self, text: str) -> Iterator[Mention]:
        words = _words(text)
        cased = text.lower() != text
        shouted = cased and text.upper() == text
        at = 0
        while at < len(words):
            for length in range(min(self._longest.get(words[at].folded, 0), len(words) - at), 0, -1):
                run = words[at : at + length]
                known = self._known.get(tuple(word.folded for word in run))
                mention = known and _mention(text, run, known, cased, shouted)
                if mention:
                    yield mention
                    at += length
                    break
            else:
                at += 1


def _mention(text: str, run: list[_Word], known: _Known, cased: bool, shouted: bool) -> Mention | None:
    start, end = run[0].start, run[-1].end
    beside = (text[start - 1 : start] or " ", text[end : end + 1] or " ")
    if any(unicodedata.category(letter).startswith("M") for letter in beside):
        return None  # a vowel sign or an accent: the word goes on
    possessive = _POSSESSIVE.match(text, end)
    capital = not shouted and all(word.capital for word in run)
    beginning = _BEGINNING.search(text, max(0, start - 8), start) is not None
    if all(map(_is_ordinary, run)):
        # A capital letter says nothing at the beginning of a sentence, nor in the name of a month.
        evident = not beginning and run[0].folded not in MONTHS
        if not capital or not (evident or (possessive and run[0].folded in NAME_WORDS)):
            return None
        certain = known.person
    else:
        plain = known.proper and (shouted or not cased or _is_caseless(text[start:end]))
        evident = capital and (known.proper or not beginning)
        certain = known.person and (len(run) > 1 or evident or plain)
    return Mention(start, possessive.end() if possessive else end, known.sources, known.entity_ids, certain)


def _words(text: str) -> list[_Word]:
    return [
        _Word(match.start(), match.end(), folded, match[0][:1].isupper())
        for match in _WORD.finditer(text)
        if (folded := _folded(match[0]))
    ]


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))


def _form(name: str) -> tuple[str, ...]:
    """A name as it is looked up; empty for one that can't be told from other words."""
    words = _WORD.findall(unicodedata.normalize("NFC", name))
    if len(words) > MOST_WORDS or all(map(str.isdigit, words)):
        return ()
    form = tuple(filter(None, map(_folded, words)))
    return () if len(form) == 1 and (form[0] in ROLES or (len(form[0]) == 1 and not form[0].isascii())) else form


def _first(entity: NamedEntity) -> str:
    """The first name of a person whose name has several words; else empty."""
    if entity.entity_type != "person" or _is_caseless(entity.canonical_name):
        return ""
    words = [word for word in _WORD.findall(entity.canonical_name) if word.lower() not in _TITLES]
    return words[0] if 1 < len(words) <= MOST_WORDS else ""


def _is_ordinary(word: _Word) -> bool:
    text = word.folded
    return text in STOP_WORDS or text in NAME_WORDS or (len(text) == 1 and text.isascii())


def _is_caseless(text: str) -> bool:
    return text.lower() == text.upper()
