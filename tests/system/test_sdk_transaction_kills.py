"""The SDK's transactions while services are killed, with each transport: each transaction is read whole and once, or
not at all."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.offsets import GroupMetadata
from ottla.testing import Cluster

PARTITIONS: Final = 4
TIMEOUT_S: Final = 3.0
KILLS: Final = 6
ENOUGH: Final = 20
OFFSETS: Final = ottla.TopicPartition("t", 0)


@dataclass
class Load:
    """Producers of one transactional id, one after the other, and a group whose offsets they commit."""

    bootstrap: str
    name: str
    first: int
    outcomes: dict[int, bool | None] = field(default_factory=dict)
    """Whether the transaction of each number was committed, or None if that is not known."""
    stopping: bool = False

    def run(self) -> None:
        chance = random.Random(self.first)
        group = GroupMetadata(self.name, -1, "", None)
        while not self.stopping:
            try:
                with self._producer() as producer:
                    while not self.stopping:
                        self._write(producer, group, chance)
            except ottla.OttlaError:
                continue  # fenced, or without an outcome in time

    def _producer(self) -> ottla.Producer[None, int]:
        return ottla.Producer[None, int](
            self.bootstrap,
            topic="t",
            transactional_id=self.name,
            transaction_timeout=TIMEOUT_S,
            delivery_timeout=TIMEOUT_S,
            request_timeout=1.0,
            max_block=TIMEOUT_S,
            linger=0,
        )

    def _write(self, producer: ottla.Producer[None, int], group: GroupMetadata, chance: random.Random) -> None:
        number = self.first + len(self.outcomes)
        self.outcomes[number] = False
        try:
            with producer.transaction() as tx:
                for partition in partitions_of(number):
                    tx.send(number, partition=partition)
                producer.send_offsets_to_transaction({OFFSETS: number}, group)
                if chance.random() < 0.25:
                    producer.flush(TIMEOUT_S)
                    producer.abort_transaction()
                    return
                self.outcomes[number] = None
        except ottla.TransactionAborted:
            self.outcomes[number] = False
            return
        self.outcomes[number] = True


def partitions_of(number: int) -> list[int]:
    return sorted((number + n) % PARTITIONS for n in range(3))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, txn_coordinators=2, group_coordinators=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t", partitions=PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
        yield cluster


def kill_some(cluster: Cluster) -> None:
    chance = random.Random(7)
    for number in range(KILLS):
        services: Any = (cluster.brokers, cluster.txn_coordinators, cluster.group_coordinators)[number % 3]
        service = chance.choice(services)
        service.kill()
        time.sleep(chance.random() / 2)
        service.restart()
        time.sleep(chance.random() / 2)


def committed_of(loads: list[Load]) -> int:
    return sum(outcome is True for load in loads for outcome in list(load.outcomes.values()))


def offset_of(admin: ottla.Admin, group: str) -> int | None:
    return admin.groups.committed(group).get(OFFSETS)


@pytest.mark.rule(33, 35, 37, 38, 39, 43)
def test_each_transaction_is_read_whole_or_not_at_all_whatever_is_killed(
    cluster: Cluster, transaction_version: int
) -> None:
    bootstrap = cluster.bootstrap
    loads = [Load(bootstrap, name, n * 100_000) for n, name in enumerate(("alone", "both", "both"))]
    threads = [threading.Thread(target=load.run, daemon=True) for load in loads]
    for thread in threads:
        thread.start()
    wait_until(lambda: committed_of(loads) > 0)
    kill_some(cluster)
    before = committed_of(loads)
    wait_until(lambda: committed_of(loads) > before + ENOUGH)
    for load in loads:
        load.stopping = True
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    outcomes = {number: outcome for load in loads for number, outcome in load.outcomes.items()}
    found: dict[int, list[int]] = {}
    config = {"isolation.level": "read_committed"}
    with ottla.Admin(cluster.bootstrap) as admin:
        wait_until(lambda: not any(each.is_blocked for each in admin.transactions.open_in("t")))
        for record in ottla.read("t", bootstrap=bootstrap, config=config):
            found.setdefault(record.value, []).append(record.partition)
        assert {n: sorted(at) for n, at in found.items() if sorted(at) != partitions_of(n)} == {}, "torn, or twice"
        assert [n for n in found if outcomes[n] is False] == [], "aborted"
        assert [n for n, outcome in outcomes.items() if outcome and n not in found] == [], "lost"
        of_alone = max(n for n in loads[0].outcomes if n in found)
        wait_until(lambda: offset_of(admin, "alone") == of_alone)
