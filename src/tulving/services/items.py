"""Verbs on memories of any kind: get, list, confirm, edit, forget, delete, link."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from tulving import storage
from tulving.domain import cursors, intake
from tulving.domain.editing import Revision, edited
from tulving.domain.events import Event
from tulving.domain.model import (
    CATEGORIES,
    DIRECTIONS,
    FACT_STATES,
    KINDS,
    RELATIONS,
    RULE_STATES,
    Direction,
    Item,
    Kind,
    Link,
    MemoryId,
    Page,
    Relation,
    canonical_state,
)
from tulving.domain.scope import Address, address_of
from tulving.domain.text import found_by
from tulving.errors import InvalidInput, NotFound
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import PAGE_SIZES, HouseholdId, PageCursor, PersonaId, Service, UnchangedSince, UserId

MemoryType = Annotated[Kind, "episode, fact or rule"]
FactOrRule = Annotated[Kind, "fact or rule", intake.OneOf(("fact", "rule"))]
Id = Annotated[MemoryId, "Its id (a UUID; facts may also have a short one, fact_xxxxxxxx)"]
STATES_OF: dict[Kind, tuple[str, ...]] = {"episode": (), "fact": FACT_STATES, "rule": RULE_STATES}
ALL_STATES = (*FACT_STATES, *RULE_STATES)
ONE_MEMORY = ("memory_type", "memory_id")


class Items(Service):
    """Verbs on memories of any kind."""

    def now(self) -> datetime:
        """The time of this memory's clock, for displaying its memories."""
        return self._env.clock()

    @operation(
        "memory_get",
        http="GET /v1/memories/{memory_type}/{memory_id}",
        effect="read",
        minimal=(),
        command="get",
        positional=ONE_MEMORY,
        answer="memory",
        by_person="look",
    )
    async def get(self, memory_type: MemoryType, memory_id: Id) -> Item | None:
        """Read one memory in full, in any state; nothing if there is none.

        It counts as a reference, except from the command line.
        """
        item = await self.look(memory_type, memory_id)
        return None if item is None else self._env.references.count(memory_type, item, self._env.clock())

    async def look(self, memory_type: MemoryType, memory_id: Id) -> Item | None:
        """Read one memory in full as `get` does, without counting a reference."""
        address = await self._address(memory_type, memory_id)
        return None if address is None else await self._read(storage.items.get, address)

    @operation(
        "memory_list",
        http="GET /v1/memories/{memory_type}",
        effect="read",
        command="list",
        positional=("memory_type",),
        standard=False,
    )
    async def list_memories(
        self,
        memory_type: MemoryType,
        scope: Annotated[str | None, "Only this namespace and the global one; for episodes, this agent"] = None,
        type: Annotated[str | None, "Only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        state: Annotated[
            str | None, "Only those in this state; that of a rule is its maturity", intake.OneOf(("any", *ALL_STATES))
        ] = None,
        keyed: Annotated[bool | None, "For facts: only those with a subject and predicate (true), or notes"] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        limit: Annotated[int, "How many at most", PAGE_SIZES] = 50,
        cursor: PageCursor = None,
    ) -> Page[Item]:
        """List memories, newest first, page by page. Does not count as a reference."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        if state is not None:
            state = canonical_state(state) if kind == "fact" else state
            state = intake.one_of("state", state, ("any", *STATES_OF[kind]))
        if keyed is not None and kind != "fact":
            raise InvalidInput("keyed", f"is not for {kind}s", "memory_type fact")
        limit = intake.whole("limit", limit, *PAGE_SIZES)
        mine = self._within(user_id, household_id, persona_id)
        wanted = mine._filter(scope=scope, type=type, project=project, since=since, until=until, tags=tags, state=state)
        items: list[Item] = await self._read(
            storage.items.listing,
            self.caller.tenant_id,
            kind,
            replace(wanted, archived=True, keyed=None if keyed is None else intake.flag("keyed", keyed)),
            self._env.clock(),
            limit + 1,
            cursors.read(cursor, datetime, UUID),
        )
        items, next_cursor = cursors.page(items, limit, lambda item: (item.created_at, item.id))
        return Page(items=items, next_cursor=next_cursor)

    @operation(
        "memory_confirm",
        http="POST /v1/memories/{memory_type}/{memory_id}/confirm",
        effect="write",
        command="confirm",
        positional=ONE_MEMORY,
        answer="confirmed",
        idempotent=True,
    )
    @once
    async def confirm(self, memory_type: FactOrRule, memory_id: Id) -> bool:
        """Confirm that a fact or rule still holds, so that its decay restarts; an expired one comes back.

        False if there is none, or if it was superseded or forgotten. An expired fact whose key another one has taken
        is refused.
        """
        kind = intake.one_of("memory_type", memory_type, KINDS)
        if kind == "episode":
            raise InvalidInput("memory_type", "an episode can't be confirmed: it happened or not", "fact, rule")
        address = await self._address(kind, memory_id)
        if address is None:
            return False
        event = self._audit(self._env.clock()).event(f"{kind}_confirmed", kind, address.id)
        return await self._write_once(lambda conn: storage.reviews.confirm(conn, address, event))

    @operation(
        "memory_forget",
        http="POST /v1/memories/{memory_type}/{memory_id}/forget",
        effect="destroy",
        minimal=(),
        command="forget",
        positional=ONE_MEMORY,
        answer="forgotten",
        idempotent=True,
    )
    @once
    async def forget(
        self,
        memory_type: MemoryType,
        memory_id: Id,
        derived: Annotated[bool, "Also forget what was learned from it alone"] = False,
    ) -> bool:
        """Forget a memory: it is no longer found, but its row is kept; false if there is none.

        No model learns a forgotten fact or rule again; you may store it.
        """
        address = await self._address(memory_type, memory_id, to_change=True)
        if address is None:
            return False
        audit = self._audit(self._env.clock())
        return await self._write_once(lambda conn: storage.forgotten.forget(conn, address, audit, self.bound, derived))

    @operation(
        "memory_derived",
        http="GET /v1/memories/{memory_type}/{memory_id}/derived",
        effect="read",
        command="derived",
        positional=ONE_MEMORY,
        answer="memories",
        standard=False,
    )
    async def derived(self, memory_type: MemoryType, memory_id: Id) -> list[Item]:
        """List what was learned from a memory and from nothing else."""
        address = await self._address(memory_type, memory_id)
        return [] if address is None else await self._read(storage.forgotten.derived_alone, address, self.bound)

    @operation(
        "memory_delete",
        http="DELETE /v1/memories/{memory_type}/{memory_id}",
        effect="destroy",
        command="delete",
        positional=ONE_MEMORY,
        answer="deleted",
        standard=False,
    )
    @once
    async def delete(self, memory_type: MemoryType, memory_id: Id) -> bool:
        """Delete a memory permanently. An event without content remains; an unknown id is an error."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        address = await self._address(kind, memory_id, to_change=True)
        if address is None:
            raise NotFound(f"there is no {kind} {memory_id}")
        audit = self._audit(self._env.clock())
        return await self._write_once(lambda conn: storage.forgotten.delete(conn, address, audit))

    @operation(
        "memory_edit",
        http="PATCH /v1/memories/{memory_type}/{memory_id}",
        effect="write",
        command="edit",
        positional=ONE_MEMORY,
        answer="memory",
        standard=False,
        idempotent=True,
    )
    @once
    async def edit(
        self,
        memory_type: MemoryType,
        memory_id: Id,
        content: Annotated[str | None, "What it should say instead"] = None,
        tags: Annotated[list[str] | None, "All labels it should have"] = None,
        importance: Annotated[float | None, "0 to 10; a rule has none", intake.IMPORTANCE] = None,
        category: Annotated[str | None, "Of a fact: what sort it is", intake.OneOf(CATEGORIES)] = None,
        confidence: Annotated[float | None, "Of a fact: 0 to 1", intake.FRACTION] = None,
        unchanged_since: UnchangedSince = None,
    ) -> Item:
        """Correct a memory in place. It keeps its id and its age, and its old version is kept as a revision.

        New content confirms a fact or rule. If something has become true only now, store a new fact instead.
        """
        kind = intake.one_of("memory_type", memory_type, KINDS)
        changes: dict[str, Any] = {}
        if content is not None:
            changes["content"] = self._content(content)
        if tags is not None:
            changes["tags"] = intake.tags(tags)
        if importance is not None:
            if kind == "rule":
                raise InvalidInput("importance", "a rule has none: it is judged by its use", "for episodes and facts")
            changes["importance"] = intake.number("importance", importance, *intake.IMPORTANCE)
        for name, given in (("category", category), ("confidence", confidence)):
            if given is not None and kind != "fact":
                raise InvalidInput(name, f"that of the {kind} can't be changed", "for facts only")
        if category is not None:
            changes["type"] = intake.one_of("category", category, CATEGORIES)
        if confidence is not None:
            changes["confidence"] = intake.number("confidence", confidence, *intake.FRACTION)
        if not changes:
            allowed = "content, tags, importance, or category and confidence of a fact"
            raise InvalidInput("content", "nothing is to be changed", allowed)
        now = self._env.clock()
        address = await self._address(kind, memory_id, to_change=True)
        item = None if address is None else await self._read(storage.items.get, address)
        if address is None or item is None:
            raise NotFound(f"there is no {kind} {memory_id}")
        new = edited(item, changes, now)
        reworded = "content" in changes or found_by(new) != found_by(item)
        entry = (await self._env.embedding.index([new]))[0] if reworded else None
        audit, known = self._audit(now), intake.moment("unchanged_since", unchanged_since)
        return await self._write_once(lambda conn: storage.edits.edit(conn, address, changes, entry, audit, known))

    @operation(
        "memory_revisions",
        http="GET /v1/memories/{memory_type}/{memory_id}/revisions",
        effect="read",
        command="revisions",
        positional=ONE_MEMORY,
        answer="revisions",
        standard=False,
    )
    async def revisions(self, memory_type: MemoryType, memory_id: Id) -> list[Revision]:
        """List what a memory was before each of its edits, oldest first."""
        address = await self._address(memory_type, memory_id)
        return [] if address is None else await self._read(storage.edits.revisions, address)

    @operation(
        "memory_create_link",
        http="POST /v1/links",
        effect="write",
        command="link",
        positional=("source_type", "source_id", "relation", "target_type", "target_id"),
        answer="created",
        standard=False,
        idempotent=True,
    )
    @once
    async def create_link(
        self,
        source_type: MemoryType,
        source_id: Id,
        target_type: MemoryType,
        target_id: Id,
        relation: Annotated[Relation, f"One of {', '.join(RELATIONS)}"],
    ) -> bool:
        """Link two memories. The answer says whether the link is new."""
        source_type = intake.one_of("source_type", source_type, KINDS)
        target_type = intake.one_of("target_type", target_type, KINDS)
        relation = intake.one_of("relation", relation, RELATIONS)
        source = await self._end("source_id", source_type, source_id, to_change=True)
        target = await self._end("target_id", target_type, target_id)
        event = self._audit(self._env.clock()).event(
            "link_created",
            source.kind,
            source.id,
            relation=relation,
            target_type=target.kind,
            target_id=str(target.id),
        )
        return await self._write_once(lambda conn: storage.links.create(conn, source, target, relation, event))

    @operation(
        "memory_get_links",
        http="GET /v1/memories/{memory_type}/{memory_id}/links",
        effect="read",
        command="links",
        positional=ONE_MEMORY,
        answer="links",
        standard=False,
    )
    async def get_links(
        self,
        memory_type: MemoryType,
        memory_id: Id,
        direction: Annotated[Direction, "outgoing, incoming or both"] = "both",
    ) -> list[Link]:
        """List the links of a memory: where it came from, what it replaced, what it supports."""
        direction = intake.one_of("direction", direction, DIRECTIONS)
        address = await self._address(memory_type, memory_id)
        return [] if address is None else await self._read(storage.links.of_item, address, direction, self.bound)

    @operation(
        "memory_events",
        http="GET /v1/memories/{memory_type}/{memory_id}/events",
        effect="read",
        command="events",
        positional=ONE_MEMORY,
        answer="events",
        standard=False,
    )
    async def events(self, memory_type: MemoryType, memory_id: Id) -> list[Event]:
        """List the audit events of a memory, oldest first; they remain after it is deleted.

        Then only a connection to the whole tenant can list them, since the row that named the owner is gone.
        """
        address = await self._address(memory_type, memory_id)
        return [] if address is None else await self._read(storage.events.of_item, address)

    async def _address(
        self, kind: Kind, memory_id: MemoryId, field: str = "memory_id", *, to_change: bool = False
    ) -> Address | None:
        """The address of a memory; None if there is none that this connection may read.

        `to_change` refuses a global memory that may be read but not changed. For a connection to the whole tenant there
        is nothing to check, so the store is not queried.
        """
        kind = intake.one_of("memory_type", kind, KINDS)
        short = kind == "fact" and isinstance(memory_id, str) and memory_id.startswith("fact_")
        name = intake.identifier(field, memory_id, most=40) if short else intake.memory_id(field, memory_id)
        if isinstance(name, UUID) and self.bound.everything:
            return Address(self.caller.tenant_id, kind, name)
        item = await self._read(storage.items.locate, self.caller.tenant_id, kind, name, self.bound)
        if item is None:
            return None
        if to_change and not self.bound.may_change(item):
            problem = f"the {kind} {memory_id} is global, which a connection bound to a scope may read but not change"
            raise InvalidInput(field, problem, f"a {kind} of the scope {self.bound.scope}")
        return address_of(item)

    async def _end(self, field: str, kind: Kind, memory_id: MemoryId, *, to_change: bool = False) -> Address:
        """One end of a new link. A link is a statement about its source, so that end must be changeable."""
        address = await self._address(kind, memory_id, field, to_change=to_change)
        if address is None:
            raise InvalidInput(field, f"there is no {kind} {memory_id}", f"the id of one of your {kind}s")
        return address
