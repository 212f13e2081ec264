"""The jobs: which verbs of the memory are done by themselves, and what they tell of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tulving.services.administration import Administration

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """Work on the whole store, done as of a time. What it commits, it commits in small batches, and a run that was
    broken off is taken up by the next. `rehearse` tells what a run would do.

    With `keys` it is divided: they name the shards that have something to do, as `tenant:butler`, and a run is given
    one of them.
    """

    name: str
    run: Callable[[Administration, datetime, str], Awaitable[Result]]
    rehearse: Callable[[Administration, datetime], Awaitable[Result]]
    keys: Callable[[Administration, datetime], Awaitable[Sequence[str]]] | None = None


def jobs_of(memory: type[Administration] = Administration) -> dict[str, Job]:
    """What a memory can do, in the order in which it is best done."""
    able = [_CONSOLIDATION] if hasattr(memory, "run_consolidation") else []
    return {job.name: job for job in (*able, _DECAY_SWEEP, _EPISODE_CLEANUP, _INDEX_MAINTENANCE)}


async def _consolidate(memory: Any, as_of: datetime, key: str) -> Result:
    return await memory.run_consolidation(key, as_of=as_of)


async def _rehearse_consolidation(memory: Any, as_of: datetime) -> Result:
    return {"shards": list(await _due_shards(memory, as_of))}


async def _due_shards(memory: Any, as_of: datetime) -> Sequence[str]:
    return await memory.consolidation_shards(as_of=as_of)


async def _sweep(memory: Administration, as_of: datetime, key: str) -> Result:
    swept = await memory.run_decay_sweep(as_of=as_of)
    return {**swept, "rules_inverted": await memory.invert_refuted()}


async def _rehearse_sweep(memory: Administration, as_of: datetime) -> Result:
    return await memory.run_decay_sweep(as_of=as_of, dry_run=True)


async def _clean_up(memory: Administration, as_of: datetime, key: str) -> Result:
    return await memory.run_episode_cleanup(as_of=as_of)


async def _rehearse_cleanup(memory: Administration, as_of: datetime) -> Result:
    return await memory.run_episode_cleanup(as_of=as_of, dry_run=True)


async def _maintain(memory: Administration, as_of: datetime, key: str) -> Result:
    return {
        "embedded": await memory.embed_pending(),
        "reindexed": await memory.reindex(only_outgrown=True),
        "requests_forgotten": await memory.forget_requests(as_of=as_of),
    }


async def _rehearse_maintenance(memory: Administration, as_of: datetime) -> Result:
    return {
        "embedded": 0 if memory.warning else await memory.count_pending(),
        "requests_forgotten": await memory.forget_requests(as_of=as_of, dry_run=True),
    }


_CONSOLIDATION = Job("consolidation", _consolidate, _rehearse_consolidation, _due_shards)
_DECAY_SWEEP = Job("decay_sweep", _sweep, _rehearse_sweep)
_EPISODE_CLEANUP = Job("episode_cleanup", _clean_up, _rehearse_cleanup)
_INDEX_MAINTENANCE = Job("index_maintenance", _maintain, _rehearse_maintenance)
