"""The cluster that is measured: three brokers, two of every coordinator and of the controller, all in this process.

What ends is forgotten after short times, which the harness lets pass by moving the cluster's clock. Groups have one
shard and transactional ids have one, so that one coordinator of each kind owns it and the other owns none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import ottla_controller.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.lifecycle import ServiceApp
from ottla_stack.cluster import Cluster, InProcessService, until_ready

BROKERS: Final = 3
COORDINATORS: Final = 2
CONTROLLERS: Final = 2

FORGOTTEN_S: Final = 60
"""After this time what has ended may be forgotten: producer ids, transactional ids, offsets, tombstones, records."""

CONFIGS: Final = {
    "default.replication.factor": BROKERS,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": BROKERS,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": BROKERS,
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

    def _ports(self) -> tuple[int, ...]:
        return ()

    def _keep_ports(self, app: ServiceApp) -> None:
        """Nothing: everyone finds a controller by its registration."""


class GrowthCluster(Cluster):
    """A `Cluster` with a standby controller, and with services that look often for what they may forget."""

    def __init__(self) -> None:
        super().__init__(brokers=BROKERS, group_coordinators=COORDINATORS, txn_coordinators=COORDINATORS)
        configs = tuple(f"{name}={value}" for name, value in CONFIGS.items())
        self.controllers: Final = [RunningController(self, number, configs) for number in range(CONTROLLERS)]

        for coordinator in self.txn_coordinators:
            coordinator.configure(transaction_remove_expired_transaction_cleanup_interval_ms=500)

    @property
    def services(self) -> tuple[InProcessService, ...]:
        return (*self.controllers, *self._services)

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
            await super()._stop()
        finally:
            for controller in self.controllers:
                await controller.stop_app()
