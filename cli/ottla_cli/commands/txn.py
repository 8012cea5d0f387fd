"""`ottla txn`: list and show transactions, explain which one blocks readers of committed records; abort."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.client.units import parse_duration
from ottla.errors import config_error
from ottla_cli.completion import complete_topic, complete_txn
from ottla_cli.connection import open_admin
from ottla_cli.lazy import Command
from ottla_cli.options import AnyTopics, DryRun, Topic
from ottla_cli.output import Item, Listing, form_for, write
from ottla_cli.prompts import apply_to, confirm, report
from ottla_cli.settings import Settings
from ottla_cli.terminal import put, say
from ottla_cli.txn_story import (
    blocked_item,
    blocked_story,
    event_item,
    info_item,
    open_item,
    producer_item,
    settled_by,
    story,
)
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.admin import Admin

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Show and abort transactions, show which one blocks readers, and find hanging ones.",
)

_OPEN: tuple[str, ...] = ("topic", "partition", "first_offset", "producer_id", "epoch", "last_written_at", "what_to_do")


@app.command("ls", cls=Command)
def list_transactions(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only ids that start with this prefix.")] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only ids in this state: Ongoing, PrepareCommit, …; may be repeated."),
    ] = None,
    pattern: Annotated[
        str, typer.Option(metavar="RE2", help="Only ids that fully match this expression, such as 'orders-[0-9]+'.")
    ] = "",
    longer_than: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Only ids whose transaction has been open for longer than this, such as 5m."
        ),
    ] = None,
) -> None:
    """List the transactional ids with their states, producers and coordinators."""
    settings = Settings.of(ctx)
    duration = None if longer_than is None else parse_duration(longer_than, "--longer-than")
    with open_admin(settings) as admin:
        found = admin.transactions.list(states=state or (), prefix=prefix, pattern=pattern, longer_than=duration)
    if not found:
        say("there is no such transactional id" if state or prefix or pattern or longer_than else "there are none yet")
    items = [
        {"name": t.name, "state": t.state, "producer_id": t.producer_id, "coordinator": t.coordinator, "shard": t.shard}
        for t in found
    ]
    write(Listing("transactions/v1", items, ("name", "state", "producer_id", "coordinator")), settings.output)


@app.command("show", cls=Command)
def show(
    ctx: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Transactional ids.", autocompletion=complete_txn)
    ],
) -> None:
    """Show transactional ids: their producers, their partitions, and when their transactions began and time out."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        items = [info_item(admin.transactions.describe(name)) for name in names]
    columns = ("name", "state", "producer_id", "epoch", "since", "until", "partitions", "coordinator")
    write(Listing("transaction-info/v1", items, columns), settings.output)


@app.command("explain", cls=Command)
def explain(
    ctx: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="The topic's name.", autocompletion=complete_topic)
    ] = None,
    partition: Annotated[int | None, typer.Argument(metavar="[PARTITION]", help="Only this partition.")] = None,
    name: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Explain this transactional id.", autocompletion=complete_txn),
    ] = None,
) -> None:
    """Explain why read-committed consumers wait: at which offset, for which transaction and since when.

    The output also says what to do. With --id, show what has happened to a transactional id, and what its transaction
    is waiting for.
    """
    settings = Settings.of(ctx)
    if (topic is None) == (name is None):
        raise config_error("either a topic or --id is needed, not both", hint="name a topic, or pass an id with --id")
    with open_admin(settings) as admin:
        if topic is None:
            _explain_id(admin, str(name), settings)
        else:
            _explain_topic(admin, topic, partition, settings)


def _explain_topic(admin: Admin, topic: str, partition: int | None, settings: Settings) -> None:
    found = admin.transactions.open_in(topic, partition)
    blocked = [blocked_item(each) for each in found if each.is_blocked]
    if not blocked:
        say(f"no transaction blocks readers in {topic if partition is None else found[0].partition}")
    if form_for(settings.output, sys.stdout) != "table":
        write(Listing("blocked-partitions/v1", blocked), settings.output)
        return
    for item in blocked:
        for line in blocked_story(item):
            put(line)


def _explain_id(admin: Admin, name: str, settings: Settings) -> None:
    info = admin.transactions.describe(name)
    if info.coordinator >= 0:  # Kafka's protocol has no word for it
        say(f"{name} is in shard {info.shard}, which coordinator {info.coordinator} owns")
    if form_for(settings.output, sys.stdout) == "table":
        for line in story(info):
            put(line)
    else:
        write(Listing("transaction-events/v1", map(event_item, info.events), name="kind"), settings.output)


@app.command("producers", cls=Command)
def producers(
    ctx: typer.Context,
    topic: Topic,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", help="A partition of the topic.")],
) -> None:
    """List the idempotent producers of a partition, and show which of them have an open transaction in it."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        items = [producer_item(producer) for producer in admin.transactions.producers(topic, partition)]
    if not items:
        say(f"{topic}-{partition} has no idempotent producers")
    columns = ("producer_id", "epoch", "last_sequence", "last_written_at", "coordinator_epoch", "open_since_offset")
    write(Listing("active-producers/v1", items, columns), settings.output)


@app.command("hanging", cls=Command)
def hanging(ctx: typer.Context, topics: AnyTopics = None) -> None:
    """Find transactions that are open in a partition but that no coordinator will end."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        items = [open_item(found) for found in admin.transactions.hanging(*topics or ())]
    if not items:
        say("there are no hanging transactions")
    write(Listing("hanging-transactions/v1", items, _OPEN), settings.output)


@app.command("abort", cls=Command)
def abort(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Transactional ids.", autocompletion=complete_txn)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC", help="Topic of a hanging transaction.", autocompletion=complete_topic
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", help="Partition of a hanging transaction.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option(metavar="N", help="First offset of a hanging transaction, from `ottla txn hanging`.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Abort the transaction even if it belongs to a Spark write, which may then remain incomplete.",
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Abort open transactions by id, and fence their producers. Read-committed consumers skip the aborted records.

    To abort a hanging transaction, identify it with --topic, --partition and --offset instead.
    """
    settings = Settings.of(ctx)
    if bool(names) == any(given is not None for given in (topic, partition, offset)):
        raise config_error(
            "either transactional ids or one hanging transaction is needed, not both",
            hint="pass ids, or --topic, --partition and --offset",
        )
    with open_admin(settings) as admin:
        if names:
            _abort_ids(admin, names, settings, force=force, dry_run=dry_run)
        elif topic is None or partition is None or offset is None:
            raise config_error(
                "a hanging transaction is identified by its topic, partition and first offset",
                hint="pass --topic, --partition and --offset",
            )
        else:
            _abort_hanging(admin, topic, partition, offset, settings, dry_run=dry_run)


def _abort_ids(admin: Admin, names: list[str], settings: Settings, *, force: bool, dry_run: bool) -> None:
    planned, rejected = apply_to(dict.fromkeys(names), partial(_plan, admin, force=force))
    if planned and not dry_run:
        several = len(planned) > 1
        these = f"these {len(planned)} transactions" if several else "this transaction"
        confirm(f"Abort {these} and fence the producer{'s' * several}?", settings)
    done, failed = apply_to((item["name"] for item in planned), partial(_abort, admin, dry_run=dry_run))
    report("transaction-changes/v1", done, [*rejected, *failed], settings)


def _plan(admin: Admin, name: str, *, force: bool) -> Item:
    if not force and (settled := settled_by(name)):
        raise config_error(
            f"{name} belongs to a Spark write; an abort leaves the write incomplete if its other tasks are committed",
            hint=f"`{settled}` ends the whole write as its driver decided; --force aborts only this transaction",
        )
    info = admin.transactions.describe(name)
    item = info_item(info)
    since = f" since {item['since']}" if item["since"] else ""
    say(f"{name}: {item['state']}{since}, {counted(len(info.partitions), 'partition')}")
    return {"name": name}


def _abort(admin: Admin, name: str, *, dry_run: bool) -> Item:
    if dry_run:
        return {"name": name, "action": "none"}
    aborted = admin.transactions.abort(name)
    say(f"aborted {name}; producer {aborted.producer_id} is fenced")
    return {"name": name, "action": "aborted"}


def _abort_hanging(admin: Admin, topic: str, partition: int, offset: int, settings: Settings, *, dry_run: bool) -> None:
    name = f"{topic}-{partition}@{offset}"
    if not dry_run:
        confirm(f"Abort the hanging transaction in {topic}-{partition} that begins at offset {offset}?", settings)
        aborted = admin.transactions.abort_hanging(topic, partition, first_offset=offset)
        say(f"aborted {name}, of producer {aborted.producer.producer_id}")
    report("transaction-changes/v1", [{"name": name, "action": "none" if dry_run else "aborted"}], [], settings)
