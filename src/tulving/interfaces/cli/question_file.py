"""The file that `tulving evaluate` reads: memories to store, and questions about them or about the person's own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from tulving.domain import intake
from tulving.domain.quality import Question
from tulving.errors import InvalidInput
from tulving.interfaces.parameters import accept
from tulving.services.memory import Memory
from tulving.services.operations import OPERATIONS, Operation

STORING = {kind: OPERATIONS[f"memory_store_{kind}"] for kind in ("episode", "fact", "note", "rule")}
DOCUMENT = ("questions", "memories")
QUESTION = ("question", "expected", "contains", "outdated", "category", "answerable")


@dataclass(frozen=True, slots=True)
class Offered:
    """A memory of the file: where it stands, and the call that stores it."""

    place: str
    operation: Operation
    arguments: Mapping[str, Any]


class QuestionFile:
    """The file, checked as far as it can be without a store."""

    def __init__(self, path: Path) -> None:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InvalidInput("file", f"{path} is not JSON: {error}", "an object with questions") from None
        document = _fields("file", document, DOCUMENT)
        self.offered = _offered(document.get("memories", []))
        self._rows = intake.items("questions", document.get("questions"), None, "a list of objects")
        if not self._rows:
            raise InvalidInput("questions", "is empty", "one question or more")
        self.questions(dict.fromkeys(self.offered, UUID(int=0)))

    async def store(self, memory: Memory) -> dict[str, UUID]:
        """Store the memories, in order; the id of each key."""
        ids: dict[str, UUID] = {}
        for key, offered in self.offered.items():
            try:
                stored = await getattr(memory, offered.operation.name)(**offered.arguments)
            except InvalidInput as error:
                raise _at(offered.place, error) from None
            ids[key] = stored.id
        return ids

    def questions(self, ids: Mapping[str, UUID]) -> list[Question]:
        """The questions, with the ids of the memories that they name by key."""
        return [_question(f"questions[{at}]", row, ids) for at, row in enumerate(self._rows)]


def _offered(rows: object) -> dict[str, Offered]:
    found: dict[str, Offered] = {}
    for at, row in enumerate(intake.items("memories", rows, None, "a list of objects")):
        place = f"memories[{at}]"
        fields = dict(_fields(place, row))
        kind = intake.one_of(f"{place}.kind", fields.pop("kind", None), tuple(STORING))
        key = _text(f"{place}.key", fields.pop("key", None))
        if key in found:
            raise InvalidInput(f"{place}.key", f"{key!r:.80} is used twice", "a key of its own for each memory")
        try:
            found[key] = Offered(place, STORING[kind], accept(STORING[kind], fields))
        except InvalidInput as error:
            raise _at(place, error) from None
    return found


def _question(place: str, row: object, ids: Mapping[str, UUID]) -> Question:
    fields = _fields(place, row, QUESTION)
    answerable = fields.get("answerable", True)
    if type(answerable) is not bool:
        raise InvalidInput(f"{place}.answerable", f"{answerable!r:.80} is not a truth value", "true, false")
    named = [name for name in ("expected", "contains", "outdated") if fields.get(name)]
    if not answerable and named:
        raise InvalidInput(f"{place}.{named[0]}", "is given, but the question has no answer", "answerable: true")
    if answerable and not {"expected", "contains"} & set(named):
        allowed = "keys of memories or ids; or texts in `contains`; or `answerable`: false"
        raise InvalidInput(f"{place}.expected", "is missing", allowed)
    return Question(
        text=_text(f"{place}.question", fields.get("question")),
        expected=[_id(f"{place}.expected", text, ids) for text in _texts(f"{place}.expected", fields.get("expected"))],
        contains=_texts(f"{place}.contains", fields.get("contains")),
        outdated=[_id(f"{place}.outdated", text, ids) for text in _texts(f"{place}.outdated", fields.get("outdated"))],
        category=_text(f"{place}.category", fields["category"]) if fields.get("category") is not None else "",
        answerable=answerable,
    )


def _id(field: str, text: str, ids: Mapping[str, UUID]) -> UUID:
    if text in ids:
        return ids[text]
    try:
        return UUID(text)
    except ValueError:
        allowed = "the key of one of the memories, or the id of a memory"
        raise InvalidInput(field, f"{text!r:.80} is neither a key nor an id", allowed) from None


def _fields(field: str, value: object, known: Sequence[str] = ()) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(field, f"is {type(value).__name__}, not an object", ", ".join(known) or "a JSON object")
    for name in value:
        if known and name not in known:
            raise InvalidInput(f"{field}.{name:.80}", "is not known", ", ".join(known))
    return value


def _texts(field: str, value: object) -> list[str]:
    """A list of texts, or a single one."""
    rows = [] if value is None else [value] if isinstance(value, str) else intake.items(field, value, None, "texts")
    return [_text(field, each) for each in rows]


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(field, "is missing" if value is None else f"{value!r:.80} is not a text", "a text")
    return value


def _at(place: str, error: InvalidInput) -> InvalidInput:
    return InvalidInput(f"{place}.{error.field}", error.problem, error.allowed)
