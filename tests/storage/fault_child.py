"""Forks children that do one job each. Run by `fault_parts.Children`, which speaks JSON lines with it."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

# All that a child may need is loaded before it is forked: it starts in milliseconds, and may have lost its rights.
import alembic.command
import numpy
import sqlalchemy.dialects.postgresql
from fault_parts import opened
from soak_parts import CONFIG as EVERYTHING
from soak_parts import Life
from vector_parts import CONFIG, Dense

from tulving import storage
from tulving.domain.model import NewEpisode, NewFact, NewRule
from tulving.errors import TulvingError
from tulving.services.administration import Administration
from tulving.services.memory import Memory
from tulving.settings import BridgeConfig, MemoryModuleConfig, TimelineConfig
from tulving.storage import migrations
from tulving.storage.postgres import pool as postgres_pool
from tulving.storage.sqlite import backup as sqlite_backup
from tulving.storage.sqlite import database
from tulving.storage.sqlite import partition as sqlite_partition
from tulving.storage.sqlite import store as sqlite_store

LOADED = [alembic.command, numpy, sqlalchemy.dialects.postgresql, migrations, sqlite_store, postgres_pool]
LOADED += [import_module(f"tulving.storage.{name}") for _, name, _ in iter_modules(storage.__path__)]
NOBODY = 65534
JOBS: dict[str, Callable[..., Any]] = {}
Say = Callable[[Any], None]


def job(function: Callable[..., Any]) -> Callable[..., Any]:
    JOBS[function.__name__] = function
    return function


def wait_until(go: str | None) -> None:
    while go is not None and not os.path.exists(go):
        time.sleep(0.0005)


# -- jobs ------------------------------------------------------------------------------------------------------


@job
async def write_forever(say: Say, path: str, name: str) -> None:
    """Store, supersede, forget and delete in three tasks at once, saying what was acknowledged, until killed."""
    async with opened(path) as memory:
        await asyncio.gather(*(_writer(memory, say, f"{name}t{task}") for task in range(3)))


async def _writer(memory: Memory, say: Say, name: str) -> None:
    last: dict[str, str] = {}

    async def stored(kind: str, texts: list[str], answers: Any) -> None:
        said = [[kind, str(answer.id), text] for answer, text in zip(await answers, texts, strict=True)]
        last[kind] = said[-1][1]
        say({"stored": said})

    async def one(kind: str, text: str, answer: Any) -> None:
        said = [kind, str((await answer).id), text]
        last[kind] = said[1]
        say({"stored": [said]})

    for number in count():
        word = f"{name}n{number}"
        text = f"{word}a {word}b {word}c"
        texts = [f"{word}p{part}a {word}p{part}b {word}p{part}c" for part in range(5)]
        whole = [f"batch{word}", "5"]
        key = {"subject": f"engine{number % 5}", "predicate": "state"}
        drinks = f"{word}x drinks {word}y in the {word}z"
        await one("fact", drinks, memory.store_note(drinks))
        contrary = drinks.replace("drinks", "does not drink")
        answer = await memory.store_note(contrary)
        conflict = answer.conflict  # none if too many others are more similar
        sides = [str(conflict.candidate_id), str(conflict.existing_id)] if conflict else []
        settled = {"settled": [str(conflict.id), *sides]} if conflict else {}
        say({"stored": [["fact", sides[0] if sides else str(answer.id), contrary]], **settled})
        if conflict and number % 3 == 2:
            say({"reverting": str(conflict.id)})
            await memory.revert_conflict(conflict.id)
            say({"reverted": str(conflict.id)})
        await one("episode", text, memory.store_episode(text, butler="writer"))
        await one("fact", text, memory.store_fact(content=text, **key))
        await one("rule", text, memory.store_rule(text))
        await stored(
            "episode",
            texts,
            memory.store_episodes([NewEpisode(content=text, butler="writer", tags=whole) for text in texts]),
        )
        keys = [key, {}, {}, {**key, "predicate": "load"}, {**key, "predicate": "load"}]
        offers = [NewFact(content=text, tags=whole, **key) for text, key in zip(texts, keys, strict=True)]
        await stored("fact", texts, memory.store_facts(offers))
        await stored("rule", texts, memory.store_rules([NewRule(content=text, tags=whole) for text in texts]))
        say({"forgetting": last["episode"]})
        await memory.forget("episode", last["episode"])
        say({"forgot": last["episode"]})
        await one("rule", text, memory.store_rule(f"{text} "))
        say({"deleting": last["rule"]})
        await memory.delete("rule", last["rule"])
        say({"deleted": last["rule"]})


@job
async def open_and_store(say: Say, path: str, name: str, go: str | None = None) -> None:
    """Open (and so create or migrate) a file, store one memory."""
    wait_until(go)
    async with opened(path) as memory:
        say({"id": str((await memory.store_episode(f"{name} was here", butler=name)).id), "name": name})


@job
async def store_many(say: Say, path: str, name: str, number: int, go: str | None = None) -> None:
    """Store memories of each kind, alone and in batches; say each that was acknowledged."""
    async with opened(path) as memory:
        wait_until(go)
        for each in range(number):
            word = f"{name}x{each}"
            say({"kind": "episode", "word": word, "id": str((await memory.store_episode(word, butler=name)).id)})
            fact = await memory.store_fact(name, f"number {each}", f"{word}f")
            say({"kind": "fact", "word": f"{word}f", "id": str(fact.id)})
            rules = await memory.store_rules([NewRule(content=f"{word}r{part}") for part in range(2)])
            for part, rule in enumerate(rules):
                say({"kind": "rule", "word": f"{word}r{part}", "id": str(rule.id)})


@job
async def store_same_key(say: Say, path: str, name: str, number: int, go: str | None = None) -> None:
    """Write one key that others write too; say what each answer was."""
    async with opened(path) as memory:
        wait_until(go)
        for each in range(number):
            answer = await memory.store_fact("the lighthouse", "keeper", f"{name} {each}")
            superseded = None if answer.superseded_id is None else str(answer.superseded_id)
            say({"id": str(answer.id), "outcome": answer.outcome, "superseded": superseded})


@job
async def disagree(say: Say, path: str, texts: list[str], number: int, go: str | None = None) -> None:
    """Store contrary notes in turn, while others do the same; say what each answer was."""
    async with opened(path, background=False) as memory:
        wait_until(go)
        for each in range(number):
            answer = await memory.store_note(texts[each % len(texts)])
            conflict = None if answer.conflict is None else str(answer.conflict.id)
            say({"id": str(answer.id), "outcome": answer.outcome, "conflict": conflict})


@job
async def call(say: Say, path: str, verb: str, args: dict[str, Any]) -> None:
    """One verb in a process of its own."""
    async with opened(path) as memory:
        answer = await getattr(memory, verb)(**args)
        say(str(answer.id) if hasattr(answer, "id") else answer)


@job
async def create_and_die(say: Say, path: str, moment: str) -> None:
    """Create a file, and be killed at a certain step."""

    def die(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    steps: dict[str, tuple[Any, str, Any]] = {
        "begun": (database, "_upgrade", die),
        "made": (database, "_upgrade", _then(database._upgrade, die)),
        "synced": (os, "fsync", _then(os.fsync, die)),
        "before it is there": (os, "link", die),
        "there": (os, "link", _then(os.link, die)),
    }
    setattr(*steps[moment])
    async with opened(path):
        say("survived")


def _then(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> None:
        first(*args, **kwargs)
        second()

    return both


@job
async def migrate_and_die(say: Say, path: str, after: int) -> None:
    """Open an old file, and be killed before statement number `after` of its migration."""
    number, statements = count(), migrations.statements

    def deadly(*args: Any) -> Iterator[str]:
        for statement in statements(*args):
            if next(number) == after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield statement

    migrations.statements = deadly
    async with opened(path):
        say("survived")


@job
async def copy_and_die(say: Say, path: str) -> None:
    """Open an old file, and be killed while the copy is made that precedes its migration."""
    os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)  # pyright: ignore
    async with opened(path):
        say("survived")


@job
async def snapshot_and_die(say: Say, path: str, moment: str) -> None:
    """Write the snapshot of a vector index anew, and be killed at a certain step."""

    def die(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def begin(file: Any, *args: Any) -> None:
        file.write(b"TULVHNSW and no more")
        file.flush()
        die()

    steps: dict[str, tuple[Any, str, Any]] = {
        "begun": (sqlite_partition, "write_parts", begin),
        "written": (sqlite_partition, "write_parts", _then(sqlite_partition.write_parts, die)),
        "synced": (os, "fsync", _then(os.fsync, die)),
        "before it is there": (Path, "replace", die),
        "there": (Path, "replace", _then(Path.replace, die)),
    }
    async with opened(path, config=CONFIG, embedder=Dense(), background=False) as memory:
        await memory.store_episode("one more", butler="b")
        say("ready")
        setattr(*steps[moment])
        await memory._env.store.reindex(only_outgrown=True)
        say("survived")


@job
async def snapshot_forever(say: Say, path: str) -> None:
    """Change a memory and write its snapshot, again and again, until killed."""
    async with opened(path, config=CONFIG, embedder=Dense(), background=False) as memory:
        for number in count():
            await memory.store_episode(f"word{number % 60} again {number}", butler="b")
            await memory._env.store.reindex(only_outgrown=True)
            say(number)


@job
async def use_as_nobody(say: Say, path: str) -> None:
    """Read a file, then write to it, as a user who may not do everything; say what came of both."""
    become_nobody()
    try:
        async with opened(path) as memory:
            say({"read": sorted(item.content for item in (await memory.list_memories("episode")).items)})
            await memory.store_episode("one more", butler="nobody")
            say({"written": True})
    except TulvingError as error:
        say({"error": [kind.__name__ for kind in type(error).__mro__], "message": str(error)})


def become_nobody() -> None:
    """Permissions do not hold root back."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@job
async def use_read_only(say: Say, path: str) -> None:
    """All that can be done with a file that may only be read, and what can't; say what came of it."""
    become_nobody()
    seen: dict[str, Any] = {}

    async def refused(doing: Any) -> str:
        try:
            return f"done: {await doing}"
        except TulvingError as error:
            return str(error)

    with tempfile.TemporaryDirectory() as folder:
        async with opened(path, background=False) as memory:
            for mode in ("keyword", "semantic", "hybrid"):
                seen[mode] = sorted(hit.item.content for hit in await memory.search("tea", mode=mode))
            recalled = await memory.recall("tea", types=["fact", "episode"])
            seen["recall"] = sorted(hit.item.content for hit in recalled)
            fact = next(hit.item for hit in recalled if hit.memory_type == "fact")
            item = await memory.get("fact", fact.id)
            seen["got"] = item and item.content
            verification = await Administration(memory._env, memory.caller).verify()
            seen["problems"] = [problem for finding in verification.findings for problem in finding.problems]
            seen["note"] = (await memory._env.store.health())[0].note
            counts = await memory.export(Path(folder) / "export.jsonl")
            seen["exported"] = {table: counts[table] for table in ("facts", "episodes")}
            seen["store"] = await refused(memory.store_rule("no"))
            seen["delete"] = await refused(memory.delete("fact", fact.id))
            seen["reindex"] = await refused(Administration(memory._env, memory.caller).reindex())
        copy, restored = Path(folder) / "copy.db", Path(folder) / "restored.db"
        sqlite_backup.backup(Path(path), copy, 1.0)
        sqlite_backup.restore(Path(path), restored, 1.0, fact.created_at)
        for name, file in (("backed up", copy), ("restored", restored)):
            with closing(sqlite3.connect(file)) as raw:
                seen[name] = [content for (content,) in raw.execute("SELECT content FROM facts")]
    say(seen)


@job
async def evict(say: Say, path: str, limit: int) -> None:
    """Make room in small batches, saying that each is about to be evicted."""
    eviction, real = storage.eviction, storage.eviction.evict

    def told(conn: Any, chosen: Any, audit_of: Any) -> Any:
        say(len(chosen))
        return real(conn, chosen, audit_of)

    eviction.AT_A_TIME, eviction.evict = 4, told
    async with opened(path, background=False, config=MemoryModuleConfig(max_size_bytes=limit)) as memory:
        await Administration(memory._env, memory.caller).evict()


@job
async def read_until_it_changes(say: Say, path: str, go: str) -> None:
    """Read a file that may only be read, wait, and read it again."""
    become_nobody()
    async with opened(path, background=False) as memory:
        # So many that each of the store's threads has read before.
        pages = await asyncio.gather(*(memory.list_memories("fact") for _ in range(50)))
        say({"read": len(pages[0].items)})
        wait_until(go)
        try:
            say({"read again": len((await memory.list_memories("fact")).items)})
        except TulvingError as error:
            say({"error": str(error)})


@job
async def archive_forever(say: Say, path: str, name: str) -> None:
    """Store, archive, merge, edit and delete episodes, saying what was acknowledged, until killed."""
    async with opened(path, background=False) as memory:
        env = memory._env
        learned = "UPDATE episodes SET consolidated = TRUE WHERE tenant_id = 'default'"
        for number in count():
            texts = [f"{name}n{number}p{part} happened" for part in range(6)]
            stored = await memory.store_episodes([NewEpisode(content=text, butler="b", type="t") for text in texts])
            say({"stored": [[str(one.id), text] for one, text in zip(stored, texts, strict=True)]})
            await memory._write(lambda conn: conn.execute(learned))
            timeline = TimelineConfig(capacity=3, segment_episodes=4 if number % 2 else 16)
            env.config = replace(env.config, timeline=timeline)
            await memory.rotate_timeline()
            say({"deleting": str(stored[0].id)})
            await memory.delete("episode", stored[0].id)
            say({"deleted": str(stored[0].id)})
            say({"editing": [str(stored[1].id), "was changed"]})
            await memory.edit("episode", stored[1].id, content="was changed")


@job
async def bridge_forever(say: Say, path: str, name: str) -> None:
    """Store important episodes, delete some, and run the bridge, saying what was acknowledged, until killed."""
    config = MemoryModuleConfig(bridge=BridgeConfig(enabled=True))
    async with opened(path, config=config) as memory:
        for number in count():
            texts = [f"{name}n{number}p{part} is important" for part in range(4)]
            offers = [NewEpisode(content=text, butler="b", type="t", importance=9) for text in texts]
            stored = await memory.store_episodes(offers)
            await memory.run_bridge()
            await memory.delete("episode", stored[0].id)
            say({"stored": texts[1:]})


@job
async def live(say: Say, path: str, name: str) -> None:
    """Use all of a memory at once, until killed."""
    async with opened(path, config=EVERYTHING) as memory:
        await Life(memory, say, name).live()


# -- the server ------------------------------------------------------------------------------------------------


def run(order: dict[str, Any]) -> None:
    """In the child: do the job and be gone, without what Python does at its end."""
    status = 1
    try:
        log = os.open(order["log"] or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

        def say(line: Any) -> None:
            os.write(log, json.dumps(line).encode() + b"\n")

        try:
            asyncio.run(JOBS[order["job"]](say, **order["args"]))
            status = 0
        except BaseException:
            say({"traceback": traceback.format_exc()})
    finally:
        os._exit(status)


def main() -> None:
    children: set[int] = set()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if (pid := order.get("wait")) is not None:
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            children.discard(pid)
        else:
            answer = os.fork()
            if answer == 0:
                run(order)
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
