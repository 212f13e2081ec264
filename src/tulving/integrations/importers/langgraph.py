"""Items of a LangGraph store: values under a key in a namespace."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tulving.domain.model import NewFact
from tulving.domain.offers import Offer
from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, refusing
from tulving.integrations.importers.files import Meter, Refused, is_sqlite, json_lines, rows, size
from tulving.integrations.importers.values import compact, mapping, moment

TEXTS = ("content", "text", "memory", "data")
_STORE = "SELECT prefix AS namespace, key, value, created_at, updated_at FROM store ORDER BY prefix, key"


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each item becomes a fact: its subject is the namespace, its predicate the key."""
    if is_sqlite(path):
        found = rows(path, _STORE, meter)
    else:
        meter.total += size([path])
        found = json_lines(path, meter)
    for place, item in found:
        yield from [item] if isinstance(item, Refused) else refusing(place, partial(_item, place, item))


def _item(place: str, value: object) -> Sequence[Record]:
    item = mapping(place, value)
    namespace = item.get("namespace")
    parts = namespace.split(".") if isinstance(namespace, str) else namespace
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InvalidInput("namespace", f"{namespace!r:.60} is not one", "a list of texts")
    key, kept = str(item.get("key") or ""), item.get("value")
    if isinstance(kept, bytes | str):  # as the SQLite store keeps it
        try:
            kept = json.loads(kept)
        except (ValueError, RecursionError) as error:
            raise InvalidInput("value", f"is not JSON ({error})", "a JSON object") from error
    fact = NewFact(
        subject="/".join(parts) or "store",
        predicate=key,
        content=_content(mapping("value", kept)),
        occurred_at=moment(item.get("updated_at"), "updated_at"),
        permanence="permanent",
        source="langgraph",
        metadata={"value": kept},
    )
    dates = {name: str(item[name]) for name in ("created_at", "updated_at") if item.get(name) is not None}
    origin = {"namespace": parts, "key": key, **dates}
    return [Offer(memory=fact, key=compact([parts, key]), origin=origin, place=place)]


def _content(value: Mapping[str, object]) -> str:
    """The text of a value, if it has one as LangMem writes it; else all of it."""
    for name in TEXTS:
        inner = value.get(name)
        if isinstance(inner, Mapping):
            inner = inner.get(name)
        if isinstance(inner, str) and inner.strip():
            return inner
    return compact(value)
