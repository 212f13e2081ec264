"""Verbs on facts: what is true."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any
from uuid import UUID

from tulving import storage
from tulving.domain import claims, cursors, intake
from tulving.domain.decay import PERMANENCE, decay_rate, next_review_at
from tulving.domain.model import (
    CATEGORIES,
    FACT_STATES,
    Fact,
    Item,
    MemoryId,
    NewFact,
    Page,
    Settlement,
    Stored,
    canonical_state,
)
from tulving.domain.validity import start
from tulving.domain.vectors import pack_given
from tulving.errors import InvalidInput
from tulving.services.offers import each_of, offered, read_offers
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import PAGE_SIZES, HouseholdId, PageCursor, PersonaId, Service, T, UserId
from tulving.storage.embeddings import Indexed

SLOWLY = "How slowly it fades"
PERMANENCES, CATEGORY = intake.OneOf(PERMANENCE), intake.OneOf(CATEGORIES)
STATES = intake.OneOf(("any", *FACT_STATES))
DEFAULTS = {"importance": 5.0, "permanence": "standard", "confidence": 1.0}
"""The values of a new fact that the caller leaves out."""
_COLUMN_OF = {"category": "type"}
_RESTATED = (
    *DEFAULTS,
    *("category", "project", "source", "source_butler", "source_episode_id", "occurred_at", "tags", "metadata"),
)
"""What an existing fact takes over from an offer with equal content, if it is given."""


class Facts(Service):
    """Verbs on facts."""

    @operation(
        "memory_store_fact",
        http="POST /v1/facts",
        batch="store_facts",
        effect="write",
        minimal=("importance",),
        command="store fact",
        positional=("subject", "predicate", "content"),
        defaults=DEFAULTS,
    )
    @once
    async def store_fact(
        self,
        subject: Annotated[str, "What or whom it is about"],
        predicate: Annotated[str, "Which property, such as favorite_color"],
        content: Annotated[str, "The value, in plain words"],
        importance: Annotated[float | None, "How much it matters, 0 to 10", intake.IMPORTANCE] = None,
        permanence: Annotated[str | None, SLOWLY, PERMANENCES] = None,
        scope: Annotated[str, "The namespace: global, or that of one agent"] = "global",
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        entity_id: Annotated[MemoryId | None, "The entity it is about, as its key instead of the subject"] = None,
        confidence: Annotated[float | None, "How certain it is, 0 to 1", intake.FRACTION] = None,
        category: Annotated[str | None, "What sort of fact it is", CATEGORY] = None,
        project: Annotated[str | None, "The project it belongs to"] = None,
        source: Annotated[str | None, "Who said it or how it is known"] = None,
        source_butler: Annotated[str | None, "The agent that learned it"] = None,
        source_episode_id: Annotated[MemoryId | None, "The episode it was learned from"] = None,
        occurred_at: Annotated[datetime | None, "Since when it is true, if not now"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
        session_id: Annotated[MemoryId | None, "The session it was learned in (a UUID)"] = None,
    ) -> Stored:
        """Remember that something is true of a subject.

        A fact with the same subject and predicate (or entity and predicate), in any case and with any separators,
        replaces the previous one, which is kept as superseded. One that is true since before the current one
        (occurred_at) is stored as history and does not replace it. The same content again confirms the fact and
        updates what is given here (importance, tags ...); what is left out stays as it was.
        """
        offer = offered(NewFact, locals())
        for name in ("subject", "predicate"):
            intake.name(name, getattr(offer, name))  # without them it would be an unkeyed note
        return await self._store_facts([offer], itemgetter(0))

    @operation(
        "memory_store_note",
        http="POST /v1/notes",
        effect="write",
        command="store note",
        positional=("content",),
        standard=False,
        idempotent=True,
    )
    @once
    async def store_note(
        self,
        content: Annotated[str, "What is true, in plain words"],
        category: Annotated[str, "What sort of fact it is", CATEGORY] = "knowledge",
        importance: Annotated[float, "How much it matters, 0 to 10", intake.IMPORTANCE] = 5.0,
        confidence: Annotated[float, "How certain it is, 0 to 1", intake.FRACTION] = 1.0,
        permanence: Annotated[str, SLOWLY, PERMANENCES] = "standard",
        scope: Annotated[str, "The namespace: global, or that of one agent"] = "global",
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        source: Annotated[str | None, "Who said it: user, conversation, skill, system, inferred, or another"] = None,
        occurred_at: Annotated[datetime | None, "Since when it is true, if not now"] = None,
        session_id: Annotated[MemoryId | None, "The session it was learned in (a UUID)"] = None,
    ) -> Stored:
        """Remember a fact that has no subject and predicate of its own.

        The same content again, whatever its case, is skipped as a duplicate. If a known note says the same in other
        words, or the opposite, one of them is superseded, or both are merged: the outcome and the conflict say which
        and why.
        """
        return await self._store_facts([offered(NewFact, locals())], itemgetter(0))

    @operation(
        "memory_save_semantic",
        http="POST /v1/knowledge",
        effect="write",
        command="store knowledge",
        positional=("content",),
        standard=False,
        idempotent=True,
    )
    @once
    async def save_semantic(
        self,
        content: Annotated[str, "What is known, in plain words"],
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        importance: Annotated[float, "How much it matters, 0 to 10", intake.IMPORTANCE] = 5.0,
        embedding: Annotated[
            Sequence[float] | None,
            "Its vector, if you have it already from the same embedder; only its direction counts",
        ] = None,
        category: Annotated[str, "What sort of fact it is", CATEGORY] = "knowledge",
        confidence: Annotated[float, "How certain it is, 0 to 1", intake.FRACTION] = 1.0,
        source: Annotated[str | None, "Who said it: user, conversation, skill, system, inferred, or another"] = None,
        occurred_at: Annotated[datetime | None, "Since when it is true, if not now"] = None,
        project: Annotated[str | None, "The project it belongs to"] = None,
        session_id: Annotated[MemoryId | None, "The session it was learned in (a UUID)"] = None,
        tags: Annotated[list[str] | None, "Labels to filter by"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
    ) -> Stored:
        """Save what is known about or for a user, to be found by its meaning.

        It is stored as a note: the same content again, of the same user, household and persona, is a duplicate, and the
        answer has the id of the first; one in conflict with it is settled.
        """
        given = None if embedding is None else pack_given(embedding, self._env.embedder.dimension)
        offer = NewFact(
            content=content,
            category=category,
            importance=importance,
            confidence=confidence,
            source=source,
            occurred_at=occurred_at,
            project=project,
            session_id=session_id,
            tags=tags,
            metadata=metadata,
        )
        mine = self._within(user_id, household_id, persona_id, of_a_user=True)
        return await mine._store_facts([offer], itemgetter(0), given)

    @once
    async def store_facts(self, offers: Sequence[NewFact | Mapping[str, Any]]) -> list[Stored]:
        """Remember many facts: one embedding batch, one transaction, in order, all or none. A mapping has the fields of
        `NewFact`."""
        return await self._store_facts(read_offers(NewFact, offers), list)

    async def _store_facts(
        self, offers: Sequence[NewFact], of: Callable[[list[Stored]], T], vector: bytes | None = None
    ) -> T:
        """`of` makes the verb's answer from the results. A single offer may come with its vector."""
        now = self._env.clock()
        facts = each_of(offers, lambda offer: self._fact(offer, now))
        if not facts:
            return of([])
        entries = await self._env.embedding.index(facts, given=vector)
        rows = list(zip(facts, entries, map(_given, offers, facts), strict=True))
        warning = self.warning
        merged: list[Settlement] = []

        def answered(stored: list[Stored]) -> T:
            merged[:] = [one.conflict for one in stored if one.conflict is not None and one.conflict.merged_id]
            return of([replace(one, warning=warning) for one in stored] if warning else stored)

        answer = await self._store_once(
            answered, storage.facts.store, rows, self._audit(now), self.bound, self._env.config.conflicts
        )
        await self._finish_merges(merged)
        return answer

    async def _finish_merges(self, merges: Sequence[Settlement], run_id: UUID | None = None) -> None:
        """Give facts that were merged, perhaps by a run, their vectors. Whatever prevents that, maintenance does it
        later."""
        if ids := [merge.merged_id for merge in merges if merge.merged_id is not None]:
            facts = await self._read(storage.settlements.facts_of, self.caller.tenant_id, ids)
            entries = await self._env.embedding.index(facts)
            indexed = zip(facts, entries, strict=True)
            made: list[Indexed] = [("fact", fact, entry) for fact, entry in indexed if entry.embedding]
            await self._write(storage.embeddings.set_embeddings, made, self._audit_of())

    @operation(
        "memory_history",
        http="GET /v1/history",
        effect="read",
        command="history",
        positional=("subject", "predicate"),
        answer="facts",
        standard=False,
    )
    async def history(
        self,
        subject: Annotated[str, "What or whom it is about"],
        predicate: Annotated[str, "Which property, such as favorite_color"],
        scope: Annotated[str | None, "Only this namespace and the global one"] = None,
        limit: Annotated[int, "How many at most; the newest are kept", PAGE_SIZES] = 100,
        as_of: Annotated[datetime | None, "Only what had become true by this time, as it was then"] = None,
        cursor: PageCursor = None,
    ) -> Page[Fact]:
        """List all facts that were ever stored for a subject and predicate, in any spelling, with the state of each.

        They come in the order in which they became true. The first page has the newest, the next one those before.
        """
        limit = intake.whole("limit", limit, *PAGE_SIZES)
        found = await self._read(
            storage.facts.history,
            self.caller.tenant_id,
            replace(self._filter(scope=scope), state="any", as_of=intake.moment("as_of", as_of)),
            intake.name("subject", subject),
            intake.name("predicate", predicate),
            self._env.clock(),
            limit + 1,
            cursors.read(cursor, datetime, datetime, UUID),
        )
        found, next_cursor = cursors.page(found, limit, lambda fact: (start(fact), fact.created_at, fact.id))
        return Page(items=found[::-1], next_cursor=next_cursor)

    @operation("memory_facts", http="GET /v1/facts", effect="read", command="facts", standard=False)
    async def facts(
        self,
        subject: Annotated[str | None, "Only about this, in any spelling"] = None,
        entity_id: Annotated[MemoryId | None, "Only about this entity"] = None,
        scope: Annotated[str | None, "Only this namespace and the global one"] = None,
        state: Annotated[str | None, "Only those in this state", STATES] = None,
        category: Annotated[str | None, "Only of this category", CATEGORY] = None,
        project: Annotated[str | None, "Only of this project"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        limit: Annotated[int, "How many at most", PAGE_SIZES] = 100,
        cursor: PageCursor = None,
    ) -> Page[Item]:
        """List keyed facts by subject and predicate, page by page, without notes. Does not count as a reference.

        Without a state, those in use are listed: one for each subject and predicate of an owner and namespace.
        """
        if state is not None:
            state = intake.one_of("state", canonical_state(state), STATES)
        if category is not None:
            intake.one_of("category", category, CATEGORIES)
        mine = self._within(user_id, household_id, persona_id)
        wanted = mine._filter(scope=scope, type=category, project=project, tags=tags, state=state)
        limit = intake.whole("limit", limit, *PAGE_SIZES)
        found = await self._read(
            storage.slots.listing,
            self.caller.tenant_id,
            replace(wanted, entity_id=intake.optional_id("entity_id", entity_id)),
            intake.optional_name("subject", subject),
            self._env.clock(),
            limit + 1,
            cursors.read(cursor, str, str, UUID),
        )
        items, next_cursor = cursors.page(found, limit, claims.place)
        return Page(items=[*items], next_cursor=next_cursor)

    def _fact(self, offer: NewFact, now: datetime) -> Fact:
        keyed = offer.subject is not None or offer.predicate is not None
        if keyed and (offer.subject is None or offer.predicate is None):
            missing = "subject" if offer.subject is None else "predicate"
            raise InvalidInput(missing, "is missing", "both subject and predicate, or neither")
        category = "knowledge" if offer.category is None and not keyed else offer.category
        if category is not None:
            intake.one_of("category", category, CATEGORIES)
        said = {
            name: default if (given := getattr(offer, name)) is None else given for name, default in DEFAULTS.items()
        }
        rate = decay_rate(said["permanence"])
        confidence = intake.number("confidence", said["confidence"], *intake.FRACTION)
        subject = intake.name("subject", offer.subject) if keyed else "user"
        predicate = intake.name("predicate", offer.predicate) if keyed else str(category)
        scope = self.bound.scope or intake.name("scope", offer.scope)
        folded_subject, folded_predicate = claims.folded(subject), claims.folded(predicate)
        for names in ((subject, predicate), (folded_subject, folded_predicate)):
            intake.key("subject", self.caller.tenant_id, scope, self.bound.owner.key, *names)
        id_ = self._env.ids()
        return Fact(
            **self._common(offer, id_, now),
            type=category,
            subject=subject,
            predicate=predicate,
            folded_subject=folded_subject,
            folded_predicate=folded_predicate,
            keyed=keyed,
            ref=None if keyed else f"fact_{id_.hex[-8:]}",
            entity_id=intake.optional_id("entity_id", offer.entity_id),
            scope=scope,
            importance=intake.number("importance", said["importance"], *intake.IMPORTANCE),
            confidence=confidence,
            permanence=said["permanence"],
            decay_rate=rate,
            source=intake.optional_name("source", offer.source),
            source_butler=intake.optional_name("source_butler", offer.source_butler),
            source_episode_id=intake.optional_id("source_episode_id", offer.source_episode_id),
            occurred_at=intake.moment("occurred_at", offer.occurred_at),
            last_confirmed_at=now,
            next_review_at=next_review_at(confidence, rate, now, now),
        )


def _given(offer: NewFact, fact: Fact) -> dict[str, Any]:
    """The columns that an offer gives explicitly, with their validated values."""
    named = [_COLUMN_OF.get(name, name) for name in _RESTATED if getattr(offer, name) is not None]
    if "permanence" in named:
        named.append("decay_rate")
    return {name: getattr(fact, name) for name in named}
