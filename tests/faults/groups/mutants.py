"""Rules of groups and their coordinators, broken on purpose in the processes that are run: each must be found.

Every process runs with the mutant; what it changes is the broker's or the coordinator's.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.replication.high_watermark_waiters
import ottla_broker.replication.leadership_confirmation
import ottla_group_coordinator.machines.membership
import ottla_group_coordinator.machines.offsets
import ottla_group_coordinator.machines.rebalance
import ottla_group_coordinator.machines.shard
from ottla_core.cluster.coordinator_registration import CoordinatorRegistration
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import OwnerEvent
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shard_log import Call, Check
from ottla_core.coordination.timers import Moment
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.transition import SessionTimer, Transition


def _heed_no_lease() -> None:
    """A coordinator goes on when its lease is over: clocks alone are not to be what keeps reads fresh.

    With the lease heeded a deposed owner drops its shards by itself, mostly in time, and hides what else is broken.
    """
    put_in_place(CoordinatorRegistration, "_on_lost", lambda self: None)
    put_in_place(CoordinatorRegistration, "epoch", property(lambda self: self._epoch))


def _fetch_without_check() -> None:
    """An owner answers from memory without asking the leader whether it still is one (rule 7 of coordination)."""
    _heed_no_lease()
    begin = Owner._begin

    def begin_unless_check(self: Any, call: Call, now: Moment) -> None:
        if isinstance(call, Check):
            self._began_at = self._sent_at = now.at
            self._on_proved(self._round, self.next_offset, now)
        else:
            begin(self, call, now)

    put_in_place(Owner, "_begin", begin_unless_check)


def _response_before_the_high_watermark() -> None:
    """Neither leader nor owner waits until followers have what members are told of (rules 52 and 9)."""

    def until(self: object, offset: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    put_in_place(ottla_broker.replication.high_watermark_waiters.HighWatermarkWaiters, "until", until)
    put_in_place(Owner, "_is_committed", lambda *_: True)


def _check_without_fence() -> None:
    """A leader confirms whoever asks, whose fence is not the highest (rule 2 of coordination)."""
    _heed_no_lease()
    put_in_place(ottla_broker.replication.leadership_confirmation, "check_owner", lambda *_: None)


def _commit_without_generation_check() -> None:
    """A member may commit in any generation (rule 46)."""
    put_in_place(ottla_group_coordinator.machines.offsets, "check_generation", lambda *_: None)


def _generation_not_counted() -> None:
    """A rebalance ends in the generation that it began in."""
    complete = ottla_group_coordinator.machines.rebalance.complete

    def complete_again(step: Transition) -> None:
        if step.group.generation > 1:
            step.group.generation -= 1
        complete(step)

    put_in_place(ottla_group_coordinator.machines.rebalance, "complete", complete_again)
    put_in_place(ottla_group_coordinator.machines.membership, "complete", complete_again)


def _no_session_after_a_load() -> None:
    """Members' sessions are over when another coordinator takes their group (rule 49)."""

    def decide(group: Group, settings: GroupSettings, now: Moment) -> ShardDecision[None]:
        return ShardDecision(None, timers={SessionTimer(group.group_id, member): now.at for member in group.members})

    put_in_place(ottla_group_coordinator.machines.shard, "decide_resume", decide)


def _deadlines_by_the_wall_clock() -> None:
    """Sessions end by the time of day (rule 10 of coordination)."""
    now = OwnedShards.now

    def by_the_wall(self: Any) -> Moment:
        moment = now(self)
        return Moment(moment.wall_ms / 1000, moment.wall_ms)

    put_in_place(OwnedShards, "now", by_the_wall)
    put_in_place(OwnedShards, "loop_time", lambda self, at: asyncio.get_running_loop().time() + 0.1)


def _given_up_when_late() -> None:
    """An owner whose log has not answered for a third of a session drops its state, and loads it again."""
    refuse_late = Owner._reject_late

    def give_up(self: Any, now: Moment) -> None:
        if self._round is not None and now.at >= self._began_at + self.limits.unproved_s:
            self._leave(OwnerEvent.DIVERGED, "the log could not be reached in time")
        else:
            refuse_late(self, now)

    put_in_place(Owner, "_reject_late", give_up)
    described: Any = Owner.wake_at
    wake_at = described.fget
    assert wake_at is not None
    put_in_place(
        Owner,
        "wake_at",
        property(
            lambda self: (
                wake_at(self) if self._round is None else min(wake_at(self), self._began_at + self.limits.unproved_s)
            )
        ),
    )


MUTANTS: Final = MappingProxyType(
    {
        "none": lambda: None,
        "fetch-without-check": _fetch_without_check,
        "response-before-the-high-watermark": _response_before_the_high_watermark,
        "check-without-fence": _check_without_fence,
        "no-session-after-a-load": _no_session_after_a_load,
        "commit-without-generation-check": _commit_without_generation_check,
        "generation-not-counted": _generation_not_counted,
        "deadlines-by-the-wall-clock": _deadlines_by_the_wall_clock,
        "given-up-when-late": _given_up_when_late,
    }
)
