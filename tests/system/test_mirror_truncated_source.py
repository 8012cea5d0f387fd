"""A mirror whose source has lost its newest records: what follows is copied once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from mirrors import copied, mirrored
from unclean import UncleanTopic
from waiting import wait_until

import ottla
from ottla.testing import Cluster


@pytest.fixture
def source_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def in_copy(west: Cluster, topic: str) -> list[int]:
    return [int.from_bytes(record.value, "big") for record in copied(west, topic)]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("meanwhile", ["runs", "is away"])
def test_what_follows_is_copied_once_and_what_the_source_has_lost_stays_in_the_copy(
    source_cluster: Cluster, west: Cluster, delivery: str, meanwhile: str
) -> None:
    name = f"lost-{delivery}-{meanwhile.replace(' ', '-')}"
    source = UncleanTopic(source_cluster, name)
    with ExitStack() as first:
        (flow,) = first.enter_context(mirrored(source_cluster, west, name, delivery))
        source.produce(range(10))
        source.fall_behind()
        source.produce(range(10, 20))
        wait_until(lambda: in_copy(west, name) == list(range(20)))
        if meanwhile == "is away":
            first.close()
        source.lose_what_followed()
        source.produce(range(100, 105))
        if meanwhile == "is away":
            (flow,) = first.enter_context(mirrored(source_cluster, west, name, delivery))
        wait_until(lambda: len(in_copy(west, name)) >= 25)
        source.produce(range(105, 110))
        expected = [*range(20), *range(100, 110)]
        wait_until(lambda: len(in_copy(west, name)) >= len(expected))
        assert in_copy(west, name) == expected
        copies = {value: record.offset for value, record in zip(expected, copied(west, name), strict=True)}
        for value in range(100, 110):
            at = ottla.TopicPartition(name, 0), value - 90
            wait_until(lambda: flow.syncs.translate(*at) == copies[value])  # noqa: B023
