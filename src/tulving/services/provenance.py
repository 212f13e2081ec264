"""The provenance of a memory: where it comes from and what came of it."""

from datetime import datetime

from tulving import storage
from tulving.domain.model import Kind, MemoryId
from tulving.domain.provenance import Provenance
from tulving.services.memory import Memory

DEPTH = 3
MOST = 40


async def trace(memory: Memory, kind: Kind, memory_id: MemoryId) -> Provenance | None:
    """The memories around one that this connection may read; None if there is none."""
    address = await memory._address(kind, memory_id)
    if address is None:
        return None
    return await memory._read(storage.provenance.around, address, memory.bound, DEPTH, MOST)


async def beginning(memory: Memory) -> datetime | None:
    """The earliest time of any memory; None while there is none."""
    return await memory._read(storage.statistics.beginning, memory.caller.tenant_id, memory.bound)
