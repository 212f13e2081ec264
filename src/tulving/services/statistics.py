"""The verbs that count."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from tulving import storage
from tulving.domain import days as calendar
from tulving.domain import intake
from tulving.domain.model import KINDS, Kind
from tulving.domain.statistics import (
    DayOfFading,
    DayOfGrowth,
    EpisodeCounts,
    FactCounts,
    Fading,
    Growth,
    Overview,
    RuleCounts,
    Statistics,
)
from tulving.services.operations import operation
from tulving.services.service import Service
from tulving.storage.connection import Connection

DAYS = intake.Between(1, 120)
LISTED = intake.Between(1, 100)
_HOUR = timedelta(hours=1)


class Counting(Service):
    """The verbs that count memories and texts of models."""

    @operation("memory_stats", http="GET /v1/stats", effect="read", command="stats", by_person="overview")
    async def stats(
        self, scope: Annotated[str | None, "Only facts and rules of this namespace and the global one"] = None
    ) -> Statistics:
        """Count the memories of each kind by state, and how long the oldest episode has waited for consolidation."""
        now = self._env.clock()
        # Concurrently, since each reads all rows of its table.
        episodes, facts, rules = await asyncio.gather(*(self._counts(kind, scope, now) for kind in KINDS))
        oldest: datetime | None = episodes.pop("created_at")
        episodes["backlog_age_hours"] = None if oldest is None else max(0.0, (now - oldest) / _HOUR)
        return Statistics(episodes=EpisodeCounts(**episodes), facts=FactCounts(**facts), rules=RuleCounts(**rules))

    async def count_rules(self, scope: str | None = None) -> RuleCounts:
        """The counts of `stats` for rules alone."""
        return RuleCounts(**await self._counts("rule", scope, self._env.clock()))

    async def _counts(self, kind: Kind, scope: str | None, now: datetime) -> dict[str, Any]:
        wanted = replace(self._filter(scope=scope), state="any", archived=True)
        # Episodes have an agent instead of a namespace, so only the scope that the connection is bound to applies.
        of_kind = replace(wanted, scope=self.bound.scope) if kind == "episode" else wanted
        return await self._read(storage.statistics.count, self.caller.tenant_id, kind, of_kind, now)

    @operation("memory_growth", http="GET /v1/growth", effect="read", command="growth", standard=False)
    async def growth(self, days: Annotated[int, "How many days back, today included", DAYS] = 28) -> Growth:
        """Count the memories of each kind that were stored on each of the last days (UTC), oldest first.

        At most 10,000 of each kind are counted per day.
        """
        wanted = calendar.until(self._env.clock(), intake.whole("days", days, *DAYS))
        counts = await self._read(storage.growth.stored, self.caller.tenant_id, self.bound, wanted)
        return Growth(
            days=[
                DayOfGrowth(day=day, episodes=count["episode"], facts=count["fact"], rules=count["rule"])
                for day, count in zip(wanted, counts, strict=True)
            ]
        )

    @operation("memory_fading", http="GET /v1/fading", effect="read", command="fading", standard=False)
    async def fading(
        self,
        days: Annotated[int, "How many days ahead, today included", DAYS] = 7,
        limit: Annotated[int, "How many memories are listed at most", LISTED] = 10,
    ) -> Fading:
        """Forecast which facts and rules will fade in the next days unless something confirms them: how many begin to
        fade and how many expire on each day (UTC), and the most important ones.

        At most 10,000 are counted per day.
        """
        wanted = calendar.after(self._env.clock(), intake.whole("days", days, *DAYS))
        limit = intake.whole("limit", limit, *LISTED)

        def look(conn: Connection) -> Fading:
            mine = self.caller.tenant_id, self.bound
            counts = storage.reviews.due_by_day(conn, *mine, wanted)
            first = storage.reviews.due_first(conn, *mine, wanted[-1] + calendar.DAY, limit)
            listed = [DayOfFading(day=day, **count) for day, count in zip(wanted, counts, strict=True)]
            return Fading(days=listed, memories=[*first])

        return await self._read(look)

    async def overview(self, scope: str | None = None) -> Overview:
        """The counts of `stats`, what learning has cost (the tokens spent today of those that may be spent), how many
        conflicts are held for a person, and how tool calls in plain text were read."""
        llm, now, tenant_id = self._env.config.llm, self._env.clock(), self.caller.tenant_id
        learning = await self._read(storage.runs.summary, tenant_id, self.bound, now)
        held = await self._read(storage.settlements.count_held, tenant_id, self.bound)
        model = self._env.model and self._env.model.name
        counts = await self.stats(scope)
        return Overview(
            episodes=counts.episodes,
            facts=counts.facts,
            rules=counts.rules,
            learning={**learning, "tokens_per_day": llm.tokens_per_day, "model": model},
            conflicts={"held": held.total()},
            tool_text=await self._read(storage.tool_texts.summary, tenant_id),
        )

    async def count_tool_text(self, protocol: str, reason: str) -> None:
        """Count a model's text that was read for tool calls, and the reason if ABP was not used."""
        await self._write(storage.tool_texts.count, self.caller.tenant_id, protocol, reason, self._env.clock())
