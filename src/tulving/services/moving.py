"""Memories on their way out and in again: JSON lines, without loss."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tulving import storage
from tulving.domain.events import Audit
from tulving.domain.scope import Caller
from tulving.errors import InvalidInput
from tulving.services.upkeep import Upkeep
from tulving.storage.connection import Connection

FORMAT = "tulving-export-1"


class Moving(Upkeep):
    """Export and import: of a memory's tenant, or, by an administration, of all tenants."""

    async def export(self, path: Path) -> dict[str, int]:
        """Write everything as JSON lines; counts per table."""
        with storage.durable_file.placed(path, force=True) as file:
            return await self._read(_export, file, self._tenant_id)

    async def import_(self, path: Path) -> dict[str, dict[str, int]]:
        """Read an export in, all or none: into the caller's tenant, or each row of an export of all into its own.

        What is there already is skipped. Vectors of another embedder are left out and made anew.
        """
        embedder = self._env.embedder
        header = next(_json_lines(path), (1, None))[1]
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InvalidInput("file", f"{path.name} is not a Tulving export", f"a file that begins with {FORMAT}")
        several = bool(header.get("all_tenants"))
        if several and self._tenant_id is not None:
            raise InvalidInput("file", "holds several tenants", "importing all tenants, if that is meant")
        same = header.get("embedder") == [embedder.model, embedder.version, embedder.dimension]
        version = self._env.embedding.version if same else None
        tenant = None if several else self.caller.tenant_id
        # A transaction may be run again, so it is told where the rows are, not handed what can be read once.
        rows = partial(_rows, path)
        now, run_id = self._env.clock(), self._env.ids()

        def audit_of(tenant_id: str) -> Audit:
            caller = Caller(tenant_id, self.caller.actor, self.caller.request_id)
            return Audit(caller, now, self._env.ids, run_id)

        counts, _ = await self._env.store.write(
            tenant, storage.transfer.load, rows, tenant, version, embedder.dimension, audit_of
        )
        await self.embed_pending()
        return counts


def _export(conn: Connection, file: IO[bytes], tenant_id: str | None) -> dict[str, int]:
    """The file is begun here, since a transaction may be run again. It names the embedder that made its vectors, which
    is the store's; ours may be another one, if the store was re-embedded."""
    active = storage.maintenance.active_version(conn)
    embedder = [active["model"], active["version"], active["dimension"]] if active else None
    file.seek(0)
    file.truncate()

    def sink(line: Any) -> None:
        file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    sink({"format": FORMAT, "all_tenants": tenant_id is None, "embedder": embedder})
    return storage.transfer.dump(conn, tenant_id, sink)


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    return islice(_json_lines(path), 1, None)


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield number, json.loads(line)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line {number + 1}", f"is not UTF-8 text ({error})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line {number}", f"is not JSON ({error})") from error
    except OSError as error:
        raise InvalidInput("file", f"{path} can't be read: {error.strerror or error}", "an export") from error
