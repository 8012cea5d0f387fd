"""The clusters that are measured, all in this process: one with a standby of every kind, and one it is mirrored to.

The first has three brokers, and two of every coordinator, of the controller and of the mirror. The second has one of
each. What ends is forgotten after short times, which the harness lets pass by moving the clusters' clocks. Groups have
one shard and transactional ids have one, so that one coordinator of each kind owns it and the other owns none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tests.growth.running_mirror import DELIVERIES, RunningMirror
from tests.growth.shortened import shortened

import ottla_controller.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.host_port import HostPort
from ottla_core.process.lifecycle import ServiceApp
from ottla_stack.cluster import Cluster, InProcessService, until_ready

BROKERS: Final = 3
COORDINATORS: Final = 2
CONTROLLERS: Final = 2
MIRRORS: Final = 2

FORGOTTEN_S: Final = 60
"""After this time what has ended may be forgotten: producer ids, transactional ids, offsets, tombstones, records."""

CONFIGS: Final[Mapping[str, str | int]] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 500,
    "producer.id.expiration.ms": FORGOTTEN_S * 1000,
    "transactional.id.expiration.ms": FORGOTTEN_S * 1000,
    "log.retention.ms": FORGOTTEN_S * 1000,
    "log.roll.ms": FORGOTTEN_S * 1000 // 2,
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.min.cleanable.ratio": 0,
    "log.cleaner.delete.retention.ms": FORGOTTEN_S * 1000,
}
"""Cluster-wide, by Kafka's names."""

_REPLICATION: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


class RunningController(InProcessService):
    """A controller that can be taken away and brought back."""

    def __init__(self, cluster: GrowthCluster, number: int, first_configs: tuple[str, ...]) -> None:
        super().__init__(cluster, "controller", number)
        self._config: Final = ControllerConfig(node_id=number, port=0, admin_port=0, first_configs=first_configs)

    def _build(self) -> ServiceApp:
        around = self._cluster.faults.around(self.name)
        return ottla_controller.app.build(
            self._config, store=self._cluster._store, clock=self._cluster.clock, around=around
        )

    def _addresses(self) -> tuple[HostPort, ...]:
        return ()

    def _keep_ports(self, app: ServiceApp) -> None:
        """Nothing: everyone finds a controller by its registration."""


class GrowthCluster(Cluster):
    """A `Cluster` with services that look often for what they may forget.

    It has `standbys`, or it has one of every service. With a `target` it has mirrors, too, which copy it to that
    cluster by a flow for each of the `deliveries`; the target runs before it and after it.
    """

    def __init__(
        self,
        *,
        standbys: bool = True,
        target: GrowthCluster | None = None,
        deliveries: Mapping[str, str] = DELIVERIES,
    ) -> None:
        brokers, coordinators, controllers = (BROKERS, COORDINATORS, CONTROLLERS) if standbys else (1, 1, 1)
        super().__init__(brokers=brokers, group_coordinators=coordinators, txn_coordinators=coordinators)
        configs = {**CONFIGS, **dict.fromkeys(_REPLICATION, brokers), "min.insync.replicas": min(2, brokers)}
        if not standbys:
            configs["transactional.id.expiration.ms"] = 3_600_000  # the mirrors' own: they are all that there are
        first = tuple(f"{name}={value}" for name, value in configs.items())
        self.target: Final = target
        self.controllers: Final = [RunningController(self, number, first) for number in range(controllers)]
        self.aliases: Final = tuple(deliveries)
        """The aliases that the flows have for this cluster."""
        self.mirrors: Final[list[RunningMirror]] = []
        if target is not None:
            self.mirrors.extend(RunningMirror(self, target, number, deliveries) for number in range(MIRRORS))

        for coordinator in self.txn_coordinators:
            coordinator.configure(transaction_remove_expired_transaction_cleanup_interval_ms=500)

    @property
    def services(self) -> tuple[InProcessService, ...]:
        return (*self.controllers, *self._services, *self.mirrors)

    @property
    def all(self) -> tuple[GrowthCluster, ...]:
        """This cluster, and the one that it is mirrored to."""
        return (self,) if self.target is None else (self, self.target)

    def let_pass(self, seconds: float) -> None:
        """Let that much time pass in all clusters at once."""
        for cluster in self.all:
            cluster.clock.move(seconds)

    def build_broker(self, config: BrokerConfig) -> ServiceApp:
        return super().build_broker(
            replace(config, retention_check_interval_s=0.5, checkpoint_interval_s=0.5, lease_ttl_s=10)
        )

    async def _start(self) -> None:
        for service in self.services:
            await service.start_app()
        for controller in self.controllers:
            assert controller._app is not None, "it was started"
            await until_ready(controller._app)

    async def _stop(self) -> None:
        try:
            for mirror in self.mirrors:
                await mirror.stop_app()
            await super()._stop()
        finally:
            for controller in self.controllers:
                await controller.stop_app()


@contextmanager
def mirrored_cluster(deliveries: Mapping[str, str]) -> Iterator[GrowthCluster]:
    """Run a cluster with everything, and the one that it is mirrored to."""
    with (
        shortened(),
        GrowthCluster(standbys=False) as target,
        GrowthCluster(target=target, deliveries=deliveries) as cluster,
    ):
        yield cluster
