"""Copies of the SQLite file: made while it is in use, checked before they count, and put back in its place."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tulving.errors import DamagedStore, InvalidInput, StoreBusy, StoreUnavailable
from tulving.storage.durable_file import make_folder
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
    """What was put in place, and where the store that was there before is now."""

    revision: str
    replaced: Path | None


def backup(
    path: Path,
    copy: Path,
    busy_timeout: float,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Copy:
    """Copy a store as it is at this moment, also while others write to it. The copy is complete and checked, or not
    there."""
    if copy.exists() and not force:
        raise InvalidInput("file", f"{copy} is there already", "another name, or --force")
    if copy.exists() and copy.samefile(path):
        raise InvalidInput("file", f"{copy} is the store itself", "another name")
    with _opened(path, busy_timeout) as source:
        revision = database.copy(source, copy, force=force, check=partial(check_health, copy), progress=progress)
    return Copy(copy, revision, copy.stat().st_size)


def restore(file: Path, path: Path, busy_timeout: float, now: datetime) -> Restored:
    """Put a copy in the place of a store. It is checked before, and what was there is kept beside it.

    A store that can be read is overwritten in one transaction of SQLite's own. That is refused as long as another
    process has it open.
    """
    if not file.is_file():
        raise InvalidInput("file", f"there is no file {file}", "a backup")
    if path.exists() and file.samefile(path):
        raise InvalidInput("file", f"{file} is the store itself", "a backup")
    found, replaced = path.exists(), path.with_name(f"{path.name}.before-restore-{now:%Y%m%dT%H%M%S.%fZ}")
    with _opened(file, busy_timeout) as source:
        revision = check_health(file, source)
        if found:
            try:
                with _alone(path) as target:
                    database.copy(target, replaced)
                    with _whole(source, path.parent) as whole:
                        whole.backup(target)
                return Restored(revision, replaced)
            except (DamagedStore, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
        _set_aside(path, replaced)
        make_folder(path.parent)
        database.copy(source, path, check=partial(check_health, path))
        return Restored(revision, replaced if found else None)


@contextmanager
def _whole(source: sqlite3.Connection, folder: Path) -> Iterator[sqlite3.Connection]:
    """A store with its archive inside: a backup as it is, a store with files beside it as a copy in this folder."""
    if not database.segments_beside(source):
        yield source
        return
    with TemporaryDirectory(dir=folder, prefix=".tulving-", suffix=".part") as place:
        database.copy(source, Path(place) / "whole")
        with closing(sqlite3.connect(Path(place) / "whole")) as raw:
            yield raw


def check_health(path: Path, raw: sqlite3.Connection) -> str:
    """The revision of a store whose content is sound; raises what is wrong with any other."""
    problems = [row[0] for row in raw.execute("PRAGMA integrity_check(5)") if row[0] != "ok"]
    problems += [f"a row of {row[0]} refers to nothing" for row in raw.execute("PRAGMA foreign_key_check").fetchmany(5)]
    if problems:
        raise DamagedStore(f"{path} is damaged: {'; '.join(problems)}")
    return database.read_revision(path, raw)


@contextmanager
def _opened(file: Path, busy_timeout: float) -> Iterator[sqlite3.Connection]:
    """A store of ours, to be read. What goes wrong in the block is told in our words."""
    try:
        database.check_header(file)
        with closing(database.connect(file, busy_timeout, read_only=True)) as raw:
            database.check_schema(file, raw, database.read_revision(file, raw))
            raw.execute("PRAGMA trusted_schema = ON")  # it is ours, and its CHECKs need it in older versions of SQLite
            yield raw
    except sqlite3.Error as error:
        raise named_error(error) from error
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(f"can't use {error.filename or file}: {error.strerror or error}") from error


@contextmanager
def _alone(path: Path) -> Iterator[sqlite3.Connection]:
    """The only connection to a store, in any process."""
    database.check_header(path)
    with closing(database.connect(path, _PATIENCE)) as raw:
        try:
            raw.execute("PRAGMA locking_mode = EXCLUSIVE")
            raw.execute("BEGIN EXCLUSIVE")
            raw.execute("COMMIT")  # the lock stays
        except sqlite3.OperationalError as error:
            if not isinstance(named_error(error), StoreBusy):
                raise
            who = "a host, `tulving mcp` or `tulving worker`"
            raise StoreBusy(f"another process has {path} open ({who}): end it, and restore again") from error
        yield raw


def _set_aside(path: Path, replaced: Path) -> None:
    """Keep what can't be read as a store as it is, with what SQLite put beside it, be it all that is left."""
    for suffix in ("-wal", "-shm", ".work", ""):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(replaced.with_name(replaced.name + suffix))
