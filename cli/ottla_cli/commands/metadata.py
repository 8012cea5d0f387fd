"""`ottla metadata`: what an operator declares about the metadata store."""

from __future__ import annotations

import typer

from ottla_cli.connection import open_admin
from ottla_cli.lazy import Command
from ottla_cli.prompts import confirm
from ottla_cli.settings import Settings
from ottla_cli.terminal import say

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Declare that the metadata store was restored.")


@app.callback()
def metadata() -> None:
    """Declare that the metadata store was restored."""


@app.command("restored", cls=Command)
def restored(ctx: typer.Context) -> None:
    """Declare that etcd was restored from a backup.

    Leaders are then elected based on the contents of the replicas' logs. A broker that starts with a store older than
    its data detects the restore itself. Declare the restore yourself if only part of the store was restored, or if no
    broker was down. A partition has no leader until enough of its replicas have reported where their logs end.
    """
    settings = Settings.of(ctx)
    confirm("No partition has a leader until its replicas have reported where their logs end. Continue?", settings)
    with open_admin(settings) as admin:
        count = admin.cluster.declare_restored()
    say(f"restoration {count} is declared; `ottla partition ls --offline` shows which partitions still wait")
