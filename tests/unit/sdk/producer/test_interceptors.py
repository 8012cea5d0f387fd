"""Interceptors see every record and every outcome, and can do no harm."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from waiting import wait_until

from ottla.client.kafka.apis import PRODUCE
from ottla.errors import ConfigError, DeliveryError, ErrorCode, OttlaError, SerializationError
from ottla.fakes.scripted import Reject, ScriptedCluster
from ottla.producer.delivery import RecordMetadata
from ottla.producer.interceptors import ProducerInterceptor
from ottla.producer.producer import Producer
from ottla.producer.producer_record import ProducerRecord


class Noting(ProducerInterceptor):
    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.sent: list[ProducerRecord[Any, Any]] = []
        self.outcomes: list[tuple[RecordMetadata, OttlaError | None]] = []

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        self.sent.append(record)
        return replace(record, value=[*(record.value or []), self.mark], headers={"by": self.mark})

    def on_acknowledgement(self, metadata: RecordMetadata, error: OttlaError | None) -> None:
        self.outcomes.append((metadata, error))


class Raising(ProducerInterceptor):
    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        raise RuntimeError("broken")

    def on_acknowledgement(self, metadata: RecordMetadata, error: OttlaError | None) -> None:
        raise RuntimeError("broken too")


class Forgetful:
    def on_send(self, record: ProducerRecord[Any, Any]) -> None:
        pass


def producer_of(cluster: ScriptedCluster, *interceptors: object, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", topic="t", interceptors=interceptors, _transport=cluster.connect, **arguments)


@pytest.mark.feature(28)
def test_each_gets_before_serialization_what_the_one_before_it_made() -> None:
    cluster = ScriptedCluster({"t": 1})
    first, second = Noting("a"), Noting("b")
    with producer_of(cluster, first, second) as producer:
        producer.send([1], key="k", timestamp=5)
    assert first.sent == [ProducerRecord([1], key="k", topic="t", timestamp=5)]
    assert second.sent == [ProducerRecord([1, "a"], key="k", topic="t", headers={"by": "a"}, timestamp=5)]
    (record,) = cluster.records("t", 0)
    assert (record[3], list(record[4])) == (b'[1,"a","b"]', [("by", b"b"), ("ottla.auto.value", b"json")])


@pytest.mark.feature(29)
def test_each_hears_where_a_record_is_or_what_went_wrong() -> None:
    cluster = ScriptedCluster({"t": 1})
    noting = Noting("a")
    producer = producer_of(cluster, noting)
    producer.send([1], timestamp=5).result(5)
    wait_until(lambda: bool(noting.outcomes))
    with pytest.raises(SerializationError):
        producer.send([object()], partition=0)
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no key"))
    producer.send([2], timestamp=6)  # nobody asks for its outcome: an interceptor that hears of it does not count
    with pytest.raises(DeliveryError, match="1 record was not delivered"):
        producer.close()
    good, refused, failed = noting.outcomes
    assert good == (RecordMetadata("t", 0, 0, 5), None)
    assert refused[0] == RecordMetadata("t", 0, -1, -1)
    assert isinstance(refused[1], SerializationError)
    assert failed[0] == RecordMetadata("t", 0, -1, 6)
    assert failed[1] is not None
    assert failed[1].code == ErrorCode.INVALID_RECORD


@pytest.mark.feature(28)
@pytest.mark.feature(29)
def test_one_that_raises_is_logged_once_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": 1})
    noting = Noting("a")
    with (
        caplog.at_level(logging.ERROR, "ottla.producer"),
        producer_of(cluster, Raising(), Forgetful(), noting) as producer,
    ):
        deliveries = [producer.send([n]) for n in range(3)]
        assert [delivery.result(5).offset for delivery in deliveries] == [0, 1, 2]
    assert cluster.values("t", 0) == [b'[0,"a"]', b'[1,"a"]', b'[2,"a"]']
    assert len(noting.outcomes) == 3
    assert sorted(record.getMessage().partition(";")[0] for record in caplog.records) == [
        "the interceptor Forgetful failed in on_send",
        "the interceptor Raising failed in on_acknowledgement",
        "the interceptor Raising failed in on_send",
    ]


def test_what_has_neither_method_is_refused_and_without_any_send_is_bare() -> None:
    cluster = ScriptedCluster({"t": 1})
    with pytest.raises(ConfigError, match="neither on_send nor on_acknowledgement"):
        producer_of(cluster, print)
    with producer_of(cluster) as bare, producer_of(cluster, Noting("a")) as hooked:
        assert "send" not in vars(bare)
        assert "send" in vars(hooked)
