"""Databases with our schema and nothing in them, which one test uses after another.

To copy a database, open it for the first time and drop it takes a tenth of a second; to empty one, a few milliseconds.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import asyncpg
from postgres_server import Server

from tulving import open_memory
from tulving.ports import Embedder
from tulving.storage.postgres.schema import VERSION_TABLE

T = TypeVar("T")

MOST_PAGES = 10
"""Deleted rows stay in the files until a vacuum. A table that was never vacuumed is planned for as if it had at least
this many pages; so up to here an emptied one is searched like a new one."""

_FIRST_OID = 16384  # what is below was made by initdb

# Each change of a schema, of its rights and of its statistics leaves a newer row, or fewer rows, in one of these.
_CATALOGS = {
    "pg_attrdef": f"oid >= {_FIRST_OID}",
    "pg_attribute": f"attrelid >= {_FIRST_OID}",
    "pg_class": f"oid >= {_FIRST_OID}",
    "pg_constraint": f"oid >= {_FIRST_OID}",
    "pg_default_acl": "true",
    "pg_description": f"objoid >= {_FIRST_OID}",
    "pg_extension": "true",
    "pg_index": f"indexrelid >= {_FIRST_OID}",
    "pg_namespace": "true",
    "pg_policy": "true",
    "pg_proc": f"oid >= {_FIRST_OID}",
    "pg_sequence": "true",
    "pg_statistic": f"starelid >= {_FIRST_OID}",
    "pg_trigger": "true",
    "pg_type": f"oid >= {_FIRST_OID}",
    "pg_db_role_setting": "setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
}
_STATE = f"""SELECT concat_ws(' ',
    (SELECT (datacl, datconnlimit, datallowconn) FROM pg_database WHERE datname = current_database()),
    (SELECT sum(reltuples) FROM pg_class WHERE oid >= {_FIRST_OID}),
    (SELECT string_agg(version_num, ' ') FROM {VERSION_TABLE}),
    {", ".join(f"(SELECT (count(*), sum(xmin::text::int8)) FROM {name} WHERE {_CATALOGS[name]})" for name in _CATALOGS)}
)"""

_END_OTHERS = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""

_PAGES = f"""SELECT max(pg_relation_size(oid)) / current_setting('block_size')::int
FROM pg_class WHERE relkind = 'r' AND oid >= {_FIRST_OID}"""

_TABLES = """SELECT quote_ident(relname) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> $1"""


class _Store(NamedTuple):
    raw: Any
    """Kept open, since most of the time would go into filling the caches of a new connection."""
    state: str


class Stores:
    """Databases that are given out and taken back: copies of one with our schema and the dimension of an embedder."""

    def __init__(self, server: Server, schema: str, embedder: Embedder) -> None:
        self._server, self._schema = server, schema
        self._thread = ThreadPoolExecutor(1)
        self._runner = asyncio.Runner()
        self._stores: dict[str, _Store] = {}
        self._free: list[str] = []
        self._template = self._run(self._copied(schema, embedder))

    def take(self) -> str:
        """The URL of an empty store that nobody else uses."""
        return self._free.pop() if self._free else self._run(self._new())

    def give_back(self, url: str) -> None:
        """Empty it for the next test. If more than its rows has changed, or it can't be emptied, it is dropped."""
        self._run(self._taken_back(url))

    def close(self) -> None:
        for url in list(self._stores):
            self._run(self._drop(url))
        if self._template != self._schema:
            self._run(self._server.drop_database(self._template))
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """In a thread of our own, since the tests' loops end before the connections."""
        return self._thread.submit(self._runner.run, coroutine).result()

    async def _copied(self, schema: str, embedder: Embedder) -> str:
        url = await self._server.create_database(template=schema)
        async with open_memory(url, embedder=embedder, background=False):
            pass
        raw = await asyncpg.connect(url)
        try:
            await _empty(raw)
        except asyncpg.InsufficientPrivilegeError:  # a server that was named, with a user who is no superuser
            return schema
        finally:
            await raw.close()
        return url

    async def _new(self) -> str:
        url = await self._server.create_database(template=self._template)
        raw = await asyncpg.connect(url)
        self._stores[url] = _Store(raw, await raw.fetchval(_STATE))
        return url

    async def _taken_back(self, url: str) -> None:
        raw, state = self._stores[url]
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await _empty(raw)
            if await raw.fetchval(_PAGES) <= MOST_PAGES and await raw.fetchval(_STATE) == state:
                self._free.append(url)
                return
        await self._drop(url)

    async def _drop(self, url: str) -> None:
        self._stores.pop(url).raw.terminate()
        await self._server.drop_database(url)


async def _empty(raw: Any) -> None:
    """Delete all rows, and end all connections but this one."""
    await raw.execute("SET session_replication_role = replica")  # the audit trail refuses to be emptied by others
    while await raw.fetchval(_END_OTHERS):
        await asyncio.sleep(0.001)
    tables = [name for (name,) in await raw.fetch(_TABLES, VERSION_TABLE)]
    deleting = ", ".join(f"d{at} AS (DELETE FROM {name})" for at, name in enumerate(tables))
    await raw.fetch(f"WITH {deleting} SELECT")
    await raw.execute("SELECT setval(seqrelid, seqstart, false) FROM pg_sequence")
