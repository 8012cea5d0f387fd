"""Leaders that a response names are taken over together: a failover of thousands of partitions is one change."""

from __future__ import annotations

import gc
import time
import weakref
from threading import Event, Timer
from typing import Any, cast

import pytest
from waiting import wait_until

from ottla.client import metadata_updater
from ottla.client.metadata_updater import MetadataUpdater
from ottla.client.named_leaders import NamedLeader
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView, build_view
from ottla_core.clock import SystemClock
from ottla_core.model import PartitionId, TopicId

ID = TopicId(b"t" * 16)


class Cluster:
    clock = SystemClock()

    def at_close(self, end: Any) -> None:
        """It is not closed here."""

    def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
        topic = TopicView("t", ID, tuple(PartitionView(0, 3) for _ in range(1000)))
        return build_view("c", (-1, ""), [BrokerView(0, "a:1")], [topic])


def test_the_leaders_that_a_response_names_are_one_change() -> None:
    changes: list[ClusterView] = []
    updater = MetadataUpdater(cast(Any, Cluster()), name="x", max_age=60, timeout=1, on_change=changes.append)
    try:
        updater.until_known(["t"], 20)
        wait_until(lambda: bool(changes))
        changes.clear()
        moved = [NamedLeader(PartitionId(ID, number), "b:1", 4) for number in range(1000)]
        updater.learn(moved)
        updater.learn(moved)
        updater.learn([])
        assert [{route.address for route in view.routes.values()} for view in changes] == [{"b:1"}]
    finally:
        updater.close()


def test_a_wait_that_is_over_gets_the_reason_that_the_fetch_under_way_finds() -> None:
    waited = Event()

    class Slow(Cluster):
        out_of_reach = False

        def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
            waited.wait(10)
            raise error_from_code(ErrorCode.NETWORK_EXCEPTION, "nothing listens")

    updater = MetadataUpdater(cast(Any, Slow()), name="x", max_age=60, timeout=1, on_change=lambda _: None)
    releaser = Timer(0.2, waited.set)
    releaser.start()
    try:
        with pytest.raises(OttlaError, match="nothing listens"):
            updater.until_known(["t"], 0.02)
    finally:
        releaser.join()
        updater.close()


@pytest.mark.story("rejected-login-again-and-again")
def test_a_rejected_login_is_rarely_repeated_while_no_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pauses of ten minutes, only a waiting thread causes another try."""
    monkeypatch.setattr(metadata_updater, "_LEAST_REJECTED_PAUSE_S", 600.0)
    monkeypatch.setattr(metadata_updater, "_MOST_REJECTED_PAUSE_S", 600.0)
    tries: list[float] = []

    class Rejecting(Cluster):
        out_of_reach = False

        def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
            tries.append(time.monotonic())
            raise error_from_code(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker rejected the login")

    updater = MetadataUpdater(cast(Any, Rejecting()), name="x", max_age=600, timeout=1, on_change=lambda _: None)
    try:
        for number in (1, 2):
            with pytest.raises(OttlaError, match="rejected the login"):
                updater.until_known(["t"], 20)
            assert len(tries) <= number + 1, "a thread that has seen the error does not wait any longer"
        time.sleep(0.5)
        assert len(tries) <= 3
    finally:
        updater.close()


def test_an_error_keeps_nothing_alive_of_the_thread_that_got_it() -> None:
    """A producer whose first metadata request had failed was never collected, even after it was closed."""

    class Refusing(Cluster):
        out_of_reach = False

        def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
            raise error_from_code(ErrorCode.INVALID_REQUEST, "no", hint="don't", broker="a:1")

    class Owner:
        pass

    def ask() -> weakref.ref[Owner]:
        owner = Owner()
        with pytest.raises(OttlaError) as caught:
            updater.until_known(["t"], 5)
        error = caught.value
        assert (error.code, error.message, error.hint, error.broker) == (
            ErrorCode.INVALID_REQUEST,
            "no",
            "don't",
            "a:1",
        )
        return weakref.ref(owner)

    updater = MetadataUpdater(cast(Any, Refusing()), name="x", max_age=60, timeout=1, on_change=lambda _: None)
    try:
        owner = ask()
        gc.collect()
        assert owner() is None
    finally:
        updater.close()


@pytest.mark.story("metadata-for-a-deleted-topic")
def test_a_topic_that_is_gone_costs_few_requests_and_a_new_one_is_not_slowed_down_by_it() -> None:
    asked: list[float] = []

    class Without(Cluster):
        out_of_reach = False

        def fetch_metadata(self, topics: Any = (), **__: Any) -> ClusterView:
            asked.append(time.monotonic())
            gone = TopicView("gone", TopicId(b""), (), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            there = [TopicView(name, ID, (PartitionView(0, 3),)) for name in topics if name != "gone"]
            return build_view("c", (-1, ""), [BrokerView(0, "a:1")], [gone, *there])

    updater = MetadataUpdater(cast(Any, Without()), name="x", max_age=60, timeout=1, on_change=lambda _: None)
    try:
        updater.follow(["gone"])
        updater.refresh()
        wait_until(lambda: len(asked) >= 7)
        assert asked[6] - asked[5] >= 0.4, "requests become rare once a topic has been gone for a while"
        began_at = time.monotonic()
        updater.until_known(["there"], 20)
        assert time.monotonic() - began_at < 0.4, "who waits is not kept waiting"
    finally:
        updater.close()
