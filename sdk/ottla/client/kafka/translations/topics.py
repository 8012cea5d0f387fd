"""Controller.CreateTopics, DeleteTopics and CreatePartitions are Kafka's APIs of these names.

Brokers of ottla add warnings about new topics, in a private field. The warning about added partitions is always the
same, so it is made here.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, Api
from ottla.client.kafka.translations.errors import error_of, error_of_all
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla_proto import controller_pb2 as pb

_NO_ID: Final = bytes(16)


class CreateTopicsTranslation:
    """Translates new topics, for which the response has ids."""

    api: Final[Api] = CREATE_TOPICS

    def request(self, request: pb.CreateTopicsRequest, terms: Terms) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=[_new_topic(topic) for topic in request.topics],
            timeout_ms=terms.timeout_ms,
            validate_only=request.validate_only,
        )

    def response(self, response: CreateTopicsResponse, terms: Terms) -> pb.CreateTopicsResponse:
        created = pb.CreateTopicsResponse()
        for topic in response.topics:
            created.topics.add(
                name=topic.name,
                error=error_of(topic.error_code, topic.error_message),
                topic_id=b"" if topic.topic_id == _NO_ID else topic.topic_id,
                partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                warnings=topic.warnings,
            )
        created.error.CopyFrom(error_of_all(topic.error for topic in created.topics))
        return created


class DeleteTopicsTranslation:
    """Translates the names or ids of topics to delete."""

    api: Final[Api] = DELETE_TOPICS

    def request(self, request: pb.DeleteTopicsRequest, terms: Terms) -> DeleteTopicsRequest:
        state = DeleteTopicsRequest.DeleteTopicState
        topics = [state(name=name) for name in request.names]
        topics += [state(name=None, topic_id=topic_id) for topic_id in request.topic_ids]
        return DeleteTopicsRequest(topics=topics, timeout_ms=terms.timeout_ms)

    def response(self, response: DeleteTopicsResponse, terms: Terms) -> pb.DeleteTopicsResponse:
        deleted = pb.DeleteTopicsResponse()
        for topic in response.responses:
            error = error_of(topic.error_code, topic.error_message)
            deleted.topics.add(name=topic.name or "", error=error, topic_id=topic.topic_id)
            if topic.name and not error.code:
                terms.names.forget(topic.name)
        deleted.error.CopyFrom(error_of_all(topic.error for topic in deleted.topics))
        return deleted


class CreatePartitionsTranslation:
    """Translates new counts of partitions."""

    api: Final[Api] = CREATE_PARTITIONS

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def request(self, request: pb.CreatePartitionsRequest, terms: Terms) -> CreatePartitionsRequest:
        self._counts = {topic.name: topic.total_count for topic in request.topics}
        return CreatePartitionsRequest(
            topics=[_increase(topic) for topic in request.topics],
            timeout_ms=terms.timeout_ms,
            validate_only=request.validate_only,
        )

    def response(self, response: CreatePartitionsResponse, terms: Terms) -> pb.CreatePartitionsResponse:
        created = pb.CreatePartitionsResponse()
        for topic in response.results:
            error = error_of(topic.error_code, topic.error_message)
            count = self._counts.get(topic.name)
            warning = "" if error.code or count is None else _keys_move(topic.name, count)
            created.topics.add(name=topic.name, error=error, warning=warning)
        created.error.CopyFrom(error_of_all(topic.error for topic in created.topics))
        return created


def _increase(topic: pb.PartitionIncrease) -> CreatePartitionsRequest.CreatePartitionsTopic:
    assignment = CreatePartitionsRequest.CreatePartitionsAssignment
    return CreatePartitionsRequest.CreatePartitionsTopic(
        name=topic.name,
        count=topic.total_count,
        assignments=[assignment(broker_ids=list(each.replicas)) for each in topic.assignments] or None,
    )


def _keys_move(name: str, count: int) -> str:
    return (
        f"records with a key may now go to another partition than before: {name} has {count} partitions now, so order "
        "by key holds only from here on"
    )


def _new_topic(topic: pb.NewTopic) -> CreateTopicsRequest.CreatableTopic:
    assignment, config = CreateTopicsRequest.CreatableReplicaAssignment, CreateTopicsRequest.CreatableTopicConfig
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            assignment(partition_index=each.partition, broker_ids=list(each.replicas)) for each in topic.assignments
        ],
        configs=[config(name=name, value=value) for name, value in topic.configs.items()],
    )
