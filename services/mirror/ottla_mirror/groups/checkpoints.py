"""A flow's checkpoints, which its leaders write, say where groups are in the copies."""

from __future__ import annotations

from collections import OrderedDict

from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.log import LogRecord
from ottla_mirror.machines.mirror_records import Checkpoint, read_checkpoint
from ottla_mirror.syncing.topic_follower import TopicFollower


class Checkpoints(TopicFollower):
    """This has the newest checkpoint of each group and partition. For any thread."""

    def __init__(self, name: str, target: Cluster, topic: str) -> None:
        super().__init__(f"{name}: checkpoints are not followed at the moment", target, topic)
        self.forget()

    def take_changed(self) -> Checkpoint | None:
        """Return a checkpoint that has changed since it was taken last, or None if there are no more."""
        with self.lock:
            return self._known[self._changed.popitem(last=False)[0]] if self._changed else None

    def change_all(self) -> None:
        """Have all checkpoints taken again."""
        with self.lock:
            self._changed.update(dict.fromkeys(self._known))

    def forget(self) -> None:
        self._known: dict[bytes, Checkpoint] = {}
        self._changed: OrderedDict[bytes, None] = OrderedDict()

    def learn(self, record: LogRecord) -> None:
        checkpoint = read_checkpoint(record.key, record.value)
        if checkpoint is not None:
            self._known[record.key] = checkpoint
            self._changed[record.key] = None
