"""Export and import of a tenant's memory over HTTP, as the JSON lines of `tulving export`.

The rows are spooled to a temporary file, which is removed with the response, so neither transfer is held in memory. A
slow reader does not keep the snapshot of an export open, and a failing export gets an error status. An import is all or
nothing, so it begins when the body is complete.
"""

import errno
import tempfile
from asyncio import to_thread
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tulving.errors import DiskFull, Forbidden, InvalidInput, TulvingError
from tulving.interfaces.http.arguments import body_parts, media_type
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.described import Described
from tulving.interfaces.http.problems import SOON, Problem
from tulving.services.memory import Memory
from tulving.settings import HttpConfig
from tulving.storage import export_file

MEDIA_TYPE = "application/x-ndjson"
MEDIA_TYPES = (MEDIA_TYPE, "application/jsonl")
HEADERS = {"Cache-Control": "no-store", "Content-Disposition": 'attachment; filename="tulving-export.jsonl"'}
PIECE = 256 * 1024
BEGINNING = 200
"""Bytes by which an export is recognized."""
AT_ONCE, OF_A_TENANT = 4, 2
"""Concurrent exports and imports of a process, and of one tenant: each reads or writes all its rows."""
MEGABYTE = 1024 * 1024
LONGEST_LINE = 64 * MEGABYTE
"""More than the longest memory needs."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_LINE = {"type": "object", "description": "A header line, then a line for each row: `table` and `row`"}
_COUNTS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"added": {"type": "integer"}, "skipped": {"type": "integer"}},
        "required": ["added", "skipped"],
    },
}
EXPORT = Described(
    http="GET /v1/export",
    name="export",
    text="Export everything in the caller's tenant as JSON lines: one snapshot, in the format of `tulving export`. The "
    "caller must have access to the whole tenant.",
    answer={MEDIA_TYPE: _LINE},
    problems=[507],
)
IMPORT = Described(
    http="POST /v1/import",
    name="import",
    text="Import an export, all or nothing. Rows that exist already are skipped, so an import can be repeated. The "
    "answer counts the rows of each table. The caller must have access to the whole tenant, and the right to review "
    "too: an export holds decisions of people, merge rules and the audit trail.",
    rights=("write", "review"),
    body=dict.fromkeys(MEDIA_TYPES, _LINE),
    answer={"application/json": _COUNTS},
    problems=[409, 413, 415, 507],
)


class Transfers:
    """The exports and imports of one server."""

    def __init__(self, access: Access, limits: HttpConfig) -> None:
        self._access, self._most = access, limits.max_import_mb * MEGABYTE
        self._open = Counter[str]()

    async def export(self, request: Request) -> Response:
        """Handle `GET /v1/export`."""
        memory = await self._whole_memory(request, EXPORT)
        if request.method == "HEAD":
            return StreamingResponse((), headers=HEADERS, media_type=MEDIA_TYPE)
        end = self._begin(memory.caller.tenant_id)
        try:
            with _folder() as folder:
                file = folder / "export.jsonl"
                await memory.export(file)
                return Download(file.open("rb"), file.stat().st_size, end)
        except BaseException:
            end()
            raise

    async def import_(self, request: Request) -> Response:
        """Handle `POST /v1/import`."""
        memory = await self._whole_memory(request, IMPORT)
        if media_type(request) not in MEDIA_TYPES:
            problem = f"the body must be {MEDIA_TYPE} and not compressed"
            raise Problem(415, "unsupported-media-type", problem, {"Accept-Post": ", ".join(MEDIA_TYPES)})
        end = self._begin(memory.caller.tenant_id)
        try:
            with _folder() as folder:
                file = folder / "import.jsonl"
                await self._receive(request, file)
                return JSONResponse(await memory.import_(file))
        finally:
            end()

    async def _whole_memory(self, request: Request, route: Described) -> Memory:
        if request.query_params:
            raise InvalidInput(f"{next(iter(request.query_params)):.80}", "is not a parameter", "none")
        principal = await self._access.admit(request)
        if lacking := [right for right in route.rights if right not in principal.rights]:
            raise Forbidden(f"this needs the right to {' and to '.join(lacking)}, which this access token lacks")
        memory = await principal.memory()
        if not memory.bound.everything:
            raise Forbidden("this needs access to the whole tenant, and this request is bound to a part of it")
        return memory

    async def _receive(self, request: Request, path: Path) -> None:
        """Write the body to a file as it arrives. A body that is not an export is refused after its first bytes, and a
        line that is too long to be held in memory as soon as it is."""
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self._most:
            raise Problem(413, "body-too-large", f"the body has more than {self._most:,} bytes")
        size = line = 0
        with path.open("wb", buffering=0) as file:
            async for part in body_parts(request, self._most):
                await to_thread(file.write, part)
                is_beginning, size = size < BEGINNING, size + len(part)
                if is_beginning and size >= BEGINNING:
                    _check(path)
                line = len(part) - part.rindex(b"\n") - 1 if b"\n" in part else line + len(part)
                if line > LONGEST_LINE:
                    raise InvalidInput("file", f"has a line of more than {LONGEST_LINE:,} bytes", "a row in each line")
        if size < BEGINNING:
            _check(path)

    def _begin(self, tenant_id: str) -> Callable[[], None]:
        """Count a transfer that begins; the result is called when it has ended."""
        of_all, of_tenant = self._open.total() >= AT_ONCE, self._open[tenant_id] >= OF_A_TENANT
        if of_all or of_tenant:
            count = f"{OF_A_TENANT} of your tenant's" if of_tenant else f"{AT_ONCE}"
            raise Problem(429, "busy", f"{count} exports and imports are in progress", {"Retry-After": SOON})
        self._open[tenant_id] += 1

        def end() -> None:
            self._open[tenant_id] -= 1
            if not self._open[tenant_id]:
                del self._open[tenant_id]

        return end


class Download(StreamingResponse):
    """Sends an unlinked file, whose space is freed when it is closed."""

    def __init__(self, file: BinaryIO, size: int, ended: Callable[[], None]) -> None:
        headers = {**HEADERS, "Content-Length": str(size)}
        super().__init__(_pieces(file), headers=headers, media_type=MEDIA_TYPE)
        self._file, self._ended = file, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
            self._ended()


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await to_thread(file.read, PIECE):
        yield piece


@contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder that only its owner can read, for one transfer."""
    try:
        with tempfile.TemporaryDirectory(prefix="tulving-") as folder:
            yield Path(folder)
    except OSError as error:
        if error.errno in _NO_ROOM and not isinstance(error, TulvingError):
            raise DiskFull(f"no room in {tempfile.gettempdir()} ({error.strerror}); nothing was written") from error
        raise


def _check(path: Path) -> None:
    if not export_file.is_export(path):
        raise InvalidInput("file", "is not an export of Tulving", "JSON lines as `tulving export` writes them")
