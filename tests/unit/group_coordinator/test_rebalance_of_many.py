"""A rebalance of 4,000 members: each decision is made and applied in one turn, which is not long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from groups import WAITS, Shard

from ottla_core.event_loop.watchdog import LIMIT_S
from ottla_core.kafka_formats.consumer_protocol import MemberAssignment, encode_assignment
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.membership import GroupSettings

MEMBERS = 4_000
TRIES = 3


def cpu_s(work: Callable[[], Any]) -> float:
    began_s = time.thread_time()
    work()
    return time.thread_time() - began_s


def test_a_rebalance_of_4000_members_takes_no_long_turn() -> None:
    shard = Shard(GroupSettings(max_record_bytes=64 << 20))
    leader, *others = members = shard.stable(MEMBERS)
    assigned = {m: encode_assignment(MemberAssignment((TopicPartition("t", n),))) for n, m in enumerate(members)}
    longest_s = []
    for generation in range(2, 2 + TRIES):
        shard.join(leader, key=f"{leader} joins {generation}")
        *early, last = others
        for member in early:
            shard.join(member, key=f"{member} joins {generation}")
        all_joined_s = cpu_s(lambda: shard.join(last, key=f"{last} joins {generation}"))  # noqa: B023
        assert shard.group().generation == generation
        assert all(shard.sync(member, generation) is WAITS for member in others)
        assigned_s = cpu_s(lambda: shard.sync(leader, generation, assigned))  # noqa: B023
        assert len(shard.answers) == 2 * MEMBERS
        shard.answers.clear()
        longest_s.append(max(all_joined_s, assigned_s))
    assert min(longest_s) < LIMIT_S, longest_s
