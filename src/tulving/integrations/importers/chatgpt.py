"""The export of ChatGPT: conversations, each a tree of messages of which one branch is shown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, refusing
from tulving.integrations.importers.conversations import Conversation
from tulving.integrations.importers.files import LeftOut, Meter, elements, members
from tulving.integrations.importers.values import mapping, moment

FILES = re.compile(r"conversations(-\d+)?\.json")
SPOKEN = ("text", "multimodal_text")
OTHER_BRANCH = "messages of a branch that was edited or regenerated"
UNSPOKEN = "messages of the system, of tools, or without text"


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each message of the current branch becomes an episode; a conversation is a session."""
    for name, file in members(path, FILES, meter):
        for place, conversation in elements(name, file, meter):
            yield from refusing(place, partial(_messages, place, conversation))


def _messages(place: str, value: object) -> Sequence[Record]:
    item = mapping(place, value)
    tree = mapping("mapping", item.get("mapping"))
    id_ = str(item.get("conversation_id") or item.get("id") or "")
    if not id_:
        raise InvalidInput("id", "is missing", "the id of the conversation")
    talk = Conversation("chatgpt", id_, item.get("title"), moment(item.get("create_time"), "create_time"))
    branch = _branch(tree, item.get("current_node"))
    records: list[Record] = []
    for name in branch:
        if (said := _said(tree[name])) is not None:
            where = f"{place}, message {name}"
            records += refusing(where, partial(_message, talk, said, str(said.get("id") or name), where))
    others = sum(_said(tree[name]) is not None for name in tree.keys() - set(branch))
    return [*records, LeftOut(OTHER_BRANCH, others)] if others else records


def _message(talk: Conversation, said: Mapping[str, Any], id_: str, place: str) -> Sequence[Record]:
    speaker, content = _speaker(said), _content(said)
    if speaker is None or content is None:
        return [LeftOut(UNSPOKEN)]
    return [talk.message(id_, speaker, content, said.get("create_time"), place)]


def _said(node: object) -> Mapping[str, Any] | None:
    """The message of a node; the root has none."""
    said = node.get("message") if isinstance(node, Mapping) else None
    return said if isinstance(said, Mapping) else None


def _branch(tree: Mapping[str, Any], leaf: object) -> list[str]:
    """The names of the nodes from the root to the current one; without that, to the last one in the file."""
    if leaf is None:
        leaf = next(reversed(list(tree)), None)
    branch: list[str] = []
    passed: set[str] = set()
    while isinstance(leaf, str):
        if leaf in passed:
            raise InvalidInput("mapping", f"the message {leaf:.60} answers itself", "a tree")
        if not isinstance(tree.get(leaf), Mapping):
            raise InvalidInput("mapping", f"there is no message {leaf:.60}, which another one names", "a tree")
        passed.add(leaf)
        branch.append(leaf)
        leaf = tree[leaf].get("parent")
    return branch[::-1]


def _speaker(said: Mapping[str, Any]) -> str | None:
    """Who said something that the person has seen."""
    author, details = said.get("author"), said.get("metadata")
    role = author.get("role") if isinstance(author, Mapping) else None
    hidden = isinstance(details, Mapping) and details.get("is_visually_hidden_from_conversation")
    return None if hidden or role not in ("user", "assistant") or said.get("recipient", "all") != "all" else role


def _content(said: Mapping[str, Any]) -> str | None:
    content = said.get("content")
    if not isinstance(content, Mapping) or content.get("content_type", "text") not in SPOKEN:
        return None
    parts = content.get("parts")
    texts = [_part(part) for part in parts] if isinstance(parts, list) else []
    return "\n\n".join(filter(None, texts)) or None


def _part(part: object) -> str:
    """A part as text: what was written or, of a spoken one, its transcription."""
    if isinstance(part, Mapping):
        part = part.get("text")
    return part.strip() if isinstance(part, str) else ""
