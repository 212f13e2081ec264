"""The bodies of the timeline's segments: files beside a SQLite database, or rows of the manifest."""

import fcntl
import shutil
import threading
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path
from uuid import UUID

from tulving.domain.segments import Contents, DamagedSegment, Segment, unpack
from tulving.errors import StoreUnavailable
from tulving.storage.durable_file import locked, make_folder, placed

SUFFIX = ".segment"
ASIDE = ".damaged"
MOST_UNPACKED = 64
"""So many of the segments that were read last are kept unpacked."""


class Segments:
    """The segments of a store as one process knows them. Without a folder their bodies are in the manifest."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.outdated = False
        """Whether there may be files to sweep, once what has replaced them is committed."""
        self._unpacked: OrderedDict[tuple[str, UUID, str], Contents] = OrderedDict()
        self._sound: set[tuple[str, UUID, str]] = set()
        self._lock = threading.Lock()

    def known(self, segment: Segment) -> Contents | None:
        """The contents of a segment that was read before."""
        with self._lock:
            found = self._unpacked.get(_key(segment))
            if found is not None:
                self._unpacked.move_to_end(_key(segment))
            return found

    def is_sound(self, segment: Segment) -> bool:
        """Whether this process has read it whole."""
        return _key(segment) in self._sound

    def read(self, segment: Segment, body: bytes | None) -> Contents:
        """The contents of a segment, from its body in the manifest or from its file."""
        if body is None:
            body = self._file(segment)
        found = unpack(body, segment.checksum)
        with self._lock:
            self._unpacked[_key(segment)] = found
            self._sound.add(_key(segment))
            while len(self._unpacked) > MOST_UNPACKED:
                self._unpacked.popitem(last=False)
        return found

    def put(self, segment: Segment, body: bytes) -> bytes | None:
        """Write a new file and bring it to the disk; without a folder, what the manifest is to hold."""
        if self._folder is None:
            return body
        try:
            make_folder(self._folder)
        except OSError as error:
            raise StoreUnavailable(f"can't use {self._folder}: {error.strerror or error}") from error
        with placed(self._folder / segment.name, force=True, alone=True) as file:
            file.write_bytes(body)
        return None

    def set_aside(self, segment: Segment) -> None:
        """Rename a damaged file, for a person to look at."""
        if self._folder is not None and (file := self._folder / segment.name).exists():
            file.replace(file.with_name(file.name + ASIDE))

    def sweep(self, named: Collection[str]) -> int:
        """Delete all files but those of the manifest, set aside or not; returns how many. To be called inside a
        writing transaction: other processes write a file within theirs, so none is about to be named."""
        if self._folder is None or not self._folder.is_dir():
            self.outdated = False
            return 0
        with locked(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
            if not alone:  # a backup is being made; another sweep deletes them
                return 0
            self.outdated = False
            return self._swept(self._folder, named)

    def _swept(self, folder: Path, named: Collection[str]) -> int:
        files = [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{SUFFIX}{ASIDE}")]
        stray = [file for file in files if file.name.removesuffix(ASIDE) not in named]
        for file in stray:
            file.unlink(missing_ok=True)
        for unfinished in folder.glob("*.part"):
            shutil.rmtree(unfinished, ignore_errors=True)
        return len(stray)

    def _file(self, segment: Segment) -> bytes:
        if self._folder is None:
            raise DamagedSegment("its body is missing")
        try:
            return (self._folder / segment.name).read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DamagedSegment(f"its file can't be read ({error.strerror or error})") from error


def _key(segment: Segment) -> tuple[str, UUID, str]:
    """Not by its generation: that of a transaction that was rolled back is used again, for other contents."""
    return segment.tenant_id, segment.id, segment.checksum
