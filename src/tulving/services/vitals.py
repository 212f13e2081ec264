"""What the metrics of a server tell of its store, looked up when they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tulving import storage
from tulving.services.health import JobState, job_state
from tulving.services.service import Service


@dataclass(frozen=True, slots=True)
class Vitals:
    """How many writes wait (`BoundedWrites.queue`), how many memories have references that wait or no vector yet, the
    state of the jobs (none if the database user may not see them), and the engine."""

    queue: Mapping[str, int]
    references: int
    pending: int
    jobs: list[JobState]
    engine: str


class VitalSigns(Service):
    """Looks at the whole store."""

    async def look(self) -> Vitals:
        """The vitals by now."""
        store: Any = self._env.store
        about = await self._read(lambda conn: conn.about())
        pending = await store.read(None, storage.embeddings.count_pending, None)
        entries = await store.read(None, storage.health.job_entries) or []
        jobs = [job_state(entry) for entry in entries]
        return Vitals(store.queue, self._env.references.waiting, pending, jobs, about["engine"])
