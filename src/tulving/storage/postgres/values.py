"""Conversion of statements and values for PostgreSQL: a value is encoded and decoded by its name.

Only types that the driver supports without codecs are used, so that any pool of a host works: documents as text,
vectors as arrays of real numbers.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tulving.storage.rows import DOCUMENTS, Params, Row

Raw = Any
"""An asyncpg connection, standalone or from a pool."""

_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")
_CASTS = {**dict.fromkeys(DOCUMENTS, "::text::jsonb"), "embedding": "::real[]::vector"}

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_TEXT_OR_LARGE_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9.]+e\+[0-9]+')


@lru_cache(1024)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """A statement with `$1` in place of `:name`, and the names in order."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1]
        return f"${names.setdefault(name, len(names) + 1)}{_CASTS.get(name, '')}"

    return _NAMED.sub(number, sql), tuple(names)


def encoded(names: Iterable[str], params: Params | None) -> list[Any]:
    """The parameters of a statement in order, as the driver takes them."""
    return [encode(name, params[name]) for name in names] if params else []


def encode(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in DOCUMENTS:
        return _document(value)
    return array("f", value) if name == "embedding" else value


def _document(value: Any) -> str:
    """A value as JSON. A large float is written out with `.0`: jsonb keeps digits but no exponent, so it would
    come back as an integer."""
    text = _json(value)
    return _TEXT_OR_LARGE_NUMBER.sub(_written_out, text) if "e+" in text else text


def _written_out(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else f"{float(match[0]):.1f}"


def decoded(record: Any) -> Row:
    """A driver row as Python values."""
    row = dict(record)
    for name in DECODERS.keys() & row.keys():
        if isinstance(row[name], bytes if name == "embedding" else str):
            row[name] = DECODERS[name](row[name])
    return row


def _numbers(sent: bytes) -> bytes:
    """A vector as little-endian floats; PostgreSQL sends a header, then big-endian floats."""
    numbers = array("f", sent[_VECTOR_HEADER:])
    numbers.byteswap()
    return numbers.tobytes()


_VECTOR_HEADER = 4
DECODERS: dict[str, Callable[[Any], Any]] = {**dict.fromkeys(DOCUMENTS, json.loads), "embedding": _numbers}


def quoted(name: str) -> str:
    """The name of a role or schema as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'
