"""From what a model proposes to what is stored: every lesson is built, checked and taken here."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from tulving import storage
from tulving.domain.events import Audit
from tulving.domain.learning import (
    EPISODE_CONFIDENCE,
    Action,
    ExtractedFact,
    LearnedFact,
    LearnedRule,
    Run,
    UpdatedFact,
    derived_confidence,
    happened_at,
)
from tulving.domain.model import Episode, Fact, NewFact, NewRule, Rule, Stored
from tulving.domain.records import Record
from tulving.domain.scope import GLOBAL, Bound, Owner, address_of
from tulving.errors import InvalidInput, NotFound
from tulving.services.facts import Facts
from tulving.services.rules import Rules
from tulving.storage.connection import Connection
from tulving.storage.learning import Material
from tulving.storage.lessons import Applied, Step

log = logging.getLogger("tulving")
T = TypeVar("T")

Offer = LearnedFact | UpdatedFact | LearnedRule | ExtractedFact | UUID
"""What a model proposes; an id confirms the memory that has it."""
Decide = Callable[[Connection, Applied], None]
_ACTIONS: dict[type, Action] = {
    LearnedFact: "new_fact",
    ExtractedFact: "new_fact",
    UpdatedFact: "updated_fact",
    LearnedRule: "new_rule",
    UUID: "confirmation",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Learned(Record):
    """What a model's answer has taught. `held` waits for a person, and so do `conflicts_held` of what was stored; the
    run can be undone by its id."""

    run_id: UUID
    stored: list[Stored] = field(default_factory=list)
    profile: list[str] = field(default_factory=list)
    facts_created: int = 0
    facts_updated: int = 0
    rules_created: int = 0
    confirmations_made: int = 0
    episodes_consolidated: int = 0
    duplicates: int = 0
    below_threshold: int = 0
    unwanted: int = 0
    outdated: int = 0
    outweighed: int = 0
    evicted: int = 0
    held: int = 0
    conflicts_held: int = 0
    errors: list[str] = field(default_factory=list)

    def __add__(self, other: "Learned") -> "Learned":
        """Two answers of one run together."""
        names = [each.name for each in fields(Learned) if each.name != "run_id"]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


class Lessons(Facts, Rules):
    """What the verbs that learn have in common."""

    def _for(self, owner: Owner) -> "Lessons":
        """The same verbs for the memories of exactly one owner."""
        bound = Bound(owner, self.bound.project, self.bound.scope)
        return type(self)(self._env, self.caller, bound, session=self._session)

    async def _teach(
        self,
        run: Run,
        offers: Iterable[Offer],
        shown: Material,
        *,
        learned_from: Collection[UUID] = (),
        profile: Mapping[str, str] | None = None,
        origin: Mapping[str, Any] | None = None,
        errors: Sequence[str] = (),
        decide: Decide | None = None,
    ) -> Learned:
        """Take what a model proposes, in one transaction. `shown` is all that it may refer to. If a person wants it so,
        `decide` is called with what came of it, unless it could not be tried."""
        decided = decide is not None
        steps, problems = await self._steps(run, offers, shown, origin or {}, decided)
        blocks: dict[str, str] = {}
        for block, text in (profile or {}).items():
            try:
                blocks |= self._screened(run, {block: text})
            except InvalidInput as error:
                problems.append(f"profile: {error}")
        audit = self._run_audit(run)

        def take(conn: Connection) -> Applied:
            settings = self._env.config
            applied = storage.lessons.apply(
                conn, run, steps, learned_from, blocks, settings, audit, self.bound, decided=decided
            )
            if decide is not None and not problems:
                decide(conn, applied)
            return applied

        applied = await self._write(take)
        conflicts = [stored.conflict for stored in applied.stored if stored.conflict is not None]
        await self._finish_merges([conflict for conflict in conflicts if conflict.merged_id], run.id)
        counts = {name: applied.counts[name] for name in _COUNTED}
        told = [*errors, *problems, *applied.errors]
        return Learned(run_id=run.id, stored=applied.stored, profile=applied.profile, errors=told, **counts)

    async def _steps(
        self, run: Run, offers: Iterable[Offer], shown: Material, origin: Mapping[str, Any], decided: bool
    ) -> tuple[list[Step], list[str]]:
        """The offers with the rows that they would become; one that can't become any is an error of its own."""
        steps, errors, now = list[Step](), list[str](), self._env.clock()  # one answer says all at one time
        for offer in offers:
            try:
                steps.append(self._step(run, self._screened(run, offer), shown, origin, now))
            except (InvalidInput, NotFound) as error:
                log.warning("the run %s proposed a %s that can't be taken: %s", run.id, action_of(offer), error)
                errors.append(f"{action_of(offer)}: {error}")
        built = [step for step in steps if step.item is not None]
        entries = await self._env.embedding.index([step.item for step in built if step.item is not None])
        indexed = {id(step): entry for step, entry in zip(built, entries, strict=True)}
        steps = [replace(step, entry=indexed.get(id(step))) for step in steps]
        return [replace(step, reason=None) for step in steps] if decided else steps, errors

    def _screened(self, run: Run, offer: T) -> T:
        """What a model proposes, without secrets."""
        said, found = self._env.screen.offer(offer)
        if found:
            log.warning("the run %s proposed a secret: %s", run.id, self._env.screen.warning(found))
        return said

    def _step(self, run: Run, offer: Offer, shown: Material, origin: Mapping[str, Any], now: datetime) -> Step:
        step = Step(action=action_of(offer), offer=plain(offer))
        if isinstance(offer, UUID):
            return replace(step, target=shown.address(offer))
        if isinstance(offer, ExtractedFact):
            new = NewFact(**asdict(offer), source="conversation", **_origin(run, ()), **origin)
            return replace(step, item=self._learned(run, new, now))
        known = {episode.id: episode for episode in shown.episodes}
        named = [known[id_] for id_ in offer.evidence if id_ in known]
        evidence = named or list(known.values())
        ids = [episode.id for episode in evidence]
        step = replace(step, evidence=ids, offer={**step.offer, "evidence": _text(ids)})
        if isinstance(offer, LearnedRule):
            new = NewRule(content=offer.content, tags=offer.tags, **_origin(run, evidence))
            rule = replace(self._rule(new, now), run_id=run.id)
            return replace(step, item=rule, reason=self._reason_to_review(rule, evidence, shown.episodes))
        # 001-055: an update for which no episode is named is about now: the model has seen what it replaces.
        dated = evidence if isinstance(offer, LearnedFact) else named
        said = {"content": offer.content, "occurred_at": max(map(happened_at, dated), default=None)}
        if isinstance(offer, LearnedFact):
            said |= {
                name: getattr(offer, name) for name in ("subject", "predicate", "importance", "permanence", "tags")
            }
            said["confidence"] = derived_confidence(offer.confidence, [EPISODE_CONFIDENCE] * len(evidence))
            return replace(step, item=self._learned(run, NewFact(**said, **_origin(run, evidence)), now))
        target = next((fact for fact in shown.facts if fact.id == offer.target_id), None)
        if target is None or not self.bound.may_change(target):
            raise NotFound(f"there is no fact {offer.target_id} that it may update")
        new = NewFact(**said, **_identity(target), permanence=offer.permanence or target.permanence)
        return replace(step, item=self._learned(run, new, now), target=address_of(target))

    def _learned(self, run: Run, offer: NewFact, now: datetime) -> Fact:
        return replace(self._fact(offer, now), run_id=run.id)

    def _reason_to_review(self, rule: Rule, *read: Sequence[Episode]) -> str | None:
        """`read` are the episodes that it cites, and all that the model was shown."""
        from tulving.domain.orders import reason_to_review  # its expressions take long to compile

        reason = reason_to_review(rule.content, *([episode.content for episode in each] for each in read))
        if reason is None and self._env.config.learning.review_rules:
            return "every rule that a model derives is reviewed (learning.review_rules)"
        return reason

    def _run_audit(self, run: Run) -> Audit:
        return Audit(self.caller, self._env.clock(), self._env.ids, run.id)


_COUNTED = [each.name for each in fields(Learned) if each.type is int or each.type == "int"]


def action_of(offer: Offer) -> Action:
    return _ACTIONS[type(offer)]


def plain(offer: Offer) -> dict[str, Any]:
    """An offer as a document, from which `read` makes it again."""
    values = {"target_id": offer} if isinstance(offer, UUID) else asdict(offer)
    return {name: _text(value) for name, value in values.items()}


def read(action: Action, document: Mapping[str, Any]) -> Offer:
    """The offer that a document holds."""
    if action == "confirmation":
        return UUID(document["target_id"])
    record = ExtractedFact if "category" in document else next(of for of, name in _ACTIONS.items() if name == action)
    values = dict(document)
    if "evidence" in values:
        values["evidence"] = [UUID(id_) for id_ in values["evidence"]]
    if "target_id" in values:
        values["target_id"] = UUID(values["target_id"])
    return record(**values)


def _text(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return [_text(part) for part in value] if isinstance(value, list | tuple) else value


def _origin(run: Run, evidence: Sequence[Episode]) -> dict[str, Any]:
    """Where something new belongs and comes from."""
    return {
        "scope": run.butler or GLOBAL,
        "source_butler": run.butler,
        "source_episode_id": evidence[0].id if len(evidence) == 1 else None,
        "project": _common(episode.project for episode in evidence),
    }


def _identity(fact: Fact) -> dict[str, Any]:
    """What a new value of a fact takes over from it, whatever the model says."""
    names = ("entity_id", "importance", "scope", "project", "source_butler", "tags")
    key = {"subject": fact.subject, "predicate": fact.predicate} if fact.keyed else {}
    return {**key, **{name: getattr(fact, name) for name in names}, "category": fact.type}


def _common(values: Iterable[str | None]) -> str | None:
    """The value that all have, if they agree."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
