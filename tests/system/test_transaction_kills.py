"""Transactions while whatever serves them is killed: each is read whole or not at all, once, and none hangs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
import pytest
import transactional_client
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from transactional_client import OFFSETS, PARTITIONS
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

RACKS: Final = ("r0", "r1", "r2")
KILLS: Final = 9
ENOUGH: Final = 20

Found = dict[int, list[tuple[str, int]]]


@dataclass
class Written:
    """A transaction of one number; `committed` is None where that is not known."""

    partitions: list[tuple[str, int]]
    committed: bool | None = False


class Load:
    """A client under a transactional id, with a group of its own. If its process ends, another one goes on."""

    def __init__(self, cluster: Cluster, name: str, first: int) -> None:
        self.name: Final = name
        self.group: Final = f"{name}-{first}"
        self.first: Final = first
        self.written: Final[dict[int, Written]] = {}
        self.stopping = False
        self.error = ""
        """The last error with which a producer ended."""
        self._bootstrap: Final = cluster.bootstrap
        self._process: subprocess.Popen[str] | None = None
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.stopping:
            first = max(self.written, default=self.first - 1) + 1
            words = (self._bootstrap, self.name, self.group, str(first), str(LIMIT_S))
            command = [sys.executable, transactional_client.__file__, *words]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                self._process = process
                if self.stopping:
                    self.stop()
                assert process.stdout is not None
                for line in process.stdout:
                    self._note(**json.loads(line))

    def stop(self) -> None:
        """Let the client end after its present transaction."""
        self.stopping = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    def _note(
        self,
        number: int = 0,
        partitions: Sequence[tuple[str, int]] = (),
        committed: bool | None = False,
        error: str = "",
    ) -> None:
        self.error = error or self.error
        if partitions:
            self.written[number] = Written([(topic, partition) for topic, partition in partitions])
        elif not error:
            self.written[number].committed = committed


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=RACKS, txn_coordinators=2, group_coordinators=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            for topic in ("a", "b"):
                admin.topics.create(topic, partitions=2, replicas=3, config={"min.insync.replicas": 2})
        yield cluster


@pytest.fixture
def loads(cluster: Cluster) -> Iterator[list[Load]]:
    loads = [Load(cluster, name, n * 100_000) for n, name in enumerate(("alone", "alone too", "both", "both"))]
    yield loads
    for load in loads:
        load.stop()


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
def test_each_transaction_is_read_whole_or_not_at_all_whatever_is_killed(cluster: Cluster, loads: list[Load]) -> None:
    try:
        wait_until(lambda: all(load.written for load in loads))
    except AssertionError:
        with ottla.Admin(cluster.bootstrap) as admin:
            raise AssertionError([(load.name, load.error) for load in loads], admin.transactions.list()) from None
    kill_some(cluster)
    wait_until(lambda: committed_of(loads) > ENOUGH)  # however slow the machine is
    for load in loads:
        load.stop()
    for load in loads:
        load.join()
    wait_until(lambda: is_stable(cluster), limit_s=LIMIT_S)
    found, written = read(cluster), {n: each for load in loads for n, each in load.written.items()}
    assert {n: places for n, places in found.items() if places != sorted(written[n].partitions)} == {}, "torn, or twice"
    assert [n for n in found if written[n].committed is False] == [], "aborted"
    assert [n for n, each in written.items() if each.committed and n not in found] == [], "lost"
    for load in loads:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": load.group})
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
