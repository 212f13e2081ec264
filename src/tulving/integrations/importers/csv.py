"""A table whose first line names its columns."""

import csv
from collections.abc import Iterator
from pathlib import Path

from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, refusing
from tulving.integrations.importers.files import LARGEST_RECORD, Meter, Refused, lines, size
from tulving.integrations.importers.plain import record


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each row becomes a memory. An empty cell counts as missing."""
    meter.total += size([path])
    csv.field_size_limit(LARGEST_RECORD)
    refused: list[Refused] = []

    def texts() -> Iterator[str]:
        for _, line in lines(path, meter):
            if isinstance(line, Refused):
                refused.append(line)
            else:
                yield line

    table = csv.reader(texts())
    names: list[str] | None = None
    number = 0
    try:
        for row in table:
            yield from refused
            refused.clear()
            if names is None:
                names = [name.strip() for name in row]
                continue
            number += 1
            place = f"{path.name}, row {number}"
            if len(row) != len(names):
                yield Refused(place, f"has {len(row)} cells; allowed: {len(names)}, as the heading")
                continue
            cells = {name: cell for name, cell in zip(names, row, strict=True) if cell != ""}
            yield from refusing(place, lambda place=place, cells=cells: [record(place, cells, mapped)])
    except csv.Error as error:
        raise InvalidInput("file", f"{path.name}, after row {number}: {error}", "comma-separated values") from error
    yield from refused
