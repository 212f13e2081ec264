"""The open file of a store: whether it is still the one at its path, and how long its log is."""

import logging
import os
import sqlite3
from pathlib import Path

from tulving.errors import StoreUnavailable
from tulving.ports import Finding
from tulving.storage.sqlite import database

log = logging.getLogger("tulving")

LONG_LOG = 2 * database.LOG_LIMIT
PATIENCE, SHORT_PATIENCE = 1.0, 0.05
"""Seconds that maintenance, and the writer between commits, wait for readers before they give up on the log."""


class Place:
    """To be created right after the file is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.frozen = database.is_frozen(path)
        self._opened = self._found()
        self._trim_at = LONG_LOG

    def check(self) -> None:
        """Raise unless the open file is still the one at the path: writes to a replaced file would be lost."""
        if self._found() != self._opened:
            what = "changed, though it could only be read," if self.frozen else "replaced by another file"
            raise StoreUnavailable(f"{self.path} was {what} while it was open; open it again")

    def check_writable(self) -> None:
        if self.frozen:
            raise StoreUnavailable(f"{self.path} can only be read: its folder is read-only")

    def truncate_log(self, patience: float = PATIENCE) -> bool:
        """Truncate the log, which may hold deleted content; False if a reader holds it."""
        return not database.log_size(self.path) or database.truncate_log(self.path, patience)

    def compact(self, whole: bool) -> bool:
        """Give free space back to the file system, and truncate the log; False if a reader holds it.

        Another process that is writing is left alone: the space is free for what is stored next.
        """
        try:
            if whole:
                database.rewrite(self.path, PATIENCE)
            else:
                database.give_back(self.path, PATIENCE)
        except sqlite3.OperationalError as error:
            log.warning("%s could not be shortened: %s", self.path, error)
        return self.truncate_log()

    def trim_log(self) -> None:
        """Truncate a log that keeps growing because of overlapping readers. If a reader holds it, the next attempt
        waits until it is twice as long."""
        if (size := database.log_size(self.path)) <= self._trim_at:
            return
        try:
            done = self.truncate_log(SHORT_PATIENCE)
        except (OSError, sqlite3.Error) as error:
            log.warning("%s-wal has %d bytes and could not be truncated: %s", self.path, size, error)
            done = False
        self._trim_at = LONG_LOG if done else 2 * size

    def health(self) -> list[Finding]:
        """What an operator should know about the file and its log."""
        self.check()
        size = database.log_size(self.path)
        left = database.unmoved_pages(self.path) if size else 0
        note = f"SQLite {sqlite3.sqlite_version}, {self.path.stat().st_size} bytes" + ", read-only" * self.frozen
        held = f"has {size} bytes and can't be truncated: a process holds a snapshot from {left} pages ago"
        return [
            Finding("database file", note=note),
            Finding("write-ahead log", (held,) if left and size > LONG_LOG else (), f"{size} bytes"),
        ]

    def _found(self) -> tuple[int, ...]:
        """Identifies the file at the path; for a read-only one also its state, to notice a change."""
        try:
            file = os.stat(self.path)
        except OSError as error:
            raise StoreUnavailable(f"{self.path} was removed while it was open ({error.strerror})") from error
        identity = file.st_dev, file.st_ino
        return (*identity, file.st_size, file.st_mtime_ns, database.log_size(self.path)) if self.frozen else identity
