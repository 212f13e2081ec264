"""SQL: one meaning, two engines.

Modules load when they are first used (`storage.facts.store`), so that naming a verb costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tulving.storage import (
        cleanup,
        completion,
        copying,
        durable_file,
        edits,
        entities,
        events,
        facts,
        health,
        items,
        links,
        maintenance,
        requests,
        reviews,
        rules,
        statistics,
        tokens,
        transfer,
    )

__all__ = [
    "cleanup",
    "completion",
    "copying",
    "durable_file",
    "edits",
    "entities",
    "events",
    "facts",
    "health",
    "items",
    "links",
    "maintenance",
    "requests",
    "reviews",
    "rules",
    "statistics",
    "tokens",
    "transfer",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
