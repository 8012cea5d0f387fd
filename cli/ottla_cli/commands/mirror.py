"""`ottla mirror`: the status of a mirror's flows, the translation of source offsets to the target; pause, fail over,
verify."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ottla_cli.failures import ExitCode
from ottla_cli.lazy import Command
from ottla_cli.options import DryRun
from ottla_cli.output import Item, Listing, write
from ottla_cli.prompts import confirm
from ottla_cli.settings import Form, Settings, profile_config
from ottla_cli.terminal import say

if TYPE_CHECKING:
    from ottla.mirror.client import MirrorClient
    from ottla.mirror.flow_info import FlowInfo, MovedGroups

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Show a mirror's flows, translate offsets, pause flows and fail over.",
)

Address = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        metavar="HOST:PORT",
        help="The gRPC address of one mirror; default: OTTLA_MIRROR, unless -b or --profile is given. Otherwise the "
        "brokers forward to the mirrors that they know. If services have certificates, give one of the role admin by "
        "-X or a profile: security.protocol=SSL, ssl.truststore.location, ssl.keystore.location, ssl.key.location.",
    ),
]
Flow = Annotated[str, typer.Argument(metavar="FLOW", help="The quoted name of a flow, such as 'east->west'.")]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="NAME", help="Only this group; may be repeated.")]
_VERIFIED: tuple[str, ...] = (
    "topic", "partition", "copy", "compared", "missing", "doubled", "reordered", "foreign"
)  # fmt: skip
_MOVED: tuple[str, ...] = ("group", "topic", "partition", "before", "to_topic", "after", "had", "obstacle")
_RATES: tuple[str, ...] = ("flow", "topic", "partition", "lag", "lag_ms", "records_s", "bytes_s", "trouble")
_FLOW: tuple[str, ...] = ("flow", "topic", "partition", "copy", "position", "lag", "lag_ms", "records", "trouble")


@app.command("status", cls=Command)
def status(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="[FLOW]", help="Only this flow, such as 'east->west'.")] = "",
    mirror: Address = None,
) -> None:
    """Show how far each partition has been copied, and how much is left.

    Exits with code 3 if a flow has a problem.
    """
    settings = Settings.of(ctx)
    with _client(settings, mirror) as client:
        flows = [client.flow(flow)] if flow else client.flows()
    write(Listing("mirror-status/v1", _partitions(flows), _FLOW, "topic"), settings.output)
    _end_with([trouble for each in flows for trouble in each.troubles()])


@app.command("watch", cls=Command)
def watch_flows(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="[FLOW]", help="Only this flow, such as 'east->west'.")] = "",
    every: Annotated[str, typer.Option(metavar="DURATION", help="Time between refreshes.")] = "2s",
    times: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="Number of refreshes; default: until Ctrl-C.")
    ] = None,
    mirror: Address = None,
) -> None:
    """Show how much is left to copy and how fast it is copied, refreshed until Ctrl-C. -o json is not supported."""
    from ottla_cli.watching import watch

    settings, former = Settings.of(ctx), dict[object, Copied]()
    with _client(settings, mirror) as client:

        def look(form: Form) -> Callable[[], None]:
            flows = [client.flow(flow)] if flow else client.flows()
            return partial(write, Listing("mirror-watch/v1", _rates(_partitions(flows), former), _RATES, "topic"), form)

        watch(look, settings, every=every, times=times)


class Copied(NamedTuple):
    """How much was copied by the time `at`, in monotonic seconds."""

    at: float
    records: int
    bytes: int


def _rates(partitions: Iterable[Item], former: dict[object, Copied]) -> list[Item]:
    """Add to each partition how fast it was copied since the previous look, which `former` keeps."""
    items: list[Item] = []
    for item in partitions:
        at = (item["flow"], item["topic"], item["partition"])
        now = Copied(time.monotonic(), item["records"], item["bytes"])
        before, former[at] = former.get(at, now), now
        seconds = max(now.at - before.at, 1e-9)
        rates = {
            "records_s": max(0, round((now.records - before.records) / seconds)),
            "bytes_s": max(0, round((now.bytes - before.bytes) / seconds)),
        }
        items.append({**item, **rates})
    return items


@app.command("translate", cls=Command)
def translate(
    ctx: typer.Context,
    flow: Flow,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic in the source.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    offsets: Annotated[
        list[int], typer.Argument(metavar="OFFSET...", help="Offset of the next record to read in the source.")
    ],
    mirror: Address = None,
) -> None:
    """Show the offsets in the target that match these source offsets. A consumer that starts there skips no records."""
    from ottla_core.model import TopicPartition

    settings, items, at = Settings.of(ctx), list[Item](), TopicPartition(topic, partition)
    with _client(settings, mirror) as client:
        for offset in offsets:
            for copy, translated in client.translate(flow, {at: offset}).items():
                items.append(
                    {"source_offset": offset, "copy": copy.topic, "partition": partition, "offset": translated}
                )
    write(
        Listing("mirror-offsets/v1", items, ("source_offset", "copy", "partition", "offset"), "offset"), settings.output
    )


@app.command("pause", cls=Command)
def pause(ctx: typer.Context, flow: Flow, mirror: Address = None) -> None:
    """Pause the flow on all its mirrors until it is resumed."""
    with _client(Settings.of(ctx), mirror) as client:
        client.pause(flow)


@app.command("resume", cls=Command)
def resume(ctx: typer.Context, flow: Flow, mirror: Address = None) -> None:
    """Resume a paused flow where it stopped."""
    with _client(Settings.of(ctx), mirror) as client:
        client.resume(flow)


@app.command("failover", cls=Command)
def failover(
    ctx: typer.Context, flow: Flow, group: Groups = None, dry_run: DryRun = False, mirror: Address = None
) -> None:
    """Pause the flow, and move groups to the target, at the offsets that match their positions in the source.

    If the source can't be reached, groups continue from their last checkpoints.
    """
    with _client(Settings.of(ctx), mirror) as client:
        question = f"Pause {flow} and move these groups to its target?"
        _move(Settings.of(ctx), client.failover, flow, group or [], question, dry_run)


@app.command("failback", cls=Command)
def failback(
    ctx: typer.Context, flow: Flow, group: Groups = None, dry_run: DryRun = False, mirror: Address = None
) -> None:
    """Move groups back to the source, at the offsets that match their positions in the copies, and resume the flow."""
    with _client(Settings.of(ctx), mirror) as client:
        question = f"Move these groups back to the source of {flow} and resume the flow?"
        _move(Settings.of(ctx), client.failback, flow, group or [], question, dry_run)


@app.command("verify", cls=Command)
def verify(
    ctx: typer.Context,
    flow: Flow,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Only this topic in the source; may be repeated."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="FILE", help="Save the progress in this file, and continue from it in the next run."
        ),
    ] = None,
    source_profile: Annotated[
        str | None, typer.Option("--source-profile", metavar="NAME", help="The profile by which to read the source.")
    ] = None,
    target_profile: Annotated[
        str | None, typer.Option("--target-profile", metavar="NAME", help="The profile by which to read the target.")
    ] = None,
    mirror: Address = None,
) -> None:
    """Compare the source and the copy of each partition of a flow, record by record.

    It reads both clusters itself, at the addresses in the mirror's file unless a profile has others.

    Exits with code 3 if a partition differs from its copy.
    """
    settings = Settings.of(ctx)
    source, target = profile_config(source_profile), profile_config(target_profile)
    with _client(settings, mirror) as client:
        checks = client.verify(flow, topic or [], state=state, source=source, target=target)
    items: list[Item] = [
        {
            "topic": check.topic,
            "partition": check.partition,
            "copy": check.copy,
            "compared": check.compared,
            **{fault.value: count for fault, count in check.counts.items()},
        }
        for check in checks
    ]
    write(Listing("mirror-verify/v1", items, _VERIFIED, "topic"), settings.output)
    for check in checks:
        for finding in check.examples:
            where = check.topic if finding.fault.value == "missing" else check.copy
            say(f"{finding.fault.value}: {where}-{check.partition} at offset {finding.offset}")
    if not all(check.is_good for check in checks):
        raise typer.Exit(ExitCode.PARTIAL)


def _move(
    settings: Settings, move: Callable[..., MovedGroups], flow: str, groups: Sequence[str], question: str, dry_run: bool
) -> None:
    """Show the plan, and carry it out once it is confirmed. A dry run only writes the plan."""
    moved = move(flow, groups, dry_run=True)
    if not moved.source_reached:
        say(f"the source of {flow} can't be reached: groups continue from their last checkpoints")
    if not dry_run:
        for group in moved.groups:
            for at in group.positions:
                if not at.obstacle:
                    say(f"{group.group}: from {at.partition} at {at.before} to {at.to} at {at.after}")
        for trouble in moved.troubles():
            say(trouble)
        confirm(question, settings)
        moved = move(flow, groups)
    items: list[Item] = [
        {
            "group": group.group,
            "topic": at.partition.topic,
            "partition": at.partition.partition,
            "before": at.before,
            "to_topic": at.to.topic,
            "after": at.after,
            "had": at.had,
            "obstacle": at.obstacle,
        }
        for group in moved.groups
        for at in group.positions
    ]
    write(Listing("mirror-groups/v1", items, _MOVED, "group"), settings.output)
    _end_with(list(moved.troubles()))


def _end_with(troubles: Sequence[str]) -> None:
    """Print each trouble on a line, and leave with an exit code of its own if there is any."""
    for trouble in troubles:
        say(trouble)
    if troubles:
        raise typer.Exit(ExitCode.PARTIAL)


def _client(settings: Settings, address: str | None) -> MirrorClient:
    from ottla.mirror.client import MirrorClient

    security = settings.security
    if address:
        # The profile may be for brokers, with TLS but without a certificate. A mirror's own port can't use such
        # settings.
        tls = security.tls if security.tls is not None and security.tls.certificate is not None else None
        return MirrorClient(address, request_timeout=settings.timeout, tls=tls, client_id="ottla-cli")
    return MirrorClient(
        bootstrap=settings.addresses,
        request_timeout=settings.timeout,
        login=security.login,
        tls=security.tls,
        client_id="ottla-cli",
    )


def _partitions(flows: Iterable[FlowInfo]) -> Iterator[Item]:
    for flow in flows:
        for p in flow.partitions:
            yield {
                "flow": flow.name,
                "topic": p.topic,
                "partition": p.partition,
                "copy": p.copy,
                "position": p.position,
                "lag": p.lag,
                "lag_ms": None if p.lag_s is None else round(p.lag_s * 1000),
                "records": p.records,
                "bytes": p.bytes,
                "trouble": p.trouble,
            }
