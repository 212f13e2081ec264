"""The export of Claude: conversations, each a list of messages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, refusing
from tulving.integrations.importers.conversations import message
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
    conversation = mapping(place, value)
    id_, title = str(conversation.get("uuid") or ""), conversation.get("name")
    messages = conversation.get("chat_messages")
    if not id_ or not isinstance(messages, list):
        missing = "chat_messages" if id_ else "uuid"
        raise InvalidInput(missing, "is missing", "a conversation of Claude")
    began = moment(conversation.get("created_at"), "created_at")
    records: list[Record] = []
    for number, each in enumerate(messages, 1):
        where = f"{place}, message {number}"

        def make(each: object = each, where: str = where, number: int = number) -> Sequence[Record]:
            said = mapping(where, each)
            if not (content := _content(said)):
                return [LeftOut(UNSPOKEN)]
            time, name = said.get("created_at"), str(said.get("uuid") or number)
            speaker = str(said.get("sender") or "unknown")
            return [message("claude", conversation, id_, title, speaker, content, time, began, name, where)]

        records += refusing(where, make)
    return records


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
