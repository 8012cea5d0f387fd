"""The cluster's present configs of groups. A change holds from then on."""

from __future__ import annotations

import logging
from typing import Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shards import Shards
from ottla_core.errors import OttlaError
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.machines.shard import GroupShard

_EVERY_BROKER: Final = ("broker", "")

_log = logging.getLogger(__name__)


class GroupConfigListener:
    """`settings` are for new shards, and are put into those that exist. The follower calls `on_image` after the shards
    have taken in that image: no request is decided in between."""

    def __init__(self, config: GroupCoordinatorConfig, shards: Shards[GroupShard]) -> None:
        self._config: Final = config
        self._shards: Final = shards
        self.settings = config.groups()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        configs = new.configs.get(_EVERY_BROKER)
        if old.configs.get(_EVERY_BROKER) == configs:
            return
        config = self._config.with_cluster({} if configs is None else configs.values)
        try:
            self.settings = config.groups()
        except OttlaError as error:
            _log.warning("the cluster's group configs are not valid; the previous ones stay in force: %s", error)
            return
        self._shards.limit(config.limits())
        for status in self._shards.statuses():
            status.state.settings = self.settings
