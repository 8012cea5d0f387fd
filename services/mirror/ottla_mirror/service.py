"""The Mirror contract reports the state of this mirror's flows, and where offsets are in the target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.model import TopicPartition
from ottla_core.rpc.context import RequestContext
from ottla_mirror.failover import Moved, fail_back, fail_over, last_positions
from ottla_mirror.flow import Flow
from ottla_mirror.machines.progress import CopiedPartition, Reading
from ottla_proto import mirror_pb2 as pb
from ottla_proto.common_pb2 import Error

_CATCH_UP_S: Final = 5.0


class MirrorService:
    """Serves one method per call of the contract. Status is from memory. A translation is, too, once everything is
    known that was written when it began. A change waits for the clusters. All waiting is done on a thread."""

    def __init__(self, flows: Sequence[Flow], clock: Clock) -> None:
        self._flows: Final = {flow.settings.name: flow for flow in flows}
        self._clock: Final = clock

    async def mirror_status(self, request: pb.MirrorStatusRequest, context: RequestContext) -> pb.MirrorStatusResponse:
        flows = [self._flow(request.flow)] if request.flow else self._flows.values()
        return pb.MirrorStatusResponse(flows=map(self._status, flows))

    async def translate_offsets(
        self, request: pb.TranslateOffsetsRequest, context: RequestContext
    ) -> pb.TranslateOffsetsResponse:
        flow = self._translating(request.flow)
        await asyncio.to_thread(flow.syncs.catch_up, _CATCH_UP_S)
        return pb.TranslateOffsetsResponse(offsets=await sliced(partial(_translated, flow), request.offsets))

    async def group_positions(
        self, request: pb.GroupPositionsRequest, context: RequestContext
    ) -> pb.GroupPositionsResponse:
        found = await asyncio.to_thread(last_positions, self._flow(request.flow), request.group)
        positions = [pb.GroupPosition(copy=p.copy.topic, partition=p.copy.partition, offset=p.offset) for p in found]
        return pb.GroupPositionsResponse(positions=positions)

    async def pause_flow(self, request: pb.PauseFlowRequest, context: RequestContext) -> pb.PauseFlowResponse:
        order = partial(self._flow(request.flow).state.order, paused=request.paused)
        await asyncio.to_thread(order)
        return pb.PauseFlowResponse()

    async def failover(self, request: pb.MoveGroupsRequest, context: RequestContext) -> pb.MoveGroupsResponse:
        return await self._move(fail_over, request)

    async def failback(self, request: pb.MoveGroupsRequest, context: RequestContext) -> pb.MoveGroupsResponse:
        return await self._move(fail_back, request)

    async def _move(self, move: Callable[..., Moved], request: pb.MoveGroupsRequest) -> pb.MoveGroupsResponse:
        flow, groups = self._translating(request.flow), list(request.groups)
        return await _moved(await asyncio.to_thread(move, flow, groups, dry_run=request.dry_run))

    def _translating(self, name: str) -> Flow:
        """Return the flow whose offsets are translated. Raises INVALID_REQUEST for a flow whose offsets have no
        position in the target."""
        flow = self._flow(name)
        if flow.settings.policy == "marked":
            message = f"flow {name} does not translate offsets: the target's own records are mixed with the copies"
            raise OttlaError(
                ErrorCode.INVALID_REQUEST, message, hint="find the position by timestamp; both sites have every record"
            )
        return flow

    def _flow(self, name: str) -> Flow:
        flow = self._flows.get(name)
        if flow is None:
            names = ", ".join(self._flows)
            raise OttlaError(ErrorCode.INVALID_REQUEST, f"there is no flow {name!r}", hint=f"the flows are {names}")
        return flow

    def _status(self, flow: Flow) -> pb.FlowStatus:
        settings, ends, now_ms = flow.settings, flow.positions(), self._clock.wall_ms()
        return pb.FlowStatus(
            name=settings.name,
            source=settings.source,
            target=settings.target,
            group=settings.group,
            policy=settings.policy,
            delivery=settings.delivery,
            leads=flow.state.leads,
            trouble=flow.trouble,
            partitions=[_mirrored(p, ends.get(p.source), now_ms) for p in flow.partitions.values()],
            topics=[pb.TopicTrouble(copy=copy, trouble=trouble) for copy, trouble in flow.topics.problems.items()],
            groups=[pb.GroupTrouble(group=name, trouble=trouble) for name, trouble in flow.groups.troubles.items()],
            paused=flow.state.paused,
            source_bootstrap=flow.source.access.bootstrap,
            target_bootstrap=flow.target.access.bootstrap,
        )


def _mirrored(partition: CopiedPartition, read: Reading | None, now_ms: int) -> pb.PartitionMirrored:
    lag = partition.lag(read, now_ms)
    return pb.PartitionMirrored(
        topic=partition.source.topic,
        partition=partition.source.partition,
        copy=partition.copy.topic,
        position=lag.position,
        lag=lag.records,
        lag_ms=lag.ms,
        records=partition.records,
        bytes=partition.bytes,
        trouble=partition.trouble,
    )


def _translated(flow: Flow, at: pb.SourceOffset) -> pb.OffsetTranslated:
    copy = flow.names.target_of(at.topic)
    offset = flow.syncs.translate(TopicPartition(at.topic, at.partition), at.offset)
    if copy is None or offset is None:
        known = "is not copied by this flow" if copy is None else f"was not copied near offset {at.offset}"
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return pb.OffsetTranslated(error=Error(code=code, message=f"{at.topic}-{at.partition} {known}"))
    return pb.OffsetTranslated(copy=copy, partition=at.partition, offset=offset)


async def _moved(moved: Moved) -> pb.MoveGroupsResponse:
    response = pb.MoveGroupsResponse(source_reached=moved.source_reached)
    time_slice = Slice()
    for group in moved.groups:
        await time_slice.rest()
        added = response.groups.add(group=group.group)
        if group.error is not None:
            added.error.code, added.error.message = group.error.code, str(group.error)
        for move in group.positions:
            added.positions.add(
                topic=move.partition.topic,
                partition=move.partition.partition,
                before=move.before,
                to_topic=move.to.topic,
                after=move.after,
                had=move.had,
                obstacle=move.obstacle,
            )
    return response
