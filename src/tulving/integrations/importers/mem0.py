"""The memories of mem0: as `get_all` and its exports give them, or from its history."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tulving.domain.model import NewFact
from tulving.domain.offers import Offer, stable_id
from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, refusing
from tulving.integrations.importers.files import LeftOut, Meter, elements, is_sqlite, opened, rows, size
from tulving.integrations.importers.values import label, mapping, moment, text

LISTS = ("results", "memories")
DELETED = "memories that were deleted"
_LAST = """
SELECT memory_id AS id, new_memory AS memory, event, created_at, updated_at, actor_id, role FROM history
WHERE rowid IN (SELECT MAX(rowid) FROM history GROUP BY memory_id) ORDER BY rowid"""


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each memory that is not deleted becomes a note of its user."""
    if is_sqlite(path):
        for place, row in rows(path, _LAST, meter):
            yield from refusing(place, partial(_last, place, row))
        return
    meter.total += size([path])
    with opened(path) as file:
        for place, value in elements(path.name, file, meter, within=LISTS):
            yield from refusing(place, partial(_memory, place, value))


def _last(place: str, row: Mapping[str, Any]) -> Sequence[Record]:
    return [LeftOut(DELETED)] if row["event"] == "DELETE" else _memory(place, row)


def _memory(place: str, value: object) -> Sequence[Record]:
    item = mapping(place, value)
    id_ = label(item.get("id"))
    if id_ is None:
        raise InvalidInput("id", "is missing", "the id of the memory")
    run, user = label(item.get("run_id")), label(item.get("user_id"))
    details = item.get("metadata")
    names = ("created_at", "updated_at", "agent_id", "run_id", "actor_id", "role", "app_id", "categories")
    categories = item.get("categories")
    fact = NewFact(
        content=text(item.get("memory"), "memory"),
        source="mem0",
        source_butler=label(item.get("agent_id")),
        session_id=stable_id("mem0", run) if run else None,
        occurred_at=moment(item.get("updated_at"), "updated_at") or moment(item.get("created_at"), "created_at"),
        tags=[each for each in categories if isinstance(each, str)] if isinstance(categories, list) else None,
        metadata=details if isinstance(details, Mapping) else None,
    )
    origin = {"id": id_, **{name: item[name] for name in names if item.get(name) is not None}}
    return [Offer(memory=fact, key=id_, user_id=user, origin=origin, place=place)]
