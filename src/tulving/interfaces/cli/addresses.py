"""How a person names a memory: by its kind, in the singular or the plural, and by its id or the beginning of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tulving.domain.model import KINDS, Item, Kind
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.parameters import Parameter
from tulving.services.memory import Memory

NOUNS = {
    "memory_id": KINDS,
    "source_id": KINDS,
    "target_id": KINDS,
    "ids": KINDS,
    "rule_id": ("rule",),
    "source_episode_id": ("episode",),
    "entity_id": ("entity",),
    "source_entity_id": ("entity",),
    "target_entity_id": ("entity",),
    "session_id": ("session",),
    "run_id": ("run",),
    "item": (*KINDS, "entity", "run"),
}
"""What the parameters that take an id are the ids of."""


def singular(word: str) -> str:
    """A kind by its plural; any other word as it is."""
    return word[:-1] if word[:-1] in KINDS and word[-1] == "s" else word


def in_singular(parameter: Parameter, given: Any) -> Any:
    """What was given for a parameter, with kinds in the singular."""
    if not set(KINDS) & set(parameter.choices):
        return given
    return [singular(word) for word in given] if isinstance(given, list | tuple) else given and singular(given)


async def completed(memory: Memory, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with whole ids in the place of their beginnings."""
    done = dict(arguments)
    for name, nouns in NOUNS.items():
        given = arguments.get(name)
        kind = arguments.get(name.replace("_id", "_type"))
        among = (kind,) if kind in KINDS and nouns is KINDS else nouns
        if isinstance(given, list):
            done[name] = [(await memory.complete_id(each, among, name))[1] for each in given]
        elif given is not None:
            done[name] = (await memory.complete_id(str(given), among, name))[1]
    return done


def split(words: Sequence[str], most: int | None = None) -> tuple[tuple[Kind, ...], list[str]]:
    """Which kinds are meant by `[KIND] ID...`, and which ids."""
    kind, ids = singular(words[0]), list(words[1:])
    kinds: tuple[Any, ...] = (kind,) if kind in KINDS else KINDS
    ids = ids if kind in KINDS else list(words)
    if not ids or (most is not None and len(ids) > most):
        raise InvalidInput("id", f"{' '.join(words)!r:.80} does not name a memory", "an id, or a kind and an id")
    return kinds, list(dict.fromkeys(ids))


async def find(memory: Memory, kinds: Sequence[Kind], id_: str) -> Item:
    """The memory that a person means. It is not counted as a reference when a person looks."""
    if id_.startswith("fact_") and "fact" in kinds:  # a short one
        kinds = ("fact",)
    noun, whole = await memory.complete_id(id_, kinds)
    for kind in kinds:
        if noun in (None, kind) and (item := await memory.look(kind, whole)) is not None:
            return item
    raise NotFound(f"there is no {' or '.join(kinds)} {id_}")
