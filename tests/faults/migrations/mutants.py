"""Rules of the consumer protocol that are broken on purpose in a run's coordinators. Each has to be found."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment


def _machine(name: str) -> Any:
    """Return a module of the coordinator, loaded only in services that run with the mutant."""
    return importlib.import_module(f"ottla_group_coordinator.machines.{name}")


def _commit_in_any_epoch() -> None:
    """A member may commit in any epoch, against KIP-848 and KIP-1251."""

    def check(
        group: object, member_id: str, epoch: int, partitions: object, *, is_anonymous: bool, knows_no_epochs: bool
    ) -> None:
        """Accept every commit."""

    put_in_place(_machine("offsets"), "check_commit", check)


def _partition_free_before_its_owner_gives_it_up() -> None:
    """A member gets a partition that another one has yet to give up."""
    put_in_place(_machine("consumer.group").ConsumerGroup, "owner", lambda self, topic_id, number: None)


def _revoked_before_the_member_reports_it() -> None:
    """Partitions that a member has to give up count as given up at once."""
    put_in_place(_machine("consumer.reconciliation"), "_owns", lambda revoking, owned: False)


def _no_session_of_consumers_after_a_load() -> None:
    """Members that die while another coordinator takes over remain members for ever."""
    put_in_place(_machine("shard"), "decide_consumer_resume", lambda group, settings, now: ShardDecision(None))


def _session_without_end() -> None:
    """A member that misses its heartbeats remains a member."""
    shard, session = _machine("shard"), _machine("consumer.draft").Awaits.SESSION

    def end(group: Any, member_id: str, topics: Any, settings: Any, now: Any) -> ShardDecision[Any]:
        return ShardDecision(None)

    put_in_place(shard, "_TIME_IS_UP", {**shard._TIME_IS_UP, session: end})


def _epoch_not_begun() -> None:
    """A group begins no epoch when its members change."""
    draft = _machine("consumer.draft").Draft
    begin = draft.begin_epoch

    @functools.wraps(begin)
    def begin_first(self: Any, *arguments: Any) -> None:
        if not self.group.exists or not self.group.members:
            begin(self, *arguments)

    put_in_place(draft, "begin_epoch", begin_first)


def _target_without_a_partition() -> None:
    """An assignor leaves out the last partition of each topic."""
    target = _machine("consumer.target")
    whole = dict(target.ASSIGNORS)

    def leave_out(assign: Callable[..., Any]) -> Callable[..., Any]:
        return lambda members, counts: assign(members, {topic: count - 1 for topic, count in counts.items()})

    put_in_place(target, "ASSIGNORS", {name: leave_out(assign) for name, assign in whole.items()})


def _assignments_lost_in_the_upgrade() -> None:
    """A classic group becomes a consumer group whose members have no assignment, although they still read."""
    put_in_place(_machine("migration"), "partitions_of", lambda named, topics: {})


def _assignments_not_replayed() -> None:
    """A coordinator that takes over does not know the assignments of members."""
    shard, current = _machine("shard").GroupShard, _machine("consumer.records").CurrentKey
    on_loaded = shard.on_loaded

    def forget(self: Any, now: Moment) -> ShardDecision[None]:
        for group in self._consumers.values():
            for member in tuple(group.members.values()):
                key = current(group.group_id, member.member_id)
                group.apply(key, member.current._replace(assigned={}, revoking={}))
        decision: ShardDecision[None] = on_loaded(self, now)
        return decision

    put_in_place(shard, "on_loaded", forget)


MUTANTS: Final = MappingProxyType(
    {
        "commit-in-any-epoch": _commit_in_any_epoch,
        "partition-free-before-its-owner-gives-it-up": _partition_free_before_its_owner_gives_it_up,
        "revoked-before-the-member-reports-it": _revoked_before_the_member_reports_it,
        "no-session-of-consumers-after-a-load": _no_session_of_consumers_after_a_load,
        "session-without-end": _session_without_end,
        "epoch-not-begun": _epoch_not_begun,
        "target-without-a-partition": _target_without_a_partition,
        "assignments-lost-in-the-upgrade": _assignments_lost_in_the_upgrade,
        "assignments-not-replayed": _assignments_not_replayed,
    }
)
