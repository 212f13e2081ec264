"""The file that a store has open: whether it still is the one at its path, and how long its log has grown."""

import logging
import sqlite3
from pathlib import Path

from tulving.errors import StoreUnavailable
from tulving.ports import Finding
from tulving.storage.sqlite import database

log = logging.getLogger("tulving")

LONG_LOG = 2 * database.LOG_LIMIT
PATIENCE, SHORT_PATIENCE = 1.0, 0.05
"""Seconds that maintenance, and the writer beside its work, wait for readers before they leave the log as it is."""


class Place:
    """Made when the file has just been opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.frozen = database.is_frozen(path)
        self._opened = self._found()
        self._trim_at = LONG_LOG

    def check(self) -> None:
        """Raise unless the file that is open is the one at the path: what is written to another is lost to all."""
        if self._found() != self._opened:
            what = "changed, though it could only be read," if self.frozen else "replaced by another file"
            raise StoreUnavailable(f"{self.path} was {what} while it was open; open it again")

    def check_writable(self) -> None:
        if self.frozen:
            raise StoreUnavailable(f"{self.path} can only be read: its folder is read-only")

    def truncate_log(self, patience: float = PATIENCE) -> bool:
        """Empty the log, which keeps what was deleted; False if a reader holds it."""
        return not database.log_size(self.path) or database.truncate_log(self.path, patience)

    def trim_log(self) -> None:
        """Empty a log that grows because readers take turns. One that a reader holds is left alone until it is twice
        as long."""
        if (size := database.log_size(self.path)) <= self._trim_at:
            return
        try:
            done = self.truncate_log(SHORT_PATIENCE)
        except (OSError, sqlite3.Error) as error:
            log.warning("%s-wal has %d bytes and could not be emptied: %s", self.path, size, error)
            done = False
        self._trim_at = LONG_LOG if done else 2 * size

    def health(self) -> list[Finding]:
        """What a person who runs the memory should know."""
        self.check()
        size = database.log_size(self.path)
        left = database.unmoved_pages(self.path) if size else 0
        note = f"SQLite {sqlite3.sqlite_version}, {self.path.stat().st_size} bytes" + ", read-only" * self.frozen
        held = f"has {size} bytes and can't be emptied: a process has been reading since {left} pages ago"
        return [
            Finding("database file", note=note),
            Finding("write-ahead log", (held,) if left and size > LONG_LOG else (), f"{size} bytes"),
        ]

    def _found(self) -> tuple[int, ...]:
        """Which file is at the path now; of one that can't change, also whether it did."""
        try:
            file = self.path.stat()
        except OSError as error:
            raise StoreUnavailable(f"{self.path} was removed while it was open ({error.strerror})") from error
        identity = file.st_dev, file.st_ino
        return (*identity, file.st_size, file.st_mtime_ns, database.log_size(self.path)) if self.frozen else identity
