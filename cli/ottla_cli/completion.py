"""Shell completion of names, from the cluster if it responds at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import typer

from ottla.errors import OttlaError
from ottla_cli.connection import open_admin
from ottla_cli.settings import Settings, chosen_profile

if TYPE_CHECKING:
    from ottla.admin.admin import Admin

_COMPLETION_S: Final = 0.3
_PLAIN: Final = re.compile(r"[\w.:@/+=,%~-]+")
"""Names without a meaning to any shell. Shells evaluate what they complete, and anybody may have chosen a name."""
_RESOURCE_TYPES: Final = ("topic:", "group:", "transactional-id:", "cluster")


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of topics; none if the cluster does not respond at once."""
    return _complete(ctx, incomplete, lambda admin: admin.topics.list())


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of consumer groups; none if the cluster does not respond at once."""
    return _complete(ctx, incomplete, lambda admin: [group.name for group in admin.groups.list()])


def complete_txn(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete transactional ids; none if the cluster does not respond at once."""
    return _complete(ctx, incomplete, lambda admin: [found.name for found in admin.transactions.list()])


def complete_user(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of users; none if the cluster does not respond at once."""
    return _complete(ctx, incomplete, lambda admin: [user.name for user in admin.users.list()])


def complete_resource(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the types of resources, and the names of topics and groups behind them."""
    kind, colon, _ = incomplete.partition(":")
    if not colon:
        return [word for word in _RESOURCE_TYPES if word.startswith(incomplete)]
    complete = {"topic": complete_topic, "group": complete_group, "transactional-id": complete_txn}.get(kind)
    return [f"{kind}:{name}" for name in complete(ctx, incomplete[len(kind) + 1 :])] if complete else []


def _complete(ctx: typer.Context, incomplete: str, names: Callable[[Admin], Sequence[str]]) -> list[str]:
    given = {name: ctx.params.get(name) or ctx.find_root().params.get(name) for name in ("bootstrap", "profile")}
    bootstrap = given["bootstrap"]
    settings = Settings(bootstrap, timeout=_COMPLETION_S, profile=chosen_profile(given["profile"], bootstrap))
    try:
        if _may_ask(settings.profile):
            return []
        with open_admin(settings) as admin:
            return [name for name in names(admin) if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    except OttlaError:
        return []


def _may_ask(profile: str | None) -> bool:
    """Return whether the profile runs a command for its password. The command may take a while, or ask the user."""
    if profile is None:
        return False
    from ottla.client.security.profiles import load_profile

    return load_profile(profile).runs_commands
