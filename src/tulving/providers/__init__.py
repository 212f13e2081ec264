"""Who fulfils the ports: embedders and language models. Importing this imports nothing heavy."""

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from tulving.errors import InvalidInput

if TYPE_CHECKING:
    from tulving.ports import Embedder

EMBEDDERS = {"minilm": 384, "hashing": 256}
"""The embedders by name, with the dimension each has by default."""

_engines: dict[tuple[str, int, Path | None], "Embedder"] = {}
_making = Lock()


def get_embedding_engine(name: str = "minilm", *, dimension: int | None = None, home: Path | None = None) -> "Embedder":
    """The embedder of that name, made at the first call and shared by all later ones (001-040).

    Only `hashing` has a choice of `dimension`. Only `minilm` has a `home`, under which its weights lie: by
    default the user's data directory.
    """
    if name not in EMBEDDERS:
        raise InvalidInput("embedder", f"there is none called {name!r}", ", ".join(EMBEDDERS))
    if dimension is None:
        dimension = EMBEDDERS[name]
    key = (name, dimension, home if name == "minilm" else None)
    with _making:
        if key not in _engines:
            _engines[key] = _make(*key)
        return _engines[key]


def _make(name: str, dimension: int, home: Path | None) -> "Embedder":
    if name == "hashing":
        from tulving.providers.hashing import Hashing

        return Hashing(dimension)
    from tulving.providers.minilm import MiniLm

    if dimension != MiniLm.dimension:
        raise InvalidInput("dimension", f"{dimension!r} is not that of minilm", str(MiniLm.dimension))
    return MiniLm(home)
