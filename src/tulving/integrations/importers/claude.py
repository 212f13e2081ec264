"""The export of Claude: conversations, each a list of messages."""

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

FILES = re.compile(r"conversations\.json")
UNSPOKEN = "messages without text"


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each message becomes an episode, with the text of its attachments; a conversation is a session."""
    for name, file in members(path, FILES, meter):
        for place, conversation in elements(name, file, meter):
            yield from refusing(place, partial(_messages, place, conversation))


def _messages(place: str, value: object) -> Sequence[Record]:
    item = mapping(place, value)
    id_, messages = str(item.get("uuid") or ""), item.get("chat_messages")
    if not id_ or not isinstance(messages, list):
        raise InvalidInput("chat_messages" if id_ else "uuid", "is missing", "a conversation of Claude")
    talk = Conversation("claude", id_, item.get("name"), moment(item.get("created_at"), "created_at"))
    records: list[Record] = []
    for number, each in enumerate(messages, 1):
        where = f"{place}, message {number}"
        records += refusing(where, partial(_message, talk, each, number, where))
    return records


def _message(talk: Conversation, value: object, number: int, place: str) -> Sequence[Record]:
    said = mapping(place, value)
    if not (content := _content(said)):
        return [LeftOut(UNSPOKEN)]
    id_, speaker = str(said.get("uuid") or number), str(said.get("sender") or "unknown")
    return [talk.message(id_, speaker, content, said.get("created_at"), place)]


def _content(said: Mapping[str, Any]) -> str:
    """What was written, without tool calls and thoughts, and then the attached texts. `text` alone has both, in older
    exports without `content`."""
    blocks = said.get("content")
    parts = [
        block.get("text")
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, Mapping) and block.get("type") == "text"
    ]
    texts = [part for part in parts if isinstance(part, str) and part.strip()] or [said.get("text")]
    attached = said.get("attachments")
    for each in attached if isinstance(attached, list) else ():
        if isinstance(each, Mapping) and isinstance(each.get("extracted_content"), str):
            texts.append(f"[{each.get('file_name') or 'attachment'}]\n{each['extracted_content']}")
    return "\n\n".join(part.strip() for part in texts if isinstance(part, str) and part.strip())
