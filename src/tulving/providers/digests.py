"""The sha256 of large files, so that a process need not hash again what has not changed."""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

Entry = list[int | str]
"""Size, time, inode and sha256 of a file."""


class Digests:
    """Digests by path, kept in a file of our own. Where that can't be written, only this process knows them; where it
    can't be read, all is hashed once more.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = self._kept()

    def of(self, path: Path) -> str:
        """The sha256 of a file, hashed only if its size, time or inode is not what was recorded."""
        *state, digest = self._known.get(str(path.resolve())) or [None]
        return str(digest) if state == _state(path) else self.take(path)

    def take(self, path: Path) -> str:
        """The sha256 of a file, hashed now and recorded."""
        # Asked for beforehand, so that a change while it is hashed is noticed the next time.
        state = _state(path)
        digest = sha256(path)
        self._known = {**self._known, **self._kept(), str(path.resolve()): [*state, digest]}
        with suppress(OSError):
            self._keep()
        return digest

    def _kept(self) -> dict[str, Entry]:
        with suppress(OSError, ValueError):
            kept = json.loads(self._file.read_bytes())
            if isinstance(kept, dict):
                return {path: entry for path, entry in kept.items() if isinstance(entry, list)}
        return {}

    def _keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".part", dir=self._file.parent)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(self._known, file, indent=1)
            os.replace(name, self._file)
        except OSError:
            os.unlink(name)
            raise


def sha256(path: Path) -> str:
    """The digest of a file's content, as hexadecimal digits."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _state(path: Path) -> Entry:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]
