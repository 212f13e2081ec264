"""The vector index of one tenant with many memories: how much the graph finds, how fast, and what it costs.

The texts are real sentences (conversations and image captions), embedded once with MiniLM; the vectors are kept.
"""

import asyncio
import json
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy

from bench.report import Report, Timings, Watch, milliseconds
from tulving import Memory, MemoryModuleConfig, NewEpisode, get_embedding_engine, open_memory
from tulving.settings import VectorsConfig

FOLDER = Path(__file__).parents[2] / "shared" / "bench"
KEPT = Path(__file__).parent / "results" / "sentences.npy"
SOURCES = ("dev/locomo_dev7.json", "aux/longmemeval_s_3questions.json", "dev/beam100k_chats01-13.json")
QUERIES, BATCH = 300, 2_000
EXACT = MemoryModuleConfig(vectors=VectorsConfig(exact_rows=10**9), max_size_bytes=None)
GRAPH = replace(EXACT, vectors=VectorsConfig())


class Known:
    """An embedder that knows its texts by heart."""

    model, version, dimension, light = "bench-known", "1", 384, True

    def __init__(self, texts: Sequence[str], rows: numpy.ndarray) -> None:
        self._rows = dict(zip(map(_words, texts), rows, strict=True))

    def unready(self) -> None:
        """It always can embed."""

    def embed(self, text: str | None) -> list[float]:
        return self._rows[_words(text or "")].tolist()

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def _words(text: str) -> str:
    """What intake leaves as it is."""
    return " ".join(re.findall(r"\w+", text))


def sentences(folder: Path) -> list[str]:
    """All of moderate length, in an order that is always the same."""
    found = [text for name in SOURCES for text in _sentences(json.loads((folder / name).read_text()))]
    lines = (folder / "aux" / "SICK_dev.txt").read_text().splitlines()
    found += [text for line in lines for text in line.split("\t")[1:3]]
    found = list(dict.fromkeys(found))
    random.Random(1).shuffle(found)
    return found


def _sentences(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        for part in re.split(r"(?<=[.!?])\s+|\n+", value):
            if 25 <= len(part := part.strip(" -*#>")) <= 220:
                yield part
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _sentences(part)


def _embedded(texts: Sequence[str]) -> numpy.ndarray:
    """Ten minutes at the first time."""
    if not KEPT.exists() or len(numpy.load(KEPT, mmap_mode="r")) < len(texts):
        engine = get_embedding_engine("minilm")
        rows = [engine.embed_batch(texts[at : at + 64]) for at in range(0, len(texts), 64)]
        numpy.save(KEPT, numpy.concatenate([numpy.array(each, "f4") for each in rows]))
    return numpy.load(KEPT)[: len(texts)]


async def run(report: Report, quick: bool, folder: Path = FOLDER) -> None:
    """Exact search and the graph over the same file."""
    if not folder.exists():
        return report.note(f"the vector index was not measured: there is no {folder.name}")
    texts = sentences(folder)[: 25_000 if quick else 100_000]
    rows = _embedded(texts)
    stored, asked = texts[:-QUERIES], texts[-QUERIES:]
    embedder = Known(texts, rows)
    report.section(f"SQLite: {len(stored):,} episodes of one tenant, real sentences, MiniLM, query vector given")
    with tempfile.TemporaryDirectory(dir=KEPT.parent, prefix="vectors-") as place:
        path = Path(place) / "memory.db"
        async with open_memory(path, embedder=embedder, config=EXACT, background=False) as memory:
            for at in range(0, len(stored), BATCH):
                await memory.store_episodes([NewEpisode(content=text, butler="b") for text in stored[at : at + BATCH]])
        exact = await _exact(report, path, embedder, asked)
        await _build(report, path, embedder, asked, exact)
        await _restart(report, path, embedder, asked, exact)


async def _exact(report: Report, path: Path, embedder: Known, asked: Sequence[str]) -> list[list[str]]:
    async with open_memory(path, embedder=embedder, config=EXACT, background=False) as memory:
        report.row("first search after opening, from rows", milliseconds(await _first(memory, asked[0])))
        answers, timings = await _asked(memory, asked)
    report.row("semantic search, all compared", str(timings))
    return answers


async def _build(report: Report, path: Path, embedder: Known, asked: Sequence[str], exact: list[list[str]]) -> None:
    async with open_memory(path, embedder=embedder, config=GRAPH, background=False) as memory:
        store: Any = memory._env.store
        await _first(memory, asked[0])
        begun = perf_counter()
        _, during = await _asked(memory, asked[:60])
        await store.ready()
        total = perf_counter() - begun
        report.row("building the graph in the background", f"{total:.0f} s", f"{store.vectors.progress()[1]:,} vectors")
        report.row("semantic search while it is built", str(during))
        answers, timings = await _asked(memory, asked)
        report.row("semantic search through the graph", str(timings))
        share = _recall(answers, exact)
        report.row("recall@10 of the graph", f"{share:.4f}", target=">= 0.98", met=share >= 0.98)
        (partition,) = store.vectors._partitions.values()
        matrix = partition.matrices["episode"]
        vectors, graph = matrix.nbytes - matrix.graph.nbytes, matrix.graph.nbytes
        report.row("memory for the vectors and for the graph", f"{vectors / 2**20:.0f} MB, {graph / 2**20:.0f} MB")
        begun = perf_counter()
        await store.reindex(only_outgrown=True)
        (snapshot,) = (path.parent / "memory.db.work" / "semantic-index").glob("*.hnsw")
        size = f"{snapshot.stat().st_size / 2**20:.0f} MB"
        report.row("writing the snapshot", milliseconds(perf_counter() - begun), size)


async def _restart(report: Report, path: Path, embedder: Known, asked: Sequence[str], exact: list[list[str]]) -> None:
    async with open_memory(path, embedder=embedder, config=GRAPH, background=False) as memory:
        report.row("first search after opening, with a snapshot", milliseconds(await _first(memory, asked[0])))
        gone = {id_ for answer in exact for id_ in answer[:3]}
        for id_ in gone:
            await memory.delete("episode", id_)
        await memory._env.store.reindex(only_outgrown=True)
    copy = path.with_name("exact.db")
    shutil.copy(path, copy)
    async with (
        open_memory(path, embedder=embedder, config=GRAPH, background=False) as memory,
        open_memory(copy, embedder=embedder, config=EXACT, background=False) as other,
    ):
        (answers, _), (expected, _) = await _asked(memory, asked), await _asked(other, asked)
    share = _recall(answers, expected)
    what = f"recall@10 after the best {len(gone)} answers were deleted, and a restart"
    report.row(what, f"{share:.4f}", target=">= 0.98", met=share >= 0.98)


def _recall(answers: list[list[str]], exact: list[list[str]]) -> float:
    return mean(len({*mine} & {*theirs}) / len(theirs) for mine, theirs in zip(answers, exact, strict=True))


async def _first(memory: Memory, query: str) -> float:
    begun = perf_counter()
    await memory.search(query, mode="semantic", types=["episode"])
    return perf_counter() - begun


async def _asked(memory: Memory, asked: Sequence[str]) -> tuple[list[list[str]], Timings]:
    answers, timings = [], Timings()
    for query in asked:
        with Watch(timings):
            hits = await memory.search(query, mode="semantic", types=["episode"], limit=10)
        answers.append([str(hit.item.id) for hit in hits])
    return answers, timings


if __name__ == "__main__":
    asyncio.run(run(Report(), "--quick" in sys.argv))
