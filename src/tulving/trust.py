"""Trusted folders: a record in the user's data directory, by path and by the hash of the settings file in each."""

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tulving.errors import ConfigError

Folders = dict[str, str | None]
"""The trusted folders, each with the sha256 of its settings file; None for one that had none."""


def key(folder: Path) -> str:
    """The name of a folder in the record: its path without symlinks."""
    return str(folder.resolve())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read(record: Path) -> Folders:
    """The trusted folders; none when there is no record yet."""
    try:
        folders = json.loads(record.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(record, str(error)) from error
    if not isinstance(folders, dict) or not all(isinstance(each, str | None) for each in folders.values()):
        raise _damaged(record, "it is not a list of folders and hashes")
    return folders


def add(record: Path, folder: Path, settings: str | None) -> None:
    """Trust a folder and the settings of this hash in it."""
    with _editing(record) as folders:
        folders[key(folder)] = settings


def remove(record: Path, folder: Path) -> bool:
    """Stop trusting a folder; returns whether it was trusted."""
    with _editing(record) as folders:
        was_there = key(folder) in folders
        folders.pop(key(folder), None)
    return was_there


def _damaged(record: Path, problem: str) -> ConfigError:
    allowed = "a readable record; remove it and run `tulving trust` again in your folders"
    return ConfigError(str(record), f"the record of trusted folders can't be read ({problem})", allowed)


@contextmanager
def _editing(record: Path) -> Iterator[Folders]:
    """Read, change and write under a lock: of two processes, none overwrites the change of the other."""
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    home = os.open(record.parent, os.O_RDONLY)
    try:
        fcntl.flock(home, fcntl.LOCK_EX)
        folders = read(record)
        yield folders
        _write(record, folders)
        os.fsync(home)
    finally:
        os.close(home)


def _write(record: Path, folders: Mapping[str, str | None]) -> None:
    """Replace the record atomically; only its owner can read it."""
    descriptor, name = tempfile.mkstemp(dir=record.parent, prefix=".trusted-")
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(folders, file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(descriptor)
        os.replace(name, record)
    except BaseException:
        os.unlink(name)
        raise
