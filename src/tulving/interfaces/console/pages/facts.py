"""Facts by subject with their history, and notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from starlette.responses import Response

from tulving.domain.claims import place
from tulving.domain.decay import PERMANENCE
from tulving.domain.model import CATEGORIES, FACT_STATES, Fact, Stored
from tulving.domain.scope import GLOBAL
from tulving.errors import InvalidInput
from tulving.interfaces.console import fields
from tulving.interfaces.console.presentation import memory_path
from tulving.interfaces.console.visit import Page, Visit, path_with

PATH = "/console/facts"
SHOWN = 100
FILTERS = ("tab", "text", "subject", "state", "category", "scope", "user")
STATES = [("", "in use"), ("any", "in any state"), *((state, state) for state in FACT_STATES)]
KINDS = [("", "any"), *((category, category) for category in CATEGORIES)]
EMPTY_FORM = {
    "subject": "",
    "predicate": "",
    "content": "",
    "category": "",
    "importance": "5",
    "permanence": "standard",
    "scope": GLOBAL,
    "tags": "",
}
OUTCOMES = {
    "stored": "Stored.",
    "superseded": "Stored. The value before it is kept as history.",
    "confirmed": "It was known already, and is confirmed now.",
    "duplicate": "It was known already.",
    "outdated": "Stored as history: a later value is known.",
    "merged": "Merged with a known note.",
    "kept": "A known note contradicts it and won.",
    "rejected": "Rejected, since a known note contradicts it.",
    "held": "Stored beside a known note that it contradicts. Please decide which one holds.",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """The facts of one subject and predicate: several if they have different owners, namespaces or states."""

    predicate: str
    facts: list[Fact]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a subject."""

    name: str
    slots: list[Slot]


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a slot in its history. `replaced_by` is the fact that came after it, if that is known."""

    fact: Fact
    replaced_by: Fact | None


async def show(visit: Visit) -> Response:
    """Facts by subject, notes, or the history of one slot."""
    if visit.query.get("subject") and visit.query.get("predicate"):
        return await _history(visit, visit.query["subject"], visit.query["predicate"])
    return await _listing(visit, EMPTY_FORM | {"subject": visit.query.get("subject", "")})


async def store(visit: Visit) -> Response:
    """Store a fact or a note from the form."""
    form = await visit.form()
    given = {name: fields.text(form, name) for name in EMPTY_FORM}
    is_note = fields.text(form, "what") == "note"
    try:
        stored = await (_store_note(visit, given) if is_note else _store_fact(visit, given))
    except InvalidInput as error:
        return await _listing(visit, given, fields.problem(error), 422)
    slot = {name: given[name] for name in ("subject", "predicate")}
    path = path_with(PATH, **({"tab": "notes"} if is_note else slot))
    undo = ("Forget it", f"{memory_path('fact', stored.id)}/forget") if visit.may("destroy") else None
    new = stored.outcome == "stored"
    path = "/console/conflicts" if stored.outcome == "held" else path
    return visit.go(path, OUTCOMES[stored.outcome], undo if new else None)


async def _store_fact(visit: Visit, given: dict[str, str]) -> Stored:
    asked: dict[str, Any] = {name: given[name] for name in ("subject", "predicate", "content", "permanence")}
    return await visit.call("memory_store_fact", **asked, **_shared(given), category=given["category"] or None)


async def _store_note(visit: Visit, given: dict[str, str]) -> Stored:
    asked = {"content": given["content"], "permanence": given["permanence"]}
    return await visit.call("memory_store_note", **asked, **_shared(given), category=given["category"] or "knowledge")


def _shared(given: dict[str, str]) -> dict[str, Any]:
    shared = {"scope": given["scope"] or GLOBAL, "tags": fields.tags(given), "source": "console"}
    importance = fields.number(given, "importance")
    return shared if importance is None else {**shared, "importance": importance}


async def _listing(visit: Visit, given: dict[str, str], problem: str = "", status: int = 200) -> Response:
    asked = {name: fields.text(visit.query, name) for name in FILTERS}
    notes = asked["tab"] == "notes"
    facts, cursor = await (_found(visit, asked) if asked["text"] else _page(visit, asked))
    return visit.render(
        "facts.html",
        status=status,
        asked=asked,
        is_asked=any(value for name, value in asked.items() if name != "tab"),
        notes=facts if notes else [],
        subjects=[] if notes else _subjects(facts),
        tab="notes" if notes else "subjects",
        cursor=cursor,
        states=STATES,
        kinds=KINDS,
        permanences=list(PERMANENCE),
        given=given,
        problem=problem,
        shown=SHOWN,
        subject_path=lambda name: path_with(PATH, subject=name),
    )


async def _page(visit: Visit, asked: dict[str, str]) -> tuple[list[Fact], str | None]:
    """A page of facts by subject, or of notes."""
    wanted: dict[str, Any] = {"scope": asked["scope"] or None, "state": asked["state"] or None}
    cursor = visit.query.get("cursor")
    if asked["tab"] == "notes":
        wanted |= {"type": asked["category"] or None, "keyed": False, "user_id": asked["user"] or None}
        page = await visit.call("memory_list", memory_type="fact", limit=SHOWN, cursor=cursor, **wanted)
    else:
        wanted |= {"category": asked["category"] or None, "subject": asked["subject"] or None}
        page = await visit.call("memory_facts", limit=SHOWN, cursor=cursor, user_id=asked["user"] or None, **wanted)
    return [*page], page.next_cursor


async def _found(visit: Visit, asked: dict[str, str]) -> tuple[list[Fact], None]:
    """The best facts in use for some words."""
    found = await visit.call(
        "memory_search",
        query=asked["text"],
        types=["fact"],
        mode="keyword",
        limit=SHOWN,
        scope=asked["scope"] or None,
        type=asked["category"] or None,
        min_confidence=0.0,
        min_relevance=0.0,
    )
    keyed = asked["tab"] != "notes"
    facts = [hit.item for hit in found if hit.item.keyed == keyed and asked["user"] in ("", hit.item.user_id)]
    return sorted(facts, key=place) if keyed else facts, None


def _subjects(facts: Sequence[Fact]) -> list[Subject]:
    subjects: list[Subject] = []
    for _, about in groupby(facts, lambda fact: place(fact)[0]):
        slots = [Slot(some[0].predicate, some) for _, each in groupby(about, place_of_slot) if (some := _newest(each))]
        subjects.append(Subject(slots[0].facts[0].subject, slots))
    return subjects


def place_of_slot(fact: Fact) -> str:
    """The sort key by which the facts of a subject are grouped into slots."""
    return place(fact)[1]


def _newest(facts: Any) -> list[Fact]:
    """The facts of a slot, those in use first, and then the latest."""
    return sorted(facts, key=lambda fact: (fact.validity != "active", -fact.created_at.timestamp()))


async def _history(visit: Visit, subject: str, predicate: str) -> Response:
    facts: Sequence[Fact] = await visit.call("memory_history", subject=subject, predicate=predicate, limit=SHOWN)
    after: dict[UUID, Fact] = {fact.supersedes_id: fact for fact in facts if fact.supersedes_id is not None}
    values = [Value(fact, after.get(fact.id)) for fact in reversed(facts)]
    return visit.render(
        "fact_history.html",
        subject=facts[-1].subject if facts else subject,
        predicate=facts[-1].predicate if facts else predicate,
        values=values,
        several=len({(fact.owner, fact.scope) for fact in facts}) > 1,
        given=EMPTY_FORM | {"subject": subject, "predicate": predicate},
        kinds=KINDS,
        permanences=list(PERMANENCE),
        subject_path=path_with(PATH, subject=subject),
    )


PAGES = [Page("/facts", show), Page("/facts", store, ("POST",), "write")]
