"""`ottla cluster`: the cluster, its health, its brokers and its controllers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.errors import ErrorCode, error_from_code
from ottla_cli.completion import complete_topic
from ottla_cli.connection import ASIDE_S, open_admin, or_nothing
from ottla_cli.failures import ExitCode
from ottla_cli.health import Health, Uncleanable
from ottla_cli.lazy import Command
from ottla_cli.output import Listing, form_for, write, write_table
from ottla_cli.partition_status import PartitionStatus, partition_statuses
from ottla_cli.settings import Settings
from ottla_cli.terminal import put, say

if TYPE_CHECKING:
    from ottla.admin.admin import Admin, BrokerInfo, ClusterInfo
    from ottla.client.log_dirs import LogDirInfo

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Show the cluster, its health, its brokers and its controllers."
)


@app.command("info", cls=Command)
def info(ctx: typer.Context) -> None:
    """Show the cluster's id, its controller and its brokers."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        described = admin.cluster.describe()
    brokers = [asdict(broker) for broker in described.brokers]
    if form_for(settings.output, sys.stdout) == "table":
        at = f"{described.controller_id} at {described.controller_address}"
        put(f"cluster {described.cluster_id}, controller {at if described.controller_address else 'none elected'}")
        extra = [name for name in ("kafka_address", "rack", "fenced") if any(broker[name] for broker in brokers)]
        write_table(Listing("", brokers, ("id", "address", *extra)))
        return
    item = {
        "cluster_id": described.cluster_id,
        "controller": {"id": described.controller_id, "address": described.controller_address},
        "brokers": brokers,
    }
    write(Listing("cluster/v1", [item], name="cluster_id"), settings.output)


@app.command("health", cls=Command)
def health(ctx: typer.Context) -> None:
    """Show whether the cluster is healthy, and what to do if it is not. Exits with code 1 if it is not healthy."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        cluster, partitions = admin.cluster.describe(), partition_statuses(admin, admin.topics.describe(internal=True))
        directories = _live_directories(admin, cluster)
        late = [partition for _, directory in directories for partition in directory.late_transactions]
        found = Health(cluster, partitions, _uncleanable(directories), late)
    if form_for(settings.output, sys.stdout) == "table":
        for line in found.as_text():
            put(line)
    else:
        write(Listing("health/v1", [found.item()], name="cluster_id"), settings.output)
    if found.problems:
        raise typer.Exit(ExitCode.FAILED)


def _live_directories(admin: Admin, cluster: ClusterInfo) -> list[tuple[int, LogDirInfo]]:
    """The data directories of the brokers that can be reached."""
    live = [broker.id for broker in cluster.brokers if not broker.fenced]
    return [(id_, directory) for id_ in live for directory in _directories(admin, id_) or ()]


def _uncleanable(described: list[tuple[int, LogDirInfo]]) -> list[Uncleanable]:
    return [Uncleanable(id_, p, reason) for id_, directory in described for p, reason in directory.uncleanable.items()]


@app.command("brokers", cls=Command)
def brokers(ctx: typer.Context) -> None:
    """List the brokers with their addresses, and count their leaders and replicas.

    A broker that is down is listed only if a partition has a replica on it.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        partitions = [PartitionStatus(t.name, p) for t in admin.topics.describe(internal=True) for p in t.partitions]
        leaders = Counter(status.info.leader for status in partitions)
        replicas = Counter(broker for status in partitions for broker in status.info.replicas)
        found = Health(admin.cluster.describe(), partitions)
        items = [
            {**item, "leaders": leaders[item["id"]], "replicas": replicas[item["id"]], "size_bytes": size_bytes}
            for item, size_bytes in _brokers(admin, found)
        ]
    extra = [name for name in ("kafka_address", "rack") if any(item[name] for item in items)]
    columns = ("id", "address", *extra, "epoch", "state", "leaders", "replicas", "size_bytes")
    write(Listing("brokers/v1", items, columns, name="id"), settings.output)


def _brokers(admin: Admin, found: Health) -> list[tuple[dict[str, Any], int | None]]:
    """Return each broker with the bytes of its replicas, None if it can't be reached."""
    registered = [
        ({**asdict(broker), "state": _state(broker)}, _size_bytes(admin, broker.id)) for broker in found.info.brokers
    ]
    names = ("address", "kafka_address", "rack", "fenced", "epoch", "kafka_listeners", "read_only")
    unknown = {**dict.fromkeys(names), "state": "away"}
    return registered + [({"id": broker_id, **unknown}, None) for broker_id in found.away]


def _state(broker: BrokerInfo) -> str:
    if broker.fenced:
        return "fenced"
    return "read-only" if broker.read_only else "live"


def _directories(admin: Admin, broker_id: int) -> tuple[LogDirInfo, ...] | None:
    return or_nothing(lambda: admin.cluster.log_dirs(broker_id, timeout=ASIDE_S))


def _size_bytes(admin: Admin, broker_id: int) -> int | None:
    directories = _directories(admin, broker_id)
    return None if directories is None else sum(sum(d.replica_bytes.values()) for d in directories)


@app.command("log-dirs", cls=Command)
def log_dirs(
    ctx: typer.Context,
    broker: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", help="Only this broker; may be repeated.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="List each replica of this topic separately; may be repeated.",
            autocompletion=complete_topic,
        ),
    ] = None,
) -> None:
    """Show the brokers' data directories: the space on their disks and the size of their replicas."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        if topic:
            admin.topics.describe(*topic)
        if broker:
            found = [(id_, admin.cluster.log_dirs(id_, timeout=ASIDE_S)) for id_ in broker]
        else:
            found = [(entry.id, _directories(admin, entry.id) or ()) for entry in admin.cluster.describe().brokers]
    items = [_directory(id_, entry, topic or ()) for id_, directories in found for entry in directories]
    if topic and form_for(settings.output, sys.stdout) == "table":
        replicas = [{"broker": item["broker"], **replica} for item in items for replica in item["partitions"]]
        write_table(Listing("", replicas, ("broker", "topic", "partition", "size_bytes")))
        return
    columns = ("broker", "path", "total_bytes", "usable_bytes", "replicas", "size_bytes")
    write(Listing("log-dirs/v1", items, columns, name="path"), settings.output)


def _directory(broker_id: int, directory: LogDirInfo, topics: Collection[str]) -> dict[str, Any]:
    """A data directory with the replicas of `topics` or, for none, of all."""
    replicas = {p: n for p, n in sorted(directory.replica_bytes.items()) if not topics or p.topic in topics}
    return {
        "broker": broker_id,
        "path": directory.path,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "replicas": len(replicas),
        "size_bytes": sum(replicas.values()),
        "partitions": [{"topic": p.topic, "partition": p.partition, "size_bytes": n} for p, n in replicas.items()],
    }


@app.command("controllers", cls=Command)
def controllers(ctx: typer.Context) -> None:
    """Show the active controller. Standby controllers are not registered, so brokers don't know them."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        described = admin.cluster.describe()
    if not described.controller_address:
        hint = "start a controller, or check in its log whether it can reach etcd"
        raise error_from_code(ErrorCode.NOT_CONTROLLER, "the cluster has no active controller", hint=hint)
    item = {
        "id": described.controller_id,
        "address": described.controller_address,
        "epoch": described.controller_epoch,
        "state": "active",
    }
    write(Listing("controllers/v1", [item], ("id", "address", "epoch", "state"), name="id"), settings.output)
    say("standby controllers are not registered, so they are not shown")
