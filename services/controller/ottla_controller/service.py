"""The Controller contract has one method per RPC. Protobuf stops here.

A request about several topics or resources gives each its own result, as in Kafka: a rejection of one does not keep the
others from success.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message

from ottla_controller.leadership import Leadership
from ottla_controller.machines.acls import decide_create_acls, decide_delete_acls
from ottla_controller.machines.brokers import decide_controlled_shutdown
from ottla_controller.machines.configs import (
    Op,
    OpKind,
    Resource,
    ResourceKind,
    decide_alter_configs,
    describe_configs,
    unserved,
)
from ottla_controller.machines.decision import Decision, batched
from ottla_controller.machines.election import Settled, to_hand_over
from ottla_controller.machines.ids import decide_allocate_broker_id, decide_allocate_producer_ids
from ottla_controller.machines.isr import Proposal, Verdict, decide_alter_partition
from ottla_controller.machines.min_isr import with_elrs_emptied
from ottla_controller.machines.partition_index import PartitionIndex, leaderless, unpreferred
from ottla_controller.machines.preferred import ElectionOutcome, ElectionType, check_once, decide_elect_leaders
from ottla_controller.machines.recovery import LogsReport
from ottla_controller.machines.restoration import decide_restored
from ottla_controller.machines.shards import decide_release_shard
from ottla_controller.machines.topics import (
    NewTopic,
    TopicCreated,
    check_no_duplicates,
    decide_create_partitions,
    decide_create_topic,
    decide_delete_topic,
    decide_delete_topic_by_id,
)
from ottla_controller.machines.users import ScramChange, decide_alter_scram
from ottla_controller.recovery import ask_logs
from ottla_core.cluster.acl_entries import acl_of, entry_of, filter_of
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.cluster.proof import check_proof
from ottla_core.configs.config_values import Effective
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka_formats.kafka_uuid import random_uuid
from ottla_core.model import NO_LEADER, PartitionId, TopicId
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import error_message
from ottla_core.security.acl import Acl
from ottla_core.security.scram import ScramCredential, mechanism_of
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error

T = TypeVar("T")
ItemT = TypeVar("ItemT", bound=Message)

_log = logging.getLogger(__name__)
Decide = Callable[[ClusterImage], Decision[T]]

_EPOCH_WAIT_S: Final = 1.0
_HAND_OVER_WAIT_S: Final = 1.0
_KINDS: Final = {
    pb.CONFIG_RESOURCE_TOPIC: ResourceKind.TOPIC,
    pb.CONFIG_RESOURCE_BROKER: ResourceKind.BROKER,
    pb.CONFIG_RESOURCE_CLIENT_METRICS: ResourceKind.CLIENT_METRICS,
    pb.CONFIG_RESOURCE_GROUP: ResourceKind.GROUP,
}
_NEED_NOT_BE: Final = frozenset({pb.CONFIG_RESOURCE_CLIENT_METRICS, pb.CONFIG_RESOURCE_GROUP})
_MOST_NAMED: Final = 250
_OPS: Final = {
    pb.CONFIG_OP_SET: OpKind.SET,
    pb.CONFIG_OP_DELETE: OpKind.DELETE,
    pb.CONFIG_OP_APPEND: OpKind.APPEND,
    pb.CONFIG_OP_SUBTRACT: OpKind.SUBTRACT,
}
_ELECTIONS: Final = {pb.ELECTION_PREFERRED: ElectionType.PREFERRED, pb.ELECTION_UNCLEAN: ElectionType.UNCLEAN}


def random_topic_id() -> TopicId:
    return TopicId(random_uuid())


class ControllerService:
    """The methods that clients and brokers may call. A standby raises NOT_CONTROLLER and names the active one."""

    def __init__(
        self,
        leadership: Leadership,
        follower: MetadataFollower,
        index: PartitionIndex,
        *,
        new_topic_id: Callable[[], TopicId] = random_topic_id,
        on_elected: Callable[[Sequence[Settled]], None] = lambda settled: None,
        logs: Callable[
            [ClusterImage, Mapping[int, Sequence[PartitionId]]], Awaitable[dict[int, LogsReport]]
        ] = ask_logs,
        check_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._leadership = leadership
        self._follower = follower
        self._index = index
        self._new_topic_id = new_topic_id
        self._on_elected = on_elected
        self._ask_logs = logs
        self._check_room = check_room

    async def create_topics(self, request: pb.CreateTopicsRequest, context: RequestContext) -> pb.CreateTopicsResponse:
        self._leadership.journal()
        check_no_duplicates(await sliced(lambda topic: topic.name, request.topics))
        response = pb.CreateTopicsResponse()
        await _add_each(response.topics, partial(self._create_topic, dry=request.validate_only), request.topics)
        return response

    async def delete_topics(self, request: pb.DeleteTopicsRequest, context: RequestContext) -> pb.DeleteTopicsResponse:
        self._leadership.journal()
        check_no_duplicates(request.names)
        check_no_duplicates(await sliced(bytes.hex, request.topic_ids))
        response = pb.DeleteTopicsResponse()
        await _add_each(response.topics, self._delete_topic, request.names)
        await _add_each(response.topics, self._delete_topic_by_id, map(TopicId, request.topic_ids))
        return response

    async def create_partitions(
        self, request: pb.CreatePartitionsRequest, context: RequestContext
    ) -> pb.CreatePartitionsResponse:
        self._leadership.journal()
        check_no_duplicates(await sliced(lambda topic: topic.name, request.topics))
        response = pb.CreatePartitionsResponse()
        await _add_each(response.topics, partial(self._create_partitions, dry=request.validate_only), request.topics)
        return response

    async def describe_configs(
        self, request: pb.DescribeConfigsRequest, context: RequestContext
    ) -> pb.DescribeConfigsResponse:
        self._leadership.journal()
        await _check_number(request.resources)
        response = pb.DescribeConfigsResponse()
        await sliced(lambda resource: response.resources.append(self._describe(resource)), request.resources)
        return response

    async def alter_configs(self, request: pb.AlterConfigsRequest, context: RequestContext) -> pb.AlterConfigsResponse:
        self._leadership.journal()
        await _check_number(altered.resource for altered in request.resources)
        response = pb.AlterConfigsResponse()
        await _add_each(response.resources, partial(self._alter, dry=request.validate_only), request.resources)
        return response

    async def allocate_producer_ids(
        self, request: pb.AllocateProducerIdsRequest, context: RequestContext
    ) -> pb.AllocateProducerIdsResponse:
        journal = self._leadership.journal()
        await self._check_broker(request.instance_id, request.instance_epoch, request.secret)
        block = await journal.commit(
            partial(
                decide_allocate_producer_ids,
                kind=request.kind,
                instance_id=request.instance_id,
                instance_epoch=request.instance_epoch,
            )
        )
        return pb.AllocateProducerIdsResponse(first=block.first, count=block.count)

    async def allocate_broker_id(
        self, request: pb.AllocateBrokerIdRequest, context: RequestContext
    ) -> pb.AllocateBrokerIdResponse:
        decide = partial(decide_allocate_broker_id, directory_id=request.directory_id)
        broker_id: int = await self._leadership.journal().commit(decide)
        return pb.AllocateBrokerIdResponse(broker_id=broker_id)

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, context: RequestContext
    ) -> pb.AlterPartitionResponse:
        """Write up to a hundred proposals in one transaction, because each of them costs a write in etcd (rule C13).

        Between two of these transactions others have their turn.
        """
        self._leadership.journal()
        await self._check_broker(request.broker_id, request.broker_epoch, request.secret)
        verdicts: list[Verdict] = []
        for batch in batched([_proposal(p) for p in request.partitions]):
            decide = partial(
                decide_alter_partition, broker_id=request.broker_id, broker_epoch=request.broker_epoch, proposals=batch
            )
            decided = await self._commit(decide)
            verdicts += decided
        return pb.AlterPartitionResponse(partitions=[_decided(v) for v in verdicts])

    async def controlled_shutdown(
        self, request: pb.ControlledShutdownRequest, context: RequestContext
    ) -> pb.ControlledShutdownResponse:
        """Mark the broker as going, and give the reconciler a moment to move what it leads. The broker calls again
        until 0 remain."""
        self._leadership.journal()
        await self._check_broker(request.broker_id, request.broker_epoch, request.secret)
        await self._commit(partial(decide_controlled_shutdown, broker_id=request.broker_id, epoch=request.broker_epoch))
        with contextlib.suppress(TimeoutError):
            await self._follower.wait_for(
                lambda image: not any(True for _ in self._to_hand_over(image, request.broker_id)),
                timeout=_HAND_OVER_WAIT_S,
            )
        remaining = sum(1 for _ in self._to_hand_over(self._follower.image, request.broker_id))
        return pb.ControlledShutdownResponse(remaining_leaders=remaining)

    async def elect_leaders(self, request: pb.ElectLeadersRequest, context: RequestContext) -> pb.ElectLeadersResponse:
        """Elect leaders. The response has every partition that was named or, for "all partitions", only those that
        needed an election."""
        self._leadership.journal()
        image = self._follower.image
        kind = _ELECTIONS.get(request.type)
        if kind is None:
            raise OttlaError(
                ErrorCode.INVALID_REQUEST, f"{request.type} is not a type of election", hint="see ElectionType"
            )
        if request.all_partitions:
            candidates = self._index.where(unpreferred if kind is ElectionType.PREFERRED else leaderless)
            return pb.ElectLeadersResponse(partitions=await self._elect(kind, sorted(candidates)))
        named = await sliced(lambda p: (p.topic, p.partition), request.partitions)
        check_once(named)
        known = ((topic, number) for topic, number in named if topic in image.topics)
        requested = await sliced(lambda p: PartitionId(image.topics[p[0]].id, p[1]), known)
        response = pb.ElectLeadersResponse()
        await sliced(response.partitions.append, await self._elect(kind, requested))
        unknown = (p for p in named if p[0] not in image.topics)
        await sliced(lambda p: response.partitions.append(_no_such_topic(*p)), unknown)
        return response

    async def release_shard(self, request: pb.ReleaseShardRequest, context: RequestContext) -> pb.ReleaseShardResponse:
        self._leadership.journal()
        await self._until_registration(request.instance_epoch)
        decide = partial(
            decide_release_shard,
            kind=request.kind,
            number=request.shard,
            shard_epoch=request.shard_epoch,
            instance_id=request.instance_id,
            instance_epoch=request.instance_epoch,
        )
        shard = await self._commit(decide)
        return pb.ReleaseShardResponse(owner=shard.owner, incarnation=shard.incarnation, shard_epoch=shard.epoch)

    async def describe_quorum(
        self, request: pb.DescribeQuorumRequest, context: RequestContext
    ) -> pb.DescribeQuorumResponse:
        self._leadership.journal()
        image = self._follower.image
        if image.controller is None:  # it is elected, but its own metadata does not say so yet
            raise OttlaError(
                ErrorCode.NOT_CONTROLLER,
                "this controller was elected a moment ago and can't respond yet",
                hint="try again",
            )
        elected = image.controller
        return pb.DescribeQuorumResponse(
            leader_id=elected.id, epoch=elected.epoch, revision=image.revision, address=elected.address
        )

    async def declare_restored(
        self, request: pb.DeclareRestoredRequest, context: RequestContext
    ) -> pb.DeclareRestoredResponse:
        count = await self._commit(decide_restored)
        return pb.DeclareRestoredResponse(count=count)

    async def create_acls(self, request: pb.CreateAclsRequest, context: RequestContext) -> pb.CreateAclsResponse:
        acls = await sliced(acl_of, request.acls)
        results = await self._commit(partial(decide_create_acls, acls=acls, new_id=random_uuid))
        response = pb.CreateAclsResponse()
        await sliced(lambda e: response.results.append(Error() if e is None else error_message(e)), results)
        return response

    async def delete_acls(self, request: pb.DeleteAclsRequest, context: RequestContext) -> pb.DeleteAclsResponse:
        filters = await sliced(filter_of, request.filters)
        results = await self._commit(partial(decide_delete_acls, filters=filters))
        response = pb.DeleteAclsResponse()
        await sliced(lambda result: response.results.append(_deleted(result)), results)
        return response

    async def alter_scram_credentials(
        self, request: pb.AlterScramCredentialsRequest, context: RequestContext
    ) -> pb.AlterScramCredentialsResponse:
        changes = await sliced(_scram_change, request.changes)
        results = await self._commit(partial(decide_alter_scram, changes=changes))
        return pb.AlterScramCredentialsResponse(
            users=[
                pb.UserAltered(user=user, error=None if error is None else error_message(error))
                for user, error in results.items()
            ]
        )

    def _to_hand_over(self, image: ClusterImage, broker_id: int) -> Iterator[PartitionId]:
        return to_hand_over(image, broker_id, self._index.of(broker_id))

    async def _elect(self, kind: ElectionType, partitions: Sequence[PartitionId]) -> list[pb.LeaderElected]:
        elected: list[pb.LeaderElected] = []
        names = self._follower.image.topic_names
        for batch in batched(partitions):
            reports = await self._reports(batch) if kind is ElectionType.UNCLEAN else {}
            decide = partial(decide_elect_leaders, kind=kind, partitions=batch, reports=reports)
            outcomes = await self._commit(decide)
            self._on_elected([o.settled for o in outcomes if o.settled is not None])
            elected += [_elected(names.get(o.id.topic_id, ""), o) for o in outcomes]
        return elected

    async def _reports(self, partitions: Sequence[PartitionId]) -> dict[int, LogsReport]:
        """Return how far the logs go of those partitions that have no leader."""
        image = self._follower.image
        request: dict[int, list[PartitionId]] = {}
        for id_ in partitions:
            partition = image.partitions.get(id_)
            if partition is not None and partition.leader == NO_LEADER:
                for broker_id in set(partition.replicas) & image.live_brokers().keys():
                    request.setdefault(broker_id, []).append(id_)
        return await self._ask_logs(image, request)

    # ---- one topic or resource each --------------------------------------------------------------------------------

    async def _create_topic(self, topic: pb.NewTopic, *, dry: bool) -> pb.TopicCreated:
        new = NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            dict(await sliced(lambda config: config, topic.configs.items())),
            tuple(await sliced(lambda a: (a.partition, tuple(a.replicas)), topic.assignments)),
        )

        def decide(image: ClusterImage) -> Decision[TopicCreated]:
            return decide_create_topic(image, new, topic_id=self._new_topic_id())

        try:
            self._check_room()
            created = await self._commit(decide, dry=dry)
        except OttlaError as error:
            return pb.TopicCreated(name=topic.name, error=error_message(error))
        return pb.TopicCreated(
            name=topic.name,
            topic_id=created.topic_id,
            partitions=created.partitions,
            replication_factor=created.replication_factor,
            warnings=_logged(f"topic {topic.name}", created.warnings, dry=dry),
        )

    async def _delete_topic(self, name: str) -> pb.TopicDeleted:
        try:
            deleted = await self._commit(partial(decide_delete_topic, name=name))
        except OttlaError as error:
            return pb.TopicDeleted(name=name, error=error_message(error))
        return pb.TopicDeleted(name=name, topic_id=deleted.topic_id)

    async def _delete_topic_by_id(self, topic_id: TopicId) -> pb.TopicDeleted:
        try:
            deleted = await self._commit(partial(decide_delete_topic_by_id, topic_id=topic_id))
        except OttlaError as error:
            return pb.TopicDeleted(topic_id=topic_id, error=error_message(error))
        return pb.TopicDeleted(name=deleted.name, topic_id=topic_id)

    async def _create_partitions(self, topic: pb.PartitionIncrease, *, dry: bool) -> pb.PartitionsCreated:
        decide = partial(
            decide_create_partitions,
            name=topic.name,
            total_count=topic.total_count,
            assignments=await sliced(lambda a: tuple(a.replicas), topic.assignments),
        )
        try:
            self._check_room()
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
        try:
            resource, ops = _resource(altered.resource), await sliced(_op, altered.ops)
            decide = partial(decide_alter_configs, resource=resource, ops=ops)
            await self._commit(lambda image: with_elrs_emptied(image, decide(image)), dry=dry)
        except OttlaError as error:
            return pb.ConfigsAlterResult(resource=altered.resource, error=error_message(error))
        owner = f"{resource.kind.value} {resource.name}" if resource.name else "the cluster"
        return pb.ConfigsAlterResult(
            resource=altered.resource, warnings=_logged(owner, unserved(resource, ops), dry=dry)
        )

    async def _commit(self, decide: Decide[T], *, dry: bool = False) -> T:
        """Commit in the current term. A dry run decides on the same image and writes nothing."""
        return await self._leadership.journal().commit(_without_writes(decide) if dry else decide)

    async def _check_broker(self, broker_id: int, epoch: int, secret: bytes) -> None:
        """Check that the caller is this broker's process. The decision rejects an incarnation that is over. Such an
        incarnation can't come back, so what is proved here holds for every later image that still has it."""
        await self._until_registration(epoch)
        registered = self._follower.image.brokers.get(broker_id)
        if registered is not None and registered.epoch == epoch:
            check_proof(registered, secret)

    async def _until_registration(self, epoch: int) -> None:
        """Wait for the image of a broker's epoch, which is a revision. For a moment the image may be behind a broker
        that has just registered."""
        try:
            await self._follower.wait_for(epoch, timeout=_EPOCH_WAIT_S)
        except TimeoutError as error:
            raise OttlaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"this controller does not know epoch {epoch} yet: {error}",
                hint="try again",
            ) from None


async def _add_each(
    responses: RepeatedCompositeFieldContainer[ItemT], work: Callable[[T], Awaitable[ItemT]], elements: Iterable[T]
) -> None:
    """Do the work for one element after the other, and add what it returns."""
    time_slice = Slice()
    for element in elements:
        responses.append(await work(element))
        await time_slice.rest()


def _logged(owner: str, warnings: Sequence[str], *, dry: bool) -> Sequence[str]:
    """Return `warnings`, after logging them, because Kafka's protocol has no place for them."""
    for warning in () if dry else warnings:
        _log.warning("%s: %s", owner, warning)
    return warnings


def _without_writes(decide: Decide[T]) -> Decide[T]:
    return lambda image: replace(decide(image), writes=())


async def _check_number(resources: Iterable[pb.ConfigResource]) -> None:
    """Raise INVALID_REQUEST for too many groups and subscriptions. The cluster bounds the number of topics and brokers,
    but a request may make up any number of resources that need not exist."""
    if sum(await sliced(lambda resource: resource.type in _NEED_NOT_BE, resources)) > _MOST_NAMED:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the request names more than {_MOST_NAMED:,} groups and subscriptions",
            hint="request fewer at a time",
        )


def _resource(resource: pb.ConfigResource) -> Resource:
    kind = _KINDS.get(resource.type)
    if kind is None:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "configs belong to a topic, a broker, a group or a client metrics subscription",
            hint="set the resource's type to one of these",
        )
    return Resource(kind, resource.name)


def _op(op: pb.ConfigOp) -> Op:
    kind = _OPS.get(op.op)
    if kind is None:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{op.op} is not an operation on a config",
            hint="use set, delete, append or subtract",
        )
    return Op(op.name, kind, op.value)


def _proposal(proposal: pb.IsrProposal) -> Proposal:
    return Proposal(
        PartitionId(TopicId(proposal.topic_id), proposal.partition),
        proposal.leader_epoch,
        proposal.partition_epoch,
        tuple((m.broker_id, m.broker_epoch) for m in proposal.new_isr),
        proposal.recovered,
    )


def _decided(verdict: Verdict) -> pb.IsrDecided:
    """Return the partition as it is now, even beside a rejection, because it shows the leader what it missed."""
    partition = verdict.partition or Partition(())
    return pb.IsrDecided(
        topic_id=verdict.id.topic_id,
        partition=verdict.id.partition,
        error=error_message(verdict.error) if verdict.error is not None else None,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
    )


def _scram_change(change: pb.ScramChange) -> ScramChange:
    """Return the change. Raises INVALID_CONFIG if brokers should not have sent it."""
    mechanism = mechanism_of(change.mechanism)
    if change.deletes:
        return ScramChange(change.user, mechanism, None)
    credential = ScramCredential(mechanism, change.iterations, change.salt, change.stored_key, change.server_key)
    return ScramChange(change.user, mechanism, credential)


def _deleted(result: list[Acl] | OttlaError) -> pb.AclsDeleted:
    if isinstance(result, OttlaError):
        return pb.AclsDeleted(error=error_message(result))
    return pb.AclsDeleted(acls=map(entry_of, result))


def _elected(topic: str, outcome: ElectionOutcome) -> pb.LeaderElected:
    if outcome.settled is not None:
        return pb.LeaderElected(topic=topic, partition=outcome.id.partition, leader=outcome.settled.after.leader)
    assert outcome.error is not None, "an election is carried out or refused"
    return pb.LeaderElected(
        topic=topic, partition=outcome.id.partition, error=error_message(outcome.error), leader=NO_LEADER
    )


def _no_such_topic(topic: str, partition: int) -> pb.LeaderElected:
    error = OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic[:60]!r}")
    return pb.LeaderElected(topic=topic, partition=partition, error=error_message(error), leader=NO_LEADER)


def _entry(effective: Effective) -> pb.ConfigEntry:
    key = effective.key
    return pb.ConfigEntry(
        name=key.name,
        value="" if key.sensitive else effective.text or "",
        source=effective.source.value,
        type=key.type.value,
        read_only=not key.dynamic,
        enforced=key.enforced,
        documentation=key.doc,
        sensitive=key.sensitive,
    )
