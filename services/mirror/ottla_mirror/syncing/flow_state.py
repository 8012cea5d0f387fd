"""A flow's mirrors share a table in the target, which says whether the flow is paused and which copies it fills.

The table is compacted, so nothing in it expires.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ottla_core.model import TopicPartition
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.log import LogRecord
from ottla_mirror.machines.mirror_records import begun_key, begun_record, read_begun, read_begun_key
from ottla_mirror.machines.starts import Begun
from ottla_mirror.syncing.topic_follower import TopicFollower

_PAUSED: Final = b"paused"
_ORDER_S: Final = 10.0


class FlowState(TopicFollower):
    """The flow sets `leads`, which says whether this mirror does what only one mirror of the flow does. For any
    thread."""

    def __init__(self, name: str, target: Cluster, topic: str) -> None:
        super().__init__(f"{name}: orders are not followed at the moment", target, topic)
        self.leads = False
        self._known = self._paused = False  # as of what was read when it was last caught up
        self._ordered = False  # as far as it was read
        self._begun: dict[TopicPartition, Begun] = {}

    @property
    def known(self) -> bool:
        """It tells whether the table was read. Until then nothing may be done."""
        self._known = self._known or self.caught_up
        return self._known

    @property
    def paused(self) -> bool:
        """The last order says whether the flow is paused, and outlives the mirrors. While the table is read again, the
        former state holds."""
        with self.lock:
            if self.caught_up:
                self._paused = self._ordered
            return self._paused

    @property
    def acts(self) -> bool:
        """It tells whether this mirror should act for the flow."""
        return self.leads and self.known and not self.paused

    def begun(self, copy: TopicPartition) -> Begun | None:
        """Return which copy of that name the flow fills, as far as the table was read."""
        with self.lock:
            return self._begun.get(copy)

    def begun_copies(self) -> list[TopicPartition]:
        """Return all copies that the flow fills or has filled, as far as the table was read."""
        with self.lock:
            return list(self._begun)

    def forget(self) -> None:
        self._ordered = False
        self._begun = {}

    def learn(self, record: LogRecord) -> None:
        if record.key == _PAUSED:
            self._ordered = record.value == b"true"
        elif not record.value:
            if (gone := read_begun_key(record.key)) is not None:
                self._begun.pop(gone, None)
        elif (found := read_begun(record.key, record.value)) is not None:
            copy, begun = found
            self._begun[copy] = begun

    def order(self, *, paused: bool) -> None:
        """Have all mirrors of the flow pause, or go on. Raises the error that prevents the order from being written in
        time."""
        self._write({_PAUSED: b"true" if paused else b"false"})

    def note_begun(self, begun: Mapping[TopicPartition, Begun]) -> None:
        """Note which copies are filled from now on. Raises like `order`."""
        self._write(dict(begun_record(copy, which) for copy, which in begun.items()))

    def note_gone(self, copies: Collection[TopicPartition]) -> None:
        """Note that these copies, and their topics, no longer exist. Raises like `order`."""
        if copies:
            self._write(dict.fromkeys(map(begun_key, copies)))

    def _write(self, records: Mapping[bytes, bytes | None]) -> None:
        with self._cluster.open_writer(f"{self._topic}-orders", delivery_s=_ORDER_S) as writer:
            for sent in [writer.send(value, key=key, topic=self._topic) for key, value in records.items()]:
                sent.result(_ORDER_S)
        self.catch_up(_ORDER_S)
