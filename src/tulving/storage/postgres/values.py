"""Statements and values on their way to PostgreSQL and back: a name tells how a value is written and read.

Everything goes through types that the driver knows by itself, so that it needs no set-up and any pool of a host's will
do: documents as text, vectors as arrays of real numbers.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tulving.storage.rows import DOCUMENTS, Params, Row

Raw = Any
"""A connection of asyncpg's, by itself or lent by a pool."""

_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")
_CASTS = {**dict.fromkeys(DOCUMENTS, "::text::jsonb"), "embedding": "::real[]::vector"}

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_TEXT_OR_LARGE_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9.]+e\+[0-9]+')


@lru_cache(1024)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """A statement with `$1` in place of `:name`, and the names in their order."""
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
    """As JSON. A large float is written out with its `.0`: PostgreSQL keeps digits and no exponent, so that it would
    come back as a whole number."""
    text = _json(value)
    return _TEXT_OR_LARGE_NUMBER.sub(_written_out, text) if "e+" in text else text


def _written_out(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else f"{float(match[0]):.1f}"


def decoded(record: Any) -> Row:
    """A row of the driver's, in Python's values."""
    row = dict(record)
    for name in DECODERS.keys() & row.keys():
        if isinstance(row[name], bytes if name == "embedding" else str):
            row[name] = DECODERS[name](row[name])
    return row


def _numbers(sent: bytes) -> bytes:
    """A vector as it is kept everywhere else; PostgreSQL sends a header, then numbers with the high byte first."""
    numbers = array("f", sent[_VECTOR_HEADER:])
    numbers.byteswap()
    return numbers.tobytes()


_VECTOR_HEADER = 4
DECODERS: dict[str, Callable[[Any], Any]] = {**dict.fromkeys(DOCUMENTS, json.loads), "embedding": _numbers}


def quoted(name: str) -> str:
    """The name of a role or schema, as a statement has it."""
    return '"' + name.replace('"', '""') + '"'
