"""`ottla cluster`: the cluster and its brokers."""

from __future__ import annotations

import sys
from dataclasses import asdict

import typer

from ottla.cli.connection import open_admin
from ottla.cli.lazy import Command
from ottla.cli.options import Settings
from ottla.cli.output import Listing, form_for, write, write_table

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Show the cluster and its brokers.")


@app.callback()
def cluster() -> None:
    """Show the cluster and its brokers."""


@app.command("info", cls=Command)
def info(ctx: typer.Context) -> None:
    """Show the cluster's id, its controller and its brokers."""
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        described = admin.cluster.describe()
    brokers = [asdict(broker) for broker in described.brokers]
    if form_for(settings.output, sys.stdout) == "table":
        at = f"{described.controller_id} at {described.controller_address}"
        print(f"cluster {described.cluster_id}, controller {at if described.controller_address else 'none elected'}")
        said = [name for name in ("kafka_address", "rack", "fenced") if any(broker[name] for broker in brokers)]
        write_table(Listing("", brokers, ("id", "address", *said)))
        return
    item = {
        "cluster_id": described.cluster_id,
        "controller": {"id": described.controller_id, "address": described.controller_address},
        "brokers": brokers,
    }
    write(Listing("cluster/v1", [item], name="cluster_id"), settings.output)
