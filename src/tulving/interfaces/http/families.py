"""The metric families: their names, descriptions and labels.

The Prometheus registry is made from this table. docs/observability.md, the dashboard and the alerts are tested against
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FINE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Buckets in seconds, for what callers wait for."""
COARSE = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
"""Buckets in seconds, for language models and jobs."""
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family; the name of a counter is without its suffix `_total`."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: Sequence[float] = ()

    @property
    def shown(self) -> str:
        """The name in the exposition."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


BUILD = Family("gauge", "tulving_build_info", "1, with the version and the engine of the store", ("version", "engine"))
UP = Family("gauge", "tulving_store_up", "1 if the store was readable at the last scrape, else 0")
OPERATIONS = Family(
    "histogram",
    "tulving_operation_duration_seconds",
    "Duration of operation calls, on all surfaces of this process",
    ("operation", "outcome"),
    FINE,
)
REQUESTS = Family("counter", "tulving_http_requests", "HTTP requests that were answered", ("method", "route", "status"))
REQUEST_TIME = Family(
    "histogram",
    "tulving_http_request_duration_seconds",
    "Duration of HTTP requests, except event streams",
    ("method", "route"),
    FINE,
)
WAITING = Family("gauge", "tulving_http_requests_waiting", "HTTP requests that wait for their turn")
IN_FLIGHT = Family("gauge", "tulving_http_requests_in_flight", "HTTP requests being handled")
STREAMS = Family("gauge", "tulving_event_streams", "Open event streams")
TRANSACTIONS = Family(
    "histogram",
    "tulving_transaction_duration_seconds",
    "Duration of transactions, including the wait for a queue slot, a connection or the writer",
    ("mode", "outcome"),
    FINE,
)
WRITES = Family(
    "gauge",
    "tulving_writes_waiting",
    "Writes in the queue of the store (inside), and waiting for a slot in it (outside)",
    ("where",),
)
WRITES_ALLOWED = Family("gauge", "tulving_writes_allowed", "The current size limit of the write queue")
REFERENCES = Family("gauge", "tulving_references_waiting", "Memories whose latest references are not written yet")
COMMITS = Family("histogram", "tulving_commit_group_size", "Writes per commit (SQLite)", buckets=GROUPS)
LOOKUPS = Family(
    "counter",
    "tulving_cache_lookups",
    "Lookups in the caches of query vectors and of tenants' vectors",
    ("cache", "result"),
)
EMBEDDING = Family(
    "histogram",
    "tulving_embedding_duration_seconds",
    "Duration of embedder calls, for a query or for memories",
    ("purpose", "outcome"),
    FINE,
)
TEXTS = Family("counter", "tulving_embedded_texts", "Texts that were embedded", ("purpose",))
PENDING = Family("gauge", "tulving_vectors_pending", "Memories without a vector")
FLOOR = Family("counter", "tulving_recall_floor_misses", "Searches in which min_relevance left out every hit")
JOB_TIME = Family(
    "histogram", "tulving_job_duration_seconds", "Duration of job runs in this process", ("job_name", "outcome"), COARSE
)
JOB_SUCCESS = Family(
    "gauge",
    "tulving_job_last_success_timestamp_seconds",
    "Start time of the last successful run, in any process",
    ("job_name",),
)
JOB_DUE = Family(
    "gauge",
    "tulving_job_due_timestamp_seconds",
    "When a job runs next; if that is past, it waits for a worker",
    ("job_name",),
)
JOB_FAILING = Family("gauge", "tulving_job_failing", "1 if the last run of a job failed, in any process", ("job_name",))
MODEL = Family("histogram", "tulving_model_duration_seconds", "Duration of language model calls", ("outcome",), COARSE)
TOKENS = Family(
    "counter",
    "tulving_model_tokens",
    "Tokens of prompts (in) and answers (out), estimated if the model does not report them",
    ("direction",),
)
TENANT_CALLS = Family(
    "counter",
    "tulving_tenant_calls",
    "Operation calls of the busiest tenants (metrics.tenants); all others are counted as other",
    ("tenant",),
)
TENANT_SECONDS = Family(
    "counter", "tulving_tenant_seconds", "Total duration of operation calls of the same tenants", ("tenant",)
)
FAMILIES = tuple(each for each in globals().copy().values() if isinstance(each, Family))
