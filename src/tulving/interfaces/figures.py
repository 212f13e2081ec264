"""The figures of `tulving top`: rates and percentiles, computed from two scrapes of a service's metrics.

They are plain values, as `tulving top --json` prints them.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Labels = Mapping[str, str]
NOT_FAILED = ("cancelled", "ok", "refused")
"""Outcomes that are no failure of the service."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a metric."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The samples of one scrape by metric, and its time in seconds."""

    at: float
    samples: Mapping[str, list[Sample]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        return sum(each.value for each in self._having(name, labels))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The sums of the samples with these labels, by another label."""
        found: dict[str, float] = defaultdict(float)
        for each in self._having(name, labels):
            found[each.labels[label]] += each.value
        return dict(found)

    def label(self, name: str, label: str) -> str:
        """The value of a label in the first sample of a metric, such as a version; empty without samples."""
        return next((each.labels[label] for each in self.samples.get(name, ())), "")

    def _having(self, name: str, labels: Labels) -> Iterable[Sample]:
        return (each for each in self.samples.get(name, ()) if labels.items() <= each.labels.items())


def read(text: str, at: float) -> Reading:
    """Parse the text of `/metrics`. Raises ValueError if it is not that of Tulving."""
    from prometheus_client.parser import text_string_to_metric_families

    samples: dict[str, list[Sample]] = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            samples[each.name].append(Sample(each.labels, each.value))
    if "tulving_store_up" not in samples:
        raise ValueError("it has no metrics of Tulving")
    return Reading(at, samples)


def percentile(share: float, buckets: Mapping[str, float]) -> float | None:
    """A percentile of a histogram, estimated as by Prometheus: interpolated within its bucket, or the lower bound of
    the last one. None if nothing was observed."""
    ordered = sorted((float(bound), count) for bound, count in buckets.items())
    if not ordered or not ordered[-1][1]:
        return None
    wanted, low, below = share * ordered[-1][1], 0.0, 0.0
    for bound, count in ordered:
        if count >= wanted:
            if math.isinf(bound):
                return low
            return low + (bound - low) * (wanted - below) / (count - below) if count > below else bound
        low, below = bound, count
    return low


class Figures:
    """The figures of the interval between two readings."""

    def __init__(self, before: Reading, now: Reading) -> None:
        self._before, self._now = before, now
        self._seconds = max(now.at - before.at, 1e-9)

    def told(self) -> dict[str, Any]:
        """All of them."""
        now = self._now
        return {
            "version": now.label("tulving_build_info", "version"),
            "engine": now.label("tulving_build_info", "engine"),
            "store_up": now.total("tulving_store_up") == 1,
            "process": self._process(),
            "requests": self._requests(),
            "operations": self._operations(),
            "writes": self._writes(),
            "embedding": self._embedding(),
            "caches": self._caches(),
            "model": self._model(),
            "jobs": self._jobs(),
            "tenants": self._tenants(),
        }

    def _grown(self, name: str, **labels: str) -> float:
        before, now = self._before.total(name, **labels), self._now.total(name, **labels)
        return now - before if now >= before else now  # after a restart counters begin at 0

    def _rate(self, name: str, **labels: str) -> float:
        return round(self._grown(name, **labels) / self._seconds, 3)

    def _percentiles(self, name: str, **labels: str) -> dict[str, Any]:
        """The percentiles of the interval or, if nothing was observed in it, since the start."""
        whole = self._now.by(f"{name}_bucket", "le", **labels)
        before = self._before.by(f"{name}_bucket", "le", **labels)
        recent = {bound: count - before.get(bound, 0.0) for bound, count in whole.items()}
        is_recent = min(recent.values(), default=0.0) >= 0 and max(recent.values(), default=0.0) > 0
        buckets = recent if is_recent else whole
        return {"p50": percentile(0.5, buckets), "p99": percentile(0.99, buckets), "recent": is_recent}

    def _process(self) -> dict[str, Any]:
        now = self._now
        started = now.total("process_start_time_seconds")
        return {
            "started_at": started or None,
            "memory_bytes": now.total("process_resident_memory_bytes"),
            "processor": self._rate("process_cpu_seconds_total"),
            "open_files": now.total("process_open_fds"),
        }

    def _requests(self) -> dict[str, Any]:
        statuses = self._now.by("tulving_http_requests_total", "status")
        return {
            "rate": self._rate("tulving_http_requests_total"),
            "errors": round(
                sum(self._rate("tulving_http_requests_total", status=each) for each in statuses if each[0] == "5"), 3
            ),
            "waiting": self._now.total("tulving_http_requests_waiting"),
            "in_flight": self._now.total("tulving_http_requests_in_flight"),
            "event_streams": self._now.total("tulving_event_streams"),
        }

    def _operations(self) -> list[dict[str, Any]]:
        """Operations by rate, then by the number of calls."""
        name, rows = "tulving_operation_duration_seconds", []
        outcomes = {each.labels["outcome"] for each in self._now.samples.get(f"{name}_count", ())}
        for operation, calls in self._now.by(f"{name}_count", "operation").items():
            bad = [each for each in outcomes if each not in NOT_FAILED]
            rows.append(
                {
                    "operation": operation,
                    "rate": self._rate(f"{name}_count", operation=operation),
                    "calls": calls,
                    "failed": sum(self._now.total(f"{name}_count", operation=operation, outcome=each) for each in bad),
                    "refused": self._now.total(f"{name}_count", operation=operation, outcome="refused"),
                    **self._percentiles(name, operation=operation),
                }
            )
        return sorted(rows, key=lambda row: (-row["rate"], -row["calls"], row["operation"]))

    def _writes(self) -> dict[str, Any]:
        commits = self._grown("tulving_commit_group_size_count")
        return {
            "waiting": self._now.total("tulving_writes_waiting"),
            "references": self._now.total("tulving_references_waiting"),
            "commits": round(commits / self._seconds, 3),
            "writes_per_commit": round(self._grown("tulving_commit_group_size_sum") / commits, 2) if commits else None,
            **self._percentiles("tulving_transaction_duration_seconds", mode="write"),
        }

    def _embedding(self) -> dict[str, Any]:
        return {
            "texts": self._rate("tulving_embedded_texts_total"),
            "pending": self._now.total("tulving_vectors_pending"),
            "floor_misses": self._now.total("tulving_recall_floor_misses_total"),
            **self._percentiles("tulving_embedding_duration_seconds"),
        }

    def _caches(self) -> dict[str, float | None]:
        """The hit ratio of each cache since the start."""
        name = "tulving_cache_lookups_total"
        lookups = self._now.by(name, "cache")
        return {
            cache: round(self._now.total(name, cache=cache, result="hit") / count, 4) if count else None
            for cache, count in sorted(lookups.items())
        }

    def _model(self) -> dict[str, Any]:
        calls = self._now.by("tulving_model_duration_seconds_count", "outcome")
        tokens = self._now.by("tulving_model_tokens_total", "direction")
        return {
            "calls": sum(calls.values()),
            "failed": sum(count for outcome, count in calls.items() if outcome not in NOT_FAILED),
            "input_tokens": tokens.get("in", 0.0),
            "output_tokens": tokens.get("out", 0.0),
        }

    def _jobs(self) -> list[dict[str, Any]]:
        now, name = self._now, "tulving_job_duration_seconds"
        success = now.by("tulving_job_last_success_timestamp_seconds", "job_name")
        failing = now.by("tulving_job_failing", "job_name")
        runs, seconds = now.by(f"{name}_count", "job_name"), now.by(f"{name}_sum", "job_name")
        return [
            {
                "job": job,
                "failing": bool(failing.get(job)),
                "last_success": success.get(job),
                "runs_here": runs.get(job, 0.0),
                "mean_seconds": round(seconds[job] / runs[job], 3) if runs.get(job) else None,
            }
            for job in sorted({*success, *failing, *runs})
        ]

    def _tenants(self) -> list[dict[str, Any]]:
        calls = self._now.by("tulving_tenant_calls_total", "tenant")
        rows = [
            {"tenant": tenant, "rate": self._rate("tulving_tenant_calls_total", tenant=tenant), "calls": count}
            for tenant, count in calls.items()
            if count
        ]
        return sorted(rows, key=lambda row: (-row["rate"], -row["calls"], row["tenant"]))
