"""Memories of another program taken in, batch by batch, so that an import that was interrupted can be run again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from tulving import storage
from tulving.domain import intake
from tulving.domain.events import Audit, Event
from tulving.domain.model import Entity, EntityType, Episode, Fact, Item, NewEpisode, NewFact, NewRule, Rule
from tulving.domain.offers import Offer, Taken, digest, stable_id
from tulving.errors import InvalidInput
from tulving.services.entities import Entities
from tulving.services.episodes import Episodes
from tulving.services.lessons import Lessons
from tulving.storage.connection import Connection
from tulving.storage.rows import IndexEntry

UNINDEXED = IndexEntry("", None, None)


class _Undone(Exception):
    """A transaction that was only tried."""

    def __init__(self, new: set[UUID]) -> None:
        self.new = new


@dataclass(frozen=True, slots=True)
class _Row:
    """The memory that an offer would become, the entity that it is about, and which secrets were found in it."""

    item: Item
    entity: Entity | None = None
    warning: str | None = None

    @property
    def name(self) -> UUID | str | None:
        """What it is known by if it was taken before."""
        return self.item.event_key if isinstance(self.item, Episode) else self.item.id


class Offers(Episodes, Entities, Lessons):
    """The memories of other programs."""

    async def take_offers(
        self, offers: Sequence[Offer], *, source: str | None = None, strict: bool = False, dry_run: bool = False
    ) -> list[Taken]:
        """Take memories of another program, the `source`: those that are valid and new, in one transaction.

        What was taken before under the same key stays as it is, whatever became of it, and so does a fact that is in
        use and says the same: neither is confirmed. Notes are not compared with one another. Secrets are redacted or
        refused, as by every verb. With `strict` an invalid one is an error, and nothing is stored; with `dry_run`
        nothing changes.
        """
        now, rows = self._env.clock(), list[_Row | Taken]()
        for place, offer in enumerate(offers):
            try:
                # Ids that are made of keys have no order, so it is kept by times.
                later = timedelta() if offer.key is None else place * timedelta.resolution
                rows.append(self._row(offer, source, now + later))
            except InvalidInput as error:
                if strict:
                    raise
                rows.append(Taken(problem=str(error)))
        named: dict[UUID | str | None, _Row] = {}
        for row in rows:
            if isinstance(row, _Row):
                named.setdefault(row.name, row)
        unknown = [*named.values()] if source is None else await self._unknown([*named.values()])
        new = await self._take(unknown, now, dry_run) if unknown else set[UUID]()
        return [
            row if isinstance(row, Taken) else Taken(named[row.name] is row and row.item.id in new, warning=row.warning)
            for row in rows
        ]

    async def _unknown(self, rows: Sequence[_Row]) -> list[_Row]:
        """Without those that were taken before: their vectors would be made for nothing."""
        ids = [row.name for row in rows if isinstance(row.name, UUID)]
        keys = [row.name for row in rows if isinstance(row.name, str)]
        known = await self._read(storage.offers.known, self.caller.tenant_id, ids, keys)
        return [row for row in rows if row.name not in known]

    async def _take(self, rows: Sequence[_Row], now: datetime, dry_run: bool) -> set[UUID]:
        items = [row.item for row in rows]
        entries = [UNINDEXED] * len(rows) if dry_run else await self._env.embedding.index(items)
        audit, batch = self._audit(now), storage.offers.Batch()
        for row, entry in zip(rows, entries, strict=True):
            match row.item:
                case Episode() as episode:
                    batch.episodes.append((episode, entry, _created(audit, episode, importance=episode.importance)))
                case Rule() as rule:
                    batch.rules.append((rule, entry, _created(audit, rule)))
                case Fact() as fact:
                    batch.facts.append((fact, entry, row.entity))

        def attempt(conn: Connection) -> set[UUID]:
            raise _Undone(storage.offers.take(conn, batch, audit, self.bound))

        if not dry_run:
            return await self._write(storage.offers.take, batch, audit, self.bound)
        try:
            return await self._write(attempt)
        except _Undone as undone:
            return undone.new

    def _row(self, offer: Offer, source: str | None, now: datetime) -> _Row:
        offer, found = self._env.screen.offer(offer)
        mine, memory, entity = self._within(offer.user_id), offer.memory, None
        if source is not None:
            memory = replace(memory, metadata={**(memory.metadata or {}), "imported": _imported(source, offer)})
        match memory:
            case NewEpisode():
                item = mine._event(memory, now)
            case NewRule():
                item = mine._rule(memory, now)
            case NewFact():
                if offer.several:
                    memory = replace(memory, predicate=f"{memory.predicate} {digest(self._content(memory.content))}")
                item = mine._fact(memory, now)
                entity = self._entity(item.subject, offer.entity_type, now) if offer.entity_type else None
        if offer.key is not None:
            # Of what the item has now: neither a secret nor private text may remain, not even in a hash.
            bound = repr((mine.bound.owner.key, mine.bound.project, mine.bound.scope))
            named = stable_id(bound, source, intake.public(offer.key), *_said(item))
            item = replace(item, event_key=named.hex) if isinstance(item, Episode) else replace(item, id=named)
        return _Row(item, entity, self._env.screen.warning(found))

    def _entity(self, name: str, entity_type: EntityType, now: datetime) -> Entity:
        return Entity(
            tenant_id=self.caller.tenant_id,
            id=self._env.ids(),
            canonical_name=self._name(name),
            entity_type=entity_type,
            created_at=now,
            updated_at=now,
        )


def _imported(source: str, offer: Offer) -> Mapping[str, object]:
    return {"from": source, **offer.origin}


def _said(item: Item) -> tuple[str, ...]:
    """What makes a changed record a new one: what happened does not change, what is true or right does."""
    match item:
        case Episode():
            return ()
        case Fact():
            return item.subject, item.predicate, item.content
    return (item.content,)


def _created(audit: Audit, item: Episode | Rule, **payload: object) -> Event:
    kind = "episode" if isinstance(item, Episode) else "rule"
    return audit.event(f"{kind}_created", kind, item.id, content_hash=item.content_hash, **payload)
