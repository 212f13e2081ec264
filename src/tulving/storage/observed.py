"""A store whose transactions are observed."""

from collections.abc import Callable
from typing import Any

from tulving.ports import Observer, Store


class ObservedStore:
    """Reports each transaction to an observer, and delegates everything else to another store. Without an observer the
    store is not wrapped, so that it costs nothing."""

    def __init__(self, store: Store, observer: Observer) -> None:
        self._store, self._observer = store, observer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._observer.during("transaction", mode="write", function=_name(transaction)):
            return await self._store.write(tenant_id, transaction, *args, **kwargs)

    async def read(self, tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._observer.during("transaction", mode="read", function=_name(query)):
            return await self._store.read(tenant_id, query, *args, **kwargs)

    async def look_up(self, tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._observer.during("transaction", mode="read", function=_name(query)):
            return await self._store.look_up(tenant_id, query, *args, **kwargs)


def _name(function: Callable[..., Any]) -> str:
    """The name of a function with the last part of its module."""
    module = getattr(function, "__module__", None) or ""
    return f"{module.rpartition('.')[2]}.{getattr(function, '__qualname__', type(function).__name__)}"
