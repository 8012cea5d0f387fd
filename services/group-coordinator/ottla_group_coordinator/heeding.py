"""The cluster's configs of groups, as they are at the moment: what is altered holds from then on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.effects import Limits
from ottla_core.coordination.runtime import Standing
from ottla_core.errors import OttlaError
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.machines.shard import GroupShard

_EVERY_BROKER: Final = ("broker", "")

_log = logging.getLogger(__name__)


class OwnShards(Protocol):
    """The shards of this instance (ottla_core.coordination.runtime)."""

    def standings(self) -> Sequence[Standing[GroupShard]]: ...

    def limit(self, limits: Limits) -> None: ...


class Heeding:
    """`settings` are for shards that are new, and are put into those that are there. `on_image` is for the follower,
    before anybody takes shards by that image."""

    def __init__(self, config: GroupCoordinatorConfig, shards: OwnShards) -> None:
        self._config: Final = config
        self._shards: Final = shards
        self.settings = config.groups()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        told = new.configs.get(_EVERY_BROKER)
        if old.configs.get(_EVERY_BROKER) == told:
            return
        config = self._config.with_cluster({} if told is None else told.values)
        try:
            self.settings = config.groups()
        except OttlaError as error:
            _log.warning("the cluster's configs can't be heeded, and what held before goes on: %s", error)
            return
        self._shards.limit(config.limits())
        for each in self._shards.standings():
            each.state.settings = self.settings
