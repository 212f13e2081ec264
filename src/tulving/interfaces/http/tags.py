"""The tags of the OpenAPI document, by which viewers and client generators group the routes."""

from collections.abc import Mapping

TAGS: Mapping[str, tuple[str, str]] = {
    "find": ("Search, recall, the context of a prompt, and the history of a fact.", "recall search context history"),
    "facts": ("Facts with a subject and predicate, and notes without.", "facts notes knowledge"),
    "episodes": ("What happened: episodes and the timeline.", "episodes timeline"),
    "rules": ("Rules, and whether they helped.", "rules"),
    "memories": ("Read, edit, confirm, link, forget and delete memories of any kind.", "memories links"),
    "entities": ("People, organizations, places and other things that facts are about.", "entities"),
    "profile": ("What is known about a user, in blocks.", "profile profiles"),
    "sessions": ("Start, end and list sessions.", "sessions"),
    "learning": ("What language models learn: runs, proposals, undo.", "learn review runs bridge"),
    "conflicts": ("Contradictions, and the merge rules that settle them.", "conflicts merge-rules"),
    "overview": ("Statistics, fading memories, the audit trail and health.", "stats growth fading audit health"),
    "events": ("The event stream.", "events"),
    "transfer": ("Export and import of a tenant.", "export import"),
    "administration": ("Tenants, access tokens, jobs and checks of the store.", "tenants tokens jobs verify"),
    "service": ("This document and the problem types, without a token.", "openapi.json problems"),
}
"""The description of each tag, and the first path segments of its routes."""
_OF = {part: name for name, (_, parts) in TAGS.items() for part in parts.split()}


def tag_of(path: str) -> str:
    """The tag of a route."""
    return _OF[path.split("/")[2]]
