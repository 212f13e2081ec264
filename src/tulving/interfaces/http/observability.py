"""The observability of a server: its metrics, its traces and the log of its requests."""

from starlette.middleware import Middleware
from starlette.routing import Route

from tulving import extras
from tulving.bootstrap import Served
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint
from tulving.interfaces.http.instrumentation import Instrumentation
from tulving.interfaces.observers import RequestNotes, together
from tulving.interfaces.traces import Traces
from tulving.ports import Observer
from tulving.settings import MetricsConfig


class Observability:
    """The metrics and traces of one server, whose memory is opened with the `observer`. There are metrics if the extra
    `server` is installed, and `traces` if the process is configured for them."""

    def __init__(self, config: MetricsConfig, traces: Traces | None = None) -> None:
        self._config, self.metrics, self._traces = config, None, traces
        observers: list[Observer] = [RequestNotes()]
        if extras.is_installed("server"):
            from tulving.interfaces.http.metrics import Metrics

            self.metrics = Metrics(config.tenants)
            observers.append(self.metrics)
        if self._traces is not None:
            observers.append(self._traces)
        self.observer = together(observers)

    def routes(self, served: Opened[Served], access: Access, address: Endpoint) -> list[Route]:
        """The route of the metrics, if there are any."""
        if self.metrics is None:
            return []
        from tulving.interfaces.http.metrics_route import MetricsRoute

        return [MetricsRoute(self.metrics, served, access, address, self._config.open).route]

    @property
    def middleware(self) -> list[Middleware]:
        """The middleware that measures, traces and logs each request. It needs the request id."""
        return [Middleware(Instrumentation, self.metrics, self._traces)]

    def close(self) -> None:
        """Flush the traces."""
        if self._traces is not None:
            self._traces.close()
