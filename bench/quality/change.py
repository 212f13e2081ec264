"""Facts that change: people, what was true of each over time, and whether an outdated value is told as the current one.

Made up, and the same in every run. Each way of storing has a store of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import fmean
from typing import Any
from uuid import UUID

from tulving import Memory, NewEpisode, NewFact
from tulving.domain.model import Kind
from tulving.domain.quality import Question
from tulving.ports import Clock
from tulving.services.evaluation import Verb, ask
from tulving.testing import ManualClock

PEOPLE = (
    "Anna Bela Carlo Dunja Emil Farid Greta Hana Ivo Jonas Karin Lorenzo Mirjam Nadia Oskar Petra Quentin Rosa Samir "
    "Tilda"
).split()
FIRST = datetime(2025, 1, 6, 9, tzinfo=UTC)
APART = timedelta(days=14)
MOST_VALUES = 4
LIMIT = 10
BUTLER = "change"

Opener = Callable[[Clock], AbstractAsyncContextManager[Memory]]
"""A new store in which it is as late as the clock says."""


@dataclass(frozen=True, slots=True)
class Property:
    """Something that can change: its name, another word for it, how one says it, and the values it may have."""

    name: str
    synonym: str
    said: str
    asked: str
    values: str


PROPERTIES = (
    Property(
        "favorite_drink",
        "preferred beverage",
        "{who} likes {what} best of all drinks",
        "What does {who} like to drink?",
        "green tea, espresso, apple juice, cocoa, lemonade, mineral water",
    ),
    Property(
        "lives_in",
        "residence",
        "{who} has a flat in {what}",
        "Where does {who} live?",
        "Lisbon, Graz, Oslo, Lyon, Turin, Gdansk",
    ),
    Property(
        "works_at",
        "employer",
        "{who} has a job at {what}",
        "Whom does {who} work for?",
        "a bakery, a law firm, the city library, a shipyard, a hospital, a brewery",
    ),
    Property(
        "car",
        "vehicle",
        "{who} drives {what}",
        "Which car does {who} drive?",
        "a red Fiat, an old Volvo, a blue Skoda, a small Peugeot, a grey Toyota, a Citroen van",
    ),
    Property(
        "sport",
        "physical exercise",
        "{who} goes {what} every week",
        "Which sport does {who} do?",
        "swimming, climbing, rowing, fencing, cycling, bowling",
    ),
    Property(
        "pet",
        "animal at home",
        "{who} keeps {what}",
        "What pet does {who} have?",
        "a parrot, two cats, a tortoise, a hamster, a greyhound, goldfish",
    ),
    Property(
        "phone_number",
        "reachable at",
        "{who} can be called on {what}",
        "What is the phone number of {who}?",
        "555 0101, 555 0172, 555 0134, 555 0195, 555 0168, 555 0123",
    ),
    Property(
        "instrument",
        "plays music on",
        "{who} practises {what}",
        "Which instrument does {who} play?",
        "the cello, the flute, the trumpet, the harp, the drums, the clarinet",
    ),
    Property(
        "diet",
        "way of eating",
        "{who} eats {what} food",
        "What kind of food does {who} eat?",
        "vegan, low-salt, gluten-free, kosher, mediterranean, raw",
    ),
    Property(
        "favorite_color",
        "colour of choice",
        "{who} prefers {what} to all other colours",
        "What is the favorite color of {who}?",
        "violet, orange, turquoise, crimson, olive, silver",
    ),
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A property of a person and its values over time; the last one is the current one."""

    who: str
    about: Property
    values: Sequence[str]

    @property
    def plain(self) -> str:
        return self.about.asked.format(who=self.who)

    @property
    def leading(self) -> str:
        """The question of someone who has heard the previous value."""
        return f"{self.plain} Is it still {self.values[-2]}?"

    def said(self, value: str) -> str:
        return self.about.said.format(who=self.who, what=value)


def slots() -> list[Slot]:
    """All people and properties; a quarter of them never change."""
    random = Random(11)
    pairs = [(who, property_) for who in PEOPLE for property_ in PROPERTIES]
    counts = [1 + at % MOST_VALUES for at in range(len(pairs))]
    random.shuffle(counts)
    return [
        Slot(who, property_, random.sample(property_.values.split(", "), count))
        for (who, property_), count in zip(pairs, counts, strict=True)
    ]


Way = Callable[[Slot, int], NewFact | NewEpisode]
"""How the value at a place of a slot is stored."""


def _day(at: int) -> datetime:
    return FIRST + at * APART


def _keyed(slot: Slot, at: int) -> NewFact:
    return NewFact(subject=slot.who, predicate=slot.about.name, content=slot.values[at])


def _other_case(slot: Slot, at: int) -> NewFact:
    return replace(_keyed(slot, at), subject=slot.who.lower() if at % 2 else slot.who)


def _other_spelling(slot: Slot, at: int) -> NewFact:
    return replace(_keyed(slot, at), predicate=slot.about.name.replace("_", " " if at % 2 else "_"))


def _synonym(slot: Slot, at: int) -> NewFact:
    return replace(_keyed(slot, at), predicate=slot.about.synonym if at % 2 else slot.about.name)


def _note(slot: Slot, at: int) -> NewFact:
    return NewFact(content=slot.said(slot.values[at]), category="knowledge")


def _episode(slot: Slot, at: int) -> NewEpisode:
    return NewEpisode(content=slot.said(slot.values[at]), butler=BUTLER, occurred_at=_day(at))


def _dated(slot: Slot, at: int) -> NewFact:
    return replace(_keyed(slot, at), occurred_at=_day(at))


BACKWARDS = "older fact arrives later"
WAYS: dict[str, Way] = {
    "same subject and predicate": _keyed,
    "subject in another case": _other_case,
    "predicate with a space": _other_spelling,
    "another word for the predicate": _synonym,
    "notes": _note,
    "dated episodes": _episode,
    BACKWARDS: _dated,
}


async def run(open_store: Opener, verbs: Sequence[Verb]) -> None:
    """Store every history in every way, ask for its current value, and print how often an outdated one came first."""
    columns = [f"{verb}, {kind} question" for verb in verbs for kind in ("plain", "leading")]
    print("\n## Facts that change: an outdated value above the current one, or without it, in %\n")
    print(f"| Stored as | n | {' | '.join(columns)} | outdated value in the context |")
    print("|" + "---|" * (len(columns) + 3), flush=True)
    for name, way in WAYS.items():
        clock = ManualClock(FIRST)
        async with open_store(clock) as memory:
            asked = await _store(memory, name, way, clock)
            cells = [
                _share(
                    answer.misleading for answer in await ask(memory, questions, verb, limit=LIMIT, types=_types(way))
                )
                for verb in verbs
                for questions in ([plain for _, plain, _ in asked], [leading for _, _, leading in asked])
            ]
            cells.append(_share([await _told(memory, slot) for slot, _, _ in asked]))
        print(f"| {name} | {len(asked)} | {' | '.join(cells)} |", flush=True)


async def _store(memory: Memory, name: str, way: Way, clock: ManualClock) -> list[tuple[Slot, Question, Question]]:
    """Store the values, a round on each day, and make the questions about those that have changed."""
    every = slots()
    ids: dict[tuple[str, str, int], UUID] = {}
    order = range(MOST_VALUES)
    for at in reversed(order) if name == BACKWARDS else order:
        told = [slot for slot in every if at < len(slot.values)]
        offers: Any = [way(slot, at) for slot in told]
        stored = await (memory.store_episodes(offers) if way is _episode else memory.store_facts(offers))
        ids |= {(slot.who, slot.about.name, at): one.id for slot, one in zip(told, stored, strict=True)}
        clock.advance(days=APART.days)
    asked = []
    for slot in every:
        if len(slot.values) > 1 and not (way is _other_spelling and "_" not in slot.about.name):
            *outdated, current = (ids[slot.who, slot.about.name, at] for at in range(len(slot.values)))
            plain = Question(text=slot.plain, expected=[current], outdated=outdated)
            asked.append((slot, plain, replace(plain, text=slot.leading)))
    return asked


async def _told(memory: Memory, slot: Slot) -> bool:
    """Whether the context of a session about this tells an outdated value of this person."""
    lines = (await memory.context(slot.plain, butler=BUTLER)).splitlines()
    mine = [line for line in lines if slot.who.casefold() in line.casefold()]
    return any(f" {value}" in line for value in slot.values[:-1] for line in mine)


def _types(way: Way) -> list[Kind]:
    return ["episode"] if way is _episode else ["fact"]


def _share(values: Iterable[bool]) -> str:
    return f"{100 * fmean(values):.0f}"
