"""The watch checks whether copies are still the topics that were begun: a topic that was created again lacks records.

A writer notices it too, but only once it has something to write, and another Kafka's clients write to whichever topic
has the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla_core.model import TopicId
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.machines.progress import CopiedPartition

_LOOK_S: Final = 2.0


class CopyWatch(Chore):
    """`copied` gives what this mirror copies, in any thread. `ids` are the topic ids of those copies, by their names,
    as of the last look; it is replaced, never changed."""

    def __init__(self, name: str, target: Cluster, copied: Callable[[], Iterable[CopiedPartition]]) -> None:
        super().__init__(f"{name}: copies can't be checked at the moment, so a deleted one may go unnoticed")
        self.ids: Mapping[str, TopicId] = {}
        self._name: Final = name
        self._target: Final = target
        self._copied: Final = copied

    def work(self) -> None:
        with self._target.open_admin(f"{self._name}-copies") as admin:
            while not self.stopping.wait(_LOOK_S):
                self.ids = admin.topic_ids({partition.copy.topic for partition in self._copied()})
                self.went_well()
