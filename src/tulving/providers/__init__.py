"""The embedders that can be chosen by name. Importing this table imports none of them."""

from typing import NamedTuple


class Provider(NamedTuple):
    """An embedder: `place` is its `module:class`, imported when one is made; `takes` names what the class is made
    with (`home`, the folder under which its files are, or `dimension`, if there is a choice)."""

    place: str
    dimension: int
    takes: tuple[str, ...]
    by_meaning: bool
    """Whether it finds texts without a common word."""


EMBEDDERS = {
    "minilm": Provider("tulving.providers.minilm:MiniLm", 384, ("home",), by_meaning=True),
    "hashing": Provider("tulving.providers.hashing:Hashing", 256, ("dimension",), by_meaning=False),
}
