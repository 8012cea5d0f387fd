"""The cluster's present configs of transactions. A change holds from then on."""

from __future__ import annotations

from typing import Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shards import Shards
from ottla_txn_coordinator.config import TxnCoordinatorConfig
from ottla_txn_coordinator.machines.shard import TransactionShard


class TxnConfigListener:
    """`settings` are for new shards, and are put into those that exist. The follower calls `on_image` after the shards
    have taken in that image: no request is decided in between."""

    def __init__(self, config: TxnCoordinatorConfig, shards: Shards[TransactionShard]) -> None:
        self._config: Final = config
        self._shards: Final = shards
        self.settings = config.transactions()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.broker_configs() == new.broker_configs():
            return
        self.settings = self._config.with_cluster(new.broker_configs()).transactions()
        for status in self._shards.statuses():
            status.state.settings = self.settings
