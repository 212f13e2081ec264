"""Small drawings for a terminal, as lines of text."""

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def area(values: Sequence[float], height: int) -> list[str]:
    """Values from 0 to 1 as columns, the highest row first; what is above 0 is never drawn as nothing."""
    levels = [max(1 if value > 0 else 0, round(value * height * 8)) for value in values]
    return ["".join(_EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels) for row in reversed(range(height))]
