"""Builds src/tulving/providers/data/idf-en-1.txt.gz: in how many of WordNet's entries each English word occurs.

    python scripts/build_idf.py WORDNET_FOLDER

WORDNET_FOLDER holds data.noun, data.verb, data.adj and data.adv of WordNet 3.0, as in Debian's package
`wordnet-base` (/usr/share/wordnet). A document is one entry: its words, its gloss and its examples.

WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. It may be used, copied, modified and
distributed for any purpose without fee, provided that its notice is kept: see NOTICE.

The same input gives the same bytes. A table with other content needs another name: see IDF_VERSION.
"""

import gzip
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tulving.providers.hashing import IDF_VERSION, words

TABLE = Path(__file__).parents[1] / "src" / "tulving" / "providers" / "data" / f"{IDF_VERSION}.txt.gz"
RAREST_KEPT = 5


def entries(folder: Path) -> Iterator[str]:
    """The text of each entry. Its line says: place, kind, kind, count of words (hex), words with a number each,
    pointers, then the gloss behind a bar. Lines of the licence begin with a space.
    """
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):
                entry, gloss = line.split(" | ", 1)
                fields = entry.split()
                count = int(fields[3], 16)
                yield " ".join([*fields[4 : 4 + 2 * count : 2], gloss])


def main() -> None:
    documents = 0
    frequencies: Counter[str] = Counter()
    for text in entries(Path(sys.argv[1])):
        documents += 1
        frequencies.update(set(words(text)))
    having = defaultdict(list)
    for word, frequency in sorted(frequencies.items()):
        if frequency >= RAREST_KEPT:
            having[frequency].append(word)
    lines = [f"{frequency} {' '.join(having[frequency])}" for frequency in sorted(having)]
    content = gzip.compress("\n".join([str(documents), *lines, ""]).encode(), 9, mtime=0)
    TABLE.write_bytes(content)
    print(f"{TABLE}: {sum(map(len, having.values()))} words of {documents} documents, {len(content)} bytes")


if __name__ == "__main__":
    main()
