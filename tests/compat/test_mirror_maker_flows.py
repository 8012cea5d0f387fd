"""MirrorMaker 2 between ottla clusters in its other forms: both ways at once, and exactly once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from children import stop
from tests.compat.cells import MM2
from tests.compat.flows import PARTITIONS, RECORDS, Side, mirroring

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

MANY = 5_000
EXACTLY_ONCE = {
    "target.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
    "source.consumer.isolation.level": "read_committed",
    "source.consumer.max.poll.records": 50,  # in one transaction
    "target.producer.transaction.timeout.ms": 10_000,  # its next start waits for the end of what it has left open
}


@MM2.cell
def test_two_clusters_copy_to_one_another(tmp_path: Path) -> None:
    """Each has the other's records once, and none of its own comes back, nor their heartbeats."""
    with Cluster() as one, Cluster() as other:
        a, b = sides = Side("a", one.bootstrap), Side("b", other.bootstrap)
        with mirroring(tmp_path, (a, b), (b, a)) as flows:
            topics = ("orders", "returns")  # with the second one's copies there would be those of the first one's
            for topic in topics:
                for n, side in enumerate(sides):
                    side.create(topic)
                    for partition in range(PARTITIONS):
                        side.write(topic, partition, range(n * RECORDS, (n + 1) * RECORDS))
                for flow in flows:
                    flow.until_copied(topic)
                    flow.until(lambda flow=flow: flow.target.ends(flow.copy("heartbeats")).get(0))
            for flow in flows:
                for topic in topics:
                    flow.until_copied(topic)
                came_back = f"{flow.source.alias}.{flow.target.alias}."
                assert [topic for topic in flow.target.topics() if topic.startswith(came_back)] == []
            flows[0].check_log()


@MM2.cell
def test_each_record_is_copied_exactly_once_where_it_is_killed(tmp_path: Path) -> None:
    """As `exactly.once.source.support` has it, for who reads committed records: by transactions in the target."""
    with Cluster() as one, Cluster(txn_coordinators=1) as other:
        source, target = Side("source", one.bootstrap), Side("target", other.bootstrap)
        source.create("orders")
        for partition in range(PARTITIONS):
            source.write("orders", partition, range(MANY))
        flows = mirroring(tmp_path, (source, target), more=EXACTLY_ONCE)
        with flows as (flow,), ottla.Admin(other.bootstrap) as admin:
            copy = flow.copy("orders")

            def copied() -> int:
                return sum(map(len, target.read(copy).values()))

            def is_stopped_in_a_transaction() -> bool:
                """Return whether it is stopped in an undecided transaction; otherwise let it run on."""
                stop(flow.maker.pid)
                opened = [each.transaction for partition in admin.transactions.open_in(copy) for each in partition.open]
                if any(transaction and transaction.state == "Ongoing" for transaction in opened):
                    return True
                os.kill(flow.maker.pid, signal.SIGCONT)
                return False

            flow.until(lambda: sum(target.ends(copy).values()) > MANY / 2)
            flow.until(is_stopped_in_a_transaction)
            flow.check_log()
            flow.maker.kill()
            before = copied()
            assert 0 < before < PARTITIONS * MANY
            flow.maker.start()
            flow.until(lambda: copied() >= PARTITIONS * MANY)
            assert target.read(copy) == source.read("orders")
            flow.check_log()
            unread = sum(target.ends(copy).values()) - PARTITIONS * MANY
            print(f"killed after {before} of {PARTITIONS * MANY} records; {unread} markers and aborted records")
