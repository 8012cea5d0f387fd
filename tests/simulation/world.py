"""One seed: a shard, its partition, three coordinators, clients, a controller, and a share of every fault.

A storm first, of as many steps as are asked for; then everything is healed, and the shard has to serve again, with all
that was ever acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.simulation.coordinator import LIMITS, Coordinator
from tests.simulation.counters import Counters, add, get, get_by_last_proof, watch
from tests.simulation.history import Broken, History, Operation
from tests.simulation.network import TIMEOUT_S, Network, Weather
from tests.simulation.partition import TAKES_NOTHING, Partition
from tests.simulation.schedule import Schedule
from tests.simulation.transactions import Step, Transactions

from ottla_core.coordination.append_round import ShardRequest
from ottla_core.coordination.effects import Leave
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Decide
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence

KEYS: Final = (b"a", b"b", b"c")
HEALING_S: Final = 10.0
_INDEFINITE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@dataclass(frozen=True)
class Build:
    """The classes that a world is made of; mutants put theirs in the place of one."""

    owner: type[Owner[Counters]] = Owner
    partition: type[Partition] = Partition
    epoch_kept_at_restart: bool = False
    guarded: bool = True


class World:
    def __init__(self, seed: int, build: Build, tell: Callable[[str], None] | None = None) -> None:
        self.schedule: Final = Schedule(seed, tell)
        self.history: Final = History(LIMITS.unproved_s)
        self.partition: Final = build.partition(self.schedule, self.history.on_committed)
        self.network: Final = Network(self.schedule, self.partition)
        self.owner_number, self.owner_incarnation, self.shard_epoch = 0, 1, 0
        self.coordinators: Final = [
            Coordinator(n, self.schedule, self.network, self.partition, self, build.owner) for n in range(3)
        ]
        self._build: Final = build
        self._transactions: Final = Transactions(self.schedule, self.history, self._ask_owner, guarded=build.guarded)
        self._incarnations = 3
        self._operations: Final[list[Operation]] = []
        self._healed = False
        self._refused = False  # the last one that asked; whoever comes next takes its time

    # ---- the run --------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> int:
        """The hash of all that happened. Raises Broken."""
        self._begin()
        while self.schedule.steps < steps:
            self.schedule.step()
        self._heal()
        self.schedule.run_until(self.schedule.now + HEALING_S)
        self._check_service()
        self.history.check_end()
        for batch in self.history.committed:
            self.schedule.note(batch.data)
        self.schedule.note(repr(self.history.answers).encode())
        return self.schedule.trace

    def _begin(self) -> None:
        random, schedule = self.schedule.random, self.schedule
        self.network.weather = Weather(
            lost=random.choice((0.0, 0.01, 0.1)),
            twice=random.choice((0.0, 0.02, 0.2)),
            late=random.choice((0.0, 0.01, 0.1)),
        )
        self.partition.delay_s = self._delay_s = random.choice((0.001, 0.005, 0.05))
        self.partition.loss = random.choice((0.0, 0.01, 0.1))
        self._busy_s = random.choice((0.005, 0.02, 0.05))
        self._strays = random.choice((None, None, "by proof"))  # by others a former owner soon finds out that it is one
        for coordinator in self.coordinators:
            coordinator.start(coordinator.incarnation)
        self._assign(0)
        schedule.after(0.0, self.partition.nudge)
        schedule.after(0.0, self.partition.reconcile)
        schedule.after(0.0, self._tell_leader)
        schedule.after(0.1, self._client)
        for fault in (
            self._reassign,
            self._crash_coordinator,
            self._pause,
            self._starve,
            self._delay_the_log,
            self._cut_off,
            self.partition.elect,
            self.partition.refuse,
            self._crash_broker,
            self.partition.shrink,
        ):
            if (every_s := random.choice((None, None, 2.0, 4.0, 8.0))) is not None:
                self._later(every_s, fault)

    def _later(self, every_s: float, fault: Callable[[], None]) -> None:
        self.schedule.after(self.schedule.random.expovariate(1 / every_s), self._strike, every_s, fault)

    def _strike(self, every_s: float, fault: Callable[[], None]) -> None:
        if not self._healed:
            fault()
            self._later(every_s, fault)

    # ---- the controller -------------------------------------------------------------------------------------------

    def _assign(self, number: int) -> None:
        """Every assignment has an epoch of its own. What need not be fresh is read from the former owner, too."""
        former = self.coordinators[self.owner_number]
        self.schedule.after(self.schedule.random.random() * 5, self._ask, "by proof", former)
        self.owner_number, self.owner_incarnation = number, self.coordinators[number].incarnation
        self.shard_epoch += 1
        self._announce()

    def _announce(self) -> None:
        word = self.owner_number, self.owner_incarnation, self.shard_epoch
        for coordinator in self.coordinators:
            delay_s = self.schedule.random.random() * 0.05
            if not self._healed and self.schedule.one_in(0.2):
                delay_s += self.schedule.random.random() * 5  # the former owner may not hear of the next for long
            delay_s += max(coordinator.deaf_until - self.schedule.now, 0.0)
            self.schedule.after(delay_s, coordinator.deliver, coordinator.life, coordinator.on_assigned, *word)

    def _reassign(self) -> None:
        up = [c.number for c in self.coordinators if c.up]
        if up:
            self._assign(self.schedule.random.choice(up))

    def on_leave(self, fence: ShardFence, leave: Leave) -> None:
        self.history.left[leave.reason] += 1
        if leave.needs_epoch:
            if TAKES_NOTHING not in leave.reason:
                raise Broken(f"an owner gave its shard up under {fence}: {leave.reason}")
            self.schedule.after(0.02, self._on_asked, fence.epoch)

    def _on_asked(self, epoch: int) -> None:
        if epoch == self.shard_epoch:
            self._reassign()

    def _tell_leader(self) -> None:
        for coordinator in self.coordinators:
            if coordinator.deaf_until <= self.schedule.now and (self._healed or self.schedule.one_in(0.5)):
                word = self.partition.leader, self.partition.epoch
                coordinator.deliver(coordinator.life, coordinator.on_metadata, *word)
        self.schedule.after(0.05, self._tell_leader)

    # ---- faults ---------------------------------------------------------------------------------------------------

    def _crash_coordinator(self) -> None:
        coordinator = self.schedule.random.choice(self.coordinators)
        if coordinator.up:
            coordinator.crash()
            self.schedule.after(self.schedule.random.random(), self._restart_coordinator, coordinator)

    def _restart_coordinator(self, coordinator: Coordinator) -> None:
        """It registers anew, and the controller gives its shard a new epoch, be it to it again or to another."""
        owned = (coordinator.number, coordinator.incarnation) == (self.owner_number, self.owner_incarnation)
        if self._build.epoch_kept_at_restart:
            coordinator.start(coordinator.incarnation)
            self._announce()
            return
        self._incarnations += 1
        coordinator.start(self._incarnations)
        if owned:
            self.schedule.after(self.schedule.random.random() * 0.2, self._reassign)

    def _pause(self) -> None:
        """It sleeps, and its watch of the metadata comes back a while after it."""
        coordinator = self.schedule.random.choice(self.coordinators)
        pause_s = self.schedule.random.random() * 3
        coordinator.paused_until = self.schedule.now + pause_s
        coordinator.deaf_until = coordinator.paused_until + self.schedule.random.random()
        self.schedule.after(pause_s + 0.01, self._ask, "memory", coordinator)
        if self.schedule.one_in(0.5):
            self.schedule.after(0.7, self._reassign)

    def _starve(self) -> None:
        """It gets the processor for moments only, again and again; with gaps that are noticed, and shorter ones."""
        coordinator = self.schedule.random.choice(self.coordinators)
        at_s = 0.0
        for _ in range(self.schedule.random.randrange(2, 8)):
            gap_s = self.schedule.random.uniform(0.2, 1.6)
            self.schedule.after(at_s, self._stand_still, coordinator, gap_s)
            at_s += gap_s + self.schedule.random.random() * 0.1
            self.schedule.after(at_s - 0.01, self._ask, "memory", coordinator)

    def _stand_still(self, coordinator: Coordinator, gap_s: float) -> None:
        if not self._healed:
            coordinator.paused_until = max(coordinator.paused_until, self.schedule.now + gap_s)

    def _delay_the_log(self) -> None:
        """Its followers are so slow that no append is answered in its time, for seconds."""
        self.partition.delay_s = self.schedule.random.uniform(0.2, 1.0)
        self.schedule.after(self.schedule.random.uniform(1.0, 6.0), self._hurry_the_log)

    def _hurry_the_log(self) -> None:
        if not self._healed:
            self.partition.delay_s = self._delay_s

    def _cut_off(self) -> None:
        """The leader and the owner reach each other, and no word reaches them: both are replaced, and don't know."""
        replica, coordinator = self.partition.replicas[self.partition.leader], self.coordinators[self.owner_number]
        replica.deaf_until = coordinator.deaf_until = self.schedule.now + 1 + self.schedule.random.random() * 3
        self.partition.elect()
        self._assign((self.owner_number + 1) % len(self.coordinators))

    def _crash_broker(self) -> None:
        replica = self.schedule.random.choice(self.partition.replicas)
        if replica.up:
            self.partition.crash(replica)
            self.schedule.after(self.schedule.random.random() * 2, self.partition.restart, replica)

    def _heal(self) -> None:
        self._healed = True
        self.network.weather = Weather()
        self.partition.loss, self.partition.deafness, self.partition.takes_nothing_until = 0.0, 0.0, 0.0
        self.partition.delay_s = 0.002
        for coordinator in self.coordinators:
            coordinator.paused_until = min(coordinator.paused_until, self.schedule.now + 1)
            coordinator.deaf_until = self.schedule.now

    # ---- clients --------------------------------------------------------------------------------------------------

    def _client(self) -> None:
        if not self._healed:
            random = self.schedule.random
            if self.schedule.one_in(0.1):
                self._transactions.begin()
            self._ask(random.choice(("write", "write", "write", "read", "read", "memory", "by proof", "watch")))
            patience = 5 if self._refused else 1
            self.schedule.after(random.expovariate(1 / self._busy_s) * patience, self._client)

    def _ask(self, kind: str, coordinator: Coordinator | None = None) -> Operation:
        random, schedule = self.schedule.random, self.schedule
        key = random.choice(KEYS)
        operation = Operation(len(self._operations), kind, key, self.history.floor(key, schedule.now))
        self._operations.append(operation)
        stray = not self._healed and schedule.one_in(0.05 if kind == "write" else 0.3) and self._strays in (None, kind)
        if coordinator is None:
            coordinator = random.choice(self.coordinators) if stray else self.coordinators[self.owner_number]
        request = self._request(operation)
        coordinator.deliver(coordinator.life, coordinator.on_request, request, 3 * TIMEOUT_S)
        return operation

    def _ask_owner(self, decide: Decide[Counters], step: Step) -> None:
        coordinator, request = self.coordinators[self.owner_number], ShardRequest(step, decide, 0.0, at_leisure=True)
        coordinator.deliver(coordinator.life, coordinator.on_request, request, 3 * TIMEOUT_S)

    def _request(self, operation: Operation) -> ShardRequest[Counters]:
        key = operation.key
        match operation.kind:
            case "write":
                timer_s = 0.3 if self.schedule.one_in(0.1) else None
                decide = add(key, operation.name, timer_s=timer_s)
            case "watch":
                decide = watch(key, operation.name)
            case "by proof":
                decide = get_by_last_proof(key)
            case _:
                decide = get(key)
        return ShardRequest(operation, decide, 0.0, without_confirmation=operation.kind == "memory")

    def on_answer(self, token: Any, response: Any) -> None:
        if isinstance(token, Step):
            token.answered(response)
            return
        self._refused = False
        self.history.on_answer(token, response, self.schedule.now)
        if token.number % 16 == 0:
            self._check_states()

    def on_refusal(self, token: Any, error: Exception) -> None:
        if token is None:
            raise Broken(f"a decision of the owner's own failed: {error!r}")
        if isinstance(token, Step):
            token.rejected()
            return
        self._refused = True
        surely = isinstance(error, OttlaError) and error.code not in _INDEFINITE
        self.history.on_refusal(token, surely=surely)

    # ---- what is true ---------------------------------------------------------------------------------------------

    def _check_states(self) -> None:
        for coordinator in self.coordinators:
            owner = coordinator.owner
            if owner is not None and owner.phase is Phase.SERVING and not owner.is_busy:
                self.history.check_state(owner.next_offset, owner.shard)

    def _check_service(self) -> None:
        """Healed, there is one owner; it serves, and what it has is the log's."""
        serving = [c for c in self.coordinators if c.owner is not None and c.owner.phase is Phase.SERVING]
        if [c.number for c in serving] != [self.owner_number]:
            raise Broken(f"{[c.number for c in serving]} serve, and {self.owner_number} owns the shard")
        asked = [self._ask("write"), self._ask("read")]
        self.schedule.run_until(self.schedule.now + 1.0)
        if not all(operation.done for operation in asked):
            raise Broken("a write or a read was not answered with everything healed")
        self._check_states()
