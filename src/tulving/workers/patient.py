"""A store whose writes are brought to an end: one who is told to stop, stops between two of them."""

import asyncio
from collections.abc import Callable
from typing import Any

from tulving.ports import Store


class PatientStore:
    """Another store, except that cancelling a write waits until it is committed or undone."""

    def __init__(self, store: Store) -> None:
        self.read, self.reindex, self.identity, self.close = store.read, store.reindex, store.identity, store.close
        self.health = store.health
        self._write = store.write

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        writing = asyncio.ensure_future(self._write(tenant_id, transaction, *args, **kwargs))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise
