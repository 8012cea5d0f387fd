"""The Controller contract: one method per RPC. Protobuf stops here.

A request about several topics or resources gives each its own result, as in Kafka: what is refused for one does not
keep the others from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from uuid import uuid4

from ottla_controller.leadership import Leadership
from ottla_controller.machines.configs import Op, OpKind, Resource, ResourceKind, decide_alter_configs, describe_configs
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.ids import decide_allocate_broker_id, decide_allocate_producer_ids
from ottla_controller.machines.topics import (
    NewTopic,
    TopicCreated,
    check_no_duplicates,
    decide_create_partitions,
    decide_create_topic,
    decide_delete_topic,
)
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.config_values import Effective
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import error_message
from ottla_proto import controller_pb2 as pb

T = TypeVar("T")
Decide = Callable[[ClusterImage], Decision[T]]

_EPOCH_WAIT_S: Final = 1.0
_KINDS: Final = {pb.CONFIG_RESOURCE_TOPIC: ResourceKind.TOPIC, pb.CONFIG_RESOURCE_BROKER: ResourceKind.BROKER}
_OPS: Final = {
    pb.CONFIG_OP_SET: OpKind.SET,
    pb.CONFIG_OP_DELETE: OpKind.DELETE,
    pb.CONFIG_OP_APPEND: OpKind.APPEND,
    pb.CONFIG_OP_SUBTRACT: OpKind.SUBTRACT,
}


def random_topic_id() -> TopicId:
    return TopicId(uuid4().bytes)


class ControllerService:
    """What clients and brokers may ask. A standby raises NOT_CONTROLLER and names the active one."""

    def __init__(
        self,
        leadership: Leadership,
        follower: MetadataFollower,
        *,
        new_topic_id: Callable[[], TopicId] = random_topic_id,
    ) -> None:
        self._leadership = leadership
        self._follower = follower
        self._new_topic_id = new_topic_id

    async def create_topics(self, request: pb.CreateTopicsRequest, context: RequestContext) -> pb.CreateTopicsReply:
        self._leadership.journal()
        check_no_duplicates(topic.name for topic in request.topics)
        return pb.CreateTopicsReply(
            topics=[await self._create_topic(topic, dry=request.validate_only) for topic in request.topics]
        )

    async def delete_topics(self, request: pb.DeleteTopicsRequest, context: RequestContext) -> pb.DeleteTopicsReply:
        self._leadership.journal()
        check_no_duplicates(request.names)
        return pb.DeleteTopicsReply(topics=[await self._delete_topic(name) for name in request.names])

    async def create_partitions(
        self, request: pb.CreatePartitionsRequest, context: RequestContext
    ) -> pb.CreatePartitionsReply:
        self._leadership.journal()
        check_no_duplicates(topic.name for topic in request.topics)
        return pb.CreatePartitionsReply(
            topics=[await self._create_partitions(topic, dry=request.validate_only) for topic in request.topics]
        )

    async def describe_configs(
        self, request: pb.DescribeConfigsRequest, context: RequestContext
    ) -> pb.DescribeConfigsReply:
        self._leadership.journal()
        return pb.DescribeConfigsReply(resources=[self._describe(resource) for resource in request.resources])

    async def alter_configs(self, request: pb.AlterConfigsRequest, context: RequestContext) -> pb.AlterConfigsReply:
        self._leadership.journal()
        return pb.AlterConfigsReply(
            resources=[await self._alter(altered, dry=request.validate_only) for altered in request.resources]
        )

    async def allocate_producer_ids(
        self, request: pb.AllocateProducerIdsRequest, context: RequestContext
    ) -> pb.AllocateProducerIdsReply:
        journal = self._leadership.journal()
        await self._until_registration(request.instance_epoch)
        block = await journal.commit(
            partial(
                decide_allocate_producer_ids,
                kind=request.kind,
                instance_id=request.instance_id,
                instance_epoch=request.instance_epoch,
            )
        )
        return pb.AllocateProducerIdsReply(first=block.first, count=block.count)

    async def allocate_broker_id(
        self, request: pb.AllocateBrokerIdRequest, context: RequestContext
    ) -> pb.AllocateBrokerIdReply:
        decide = partial(decide_allocate_broker_id, directory_id=request.directory_id)
        broker_id: int = await self._leadership.journal().commit(decide)
        return pb.AllocateBrokerIdReply(broker_id=broker_id)

    # ---- one topic or resource each --------------------------------------------------------------------------------

    async def _create_topic(self, topic: pb.NewTopic, *, dry: bool) -> pb.TopicCreated:
        new = NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            dict(topic.configs),
            tuple((a.partition, tuple(a.replicas)) for a in topic.assignments),
        )

        def decide(image: ClusterImage) -> Decision[TopicCreated]:
            return decide_create_topic(image, new, topic_id=self._new_topic_id())

        try:
            created = await self._commit(decide, dry=dry)
        except OttlaError as error:
            return pb.TopicCreated(name=topic.name, error=error_message(error))
        return pb.TopicCreated(
            name=topic.name,
            topic_id=created.topic_id,
            partitions=created.partitions,
            replication_factor=created.replication_factor,
        )

    async def _delete_topic(self, name: str) -> pb.TopicDeleted:
        try:
            deleted = await self._commit(partial(decide_delete_topic, name=name))
        except OttlaError as error:
            return pb.TopicDeleted(name=name, error=error_message(error))
        return pb.TopicDeleted(name=name, topic_id=deleted.topic_id)

    async def _create_partitions(self, topic: pb.PartitionIncrease, *, dry: bool) -> pb.PartitionsCreated:
        decide = partial(decide_create_partitions, name=topic.name, total_count=topic.total_count)
        try:
            created = await self._commit(decide, dry=dry)
        except OttlaError as error:
            return pb.PartitionsCreated(name=topic.name, error=error_message(error))
        return pb.PartitionsCreated(name=topic.name, warning=created.warning)

    def _describe(self, resource: pb.ConfigResource) -> pb.ConfigsDescribed:
        try:
            configs = describe_configs(self._follower.image, _resource(resource))
        except OttlaError as error:
            return pb.ConfigsDescribed(resource=resource, error=error_message(error))
        return pb.ConfigsDescribed(resource=resource, entries=[_entry(e) for e in configs.entries.values()])

    async def _alter(self, altered: pb.ConfigsAltered, *, dry: bool) -> pb.ConfigsAlterResult:
        def decide(image: ClusterImage) -> Decision[None]:
            ops = [Op(op.name, _OPS[op.op], op.value) for op in altered.ops]
            return decide_alter_configs(image, _resource(altered.resource), ops)

        try:
            await self._commit(decide, dry=dry)
        except OttlaError as error:
            return pb.ConfigsAlterResult(resource=altered.resource, error=error_message(error))
        return pb.ConfigsAlterResult(resource=altered.resource)

    async def _commit(self, decide: Decide[T], *, dry: bool = False) -> T:
        """Commit in the current term; a dry run decides on the same image and writes nothing."""
        return await self._leadership.journal().commit(_without_writes(decide) if dry else decide)

    async def _until_registration(self, epoch: int) -> None:
        """A broker's epoch is a revision: the image may be behind one that has just registered, for a moment."""
        try:
            await self._follower.wait_for(epoch, timeout=_EPOCH_WAIT_S)
        except TimeoutError as error:
            raise OttlaError(
                ErrorCode.REQUEST_TIMED_OUT, f"epoch {epoch} is not known here: {error}", hint="try again"
            ) from None


def _without_writes(decide: Decide[T]) -> Decide[T]:
    return lambda image: replace(decide(image), writes=())


def _resource(resource: pb.ConfigResource) -> Resource:
    kind = _KINDS.get(resource.type)
    if kind is None:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST, "configs belong to a topic or a broker", hint="name the resource's type"
        )
    return Resource(kind, resource.name)


def _entry(effective: Effective) -> pb.ConfigEntry:
    key = effective.key
    return pb.ConfigEntry(
        name=key.name,
        value=effective.text or "",
        source=effective.source.value,
        type=key.type.value,
        read_only=not key.dynamic,
        enforced=key.enforced,
        documentation=key.doc,
    )
