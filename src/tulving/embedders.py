"""Which embedder is used: by its name and settings, made once in a process.

Apart from `bootstrap.py`, so that what only asks about the embedder need not load the services and the storage.
"""

from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from typing import Any

from tulving.config import data_directory, own_config
from tulving.errors import InvalidInput
from tulving.ports import Embedder
from tulving.providers import EMBEDDERS
from tulving.settings import MemoryModuleConfig

_engines: dict[tuple[Any, ...], Embedder] = {}
_making = Lock()


def choose_embedder(config: MemoryModuleConfig, name: str | None = None) -> Embedder:
    """The embedder of this name, or the configured one."""
    name = name or config.embedder
    sizable = name in EMBEDDERS and "dimension" in EMBEDDERS[name].takes
    return get_embedding_engine(name, dimension=config.dimension if sizable else None, config=config)


def get_embedding_engine(
    name: str = "minilm",
    *,
    dimension: int | None = None,
    home: Path | None = None,
    config: MemoryModuleConfig | None = None,
) -> Embedder:
    """The embedder of this name, created at the first call and shared by later ones (001-040).

    `home`, the folder of an embedder's files, defaults to the user's data directory. An embedder with a table of
    settings takes them from `config`, by default that of this process.
    """
    if name not in EMBEDDERS:
        raise InvalidInput("embedder", f"{name!r} is not known", ", ".join(EMBEDDERS))
    provider = EMBEDDERS[name]
    given = {"dimension": provider.dimension if dimension is None else dimension, "home": home or data_directory()}
    if given["dimension"] != provider.dimension and "dimension" not in provider.takes:
        raise InvalidInput("dimension", f"{dimension!r} is not that of {name}", str(provider.dimension))
    arguments = {taken: given[taken] for taken in provider.takes}
    if provider.table:
        arguments |= asdict(getattr(config or own_config(), provider.table))
    key = (name, *arguments.values())
    with _making:
        if key not in _engines:
            _engines[key] = resolve_name(provider.place)(**arguments)
        return _engines[key]
