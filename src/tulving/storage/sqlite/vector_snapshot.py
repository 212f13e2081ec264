"""Snapshots of large vector indexes beside the database file, so that a graph is built once and not at each start.

A snapshot is a copy of rows and may be missing, old or damaged: then it is ignored, and the rows are read instead. It
says which rows it holds: up to which event, of which embedder, after how many imports. An event has an id that no other
history of the same file has, so a restored backup is told apart.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from tulving.domain.model import Kind
from tulving.errors import TulvingError
from tulving.storage.durable_file import locked, make_folder, placed

log = logging.getLogger("tulving")

_MAGIC = b"TULVHNSW"
_START = struct.Struct("<8sIII")
FORMAT = 2
LONGEST_HEADER = 65_536


@dataclass(frozen=True, slots=True)
class Reach:
    """Which rows of a tenant and kind a snapshot holds."""

    tenant_id: str
    kind: Kind
    embedder: list[Any]
    imports: int
    seq: int
    event: str
    rows: int


class Unusable(Exception):
    """Why a snapshot can't be used."""


class Snapshots:
    """The folder of a store's snapshots. Without a folder there are none."""

    def __init__(self, folder: Path | None, writable: bool = True) -> None:
        self._folder, self._writable = folder, folder is not None and writable
        self.problem = ""
        """What was wrong with the last one that was ignored."""

    def read(
        self, tenant_id: str, kind: Kind, fits: Callable[[Reach], None]
    ) -> tuple[Reach, dict[str, bytearray]] | None:
        """The parts of a snapshot, if there is one that is whole and `fits` does not raise `Unusable`."""
        if self._folder is None or not (path := self._path(tenant_id, kind)).exists():
            return None
        try:
            with path.open("rb") as file:
                reach, lengths = _header(file)
                if (reach.tenant_id, reach.kind) != (tenant_id, kind):
                    raise Unusable("it is of another tenant or kind")
                fits(reach)
                return reach, {name: _part(file, *each) for name, each in lengths.items()}
        except (Unusable, OSError) as error:
            self.ignore(path.name, error)
            return None

    def ignore(self, name: str, error: Exception) -> None:
        """Tell that a snapshot is not used; the index is built again from the rows."""
        self.problem = f"the snapshot {name} was ignored: {error}"
        log.warning("%s; the vector index is built again from the rows", self.problem)

    def write(self, tenant_id: str, kind: Kind, copy: Callable[[BinaryIO], None]) -> bool:
        """Replace a snapshot by what `copy` writes, as a whole or not at all; whether it was."""
        if not self._writable or self._folder is None:
            return False
        try:
            make_folder(self._folder)
            path = self._path(tenant_id, kind)
            with (
                locked(self._folder, fcntl.LOCK_EX),
                placed(path, force=True, alone=True) as place,
                place.open("wb") as file,
            ):
                copy(file)
                file.flush()
        except (TulvingError, OSError, ValueError) as error:
            log.warning("no snapshot of the vector index was written: %s", error)
            return False
        return True

    def remove(self, tenant_id: str, kind: Kind) -> None:
        if self._there():
            self._path(tenant_id, kind).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all, and what killed attempts left."""
        if (folder := self._there()) is not None:
            with locked(folder, fcntl.LOCK_EX):
                for entry in folder.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def reaches(self) -> Iterator[Reach]:
        """What the snapshots say of themselves. Those that say nothing are removed, and what killed attempts left."""
        if (folder := self._there()) is None:
            return
        with locked(folder, fcntl.LOCK_EX):
            for entry in folder.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
        for path in sorted(folder.glob("*.hnsw")):
            try:
                with path.open("rb") as file:
                    yield _header(file)[0]
            except (Unusable, OSError):
                path.unlink(missing_ok=True)

    def _there(self) -> Path | None:
        """The folder, if there is one and files in it may be changed."""
        return self._folder if self._writable and self._folder is not None and self._folder.is_dir() else None

    def _path(self, tenant_id: str, kind: Kind) -> Path:
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(tenant_id.encode()).hexdigest()[:32]}-{kind}.hnsw"


def write_parts(file: BinaryIO, reach: Reach, parts: Mapping[str, Any]) -> None:
    """The whole file: what it holds, with a checksum for each part."""
    views = {name: memoryview(part).cast("B") for name, part in parts.items()}
    lengths = {name: [len(view), zlib.crc32(view)] for name, view in views.items()}
    header = json.dumps({"reach": asdict(reach), "parts": lengths}).encode()
    file.write(_START.pack(_MAGIC, FORMAT, len(header), zlib.crc32(header)) + header)
    for view in views.values():
        file.write(view)


def _header(file: BufferedReader) -> tuple[Reach, dict[str, list[int]]]:
    start = file.read(_START.size)
    if len(start) < _START.size:
        raise Unusable("it is truncated")
    magic, version, length, checksum = _START.unpack(start)
    if magic != _MAGIC:
        raise Unusable("it does not begin like a snapshot")
    if version != FORMAT:
        raise Unusable(f"its format is {version}, not {FORMAT}")
    header = file.read(length) if length <= LONGEST_HEADER else b""
    if zlib.crc32(header) != checksum:
        raise Unusable("its header is damaged")
    told = json.loads(header)
    if os.fstat(file.fileno()).st_size != _START.size + length + sum(size for size, _ in told["parts"].values()):
        raise Unusable("it has another length than it says")
    return Reach(**told["reach"]), told["parts"]


def _part(file: BufferedReader, length: int, checksum: int) -> bytearray:
    part = bytearray(length)
    if file.readinto(part) != length or zlib.crc32(part) != checksum:
        raise Unusable("it is damaged")
    return part
