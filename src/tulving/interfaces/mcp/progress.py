"""Progress notifications: how far a call is, for a client that asked to be told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tulving.services.service import Progress


@asynccontextmanager
async def reporting(session: Any) -> "AsyncIterator[Progress]":
    """Something to tell the progress of one request to. All that was told is sent before the response."""
    steps = asyncio.Queue[tuple[int, int] | None]()

    async def send() -> None:
        while (step := await steps.get()) is not None:
            await session.report_progress(*step)  # does nothing for a client that did not ask

    sending = asyncio.create_task(send())
    try:
        yield lambda done, total: steps.put_nowait((done, total))
    finally:
        steps.put_nowait(None)
        await sending
