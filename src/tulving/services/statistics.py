"""The verbs that count."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from tulving import storage
from tulving.domain.model import Kind
from tulving.domain.statistics import EpisodeCounts, FactCounts, Overview, RuleCounts, Statistics
from tulving.services.operations import operation
from tulving.services.service import Service

_HOUR = timedelta(hours=1)


class Counting(Service):
    """The verbs that count memories and texts of models."""

    @operation("memory_stats", http="GET /v1/stats", effect="read", command="stats", by_person="overview")
    async def stats(
        self, scope: Annotated[str | None, "Only facts and rules of this namespace and the global one"] = None
    ) -> Statistics:
        """Count the memories of each kind by state, and how long the oldest episode has waited for consolidation."""
        now = self._env.clock()
        wanted = replace(self._filter(scope=scope), state="any", archived=True)
        # Episodes have an agent instead of a namespace, so only the scope that the connection is bound to applies.
        of_kind: dict[Kind, Any] = {"episode": replace(wanted, scope=self.bound.scope), "fact": wanted, "rule": wanted}
        counts = await self._read(storage.statistics.count, self.caller.tenant_id, of_kind, now)
        oldest: datetime | None = counts["episode"].pop("created_at")
        age = None if oldest is None else max(0.0, (now - oldest) / _HOUR)
        counts["episode"]["backlog_age_hours"] = age
        return Statistics(
            episodes=EpisodeCounts(**counts["episode"]),
            facts=FactCounts(**counts["fact"]),
            rules=RuleCounts(**counts["rule"]),
        )

    async def overview(self, scope: str | None = None) -> Overview:
        """The counts of `stats`, what learning has cost (the tokens spent today of those that may be spent), how many
        conflicts are held for a person, and how tool calls in plain text were read."""
        llm, now, tenant_id = self._env.config.llm, self._env.clock(), self.caller.tenant_id
        learning = await self._read(storage.runs.summary, tenant_id, now)
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
