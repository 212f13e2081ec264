"""The sha256 of large files, so that a process need not hash again what has not changed."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

Entry = list[int | str]
"""Size, modification time, inode and sha256 of a file."""


class Digests:
    """Digests by path, recorded in a JSON file. Where it can't be written, only this process knows them; where it can't
    be read, torn by a concurrent write for example, the files are hashed again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Entry] = {}

    def of(self, path: Path) -> str:
        """The sha256 of a file, hashed only if its size, time or inode is not what was recorded."""
        *state, digest = {**self._recorded(), **self._known}.get(str(path.resolve())) or [None]
        return str(digest) if state == _state(path) else self.take(path)

    def take(self, path: Path) -> str:
        """The sha256 of a file, hashed now and recorded."""
        # Read before hashing, so that a change during the hashing is noticed the next time.
        state = _state(path)
        digest = sha256(path)
        self._known[str(path.resolve())] = [*state, digest]
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps({**self._recorded(), **self._known}, indent=1))
        return digest

    def _recorded(self) -> dict[str, Entry]:
        with suppress(OSError, ValueError):
            recorded = json.loads(self._file.read_bytes())
            if isinstance(recorded, dict):
                return {path: entry for path, entry in recorded.items() if isinstance(entry, list)}
        return {}


def sha256(path: Path) -> str:
    """The digest of a file's content, as hexadecimal digits."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _state(path: Path) -> Entry:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]
