"""The way from owners to the partition's leader and back: late, lost, twice, or to a broker that does not lead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.simulation.partition import Partition, Replica
from tests.simulation.schedule import Schedule

from ottla_core.coordination.shard_log import Append, Call, Check, Read, Result, Unknown
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence

TIMEOUT_S: Final = 0.4


@dataclass
class Weather:
    """Chances, of one message."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    late_s: float = 3.0


class Network:
    def __init__(self, schedule: Schedule, partition: Partition) -> None:
        self.weather = Weather()
        self._schedule: Final = schedule
        self._partition: Final = partition

    def call(
        self, leader: int, epoch: int, owner: ShardFence, call: Call, life: int, response: Callable[[Result], None]
    ) -> None:
        """`response` is called with what comes back, and with Unknown when TIMEOUT_S is over: the first one counts."""
        twice = self._schedule.one_in(self.weather.twice)
        for _ in range(2 if twice else 1):
            self._send(self._on_call, self._partition.replicas[leader], epoch, owner, call, life, twice, response)
        late = Unknown(OttlaError(ErrorCode.REQUEST_TIMED_OUT, "no answer"))
        self._schedule.after(TIMEOUT_S, response, late)

    def _send(self, event: Callable[..., None], *args: object) -> None:
        if self._schedule.one_in(self.weather.lost):
            return
        delay_s = self._schedule.random.random() * 0.004
        if self._schedule.one_in(self.weather.late):
            delay_s += self._schedule.random.random() * self.weather.late_s
        self._schedule.after(delay_s, event, *args)

    def _on_call(
        self,
        replica: Replica,
        epoch: int,
        owner: ShardFence,
        call: Call,
        life: int,
        twice: bool,
        response: Callable[[Result], None],
    ) -> None:
        if not replica.up:
            return

        def answer(result: Result) -> None:
            self._send(response, result)

        if not replica.leads or replica.epoch != epoch:
            answer(Unknown(OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")))
            return
        match call:
            case Append(expected, batch):
                self._partition.on_append(replica, owner, expected, batch, life, twice, answer)
            case Check(next_offset):
                self._partition.on_check(replica, owner, next_offset, answer)
            case Read(offset):
                self._partition.on_read(replica, offset, answer)
