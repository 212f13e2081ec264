"""Maintenance by a process that has a memory open, beside its own work and without disturbing it."""

import asyncio
import logging

from tulving.errors import IntegrityError, StoreUnavailable
from tulving.services.administration import Administration
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler

log = logging.getLogger("tulving")

BEFORE = 5.0
"""Seconds before the first look: a process that ends sooner leaves the jobs to others."""
SHORTEST_SLEEP, LONGEST_SLEEP = 60.0, 300.0
LONGEST_PAUSE = 3600.0


async def tend(memory: Administration, schedule: Schedule) -> None:
    """Until cancelled: check the archive and make missing vectors at once, then do each job that is due and not being
    done elsewhere."""
    try:
        await memory.embed_pending()
        await memory.check_segments()
    except IntegrityError:
        raise
    except Exception as error:
        level = logging.INFO if isinstance(error, StoreUnavailable) else logging.WARNING
        log.log(level, "memories wait for their vectors, or the archive is unchecked: %s", error)
    scheduler = Scheduler(schedule, memory, JOBS)
    failures = 0
    await asyncio.sleep(BEFORE)
    await asyncio.to_thread(__import__, "croniter")
    while True:
        try:
            await scheduler.look()
            pause, failures = max(await scheduler.pause(LONGEST_SLEEP), SHORTEST_SLEEP), 0
        except IntegrityError:
            raise
        except Exception as error:
            # The store is busy, or this database user lacks the rights: another process may do it.
            level = logging.INFO if isinstance(error, StoreUnavailable) else logging.ERROR
            log.log(level, "maintenance is left to other processes for now: %s", error)
            failures += 1
            pause = min(LONGEST_SLEEP * 2**failures, LONGEST_PAUSE)
        await memory.wait_for_jobs(pause)
