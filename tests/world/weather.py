"""The weather is what happens to a cluster: kills, power cuts, network cuts and deletions, by chance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from random import Random
from types import MappingProxyType
from typing import Final

from tests.world import pretender
from tests.world.cluster import Cluster
from tests.world.ledger import PARTITIONS, Ledger
from tests.world.member_faults import MemberFaults
from tests.world.migrations import Migrations
from tests.world.misreads import Misreads
from tests.world.outages import Outages
from tests.world.partings import Partings
from tests.world.pretender import Pretender
from tests.world.restores import Restores
from tests.world.table import TOPIC, Table

_EVERY_S: Final = (0.3, 0.6, 1.2)
_RARELY_S: Final = (1.0, 1.5, 2.5)
"""A fault happens that often, on average. Members of groups need time to share their partitions in between."""
_DOWN_S: Final = (0.2, 6.0)
_RENEWED_S: Final = (2.0, 5.0)
"""Within this time a broker that writes has vouched for its disk again."""
_REPORTED_S: Final = (11.5, 14.0)
"""A broker reports every ten seconds that it has."""
_UNVERIFIED_S: Final = (0.5, 4.0)
"""A leader asks a coordinator for about a second before it refuses a batch, and then asks for the next one."""
_CUT_S: Final = (0.05, 4.0)
_VANISHED_S: Final = 25.0
_NOTICED_S: Final = 9.0
"""Within this time the lease of a broker that vanished ends, and another one is elected."""
_CUT_OFF_S: Final = (0.5, 8.0)
_LONG_CUT_S: Final = (7.0, 12.0)
"""This is longer than a lease."""
_EMPTY_S: Final = (0.5, 4.0)
_REST_S: Final = (1.0, 8.0)
_FULL_S: Final = (0.5, 8.0)
_PRETENDED_S: Final = (1.0, 6.0)
_EMPTIED_S: Final = 7.0
"""A log whose records are all deleted is empty on its disk within this time: the broker tidies up every two seconds."""
_WAIT_S: Final = 15.0
_HELD_SHARE: Final = 0.4
"""This share of the attempts to hold the cluster is made. The others leave the storm to other faults."""
_LONG_REST_S: Final = 30.0
"""Meanwhile one producer fills a segment of each partition, and what lies before it is deleted."""
_MISREAD_S: Final = (0.5, 6.0)
_CHANGES: Final = MappingProxyType(
    {
        "cleanup.policy": ("delete", "compact,delete"),
        "max.message.bytes": ("150", "1048576"),
        "min.insync.replicas": ("1", "2"),
        "retention.bytes": ("-1", "4000"),
        "segment.bytes": ("400", "4000"),
    }
)
"""The values that a config of a table may get while clients work."""

Workload = Table | Ledger | Migrations
Fault = Callable[[], Iterator[float] | None]
"""A fault happens at once or in steps. If it has steps, it yields the time until the next one, in seconds."""


class Weather:
    """The weather causes a fault about once a second. Some faults take several seconds, and others happen meanwhile.

    In most profiles it repeats scripts instead. In a ledger no
    committed record may be lost, so disks lose data only while all replicas are in sync. Some scripts of a ledger need
    a whole cluster, which chance seldom leaves, so they hold it.

    Each fault, and each round of a script, has a number and a chance of its own. So if one is left out, the others
    still choose the same. `only` has the numbers of those that happen, or is None for all of them.
    """

    def __init__(self, cluster: Cluster, workload: Workload, profile: str, only: Collection[int] | None = None) -> None:
        random = cluster.world.chance("storm")
        self.begun: Final[list[int]] = []
        """The numbers of the faults and rounds that have begun."""
        self._faults = 0
        self.kills = 0
        self._cluster: Final = cluster
        self._random = random
        """The source of chance of the fault that takes a step, or of the storm while no fault does."""
        self._metadata: Final = cluster.metadata
        self._workload: Final = workload
        self._every_s: Final = random.choice(_RARELY_S if profile == "migrating" else _EVERY_S)
        self._blows = True
        self._recovering = ""
        """This broker has lost data, or is about to, and is not back in all of its ISRs."""
        self._unnoticed = ""
        """This broker may have lost data, while the controller still counts it in an ISR. No fault begins meanwhile."""
        self._is_held = False
        """This tells whether a script has the cluster to itself. No other fault begins meanwhile."""
        self._outages: Final = Outages(cluster, lambda: self._random)
        self._restores: Final = (
            Restores(cluster, lambda: self._random, workload)
            if profile == "restored" and isinstance(workload, Table)
            else None
        )
        self._member_faults: Final = (
            MemberFaults(cluster, lambda: self._random, workload, self._kill_for_some_time, self._hold, self._release)
            if isinstance(workload, Migrations)
            else None
        )
        scripts: dict[str, list[Fault]] = {
            "emptying": [self._overtake, self._overtake, self._leave_behind],
            "eligible": [self._lose_the_last, self._copy_back, *self._scripts_of_deletions()],
            "full": [self._fill_for_long],
            "misread": [self._misread, self._rot],
            "silent": [self._vanish_for_long],
            "restored": [self._restores.script] if self._restores else [],
            "diverging": self._partings(),
            "repeated": [self._part_at_the_start],
        }
        self._scripts: Final = scripts.get(profile, [])
        self._kinds: Final[list[Fault]] = [] if self._scripts else self._chosen() + self._of(profile)
        self._only: Final = only
        # A fault has its time, whether it happens or not. A round begins when the round before it ends, so a round
        # that is left out takes no time.
        self._numbers: Final = iter(sorted(only)) if self._scripts and only is not None else itertools.count()

    @property
    def faults(self) -> int:
        """This counts kills, orderly stops, network cuts, full and failing disks, deletions, and what etcd suffers."""
        others = (each for each in (self._outages, self._restores, self._member_faults) if each is not None)
        return self._faults + sum(each.faults for each in others)

    @property
    def is_at_work(self) -> bool:
        """This tells whether a restore is under way. The end of the storm does not interrupt it."""
        return self._restores is not None and self._restores.is_under_way

    @property
    def _table(self) -> Table:
        assert isinstance(self._workload, Table), "this weather has no table"
        return self._workload

    @property
    def _ledger(self) -> Ledger:
        assert isinstance(self._workload, Ledger), "this weather has no ledger"
        return self._workload

    def _partings(self) -> list[Fault]:
        table = self._workload
        return (
            list(Partings(self._cluster, lambda: self._random, table, self._kill_now).scripts)
            if isinstance(table, Table)
            else []
        )

    def _scripts_of_deletions(self) -> list[Fault]:
        return [self._empty_the_last] if self._workload.takes_deletions else []

    def _chosen(self) -> list[Fault]:
        """Return the faults of this seed. A few kinds, some of them often, find more than all kinds in equal shares."""
        kinds: list[Fault] = [
            self._kill,
            self._restart,
            self._kill,
            self._kill_for_long,
            self._take_turns,
            self._take_turns,
            self._cut_network,
            self._cut_off_clients,
            self._vanish,
            self._kill_controller,
            self._take_etcd_away,
            self._fill_disk,
            self._break_disk,
        ]
        if not self._workload.goes_by_dates:
            kinds += [self._set_clock]
        if self._member_faults is not None:
            kinds += [*[self._cut_power_alone] * 2, *self._member_faults.others]
        elif isinstance(self._workload, Table):
            kinds += [self._cut_power, self._lose_disk, self._restore_disk, self._pretend]
            kinds += [self._delete, self._empty, self._empty] if self._workload.takes_deletions else []
        else:
            kinds += [*[self._cut_power_alone] * 3, *[self._kill_coordinator] * 3, self._misread, self._rot]
            kinds += [self._kill_verifiers]
            kinds += [self._delete_all] if self._workload.takes_deletions else []
            # In a compacted topic, cleaners write what is known of producers before it can be lost.
            kinds += [] if self._workload.is_compacted else [self._forget_producers]
        kinds += [self._compact_log] * 2 if self._workload.is_compacted else []
        if len(self._cluster.controllers) > 1:
            kinds.append(self._outages.depose)
        return [kind for kind in kinds if self._random.random() < 0.6] or [self._kill]

    def _of(self, profile: str) -> list[Fault]:
        """Return the faults that only seeds of this profile have."""
        match profile:
            case "closest":
                return [*[self._trim] * 4, self._lose_disk, self._kill_for_long]
            case "changing":
                return [*[self._change_configs] * 6, self._kill_for_long]
            case "migrating":
                assert self._member_faults is not None
                return [*self._member_faults.often]
        return []

    def begin(self) -> None:
        if self._kinds:
            self._cluster.world.after(self._random.expovariate(1 / self._every_s), self._strike)
        else:
            self._happen(self._scripts, then=self.begin)

    def end(self) -> None:
        self._blows = False
        if self._cluster.is_up(pretender.NAME):
            self._cluster.kill(pretender.NAME)
        self._outages.end()
        for volume in self._cluster.disks.volumes.values():
            volume.others_bytes, volume.has_no_room, volume.fails = 0, False, False
        for name in self._cluster.brokers:
            self._cluster.disks.mend(name)
        match self._workload:
            case Table():
                self._workload.service.release()
            case Ledger():
                self._workload.rest(0.0)
                self._workload.holds_repeats = False
            case Migrations():
                self._workload.calm()

    def _strike(self) -> None:
        if self._blows:
            self._happen(self._kinds, then=lambda: None)
            self.begin()

    def _happen(self, kinds: list[Fault], then: Callable[[], None]) -> None:
        """Begin the next fault, of one of these kinds, unless it is left out or there is none."""
        number = next(self._numbers, None)
        if number is None or self._unnoticed or self._is_held or (self._only is not None and number not in self._only):
            return
        chance = self._cluster.world.chance(f"fault {number}")
        kind = chance.choice(kinds)
        self.begun.append(number)
        self._cluster.world.note(f"fault {number}: {kind.__name__.strip('_').replace('_', ' ')}")
        with self._chances_of(chance):
            script = kind()
        if script is not None:
            self._follow(script, chance, then)

    @contextmanager
    def _chances_of(self, chance: Random) -> Iterator[None]:
        """Have whatever happens meanwhile draw from this source of chance."""
        before, self._random = self._random, chance
        try:
            yield
        finally:
            self._random = before

    def _follow(self, script: Iterator[float], chance: Random, then: Callable[[], None]) -> None:
        """Take the next step of a script, which yields the time until the step after it."""
        pause_s = None
        if self._blows or self.is_at_work:
            with self._chances_of(chance):
                pause_s = next(script, None)
        if pause_s is not None:
            self._cluster.world.after(pause_s, lambda: self._follow(script, chance, then))
        elif self._blows:
            then()

    def _victim(self) -> str | None:
        """Return a broker that is up. The choice depends as little as possible on which others are up."""
        names = self._random.sample(self._cluster.brokers, len(self._cluster.brokers))
        return None if self._unnoticed else next(filter(self._cluster.is_up, names), None)

    def _kill(self, *, power_cut: bool = False, longer: float = 1.0) -> None:
        name = self._victim()
        if name is not None:
            self._kill_for_some_time(name, power_cut=power_cut, longer=longer)

    def _kill_for_some_time(self, name: str, *, power_cut: bool = False, longer: float = 1.0) -> None:
        self._kill_now(name, power_cut=power_cut)
        self._cluster.world.after(self._random.uniform(*_DOWN_S) * longer, lambda: self._cluster.start(name))

    def _restart(self) -> Iterator[float]:
        """Stop a broker as an operator does, and start it."""
        name = self._victim()
        if name is not None:
            yield from self._stop_in_order(name)
            yield self._random.uniform(*_DOWN_S)
            self._cluster.start(name)

    def _stop_in_order(self, name: str) -> Iterator[float]:
        """Have a broker stop in order, and wait until it has."""
        self._faults += 1
        process = self._cluster.processes[name]
        self._cluster.stop(name)
        yield from self._until(lambda: not process.is_alive)

    def _compact_log(self) -> Iterator[float]:
        """End a broker, and have `ottla log compact` clean a log on its disk before it is started again."""
        name = self._victim()
        if name is not None:
            if self._random.random() < 0.5:
                yield from self._stop_in_order(name)
            self._kill_now(name)
            assert not isinstance(self._workload, Migrations)
            self._workload.compact_offline(name)
            self._cluster.world.after(self._random.uniform(*_DOWN_S), lambda: self._cluster.start(name))

    def _kill_now(self, name: str, *, power_cut: bool = False) -> None:
        if self._cluster.is_up(name):
            self._faults += 1
            self.kills += 1
            self._cluster.kill(name, power_cut=power_cut)

    def _cut_power(self) -> None:
        """Kill a broker that loses what it has not synced, unless another one has lost its disk.

        If both happened at once, a topic that forbids unclean elections would wait for an operator.
        """
        if not self._recovering:
            self._kill(power_cut=True)

    def _cut_power_alone(self) -> Iterator[float]:
        """Cut the power of a broker, if all are in sync.

        No other broker loses data until this one is in each ISR again.
        """
        if self._may_lose_data():
            name = self._random.choice(self._cluster.brokers)
            self._kill_now(name, power_cut=True)
            yield from self._until_copied(name)

    def _kill_coordinator(self) -> None:
        self._kill_for_some_time(self._random.choice(self._cluster.coordinators))

    def _kill_verifiers(self) -> Iterator[float]:
        """Kill the coordinators of transactions when a leader is about to ask them whether a new producer may write.

        They are back by the time that later batches of that producer have their turn.
        """
        cluster, names = self._cluster, [name for name in self._cluster.coordinators if name.startswith("txn")]
        if not (yield from self._hold()):
            return
        down_s = [self._random.uniform(*_UNVERIFIED_S) for _ in names]

        def kill() -> None:
            for name, seconds in zip(names, down_s, strict=True):
                self._kill_now(name)
                cluster.world.after(seconds, lambda name=name: cluster.start(name))

        self._ledger.introduce(lambda: cluster.world.after(0.0, kill))
        yield _UNVERIFIED_S[1] + 1.0
        self._is_held = False

    def _forget_producers(self) -> Iterator[float]:
        """Delete the segments with the last batches of most producers, kill all brokers, and have the producers go on.

        Each broker has stopped in order before, so it has a snapshot of the producers. They have gone on since, and
        only what was written down when the segments went tells how far.
        """
        brokers, ledger = self._cluster.brokers, self._ledger
        if not (yield from self._hold()):
            return
        for name in self._random.sample(brokers, len(brokers)):
            yield from self._stop_in_order(name)
            self._cluster.start(name)
            yield from self._until(self._all_are_in_sync, _WAIT_S)
        yield self._random.uniform(0.5, 2.0)
        ledger.rest(_LONG_REST_S)
        yield 0.5
        last = {(name, number): ledger.segments(name, number)[-1] for name in brokers for number in range(PARTITIONS)}
        yield from self._until(lambda: all(ledger.segments(*log)[-1] > last[log] for log in last), _WAIT_S)
        ledger.empty()
        yield from self._until(lambda: all(ledger.segments(*log)[0] > last[log] for log in last), _EMPTIED_S)
        for name in brokers:
            self._kill_now(name)
        ledger.rest(0.0)
        self._is_held = False
        for name in self._random.sample(brokers, len(brokers)):
            yield self._random.uniform(0.0, 1.0)
            self._cluster.start(name)

    def _part_at_the_start(self) -> Iterator[float]:
        """Delete all records, have a leader write what nobody else gets, and have another one lead.

        The former leader has to truncate its log to exactly its start. Then it leads again.
        """
        uniform, cluster, ledger = self._random.uniform, self._cluster, self._ledger
        if not (yield from self._hold()):
            return
        ledger.rest(_WAIT_S, everyone=True)
        ledger.holds_repeats = True
        yield uniform(0.3, 1.0)
        ledger.empty()
        yield self._random.choice((0.3, _EMPTIED_S))
        one = f"broker-{ledger.leader(self._random.randrange(PARTITIONS))}"
        others = [name for name in cluster.brokers if name != one]
        for name in others:
            cluster.network.cut(one, name, 2.0)
        ledger.rest(0.0)
        yield uniform(0.1, 0.6)
        self._kill_now(one)
        yield uniform(0.5, 2.0)
        ledger.rest(_WAIT_S, everyone=True)
        cluster.start(one)
        yield from self._until(self._all_are_in_sync, _WAIT_S)
        ledger.findings.counts["cuts to the start"] += 1
        for name in others:
            if not ledger.is_led_by(one):
                self._kill_now(name)
                yield from self._until(lambda: ledger.is_led_by(one), _NOTICED_S)
        ledger.rest(0.0)
        self._is_held = ledger.holds_repeats = False
        yield uniform(0.5, 3.0)
        for name in others:
            cluster.start(name)

    def _hold(self) -> Generator[float, None, bool]:
        """Start what is down, and wait until all are in sync. Return whether the cluster is held for the script.

        No other fault begins until the script ends that.
        """
        if self._random.random() > _HELD_SHARE:
            return False
        yield from self._until(self._may_be_held, _WAIT_S)
        if not self._may_be_held():
            return False
        self._is_held = True
        for name in self._cluster.services:
            self._cluster.start(name)
        yield from self._until(self._all_are_in_sync, _WAIT_S)
        self._is_held = self._all_are_in_sync()
        return self._is_held

    def _release(self) -> None:
        self._is_held = False

    def _kill_for_long(self) -> None:
        self._kill(longer=3.0)

    def _take_turns(self) -> None:
        """Kill the brokers that are up and start those that are down, so that each may lead alone for a while.

        If all are up, kill one.
        """
        names = self._random.sample(self._cluster.brokers, len(self._cluster.brokers))
        up = [name for name in names if self._cluster.is_up(name)]
        down = [name for name in names if not self._cluster.is_up(name)]
        for name in up if down else up[:1]:
            self._kill_now(name)
        for name in down:
            self._cluster.start(name)

    def _cut_network(self) -> None:
        """Cut one direction of the network between two hosts."""
        one = self._random.choice(self._cluster.services)
        hosts = (*self._cluster.services, "etcd")
        other = self._random.choice([name for name in hosts if name != one])
        pair = (one, other) if self._random.random() < 0.5 else (other, one)
        self._faults += 1
        length_s = _LONG_CUT_S if self._random.random() < 0.25 else _CUT_S
        self._cluster.network.cut(*pair, self._random.uniform(*length_s))

    def _cut_off_clients(self) -> None:
        """Have clients not reach a broker that its peers and the controller still reach."""
        self._faults += 1
        name, seconds = self._random.choice(self._cluster.brokers), self._random.uniform(*_CUT_OFF_S)
        self._cluster.world.note(f"clients don't reach {name} for {seconds:.3f} s")
        for client in self._cluster.clients:
            self._cluster.network.silence(client, name, seconds)

    def _vanish(self) -> Iterator[float]:
        """Have a machine vanish from the network, without a reset, for longer than a lease.

        Half of these machines are dead, and the others go on as if nothing had happened.
        """
        name, seconds = self._random.choice(self._cluster.services), self._random.uniform(*_LONG_CUT_S)
        is_dead = self._random.random() < 0.5
        if not self._cluster.is_up(name):
            return
        self._silence(name, seconds)
        if is_dead:
            self._kill_now(name)
            yield seconds
            self._cluster.start(name)

    def _silence(self, name: str, seconds: float) -> None:
        self._faults += 1
        self._cluster.world.note(f"{name} vanishes for {seconds:.3f} s")
        for other in (*self._cluster.services, "etcd", *self._cluster.clients):
            if other != name:
                self._cluster.network.silence(name, other, seconds)

    def _vanish_for_long(self) -> Iterator[float]:
        """Have a machine vanish, dead or not, and demand that the table is served before any connection breaks.

        It is a controller, a broker, or mostly the one that leads. Nobody hears it until then, so only leases and
        deadlines tell that it is gone.
        """
        cluster, random = self._cluster, self._random
        for name in cluster.services:
            cluster.start(name)
        yield from self._until(self._metadata.is_whole)
        yield random.uniform(0.5, 2.0)
        others = cluster.controllers if len(cluster.controllers) > 1 else cluster.brokers
        name = random.choice((f"broker-{max(0, self._table.leader)}", random.choice(others)))
        is_dead = random.random() < 0.5
        self._silence(name, _VANISHED_S)
        if is_dead:
            self._kill_now(name)
        yield _NOTICED_S
        self._table.service.demand(writes=True)
        yield _VANISHED_S - _NOTICED_S
        self._table.service.release()
        yield random.uniform(0.0, 2.0)

    def _pretend(self) -> Iterator[float]:
        """Cut a follower off from its leader, have another process speak in its name, and kill the leader."""
        leader = f"broker-{self._table.leader}"
        follower = self._random.choice([name for name in self._cluster.brokers if name != leader])
        claim = self._random.choice((Pretender.fetch, Pretender.propose))
        if self._cluster.is_up(pretender.NAME) or not all(map(self._cluster.is_up, (leader, follower))):
            return
        self._faults += 1
        self._cluster.network.cut(follower, leader, self._random.uniform(*_PRETENDED_S))
        false = Pretender(self._cluster, self._table.findings.counts, TOPIC, follower)
        claim(false)
        yield self._random.uniform(*_PRETENDED_S)
        false.end()
        self._kill_now(leader)
        yield self._random.uniform(*_DOWN_S)
        self._cluster.start(leader)

    def _kill_controller(self) -> None:
        self._kill_for_some_time(self._random.choice(self._cluster.controllers))

    def _take_etcd_away(self) -> Iterator[float] | None:
        return None if self._recovering else self._outages.script()

    def _lose_disk(self) -> Iterator[float]:
        """Kill a broker, and start it with an empty disk, if all are in sync."""
        if self._may_lose_data():
            yield from self._replace_disk(self._random.choice(self._cluster.brokers), by_backup=False)

    def _restore_disk(self) -> Iterator[float]:
        """Kill a broker, and start it with a copy of its disk that was made at an orderly stop some time before."""
        if not self._may_lose_data():
            return
        name = self._recovering = self._random.choice(self._cluster.brokers)
        yield from self._backed_up(name)
        yield self._random.uniform(0.0, 2.0)
        yield from self._until(self._all_are_in_sync, _WAIT_S)
        if self._all_are_in_sync():
            yield from self._replace_disk(name, by_backup=True)
        self._recovering = ""

    def _fill_disk(self) -> Iterator[float]:
        """Have other programs fill a disk for some time."""
        volume = self._cluster.disks.volumes[self._random.choice(self._cluster.brokers)]
        if not volume.others_bytes:
            self._faults += 1
            volume.fill(self._random.randrange(4000))
            yield self._random.uniform(*_FULL_S)
            volume.others_bytes = 0

    def _break_disk(self) -> Iterator[float]:
        """Have each fsync of a broker fail, if all are in sync. The broker must end, and loses what is not synced."""
        if not self._may_lose_data():
            return
        name = self._recovering = self._unnoticed = self._random.choice(self._cluster.brokers)
        volume = self._cluster.disks.volumes[name]
        self._faults += 1
        volume.fails = True
        yield from self._until(lambda: not self._cluster.is_up(name), _WAIT_S)
        if not self._cluster.is_up(name):
            volume.crash(self._cluster.world)
        volume.fails = False
        yield from self._until_copied(name)

    def _misread(self) -> Iterator[float]:
        """Have reads of a broker fail or return flipped bits for some time, if all are in sync.

        Often the broker is killed meanwhile, and its recovery reads such bits.
        """
        yield from self._until(self._may_lose_data, self._random.uniform(*_MISREAD_S))
        if not self._may_lose_data():
            return
        name, random = self._random.choice(self._cluster.brokers), self._random
        fails = random.choice((0.0, 0.0, 0.3, 1.0))
        flips = 0.0 if fails else random.choice((0.02, 0.1, 0.3))
        self._recovering = self._unnoticed = name
        self._faults += 1
        self._cluster.disks.volumes[name].misreads = Misreads(Random(random.random()), fails=fails, flips=flips)
        for _ in range(2):
            yield random.uniform(*_MISREAD_S)
            if random.random() < 0.5:
                yield from self._restart_and_end_another(name)
        self._cluster.disks.mend(name)
        self._cluster.start(name)
        yield from self._until(self._all_are_in_sync)
        self._recovering = self._unnoticed = ""

    def _rot(self) -> Iterator[float]:
        """Flip a bit of a log on one disk, if all are in sync. Later an operator has the broker copy the log again."""
        yield from self._until(self._may_lose_data, self._random.uniform(*_MISREAD_S))
        if not self._may_lose_data():
            return
        name, random = self._random.choice(self._cluster.brokers), self._random
        path = self._cluster.disks.rot(name, random)
        if path is None:
            return
        self._recovering = self._unnoticed = name
        self._faults += 1
        yield random.uniform(*_MISREAD_S)
        if random.random() < 0.7:
            yield from self._restart_and_end_another(name)
        # The others must have what is to be removed here.
        yield from self._until(
            lambda: self._all_are_in_sync() or not self._metadata.has_in_sync(name, everywhere=False)
        )
        if not self._blows:
            return
        self._kill_now(name)
        self._cluster.discard_log(name, path.parent)
        if isinstance(self._workload, Ledger):
            self._workload.copied.add(self._metadata.name_of(path.parent.name))
        yield from self._until_copied(name)

    def _restart_and_end_another(self, name: str) -> Iterator[float]:
        """Kill a broker whose disk lies, start it, often at once, and then perhaps kill another one.

        Others have all that is committed. The first has it, too, unless its recovery has cut its logs: then it must not
        lead.
        """
        random = self._random
        if not self._all_are_in_sync():
            return
        self._kill_now(name)
        yield random.choice((0.0, random.uniform(0.0, 1.0), random.uniform(*_DOWN_S)))
        self._cluster.start(name)
        if random.random() < 0.7:
            yield random.uniform(0.0, 2.0)
            other = random.choice([each for each in self._cluster.brokers if each != name])
            self._kill_now(other)
            yield random.uniform(0.0, 4.0)
            self._cluster.start(other)
        yield random.uniform(0.0, 2.0)

    def _set_clock(self) -> None:
        """Set the date of a host forward or back, mostly by seconds."""
        name = self._random.choice([*self._cluster.services, *self._cluster.clients, "etcd"])
        seconds = self._random.uniform(-1.0, 1.0) * self._random.choice((1.0, 5.0, 5.0, 600.0))
        self._faults += 1
        self._cluster.world.note(f"the date of {name} is set by {seconds:+.3f} s")
        self._cluster.world.clock_of(name).step(seconds)

    def _may_lose_data(self) -> bool:
        # A broker that is cut off, or whose disk is full, may soon leave the ISRs. Then the only copy that counts is
        # another one.
        is_reached = not self._outages.is_away and self._cluster.network.is_whole
        return is_reached and self._may_be_held() and self._all_are_in_sync()

    def _may_be_held(self) -> bool:
        """Return whether each disk is sound and has room, and no script has the cluster to itself."""
        has_room = not any(volume.others_bytes for volume in self._cluster.disks.volumes.values())
        return not (self._recovering or self._is_held) and has_room

    def _all_are_in_sync(self) -> bool:
        """Return whether each broker serves, and each replica is in the ISR.

        A broker that was killed, and has not registered again, is still in ISRs, and leaves them when it registers.
        """
        cluster = self._cluster
        return self._metadata.is_whole() and all(
            cluster.is_up(name)
            and not cluster.is_stopping(name)
            and self._metadata.registered_at.get(number, -1.0) >= cluster.processes[name].started_at
            for number, name in enumerate(cluster.brokers)
        )

    def _replace_disk(self, name: str, *, by_backup: bool) -> Iterator[float]:
        """Kill a broker, and start it with another disk."""
        self._kill_now(name)
        self._cluster.replace_disk(name, by_backup=by_backup)
        yield from self._until_copied(name)

    def _until_copied(self, name: str) -> Iterator[float]:
        """Start a broker that has lost data, and wait until it has copied the data.

        Often it starts before the controller has noticed that it was down. No other fault begins until the controller
        has noticed: if another broker ended within that time, there would be two faults at once.
        """
        self._recovering = self._unnoticed = name
        yield self._random.choice((0.0, self._random.uniform(*_DOWN_S)))
        self._cluster.start(name)
        yield from self._until(lambda: not self._metadata.has_in_sync(name, everywhere=False), _WAIT_S)
        self._unnoticed = ""
        yield from self._until(lambda: self._metadata.has_in_sync(name, everywhere=True))
        self._recovering = ""

    def _delete(self) -> None:
        """Delete all that is committed. Often nothing is written for some time after it, and the log stays empty."""
        if self._random.random() < 0.7:
            self._table.rest(self._random.uniform(*_REST_S))
        self._delete_all()

    def _delete_all(self) -> None:
        self._faults += 1
        assert not isinstance(self._workload, Migrations)
        self._workload.delete_records()

    def _trim(self) -> None:
        """Delete records before any offset, which may lie within a batch."""
        self._faults += 1
        self._table.trim()

    def _change_configs(self) -> None:
        """Change one or two configs of the table."""
        self._faults += 1
        names = self._random.sample(list(_CHANGES), self._random.randint(1, 2))
        self._table.alter_configs({name: self._random.choice(_CHANGES[name]) for name in names})

    def _empty(self) -> Iterator[float]:
        """Kill a broker some time after all records were deleted, perhaps before others came."""
        self._delete()
        yield self._random.uniform(*_EMPTY_S)
        self._kill()

    def _overtake(self) -> Iterator[float]:
        """Let a broker lead alone until all of its records are deleted, and then let one lead that has a shorter log.

        The second election is unclean. The first broker comes back when the new leader's log may already be longer than
        its own, and it leads alone again if it is in the ISR by then.
        """
        uniform = self._random.uniform
        one, *others = self._random.sample(self._cluster.brokers, len(self._cluster.brokers))
        self._cluster.start(one)
        for name in others:
            self._kill_now(name)
        yield from self._until_leads(one)
        yield uniform(0.5, 2.0)
        self._table.rest(_WAIT_S)
        yield 0.1
        self._delete_all()
        yield uniform(2.0, 4.0)
        if self._random.random() < 0.5:
            yield from self._stop_in_order(one)
        self._kill_now(one)
        self._cluster.start(others[0])
        yield from self._until_leads(others[0])
        self._table.rest(0.0)
        yield uniform(1.0, 6.0)
        self._cluster.start(one)
        yield uniform(1.0, 4.0)
        self._kill_now(others[0])
        yield uniform(1.0, 4.0)
        for name in others:
            self._cluster.start(name)
        yield uniform(0.0, 2.0)

    def _leave_behind(self) -> Iterator[float]:
        """Delete all that a follower has while it is away. It has records of the present leader epoch only."""
        uniform = self._random.uniform
        for name in self._cluster.brokers:
            self._cluster.start(name)
        yield uniform(1.0, 3.0)
        self._delete_all()
        yield uniform(0.5, 2.0)
        other = self._random.choice([n for n in self._cluster.brokers if n != f"broker-{self._table.leader}"])
        self._kill_now(other)
        yield uniform(0.5, 2.0)
        self._delete_all()
        yield uniform(0.1, 2.0)
        self._cluster.start(other)
        # A new leader epoch would cure a follower that can't follow in this one.
        yield from self._until(self._metadata.is_whole)

    def _lose_the_last(self) -> Iterator[float]:
        """Of three brokers, stop two one after the other, while the third is already out of the ISR.

        Once the first of the two ends, nothing more is committed, so each of them has every committed record. The first
        to return may have lost some. It must not lead then, unless both have lost some. If it has lost nothing, it must
        lead.
        """
        uniform, metadata = self._random.uniform, self._metadata
        one, two, third = self._random.sample(self._cluster.brokers, 3)
        for name in self._cluster.brokers:
            self._cluster.start(name)
        yield from self._until(metadata.is_whole)
        by_backup = self._random.random() < 0.5
        if by_backup:
            yield from self._backed_up(one)
        yield uniform(0.2, 2.0)
        self._kill_now(third)
        yield from self._until(lambda: not metadata.has_in_sync(third, everywhere=False))
        yield uniform(0.0, 1.0)
        how = self._random.choice(
            ("nothing", "another disk", "power cut", "power cut of both", "flipped bits", "damaged ends")
        )
        ends = [(one, how.startswith("power cut")), (two, how == "power cut of both")]
        self._random.shuffle(ends)
        for name, power_cut in ends:
            self._kill_now(name, power_cut=power_cut)
            yield from self._until(lambda: not self._leads(name), _WAIT_S)  # noqa: B023 it is waited for here
            yield uniform(0.0, 1.0)
        if how == "another disk":
            self._cluster.replace_disk(one, by_backup=by_backup)
        elif how == "flipped bits":
            # A batch whose CRC is wrong is read again, and only what is wrong again is cut off.
            flips = self._random.choice((0.3, 0.9))
            self._cluster.disks.volumes[one].misreads = Misreads(Random(self._random.random()), fails=0.0, flips=flips)
            self._cluster.world.after(uniform(0.5, 3.0), lambda: self._cluster.disks.mend(one))
        elif how == "damaged ends":
            self._cluster.disks.rot_ends(one, self._random)
        self._cluster.start(one)
        if how == "nothing":
            yield from self._until_leads(one)
            if self._blows and not self._leads(one):
                self._table.findings.violate(f"{one} has every committed record, and was not elected")
        elif self._random.random() < 0.5:
            # A log that has lost its end must not count as complete just because its broker then stops in order.
            yield uniform(0.5, 2.0)
            yield from self._stop_in_order(one)
            self._cluster.start(one)
        for name in self._random.choice(([third, two], [two, third])):
            yield uniform(0.0, 4.0)
            self._cluster.start(name)
        yield uniform(0.0, 4.0)

    def _copy_back(self) -> Iterator[float]:
        """Copy the files of a broker while it runs, and copy them back when it and the last other one have ended.

        The copy names the broker's newest incarnation, and keeps the inodes. Or it is put back below the file system,
        which brings all times back, too. It must not lead without the records that it lacks.
        """
        uniform, metadata, cluster = self._random.uniform, self._metadata, self._cluster
        one, two, third = self._random.sample(cluster.brokers, 3)
        for name in cluster.brokers:
            cluster.start(name)
        yield from self._until(metadata.is_whole)
        # The broker has registered, and has written checkpoints.
        yield uniform(3.0, 5.0)
        cluster.disks.volumes[one].back_up()
        below = self._random.random() < 0.4
        yield uniform(*(_REPORTED_S if below else _RENEWED_S))
        self._kill_now(third)
        yield from self._until(lambda: not metadata.has_in_sync(third, everywhere=False))
        yield uniform(0.0, 1.0)
        for name in self._random.sample((one, two), 2):
            self._kill_now(name)
            yield from self._until(lambda: not self._leads(name), _WAIT_S)  # noqa: B023 it is waited for here
        cluster.copy_back(one, below=below)
        self._table.findings.counts["copies put back"] += 1
        for name in (one, *self._random.sample((two, third), 2)):
            cluster.start(name)
            yield uniform(0.0, 4.0)

    def _empty_the_last(self) -> Iterator[float]:
        """Delete all records at a leader while its follower does not hear of it, and cut the power of both.

        The follower may have lost its last records. The leader has none at all, but its log has come further: it must
        lead, or offsets are given again.
        """
        uniform, metadata = self._random.uniform, self._metadata
        third = self._random.choice(self._cluster.brokers)
        for name in self._cluster.brokers:
            self._cluster.start(name)
        yield from self._until(metadata.is_whole)
        self._kill_now(third)
        yield from self._until(lambda: not metadata.has_in_sync(third, everywhere=False))
        yield uniform(0.2, 2.0)
        self._table.rest(2 * _WAIT_S)
        yield 0.2
        yield from self._until(lambda: self._table.leader >= 0)
        leader = f"broker-{self._table.leader}"
        (other,) = (name for name in self._cluster.brokers if name not in (leader, third))
        self._cluster.network.cut(leader, other, _EMPTIED_S)
        self._delete_all()
        yield uniform(0.05, 0.4)
        if self._random.random() < 0.7:
            # Deleted records are still on the disk until the broker tidies up.
            yield from self._until(lambda: self._table.is_empty_on(leader), _EMPTIED_S - 1.0)
        for name in (leader, other):
            self._kill_now(name, power_cut=True)
            yield from self._until(lambda: not self._leads(name), _WAIT_S)  # noqa: B023 it is waited for here
        for name in self._random.choice(((leader, other), (other, leader))):
            self._cluster.start(name)
            yield uniform(0.0, 1.0)
        yield from self._until(lambda: self._table.leader >= 0, _WAIT_S)
        self._table.rest(0.0)
        self._cluster.start(third)
        yield uniform(0.5, 3.0)

    def _fill_for_long(self) -> Iterator[float]:
        """Fill the disk of one broker, perhaps kill another one meanwhile, and demand that the table is served.

        If nothing is written meanwhile, the broker stays in the ISR. It finds out that its disk is full because it
        can't write its checkpoints. Sometimes other programs take even the room that the broker frees.
        """
        uniform, random, cluster = self._random.uniform, self._random, self._cluster
        for name in cluster.brokers:
            self._cluster.start(name)
        yield from self._until(self._metadata.is_whole)
        yield uniform(0.2, 2.0)
        one, *others = random.sample(cluster.brokers, len(cluster.brokers))
        rests = random.random() < 0.4
        if rests:
            self._table.rest(_WAIT_S)
            yield uniform(0.0, 0.5)
        self._faults += 1
        volume = cluster.disks.volumes[one]
        volume.fill(random.randrange(4000))
        volume.has_no_room = rests or random.random() < 0.3
        self._table.service.demand(writes=not rests)
        yield uniform(0.0, 4.0)
        killed = [name for name in others if self._leads(name)] or others
        if random.random() < 0.5 and (rests or len(others) > 1):
            self._kill_now(killed[0])
            self._table.service.demand(writes=not rests)
        yield uniform(8.0, 12.0)
        self._table.service.release()
        self._table.rest(0.0)
        volume.others_bytes, volume.has_no_room = 0, False
        yield uniform(0.0, 2.0)

    def _leads(self, name: str) -> bool:
        return f"broker-{self._table.leader}" == name

    def _backed_up(self, name: str) -> Iterator[float]:
        """Have a broker stop, keep a copy of its disk, and start it again."""
        yield from self._stop_in_order(name)
        self._cluster.disks.volumes[name].back_up()
        yield self._random.uniform(*_DOWN_S)
        self._cluster.start(name)
        yield from self._until(self._all_are_in_sync, _WAIT_S)

    def _until_leads(self, name: str) -> Iterator[float]:
        return self._until(lambda: self._leads(name), _WAIT_S)

    def _until(self, is_so: Callable[[], bool], limit_s: float = math.inf) -> Iterator[float]:
        """Wait until the condition holds, but no longer than `limit_s`, or than the weather blows."""
        ends_at = self._cluster.world.now + limit_s
        while not is_so() and self._cluster.world.now < ends_at:
            yield 0.1
