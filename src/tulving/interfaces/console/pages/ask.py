"""Ask: what search, recall and context answer to a question, and why."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from datetime import datetime
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.responses import Response

from tulving.domain.model import KINDS, Found
from tulving.domain.ranking import MODES
from tulving.domain.scope import GLOBAL, scope_of
from tulving.errors import InvalidInput
from tulving.interfaces.console import fields, hits
from tulving.interfaces.console.visit import Page, Visit
from tulving.services.evaluation import agent_of, compose, trust, uncounted
from tulving.services.memory import Memory
from tulving.services.provenance import beginning
from tulving.services.search import MIN_CONFIDENCE

T = TypeVar("T")
LIMIT, NEAR, EXAMPLES, RECENT = 10, 5, 5, 20
STEPS = 400
"""The positions of the slider for `as_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with its conditions, from the query parameters."""

    q: str = ""
    types: list[str] = field(default_factory=list)
    scope: str | None = None
    project: str | None = None
    type: str | None = None
    tags: list[str] = field(default_factory=list)
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    mode: str | None = None
    limit: int = LIMIT
    min_confidence: float = MIN_CONFIDENCE
    min_relevance: float | None = None
    budget: int | None = None
    butler: str | None = None

    @property
    def conditions(self) -> dict[str, Any]:
        """The arguments of a recall; a search takes more."""
        kept = ("scope", "project", "tags", "since", "until", "as_of", "limit", "min_confidence", "min_relevance")
        return {"types": self.types or None, **{name: getattr(self, name) for name in kept}}

    @property
    def is_narrow(self) -> bool:
        """Whether there are conditions that a context does not take."""
        return bool(self.types or self.project or self.type or self.tags or self.since or self.until)

    @property
    def given(self) -> set[str]:
        """The conditions that differ from the defaults."""
        plain = Asked()
        return {each.name for each in fields_of(self) if getattr(self, each.name) != getattr(plain, each.name)} - {"q"}


@dataclass(frozen=True, slots=True)
class Answers:
    """The three answers, each with its duration, and the near misses."""

    search: Found
    searched: list[hits.Shown]
    search_ms: float
    recall: Found
    recalled: list[hits.Shown]
    recall_ms: float
    context: Any
    context_ms: float
    near: list[hits.Miss]
    agent: str
    """The agent of the context, and other agents with memories about the question."""
    others: list[str]


async def show(visit: Visit) -> Response:
    """The form and, with a question, the answers."""
    memory = uncounted(visit.memory)
    asked, answers, problem = Asked(q=fields.text(visit.query, "q")), None, ""
    examples: list[str] = []
    try:
        asked = read(visit.query)
        if asked.q:
            answers = await _answers(memory, asked)
    except InvalidInput as error:
        problem = fields.problem(error)
    if not asked.q:
        examples = await _examples(memory)
    began = None if visit.is_partial and asked.q else await beginning(memory)
    return visit.render(
        "ask.html",
        fragment="answers",
        status=422 if problem else 200,
        asked=asked,
        answers=answers,
        problem=problem,
        examples=examples,
        is_new=began is None,
        life=_life(began, memory.now(), asked.as_of),
        kinds=KINDS,
        modes=MODES,
        defaults=memory.config.retrieval,
        back=urlencode({"q": asked.q}),
    )


def read(query: QueryParams) -> Asked:
    """The question in the query parameters."""
    given: dict[str, Any] = {
        "types": [kind for kind in query.getlist("types") if kind],
        "tags": fields.tags(query),
        **{name: fields.text(query, name) for name in ("q", "scope", "project", "type", "mode", "butler")},
        **{name: fields.moment(query, name) for name in ("since", "until", "as_of")},
        **{name: fields.whole(query, name) for name in ("limit", "budget")},
        **{name: fields.number(query, name) for name in ("min_confidence", "min_relevance")},
    }
    return Asked(**{name: value for name, value in given.items() if value not in ("", None)})


async def _answers(memory: Memory, asked: Asked) -> Answers:
    """The answers, one after the other so that their durations are comparable."""
    conditions = asked.conditions
    of_search = {**conditions, "mode": asked.mode, "type": asked.type}
    search, search_ms = await _timed(memory.search(asked.q, **of_search))
    recall, recall_ms = await _timed(memory.recall(asked.q, **conditions))
    agent = agent_of(memory, asked.butler or asked.scope)
    composing = compose(memory, asked.q, agent, asked.budget, asked.as_of, asked.min_relevance)
    context, context_ms = await _timed(composing)
    loose = {"limit": min(asked.limit + NEAR, 1000), "min_confidence": 0.0, "min_relevance": 0.0}
    beyond = await memory.search(asked.q, **of_search | loose)
    settings = memory.config.retrieval
    floor = settings.min_relevance if asked.min_relevance is None else asked.min_relevance
    return Answers(
        search,
        hits.searched(search.hits, trust(memory, asked.q)),
        search_ms,
        recall,
        hits.recalled(recall.hits, settings.score_weights),
        recall_ms,
        context,
        context_ms,
        hits.misses(search, beyond, asked.min_confidence, floor, NEAR),
        agent,
        sorted({scope_of(hit.item) for hit in (*search.hits, *recall.hits)} - {GLOBAL, agent}),
    )


async def _timed(answer: Awaitable[T]) -> tuple[T, float]:
    begun = perf_counter()
    result = await answer
    return result, (perf_counter() - begun) * 1000


async def _examples(memory: Memory) -> list[str]:
    recent = [item for kind in KINDS for item in await memory.list_memories(kind, limit=RECENT)]
    return hits.questions(sorted(recent, key=lambda item: item.created_at, reverse=True), EXAMPLES)


def _life(began: datetime | None, now: datetime, as_of: datetime | None) -> dict[str, Any] | None:
    """The slider for `as_of`: its range in seconds and its position; None without earlier memories."""
    if began is None or began >= now:
        return None
    share = 1.0 if as_of is None else min(1.0, max(0.0, (as_of - began) / (now - began)))
    return {
        "began": began,
        "from": began.timestamp(),
        "to": now.timestamp(),
        "steps": STEPS,
        "at": round(share * STEPS),
    }


PAGES = [Page("/ask", show)]
