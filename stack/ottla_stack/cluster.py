"""A whole cluster inside this process: the same services, over the in-memory store and a temporary directory.

It runs on a thread and an event loop of its own, with real sockets on free ports, so that clients of any kind reach it.
The same `build` functions as in the processes of `ottla up` build the services. Tests kill, pause and restart brokers,
make calls fail by plan, and freeze and move the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

import ottla
import ottla_broker.app
import ottla_controller.app
import ottla_group_coordinator.app
import ottla_txn_coordinator.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.memory import MemoryStore
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.service_loop import new_service_loop
from ottla_core.event_loop.watchdog import Watchdog
from ottla_core.host_port import HostPort
from ottla_core.process import lifecycle
from ottla_core.process.lifecycle import ServiceApp
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_stack.faults import Faults
from ottla_stack.movable_clock import MovableClock
from ottla_stack.ports import hold
from ottla_txn_coordinator.config import TxnCoordinatorConfig

START_LIMIT_S: Final = 60.0
_STEP_LIMIT_S: Final = lifecycle.STOP_LIMIT_S + 1.0
"""The limit of each of the four steps of a stop. The limit of a service is below it."""
_REMOVE_AGAIN_S: Final = 0.05

_SHARDS: Final = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
_FEW: Final = 4
"""The number of shards of groups, and of transactional ids. A test has few of these, and each shard is a log on every
broker."""

_T = TypeVar("_T")


class Cluster:
    """`with Cluster(brokers=3) as c:` starts a cluster at `c.bootstrap`.

    Leaving the block stops the cluster and deletes its data. `c.brokers[n]`, `c.group_coordinators[n]` and
    `c.txn_coordinators[n]` are services that you can kill or pause. By default a cluster has no txn-coordinators,
    because each of their shards needs a log on every broker. `c.faults` lets you plan which calls fail, and `c.clock`
    is the clock of all services. `racks` has one entry for each broker. `broker_settings` are settings of all brokers,
    by the names in `ottla_broker.config`. A group's first rebalance does not wait for more members.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        racks: Sequence[str] = (),
        group_coordinators: int = 1,
        txn_coordinators: int = 0,
        broker_settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.faults: Final = Faults()
        self.clock: Final = MovableClock()
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-cluster-")
        self._loop = new_service_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-cluster", daemon=True)
        self._store: Final = MemoryStore()
        self._watchdog: Final = Watchdog()
        self._controller: ServiceApp | None = None
        folder = Path(self._folder.name)
        self.brokers: Final = [
            RunningBroker(self, number, folder, {"rack": racks[number] if racks else "", **broker_settings})
            for number in range(brokers)
        ]
        self.group_coordinators: Final = [RunningGroupCoordinator(self, n) for n in range(group_coordinators)]
        self.txn_coordinators: Final = [RunningTxnCoordinator(self, n) for n in range(txn_coordinators)]
        self._services: Final = (*self.brokers, *self.group_coordinators, *self.txn_coordinators)

    @property
    def bootstrap(self) -> str:
        """These are the addresses of the brokers, for `bootstrap` of clients, and for Kafka's `bootstrap.servers`."""
        return ",".join(broker.kafka_address for broker in self.brokers)

    @property
    def grpc_bootstrap(self) -> str:
        """These are the gRPC addresses of the brokers."""
        return ",".join(broker.address for broker in self.brokers)

    def produce(self, topic: str, values: Iterable[Any], **settings: Any) -> list[ottla.RecordMetadata]:
        """Send `values` and wait for all acknowledgements.

        `settings` are passed to the producer, such as `value="json"`.
        """
        with ottla.Producer(self.bootstrap, topic=topic, **settings) as producer:
            deliveries = [producer.send(value) for value in values]
            return [delivery.result() for delivery in deliveries]

    def read(self, topic: str, **settings: Any) -> list[ottla.Record[Any, Any]]:
        """Return all records that the topic currently contains. `settings` are passed to the consumer."""
        with ottla.Consumer(topic, bootstrap=self.bootstrap, start="earliest", stop="end", **settings) as consumer:
            return list(consumer)

    def start(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every service, then the event loop. No trace of the cluster remains."""
        if not self._thread.is_alive():
            return
        has_stopped = False
        try:
            self.run(self._stop(), limit_s=4 * _STEP_LIMIT_S + 1.0)
            has_stopped = True
        finally:
            for process in self._services:
                process.release_ports()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_LIMIT_S)
            try:
                if has_stopped:
                    self._loop.close()
                else:
                    self._close_loop_in_time()
            finally:
                self._remove_folder()

    def _close_loop_in_time(self) -> None:
        """Close the loop, but wait for it only a while. If a failed stop has left a listener open, uvloop would wait
        for ever."""
        closing = threading.Thread(target=self._loop.close, name="ottla-cluster-close", daemon=True)
        closing.start()
        closing.join(_STEP_LIMIT_S)

    def _remove_folder(self) -> None:
        """Remove the folder. It is tried again, because a thread of a service that was cut off may still write to it
        for a moment."""
        give_up_at = time.monotonic() + _STEP_LIMIT_S
        while True:
            try:
                return self._folder.cleanup()
            except OSError:
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(_REMOVE_AGAIN_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def run(self, work: Coroutine[Any, Any, _T], *, limit_s: float = START_LIMIT_S) -> _T:
        """Run `work` on the cluster's event loop and wait for it.

        After the time limit, cancel the work and raise TimeoutError.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(limit_s)
        finally:
            running.cancel()  # this does nothing if it is done

    def build_broker(self, config: BrokerConfig) -> ServiceApp:
        name = f"broker-{config.node_id}"
        return ottla_broker.app.build(
            config,
            store=self._store,
            clock=self.clock,
            around=self.faults.around(name),
            around_kafka=self.faults.around_kafka(name),
        )

    def build_group_coordinator(self, config: GroupCoordinatorConfig) -> ServiceApp:
        around = self.faults.around(f"group-coordinator-{config.node_id}")
        return ottla_group_coordinator.app.build(config, store=self._store, clock=self.clock, around=around)

    def build_txn_coordinator(self, config: TxnCoordinatorConfig) -> ServiceApp:
        around = self.faults.around(f"txn-coordinator-{config.node_id}")
        return ottla_txn_coordinator.app.build(config, store=self._store, clock=self.clock, around=around)

    async def _start(self) -> None:
        config = ControllerConfig(
            node_id=0, port=0, admin_port=0, first_configs=tuple(f"{name}={_FEW}" for name in _SHARDS)
        )
        self._controller = ottla_controller.app.build(
            config, store=self._store, clock=self.clock, around=self.faults.around("controller-0")
        )
        await self._controller.start()
        for process in self._services:
            await process.start_app()
        await until_ready(self._controller)
        self._watchdog.start()

    async def _stop(self) -> None:
        """Stop coordinators, all brokers, the controller and the store, even if one fails. Raise that failure last."""
        self._watchdog.stop()
        failures = await _end(*(service.stop_app() for service in (*self.group_coordinators, *self.txn_coordinators)))
        failures += await _end(*(broker.stop_app() for broker in self.brokers))
        if self._controller is not None:
            failures += await _end(self._controller.stop())
        failures += await _end(self._store.close())
        for failure in failures:
            raise failure


async def _end(*stopping: Coroutine[Any, Any, None]) -> list[BaseException]:
    """Run all of them at once, each within a step's limit. Return the errors that they have raised."""
    bounded = (asyncio.wait_for(stop, _STEP_LIMIT_S) for stop in stopping)
    return [failure for failure in await asyncio.gather(*bounded, return_exceptions=True) if failure is not None]


class InProcessService:
    """One service of a cluster, which tests stop and start. A method returns once it has done its work."""

    def __init__(self, cluster: Cluster, kind: str, number: int) -> None:
        self.id: Final = number
        self.name: Final = f"{kind}-{number}"
        self._cluster: Final = cluster
        self._app: ServiceApp | None = None
        self._held: list[socket.socket] = []

    @property
    def running(self) -> bool:
        return self._app is not None

    def kill(self) -> None:
        """End it as SIGKILL would: it does not leave, so its registration lapses, and its logs have to recover."""
        self._cluster.run(self._kill())

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM would."""
        self._cluster.run(self.stop_app())

    def restart(self) -> None:
        """Start it again on its ports and its data; stop it cleanly first if it runs."""
        self._cluster.run(self._restart(), limit_s=lifecycle.STOP_LIMIT_S + START_LIMIT_S)

    def pause(self) -> None:
        """Stop it from responding until `resume`: calls wait. It keeps its registration during that time."""
        self._cluster.run(self._cluster.faults.pause(self.name))

    def resume(self) -> None:
        """Let it respond again, first to the calls that have waited."""
        self._cluster.run(self._cluster.faults.resume(self.name))

    async def start_app(self) -> None:
        app = self._build()
        await app.start()
        self._app = app
        self.release_ports()
        self._keep_ports(app)
        await until_ready(app)

    async def stop_app(self) -> None:
        if self._app is not None:
            app, self._app = self._app, None
            await app.stop()
            self._hold_ports()

    async def _kill(self) -> None:
        if self._app is not None:
            app, self._app = self._app, None
            await app.kill()
            self._hold_ports()

    async def _restart(self) -> None:
        await self.stop_app()
        await self.start_app()

    def release_ports(self) -> None:
        """Let go of its ports, which it then serves again, or never."""
        for held in self._held:
            held.close()
        self._held.clear()

    def _hold_ports(self) -> None:
        with contextlib.suppress(OSError):  # an earlier connection still has it, so nothing else gets it either
            self._held.extend(map(hold, self._addresses()))

    def _build(self) -> ServiceApp:
        raise NotImplementedError

    def _addresses(self) -> tuple[HostPort, ...]:
        raise NotImplementedError

    def _keep_ports(self, app: ServiceApp) -> None:
        """Keep the ports that were found free at the first start."""
        raise NotImplementedError


class RunningBroker(InProcessService):
    def __init__(self, cluster: Cluster, number: int, folder: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(cluster, "broker", number)
        self._config = BrokerConfig(
            node_id=number, data_dir=folder / self.name, port=0, admin_port=0, kafka_port=0, **settings
        )

    @property
    def address(self) -> str:
        """This is its gRPC host:port, which is the same after a restart."""
        return str(HostPort(self._config.host, self._config.port))

    @property
    def kafka_address(self) -> str:
        """This is its host:port of the Kafka protocol, which is the same after a restart."""
        return str(HostPort(self._config.host, self._config.kafka_port))

    @property
    def data_dir(self) -> Path:
        return Path(self._config.data_dir)

    def _build(self) -> ServiceApp:
        return self._cluster.build_broker(self._config)

    def _addresses(self) -> tuple[HostPort, ...]:
        return tuple(HostPort(self._config.host, port) for port in (self._config.port, self._config.kafka_port))

    def _keep_ports(self, app: ServiceApp) -> None:
        kafka_port = HostPort.parse(app.listeners["kafka"]()).port
        self._config = replace(self._config, port=HostPort.parse(app.address()).port, kafka_port=kafka_port)


class RunningGroupCoordinator(InProcessService):
    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster, "group-coordinator", number)
        # Members of both protocols need not wait for each other for seconds.
        self._config = GroupCoordinatorConfig(
            node_id=number,
            port=0,
            admin_port=0,
            group_initial_rebalance_delay_ms=0,
            group_consumer_heartbeat_interval_ms=500,
            group_consumer_min_heartbeat_interval_ms=100,
            group_consumer_assignment_interval_ms=0,
        )

    def _build(self) -> ServiceApp:
        return self._cluster.build_group_coordinator(self._config)

    def _addresses(self) -> tuple[HostPort, ...]:
        return (HostPort(self._config.host, self._config.port),)

    def _keep_ports(self, app: ServiceApp) -> None:
        self._config = replace(self._config, port=HostPort.parse(app.address()).port)


class RunningTxnCoordinator(InProcessService):
    """A txn-coordinator. `configure(name=value)` changes its settings from the next restart on."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster, "txn-coordinator", number)
        self._config = TxnCoordinatorConfig(
            node_id=number, port=0, admin_port=0, transaction_two_phase_commit_enable=True
        )

    def configure(self, **settings: Any) -> None:
        self._config = replace(self._config, **settings)

    @property
    def address(self) -> str:
        return str(HostPort(self._config.host, self._config.port))

    def _build(self) -> ServiceApp:
        return self._cluster.build_txn_coordinator(self._config)

    def _addresses(self) -> tuple[HostPort, ...]:
        return (HostPort(self._config.host, self._config.port),)

    def _keep_ports(self, app: ServiceApp) -> None:
        self._config = replace(self._config, port=HostPort.parse(app.address()).port)


async def until_ready(app: ServiceApp) -> None:
    give_up_at = time.monotonic() + START_LIMIT_S
    while (reason := app.ready()) is not None:
        if time.monotonic() > give_up_at:
            raise OttlaError(ErrorCode.BROKER_NOT_AVAILABLE, f"{app.name} did not become ready: {reason}")
        await asyncio.sleep(0.005)
