"""The current leader, in the response to a client that asked the wrong broker. Produce and Fetch have tagged fields for
it."""

from __future__ import annotations

import struct
from typing import Final

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.wire.frames import Caller
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode
from ottla_core.kafka_formats.primitives import Writer
from ottla_core.model import PartitionId

CHANGED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

_LEADER: Final = struct.Struct(">iiB")
_INT32: Final = struct.Struct(">i")


class NewLeaders:
    """Collects the leaders that one response names. Their endpoints are added at its end (KIP-951)."""

    def __init__(self, backend: Backend, caller: Caller) -> None:
        self._backend = backend
        self._caller = caller
        self._brokers: set[int] = set()

    def of(self, partition_id: PartitionId) -> bytes | None:
        """Return the present leader and its epoch, as a tagged field has them, or None if there is no leader."""
        partition: Partition | None = self._backend.image.partitions.get(partition_id)
        if partition is None or partition.leader not in self._backend.image.brokers:
            return None
        self._brokers.add(partition.leader)
        return _LEADER.pack(partition.leader, partition.leader_epoch, 0)

    def endpoints(self) -> dict[int, bytes]:
        """Return the response's tags, which have the endpoints of those brokers, or nothing."""
        writer, count = Writer(flexible=True), 0
        for broker_id in sorted(self._brokers):
            broker = self._backend.image.brokers[broker_id]
            reported = self._backend.addresses.advertised(broker, self._caller)
            if reported is not None:
                count += 1
                writer.pack(_INT32, broker_id)
                writer.string(reported.host)
                writer.pack(_INT32, reported.port)
                writer.string(broker.rack or None)
                writer.tags()
        if not count:
            return {}
        whole = Writer(flexible=True)
        whole.array(count)
        return {0: bytes(whole.buffer + writer.buffer)}
