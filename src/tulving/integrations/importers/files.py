"""Files of other programs, read piece by piece: what is in memory at a time is one record, not the file."""

import codecs
import json
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tulving.errors import InvalidInput

CHUNK = 1 << 20
LARGEST_RECORD = 256 << 20
"""Bytes of a line, or characters of an element of a JSON array."""
MOST_PACKED, LARGE = 200, 1 << 30
"""A zip archive whose content is so many times larger than itself, and so large, is made to fill a disk."""
_SPACE = re.compile(r"[\s]*")
_NEAR_END = 16
"""An error so few characters before the end of a piece may be due to where the piece ends."""


@dataclass(slots=True)
class Meter:
    """How many bytes are read, of how many."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that can't be read: where it is, and why."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Records that are left out on purpose."""

    reason: str
    count: int = 1


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to be read."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise unreadable(path.name, error) from error


def unreadable(name: str, error: Exception) -> InvalidInput:
    """The error that a file can't be read."""
    reason = getattr(error, "strerror", None) or error
    return InvalidInput("file", f"{name} can't be read: {reason}", "a readable file")


def size(paths: Sequence[Path]) -> int:
    """The bytes of these files."""
    try:
        return sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise unreadable(str(error.filename), error) from error


def lines(path: Path, meter: Meter) -> Iterator[tuple[str, str | Refused]]:
    """The lines of a text, each with its place."""
    with opened(path) as file:
        number = 0
        while line := file.readline(LARGEST_RECORD):
            number += 1
            meter.done += len(line)
            place = f"{path.name}, line {number}"
            if len(line) == LARGEST_RECORD:
                raise InvalidInput("file", f"{place} is too long", f"at most {LARGEST_RECORD:,} bytes")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                yield place, Refused(place, f"is not UTF-8 text ({error.reason})")
            else:
                yield place, text


def json_lines(path: Path, meter: Meter) -> Iterator[tuple[str, Any]]:
    """The values of JSON lines, each with its place; or what is wrong with the line."""
    for place, line in lines(path, meter):
        if isinstance(line, Refused):
            yield place, line
            continue
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            value = Refused(place, f"is not JSON ({error})")
        yield place, value


def elements(name: str, file: IO[bytes], meter: Meter, within: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """The elements of a JSON array, each with its place; the array may be `within` an object, under one of these names.

    A piece of the file is decoded at a time. After an error nothing can be found again, so it is raised.
    """
    text = _Text(name, file, meter)
    if text.peek() == "{" and within:
        text.take("{")
        while text.peek() == '"':
            key = text.value()
            text.take(":")
            if key in within and text.peek() == "[":
                break
            text.value()
            if text.peek() == ",":
                text.take(",")
        else:
            raise InvalidInput("file", f"{name} has no list named {' or '.join(within)}", "an export of the format")
    text.take("[")
    number = 0
    while text.peek() != "]":
        if number:
            text.take(",")
        number += 1
        yield f"{name}, record {number}", text.value()


class _Text:
    """A JSON text of which only a part is in memory."""

    def __init__(self, name: str, file: IO[bytes], meter: Meter) -> None:
        self._name, self._file, self._meter = name, file, meter
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text, self._at, self._before, self._ended = "", 0, 0, False

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            assert space is not None
            self._at = space.end()
            if self._at < len(self._text) or not self._more(CHUNK):
                return self._text[self._at : self._at + 1]

    def take(self, sign: str) -> None:
        """Pass this character, which has to be the next."""
        if (found := self.peek()) != sign:
            raise self._broken(
                f"{sign!r} is expected, not {found!r}" if found else f"it ends where {sign!r} is expected"
            )
        self._at += 1

    def value(self) -> Any:
        """The next value."""
        self.peek()
        more = CHUNK
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_END
                if not cut or not self._more(more):
                    raise self._broken(error.msg, error.pos) from error
            except (ValueError, RecursionError) as error:
                raise self._broken(str(error)) from error
            else:
                if end < len(self._text) or not self._more(more):  # a number may go on
                    self._at = end
                    return value
            more *= 2  # so that a long value is not decoded again for each megabyte of it

    def _more(self, count: int) -> bool:
        """Read on; False at the end."""
        if self._ended:
            return False
        try:
            data = self._file.read(count)
            self._meter.done += len(data)
            self._ended = not data
            text = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise InvalidInput("file", f"{self._name} is not UTF-8 text ({error.reason})", "UTF-8 text") from error
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:  # cut off, damaged
            raise unreadable(self._name, error) from error
        self._before += self._at
        self._text, self._at = self._text[self._at :] + text, 0
        if len(self._text) > LARGEST_RECORD:
            raise self._broken(f"a record is longer than {LARGEST_RECORD:,} characters")
        return True

    def _broken(self, problem: str, at: int | None = None) -> InvalidInput:
        where = self._before + (self._at if at is None else at) + 1
        return InvalidInput("file", f"{self._name}, character {where}: {problem}", "JSON")


def members(path: Path, wanted: re.Pattern[str], meter: Meter) -> Iterator[tuple[str, IO[bytes]]]:
    """A file, or the files of a zip archive or a folder whose names (without folders) are wanted. Nothing is
    unpacked to the disk."""
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if wanted.fullmatch(each.name) and each.is_file())
        meter.total += size(found)
        for each in found:
            with opened(each) as file:
                yield each.name, file
    elif zipfile.is_zipfile(path):
        with closing(_archive(path)) as archive:
            parts = [each for each in archive.infolist() if wanted.fullmatch(each.filename.rsplit("/", 1)[-1])]
            found = sorted(parts, key=lambda each: each.filename)
            meter.total += sum(each.file_size for each in found)
            for each in found:
                if each.file_size > max(LARGE, MOST_PACKED * each.compress_size):
                    raise InvalidInput(
                        "file", f"{each.filename} in {path.name} would unpack to {each.file_size:,} bytes"
                    )
                try:
                    file = archive.open(each)
                except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                    raise unreadable(f"{each.filename} in {path.name}", error) from error
                with file:
                    yield each.filename, file
    else:
        found = [path]
        meter.total += size(found)
        with opened(path) as file:
            yield path.name, file
    if not found:
        raise InvalidInput("file", f"{path.name} holds no {wanted.pattern}", "an export, or the zip or folder of one")


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise unreadable(path.name, error) from error


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database."""
    with opened(path) as file:
        return file.read(16) == b"SQLite format 3\0"


def rows(path: Path, sql: str, meter: Meter) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a query on a SQLite database, which is only read, each with its place."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
            [[count]] = conn.execute(f"SELECT COUNT(*) FROM ({sql})")
            before, whole = meter.done, size([path])
            meter.total += whole
            found = conn.execute(sql)
            names = [column[0] for column in found.description]
            for number, row in enumerate(found, 1):
                meter.done = before + whole * number // count
                yield f"{path.name}, row {number}", dict(zip(names, row, strict=True))
    except sqlite3.Error as error:
        raise unreadable(path.name, error) from error
