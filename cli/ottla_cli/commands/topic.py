"""`ottla topic`: list, show, create, remove and alter topics."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.errors import TopicExistsError, UnknownTopicError, config_error
from ottla_cli.connection import ASIDE_S, open_admin, or_nothing
from ottla_cli.extents import Extent, check_reached, look_up
from ottla_cli.growth import PartitionAge, growth
from ottla_cli.lazy import Command
from ottla_cli.offsets import parse_position
from ottla_cli.options import DryRun, Internal, Numbers, Topic, Topics
from ottla_cli.output import Item, Listing, form_for, write, write_table
from ottla_cli.partition_status import MIN_ISR, PartitionStatus
from ottla_cli.prompts import apply_to, confirm, report
from ottla_cli.settings import Settings, pairs
from ottla_cli.terminal import put, say
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.topics import TopicInfo

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="List, show, create, remove and alter topics.")

OF_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG"

Partitions = Annotated[
    int | None,
    typer.Option("--partitions", "-p", min=1, metavar="N", help="Number of partitions; default: num.partitions."),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas", "-r", min=1, metavar="N", help="Replicas per partition; default: default.replication.factor."
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A config, such as retention.ms=7d; may be repeated."),
]


@app.command("ls", cls=Command)
def list_topics(
    ctx: typer.Context,
    pattern: Annotated[
        str, typer.Argument(metavar="[PATTERN]", help="Only names that match this pattern, such as 'order*'.")
    ] = "*",
    internal: Internal = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only topics with a replica that is not in sync.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only topics with a partition that has no leader.")
    ] = False,
) -> None:
    """List the topics. With both --under-replicated and --offline, list topics that match either of them."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        topics = admin.topics.describe(internal=internal)
    offset = [word for word, on in (("under_replicated", under_replicated), ("without_leader", offline)) if on]
    items = [_summary(topic) for topic in topics if fnmatchcase(topic.name, pattern)]
    items = [item for item in items if not offset or any(item[word] for word in offset)]
    if not items:
        say("there is no such topic" if topics else "there are no topics yet; create one with `ottla topic create`")
    troubles = [name for name in ("without_leader", "under_replicated") if any(item[name] for item in items)]
    write(Listing("topics/v1", items, ("name", "partitions", "replicas", *troubles)), settings.output)


@app.command("show", cls=Command)
def show(ctx: typer.Context, names: Topics) -> None:
    """Show topics with their partitions, leaders, replicas, offsets, configs and growth."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        items = [_details(admin, topic) for topic in admin.topics.describe(*names)]
    if form_for(settings.output, sys.stdout) != "table":
        write(Listing("topic-details/v1", items), settings.output)
        return
    for item in items:
        extra = [name for name in ("offline", "state") if any(partition[name] for partition in item["partitions"])]
        columns = ("partition", "leader", "replicas", "isr", "start", "end", *extra)
        put(f"{item['name']}  id {item['id']}")
        for name, value in (item["configs"] or {}).items():
            put(f"  {name}={value}")
        if item["growth"]:
            put(f"  {item['growth']['text']}")
        write_table(Listing("", item["partitions"], columns), indent=2)


@app.command("create", cls=Command)
def create(
    ctx: typer.Context,
    names: Topics,
    partitions: Partitions = None,
    replicas: Replicas = None,
    config: Configs = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Ignore topics that already exist.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Create topics."""
    settings = Settings.of(ctx)
    configs = pairs(config or [], "-c")
    with open_admin(settings) as admin:
        make = partial(admin.topics.create, partitions=partitions, replicas=replicas, config=configs, dry_run=dry_run)
        done, failed = apply_to(names, lambda name: _create(make, name, if_not_exists=if_not_exists))
    report("topic-changes/v1", done, failed, settings)


def _create(make: Callable[[str], TopicInfo | None], name: str, *, if_not_exists: bool) -> Item:
    try:
        topic = make(name)
    except TopicExistsError as error:
        if not if_not_exists:
            hint = "use --if-not-exists to keep the existing topic"
            raise TopicExistsError(error.code, f"the topic {name} already exists", hint=hint) from None
        say(f"{name} already exists")
        return {"name": name, "action": "none"}
    if topic is None:
        say(f"would create {name}")
        return {"name": name, "action": "none"}
    say(f"created {name}: {counted(len(topic.partitions), 'partition')}, {counted(topic.replicas, 'replica')}")
    return {**_summary(topic), "action": "created"}


@app.command("rm", cls=Command)
def remove(
    ctx: typer.Context,
    names: Topics,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete topics and all their records."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        existing = [name for name in names if admin.topics.exists(name)] if if_exists else names
        topics = _described(admin, existing)
        for topic in topics:
            say(f"{topic.name}: {counted(len(topic.partitions), 'partition')}, {_records(admin, topic)}")
        if not topics:
            say("there is nothing to delete")
        elif not dry_run:
            these = "this topic" if len(topics) == 1 else f"these {len(topics)} topics"
            confirm(f"Permanently delete {these}?", settings)
        done, failed = apply_to(existing, lambda name: _remove(admin, name, dry_run=dry_run))
    report("topic-changes/v1", done, failed, settings)


def _described(admin: Admin, names: list[str]) -> Sequence[TopicInfo]:
    """Describe the topics to delete. Raises UnknownTopicError, with a hint that does not advise to create one."""
    try:
        return admin.topics.describe(*names) if names else []
    except UnknownTopicError as error:
        near = (
            error.hint if error.hint.startswith("did you mean") else "with --if-exists, a missing topic is not an error"
        )
        raise UnknownTopicError(error.code, error.message, hint=near) from None


def _remove(admin: Admin, name: str, *, dry_run: bool) -> Item:
    if dry_run:
        return {"name": name, "action": "none"}
    admin.topics.delete(name)
    say(f"deleted {name}")
    return {"name": name, "action": "deleted"}


@app.command("alter", cls=Command)
def alter(
    ctx: typer.Context,
    name: Topic,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", help="New total number of partitions, which can only grow."
        ),
    ] = None,
    config: Configs = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="A config to unset; may be repeated.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add partitions to a topic, and set or unset its configs.

    A record with a key goes to partition murmur2(key) modulo the number of partitions. After partitions are added, a
    key's new records may go to a different partition than its old ones, and may then be read before them.
    """
    settings = Settings.of(ctx)
    alteration = Alteration(name, partitions, pairs(config or [], "-c"), tuple(unset or ()))
    if partitions is None and not config and not unset:
        raise config_error("no change is requested", hint="pass -p, -c or --unset")
    with open_admin(settings) as admin:
        (topic,) = admin.topics.describe(name)
        warning = alteration.perform(admin, dry_run=True)
        alteration.report_change(topic, warning)
        if not dry_run:
            if partitions:
                confirm("Add the partitions?", settings)
            alteration.perform(admin, dry_run=False)
            (topic,) = admin.topics.describe(name)
            say(f"altered {name}")
    action = "none" if dry_run else "altered"
    report("topic-changes/v1", [{**_summary(topic), "action": action}], [], settings)


@dataclass(frozen=True, slots=True)
class Alteration:
    """What `ottla topic alter` changes; all of it is checked before any of it is done."""

    name: str
    partitions: int | None
    configs: Mapping[str, str]
    unset: tuple[str, ...]

    def perform(self, admin: Admin, *, dry_run: bool) -> str:
        """Do it, or only check it; return a warning for those who send records with keys."""
        warning = admin.topics.add_partitions(self.name, self.partitions, dry_run=dry_run) if self.partitions else ""
        if self.configs:
            admin.configs.set(self.configs, topic=self.name, dry_run=dry_run)
        if self.unset:
            admin.configs.unset(*self.unset, topic=self.name, dry_run=dry_run)
        return warning

    def report_change(self, topic: TopicInfo, warning: str) -> None:
        if self.partitions:
            before = len(topic.partitions)
            say(f"{self.name}: {before} -> {self.partitions} partitions, which can't be undone")
            say(f"warning: {warning}")
        for name, value in self.configs.items():
            say(f"{self.name}: {name}={value}")
        for name in self.unset:
            say(f"{self.name}: {name} unset")


@app.command("offsets", cls=Command)
def offsets(
    ctx: typer.Context,
    name: Topic,
    partition: Numbers = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Also show the offset at this position, as in `ottla consume --from`: @-1h, -100."
        ),
    ] = None,
) -> None:
    """Show the start and end offsets of a topic's partitions, and the offsets at a time or another position."""
    settings = Settings.of(ctx)
    position = parse_position(at, "--at", now_ms=time.time_ns() // 1_000_000) if at else None
    with open_admin(settings) as admin:
        extents = look_up(admin, name, [position] if position else [], partition or [])
    columns = ("partition", "start", "end", "records", *(["at"] if position else []))
    items = [
        {"partition": number, **_extent(extent), **({"at": extent.offsets[0]} if position else {})}
        for number, extent in extents.items()
    ]
    write(Listing("offsets/v1", items, columns, name="partition"), settings.output)


@app.command("delete-records", cls=Command)
def delete_records(
    ctx: typer.Context,
    name: Topic,
    before: Annotated[
        str,
        typer.Option(metavar="PLACE", help="The first record to keep, as in `ottla consume --from`: @-7d, 500, end."),
    ],
    partition: Numbers = None,
    dry_run: DryRun = False,
) -> None:
    """Delete the records before a position in each partition of a topic. The remaining records keep their offsets.

    \b
      ottla topic delete-records orders --before @-7d
      ottla topic delete-records orders --before 500 -p 0
    """
    settings = Settings.of(ctx)
    position = parse_position(before, "--before", now_ms=time.time_ns() // 1_000_000)
    with open_admin(settings) as admin:
        extents = look_up(admin, name, [position], partition or [])
        check_reached("--before", name, position, extents)
        cuts = {number: extent.offsets[0] for number, extent in extents.items() if extent.offsets[0] > extent.start}
        for number, cut in cuts.items():
            start = extents[number].start
            say(f"{name}-{number}: {counted(cut - start, 'record')}, offsets {start} to {cut - 1}")
        if not cuts:
            say("there is nothing to delete")
        elif not dry_run:
            confirm("Permanently delete these records?", settings)
            cuts = admin.topics.delete_records(name, cuts)
            say(f"deleted; {name} keeps the rest")
    action = "none" if dry_run else "deleted"
    done: list[Item] = [
        {"name": f"{name}-{number}", "topic": name, "partition": number, "start": cut, "action": action}
        for number, cut in cuts.items()
    ]
    report("records-deleted/v1", done, [], settings)


def _summary(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": topic.id,
        "partitions": len(topic.partitions),
        "replicas": topic.replicas,
        "internal": topic.is_internal,
        "without_leader": sum(p.is_leaderless for p in topic.partitions),
        "under_replicated": sum(p.is_under_replicated for p in topic.partitions),
    }


def _details(admin: Admin, topic: TopicInfo) -> dict[str, Any]:
    """Return what is known of a topic; offsets and configs are None while the brokers that have them are away."""
    extents = or_nothing(lambda: look_up(admin, topic.name, timeout=ASIDE_S)) or {}
    configs = or_nothing(lambda: admin.configs.get(topic=topic.name, timeout=ASIDE_S))
    min_isr = int(configs[MIN_ISR].value) if configs and MIN_ISR in configs else None
    partitions = [
        {**PartitionStatus(topic.name, p, min_isr).item(), **_extent(extents.get(p.partition))}
        for p in topic.partitions
    ]
    own = {name: entry.value for name, entry in (configs or {}).items() if entry.source == OF_TOPIC}
    known = None if configs is None else own
    values = {name: entry.value for name, entry in (configs or {}).items() if entry.value is not None}
    grows = or_nothing(lambda: _growth(admin, topic, values)) if configs else None
    return {**_summary(topic), "partitions": partitions, "configs": known, "growth": grows}


def _growth(admin: Admin, topic: TopicInfo, configs: Mapping[str, str]) -> dict[str, Any] | None:
    """As the leaders report it; None for a topic without records."""
    first_ms = admin.topics.first_timestamps(topic.name, timeout=ASIDE_S)
    leaders = {partition.partition: partition.leader for partition in topic.partitions}
    led = dict.fromkeys(leader for number, leader in leaders.items() if number in first_ms)
    sizes = {
        p.partition: PartitionAge(size_bytes, first_ms[p.partition])
        for broker in led
        for directory in admin.cluster.log_dirs(broker, timeout=ASIDE_S)
        for p, size_bytes in directory.replica_bytes.items()
        if p.topic == topic.name and leaders.get(p.partition) == broker and p.partition in first_ms
    }
    now_ms = int(time.time() * 1000)
    found = growth(list(sizes.values()), configs, now_ms)
    return None if found is None else found.item(now_ms)


def _extent(extent: Extent | None) -> dict[str, int | None]:
    if extent is None:
        return {"start": None, "end": None, "records": None}
    return {"start": extent.start, "end": extent.end, "records": extent.records}


def _records(admin: Admin, topic: TopicInfo) -> str:
    extents = or_nothing(lambda: look_up(admin, topic.name, timeout=ASIDE_S))
    if extents is None:
        return "an unknown number of records"
    return counted(sum(extent.records for extent in extents.values()), "record")
