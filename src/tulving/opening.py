"""What `open_memory` returns: something to await, or the beginning of an `async with` block."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Closable(Protocol):
    """Something that is closed when it is no longer needed."""

    async def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Opening(AbstractAsyncContextManager[T, None], Generic[T]):
    """A memory that is to be opened: `memory = await open_memory(...)`, which is closed by `await memory.close()`; or
    `async with open_memory(...) as memory:`, which closes it at the end of the block."""

    def __init__(self, name: str, open: Callable[[], Awaitable[T]]) -> None:
        self._name, self._open = name, open
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> T:
        if self._opened is not None:
            raise RuntimeError(f"it was opened before; call {self._name} again")
        self._opened = opened = await self._open()
        return opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

    # A type checker must not see these: to it, other names do not exist.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{self._unopened()}; it has no {name!r} itself", name=name, obj=self)

        def __enter__(self) -> Any:
            raise TypeError(f"{self._unopened()}; plain `with` needs open_memory_sync(...)")

        def __exit__(self, *error: object) -> None: ...

        def _unopened(self) -> str:
            awaited = f"`memory = await {self._name}(...)` with `await memory.close()` at the end"
            return f"{self._name}(...) is not open yet: write {awaited}, or `async with {self._name}(...) as memory:`"


def taking(model: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Decorates a function that passes its arguments on to another one: it has the parameters of that one."""

    def with_its_parameters(function: Callable[..., R]) -> Callable[P, R]:
        signature = inspect.signature(model)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*args, **kwargs)

        returned = inspect.signature(function).return_annotation
        checked.__signature__ = signature.replace(return_annotation=returned)  # pyright: ignore[reportAttributeAccessIssue]
        return checked

    return with_its_parameters
