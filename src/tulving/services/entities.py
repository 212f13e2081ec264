"""Verbs on entities: the people, organizations, places and things that facts are about."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar
from uuid import UUID

from tulving import storage
from tulving.domain import cursors, intake, resolution
from tulving.domain.model import (
    ENTITY_TYPES,
    EntitiesMerged,
    Entity,
    EntityCandidate,
    EntityCreated,
    EntityReport,
    EntityType,
    MemoryId,
    MergePreview,
    Page,
)
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import PAGE_SIZES, PageCursor, Service, UnchangedSince, log

T = TypeVar("T")
DEFAULT_TENANT = "default"
"""The default in the specified tools. It means the caller's own tenant, whatever its name."""
EntityId = Annotated[MemoryId, "The id of an entity"]
TypeOfEntity = Annotated[EntityType, "person, organization, place or other"]
Tenant = Annotated[str, "Leave it out: it is always your own tenant, and any other name is refused"]
Aliases = Annotated[list[str] | None, "Other names; an update replaces all of them"]
Metadata = Annotated[dict[str, Any] | None, "Further details, as a JSON object"]
LIMITS = intake.Between(1, 2**31 - 1)
MANY = 1_000
"""From this many names on, they are compared in a thread, to keep the event loop free."""


class Entities(Service):
    """Verbs on entities. Entities belong to the whole tenant, whatever a connection is bound to; the facts about them
    do not."""

    @operation(
        "entity_create",
        http="POST /v1/entities",
        effect="write",
        command="entity create",
        positional=("canonical_name", "entity_type"),
    )
    @once
    async def create_entity(
        self,
        canonical_name: Annotated[str, "The name it is known by"],
        entity_type: TypeOfEntity,
        tenant_id: Tenant = DEFAULT_TENANT,
        aliases: Aliases = None,
        metadata: Metadata = None,
    ) -> EntityCreated:
        """Register a person, organization, place or other thing that facts can be about.

        Call entity_resolve first: a name that exists already with the same type is refused.
        """
        self._check_tenant(tenant_id)
        now = self._env.clock()
        entity = Entity(
            tenant_id=self.caller.tenant_id,
            id=self._env.ids(),
            canonical_name=self._name(canonical_name),
            entity_type=intake.one_of("entity_type", entity_type, ENTITY_TYPES),
            aliases=resolution.aliases(aliases) or (),
            metadata=_metadata(metadata),
            created_at=now,
            updated_at=now,
        )
        event = self._audit(now).event("entity_created", "entity", entity.id, aliases=len(entity.aliases))
        return await self._write_once(lambda conn: storage.entities.create(conn, entity, event))

    @operation(
        "entity_get",
        http="GET /v1/entities/{entity_id}",
        effect="read",
        command="entity show",
        positional=("entity_id",),
        answer="entity",
    )
    async def get_entity(self, entity_id: EntityId, tenant_id: Tenant = DEFAULT_TENANT) -> Entity | None:
        """Read one entity; nothing if there is none. A merged entity names the one it was merged into."""
        self._check_tenant(tenant_id)
        id_ = intake.memory_id("entity_id", entity_id)
        return await self._read(storage.entities.get, self.caller.tenant_id, id_)

    @operation(
        "entity_list",
        http="GET /v1/entities",
        effect="read",
        command="entity list",
        answer="entities",
        standard=False,
    )
    async def list_entities(
        self,
        name: Annotated[str | None, "Only those with this in their name or an alias"] = None,
        entity_type: Annotated[EntityType | None, "Only of this type"] = None,
        limit: Annotated[int, "How many at most", PAGE_SIZES] = 50,
        cursor: PageCursor = None,
    ) -> Page[EntityReport]:
        """List entities by name, page by page, and how many facts are about each. Merged ones are left out."""
        if entity_type is not None:
            entity_type = intake.one_of("entity_type", entity_type, ENTITY_TYPES)
        limit = intake.whole("limit", limit, *PAGE_SIZES)
        found = await self._read(
            storage.entities.listing,
            self.caller.tenant_id,
            (_asked(name) or None) if name is not None else None,
            entity_type,
            self.bound,
            self._env.clock(),
            limit + 1,
            cursors.read(cursor, str, UUID),
        )
        entities, next_cursor = cursors.page(found, limit, lambda each: resolution.place(each.entity))
        return Page(items=entities, next_cursor=next_cursor)

    @operation(
        "entity_update",
        http="PATCH /v1/entities/{entity_id}",
        effect="write",
        command="entity update",
        positional=("entity_id",),
        answer="entity",
        idempotent=True,
    )
    @once
    async def update_entity(
        self,
        entity_id: EntityId,
        tenant_id: Tenant = DEFAULT_TENANT,
        canonical_name: Annotated[str | None, "The name it is to be known by"] = None,
        aliases: Aliases = None,
        metadata: Annotated[dict[str, Any] | None, "Details to add or to replace, as a JSON object"] = None,
        unchanged_since: UnchangedSince = None,
    ) -> Entity | None:
        """Change an entity: its name and its aliases are replaced if given, metadata is added key by key."""
        self._check_tenant(tenant_id)
        id_ = intake.memory_id("entity_id", entity_id)
        name = None if canonical_name is None else self._name(canonical_name)
        aliases, details = resolution.aliases(aliases), _metadata(metadata)
        changed = [part for part, given in (("canonical_name", name), ("aliases", aliases)) if given is not None]
        event = self._audit(self._env.clock()).event("entity_updated", "entity", id_, changed=changed)
        known = intake.moment("unchanged_since", unchanged_since)
        return await self._write_once(
            lambda conn: storage.entities.update(conn, id_, name, aliases, details, event, known)
        )

    @operation(
        "entity_resolve",
        http="POST /v1/entities/resolve",
        effect="read",
        command="entity resolve",
        positional=("name",),
        answer="candidates",
    )
    async def resolve_entity(
        self,
        name: Annotated[str, "A name as it was mentioned"],
        tenant_id: Tenant = DEFAULT_TENANT,
        entity_type: Annotated[EntityType | None, "Only of this type"] = None,
        context_hints: Annotated[
            dict[str, Any] | None,
            "What the conversation is about: topic (text), mentioned_with (names), domain_scores (points by entity id)",
        ] = None,
        enable_fuzzy: Annotated[
            bool,
            "Also find misspelt and similar names, and let similarity and the hints decide between candidates; use it "
            "for names that were heard, typed by a person or read in a document",
        ] = False,
        limit: Annotated[int | None, "How many at most; all when left out", LIMITS] = None,
    ) -> list[EntityCandidate]:
        """Find out which entity a name refers to: candidates, best first. Nothing is created.

        An exact name scores 100, an alias 80, a part of a name 50, a similar name (only with enable_fuzzy) 20; facts
        that share words with the hints add up to 20. With enable_fuzzy, equal scores are ordered by similarity, and
        together with hints 80 x (similarity + 5 x overlap of the words) is added.
        """
        self._check_tenant(tenant_id)
        if limit is not None:
            limit = intake.whole("limit", limit, *LIMITS)
        if entity_type is not None:
            entity_type = intake.one_of("entity_type", entity_type, ENTITY_TYPES)
        enable_fuzzy = intake.flag("enable_fuzzy", enable_fuzzy)
        hints = resolution.read_hints(context_hints)
        if hints.skipped:
            log.warning("domain scores that are not numbers were ignored: %s", ", ".join(map(repr, hints.skipped[:10])))
        wanted = _asked(name)
        if not wanted:
            return []
        known, fuzzy = await self._read(
            storage.entities.candidates, self.caller.tenant_id, wanted, entity_type, enable_fuzzy
        )
        matches = await _computed(len(known), resolution.matching, wanted, known, fuzzy)
        words: dict[UUID, set[str]] = {}
        if hints.terms and matches:
            ids = [match.names.entity_id for match in matches]
            words = await self._read(
                storage.entities.words_of_facts, self.caller.tenant_id, ids, self._filter(), self._env.clock()
            )
        return (await _computed(len(matches), resolution.rank, matches, hints, words, fuzzy))[:limit]

    @operation(
        "entity_merge_preview",
        http="GET /v1/entities/{source_entity_id}/merge/{target_entity_id}",
        effect="read",
        command="entity preview",
        positional=("source_entity_id", "target_entity_id"),
        standard=False,
    )
    async def preview_merge(
        self,
        source_entity_id: Annotated[MemoryId, "The id of the entity that would be merged into the target"],
        target_entity_id: Annotated[MemoryId, "The id of the entity that would remain"],
    ) -> MergePreview:
        """Preview a merge of two entities: the names and facts that would move, and those that would be superseded."""
        source, target = self._ends(source_entity_id, target_entity_id)
        return await self._read(storage.entities.preview, self.caller.tenant_id, source, target)

    @operation(
        "entity_merge",
        http="POST /v1/entities/merge",
        effect="destroy",
        command="entity merge",
        positional=("source_entity_id", "target_entity_id"),
    )
    @once
    async def merge_entities(
        self,
        source_entity_id: Annotated[MemoryId, "The id of the entity that is merged into the target"],
        target_entity_id: Annotated[MemoryId, "The id of the entity that remains"],
        tenant_id: Tenant = DEFAULT_TENANT,
    ) -> EntitiesMerged:
        """Merge two entities that are the same: facts and names of the source become the target's.

        Where both have a fact with the same predicate, the one with more confidence stays and the other is superseded.
        The source is no longer found. A merge can't be undone. A connection that is bound to one user, project or scope
        can't merge, since that changes the facts of others too.
        """
        self._check_tenant(tenant_id)
        source, target = self._ends(source_entity_id, target_entity_id)
        audit = self._audit(self._env.clock())
        return await self._write_once(lambda conn: storage.entities.merge(conn, source, target, audit))

    def _ends(self, source_entity_id: MemoryId, target_entity_id: MemoryId) -> tuple[UUID, UUID]:
        """The ids of the source and the target of a merge."""
        if not self.bound.everything:
            problem = "a merge changes facts of the whole tenant, and this connection is bound to a part of it"
            raise InvalidInput("source_entity_id", problem, "a connection to the whole tenant")
        source = intake.memory_id("source_entity_id", source_entity_id)
        target = intake.memory_id("target_entity_id", target_entity_id)
        if source == target:
            raise InvalidInput("target_entity_id", "is the source itself", "the id of another entity")
        return source, target

    def _check_tenant(self, tenant_id: str) -> None:
        """The specified tools have a tenant argument, but the tenant comes from authentication: others are refused."""
        if tenant_id not in (DEFAULT_TENANT, self.caller.tenant_id):
            problem = "the entities of another tenant can't be read or changed"
            raise InvalidInput("tenant_id", problem, f"left out, or {self.caller.tenant_id}")

    def _name(self, value: object) -> str:
        name = intake.name("canonical_name", value)
        for written in (name, resolution.folded(name)):
            intake.key("canonical_name", self.caller.tenant_id, written)
        return name


async def _computed(size: int, function: Callable[..., T], *args: Any) -> T:
    return function(*args) if size < MANY else await asyncio.to_thread(function, *args)


def _asked(name: object) -> str:
    """A name to resolve, in the form that names are compared in; one that is too long is refused."""
    if not isinstance(name, str):
        raise InvalidInput("name", f"must be text, not {type(name).__name__}", "a name")
    if len(name) > intake.MAX_NAME:
        raise InvalidInput("name", f"has {len(name)} characters", f"at most {intake.MAX_NAME}")
    return resolution.folded(intake.public(name))


def _metadata(value: object) -> dict[str, Any]:
    details = intake.metadata(value)
    if "merged_into" in details:
        raise InvalidInput("metadata", "merged_into is set by a merge only", "any other key")
    return details
