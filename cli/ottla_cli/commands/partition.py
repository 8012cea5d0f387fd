"""`ottla partition`: list partitions with their replicas, and elect their leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.errors import config_error
from ottla_cli.completion import complete_topic
from ottla_cli.connection import open_admin
from ottla_cli.lazy import Command
from ottla_cli.options import AnyTopics, DryRun, Internal, Numbers
from ottla_cli.output import Item, Listing, write
from ottla_cli.partition_status import PartitionStatus, only_numbers, partition_statuses
from ottla_cli.prompts import confirm, report
from ottla_cli.settings import Settings
from ottla_cli.terminal import say

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.partitions import Election
    from ottla.admin.topics import PartitionInfo

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="List partitions with their replicas, and elect leaders."
)


@app.command("ls", cls=Command)
def list_partitions(
    ctx: typer.Context,
    topics: AnyTopics = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with a replica that is not in sync.")
    ] = False,
    under_min_isr: Annotated[
        bool,
        typer.Option("--under-min-isr", help="Only partitions with fewer in-sync replicas than min.insync.replicas."),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", "--unavailable", help="Only partitions without a leader.")
    ] = False,
    leader: Annotated[int | None, typer.Option(metavar="ID", help="Only partitions that this broker leads.")] = None,
    internal: Internal = False,
) -> None:
    """List partitions with their leader, leader epoch, replicas and ISR.

    With several of --under-replicated, --under-min-isr and --offline, list partitions that match any of them.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        found = partition_statuses(admin, admin.topics.describe(*topics or [], internal=internal))
    marks = {"under_replicated": under_replicated, "under_min_isr": under_min_isr, "without_leader": offline}
    marked = [mark for mark, is_set in marks.items() if is_set]
    items = [
        item
        for item in map(_item, found)
        if (not marked or any(item[mark] for mark in marked)) and leader in (None, item["leader"])
    ]
    if not items:
        say("there is no such partition" if found else "there are no partitions yet")
    extra = [name for name in ("elr", "last_known_elr", "offline", "state") if any(item[name] for item in items)]
    columns = ("topic", "partition", "leader", "leader_epoch", "replicas", "isr", *extra)
    write(Listing("partitions/v1", items, columns), settings.output)


def _item(status: PartitionStatus) -> dict[str, object]:
    return {"name": status.name, "topic": status.topic, **status.item()}


@app.command("elect", cls=Command)
def elect(
    ctx: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="All partitions of this topic; may be repeated.",
            autocompletion=complete_topic,
        ),
    ] = None,
    partition: Numbers = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All partitions whose leader is not the preferred one.")
    ] = False,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Elect any live replica of a partition without a leader. LOSES RECORDS.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Elect the preferred leaders of partitions. A partition's preferred leader is the first of its replicas.

    The controller elects preferred leaders every few minutes. After brokers restart, use this command to elect them
    immediately.

    --unclean is the last resort for partitions whose in-sync replicas are permanently lost: a replica that lacks
    acknowledged records becomes the leader, and those records are lost.
    """
    settings = Settings.of(ctx)
    if bool(topics) == everything:
        raise config_error("exactly one of --topic and --all is needed", hint="pass --topic or --all")
    with open_admin(settings) as admin:
        chosen = _chosen(admin, topics or [], partition or [])
        needed = [status for status in chosen if _needs_election(status.info, unclean=unclean)]
        if dry_run or unclean:
            _show_plan(needed, unclean=unclean)
            if dry_run or not needed:
                return
        if unclean:
            confirm("Records that only the missing replicas have are permanently lost. Elect?", settings)
            chosen = needed  # a partition that loses its leader only now was not confirmed
        named = None if everything and not unclean else [(s.topic, s.info.partition) for s in chosen]
        elections = admin.partitions.elect_leaders(named, unclean=unclean)
    _report_elections(elections, settings)


def _report_elections(elections: Sequence[Election], settings: Settings) -> None:
    if not elections:
        say("every partition has its preferred leader")
    done = [_show_election(election) for election in elections if election.error is None or not election.was_needed]
    failed = [election.error for election in elections if election.error is not None and election.was_needed]
    report("elections/v1", done, failed, settings)


def _chosen(admin: Admin, topics: Sequence[str], numbers: Sequence[int]) -> list[PartitionStatus]:
    described = admin.topics.describe(*topics, internal=True)
    return only_numbers(
        (PartitionStatus(topic.name, p) for topic in described for p in topic.partitions), topics, numbers
    )


def _needs_election(info: PartitionInfo, *, unclean: bool) -> bool:
    return info.is_leaderless if unclean else info.leader != info.replicas[0]


def _show_plan(needed: Sequence[PartitionStatus], *, unclean: bool) -> None:
    if not needed:
        say("nothing to elect: every partition has a leader" if unclean else "every partition has its preferred leader")
    for status in needed:
        info = status.info
        if unclean:
            online = [broker for broker in info.replicas if broker not in info.offline]
            last = info.isr or info.elr or info.last_known_elr
            say(f"{status.name}: no leader; last in sync: {_ids(last)}; online now: {_ids(online)}")
        else:
            say(f"{status.name}: broker {info.replicas[0]} instead of {info.leader if info.leader >= 0 else 'none'}")


def _show_election(election: Election) -> Item:
    """Report a successful election as a message, and return it as data."""
    name = f"{election.topic}-{election.partition}"
    if election.error is None:
        say(f"{name}: broker {election.leader} is now the leader")
    else:
        say(f"{election.error.message}: nothing to do")
    return {
        "name": name,
        "topic": election.topic,
        "partition": election.partition,
        "leader": None if election.error else election.leader,
        "action": "none" if election.error else "elected",
    }


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
