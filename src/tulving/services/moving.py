"""A memory written to a file, and read back from one."""

from pathlib import Path

from tulving import storage
from tulving.domain.events import Audit
from tulving.errors import InvalidInput
from tulving.services.maintenance import Maintenance


class Moving(Maintenance):
    """Export and import."""

    async def export(self, path: Path, *, all_tenants: bool = False) -> dict[str, int]:
        """Write everything as JSON lines: the caller's tenant, or all of them. Counts per table."""
        tenant = None if all_tenants else self.caller.tenant_id
        with storage.durable_file.placed(path, force=True) as file:
            return await self._env.store.read(tenant, storage.export_file.write, file, tenant)

    async def import_(self, path: Path, *, all_tenants: bool = False) -> dict[str, dict[str, int]]:
        """Read an export in, all or none: into the caller's tenant, or each row into its own.

        What is there already is skipped. Vectors of another embedder are left out and made anew.
        """
        header, embedder = storage.export_file.header(path), self._env.embedder
        if header.get("all_tenants") and not all_tenants:
            raise InvalidInput("file", "holds several tenants", "importing all tenants, if that is meant")
        same = header.get("embedder") == [embedder.model, embedder.version, embedder.dimension]
        version = self._env.embedding_version if same else None
        tenant = None if header.get("all_tenants") else self.caller.tenant_id
        audit = Audit(self.caller, self._env.clock(), self._env.ids, run_id=self._env.ids())
        arrival = storage.moving.Arrival("import", version, audit)
        counts, events = await self._env.store.write(
            tenant, storage.export_file.load, path, tenant, embedder.dimension, arrival
        )
        self._publish(events)
        await self.embed_pending()
        return counts
