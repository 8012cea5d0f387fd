"""Kills in the phases of cleanings, of the broker that cleans or of its worker; and what mutants need."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from tests.faults.cluster import until
from tests.faults.compacted.cluster import CompactedCluster
from tests.faults.compacted.phases import STEPS, WORKER
from tests.faults.nemesis import Nemesis

_HIT_LIMIT_S: Final = 60.0
_CUT_S: Final = 6.0
_CUT_LIMIT_S: Final = 25.0
_SHORT_BYTES: Final = 1_500
_TAIL_NS: Final = 2_000_000_000
"""After a cut: until then a cleaning may be one of what was committed before it."""


class CompactedNemesis(Nemesis):
    cluster: CompactedCluster

    def prepare(self) -> None:
        self.kills: Counter[str] = Counter()
        """By phase, those that came there."""
        self.between: Callable[[], None] = lambda: None
        """What is done between two kills."""
        self.logs = 0
        """How many each broker has."""
        self.end_writers: Callable[[], None] = lambda: None
        """At once: what has no outcome by then is not sent again."""

    def let_clean(self) -> None:
        """Until here no cleaner has run."""
        self.cluster.admin().configs.set({"log.cleaner.enable": True}, timeout=10.0)

    def all_cleaned(self, times: int) -> bool:
        """Whether every broker has cleaned each of its logs so many times."""
        done = Counter((c["broker"], c["partition"]) for c in self.cluster.cleanings())
        return len(done) == len(self.cluster.brokers) * self.logs and min(done.values()) >= times

    def kill_in(self, phases: Mapping[str, str], *, step: int = 0) -> None:
        """Each of these brokers, or its worker, once it is in its phase, at that step or at any of it. Each is started
        at once, as others may need it to get there. The cluster is whole again when this returns."""
        for name, phase in phases.items():
            at = step or self.random.randint(1, STEPS[phase])
            self.note(f"arm {name}: step {at} of {phase!r}")
            self.cluster.arm(name, phase, at)
        self.let_clean()
        left, give_up_at = dict(phases), time.monotonic() + _HIT_LIMIT_S
        while left:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"waited {_HIT_LIMIT_S:g} s in vain for cleanings to come to {left}")
            for name in [name for name in left if self.cluster.was_hit(name)]:
                phase = left.pop(name)
                if phase != WORKER:
                    self._start_again(name)
                self.kills[phase] += 1
            time.sleep(0.05)
        self.until_whole()
        self.between()

    def _start_again(self, name: str) -> None:
        node = self.cluster.nodes[name]
        until(lambda: node.pid is None, f"{name} to end", _HIT_LIMIT_S)
        if node.ended_by_itself != -signal.SIGKILL:
            self.failures.append(f"{name} ended with {node.ended_by_itself}, and not by the kill")
        node.kill()
        self.start(name)

    def leave_a_tail(self) -> None:
        """A leader without its followers appends and cleans, is killed, and comes back as a follower."""
        configs = self.cluster.admin().configs
        configs.set({"replica.lag.time.max.ms": 60_000}, timeout=10.0)  # they stay in its ISR
        configs.set({"segment.bytes": _SHORT_BYTES}, topic=self.topic, timeout=10.0)  # that little is under way
        self.let_clean()
        leader = self.any_leader()
        with self.hit("killed while cut from its followers", leader):
            self.cut_both(leader, self.others(leader))
            cut_at, cut_ns = time.monotonic(), time.monotonic_ns()
            while time.monotonic() < cut_at + _CUT_S or not self._cleans_since(leader, cut_ns):
                if time.monotonic() > cut_at + _CUT_LIMIT_S:
                    break  # as it should be: what is new to it is not committed
                time.sleep(0.2)
            self.end_writers()
            self.kill(leader)
            self.heal()
            time.sleep(1.0)
            self.start(leader)

    def _cleans_since(self, broker: str, since_ns: int) -> bool:
        return any(c["broker"] == broker and c["now_ns"] > since_ns + _TAIL_NS for c in self.cluster.cleanings())
