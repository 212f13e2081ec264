"""A memory written to a file, and read back from one."""

import asyncio
from dataclasses import replace
from pathlib import Path

from tulving import storage
from tulving.errors import InvalidInput
from tulving.services.service import NamedProgress
from tulving.services.upkeep import Upkeep


def _quiet(done: int, total: int, what: str) -> None:
    pass


class Moving(Upkeep):
    """Export and import: of a memory's tenant or, by an administration, of all tenants."""

    async def export(self, path: Path, progress: NamedProgress = _quiet) -> dict[str, int]:
        """Write everything as JSON lines; counts per table."""
        with storage.durable_file.placed(path, force=True) as file:
            return await self._read(storage.export_file.write, file, self._tenant_id, _from_thread(progress))

    async def import_(self, path: Path, progress: NamedProgress = _quiet) -> dict[str, dict[str, int]]:
        """Read an export in, all or none: into the caller's tenant, or each row of an export of all into its own.

        What is there already is skipped. Vectors of another embedder are left out and made anew.
        """
        header, embedder = storage.export_file.header(path), self._env.embedder
        several = bool(header.get("all_tenants"))
        if several and self._tenant_id is not None:
            raise InvalidInput("file", "holds several tenants", "importing all tenants, if that is meant")
        same = header.get("embedder") == [embedder.model, embedder.version, embedder.dimension]
        version = self._env.embedding.version if same else None
        tenant = None if several else self.caller.tenant_id
        audit = replace(self._audit(self._env.clock()), run_id=self._env.ids())
        arrival = storage.moving.Arrival("import", version, audit)
        told = _from_thread(progress)
        counts = await self._env.store.write(
            tenant, storage.export_file.load, path, tenant, embedder.dimension, arrival, told
        )
        await self.embed_pending(lambda done, total: progress(done, total, "vectors"))
        return counts


def _from_thread(progress: NamedProgress) -> NamedProgress:
    """Progress that a transaction may tell, which runs in a thread of its own."""
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int, what: str) -> None:
        loop.call_soon_threadsafe(progress, done, total, what)

    return tell
