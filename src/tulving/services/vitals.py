"""What the metrics of a server need from its store, looked up when they are scraped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tulving import storage
from tulving.services.health import JobState
from tulving.services.memory import Memory


@dataclass(frozen=True, slots=True)
class Vitals:
    """The gauges of a store: its write queue (`BoundedWrites.queue`), the memories whose references are not written yet
    and those without a vector, the scheduled jobs (empty if the database user may not see them), and its engine."""

    queue: Mapping[str, int]
    references: int
    pending: int
    jobs: list[JobState]
    engine: str


async def read_vitals(memory: Memory) -> Vitals:
    """The current values, for the whole store."""
    store: Any = memory._env.store
    about = await memory._read(lambda conn: conn.about())
    pending = await store.read(None, storage.embeddings.count_pending, None)
    return Vitals(store.queue, memory._env.references.waiting, pending, await memory.jobs() or [], about["engine"])
