"""What a memory needs now and then, beside the work of those who have it open. A host never notices."""

import asyncio
import logging

from tulving.errors import IntegrityError, StoreUnavailable
from tulving.services.administration import Administration
from tulving.workers.jobs import jobs_of
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import TableScheduler

log = logging.getLogger("tulving")

BEFORE = 5.0
"""Seconds that a host has for itself at first: who is gone by then leaves the jobs to others."""
SHORTEST_SLEEP, LONGEST_SLEEP = 60.0, 300.0
LONGEST_PAUSE = 3600.0


async def tend(memory: Administration, schedule: Schedule) -> None:
    """Until cancelled: vectors that are missing at once, then each job when it is due and nobody else does it."""
    try:
        await memory.embed_pending()
    except IntegrityError:
        raise
    except Exception as error:
        log.warning("memories that wait for their vectors have to wait longer: %s", error)
    scheduler = TableScheduler(schedule, memory, jobs_of(), LONGEST_SLEEP)
    failures = 0
    await asyncio.sleep(BEFORE)
    while True:
        try:
            # Most often there is nothing to do, and then it costs one query.
            if await scheduler.wanted():
                await asyncio.to_thread(__import__, "croniter")
                await scheduler.look()
            pause, failures = max(await scheduler.pause(), SHORTEST_SLEEP), 0
        except IntegrityError:
            raise
        except Exception as error:
            # A busy store, or a user of the database who may not: then it is the turn of somebody else.
            level = logging.INFO if isinstance(error, StoreUnavailable) else logging.ERROR
            log.log(level, "maintenance is left to others for now: %s", error)
            failures += 1
            pause = min(LONGEST_SLEEP * 2**failures, LONGEST_PAUSE)
        await asyncio.sleep(pause)
