"""What a broker holds for its clients while something else in the cluster hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.kafka_wire import KafkaWire
from waiting import LIMIT_S, wait_until

import ottla
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.replication import replica_fetcher as replication
from ottla_core.records.twins import new_builder
from ottla_stack.cluster import Cluster

BATCH_BYTES = 990_000
PRODUCES = 60
PRODUCERS = 3
AT_ONCE = 20
HELD_BYTES = ConnectionLimits().max_held
"""What all connections may hold together."""


class Followers:
    """They fetch, until they are told to hang."""

    def __init__(self) -> None:
        self.hanging = False

    def hang(self) -> None:
        self.hanging = True


@pytest.fixture
def followers(monkeypatch: pytest.MonkeyPatch) -> Followers:
    followers = Followers()
    fetch_round = replication.ReplicaFetcher.round

    async def round_or_hang(self: Any, stream: Any) -> None:
        if followers.hanging:
            await asyncio.sleep(0.1)
            return
        await fetch_round(self, stream)

    monkeypatch.setattr(replication.ReplicaFetcher, "round", round_or_hang)
    return followers


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def log_bytes(data_dir: Path) -> int:
    return sum(file.stat().st_size for file in data_dir.rglob("*.log"))


def produce_frame(topic: str, batch: bytes) -> bytes:
    """Produce 3 with acks=all, of one batch for partition 0."""
    name = topic.encode()
    body = struct.pack(">hhii", -1, -1, 60_000, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    head = struct.pack(">hhih", 0, 3, 1, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def test_produces_that_wait_for_a_hanging_follower_keep_nothing_of_their_batches(
    followers: Followers,
) -> None:
    """1. A follower in the ISR stops fetching. 2. Three clients send sixty produces of a megabyte each, acks=all.

    So many at a time that a slow machine has room for those whose records it looks into in a thread: it rejects others
    (`pending.MOST_BYTES`).
    """
    builder = new_builder(1_000_000)
    builder.append(1, None, os.urandom(BATCH_BYTES))
    with Cluster(brokers=2, group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t", partitions=1, replicas=2)
            leader = admin.topics.describe("t")[0].partitions[0].leader
        cluster.produce("t", [b"x"], acks="all")
        followers.hang()
        frame = produce_frame("t", builder.seal())
        address = cluster.brokers[leader].kafka_address
        clients = [KafkaWire(address).greet() for _ in range(PRODUCERS)]
        gc.collect()
        before = rss_bytes()
        data_dir = cluster.brokers[leader].data_dir
        for sent in range(AT_ONCE, PRODUCERS * PRODUCES + 1, AT_ONCE):
            client = clients[(sent - 1) // PRODUCES]
            for _ in range(AT_ONCE):
                client.socket.sendall(frame)
            wait_until(lambda sent=sent: log_bytes(data_dir) > sent * BATCH_BYTES)
        grown_mb = (rss_bytes() - before) / 1e6
        for client in clients:
            client.socket.close()
    assert grown_mb < PRODUCERS * PRODUCES / 3, f"{grown_mb:.0f} MB for {PRODUCERS * PRODUCES} MB of open produces"


def test_one_partition_that_is_late_stops_no_produce_to_others(followers: Followers) -> None:
    """1. A follower stops fetching, and thirty producers have 5 MB each open for its partitions. 2. What goes to a
    partition without followers is acknowledged as ever."""
    with Cluster(brokers=2, group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("late", partitions=10, replicas=2)
            admin.topics.create("alone", partitions=2, replicas=1)
            leader = 0
            led = [p.partition for p in admin.topics.describe("late")[0].partitions if p.leader == leader]
            alone = next(p.partition for p in admin.topics.describe("alone")[0].partitions if p.leader == leader)
        cluster.produce("late", [b"x"] * 100, acks="all")
        followers.hang()
        value = os.urandom(BATCH_BYTES)
        late = [ottla.Producer(cluster.bootstrap) for _ in range(30)]
        data_dir = cluster.brokers[leader].data_dir
        try:
            for producer in late:
                for partition in led:
                    producer.send(value, topic="late", partition=partition)
            wait_until(lambda: log_bytes(data_dir) > HELD_BYTES)
            with ottla.Producer(cluster.bootstrap) as producer:
                for _ in range(10):
                    producer.send(b"x", topic="alone", partition=alone).result(LIMIT_S)
        finally:
            followers.hanging = False
            for producer in late:
                producer.close(timeout=30)
