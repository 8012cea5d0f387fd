"""How the command line is put together: commands are known by name, and imported when called.

Shared options may come before or after the command: `ottla -o json topic ls` and `ottla topic ls -o json` are the same.
Everything that has to know how Typer builds commands is in here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ottla.errors import FatalError
from ottla_cli.failures import fail
from ottla_cli.settings import Settings
from ottla_core.errors import ErrorCode

ENTRY_POINTS: Final = "ottla.commands"
SERVER_MODULES: Final = ("cryptography", "grpc_health", "prometheus_client")
"""What the services import and the SDK does not: if these are there, so is the extra."""

MODULES: Final[Mapping[str, tuple[str, str]]] = {
    "topic": ("ottla_cli.commands.topic", "List, show, create, remove and alter topics."),
    "produce": ("ottla_cli.commands.produce", "Write the lines of a file, or of standard input, to a topic."),
    "consume": ("ottla_cli.commands.consume", "Read the records of a topic."),
    "config": ("ottla_cli.commands.config", "Get, set and explain the configs of topics, brokers and the cluster."),
    "partition": ("ottla_cli.commands.partition", "List partitions with their replicas, and elect leaders."),
    "group": (
        "ottla_cli.commands.group",
        "Show, reset and remove consumer groups, explain their rebalances, and kick members.",
    ),
    "txn": (
        "ottla_cli.commands.txn",
        "Show and abort transactions, show which one blocks readers, and find hanging ones.",
    ),
    "user": ("ottla_cli.commands.user", "List, add and remove users who log in, and change their passwords."),
    "acl": ("ottla_cli.commands.acl", "List, add and remove ACLs, and test what a user may do."),
    "cluster": ("ottla_cli.commands.cluster", "Show the cluster, its health, its brokers and its controllers."),
    "mirror": ("ottla_cli.commands.mirror", "Show a mirror's flows, translate offsets, pause flows and fail over."),
    "metadata": ("ottla_cli.commands.metadata", "Declare that the metadata store was restored from a backup."),
    "doctor": (
        "ottla_cli.commands.doctor",
        "Find out why Kafka clients on this machine can't use the cluster, or check the cluster for damage.",
    ),
    "bench": ("ottla_cli.commands.bench", "Measure the throughput and latency of this client and the cluster."),
}
"""Commands of the SDK: the module that has the `app`, and a line for the list of commands."""

SERVER: Final[Mapping[str, str]] = {
    "up": "Start a cluster on this machine.",
    "down": "Stop the cluster on this machine, and keep its data.",
    "status": "Show what runs on this machine.",
    "log": "Inspect, check and export log files without a cluster.",
    "ca": "Issue certificates for services and clients: an authority for development.",
}
"""Commands that come with the server, from the entry points."""


class LazyGroup(TyperGroup):
    """Knows its commands by name and help, and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, help_ in [(name, line) for name, (_, line) in MODULES.items()] + list(SERVER.items()):
            self.add_command(TyperCommand(name, help=help_), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _stub, rest = super().resolve_command(ctx, args)
        return name, name and load(name), rest


class Command(TyperCommand):
    """A command that takes the options of `ottla` itself as well; its function finds them by `Settings.of(ctx)`."""

    def get_params(self, ctx: Any) -> list[Any]:
        *own, help_option = super().get_params(ctx)
        return [*own, *_shared(ctx), help_option]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *map(_in_usage, (p for p in self.params if p.param_type_name == "argument"))]

    def invoke(self, ctx: Any) -> Any:
        outer = ctx.find_root().params
        values = {option.name: (outer.get(option.name), ctx.params.pop(option.name)) for option in _shared(ctx)}
        ctx.obj = Settings.merged(values)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:  # Typer would make it a failure
            raise typer.Exit(fail(error)) from None
        return result


def _in_usage(argument: Any) -> str:
    """`TOPIC...` and `[FILE]`, as manual pages have it; Typer writes `{TOPIC...}...` and `[[FILE]]`."""
    name = (argument.metavar or argument.name.upper()).replace("...", "").strip("[]")
    text = name if argument.nargs == 1 else f"{name}..."
    return text if argument.required else f"[{text}]"


def _shared(ctx: Any) -> list[Any]:
    """The options of `ottla` itself; none if a command is run without it."""
    root = ctx.find_root().command
    return [option for option in root.params if option.name in Settings.NAMES] if root is not ctx.command else []


def load(name: str) -> Any:
    """The command of that name. Raises OttlaError if it comes with the server and that is not installed."""
    if name in MODULES:
        return get_command(import_module(MODULES[name][0]).app)
    found = _from_server(name)
    if isinstance(found, typer.Typer):
        return get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Command)(found)
    return get_command(app)


def _from_server(name: str) -> Callable[..., None] | typer.Typer:
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found or any(find_spec(module) is None for module in SERVER_MODULES):
        raise FatalError(
            ErrorCode.INVALID_REQUEST,
            f"`ottla {name}` needs the server, which is not installed",
            hint="pip install 'ottla[server]'",
        )
    command: Callable[..., None] | typer.Typer = found[0].load()
    return command
