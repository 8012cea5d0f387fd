"""The rules of the design, each broken on purpose: the simulation has to find every one."""

from __future__ import annotations

from typing import Final

from tests.simulation.counters import Counters
from tests.simulation.partition import Asked, Partition, Replica, Response, Waiting
from tests.simulation.world import Build

from ottla_broker.machines.shard import find_append_offset
from ottla_core.coordination.append_round import ShardRequest
from ottla_core.coordination.effects import Effect, Respond, RespondError
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import OwnerEvent, Phase
from ottla_core.coordination.shard_log import Appended, Call, Check, Read, Result, Unknown
from ottla_core.coordination.timers import NEVER, Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence


class NoHighWatermarkWait(Partition):
    """The leader answers an append when it has it."""

    def answer_append(self, replica: Replica, waiting: Waiting) -> None:
        waiting.response(Appended(waiting.base_offset, waiting.end))


class NoOffsetCompare(Partition):
    """Whatever the fence allows is appended at the log's end."""

    def find_append_offset(self, replica: Replica, owner: ShardFence, expected: int, *, is_fence: bool) -> int:
        return find_append_offset(replica.fence, replica.end, owner, replica.end, is_fence=is_fence)


class FenceForgotten(Partition):
    """A leader knows the fences that it has appended itself, and not those of its log."""

    def on_elected(self, replica: Replica) -> None:
        replica.fences.clear()


class IndefiniteAppendReverted(Owner[Counters]):
    """What was not answered has failed."""

    def _on_round_result(self, result: Result, now: Moment) -> None:
        if isinstance(result, Unknown):
            self._leave(OwnerEvent.DIVERGED, "it failed", failed=result.error)
        else:
            super()._on_round_result(result, now)


class NoReadCheck(Owner[Counters]):
    """What writes nothing is answered without asking anybody."""

    def _begin(self, call: Call, now: Moment) -> None:
        super()._begin(call, now)
        if isinstance(call, Check) and self._round is not None:
            self._out.pop()
            self._on_proved(self._round, self.next_offset, now)


class UncommittedRead(Owner[Counters]):
    """What writes nothing is answered from the state that a turn under way has made."""

    def on_request(self, request: ShardRequest[Counters], now: Moment) -> list[Effect]:
        if self._round is not None and self._round.records:
            try:
                decision = request.decide(self.shard, now)
            except OttlaError as error:
                return [RespondError(request.token, error)]
            if not decision.records and not decision.memory:
                return [Respond(request.token, decision.response)]
        return super().on_request(request, now)


class RefusalBelieved(Owner[Counters]):
    """What the last sending did not do, the ones before it have not done either."""

    def _retry(self, result: Result, now: Moment, *, doubtful: bool) -> None:
        super()._retry(result, now, doubtful=False)


class GapUnnoticed(Owner[Counters]):
    """Who stood still goes on from memory."""

    def on_gap(self, gap_s: float) -> None:
        pass


class LoadBegunAgain(Owner[Counters]):
    """Who stood still while it loaded trusts nothing that it has read."""

    def on_gap(self, gap_s: float) -> None:
        super().on_gap(gap_s)
        if self.phase is Phase.LOADING:
            self.shard, self.next_offset = Counters(), 0
            self._call, self._in_flight, self._retry_at = Read(0), False, 0.0


class StateDroppedWhenLate(Owner[Counters]):
    """A shard whose log is late is given up."""

    def _reject_late(self, now: Moment) -> None:
        if self._round is not None and now.at >= self._late_at:
            self._leave(OwnerEvent.DIVERGED, "the log could not be reached in time")
        else:
            super()._reject_late(now)


class LateReadAnswered(Owner[Counters]):
    """Who has waited for a proof for long enough is answered without one."""

    def _reject_late(self, now: Moment) -> None:
        if self._round is not None and now.at >= self._late_at and not self._round.records:
            self._in_flight = False
            self._on_proved(self._round, self.next_offset, now)
        else:
            super()._reject_late(now)


class LateIsFailed(Owner[Counters]):
    """Who has waited for an append for long enough is told that it has failed."""

    def _reject_late(self, now: Moment) -> None:
        before = len(self._out)
        super()._reject_late(now)
        failed = OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "not in time")
        self._out[before:] = [
            RespondError(e.token, failed) if isinstance(e, RespondError) else e for e in self._out[before:]
        ]


class ProofForEver(Owner[Counters]):
    """Who was the owner once answers for ever what need not be fresh."""

    def _begin_round(self, now: Moment, *, ask: bool = False) -> None:
        until, self._proved_until = self._proved_until, NEVER
        super()._begin_round(now, ask=ask)
        self._proved_until = until


class CheckUnproved(Partition):
    """A leader answers a check by what it believes."""

    def on_check(self, replica: Replica, owner: ShardFence, next_offset: int, response: Response) -> None:
        response(self.checked(replica, Asked(self.schedule.now, owner, next_offset, response)))


MUTANTS: Final = {
    "no high-watermark wait": Build(partition=NoHighWatermarkWait),
    "no offset compare": Build(partition=NoOffsetCompare),
    "fence forgotten": Build(partition=FenceForgotten),
    "indefinite append reverted": Build(owner=IndefiniteAppendReverted),
    "no read check": Build(owner=NoReadCheck),
    "epoch kept at restart": Build(epoch_kept_at_restart=True),
    "uncommitted read": Build(owner=UncommittedRead),
    "refusal believed": Build(owner=RefusalBelieved),
    "gap unnoticed": Build(owner=GapUnnoticed),
    "load begun again": Build(owner=LoadBegunAgain),
    "state dropped when late": Build(owner=StateDroppedWhenLate),
    "late read answered": Build(owner=LateReadAnswered),
    "late is failed": Build(owner=LateIsFailed),
    "proof for ever": Build(owner=ProofForEver),
    "check unproved": Build(partition=CheckUnproved),
    "verification unguarded": Build(guarded=False),
}
