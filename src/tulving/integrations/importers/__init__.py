"""Memories of other programs as offers. A format is a reader of its files; what becomes of the offers is the writer's.

A reader yields offers in the order of the file, what it refuses with the place and the reason, and what it leaves out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tulving.domain.offers import Offer
from tulving.errors import InvalidInput
from tulving.integrations.importers.files import LeftOut, Meter, Refused

if TYPE_CHECKING:
    from tulving.services.memory import Memory


@dataclass(frozen=True, slots=True)
class Deferred:
    """A record that becomes an offer only when it is known whose memory it is for."""

    place: str
    offer: "Callable[[Memory], Offer]"


Record = Offer | Deferred | Refused | LeftOut

FORMATS: Mapping[str, str] = {
    "server-memory": "memory.json or memory.jsonl of @modelcontextprotocol/server-memory",
    "mem0": "the memories of mem0 as JSON, or its history.db",
    "chatgpt": "the export of ChatGPT: conversations.json, its zip or folder",
    "claude": "the export of Claude: conversations.json, its zip or folder",
    "basic-memory": "a folder of Markdown notes of basic-memory, or one note",
    "langgraph": "items of a LangGraph store as JSON lines, or the file of its SqliteStore",
    "jsonl": "JSON lines with a mapping",
    "csv": "a table with a heading, with a mapping",
}
"""The formats, and what each reads. The reader of a format is `read` in the module of its name."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """How the records of a plain file are read: the kind that they become, and which field of theirs is which of
    ours."""

    kind: str = "episode"
    fields: Mapping[str, str] = field(default_factory=dict)


def read(name: str, path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """The records of a file or folder in this format."""
    if name not in FORMATS:
        raise InvalidInput("from", f"{name!r:.60} is no format", ", ".join(FORMATS))
    if not path.exists():
        raise InvalidInput("file", f"there is no {path}", FORMATS[name])
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    reader: Callable[..., Iterator[Record]] = module.read
    return reader(path, meter, mapped)


def refusing(place: str, make: Callable[[], Sequence[Record]]) -> Sequence[Record]:
    """The records that are made of one at this place, or why it is refused."""
    try:
        return make()
    except InvalidInput as error:
        return [Refused(place, str(error))]
