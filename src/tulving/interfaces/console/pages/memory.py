"""Memory: one memory with its provenance, history and forecast, and the ways to correct it."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData
from starlette.responses import Response

from tulving.domain import claims
from tulving.domain.editing import Revision, in_use, is_forgotten, offer_of, reverting
from tulving.domain.forecast import forecast
from tulving.domain.layers import title
from tulving.domain.model import (
    CATEGORIES,
    KIND_OF,
    KINDS,
    Fact,
    Item,
    Kind,
    NewEpisode,
    NewFact,
    NewRule,
    Rule,
)
from tulving.errors import ChangedSince, InvalidInput, NotFound
from tulving.interfaces.console import dossier, fields, ladder
from tulving.interfaces.console.presentation import absolute, path_of
from tulving.interfaces.console.visit import Page, Visit, redirect
from tulving.interfaces.wording import counted
from tulving.services.memory import Memory
from tulving.services.provenance import trace

STEPS = 61
AROUND = 3
SLOT = 50


@dataclass(frozen=True, slots=True)
class Draft:
    """A form that was refused: which one, the problem, and the values of the visitor."""

    form: str
    problem: str
    values: Mapping[str, str]


async def find(visit: Visit) -> Response:
    """Redirect to the memory with an id, or a prefix of one."""
    memory, given = visit.memory, visit.request.path_params["id"]
    _, whole = await memory.complete_id(given)
    found = await memory.look_at([whole])
    if not found:
        raise NotFound(f"There is no memory {given}: it never existed, was deleted, or is not yours to see.")
    return redirect(visit.request, _path(visit, found[0].memory))


async def show(visit: Visit) -> Response:
    """The memory."""
    item = await _item(visit)
    if visit.request.path_params["id"] != str(item.id):
        return redirect(visit.request, _path(visit, item))
    return await _page(visit, item)


async def edit(visit: Visit) -> Response:
    """Correct a memory in place: it was wrong."""
    item, form = await _item(visit), await visit.form()
    try:
        changed = await visit.call("memory_edit", **_named(item), **_changes(form))
    except (InvalidInput, ChangedSince) as error:
        return await _refused(visit, "edit", form, error)
    if changed == item:
        return visit.go(_path(visit, item), "Nothing was changed.")
    revisions = await visit.call("memory_revisions", **_named(item))
    return visit.go(_path(visit, item), "Corrected. The old version is kept below.", _undo(visit, changed, revisions))


async def restore(visit: Visit) -> Response:
    """Restore a revision by another edit."""
    item = await _item(visit)
    number = fields.whole(visit.request.path_params, "number")
    events, revisions = await _past(visit, item)
    wanted = next((each for each in revisions if each.number == number), None)
    if wanted is None:
        raise NotFound(f"This {KIND_OF[type(item)]} has no revision {number}.")
    back = reverting(item, wanted, events)
    since = fields.moment(visit.query, "since")
    changed = await visit.call("memory_edit", **_named(item), **back, unchanged_since=since)
    revisions = await visit.call("memory_revisions", **_named(item))
    return visit.go(_path(visit, item), f"Version {number} is restored.", _undo(visit, changed, revisions))


async def replace(visit: Visit) -> Response:
    """Store a new value that replaces a fact: it has changed."""
    item, form = await _item(visit), await visit.form()
    try:
        if not isinstance(item, Fact) or not item.keyed:
            raise InvalidInput("memory_type", "has no successor", "a fact with subject and predicate")
        offer = NewFact(
            content=fields.text(form, "value"),
            subject=item.subject,
            predicate=item.predicate,
            entity_id=item.entity_id,
            scope=item.scope,
            category=item.type,
            importance=item.importance,
            permanence=item.permanence,
            project=item.project,
            tags=item.tags,
            source="user",
            occurred_at=fields.moment(form, "occurred_at"),
        )
        [stored] = await _as_owner(visit, item).store_facts([offer])
    except InvalidInput as error:
        return await _refused(visit, "replace", form, error)
    said = {
        "superseded": "The new value is stored. The old one stays as history.",
        "confirmed": "This is its value already, so it is confirmed.",
        "outdated": "It is stored as history: a later value is known.",
    }
    new = await visit.call("memory_get", memory_type="fact", memory_id=stored.id)
    return visit.go(_path(visit, new or item), said.get(stored.outcome, f"The new value: {stored.outcome}."))


async def confirm(visit: Visit) -> Response:
    """Confirm a memory."""
    item = await _item(visit)
    done = await visit.call("memory_confirm", **_named(item))
    said = "Confirmed: it fades from today on." if done else "It is out of use, and can't be confirmed."
    return visit.go(_path(visit, item), said)


async def forget(visit: Visit) -> Response:
    """Forget a memory, optionally with what was learned from it alone."""
    item, form = await _item(visit), await visit.form()
    derived = await visit.call("memory_derived", **_named(item)) if form.get("derived") else []
    await visit.call("memory_forget", **_named(item), derived=bool(derived))
    also = f", and {counted(len(derived), 'memory', 'memories')} that came from it alone" if derived else ""
    again = "Store it again", _path(visit, item, "/again")
    return visit.go(_path(visit, item), f"Forgotten{also}.", again if visit.may("write") else None)


async def again(visit: Visit) -> Response:
    """Store a forgotten memory once more, as a person may."""
    item = await _item(visit)
    if not is_forgotten(item):
        raise InvalidInput("memory_id", "is not forgotten", "one that is")
    memory = _as_owner(visit, item)
    match offer_of(item):
        case NewFact() as fact:
            [stored] = await memory.store_facts([fact])
        case NewRule() as rule:
            [stored] = await memory.store_rules([rule])
        case NewEpisode() as episode:
            [stored] = await memory.store_episodes([episode])
    new = await memory.look(KIND_OF[type(item)], stored.id)
    return visit.go(_path(visit, new or item), "Stored again, as a new memory.")


async def delete(visit: Visit) -> Response:
    """Delete a memory for good."""
    item = await _item(visit)
    await visit.call("memory_delete", **_named(item))
    asked = visit.query.get("q")
    return visit.go(f"/console/ask?{urlencode({'q': asked})}" if asked else "/console", "Deleted for good.")


async def _page(visit: Visit, item: Item, draft: Draft | None = None, status: int = 200) -> Response:
    kind = KIND_OF[type(item)]
    around = await trace(visit.memory, kind, item.id)
    if around is None:  # it was deleted just now
        raise NotFound(await _gone(visit, kind, str(item.id)))
    near, further = dossier.neighbours(item, around)
    ahead = forecast(item, visit.now, STEPS) if in_use(item) else None
    events, revisions = await _past(visit, item)
    slot: list[Fact] = []
    if isinstance(item, Fact) and item.keyed:
        key = {"subject": item.subject, "predicate": item.predicate}
        history = await visit.call("memory_history", **key, limit=SLOT)
        slot = [each for each in history if claims.key(each) == claims.key(item)]
    entity_id = getattr(item, "entity_id", None)
    return visit.render(
        "memory.html",
        status=status,
        item=item,
        kind=kind,
        name=f"{item.subject} · {item.predicate}" if isinstance(item, Fact) and item.keyed else title(item),
        draft=draft,
        asked=visit.query.get("q", ""),
        act=lambda name: _path(visit, item, f"/{name}"),
        metadata=json.dumps(dict(item.metadata), indent=2, ensure_ascii=False, default=str),
        in_use=in_use(item),
        is_forgotten=is_forgotten(item),
        believed=dossier.believed(item, visit.now),
        ahead=ahead,
        chart=dossier.fading(ahead, visit.now) if ahead is not None else None,
        around=around,
        near=near,
        further=further,
        graph=dossier.graph(item, around, visit.now),
        happenings=dossier.happenings(item, events, revisions, around),
        slot=slot,
        entity=None if entity_id is None else await visit.call("entity_get", entity_id=entity_id),
        derived=await visit.call("memory_derived", **_named(item)),
        beside=await visit.call("memory_timeline", **_named(item), window=AROUND) if kind == "episode" else [],
        ladder=ladder.MEANS,
        marks=(await visit.memory.rule_marks([item.id])).get(item.id, ()) if isinstance(item, Rule) else (),
        to_rise=ladder.to_rise(item, visit.now) if isinstance(item, Rule) else "",
        categories=[("", "none"), *CATEGORIES] if getattr(item, "type", None) is None else list(CATEGORIES),
    )


async def _past(visit: Visit, item: Item) -> tuple[Sequence[Any], Sequence[Revision]]:
    return await visit.call("memory_events", **_named(item)), await visit.call("memory_revisions", **_named(item))


async def _item(visit: Visit) -> Item:
    """The memory that the address names, by its id, its short reference or the beginning of its id."""
    kind, given = visit.request.path_params["kind"], visit.request.path_params["id"]
    if kind not in KINDS:
        raise NotFound(f"There are episodes, facts and rules, but no {kind}s.")
    _, whole = await visit.memory.complete_id(given, (kind,))
    item = await visit.call("memory_get", memory_type=kind, memory_id=whole)
    if item is None:
        raise NotFound(await _gone(visit, kind, whole))
    return item


async def _gone(visit: Visit, kind: Kind, id_: str) -> str:
    """Why there is no such memory, as far as it is known here."""
    for event in await visit.call("memory_events", memory_type=kind, memory_id=id_):
        if event.event_type == f"{kind}_deleted":
            by = f" by {event.actor}" if event.actor else ""
            return f"This {kind} was deleted on {absolute(event.occurred_at)}{by}. What it said is gone."
    return f"There is no {kind} {id_}: it never existed, or is not yours to see."


async def _refused(visit: Visit, form: str, sent: FormData, error: Exception) -> Response:
    """The page with a refused form, its values and the problem."""
    item = await _item(visit)
    values = defaultdict[str, str](str, {name: str(value) for name, value in sent.items()})
    problem = fields.problem(error) if isinstance(error, InvalidInput) else str(error)
    if isinstance(error, ChangedSince):
        problem = (
            "Somebody changed it while you were writing. Above is what it says now; your text is kept below. "
            "Save it again if it should replace that."
        )
    return await _page(visit, item, Draft(form, problem, values), 412 if isinstance(error, ChangedSince) else 422)


def _as_owner(visit: Visit, item: Item) -> Memory:
    """The visitor's memory bound to the owner of an item, so that a new one gets the same owner."""
    return visit.memory.bind(user_id=item.user_id, household_id=item.household_id, persona_id=item.persona_id)


def _changes(form: FormData) -> dict[str, Any]:
    """The arguments of an edit; None for what the form leaves as it is."""
    return {
        "content": fields.prose(form, "content"),
        "tags": fields.tags(form),
        "importance": fields.number(form, "importance"),
        "confidence": fields.number(form, "confidence"),
        "category": fields.text(form, "category") or None,
        "unchanged_since": fields.moment(form, "unchanged_since"),
    }


def _named(item: Item) -> dict[str, Any]:
    return {"memory_type": KIND_OF[type(item)], "memory_id": item.id}


def _path(visit: Visit, item: Item, act: str = "", **more: str) -> str:
    """The path of a memory or one of its actions, with the question that led there."""
    query = ({"q": visit.query["q"]} if visit.query.get("q") else {}) | more
    return path_of(item) + act + (f"?{urlencode(query, quote_via=quote)}" if query else "")


def _undo(visit: Visit, changed: Item, revisions: Sequence[Revision]) -> tuple[str, str]:
    """The label and path of the button that undoes the last edit, unless there is a later one."""
    return "Undo", _path(visit, changed, f"/restore/{revisions[-1].number}", since=changed.updated_at.isoformat())


_ONE = "/memory/{kind}/{id}"
PAGES = [
    Page("/memory/{id}", find),
    Page(_ONE, show),
    Page(f"{_ONE}/edit", edit, ("POST",), "write"),
    Page(f"{_ONE}/restore/{{number}}", restore, ("POST",), "write"),
    Page(f"{_ONE}/replace", replace, ("POST",), "write"),
    Page(f"{_ONE}/confirm", confirm, ("POST",), "write"),
    Page(f"{_ONE}/again", again, ("POST",), "write"),
    Page(f"{_ONE}/forget", forget, ("POST",), "destroy"),
    Page(f"{_ONE}/delete", delete, ("POST",), "destroy"),
]
