import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from tulving.domain.stems import stem

WORDS = """
paint paints painted painting paintings painter relate relational conditional rational valency hesitancy digitizer
conformably radically differently vilely analogously vietnamization predication operator feudalism decisiveness
hopefulness callousness formality sensitivity sensibility triplicate formative formalize electricity electrical hopeful
goodness revival allowance inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent
adoption communism activate angularity homologous effective bowdlerize probate rate cease controll roll happy sky skies
dying died dies eye eyes was is as this the a i be agreed plastered bled motoring sing conflated troubled sized hopping
tanned falling hissing fizzed failing filing caresses ponies ties caress cats 2025 7th covid19 cafe strasse
""".split()


def by_sqlite(words):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
    connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(words))
    connection.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(texts, instance)")
    found = dict(connection.execute("SELECT doc, term FROM vocabulary"))
    connection.close()
    return [found[at] for at in range(len(words))]


def test_stems_are_those_of_the_keyword_index():
    assert [stem(word) for word in WORDS] == by_sqlite(WORDS)


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 255])
def test_very_short_and_very_long_words_are_their_own_stems(length):
    words = [("x" * length + ending)[-length:] for ending in ("s", "ed", "ing")]
    assert [stem(word) for word in words] == by_sqlite(words)
    assert all(stem(word) for word in words)


def test_a_stem_begins_like_its_word_and_other_scripts_stay():
    assert all(word.startswith(stem(word)[:3]) for word in WORDS)
    for word in ("語", "привет", "سلام", "über", ""):
        assert stem(word) == word


def test_threads_do_not_disturb_each_other():
    stem.cache_clear()
    expected = by_sqlite(WORDS)
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: [stem.__wrapped__(word) for word in WORDS], range(50)):
            assert answer == expected
