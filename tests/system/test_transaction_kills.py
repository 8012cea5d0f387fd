"""Transactions while whatever serves them is killed: each is read whole or not at all, once, and none hangs."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

RACKS: Final = ("r0", "r1", "r2")
PARTITIONS: Final = tuple((topic, number) for topic in ("a", "b") for number in range(2))
OFFSETS: Final = TopicPartition("a", 0)
TIMEOUT_MS: Final = 2_000
KILLS: Final = 9
ENOUGH: Final = 20

Found = dict[int, list[tuple[str, int]]]


@dataclass
class Written:
    """A transaction of one number; `committed` is None where that is not known."""

    partitions: list[tuple[str, int]]
    committed: bool | None = False


@dataclass
class Load:
    """One producer after the other under a transactional id, and their group of that name."""

    cluster: Cluster
    name: str
    first: int
    written: dict[int, Written] = field(default_factory=dict)
    stopping: bool = False
    error: str = ""
    """The last error with which a producer ended."""

    def run(self) -> None:
        randomness, made = random.Random(self.first), None
        group = {"bootstrap.servers": self.cluster.bootstrap, "group.id": f"{self.name}-{self.first}"}
        consumer = confluent_kafka.Consumer(group)
        while not self.stopping:
            try:
                made = made or self._producer()
                made = self._write(made, consumer, randomness)
            except KafkaException as raised:
                self.error = str(raised)
                made = None  # fenced by the other one, or by the timeout
        consumer.close()

    def _producer(self) -> confluent_kafka.Producer:
        made = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "message.timeout.ms": TIMEOUT_MS,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        made.init_transactions(LIMIT_S)
        return made

    def _write(
        self, made: confluent_kafka.Producer, consumer: confluent_kafka.Consumer, randomness: random.Random
    ) -> confluent_kafka.Producer | None:
        """One transaction; the producer of the next, None where this one leaves without an end."""
        number = self.first + len(self.written)
        written = self.written[number] = Written(randomness.sample(PARTITIONS, 3))
        made.begin_transaction()
        for topic, partition in written.partitions:
            made.produce(topic, b"%d" % number, partition=partition)
        offsets = [TopicPartition(OFFSETS.topic, OFFSETS.partition, number)]
        made.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LIMIT_S)
        chance = randomness.random()
        if chance < 0.05:
            return None
        if chance < 0.3:
            made.flush(LIMIT_S)
            made.abort_transaction(LIMIT_S)
            return made
        written.committed = None
        try:
            made.commit_transaction(LIMIT_S)
        except KafkaException as raised:
            if not raised.args[0].txn_requires_abort():
                raise
            written.committed = False
            made.abort_transaction(LIMIT_S)
            return made
        written.committed = True
        return made


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=RACKS, txn_coordinators=2, group_coordinators=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            for topic in ("a", "b"):
                admin.topics.create(topic, partitions=2, replicas=3, config={"min.insync.replicas": 2})
        yield cluster


def kill_some(cluster: Cluster) -> None:
    randomness = random.Random(7)
    for number in range(KILLS):
        service = randomness.choice((cluster.brokers, cluster.txn_coordinators, cluster.group_coordinators)[number % 3])
        service.kill()
        time.sleep(randomness.random() / 2)
        service.restart()
        time.sleep(randomness.random() / 2)


def committed_of(loads: list[Load]) -> int:
    """How many transactions are known to be committed."""
    return sum(each.committed is True for load in loads for each in list(load.written.values()))


def is_stable(cluster: Cluster) -> bool:
    """Whether readers of committed records may read everything."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    latest_of: Any = OffsetSpec.latest  # which has no types
    latest = {TopicPartition(*partition): latest_of() for partition in PARTITIONS}
    try:
        committed, every = (
            {p: future.result().offset for p, future in admin.list_offsets(latest, isolation_level=level).items()}
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
    except KafkaException:
        return False  # a leader moves
    return committed == every


def read(cluster: Cluster, rack: str = "") -> Found:
    """Where each number lies, to the end of all partitions, from replicas in that rack."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid.uuid4().hex,
            "client.rack": rack,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(*partition, 0) for partition in PARTITIONS])
    found, ends = defaultdict[int, list[tuple[str, int]]](list), set[tuple[str, int]]()

    def is_at_end() -> bool:
        messages: list[Any] = consumer.consume(500, 0.2)
        for message in messages:
            partition = message.topic(), message.partition()
            if message.error() is None:
                found[int(message.value())].append(partition)
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ends.add(partition)
        return len(ends) == len(PARTITIONS)

    try:
        wait_until(is_at_end)
    finally:
        consumer.close()
    return {number: sorted(places) for number, places in found.items()}


@pytest.mark.rule(33, 35, 37, 38, 39, 43)
def test_each_transaction_is_read_whole_or_not_at_all_whatever_is_killed(cluster: Cluster) -> None:
    loads = [Load(cluster, name, n * 100_000) for n, name in enumerate(("alone", "alone too", "both", "both"))]
    threads = [threading.Thread(target=load.run, daemon=True) for load in loads]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(load.written for load in loads))
    except AssertionError:
        with ottla.Admin(cluster.bootstrap) as admin:
            raise AssertionError([(load.name, load.error) for load in loads], admin.transactions.list()) from None
    kill_some(cluster)
    wait_until(lambda: committed_of(loads) > ENOUGH)  # however slow the machine is
    for load in loads:
        load.stopping = True
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    wait_until(lambda: is_stable(cluster), limit_s=LIMIT_S)
    found, written = read(cluster), {n: each for load in loads for n, each in load.written.items()}
    assert {n: places for n, places in found.items() if places != sorted(written[n].partitions)} == {}, "torn, or twice"
    assert [n for n in found if written[n].committed is False] == [], "aborted"
    assert [n for n, each in written.items() if each.committed and n not in found] == [], "lost"
    for load in loads:
        group = {"bootstrap.servers": cluster.bootstrap, "group.id": f"{load.name}-{load.first}"}
        consumer = confluent_kafka.Consumer(group)
        [offset] = consumer.committed([OFFSETS], LIMIT_S)
        consumer.close()
        assert offset.offset == max((n for n in load.written if n in found), default=-1001), load.name
    for broker in cluster.brokers:
        broker.kill()
    for broker in cluster.brokers:
        broker.restart()
    wait_until(lambda: is_stable(cluster))
    for rack in RACKS:
        assert read(cluster, rack) == found, "by any replica, from what lies on its disk"
