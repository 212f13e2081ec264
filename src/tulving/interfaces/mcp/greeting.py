"""The start of a conversation over standard input and output: a client is greeted before the MCP library is loaded.

Loading it takes three quarters of the time until the answer to `initialize`, which does not depend on it. So a plain
`initialize` is answered here, and the library is given it too, to begin its session; its own answer is not sent.
Everything else, also an `initialize` that is unusual in any way, is left to the library.
"""

import asyncio
import gc
import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

from tulving import __version__
from tulving.embedders import choose_embedder
from tulving.interfaces.instructions import LEARNING, how_to_use
from tulving.settings import MemoryModuleConfig

SERVER: Mapping[str, Any] = {
    "name": "tulving",
    "title": "Tulving",
    "version": __version__,
    "description": "A memory for AI agents",
}
CAPABILITIES: Mapping[str, Any] = {
    "tools": {"listChanged": False},
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "completions": {},
}
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the protocol that begin with `initialize`."""
LARGEST_ID = 2**53
_NAMED = {"name", "version", "title", "description", "websiteUrl"}


def serve(config: MemoryModuleConfig) -> None:
    """Serve the memory until the client disconnects or the process is told to end."""
    asyncio.run(_serve(config))


async def _serve(config: MemoryModuleConfig) -> None:
    lines = read_lines()
    first = await lines.get()
    greeted = greeting(first or "", config)
    if greeted is not None:
        with suppress(OSError):  # that the client is gone is noticed later
            print(greeted, flush=True)
    # What is loaded now stays: looking through it for garbage again and again takes a seventh of the time.
    gc.disable()
    from tulving.interfaces.mcp.server import converse

    gc.freeze()
    gc.enable()
    await converse(config, first, lines, greeted is not None)


def read_lines() -> asyncio.Queue[str | None]:
    """The lines of standard input; None at the end, which SIGTERM and SIGINT count as too.

    They are read in a thread of its own, since a thread that waits for input can be neither cancelled nor joined.
    """
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, lines.put_nowait, None)

    def read() -> None:
        with suppress(RuntimeError):  # the loop is closed
            with suppress(OSError), open(0, "rb", closefd=False) as file:
                for line in file:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))
            loop.call_soon_threadsafe(lines.put_nowait, None)

    Thread(target=read, daemon=True, name="tulving-stdin").start()
    return lines


def greeting(line: str, config: MemoryModuleConfig) -> str | None:
    """The response to a plain `initialize`, the same that the library would give; None if the line is anything else."""
    if r"\ud" in line.lower():  # perhaps a lone surrogate
        return None
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match asked:
        case {
            "jsonrpc": "2.0",
            "id": int() | str() as id_,
            "method": "initialize",
            "params": {"protocolVersion": version, "capabilities": dict() as able, "clientInfo": dict() as client},
        } if len(asked) == 4 and len(asked["params"]) == 3:
            plain_id = isinstance(id_, str) or (type(id_) is int and abs(id_) < LARGEST_ID)
            named = {"name", "version"} <= client.keys() <= _NAMED and all(map(_is_text, client.values()))
            if not (plain_id and named and version in VERSIONS and _are_plain(able)):
                return None
        case _:
            return None
    result = {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": instructions(config),
    }
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": result})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_plain(capabilities: dict[str, Any]) -> bool:
    """Whether all are objects, within one another, but for `listChanged`."""
    return all(
        isinstance(value, bool) if name == "listChanged" else isinstance(value, dict) and _are_plain(value)
        for name, value in capabilities.items()
    )


def instructions(config: MemoryModuleConfig) -> str:
    """How to use the memory well, and what is missing. Looks at the embedder's files but loads none."""
    said = [how_to_use(config.tools)]
    if config.tools == "all":
        said.append(LEARNING)
    if problem := choose_embedder(config).unready():
        said.append(f"For now memories are found by keyword only. {problem}")
    return "\n".join(said)
