"""Another Kafka cluster, as source or as target, by librdkafka's clients."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError

from ottla_mirror.clusters.cluster import DELIVERY_S, Admin, GroupEvents, Log, Member, Reader, Writer
from ottla_mirror.clusters.kafka.kafka_admin import KafkaAdmin
from ottla_mirror.clusters.kafka.kafka_log import KafkaLog
from ottla_mirror.clusters.kafka.kafka_member import KafkaMember
from ottla_mirror.clusters.kafka.kafka_reader import KafkaReader
from ottla_mirror.clusters.kafka.kafka_writer import KafkaWriter

logger = logging.getLogger("ottla.mirror")

_CRITICAL: Final = 2
"""The log level at which librdkafka itself writes to stderr; failures are in the mirror's log."""

_LOOK_MS: Final = 1000
"""How long it may take until new partitions are seen."""


class KafkaCluster:
    """Another Kafka cluster. `bootstrap` has addresses of its brokers, and `settings` those of all clients, by
    librdkafka's names."""

    def __init__(self, bootstrap: Sequence[str], settings: Mapping[str, str]) -> None:
        self._settings: Final = {"bootstrap.servers": ",".join(bootstrap), **settings}

    def open_admin(self, name: str) -> Admin:
        return KafkaAdmin(self._named(name))

    def open_reader(self, name: str) -> Reader:
        return KafkaReader(self._named(name))

    def open_writer(self, name: str, *, transactional_id: str | None = None, delivery_s: float = DELIVERY_S) -> Writer:
        return KafkaWriter(self._named(name), transactional_id, delivery_s)

    @contextmanager
    def open_member(
        self, name: str, group: str, pattern: str, session_s: float, events: GroupEvents
    ) -> Iterator[Member]:
        member = KafkaMember(self._named(name), group, pattern, session_s, events)
        try:
            yield member
        finally:
            member.close()

    def open_log(self, topic: str) -> Log:
        return KafkaLog(self._named(topic), topic)

    def _named(self, name: str) -> dict[str, Any]:
        def on_error(error: KafkaError) -> None:
            logger.info("%s: %s", name, error.str())

        return {
            "log_level": _CRITICAL,
            "error_cb": on_error,
            "topic.metadata.refresh.interval.ms": _LOOK_MS,
            **self._settings,
            "client.id": name,
        }
