"""The only process that may fetch as a follower is the one that has registered as that broker, in its present
incarnation (rule 22).

A follower's fetch moves the high watermark, so only that process is believed. A registration that has lapsed is
remembered: a lost lease stops no replication, and opens it to no other process.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage
from ottla_core.cluster.proof import check_proof
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_proto import broker_pb2 as pb

_TELL_EVERY_S: Final = 10.0

_log = logging.getLogger(__name__)


class FollowerEpochs:
    """The last registration of each broker that this process has seen: one for each broker id."""

    def __init__(self, metadata: MetadataFollower, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._lapsed: dict[int, Broker] = {}
        self._tell_at = clock.monotonic()
        metadata.on_change(self._on_image)

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if new.brokers is not old.brokers:
            self._lapsed.update(old.brokers)

    def check(self, follower: pb.Follower, context: RequestContext) -> None:
        """Raise BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH or CLUSTER_AUTHORIZATION_FAILED unless the caller
        is that broker in its last incarnation."""
        broker_id, epoch = follower.broker_id, follower.broker_epoch
        last = self._metadata.image.brokers.get(broker_id) or self._lapsed.get(broker_id)
        if last is None:
            raise OttlaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"broker {broker_id} fetches as a follower, but no such broker has registered",
                hint="the broker has not registered yet, or this broker's metadata is behind",
            )
        if epoch != last.epoch:
            raise OttlaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} is registered with epoch {last.epoch}, but this fetch has epoch {epoch}",
                hint="the fetch comes from a former incarnation of the broker or from another process, or this "
                "broker's metadata is behind",
            )
        try:
            check_proof(last, follower.secret)
        except OttlaError as error:
            self._tell(error, context)
            raise

    def _tell(self, error: OttlaError, context: RequestContext) -> None:
        """Log a rejected fetch, but not each time: a process that tries this tries it often."""
        now = self._clock.monotonic()
        if now >= self._tell_at:
            self._tell_at = now + _TELL_EVERY_S
            _log.warning("rejected a fetch from %s: %s", context.client_host or "a client", error)
