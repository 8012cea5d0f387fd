"""One seed: a cluster comes up, the weather blows while clients work, everything heals, and the judge looks."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Final

from tests.faults.put_in_place import put_in_place
from tests.world import crowds, substitutes
from tests.world.batches import GIANTS, LARGE, Batches
from tests.world.client import Connection, RawClient
from tests.world.cluster import Cluster
from tests.world.disk import Disks
from tests.world.fibers import StuckError, World
from tests.world.findings import Findings, kind_of
from tests.world.forked import ForkError, SpentError, in_a_fork
from tests.world.growth import PRODUCERS_S, Growth
from tests.world.in_sync import InSync
from tests.world.ledger import Ledger
from tests.world.limits import cluster_configs, shrink
from tests.world.migrations import CONFIGS, Migrations
from tests.world.mutants import take_out
from tests.world.network import Network
from tests.world.process import Process
from tests.world.shards import Shards
from tests.world.table import Table
from tests.world.upkeep import LEAST_DIRTY_RATIO, watch_cleanings
from tests.world.weather import Weather, Workload

import ottla_broker.app  # noqa: F401 - the product's modules are loaded before their clocks and files are replaced
import ottla_controller.app
import ottla_controller.health  # noqa: F401
from ottla_broker.storage.log import Log

_HEALED_S: Final = 60.0
_JUDGED_S: Final = 700.0
"""A broker may wait for up to ten minutes before it tries to clean a log again that had no room on the disk."""
_REST_S: Final = 1200.0
"""This is longer than the ten minutes after which idle connections are closed and groups are looked at."""
_AWAKE_S: Final = 10.0
_WHOLE_STORM_S: Final = 30.0
"""No long rest follows a shorter storm, because tests run those."""
_RARE_LOOK_S: Final = 10.0
"""While nothing happens, the world itself looks this often whether a process is dead."""
_LOOK_S: Final = 5.0
_STOPPED_S: Final = 20.0
_GROWTH_SHARE: Final = 1 / 6
"""This share of the ledger's seeds measures what grows. It takes as long as the storm."""
_LOGGED: Final = {"cleanings": "is compacted up to", "takeovers": "now serving", "recoveries": "but previously reached"}
"""An event is counted whenever a log line has its text."""
_RETENTION_MS: Final = ("-1", "-1", "4000", "12000")
_CLEANER_BYTES_PER_S: Final = ("1e9", "1e9", "100000")
_SHRUNK_BY: Final = (1, 1, GIANTS, LARGE)
_INTERNAL_BYTES: Final = ("2000", "10000")
"""How large a segment of an internal topic may be."""
_POLICIES: Final = ("compact", "compact,delete", "delete")
_LEDGERS_POLICIES: Final = ("compact", "compact", "compact,delete", "delete")
PROFILES: Final = (
    "table",
    "emptying",
    "eligible",
    "full",
    "ledger",
    "restored",
    "misread",
    "silent",
    "closest",
    "changing",
    "diverging",
    "repeated",
    "migrating",
)
_SHARES: Final = (22, 10, 13, 8, 24, 9, 6, 6, 8, 6, 6, 4, 9)
_LEDGERS: Final = ("ledger", "repeated")
_COORDINATED: Final = (*_LEDGERS, "migrating")
_DELETING: Final = ("compact,delete", "delete")
_REPEATING: Final = 3
"""So many producers send batches again that were acknowledged."""
_THREE_BROKERS: Final = ("eligible", "restored", "diverging")
_FETCHED_BYTES: Final = "600"
_SEVERAL: Final = 0.5
"""In these tables, so many batches have more than one record, so that a deletion often ends within a batch."""
_CROWDED: Final = 0.3
"""In this share of ledgers, the records of some transactions reach their largest size."""
_cpu = time.process_time


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan says what to run: a seed, how many virtual seconds its storm lasts, and what is taken out."""

    seed: int
    storm_s: float = 40.0
    without: Sequence[str] = ()
    """These mends and rules are taken out."""
    log: bool = False
    profile: str = ""
    """The profile that is run, instead of the one that the seed chooses."""
    faults: Collection[int] | None = None
    """Only these faults happen, or these rounds of a script. None stands for all of them."""


@dataclass(slots=True)
class Outcome:
    """An outcome says what became of a seed. `trace` names every step of it."""

    seed: int
    profile: str = ""
    trace: str = ""
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    faults: int = 0
    kills: int = 0
    begun: list[int] = field(default_factory=list)
    """The numbers of the faults or rounds that have begun."""
    healed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    last_steps: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    """The tasks that waited when the seed made no more progress. A seed that was never stuck has none."""

    @property
    def grown(self) -> int:
        """Return how many structures have grown with work that had ended."""
        return self.counts.get("grown", 0)

    @property
    def has_run(self) -> bool:
        """Return whether the seed has come to its end, be it green or red."""
        return bool(self.trace)

    @property
    def is_green(self) -> bool:
        return self.healed and not self.violations

    @property
    def why(self) -> list[str]:
        """Return the reasons for which it is red."""
        return [*self.violations, *([] if self.healed else ["the replicas are not in sync again"])]

    @property
    def kind(self) -> str:
        """Return the kind of the first violation, or an empty text if it is green."""
        return "" if self.is_green else kind_of(self.why[0])


def run_in_a_fork(plan: Plan) -> Outcome:
    """Run a seed in a process of its own. No `finally` block runs for what is unfinished when that process ends."""
    try:
        return Outcome(**in_a_fork(lambda: asdict(run(plan))))
    except ForkError as error:
        return Outcome(plan.seed, violations=[str(error)])


def run(plan: Plan) -> Outcome:
    world = World(plan.seed)
    network, disks = Network(world), Disks(world)
    substitutes.put_in_place(world, network, disks)
    is_crowded = world.chance("crowd").random() < _CROWDED
    if is_crowded:
        crowds.shrink()
    for name in plan.without:
        take_out(name)
    began = _cpu()
    outcome = Outcome(plan.seed)
    findings = Findings(world.note)
    _log_to(world, findings, log=plan.log)
    try:
        _live(plan, world, network, disks, findings, outcome, is_crowded=is_crowded)
    except (StuckError, SpentError) as error:
        findings.violate(str(error))
        outcome.waiting = world.waiting()
    findings.violations += world.failures[:20]
    outcome.trace, outcome.virtual_s = world.trace, world.now
    outcome.cpu_s = _cpu() - began
    outcome.counts, outcome.violations = dict(findings.counts), findings.violations
    outcome.counts["operations"] = Connection.answers
    if not outcome.is_green:
        outcome.last_steps = list(world.last_steps)
    return outcome


def _live(
    plan: Plan,
    world: World,
    network: Network,
    disks: Disks,
    findings: Findings,
    outcome: Outcome,
    *,
    is_crowded: bool,
) -> None:
    random = world.chance("weather")
    chosen = random.choices(PROFILES, _SHARES)[0]
    profile = outcome.profile = plan.profile or chosen
    shrunk_by = world.chance("limits").choice(_SHRUNK_BY) if profile == "table" else 1
    shrink(shrunk_by)
    measures_growth = profile == "ledger" and not is_crowded and world.chance("growth").random() < _GROWTH_SHARE
    cluster = Cluster(
        world,
        network,
        disks,
        _configs(world, random, profile, shrunk_by, measures_growth=measures_growth),
        brokers=3 if profile in _THREE_BROKERS else random.choice((2, 3)),
        controllers=random.choice((1, 1, 2)),
        coordinators=random.choice((1, 2)) if profile in _COORDINATED else 0,
        is_spread=profile == "closest",
    )
    workload: Workload
    if profile == "migrating":
        workload = Migrations(cluster, findings, random)
    elif profile in _LEDGERS:
        workload = _ledger(cluster, findings, random, profile, is_crowded=is_crowded, measures_growth=measures_growth)
    else:
        workload = _table(cluster, findings, random, profile, shrunk_by)
    weather = Weather(cluster, workload, profile, plan.faults)
    _watch_logs(cluster, findings, workload)
    InSync(cluster, findings).watch()
    _blow(cluster, workload, weather, plan.storm_s)
    if plan.storm_s >= _WHOLE_STORM_S and isinstance(workload, Ledger) and workload.rests_long:
        _rest(cluster, workload)
        findings.counts["long rests"] += 1
    outcome.faults, outcome.kills, outcome.begun = weather.faults, weather.kills, weather.begun
    _heal(cluster, outcome)
    _judge(cluster, findings, workload, outcome, measures_growth=measures_growth)


def _configs(world: World, random: Random, profile: str, shrunk_by: int, *, measures_growth: bool) -> dict[str, str]:
    """Return the configs of a cluster."""
    # Internal topics are cleaned while coordinators write to them, and shards are loaded from what is left. Where
    # growth is measured, the segments are so large that nothing is cleaned: a cleaner keeps each marker for a day.
    internal, sizes = world.chance("internal topics"), (str(100 << 20),) if measures_growth else _INTERNAL_BYTES
    return {
        "log.cleaner.backoff.ms": random.choice(("200", "1000")),
        "replica.lag.time.max.ms": "30000" if profile in ("full", "silent") else random.choice(("500", "2000")),
        "leader.imbalance.check.interval.seconds": "1" if profile == "full" else "300",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "log.cleaner.io.max.bytes.per.second": world.chance("cleaner").choice(_CLEANER_BYTES_PER_S),
        **cluster_configs(shrunk_by),
        # A follower that catches up by several small fetches knows a high watermark beyond its own log's end.
        **({"replica.fetch.max.bytes": _FETCHED_BYTES} if profile == "closest" else {}),
        "offsets.topic.segment.bytes": internal.choice(sizes),
        "transaction.state.log.segment.bytes": internal.choice(sizes),
        **(CONFIGS if profile == "migrating" else {}),
        **({"producer.id.expiration.ms": str(int(PRODUCERS_S * 1000))} if measures_growth else {}),
    }


def _blow(cluster: Cluster, workload: Workload, weather: Weather, storm_s: float) -> None:
    """Start the cluster and its clients, and let the weather blow."""
    world = cluster.world
    for name in cluster.services:
        cluster.start(name)
    world.run_for(0.5)
    cluster.metadata.watch(cluster.etcd)
    workload.start_clients()
    world.run_until(lambda: workload.is_created, limit_s=10)
    world.note("the storm begins")
    weather.begin()
    world.run_for(storm_s)
    weather.end()
    world.run_until(lambda: not weather.is_at_work, limit_s=_HEALED_S)


def _rest(cluster: Cluster, ledger: Ledger) -> None:
    """Have all clients rest for twenty minutes in a whole cluster, and then work again."""
    world, look_s = cluster.world, cluster.network.look_s
    for name in cluster.services:
        cluster.start(name)
    world.run_until(cluster.metadata.is_whole, limit_s=_HEALED_S)
    world.note("all clients rest")
    cluster.network.look_s = _RARE_LOOK_S
    ledger.rest_with_groups(_REST_S)
    world.run_for(_REST_S)
    cluster.network.look_s = look_s
    ledger.rest_with_groups(0.0)
    world.run_for(_AWAKE_S)


def _heal(cluster: Cluster, outcome: Outcome) -> None:
    """Start whatever is down, and wait until all replicas are in sync."""
    world, is_whole = cluster.world, cluster.metadata.is_whole
    world.note("the storm is over, and whatever is down starts again")
    cluster.kill("client")
    world.run_until(lambda: not any(map(cluster.is_stopping, cluster.brokers)), limit_s=_STOPPED_S)
    for name in cluster.services:
        cluster.start(name)
    outcome.healed = world.run_until(is_whole, limit_s=_HEALED_S)
    if not outcome.healed:
        outcome.waiting = world.waiting()
    world.run_for(5.0)  # what was written last reaches each disk, and a broker that was killed last leaves the ISR
    outcome.healed = outcome.healed and world.run_until(is_whole, limit_s=_HEALED_S)


def _judge(
    cluster: Cluster, findings: Findings, workload: Workload, outcome: Outcome, *, measures_growth: bool
) -> None:
    """Read everything, compare it with what clients know, and perhaps measure what grows."""
    world = cluster.world
    waits_for, shards = ["nobody has looked"], Shards(cluster, findings)

    async def look(_: Process) -> None:
        while missing := await workload.look(RawClient()):
            waits_for.append(missing)
            await asyncio.sleep(_LOOK_S)
        while missing := shards.look():
            waits_for.append(missing)
            await asyncio.sleep(0.2)
        waits_for.clear()

    Process(world, cluster.network, "reader", look)
    if not world.run_until(lambda: not waits_for, limit_s=_JUDGED_S):
        findings.violate(f"after {_JUDGED_S:.0f} s: {waits_for[-1]}")
        outcome.waiting = world.waiting()
    elif measures_growth and isinstance(workload, Ledger):
        Growth(cluster, findings, workload).judge()
        # By now most owners have served the shards that they had loaded for minutes.
        if missing := shards.look():
            findings.violate(f"at rest, {missing}")


def _table(cluster: Cluster, findings: Findings, random: Random, profile: str, shrunk_by: int) -> Table:
    brokers = len(cluster.brokers)
    configs = {
        "cleanup.policy": random.choice(_POLICIES),
        "retention.bytes": random.choice(("-1", "-1", "8000")),
        "segment.bytes": random.choice(("400", "1000", "4000")),
        "min.cleanable.dirty.ratio": str(LEAST_DIRTY_RATIO),
        "delete.retention.ms": random.choice(("2000", "10000", "86400000")),
        "retention.ms": random.choice(_RETENTION_MS) if profile == "table" else "-1",
        "min.insync.replicas": "1" if brokers == 2 else random.choice(("1", "2")),
        "unclean.leader.election.enable": random.choice(("true", "false")),
    }
    match profile:
        case "emptying":
            configs |= {
                "cleanup.policy": random.choice(("compact,delete", "delete")),
                "retention.bytes": "-1",
                "min.insync.replicas": "1",
                "unclean.leader.election.enable": "true",
            }
        case "full" | "silent":
            configs |= {"min.insync.replicas": "1"}
        case "restored":
            configs |= {"unclean.leader.election.enable": "false"}
        case "eligible":
            configs |= {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
        case "closest":
            configs |= {
                "cleanup.policy": random.choice(("compact,delete", "delete")),
                "retention.bytes": random.choice(("-1", "4000", "8000")),
            }
        case "changing":
            configs |= {"cleanup.policy": "delete", "retention.bytes": "-1", "unclean.leader.election.enable": "false"}
        case "diverging":
            configs |= {"retention.bytes": "-1"}
            if configs["unclean.leader.election.enable"] == "true":
                configs |= {"min.insync.replicas": "1"}
    batches = Batches(random, shrunk_by, _SEVERAL) if profile == "closest" else Batches(random, shrunk_by)
    return Table(cluster, findings, random, configs | batches.configs, batches)


def _ledger(
    cluster: Cluster, findings: Findings, random: Random, profile: str, *, is_crowded: bool, measures_growth: bool
) -> Ledger:
    """Return a ledger. Where growth is measured, producers expire soon, and the topic is not compacted."""
    policy = random.choice(_LEDGERS_POLICIES if profile == "ledger" else _DELETING)
    configs = {
        "cleanup.policy": "delete" if measures_growth else policy,
        "segment.bytes": random.choice(("1000", "4000")),
        "min.cleanable.dirty.ratio": str(LEAST_DIRTY_RATIO),
        "min.insync.replicas": "1" if len(cluster.brokers) == 2 else random.choice(("1", "2")),
    }
    if profile == "repeated":
        # Each batch has a segment of its own. So what a leader writes behind deleted records begins a segment.
        configs["segment.bytes"] = "100"
    repeats = _REPEATING if profile == "repeated" else int(cluster.world.chance("repeats").random() < 0.5)
    return Ledger(
        cluster,
        findings,
        random,
        configs,
        is_crowded=is_crowded,
        goes_by_dates=measures_growth,
        repeats=0 if measures_growth else repeats,
    )


def _log_to(world: World, findings: Findings, *, log: bool) -> None:
    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            name = world.current.process.name if world.current is not None else "world"
            for counted, text in _LOGGED.items():
                findings.counts[counted] += text in record.msg
            if _LOGGED["cleanings"] in record.msg:
                world.note(f"{name} {record.getMessage()}")
            if log:
                print(f"{world.now:10.5f} {name:10} {record.name}: {record.getMessage()}", file=sys.stderr)
                if record.exc_info:
                    traceback.print_exception(*record.exc_info, file=sys.stderr)
            if record.levelno >= logging.ERROR and record.exc_info:
                world.failures.append(f"{name} logged {record.getMessage()}: {record.exc_info[1]!r}")

    logging.getLogger().handlers[:] = [Lines()]
    logging.getLogger().setLevel(logging.INFO)


def _watch_logs(cluster: Cluster, findings: Findings, workload: Workload) -> None:
    truncate, begin = Log.truncate_to, Log.truncate_fully_and_start_at

    def truncated(self: Log, offset: int) -> int:
        if offset < self.log_end_offset:
            findings.counts["truncations"] += 1
            broker, log = self.directory.parts[1], cluster.metadata.name_of(self.directory.name)
            cluster.world.note(f"{broker} cuts {log} from {self.log_end_offset} to {offset}")
        return truncate(self, offset)

    def begun_anew(self: Log, offset: int) -> None:
        findings.counts["begun anew"] += 1
        log = cluster.metadata.name_of(self.directory.name)
        cluster.world.note(f"{self.directory.parts[1]} copies {log} anew from {offset} on")
        if isinstance(workload, Ledger):
            workload.copied.add(log)
        begin(self, offset)

    put_in_place(Log, "truncate_to", truncated)
    put_in_place(Log, "truncate_fully_and_start_at", begun_anew)
    watch_cleanings(findings)
