"""This module says where a consumer is stuck, and how far each broker lets it read."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.consumer import FetchRequest, FetchResponse
from tests.fuzz.kafka_wire import KafkaWire

import ottla

_VERSION: Final = 11
"""A version that names topics, as all up to 12 do."""


def standstill(consumer: ottla.Consumer[Any, Any], topic: str, bootstrap: str) -> str:
    """Return, in words, each partition's position, and what each broker has for readers of committed records there."""
    try:
        return _described(consumer, topic, bootstrap)
    except Exception as error:  # whatever it is, it must not hide the finding
        return f"where it is stuck is not known: {error!r}"


def _described(consumer: ottla.Consumer[Any, Any], topic: str, bootstrap: str) -> str:
    found = []
    for partition in sorted(consumer.assignment()):
        at = consumer.position(partition)
        told = [f"{address}: {_fetched(address, topic, partition.partition, at)}" for address in bootstrap.split(",")]
        found.append(f"{partition} is stuck at {at} ({', '.join(told)})")
    return "; ".join(found)


def _fetched(address: str, topic: str, partition: int, offset: int) -> str:
    asked = FetchRequest.FetchTopic
    part = asked.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        version=_VERSION,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[asked(topic=topic, partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
    )
    try:
        with KafkaWire(address) as wire:
            [of_topic] = wire.ask(request, _VERSION, FetchResponse).responses
    except OSError as error:
        return str(error)
    [got] = of_topic.partitions
    return (
        f"code {got.error_code}, {len(got.records or b'')} bytes, last stable offset {got.last_stable_offset}, high "
        f"watermark {got.high_watermark}"
    )
