"""An export: a header and then one row a line, as JSON."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from tulving.errors import IntegrityError, InvalidInput
from tulving.storage import embeddings, foreign_rows, moving, verification
from tulving.storage.connection import Connection
from tulving.storage.rows import Row

FORMAT = "tulving-export-1"
_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"tulving-export')
Progress = Callable[[int, int, str], None]
"""Told how many rows are done, of how many, and of what."""


def plain(value: Any) -> str:
    """A vector, time or id as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=plain).encode


def write(conn: Connection, path: Path, tenant_id: str | None, progress: Progress) -> dict[str, int]:
    """Export one tenant, whose rows then do not name it, or all; counts per table. The header names the embedder that
    made the vectors. The file is begun here, since a transaction may be run again."""
    active = embeddings.active_version(conn)
    embedder = [active["model"], active["version"], active["dimension"]] if active else None
    counts, totals = dict.fromkeys(moving.MOVED, 0), moving.count(conn, tenant_id)
    done, total = 0, sum(totals.values())
    with path.open("w", encoding="utf-8") as file:
        file.write(_encode({"format": FORMAT, "all_tenants": tenant_id is None, "embedder": embedder}) + "\n")
        for table, moved in moving.MOVED.items():
            columns = [column for column in moved.columns if tenant_id is None or column != "tenant_id"]
            for row in moving.stream(conn, table, tenant_id):
                file.write(_encode({"table": table, "row": {column: row[column] for column in columns}}) + "\n")
                counts[table] += 1
                done += 1
                if done % moving.BATCH == 0:
                    progress(done, max(done, total), table)
    return counts


def is_export(path: Path) -> bool:
    """Whether a file begins as an export does. Only the beginning is read: the first line of another file may be all
    of it."""
    try:
        with path.open("rb") as file:
            return _BEGINNING.match(file.read(200)) is not None
    except OSError as error:
        raise InvalidInput("file", f"{path} can't be read: {error.strerror or error}", "an export") from error


def header(path: Path) -> dict[str, Any]:
    _, found = next(_lines(path), (1, None))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidInput("file", f"{path.name} is not a Tulving export", f"a file that begins with {FORMAT}")
    return found


def load(
    conn: Connection,
    path: Path,
    tenant_id: str | None,
    dimension: int,
    arrival: moving.Arrival,
    progress: Progress,
) -> dict[str, dict[str, int]]:
    """Take the rows in, all or none; one that is there already is skipped. With a tenant every row becomes that
    tenant's; without one each row must name its own."""
    conn.defer_references()
    counts = {table: {"added": 0, "skipped": 0} for table in moving.MOVED}
    line, total = 2, _count(path)
    rows = _rows(path, tenant_id, None if arrival.version is None else dimension)
    for table, group in groupby(rows, key=itemgetter(0)):
        for batch in moving.batches(row for _, row in group):
            added = moving.put(conn, arrival, table, batch, conn.merged_at_a_time, line)
            counts[table]["added"] += added
            counts[table]["skipped"] += len(batch) - added
            line += len(batch)
            progress(line - 2, total, table)
    for loose in (verification.loose_links, verification.loose_runs, verification.loose_settlements):
        for problem in loose(conn, tenant_id):
            raise IntegrityError(f"the file does not fit together: {problem}")
    return counts


def _count(path: Path) -> int:
    """How many rows an export has: its lines without the header."""
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b"")) - 1


def _rows(path: Path, tenant_id: str | None, dimension: int | None) -> Iterator[tuple[str, Row]]:
    for number, line in islice(_lines(path), 1, None):
        try:
            yield foreign_rows.read(line, tenant_id, dimension)
        except InvalidInput as error:
            where = f"line {number}, {error.field}" if error.field else f"line {number}"
            raise InvalidInput(where, error.problem, error.allowed) from error


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield number, json.loads(line)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line {number + 1}", f"is not UTF-8 text ({error})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line {number}", f"is not JSON ({error})") from error
    except OSError as error:
        raise InvalidInput("file", f"{path} can't be read: {error.strerror or error}", "an export") from error
