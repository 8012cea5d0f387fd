"""`ottla metadata`: what an operator says of the metadata store."""

from __future__ import annotations

import typer

from ottla.cli.connection import open_admin
from ottla.cli.failures import say
from ottla.cli.lazy import Command
from ottla.cli.prompts import confirm
from ottla.cli.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Say that the metadata store was restored.")


@app.callback()
def metadata() -> None:
    """Say that the metadata store was restored."""


@app.command("restored", cls=Command)
def restored(ctx: typer.Context) -> None:
    """Say that etcd was restored from a backup, so that leaders are elected by what the logs hold.

    Brokers find it out by themselves when they start on a store that is older than their data; where only some of it
    was restored, or none of them was down, it has to be said. Until enough replicas of a partition have told how
    far their logs go, no replica leads it.
    """
    settings = Settings.of(ctx)
    confirm("Every partition is without a leader until its logs have told who has everything. Go on?", settings)
    with open_admin(settings) as admin:
        count = admin.cluster.declare_restored()
    say(f"restoration {count} is declared; see `ottla partition ls --offline` for who is still waited for")
