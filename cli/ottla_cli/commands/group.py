"""`ottla group`: list and show consumer groups, explain their rebalances; reset, kick and remove."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.errors import config_error
from ottla_cli.completion import complete_group, complete_topic
from ottla_cli.connection import open_admin
from ottla_cli.failures import ExitCode
from ottla_cli.group_lag import KIND, lag_item, show_lag
from ottla_cli.group_reset import RESET_COLUMNS, report_clamped, reset_item, reset_target
from ottla_cli.group_timeline import event_item, timeline
from ottla_cli.lazy import Command
from ottla_cli.options import DryRun, Numbers
from ottla_cli.output import Item, Listing, form_for, write
from ottla_cli.prompts import apply_to, confirm, report
from ottla_cli.settings import Form, Settings
from ottla_cli.terminal import put, say
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.group_info import GroupInfo

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List, show, reset and remove consumer groups, explain their rebalances, and kick members.",
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.", autocompletion=complete_group)]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP...", help="Ids of groups.", autocompletion=complete_group)]
OfTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC", help="Only this topic; may be repeated.", autocompletion=complete_topic
    ),
]


@app.command("ls", cls=Command)
def list_groups(
    ctx: typer.Context,
    pattern: Annotated[
        str, typer.Argument(metavar="[PATTERN]", help="Only names that match this pattern, such as 'bill*'.")
    ] = "*",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only groups in this state: Stable, Empty, …; may be repeated."),
    ] = None,
) -> None:
    """List the groups with their types, states, member counts and coordinators."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        groups = [group for group in admin.groups.list(states=state or ()) if fnmatchcase(group.name, pattern)]
    if not groups:
        say("there is no such group" if state or pattern != "*" else "there are no groups yet")
    items = [asdict(g) for g in groups]
    write(
        Listing("groups/v1", items, ("name", "type", "state", "members", "protocol_type", "coordinator")),
        settings.output,
    )


@app.command("show", cls=Command)
def show(ctx: typer.Context, names: Groups) -> None:
    """Show the lag of groups, in records and in seconds. Lag in seconds is the age of the oldest unread record."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        items = [lag_item(admin, name) for name in names]
    if form_for(settings.output, sys.stdout) == "table":
        for item in items:
            show_lag(item)
    else:
        write(Listing(KIND, items), settings.output)
    if any(partition["error"] for item in items for partition in item["partitions"]):
        raise typer.Exit(ExitCode.PARTIAL)


@app.command("watch", cls=Command)
def watch_group(
    ctx: typer.Context,
    name: Group,
    every: Annotated[str, typer.Option(metavar="DURATION", help="Time between refreshes.")] = "2s",
    times: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="Number of refreshes; default: until Ctrl-C.")
    ] = None,
) -> None:
    """Show a group's lag, refreshed until Ctrl-C. -o json is not supported, because its output would never end."""
    from ottla_cli.watching import watch

    settings = Settings.of(ctx)
    with open_admin(settings) as admin:

        def look(form: Form) -> Callable[[], None]:
            item = {"at_ms": time.time_ns() // 1_000_000, **lag_item(admin, name)}
            return partial(show_lag, item) if form == "table" else partial(write, Listing(KIND, [item]), form)

        watch(look, settings, every=every, times=times)


@app.command("members", cls=Command)
def members(ctx: typer.Context, name: Group) -> None:
    """Show a group's members with their names, hosts and assigned partitions.

    In a consumer group, also show the epoch and state of each member, and who keeps partitions that others wait for.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        group = admin.groups.describe(name)
    if not group.members:
        say(f"group {name} is {group.state}: it has no members")
    elif group.type == "consumer":
        say(f"group {name} is {group.state} at epoch {group.generation}, assigned by {group.assignor}")
    items = [
        {
            "name": member.name,
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "leader": member.member_id == group.leader,
            "topics": list(member.topics),
            "partitions": [str(partition) for partition in member.partitions],
            "session_timeout_s": member.session_timeout,
            "rebalance_timeout_s": member.rebalance_timeout,
            "protocol": member.protocol,
            "epoch": member.epoch,
            "state": member.state,
            "target": [str(partition) for partition in member.target],
            "revoking": [str(partition) for partition in member.revoking],
            "topic_regex": member.topic_regex,
            "rack": member.rack,
        }
        for member in group.members
    ]
    progress = ("epoch", "state") if group.type == "consumer" else ("leader",)
    write(Listing("group-members/v1", items, ("name", "client_id", "host", *progress, "partitions")), settings.output)
    _report_held(group)


@app.command("explain", cls=Command)
def explain(ctx: typer.Context, name: Group) -> None:
    """Show what has happened to a group and why: every join, leave, eviction and rebalance."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        events, group = admin.groups.explain(name), admin.groups.describe(name)
    if group.coordinator >= 0:  # Kafka's protocol does not report it
        say(f"group {name} is in shard {group.shard}, which coordinator {group.coordinator} owns")
    if not events:
        say(f"nothing has happened to group {name} since its coordinator took over")
    if form_for(settings.output, sys.stdout) != "table":
        write(Listing("group-events/v1", map(event_item, events), name="kind"), settings.output)
    elif events:
        for line in timeline(events):
            put(line)
    _report_held(group)


def _report_held(group: GroupInfo) -> None:
    """Say which members keep partitions that others are to have."""
    for held in group.held_up:
        say(f"{held.holder} still has {', '.join(map(str, held.partitions))}, for which {held.waiting} waits")


@app.command("reset", cls=Command)
def reset(
    ctx: typer.Context,
    name: Group,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="New position: start, end, an offset such as 42, or a time such as @2026-11-01T10:00 or @-1h.",
        ),
    ] = None,
    shift: Annotated[
        int | None, typer.Option(metavar="N", help="Number of records to skip; -100 reads the last 100 records again.")
    ] = None,
    topic: OfTopics = None,
    partition: Numbers = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the group with these offsets if it does not exist.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Move the offsets; by default, they are only shown.")
    ] = False,
) -> None:
    """Move a group's committed offsets. By default, only show the new offsets; --execute moves them.

    The group must have no members, because members would continue from their current positions. An offset outside the
    partition's log is moved to the nearest end of the log.
    """
    settings = Settings.of(ctx)
    if (to is None) == (shift is None):
        raise config_error("exactly one of --to and --shift is needed", hint="pass --to or --shift")
    with open_admin(settings) as admin:
        resets = admin.groups.reset(
            name,
            to=None if to is None else reset_target(to),
            shift=shift,
            topics=() if partition else topic or (),
            partitions=_numbered(topic, partition),
            if_missing="ok" if create else "error",
            dry_run=not execute,
        )
    action = "reset" if execute else "none"
    items = [reset_item(planned_item, action) for planned_item in resets]
    write(Listing("group-reset/v1", items, RESET_COLUMNS), settings.output)
    report_clamped(resets)
    say(
        f"reset {counted(len(resets), 'offset')} of {name}"
        if execute
        else "nothing was changed: add --execute to move the offsets"
    )


@app.command("rm", cls=Command)
def remove(
    ctx: typer.Context,
    names: Groups,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore groups that do not exist.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete groups with all their committed offsets. The groups must have no members."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        existing = [name for name in names if admin.groups.exists(name)] if if_exists else names
        planned, rejected = apply_to(existing, partial(_plan_removal, admin))
        if not existing:
            say("there is nothing to delete")
        if planned and not dry_run:
            plural = f"these {len(planned)} groups" if len(planned) > 1 else "this group"
            confirm(f"Permanently delete {plural} with all offsets?", settings)
        done, failed = apply_to((item["name"] for item in planned), partial(_remove, admin, dry_run=dry_run))
    report("group-changes/v1", done, [*rejected, *failed], settings)


def _plan_removal(admin: Admin, name: str) -> Item:
    from ottla.admin.groups import non_empty

    members = admin.groups.describe(name).members
    if members:
        raise non_empty(name, members, "deleted")
    committed = admin.groups.committed(name)
    topics = sorted({partition.topic for partition in committed})
    say(f"{name}: {counted(len(committed), 'offset')}{' of ' + ', '.join(topics) if topics else ''}")
    return {"name": name}


def _remove(admin: Admin, name: str, *, dry_run: bool) -> Item:
    if dry_run:
        return {"name": name, "action": "none"}
    admin.groups.delete(name)
    say(f"deleted {name}")
    return {"name": name, "action": "deleted"}


@app.command("rm-offsets", cls=Command)
def remove_offsets(
    ctx: typer.Context, name: Group, topic: OfTopics = None, partition: Numbers = None, dry_run: DryRun = False
) -> None:
    """Delete a group's committed offsets in topics that it no longer reads."""
    settings = Settings.of(ctx)
    if not topic:
        raise config_error("--topic is missing", hint="pass --topic, or remove the whole group with `ottla group rm`")
    chosen = _numbered(topic, partition)
    with open_admin(settings) as admin:
        committed = admin.groups.committed(name)
        planned = [p for p in sorted(committed) if (p in chosen if chosen else p.topic in topic)]
        for planned_item in planned:
            say(f"{planned_item}: {committed[planned_item]}")
        if not planned:
            say(f"group {name} has no committed offsets to delete")
        elif not dry_run:
            confirm(f"Permanently delete {'these offsets' if len(planned) > 1 else 'this offset'}?", settings)
            admin.groups.delete_offsets(name, partitions=planned)
            say(f"deleted {counted(len(planned), 'offset')} of {name}")
    action = "none" if dry_run else "deleted"
    done: list[Item] = [{"name": str(p), "topic": p.topic, "partition": p.partition, "action": action} for p in planned]
    report("group-offset-changes/v1", done, [], settings)


@app.command("kick", cls=Command)
def kick(
    ctx: typer.Context,
    name: Group,
    members: Annotated[
        list[str], typer.Argument(metavar="MEMBER...", help="Member ids or instance ids, from `ottla group members`.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason to show in `ottla group explain`.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Remove members from a group; the remaining members take over their partitions.

    A member that is still running rejoins automatically. Use this command for a member that hangs, or for a static
    member that will not come back.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        planned, rejected = apply_to(members, partial(_plan_kick, admin, name))
        if planned and not dry_run:
            confirm(f"Remove {'these members' if len(planned) > 1 else 'this member'}?", settings)
        kicking = partial(_kick, admin, name, reason, dry_run=dry_run)
        done, failed = apply_to((item["member_id"] for item in planned), kicking)
    report("group-member-changes/v1", done, [*rejected, *failed], settings)


def _plan_kick(admin: Admin, group: str, member: str) -> Item:
    from ottla.admin.groups import member_in

    found = member_in(admin.groups.describe(group), member)
    reads = ", ".join(map(str, found.partitions)) or "nothing"
    say(f"{found.name}{f' at {found.host}' if found.host else ''}: reads {reads}")
    return {"member_id": found.member_id}


def _kick(admin: Admin, group: str, reason: str, member_id: str, *, dry_run: bool) -> Item:
    if not dry_run:
        found = admin.groups.kick(group, member_id, reason=reason)
        say(f"removed {found.name}")
    return {"name": member_id, "group": group, "action": "none" if dry_run else "removed"}


def _numbered(topics: list[str] | None, numbers: list[int] | None) -> list[tuple[str, int]]:
    """Return the partitions that --partition names, [] if none. Raises ConfigError."""
    if not numbers:
        return []
    if not topics or len(topics) != 1:
        raise config_error("--partition needs exactly one topic", hint="pass --topic exactly once")
    return [(topics[0], number) for number in dict.fromkeys(numbers)]
