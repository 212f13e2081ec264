"""A call of an operation, as every surface makes it: the memory opens when it is needed, and verbs may fail open."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any, Generic, Self, TypeVar

from tulving.errors import IntegrityError, InvalidInput, NotFound
from tulving.interfaces import wire
from tulving.services.memory import Memory
from tulving.services.operations import Operation

T = TypeVar("T")

log = logging.getLogger("tulving")

ALWAYS_RAISED = (InvalidInput, NotFound, IntegrityError)


class Lazy(Generic[T]):
    """Something that the first call opens and all share; after a failure the next call tries again."""

    def __init__(self, opener: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._opener = opener
        self._opening: asyncio.Task[T] | None = None
        self._opened = AsyncExitStack()

    async def __call__(self) -> T:
        opening = self._opening
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
            opening = asyncio.create_task(self._opened.enter_async_context(self._opener()))
            self._opening = opening
        # A caller that gives up must not leave a store half opened for the others.
        return await asyncio.shield(opening)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._opening is not None:
            with suppress(Exception):
                await self._opening
        await self._opened.aclose()


LazyMemory = Lazy[Memory]


def log_failure(operation: Operation, error: Exception) -> None:
    log.error("%s failed, and its caller goes on without it: %s", operation.tool, error, exc_info=error)


async def call(
    memory: Callable[[], Awaitable[Memory]],
    operation: Operation,
    arguments: Mapping[str, Any],
    failed: Callable[[Operation, Exception], None] = log_failure,
    *,
    by_person: bool = False,
) -> dict[str, Any]:
    """001-099, 001-100: the answer of an operation, in wire form; `by_person` when a person looks at it.

    Where the operation fails open, `failed` is told of the error and the answer is the operation's own fallback.
    What the caller must correct, and damage, are always raised.
    """
    try:
        name = operation.by_person if by_person and operation.by_person else operation.name
        result = await getattr(await memory(), name)(**arguments)
    except ALWAYS_RAISED:
        raise
    except Exception as error:
        if operation.fallback is None:
            raise
        failed(operation, error)
        result = operation.fallback(error)
    return wire.answer(operation, result)
