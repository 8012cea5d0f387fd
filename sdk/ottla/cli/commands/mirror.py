"""`ottla mirror`: how it is with a mirror's flows, where offsets of the source are in the target; pause,
failover, verify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from google.protobuf.message import Message

from ottla.cli.failures import ExitCode, say
from ottla.cli.lazy import Command
from ottla.cli.output import Item, Listing, write
from ottla.cli.settings import Settings
from ottla_proto import mirror_pb2 as pb
from ottla_proto.contracts import Method, Mirror

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Show a mirror's flows, translate offsets, pause, fail over."
)

Address = Annotated[
    str, typer.Option("--mirror", metavar="HOST:PORT", envvar="OTTLA_MIRROR", help="The gRPC address of a mirror.")
]
Flow = Annotated[str, typer.Argument(metavar="FLOW", help="Such as east->west.")]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="NAME", help="Only this one; may be repeated.")]
_ADDRESS = "localhost:9680"
_VERIFIED: tuple[str, ...] = (
    "topic", "partition", "copy", "compared", "missing", "doubled", "reordered", "foreign"
)  # fmt: skip
_MOVED: tuple[str, ...] = ("group", "topic", "partition", "before", "to_topic", "after")
_FLOW: tuple[str, ...] = ("flow", "topic", "partition", "copy", "position", "lag", "lag_ms", "records", "trouble")


@app.command("status", cls=Command)
def status(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="[FLOW]", help="Only this one, such as east->west.")] = "",
    mirror: Address = _ADDRESS,
) -> None:
    """Show each partition that this mirror copies: how far, how much is left. Exits with 3 where there is trouble."""
    settings = Settings.of(ctx)
    request = pb.MirrorStatusRequest(flow=flow)
    flows = list(_call(settings, mirror, Mirror.MIRROR_STATUS, request).flows)
    write(Listing("mirror-status/v1", _partitions(flows), _FLOW, "topic"), settings.output)
    troubles = list(_troubles(flows))
    for trouble in troubles:
        say(trouble)
    if troubles:
        raise typer.Exit(ExitCode.PARTIAL)


@app.command("translate", cls=Command)
def translate(
    ctx: typer.Context,
    flow: Flow,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic of the source.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    offsets: Annotated[list[int], typer.Argument(metavar="OFFSET...", help="Of the next record to read.")],
    mirror: Address = _ADDRESS,
) -> None:
    """Show where readers at these offsets of the source go on in the target: never behind a record that they lack."""
    from ottla.admin.topics import raise_in_band

    settings = Settings.of(ctx)
    at = [pb.SourceOffset(topic=topic, partition=partition, offset=offset) for offset in offsets]
    request = pb.TranslateOffsetsRequest(flow=flow, offsets=at)
    found = _call(settings, mirror, Mirror.TRANSLATE_OFFSETS, request).offsets
    for translated in found:
        raise_in_band(translated.error)
    items: list[Item] = [
        {"source_offset": offset, "copy": t.copy, "partition": t.partition, "offset": t.offset}
        for offset, t in zip(offsets, found, strict=True)
    ]
    write(
        Listing("mirror-offsets/v1", items, ("source_offset", "copy", "partition", "offset"), "offset"), settings.output
    )


@app.command("pause", cls=Command)
def pause(ctx: typer.Context, flow: Flow, mirror: Address = _ADDRESS) -> None:
    """Have all mirrors of the flow stop copying, until it is resumed."""
    _call(Settings.of(ctx), mirror, Mirror.PAUSE_FLOW, pb.PauseFlowRequest(flow=flow, paused=True))


@app.command("resume", cls=Command)
def resume(ctx: typer.Context, flow: Flow, mirror: Address = _ADDRESS) -> None:
    """Have them go on where they stopped."""
    _call(Settings.of(ctx), mirror, Mirror.PAUSE_FLOW, pb.PauseFlowRequest(flow=flow))


@app.command("failover", cls=Command)
def failover(ctx: typer.Context, flow: Flow, group: Groups = None, mirror: Address = _ADDRESS) -> None:
    """Pause the flow, and let groups go on in the target where they are in the source, or were as far as is known."""
    request = pb.MoveGroupsRequest(flow=flow, groups=group or [])
    response = _call(Settings.of(ctx), mirror, Mirror.FAILOVER, request)
    if not response.source_reached:
        say(f"the source of {flow} is away: groups go on by their last checkpoints")
    _write_moved(Settings.of(ctx), response)


@app.command("failback", cls=Command)
def failback(ctx: typer.Context, flow: Flow, group: Groups = None, mirror: Address = _ADDRESS) -> None:
    """Let groups go on in the source where they are in the copies, and the flow with them."""
    request = pb.MoveGroupsRequest(flow=flow, groups=group or [])
    _write_moved(Settings.of(ctx), _call(Settings.of(ctx), mirror, Mirror.FAILBACK, request))


@app.command("verify", cls=Command)
def verify(
    ctx: typer.Context,
    flow: Flow,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="Of the source; may be repeated.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Remember how far it came, and go on there.")
    ] = None,
    mirror: Address = _ADDRESS,
) -> None:
    """Compare each partition that this mirror copies with its copy, record by record. Exits with 3 if they differ."""
    from ottla.cli.copies import Copied, VerifiedUpTo
    from ottla.cli.copies import verify as verify_copy

    settings, known = Settings.of(ctx), VerifiedUpTo(state)
    (status,) = _call(settings, mirror, Mirror.MIRROR_STATUS, pb.MirrorStatusRequest(flow=flow)).flows
    source, target = list(status.source_bootstrap), list(status.target_bootstrap)
    copied = [
        Copied(p.topic, p.partition, p.copy, p.position)
        for p in sorted(status.partitions, key=lambda p: (p.topic, p.partition))
        if p.HasField("position") and (not topic or p.topic in topic)
    ]
    results = [verify_copy(source, target, each, known) for each in copied]
    items: list[Item] = [
        {
            "topic": result.copied.topic,
            "partition": result.copied.partition,
            "copy": result.copied.copy,
            "compared": result.compared,
            **{fault.value: count for fault, count in result.counts.items()},
        }
        for result in results
    ]
    write(Listing("mirror-verify/v1", items, _VERIFIED, "topic"), settings.output)
    for result in results:
        for finding in result.examples:
            where = result.copied.topic if finding.fault.value == "missing" else result.copied.copy
            say(f"{finding.fault.value}: {where}-{result.copied.partition} at offset {finding.offset}")
    if not all(result.is_good for result in results):
        raise typer.Exit(ExitCode.PARTIAL)


def _write_moved(settings: Settings, response: pb.MoveGroupsResponse) -> None:
    items: list[Item] = [
        {
            "group": group.group,
            "topic": position.topic,
            "partition": position.partition,
            "before": position.before,
            "to_topic": position.to_topic,
            "after": position.after,
        }
        for group in response.groups
        for position in group.positions
    ]
    write(Listing("mirror-groups/v1", items, _MOVED, "group"), settings.output)
    troubles = [
        f"{group.group} stays where it is: {group.error.message}" for group in response.groups if group.error.code
    ]
    for trouble in troubles:
        say(trouble)
    if troubles:
        raise typer.Exit(ExitCode.PARTIAL)


def _call(settings: Settings, address: str, method: Method[Request, Response], request: Request) -> Response:
    from ottla.admin.topics import raise_in_band
    from ottla.client.cluster import ClusterClient
    from ottla.client.transport import grpc_transport

    client = ClusterClient([address], grpc_transport("ottla-cli"))
    try:
        response = client.call(address, method, request, timeout=settings.timeout)
    finally:
        client.close()
    raise_in_band(response.error)  # type: ignore[attr-defined]  # every response has one
    return response


def _partitions(flows: Sequence[pb.FlowStatus]) -> Iterator[Item]:
    for flow in flows:
        for p in flow.partitions:
            yield {
                "flow": flow.name,
                "topic": p.topic,
                "partition": p.partition,
                "copy": p.copy,
                "position": p.position if p.HasField("position") else None,
                "lag": p.lag if p.HasField("lag") else None,
                "lag_ms": p.lag_ms if p.HasField("lag_ms") else None,
                "records": p.records,
                "bytes": p.bytes,
                "trouble": p.trouble,
            }


def _troubles(flows: Sequence[pb.FlowStatus]) -> Iterator[str]:
    for flow in flows:
        if flow.paused:
            yield f"{flow.name} is paused; go on with: ottla mirror resume '{flow.name}'"
        if flow.trouble:
            yield f"{flow.name} is in trouble: {flow.trouble}"
        for partition in flow.partitions:
            if partition.trouble:
                yield f"{flow.name}: {partition.topic}-{partition.partition} is not copied: {partition.trouble}"
        for topic in flow.topics:
            yield f"{flow.name}: {topic.copy}: {topic.trouble}"
        for group in flow.groups:
            yield f"{flow.name}: {group.group} has not its offsets in the target: {group.trouble}"
