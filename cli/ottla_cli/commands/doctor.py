"""`ottla doctor`: whether Kafka clients can use the cluster from here, and whether anything in it is damaged."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ottla.client.kafka_probe import Entry, Look, look_at_all
from ottla.client.settings import bootstrap_addresses
from ottla.errors import OttlaError
from ottla_cli.connection import ASIDE_S, open_admin
from ottla_cli.failures import ExitCode, sentence
from ottla_cli.lazy import Command
from ottla_cli.listeners import ELSEWHERE, Finding, check_cluster, check_kafka, entries_of, reports_listeners
from ottla_cli.options import AnyTopics, Numbers
from ottla_cli.output import Listing, form_for, write
from ottla_cli.partition_status import PartitionStatus, only_numbers
from ottla_cli.settings import Settings
from ottla_cli.terminal import put_progress, say
from ottla_core.host_port import HostPort
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.admin import Admin, BrokerInfo, ClusterInfo
    from ottla.admin.group_info import ShardStatus
    from ottla.admin.replica_verification import ReplicaCheck
    from ottla.machines.comparisons.replicas import BatchSeen, Difference


class GroupFinding(TyperGroup):
    """`ottla doctor` and `ottla doctor HOST:PORT` are `ottla doctor listeners …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] != "--help" and (args[0].startswith("-") or ":" in args[0])):
            args = ["listeners", *args]
        return super().parse_args(ctx, args)


_HELP: Final = "Find out why Kafka clients on this machine can't use the cluster, or check the cluster for damage."
app = typer.Typer(cls=GroupFinding, add_completion=False, rich_markup_mode=None, help=_HELP)

_COLUMNS: Final = (
    "topic",
    "partition",
    "start",
    "end",
    "not_compared",
    "compared_bytes",
    "equal",
    "different",
    "unreadable",
)
_LISTENER_COLUMNS: Final = ("broker", "listener", "address", "state", "took_ms")
_SHARD_COLUMNS: Final = ("shard", "coordinator", "phase", "seconds", "next_offset", "unreadable")
_LOG_COLUMNS: Final = ("broker", "problem")
_OFFSETS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
_LOOK_LIMIT_S: Final = 2.0
_MAP_LIMIT_S: Final = 3 * ASIDE_S
_EVERY_S: Final = 0.2
_MOST_EPOCHS: Final = 10
_INCOMPLETE: Final = "it may lack acknowledged records until it is in sync again; keep its broker and leader running"
_REMEDY: Final = (
    "to replace a wrong replica with a copy from its leader, cleanly stop the replica's broker, move the folder "
    "<topic id>-<partition> out of the broker's data directory, and restart the broker; if the leader's replica is the "
    "wrong one, another broker then becomes the leader"
)


@app.callback(help=_HELP)
def doctor() -> None: ...


@app.command("listeners", cls=Command)
def listeners(
    ctx: typer.Context,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOST:PORT",
            help="Kafka addresses to bootstrap from; default: the addresses that the cluster at -b advertises.",
        ),
    ] = None,
) -> None:
    """Connect to every advertised Kafka address, and explain why an address does not lead to its broker.

    This is the default command. If one listener leads to every broker, a listener that leads to no broker is assumed to
    be for clients on other networks.

    Exits with code 1 if an address does not work for clients on this machine.
    """
    settings = Settings.of(ctx)
    findings = _findings(settings, addresses or [])
    items = [finding.item() for finding in findings]
    write(Listing("listener-checks/v1", items, _LISTENER_COLUMNS, name="address"), settings.output)
    for finding in findings:
        if finding.problem is not None:
            text = finding.problem.what if finding.state == ELSEWHERE else "; ".join(finding.problem)
            say(f"ottla: {finding.name + ': ' if finding.name else ''}{text}")
    bad = sum(f.is_bad for f in findings)
    say(f"checked {counted(len(findings), 'listener')}: {bad or 'none'} wrong for clients on this machine")
    if bad:
        raise typer.Exit(ExitCode.FAILED)


def _findings(settings: Settings, addresses: list[str]) -> list[Finding]:
    entries: dict[str, Entry] = {}

    def looks(addresses: Iterable[str]) -> Mapping[str, Look]:
        limit_s = min(settings.timeout, _LOOK_LIMIT_S)
        return look_at_all(addresses, limit_s, lambda address: entries.get(address, settings.security))

    if addresses:
        return check_kafka(bootstrap_addresses(addresses), looks)
    with open_admin(settings) as admin:
        info = admin.cluster.describe()
        if reports_listeners(info):
            entries |= entries_of(info, _protocol_map(admin, info), settings.security)
    came_by = bootstrap_addresses(settings.addresses)
    if not reports_listeners(info):
        return check_kafka(came_by, looks)
    return check_cluster(info, list(dict.fromkeys(HostPort.parse(each).host for each in came_by)), looks)


def _protocol_map(admin: Admin, info: ClusterInfo) -> str:
    """Return which protocol each listener has, as a broker describes it, or "" if none describes it to this user in
    time. Brokers that can't be reached from here are no reason to wait: they are what the command looks for."""
    ends_at = time.monotonic() + _MAP_LIMIT_S
    for broker in info.brokers:
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            break
        if not broker.fenced:
            with suppress(OttlaError):
                described = admin.configs.get(broker=broker.id, timeout=min(ASIDE_S, left_s))
                entry = described.get("listener.security.protocol.map")
                return entry.value or "" if entry is not None else ""
    return ""


@app.command("replicas", cls=Command)
def replicas(ctx: typer.Context, topics: AnyTopics = None, partition: Numbers = None) -> None:
    """Read every replica of every partition from its broker, and compare the replicas batch by batch, byte by byte.

    The comparison covers the offsets from the replicas' highest log start offset to their lowest high watermark. NOT
    COMPARED counts the offsets that a replica has beyond that high watermark. In a compacted topic, the records that
    two replicas share must be equal, and a record that only one of them has must be superseded on the other. A table
    shows only partitions with a wrong replica. --timeout limits the wait for each response from a broker.

    Exits with code 1 if a replica differs or can't be read.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        described = admin.topics.describe(*topics or [], internal=True)
        found = (PartitionStatus(topic.name, p) for topic in described for p in topic.partitions)
        rounds = Rounds(admin, only_numbers(found, topics or [], partition or []))
        as_table = form_for(settings.output, sys.stdout) == "table"
        items = [_row(check) for check in rounds if not check.is_good] if as_table else map(_item, rounds)
        if items:
            write(Listing("replica-checks/v1", items, _COLUMNS), settings.output)
    rounds.conclude()


@app.command("logs", cls=Command)
def logs(ctx: typer.Context) -> None:
    """Find logs that can't be compacted or flushed or may lack records, and brokers that can't append to their disks.

    A log that can't be compacted keeps growing. Each log is listed with the reason, such as a full disk, a damaged
    batch or a failing flush. A log may lack acknowledged records after its broker's machine lost power, or after the
    broker got an empty disk or an old copy of its data directory. It copies them from its leader.

    Exits with code 1 if there is such a log or disk, or if a broker can't be reached.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        brokers = admin.cluster.describe().brokers
        items = [item for broker in brokers for item in _log_findings(admin, broker)]
    write(Listing("log-checks/v1", items, _LOG_COLUMNS), settings.output)
    for item in items:
        say(f"ottla: {item['name']}: {item['problem']}")
    found = counted(len(items), "problem") if items else "no problem"
    say(f"checked {counted(len(brokers), 'broker')}: {found} with logs or disks")
    if items:
        raise typer.Exit(ExitCode.FAILED)


def _log_findings(admin: Admin, broker: BrokerInfo) -> Iterator[dict[str, Any]]:
    def finding(name: str, problem: str) -> dict[str, Any]:
        return {"name": name, "broker": broker.id, "problem": problem}

    if broker.read_only:
        yield finding(
            f"broker {broker.id}", "its disk accepts no appends; free space on it, and appends resume automatically"
        )
    try:
        directories = admin.cluster.log_dirs(broker.id, timeout=ASIDE_S)
    except OttlaError as error:
        yield finding(f"broker {broker.id}", f"it can't be reached: {sentence(error)}")
        return
    for directory in directories:
        for partition, reason in directory.uncleanable.items():
            yield finding(f"{partition} on broker {broker.id}", f"it can't be compacted: {reason}")
        for partition in directory.incomplete:
            yield finding(f"{partition} on broker {broker.id}", _INCOMPLETE)


@app.command("groups", cls=Command)
def groups(ctx: typer.Context) -> None:
    """Check that group-coordinators serve every shard, and explain why a shard is not served.

    A shard is a partition of __consumer_offsets. While a shard is not served, the members of its groups can't join or
    commit. A table shows only shards with a problem.

    Exits with code 1 if a shard has no coordinator, makes no progress while loading, or contains unreadable records.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        shards = admin.groups.shards()
    _tell_shards(settings, "groups", "group", _OFFSETS, shards)


@app.command("transactions", cls=Command)
def transactions(ctx: typer.Context) -> None:
    """Check that txn-coordinators serve every shard, and report coordinators that can't end transactions in time.

    A shard is a partition of __transaction_state. While a shard is not served, none of its transactions can begin or
    end. A table shows only shards with a problem.

    Exits with code 1 if a shard has no coordinator, makes no progress while loading, can't end a transaction that has
    timed out, or contains unreadable records.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        shards = admin.transactions.shards()
    _tell_shards(settings, "transactional ids", "txn", _TRANSACTIONS, shards)


def _tell_shards(settings: Settings, of: str, kind: str, topic: str, shards: Sequence[ShardStatus]) -> None:
    bad = [entry for entry in shards if not entry.is_good]
    as_table = form_for(settings.output, sys.stdout) == "table"
    items = [{"name": f"{topic}-{entry.shard}", **asdict(entry)} for entry in (bad if as_table else shards)]
    if items or not as_table:
        write(Listing("shard-checks/v1", items, _SHARD_COLUMNS), settings.output)
    for entry in bad:
        for line in _shard_text(entry, kind):
            say(f"ottla: {topic}-{entry.shard}: {line}")
    say(f"checked {counted(len(shards), 'shard')} of {of}: {len(bad) or 'none'} with problems")
    if bad:
        raise typer.Exit(ExitCode.FAILED)


def _shard_text(of: ShardStatus, kind: str) -> Iterator[str]:
    if of.coordinator is None:
        yield f"no coordinator owns it; check that an ottla-{kind}-coordinator is running"
    if of.trouble and of.phase == "serving":
        yield f"coordinator {of.coordinator} can't run its due timers: {of.trouble}"
    elif of.trouble:
        yield f"coordinator {of.coordinator} has not served it for {of.seconds:.0f} s: {of.trouble}"
    if of.unreadable:
        yield f"{counted(of.unreadable, 'record')} can't be read by this release, so their content is missing"


class Rounds:
    """Checks one partition after the other, and reports at once what is wrong."""

    def __init__(self, admin: Admin, partitions: Sequence[PartitionStatus]) -> None:
        self._admin = admin
        self._partitions = partitions
        self._progress = CheckProgress()
        self._bad = 0
        self._differ = False
        self._bytes = 0

    def __iter__(self) -> Iterator[ReplicaCheck]:
        for number, status in enumerate(self._partitions, 1):
            self._progress.title = f"{status.name} ({number} of {len(self._partitions)})"
            check = self._admin.partitions.verify_replicas(
                status.topic, status.info.partition, on_progress=self._progress
            )
            self._progress.clear()
            self._bad += not check.is_good
            self._differ = self._differ or bool(check.differences or check.unequal_epochs)
            self._bytes += check.compared_bytes
            for line in as_text(check):
                say(f"ottla: {status.name}: {line}")
            yield check

    def conclude(self) -> None:
        """Print the result, and leave with its exit code."""
        of_all = counted(len(self._partitions), "partition")
        if not self._bad:
            say(f"{of_all}, {self._bytes:,} bytes of each replica compared: no difference")
            return
        say(f"{of_all} checked: {self._bad:,} with replicas that differ or can't be read")
        if self._differ:
            say(_REMEDY)
        raise typer.Exit(ExitCode.FAILED)


class CheckProgress:
    """One line of a terminal that shows the progress; nothing where standard error is not a terminal."""

    def __init__(self) -> None:
        self.title = ""
        self._watched = sys.stderr.isatty()
        self._next_at = 0.0

    def __call__(self, offset: int, end: int) -> None:
        now = time.monotonic()
        if self._watched and now >= self._next_at:
            self._next_at = now + _EVERY_S
            put_progress(f"{self.title}: offset {offset:,} of {end:,}")

    def clear(self) -> None:
        if self._watched:
            put_progress("")


def as_text(check: ReplicaCheck) -> list[str]:
    """A line for each replica that differs or can't be read, or has other leader epochs than the rest."""
    different = [_difference_text(broker, found) for broker, found in sorted(check.differences.items())]
    unreadable = [f"broker {broker} can't be read: {sentence(e)}" for broker, e in sorted(check.unreadable.items())]
    epochs = [_epochs_text(broker, found) for broker, found in sorted(check.unequal_epochs.items())]
    return different + unreadable + epochs


def _epochs_text(broker: int, epochs: Sequence[tuple[int, int]]) -> str:
    """Say where the epochs of one replica began; at most the last ten, because a partition may have had thousands."""
    began = ", ".join(f"{epoch} at offset {start}" for epoch, start in epochs[-_MOST_EPOCHS:])
    return f"the in-sync replicas have different leader epochs; on broker {broker} they began as follows: {began}"


def _difference_text(broker: int, found: Difference) -> str:
    message = (
        f"broker {broker} differs from broker {found.reference} at offset {found.offset} ({found.what}): "
        f"it has {_batch_text(found.found)}, the other {_batch_text(found.expected)}"
    )
    damaged = [
        str(id_)
        for id_, batch in ((broker, found.found), (found.reference, found.expected))
        if batch is not None and not batch.is_sound
    ]
    return message + (f"; the CRC does not match the bytes on broker {' and '.join(damaged)}" if damaged else "")


def _batch_text(batch: BatchSeen | None) -> str:
    if batch is None:
        return "no batch there"
    return (
        f"a batch of {batch.size_bytes} bytes from offset {batch.base_offset} on, "
        f"leader epoch {batch.leader_epoch}, CRC {batch.crc:08x}"
    )


def _item(check: ReplicaCheck) -> dict[str, Any]:
    return {
        "name": f"{check.topic}-{check.partition}",
        "topic": check.topic,
        "partition": check.partition,
        "start": check.start,
        "end": check.end,
        "not_compared": check.not_compared,
        "compared_bytes": check.compared_bytes,
        "equal": check.equal,
        "different": [{"broker": broker, **asdict(found)} for broker, found in check.differences.items()],
        "unequal_epochs": [
            {"broker": broker, "epoch": epoch, "start_offset": start}
            for broker, epochs in check.unequal_epochs.items()
            for epoch, start in epochs
        ],
        "unreadable": [
            {"broker": broker, "error": error.name, "message": error.message}
            for broker, error in check.unreadable.items()
        ],
    }


def _row(check: ReplicaCheck) -> dict[str, Any]:
    """The item, shortened for a table."""
    return {**_item(check), "different": tuple(check.differences), "unreadable": tuple(check.unreadable)}
