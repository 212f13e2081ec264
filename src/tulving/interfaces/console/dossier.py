"""The contents of a memory's page: its forecast, its history and its provenance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.decay import EXPIRED_BELOW, FADING_BELOW, effective_confidence
from tulving.domain.editing import Revision
from tulving.domain.events import Event
from tulving.domain.forecast import Forecast
from tulving.domain.layers import chronological, cut, title
from tulving.domain.model import KIND_OF, Episode, Item, Link, Relation
from tulving.domain.provenance import FORWARD, Provenance, steps
from tulving.interfaces.console.presentation import day, memory_path, path_of, state_of

WORDS: Mapping[Relation, tuple[str, str]] = {
    "derived_from": ("learned from", "led to"),
    "supersedes": ("replaced", "replaced by"),
    "supports": ("supports", "supported by"),
    "contradicts": ("contradicts", "contradicted by"),
    "related_to": ("belongs with", "belongs with"),
}
"""The words for a link, seen from its source and from its target."""
HAPPENED = {
    "created": "Stored",
    "confirmed": "Confirmed",
    "edited": "Edited",
    "forgotten": "Forgotten",
    "deleted": "Deleted",
    "superseded": "Replaced",
    "retracted": "Retracted",
    "restored": "Brought back",
    "fading": "Began to fade",
    "expired": "Faded away",
    "recovered": "No longer fading",
    "embedded": "Embedded",
    "demoted": "Made less important",
    "repointed": "Moved to another entity",
    "consolidated": "Learned from",
    "archived": "Archived",
    "link_created": "Linked",
    "inverted": "Turned into a warning",
    "marked_helpful": "Marked as helpful",
    "marked_harmful": "Marked as harmful",
}
"""The words for an event, by its name without the kind of the memory."""
LABEL = 52
"""The length of a node's label."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A memory that is linked to the one on the page, and how."""

    word: str
    item: Item
    step: int


@dataclass(frozen=True, slots=True)
class Further:
    """A link between two other memories."""

    earlier: Item
    word: str
    later: Item


@dataclass(frozen=True, slots=True)
class Happening:
    """An event in words. For an edit, `before` and `after` are the contents."""

    event: Event
    what: str
    details: Sequence[str]
    other: tuple[str, str] | None
    """The path and title of another memory that the event concerns."""
    before: str | None = None
    after: str | None = None
    revision: int = 0


def believed(item: Item, now: datetime) -> float | None:
    """The effective confidence of a fact or rule now; None for an episode, which has none."""
    if isinstance(item, Episode):
        return None
    return effective_confidence(item.confidence, item.decay_rate, item.last_confirmed_at or item.created_at, now)


def fading(ahead: Forecast, now: datetime) -> dict[str, Any]:
    """The chart of a forecast."""
    count = len(ahead.values)
    times = [now + (ahead.expires_at - now) * at / (count - 1) for at in range(count)]
    moments = [(ahead.fading_at, "begins to fade"), (ahead.expires_at, "expires")]
    return {
        "title": "Effective confidence if nothing confirms it",
        "kind": "lines",
        "low": 0,
        "high": 1,
        "x": [day(time) for time in times],
        "times": [time.timestamp() for time in times],
        "series": [{"name": "Confidence", "values": [round(value, 3) for value in ahead.values]}],
        "marks": [{"x": at.timestamp(), "label": f"{what} {day(at)}"} for at, what in moments[:1] if at > now],
        "levels": [{"y": FADING_BELOW, "label": "fading"}, {"y": EXPIRED_BELOW, "label": "expired"}],
    }


def neighbours(anchor: Item, around: Provenance) -> tuple[list[Neighbour], list[Further]]:
    """The memories that are linked to one, earlier ones first, and the links among others."""
    items = {item.id: item for item in around.items}
    near: list[Neighbour] = []
    further: list[Further] = []
    for link in around.links:
        forward, back = WORDS[link.relation]
        step = FORWARD[link.relation]
        if link.source_id == anchor.id:
            near.append(Neighbour(forward, items[link.target_id], step))
        elif link.target_id == anchor.id:
            near.append(Neighbour(back, items[link.source_id], -step))
        elif step < 0:
            further.append(Further(items[link.target_id], back, items[link.source_id]))
        else:
            further.append(Further(items[link.source_id], forward, items[link.target_id]))
    near.sort(key=lambda each: (each.step, chronological(each.item)))
    return near, further


def graph(anchor: Item, around: Provenance, now: datetime) -> dict[str, Any]:
    """The same as a graph for graph.js, from earlier to later. It includes the runs of models that learned some of the
    memories."""
    places = steps(anchor.id, around.links)
    nodes = [_node(item, places.get(item.id, 0), item.id == anchor.id, now) for item in around.items]
    edges = [_edge(link) for link in around.links]
    runs: dict[UUID, int] = {}
    for item in around.items:
        if (run := getattr(item, "run_id", None)) is not None:
            place = places.get(item.id, 0)
            runs[run] = min(runs.get(run, place), place - 1)
            edges.append({"from": str(run), "to": str(item.id), "word": "learned"})
    for run, place in runs.items():
        told = {"kind": "run", "label": f"Run {str(run)[:8]}", "state": "", "href": f"/console/runs/{run}"}
        nodes.append({"id": str(run), "step": place, "here": False, **told})
    return {"nodes": nodes, "edges": edges}


def happenings(
    item: Item, events: Sequence[Event], revisions: Sequence[Revision], around: Provenance
) -> list[Happening]:
    """The events of a memory, the latest first."""
    titles = {str(each.id): title(each) for each in around.items}
    contents = {each.number: each.content for each in revisions}
    last = max(contents, default=0)
    found: list[Happening] = []
    for event in reversed(events):
        name = event.event_type.removeprefix(f"{KIND_OF[type(item)]}_")
        told, number = event.payload, int(event.payload.get("revision", 0))
        before = contents.get(number)
        after = item.content if number == last else contents.get(number + 1)
        other = str(told.get("superseded_by") or told.get("target_id") or told.get("supersedes_id") or "")
        kind = told.get("target_type", "fact")
        found.append(
            Happening(
                event,
                HAPPENED.get(name, name.replace("_", " ").capitalize()),
                _details(told),
                (memory_path(kind, other), titles.get(other, f"{kind} {other[:8]}")) if other else None,
                before,
                after,
                number,
            )
        )
    return found


def _details(told: Mapping[str, Any]) -> list[str]:
    said: list[str] = []
    if changed := told.get("changed"):
        said.append(", ".join("category" if name == "type" else name for name in changed))
    if by := told.get("by"):
        said.append(f"by {str(by).replace('_', ' ')}")
    if (confidence := told.get("effective_confidence")) is not None:
        said.append(f"believed {confidence:.2f}")
    if relation := told.get("relation"):
        said.append(WORDS[relation][0])
    return said


def _node(item: Item, step: int, is_here: bool, now: datetime) -> dict[str, Any]:
    return {
        "id": str(item.id),
        "kind": KIND_OF[type(item)],
        "label": cut(title(item), LABEL),
        "state": state_of(item, now).replace("_", " "),
        "step": step,
        "here": is_here,
        "href": path_of(item),
    }


def _edge(link: Link) -> dict[str, str]:
    """An edge from the earlier to the later memory."""
    forward, back = WORDS[link.relation]
    if FORWARD[link.relation] < 0:
        return {"from": str(link.target_id), "to": str(link.source_id), "word": back}
    return {"from": str(link.source_id), "to": str(link.target_id), "word": forward}
