"""Shell completion of names, from the cluster if it responds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import typer

from ottla.errors import OttlaError
from ottla_cli.connection import open_admin
from ottla_cli.settings import Settings

if TYPE_CHECKING:
    from ottla.admin.admin import Admin

_COMPLETION_S: Final = 0.3


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of topics; none if the cluster does not respond at once."""
    return _complete(ctx, incomplete, lambda admin: admin.topics.list())


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of consumer groups, likewise."""
    return _complete(ctx, incomplete, lambda admin: [group.name for group in admin.groups.list()])


def complete_txn(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete transactional ids, likewise."""
    return _complete(ctx, incomplete, lambda admin: [found.name for found in admin.transactions.list()])


def _complete(ctx: typer.Context, incomplete: str, names: Callable[[Admin], Sequence[str]]) -> list[str]:
    bootstrap = ctx.params.get("bootstrap") or ctx.find_root().params.get("bootstrap")
    try:
        with open_admin(Settings(bootstrap=bootstrap, timeout=_COMPLETION_S)) as admin:
            return [name for name in names(admin) if name.startswith(incomplete)]
    except OttlaError:
        return []
