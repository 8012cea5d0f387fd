"""What a broker holds for its Kafka clients while something else in the cluster hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from kafka_wire import KafkaWire
from waiting import wait_until

import ottla
from ottla_broker import replication
from ottla_core.records.twins import new_builder
from ottla_stack.cluster import Cluster

BATCH_BYTES = 990_000
PRODUCES = 60
PRODUCERS = 3


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


@pytest.mark.timeout(120)
def test_produces_that_wait_for_a_hanging_follower_keep_nothing_of_their_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. A follower in the ISR stops fetching. 2. Three clients send sixty produces of a megabyte each, acks=all."""
    hangs = False
    fetch_round = replication.Fetcher.round

    async def round_or_hang(self: Any, stream: Any) -> None:
        if hangs:
            await asyncio.sleep(3600)
        await fetch_round(self, stream)

    monkeypatch.setattr(replication.Fetcher, "round", round_or_hang)
    builder = new_builder(1_000_000)
    builder.append(1, None, os.urandom(BATCH_BYTES))
    with Cluster(brokers=2, group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t", partitions=1, replicas=2)
            leader = admin.topics.describe("t")[0].partitions[0].leader
        cluster.produce("t", [b"x"], acks="all")
        hangs = True
        frame = produce_frame("t", builder.seal())
        address = cluster.brokers[leader].kafka_address
        clients = [KafkaWire(address).greet() for _ in range(PRODUCERS)]
        gc.collect()
        before = rss_bytes()
        for client in clients:
            for _ in range(PRODUCES):
                client.socket.sendall(frame)
        data_dir = cluster.brokers[leader].data_dir
        wait_until(lambda: log_bytes(data_dir) > PRODUCERS * PRODUCES * BATCH_BYTES)
        grown_mb = (rss_bytes() - before) / 1e6
        for client in clients:
            client.socket.close()
    assert grown_mb < PRODUCERS * PRODUCES / 3, f"{grown_mb:.0f} MB for {PRODUCERS * PRODUCES} MB of open produces"
