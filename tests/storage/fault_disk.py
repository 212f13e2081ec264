"""What a memory does on a disk without room. Runs in a mount namespace of its own, where it mounts a small file
system; says what it saw as JSON. Without the right to mount it ends with code 77.
"""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from fault_parts import everything, opened, problems

from tulving.domain.model import NewEpisode
from tulving.errors import TulvingError
from tulving.services.administration import Administration

NOT_POSSIBLE = 77
SMALL = 200
LARGE = 40_000


def mount(folder: Path, megabytes: int) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tulving-test", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        sys.exit(NOT_POSSIBLE)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


async def attempt(doing: Any) -> Any:
    """The answer, or which of our errors it was."""
    try:
        return await doing
    except TulvingError as error:
        return {"error": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}


async def opening(path: Path) -> Any:
    async def inner() -> str:
        async with opened(path):
            return "opened"

    return await attempt(inner())


async def write_until_full(folder: Path) -> dict[str, Any]:
    """Fill the disk with memories; look at them; make room; go on."""
    path = folder / "memory.db"
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 1_500_000)
    seen: dict[str, Any] = {}
    acknowledged: dict[str, str] = {}
    async with opened(path) as memory:
        for number in range(100_000):
            text = f"memory{number} " + "filling " * (LARGE // 8 if number % 2 else SMALL // 8)
            answer = await attempt(memory.store_episode(text, butler="b"))
            if isinstance(answer, dict):
                seen["error"] = answer
                break
            acknowledged[str(answer.id)] = text.strip()
        word = f"memory{len(acknowledged) - 1}"
        batch = [NewEpisode(content=f"batch{number} " + "x" * LARGE, butler="b") for number in range(60)]
        seen["batch"] = await attempt(memory.store_episodes(batch))
        together = [memory.store_episode(f"together{at} " + "x" * LARGE, butler="b") for at in range(30)]
        answers = await asyncio.gather(*map(attempt, together))
        seen["together"] = [answer for answer in answers if isinstance(answer, dict)]
        acknowledged |= {
            str(answer.id): f"together{at} " + "x" * LARGE
            for at, answer in enumerate(answers)
            if not isinstance(answer, dict)
        }
        seen["while full"] = await look(memory, acknowledged, word)
        seen["get"] = [
            answer if isinstance(answer, dict) else answer is not None
            for answer in [await attempt(memory.get("episode", id_)) for id_ in list(acknowledged)[-3:]]
        ]
        await memory.settle()  # a write that shares a transaction with references for which there is no room fails too
        ballast.unlink()
        after = await attempt(memory.store_episode("there is room again", butler="b"))
        seen["with room"] = after if isinstance(after, dict) else "stored"
        acknowledged[str(getattr(after, "id", "none"))] = "there is room again"
        seen["in the same memory"] = await look(memory, acknowledged, word)
    async with opened(path) as memory:
        seen["opened again"] = await look(memory, acknowledged, word)
        seen["problems"] = problems(await Administration(memory._env, memory.caller).verify())
    seen["acknowledged"] = len(acknowledged)
    seen["files"] = sorted(file.name for file in folder.iterdir())
    return seen


async def look(memory: Any, acknowledged: dict[str, str], word: str) -> Any:
    async def inner() -> dict[str, Any]:
        items = {str(id_): item.content for id_, item in (await everything(memory)).items()}
        hits = {mode: len(await memory.search(word, mode=mode, limit=5)) for mode in ("keyword", "semantic")}
        return {
            "lost": [id_ for id_, text in acknowledged.items() if items.get(id_) != text],
            "more": len(items) - len(acknowledged),
            "found": hits,
            "recalled": len(await memory.recall(word, types=["episode"])),
        }

    return await attempt(inner())


async def create_without_room(folder: Path) -> dict[str, Any]:
    path = folder / "memory.db"
    ballast = fill(folder)
    answers = []
    for room in (0, 4_096, 40_000, 200_000, 400_000):
        os.truncate(ballast, ballast.stat().st_size - room)
        answers.append(await opening(path))
        if path.exists():
            path.unlink()
    left = sorted(file.name for file in folder.iterdir())
    ballast.unlink()
    return {"answers": answers, "left": left, "with room": await opening(path)}


async def open_without_room(folder: Path) -> dict[str, Any]:
    path = folder / "memory.db"
    async with opened(path) as memory:
        stored = {str((await memory.store_episode(f"memory{at}", butler="b")).id): f"memory{at}" for at in range(9)}
    ballast = fill(folder)

    async def read() -> Any:
        async with opened(path) as memory:
            return await look(memory, stored, "memory8")

    full = await attempt(read())
    ballast.unlink()
    return {"full": full, "with room": await read()}


async def migrate_without_room(folder: Path, old: str) -> dict[str, Any]:
    path = Path(shutil.copyfile(old, folder / "memory.db"))
    ballast = fill(folder)
    answers = []
    for room in (0, 40_000, 400_000):
        os.truncate(ballast, ballast.stat().st_size - room)
        answers.append(await opening(path))
    raw = sqlite3.connect(path)
    versions = raw.execute("SELECT version_num FROM alembic_version").fetchall()
    raw.close()
    ballast.unlink()
    return {"answers": answers, "version": versions[0][0], "with room": await opening(path)}


async def read_from_a_read_only_disk(folder: Path) -> dict[str, Any]:
    """Also for root, whom permissions do not hold back."""
    path = folder / "memory.db"
    async with opened(path) as memory:
        stored = await memory.store_episode("there before", butler="b")
    if subprocess.run(["mount", "-o", "remount,ro", str(folder)], capture_output=True).returncode:
        sys.exit(NOT_POSSIBLE)
    async with opened(path, background=False) as memory:
        read = await look(memory, {str(stored.id): "there before"}, "before")
        refused = await attempt(memory.store_episode("no", butler="b"))
    return {"read": read, "refused": refused, "files": sorted(file.name for file in folder.iterdir())}


def main() -> None:
    what, folder, megabytes, *rest = sys.argv[1:]
    mount(Path(folder), int(megabytes))
    print(json.dumps(asyncio.run(globals()[what](Path(folder), *rest))))


if __name__ == "__main__":
    main()
