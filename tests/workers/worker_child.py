"""A worker in a process of its own, with jobs that log what happens to them; its orders are JSON."""

import asyncio
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from tulving.bootstrap import open_scheduler
from tulving.domain import schedule
from tulving.services.memory import Memory
from tulving.settings import CRONS, MemoryModuleConfig, ScheduleConfig
from tulving.testing import WordEmbedder
from tulving.workers.jobs import Job

orders = json.loads(sys.argv[1])
schedule.FIRST_PAUSE = timedelta(seconds=0.5)


def say(**what):
    """One write to a file opened for appending, so that lines of several processes do not mix."""
    line = json.dumps({"pid": os.getpid(), "at": time.monotonic(), **what}, default=str) + "\n"
    with open(orders["log"], "a") as file:
        file.write(line)


def job(name):
    async def run(administration, as_of, key="", dry_run=False):
        about = {"job": name, "key": key, "as_of": as_of}
        say(what="begin", **about)
        failed_before = Path(f"{orders['log']}.{name}.{key.replace(':', '-')}")
        if f"{name}/{key}" in orders.get("failing", ()) and not failed_before.exists():
            say(what="fail", **about)
            failed_before.touch()
            raise ValueError(f"{name}/{key} fails the first time")
        try:
            memory = Memory(administration._env, administration.caller)
            await memory.store_episode(f"{name} {key} {as_of}", butler="worker")
            await asyncio.sleep(orders.get("work", 0.05))
        except asyncio.CancelledError:
            say(what="stopped", **about)
            raise
        say(what="end", **about)
        return {"key": key}

    async def keys(administration, as_of):
        return orders["keys"]

    return Job(name, run, keys if "keys" in orders else None)


async def main():
    crons = dict.fromkeys(CRONS) | orders["crons"]
    config = MemoryModuleConfig(url=orders["url"], schedule=ScheduleConfig(lease=orders.get("lease", 120.0), **crons))
    jobs = {name: job(name) for name in orders["crons"]}
    async with open_scheduler(config, jobs=jobs, embedder=WordEmbedder()) as scheduler:
        say(what="ready")
        task = asyncio.ensure_future(scheduler.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            say(what="stopped by signal")


asyncio.run(main())
