"""Tulving as the long-term store of LangGraph: `graph.compile(store=TulvingStore(memory))`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise ImportError("tulving.integrations.langgraph needs LangGraph: pip install langgraph") from error

from tulving.domain import intake
from tulving.domain.ranking import MODES, Mode
from tulving.errors import InvalidInput
from tulving.integrations.documents import Document, Documents, lines
from tulving.integrations.home_loop import HomeLoop
from tulving.interfaces.blocking import BlockingMemory
from tulving.services.memory import Memory

WHOLE = "$"
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_EQUAL: dict[str, Callable[[Any, Any], bool]] = {"$eq": eq, "$ne": ne}


class TulvingStore(BaseStore):
    """A LangGraph store in a memory of Tulving.

    An item is a fact that does not fade. Private text in it is removed, as everywhere. `fields` are the paths of a
    value that a query finds it by, unless `put(index=...)` says otherwise; `mode` is how a query searches. `ttl` sets
    the defaults of LangGraph's time to live; what is over is deleted when it is next met, or by `sweep_ttl`.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory | BlockingMemory,
        *,
        fields: Sequence[str] = (WHOLE,),
        mode: Mode = "hybrid",
        ttl: TTLConfig | None = None,
    ) -> None:
        self._home = HomeLoop(memory)
        self._documents = Documents(self._home.memory, "langgraph")
        self._mode: Mode = intake.one_of("mode", mode, MODES)
        self._fields, self.ttl_config = fields, ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: the reads first, then the writes, in one transaction."""
        return self._home.wait(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same as `batch`, from any event loop."""
        return await self._home.run(self._batch(list(ops)))

    def sweep_ttl(self) -> int:
        """Delete the items whose time is over, and count them."""
        return self._home.wait(self._documents.sweep())

    async def asweep_ttl(self) -> int:
        """The same as `sweep_ttl`, from any event loop."""
        return await self._home.run(self._documents.sweep())

    async def _batch(self, ops: Sequence[Op]) -> list[Result]:
        for op in ops:
            validate_op_namespace(op)
        results = list(await asyncio.gather(*map(self._read, ops)))
        last = {(*op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        now = self._home.memory.now()
        await self._documents.put(
            [
                Document(
                    name=name,
                    path=tuple(op.namespace),
                    value=_checked(op.value),
                    text=self._text(op),
                    ttl=op.ttl,
                    created_at=now,
                    updated_at=now,
                )
                for name, op in last.items()
                if op.value is not None
            ]
        )
        for name, op in last.items():
            if op.value is None:
                await self._documents.remove(name)
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                found = await self._documents.get((*op.namespace, op.key))
                if found is not None and op.refresh_ttl:
                    await self._documents.touch(found)
                return None if found is None else Item(**_described(found))
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._namespaces(op)
            case PutOp():
                return None
        raise ValueError(f"unknown operation {op!r:.80}")

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        most = op.offset + op.limit

        def fits(document: Document) -> bool:
            return all(_matches(document.value.get(name), wanted) for name, wanted in (op.filter or {}).items())

        if op.query:
            found = await self._documents.search(op.namespace_prefix, op.query, most, fits, self._mode)
        else:
            found = []
            async for document in self._documents.newest(op.namespace_prefix):
                if len(found) >= most:
                    break
                if fits(document):
                    found.append(document)
        found = found[op.offset :]
        if op.refresh_ttl:
            for document in found:
                await self._documents.touch(document)
        return [SearchItem(**_described(document), score=document.score) for document in found]

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        paths = {document.path async for document in self._documents.newest(_common_prefix(conditions))}
        fitting = {path[: op.max_depth] for path in paths if all(_is_at(each, path) for each in conditions)}
        return sorted(fitting)[op.offset : op.offset + op.limit]

    def _text(self, op: PutOp) -> str | None:
        """What an item is found by."""
        if op.index is False:
            return None
        value = dict(op.value or {})
        texts = [
            lines(value) if field == WHOLE else get_text_at_path(value, field) for field in op.index or self._fields
        ]
        return "\n".join(line for each in texts for line in each)


def _described(document: Document) -> dict[str, Any]:
    return {
        "namespace": document.path,
        "key": document.name[-1],
        "value": dict(document.value),
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }


def _checked(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput("value", f"must be a mapping, not {type(value).__name__}", "a JSON object")
    return value


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a part of a value meets a condition of a filter."""
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_holds(value, operator, limit) for operator, limit in wanted.items())
        return isinstance(value, Mapping) and all(_matches(value.get(name), part) for name, part in wanted.items())
    if isinstance(wanted, list | tuple):
        same_length = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same_length and all(_matches(*pair) for pair in zip(value, wanted, strict=True))
    return value == wanted


def _holds(value: Any, operator: str, limit: Any) -> bool:
    """Numbers are compared with numbers and texts with texts; what can't be compared is not matched."""
    if operator in _EQUAL:
        return _EQUAL[operator](value, limit)
    if operator not in _COMPARED:
        raise InvalidInput("filter", f"{operator!r:.80} is no operator", ", ".join((*_EQUAL, *_COMPARED)))
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, limit))
    texts = isinstance(value, str) and isinstance(limit, str)
    return (numbers or texts) and _COMPARED[operator](value, limit)


def _is_at(condition: MatchCondition, path: tuple[str, ...]) -> bool:
    """Whether a namespace begins or ends as a condition says."""
    wanted = tuple(condition.path)
    if len(wanted) > len(path):
        return False
    part = path[: len(wanted)] if condition.match_type == "prefix" else path[len(path) - len(wanted) :]
    return all(each in ("*", label) for each, label in zip(wanted, part, strict=True))


def _common_prefix(conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
    """The folder that the namespaces must be in, so that not all have to be read."""
    for condition in conditions:
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            return path[: path.index("*")] if "*" in path else path
    return ()
