"""The SQLite file itself: made whole or not at all, migrated under a lock, never opened when damaged."""

import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tulving.errors import DamagedStore, IntegrityError, SchemaTooNew, StoreUnavailable
from tulving.storage.revisions import HEAD, REVISIONS, missing

APPLICATION_ID = 0x54554C56  # "TULV"
OLDEST_SQLITE = (3, 38, 0)
# A row with a vector of 384 numbers fills over half of a usual page of 4096 bytes and would leave the rest empty.
PAGE_SIZE = 8192
_MAGIC = b"SQLite format 3\x00"


def connect(path: Path, busy_timeout: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection with the settings that every one of ours has; transactions are begun by hand."""
    mode = "ro" if read_only else "rw"
    raw = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=busy_timeout,
        check_same_thread=False,
        cached_statements=256,
    )
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("PRAGMA foreign_keys = ON")
    raw.execute("PRAGMA secure_delete = ON")
    raw.execute("PRAGMA temp_store = MEMORY")
    return raw


def prepare(path: Path, busy_timeout: float) -> None:
    """See to it that a healthy store of this version's schema is at the path."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise IntegrityError(f"SQLite {sqlite3.sqlite_version} is too old; Tulving needs {wanted} or newer")
    try:
        if not path.exists():
            _create(path)
        check_header(path)
        # A file that is not ours, or of a newer version, is left alone: reading recovers and checkpoints nothing.
        with closing(connect(path, busy_timeout, read_only=True)) as raw:
            revision = read_revision(path, raw)
        if revision != HEAD:
            with closing(connect(path, busy_timeout)) as raw:
                _migrate(path, raw, revision)
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(f"can't use {path}: {error.strerror or error}") from error


def migrate(path: Path, busy_timeout: float, dry_run: bool) -> tuple[str | None, tuple[str, ...]]:
    """The revision that a file is at (none when there is no file), and those that were applied to it, or would be."""
    before = None
    if path.exists():
        check_header(path)
        with closing(connect(path, busy_timeout, read_only=True)) as raw:
            before = read_revision(path, raw)
    if not dry_run:
        prepare(path, busy_timeout)
    return before, missing(before)


def _create(path: Path) -> None:
    """Made in a folder beside its place and linked into it: a kill leaves no half file, of two makers one wins."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size and not path.exists():
        raise DamagedStore(f"{path} is missing but {log.name} is there: the database was removed from under it")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tulving-new-") as folder:
        fresh = Path(folder) / "memory.db"
        fresh.touch(mode=0o600)
        with closing(sqlite3.connect(fresh, isolation_level=None)) as raw:
            raw.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            raw.execute("PRAGMA journal_mode = WAL")
            _upgrade(raw)
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with fresh.open("rb+") as file:
            os.fsync(file.fileno())
        _put_in_place(fresh, path)
        sync_folder(path.parent)


def _put_in_place(fresh: Path, path: Path) -> None:
    """Never over a file that another maker was first to put there."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        return
    except OSError:
        if not path.exists():  # a file system without links
            fresh.rename(path)


def check_header(path: Path) -> None:
    """Raise unless the file begins as a database does."""
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
    if start != _MAGIC:
        what = "is empty" if not start else "does not start as an SQLite database does"
        raise DamagedStore(f"{path} {what}: not a Tulving store, or a damaged one; it was left untouched")


def read_revision(path: Path, raw: sqlite3.Connection) -> str | None:
    """The revision of a store's schema; raises if it is none of ours, or one that we do not know."""
    (application,) = raw.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise DamagedStore(f"{path} is an SQLite database, but not a Tulving store; it was left untouched")
    try:
        rows = raw.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.OperationalError as error:
        raise DamagedStore(f"{path} has no schema version ({error}); it was left untouched") from error
    revision = rows[0][0] if rows else None
    if revision not in REVISIONS:
        raise SchemaTooNew(
            f"{path} has schema {revision}, newer than this Tulving knows ({HEAD}); install a newer Tulving"
        )
    return revision


def _migrate(path: Path, raw: sqlite3.Connection, revision: str | None) -> None:
    """Under the write lock, so that of two processes one migrates and the other finds it done."""

    def copied() -> bool:
        if read_revision(path, raw) == HEAD:
            return False
        _copy(path, path.with_name(f"{path.name}.before-{HEAD}-from-{revision}"))
        return True

    _upgrade(raw, copied)


def _copy(path: Path, copy: Path) -> None:
    """An online copy of what is committed, whole or not there at all."""
    partial = copy.with_name(copy.name + ".part")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as target:
        source.backup(target)
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(copy)
    sync_folder(copy.parent)


def _upgrade(raw: sqlite3.Connection, still_needed: Callable[[], bool] = lambda: True) -> None:
    from tulving.storage.migrations import upgrade_sqlite

    upgrade_sqlite(raw, still_needed=still_needed)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
