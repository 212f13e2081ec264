"""Vectors in a byte a number, and by how much a similarity to such a vector can be wrong.

A unit vector v is kept as codes c and a step s, so that s * c is close to v. For a query of length 1 the similarity to
s * c differs from that to v by no more than |v - s * c| (Cauchy-Schwarz), about 0.007 for a language model. So a scan
of the codes tells which few rows can be among the best; these are read from the database and compared in 32 bits.
"""

from collections.abc import Sequence
from typing import Any

from tulving.domain.ranking import SIMILARITY_DECIMALS
from tulving.domain.vectors import ABOUT_ONE
from tulving.errors import DamagedStore

LARGEST = 127
"""The largest code; its negative is the smallest."""
BLOCK = 1024
"""So many rows are converted at once: they fit into a cache of the processor."""


def unit_rows(blobs: Sequence[bytes], dimension: int) -> Any:
    """Stored vectors as rows of length 1, or 0."""
    import numpy

    if set(map(len, blobs)) - {4 * dimension}:
        raise DamagedStore(f"a stored vector does not have {dimension} dimensions; `tulving verify` names it")
    rows = numpy.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dimension)
    with numpy.errstate(over="ignore", invalid="ignore"):
        excess = abs(numpy.vecdot(rows, rows) - 1)
    if excess.max(initial=0) <= 2 * ABOUT_ONE:
        return rows
    if not numpy.isfinite(rows).all():
        raise DamagedStore("a stored vector contains NaN or infinity; `tulving verify` names it")
    lengths = numpy.linalg.norm(rows.astype(numpy.float64), axis=1, keepdims=True)
    lengths[(lengths == 0) | (excess <= 2 * ABOUT_ONE)[:, None]] = 1
    return (rows / lengths).astype(numpy.float32)


def similarities(blobs: Sequence[bytes], query: Any) -> Any:
    """How similar stored vectors are to a query of length 1."""
    import numpy

    # Not `@`: BLAS uses a thread per core, and they wait for each other on a busy machine.
    exact = numpy.vecdot(unit_rows(blobs, len(query)), query).astype(float)
    # Adding zero turns -0.0 into 0.0.
    return exact.round(SIMILARITY_DECIMALS) + 0.0


def reduced(rows: Any) -> tuple[Any, Any, Any]:
    """The codes and the steps of unit rows, and by how much a similarity can be wrong: by the length of the difference,
    half a unit of its last decimal, and more than 32-bit arithmetic can be wrong by in a sum of products."""
    import numpy

    numbers = abs(rows)
    largest = numbers.max(axis=1)
    steps = largest / numpy.float32(LARGEST)
    numbers *= (LARGEST / numpy.where(largest == 0, 1, largest))[:, None]
    numpy.rint(numbers, out=numbers)
    # Only what is 0 gets the code 0, so that `bounds` can tell rows that have nothing in common with a query.
    numpy.maximum(numbers, rows != 0, out=numbers)
    numpy.copysign(numbers, rows, out=numbers)
    codes = numbers.astype(numpy.int8)
    numbers *= steps[:, None]
    numpy.subtract(rows, numbers, out=numbers)
    slack = numpy.sqrt(numpy.vecdot(numbers, numbers))
    return codes, steps, slack + numpy.float32(0.5 * 10**-SIMILARITY_DECIMALS + (rows.shape[1] + 8) * 2.0**-22)


def bounds(codes: Any, steps: Any, slack: Any, query: Any) -> tuple[Any, Any]:
    """The least and the greatest value that `similarities` can give for each row and a query of length 1."""
    import numpy

    count, dimension = codes.shape
    about = numpy.empty(count, numpy.float32)
    block = numpy.empty((min(count, BLOCK), dimension), numpy.float32)
    for start in range(0, count, BLOCK):
        part = block[: count - start]
        part[...] = codes[start : start + BLOCK]
        numpy.vecdot(part, query, out=about[start : start + BLOCK])
    about *= steps
    least, greatest = about - slack, about + slack
    # Sparse vectors often have nothing in common with the query: that is known to be exactly 0.
    none = (about == 0).nonzero()[0]
    if len(none):
        none = none[~codes[numpy.ix_(none, query.nonzero()[0])].any(axis=1)]
        least[none] = greatest[none] = 0
    return least, greatest
