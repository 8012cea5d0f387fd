"""The cluster's present configs of groups. A change holds from then on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shards import Shards
from ottla_core.errors import OttlaError
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings
from ottla_group_coordinator.machines.shard import GroupShard

_EVERY_BROKER: Final = ("broker", "")
_GROUP: Final = "group"
"""The kind of a resource whose configs are those of one group."""

_log = logging.getLogger(__name__)


class GroupConfigListener:
    """`settings` are for new shards, and are put into those that exist. The follower calls `on_image` after the shards
    have taken in that image: no request is decided in between."""

    def __init__(self, config: GroupCoordinatorConfig, shards: Shards[GroupShard]) -> None:
        self._config: Final = config
        self._shards: Final = shards
        self.settings = config.groups()
        self._of_groups: Mapping[str, Mapping[str, str]] = {}

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.configs is new.configs:
            return
        configs = new.configs.get(_EVERY_BROKER)
        of_groups = {name: found.values for (kind, name), found in new.configs.items() if kind == _GROUP}
        if old.configs.get(_EVERY_BROKER) == configs and of_groups == self._of_groups:
            return
        config = self._config.with_cluster({} if configs is None else configs.values)
        try:
            settings = config.groups()
            self.settings = replace(settings, consumer=self._with_groups(config, settings.consumer, of_groups))
            self._of_groups = of_groups
        except OttlaError as error:
            _log.warning("the cluster's group configs are not valid; the previous ones stay in force: %s", error)
            return
        self._shards.limit(config.limits())
        for status in self._shards.statuses():
            status.state.settings = self.settings

    def _with_groups(
        self,
        config: GroupCoordinatorConfig,
        consumer: ConsumerGroupsSettings,
        of_groups: Mapping[str, Mapping[str, str]],
    ) -> ConsumerGroupsSettings:
        groups: dict[str, ConsumerSettings] = {}
        for group_id, configs in of_groups.items():
            groups[group_id], capped = config.consumer_group(configs)
            for text in capped:
                _log.warning("group %s: %s", group_id, text)
        return replace(consumer, groups=groups)
