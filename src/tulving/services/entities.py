"""Who and what facts are about."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar
from uuid import UUID

from tulving import storage
from tulving.domain import intake, resolution
from tulving.domain.model import (
    ENTITY_TYPES,
    EntitiesMerged,
    Entity,
    EntityCandidate,
    EntityCreated,
    EntityType,
    MemoryId,
)
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import Service, log

T = TypeVar("T")
DEFAULT_TENANT = "default"
"""What the specified tools have as a default. It means the caller's own tenant, whatever its name."""
EntityId = Annotated[MemoryId, "The id of an entity"]
TypeOfEntity = Annotated[EntityType, "person, organization, place or other"]
Tenant = Annotated[str, "Whose entities: your own; `default` means them too"]
Aliases = Annotated[list[str] | None, "Other names; in an update, all that are to be"]
Metadata = Annotated[dict[str, Any] | None, "Further details, as a JSON object"]
LARGEST_LIMIT = 2**31 - 1
MANY = 1_000
"""So many names are compared in a thread, to keep the event loop free."""


class Entities(Service):
    """Verbs on entities. They belong to the whole tenant, whichever user or scope a connection is bound to; the facts
    about them do not."""

    @operation("entity_create", effect="write", command="entity create", positional=("canonical_name", "entity_type"))
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

        Call entity_resolve before: a name that is there already with the same type is refused.
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

    @operation("entity_get", effect="read", command="entity show", positional=("entity_id",), answer="entity")
    async def get_entity(self, entity_id: EntityId, tenant_id: Tenant = DEFAULT_TENANT) -> Entity | None:
        """Read one entity; nothing when there is none. One that was merged says into which."""
        self._check_tenant(tenant_id)
        id_ = intake.memory_id("entity_id", entity_id)
        return await self._read(storage.entities.get, self.caller.tenant_id, id_)

    @operation(
        "entity_update",
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
    ) -> Entity | None:
        """Change an entity: its name and its aliases are replaced where given, metadata is added key by key."""
        self._check_tenant(tenant_id)
        id_ = intake.memory_id("entity_id", entity_id)
        name = None if canonical_name is None else self._name(canonical_name)
        aliases, details = resolution.aliases(aliases), _metadata(metadata)
        changed = [part for part, given in (("canonical_name", name), ("aliases", aliases)) if given is not None]
        event = self._audit(self._env.clock()).event("entity_updated", "entity", id_, changed=changed)
        return await self._write_once(lambda conn: storage.entities.update(conn, id_, name, aliases, details, event))

    @operation("entity_resolve", effect="read", command="entity resolve", positional=("name",), answer="candidates")
    async def resolve_entity(
        self,
        name: Annotated[str, "A name as somebody said it"],
        tenant_id: Tenant = DEFAULT_TENANT,
        entity_type: Annotated[EntityType | None, "Only this type: person, organization, place or other"] = None,
        context_hints: Annotated[
            dict[str, Any] | None,
            "What the talk is about: topic (text), mentioned_with (names), domain_scores (points by entity id)",
        ] = None,
        enable_fuzzy: Annotated[bool, "Also names that are only similar"] = False,
        limit: Annotated[int | None, "How many at most; all when left out"] = None,
    ) -> list[EntityCandidate]:
        """Find out whom or what a name means: candidates, best first. Nothing is created.

        An exact name scores 100, an alias 80, a part of a name 50, a similar name 20; facts that share words with the
        hints add up to 20.
        """
        self._check_tenant(tenant_id)
        if limit is not None:
            limit = intake.whole("limit", limit, 1, LARGEST_LIMIT)
        if entity_type is not None:
            entity_type = intake.one_of("entity_type", entity_type, ENTITY_TYPES)
        if not isinstance(enable_fuzzy, bool):
            raise InvalidInput("enable_fuzzy", f"must be true or false, not {type(enable_fuzzy).__name__}")
        hints = resolution.read_hints(context_hints)
        if hints.skipped:
            log.warning("domain scores that are no numbers were left out: %s", ", ".join(map(repr, hints.skipped[:10])))
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
        return (await _computed(len(matches), resolution.rank, matches, hints, words))[:limit]

    @operation(
        "entity_merge",
        effect="destroy",
        command="entity merge",
        positional=("source_entity_id", "target_entity_id"),
    )
    @once
    async def merge_entities(
        self,
        source_entity_id: Annotated[MemoryId, "The id of the entity that is to go"],
        target_entity_id: Annotated[MemoryId, "The id of the entity that is to stay"],
        tenant_id: Tenant = DEFAULT_TENANT,
    ) -> EntitiesMerged:
        """Make one entity of two that are the same: facts and names of the source become the target's.

        Where both have a fact of the same predicate, the surer one stays and the other is superseded. The source is
        found no more. There is no way back. A connection that is bound to one user, project or scope can't merge,
        since that changes the facts of the others too.
        """
        self._check_tenant(tenant_id)
        if not self.bound.everything:
            problem = "a merge changes facts of the whole tenant, and this connection is bound to a part of it"
            raise InvalidInput("source_entity_id", problem, "a connection to the whole tenant")
        source = intake.memory_id("source_entity_id", source_entity_id)
        target = intake.memory_id("target_entity_id", target_entity_id)
        if source == target:
            raise InvalidInput("target_entity_id", "is the source itself", "the id of another entity")
        audit = self._audit(self._env.clock())
        return await self._write_once(lambda conn: storage.entities.merge(conn, source, target, audit))

    def _check_tenant(self, tenant_id: str) -> None:
        """A tenant may be named for the sake of the contract, but it comes from authentication."""
        if tenant_id not in (DEFAULT_TENANT, self.caller.tenant_id):
            problem = "another tenant's entities are not yours to see or to change"
            raise InvalidInput("tenant_id", problem, f"left out, or {self.caller.tenant_id}")

    def _name(self, value: object) -> str:
        name = intake.name("canonical_name", value)
        for written in (name, resolution.folded(name)):
            intake.key("canonical_name", self.caller.tenant_id, written)
        return name


async def _computed(size: int, function: Callable[..., T], *args: Any) -> T:
    return function(*args) if size < MANY else await asyncio.to_thread(function, *args)


def _asked(name: object) -> str:
    """A name that is asked for, in the form that names are compared in; longer than any name can be, it is refused."""
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
