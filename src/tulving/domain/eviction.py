"""002-013: how much room a store must make."""

TARGET = 0.85
"""The share of its limit below which a store that has reached it is brought."""


def is_full(used: int, limit: int | None) -> bool:
    """Whether a store has reached its limit; None is none."""
    return limit is not None and used >= limit


def surplus_bytes(used: int, limit: int) -> int:
    """How many bytes must go to bring a store below the target."""
    return max(0, used - int(TARGET * limit) + 1)
