"""How to act."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from tulving import storage
from tulving.domain import intake
from tulving.domain.decay import RULE_DECAY_RATE, decay_rate, next_review_at
from tulving.domain.model import MemoryId, NewRule, Rule, Stored
from tulving.domain.text import content_hash
from tulving.services.operations import operation
from tulving.services.service import Service

INITIAL_CONFIDENCE = 0.5


class Rules(Service):
    """Verbs on rules."""

    @operation("memory_store_rule", effect="write", command="store rule", positional=("content",))
    async def store_rule(
        self,
        content: Annotated[str, "How to act, in plain words"],
        scope: Annotated[str, "The namespace: global, or that of one agent"] = "global",
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        permanence: Annotated[str | None, "How slowly it fades; 0.01 a day when left out"] = None,
        project: Annotated[str | None, "The project it belongs to"] = None,
        source_butler: Annotated[str | None, "The agent that learned it"] = None,
        source_episode_id: Annotated[MemoryId | None, "The episode it was learned from"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
    ) -> Stored:
        """Remember how to act. A new rule is a candidate: use proves it or refutes it."""
        offer = NewRule(
            content=content,
            scope=scope,
            tags=tags,
            permanence=permanence,
            project=project,
            source_butler=source_butler,
            source_episode_id=source_episode_id,
            metadata=metadata,
        )
        return (await self.store_rules([offer]))[0]

    async def store_rules(self, offers: Sequence[NewRule]) -> list[Stored]:
        """Remember many rules: one embedding batch, one transaction, all or none."""
        now = self._env.clock()
        audit = self._audit(now)
        rules = [self._rule(offer, now) for offer in offers]
        rows = [
            (rule, entry, audit.event("rule_created", "rule", rule.id, content_hash=rule.content_hash))
            for rule, entry in zip(rules, await self._index(rules), strict=True)
        ]
        if rows:
            await self._write(storage.items.store, "rule", rows)
        self._publish([event for _, _, event in rows])
        warning = self.warning
        return [Stored(id=rule.id, outcome="stored", warning=warning) for rule in rules]

    def _rule(self, offer: NewRule, now: datetime) -> Rule:
        content = intake.content(offer.content)
        scope = self.bound.scope or intake.name("scope", offer.scope)
        intake.key("scope", self.caller.tenant_id, scope)
        rate = RULE_DECAY_RATE if offer.permanence is None else decay_rate(offer.permanence)
        return Rule(
            tenant_id=self.caller.tenant_id,
            id=self._env.ids(),
            content=content,
            **self._owned(),  # pyright: ignore[reportArgumentType]
            project=self.bound.project or intake.optional_name("project", offer.project),
            tags=intake.tags(offer.tags),
            metadata=intake.metadata(offer.metadata),
            content_hash=content_hash(content),
            created_at=now,
            updated_at=now,
            scope=scope,
            confidence=INITIAL_CONFIDENCE,
            permanence=offer.permanence or "standard",
            decay_rate=rate,
            source_butler=intake.optional_name("source_butler", offer.source_butler),
            source_episode_id=intake.optional_id("source_episode_id", offer.source_episode_id),
            last_confirmed_at=now,
            next_review_at=next_review_at(INITIAL_CONFIDENCE, rate, now, now),
        )
