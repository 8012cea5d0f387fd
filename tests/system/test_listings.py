"""Listings while coordinators are restarted in order: each is complete, or an error, and calls nothing hanging."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla.errors import OttlaError
from ottla.testing import Cluster

GROUPS = 20
PRODUCERS = 6
RESTARTS = 6
PAUSE_S = 1.0
"""Between restarts: long enough for shards to be read, or no listing would ever be complete."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, group_coordinators=2, txn_coordinators=2) as running:
        with ottla.Admin(running.bootstrap) as admin:
            admin.topics.create("t", partitions=1)
        yield running


def outcomes(listing: Callable[[], int], restart: Callable[[], object]) -> Counter[int | str]:
    """List while a coordinator is restarted again and again. Return how often each length came, or each error."""
    found: Counter[int | str] = Counter()
    over = threading.Event()

    def run() -> None:
        try:
            for _ in range(RESTARTS):
                restart()
                over.wait(PAUSE_S)
        finally:
            over.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not over.is_set():
        try:
            found[listing()] += 1
        except OttlaError as error:
            found[type(error).__name__] += 1
    thread.join()
    return found


@pytest.mark.story("listings-that-are-short")
def test_a_list_of_groups_has_all_of_them(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        for n in range(GROUPS):
            admin.groups.commit(f"g-{n}", {ottla.TopicPartition("t", 0): 1})
        found = outcomes(lambda: len(admin.groups.list(timeout=30)), cluster.group_coordinators[1].restart)
    assert set(found) == {GROUPS}, found


@pytest.mark.story("listings-that-are-short")
def test_no_transaction_that_is_open_and_well_is_called_hanging(cluster: Cluster) -> None:
    producers = [
        ottla.Producer[str, str](cluster.bootstrap, topic="t", transactional_id=f"live-{n}") for n in range(PRODUCERS)
    ]
    with ottla.Admin(cluster.bootstrap) as admin:
        for producer in producers:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("x").result(30)
        restart = cluster.txn_coordinators[1].restart
        found = outcomes(lambda: len(admin.transactions.hanging("t", timeout=30)), restart)
        for producer in producers:
            producer.commit_transaction()
            producer.close()
    assert set(found) == {0}, found
