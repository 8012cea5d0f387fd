"""The fetch sessions that consumers leave at real brokers (KIP-227)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from waiting import wait_until

import ottla
import ottla.aio
from ottla.testing import Cluster
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.wiring import fetch_sessions
from ottla_broker.replication.fetch_purgatory import FetchPurgatory

RECORDS = 30


@pytest.fixture(scope="module")
def kept() -> Iterator[list[FetchSessions]]:
    """The sessions of each broker of the cluster."""
    found: list[FetchSessions] = []

    def noted(purgatory: FetchPurgatory) -> FetchSessions:
        found.append(fetch_sessions(purgatory))
        return found[-1]

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("ottla_broker.app.fetch_sessions", noted)
        yield found


@pytest.fixture(scope="module")
def cluster(kept: list[FetchSessions]) -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        ottla.Admin(running.bootstrap).topics.create("t", partitions=3)
        with ottla.Producer(running.bootstrap, topic="t") as producer:
            for n in range(RECORDS):
                producer.send(str(n), partition=n % 3)
        yield running


@pytest.mark.story("closed-consumers-leave-fetch-sessions")
def test_a_consumer_that_closes_between_two_fetches_ends_its_sessions(
    cluster: Cluster, kept: list[FetchSessions]
) -> None:
    with ottla.Consumer("t", bootstrap=cluster.bootstrap, start="earliest", stop="end") as consumer:
        assert len(list(consumer)) == RECORDS
        assert [len(each) for each in kept] == [1, 1, 1]
    wait_until(lambda: [len(each) for each in kept] == [0, 0, 0])


def test_a_consumer_that_closes_during_a_fetch_ends_its_sessions(cluster: Cluster, kept: list[FetchSessions]) -> None:
    with ottla.Consumer("t", bootstrap=cluster.bootstrap, start="latest", fetch_max_wait=10) as consumer:
        assert not consumer.poll(0.1)
        wait_until(lambda: [len(each) for each in kept] == [1, 1, 1])
    wait_until(lambda: [len(each) for each in kept] == [0, 0, 0])


def test_a_member_of_a_group_and_an_async_consumer_end_their_sessions(
    cluster: Cluster, kept: list[FetchSessions]
) -> None:
    async def read() -> int:
        async with ottla.aio.Consumer("t", bootstrap=cluster.bootstrap, start="earliest", stop="end") as consumer:
            return len([record async for record in consumer])

    assert asyncio.run(read()) == RECORDS
    wait_until(lambda: [len(each) for each in kept] == [0, 0, 0])
    with ottla.Consumer("t", bootstrap=cluster.bootstrap, group="g", auto_offset_reset="earliest") as member:
        assert next(iter(member)) is not None
    wait_until(lambda: [len(each) for each in kept] == [0, 0, 0])
