"""What the readers offer, stored in batches; each is one transaction, so that an import can be run again."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tulving.domain.model import NewEpisode, NewFact
from tulving.domain.offers import Offer
from tulving.errors import InvalidInput
from tulving.integrations.importers import Deferred, Mapped, Record, read, refusing
from tulving.integrations.importers.files import LeftOut, Meter, Refused
from tulving.services.memory import Memory

BATCH, BATCH_CHARACTERS = 250, 1_000_000
MOST_NAMED = 100

Progress = Callable[[int, int, str], None]
"""Told how much is done, of how much, and of what."""


@dataclass(slots=True)
class Report:
    """What an import came to: how many memories of each kind were added or known before, how many records were refused
    (the first of them by name), what became of secrets in how many, and what was left out and why."""

    format: str
    added: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    secrets: Counter[str] = field(default_factory=Counter)
    named: list[Refused] = field(default_factory=list)

    def refuse(self, refused: Refused) -> None:
        """One more record that was refused."""
        self.refused += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(refused)


async def take(
    memory: Memory,
    name: str,
    paths: Sequence[Path],
    mapped: Mapped,
    *,
    dry_run: bool = False,
    strict: bool = False,
    progress: Progress = lambda *_: None,
) -> Report:
    """Store what files of a format hold. With `strict` the first record that is refused ends the import; what was
    stored before stays."""
    report, meter = Report(name), Meter()
    records = (record for path in paths for record in read(name, path, meter, mapped))
    for batch in _batches(_offers(memory, records, report, strict)):
        for offer, taken in zip(batch, await memory.take_offers(batch, source=name, dry_run=dry_run), strict=True):
            if taken.problem is not None:
                _refuse(report, Refused(offer.place, taken.problem), strict)
            else:
                if taken.warning is not None:
                    report.secrets[taken.warning.partition(":")[0]] += 1
                (report.added if taken.is_new else report.known)[_kind(offer)] += 1
        done = (report.added + report.known).total()
        # In kilobytes: how many records a file has is not known before its end.
        progress(meter.done // 1024, max(meter.done, meter.total) // 1024, f"{done} memories, kB")
    return report


def _offers(memory: Memory, records: Iterable[Record], report: Report, strict: bool) -> Iterator[Offer]:
    for record in records:
        if isinstance(record, Deferred):
            [record] = refusing(record.place, lambda each=record: [each.offer(memory)])
        match record:
            case Offer():
                yield record
            case Refused():
                _refuse(report, record, strict)
            case LeftOut():
                report.left_out[record.reason] += record.count


def _refuse(report: Report, refused: Refused, strict: bool) -> None:
    if strict:
        raise InvalidInput(refused.place, refused.problem)
    report.refuse(refused)


def _batches(offers: Iterable[Offer]) -> Iterator[list[Offer]]:
    batch: list[Offer] = []
    characters = 0
    for offer in offers:
        batch.append(offer)
        characters += len(offer.memory.content) if isinstance(offer.memory.content, str) else 0
        if len(batch) >= BATCH or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _kind(offer: Offer) -> str:
    match offer.memory:
        case NewEpisode():
            return "episodes"
        case NewFact():
            return "facts"
    return "rules"
