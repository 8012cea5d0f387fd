"""A mirror whose target has no room left: it says so, loses nothing, and goes on when there is room again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mirrors import by_partition, copied, mirrored, written
from small_disks import fill, on_small_disk
from waiting import wait_until

from ottla.testing import Cluster
from ottla_mirror.flow import Flow

RECORD = bytes(100_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


@pytest.fixture
def small() -> Iterator[Cluster]:
    """The target: `west`."""
    with on_small_disk(Cluster(brokers=1, txn_coordinators=1)) as running:
        yield running


def said(flow: Flow) -> str:
    return " ".join(filter(None, [flow.trouble, *(p.trouble for p in flow.partitions.values())]))


def once(records: dict[int, list[tuple[object, ...]]]) -> dict[int, list[tuple[object, ...]]]:
    """Return the records without repeats, each where it came first."""
    return {partition: list(dict.fromkeys(of_it)) for partition, of_it in records.items()}


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once", "same_offsets"])
def test_a_flow_into_a_full_disk_says_so_and_goes_on_where_it_was(
    cluster: Cluster, small: Cluster, topic: str, delivery: str
) -> None:
    cluster.produce(topic, [b"before"] * 10, value="bytes")
    with mirrored(cluster, small, topic, delivery) as (flow,):
        wait_until(lambda: len(copied(small, topic)) == 10)
        filler = fill(small.brokers[0].data_dir)
        for number in range(50):
            cluster.produce(topic, [b"%d" % number + RECORD], value="bytes")
        wait_until(lambda: "free space" in said(flow))
        filler.unlink()
        wait_until(lambda: len(copied(small, topic)) >= 60)
        wait_until(lambda: not said(flow))
    if delivery == "at_least_once":
        assert once(by_partition(copied(small, topic))) == once(written(cluster, topic))
    else:
        assert by_partition(copied(small, topic)) == written(cluster, topic)
