"""A broker is killed after its log was compacted, and what it recovers decides about others: on a real cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_fetcher import Replication

pytestmark = pytest.mark.rule(58, 62)

T = TypeVar("T")
TABLE = {"cleanup.policy": "compact", "segment.bytes": 20_000, "min.cleanable.dirty.ratio": 0}


def part_of(broker: Any, kind: type[T]) -> T:
    return next(each for each in broker._app._components if isinstance(each, kind))


def replica_of(broker: Any, topic: str) -> Replica:
    return next(r for r in part_of(broker, LogCleaner)._replicas.all() if r.topic == topic)


@pytest.fixture
def pair() -> Iterator[tuple[Cluster, ottla.Admin]]:
    with Cluster(brokers=2) as cluster, ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"log.cleaner.backoff.ms": 100})
        yield cluster, admin


@pytest.mark.rule(2, 4)
@pytest.mark.timeout(240)
def test_a_value_that_was_never_committed_takes_no_committed_ones_place(pair: tuple[Cluster, ottla.Admin]) -> None:
    """Broker B is away, with uncommitted records of its own. A leads, is compacted, killed, recovers; B returns."""
    cluster, admin = pair
    admin.topics.create("t", partitions=1, replicas=2, config=TABLE | {"min.insync.replicas": 1})

    def partition() -> Any:
        return admin.topics.describe("t")[0].partitions[0]

    def put(rows: dict[str, str], rounds: int = 1, *, acks: Any = "all") -> None:
        with ottla.Producer(
            cluster.bootstrap, topic="t", value="str", acks=acks, batch_size=500, enable_idempotence=acks == "all"
        ) as producer:
            for _ in range(rounds):
                for key, value in rows.items():
                    producer.send(value, key=key).result(30)

    def balance() -> tuple[int, str]:
        with ottla.Consumer("t", bootstrap=cluster.bootstrap, start="earliest", stop="end", value="str") as consumer:
            return {record.key: (record.offset, record.value) for record in consumer}["balance"]

    wait_until(lambda: len(partition().isr) == 2)
    leader = partition().leader
    b, a = cluster.brokers[leader], cluster.brokers[1 - leader]
    put({"balance": "committed", **{f"k{n}": "v" for n in range(20)}})
    wait_until(lambda: replica_of(a, "t").log.log_end_offset == replica_of(b, "t").log.log_end_offset)
    cluster.run(part_of(a, Replication).stop())
    put({"balance": "never committed"}, 5, acks=1)
    b.kill()
    wait_until(lambda: partition().leader == 1 - leader)
    put({"hot": "x" * 400}, 150)
    log = replica_of(a, "t").log
    wait_until(lambda: log.compaction.first_dirty_offset == log.segments[-1].base_offset > 0)
    known = log.epochs.entries
    a.kill()
    a.restart()
    wait_until(lambda: partition().leader == 1 - leader)
    assert replica_of(a, "t").log.epochs.entries[: len(known)] == known
    b.restart()
    wait_until(lambda: len(partition().isr) == 2)
    assert balance() == (0, "committed")
    a.stop()
    wait_until(lambda: partition().leader == leader)
    assert balance() == (0, "committed")


@pytest.mark.rule(29, 37)
@pytest.mark.timeout(240)
def test_a_transaction_that_was_committed_and_cleaned_away_holds_up_no_reader() -> None:
    with Cluster(txn_coordinators=1) as cluster, ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"log.cleaner.backoff.ms": 100})
        admin.topics.create("t", partitions=1, replicas=1, config=TABLE | {"delete.retention.ms": "1h"})
        broker = cluster.brokers[0]
        log, written = replica_of(broker, "t").log, 0

        def put(count: int, key: str | None = None) -> None:
            nonlocal written
            with ottla.Producer(cluster.bootstrap, topic="t", value="bytes", acks="all", linger=0) as producer:
                for _ in range(count):
                    producer.send(os.urandom(900), key=key or f"u{written}").result(20)
                    written += 1

        def roll() -> None:
            count = len(log.segments)
            while len(log.segments) == count:
                put(5)

        def markers() -> list[int]:
            return [h.base_offset for s in log.segments for _, h in s.headers_from(0) if h.is_control]

        def committed() -> int:
            with ottla.Consumer(
                "t", bootstrap=cluster.bootstrap, start="earliest", stop="end", isolation_level="read_committed"
            ) as consumer:
                return sum(1 for _ in consumer)

        put(5)
        with ottla.Producer(cluster.bootstrap, topic="t", transactional_id="x", value="bytes") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(b"of a transaction", key="k")
            producer.flush()
            roll()
            log.flush(cluster.clock.wall_ms())
            producer.commit_transaction()
        put(1, key="k")
        wait_until(lambda: len(markers()) == 1)

        async def tidy() -> None:
            replica_of(broker, "t").tidy(cluster.clock.wall_ms())

        for _ in range(12):
            cluster.clock.move(timedelta(days=2))
            cluster.run(tidy())
            roll()
            end = log.segments[-1].base_offset
            wait_until(lambda end=end: log.compaction.first_dirty_offset >= end)
            if not markers():
                break
        assert not markers(), "the marker was in a cleaned segment"
        before = committed()
        broker.kill()
        broker.restart()
        wait_until(lambda: replica_of(broker, "t").leads)
        assert committed() == before
