"""The two engines, as the benchmarks use them: stores made and copied, and the raw work beside them."""

import os
import shutil
import struct
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from bench.baseline import TABLES, Plain, PlainPostgres, Recorder, Statement, Transactions
from bench.by_hand import ByHand
from tests.postgres_server import EXISTING, PostgresServer, Server
from tulving import Memory, open_memory
from tulving.ports import Embedder

Place = str
"""A path or a URL; `open_memory` takes either."""


class Engine(Protocol):
    """What differs between the engines."""

    name: str
    replayed: str
    """What the raw work of an insert is, in a word."""

    async def fresh(self, name: str) -> Place:
        """A place where there is no store yet."""
        ...

    async def copy(self, place: Place, name: str) -> Place:
        """A copy of a store that is not open."""
        ...

    async def plain(self, place: Place) -> Plain | PlainPostgres: ...

    def by_hand(self, name: str, embedder: Embedder) -> ByHand | None:
        """The same job by hand, with the file of that name."""
        ...

    def recorded(self, place: Place, embedder: Embedder) -> Any:
        """A memory, and what its transactions write from now on."""
        ...

    async def settle(self, place: Place) -> None: ...

    async def bytes_used(self, place: Place) -> int: ...


class Sqlite:
    """A file each, in one folder."""

    name, replayed = "SQLite", "the same statements"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def fresh(self, name: str) -> Place:
        return str(self._folder / f"{name}.db")

    async def copy(self, place: Place, name: str) -> Place:
        return str(shutil.copyfile(place, await self.fresh(name)))

    async def plain(self, place: Place) -> Plain:
        return Plain(Path(place))

    def by_hand(self, name: str, embedder: Embedder) -> ByHand:
        return ByHand(self._folder / f"{name}.db", embedder)

    @asynccontextmanager
    async def recorded(self, place: Place, embedder: Embedder) -> AsyncIterator[tuple[Memory, Transactions]]:
        async with open_memory(place, embedder=embedder, background=False) as memory:
            writer = memory._env.store._writer  # pyright: ignore[reportAttributeAccessIssue]
            writer.raw = Recorder(writer.raw)
            yield memory, writer.raw.transactions

    async def settle(self, place: Place) -> None:
        """Nothing works in the background of a file."""

    async def bytes_used(self, place: Place) -> int:
        return Path(place).stat().st_size


class Postgres:
    """A database each, on one server that keeps what was committed."""

    name, replayed = "PostgreSQL", "the statements by hand"

    def __init__(self, server: Server) -> None:
        self._server = server

    async def fresh(self, name: str) -> Place:
        return await self._server.create_database(f"bench_{name.replace('-', '_')}")

    async def copy(self, place: Place, name: str) -> Place:
        return await self._server.create_database(f"bench_{name.replace('-', '_')}", place)

    async def plain(self, place: Place) -> PlainPostgres:
        return PlainPostgres(await connect(place))

    def by_hand(self, name: str, embedder: Embedder) -> None:
        """Only written for a file."""

    @asynccontextmanager
    async def recorded(self, place: Place, embedder: Embedder) -> AsyncIterator[tuple[Memory, Transactions]]:
        transactions: Transactions = []

        def note(query: Any) -> None:
            if query.query.startswith("BEGIN"):
                if "READ ONLY" not in query.query:
                    transactions.append([])
            elif transactions and query.query.startswith(("SELECT id", "SELECT CAST", "WITH", "INSERT", "UPDATE")):
                transactions[-1].append(_statement(query.query, query.args))

        async def initialise(connection: Any) -> None:
            connection.add_query_logger(note)

        async with (
            asyncpg.create_pool(place, min_size=1, max_size=1, init=initialise) as pool,
            open_memory(pool, embedder=embedder, background=False) as memory,
        ):
            transactions.clear()
            yield memory, transactions

    async def settle(self, place: Place) -> None:
        """Do at once what the server does in the minutes after a bulk load."""
        raw = await connect(place)
        await raw.execute("VACUUM ANALYZE")
        await raw.close()

    async def bytes_used(self, place: Place) -> int:
        raw = await connect(place)
        sizes = [await raw.fetchval("SELECT pg_total_relation_size($1::text::regclass)", table) for table in TABLES]
        await raw.close()
        return sum(sizes)


def _statement(sql: str, args: Any) -> Statement:
    """What was executed once or for many; vectors as one would hand them over."""
    many = isinstance(args, list)
    params = [tuple(row) for row in args] if many else args
    return Statement(sql.replace("::real[]::vector", "::vector"), params, many)


async def connect(place: Place) -> Any:
    """A connection as one would make it by hand: vectors in binary form, no compiled plans for short queries."""
    raw = await asyncpg.connect(place, server_settings={"jit": "off", "application_name": "bench"})
    if await raw.fetchval("SELECT to_regtype('vector')"):
        await raw.set_type_codec("vector", schema="public", encoder=vector_out, decoder=vector_in, format="binary")
    return raw


def vector_out(numbers: Sequence[float]) -> bytes:
    values = array("f", numbers)
    values.byteswap()
    return struct.pack(">HH", len(values), 0) + values.tobytes()


def vector_in(data: bytes) -> bytes:
    values = array("f", data[4:])
    values.byteswap()
    return values.tobytes()


@asynccontextmanager
async def postgres() -> AsyncIterator[Postgres]:
    """On the server that the environment names, else on one of our own, which is gone afterwards."""
    if existing := os.environ.get(EXISTING):
        yield Postgres(Server(existing))
    else:
        settings = {"shared_buffers": "1GB", "max_wal_size": "4GB"}
        with PostgresServer(durable=True, settings=settings) as server:
            yield Postgres(server)
