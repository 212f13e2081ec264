"""The file of server-memory: one entity or relation a line."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, graph, refusing
from tulving.integrations.importers.files import Meter, Refused, json_lines, size
from tulving.integrations.importers.values import mapping, text


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """An entity becomes an entity and a fact for its type and for each observation, a relation one fact."""
    meter.total += size([path])
    for place, line in json_lines(path, meter):
        yield from [line] if isinstance(line, Refused) else refusing(place, partial(_records, place, line))


def _records(place: str, line: object) -> Sequence[Record]:
    item = mapping(place, line)
    match item.get("type"):
        case "entity":
            return _entity(place, text(item.get("name"), "name"), text(item.get("entityType"), "entityType"), item)
        case "relation":
            source, kind, target = (text(item.get(name), name) for name in ("from", "relationType", "to"))
            # The type of an entity that is only named here is not known.
            return [graph.imported(graph.relation(source, kind, target), "", place, entity=source)]
    raise InvalidInput("type", f"{item.get('type')!r:.60} is not known", "entity, relation")


def _entity(place: str, name: str, kind: str, item: Any) -> list[Record]:
    records: list[Record] = [graph.imported(graph.node(name, kind or "unknown"), kind, place, entity=name)]
    observations = item.get("observations", [])
    if not isinstance(observations, list):
        raise InvalidInput("observations", f"is a {type(observations).__name__}", "a list of texts")
    for number, content in enumerate(observations, 1):
        where = f"{place}, observation {number}"
        if isinstance(content, str):
            records.append(graph.imported(graph.observation(name, content), kind, where, entity=name))
        else:
            records.append(Refused(where, f"is a {type(content).__name__}; allowed: text"))
    return records
