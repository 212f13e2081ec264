"""Keyword search in languages other than English, compared with counting substrings.

Each language has a file of pairs: what someone types, and the sentence that answers it. Lines without a query are
further sentences, so that there is something to confuse it with.
"""

import re
import unicodedata
from pathlib import Path

import pytest

from tulving import Memory
from tulving.domain.model import NewEpisode
from tulving.domain.text import content_hash
from tulving.testing import ManualClock

LANGUAGES = ("ar", "de", "es", "fr", "ja", "ru", "zh")
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
_PIECE = re.compile(rf"[{_WIDE}]+|[^\W_{_WIDE}]+")


def _sentences(language: str) -> list[tuple[str, str]]:
    """Queries and sentences. Their order says nothing about them, since it decides between equal scores."""
    lines = (Path(__file__).parent / f"{language}.tsv").read_text(encoding="utf-8").splitlines()
    return sorted(
        ((query, said) for query, said in (line.split("\t") for line in lines)), key=lambda s: content_hash(s[1])
    )


def _folded(text: str) -> str:
    """Without case, accents and wide forms, so that the substrings are not beaten too easily."""
    bare = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", bare)


def _pieces(query: str) -> set[str]:
    """The words of a query; of scripts without spaces, each two neighbouring characters."""
    pieces: set[str] = set()
    for piece in _PIECE.findall(_folded(query)):
        runs = re.match(f"[{_WIDE}]{{2}}", piece)
        pieces.update(piece[at : at + 2] for at in range(len(piece) - 1)) if runs else pieces.add(piece)
    return pieces


def _by_substring(query: str, sentences: list[str]) -> list[str]:
    """The ten sentences with the most pieces of the query in them; of equal ones, the newer."""
    pieces = _pieces(query)
    counts = {said: sum(piece in _folded(said) for piece in pieces) for said in sentences}
    return sorted((said for said in reversed(sentences) if counts[said]), key=lambda said: -counts[said])[:10]


def _figures(found: list[tuple[str, list[str]]]) -> dict[str, float]:
    """R@1, R@5 and MRR of the answers."""
    places = [hits.index(answer) + 1 if answer in hits else None for answer, hits in found]
    return {
        "R@1": sum(place == 1 for place in places) / len(places),
        "R@5": sum(place is not None and place <= 5 for place in places) / len(places),
        "MRR": sum(1 / place for place in places if place) / len(places),
    }


@pytest.mark.parametrize("language", LANGUAGES)
async def test_words_find_at_least_what_substrings_find(memory: Memory, clock: ManualClock, language: str) -> None:
    pairs = _sentences(language)
    sentences = [said for _, said in pairs]
    for said in sentences:
        await memory.store_episodes([NewEpisode(content=said, butler="home")])
        clock.advance(seconds=1)
    ours: list[tuple[str, list[str]]] = []
    theirs: list[tuple[str, list[str]]] = []
    for query, answer in pairs:
        if query:
            found = await memory.search(query, mode="keyword", limit=10)
            ours.append((answer, [hit.item.content for hit in found]))
            theirs.append((answer, _by_substring(query, sentences)))
    assert len(ours) >= 30
    for name, least in _figures(theirs).items():
        assert _figures(ours)[name] >= least, (name, _figures(ours), _figures(theirs))


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_enough_to_confuse(language: str) -> None:
    pairs = _sentences(language)
    assert sum(not query for query, _ in pairs) >= 55
    assert len({said for _, said in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("der Hund", "Die Hunde bellen."),
        ("mein Fahrrad", "Unsere Fahrradversicherung ist teuer."),
        ("wo ist der Autoschlüssel", "Der Schlüssel ist weg."),
        ("fuer die Kuendigung", "Er hat gekündigt, die Kündigung liegt im Büro."),
        ("les clés de la maison", "J'ai perdu ma clé."),
        ("el nino y los libros", "Un niño con su libro."),
        ("елка", "Ёлку поставили вчера."),
        ("أحمد", "رأيت احمد أمس."),
        ("السيارة", "بعت سيارتي القديمة."),
        ("كتاب", "وضعته بالكتاب الأول."),
        ("مُحَمَّد", "محمد في البيت."),
        ("ｗｉｆｉ パスワード", "WiFiのﾊﾟｽﾜｰﾄﾞを変えた。"),
        ("東京", "明日東京都庁へ行く。"),
    ],
)
async def test_other_forms_of_a_word_are_found(memory: Memory, query: str, said: str) -> None:
    await memory.store_episodes([NewEpisode(content=said, butler="home"), NewEpisode(content="???", butler="home")])
    assert [hit.item.content for hit in await memory.search(query, mode="keyword")] == [said]
