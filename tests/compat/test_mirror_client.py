"""Kafka's own MirrorClient, by which programs fail over, on what ottla's mirror has written for it."""

from __future__ import annotations

from pathlib import Path

from mirror_process import MirrorProcess
from peers.mirror_maker.remote import Remote, remote
from tests.compat.cells import MM2
from tests.compat.flows import PARTITIONS, RECORDS, Side
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster


@MM2.cell
def test_it_finds_what_ottlas_mirror_has_copied_and_where_a_group_goes_on(tmp_path: Path) -> None:
    """Where it is committed in the target, and where ottla's client finds it. Offsets are lower than in the source,
    which has markers of transactions."""
    with Cluster(txn_coordinators=1) as one, Cluster() as other:
        east, west = Side("east", one.bootstrap), Side("west", other.bootstrap)
        east.create("orders")
        with ottla.Producer(one.bootstrap, topic="orders", transactional_id="orders") as producer:
            for first in range(0, RECORDS, 10):
                with producer.transaction() as transaction:
                    for n in range(first, first + 10):
                        transaction.send(f"{n}", partition=n % PARTITIONS)
        read = east.read_in_group("readers", "orders", RECORDS * 3 // 4)  # of both partitions
        at = {partition: len(rows) for partition, rows in read.items()}
        with MirrorProcess(tmp_path, one.bootstrap, other.bootstrap, "orders", heartbeats=True) as mirror:
            wait_until(lambda: west.committed("readers") == {("east.orders", n): offset for n, offset in at.items()})
            wait_until(lambda: west.ends("east.heartbeats").get(0))
            assert remote(west.bootstrap, "east", "readers") == Remote(
                upstream=["east"],
                hops=1,
                topics=["east.heartbeats", "east.orders"],
                heartbeats=["east.heartbeats"],
                checkpoints=["east.checkpoints.internal"],
                offsets={f"east.orders-{n}": offset for n, offset in at.items()},
            )
            committed = {ottla.TopicPartition(*at): offset for at, offset in east.committed("readers").items()}
            assert all(offset > at[partition] for (_, partition), offset in committed.items())
            translated = {ottla.TopicPartition("east.orders", n): offset for n, offset in at.items()}
            assert mirror.client.translate("east->west", committed) == translated
            mirror.terminate()
        left = {partition: rows[at[partition] :] for partition, rows in east.read("orders").items()}
        assert west.read_in_group("readers", "east.orders", RECORDS // 4) == {
            n: rows for n, rows in left.items() if rows
        }
