"""Plain records, one a line, whose fields are named by a mapping."""

from collections.abc import Iterator
from pathlib import Path

from tulving.integrations.importers import Mapped, Record, refusing
from tulving.integrations.importers.files import Meter, Refused, json_lines, size
from tulving.integrations.importers.plain import record
from tulving.integrations.importers.values import mapping


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """Each line becomes a memory. A name with dots leads into an object."""
    meter.total += size([path])
    for place, line in json_lines(path, meter):
        if isinstance(line, Refused):
            yield line
        else:
            yield from refusing(place, lambda place=place, line=line: [record(place, mapping(place, line), mapped)])
