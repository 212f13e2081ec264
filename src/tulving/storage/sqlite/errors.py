"""Translates errors of the SQLite driver into ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from tulving.errors import DamagedStore, DiskFull, IntegrityError, StoreBusy, StoreUnavailable, TulvingError

DRIVER_ERRORS = (sqlite3.Error, UnicodeError)


@contextmanager
def named_errors() -> Iterator[None]:
    """Translate the driver's errors in the block into ours."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise named_error(error) from error


def named_error(error: sqlite3.Error | UnicodeError) -> TulvingError:
    """The driver's error as one of ours."""
    if isinstance(error, UnicodeDecodeError):
        return DamagedStore(f"the database file is damaged: a stored text can't be read ({error})")
    if isinstance(error, UnicodeError):
        return IntegrityError(f"a text that is not valid Unicode can't be stored ({error})")
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DamagedStore(f"the database file is damaged ({error}) and will not be written to; restore a backup")
    if primary == sqlite3.SQLITE_FULL:
        return DiskFull(f"the disk is full ({error}); nothing was stored, free some space and try again")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"another process is holding the write lock ({error}); try again")
    if primary == sqlite3.SQLITE_CONSTRAINT or isinstance(error, sqlite3.IntegrityError):
        return IntegrityError(f"the store refused a change that would break it ({error})")
    if primary in (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
    ):
        return StoreUnavailable(f"the database file can't be used ({error})")
    return IntegrityError(f"unexpected database error ({error})")
