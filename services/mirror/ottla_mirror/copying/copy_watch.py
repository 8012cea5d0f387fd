"""The watch checks whether copies are still the topics that were begun: a topic that was recreated lacks records.

A writer notices it too, but only once it has something to write. And before Kafka 4.1 a batch goes to whichever topic
has the name. So partitions have to be set aside while the copy is gone, before the mirror recreates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla_core.model import TopicId
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.syncing.topic_sync import RECREATED_AFTER_S

_LOOK_S: Final = RECREATED_AFTER_S / 4
"""Copies are looked up this often. A copy counts as gone after two looks in a row, because a broker that lags may not
know a new copy yet. Even if the looks are slow, both come before the mirror recreates the copy."""
_GONE: Final = TopicId(bytes(16))


class CopyWatch(Chore):
    """`copied` gives what this mirror copies, in any thread. `ids` are the topic ids of those copies, by their names,
    as of the last look, and zeros for those that are gone; it is replaced, never changed."""

    def __init__(self, name: str, target: Cluster, copied: Callable[[], Iterable[CopiedPartition]]) -> None:
        super().__init__(f"{name}: copies can't be checked at the moment, so a deleted one may go unnoticed")
        self.ids: Mapping[str, TopicId] = {}
        self._name: Final = name
        self._target: Final = target
        self._copied: Final = copied

    def work(self) -> None:
        missing = set[str]()
        with self._target.open_admin(f"{self._name}-copies") as admin:
            while not self.stopping.wait(_LOOK_S):
                names = dict.fromkeys(partition.copy.topic for partition in self._copied())
                found = admin.look_up(names)
                missed, missing = missing, set(found.gone)
                self.ids = {**found.ids, **{name: _GONE for name in found.gone if name in missed}}
                self.went_well()
