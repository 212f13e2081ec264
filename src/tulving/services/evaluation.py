"""Queries that measure or explain a memory, and so count no references."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from time import perf_counter
from typing import Literal, get_args

from tulving.domain.context import Composed
from tulving.domain.model import Kind
from tulving.domain.quality import Answer, Question, judge
from tulving.domain.ranking import Mode
from tulving.services.memory import Memory
from tulving.services.references import AnyItem, References

Verb = Literal["search", "recall"]
VERBS: tuple[Verb, ...] = get_args(Verb)


class Uncounted(References):
    """Counts no references, and reads those that other calls have counted."""

    def __init__(self, counting: References) -> None:
        self._counting = counting

    def last(self, tenant_id: str, kind: Kind, id_: str, last: datetime | None) -> datetime | None:
        return self._counting.last(tenant_id, kind, id_, last)

    def recall(self, kind: Kind, item: AnyItem, now: datetime) -> AnyItem:
        return item

    def count(self, kind: Kind, item: AnyItem, now: datetime) -> AnyItem:
        return item


def uncounted(memory: Memory) -> Memory:
    """The same memory, whose recalls count no references."""
    env = replace(memory._env, references=Uncounted(memory._env.references))
    return Memory(env, memory.caller, memory.bound)


async def ask(
    memory: Memory,
    questions: Sequence[Question],
    verb: Verb = "search",
    *,
    limit: int = 20,
    mode: Mode | None = None,
    types: list[Kind] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Answer]:
    """The answers to all questions, in order, each with the time that it took. `mode` is for a search only."""
    answers: list[Answer] = []
    for question in questions:
        begun = perf_counter()
        if verb == "search":
            found = await memory.search(question.text, types=types, mode=mode, limit=limit)
        else:
            found = await memory.recall(question.text, types=types, limit=limit)
        answers.append(judge(question, found.hits, (perf_counter() - begun) * 1000))
        progress(len(answers), len(questions))
    return answers


def trust(memory: Memory, query: str) -> float:
    """How far similarities to a query count in the relevance of its hits."""
    return memory._env.embedding.trust(query)


def agent_of(memory: Memory, butler: str | None) -> str:
    """The agent for whom `compose` makes a block: the one that is named, else the caller's."""
    return memory._agent(butler)


async def compose(
    memory: Memory,
    prompt: str,
    butler: str | None = None,
    token_budget: int | None = None,
    as_of: datetime | None = None,
    min_relevance: float | None = None,
) -> Composed:
    """The block that `Memory.context` returns, with the hits that it includes and leaves out."""
    return await memory._block(prompt, butler, token_budget, as_of, min_relevance)
