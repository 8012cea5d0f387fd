"""`ottla metadata`: what an operator declares about the metadata store."""

from __future__ import annotations

import typer

from ottla.cli.connection import open_admin
from ottla.cli.failures import say
from ottla.cli.lazy import Command
from ottla.cli.prompts import confirm
from ottla.cli.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Declare that the metadata store was restored.")


@app.callback()
def metadata() -> None:
    """Declare that the metadata store was restored."""


@app.command("restored", cls=Command)
def restored(ctx: typer.Context) -> None:
    """Declare that etcd was restored from a backup, so that leaders are elected by what the logs hold.

    A broker detects it by itself when it starts on a store that is older than its data. If only a part of the store was
    restored, or no broker was down, you have to declare it. A partition has no leader until enough of its replicas have
    reported how far their logs go.
    """
    settings = Settings.of(ctx)
    confirm("Every partition has no leader until its replicas have reported how far their logs go. Continue?", settings)
    with open_admin(settings) as admin:
        count = admin.cluster.declare_restored()
    say(f"restoration {count} is declared; `ottla partition ls --offline` shows which partitions still wait")
