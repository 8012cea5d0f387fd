"""Where records lie that went to another Kafka one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ottla
from ottla_mirror.clusters.kafka.kafka_writer import KafkaSent
from ottla_mirror.machines.encoding import Run

failures: list[KafkaError] = []


def sent(*offsets: int | None, error: KafkaError | None = None) -> KafkaSent:
    made = KafkaSent(lambda timeout: 0, failures.append, len(offsets))
    for offset in offsets:
        message: Any = SimpleNamespace(offset=lambda offset=offset: offset)
        made.on_delivery(error, message)
    return made


def test_records_of_others_in_between_part_the_runs() -> None:
    assert sent(5, 6, 7, 10, 11).runs() == [Run(5, 3), Run(10, 2)]


@pytest.mark.parametrize("unknown", [None, -1001])
def test_where_one_offset_is_not_known_none_is_as_they_are_told_apart_by_their_order(unknown: int | None) -> None:
    assert sent(5, unknown, 7).runs() == ()


def test_what_failed_is_raised_with_its_code() -> None:
    failed = sent(-1, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ottla.OttlaError) as raised:
        failed.runs()
    assert (failed.done(), raised.value.code) == (True, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def test_what_is_under_way_is_not_done() -> None:
    later = KafkaSent(lambda timeout: 0, failures.append, 2)
    assert not later.done()
    with pytest.raises(ottla.TimeoutError):
        later.result(0.01)
