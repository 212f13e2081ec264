"""A file that is made beside its place and put there when it is complete and on the disk, or not at all."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tulving.errors import DiskFull, InvalidInput, StoreUnavailable, TulvingError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def placed(path: Path, *, force: bool, alone: bool = False) -> Iterator[Path]:
    """An empty file that only its owner can read, to be filled in the block; then it is at the path. A file that is
    there is replaced if forced, else FileExistsError is raised. Whatever goes wrong, nothing of the new one is left.

    It is filled in a folder of its own, because SQLite puts files beside it, under a name that can't be guessed. With
    `alone`, when nothing else can write to the path, the folder has a fixed name and what a killed attempt left is
    removed.
    """
    folder: Path | None = None
    try:
        if alone:
            folder = path.with_name(path.name + ".part")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        else:
            _check(path)
            folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=".tulving-", suffix=".part"))
        file = folder / "file"
        file.touch(mode=0o600)
        yield file
        with file.open("rb+") as whole:
            os.fsync(whole.fileno())
        if force:
            file.replace(path)
        else:
            _link(file, path)
        sync_folder(path.parent)
    except OSError as error:
        if isinstance(error, TulvingError | FileExistsError):
            raise
        if error.errno in _NO_ROOM:
            raise DiskFull(f"no room to write {path} ({error.strerror}); nothing was written") from error
        raise StoreUnavailable(f"can't write {path}: {error.strerror or error}") from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _link(file: Path, path: Path) -> None:
    try:
        os.link(file, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "it is there already", str(path)) from None
        file.rename(path)  # a file system without links


def _check(path: Path) -> None:
    if not path.parent.is_dir():
        raise InvalidInput("file", f"there is no folder {path.parent} for {path}", "a path in a folder that exists")
    if path.is_dir():
        raise InvalidInput("file", f"{path} is a folder", "the path of a file")
    if path.exists() and not path.is_file():
        raise InvalidInput("file", f"{path} is not a regular file", "the path of a file")


def make_folder(folder: Path) -> None:
    """With the folders above it. All their names are on the disk before anything in it counts."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in new:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, how: int) -> Iterator[bool]:
    """Lock a folder against other processes, with `flock`; whether that was possible. A missing one need not be."""
    if not folder.is_dir():
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, how)
            done = True
        except BlockingIOError:
            done = False
        yield done
    finally:
        os.close(descriptor)
