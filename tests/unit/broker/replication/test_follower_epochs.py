"""Who may fetch as a follower: id and epoch are known to anybody, the secret of the registration is not."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from ottla_broker.replication.follower_epochs import FollowerEpochs
from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, Change, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_proto import broker_pb2 as pb

SECRET = b"s" * 32
TWO = Broker(2, 12, "d", "h:1", fenced=False, secret=SECRET)


class Metadata:
    def __init__(self, *brokers: Broker) -> None:
        self.image = ClusterImage("c", brokers={broker.id: broker for broker in brokers})
        self._listeners: list[Any] = []

    def on_change(self, listener: Any) -> None:
        self._listeners.append(listener)

    def change(self, broker: Broker | None) -> None:
        old = self.image
        self.image = old.with_changes([Change(keys.broker(2), broker)], old.revision + 1)
        for listener in self._listeners:
            listener(old, self.image)


def lives(metadata: Metadata, clock: ManualClock | None = None) -> FollowerEpochs:
    followed: Any = metadata
    return FollowerEpochs(followed, clock or ManualClock())


def refusal(of: FollowerEpochs, epoch: int = 12, secret: bytes = SECRET, broker_id: int = 2) -> ErrorCode:
    try:
        of.check(pb.Follower(broker_id=broker_id, broker_epoch=epoch, secret=secret), RequestContext(client_host="h"))
    except OttlaError as error:
        return ErrorCode(error.code)
    return ErrorCode.NONE


@pytest.mark.story("published-epoch-proves-a-follower")
@pytest.mark.rule(22)
@pytest.mark.parametrize("secret", [b"", b"s", b"t" * 32, SECRET + b"s"])
def test_the_published_epoch_proves_nothing(secret: bytes) -> None:
    known = lives(Metadata(TWO))
    assert refusal(known) == ErrorCode.NONE
    assert refusal(known, secret=secret) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refusal(known, epoch=11) == ErrorCode.STALE_BROKER_EPOCH
    assert refusal(known, broker_id=9) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_lapsed_registration_stops_no_replication_and_opens_it_to_nobody() -> None:
    metadata = Metadata(TWO)
    known = lives(metadata)
    metadata.change(None)
    assert refusal(known) == ErrorCode.NONE
    assert refusal(known, secret=b"") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    metadata.change(replace(TWO, epoch=13, secret=b"n" * 32))
    assert refusal(known) == ErrorCode.STALE_BROKER_EPOCH
    assert refusal(known, epoch=13) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refusal(known, epoch=13, secret=b"n" * 32) == ErrorCode.NONE


def test_a_broker_of_an_older_release_has_its_epoch_only() -> None:
    known = lives(Metadata(replace(TWO, secret=b"")))
    assert refusal(known, secret=b"") == ErrorCode.NONE
    assert refusal(known, epoch=11, secret=b"") == ErrorCode.STALE_BROKER_EPOCH


def test_a_thousand_tries_are_one_line_in_the_log_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    known = lives(Metadata(TWO), clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            refusal(known, secret=b"guess")
        clock.advance(11)
        refusal(known, secret=b"guess")
    assert len(caplog.records) == 2
    assert "rejected a fetch from h: the caller claims to be broker 2" in caplog.text
    assert "ssss" not in caplog.text + repr(TWO)
