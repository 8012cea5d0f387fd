"""Topics, configs and groups of another Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.errors import error_from_code
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.cluster import CALL_S, Committed
from ottla_mirror.clusters.kafka.kafka_errors import as_ottla, kafka_errors
from ottla_mirror.clusters.kafka.topic_ids import TopicIds

_INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state")
_SET, _UNSET = AlterConfigOpType.SET, AlterConfigOpType.DELETE


class KafkaAdmin:
    """The `Admin` of another Kafka."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        with kafka_errors():
            self._admin = AdminClient(dict(settings))
        self._ids: Final = TopicIds(settings)

    def topics(self) -> Mapping[str, int]:
        with kafka_errors():
            found = self._admin.list_topics(timeout=CALL_S).topics
        return {name: len(topic.partitions) for name, topic in found.items() if name not in _INTERNAL}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
        topic = NewTopic(name, partitions, -1 if replicas is None else replicas, config=dict(config))
        (created,) = self._admin.create_topics([topic], request_timeout=CALL_S).values()
        with kafka_errors(but=KafkaError.TOPIC_ALREADY_EXISTS):
            created.result()

    def add_partitions(self, name: str, total: int) -> None:
        (grown,) = self._admin.create_partitions([NewPartitions(name, total)], request_timeout=CALL_S).values()
        with kafka_errors():
            grown.result()

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found = {}
        futures = self._admin.describe_configs(resources, request_timeout=CALL_S) if resources else {}
        for resource, future in futures.items():
            with kafka_errors(but=KafkaError.UNKNOWN_TOPIC_OR_PART):
                entries = future.result().values()
                own = [entry for entry in entries if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value]
                found[resource.name] = {entry.name: entry.value or "" for entry in own}
        return found

    def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None:
        entries = [ConfigEntry(name, value, incremental_operation=_SET) for name, value in altered.items()]
        entries += [ConfigEntry(name, "", incremental_operation=_UNSET) for name in gone]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        (done,) = self._admin.incremental_alter_configs([resource], request_timeout=CALL_S).values()
        with kafka_errors():
            done.result()

    def end(self, topic: str, timeout: float) -> int:
        latest = {KafkaPartition(topic, 0): OffsetSpec.latest()}  # type: ignore[no-untyped-call]  # it has no types
        (found,) = self._admin.list_offsets(latest, request_timeout=timeout).values()
        with kafka_errors():
            return int(found.result().offset)

    def topic_ids(self, names: Collection[str]) -> Mapping[str, TopicId]:
        return self._ids.of(names)

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # it has no types

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # it has no types

    def _offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        request = {KafkaPartition(*partition): spec for partition in partitions}
        futures = self._admin.list_offsets(request, request_timeout=CALL_S) if request else {}
        found = {}
        for at, future in futures.items():
            with kafka_errors():
                found[TopicPartition(at.topic, at.partition)] = int(future.result().offset)
        return found

    def groups(self, timeout: float) -> Sequence[str]:
        with kafka_errors():
            found = self._admin.list_consumer_groups(request_timeout=timeout).result()
        for error in found.errors:
            raise as_ottla(error.args[0])
        return [group.group_id for group in found.valid]

    def committed(self, group: str) -> Committed:
        request = [ConsumerGroupTopicPartitions(group)]
        (found,) = self._admin.list_consumer_group_offsets(request, request_timeout=CALL_S).values()
        partitions: Sequence[KafkaPartition] = ()
        with kafka_errors(but=KafkaError.GROUP_ID_NOT_FOUND):
            partitions = found.result().topic_partitions
        return {TopicPartition(at.topic, at.partition): at.offset for at in partitions if at.offset >= 0}

    def commit(self, group: str, offsets: Committed) -> None:
        whole = [KafkaPartition(*partition, offset) for partition, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, whole)]
        (done,) = self._admin.alter_consumer_group_offsets(request, request_timeout=CALL_S).values()
        try:
            with kafka_errors():
                for error in [at.error for at in done.result().topic_partitions if at.error is not None]:
                    raise as_ottla(error)
        except OttlaError as error:
            if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            raise error_from_code(
                ErrorCode.NON_EMPTY_GROUP, f"the group {group} has members on the Kafka cluster"
            ) from error

    def close(self) -> None:
        vars(self).pop("_admin", None)  # its threads end with it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
