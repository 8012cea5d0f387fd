"""What is done to the services of transactions, and to their producers."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.faults.cluster import until
from tests.faults.nemesis import Nemesis
from tests.faults.node import Node
from tests.faults.transactions.cluster import TransactionCluster
from tests.faults.transactions.launch import HELD, UNSENT
from tests.faults.transactions.producers import TIMEOUT_S

_HIT_LIMIT_S: Final = 120.0
_INIT_LIMIT_S: Final = 120.0
_END_LIMIT_S: Final = 120.0
_HELD_S: Final = 1.5
"""Until markers that were sent lie in leaders' logs, or a leader knows how far its followers are."""
_LEAST_ENDING: Final = 4


class TransactionNemesis(Nemesis):
    """`producers` are the processes that write; in each of the `rivals` one more for each of them, of the same ids."""

    cluster: TransactionCluster

    def prepare(
        self,
        producers: Sequence[Node],
        rivals: Sequence[Node],
        inits: Callable[[Node], int],
        read_pass: Callable[[int], None],
    ) -> None:
        self.producers = list(producers)
        self.rivals = list(rivals)
        self.inits: Final = inits
        """How often a process has taken over an id."""
        self.read_pass: Final = read_pass
        """Let one more reader read all that is committed."""
        self.kills: Counter[str] = Counter()
        """By step, those that came there; and by kind of what was killed in any."""
        self.cuts: Counter[str] = Counter()
        """By kind of what was cut off for longer than transactions last."""
        self.zombies = 0

    # ---- kills ----------------------------------------------------------------------------------------------------

    def kill_in(self, steps: Mapping[str, Sequence[str]]) -> None:
        """In each step the first of these services that comes there; it is started again at once, as others may need
        it. All replicas are in sync again when this returns."""
        self.note(f"arm {dict(steps)}")
        for step, names in steps.items():
            for name in names:
                self.cluster.arm(name, step)
        left, give_up_at = dict(steps), time.monotonic() + _HIT_LIMIT_S
        while left and time.monotonic() < give_up_at:
            for step in [step for step, names in left.items() if any(map(self.cluster.was_hit, names))]:
                for name in left.pop(step):
                    self.cluster.disarm(name)
                    if self.cluster.was_killed(name):
                        self.kills[step] += 1
                        self._start_again(name)
            time.sleep(0.02)
        if left:
            self.failures.append(f"waited {_HIT_LIMIT_S:g} s in vain for transactions to come to {left}")
        for names in left.values():
            for name in names:
                self.cluster.disarm(name)
        if any(name in self.cluster.brokers for names in steps.values() for name in names):
            self.until_whole()

    def _start_again(self, name: str) -> None:
        node = self.cluster.nodes[name]
        until(lambda: node.pid is None, f"{name} to end", _HIT_LIMIT_S)
        if node.ended_by_itself != -signal.SIGKILL:
            self.failures.append(f"{name} ended with {node.ended_by_itself}, and not by the kill")
        node.kill()
        self.start(name)

    def kill_service(self, name: str) -> None:
        """Wherever it is."""
        self.kill(name)
        self.kills[name.partition("-")[0]] += 1
        self.start(name)
        self.until_whole()

    def kill_with_producers(self, step: str, names: Sequence[str]) -> None:
        """One of these services in this step, and the producers at once: what is under way will never be committed."""
        self.note(f"arm {step} of {names}, and the producers")
        for name in names:
            self.cluster.arm(name, step)
        until(lambda: any(map(self.cluster.was_hit, names)), f"transactions to come to {step}", _HIT_LIMIT_S)
        self.kill_producers()
        for name in names:
            self.cluster.disarm(name)
            if self.cluster.was_killed(name):
                self.kills[step] += 1
                self._start_again(name)

    def kill_producers(self) -> None:
        """One process of them, with all its producers; the next one takes their ids over."""
        victim = self.random.choice(self.producers)
        self.note(f"SIGKILL {victim.name}")
        victim.kill()
        self.kills["producers"] += 1
        victim.start()

    def _hold(self, name: str) -> Path:
        """Markers stay where they are until this file is gone; some transactions wait for them."""
        held = self.cluster.launched / name
        held.touch()
        until(lambda: self.cluster.ending() >= _LEAST_ENDING, "transactions to wait for their markers", _HIT_LIMIT_S)
        time.sleep(_HELD_S)
        return held

    def kill_before_markers(self) -> None:
        """All txn-coordinators, while transactions of known end wait for their markers."""
        held = self._hold(UNSENT)
        for name in self.cluster.txn_coordinators:
            self.kill(name)
        held.unlink()
        for name in self.cluster.txn_coordinators:
            self.start(name)
        self.until_whole()

    def lose_markers(self) -> None:
        """A leader has markers that no follower has, and is killed: the next one has the transactions open."""
        held = self._hold(HELD)
        self.read_pass(1)
        partition = self.any_partition()
        leader = self.cluster.leader(self.topic, partition)
        with self.stopped(*self.cluster.txn_coordinators):  # else they write the markers anew
            self.kill(leader)
            self.next_leader(partition, leader)
            time.sleep(_HELD_S)
            self.read_pass(2)
        held.unlink()
        self.start(leader)
        self.until_whole()

    # ---- zombies --------------------------------------------------------------------------------------------------

    def take_over(self, threads: int, *, away_s: float, cut: bool = False) -> None:
        """All producers stop, or are cut off; others take over their ids and write; then those go on, and must find
        out."""
        zombies, away_at = self.producers, time.monotonic()
        before = {rival.name: self.inits(rival) for rival in self.rivals}
        with self._cut_off(zombies) if cut else self._stopped(zombies):
            for rival in self.rivals:
                rival.start()
            taken = "the rivals to take over all ids"
            until(lambda: all(self.inits(r) >= before[r.name] + threads for r in self.rivals), taken, _INIT_LIMIT_S)
            time.sleep(max(0.0, away_at + away_s - time.monotonic()))
        for zombie in zombies:
            if (code := zombie.wait(_END_LIMIT_S)) != 0:
                self.failures.append(f"{zombie.name} ended with {code}, and was to find itself fenced")
        self.zombies += threads * len(zombies)
        self.producers, self.rivals = self.rivals, zombies

    def stop_for_long(self) -> None:
        """Until the transactions that are open have timed out; nobody takes over, and the producers go on."""
        with self._stopped([self.random.choice(self.producers)]):
            time.sleep(2 * TIMEOUT_S)

    def cut_off(self, name: str) -> None:
        """For as long a service reaches no one; it comes back with what was another's meanwhile."""
        self.unplug(name)
        time.sleep(2 * TIMEOUT_S)
        self.heal()
        self.cuts[name.partition("-")[0]] += 1
        self.until_whole()

    @contextmanager
    def _stopped(self, clients: Sequence[Node]) -> Iterator[None]:
        self.note(f"SIGSTOP {[client.name for client in clients]}")
        for client in clients:
            client.pause()
        try:
            yield
        finally:
            self.note("SIGCONT")
            for client in clients:
                client.resume()

    @contextmanager
    def _cut_off(self, clients: Sequence[Node]) -> Iterator[None]:
        """They have one node."""
        self.unplug(self.clients[int(clients[0].name[-1])])
        try:
            yield
        finally:
            self.heal()
        self.cuts["producers"] += 1


class ProducerNode(Node):
    """What stops or kills it goes to all of its processes: one may have a JVM."""

    def send(self, number: signal.Signals) -> None:
        if number == signal.SIGTERM:
            super().send(number)
        elif self.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
