"""Verbs on rules: how to act, and how well that worked."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any
from uuid import UUID

from tulving import storage
from tulving.domain import intake, maturity
from tulving.domain.decay import PERMANENCE, RULE_DECAY_RATE, decay_rate, next_review_at
from tulving.domain.maturity import Mark
from tulving.domain.model import MemoryId, NewRule, Rule, Stored
from tulving.errors import InvalidInput, NotFound
from tulving.services.items import Items
from tulving.services.offers import each_of, offered, read_offers
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import T
from tulving.services.upkeep import Upkeep

INITIAL_CONFIDENCE = 0.5
LONGEST_REASON = 2_000
LAST_MARKS = 40

RuleId = Annotated[MemoryId, "The rule's id (a UUID)"]
Circumstances = Annotated[dict[str, Any] | None, "Where and how it was applied, as a JSON object"]


class Rules(Items, Upkeep):
    """Verbs on rules."""

    @operation(
        "memory_store_rule",
        http="POST /v1/rules",
        batch="store_rules",
        effect="write",
        command="store rule",
        positional=("content",),
    )
    @once
    async def store_rule(
        self,
        content: Annotated[str, "How to act, in plain words"],
        scope: Annotated[str, "The namespace: global, or that of one agent"] = "global",
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        permanence: Annotated[
            str | None, "How slowly it fades; 0.01 a day if left out", intake.OneOf(PERMANENCE)
        ] = None,
        project: Annotated[str | None, "The project it belongs to"] = None,
        source_butler: Annotated[str | None, "The agent that learned it"] = None,
        source_episode_id: Annotated[MemoryId | None, "The episode it was learned from"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
        session_id: Annotated[MemoryId | None, "The session it was learned in (a UUID)"] = None,
    ) -> Stored:
        """Remember how to act. A new rule is a candidate: use proves it or refutes it."""
        return await self._store_rules([offered(NewRule, locals())], itemgetter(0))

    @once
    async def store_rules(self, offers: Sequence[NewRule | Mapping[str, Any]]) -> list[Stored]:
        """Remember many rules: one embedding batch, one transaction, all or none. A mapping has the fields of
        `NewRule`."""
        return await self._store_rules(read_offers(NewRule, offers), list)

    async def _store_rules(self, offers: Sequence[NewRule], of: Callable[[list[Stored]], T]) -> T:
        """`of` makes the verb's answer from the results."""
        now = self._env.clock()
        audit = self._audit(now)
        rules = each_of(offers, lambda offer: self._rule(offer, now))
        rows = [
            (rule, entry, audit.event("rule_created", "rule", rule.id, content_hash=rule.content_hash))
            for rule, entry in zip(rules, await self._env.embedding.index(rules), strict=True)
        ]
        warning = self.warning
        stored = [Stored(id=rule.id, outcome="stored", warning=warning) for rule in rules]
        return await self._store("rule", rows, of(stored))

    @operation(
        "memory_mark_helpful",
        http="POST /v1/rules/{rule_id}/helpful",
        effect="write",
        command="mark-helpful",
        positional=("rule_id",),
    )
    @once
    async def mark_helpful(self, rule_id: RuleId, circumstances: Circumstances = None) -> Rule:
        """Record that a rule was applied and helped. Enough of this makes a candidate established, and then proven."""
        return await self._mark(rule_id, "helpful", None, circumstances)

    @operation(
        "memory_mark_harmful",
        http="POST /v1/rules/{rule_id}/harmful",
        effect="write",
        command="mark-harmful",
        positional=("rule_id",),
    )
    @once
    async def mark_harmful(
        self,
        rule_id: RuleId,
        reason: Annotated[str | None, "What went wrong"] = None,
        circumstances: Circumstances = None,
    ) -> Rule:
        """Record that a rule was applied and did harm, which weighs four times as much as help.

        A rule that keeps doing harm becomes a warning against itself, with the reasons given here.
        """
        return await self._mark(rule_id, "harmful", _reason(reason), circumstances)

    async def rule_marks(self, rule_ids: Sequence[MemoryId], most: int = LAST_MARKS) -> dict[UUID, list[Mark]]:
        """How the last uses of some rules turned out, oldest first."""
        ids = [intake.memory_id("rule_ids", each) for each in rule_ids]
        return await self._read(storage.rules.marks, self.caller.tenant_id, self.bound, ids, most)

    async def invert_rule(self, rule_id: MemoryId) -> Rule | None:
        """Turn a refuted rule into a warning against itself; None for a rule that is not refuted.

        A rule that was inverted before stays as it is.
        """
        address = await self._address("rule", rule_id, "rule_id", to_change=True)
        rule = None if address is None else await self._read(storage.rules.get, address)
        if rule is None:
            raise NotFound(f"Rule not found: {rule_id}")
        if rule.maturity == "anti_pattern":
            return rule
        return await self._invert(rule, self._audit(self._env.clock()))

    async def _mark(
        self, rule_id: MemoryId, outcome: maturity.Use, reason: str | None, circumstances: dict[str, Any] | None
    ) -> Rule:
        known = _circumstances(circumstances) | ({"reason": reason} if reason else {})
        address = await self._address("rule", rule_id, "rule_id")
        if address is None:
            raise NotFound(f"Rule not found: {rule_id}")
        audit = self._audit(self._env.clock())
        return await self._write_once(lambda conn: storage.rules.mark(conn, address, outcome, reason, known, audit))

    def _rule(self, offer: NewRule, now: datetime) -> Rule:
        scope = self.bound.scope or intake.name("scope", offer.scope)
        intake.key("scope", self.caller.tenant_id, scope)
        rate = RULE_DECAY_RATE if offer.permanence is None else decay_rate(offer.permanence)
        return Rule(
            **self._common(offer, self._env.ids(), now),
            scope=scope,
            confidence=INITIAL_CONFIDENCE,
            permanence=offer.permanence or "standard",
            decay_rate=rate,
            source_butler=intake.optional_name("source_butler", offer.source_butler),
            source_episode_id=intake.optional_id("source_episode_id", offer.source_episode_id),
            last_confirmed_at=now,
            next_review_at=next_review_at(INITIAL_CONFIDENCE, rate, now, now),
        )


def _reason(reason: object) -> str | None:
    """The reason without private parts; None if nothing is left."""
    if reason is None:
        return None
    if not isinstance(reason, str):
        raise InvalidInput("reason", f"must be text, not {type(reason).__name__}", "a short text")
    text = " ".join(intake.public(reason).split())
    if len(text) > LONGEST_REASON:
        raise InvalidInput("reason", f"has {len(text)} characters", f"at most {LONGEST_REASON}")
    return text or None


def _circumstances(value: object) -> dict[str, Any]:
    try:
        return intake.metadata(value)
    except InvalidInput as error:
        field = error.field.replace("metadata", "circumstances", 1)
        raise InvalidInput(field, error.problem, error.allowed) from None
