"""The knowledge graph of server-memory and its nine verbs, over entities and the facts about them.

A node is an entity, an observation or relation a fact about it (`importers/graph.py`): whatever is stored here is also
found by recall and search, and a fact that another tool has stored about an entity is an observation here. What is
deleted is forgotten, as by `memory_forget`: it is no longer found, and its row is kept.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tulving.domain.model import Fact, NewFact
from tulving.errors import NotFound
from tulving.integrations.importers import graph

if TYPE_CHECKING:
    from tulving.services.memory import Memory

Json = dict[str, Any]
log = logging.getLogger("tulving")


@dataclass(slots=True)
class Node:
    """An entity with what is known of it; `facts` by what they say."""

    name: str
    entity_type: str
    observations: dict[str, list[Fact]] = field(default_factory=dict)
    relations: dict[tuple[str, str], list[Fact]] = field(default_factory=dict)
    types: list[Fact] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        """An entity that only has relations was never created."""
        return bool(self.types or self.observations)

    @property
    def facts(self) -> Iterable[Fact]:
        return (*self.types, *(fact for facts in self.observations.values() for fact in facts))

    def shown(self) -> Json:
        return {"name": self.name, "entityType": self.entity_type, "observations": [*self.observations]}


async def _nodes(memory: "Memory", names: Sequence[str] | None = None) -> dict[str, Node]:
    """The graph, or a part of it, by the names of the nodes."""
    nodes: dict[str, Node] = {}
    for entity, facts in await memory.graph(names):
        node = nodes.setdefault(entity.canonical_name, Node(entity.canonical_name, entity.entity_type))
        for fact in facts:
            part = graph.part(fact)
            match part.get("part"):
                case "type":
                    node.types.append(fact)
                    node.entity_type = fact.content
                case "relation":
                    node.relations.setdefault((str(part.get("type")), str(part.get("to"))), []).append(fact)
                case _:
                    node.observations.setdefault(graph.observed(fact), []).append(fact)
    return nodes


def _graph(nodes: Mapping[str, Node], chosen: Iterable[str] | None = None) -> Json:
    """The nodes and the relations that begin or end at one of them, as server-memory shows them."""
    names = {name for name in (nodes if chosen is None else chosen) if name in nodes and nodes[name].exists}
    related = [
        (facts[0], {"from": node.name, "to": target, "relationType": kind})
        for node in nodes.values()
        for (kind, target), facts in node.relations.items()
        if chosen is None or node.name in names or target in names
    ]
    shown = [(next(iter(nodes[name].facts)), nodes[name].shown()) for name in names]
    return {"entities": _in_order(shown), "relations": _in_order(related)}


def _in_order(shown: Iterable[tuple[Fact, Json]]) -> list[Json]:
    """What is shown of facts, in the order in which they were stored."""
    return [each for _, each in sorted(shown, key=lambda pair: (pair[0].created_at, pair[0].id))]


async def _store(memory: "Memory", facts: Sequence[tuple[NewFact, str]]) -> None:
    """Store facts about entities, all or none; with each the type of its entity."""
    for taken in await memory.take_offers([graph.offer(fact, kind) for fact, kind in facts], strict=True):
        if taken.warning is not None:  # the answers of server-memory have no room for it
            log.warning("the graph: %s", taken.warning)


async def create_entities(memory: "Memory", entities: list[Json]) -> Json:
    """Create the nodes that there are not yet, with their observations; which they are."""
    known = await _nodes(memory, [entity["name"] for entity in entities])
    new = [entity for entity in entities if entity["name"] not in known or not known[entity["name"]].exists]
    facts: list[tuple[NewFact, str]] = []
    for entity in new:
        name, kind = entity["name"], entity["entityType"]
        facts.append((graph.node(name, kind), kind))
        facts += ((graph.observation(name, content), kind) for content in entity["observations"])
    await _store(memory, facts)
    return {"entities": new}


async def create_relations(memory: "Memory", relations: list[Json]) -> Json:
    """Create the relations that there are not yet; which they are. Their ends need not exist."""
    known = await _nodes(memory, [relation["from"] for relation in relations])
    new = [
        relation
        for relation in relations
        if (node := known.get(relation["from"])) is None
        or (relation["relationType"], relation["to"]) not in node.relations
    ]
    await _store(memory, [(graph.relation(each["from"], each["relationType"], each["to"]), "") for each in new])
    return {"relations": new}


async def add_observations(memory: "Memory", observations: list[Json]) -> Json:
    """Add the observations that a node does not have yet; which they are."""
    known = await _nodes(memory, [each["entityName"] for each in observations])
    facts: list[tuple[NewFact, str]] = []
    results: list[Json] = []
    for each in observations:
        name = each["entityName"]
        if name not in known or not known[name].exists:
            raise NotFound(f"Entity with name {name} not found")
        new = [content for content in each["contents"] if content not in known[name].observations]
        known[name].observations.update((content, []) for content in new)
        facts += ((graph.observation(name, content), "") for content in new)
        results.append({"entityName": name, "addedObservations": new})
    await _store(memory, facts)
    return {"results": results}


async def delete_entities(memory: "Memory", entityNames: list[str]) -> Json:
    """Forget nodes with their observations, and the relations that begin or end there."""
    gone: list[Fact] = []
    for node in (await _nodes(memory)).values():
        named = node.name in entityNames
        gone += node.facts if named else ()
        gone += (
            fact for (_, target), facts in node.relations.items() if named or target in entityNames for fact in facts
        )
    return await _forget(memory, gone, "Entities")


async def delete_observations(memory: "Memory", deletions: list[Json]) -> Json:
    """Forget observations; those that there are not are ignored."""
    known = await _nodes(memory, [each["entityName"] for each in deletions])
    gone = [
        fact
        for each in deletions
        if each["entityName"] in known
        for content in each["observations"]
        for fact in known[each["entityName"]].observations.pop(content, ())
    ]
    return await _forget(memory, gone, "Observations")


async def delete_relations(memory: "Memory", relations: list[Json]) -> Json:
    """Forget relations; those that there are not are ignored."""
    known = await _nodes(memory, [each["from"] for each in relations])
    gone = [
        fact
        for each in relations
        if each["from"] in known
        for fact in known[each["from"]].relations.pop((each["relationType"], each["to"]), ())
    ]
    return await _forget(memory, gone, "Relations")


async def _forget(memory: "Memory", facts: Sequence[Fact], what: str) -> Json:
    if facts:
        await memory.forget_facts([fact.id for fact in facts])
    return {"success": True, "message": f"{what} deleted successfully"}


async def read_graph(memory: "Memory") -> Json:
    """The whole graph."""
    return _graph(await _nodes(memory))


async def search_nodes(memory: "Memory", query: str) -> Json:
    """The nodes whose name, type or an observation contains a text, in any case, with their relations."""
    nodes, asked = await _nodes(memory), query.lower()
    matching = [
        node.name
        for node in nodes.values()
        if any(asked in text.lower() for text in (node.name, node.entity_type, *node.observations))
    ]
    return _graph(nodes, matching)


async def open_nodes(memory: "Memory", names: list[str]) -> Json:
    """The nodes of these names, with their relations."""
    # Relations that end at one of them begin anywhere, so the whole graph is read.
    return _graph(await _nodes(memory), names)
