"""Headers by which a trusted client acts on behalf of a user: they narrow one request to a user, household, persona,
project or scope, like a connection that is bound to them."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers

from tulving.domain.intake import identifier
from tulving.errors import Forbidden, InvalidInput
from tulving.services.memory import Memory

NARROWING: Mapping[str, str] = {
    "Tulving-User": "Only this user's memories, as if the connection were bound to them; percent-encoded UTF-8",
    "Tulving-Household": "The same for a household",
    "Tulving-Persona": "The same for a persona",
    "Tulving-Project": "The same for a project",
    "Tulving-Scope": "The same for a scope, with what is global; new memories are stored there",
}
"""The headers and their meanings."""
_PARTS = ("user_id", "household_id", "persona_id", "project", "scope")


def narrowed(memory: Memory, headers: Headers) -> Memory:
    """The memory, bound to what the headers name. They can't widen an existing binding: it is forbidden to name another
    user than the token or the settings do."""
    owner, bound = memory.bound.owner, memory.bound
    fixed = (owner.user_id, owner.household_id, owner.persona_id, bound.project, bound.scope)
    asked: dict[str, Any] = {}
    for header, part, mine in zip(NARROWING, _PARTS, fixed, strict=True):
        if (value := _named(header, headers.getlist(header))) is None:
            continue
        if mine is not None and value != mine:
            raise Forbidden(f"{header}: this token or server is bound to another one")
        asked[part] = value
    return memory.bind(**asked) if asked else memory


def _named(header: str, given: Sequence[str]) -> str | None:
    if not given:
        return None
    if len(given) > 1:
        raise InvalidInput(header, "is given twice", "once")
    try:
        return identifier(header, unquote(given[0].encode("ascii").decode().strip(), errors="strict"), most=200)
    except UnicodeError:
        allowed = "a name, such as ada or Ren%C3%A9"
        raise InvalidInput(header, "is not percent-encoded UTF-8", allowed) from None
