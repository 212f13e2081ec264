"""PostgreSQL: how often a verb has to wait for the server, and how fast many rows get in."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from bench.baseline import TABLES
from bench.corpus import Corpus, tenant_name
from bench.embedders import Constant
from bench.engines import Postgres, connect
from bench.report import Report
from bench.stores import Stores
from tulving import Memory, get_embedding_engine, open_memory
from tulving.bootstrap import copy_store

BATCH = 1_000
ROWS = 10_000
BY_HAND = {"store_fact": 5, "store_fact that replaces one": 8, "store_episode": 4, "search": 3}
FEWER_THAN = {"store_fact": 7}


class Relay:
    """Stands between a client and the server's socket and counts how often the client has to wait for an answer."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._answered = True
        self.trips = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_unix_connection(self._server)
        await asyncio.gather(self._pass(reader, theirs[1], True), self._pass(theirs[0], writer, False))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: bool) -> None:
        while data := await reader.read(1 << 18):
            self.trips += question and self._answered
            self._answered = not question
            writer.write(data)
        writer.close()


@asynccontextmanager
async def relayed(url: str):
    """The URL of the same database by way of a relay, and the relay. Only for a server on a socket."""
    parts = urlsplit(url)
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    socket = f".s.PGSQL.{options['port']}"
    relay = Relay(str(Path(options["host"]) / socket))
    with TemporaryDirectory(dir="/tmp") as folder:
        async with await asyncio.start_unix_server(relay.serve, Path(folder) / socket):
            yield urlunsplit(parts._replace(query=urlencode({**options, "host": folder}))), relay


async def run_trips(stores: Stores, report: Report) -> None:
    """Each verb when its statements are known to the connection."""
    engine = stores.engine
    report.section(f"{engine.name}: round trips of a verb")
    place = await engine.fresh("trips")
    if "host=" not in place:
        return report.note("round trips skipped: the server has no socket here")
    facts = Corpus(17).facts(3 * BATCH + 20)
    async with (
        relayed(place) as (url, relay),
        open_memory(url, embedder=Constant(), background=False) as memory,
    ):
        for name, verb in _verbs(memory, facts).items():
            await verb()
            await verb()  # now each statement has been prepared, also those of a replacement
            await memory.settle()  # what a recall does afterwards is not counted
            before = relay.trips
            await verb()
            trips, most = relay.trips - before, FEWER_THAN.get(name)
            hand = f"by hand {BY_HAND[name]}" if name in BY_HAND else ""
            target, met = (f"< {most}", trips < most) if most else ("", None)
            report.row(f"round trips of {name}", f"{trips}", hand, target=target, met=met)


def _verbs(memory: Memory, facts: list[Any]) -> dict[str, Callable[[], Awaitable[object]]]:
    async def one_fact() -> None:
        fact = facts.pop()
        await memory.store_fact(fact.subject, fact.predicate, fact.content)

    async def many_facts() -> None:
        batch = [facts.pop() for _ in range(BATCH)]
        await memory.store_facts(batch)

    async def any_fact() -> Any:
        return (await memory.list_memories("fact", limit=1)).items[0].id

    async def get() -> None:
        await memory.get("fact", known)

    known: Any = None

    async def note() -> None:
        nonlocal known
        known = await any_fact()

    return {
        "store_fact": one_fact,
        "store_fact that replaces one": lambda: memory.store_fact("garden", "colour", facts.pop().content),
        f"store_facts of {BATCH:,}": many_facts,
        "store_episode": lambda: memory.store_episode("The train was late.", "assistant"),
        "list_memories": note,
        "get": get,
        "search": lambda: memory.search("the garden in summer"),
        "recall": lambda: memory.recall("the garden in summer"),
        "context": lambda: memory.context("the garden in summer", "assistant"),
    }


async def run_transfer(stores: Stores, report: Report, source: str) -> None:
    """A file's memories into an empty database: read from an export, and copied."""
    engine = stores.engine
    report.section(f"{engine.name}: many rows at once")
    embedder, tenant = get_embedding_engine("hashing"), tenant_name(0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        async with open_memory(source, embedder=embedder, tenant=tenant, background=False) as memory:
            rows = sum((await memory.export(path)).values())
        target = await engine.fresh("imported")
        async with open_memory(target, embedder=embedder, tenant=tenant, background=False) as memory:
            begun = perf_counter()
            await memory.import_(path)
            imported = perf_counter() - begun
        with path.open() as lines:
            begun = perf_counter()
            for line in lines:
                json.loads(line)
            parsed = perf_counter() - begun
    begun = perf_counter()
    await copy_store(source, await engine.fresh("copied"))
    copied = perf_counter() - begun
    by_hand = await _executemany(engine, target, embedder)
    report.row(
        f"import of {rows:,} rows",
        f"{rows / imported:,.0f}/s (reading the JSON alone {parsed:.1f} of {imported:.1f} s)",
        f"executemany by hand {rows / by_hand:,.0f}/s",
        f"{imported / by_hand:.1f} x",
    )
    report.row(
        f"copy of {rows:,} rows from SQLite, compared at the end",
        f"{rows / copied:,.0f}/s",
        f"executemany by hand {rows / by_hand:,.0f}/s",
        f"{copied / by_hand:.1f} x",
    )


async def _executemany(engine: Any, source: str, embedder: Any) -> float:
    """The seconds that the same rows take when they are at hand, in one transaction."""
    assert isinstance(engine, Postgres)
    place = await engine.fresh("by-hand")
    async with open_memory(place, embedder=embedder, background=False):
        pass
    theirs, ours = await connect(source), await connect(place)
    seconds = 0.0
    async with ours.transaction():
        for table in TABLES:
            columns = [
                row[0]
                for row in await ours.fetch(
                    "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0"
                    " AND NOT attisdropped AND attgenerated = '' AND attidentity = ''",
                    table,
                )
            ]
            rows = [tuple(row) for row in await theirs.fetch(f"SELECT {', '.join(columns)} FROM {table}")]
            values = ", ".join(f"${number + 1}" for number in range(len(columns)))
            begun = perf_counter()
            await ours.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})", rows)
            seconds += perf_counter() - begun
    await theirs.close()
    await ours.close()
    return seconds
