"""Profile: the blocks of text about a person that go into a prompt, with their versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from tulving.domain.profile import BLOCKS, LABELS, Block, ProfileOwner
from tulving.domain.text import count_tokens
from tulving.errors import InvalidInput
from tulving.interfaces.console import fields
from tulving.interfaces.console.visit import Page, Visit, path_with
from tulving.interfaces.wording import counted

PATH = "/console/profile"
WHO = {"user": "user_id", "household": "household_id", "persona": "persona_id"}
"""The query parameters that name the owner, and the arguments of the verbs."""
VERSIONS = 20
MEANS = {
    "work": "Role, employer, projects",
    "personal": "Family, home, tastes",
    "topOfMind": "What occupies them now",
    "recent": "The last weeks",
    "earlier": "The months before",
    "background": "What has long been true",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A block of a profile with its versions, the latest first, each with the text before it."""

    name: str
    label: str
    means: str
    current: Block | None
    versions: Sequence[tuple[Block, str]]


@dataclass(frozen=True, slots=True)
class Person:
    """An owner of a profile."""

    owner: ProfileOwner
    name: str
    path: str
    is_shown: bool


async def show(visit: Visit) -> Response:
    """The profile of a person."""
    who, memory = _who(visit), visit.memory
    owners: Sequence[ProfileOwner] = await visit.call("profile_owners")
    blocks: list[Written] = []
    for name in BLOCKS:
        versions: list[Block] = await visit.call("profile_versions", block=name, **who)
        before = ["", *(each.content for each in versions)]
        pairs = [*zip(versions, before, strict=False)][-VERSIONS:]
        current = versions[-1] if versions else None
        blocks.append(Written(name, LABELS[name], MEANS[name], current, pairs[::-1]))
    text: str = await visit.call("profile_get", **who)
    return visit.render(
        "profile.html",
        who=who,
        asked={name: who[field] or "" for name, field in WHO.items()},
        bound=memory.bound.owner,
        name=_name(who) or _name({field: getattr(memory.bound.owner, field) for field in WHO.values()}),
        people=[_person(owner, who) for owner in owners],
        blocks=blocks,
        is_empty=not any(block.current for block in blocks),
        text=text,
        tokens=count_tokens(text),
        budget=memory.config.learning.profile_tokens,
        action=_path(who),
    )


async def write(visit: Visit) -> Response:
    """Write a block, unless it was changed since it was read."""
    form, who = await visit.form(), _who(visit)
    block = fields.text(form, "block")
    known = fields.moment(form, "unchanged_since")
    if known is None and form.get("was_empty"):
        await _check_still_empty(visit, block, who)
    content = fields.prose(form, "content")
    changed = await visit.call("profile_set", block=block, content=content, unchanged_since=known, **who)
    label = LABELS.get(block, block)
    return visit.go(_path(who), f"{label} is saved." if changed else f"{label} is unchanged.")


async def delete(visit: Visit) -> Response:
    """Delete a block with all its versions."""
    form, who = await visit.form(), _who(visit)
    block = fields.text(form, "block") or None
    count = await visit.call("profile_delete", block=block, **who)
    return visit.go(_path(who), f"Deleted {counted(count, 'version')}.")


async def _check_still_empty(visit: Visit, block: str, who: dict[str, Any]) -> None:
    """Raise if a block was written that was empty when it was read: it has no time to compare with."""
    if await visit.call("profile_block", block=block, **who) is not None:
        raise InvalidInput("content", "somebody has written this block since you read it", "read the page again")


def _who(visit: Visit) -> dict[str, Any]:
    return {field: fields.text(visit.query, name) or None for name, field in WHO.items()}


def _path(who: dict[str, Any]) -> str:
    return path_with(PATH, **{name: who[field] for name, field in WHO.items()})


def _person(owner: ProfileOwner, who: dict[str, Any]) -> Person:
    named = {field: getattr(owner, field) for field in WHO.values()}
    return Person(owner, _name(named) or "nobody in particular", _path(named), named == who)


def _name(who: dict[str, Any]) -> str:
    parts = {"user_id": "", "household_id": "household ", "persona_id": "persona "}
    return " · ".join(f"{prefix}{who[field]}" for field, prefix in parts.items() if who[field])


PAGES = [
    Page("/profile", show),
    Page("/profile", write, ("POST",), "write"),
    Page("/profile/delete", delete, ("POST",), "destroy"),
]
