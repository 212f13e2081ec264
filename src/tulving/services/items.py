"""What can be done with any memory: read it, list it, confirm it, edit it, forget it, delete it, link it."""

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from tulving import storage
from tulving.domain import intake
from tulving.domain.editing import Revision, edited
from tulving.domain.events import Event
from tulving.domain.model import (
    DIRECTIONS,
    FACT_STATES,
    KINDS,
    RELATIONS,
    Direction,
    Item,
    Kind,
    Link,
    MemoryId,
    Page,
    Relation,
    canonical_state,
)
from tulving.errors import InvalidInput, NotFound
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import Service

MemoryType = Annotated[Kind, "episode, fact or rule"]
Id = Annotated[MemoryId, "Its id (a UUID; facts may also have a short one, fact_xxxxxxxx)"]
LARGEST_PAGE = 1000


class Items(Service):
    """Verbs on memories of any kind."""

    @operation(
        "memory_get",
        effect="read",
        command="get",
        positional=("memory_type", "memory_id"),
        answer="memory",
        by_person="look",
    )
    async def get(self, memory_type: MemoryType, memory_id: Id) -> Item | None:
        """Read one memory in full, whatever its state; nothing when there is none.

        It counts as a reference, unless a person looks from the command line.
        """
        item = await self.look(memory_type, memory_id)
        return None if item is None else self._env.references.count(memory_type, item, self._env.clock())

    async def look(self, memory_type: MemoryType, memory_id: Id) -> Item | None:
        """Read one memory in full as `get` does, without counting a reference."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        id_ = await self._id(kind, memory_id)
        return None if id_ is None else await self._read(storage.items.get, self.caller.tenant_id, kind, id_)

    @operation("memory_list", effect="read", command="list", positional=("memory_type",), standard=False)
    async def list_memories(
        self,
        memory_type: MemoryType,
        scope: Annotated[str | None, "Only this namespace and the global one; for episodes, this agent"] = None,
        type: Annotated[str | None, "Only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        state: Annotated[str | None, f"For facts: {', '.join(FACT_STATES)}; any for all states"] = None,
        limit: Annotated[int, "How many at most"] = 50,
        cursor: Annotated[str | None, "Where the page before ended"] = None,
    ) -> Page:
        """List memories, newest first, page by page. Does not count as a reference."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        if state is not None:
            allowed = ("any", *FACT_STATES) if kind == "fact" else ("any",)
            state = intake.one_of("state", canonical_state(state), allowed)
        limit = intake.whole("limit", limit, 1, LARGEST_PAGE)
        wanted = self._filter(scope=scope, type=type, project=project, since=since, until=until, tags=tags, state=state)
        items: list[Item] = await self._read(
            storage.items.listing,
            self.caller.tenant_id,
            kind,
            wanted,
            self._env.clock(),
            limit + 1,
            _read_cursor(cursor),
        )
        more = len(items) > limit
        return Page(items=items[:limit], next_cursor=_write_cursor(items[limit - 1]) if more else None)

    @operation(
        "memory_confirm",
        effect="write",
        command="confirm",
        positional=("memory_type", "memory_id"),
        answer="confirmed",
        idempotent=True,
    )
    @once
    async def confirm(self, memory_type: MemoryType, memory_id: Id) -> bool:
        """Confirm that a fact or rule still holds, so that it starts to fade anew; false when there is none."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        if kind == "episode":
            raise InvalidInput("memory_type", "an episode can't be confirmed: it happened or not", "fact, rule")
        return bool(await self._change(storage.items.confirm, kind, memory_id, "confirmed", answer=bool))

    @operation(
        "memory_forget",
        effect="destroy",
        command="forget",
        positional=("memory_type", "memory_id"),
        answer="forgotten",
        idempotent=True,
    )
    @once
    async def forget(self, memory_type: MemoryType, memory_id: Id) -> bool:
        """Forget a memory: it is found no more, but its row is kept; false when there is none."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        found = await self._change(
            storage.items.forget, kind, memory_id, "forgotten", answer=lambda changed: changed is not None
        )
        return found is not None

    @operation(
        "memory_delete",
        effect="destroy",
        command="delete",
        positional=("memory_type", "memory_id"),
        answer="deleted",
        standard=False,
    )
    @once
    async def delete(self, memory_type: MemoryType, memory_id: Id) -> bool:
        """Delete a memory for good. An event without content remains; an unknown id is an error."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        id_ = await self._id(kind, memory_id)
        event = self._audit(self._env.clock()).event(f"{kind}_deleted", kind, id_)

        def answer(deleted: bool) -> bool:
            if not deleted:
                raise NotFound(f"there is no {kind} {memory_id}")
            return True

        if id_ is None:
            return answer(False)
        answer(await self._write(storage.items.delete, kind, id_, event, answer=answer))
        self._publish([event])
        return True

    @operation(
        "memory_edit",
        effect="write",
        command="edit",
        positional=("memory_type", "memory_id"),
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
        importance: Annotated[float | None, "0 to 10; a rule has none"] = None,
    ) -> Item:
        """Correct a memory where it stands. It keeps its id and its age, and what it was before stays as a revision.

        New content confirms a fact or rule. Where something became true only now, store a new fact instead.
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
            changes["importance"] = intake.number("importance", importance, 0, 10)
        if not changes:
            raise InvalidInput("content", "nothing is to be changed", "content, tags or importance")
        now = self._env.clock()
        id_ = await self._id(kind, memory_id)
        item = None if id_ is None else await self._read(storage.items.get, self.caller.tenant_id, kind, id_)
        if id_ is None or item is None:
            raise NotFound(f"there is no {kind} {memory_id}")
        new = edited(item, changes, now)
        entry = (await self._index([new]))[0] if "content" in changes else None

        def answer(result: tuple[Item | None, list[Event]]) -> Item:
            if result[0] is None:
                raise NotFound(f"there is no {kind} {memory_id}")
            return result[0]

        result = await self._write(storage.edits.edit, kind, id_, changes, entry, self._audit(now), answer=answer)
        self._publish(result[1])
        return answer(result)

    @operation(
        "memory_revisions",
        effect="read",
        command="revisions",
        positional=("memory_type", "memory_id"),
        answer="revisions",
        standard=False,
    )
    async def revisions(self, memory_type: MemoryType, memory_id: Id) -> list[Revision]:
        """List what a memory was before each of its edits, oldest first."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        id_ = await self._id(kind, memory_id)
        return [] if id_ is None else await self._read(storage.edits.revisions, self.caller.tenant_id, kind, id_)

    @operation(
        "memory_create_link",
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
        """Link two memories; true when the link is new, false when it was there already."""
        now = self._env.clock()
        source_type = intake.one_of("source_type", source_type, KINDS)
        target_type = intake.one_of("target_type", target_type, KINDS)
        link = Link(
            source_type=source_type,
            source_id=await self._required_id("source_id", source_type, source_id),
            target_type=target_type,
            target_id=await self._required_id("target_id", target_type, target_id),
            relation=intake.one_of("relation", relation, RELATIONS),
            created_at=now,
        )
        event = self._audit(now).event(
            "link_created",
            link.source_type,
            link.source_id,
            relation=link.relation,
            target_type=link.target_type,
            target_id=str(link.target_id),
        )
        added = await self._write(storage.links.create, link, event, answer=bool)
        self._publish([event] if added else [])
        return added

    @operation(
        "memory_get_links",
        effect="read",
        command="links",
        positional=("memory_type", "memory_id"),
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
        kind = intake.one_of("memory_type", memory_type, KINDS)
        direction = intake.one_of("direction", direction, DIRECTIONS)
        id_ = await self._id(kind, memory_id)
        if id_ is None:
            return []
        return await self._read(storage.links.of_item, self.caller.tenant_id, kind, id_, direction)

    @operation(
        "memory_history",
        effect="read",
        command="events",
        positional=("memory_type", "memory_id"),
        answer="events",
        standard=False,
    )
    async def history(self, memory_type: MemoryType, memory_id: Id) -> list[Event]:
        """List the audit events of a memory, oldest first; they outlive a deleted memory."""
        kind = intake.one_of("memory_type", memory_type, KINDS)
        id_ = await self._id(kind, memory_id)
        return [] if id_ is None else await self._read(storage.events.of_entity, self.caller.tenant_id, id_)

    async def _change(
        self,
        transaction: Callable[..., bool | None],
        kind: Kind,
        memory_id: MemoryId,
        done: str,
        answer: Callable[[bool | None], bool],
    ) -> bool | None:
        """Run a change and publish its event if it changed anything; None when there is no such memory."""
        id_ = await self._id(kind, memory_id)
        if id_ is None:
            return None
        now = self._env.clock()
        event = self._audit(now).event(f"{kind}_{done}", kind, id_)
        changed = await self._write(transaction, kind, id_, now, event, answer=answer)
        self._publish([event] if changed else [])
        return changed

    async def _id(self, kind: Kind, memory_id: MemoryId, field: str = "memory_id") -> UUID | None:
        """The UUID behind what a caller calls a memory; None when it leads nowhere that this caller may go."""
        if kind == "fact" and isinstance(memory_id, str) and memory_id.startswith("fact_"):
            ref = intake.identifier(field, memory_id, most=40)
            id_ = await self._read(storage.facts.id_of_ref, self.caller.tenant_id, ref)
        else:
            id_ = intake.memory_id(field, memory_id)
        if id_ is None or not self.bound.owner.key:
            return id_
        item = await self._read(storage.items.get, self.caller.tenant_id, kind, id_)
        return id_ if item is not None and self.bound.owner.covers(item) else None

    async def _required_id(self, field: str, kind: Kind, memory_id: MemoryId) -> UUID:
        id_ = await self._id(kind, memory_id, field)
        if id_ is None:
            raise InvalidInput(field, f"there is no {kind} {memory_id}", f"the id of a {kind} of yours")
        return id_


def _write_cursor(item: Item) -> str:
    return base64.urlsafe_b64encode(f"{item.created_at.isoformat()} {item.id}".encode()).decode()


def _read_cursor(cursor: str | None) -> tuple[datetime, UUID] | None:
    if cursor is None:
        return None
    try:
        time, id_ = base64.urlsafe_b64decode(cursor.encode()).decode().split(" ")
        return datetime.fromisoformat(time), UUID(id_)
    except (ValueError, AttributeError, binascii.Error):
        raise InvalidInput("cursor", "is not one of ours", "the next_cursor of the page before") from None
