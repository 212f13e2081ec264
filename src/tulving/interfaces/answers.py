"""Answers for models, which pay for every character: what a memory says, and not all that is known of it.

In the compact form a memory among others is its id, kind, content and date, and what marks it; a long content is cut.
`detail="full"` asks for the wire form instead. It is a parameter of these surfaces, not of the verbs.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args

from tulving.domain import intake
from tulving.domain.layers import Detail
from tulving.domain.model import KIND_OF, Episode, Fact, Found, Hit, Item, Page, Rule
from tulving.domain.records import RENAMED
from tulving.domain.text import levelled
from tulving.domain.validity import start
from tulving.interfaces import wire
from tulving.interfaces.parameters import Parameter, accept, parameters, returned
from tulving.interfaces.schemas import holds_memories
from tulving.services.operations import Operation
from tulving.settings import MemoryModuleConfig

Form = Literal["compact", "full"]
FORMS: tuple[Form, ...] = get_args(Form)
DETAIL = Parameter(
    name="detail",
    help="full adds all fields and the parts of each score",
    type="string",
    required=False,
    default="compact",
    choices=FORMS,
)
LONGEST_CONTENT = 1_000
"""Characters of one content among others."""
LONGEST_ANSWER = 16_000
"""Characters of all contents among others together: of a long list, long ones are cut to less."""
SHORTEST_CONTENT = 80
"""Characters that are left of a content, however many there are."""
BOOKKEEPING = frozenset(
    "tenant_id keyed validity decay_rate reference_count last_referenced_at accessed_at updated_at last_confirmed_at"
    " next_review_at".split()
)
"""Fields of a memory that tell a model nothing."""
EMPTY = (None, "", [], {})
_ABOUT = {Fact: ("subject", "predicate"), Episode: ("title", "source"), Rule: ()}
"""What belongs to what a memory says."""


def takes_detail(operation: Operation) -> bool:
    """Whether a caller may ask for a form: where memories are read."""
    return operation.effect == "read" and holds_memories(returned(operation))


def offered_parameters(operation: Operation, config: MemoryModuleConfig) -> list[Parameter]:
    """What a model may give: the parameters of the verb, in the minimal tool set those that matter most, and the form
    of its answer."""
    taken = parameters(operation, config)
    if config.tools == "minimal" and operation.minimal is not None:
        return [each for each in taken if each.required or each.name in operation.minimal]
    return [*taken, DETAIL] if takes_detail(operation) else taken


def accepted(operation: Operation, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Form]:
    """The arguments of a model's call as the method takes them, and the form that it asks for."""
    given = dict(arguments)
    form = given.pop("detail", None) if takes_detail(operation) else None
    taken = accept(operation, given)
    return taken, FORMS[0] if form is None else intake.one_of("detail", form, FORMS)


def answer(operation: Operation, result: Any, form: Form) -> dict[str, Any]:
    """What an operation answers, in this form."""
    if form == "full" or not holds_memories(returned(operation)):
        return wire.answer(operation, result)
    compact = _Compact()
    value = compact.of(result)
    compact.cut()
    return wire.named(operation, result, value)


class _Compact:
    """The compact form of one answer. What is listed is cut together, when its length is known."""

    def __init__(self) -> None:
        self._listed: list[dict[str, Any]] = []

    def of(self, value: Any) -> Any:
        match value:
            case Episode() | Fact() | Rule():
                return _whole(value)
            case Detail():
                return {"memory_type": value.memory_type, "memory": _whole(value.memory)}
            case Hit():
                return self._hit(value)
            case Found():
                return self._found(value)
            case list() | tuple():
                return [self._part(one) for one in value]
            case _ if isinstance(value, Page) or (is_dataclass(value) and holds_memories(type(value))):
                return {field.name: self._part(getattr(value, field.name)) for field in fields(value)}
        return wire.wire(value)

    def cut(self) -> None:
        """Shorten what is listed."""
        contents = [each["content"] for each in self._listed]
        shortened = levelled(contents, LONGEST_ANSWER, SHORTEST_CONTENT, LONGEST_CONTENT)
        for each, content in zip(self._listed, shortened, strict=True):
            each["content"] = content

    def _part(self, value: Any) -> Any:
        return self._line(value) if isinstance(value, Episode | Fact | Rule) else self.of(value)

    def _line(self, item: Item) -> dict[str, Any]:
        about = () if isinstance(item, Fact) and not item.keyed else _ABOUT[type(item)]
        said = {name: said for name in about if (said := getattr(item, name))}
        state = "retracted" if getattr(item, "forgotten", False) else getattr(item, "state", "active")
        line = {
            "id": str(item.id),
            "memory_type": KIND_OF[type(item)],
            **said,
            "content": item.content,
            "date": start(item).replace(microsecond=0).isoformat(),
            **({} if state == "active" else {"state": state}),
        }
        self._listed.append(line)
        return line

    def _hit(self, hit: Hit) -> dict[str, Any]:
        line = self._line(hit.item)
        line["score"] = round(hit.score, 3)
        if hit.weak:
            line["weak"] = True
        if hit.newer:
            line["newer"] = str(hit.newer)
        return line

    def _found(self, found: Found) -> dict[str, Any]:
        """How many were looked at is told where nothing was found."""
        told = {field.name: getattr(found, field.name) for field in fields(found)}
        left_out = wire.DIAGNOSTICS if found.hits else ()
        return {
            RENAMED.get(name, name): self._part(part)
            for name, part in told.items()
            if name not in left_out and wire.is_told(name, part)
        }


def _whole(item: Item) -> dict[str, Any]:
    """One memory on its own: all that it says, without what is empty."""
    kept = {
        name: part
        for name, part in wire.wire(item).items()
        if name not in BOOKKEEPING and part not in EMPTY and not (name == "state" and part == "active")
    }
    return {"id": kept.pop("id"), "memory_type": KIND_OF[type(item)], **kept}


def text(operation: Operation, value: Mapping[str, Any], form: Form) -> str:
    """The same answer to be read: a line for each memory. In full it is JSON, since nothing is to be left out."""
    if operation.answer and isinstance(bare := value[operation.answer], str):
        return bare
    if form == "full":
        return json.dumps(value, ensure_ascii=False)
    return "\n".join(_readable(value)) or f"{operation.answer}: none"


def _readable(value: Mapping[str, Any]) -> Iterator[str]:
    """An object as lines: an entry of a list has one, numbered. A content comes last and is as long as it is, so that
    nothing in it can be taken for another line of the answer."""
    for name, part in value.items():
        if isinstance(part, list) and all(isinstance(each, Mapping) for each in part):
            yield from [f"{number}. {_row(each)}" for number, each in enumerate(part, 1)] or [f"{name}: none"]
        elif isinstance(part, Mapping) and "content" in part and "score" not in part:
            yield from _readable(part)
        elif name != "content" and part not in EMPTY:
            yield f"{name}: {_row(part) if isinstance(part, Mapping) else _cell(part)}"
    if "content" in value:
        yield f"content: {value['content']}"


def _row(row: Mapping[str, Any]) -> str:
    """An entry of a list on one line, whatever stored text is in it."""
    if not ("id" in row and ("content" in row or "title" in row) and "memory_type" in row):
        return ", ".join(f"{name}: {_cell(part)}" for name, part in row.items() if part not in EMPTY)
    said = _line(row.get("content") or row["title"])
    about = [_line(row[name]) for name in ("subject", "predicate", "source") if row.get(name)]
    if "content" in row and row.get("title"):
        about.insert(0, _line(row["title"]))
    marks = [row[name] for name in ("position", "type", "state") if row.get(name)]
    marks += ["weak"] if row.get("weak") else []
    marks += [f"newer: {row['newer']}"] if row.get("newer") else []
    date = str(row.get("date") or row.get("occurred_at") or row.get("created_at") or "")[:10]
    score = f"{row['score']:.2f} " if "score" in row else ""
    shown = f"{' · '.join(about)}: {said}" if about else said
    return f"{score}{row['memory_type']} {date} {shown} [{', '.join([row['id'], *marks])}]"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return _line(value)
    return json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return " ".join(text.split())
