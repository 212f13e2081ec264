"""Completions: what the arguments of prompts and the parts of resource addresses can be."""

from typing import Any

from mcp_types import CompleteRequestParams, CompleteResult, Completion, PromptReference

from tulving.domain.decay import PERMANENCE
from tulving.domain.model import KINDS
from tulving.domain.scope import GLOBAL
from tulving.interfaces.mcp.asking import ask, refused
from tulving.interfaces.mcp.prompts import PROMPTS
from tulving.interfaces.mcp.resources import KNOWN, TEMPLATES
from tulving.interfaces.principal import Principal

MOST = 100
"""So many values the protocol allows."""
LOOKED_AT = 500
"""Memories of each kind, the newest, whose ids or scopes are offered."""


async def complete(principal: Principal, params: CompleteRequestParams) -> CompleteResult:
    """The values that begin with what was typed, in any case."""
    reference, typed = params.ref, params.argument.value.casefold()
    if isinstance(reference, PromptReference):
        if reference.name not in {each.name for each in PROMPTS}:
            raise refused(f"there is no prompt {reference.name!r:.80}; there are {', '.join(p.name for p in PROMPTS)}")
    elif reference.uri not in {each.uri_template for each in TEMPLATES}:
        raise refused(f"there is no resource {reference.uri!r:.200}; there are {KNOWN}")
    chosen = (params.context and params.context.arguments) or {}
    values = [
        each for each in await _values(principal, params.argument.name, chosen) if each.casefold().startswith(typed)
    ]
    return CompleteResult(completion=Completion(values=values[:MOST], total=len(values), has_more=len(values) > MOST))


async def _values(principal: Principal, name: str, chosen: dict[str, str]) -> list[str]:
    if name == "kind":
        return [*KINDS]
    if name == "permanence":
        return [*PERMANENCE]
    if name == "scope" and "read" in principal.rights:
        found = [each for kind in ("fact", "rule") for each in await _newest(principal, kind)]
        return sorted({GLOBAL, *(each.scope for each in found)}, key=str.casefold)
    if name == "id" and "read" in principal.rights and chosen.get("kind") in KINDS:
        return [str(each.id) for each in await _newest(principal, chosen["kind"])]
    return []


async def _newest(principal: Principal, kind: str) -> list[Any]:
    return (await ask(principal, "memory_list", {"memory_type": kind, "limit": LOOKED_AT})).items
