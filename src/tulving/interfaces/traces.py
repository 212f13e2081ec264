"""OpenTelemetry traces: spans around operations, transactions, embedding, model calls and jobs.

Span attributes are names, ids, sizes and outcomes. Of an exception only the type is recorded, since its message may
quote content. Nothing is loaded unless tracing is configured (ADR 0054).
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tulving import __version__
from tulving.interfaces.observers import outcome
from tulving.ports import Activity, Happening, Observation, Told

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

log = logging.getLogger("tulving")

SERVICE = "tulving"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NAMES: Mapping[Activity, str] = {"operation": "operation", "transaction": "function", "job": "job"}
"""The attribute that is part of the span name, for activities whose own name says too little."""


def configured(environ: Mapping[str, str] = os.environ) -> "Traces | None":
    """Traces, if a host has set up OpenTelemetry in this process or the environment variables of OpenTelemetry ask for
    them."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not find_spec("opentelemetry"):
        return None
    if (exporter := _exporter(environ)) is None:
        return _of_the_host()
    if not find_spec("opentelemetry.sdk"):
        log.warning("no traces are exported: that needs the OpenTelemetry SDK (pip install opentelemetry-sdk)")
        return None
    if (make := _loaded(exporter)) is None:
        log.warning("no traces are exported: the exporter %.60r is not installed (see OTEL_TRACES_EXPORTER)", exporter)
        return None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if "OTEL_SERVICE_NAME" in environ else {"service.name": SERVICE, "service.version": __version__}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(make()))
    return Traces(provider, owned=True)


def _exporter(environ: Mapping[str, str]) -> str | None:
    """The entry point name of the exporter that the environment asks for."""
    asked = environ.get("OTEL_TRACES_EXPORTER") or ("otlp" if any(map(environ.get, _ENDPOINTS)) else "none")
    protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    known = {"none": None, "otlp": "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"}
    return known.get(asked, asked)


def _loaded(exporter: str) -> Any:
    found = [*entry_points(group="opentelemetry_traces_exporter", name=exporter)]
    return found[0].load() if found else None


def _of_the_host() -> "Traces | None":
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else Traces(provider)


class Traces:
    """An observer that creates spans. A provider that is `owned` is shut down by `close`."""

    def __init__(self, provider: "TracerProvider", *, owned: bool = False) -> None:
        self._provider: Any = provider
        self._owned = owned
        self._tracer = provider.get_tracer("tulving", __version__)

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        name = about.get(_NAMES.get(activity, ""))
        return self._span(f"{activity} {name}" if name else activity, about)

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        pass

    @contextmanager
    def _span(self, name: str, about: Mapping[str, Told]) -> Iterator[Observation]:
        attributes = {f"tulving.{key}": value for key, value in about.items()}
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield SpanObservation(span)
            except BaseException as error:
                _ended(span, error)
                raise
            _ended(span, None)

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> "Iterator[Span]":
        """The span of an HTTP request, which continues the trace of its client (W3C traceparent)."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        with self._tracer.start_as_current_span(
            method,
            TraceContextTextMapPropagator().extract(headers),
            SpanKind.SERVER,
            {"http.request.method": method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span

    def close(self) -> None:
        """Export the remaining spans."""
        if self._owned:
            self._provider.shutdown()


class SpanObservation:
    """A span as an observation: what it is told becomes attributes."""

    def __init__(self, span: "Span") -> None:
        self._span = span

    def tell(self, **about: Told) -> None:
        for key, value in about.items():
            self._span.set_attribute(f"tulving.{key}", value)


def _ended(span: "Span", error: BaseException | None) -> None:
    from opentelemetry.trace import StatusCode

    ended = outcome(type(error) if error is not None else None)
    span.set_attribute("tulving.outcome", ended)
    if error is not None:
        span.set_attribute("error.type", type(error).__qualname__)
    if ended == "failed":
        span.set_status(StatusCode.ERROR)
