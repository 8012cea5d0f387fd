"""The data directory as a component: claimed and opened at the start, checkpointed and closed clean at the stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from ottla_broker.config import BrokerConfig
from ottla_broker.membership.node_id import allocate_node_id
from ottla_broker.replication.topic_config import default_log_config
from ottla_broker.storage.identity import DirectoryIdentity, load_identity, new_directory_id
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import Clock
from ottla_core.cluster.broker_values import broker_values
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId

_log = logging.getLogger(__name__)

NO_NODE_ID: Final = -1


class DataDirectory:
    """The data directory of this broker. It requests `high_watermarks` when it is closed."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataFollower,
        controller: ControllerPeer,
        clock: Clock,
        high_watermarks: Callable[[], Mapping[PartitionId, int]],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._controller = controller
        self._clock = clock
        self._high_watermarks = high_watermarks
        self._log_dir: LogDir | None = None

    @property
    def opened(self) -> LogDir | None:
        """It is the directory, open or closed again, or None before it was opened."""
        return self._log_dir

    @property
    def log_dir(self) -> LogDir:
        assert self._log_dir is not None, "the data directory is opened before it is used"
        return self._log_dir

    async def start(self) -> None:
        identity = await self._identity()
        path, now_ms = self._config.data_dir, self._clock.wall_ms()
        image = self._metadata.image
        configs = broker_values(image, identity.node_id)
        self._log_dir = await asyncio.to_thread(
            LogDir.open,
            path,
            identity,
            default_log_config(image, identity.node_id),
            now_ms=now_ms,
            threads=configs.integer("num.recovery.threads.per.data.dir"),
        )
        _log.info("node %d: %d logs in %s", identity.node_id, len(self._log_dir.logs), path)

    async def stop(self) -> None:
        try:
            await asyncio.to_thread(self.log_dir.close, self._high_watermarks(), now_ms=self._clock.wall_ms())
        except OttlaError as error:
            _log.error("the next start has to recover the logs: %s", error)

    async def kill(self) -> None:
        """Leave everything as it is, without the marker, so that the next start recovers."""
        await asyncio.to_thread(self.log_dir.abandon)

    async def _identity(self) -> DirectoryIdentity:
        """Return the identity with the settings' node id, or else the directory's, or else one that the controller
        gives."""
        found = await asyncio.to_thread(load_identity, self._config.data_dir)
        directory_id = found.directory_id if found else new_directory_id()
        node_id = self._config.node_id
        if node_id == NO_NODE_ID:
            node_id = found.node_id if found else await allocate_node_id(self._controller, directory_id)
        return DirectoryIdentity(self._config.cluster_id, node_id, directory_id)
