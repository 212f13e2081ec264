"""The jobs: which verbs are run on a schedule."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tulving.services.administration import Administration

Result = Mapping[str, Any]


class Work(Protocol):
    """What a job does as of a time. It commits in small batches, so that the next run goes on where one was killed."""

    async def __call__(
        self, memory: Administration, as_of: datetime, key: str = "", dry_run: bool = False
    ) -> Result: ...


@dataclass(frozen=True, slots=True)
class Job:
    """Work on the whole store. With `keys` it is divided: they name the shards that have something to do, as
    `tenant:butler`, and the job is run for each of them."""

    name: str
    run: Work
    keys: Callable[[Administration, datetime], Awaitable[Sequence[str]]] | None = None


async def _sweep(memory: Administration, as_of: datetime, key: str = "", dry_run: bool = False) -> Result:
    swept = await memory.run_decay_sweep(as_of=as_of, dry_run=dry_run)
    return swept if dry_run else {**swept, "rules_inverted": await memory.invert_refuted()}


async def _clean_up(memory: Administration, as_of: datetime, key: str = "", dry_run: bool = False) -> Result:
    if memory.config.schedule.timeline_rotation and not dry_run:
        await memory.rotate_timeline(as_of=as_of)  # what came since the last time is archived, and not deleted for room
    return await memory.run_episode_cleanup(as_of=as_of, dry_run=dry_run)


async def _rotate(memory: Administration, as_of: datetime, key: str = "", dry_run: bool = False) -> Result:
    return await memory.rotate_timeline(as_of=as_of, dry_run=dry_run)


async def _maintain(memory: Administration, as_of: datetime, key: str = "", dry_run: bool = False) -> Result:
    if dry_run:
        pending = 0 if memory.warning else await memory.count_pending()
        return {
            "embedded": pending,
            "requests_forgotten": await memory.forget_requests(as_of=as_of, dry_run=True),
            "sessions_abandoned": await memory.close_abandoned(as_of=as_of, dry_run=True),
            "evicted": (await memory.evict(dry_run=True)).evicted,
        }
    return {
        "embedded": await memory.embed_pending(),
        "requests_forgotten": await memory.forget_requests(as_of=as_of),
        "sessions_abandoned": await memory.close_abandoned(as_of=as_of),
        "evicted": (await memory.evict()).evicted,
        "reindexed": await memory.reindex(only_outgrown=True),
        "bridged": (await memory.run_bridges())["ingested"] if memory.config.bridge.enabled else 0,
    }


async def _shards(memory: Administration, as_of: datetime) -> Sequence[str]:
    return await memory.consolidation_shards(as_of) if memory.learns else []


async def _consolidate(memory: Administration, as_of: datetime, key: str = "", dry_run: bool = False) -> Result:
    return await memory.consolidate_shard(key)


_IN_ORDER = (
    Job("consolidation", _consolidate, _shards),
    Job("decay_sweep", _sweep),
    Job("timeline_rotation", _rotate),
    Job("episode_cleanup", _clean_up),
    Job("index_maintenance", _maintain),
)
JOBS = {job.name: job for job in _IN_ORDER}
"""In the order in which those that are due at the same time are done."""
