"""Conversion of statements and values for PostgreSQL: a value is encoded and decoded by its name.

Documents go as text. Vectors go in binary form over our own connections (`know_vectors`), and as arrays of real numbers
over those of a host, whose types stay as they are: the driver takes twenty times as long for an array.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tulving.storage.rows import DOCUMENTS, Params, Row

Raw = Any
"""An asyncpg connection, standalone or from a pool."""

_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")
_VECTOR_HEADER = 4
_VECTOR_SCHEMA = """
SELECT nspname FROM pg_type JOIN pg_namespace ON pg_namespace.oid = typnamespace
WHERE pg_type.oid = to_regtype('vector')"""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_TEXT_OR_LARGE_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9.]+e\+[0-9]+')


async def know_vectors(raw: Raw) -> None:
    """Let a connection send vectors in binary form, if the database has them already."""
    if schema := await raw.fetchval(_VECTOR_SCHEMA):
        await raw.set_type_codec("vector", schema=schema, encoder=_as_it_is, decoder=_as_it_is, format="binary")


def _as_it_is(sent: bytes) -> bytes:
    return sent


def _packed(numbers: Any) -> bytes:
    """A vector in PostgreSQL's binary form: its size, two bytes of no meaning, big-endian floats."""
    values = array("f", numbers)
    values.byteswap()
    return len(values).to_bytes(2) + b"\0\0" + values.tobytes()


def _numbers(sent: bytes) -> bytes:
    """A vector as little-endian floats, from its binary form."""
    values = array("f", sent[_VECTOR_HEADER:])
    values.byteswap()
    return values.tobytes()


def _document(value: Any) -> str:
    """A value as JSON. A large float is written out with `.0`: jsonb keeps digits but no exponent, so it would
    come back as an integer."""
    text = _json(value)
    return _TEXT_OR_LARGE_NUMBER.sub(_written_out, text) if "e+" in text else text


def _written_out(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else f"{float(match[0]):.1f}"


@dataclass(frozen=True, eq=False)
class Form:
    """The form in which the values of a connection are sent. `binary` vectors can also be sent many at once, in the
    arrays of which one statement inserts all rows."""

    binary: bool
    vector: str
    """The type of the parameter that is cast to a vector."""
    encoders: Mapping[str, Callable[[Any], Any]]

    def numbered(self, sql: str) -> tuple[str, tuple[str, ...]]:
        """A statement with `$1` in place of `:name`, and the names in order."""
        return _numbered(sql, self.vector)

    def cast(self, name: str) -> str:
        return _cast(name, self.vector)

    def encoded(self, names: Iterable[str], params: Params | None) -> list[Any]:
        """The parameters of a statement in order, as the driver takes them."""
        return [self.encode(name, params[name]) for name in names] if params else []

    def encode(self, name: str, value: Any) -> Any:
        encoder = self.encoders.get(name)
        return value if encoder is None or value is None else encoder(value)


_DOCUMENTS = dict.fromkeys(DOCUMENTS, _document)
ANY_POOL = Form(False, "real[]", {**_DOCUMENTS, "embedding": lambda numbers: array("f", numbers)})
OWN_POOL = Form(True, "vector", {**_DOCUMENTS, "embedding": _packed})


@lru_cache(1024)
def _numbered(sql: str, vector: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1]
        return f"${names.setdefault(name, len(names) + 1)}{_cast(name, vector)}"

    return _NAMED.sub(number, sql), tuple(names)


def _cast(name: str, vector: str) -> str:
    if name in DOCUMENTS:
        return "::text::jsonb"
    return f"::{vector}::vector" if name == "embedding" else ""


def decoded(record: Any) -> Row:
    """A driver row as Python values."""
    row = dict(record)
    for name in DECODERS.keys() & row.keys():
        if isinstance(row[name], bytes if name == "embedding" else str):
            row[name] = DECODERS[name](row[name])
    return row


DECODERS: dict[str, Callable[[Any], Any]] = {**dict.fromkeys(DOCUMENTS, json.loads), "embedding": _numbers}


def quoted(name: str) -> str:
    """The name of a role or schema as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'
