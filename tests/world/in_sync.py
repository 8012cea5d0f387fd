"""This module judges what all in-sync replicas of a partition have in common, whatever clients have noticed of it.

A replica joins the ISR because its epochs show that it has its leader's log. So the epochs of all in-sync replicas are
equal from the latest of their log starts on (I43). Otherwise a later leader could not tell where another log leaves its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tests.growth.roles import part
from tests.world.cluster import Cluster
from tests.world.findings import Findings

from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replicas import Replicas
from ottla_core.records.leader_epochs import ReplicaEpochs, unequal_epochs

_LOOK_S: Final = 0.5


class InSync:
    """This looks at the replicas of all live brokers twice a second, in memory."""

    def __init__(self, cluster: Cluster, findings: Findings) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings

    def watch(self) -> None:
        """Look now and from now on, as long as anything else happens."""
        self.look()
        if self._cluster.world.has_more:
            self._cluster.world.after(_LOOK_S, self.watch)

    def look(self) -> None:
        for id_, partition in self._cluster.metadata.partitions.items():
            serving = dict(self._serving(str(id_), partition.replicas))
            for number, replica in serving.items():
                self._check_order(number, replica)
            leader = serving.get(partition.leader)
            if leader is not None and leader.leading is not None and leader.leader_epoch == partition.leader_epoch:
                self._compare(leader, {each: serving[each] for each in partition.isr if each in serving})

    def _serving(self, id_: str, brokers: Iterable[int]) -> Iterator[tuple[int, Replica]]:
        """Iterate over the replicas of these brokers, if they are registered and no thread is at work on the log.

        A broker that has just started may have another disk. It is in the ISR until it registers.
        """
        cluster = self._cluster
        for number in brokers:
            name = f"broker-{number}"
            if cluster.is_up(name) and cluster.metadata.registered_at[number] >= cluster.processes[name].started_at:
                for replica in part(cluster.apps[name], Replicas).table.all():
                    if str(replica.id) == id_ and not replica.disk.is_in_a_thread:
                        yield number, replica

    def _check_order(self, number: int, replica: Replica) -> None:
        log, high_watermark = replica.log, replica.offsets.high_watermark
        if not log.log_start_offset <= high_watermark <= log.log_end_offset:
            self._findings.violate(
                f"{replica} on broker {number} has log start {log.log_start_offset}, high watermark {high_watermark} "
                f"and log end {log.log_end_offset}, which are in no order"
            )

    def _compare(self, leader: Replica, in_sync: Mapping[int, Replica]) -> None:
        """Compare the epochs of what is committed. A member of the ISR may have to truncate what is not."""
        committed = leader.offsets.high_watermark
        found = {
            number: ReplicaEpochs(
                replica.log.epochs.entries, replica.log.log_start_offset, min(committed, replica.log.log_end_offset)
            )
            for number, replica in in_sync.items()
        }
        self._findings.counts["epochs compared"] += len(found) > 1
        if unequal := unequal_epochs(found):
            said = (
                f"broker {number} has {', '.join(f'{each.epoch} from {each.start_offset}' for each in epochs)}"
                for number, epochs in unequal.items()
            )
            self._findings.violate(f"the epochs of the in-sync replicas of {leader} differ: {'; '.join(said)}")
