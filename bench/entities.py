"""How well a name leads to its entity: `python -m bench.entities [FOLDER]`, on FEBRL, Amazon-Google and DBLP-ACM data.

The data is not ours to ship: the folder holds `febrl/dataset1.csv`, `dataset2.csv`, `amazon_google/validation.csv` and
`dblp_acm/dblp_acm_demo_labels.csv`. The best candidate is the first one, which is what a caller takes.
"""

import asyncio
import csv
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from bench.report import Report, Timings, Watch
from tulving import Memory, open_memory
from tulving.domain.model import EntityCandidate, EntityType, NewFact
from tulving.errors import InvalidInput
from tulving.testing import WordEmbedder

FOLDER = Path(__file__).parents[2] / "shared" / "bench" / "aux"
BATCH = 1_000
MOST = 1_000
PERSON_FACTS = ("street_number", "address_1", "address_2", "suburb", "postcode", "state", "date_of_birth", "soc_sec_id")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of so many decisions, how many were right, and how many there were to find."""

    right: int
    made: int
    wanted: int

    def __str__(self) -> str:
        precision = self.right / self.made if self.made else 0.0
        recall = self.right / self.wanted if self.wanted else 0.0
        f1 = 2 * precision * recall / (precision + recall) if self.right else 0.0
        return f"P {precision:.3f}, R {recall:.3f}, F1 {f1:.3f}"


async def run(report: Report, folder: Path = FOLDER) -> None:
    """All data that is there."""
    report.section("Entity resolution")
    for part in ("dataset1", "dataset2"):
        if (path := folder / "febrl" / f"{part}.csv").exists():
            await _persons(report, part, _read(path))
    if (path := folder / "amazon_google" / "validation.csv").exists():
        await _pairs(report, "Amazon-Google", map(_product, _read(path)))
    if (path := folder / "dblp_acm" / "dblp_acm_demo_labels.csv").exists():
        await _pairs(report, "DBLP-ACM", map(_article, _read(path)))
    if not folder.exists():
        report.note(f"no entities were resolved: there is no {folder}")


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{name.strip(): value.strip() for name, value in row.items()} for row in csv.DictReader(file)]


# -- persons -----------------------------------------------------------------------------------------------------------


async def _persons(report: Report, part: str, records: Sequence[Mapping[str, str]]) -> None:
    """Each original is an entity with facts about where and when; each duplicate is asked for by its spoilt name."""
    originals = {_number(row): row for row in records if row["rec_id"].endswith("-org")}
    duplicates = [row for row in records if "-dup-" in row["rec_id"]]
    known = {number: (_name(row), {each: row[each] for each in PERSON_FACTS}) for number, row in originals.items()}
    with tempfile.TemporaryDirectory() as place:
        async with open_memory(Path(place) / "memory.db", embedder=WordEmbedder(), background=False) as memory:
            ids = await _register(memory, "person", known)
            for label, fuzzy, hinted in (
                ("by name", False, False),
                ("by similar name", True, False),
                ("by similar name and context", True, True),
            ):
                timings, made, right = Timings(), 0, 0
                for row in duplicates:
                    hints = {"topic": " ".join(row[each] for each in PERSON_FACTS)} if hinted else None
                    with Watch(timings):
                        found = await memory.resolve_entity(
                            _name(row), context_hints=hints, enable_fuzzy=fuzzy, limit=MOST
                        )
                    made += bool(found)
                    right += bool(found) and found[0].entity_id == ids[_number(row)]
                what = f"FEBRL {part}, {len(duplicates)} of {len(known)} persons, {label}"
                report.row(f"{what}: the best candidate is the right one", str(Outcome(right, made, len(duplicates))))
                report.row(f"{what}: one call", str(timings))


def _number(row: Mapping[str, str]) -> str:
    return row["rec_id"].split("-")[1]


def _name(row: Mapping[str, str]) -> str:
    return f"{row['given_name']} {row['surname']}".strip()


# -- labelled pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """One thing of a catalogue (its id, name and details), one of another (with the words around its name), and whether
    they are the same."""

    left: str
    name: str
    about: Mapping[str, str]
    right: str
    asked: str
    context: str
    same: bool


def _product(row: Mapping[str, str]) -> Pair:
    about = {"made_by": row["left_manufacturer"]}
    left, right = (row["left_id"], row["left_title"]), (row["right_id"], row["right_title"])
    return Pair(*left, about, *right, row["right_manufacturer"], row["label"] == "1")


def _article(row: Mapping[str, str]) -> Pair:
    left, right = ({part: row[f"{side}table.{part}"] for part in _ARTICLE} for side in "lr")
    about = {part: left[part] for part in ("authors", "venue")} | {"year": left["year"].removesuffix(".0")}
    context = f"{right['authors']} {right['venue']} {right['year']}"
    return Pair(left["id"], left["title"], about, right["id"], right["title"], context, row["gold"] == "1")


_ARTICLE = ("id", "title", "authors", "venue", "year")


async def _pairs(report: Report, data: str, given: Iterable[Pair]) -> None:
    """Each thing of one catalogue is an entity; each of the other is asked for by its name. Judged are the labelled
    pairs only: which of them are told to be the same?"""
    pairs = list(given)
    known = {pair.left: (pair.name, pair.about) for pair in pairs}
    with tempfile.TemporaryDirectory() as place:
        async with open_memory(Path(place) / "memory.db", embedder=WordEmbedder(), background=False) as memory:
            ids = await _register(memory, "other", known)
            timings = Timings()
            answers: dict[str, list[EntityCandidate]] = {}
            for pair in {pair.right: pair for pair in pairs}.values():
                with Watch(timings):
                    answers[pair.right] = await memory.resolve_entity(
                        pair.asked, context_hints={"topic": pair.context}, enable_fuzzy=True, limit=MOST
                    )
    what = f"{data}, {len(pairs)} labelled pairs"
    wanted = sum(pair.same for pair in pairs)
    for label, same in (
        ("among the candidates", {n: {each.entity_id for each in found} for n, found in answers.items()}),
        ("the best candidate", {n: {each.entity_id for each in found[:1]} for n, found in answers.items()}),
        (
            "the best candidate, if half alike",
            {n: {each.entity_id for each in found[:1] if each.similarity >= 0.5} for n, found in answers.items()},
        ),
    ):
        told = [pair for pair in pairs if ids[pair.left] in same[pair.right]]
        report.row(f"{what}: {label}", str(Outcome(sum(pair.same for pair in told), len(told), wanted)))
    report.row(f"{what}: one call among {len(known)}", str(timings))


# -- both --------------------------------------------------------------------------------------------------------------


async def _register(
    memory: Memory, type_: EntityType, known: Mapping[str, tuple[str, Mapping[str, str]]]
) -> dict[str, UUID]:
    """Entities with facts about them. One whose name is taken is told apart by a number; the name is its alias."""
    ids: dict[str, UUID] = {}
    facts: list[NewFact] = []
    for number, (name, about) in known.items():
        name = name or "?"
        try:
            made = await memory.create_entity(name, type_)
        except InvalidInput:
            made = await memory.create_entity(f"{name} ({number})", type_, aliases=[name])
        ids[number] = made.entity_id
        facts += [
            NewFact(subject=name, predicate=predicate, content=content, entity_id=made.entity_id)
            for predicate, content in about.items()
            if content
        ]
    for batch in _batches(facts):
        await memory.store_facts(batch)
    return ids


def _batches(facts: Sequence[NewFact]) -> Iterable[Sequence[NewFact]]:
    return (facts[at : at + BATCH] for at in range(0, len(facts), BATCH))


if __name__ == "__main__":
    asyncio.run(run(Report(), *map(Path, sys.argv[1:2])))
