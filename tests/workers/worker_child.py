"""A worker in a process of its own, with jobs that write down what happens to them; told what to do by JSON."""

import asyncio
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from tulving.bootstrap import open_scheduler
from tulving.config import MemoryModuleConfig, ScheduleConfig
from tulving.testing import WordEmbedder
from tulving.workers import schedule
from tulving.workers.jobs import Job

told = json.loads(sys.argv[1])
schedule.FIRST_PAUSE = timedelta(seconds=0.5)
failed: set[str] = set()


def say(**what):
    """One write to a file opened for appending, so that lines of several processes do not mix."""
    line = json.dumps({"pid": os.getpid(), "at": time.monotonic(), **what}, default=str) + "\n"
    with open(told["log"], "a") as file:
        file.write(line)


async def run(memory, as_of, name, key=""):
    say(what="begin", job=name, key=key, as_of=as_of)
    first_time = Path(f"{told['log']}.{key.replace(':', '-')}")
    if key in told.get("failing", ()) and not first_time.exists():
        first_time.touch()
        say(what="fail", job=name, key=key, as_of=as_of)
        raise ValueError(f"{key} fails the first time")
    try:
        await memory.store_episode(f"{name} {key} {as_of}", butler="worker")
        await asyncio.sleep(told.get("work", 0.05))
    except asyncio.CancelledError:
        say(what="stopped", job=name, key=key, as_of=as_of)
        raise
    say(what="end", job=name, key=key, as_of=as_of)
    return {"key": key}


def job(name):
    async def work(memory, as_of, key):
        return await run(memory, as_of, name, key)

    async def rehearse(memory, as_of):
        return {}

    async def keys(memory, as_of):
        return told["keys"]

    return Job(name, work, rehearse, keys if name == "consolidation" else None)


async def main():
    crons = dict.fromkeys(("consolidation", "decay_sweep", "episode_cleanup", "index_maintenance")) | told["crons"]
    config = MemoryModuleConfig(url=told["url"], schedule=ScheduleConfig(lease=told.get("lease", 120.0), **crons))
    jobs = {name: job(name) for name in told["crons"]}
    async with open_scheduler(config, jobs=jobs, embedder=WordEmbedder()) as scheduler:
        say(what="ready")
        task = asyncio.ensure_future(scheduler.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            say(what="stopped by signal")


asyncio.run(main())
