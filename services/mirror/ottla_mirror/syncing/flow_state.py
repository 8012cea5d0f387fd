"""What a flow's mirrors agree on: whether it is paused, which lies in a table in the target; and who leads."""

from __future__ import annotations

from typing import Final

from ottla_mirror.clusters.cluster import Cluster, LogRecord
from ottla_mirror.syncing.topic_follower import TopicFollower

_PAUSED: Final = b"paused"
_ORDER_S: Final = 10.0


class FlowState(TopicFollower):
    """`leads`, set by the flow: whether this mirror does what is done once for all of them. For any thread."""

    def __init__(self, name: str, target: Cluster, topic: str) -> None:
        super().__init__(f"{name}: orders are not followed at the moment", target, topic)
        self.leads = False
        self._known = self._paused = False  # by what was read when it was caught up last
        self._ordered = False  # as far as it was read

    @property
    def known(self) -> bool:
        """Whether the table was read: until then nothing may be done."""
        self._known = self._known or self.caught_up
        return self._known

    @property
    def paused(self) -> bool:
        """By the last order; a pause outlives the mirrors. While the table is read anew, what it was before holds."""
        with self.lock:
            if self.caught_up:
                self._paused = self._ordered
            return self._paused

    @property
    def acts(self) -> bool:
        """Whether it is for this mirror to act for the flow."""
        return self.leads and self.known and not self.paused

    def forget(self) -> None:
        self._ordered = False

    def learn(self, record: LogRecord) -> None:
        if record.key == _PAUSED:
            self._ordered = record.value == b"true"

    def order(self, *, paused: bool) -> None:
        """Have all mirrors of the flow pause, or go on. Raises what keeps the order from being written in time."""
        with self._cluster.open_writer(f"{self._topic}-orders", delivery_s=_ORDER_S) as writer:
            writer.send(b"true" if paused else b"false", key=_PAUSED, topic=self._topic).result(_ORDER_S)
        self.catch_up(_ORDER_S)
