"""Kills processes and cuts power, each time after another cleaning or election, while all replicas are in sync.

Only one broker's power is cut before all are in sync again: what was acknowledged with acks=all lies on another one.
Any number may be killed beside it, for their page caches survive.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from tests.faults.cluster import until
from tests.faults.nemesis import Nemesis
from tests.faults.power.cluster import PowerCluster

import ottla

_PROGRESS_LIMIT_S: Final = 60.0
_WHOLE_LIMIT_S: Final = 90.0
_EPISODE_LIMIT_S: Final = 60.0
_ALONE: Final = 30
_KINDS: Final = {
    "kill one": 14, "kill all": 8, "cut": 22, "cut and kill the others": 12, "cut, then kill while it recovers": 10,
    "cleaner": 10, "coordinators": 10, "emptied": 6, "cut and coordinators": 8,
}  # fmt: skip
"""The weight of each kind of hit: how often it is chosen."""
CUTS: Final = frozenset(kind for kind in _KINDS if kind.startswith("cut"))


class PowerNemesis(Nemesis):
    cluster: PowerCluster

    def prepare(self, topics: Sequence[str], emptied: str, between: Callable[[], None], seed: str) -> None:
        self.kinds: Counter[str] = Counter()
        """The number of hits by kind."""
        self.kills = 0
        """How often something was killed, each time after another cleaning or election."""
        self.power_cuts = 0
        self.elections = 0
        self.lost_bytes = 0
        self.after_emptied: list[str] = []
        """What the topic lacks that was emptied and whose leader was elected uncleanly, in words."""
        self._topics = topics
        self._emptied = emptied
        self._between = between
        self._cuts = random.Random(seed)
        self._epochs: dict[tuple[str, int], int] = {}
        self._seen = (0, 0)

    def until_whole(self) -> None:
        self.cluster.until_whole(self.topic, _WHOLE_LIMIT_S)

    # ---- what happened ---------------------------------------------------------------------------------------------

    def count_elections(self) -> int:
        """Return how much the leader epochs of all topics have grown so far."""
        for topic in self._topics:
            with suppress(ottla.OttlaError):
                for partition in self.cluster.describe(topic):
                    key = (topic, partition.partition)
                    former = self._epochs.setdefault(key, partition.leader_epoch)
                    self.elections += max(0, partition.leader_epoch - former)
                    self._epochs[key] = max(former, partition.leader_epoch)
        return self.elections

    def until_progress(self) -> None:
        """Wait until something was cleaned, or a leader elected, since the last kill."""

        def has_progress() -> bool:
            return self._now() != self._seen

        until(has_progress, "a cleaning or an election", _PROGRESS_LIMIT_S)

    def _now(self) -> tuple[int, int]:
        return self.cluster.cleanings_done(), self.count_elections()

    def _count_kill(self) -> None:
        self._seen = self._now()
        self.kills += 1

    # ---- hits ------------------------------------------------------------------------------------------------------

    def run(self, until_at: float, least_hits: int, only: Collection[str] = ()) -> None:
        """Hit until that time and until there were `least_hits`, for at most twice as long; `only` these kinds."""
        weights = {kind: often for kind, often in _KINDS.items() if not only or kind in only}
        give_up_at = until_at + (until_at - time.monotonic())
        while time.monotonic() < until_at or (self.kills < least_hits and time.monotonic() < give_up_at):
            [kind] = self.random.choices(list(weights), list(weights.values()))
            self.until_progress()
            self.hit_by(kind)
            self._between()

    def hit_by(self, kind: str) -> None:
        self.kinds[kind] += 1
        if kind == "emptied":
            self.empty_after_unclean()
            return
        chosen, *others = self.random.sample(self.cluster.brokers, len(self.cluster.brokers))
        if kind == "cleaner":
            self.note(f"kill the cleaner of {chosen}")
            with suppress(TimeoutError):
                until(lambda: self.cluster.kill_cleaner(chosen), f"a cleaner of {chosen}", 10.0)
                self._count_kill()
            return
        if self.random.random() < 0.5:
            chosen = self.any_leader()
            others = self.others(chosen)
        coordinators = [*self.cluster.coordinators, *self.cluster.txn_coordinators]
        match kind:
            case "kill one":
                victims = [chosen]
            case "kill all" | "cut and kill the others":
                victims = [chosen, *others[: self.random.randint(1, 2)]]
            case "coordinators":
                victims = coordinators
            case "cut and coordinators":
                victims = [chosen, *coordinators]
            case _:
                victims = [chosen]
        self._count_kill()
        with self.hit(kind, *victims):
            self.kill(*victims)
            if kind in CUTS:
                self.cut_power(chosen)
            self.random.shuffle(victims)
            for victim in victims:
                self.start(victim)
                if self.random.random() < 0.5:
                    time.sleep(self.random.uniform(0.0, 1.5))
            if kind == "cut, then kill while it recovers":
                time.sleep(self.random.uniform(0.0, 3.0))
                self.kill(others[0])
                self.start(others[0])
        self.count_elections()

    def cut_power(self, name: str) -> None:
        """Cut the power of a broker that was killed a moment ago."""
        cut = self.cluster.cut_power(name, self._cuts)
        self.power_cuts += 1
        self.lost_bytes += cut.bytes_lost
        self.note(f"power cut of {name}: {cut}")

    # ---- an unclean election, and a log that was emptied before -----------------------------------------------------

    def empty_after_unclean(self) -> None:
        """Have the last in-sync replica empty its log and stop; the other is elected uncleanly, writes and stops.

        What was acknowledged after the unclean election has to be there in the end, because both had it."""
        topic = self._emptied
        replicas = [f"broker-{n}" for n in self.cluster.describe(topic)[0].replicas]
        leader = self.cluster.leader(topic, 0)
        [other] = [name for name in replicas if name != leader]
        self.note(f"emptied: {leader} leads {topic}, {other} follows")
        with self.hit("emptied", leader, other):
            self._write("first", 20, besides=[])
            self._kill_one(other)
            self._until_isr(topic, {leader}, besides=[other])
            self._write("alone", _ALONE, besides=[other])
            self.cluster.admin([other]).topics.delete_records(topic, {0: -1}, timeout=20.0)
            self.count_elections()
            if self.random.random() < 0.5:
                self.terminate(leader)
            else:
                time.sleep(6.0)  # a checkpoint has the log's start
                self._kill_one(leader)
            self.start(other)
            self._until_led_by(other, besides=[leader])
            self.start(leader)
            self.cluster.until_ready(leader)
            acknowledged = self._write("after", self.random.randint(5, 2 * _ALONE), besides=[])
            acknowledged += self._write("more", _ALONE, besides=[])
            self.until_whole()
            self._kill_one(other)
            self._until_led_by(leader, besides=[other])
            found = self._read(besides=[other])
            if missing := [each for each in acknowledged if each not in found]:
                self.after_emptied.append(f"{len(missing)} of {len(acknowledged)} are lost, such as {missing[0]}")
            self.start(other)
        self.count_elections()

    def _kill_one(self, name: str) -> None:
        self.until_progress()
        self._count_kill()
        self.kill(name)

    def _until_isr(self, topic: str, names: set[str], *, besides: Sequence[str]) -> None:
        def asked() -> bool:
            with suppress(ottla.OttlaError):
                return {f"broker-{n}" for n in self.cluster.describe(topic, besides)[0].isr} == names
            return False

        until(asked, f"{topic} to have {names} in sync", _EPISODE_LIMIT_S)

    def _until_led_by(self, name: str, *, besides: Sequence[str]) -> None:
        def asked() -> bool:
            with suppress(ottla.OttlaError):
                return self.cluster.leader(self._emptied, 0, besides) == name
            return False

        until(asked, f"{name} to lead {self._emptied}", _EPISODE_LIMIT_S)
        self.count_elections()

    def _bootstrap(self, besides: Sequence[str]) -> str:
        return ",".join(self.cluster.kafka_address(name) for name in self.cluster.brokers if name not in besides)

    def _write(self, word: str, count: int, *, besides: Sequence[str]) -> list[str]:
        values = [f"{word} {self.kinds['emptied']} {n}" for n in range(count)]
        with ottla.Producer[str, str](
            self._bootstrap(besides), topic=self._emptied, value="str", acks="all", delivery_timeout=_EPISODE_LIMIT_S
        ) as producer:
            for sent in [producer.send(value) for value in values]:
                sent.result(_EPISODE_LIMIT_S)
        return values

    def _read(self, *, besides: Sequence[str]) -> set[str]:
        with ottla.Consumer[str, str](
            self._emptied, bootstrap=self._bootstrap(besides), start="earliest", stop="end", value="str"
        ) as consumer:
            return {record.value for record in consumer}
