"""Vectors as they are stored: normalized to length 1, as 32-bit floats."""

import math
import operator
import struct
from collections.abc import Sequence, Sized

from tulving.domain.ranking import SIMILARITY_DECIMALS
from tulving.errors import InvalidInput

ABOUT_ONE = 1e-6


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The similarity of two stored vectors, rounded, so that it is the same on every processor."""
    product = sum(map(operator.mul, one, other))
    return round(product, SIMILARITY_DECIMALS) + 0.0


def pack(vector: Sequence[float], dimension: int) -> bytes:
    """A vector as little-endian 32-bit floats, normalized unless it is zero. Raises for another dimension and for
    NaN or infinity."""
    return struct.pack(f"<{dimension}f", *unit(vector, dimension))


def pack_given(vector: Sequence[float], dimension: int) -> bytes:
    """A vector that a caller made of a text, packed. It needs a direction: nothing would be similar to zero."""
    packed = pack(vector, dimension)
    if not any(vector):
        raise InvalidInput("embedding", "is zero", f"{dimension} numbers that are not all 0")
    return packed


def unit(vector: Sequence[float], dimension: int) -> Sequence[float]:
    """The normalized vector: only its direction counts, and engines differ on very short and very long ones."""
    if not isinstance(vector, Sized) or len(vector) != dimension:
        size = f"{len(vector)} dimensions" if isinstance(vector, Sized) else f"the type {type(vector).__name__}"
        raise InvalidInput("embedding", f"has {size}", f"{dimension} numbers, as recorded for this store")
    try:
        length = math.hypot(*vector)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("embedding", f"is not a list of finite numbers ({error})", "finite numbers") from error
    if not math.isfinite(length):
        raise InvalidInput("embedding", "holds a number that is not finite or too large", "finite numbers")
    if not length or abs(length - 1) < ABOUT_ONE:
        return vector
    return [number / length for number in vector]
