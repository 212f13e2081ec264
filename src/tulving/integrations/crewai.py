"""Tulving as the storage of CrewAI's memory: `Memory(storage=storage, embedder=storage.embed)`."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

try:
    from crewai.memory.types import (  # pyright: ignore[reportMissingImports]
        MemoryRecord,
        ScopeInfo,
    )
except ImportError as error:
    raise ImportError("tulving.integrations.crewai needs CrewAI: pip install crewai") from error

from tulving.integrations.documents import MOST, Document, Documents
from tulving.integrations.home_loop import HomeLoop
from tulving.interfaces.blocking import BlockingMemory
from tulving.services.memory import Memory


class TulvingStorage:
    """A storage backend of CrewAI in a memory of Tulving.

    CrewAI searches by vectors that it makes itself, so give its memory `embed`, the embedder of this store. A record is
    a fact that does not fade. Private text in it is removed, as everywhere. A `private` record of CrewAI is private
    among its agents only: Tulving's own verbs find it like others.
    """

    def __init__(self, memory: Memory | BlockingMemory) -> None:
        self._home = HomeLoop(memory)
        self._documents = Documents(self._home.memory, "crewai")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of texts, for CrewAI's memory."""
        return self._home.memory._env.embedder.embed_batch(texts)

    def save(self, records: list[MemoryRecord]) -> None:
        """Keep records; one with a known id replaces that."""
        self._home.wait(self._save(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """The same as `save`, from any event loop."""
        await self._home.run(self._save(records))

    def update(self, record: MemoryRecord) -> None:
        """Replace a record."""
        self.save([record])

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The records that are nearest to a vector, with their similarities."""
        fits = _condition(categories, metadata_filter)
        return self._home.wait(self._search(query_embedding, scope_prefix, fits, limit, min_score))

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The same as `search`, from any event loop."""
        fits = _condition(categories, metadata_filter)
        return await self._home.run(self._search(query_embedding, scope_prefix, fits, limit, min_score))

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet every condition, and count them."""
        return self._home.wait(
            self._delete(scope_prefix, record_ids, _condition(categories, metadata_filter, older_than))
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """The same as `delete`, from any event loop."""
        fits = _condition(categories, metadata_filter, older_than)
        return await self._home.run(self._delete(scope_prefix, record_ids, fits))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records of a scope."""
        self.delete(scope_prefix)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """One record, or None."""
        found = self._home.wait(self._documents.get(_name(record_id)))
        return None if found is None else _record(found)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """The records of a scope, the newest first."""
        records = sorted(self._all(scope_prefix), key=lambda record: _utc(record.created_at), reverse=True)
        return records[max(0, offset) :][: max(0, limit)]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """How many records a scope has, of which categories and times, and the scopes below it."""
        records = self._all(scope)
        dates = sorted((record.created_at for record in records), key=_utc)
        return ScopeInfo(
            path="/" + "/".join(_path(scope)),
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=dates[0] if dates else None,
            newest_record=dates[-1] if dates else None,
            child_scopes=_children(records, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes directly below one."""
        return _children(self._all(parent), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """The categories of a scope, and how many records each has."""
        return dict(Counter(category for record in self._all(scope_prefix) for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """How many records a scope has."""
        return len(self._all(scope_prefix))

    def _all(self, scope: str | None) -> list[MemoryRecord]:
        async def read() -> list[MemoryRecord]:
            return [_record(document) async for document in self._documents.newest(_path(scope))]

        return self._home.wait(read())

    async def _save(self, records: Sequence[MemoryRecord]) -> None:
        now = self._home.memory.now()
        await self._documents.put(
            [
                Document(
                    name=_name(record.id),
                    path=_path(record.scope),
                    value=record.model_dump(mode="json"),
                    text=record.content,
                    importance=10 * record.importance,
                    created_at=now,
                    updated_at=now,
                )
                for record in {record.id: record for record in records}.values()
            ]
        )

    async def _search(
        self,
        embedding: Sequence[float],
        scope: str | None,
        fits: Callable[[MemoryRecord], bool],
        limit: int,
        min_score: float,
    ) -> list[tuple[MemoryRecord, float]]:
        most = max(0, min(limit, MOST))
        found = await self._documents.nearest(_path(scope), embedding, most, lambda each: fits(_record(each)))
        scored = [(_record(document), max(0.0, document.score or 0.0)) for document in found]
        return [(record, score) for record, score in scored if score >= min_score]

    async def _delete(self, scope: str | None, ids: list[str] | None, fits: Callable[[MemoryRecord], bool]) -> int:
        path = _path(scope)
        if ids is None:
            found = [document async for document in self._documents.newest(path)]
        else:
            named = [await self._documents.get(_name(each)) for each in ids]
            found = [document for document in named if document and document.path[: len(path)] == path]
        return sum([await self._documents.remove(each.name) for each in found if fits(_record(each))])


def _condition(
    categories: list[str] | None,
    metadata: dict[str, Any] | None,
    older_than: datetime | None = None,
) -> Callable[[MemoryRecord], bool]:
    """Whether a record meets all conditions that are given."""

    def fits(record: MemoryRecord) -> bool:
        return (
            (not categories or not {*categories}.isdisjoint(record.categories))
            and (not metadata or all(record.metadata.get(name) == value for name, value in metadata.items()))
            and (older_than is None or _utc(record.created_at) < _utc(older_than))
        )

    return fits


def _name(record_id: str) -> tuple[str, str]:
    return "crewai", record_id


def _path(scope: str | None) -> tuple[str, ...]:
    return tuple(part for part in (scope or "").split("/") if part)


def _record(document: Document) -> MemoryRecord:
    return MemoryRecord.model_validate(document.value)


def _children(records: Sequence[MemoryRecord], parent: str) -> list[str]:
    depth = len(_path(parent))
    return sorted({"/" + "/".join(path[: depth + 1]) for each in records if len(path := _path(each.scope)) > depth})


def _utc(moment: datetime) -> datetime:
    """CrewAI's times are in UTC and do not say so."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
