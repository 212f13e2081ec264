"""A conversation as the measurements take it: what is stored, and what is asked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from tulving import Caller, Memory, NewEpisode
from tulving.domain.quality import Question

BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question whose memories are named by their keys in the sample."""

    text: str
    gold: Sequence[str] = ()
    outdated: Sequence[str] = ()
    category: str = ""
    answerable: bool = True


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation, which becomes one tenant: episodes by key, in the order in which they happened."""

    name: str
    episodes: Mapping[str, NewEpisode]
    questions: Sequence[Asked]


def drawn(samples: Sequence[Sample], most: int | None) -> list[Sample]:
    """The samples with at most so many questions in all, always the same ones."""
    every = [(at, asked) for at, sample in enumerate(samples) for asked in sample.questions]
    if most is None or most >= len(every):
        return list(samples)
    chosen = Random(7).sample(every, most)
    return [
        replace(sample, questions=[asked for owner, asked in chosen if owner == at])
        for at, sample in enumerate(samples)
    ]


async def store(memory: Memory, sample: Sample) -> tuple[Memory, list[Question]]:
    """Store a sample as a tenant of its own; its memory and its questions."""
    tenant = memory.bind(caller=Caller(sample.name))
    episodes = list(sample.episodes.values())
    ids: list[UUID] = []
    for at in range(0, len(episodes), BATCH):
        ids += [stored.id for stored in await tenant.store_episodes(episodes[at : at + BATCH])]
    of = dict(zip(sample.episodes, ids, strict=True))
    return tenant, [
        Question(
            text=asked.text,
            expected=[of[key] for key in asked.gold],
            outdated=[of[key] for key in asked.outdated],
            category=asked.category,
            answerable=asked.answerable,
        )
        for asked in sample.questions
    ]


def session(*names: object) -> UUID:
    """The id of a session, the same in every run."""
    return uuid5(NAMESPACE_URL, "/".join(map(str, names)))


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
