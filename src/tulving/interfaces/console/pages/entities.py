"""Entities: whom and what facts are about, with all their names, and merging two of them."""

from collections.abc import Sequence
from itertools import groupby

from starlette.datastructures import FormData
from starlette.responses import Response

from tulving.domain.model import ENTITY_TYPES, EntitiesMerged, Entity, EntityCreated, Fact, MergePreview
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.console import fields
from tulving.interfaces.console.pages.facts import Slot, place_of_slot
from tulving.interfaces.console.visit import Page, Visit, path_with
from tulving.interfaces.wording import counted

PATH = "/console/entities"
SHOWN = 50
FACTS = 200
CANDIDATES = 8
NAMES = 8
"""Under how many of its names facts are looked for that are not linked to an entity."""
TYPES = [("", "any"), *((name, name) for name in ENTITY_TYPES)]


async def show(visit: Visit) -> Response:
    """Entities by name."""
    return await _listing(visit, {"canonical_name": "", "entity_type": "person", "aliases": ""})


async def create(visit: Visit) -> Response:
    """Register an entity from the form."""
    form = await visit.form()
    given = {name: fields.text(form, name) for name in ("canonical_name", "entity_type", "aliases")}
    try:
        made: EntityCreated = await visit.call("entity_create", **given | {"aliases": _names(form)})
    except InvalidInput as error:
        return await _listing(visit, given, fields.problem(error), 422)
    return visit.go(f"{PATH}/{made.entity_id}", f"{given['canonical_name']} is registered.")


async def entity(visit: Visit) -> Response:
    """One entity: its names and what is known of it."""
    return await _page(visit, await _known(visit))


async def update(visit: Visit) -> Response:
    """Change the names of an entity, unless it was changed since it was read."""
    form, id_ = await visit.form(), visit.request.path_params["entity_id"]
    try:
        changed: Entity | None = await visit.call(
            "entity_update",
            entity_id=id_,
            canonical_name=fields.text(form, "canonical_name"),
            aliases=_names(form),
            unchanged_since=fields.moment(form, "unchanged_since"),
        )
    except InvalidInput as error:
        return await _page(visit, await _known(visit), fields.problem(error), form, 422)
    if changed is None:
        raise NotFound(f"there is no entity {id_}")
    return visit.go(f"{PATH}/{id_}", "The names are changed.")


async def merging(visit: Visit) -> Response:
    """Choose the target of a merge, and preview the merge."""
    source, target_id = await _known(visit), fields.text(visit.query, "into")
    name = fields.text(visit.query, "name")
    preview: MergePreview | None = None
    if target_id:
        preview = await visit.call("entity_merge_preview", source_entity_id=source.id, target_entity_id=target_id)
    wanted = name or source.canonical_name
    asked = {"name": wanted, "enable_fuzzy": True, "entity_type": None if name else source.entity_type}
    found = [] if preview else await visit.call("entity_resolve", **asked, limit=CANDIDATES + 1)
    return visit.render(
        "entity_merge.html",
        source=source,
        preview=preview,
        name=name,
        candidates=[each for each in found if each.entity_id != source.id][:CANDIDATES],
        path=lambda into: path_with(f"{PATH}/{source.id}/merge", into=str(into)),
    )


async def merge(visit: Visit) -> Response:
    """Merge an entity into another."""
    form, id_ = await visit.form(), visit.request.path_params["entity_id"]
    target = str(form.get("into", ""))
    done: EntitiesMerged = await visit.call("entity_merge", source_entity_id=id_, target_entity_id=target)
    said = f"Merged: {counted(done.facts_repointed, 'fact')} moved here, {done.facts_superseded:,} superseded."
    return visit.go(f"{PATH}/{done.target_entity_id}", said)


async def _listing(visit: Visit, given: dict[str, str], problem: str = "", status: int = 200) -> Response:
    asked = {name: fields.text(visit.query, name) for name in ("name", "type")}
    page = await visit.call(
        "entity_list",
        name=asked["name"] or None,
        entity_type=asked["type"] or None,
        limit=SHOWN,
        cursor=visit.query.get("cursor"),
    )
    return visit.render(
        "entities.html",
        status=status,
        asked=asked,
        is_asked=any(asked.values()),
        entities=list(page),
        cursor=page.next_cursor,
        types=TYPES,
        given=given,
        problem=problem,
    )


async def _page(
    visit: Visit, its: Entity, problem: str = "", form: FormData | None = None, status: int = 200
) -> Response:
    """The page of an entity, with the values of a form that was refused."""
    facts = await visit.call("memory_facts", entity_id=its.id, limit=FACTS, cursor=visit.query.get("cursor"))
    target = None if its.merged_into is None else await visit.call("entity_get", entity_id=its.merged_into)
    return visit.render(
        "entity.html",
        status=status,
        entity=its,
        target=target,
        slots=_slots([*facts]),
        count=len(facts),
        cursor=facts.next_cursor,
        unlinked=[] if target else await _unlinked(visit, its),
        given={
            "canonical_name": str(form.get("canonical_name", "")) if form else its.canonical_name,
            "aliases": str(form.get("aliases", "")) if form else "\n".join(its.aliases),
            "unchanged_since": str(form.get("unchanged_since", "")) if form else its.updated_at.isoformat(),
        },
        problem=problem,
    )


async def _unlinked(visit: Visit, its: Entity) -> list[tuple[str, int]]:
    """Its names with the number of facts that are about it by that name only, as most that models learn are."""
    names = [its.canonical_name, *its.aliases][:NAMES]
    pages = [await visit.call("memory_facts", subject=name, limit=FACTS) for name in names]
    counts = [sum(fact.entity_id is None for fact in page) for page in pages]
    return [each for each in zip(names, counts, strict=True) if each[1]]


async def _known(visit: Visit) -> Entity:
    id_ = visit.request.path_params["entity_id"]
    found: Entity | None = await visit.call("entity_get", entity_id=id_)
    if found is None:
        raise NotFound(f"there is no entity {id_}")
    return found


def _slots(facts: Sequence[Fact]) -> list[Slot]:
    """The facts by predicate, under any name of the subject."""
    ordered = sorted(facts, key=place_of_slot)
    return [Slot(some[0].predicate, some) for _, each in groupby(ordered, place_of_slot) if (some := [*each])]


def _names(form: FormData) -> list[str]:
    """The aliases, one per line."""
    return [name for line in str(form.get("aliases", "")).splitlines() if (name := line.strip())]


PAGES = [
    Page("/entities", show),
    Page("/entities", create, ("POST",), "write"),
    Page("/entities/{entity_id}", entity),
    Page("/entities/{entity_id}", update, ("POST",), "write"),
    Page("/entities/{entity_id}/merge", merging, right="destroy"),
    Page("/entities/{entity_id}/merge", merge, ("POST",), "destroy"),
]
