"""Decides a member's request by the protocol of its group, which may not be that of the request.

A consumer group gets classic requests while it migrates, and a classic group gets the first request of the consumer
protocol. An empty group takes the protocol of the next member that joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ottla_core.coordination.effects import loading
from ottla_core.coordination.shard import Entry, Recalled, ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.errors import OttlaError
from ottla_group_coordinator.machines.consumer.classic_members import (
    decide_heartbeat_of_classic,
    decide_join_of_classic,
    decide_leave_of_classic,
    decide_sync_of_classic,
)
from ottla_group_coordinator.machines.consumer.errors import no_consumer_group
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.heartbeat import answer_if_quiet, decide_consumer_heartbeat
from ottla_group_coordinator.machines.consumer.member import JOINS
from ottla_group_coordinator.machines.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    check_request,
)
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import (
    CallerIdentity,
    Join,
    Sync,
    check_join,
    decide_heartbeat,
    decide_join,
    decide_leave,
    decide_sync,
)
from ottla_group_coordinator.machines.migration import check_upgrade, check_upgrade_size, first_epoch, upgrade
from ottla_group_coordinator.machines.records import GroupKey, encode_group, encode_key
from ottla_group_coordinator.machines.shard import GroupShard


def decide_quiet_request(shard: GroupShard, group_id: str, request: ConsumerHeartbeat, now: Moment) -> Recalled | None:
    """Decide a heartbeat of the consumer protocol that changes only a timer, or return None."""
    group = shard.consumer_group(group_id)
    if group is None:
        return None
    return answer_if_quiet(group, request, shard.topics, shard.settings.consumer.of(group_id), now)


def decide_consumer_request(
    shard: GroupShard, group_id: str, request: ConsumerHeartbeat, now: Moment
) -> ShardDecision[ConsumerHeartbeatAnswer]:
    """Decide a heartbeat of the consumer protocol. Raises GROUP_ID_NOT_FOUND, and what the group raises."""
    # It may be quiet all the same: during a round, or without a proof that still counts, nothing is recalled.
    if (quiet := decide_quiet_request(shard, group_id, request, now)) is not None:
        return ShardDecision(quiet.response, timers=quiet.timers, by_last_proof=True)
    group = shard.consumer_group(group_id)
    check_request(group_id, request, shard.settings.consumer.of(group_id))
    if group is not None:
        return decide_consumer_heartbeat(group, request, shard.topics, shard.settings, now)
    if request.epoch != JOINS:
        raise no_consumer_group(group_id)
    if shard.left_behind(group_id):
        raise loading()  # the members that are left behind must not come back into the new group
    classic = shard.group_or_new(group_id)
    group = ConsumerGroup(group_id, first_epoch(classic))
    if classic.members:
        check_upgrade(classic, shard.settings)
        before = partial(upgrade, classic=classic, topics=shard.topics)
        decision = decide_consumer_heartbeat(group, request, shard.topics, shard.settings, now, before)
        check_upgrade_size(classic, decision.records, shard.settings)
        return decision
    decision = decide_consumer_heartbeat(group, request, shard.topics, shard.settings, now)
    if shard.any_group(group_id) is None:
        return decision
    # The history is forgotten when no group with this id is left, so the classic group is deleted last.
    return replace(decision, records=(*decision.records, *classic.tombstones()))


def decide_join_request(shard: GroupShard, group_id: str, request: Join, now: Moment) -> ShardDecision[Any]:
    check_join(group_id, request, shard.settings)
    consumers = shard.consumer_group(group_id)
    if consumers is None:
        return decide_join(shard.group_or_new(group_id), request, shard.settings, now)
    if consumers.members:
        return decide_join_of_classic(consumers, request, shard.topics, shard.settings, now)
    classic = Group(group_id, generation=consumers.epoch, state_since_ms=now.wall_ms)
    decision = decide_join(classic, request, shard.settings, now)
    # The generation is written at once: a coordinator that takes over must not begin with 1 again.
    written = replace(classic, protocol_type=request.protocol_type).record()
    records = (Entry(encode_key(GroupKey(group_id)), encode_group(written)), *decision.records)
    return replace(decision, records=(*records, *consumers.tombstones()))


def decide_sync_request(shard: GroupShard, group_id: str, request: Sync, now: Moment) -> ShardDecision[Any]:
    consumers = shard.consumer_group(group_id)
    if consumers is not None:
        return decide_sync_of_classic(consumers, request, shard.topics, now)
    return decide_sync(shard.group_or_new(group_id), request, shard.settings, now)


def decide_heartbeat_request(
    shard: GroupShard, group_id: str, identity: CallerIdentity, generation: int, now: Moment
) -> ShardDecision[Any]:
    consumers = shard.consumer_group(group_id)
    if consumers is not None:
        return decide_heartbeat_of_classic(consumers, identity, generation, now)
    return decide_heartbeat(shard.group_or_new(group_id), identity, generation, now)


def decide_leave_request(
    shard: GroupShard, group_id: str, leavers: Sequence[tuple[CallerIdentity, str]], now: Moment
) -> ShardDecision[list[OttlaError | None]]:
    consumers = shard.consumer_group(group_id)
    if consumers is not None:
        return decide_leave_of_classic(consumers, leavers, shard.topics, shard.settings, now)
    return decide_leave(shard.group_or_new(group_id), leavers, shard.settings, now)
