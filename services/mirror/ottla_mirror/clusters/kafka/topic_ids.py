"""Finds the topic behind a name. A topic that was deleted and created again has another id (KIP-516)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AdminClient

from ottla_core.model import TopicId
from ottla_mirror.clusters.cluster import CALL_S
from ottla_mirror.clusters.kafka.kafka_errors import kafka_errors


class TopicIds:
    """The topic ids of one cluster. Those of a Kafka before 2.8 are all zero."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        with kafka_errors():
            self._admin: Final = AdminClient(dict(settings))
        self._known: Final[dict[str, TopicId]] = {}  # as of the last look

    def expected(self, name: str, topic_id: TopicId | None) -> TopicId | None:
        """Return the id of the topic `name`: `topic_id` if that was its id a moment ago, else its id now. Many
        partitions are assigned at once."""
        known = self._known.get(name)
        if known is None or known != topic_id:
            known = self.of([name]).get(name)
        return known

    def of(self, names: Collection[str]) -> Mapping[str, TopicId]:
        """Return the ids of those topics that exist. Raises OttlaError."""
        if not names:
            return {}
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=CALL_S)
        found = {}
        for name, future in futures.items():
            with kafka_errors(but=KafkaError.UNKNOWN_TOPIC_OR_PART):
                uuid = future.result().topic_id
                halves = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
                found[name] = TopicId(b"".join(half.to_bytes(8, "big", signed=True) for half in halves))
        self._known.update(found)
        return found
