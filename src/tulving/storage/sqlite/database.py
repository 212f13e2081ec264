"""The SQLite file: created atomically, migrated under a lock, never opened when damaged."""

import fcntl
import hashlib
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tulving.errors import DamagedStore, IntegrityError, StoreBusy, StoreUnavailable
from tulving.storage.durable_file import locked, make_folder, placed, sync_folder
from tulving.storage.schema import HEAD, REVISIONS, known, migration, missing

APPLICATION_ID = 0x54554C56  # "TULV"
OLDEST_SQLITE = (3, 38, 0)
# A row with a vector of 384 dimensions fills over half of a default page of 4096 bytes and would waste the rest.
PAGE_SIZE = 8192
LOG_LIMIT = 16 * 1024 * 1024
"""The length to which the write-ahead log is truncated when it restarts; without readers it has half of this."""
GIVEN_BACK_AT_A_TIME = 1000
STEPS_BETWEEN_LOOKS = 10_000
_MADE_BY_OTHERS = re.compile("^alembic_version$|_fts_(config|data|docsize|idx)$")
_MAGIC = b"SQLite format 3\x00"


def connect(path: Path, busy_timeout: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection with our common settings; transactions are begun explicitly."""
    mode = "ro" if read_only else "rw"
    if is_frozen(path):
        mode = "ro&immutable=1"
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
    raw.execute("PRAGMA cell_size_check = ON")
    raw.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
    if read_only:
        # Not for writing and checking: older versions of SQLite do not trust the JSON functions of our CHECKs.
        raw.execute("PRAGMA trusted_schema = OFF")
        if sys.version_info >= (3, 12):
            raw.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return raw


def is_frozen(path: Path) -> bool:
    """Whether it is a cleanly closed store that can't change: it has no log, and none can be written."""
    return not os.access(path.parent, os.W_OK) and path.exists() and not _log(path).exists()


def work_folder(path: Path) -> Path:
    """The folder of what lies beside a store's file."""
    return path.with_name(f"{path.name}.work")


def timeline_folder(path: Path) -> Path:
    """The folder of a store's archived episodes."""
    return work_folder(path) / "timeline"


def log_size(path: Path) -> int:
    """The size of a store's write-ahead log in bytes; 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def unmoved_pages(path: Path) -> int:
    """How many pages of the log can't be checkpointed yet, because a reader needs an older snapshot.

    Runs a passive checkpoint, which does not wait for readers.
    """
    with closing(connect(path, 0)) as raw:
        _, logged, moved = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return logged - moved


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def truncate_log(path: Path, patience: float) -> bool:
    """Checkpoint and truncate the write-ahead log; False if a reader held it for longer than `patience`.

    The log keeps deleted content until it is overwritten. Writers are blocked while this waits.
    """
    with closing(connect(path, patience)) as raw:
        busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def give_back(path: Path, patience: float) -> None:
    """Give free pages back to the file system, some at a time, so that writers need not wait for long.

    A file that was created without `auto_vacuum` keeps them until it is rewritten.
    """
    with closing(connect(path, patience)) as raw:
        left = _free_pages(raw)
        while left:
            raw.execute(f"PRAGMA incremental_vacuum({GIVEN_BACK_AT_A_TIME})").fetchall()
            left, before = _free_pages(raw), left
            if left >= before:
                return


def rewrite(path: Path, patience: float) -> None:
    """Write the whole file anew without gaps. Readers go on, writers wait."""
    with closing(connect(path, patience)) as raw:
        raw.execute("PRAGMA temp_store = FILE")  # the whole content would not fit into memory
        raw.execute("PRAGMA auto_vacuum = INCREMENTAL")
        raw.execute("VACUUM")


def _free_pages(raw: sqlite3.Connection) -> int:
    return raw.execute("PRAGMA freelist_count").fetchone()[0]


def prepare(path: Path, busy_timeout: float) -> None:
    """Ensure a healthy store with this version's schema at the path: create or migrate it."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise IntegrityError(f"SQLite {sqlite3.sqlite_version} is too old; Tulving needs {wanted} or newer")
    try:
        if not path.exists():
            _create(path)
        check_header(path)
        # Read-only, so that a foreign file or one of a newer version is neither recovered nor checkpointed.
        with closing(connect(path, busy_timeout, read_only=True)) as raw:
            raw.execute("BEGIN")
            revision = read_revision(path, raw)
            check_schema(path, raw, revision)
        if revision != HEAD:
            if is_frozen(path):
                raise StoreUnavailable(
                    f"{path} has schema {revision} and its folder is read-only, so it can't be migrated to {HEAD}:"
                    " copy it to a writable folder"
                )
            with closing(connect(path, busy_timeout)) as raw:
                _migrate(path, raw)
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(f"can't use {path}: {error.strerror or error}") from error


def migrate(path: Path, busy_timeout: float, dry_run: bool) -> tuple[str | None, tuple[str, ...]]:
    """The revision of a file (None if missing), and those that were applied to it, or would be in a dry run."""
    before = None
    if path.exists():
        check_header(path)
        with closing(connect(path, busy_timeout, read_only=True)) as raw:
            before = read_revision(path, raw)
    if not dry_run:
        prepare(path, busy_timeout)
    return before, missing(before)


def _create(path: Path) -> None:
    """A kill leaves no partial file, and of two processes that create it one wins."""
    if log_size(path) and not path.exists():
        raise DamagedStore(f"{path} is missing but {_log(path).name} is there: the database was removed from under it")
    make_folder(path.parent)
    with (
        suppress(FileExistsError),
        placed(path, force=False) as file,
        closing(sqlite3.connect(file, isolation_level=None)) as raw,
    ):
        raw.execute("PRAGMA temp_store = MEMORY")  # no temporary files elsewhere
        raw.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        raw.execute("PRAGMA auto_vacuum = INCREMENTAL")
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA journal_mode = WAL")
        with raw:
            raw.execute("BEGIN")
            _upgrade(raw, REVISIONS)
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sync_folder(path.parent)  # the process that won may not have done so yet


def check_header(path: Path) -> None:
    """Raise unless the file has the header of an SQLite database."""
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
    if start != _MAGIC:
        what = "is empty" if not start else "does not have the header of an SQLite database"
        raise DamagedStore(f"{path} {what}: not a Tulving store, or a damaged one; it was left untouched")


def read_revision(path: Path, raw: sqlite3.Connection) -> str:
    """The revision of a store's schema; raises if the file is not a store or its revision is unknown."""
    (application,) = raw.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise DamagedStore(f"{path} is an SQLite database, but not a Tulving store; it was left untouched")
    try:
        rows = raw.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.OperationalError as error:
        raise DamagedStore(f"{path} has no schema version ({error}); it was left untouched") from error
    return known(str(path), rows[0][0] if rows else None)


def check_schema(path: Path, raw: sqlite3.Connection, revision: str) -> None:
    """Raise unless the schema of a store is exactly what our migrations create: a trigger or view in a file from an
    untrusted source would run with our rights."""
    if strange := strange_objects(raw, revision):
        raise DamagedStore(
            f"{path} has a schema that Tulving did not create ({'; '.join(strange)}); it was left untouched."
            " Remove what is foreign (DROP ...), or restore a copy"
        )


def strange_objects(raw: sqlite3.Connection, revision: str) -> list[str]:
    """How a schema differs from what our migrations create. They are run only if the digest differs."""
    found = _schema(raw)
    if revision == HEAD and _digest(found) == migration(HEAD).DIGEST:
        return []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        _upgrade(model, REVISIONS[: REVISIONS.index(revision) + 1])
        made = _schema(model)
    return [
        f"{type_} {name} {'is foreign' if key not in made else 'is missing' if key not in found else 'was changed'}"
        for key in sorted(found.keys() | made.keys())
        if found.get(key) != made.get(key)
        for type_, name in [key]
    ]


def _schema(raw: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """The schema without the statistics of ANALYZE. The SQL of tables that FTS5 and Alembic create depends on their
    versions: of those only the existence is compared."""
    schema: dict[tuple[str, str], str] = {}
    for type_, name, table, page, sql in raw.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema"):
        stored = type_ == "table" and page
        if not (stored and name in ("sqlite_stat1", "sqlite_stat4")):
            words = "stored" if stored and _MADE_BY_OTHERS.search(name) else " ".join((sql or "").split())
            schema[type_, name] = f"{table}: {words}"
    return schema


def _digest(schema: dict[tuple[str, str], str]) -> str:
    return hashlib.sha256(repr(sorted(schema.items())).encode()).hexdigest()


def _migrate(path: Path, raw: sqlite3.Connection) -> None:
    """Migrate under the write lock: of two processes one migrates and the other finds it done. A kill leaves the file
    unchanged."""
    with raw:
        raw.execute("BEGIN IMMEDIATE")
        revision = read_revision(path, raw)
        if revision != HEAD:
            with closing(sqlite3.connect(path)) as source:
                copy(source, path.with_name(f"{path.name}.before-{HEAD}-from-{revision}"), force=True, alone=True)
            _upgrade(raw, missing(revision))


def copy(
    source: sqlite3.Connection,
    place: Path,
    *,
    force: bool = False,
    alone: bool = False,
    check: Callable[[sqlite3.Connection], Any] = lambda raw: None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Put what is committed into a file of its own, also while others write to the source; what `check` makes of it.

    Free pages are left out, and archived episodes are put in. The arguments are those of `placed`; `progress` is told
    how many bytes are written, and of about how many.
    """
    with placed(place, force=force, alone=alone) as file:
        with _watched(source, file, progress):
            _copy(source, file)
        with closing(sqlite3.connect(file, isolation_level=None)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
            checked = check(raw)
        if force:
            for suffix in ("-wal", "-shm", "-journal"):  # of the file that is replaced; they must not outlive it
                place.with_name(place.name + suffix).unlink(missing_ok=True)
    return checked


@contextmanager
def _watched(source: sqlite3.Connection, file: Path, progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Tell how far the file has grown while SQLite copies. The driver drops what is raised meanwhile, such as by
    Ctrl-C, and only ends the statement: it is raised here."""
    if progress is None:
        yield
        return
    numbers = (source.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count"))
    page, pages, free = numbers
    total, raised = page * (pages - free), list[BaseException]()

    def look() -> bool:
        try:
            progress(min(file.stat().st_size, total), total)
        except BaseException as error:
            raised.append(error)
        return bool(raised)

    source.set_progress_handler(look, STEPS_BETWEEN_LOOKS)
    try:
        yield
    except sqlite3.OperationalError:
        if raised:
            raise raised[0] from None
        raise
    finally:
        source.set_progress_handler(None, 0)


def _copy(source: sqlite3.Connection, file: Path) -> None:
    """Copy the file and the segments that it names. These are kept until then, unless their folder is new."""
    folder = timeline_folder(Path(source.execute("PRAGMA database_list").fetchone()[2]))
    for _ in range(2):
        file.write_bytes(b"")
        with locked(folder, fcntl.LOCK_SH):
            source.execute("VACUUM INTO ?", (str(file),))
            with closing(sqlite3.connect(file, isolation_level=None)) as raw:
                if _take_segments(source, raw, folder):
                    return
    raise StoreBusy(f"the archive in {folder} changed while it was copied; try again")


def _take_segments(source: sqlite3.Connection, copy: sqlite3.Connection, folder: Path) -> bool:
    """Put the segments of a store into a copy of its file; False if one was written anew since it was copied."""
    for key in segments_beside(copy):
        _, id_, generation = key
        try:
            body = (folder / f"{id_}-{generation}.segment").read_bytes()
        except OSError:
            if key not in segments_beside(source):
                return False
            continue  # it is damaged, and stays so
        copy.execute(
            "UPDATE timeline_segments SET body = ? WHERE tenant_id = ? AND id = ? AND generation = ?", (body, *key)
        )
    return True


def segments_beside(raw: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """The segments of a store that are files: the tenant, id and generation of each."""
    if not raw.execute("SELECT 1 FROM sqlite_schema WHERE name = 'timeline_segments'").fetchone():
        return []
    return raw.execute("SELECT tenant_id, id, generation FROM timeline_segments WHERE body IS NULL").fetchall()


def _upgrade(raw: sqlite3.Connection, revisions: Sequence[str]) -> None:
    from tulving.storage.migrations import upgrade_sqlite

    upgrade_sqlite(raw, revisions)
