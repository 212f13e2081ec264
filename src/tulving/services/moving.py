"""A memory written to a file, and read back from one."""

from dataclasses import replace
from pathlib import Path

from tulving import storage
from tulving.errors import InvalidInput
from tulving.services.upkeep import Upkeep


class Moving(Upkeep):
    """Export and import: of a memory's tenant or, by an administration, of all tenants."""

    async def export(self, path: Path) -> dict[str, int]:
        """Write everything as JSON lines; counts per table."""
        with storage.durable_file.placed(path, force=True) as file:
            return await self._read(storage.export_file.write, file, self._tenant_id)

    async def import_(self, path: Path) -> dict[str, dict[str, int]]:
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
        counts = await self._env.store.write(
            tenant, storage.export_file.load, path, tenant, embedder.dimension, arrival
        )
        await self.embed_pending()
        return counts
