"""A member of the flow's group in another Kafka."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

import ottla
from ottla_core.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.cluster import CALL_S, GroupEvents
from ottla_mirror.clusters.kafka.kafka_errors import as_ottla, kafka_errors

logger = logging.getLogger("ottla.mirror")

_LOOK_S: Final = 1.0
_BEATS: Final = 3
"""The number of heartbeats in a session."""

_END: Final = ";"
"""It is written behind a note, because librdkafka returns notes without their length, and reads what follows in memory
with them."""


class KafkaMember:
    """The `Member` in another Kafka. Topics are subscribed to by their names, as `pattern` finds them, because
    librdkafka's own patterns are of another kind."""

    def __init__(
        self, settings: Mapping[str, Any], group: str, pattern: str, session_s: float, events: GroupEvents
    ) -> None:
        own: dict[str, Any] = {
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",  # so that it waits for offsets of an open transaction (KIP-447)
            "session.timeout.ms": int(session_s * 1000),
            "heartbeat.interval.ms": int(session_s * 1000 / _BEATS),
        }
        with kafka_errors():
            self._consumer: Final = Consumer({**settings, **own})
            self._admin: Final = AdminClient(dict(settings))
        self._pattern: Final = re.compile(pattern)
        self._events: Final = events
        self._topics: list[str] = []
        self._look_at = 0.0

    def close(self) -> None:
        """Leave the group, and drop the clients, which have this object as their callbacks."""
        self._consumer.close()
        vars(self).clear()

    def poll(self, timeout: float) -> None:
        self._subscribe()
        with kafka_errors():
            message = self._consumer.poll(timeout)
        error = None if message is None else message.error()
        if error is not None and error.fatal():
            raise as_ottla(error)

    def committed(self, copies: Sequence[TopicPartition]) -> Mapping[TopicPartition, ottla.OffsetAndMetadata | None]:
        if not copies:
            return {}
        with kafka_errors():
            found = self._consumer.committed([KafkaPartition(*copy) for copy in copies], CALL_S)
        return {
            TopicPartition(at.topic, at.partition): ottla.OffsetAndMetadata(at.offset, _note_of(at))
            if at.offset >= 0
            else None
            for at in found
        }

    def commit(self, offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata]) -> None:
        with kafka_errors():
            committed = self._consumer.commit(offsets=to_commit(offsets), asynchronous=False)
        for error in [at.error for at in committed or () if at.error is not None]:
            raise as_ottla(error)

    def rebalance(self) -> None:
        """Do nothing, because librdkafka's assignors know no loads."""

    def is_replaced(self) -> bool:
        return False

    def leave(self) -> None:
        """Do nothing, because it has left when it was closed."""

    def group_metadata(self) -> object:
        """Return the membership under which it has its copies. After an eviction it is the former one, which is
        rejected."""
        return self._consumer.consumer_group_metadata()

    def _subscribe(self) -> None:
        if monotonic() < self._look_at:
            return
        self._look_at = monotonic() + _LOOK_S
        try:
            with kafka_errors():
                found = sorted(filter(self._pattern.fullmatch, self._admin.list_topics(timeout=CALL_S).topics))
        except OttlaError as error:
            logger.info("can't look up the copied topics at the moment, retrying: %s", error)
            return
        if found and found != self._topics:
            self._topics = found
            with kafka_errors():
                self._consumer.subscribe(
                    found,
                    on_assign=self._on_assign,
                    on_revoke=lambda _, gone: self._events.gone(_names(gone), False),
                    on_lost=lambda _, gone: self._events.gone(_names(gone), True),
                )

    def _on_assign(self, consumer: Consumer, given: list[KafkaPartition]) -> None:
        consumer.incremental_assign(given)
        if given:
            consumer.pause(given)
        self._events.given(self, _names(given))


def to_commit(offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata]) -> list[KafkaPartition]:
    """Return the offsets as librdkafka takes them."""
    return [KafkaPartition(*partition, at.offset, at.metadata + _END) for partition, at in offsets.items()]


def _note_of(committed: KafkaPartition) -> str:
    try:
        note = committed.metadata or ""
    except UnicodeDecodeError as error:  # because of what lies behind the note
        note = error.object.decode(errors="replace")
    return note.partition(_END)[0]


def _names(partitions: list[KafkaPartition]) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in partitions]
