"""Metrics for Prometheus: an observer that counts and measures, and gauges that are set at each scrape."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from tulving import __version__
from tulving.interfaces.http import families
from tulving.interfaces.http.busiest import Busiest
from tulving.interfaces.http.families import FAMILIES, Family
from tulving.interfaces.observers import outcome
from tulving.ports import Activity, Happening, Observation, Told
from tulving.services.vitals import Vitals

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_KINDS = {"counter": Counter, "gauge": Gauge}
disable_created_metrics()  # they would double the series, and Prometheus detects counter resets by itself
_BY_TENANT = (families.TENANT_CALLS, families.TENANT_SECONDS)


class Metrics:
    """An observer that keeps the metrics of one server, in a registry of its own."""

    def __init__(self, tenants: int = 10) -> None:
        self.registry = CollectorRegistry()
        self._of = {each: _made(each, self.registry) for each in FAMILIES if each not in _BY_TENANT}
        self._tenants = Busiest(tenants)
        self.registry.register(TenantFigures(self._tenants))
        ProcessCollector(registry=self.registry)
        self._ended: Mapping[Activity, Callable[[str, float, Mapping[str, Any]], None]] = {
            "operation": self._operation,
            "transaction": self._transaction,
            "embedding": self._embedding,
            "model": self._model,
            "job": self._job,
        }

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        return Measured(self._ended[activity], about)

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        match happening:
            case "commit":
                self._of[families.COMMITS].observe(amount)
            case "lookup":
                self._of[families.LOOKUPS].labels(about["cache"], about["result"]).inc(amount)
            case "floor_miss":
                self._of[families.FLOOR].inc(amount)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request as in flight within a `with` block."""
        with self._of[families.IN_FLIGHT].track_inprogress():
            yield

    def waiting(self, count: int) -> None:
        """Set how many requests wait for their turn."""
        self._of[families.WAITING].set(count)

    def stream(self, change: int) -> None:
        """Count an event stream that was opened (1) or closed (-1)."""
        self._of[families.STREAMS].inc(change)

    def answered(self, method: str, route: str, status: str, seconds: float | None) -> None:
        """Count an answered request and observe its duration, which is None for an event stream."""
        self._of[families.REQUESTS].labels(method, route, status).inc()
        if seconds is not None:
            self._of[families.REQUEST_TIME].labels(method, route).observe(seconds)

    def look(self, vitals: Vitals | None) -> None:
        """Set the gauges of the store; None if it could not be reached."""
        self._of[families.UP].set(vitals is not None)
        if vitals is None:
            return
        self._of[families.BUILD].labels(__version__, vitals.engine).set(1)
        for where in ("inside", "outside"):
            self._of[families.WRITES].labels(where).set(vitals.queue[where])
        self._of[families.WRITES_ALLOWED].set(vitals.queue["allowed"])
        self._of[families.REFERENCES].set(vitals.references)
        self._of[families.PENDING].set(vitals.pending)
        for job in vitals.jobs:
            self._of[families.JOB_FAILING].labels(job.job).set(job.state == "failed")
            if job.next_run is not None:
                self._of[families.JOB_DUE].labels(job.job).set(job.next_run.timestamp())
            if job.state == "ok" and job.last_run is not None:
                self._of[families.JOB_SUCCESS].labels(job.job).set(job.last_run.timestamp())

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _operation(self, ended: str, seconds: float, about: Mapping[str, Any]) -> None:
        self._of[families.OPERATIONS].labels(about["operation"], ended).observe(seconds)
        self._tenants.add(about["tenant"], seconds)

    def _transaction(self, ended: str, seconds: float, about: Mapping[str, Any]) -> None:
        self._of[families.TRANSACTIONS].labels(about["mode"], ended).observe(seconds)

    def _embedding(self, ended: str, seconds: float, about: Mapping[str, Any]) -> None:
        self._of[families.EMBEDDING].labels(about["purpose"], ended).observe(seconds)
        self._of[families.TEXTS].labels(about["purpose"]).inc(about["texts"])

    def _model(self, ended: str, seconds: float, about: Mapping[str, Any]) -> None:
        self._of[families.MODEL].labels(ended).observe(seconds)
        for direction in ("in", "out"):
            self._of[families.TOKENS].labels(direction).inc(about.get(f"{direction}put_tokens", 0))

    def _job(self, ended: str, seconds: float, about: Mapping[str, Any]) -> None:
        self._of[families.JOB_TIME].labels(about["job"], ended).observe(seconds)


class Measured:
    """The observation of one activity, whose duration is reported at its end."""

    __slots__ = ("_about", "_begun", "_ended")

    def __init__(self, ended: Callable[[str, float, Mapping[str, Any]], None], about: dict[str, Told]) -> None:
        self._ended, self._about = ended, about

    def tell(self, **about: Told) -> None:
        self._about |= about

    def __enter__(self) -> Observation:
        self._begun = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._ended(outcome(kind), time.perf_counter() - self._begun, self._about)


class TenantFigures(Collector):
    """A collector for the metrics of the busiest tenants, whose labels change over time."""

    def __init__(self, tenants: Busiest) -> None:
        self._tenants = tenants

    def collect(self) -> Iterator[CounterMetricFamily]:
        figures = self._tenants.figures()
        for family, value in zip(_BY_TENANT, ("calls", "seconds"), strict=True):
            told = CounterMetricFamily(family.name, family.help, labels=family.labels)
            for tenant, usage in figures.items():
                told.add_metric([tenant], getattr(usage, value))
            yield told


def _made(family: Family, registry: CollectorRegistry) -> Any:
    described = family.name, family.help, family.labels
    if family.kind == "histogram":
        return Histogram(*described, buckets=family.buckets, registry=registry)
    return _KINDS[family.kind](*described, registry=registry)
