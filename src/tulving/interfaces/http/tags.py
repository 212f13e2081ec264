"""The groups of routes in the OpenAPI document, for those who read it and for the programs that make a client of it."""

from collections.abc import Mapping

TAGS: Mapping[str, tuple[str, str]] = {
    "find": ("Ask the memory: by meaning, by words, or for a prompt.", "recall search context history"),
    "facts": ("What is true: facts by subject and predicate, and notes without them.", "facts notes knowledge"),
    "episodes": ("What happened, and the timeline of it.", "episodes timeline"),
    "rules": ("How to act, and how well that has worked.", "rules"),
    "memories": ("One memory of any kind: read, correct, confirm, link, forget.", "memories links"),
    "entities": ("The people, organizations, places and other things that facts are about.", "entities"),
    "profile": ("What is known about a user, in blocks.", "profile profiles"),
    "sessions": ("Sessions of work, in which memories are made.", "sessions"),
    "learning": ("What models learn, what waits for a person, and how to undo it.", "learn review runs bridge"),
    "conflicts": ("What contradicts each other, and the rules by which it is settled.", "conflicts merge-rules"),
    "overview": ("How the memory is: counts, what fades, who changed what.", "stats growth fading audit health"),
    "events": ("What happens, as it happens.", "events"),
    "transfer": ("Everything of a tenant, out and in.", "export import"),
    "administration": ("The whole store: tenants, tokens, jobs.", "tenants tokens jobs verify"),
    "service": ("What the service says of itself. It needs no token.", "openapi.json problems"),
}
"""Of each group: what it is about, and the first parts of the paths in it."""
_OF = {part: name for name, (_, parts) in TAGS.items() for part in parts.split()}


def tag_of(path: str) -> str:
    """The group of a route."""
    return _OF[path.split("/")[2]]
