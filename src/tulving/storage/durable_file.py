"""A file that is written beside its place and put there when it is whole and on the disk, or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tulving.errors import DiskFull, InvalidInput, StoreUnavailable, TulvingError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def placed(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A new file to fill in the block, under a name that nobody can foresee and for its owner only; then it is at the
    path, over what was there only if forced. Whatever goes wrong, nothing of it is left."""
    unfinished: Path | None = None
    try:
        _check(path)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".tulving-", suffix=".part", delete=False) as file:
            unfinished = Path(file.name)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            unfinished.replace(path)
        else:
            _link(unfinished, path)
        sync_folder(path.parent)
    except OSError as error:
        if isinstance(error, TulvingError):
            raise
        if error.errno in _NO_ROOM:
            raise DiskFull(f"no room to write {path} ({error.strerror}); nothing was written") from error
        raise StoreUnavailable(f"can't write {path}: {error.strerror or error}") from error
    finally:
        if unfinished is not None:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def _check(path: Path) -> None:
    if not path.parent.is_dir():
        raise InvalidInput("file", f"there is no folder {path.parent} for {path}", "a path in a folder that exists")
    if path.is_dir():
        raise InvalidInput("file", f"{path} is a folder", "the path of a file")
    if path.exists() and not path.is_file():
        raise InvalidInput("file", f"{path} is not a regular file", "the path of a file")


def _link(unfinished: Path, path: Path) -> None:
    try:
        os.link(unfinished, path)
    except OSError as error:
        if path.exists():
            raise InvalidInput("file", f"{path} is there already", "another name, or --force") from error
        unfinished.rename(path)  # a file system without links


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
