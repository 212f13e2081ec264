"""A knowledge graph as facts about entities: what a node is, what was observed of it, and what it is related to.

A fact with an entity and a predicate has one value, but a node has many observations, so there may be several of a
predicate. That of a relation names the other node. Nothing of a graph fades.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tulving.domain.model import Fact, NewFact
from tulving.domain.offers import Offer
from tulving.integrations.importers.values import compact, entity_type

MARK = "graph"
TYPE, OBSERVATION = "entity type", "observation"


def node(name: str, entity_type: str, **more: Any) -> NewFact:
    """That there is a node of this type."""
    return _fact(name, TYPE, entity_type, {"part": "type"}, importance=2.0, **more)


def observation(name: str, content: str, category: str = OBSERVATION, **more: Any) -> NewFact:
    """Something that was observed of a node."""
    return _fact(name, category, content, {"part": "observation"}, **more)


def relation(name: str, relation_type: str, target: str, **more: Any) -> NewFact:
    """That a node is related to another one."""
    content = f"{name} {relation_type.replace('_', ' ')} {target}"
    mark = {"part": "relation", "type": relation_type, "to": target}
    return _fact(name, f"{relation_type} {target}", content, mark, **more)


def offer(fact: NewFact, kind: str, **more: Any) -> Offer:
    """A fact about the node that is its subject, which is of this type."""
    several = part(fact).get("part") == "observation"
    return Offer(memory=fact, entity_type=entity_type(kind), several=several, **more)


def imported(fact: NewFact, kind: str, place: str, **origin: Any) -> Offer:
    """The same of another program, in which nodes have these names."""
    return offer(fact, kind, key=compact([fact.subject, fact.predicate]), place=place, origin=origin)


def part(fact: Fact | NewFact) -> Mapping[str, Any]:
    """What a fact is in the graph; any other fact about an entity is an observation."""
    mark = (fact.metadata or {}).get(MARK)
    return mark if isinstance(mark, Mapping) else {}


def observed(fact: Fact) -> str:
    """A fact as an observation."""
    return fact.content if part(fact) else f"{fact.predicate}: {fact.content}"


def _fact(
    name: str,
    predicate: str,
    content: str,
    mark: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
    source: str | None = None,
) -> NewFact:
    return NewFact(
        subject=name,
        predicate=predicate,
        content=content,
        permanence="permanent",
        importance=importance,
        source=source,
        tags=tags,
        metadata={**(metadata or {}), MARK: mark},
    )
