"""The admin port: `/metrics`, `/healthz` (the process and its loop run), `/readyz` (it serves).

It takes only GET, and by default only on loopback. It runs on threads of the standard library's server, so a hung event
loop is seen from outside instead of hanging the probe.

If there is a token, clients have to send it. Without it they get only the status of the two probes, because Docker's
and Kubernetes' probes and load balancers can't keep a secret. The reason of a failed probe is only for those who send
the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePath
from threading import Lock, Thread
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ottla_core.files.secret_file import NO_FILE
from ottla_core.host_port import HostPort
from ottla_core.process.admin_token import AdminToken
from ottla_core.telemetry import LATENCY_BUCKETS_S, Counter, Histogram, Metrics

_LOOP_HUNG_AFTER_S: Final = 5.0
_log = logging.getLogger(__name__)

_MAX_CONNECTIONS: Final = 32
_CONNECTION_S: Final = 10.0
_PLAIN: Final = "text/plain; charset=utf-8"

_Response = tuple[HTTPStatus, str, bytes]
"""The status, the type of the content, and the content."""


class AdminHttp:
    """A component: start binds (port 0 picks one), stop closes. `ready` returns None, or why the service is not
    ready. `token_file` has the token that clients must send; without a file they need none."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Metrics,
        ready: Callable[[], str | None],
        token_file: PurePath = NO_FILE,
    ) -> None:
        self._address: Final = HostPort(host, port)
        self._token_file = token_file
        self._metrics = metrics
        self._ready = ready
        self._server: ThreadingHTTPServer | None = None
        self._ticked_at = 0.0
        self._ticking: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_address[1])

    async def start(self) -> None:
        registry = CollectorRegistry()
        registry.register(_Collector(self._metrics))
        for of_the_process in (ProcessCollector, PlatformCollector, GCCollector):
            of_the_process(registry=registry)
        token = None if self._token_file == NO_FILE else AdminToken(self._token_file)

        def respond(path: str, authorization: str | None) -> _Response:
            trusted = token is None or token.is_in(authorization)
            match path.partition("?")[0]:
                case "/healthz":
                    late_s = time.monotonic() - self._ticked_at
                    hung = f"loop hung for {late_s:.0f} s" if late_s >= _LOOP_HUNG_AFTER_S else None
                    return _probe("ok", hung if trusted or hung is None else "not healthy")
                case "/readyz":
                    reason = self._ready()
                    return _probe("ready", reason if trusted or reason is None else "not ready")
                case _ if not trusted:
                    return HTTPStatus.UNAUTHORIZED, _PLAIN, b"send Authorization: Bearer and the service's token\n"
                case "/metrics":
                    return HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", generate_latest(registry)
                case _:
                    return HTTPStatus.NOT_FOUND, _PLAIN, b"there is /metrics, /healthz, /readyz\n"

        try:
            self._server = _Server(self._address, _handler(respond))
        except OSError as error:
            raise OSError(
                f"can't bind the admin port {self._address} ({error.strerror}); choose another port"
            ) from None
        self._ticked_at = time.monotonic()
        self._ticking = asyncio.create_task(self._tick(), name="admin-http-heartbeat")
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 1.0}, name="admin-http", daemon=True).start()

    async def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        if self._server is not None:
            with contextlib.suppress(OSError):  # on other systems than Linux it ends when it next looks
                self._server.socket.shutdown(socket.SHUT_RDWR)  # this wakes it up
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()

    async def _tick(self) -> None:
        while True:
            self._ticked_at = time.monotonic()
            await asyncio.sleep(1.0)


def _probe(success: str, reason: str | None) -> _Response:
    status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
    return status, _PLAIN, f"{success if reason is None else reason}\n".encode()


class _Server(ThreadingHTTPServer):
    """A server with a thread for each connection, up to a limit. Then a new connection replaces the oldest one, so that
    no client that holds on to its connection keeps a probe out."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: HostPort, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if address.is_ipv6 else socket.AF_INET
        self._open: Final[dict[socket.socket, float]] = {}  # since when each is open, the oldest first
        self._lock: Final = Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= _MAX_CONNECTIONS:
                self._close(next(iter(self._open)))
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that are too old. The server's own thread calls it several times a second."""
        with self._lock:
            until_at = time.monotonic() - _CONNECTION_S
            for request in [request for request, since in self._open.items() if since < until_at]:
                self._close(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # otherwise its client has gone, or was cut
            _log.error("the admin port failed to respond to %s", client_address, exc_info=True)

    def _close(self, request: socket.socket) -> None:
        """End the connection. Its thread notices that and closes it."""
        del self._open[request]
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


def _handler(respond: Callable[[str, str | None], _Response]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0  # for a client that sends nothing; one that sends little has _CONNECTION_S

        def do_GET(self) -> None:
            status, content_type, body = respond(self.path, self.headers["Authorization"])
            self.send_response(status)
            if status == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing, because there are probes every two seconds."""

    return Handler


class _Collector:
    """Shows ottla's plain numbers to prometheus-client at the moment of a scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        for name, by_labels in list(self._metrics.samples.items()):
            yield _family(name, self._metrics.help[name], dict(by_labels))
        for name, table in list(self._metrics.tables.items()):
            kind = CounterMetricFamily if table.counts else GaugeMetricFamily
            family: CounterMetricFamily | GaugeMetricFamily = kind(name, table.help, labels=table.labels)
            for values, number in table.read().items():
                family.add_metric(values, number)
            yield family


def _family(name: str, help_text: str, by_labels: dict[tuple[tuple[str, str], ...], object]) -> Metric:
    label_names = [key for key, _ in next(iter(by_labels))]
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    first = next(iter(by_labels.values()))
    if isinstance(first, Counter):
        family = CounterMetricFamily(name, help_text, labels=label_names)
    elif isinstance(first, Histogram):
        family = HistogramMetricFamily(name, help_text, labels=label_names)
    else:
        family = GaugeMetricFamily(name, help_text, labels=label_names)
    for labels, sample in by_labels.items():
        values = [value for _, value in labels]
        if isinstance(sample, Histogram) and isinstance(family, HistogramMetricFamily):
            family.add_metric(values, buckets=_cumulated(sample), sum_value=sample.sum_s)
        elif isinstance(sample, Counter) and isinstance(family, CounterMetricFamily):
            family.add_metric(values, sample.value)
        elif callable(sample) and isinstance(family, GaugeMetricFamily):
            family.add_metric(values, sample())
    return family


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip([*map(str, LATENCY_BUCKETS_S), "+Inf"], histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
