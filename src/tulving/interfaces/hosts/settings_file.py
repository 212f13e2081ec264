"""A settings file of another program, changed with care: shown first, backed up, replaced in one step."""

import difflib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tulving.errors import InvalidInput
from tulving.storage.durable_file import make_folder, placed

PRIVATE = 0o600
"""The mode of a new file: it may name a server with its password."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a file. `before` is None if there is none."""

    path: Path
    before: str | None
    after: str

    @property
    def empty(self) -> bool:
        """Whether nothing would change."""
        return self.after == (self.before or "")

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        name = str(self.path)
        lines = difflib.unified_diff(
            (self.before or "").splitlines(), self.after.splitlines(), name if self.before is not None else "new", name
        )
        return "\n".join(line.rstrip("\n") for line in lines)


def propose(path: Path, edit: Callable[[str], str]) -> Change:
    """The change that an edit of a file's text would make. A file that can't be read is refused, and stays as it is."""
    try:
        before = path.read_bytes().decode()
    except FileNotFoundError:
        before = None
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 at byte {error.start}"
        raise InvalidInput(str(path), problem, "a text file; nothing was changed") from None
    try:
        return Change(path, before, edit(before or ""))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.field}", error.problem, error.allowed) from None


def carry_out(change: Change) -> Path | None:
    """Write a change; returns where the file as it was before is kept. A link stays a link, and the mode and owner stay
    the same."""
    target = change.path.resolve()
    backup = back_up(change)
    if change.before is None:
        make_folder(target.parent)
    known = target.stat() if change.before is not None else None
    with placed(target, force=True) as file:
        file.write_bytes(change.after.encode())
        _set_owner(file, known)
    return backup


def back_up(change: Change) -> Path | None:
    """A copy beside the file that is to be changed, under a name that was free; None if there is no file. Raises if it
    is no longer what the change was made from."""
    target, number = change.path.resolve(), 0
    if propose(target, lambda text: text).before != change.before:
        raise InvalidInput(str(change.path), "has changed in the meantime", "another try; nothing was written")
    while change.before is not None:
        backup = target.with_name(f"{target.name}.bak{f'.{number}' if number else ''}")
        try:
            with placed(backup, force=False) as file:
                file.write_bytes(change.before.encode())
                _set_owner(file, target.stat())
            return backup
        except FileExistsError:
            number += 1
    return None


def _set_owner(file: Path, known: os.stat_result | None) -> None:
    file.chmod(stat.S_IMODE(known.st_mode) if known else PRIVATE)
    if known:
        with suppress(PermissionError):  # only an administrator may give a file away
            os.chown(file, known.st_uid, known.st_gid)
