"""What is done to the cluster: kills, stops, cuts, by chance but repeatably, for one seed is one order of faults.

Each fault is a *hit*: the victim's partitions are noted, the harm is done and undone, and then the cluster has to be
whole again. Rows (`rows`, `mutant_rows`) say which harm.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.faults.cluster import ETCD, FaultCluster, until
from tests.faults.gaps import SECOND_NS, Hit

import ottla

CREATE_LIMIT_S: Final = 30.0
ELECTION_LIMIT_S: Final = 10.0
LEAST_HITS: Final = 2
"""However short a run is: one may meet a quiet moment."""

_CALM_S: Final = (0.3, 1.2)
"""Between two hits, so that acknowledgements from before and after can be told apart."""


class Nemesis:
    """`clients` are the nodes that clients run on. `log` tells in words what was done when."""

    def __init__(
        self, cluster: FaultCluster, topic: str, partitions: int, clients: Sequence[str], seed: str, log: Path
    ) -> None:
        self.cluster: Final = cluster
        self.topic: Final = topic
        self.clients: Final = clients
        self.random: Final = random.Random(seed)
        self.hits: list[Hit] = []
        self.leader_kills = 0
        self.measures: dict[str, list[float]] = {}
        """Seconds of what is no gap, by name."""
        self.failures: list[str] = []
        self.caught: Callable[[], bool] = lambda: False
        """Whether enough is known already: a mutant was found."""
        self.least_hits = LEAST_HITS
        self._partitions = partitions
        self._leaders: set[str] = set()
        self._log = log
        self._created = 0

    def goes_on(self, until_at: float) -> bool:
        """Whether there is to be another hit: until that time, and on a slow machine until there were `least_hits`."""
        return not self.caught() and (time.monotonic() < until_at or len(self.hits) < self.least_hits)

    @contextmanager
    def hit(self, kind: str, *names: str) -> Iterator[None]:
        """The block does the harm and undoes it; then the cluster has to become whole.

        What counts as hit is what these brokers lead, and everything where etcd is named.
        """
        led = self.led_by(names)
        hit = Hit(kind, "+".join(names), time.monotonic_ns(), 0, led)
        self.note(f"{kind}: {hit.node}, which led {hit.partitions}")
        yield
        self.until_whole()
        hit = hit.ended(time.monotonic_ns())
        self.hits.append(hit)
        self.note(f"whole again after {(hit.until_ns - hit.at_ns) / SECOND_NS:.1f} s")
        self._look_for_ends()
        time.sleep(self.random.uniform(*_CALM_S))

    def led_by(self, names: Sequence[str]) -> tuple[int, ...]:
        """The partitions that these lead; those who lead any are remembered, for their kills count."""
        partitions = self.cluster.describe(self.topic)
        self._leaders = {f"broker-{p.leader}" for p in partitions}
        return tuple(p.partition for p in partitions if f"broker-{p.leader}" in names or names == (ETCD,))

    def until_whole(self) -> None:
        self.cluster.until_whole(self.topic)

    # ---- harm ------------------------------------------------------------------------------------------------------

    def kill(self, *names: str) -> None:
        """SIGKILL all of them at once."""
        self.leader_kills += len(self._leaders.intersection(names))
        self.note(f"SIGKILL {' '.join(names)}")
        for name in names:
            self.cluster.nodes[name].send(signal.SIGKILL)
        for name in names:
            self.cluster.nodes[name].kill()

    def lose(self, *names: str) -> None:
        """Kill them, and lose all that their kernels have not sent yet."""
        self.kill(*names)
        self.note(f"replace {' '.join(names)}")
        for name in names:
            self.cluster.network.replace(name)

    def start(self, *names: str) -> None:
        self.note(f"start {' '.join(names)}")
        for name in names:
            self.cluster.nodes[name].start()

    @contextmanager
    def stopped(self, *names: str) -> Iterator[None]:
        """SIGSTOP, and SIGCONT at the end: processes that hang, and then go on as if nothing had been."""
        self.note(f"SIGSTOP {' '.join(names)}")
        for name in names:
            self.cluster.nodes[name].pause()
        try:
            yield
        finally:
            self.note(f"SIGCONT {' '.join(names)}")
            for name in names:
                self.cluster.nodes[name].resume()

    def terminate(self, name: str) -> None:
        """SIGTERM; returns once it has ended, which it must do well."""
        self.note(f"SIGTERM {name}")
        self.cluster.nodes[name].terminate()
        code = self.cluster.nodes[name].wait()
        if code != 0:
            self.failures.append(f"{name} ended a SIGTERM with {code}")

    def cut(self, *, from_: Sequence[str], to: Sequence[str]) -> None:
        """Until `heal`, nothing that these send arrives at those."""
        self.note(f"cut from {' '.join(from_)} to {' '.join(to)}")
        for sender in from_:
            for receiver in to:
                self.cluster.network.cut(from_=sender, to=receiver)

    def cut_both(self, name: str, others: Sequence[str]) -> None:
        self.cut(from_=[name], to=others)
        self.cut(from_=others, to=[name])

    def unplug(self, name: str) -> None:
        self.note(f"unplug {name}")
        self.cluster.network.unplug(name)

    def heal(self) -> None:
        self.note("heal the network")
        self.cluster.network.heal()

    # ---- choices and questions -------------------------------------------------------------------------------------

    def any_partition(self) -> int:
        return self.random.randrange(self._partitions)

    def any_leader(self) -> str:
        return self.cluster.leader(self.topic, self.any_partition())

    def replicas(self, partition: int) -> list[str]:
        return [f"broker-{n}" for n in self.cluster.describe(self.topic)[partition].replicas]

    def others(self, name: str) -> list[str]:
        """The other brokers."""
        return [other for other in self.cluster.brokers if other != name]

    def next_leader(self, partition: int, after: str, *, asked: Sequence[str] = ()) -> str:
        """Who is elected when `after` is gone, as the brokers `asked` (any other) see it."""
        besides = [after, *(name for name in self.cluster.brokers if asked and name not in asked)]

        def ask() -> str:
            try:
                leader = self.cluster.leader(self.topic, partition, besides)
            except ottla.OttlaError:
                return ""
            return leader if leader != after else ""

        leader = until(ask, f"another leader than {after}", ELECTION_LIMIT_S)
        self._leaders.add(leader)
        return leader

    def leader_epochs(self) -> int:
        """The sum over all partitions: how many elections there were."""
        return sum(p.leader_epoch for p in self.cluster.describe(self.topic))

    def create_topic(self, measure: str) -> None:
        """Create a topic, trying again while it is refused; the time from now is the measure."""
        began = time.monotonic()
        self._created += 1
        name = f"while-{self._created}"
        until(lambda: self._created_topic(name), f"the topic {name} to be created", CREATE_LIMIT_S)
        self.measures.setdefault(measure, []).append(time.monotonic() - began)

    def note(self, what: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{time.monotonic_ns() / SECOND_NS:.3f} {what}\n")

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _created_topic(self, name: str) -> bool:
        try:
            self.cluster.admin().topics.create(name, partitions=1, replicas=3, if_exists="ok", timeout=1.0)
        except ottla.OttlaError as error:
            self.note(f"create refused: {error}")
            return False
        return True

    def _look_for_ends(self) -> None:
        """A process that ended and had not been told to: a finding; it is started again, as a supervisor would."""
        for node in self.cluster.nodes.values():
            if node.ended_by_itself is not None:
                self.failures.append(f"{node.name} ended by itself with {node.ended_by_itself}")
                node.start()
