"""A topic whose newest records are lost: a replica that lacks them is elected leader."""

from __future__ import annotations

from waiting import wait_until

import ottla
from ottla.testing import Cluster


class UncleanTopic:
    """It has one partition with two replicas. The second one falls behind, and then leads."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self._cluster = cluster
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(name, partitions=1, replicas=2, config={"min.insync.replicas": 1})
        partition = self._described()
        self._first, self._second = (cluster.brokers[n] for n in partition.replicas)
        assert partition.leader == self._first.id

    def produce(self, values: range) -> None:
        self._cluster.produce(self.name, values, value="int")

    def fall_behind(self) -> None:
        """Kill the second replica: it lacks what is written from now on."""
        self._second.kill()
        wait_until(lambda: self._described().isr == (self._first.id,))

    def lose_what_followed(self) -> None:
        """Kill the first replica, and have the second one elected."""
        self._first.kill()
        self._second.restart()
        wait_until(lambda: self._described().leader == -1)
        with ottla.Admin(self._cluster.bootstrap) as admin:
            admin.partitions.elect_leaders([(self.name, 0)], unclean=True)

    def _described(self) -> ottla.PartitionInfo:
        with ottla.Admin(self._cluster.bootstrap) as admin:
            return admin.topics.describe(self.name)[0].partitions[0]
