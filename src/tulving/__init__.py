"""Tulving: a memory for AI agents. Episodes, facts and rules, found in milliseconds."""

from typing import TYPE_CHECKING, Any

from tulving.domain.events import Event
from tulving.domain.model import (
    Episode,
    Fact,
    Found,
    Hit,
    Link,
    NewEpisode,
    NewFact,
    NewRule,
    Page,
    Rule,
    Stored,
)
from tulving.domain.scope import Caller
from tulving.errors import (
    ConfigError,
    DamagedStore,
    DiskFull,
    EmbedderMismatch,
    EmbedderUnavailable,
    IntegrityError,
    InvalidInput,
    NotFound,
    SchemaTooNew,
    StoreBusy,
    StoreUnavailable,
    TulvingError,
    WeightsError,
)

if TYPE_CHECKING:
    from tulving.bootstrap import get_embedding_engine, open_administration, open_memory
    from tulving.config import MemoryModuleConfig, PostgresConfig, RetrievalConfig
    from tulving.interfaces.blocking import open_memory_sync
    from tulving.interfaces.host_module import MemoryModule, Module
    from tulving.services.administration import Administration
    from tulving.services.memory import Memory

__version__ = "0.1.0"

_LAZY = {
    "Administration": "tulving.services.administration",
    "Memory": "tulving.services.memory",
    "MemoryModule": "tulving.interfaces.host_module",
    "MemoryModuleConfig": "tulving.config",
    "Module": "tulving.interfaces.host_module",
    "PostgresConfig": "tulving.config",
    "RetrievalConfig": "tulving.config",
    "get_embedding_engine": "tulving.bootstrap",
    "open_administration": "tulving.bootstrap",
    "open_memory": "tulving.bootstrap",
    "open_memory_sync": "tulving.interfaces.blocking",
}

__all__ = [
    "Administration",
    "Caller",
    "ConfigError",
    "DamagedStore",
    "DiskFull",
    "EmbedderMismatch",
    "EmbedderUnavailable",
    "Episode",
    "Event",
    "Fact",
    "Found",
    "Hit",
    "IntegrityError",
    "InvalidInput",
    "Link",
    "Memory",
    "MemoryModule",
    "MemoryModuleConfig",
    "Module",
    "NewEpisode",
    "NewFact",
    "NewRule",
    "NotFound",
    "Page",
    "PostgresConfig",
    "RetrievalConfig",
    "Rule",
    "SchemaTooNew",
    "StoreBusy",
    "StoreUnavailable",
    "Stored",
    "TulvingError",
    "WeightsError",
    "get_embedding_engine",
    "open_administration",
    "open_memory",
    "open_memory_sync",
]


def __getattr__(name: str) -> Any:
    """The parts that bring modules of their own load when they are first named."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
