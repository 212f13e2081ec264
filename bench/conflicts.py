"""What looking for conflicts adds to storing a note beside 10,000 others, with its vector given."""

from collections.abc import Sequence
from statistics import median

from bench.corpus import Corpus
from bench.embedders import Topics
from bench.report import Report, Timings, Watch, milliseconds
from bench.stores import BATCH, Stores
from tulving import Memory, MemoryModuleConfig, NewFact, open_memory
from tulving.settings import ConflictsConfig

ROWS = 10_000
NOTES = 200
ALLOWED = 0.003
OFF = MemoryModuleConfig(conflicts=ConflictsConfig(enabled=False))


async def run(stores: Stores, report: Report) -> None:
    engine = stores.engine
    report.section(f"{engine.name}: conflicts of a note with {ROWS:,} others, vector given")
    corpus = Corpus(14, plain=True)
    known = corpus.texts(ROWS)
    place = await engine.fresh("conflicts")
    async with open_memory(place, config=OFF, embedder=Topics(), background=False) as memory:
        for at in range(0, ROWS, BATCH):
            await memory.store_facts([NewFact(content=text) for text in known[at : at + BATCH]])
    await engine.settle(place)
    plain = await engine.copy(place, "conflicts-plain")
    cases = {
        "unlike all others": corpus.texts(NOTES),
        "two words fuller than one": [f"{text} by train" for text in known],
    }
    async with (
        open_memory(place, embedder=Topics(), background=False) as checked,
        open_memory(plain, config=OFF, embedder=Topics(), background=False) as unchecked,
    ):
        for name, texts in cases.items():
            ours, without = await _alternately(checked, unchecked, texts[:NOTES])
            added = median(a - b for a, b in zip(ours.wall, without.wall, strict=True))
            what = f"One note, {name}"
            met = added <= ALLOWED if texts is cases["unlike all others"] else None
            report.row(what, str(ours), f"without: {without}", f"+ {milliseconds(added)}", "<= 3 ms", met)


async def _alternately(checked: Memory, unchecked: Memory, texts: Sequence[str]) -> tuple[Timings, Timings]:
    """Each text in both stores, now in one first and now in the other: a disk that has just been busy is slower."""
    ours, without = Timings(), Timings()
    both = [(checked, ours), (unchecked, without)]
    for text in texts:
        for memory, timings in both:
            with Watch(timings):
                await memory.store_note(text)
        both.reverse()
    return ours, without
