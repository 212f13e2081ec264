"""JSON documents under exact names, kept as facts: what stores of other frameworks hold."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tulving.domain import intake
from tulving.domain.model import Fact, Found, Item, NewFact
from tulving.domain.ranking import Mode
from tulving.domain.text import shortened
from tulving.errors import IntegrityError, InvalidInput, NotFound
from tulving.integrations.labels import digest
from tulving.services.memory import Memory

PAGE = 200
MOST = 1000
"""What a verb returns at most."""
FEW_VERSIONS = 10
"""Of the latest versions one is in use, if any is; unless a clock was put back, that is the first of them."""
LONGEST_TEXT = 20_000
UNINDEXED = "(not indexed)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A value under an exact name, in a folder that is named by its path.

    `text` is what it is found by; without one no query finds it. `ttl` is how many minutes it lives after its last
    access. The rest is known of a document that was read.
    """

    name: tuple[str, ...]
    path: tuple[str, ...]
    value: Mapping[str, Any]
    text: str | None = None
    importance: float = 5.0
    ttl: float | None = None
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime | None = None
    score: float | None = None
    id: UUID | None = None

    @property
    def expires_at(self) -> datetime | None:
        if self.ttl is None:
            return None
        try:
            return max(self.updated_at, self.accessed_at or self.updated_at) + timedelta(minutes=self.ttl)
        except OverflowError:  # after the last year that there is
            return None


class Documents:
    """The documents of one framework in a memory.

    Each is a keyed fact that does not fade. Its value is in the metadata, and its labels name the folders that it is
    in. A new value replaces the old one, which stays in the history until the document is removed.
    """

    def __init__(self, memory: Memory, framework: str) -> None:
        self._memory, self._framework = memory, framework

    async def put(self, documents: Sequence[Document]) -> None:
        """Write documents with different names, in one transaction. Those that exist keep their `created_at`."""
        known = await asyncio.gather(*(self.get(document.name) for document in documents))
        written = [
            replace(document, created_at=before.created_at) if before else document
            for document, before in zip(documents, known, strict=True)
        ]
        await self._memory.store_facts([self.fact(document) for document in written])

    async def get(self, name: Sequence[str]) -> Document | None:
        """The document of this name, or None. It is not counted as an access; see `touch`."""
        for limit in (FEW_VERSIONS, MOST):
            versions = await self._versions(name, limit)
            current = [fact for fact in versions if fact.state in ("active", "fading")]
            if current:
                found = _document(current[-1])
                return None if found is None or await self._expire(found) else found
            if len(versions) < limit:
                break
        return None

    async def newest(self, path: Sequence[str]) -> AsyncIterator[Document]:
        """The documents in a folder and the folders below, the latest written first."""
        async for document in self._all(path):
            if not await self._expire(document):
                yield document

    async def search(
        self,
        path: Sequence[str],
        query: str,
        most: int,
        fits: Callable[[Document], bool],
        mode: Mode,
    ) -> list[Document]:
        """The documents in a folder and below that fit a query, best first, each with its score."""

        async def find(limit: int) -> Found:
            return await self._memory.search(
                query[: intake.MAX_QUERY],
                types=["fact"],
                mode=mode,
                limit=limit,
                tags=[self._label(path)],
                min_confidence=0.0,
                min_relevance=0.0,
            )

        return await self._fitting(find, most, fits)

    async def nearest(
        self, path: Sequence[str], embedding: Sequence[float], most: int, fits: Callable[[Document], bool]
    ) -> list[Document]:
        """The documents in a folder and below whose vectors are nearest to this one; the score is the cosine."""

        async def find(limit: int) -> Found:
            return await self._memory.search_similar(
                embedding, types=["fact"], limit=limit, tags=[self._label(path)], min_confidence=0.0
            )

        return await self._fitting(find, most, fits)

    async def remove(self, name: Sequence[str]) -> bool:
        """Delete a document for good, with its former versions; False if there was none."""
        removed = False
        while versions := await self._versions(name):
            for fact in reversed(versions):  # the current one first, so that no part of this brings an old one back
                removed = await self._delete(fact) or removed
        return removed

    async def sweep(self) -> int:
        """Delete the documents whose time is over, and count them."""
        return sum([await self._expire(document) async for document in self._all(())])

    async def touch(self, document: Document) -> None:
        """Count an access, after which the document lives for its time again."""
        if document.ttl is not None and document.id is not None:
            await self._memory.get("fact", document.id)

    async def _fitting(
        self, find: Callable[[int], Awaitable[Found]], most: int, fits: Callable[[Document], bool]
    ) -> list[Document]:
        """What a search finds and a caller wants. Its condition can't be part of the search, so if too few are left,
        as many as possible are looked at."""
        asked, kept = max(1, min(most, MOST)), []
        while True:
            hits = (await find(asked)).hits
            found = [(_document(hit.item), hit.score) for hit in hits]
            kept = [
                replace(document, score=score)
                for document, score in found
                if document and document.text is not None and fits(document) and not await self._expire(document)
            ]
            if len(kept) >= most or len(hits) < asked or asked == MOST:
                return kept[:most]
            asked = MOST

    async def _all(self, path: Sequence[str]) -> AsyncIterator[Document]:
        cursor = None
        while True:
            page = await self._memory.list_memories("fact", tags=[self._label(path)], limit=PAGE, cursor=cursor)
            for document in filter(None, map(_document, page.items)):
                yield document
            if (cursor := page.next_cursor) is None:
                return

    async def _expire(self, document: Document) -> bool:
        """Whether the time of a document is over. If so, it is deleted."""
        if document.expires_at is None or document.expires_at > self._memory.now():
            return False
        for version in await self._versions(document.name):
            if version.id == document.id or version.state == "superseded":  # and not one that was written meanwhile
                await self._delete(version)
        return True

    async def _versions(self, name: Sequence[str], limit: int = MOST) -> list[Fact]:
        return (await self._memory.history(*self._key(name), limit=limit)).items

    async def _delete(self, fact: Fact) -> bool:
        with suppress(NotFound):  # another caller was faster
            return await self._memory.delete("fact", fact.id)
        return False

    def fact(self, document: Document) -> NewFact:
        """The fact that a document is kept as."""
        screen = self._memory._env.screen
        if any(screen.text("name", intake.public(part))[0] != part for part in (*document.name, *document.path)):
            raise InvalidInput("name", "can't be kept exactly", "no NUL, half characters, private text, secrets")
        subject, predicate = self._key(document.name)
        text = intake.public(document.text or "").strip()
        most = min(LONGEST_TEXT, self._memory.config.max_content_characters or LONGEST_TEXT)
        return NewFact(
            subject=subject,
            predicate=predicate,
            content=shortened(text, most)[:most] if text else UNINDEXED[:most],
            importance=document.importance,
            permanence="permanent",
            source=self._framework,
            tags=[self._label(document.path[:depth]) for depth in range(len(document.path) + 1)],
            metadata={
                "document": {
                    "name": document.name,
                    "path": document.path,
                    "indexed": bool(text),
                    "ttl": document.ttl,
                    "created_at": document.created_at.isoformat(),
                    "updated_at": document.updated_at.isoformat(),
                },
                "value": document.value,
            },
        )

    def _key(self, name: Sequence[str]) -> tuple[str, str]:
        """Subject and predicate of a document. The name itself would not do: facts are the same whatever the case and
        separators of their names, and what looks private in a name is removed."""
        return self._framework, digest(self._memory, *name)

    def _label(self, path: Sequence[str]) -> str:
        return f"{self._framework}:{digest(self._memory, *path)}"


def lines(value: Any, name: str = "") -> Iterator[str]:
    """A value in words, a line for each part: names and texts without the punctuation of JSON, which means nothing."""
    if isinstance(value, Mapping):
        for inner, part in value.items():
            yield from lines(part, str(inner))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from lines(part, name)
    elif value is not None:
        yield f"{name}: {value}"


def _document(item: Item) -> Document | None:
    """The document that a fact keeps; None if it keeps none, since anyone may store a fact with the same key or tag."""
    if "unreadable" in item.metadata:
        raise IntegrityError(f"the document {item.id} can't be read: {item.metadata['unreadable']}")
    try:
        kept, value = item.metadata["document"], item.metadata["value"]
        created_at, updated_at = (
            datetime.fromisoformat(kept[name]).astimezone(UTC) for name in ("created_at", "updated_at")
        )
        return Document(
            name=tuple(map(str, kept["name"])),
            path=tuple(map(str, kept["path"])),
            value={**value},
            text=item.content if kept["indexed"] else None,
            ttl=None if kept["ttl"] is None else float(kept["ttl"]),
            created_at=created_at,
            updated_at=updated_at,
            accessed_at=item.accessed_at,
            id=item.id,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
