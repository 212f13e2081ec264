"""What the runs of language models change: each answer in one transaction, each step in a savepoint of its own."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.editing import confirmed, forgotten, in_use
from tulving.domain.events import Audit
from tulving.domain.learning import Action, Run, is_too_much, surplus
from tulving.domain.model import Episode, Fact, Kind, Link, Relation, Rule, Stored
from tulving.domain.scope import Address, Bound, address_of
from tulving.errors import DamagedStore, EmbedderMismatch, IntegrityError, InvalidInput, NotFound
from tulving.settings import ConflictsConfig, MemoryModuleConfig
from tulving.storage import events, facts, items, links, profiles, proposals, runs
from tulving.storage import forgotten as unwanted
from tulving.storage.connection import Connection, Interrupted, savepoint
from tulving.storage.filters import of_tenant
from tulving.storage.kinds import KIND
from tulving.storage.learning import episodes_of
from tulving.storage.rows import IndexEntry

log = logging.getLogger("tulving")

_ADDED = ("stored", "superseded", "merged", "held")
"""Outcomes by which a run has added a fact that is in use."""
ISOLATED = (InvalidInput, NotFound, IntegrityError)
"""Errors that concern one action; the others of its run still take place."""


class Withdrawn(NotFound):
    """An episode that a model was shown may no longer be learned from, but its answer may tell what it said."""


class _Unwanted(Exception):
    """A step would store a value that a person has forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action of a run with all that is computed outside the transaction: the memory that it would store, or the one
    that it `target`s. A `reason` holds it for a person."""

    action: Action
    offer: Mapping[str, Any]
    item: Fact | Rule | None = None
    entry: IndexEntry | None = None
    target: Address | None = None
    evidence: Sequence[UUID] = ()
    reason: str | None = None


@dataclass(slots=True)
class Applied:
    """What came of the steps of a run."""

    counts: Counter[str] = field(default_factory=Counter)
    stored: list[Stored] = field(default_factory=list)
    profile: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def apply(
    conn: Connection,
    run: Run,
    steps: Sequence[Step],
    learned_from: Collection[UUID],
    profile: Mapping[str, str],
    settings: MemoryModuleConfig,
    audit: Audit,
    bound: Bound,
    *,
    decided: bool = False,
) -> Applied:
    """001-054 to 001-057: what a run proposes, in one transaction; each step fails alone. The episodes that it was
    learned from are marked in the same transaction.

    If the run would take too many facts out of use, all of it is held for a person, unless a person has `decided`.
    """
    applied = Applied()
    run = (runs.get(conn, run.tenant_id, run.id, to_change=True) or run) if decided else runs.get_open(conn, run)
    waiting = episodes_of(conn, run.tenant_id, learned_from)
    if len(waiting) < len(learned_from):
        raise Withdrawn("an episode that was shown has been forgotten, deleted or learned from since")
    executor = _Executor(conn, run, audit, bound, applied, settings.conflicts, decided)
    learned = [step.item for step in steps if isinstance(step.item, Fact)]
    conn.lock(*map(claims.key, learned), *(claims.neighbourhood(fact) for fact in learned if not fact.keyed))
    lost = executor.lost(steps, settings.learning.max_facts)
    before, total = run.counts.get("facts_lost", 0), _count_facts(conn, run.tenant_id)
    if not decided and is_too_much(lost + before, total, settings.learning.max_loss):
        reason = f"the run would take {lost + before} of {total} facts out of use (learning.max_loss)"
        steps, profile, lost = [replace(step, reason=reason) for step in steps], {}, 0
    for step in steps:
        try:
            with savepoint(conn):
                executor.take(step)
        except _Unwanted:
            log.info("the run %s found again what a person has forgotten: skipped", run.id)
            applied.counts["unwanted"] += 1
        except (DamagedStore, EmbedderMismatch, Interrupted):  # they concern the whole store, or the whole transaction
            raise
        except ISOLATED as error:
            told = "" if isinstance(error, IntegrityError) else f": {error}"  # the database may quote the row
            problem = f"{type(error).__name__}{told}"
            log.warning("the run %s could not take a %s: %s", run.id, step.action, problem)
            applied.errors.append(f"{step.action}: {problem}")
    executor.make_room(settings.learning.max_facts)
    applied.profile = profiles.update(conn, run.tenant_id, bound.owner, profile, audit) if profile else []
    applied.counts["episodes_consolidated"] = _consolidated(conn, waiting, audit)
    applied.counts["facts_lost"] = lost
    counts = Counter(run.counts) + applied.counts
    runs.change(conn, run, counts=dict(counts))
    return applied


class _Executor:
    """Takes the steps of one run."""

    def __init__(
        self,
        conn: Connection,
        run: Run,
        audit: Audit,
        bound: Bound,
        applied: Applied,
        conflicts: ConflictsConfig,
        decided: bool,
    ) -> None:
        self._conn, self._run, self._audit, self._bound = conn, run, audit, bound
        self._applied, self._conflicts, self._decided = applied, conflicts, decided

    def lost(self, steps: Iterable[Step], max_facts: int) -> int:
        """How many facts the steps would take out of use."""
        lost, new, replaced = 0, list[Fact](), set[UUID]()
        for step in steps:
            if step.reason is None and isinstance(step.item, Fact):
                current = facts.holder(self._conn, step.item)
                if step.item.keyed:
                    lost += current is not None and claims.decide(step.item, current) == "supersede"
                elif step.action == "updated_fact":
                    lost += 1
                elif current is None:
                    new.append(step.item)
                    replaced.update(self._replaced_by(step.item, step.entry))
        return lost + len(replaced) + (len(surplus(self._learned(), new, max_facts)) if new else 0)

    def make_room(self, max_facts: int) -> None:
        """003-010: if the owner has too many learned facts now, the least certain of the earlier ones go."""
        added = {stored.id for stored in self._applied.stored if stored.outcome in _ADDED}
        if not added:
            return
        learned = self._learned()
        known, new = ([fact for fact in learned if (fact.id in added) is ours] for ours in (False, True))
        for fact in surplus(known, new, max_facts):
            items.update(self._conn, (fact, forgotten(fact, self._audit.now)))
            events.append(self._conn, self._audit.event("fact_retracted", "fact", fact.id, by="max_facts"))
            self._applied.counts["evicted"] += 1

    def take(self, step: Step) -> None:
        if step.reason is not None:
            if step.item is not None:
                self._check_is_wanted(step.item)
            held = proposals.hold(self._conn, self._run, step.action, step.offer, step.reason, self._audit)
            self._applied.counts["held"] += held
        elif step.action == "confirmation":
            self._applied.counts["confirmations_made"] += self._confirm(step.target)
        elif isinstance(step.item, Rule):
            self._add_rule(step.item, step)
        elif step.item is not None:
            self._add_fact(step.item, step)

    def _add_rule(self, rule: Rule, step: Step) -> None:
        assert step.entry is not None
        self._check_is_wanted(rule)
        same = self._conn.fetch_one(
            "SELECT id FROM rules WHERE tenant_id = :tenant_id AND owner = :owner AND scope = :scope"
            " AND content_hash = :content_hash AND NOT forgotten LIMIT 1",
            KIND["rule"].params(rule),
        )
        if same is not None:
            log.info("the run %s found the rule %s again: a duplicate was skipped", self._run.id, same["id"])
            self._applied.counts["duplicates"] += 1
            return
        event = self._audit.event("rule_created", "rule", rule.id, content_hash=rule.content_hash)
        items.store(self._conn, "rule", [(rule, step.entry, event)], self._bound)
        self._derive("rule", rule.id, step.evidence)
        self._applied.stored.append(Stored(id=rule.id, outcome="stored"))
        self._applied.counts["rules_created"] += 1

    def _add_fact(self, fact: Fact, step: Step) -> None:
        assert step.entry is not None
        target = self._target(step.target) if step.action == "updated_fact" else None
        current = facts.holder(self._conn, fact)
        decision = claims.decide(fact, current)
        if target is not None and not fact.keyed and decision == "store":
            current = claims.claim(target)
            decision = claims.decide(replace(fact, keyed=True), current)
        match decision:
            case "duplicate" if current is not None:
                log.info("the run %s found the fact %s again: a duplicate was skipped", self._run.id, current.id)
                self._applied.stored.append(Stored(id=current.id, outcome="duplicate", ref=current.ref))
                self._applied.counts["duplicates"] += 1
            case "confirm" | "antedate" if current is not None:
                self._confirm(replace(address_of(fact), id=current.id))
                for episode in step.evidence:
                    self._link("episode", episode, "fact", current.id, "supports")
                self._applied.stored.append(Stored(id=current.id, outcome="confirmed"))
                self._applied.counts["confirmations_made"] += 1
            case "outdated" if current is not None:
                # A model must not rewrite history: what it read is older than what is known.
                self._applied.stored.append(Stored(id=current.id, outcome="kept"))
                self._applied.counts["outdated"] += 1
            case _:
                self._store_fact(fact, step.entry, step, target)

    def _store_fact(self, fact: Fact, entry: IndexEntry, step: Step, target: Fact | None) -> None:
        """Store a fact, and settle its conflict with a known one; a new value of a `target` is not compared."""
        self._check_is_wanted(fact)
        compared = None if target is not None else self._conflicts
        [stored] = facts.store(self._conn, [(fact, entry, {})], self._audit, self._bound, compared)
        if target is not None and not fact.keyed:
            self._replace(target, fact)
            stored = replace(stored, outcome="superseded", superseded_id=target.id)
        if stored.outcome == "merged":
            merged = items.get(self._conn, replace(address_of(fact), id=stored.id))
            assert isinstance(merged, Fact)
            self._check_is_wanted(merged)
        self._derive("fact", fact.id, step.evidence)
        self._applied.stored.append(stored)
        added = "facts_updated" if step.action == "updated_fact" else "facts_created"
        self._applied.counts[added if stored.outcome in _ADDED else "outweighed"] += 1
        self._applied.counts["conflicts_held"] += stored.outcome == "held"

    def _replaced_by(self, fact: Fact, entry: IndexEntry | None) -> Iterator[UUID]:
        """The known fact that a conflict with this one would take out of use."""
        if entry is not None and self._conflicts.enabled:
            verdict = facts.rival(self._conn, fact, entry, self._conflicts, self._audit)
            if verdict is not None and verdict.takes_out_of_use:
                yield verdict.conflict.existing.id

    def _learned(self) -> list[Fact]:
        """The learned facts in use that count for the limit: an owner's unkeyed ones."""
        rows = self._conn.fetch_all(
            f"{KIND['fact'].select} WHERE m.tenant_id = :tenant_id AND m.owner = :owner AND m.validity = 'active'"
            f" AND m.run_id IS NOT NULL AND NOT m.keyed{self._conn.for_update}",
            {"tenant_id": self._run.tenant_id, "owner": self._bound.owner.key},
        )
        return [Fact(**row) for row in rows]

    def _target(self, address: Address | None) -> Fact:
        """The fact that is to be updated; it may have changed since the model was shown it."""
        item = None if address is None else items.get(self._conn, address, to_change=True)
        if not isinstance(item, Fact) or not in_use(item):
            raise NotFound("the fact to be updated is no longer in use")
        return item

    def _replace(self, old: Fact, new: Fact) -> None:
        """An unkeyed fact has no slot in which another one would replace it."""
        facts.supersede(self._conn, old.tenant_id, old.id, new.occurred_at or self._audit.now, self._audit.now)
        links.insert(self._conn, old.tenant_id, links.supersedes(new.id, old.id, self._audit.now))
        event = self._audit.event("fact_superseded", "fact", old.id, superseded_by=str(new.id))
        events.append(self._conn, event)

    def _confirm(self, address: Address | None) -> bool:
        item = None if address is None else items.get(self._conn, address, to_change=True)
        if not isinstance(item, Fact | Rule) or not in_use(item):
            return False
        kind: Kind = "fact" if isinstance(item, Fact) else "rule"
        before = item.last_confirmed_at and item.last_confirmed_at.isoformat()
        items.update(self._conn, (item, confirmed(item, self._audit.now)))
        events.append(self._conn, self._audit.event(f"{kind}_confirmed", kind, item.id, confirmed_before=before))
        return True

    def _check_is_wanted(self, item: Fact | Rule) -> None:
        if not self._decided and unwanted.is_unwanted(self._conn, item, self._audit.new_id):
            raise _Unwanted

    def _derive(self, kind: Kind, id_: UUID, evidence: Iterable[UUID]) -> None:
        """001-054, 004-006: where it was learned from."""
        for episode in evidence:
            self._link(kind, id_, "episode", episode, "derived_from")

    def _link(self, source: Kind, source_id: UUID, target: Kind, target_id: UUID, relation: Relation) -> None:
        link = Link(
            source_type=source,
            source_id=source_id,
            target_type=target,
            target_id=target_id,
            relation=relation,
            created_at=self._audit.now,
        )
        links.insert(self._conn, self._run.tenant_id, link)


def _count_facts(conn: Connection, tenant_id: str) -> int:
    where, params = of_tenant(tenant_id, KIND["fact"].in_use)
    return conn.fetch_all(f"SELECT COUNT(*) AS facts FROM facts AS m WHERE {where}", params)[0]["facts"]


def _consolidated(conn: Connection, waiting: Sequence[Episode], audit: Audit) -> int:
    """001-056: these episodes have been learned from."""
    done: dict[str, Any] = {
        "consolidated": True,
        "consolidation_status": "consolidated",
        "last_consolidation_error": None,
        "next_consolidation_retry_at": None,
        "updated_at": audit.now,
    }
    items.update(conn, *((episode, replace(episode, **done)) for episode in waiting))
    events.append(conn, *(audit.event("episode_consolidated", "episode", episode.id) for episode in waiting))
    return len(waiting)
