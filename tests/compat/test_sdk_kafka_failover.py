"""The SDK with Apache Kafka's cluster of three over Kafka's protocol: nodes are killed, quotas slow clients down."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from group_members import Member
from peers.kafka.server import KafkaServer
from peers.kafka.tools import run_tool
from tests.compat.cells import DIFFERS
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.kafka.transport import KafkaTransport

PARTITIONS = 6
QUOTA_BYTES = 200_000
RECORDS = 3_000
ROUNDS = 6
PAUSES_S = 3.0
"""3 MB at 200 kB/s take 15 s. Kafka averages over 11 s, so it may let 10 s of that pass at once."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaServer]:
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "min.insync.replicas": 2,
        "broker.session.timeout.ms": 3000,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
    }
    with KafkaServer(tmp_path / "kafka", nodes=3, settings=settings, heap="384m") as server:
        client = AdminClient({"bootstrap.servers": server.bootstrap})
        for created in client.create_topics([NewTopic("t", PARTITIONS, 3), NewTopic("copy", PARTITIONS, 3)]).values():
            created.result()
        yield server


def member_of(kafka: KafkaServer, name: str) -> ottla.Consumer[Any, Any]:
    return ottla.Consumer(
        "t",
        bootstrap=kafka.bootstrap,
        group="g",
        auto_offset_reset="earliest",
        heartbeat_interval=0.3,
        session_timeout=6.0,
        _transport=KafkaTransport(name),
    )


def reader_of(kafka: KafkaServer, name: str = "reader", **arguments: Any) -> ottla.Consumer[Any, Any]:
    """Return a consumer without a group, which reads the topic once."""
    transport = KafkaTransport(name)
    return ottla.Consumer(
        "t", bootstrap=kafka.bootstrap, start="earliest", stop="end", client_id=name, _transport=transport, **arguments
    )


def kill(kafka: KafkaServer, node: int) -> None:
    os.kill(kafka.pids[node], signal.SIGKILL)


def leader(admin: ottla.Admin, topic: str, partition: int = 0) -> int:
    return admin.topics.describe(topic)[0].partitions[partition].leader


def partition_of(name: str) -> int:
    """Return the partition of an internal topic that holds the group or transactional id: Java's hash, modulo 3."""
    hashed = 0
    for letter in name:
        hashed = (31 * hashed + ord(letter)) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % 3


def produced_until(producer: ottla.Producer[Any, Any], enough: Callable[[], bool]) -> list[tuple[str, int, int]]:
    """Send records one after another until it is enough, and return where they are."""
    sent: list[ottla.Delivery] = []
    give_up_at = time.monotonic() + LIMIT_S
    while not enough():
        assert time.monotonic() < give_up_at
        sent.append(producer.send(b"%d" % len(sent), partition=len(sent) % PARTITIONS))
        time.sleep(0.001)
    return [("t", where.partition, where.offset) for where in (each.result(timeout=LIMIT_S) for each in sent)]


@DIFFERS.cell
def test_a_leader_and_a_coordinator_are_killed_and_each_record_is_read_once(kafka: KafkaServer) -> None:
    members = [Member(member_of(kafka, f"member-{n}")) for n in range(2)]
    admin = ottla.Admin(kafka.bootstrap, _transport=KafkaTransport("admin"))
    producer = ottla.Producer(kafka.bootstrap, topic="t", value="bytes", _transport=KafkaTransport("writer"))
    with admin, producer:
        wait_until(lambda: [len(member.owned) for member in members] == [3, 3])
        victim = leader(admin, "__consumer_offsets", partition_of("g"))
        led = [n for n in range(PARTITIONS) if leader(admin, "t", n) == victim]
        assert led, "the group's coordinator leads partitions, too"
        places = produced_until(producer, lambda: sum(len(member.got) for member in members) > 100)
        kill(kafka, victim)
        places += produced_until(producer, lambda: all(leader(admin, "t", n) not in (victim, -1) for n in led))
        wait_until(lambda: sum(len(member.got) for member in members) >= len(places))
    read = Counter(place for member in members for place in member.got)
    assert set(read) == set(places)
    assert len(places) == len(set(places)), "no record was written twice"
    for member in members:
        assert member.error is None
        member.stop()
    with member_of(kafka, "asker") as asker:
        at = asker.committed(*(("t", n) for n in range(PARTITIONS)))
    assert {p.partition: each and each.offset for p, each in at.items()} == Counter(n for _, n, _ in places)


@DIFFERS.cell
def test_transactions_are_whole_or_absent_when_their_coordinator_is_killed(kafka: KafkaServer) -> None:
    committed: list[int] = []
    aborted: list[int] = []
    with (
        ottla.Admin(kafka.bootstrap, _transport=KafkaTransport("admin")) as admin,
        ottla.Producer(
            kafka.bootstrap, topic="t", value="int", transactional_id="tx", _transport=KafkaTransport("writer")
        ) as producer,
    ):
        for number in range(60):
            if number == 20:
                kill(kafka, leader(admin, "__transaction_state", partition_of("tx")))
            try:
                with producer.transaction():
                    for partition in range(PARTITIONS):
                        producer.send(number, partition=partition)
            except ottla.TransactionAborted:
                aborted.append(number)
            else:
                committed.append(number)
    assert len(committed) >= 50, aborted
    with reader_of(kafka, value="int", isolation_level="read_committed") as consumer:
        seen = Counter(record.value for record in consumer)
    assert seen == dict.fromkeys(committed, PARTITIONS)


@DIFFERS.cell
def test_a_quota_slows_a_producer_and_a_consumer_down_and_neither_fails(kafka: KafkaServer) -> None:
    quotas = f"producer_byte_rate={QUOTA_BYTES},consumer_byte_rate={QUOTA_BYTES}"
    run_tool(
        "kafka-configs",
        *("--bootstrap-server", kafka.bootstrap, "--alter", "--add-config", quotas),
        *("--entity-type", "clients", "--entity-name", "slow"),
    )
    began_at = time.monotonic()
    with ottla.Producer(
        kafka.bootstrap, topic="t", value="bytes", client_id="slow", _transport=KafkaTransport("slow")
    ) as producer:
        for _ in range(ROUNDS):
            for _ in range(RECORDS // ROUNDS):
                producer.send(os.urandom(1000), partition=0)
            producer.flush()
    assert time.monotonic() - began_at > PAUSES_S, "the quota was enforced"
    began_at = time.monotonic()
    with reader_of(kafka, "slow", value="bytes", fetch_max_bytes=RECORDS * 1000 // ROUNDS) as consumer:
        assert sum(1 for _ in consumer) == RECORDS
    assert time.monotonic() - began_at > PAUSES_S
