"""A block of memory for an agent's prompt."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated

from tulving import storage
from tulving.domain import context, intake
from tulving.domain.context import Composed
from tulving.domain.model import KINDS
from tulving.services.operations import operation
from tulving.services.search import MIN_CONFIDENCE, AsOf, MinRelevance, Search
from tulving.storage.search import Judged

CONTEXT_HITS = 20
BUDGETS = intake.Between(context.SMALLEST_BUDGET, 1_000_000)


def _header_only(error: Exception) -> str:
    return f"{context.HEADER}\n(memory is not available: {' '.join(str(error).split())})\n"


def _chosen(found: Sequence[Judged], limit: int) -> list[int]:
    """The first facts and rules, and the first episodes that probably answer."""
    known = [at for at, each in enumerate(found) if each.memory_type != "episode"]
    episodes = [at for at, each in enumerate(found) if each.memory_type == "episode" and not each.weak]
    return known[:limit] + episodes[:limit]


class Context(Search):
    """The verb that agents call when a session starts."""

    @operation(
        "memory_context",
        http="POST /v1/context",
        effect="read",
        minimal=(),
        command="context",
        positional=("trigger_prompt",),
        answer="context",
        defaults={"token_budget": 3000},
        fallback=_header_only,
    )
    async def context(
        self,
        trigger_prompt: Annotated[str, "What the session is about; of a very long text only the beginning is used"],
        butler: Annotated[str | None, "The agent, you if left out: uses its own memories and the global ones"] = None,
        token_budget: Annotated[int | None, "How long the block may be, in tokens", BUDGETS] = None,
        as_of: AsOf = None,
        min_relevance: MinRelevance = None,
    ) -> str:
        """Build the block that belongs in the prompt of a session: the user's profile, facts, rules and episodes.

        It is for the start of a session. Later, recall what is known about a topic.
        """
        return (await self._block(trigger_prompt, butler, token_budget, as_of, min_relevance)).text

    async def _block(
        self,
        trigger_prompt: str,
        butler: str | None,
        token_budget: int | None,
        as_of: datetime | None,
        min_relevance: float | None,
    ) -> Composed:
        """The block with the hits that it includes and leaves out."""
        settings = self._env.config.retrieval
        given = settings.context_token_budget if token_budget is None else token_budget
        budget = intake.whole("token_budget", given, *BUDGETS)
        limit = settings.configured_limit or CONTEXT_HITS
        found = await self._recall(
            intake.search_query("trigger_prompt", trigger_prompt, cut=True),  # hosts pass whole prompts
            KINDS,
            self._filter(scope=self._agent(butler), as_of=as_of),
            limit,
            MIN_CONFIDENCE,
            self._floor(min_relevance),
            partial(_chosen, limit=limit),
        )
        chosen = [self._referenced(hit) for hit in found.hits]
        scores = {hit.item.id: hit.score for hit in chosen}
        # What seems to be outdated comes after what is newer.
        hits = [replace(hit, score=min(hit.score, scores.get(hit.newer or hit.item.id, hit.score))) for hit in chosen]
        whose = self.caller.tenant_id, self.bound.owner
        blocks = await self._read(storage.profiles.current, *whose, intake.moment("as_of", as_of))
        said = {name: block.content for name, block in blocks.items()}
        return context.compose(hits, budget, settings.section_quotas, self._env.tokens, said)
