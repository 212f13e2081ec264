"""Verbs of search in layers: an agent reads short lines, then what surrounds one, and only what it wants as a whole."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from tulving import storage
from tulving.domain import intake
from tulving.domain.editing import is_forgotten
from tulving.domain.layers import CompactFound, Detail, TimelineEntry, compact, entry
from tulving.domain.model import KIND_OF, KINDS, Item, Kind, MemoryId
from tulving.domain.ranking import Mode
from tulving.services.items import Id, Items, MemoryType
from tulving.services.operations import operation
from tulving.services.search import LIMITS, MIN_CONFIDENCE, AsOf, MinConfidence, MinRelevance, Search, Types, kinds_of

COMPACT_HITS = 20
WINDOW = 5
WINDOWS = intake.Between(0, 100)
MOST_DETAILS = 100

Ids = Annotated[list[MemoryId], f"Their ids, of any kinds, at most {MOST_DETAILS}"]


def _nothing_found(error: Exception) -> CompactFound:
    return CompactFound(hits=[], warning=f"memory could not be searched: {error}")


class Layers(Items, Search):
    """Verbs of search in layers."""

    @operation(
        "memory_search_compact",
        http="POST /v1/search/compact",
        effect="read",
        command="search-compact",
        positional=("query",),
        standard=False,
        defaults={"mode": "hybrid"},
        fallback=_nothing_found,
    )
    async def search_compact(
        self,
        query: Annotated[str, "What to look for, in plain words"],
        types: Types = None,
        scope: Annotated[str | None, "Only this namespace and the global one; for episodes, this agent"] = None,
        mode: Annotated[Mode | None, "hybrid, semantic or keyword"] = None,
        limit: Annotated[int, "How many at most", LIMITS] = COMPACT_HITS,
        min_confidence: MinConfidence = MIN_CONFIDENCE,
        type: Annotated[str | None, "Only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        as_of: AsOf = None,
        min_relevance: MinRelevance = None,
    ) -> CompactFound:
        """Search as memory_search does, but answer each hit in one short line: id, title, type, score, time.

        Read what you need with memory_details, and what happened around it with memory_timeline.
        """
        found = await self.search(
            query, types, scope, mode, limit, min_confidence, type, project, since, until, tags, as_of, min_relevance
        )
        return CompactFound(hits=[compact(hit, self._env.tokens) for hit in found.hits], warning=found.warning)

    @operation(
        "memory_timeline",
        http="GET /v1/memories/{memory_type}/{memory_id}/timeline",
        effect="read",
        command="timeline",
        positional=("memory_id",),
        answer="entries",
        standard=False,
    )
    async def timeline(
        self,
        memory_id: Id,
        memory_type: MemoryType = "episode",
        window: Annotated[int, "How many at most on each side", WINDOWS] = WINDOW,
        types: Annotated[list[Kind] | None, "Which kinds are around it; its own if left out"] = None,
        type: Annotated[str | None, "Around it, only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Around it, only this project"] = None,
        session_id: Annotated[MemoryId | None, "Around it, only this session (a UUID)"] = None,
    ) -> list[TimelineEntry]:
        """List what came before and after a memory, in the order of time; nothing if there is no such memory.

        An episode stands where it happened, a fact or rule where it was stored.
        """
        window = intake.whole("window", window, *WINDOWS)
        session = intake.optional_id("session_id", session_id)
        kinds = kinds_of([intake.one_of("memory_type", memory_type, KINDS)] if types is None else types)
        wanted = replace(self._filter(type=type, project=project), archived=True)
        anchor = await self.look(memory_type, memory_id)
        if anchor is None or is_forgotten(anchor):
            return []
        now = self._env.clock()
        around = await self._read(storage.layers.around, anchor, kinds, wanted, session, now, window)
        return [entry(item, anchor) for item in around]

    @operation(
        "memory_details",
        http="POST /v1/memories/details",
        effect="read",
        command="details",
        positional=("ids",),
        answer="memories",
        standard=False,
        by_person="look_at",
    )
    async def details(self, ids: Ids) -> list[Detail]:
        """Read some memories in full, in any state and in the order asked. Unknown ids are left out.

        Each counts as a reference, except from the command line.
        """
        now, count = self._env.clock(), self._env.references.count
        return [
            replace(detail, memory=count(detail.memory_type, detail.memory, now)) for detail in await self.look_at(ids)
        ]

    async def look_at(self, ids: Ids) -> list[Detail]:
        """Read some memories in full as `details` does, without counting references."""
        given = intake.items("ids", ids, MOST_DETAILS, f"a list of at most {MOST_DETAILS} ids")
        found: list[Item] = await self._read(
            storage.layers.find, self.caller.tenant_id, self.bound, [_name(id_) for id_ in given]
        )
        return [Detail(memory_type=KIND_OF[type(item)], memory=item) for item in found]


def _name(id_: object) -> UUID | str:
    """An id, or the short reference of a fact."""
    short = isinstance(id_, str) and id_.startswith("fact_")
    return intake.identifier("ids", id_, most=40) if short else intake.memory_id("ids", id_)
