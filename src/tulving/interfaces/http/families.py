"""The metrics that there are: their names, what they tell, and by what they are divided.

The registry is made from this table, and docs/observability.md, the dashboard and the alerts are tested against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FINE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Seconds of what a caller waits for."""
COARSE = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
"""Seconds of models and jobs."""
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Family:
    """A metric, for Prometheus without the ending `_total` of a counter."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: Sequence[float] = ()

    @property
    def shown(self) -> str:
        """Its name in the text that is served."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


BUILD = Family("gauge", "tulving_build_info", "1, with the version and the engine of the store", ("version", "engine"))
UP = Family("gauge", "tulving_store_up", "1 if the store could be read at the last look, else 0")
OPERATIONS = Family(
    "histogram",
    "tulving_operation_duration_seconds",
    "How long calls of operations took, on every surface of this process",
    ("operation", "outcome"),
    FINE,
)
REQUESTS = Family("counter", "tulving_http_requests", "Requests that were answered", ("method", "route", "status"))
REQUEST_TIME = Family(
    "histogram",
    "tulving_http_request_duration_seconds",
    "How long requests took, without event streams",
    ("method", "route"),
    FINE,
)
IN_FLIGHT = Family("gauge", "tulving_http_requests_in_flight", "Requests that are being answered")
STREAMS = Family("gauge", "tulving_event_streams", "Responses that are open as a stream of events")
TRANSACTIONS = Family(
    "histogram",
    "tulving_transaction_duration_seconds",
    "How long transactions took, with their wait for a place, a connection or the writer",
    ("mode", "outcome"),
    FINE,
)
WRITES = Family(
    "gauge", "tulving_writes_waiting", "Writes that wait: for the store (inside), or for a place (outside)", ("where",)
)
WRITES_ALLOWED = Family("gauge", "tulving_writes_allowed", "How many writes may wait for the store by now")
REFERENCES = Family("gauge", "tulving_references_waiting", "Memories whose last references are not written yet")
COMMITS = Family("histogram", "tulving_commit_group_size", "Writes that shared a commit (SQLite)", buckets=GROUPS)
LOOKUPS = Family(
    "counter", "tulving_cache_lookups", "Lookups in the caches of queries' and of tenants' vectors", ("cache", "result")
)
EMBEDDING = Family(
    "histogram",
    "tulving_embedding_duration_seconds",
    "How long the embedder took, for a query or for memories",
    ("purpose", "outcome"),
    FINE,
)
TEXTS = Family("counter", "tulving_embedded_texts", "Texts that were embedded", ("purpose",))
PENDING = Family("gauge", "tulving_vectors_pending", "Memories that wait for their vectors")
FLOOR = Family(
    "counter", "tulving_recall_floor_misses", "Searches in which min_relevance left out everything that was found"
)
JOB_TIME = Family(
    "histogram", "tulving_job_duration_seconds", "How long runs of jobs took here", ("job_name", "outcome"), COARSE
)
JOB_SUCCESS = Family(
    "gauge",
    "tulving_job_last_success_timestamp_seconds",
    "When the last run that succeeded began, in any process",
    ("job_name",),
)
JOB_FAILING = Family("gauge", "tulving_job_failing", "1 if the last run of a job failed, in any process", ("job_name",))
MODEL = Family(
    "histogram", "tulving_model_duration_seconds", "How long calls of the language model took", ("outcome",), COARSE
)
TOKENS = Family(
    "counter", "tulving_model_tokens", "Tokens of prompts (in) and answers (out), estimated if not told", ("direction",)
)
TENANT_CALLS = Family(
    "counter",
    "tulving_tenant_calls",
    "Calls of the tenants with the most calls (metrics.tenants); the rest together, as other",
    ("tenant",),
)
TENANT_SECONDS = Family(
    "counter", "tulving_tenant_seconds", "How long the calls of the same tenants took together", ("tenant",)
)
FAMILIES = tuple(each for each in globals().copy().values() if isinstance(each, Family))
