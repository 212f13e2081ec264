"""How well conflicts are found: the pairs of sentences of SICK, as two facts each.

An entailment is a near duplicate, a contradiction a conflict; of a neutral pair both must stay. The data is not ours to
ship: `aux/SICK_dev.txt` in the folder of the data.
"""

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from uuid import UUID

import numpy

from bench.entities import Outcome
from bench.report import Report
from tulving.domain.conflicts import Conflict, Detection, Neighbour, detect
from tulving.domain.model import Fact
from tulving.domain.text import meant_by
from tulving.ports import Embedder

FILE = "aux/SICK_dev.txt"
DUPLICATE, CONTRADICTION, NEUTRAL = "ENTAILMENT", "CONTRADICTION", "NEUTRAL"
FOLDS = 5
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two facts, and what they have to do with each other."""

    candidate: Fact
    known: Fact
    label: str


@dataclass(frozen=True, slots=True)
class Found:
    """What was found about a pair: its signals, and the conflict of the cautious mode if there is one."""

    label: str
    signals: frozenset[str]
    conflict: Conflict | None

    @property
    def verdict(self) -> str:
        return "none" if self.conflict is None else "same" if self.conflict.same else "opposite"


def pairs(path: Path) -> list[Pair]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Pair(_fact(1, row["sentence_A"]), _fact(2, row["sentence_B"]), row["entailment_judgment"].upper())
        for row in rows
    ]


def _fact(number: int, content: str) -> Fact:
    return Fact(
        tenant_id="sick",
        id=UUID(int=number),
        subject="user",
        predicate="knowledge",
        content=content,
        content_hash=None,
        created_at=NOW,
        updated_at=NOW,
    )


def run(report: Report, folder: Path, embedders: Mapping[str, Embedder]) -> None:
    """All figures, with each embedder."""
    every = pairs(folder / FILE)
    for name, embedder in embedders.items():
        report.section(f"Conflicts of facts, {len(every):,} pairs of SICK, {name}")
        tell(report, judged(every, embedder))


def judged(every: Sequence[Pair], embedder: Embedder) -> list[Found]:
    """Detection with the default thresholds, and without time and importance: they are equal in all pairs."""
    firsts = _vectors(embedder, [meant_by(pair.candidate) for pair in every])
    seconds = _vectors(embedder, [meant_by(pair.known) for pair in every])
    cosines = (firsts * seconds).sum(axis=1).tolist()
    return [_judged(pair, cosine) for pair, cosine in zip(every, cosines, strict=True)]


def _judged(pair: Pair, cosine: float) -> Found:
    signals, cautious = (
        detect(pair.candidate, [Neighbour(pair.known, cosine)], Detection(mode=mode, time_window=0, importance_delta=1))
        for mode in ("signals", "cautious")
    )
    kinds = frozenset(signal.kind for conflict in signals for signal in conflict.signals)
    return Found(pair.label, kinds, cautious[0] if cautious else None)


def _vectors(embedder: Embedder, texts: Sequence[str]) -> numpy.ndarray:
    rows = numpy.array(embedder.embed_batch(texts))
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def tell(report: Report, found: Sequence[Found]) -> None:
    related = {DUPLICATE, CONTRADICTION}
    for kind in ("semantic", "keyword"):
        report.row(f"{kind} signal", str(outcome(found, related, lambda each, kind=kind: kind in each.signals)))
    same = outcome(found, {DUPLICATE}, lambda each: each.verdict == "same")
    opposite = outcome(found, {CONTRADICTION}, lambda each: each.verdict == "opposite")
    report.row("same, of near duplicates", str(same), target="R >= 0.5", met=2 * same.right >= same.wanted)
    report.row("opposite, of contradictions", str(opposite))
    report.row("conflict, of both", str(outcome(found, related, lambda each: each.conflict is not None)))
    alone = share(each.signals & {"semantic", "keyword"} for each in found if each.label == NEUTRAL)
    lost = share(each.conflict for each in found if each.label == NEUTRAL)
    what, without = "false retirement, of neutral pairs", f"signals alone: {alone:.2%}"
    report.row(what, f"{lost:.2%}", without, target="< 1 %", met=lost < 0.01)
    parts = [found[start::FOLDS] for start in range(FOLDS)]
    recalls = (share(each.verdict == "same" for each in part if each.label == DUPLICATE) for part in parts)
    losses = (share(each.conflict for each in part if each.label == NEUTRAL) for part in parts)
    report.note(
        f"of each fifth of the pairs: recall {', '.join(f'{each:.2f}' for each in recalls)}; "
        f"false retirement {', '.join(f'{each:.1%}' for each in losses)}"
    )


def outcome(found: Sequence[Found], labels: Collection[str], tells: Callable[[Found], bool]) -> Outcome:
    told = [each for each in found if tells(each)]
    wanted = sum(each.label in labels for each in found)
    return Outcome(sum(each.label in labels for each in told), len(told), wanted)


def share(values: Iterable[object]) -> float:
    return fmean(map(bool, values))
