"""Produce by hand: sequences, epochs, and batches that no client should send."""

from __future__ import annotations

import struct
import uuid
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.compat.differential.story import Facts, Side, Story, by_version, code_name, patient
from tests.fuzz.kafka_wire import KafkaWire
from wire import batch

from ottla_core.records.batch import body_crc

PRODUCE: Final = 0
_ID_VERSION: Final = 4
_IDS_FROM: Final = 13
_METADATA_VERSION: Final = 12
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_ID_AT: Final = 43


def numbered(data: bytes, producer_id: int, epoch: int, sequence: int, *, transactional: bool = False) -> bytes:
    """The batch with these numbers of a producer."""
    changed = bytearray(data)
    struct.pack_into(">qhi", changed, _ID_AT, producer_id, epoch, sequence)
    if transactional:
        changed[_ATTRIBUTES_AT + 1] |= 0x10
    struct.pack_into(">I", changed, _CRC_AT, body_crc(changed))
    return bytes(changed)


def init(wire: KafkaWire, transactional_id: str | None = None, timeout_ms: int = 60_000) -> tuple[int, int]:
    """The id and the epoch of a new producer."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
    )
    made = patient(lambda: wire.ask(request, _ID_VERSION, InitProducerIdResponse), lambda answer: answer.error_code)
    assert made.error_code == 0, code_name(made.error_code)
    return made.producer_id, made.producer_epoch


def topic_id(wire: KafkaWire, topic: str) -> uuid.UUID:
    asked = MetadataRequest.MetadataRequestTopic(name=topic, topic_id=None)
    request = MetadataRequest(
        topics=[asked], allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    (found,) = wire.ask(request, _METADATA_VERSION, MetadataResponse).topics
    return uuid.UUID(str(found.topic_id)) if found.topic_id else uuid.UUID(int=0)


def produce(
    wire: KafkaWire,
    version: int,
    topic: str,
    records: bytes | None,
    *,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> Any:
    """The response's only partition."""
    data = ProduceRequest.TopicProduceData
    id_ = topic_id(wire, topic) if version >= _IDS_FROM else None
    part = data.PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[data(name=topic, topic_id=id_, partition_data=[part])],
    )
    return patient(
        lambda: wire.ask(request, version, ProduceResponse).responses[0].partition_responses[0],
        lambda found: found.error_code,
    )


def _sequences(side: Side) -> Facts:
    topic = side.topic()

    def sent(version: int, *numbers: tuple[int, int], until: int = 1) -> str:
        """Send batches of one record with these epochs and sequences; the outcome of the last `until`."""
        with side.wire() as wire:
            producer_id, _ = init(wire)
            outcomes = [
                produce(wire, version, topic, numbered(batch(b"v"), producer_id, epoch, sequence))
                for epoch, sequence in numbers
            ]
        first = outcomes[0].base_offset
        last = outcomes[-until:]
        return " ".join(
            f"{code_name(p.error_code)}{f'@{p.base_offset - first}' if p.error_code == 0 else ''}" for p in last
        )

    stories = {
        "the first has sequence 0": [(0, 0)],
        "the next one": [(0, 0), (0, 1)],
        "the last one again": [(0, 0), (0, 1), (0, 1)],
        "one of the last five again": [*((0, n) for n in range(5)), (0, 0)],
        "one before the last five again": [*((0, n) for n in range(7)), (0, 0)],
        "a gap": [(0, 0), (0, 5)],
        "an unknown producer in the middle": [(0, 5)],
        "a new epoch from 0": [(0, 0), (1, 0)],
        "a new epoch in the middle": [(0, 0), (1, 1)],
        "an old epoch": [(0, 0), (1, 0), (0, 1)],
    }
    return {name: by_version(PRODUCE, lambda v, n=numbers: sent(v, *n)) for name, numbers in stories.items()}


def _bad_batches(side: Side) -> Facts:
    plain, compacted = side.topic(), side.topic(cleanup_policy="compact")
    small = side.topic(max_message_bytes="200")
    strict = side.topic(message_timestamp_after_max_ms="1000")
    good = batch(b"v")
    broken = bytearray(good)
    broken[-2] ^= 1
    future = batch(b"v", timestamp_ms=4_000_000_000_000)

    def sent(topic: str, records: bytes | None, **how: Any) -> str:
        def live(version: int) -> str:
            with side.wire() as wire:
                return code_name(produce(wire, version, topic, records, **how).error_code)

        return by_version(PRODUCE, live)

    return {
        "a wrong CRC": sent(plain, bytes(broken)),
        "cut off": sent(plain, good[:-3]),
        "no records": sent(plain, b""),
        "two batches": sent(plain, good + good),
        "acks 2": sent(plain, good, acks=2),
        "an unknown topic": sent("nowhere", good),
        "a bad name": sent("no/name", good),
        "an unknown partition": sent(plain, good, partition=9),
        "too large": sent(small, batch(b"v" * 1000)),
        "no key for compaction": sent(compacted, good),
        "a time in the future": sent(strict, future),
        "an internal topic": sent("__consumer_offsets", good),
        "transactional without an id": sent(plain, numbered(good, 1, 0, 0, transactional=True)),
    }


STORIES: Final = (Story("sequences", _sequences), Story("batches", _bad_batches))
