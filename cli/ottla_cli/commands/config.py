"""`ottla config`: what topics, brokers and the cluster are configured with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.errors import config_error, did_you_mean
from ottla_cli.connection import open_admin
from ottla_cli.failures import NotFoundError
from ottla_cli.lazy import Command
from ottla_cli.options import DryRun
from ottla_cli.output import Item, Listing, form_for, write
from ottla_cli.prompts import report
from ottla_cli.settings import Settings, pairs
from ottla_cli.terminal import put, say

if TYPE_CHECKING:
    from ottla.admin.configs import ConfigEntry

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Get, set and explain the configs of the cluster, a topic (-t) or a broker (--broker).",
)

OfTopic = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The configs of this topic.")]
OfBroker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="The configs of this broker.")]
Keys = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of configs.")]
Assignments = Annotated[
    list[str], typer.Argument(metavar="NAME=VALUE...", help="Configs and their values, such as retention.ms=7d.")
]

_DEFAULT: Final = "DEFAULT_CONFIG"
_NAME_OWNER: Final = "name a topic with -t, or a broker with --broker"


@app.command("get", cls=Command)
def get(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these configs.")] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show configs that have their default value.")] = False,
) -> None:
    """Show configs and where their values come from. Without NAME, show the configs that are set."""
    settings, owner = Settings.of(ctx), _owner(topic, broker)
    with open_admin(settings) as admin:
        entries = admin.configs.get(topic=topic, broker=broker)
    otherwise = "list the names with --all" + (f", or {_NAME_OWNER}" if topic is None and broker is None else "")
    for name in names or []:
        _check_exists(name, entries, otherwise)
    items = [
        _item(entry)
        for name, entry in entries.items()
        if (name in names if names else everything or entry.source != _DEFAULT)
    ]
    if not items:
        say(f"{owner} sets no configs; --all also shows defaults")
    write(Listing("configs/v1", items, ("name", "value", "source")), settings.output)


@app.command("set", cls=Command)
def set_(
    ctx: typer.Context,
    assignments: Assignments,
    topic: OfTopic = None,
    broker: OfBroker = None,
    dry_run: DryRun = False,
) -> None:
    """Set the given configs; on an error, none of them is set."""
    configs = pairs(assignments, "config set", hint=f"{_NAME_OWNER}: ottla config set -t orders retention.ms=7d")
    settings, owner = Settings.of(ctx), _owner(topic, broker)
    with open_admin(settings) as admin:
        before = admin.configs.get(topic=topic, broker=broker)
        admin.configs.set(configs, topic=topic, broker=broker, dry_run=dry_run)
        after = before if dry_run else admin.configs.get(topic=topic, broker=broker)
    done = _changes(configs, before, after, owner, "none" if dry_run else "set")
    report("config-changes/v1", done, [], settings)


@app.command("unset", cls=Command)
def unset(
    ctx: typer.Context, names: Keys, topic: OfTopic = None, broker: OfBroker = None, dry_run: DryRun = False
) -> None:
    """Unset the named configs; on an error, none of them is unset. Their inherited or default values apply again."""
    settings, owner = Settings.of(ctx), _owner(topic, broker)
    with open_admin(settings) as admin:
        before = admin.configs.get(topic=topic, broker=broker)
        admin.configs.unset(*names, topic=topic, broker=broker, dry_run=dry_run)
        after = before if dry_run else admin.configs.get(topic=topic, broker=broker)
    done = _changes(dict.fromkeys(names, "unset"), before, after, owner, "none" if dry_run else "unset")
    report("config-changes/v1", done, [], settings)


@app.command("explain", cls=Command)
def explain(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of configs.")] = None,
) -> None:
    """Explain what configs are for, which values they accept and where to set them. Without NAME, list all configs."""
    from ottla_cli.explain import as_text, explained

    settings = Settings.of(ctx)
    items = list(explained(names or []))
    if names and form_for(settings.output, sys.stdout) == "table":
        for number, item in enumerate(items):
            if number:
                put("")
            for line in as_text(item):
                put(line)
        return
    columns = ("name", "scope", "default", "documentation")
    write(Listing("config-keys/v1", items, columns), settings.output)


def _item(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source,
        "type": entry.type,
        "read_only": entry.read_only,
        "enforced": entry.enforced,
        "documentation": entry.documentation,
    }


def _changes(
    requested: dict[str, str], before: dict[str, ConfigEntry], after: dict[str, ConfigEntry], owner: str, action: str
) -> list[Item]:
    """The result of each config, reported on standard error and returned as items."""
    items: list[Item] = []
    for name, value in requested.items():
        was = before[name].value if name in before else None
        now = value if action == "none" else after[name].value if name in after else None
        say(f"{'would change ' if action == 'none' else ''}{owner}: {name} {was} -> {now}")
        items.append({"name": name, "action": action, "before": was, "after": now})
    return items


def _check_exists(name: str, entries: dict[str, ConfigEntry], otherwise: str) -> None:
    if name not in entries:
        from ottla_cli.explain import of_client

        hint = did_you_mean(name, entries, otherwise)
        raise NotFoundError(f"config {name!r} does not exist for this resource", hint=of_client(name) or hint)


def _owner(topic: str | None, broker: int | None) -> str:
    if topic is not None and broker is not None:
        raise config_error(
            "-t and --broker can't be combined", hint="pass one of them, or neither for the cluster's configs"
        )
    return topic or ("the cluster" if broker is None else f"broker {broker}")
