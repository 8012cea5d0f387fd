"""Reads partitions of another Kafka. Their records are encoded in batches again at their former offsets, gaps and
all."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ottla.connect import FetchedBatches, ReadPosition
from ottla.errors import error_from_code
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.batch import framed
from ottla_core.records.compression import Codec
from ottla_mirror.clusters.kafka.kafka_errors import as_ottla, kafka_errors
from ottla_mirror.clusters.kafka.kafka_log import READS, headers_of, take
from ottla_mirror.clusters.kafka.topic_ids import TopicIds
from ottla_mirror.machines.encoding import NO_TIMESTAMP, EncodedBatch

logger = logging.getLogger("ottla.mirror")

_MOST: Final = 10_000
"""The most records that are taken at once."""

_BATCH_BYTES: Final = 1024 * 1024
_LOOK_S: Final = 5.0
"""How long a topic that was deleted and created again may be mistaken for the former one."""


class KafkaReader:
    """The `Reader` of another Kafka. Like `BatchReader`, it goes on at the beginning of a topic that was deleted and
    created again, and also if the offset is out of the log."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        with kafka_errors():
            self._consumer: Final = Consumer(
                {**settings, **READS, "group.id": settings["client.id"], "auto.offset.reset": "error"}
            )
        self._ids: Final = TopicIds(settings)
        self._positions: Final[dict[TopicPartition, ReadPosition]] = {}
        self._of: Final[dict[TopicPartition, TopicId | None]] = {}  # the topics in which those are valid, once known
        self._epochs: Final[dict[TopicPartition, int]] = {}  # those of the last records that were read
        self._ready: Final[deque[FetchedBatches]] = deque()
        self._look_at = 0.0

    def assign(
        self, partition: TopicPartition, offset: int | None = None, *, leader_epoch: int = -1, topic_id: TopicId | None
    ) -> None:
        found = self._ids.expected(partition.topic, topic_id) or topic_id
        if offset is not None and found != topic_id:
            logger.warning("%s was deleted and recreated; reading it from its beginning", partition.topic)
            offset, leader_epoch = None, -1
        self.unassign(partition)
        self._positions[partition] = ReadPosition(offset, -1)
        self._of[partition] = found
        self._epochs[partition] = leader_epoch
        at = OFFSET_BEGINNING if offset is None else offset
        with kafka_errors():
            self._consumer.incremental_assign([KafkaPartition(*partition, at, leader_epoch=leader_epoch)])

    def unassign(self, partition: TopicPartition) -> None:
        if self._positions.pop(partition, None) is None:
            return
        del self._of[partition], self._epochs[partition]
        for fetched in [fetched for fetched in self._ready if fetched.partition == partition]:
            self._ready.remove(fetched)
        with kafka_errors():
            self._consumer.incremental_unassign([KafkaPartition(*partition)])

    def positions(self) -> Mapping[TopicPartition, ReadPosition]:
        return dict(self._positions)

    def poll(self, timeout: float) -> FetchedBatches | None:
        if not self._ready:
            self._look_for_new_topics()
            self._fetch(timeout)
        if not self._ready:
            return None
        fetched = self._ready.popleft()
        self._positions[fetched.partition] = self._at(fetched)
        return fetched

    def close(self) -> None:
        self._consumer.close()

    def _fetch(self, timeout: float) -> None:
        messages = take(self._consumer, timeout, _MOST)
        taken, out_of_log = dict[TopicPartition, list[Message]](), list[TopicPartition]()
        for message in messages:
            error = message.error()
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                taken.setdefault(partition, []).append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET and partition in self._positions:
                logger.warning("%s: %s; reading the partition from its beginning", partition, error.str())
                out_of_log.append(partition)
            elif error.fatal():
                raise as_ottla(error)
            else:
                logger.info("%s: %s", partition, error.str())  # librdkafka tries again by itself
        for partition, of_this in taken.items():
            if partition in self._positions:
                self._ready.append(self._block(partition, of_this))
        for partition in out_of_log:  # earlier records are read again, if they are still there
            self.assign(partition, topic_id=None)

    def _block(self, partition: TopicPartition, messages: Sequence[Message]) -> FetchedBatches:
        """Make a block of one partition's records, and note where its end was met."""
        records = [message for message in messages if message.error() is None]
        first, last = messages[0].offset() or 0, messages[-1]
        begun = self._positions[partition].offset
        topic_id = self._of[partition] or self._ids.expected(partition.topic, None)
        if topic_id is None:
            raise error_from_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition.topic} is gone")
        self._of[partition] = topic_id
        if records:
            self._epochs[partition] = _epoch(records[-1])
        return FetchedBatches(
            partition,
            topic_id,
            b"".join(_batches(records)),
            (),
            first if begun is None else begun,
            (last.offset() or 0) + (last.error() is None),
            self._epochs[partition],
        )

    def _at(self, fetched: FetchedBatches) -> ReadPosition:
        with kafka_errors():
            _, end = self._consumer.get_watermark_offsets(KafkaPartition(*fetched.partition), cached=True)
        return ReadPosition(fetched.next_offset, max(end, fetched.next_offset))

    def _look_for_new_topics(self) -> None:
        if monotonic() < self._look_at:
            return
        self._look_at = monotonic() + _LOOK_S
        try:
            found = self._ids.of({partition.topic for partition in self._positions})
        except OttlaError as error:
            logger.info("can't check whether topics were recreated, retrying: %s", error)
            return
        for partition in list(self._positions):
            topic_id = found.get(partition.topic)
            known = self._of[partition]
            if None not in (topic_id, known) and topic_id != known:
                self.assign(partition, self._positions[partition].offset, topic_id=known)


def _batches(records: Sequence[Message]) -> Iterator[bytes]:
    """Yield one batch for each stretch of adjacent offsets."""
    encoded = EncodedBatch(_BATCH_BYTES)
    for at, record in enumerate(records):
        offset, (kind, timestamp_ms) = record.offset() or 0, record.timestamp()
        time = NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
        what = (offset, time, record.key(), record.value(), headers_of(record))
        has_gap = bool(encoded.runs) and offset != encoded.runs[-1].next
        if has_gap or not encoded.append(*what):
            yield _sealed(encoded, records[at - 1])
            encoded = EncodedBatch(_BATCH_BYTES)
            encoded.append(*what)
    if encoded.runs:
        yield _sealed(encoded, records[-1])


def _sealed(encoded: EncodedBatch, last: Message) -> bytes:
    header, payload = encoded.seal(Codec.LZ4)
    return framed(header._replace(base_offset=encoded.runs[0].first, leader_epoch=_epoch(last)), payload)


def _epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
