"""A flow's offset syncs: where in the target each stretch of the source lies, as all of its mirrors have written it.

Every mirror follows the topic, from its beginning: what it knows of offsets is the same as what any other one knows,
and outlives them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Condition
from typing import Any, Final

import ottla
from ottla.connect import ClusterClient, bootstrap_addresses, grpc_transport, list_offsets
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.chore import Chore
from ottla_mirror.machines.mirror_records import read_offset_sync
from ottla_mirror.machines.offset_map import OffsetMaps

OFFSET_SYNCS_CONFIG: Final = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "7d",
    "min.compaction.lag.ms": "1h",
    "segment.bytes": "16MiB",
}
"""Committed offsets, which are what is translated, are kept for seven days as well."""

_STEP_S: Final = 0.5


class OffsetSyncs(Chore):
    """For any thread. `caught_up`: whether all is known that was there when the reading began."""

    def __init__(self, name: str, target: Sequence[str], topic: str) -> None:
        super().__init__(f"{name}: offsets are not followed at the moment")
        self.caught_up = False
        self.position = 0
        """The next offset of the topic that is to be read."""
        self._maps = OffsetMaps()
        self._lock: Final = Condition()
        self._target: Final = list(target)
        self._cluster: Final = ClusterClient(bootstrap_addresses(target), grpc_transport(topic))
        self._partition: Final = TopicPartition(topic, 0)

    def translate(self, source: TopicPartition, offset: int) -> int | None:
        """As `OffsetMap.translate`, of a partition of the source."""
        with self._lock:
            known = self._maps.get(source)
            return None if known is None else known.translate(offset)

    def translate_back(self, source: TopicPartition, offset: int) -> int | None:
        """As `OffsetMap.translate_back`, of the copy of that partition of the source."""
        with self._lock:
            known = self._maps.get(source)
            return None if known is None else known.translate_back(offset)

    def end(self, source: TopicPartition) -> int:
        """After the last offset that was copied; 0 where none was."""
        with self._lock:
            known = self._maps.get(source)
            return 0 if known is None else known.end

    def catch_up(self, timeout: float) -> None:
        """Return once all is known that is committed by now. Raises OttlaError where that takes longer."""
        found = list_offsets(self._cluster, {self._partition: -1}, timeout=timeout, read_committed=True)
        end = found[self._partition]
        with self._lock:
            if not self._lock.wait_for(lambda: self.caught_up and (not end or self.position >= end.offset), timeout):
                message = f"offsets are known as far as {self.position} of {self._partition.topic}: {self.trouble}"
                raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, message, hint="try again")

    def close(self) -> None:
        self._cluster.close()

    def work(self) -> None:
        self.caught_up = False
        with self._lock:
            self._maps = OffsetMaps()
        consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
            self._partition.topic,
            bootstrap=self._target,
            start="earliest",
            auto_offset_reset="earliest",
            key="bytes",
            value="bytes",
        )
        with consumer:
            (end,) = consumer.offsets("latest").values()
            while not self.stopping.is_set():
                self._learn(consumer.poll(_STEP_S), consumer.position(self._partition), end or 0)
                self.went_well()

    def _learn(self, records: Iterable[ottla.Record[Any, Any]], position: int, first_end: int) -> None:
        with self._lock:
            for record in records:
                known = read_offset_sync(record.key or b"", record.value or b"", record.headers)
                if known is not None:
                    self._maps.add(known)
            self.position = position
            self.caught_up = self.caught_up or position >= first_end
            self._lock.notify_all()
