"""Copies of the SQLite file: made while it is in use, checked before they count, and put back in its place."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tulving.errors import DamagedStore, InvalidInput, StoreBusy, StoreUnavailable
from tulving.storage.durable_file import make_folder, placed
from tulving.storage.sqlite import database
from tulving.storage.sqlite.errors import named_error

_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that was made and checked."""

    path: Path
    revision: str
    size: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put in place, and where that which was there before is now."""

    revision: str
    replaced: Path | None


def backup(path: Path, copy: Path, busy_timeout: float, force: bool = False) -> Copy:
    """Copy a store as it is at this moment, whoever writes to it. The copy is whole and checked, or not there."""
    if not path.exists():
        raise InvalidInput("store", f"there is no memory at {path}", "the path of a store")
    if copy.is_dir():
        raise InvalidInput("file", f"{copy} is a folder", "the path of a file")
    if copy.exists() and not force:
        raise InvalidInput("file", f"{copy} is there already", "another name, or --force")
    if copy.exists() and copy.samefile(path):
        raise InvalidInput("file", f"{copy} is the store itself", "another name")
    with _errors(path), closing(_opened(path, busy_timeout)) as source:
        return _copy(source, copy, force)


def restore(file: Path, path: Path, busy_timeout: float, now: datetime) -> Restored:
    """Put a copy in the place of a store. It is checked before, and what was there is kept beside it.

    A store that can be read is overwritten in one transaction of SQLite's own, which nobody may watch: as long as
    another process has it open, this is refused.
    """
    if not file.is_file():
        raise InvalidInput("file", f"there is no file {file}", "a backup")
    if path.exists() and file.samefile(path):
        raise InvalidInput("file", f"{file} is the store itself", "a backup")
    with _errors(file), closing(_opened(file, busy_timeout)) as source:
        revision = check_health(file, source)
        if not path.exists():
            make_folder(path.parent)
            return Restored(_copy(source, path, force=False).revision, None)
        replaced = _free_name(path.with_name(f"{path.name}.before-restore-{now:%Y%m%dT%H%M%SZ}"))
        try:
            with closing(_alone(path)) as target:
                _copy(target, replaced, force=False, healthy=False)
                source.backup(target)
        except (DamagedStore, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            _set_aside(path, replaced)
            _copy(source, path, force=False)
        return Restored(revision, replaced)


def check_health(path: Path, raw: sqlite3.Connection) -> str:
    """The revision of a healthy store; raises what is wrong with any other."""
    revision = database.read_revision(path, raw)
    database.check_schema(path, raw, revision)
    raw.execute("PRAGMA trusted_schema = ON")  # it is ours, and its CHECKs need it in older versions of SQLite
    problems = [row[0] for row in raw.execute("PRAGMA integrity_check(5)") if row[0] != "ok"]
    problems += [f"a row of {row[0]} refers to nothing" for row in raw.execute("PRAGMA foreign_key_check").fetchmany(5)]
    if problems:
        raise DamagedStore(f"{path} is damaged: {'; '.join(problems)}")
    return revision


def _copy(source: sqlite3.Connection, copy: Path, force: bool, healthy: bool = True) -> Copy:
    """Beside its place first, then checked, on the disk, and put in place: never over another file unless forced."""
    with placed(copy, force=force) as file:
        partial = Path(file.name)
        try:
            with closing(sqlite3.connect(partial, isolation_level=None)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = WAL")
                revision = check_health(copy, target) if healthy else ""
        finally:
            for leftover in ("-wal", "-shm", "-journal"):
                with suppress(OSError):
                    partial.with_name(partial.name + leftover).unlink(missing_ok=True)
        if force:
            for leftover in ("-wal", "-shm"):  # of the file that is replaced; they would be taken for the new one's
                copy.with_name(copy.name + leftover).unlink(missing_ok=True)
    return Copy(copy, revision, copy.stat().st_size)


def _opened(file: Path, busy_timeout: float) -> sqlite3.Connection:
    database.check_header(file)
    return database.connect(file, busy_timeout, read_only=True)


def _alone(path: Path) -> sqlite3.Connection:
    """A connection beside which there is no other, in any process."""
    database.check_header(path)
    raw = database.connect(path, _PATIENCE)
    try:
        raw.execute("PRAGMA locking_mode = EXCLUSIVE")
        raw.execute("BEGIN EXCLUSIVE")
        raw.execute("COMMIT")  # the lock stays
        return raw
    except sqlite3.OperationalError as error:
        raw.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        raise StoreBusy(
            f"another process has {path} open (a host, `tulving mcp` or `tulving worker`): end it, and restore again"
        ) from error
    except BaseException:
        raw.close()
        raise


def _set_aside(path: Path, replaced: Path) -> None:
    """What can't be read as a store is kept as it is, with what lies beside it."""
    for leftover in ("-wal", "-shm", ""):
        beside = path.with_name(path.name + leftover)
        if beside.exists():
            beside.rename(replaced.with_name(replaced.name + leftover))


def _free_name(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise named_error(error) from error
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(f"can't use {error.filename or path}: {error.strerror or error}") from error
