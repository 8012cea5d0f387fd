"""`ottla user`: who may log in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.errors import config_error
from ottla_cli.access import own_user
from ottla_cli.access_warnings import warn_of_super_users
from ottla_cli.completion import complete_user
from ottla_cli.connection import open_admin, or_nothing
from ottla_cli.lazy import Command
from ottla_cli.options import DryRun
from ottla_cli.output import Item, Listing, write
from ottla_cli.password_prompt import FromFile, FromStdin, new_password
from ottla_cli.prompts import apply_to, confirm, report
from ottla_cli.settings import Settings
from ottla_cli.terminal import say
from ottla_core.plural import counted
from ottla_core.security.principal import of_user
from ottla_core.security.scram import LEAST_ITERATIONS, MECHANISMS, MOST_ITERATIONS, Mechanism

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.users import UserInfo

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List, add and remove users who log in by SCRAM or PLAIN, and change their passwords.",
)

_KIND: Final = "user-changes/v1"

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", autocompletion=complete_user)]
Users = Annotated[list[str], typer.Argument(metavar="USER...", help="Names of users.", autocompletion=complete_user)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        metavar="NAME",
        help=f"Only this mechanism, {' or '.join(MECHANISMS)}; may be repeated; default: both.",
    ),
]
Iterations = Annotated[
    int,
    typer.Option(
        min=LEAST_ITERATIONS,
        max=MOST_ITERATIONS,
        metavar="N",
        help="How often SCRAM hashes the password. If it is not the default, strangers can find out who is a user.",
    ),
]


@app.command("ls", cls=Command)
def list_users(ctx: typer.Context) -> None:
    """List the users that the cluster keeps, and the mechanisms by which they can log in.

    Users in the sasl_credentials_file of a broker are not listed.
    """
    settings = Settings.of(ctx)
    with open_admin(settings) as admin:
        users = admin.users.list()
    if not users:
        say("the cluster keeps no users yet; create one with `ottla user add`")
    me = own_user(settings)
    if me is not None and me not in (each.name for each in users):
        say(f"you are {me}, who is in a broker's sasl_credentials_file and therefore not listed")
    write(Listing("users/v1", map(_item, users), ("name", "mechanisms", "iterations")), settings.output)


@app.command("add", cls=Command)
def add(
    ctx: typer.Context,
    name: User,
    mechanism: Mechanisms = None,
    iterations: Iterations = LEAST_ITERATIONS,
    password_stdin: FromStdin = False,
    password_file: FromFile = None,
) -> None:
    """Add a user. The password is prompted for, and never leaves this process.

    \b
      ottla user add alice
      openssl rand -base64 24 | tee alice.txt | ottla user add alice --password-stdin
    """
    settings, mechanisms = Settings.of(ctx), _mechanisms(mechanism)
    with open_admin(settings) as admin:
        if admin.users.exists(name):
            raise config_error(
                f"the user {name} already exists", hint=f"change the password with `ottla user passwd {name}`"
            )
        password = new_password(name, from_stdin=password_stdin, from_file=password_file)
        admin.users.set_password(name, password, mechanisms=mechanisms, iterations=iterations)
    say(f"added {name}, who may do only what ACLs allow; see `ottla acl add --help`")
    report(_KIND, [{"name": name, "mechanisms": mechanisms, "action": "added"}], [], settings)


@app.command("passwd", cls=Command)
def passwd(
    ctx: typer.Context,
    name: User,
    mechanism: Mechanisms = None,
    iterations: Iterations = LEAST_ITERATIONS,
    password_stdin: FromStdin = False,
    password_file: FromFile = None,
) -> None:
    """Change a user's password. Connections that are open stay open."""
    settings, mechanisms = Settings.of(ctx), _mechanisms(mechanism)
    with open_admin(settings) as admin:
        (user,) = admin.users.describe(name)
        if others := [other for other in user.mechanisms if other not in mechanisms]:
            say(f"warning: for {' and '.join(others)}, {name} keeps the old password")
        password = new_password(name, from_stdin=password_stdin, from_file=password_file)
        admin.users.set_password(name, password, mechanisms=mechanisms, iterations=iterations)
    say(f"changed the password of {name}")
    report(_KIND, [{"name": name, "mechanisms": mechanisms, "action": "changed"}], [], settings)


@app.command("rm", cls=Command)
def remove(
    ctx: typer.Context,
    names: Users,
    mechanism: Mechanisms = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore users that do not exist.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove users, or only their passwords for a mechanism. Their open connections and their ACLs stay."""
    settings = Settings.of(ctx)
    mechanisms = _mechanisms(mechanism) if mechanism else None
    with open_admin(settings) as admin:
        users = admin.users.list()
        known = {user.name: user for user in users}
        there = [name for name in names if name in known] if if_exists else names
        going = admin.users.describe(*there)
        for user in going:
            say(f"{user.name}: {' and '.join(mechanisms or user.mechanisms)}{_acls_of(admin, user)}")
        warn_of_super_users(
            admin, [user.name for user in going], [u.name for u in users if _stays(u, going, mechanisms)]
        )
        if not going:
            say("there is nothing to remove")
        elif not dry_run:
            these = "this user" if len(going) == 1 else f"these {len(going)} users"
            confirm(f"Remove {these if mechanisms is None else f'these passwords of {these}'}?", settings)

        def remove_one(name: str) -> Item:
            if dry_run:
                return {"name": name, "action": "none"}
            admin.users.delete(name, mechanisms=mechanisms, if_missing="ok" if if_exists else "error")
            say(f"removed {name}" if mechanisms is None else f"removed a password of {name}")
            return {"name": name, "action": "removed"}

        done, failed = apply_to(there, remove_one)
    report(_KIND, done, failed, settings)


def _acls_of(admin: Admin, user: UserInfo) -> str:
    """Return how many ACLs are for the user. They stay, and would apply to a new user with that name."""
    from ottla.admin.acl import AclFilter

    acls = or_nothing(lambda: admin.acls.list(AclFilter(principal=of_user(user.name))))
    return f"; {counted(len(acls), 'ACL')} for {user.name} will stay" if acls else ""


def _stays(user: UserInfo, going: Sequence[UserInfo], mechanisms: Sequence[Mechanism] | None) -> bool:
    """Return whether the user can still log in once the users in `going` have lost these passwords, or all of
    theirs."""
    return user not in going or bool(mechanisms and set(user.mechanisms).difference(mechanisms))


def _mechanisms(names: list[str] | None) -> tuple[Mechanism, ...]:
    """Return the mechanisms of that name, or all. The case and a missing SCRAM- don't matter. Raises ConfigError."""
    if not names:
        return MECHANISMS
    found = []
    for name in names:
        spelled = name.upper().replace("_", "-")
        known = [mechanism for mechanism in MECHANISMS if spelled in (mechanism, mechanism.removeprefix("SCRAM-"))]
        if not known:
            raise config_error(
                f"--mechanism {name!r} is not a mechanism of SCRAM", hint=f"use {' or '.join(MECHANISMS)}"
            )
        found += known
    return tuple(dict.fromkeys(found))


def _item(user: UserInfo) -> dict[str, Any]:
    return {"name": user.name, "mechanisms": user.mechanisms, "iterations": sorted(set(user.iterations.values()))}
