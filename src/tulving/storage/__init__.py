"""SQL with the same meaning on both engines.

Modules are imported at first use (`storage.facts.store`), so that importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tulving.storage import audit as audit
    from tulving.storage import bridge as bridge
    from tulving.storage import cleanup as cleanup
    from tulving.storage import comparing as comparing
    from tulving.storage import completion as completion
    from tulving.storage import durable_file as durable_file
    from tulving.storage import edits as edits
    from tulving.storage import embeddings as embeddings
    from tulving.storage import entities as entities
    from tulving.storage import episodes as episodes
    from tulving.storage import event_stream as event_stream
    from tulving.storage import events as events
    from tulving.storage import eviction as eviction
    from tulving.storage import export_file as export_file
    from tulving.storage import facts as facts
    from tulving.storage import forgotten as forgotten
    from tulving.storage import graph as graph
    from tulving.storage import growth as growth
    from tulving.storage import health as health
    from tulving.storage import items as items
    from tulving.storage import jobs as jobs
    from tulving.storage import layers as layers
    from tulving.storage import learning as learning
    from tulving.storage import lessons as lessons
    from tulving.storage import links as links
    from tulving.storage import merge_rules as merge_rules
    from tulving.storage import moving as moving
    from tulving.storage import names as names
    from tulving.storage import offers as offers
    from tulving.storage import prefixes as prefixes
    from tulving.storage import profiles as profiles
    from tulving.storage import proposals as proposals
    from tulving.storage import provenance as provenance
    from tulving.storage import requests as requests
    from tulving.storage import reviews as reviews
    from tulving.storage import rules as rules
    from tulving.storage import runs as runs
    from tulving.storage import search as search
    from tulving.storage import sessions as sessions
    from tulving.storage import settlements as settlements
    from tulving.storage import slots as slots
    from tulving.storage import statistics as statistics
    from tulving.storage import tenants as tenants
    from tulving.storage import timelines as timelines
    from tulving.storage import tokens as tokens
    from tulving.storage import tool_texts as tool_texts
    from tulving.storage import undoing as undoing
    from tulving.storage import verification as verification
    from tulving.storage import windows as windows


def __getattr__(name: str) -> Any:
    module = f"{__name__}.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # something that it needs is missing
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
