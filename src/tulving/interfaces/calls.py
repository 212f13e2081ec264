"""A call of an operation, as every surface makes it: the memory opens when it is needed, and verbs may fail open."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from tulving.errors import ChangedSince, Forbidden, IntegrityError, InvalidInput, NotFound, TulvingError
from tulving.interfaces.parameters import undescribed
from tulving.services.operations import Operation

if TYPE_CHECKING:
    from tulving.services.memory import Memory

T = TypeVar("T")
Opened = Callable[[], Awaitable[T]]
"""How to get something that is opened by the first call."""

log = logging.getLogger("tulving")

REFUSED = (InvalidInput, NotFound, Forbidden, ChangedSince)
"""What the caller must correct."""
ALWAYS_RAISED = (*REFUSED, IntegrityError)


@asynccontextmanager
async def open_lazily(opener: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[Opened[T]]:
    """Something that the first call opens and all calls share; after a failure the next call tries again."""
    opening: asyncio.Task[T] | None = None

    async def get() -> T:
        nonlocal opening
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
            # In an empty context: background tasks that start here are not part of the first request.
            opening = asyncio.create_task(stack.enter_async_context(opener()), context=Context())
        # A caller that gives up must not leave a store half opened for the others.
        return await asyncio.shield(opening)

    async with AsyncExitStack() as stack:
        try:
            yield get
        finally:
            if opening is not None:
                with suppress(Exception):
                    await opening


async def cancelled_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that gets a cancellation once, and is then waited for.

    A cancel scope of anyio cancels every await of its task, including those in which the work cleans up: a run of a
    model would stay open, and its tokens reserved.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        from anyio import CancelScope

        task.cancel()
        with CancelScope(shield=True):
            await asyncio.wait([task])
        raise


def log_failure(operation: Operation, error: Exception) -> None:
    log.error("%s failed, and its caller goes on without it: %s", operation.tool, error, exc_info=error)


def told(tool: str, error: Exception) -> str:
    """What a model is told of a call that failed, for it to read and correct. What it can't correct is logged."""
    if isinstance(error, REFUSED):
        return str(error)
    if isinstance(error, TulvingError):
        log.error("%s: %s", tool, error)
        return str(error)
    log.error("%s failed unexpectedly", tool, exc_info=error)
    return f"{tool} failed unexpectedly ({type(error).__name__}); its log says more"


async def invoke(
    memory: "Opened[Memory]",
    operation: Operation,
    arguments: Mapping[str, Any],
    failed: Callable[[Operation, Exception], None] = log_failure,
    *,
    by_person: bool = False,
    offers: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """001-099, 001-100: the result of an operation; `by_person` when a person looks at it. Of what the surface `offers`
    the method is given the parameters that are for Python only.

    Where the operation fails open, `failed` is told of the error and the result is the operation's own fallback.
    What the caller must correct, and damage, are always raised.
    """
    try:
        name = operation.by_person if by_person and operation.by_person else operation.name
        given = {each: offers[each] for each in undescribed(operation) & offers.keys()}
        opened = await memory()
        opened.count_call(operation.tool)
        with opened.observed(operation.tool):
            return await getattr(opened, name)(**arguments, **given)
    except ALWAYS_RAISED:
        raise
    except Exception as error:
        if operation.fallback is None:
            raise
        failed(operation, error)
        return operation.fallback(error)
