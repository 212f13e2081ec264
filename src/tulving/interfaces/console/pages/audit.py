"""Audit: who has changed what, and when."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from starlette.responses import Response

from tulving.domain.events import Event, Trail
from tulving.domain.model import KINDS
from tulving.interfaces.console import fields
from tulving.interfaces.console.presentation import in_words, memory_path
from tulving.interfaces.console.visit import Page, Visit

PATH = "/console/audit"
AT_A_TIME = 50
NAME = re.compile(r"[a-z_]+(, [a-z_]+)*")
"""A name in the code, or several, which are shown as words."""
PAGE_OF = {
    **{kind: memory_path(kind, "{}") for kind in KINDS},
    "entity": "/console/entities/{}",
    "run": "/console/runs/{}",
    "conflict": "/console/conflicts/{}",
}
"""The page of an entity by its type."""
FILTERS, TIMES = ("event_type", "actor", "item", "run"), ("since", "until")
COMMON = (
    ("", "anything"),
    ("episode", "episodes"),
    ("fact", "facts"),
    ("rule", "rules"),
    ("entity", "entities"),
    ("profile", "profiles"),
    ("conflict", "conflicts"),
    ("proposal", "proposals"),
    ("run", "runs"),
    ("session", "sessions"),
    ("merge_rule", "merge rules"),
    ("token", "tokens"),
    ("memories_imported", "imports"),
)


async def show(visit: Visit) -> Response:
    """The trail, the newest change first."""
    asked = {name: value for name in (*FILTERS, *TIMES) if (value := fields.text(visit.query, name))}
    sought: dict[str, Any] = {"run_id" if name == "run" else name: asked.get(name) for name in FILTERS}
    sought |= {name: fields.moment(visit.query, name) for name in TIMES}
    trail: Trail = await visit.call("memory_audit", **sought, limit=AT_A_TIME, cursor=visit.query.get("cursor") or None)
    kinds = list(COMMON)
    if (kind := asked.get("event_type", "")) not in dict(kinds):
        kinds.append((kind, kind.replace("_", " ")))
    return visit.render("audit.html", trail=trail, asked=asked, kinds=kinds, place=place, payload=payload)


def place(event: Event) -> str | None:
    """The page of what an event is about, if it has one."""
    path = PAGE_OF.get(event.entity_type)
    gone = event.event_type.endswith("_deleted")
    return None if path is None or event.entity_id is None or gone else path.format(event.entity_id)


def payload(event: Event) -> Iterator[tuple[str, str, str | None]]:
    """The payload of an event: names, values, and the pages of ids."""
    for name, value in _flat(event.payload):
        if value is None or value in ("", [], {}):
            continue
        text = in_words(value)
        yield name.replace("_", " "), text.replace("_", " ") if NAME.fullmatch(text) else text, _leads(name, value)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value


def _leads(name: str, value: Any) -> str | None:
    try:
        id_ = UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if id_ is None else f"/console/runs/{id_}" if name == "run" else f"{PATH}?item={id_}"


PAGES = [Page("/audit", show)]
