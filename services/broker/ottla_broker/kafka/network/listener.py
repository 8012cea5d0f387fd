"""The Kafka listener as a component: its ports, their connections, and what all of them share.

There is a port for each listener that the settings name. They differ in the addresses that clients get (`addresses`),
in whether clients have to log in, and in whether there is TLS. The limits are the broker's.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.network.budget import Budget
from ottla_broker.kafka.network.by_host import ByHost
from ottla_broker.kafka.network.connection import HandlerResult, KafkaConnection
from ottla_broker.kafka.network.limits import FETCH_KEY, ConnectionLimits
from ottla_broker.kafka.network.tls_port import TlsIdentity, TlsPort
from ottla_broker.kafka.network.tls_transport import TlsTransport
from ottla_broker.kafka.network.turns import Turns
from ottla_broker.kafka.wire.frames import Caller, Head
from ottla_broker.listener_settings import KafkaListener
from ottla_core.event_loop.tasks import end_tasks
from ottla_core.rpc.server import PortInUseError
from ottla_core.security.login import Login
from ottla_core.sockets.keepalive import keep_alive
from ottla_core.telemetry import Metrics

_log = logging.getLogger(__name__)

_SCRATCH_BYTES: Final = 256 * 1024
_TICK_S: Final = 1.0
_DRAIN_S: Final = 4.0
"""It ends before the time that the lifecycle leaves a listener after the longest controlled shutdown."""
_BACKLOG: Final = 1024
_WARNINGS_PER_TICK: Final = 5
_LARGE_PER_ITERATION: Final = 8
"""How many large responses begin at once. Each may read 4 MB, which takes the loop some milliseconds: if all that wait
began at once, they would hold up every other client."""
_NEWCOMERS_S: Final = 0.00025
"""How much of a turn of the loop clients that are not known yet may use: the time of one TLS handshake."""
_NEWCOMERS_PAUSE_S: Final = 0.001
"""How long the remaining newcomers wait after that. A request takes several turns of the loop. Without the pause, each
of these turns would serve newcomers when many log in at once."""
_LARGE_FOR_S: Final = 60
"""For this long after a large response, an API's responses are expected to be large."""


class Listener:
    """A component: `start` binds and serves, and `stop` answers what is open and closes.

    `configured` returns the limits as the configs change them, and is called once a second. `on_drain` is called when
    the stop begins, so that delayed requests may be answered now. `new_login` makes the logins of the listeners that
    expect one, and `tls` finds the certificates of those with TLS.
    """

    def __init__(
        self,
        listeners: Sequence[KafkaListener],
        dispatcher: Dispatcher,
        metrics: Metrics,
        *,
        limits: ConnectionLimits | None = None,
        configured: Callable[[ConnectionLimits], ConnectionLimits] = lambda limits: limits,
        on_drain: Callable[[], None] = lambda: None,
        new_login: Callable[[], Login] | None = None,
        tls: Callable[[KafkaListener], TlsIdentity] | None = None,
    ) -> None:
        self.ports: Final = {listener.name: listener.bound.port for listener in listeners}
        self.limits = self._own_limits = limits or ConnectionLimits()
        self._configured: Final = configured
        self.budget: Final = Budget(self.limits.max_held, self.limits.slice_s)
        self.scratch: Final = memoryview(bytearray(_SCRATCH_BYTES))
        self.handle: Final[Callable[[Head, memoryview, Caller], HandlerResult]] = dispatcher.handle
        self.may_overlap: Final = dispatcher.may_overlap
        self.now: Final = time.monotonic
        self._listeners: Final = listeners
        self._on_drain = on_drain
        self._new_login = new_login
        self._tls = tls
        self._tls_ports: Final[list[TlsPort]] = []
        self.newcomers: Final = Turns(_NEWCOMERS_S, _NEWCOMERS_PAUSE_S)
        self._turns: Final = Turns()
        self._connections: Final[dict[KafkaConnection, str]] = {}
        """The hosts of the clients, in the order in which the connections came."""
        self._by_host: Final[ByHost[KafkaConnection]] = ByHost()
        self._unknown: Final[ByHost[KafkaConnection]] = ByHost()
        """The connections whose first request, or login if one is expected, is not done yet."""
        self._rejected = metrics.counter(
            "ottla_kafka_refused_total",
            "Kafka connections that the broker closed because of an error or an exceeded limit.",
        )
        self._warned = 0
        self._large_begun = 0  # how many have begun in this turn of the loop
        # they wait for their turn, in the order of their coming
        self._large_waiting: Final[dict[KafkaConnection, None]] = {}
        self._large_until: Final[dict[int, float]] = {FETCH_KEY: math.inf}
        self._servers: Final[list[asyncio.Server]] = []
        self._is_closed = False
        self._ticking: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        metrics.gauge("ottla_kafka_connections", "Open Kafka connections.", lambda: float(self.connections))
        metrics.gauge(
            "ottla_kafka_held_bytes",
            "Memory held by Kafka requests and responses.",
            lambda: float(self.budget.held_bytes),
        )

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    async def start(self) -> None:
        self.limits = self._configured(self._own_limits)
        try:
            for listener in self._listeners:
                await self._listen(listener)
        except BaseException:
            await self._close()
            raise
        self._ticking = asyncio.create_task(self._tick(), name="kafka-listener-tick")

    async def _listen(self, listener: KafkaListener) -> None:
        try:
            server = await asyncio.get_running_loop().create_server(
                self._protocol(listener), *listener.bound, backlog=_BACKLOG, reuse_port=False
            )
        except OSError:
            raise PortInUseError(listener.bound) from None
        self._servers.append(server)
        for listening in server.sockets:
            keep_alive(listening)  # connections inherit this
        self.ports[listener.name] = server.sockets[0].getsockname()[1]

    def _protocol(self, listener: KafkaListener) -> Callable[[], asyncio.BaseProtocol]:
        """Return what makes the protocol of each new connection to the port."""
        new_login = self._new_login if listener.expects_login else None
        new_connection = partial(KafkaConnection, self, listener.name, new_login)
        if not listener.has_tls:
            return new_connection
        assert self._tls is not None, "the settings of a listener with TLS name its certificate"
        identity = self._tls(listener)
        port = TlsPort(identity, lambda: self.limits, self._turns, self.newcomers, self.now, self.on_rejected)
        self._tls_ports.append(port)
        return partial(TlsTransport, port, new_connection)

    async def stop(self) -> None:
        await self._close()
        self._on_drain()
        for connection in list(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(_DRAIN_S):
                while self._connections:
                    self._empty.clear()
                    await self._empty.wait()
        except TimeoutError:
            _log.warning("closing Kafka connections that still have requests open: %d", len(self._connections))
        finally:
            self._abort_all()

    async def kill(self) -> None:
        """Cut every connection at once, as the end of the process would."""
        await self._close()
        self._abort_all()

    # ---- what connections report -----------------------------------------------------------------------------------

    def on_open(self, connection: KafkaConnection, client_host: str) -> bool:
        if self._is_closed:  # accepted in the same turn of the loop in which the listener was closed
            return False
        limits = self.limits
        if self._by_host.count(client_host) >= (most := limits.most_of(client_host)):
            text = f"{most} connections of its address are open, and no more are accepted (max.connections.per.ip)"
            self.on_rejected(text, client_host)
            return False
        if len(self._connections) >= limits.max_connections and not self._make_room(client_host):
            self.on_rejected(f"{limits.max_connections} connections are open, and no more are accepted", client_host)
            return False
        self._connections[connection] = client_host
        self._by_host.add(client_host, connection)
        self._unknown.add(client_host, connection)
        return True

    def _make_room(self, client_host: str) -> bool:
        """End a connection whose client is not known, at the address with the most such connections. Otherwise, one
        address with many such connections could keep all others out."""
        oldest = next(iter(self._unknown.of_busiest()), None)
        if oldest is None or self._connections[oldest] == client_host:
            return False
        self.on_rejected("its place was given to a client of another address", self._connections[oldest])
        self.on_lost(oldest)
        oldest.abort()
        return True

    def on_known(self, connection: KafkaConnection) -> None:
        self._unknown.drop(self._connections.get(connection, ""), connection)

    def on_lost(self, connection: KafkaConnection) -> None:
        host = self._connections.pop(connection, "")
        self._by_host.drop(host, connection)
        self._unknown.drop(host, connection)
        self._large_waiting.pop(connection, None)
        if not self._connections:
            self._empty.set()

    def on_rejected(self, reason: str, client_host: str) -> None:
        self._rejected.value += 1
        self._warned += 1
        if self._warned <= _WARNINGS_PER_TICK:  # a client that sends rubbish can send much of it
            _log.warning("closing a Kafka connection from %s: %s", client_host, reason)

    def may_be_large(self, key: int) -> bool:
        return self._large_until.get(key, 0.0) > self.now()

    def on_large_response(self, key: int) -> None:
        self._large_until[key] = self.now() + _LARGE_FOR_S

    def begins_large(self, connection: KafkaConnection) -> bool:
        if self._large_begun >= _LARGE_PER_ITERATION:
            self._large_waiting[connection] = None
            return False
        if not self._large_begun:
            asyncio.get_running_loop().call_soon(self._on_next_iteration)
        self._large_begun += 1
        return True

    def _on_next_iteration(self) -> None:
        """Call only as many waiting connections as may begin. With many of them, looking at each took a whole
        iteration."""
        self._large_begun = 0
        for connection in list(islice(self._large_waiting, _LARGE_PER_ITERATION)):
            self._large_waiting.pop(connection, None)
            connection.on_large_turn()
        if self._large_waiting and not self._large_begun:
            asyncio.get_running_loop().call_soon(self._on_next_iteration)

    # ---- time and the end -------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            if self._warned > _WARNINGS_PER_TICK:
                _log.warning("closed %d more Kafka connections", self._warned - _WARNINGS_PER_TICK)
            self._warned = 0
            self.budget.on_tick()
            self.limits = self._configured(self._own_limits)
            now = self.now()
            for port in self._tls_ports:
                port.on_tick(now)
            for connection in list(self._connections):
                self._tick_one(connection, now)

    def _tick_one(self, connection: KafkaConnection, now: float) -> None:
        """Tell one connection that a second has passed. Its bug must not keep the others from their limits."""
        try:
            connection.on_tick(now)
        except Exception:
            _log.exception("the periodic check of a Kafka connection failed")
            connection.abort()

    async def _close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        for port in self._tls_ports:
            port.abort_all()
        if self._ticking is not None:
            await end_tasks([self._ticking])

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()
