"""Items of a LangGraph store: values under a key in a namespace."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tulving.domain import intake
from tulving.domain.offers import Offer
from tulving.errors import InvalidInput
from tulving.integrations.documents import Document, Documents, lines
from tulving.integrations.importers import Deferred, Mapped, Record, refusing
from tulving.integrations.importers.files import Meter, Refused, is_sqlite, json_lines, rows, size
from tulving.integrations.importers.values import compact, mapping, moment, text
from tulving.services.memory import Memory

_STORE = "SELECT * FROM store ORDER BY prefix, key"


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each item becomes what our own store for LangGraph would keep it as, and is found there."""
    if is_sqlite(path):
        found = rows(path, _STORE, meter)
    else:
        meter.total += size([path])
        found = json_lines(path, meter)
    for place, item in found:
        yield from [item] if isinstance(item, Refused) else refusing(place, partial(_item, place, item))


@dataclass(frozen=True, slots=True)
class _Item:
    path: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    created_at: datetime | None
    updated_at: datetime | None
    ttl: float | None
    place: str

    def offer(self, memory: Memory) -> Offer:
        now, name = memory.now(), (*self.path, self.key)
        updated_at = min(self.updated_at or self.created_at or now, now)
        document = Document(
            name=name,
            path=self.path,
            value=self.value,
            text="\n".join(lines(self.value)),
            ttl=self.ttl,
            created_at=min(self.created_at or updated_at, updated_at),
            updated_at=updated_at,
        )
        # Dated, so that it does not replace what was put since.
        fact = replace(Documents(memory, "langgraph").fact(document), occurred_at=updated_at)
        origin = {"namespace": self.path, "key": self.key}
        return Offer(memory=fact, key=compact(name), origin=origin, place=self.place)


def _item(place: str, value: object) -> Sequence[Record]:
    item = mapping(place, value)
    namespace = item.get("namespace", item.get("prefix"))
    parts = namespace.split(".") if isinstance(namespace, str) else namespace
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InvalidInput("namespace", f"{namespace!r:.60} is not one", "a list of texts")
    kept, minutes = item.get("value"), item.get("ttl_minutes")
    if isinstance(kept, bytes | str):  # as the SQLite store keeps it
        try:
            kept = json.loads(kept)
        except (ValueError, RecursionError) as error:
            raise InvalidInput("value", f"is not JSON ({error})", "a JSON object") from error
    created_at, updated_at = (
        intake.moment(name, moment(item.get(name), name)) for name in ("created_at", "updated_at")
    )
    ttl = None if minutes is None else intake.number("ttl_minutes", minutes, 0, math.inf)
    key = text(item.get("key"), "key")
    made = _Item(tuple(parts), key, mapping("value", kept), created_at, updated_at, ttl, place)
    return [Deferred(place, made.offer)]
