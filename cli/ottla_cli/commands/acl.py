"""`ottla acl`: what users may do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from ottla.admin.acl import Acl, AclFilter, Permission, Resource
from ottla.errors import config_error
from ottla_cli import acl_words
from ottla_cli.access import Access, Answer
from ottla_cli.access_warnings import warn_of_lockout, warn_of_openings
from ottla_cli.completion import complete_resource, complete_user
from ottla_cli.connection import open_admin
from ottla_cli.failures import ExitCode
from ottla_cli.lazy import Command
from ottla_cli.options import DryRun
from ottla_cli.output import Item, Listing, form_for, write
from ottla_cli.prompts import confirm, report
from ottla_cli.settings import Settings
from ottla_cli.terminal import put, say
from ottla_core.plural import counted
from ottla_core.security.acl import EVERYONE
from ottla_core.security.hosts import address_of
from ottla_core.security.resource import CLUSTER_NAME

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="List, add and remove ACLs, and test what a user may do."
)

_KIND: Final = "acl-changes/v1"
_COLUMNS: Final = ("principal", "permission", "operation", "resource_type", "resource", "pattern", "host")

Principal = Annotated[
    str,
    typer.Argument(
        metavar="USER",
        help="A user, a principal such as User:alice, or '*' for everyone.",
        autocompletion=complete_user,
    ),
]
Operations = Annotated[
    str,
    typer.Argument(metavar="OPERATION", help="Operations such as read,write; or all, produce or consume."),
]
Resources = Annotated[
    list[str],
    typer.Argument(
        metavar="RESOURCE...",
        help="topic:NAME, group:NAME, transactional-id:NAME or cluster; the name '*' is every name.",
        autocompletion=complete_resource,
    ),
]
Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="The names are prefixes: the ACL is for all names that begin with them.")
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host", metavar="HOST", help="Only from this address or range, such as 10.0.0.0/8; may be repeated."
    ),
]
OnlyOf = Annotated[
    str | None,
    typer.Option("--principal", metavar="USER", help="Only ACLs for this user.", autocompletion=complete_user),
]
OnlyOperation = Annotated[str | None, typer.Option("--operation", metavar="NAME", help="Only this operation.")]
OnlyResource = Annotated[
    str | None,
    typer.Option(
        "--resource",
        metavar="RESOURCE",
        help="Only this resource, such as topic:orders, or only this type, such as topic.",
        autocompletion=complete_resource,
    ),
]
OnlyPrefixed = Annotated[bool, typer.Option("--prefixed", help="Only ACLs for prefixes.")]
OnlyHost = Annotated[str | None, typer.Option("--host", metavar="HOST", help="Only ACLs for this host.")]
OnlyAllow = Annotated[bool, typer.Option("--allow", help="Only ACLs that allow.")]
OnlyDeny = Annotated[bool, typer.Option("--deny", help="Only ACLs that deny.")]


@app.command("ls", cls=Command)
def list_acls(
    ctx: typer.Context,
    principal: OnlyOf = None,
    operation: OnlyOperation = None,
    resource: OnlyResource = None,
    prefixed: OnlyPrefixed = False,
    host: OnlyHost = None,
    allow: OnlyAllow = False,
    deny: OnlyDeny = False,
    matching: Annotated[
        bool, typer.Option("--matching", help="Also ACLs whose prefix or '*' matches the resource's name.")
    ] = False,
) -> None:
    """List the ACLs.

    \b
      ottla acl ls --principal alice
      ottla acl ls --resource topic:orders --matching
    """
    settings = Settings.of(ctx)
    wanted = _filter(principal, operation, resource, prefixed, host, allow, deny, matching=matching)
    with open_admin(settings) as admin:
        acls = admin.acls.list(wanted)
    if not acls:
        say("there is no such ACL" if wanted != AclFilter() else "there are no ACLs yet; see `ottla acl add --help`")
    write(Listing("acls/v1", map(_item, acls), _COLUMNS), settings.output)


@app.command("add", cls=Command)
def add(
    ctx: typer.Context,
    principal: Principal,
    operations: Operations,
    resources: Resources,
    deny: Annotated[
        bool, typer.Option("--deny", help="Deny the operations; this has precedence over every ACL that allows.")
    ] = False,
    prefixed: Prefixed = False,
    host: Hosts = None,
    dry_run: DryRun = False,
) -> None:
    """Add ACLs. An ACL that exists already is left alone.

    \b
      ottla acl add alice write topic:orders
      ottla acl add bob consume topic:orders group:billing
      ottla acl add carol produce topic:orders transactional-id:billing
      ottla acl add '*' read topic:public- --prefixed --host 10.0.0.0/8
      ottla acl add eve all topic:salaries --deny

    "produce" and "consume" stand for what clients need, as --producer and --consumer of kafka-acls.sh do.
    """
    settings = Settings.of(ctx)
    permission: Permission = "deny" if deny else "allow"
    wanted = [
        Acl(permission, acl_words.principal(principal), operation, found, each)
        for found in _resources(resources, prefixed)
        for operation in acl_words.parse_operations(operations, found)
        for each in host or ["*"]
    ]
    with open_admin(settings) as admin:
        existing = dict.fromkeys(admin.acls.list(AclFilter(principal=acl_words.principal(principal))))
        new = [acl for acl in dict.fromkeys(wanted) if acl not in existing]
        for acl in wanted:
            say(f"{'would add: ' if dry_run else ''}{acl}" if acl in new else f"exists already: {acl}")
        if deny and warn_of_lockout(admin, settings, added=new) and not dry_run:
            confirm("Add these ACLs?", settings)
        if new and not dry_run:
            admin.acls.create(*new)
    action = "none" if dry_run else "added"
    done: list[Item] = [{**_item(acl), "action": action if acl in new else "none"} for acl in dict.fromkeys(wanted)]
    report(_KIND, done, [], settings)


@app.command("rm", cls=Command)
def remove(
    ctx: typer.Context,
    principal: OnlyOf = None,
    operation: OnlyOperation = None,
    resource: OnlyResource = None,
    prefixed: OnlyPrefixed = False,
    host: OnlyHost = None,
    allow: OnlyAllow = False,
    deny: OnlyDeny = False,
    everything: Annotated[bool, typer.Option("--all", help="Remove every ACL.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove the ACLs that the options select, as `ottla acl ls` lists them.

    \b
      ottla acl rm --principal alice --operation write --resource topic:orders
    """
    settings = Settings.of(ctx)
    wanted = _filter(principal, operation, resource, prefixed, host, allow, deny)
    if (wanted == AclFilter()) is not everything:
        raise config_error(
            "--all can't be combined with other options" if everything else "no option selects ACLs",
            hint="select ACLs as with `ottla acl ls`, or pass --all alone for every ACL",
        )
    with open_admin(settings) as admin:
        going = admin.acls.list(wanted)
        for acl in going:
            say(str(acl))
        if not going:
            say("there is no such ACL")
        else:
            warn_of_lockout(admin, settings, removed=going)
            warn_of_openings(admin, going)
            if not dry_run:
                confirm(f"Remove {'this ACL' if len(going) == 1 else f'these {len(going)} ACLs'}?", settings)
                # Only the ACLs that were shown are removed, because others may have been added meanwhile.
                admin.acls.delete(*going)
                say(f"removed {counted(len(going), 'ACL')}")
    action = "none" if dry_run else "removed"
    report(_KIND, [{**_item(acl), "action": action} for acl in going], [], settings)


@app.command("test", cls=Command)
def decide(
    ctx: typer.Context,
    principal: Principal,
    operations: Operations,
    resources: Resources,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The client's address; default: one that no ACL names."),
    ] = None,
) -> None:
    """Test what a user may do, and name the ACL that decides. The exit code is 0 if all of it is allowed, or else 1.

    \b
      ottla acl test alice write topic:orders
      ottla acl test bob consume topic:orders group:billing --host 10.0.0.7

    The answer comes from the brokers' own authorizer, with the cluster's ACLs and the brokers' settings.
    """
    settings, who = Settings.of(ctx), acl_words.principal(principal)
    if host is not None and address_of(host) is None:
        raise config_error(f"--host {host!r} is no address", hint="write the client's address, such as 10.0.0.7")
    asked = [
        (operation, resource)
        for resource in _resources(resources, prefixed=False)
        for operation in acl_words.parse_operations(operations, resource)
    ]
    if any(operation == "all" for operation, _ in asked):
        raise config_error("all is no operation that a request needs", hint="test the operations one by one")
    with open_admin(settings) as admin:
        access = Access.of(admin)
        acls = {resource: access.acls_for(admin, resource) for _, resource in asked}
    if len(access.groups) > 1:
        say("warning: the brokers have different settings, so the answer depends on the broker")
    answers = [
        brokers.answer(acls[resource], who, operation, resource, host)
        for operation, resource in asked
        for brokers in access.groups
    ]
    if host is None:
        _tell_of_hosts(who, [acl for found in acls.values() for acl in found])
    if form_for(settings.output, sys.stdout) == "table":
        for answer in answers:
            put(answer.sentence(names_brokers=len(access.groups) > 1))
    else:
        write(Listing("acl-tests/v1", map(_answer, answers)), settings.output)
    if not all(answer.is_allowed for answer in answers):
        raise typer.Exit(ExitCode.FAILED)


def _tell_of_hosts(principal: str, acls: Iterable[Acl]) -> None:
    """Say which ACLs could change the answer for clients at particular addresses."""
    hosts = {acl.host: None for acl in acls if acl.host != "*" and acl.principal in (principal, EVERYONE)}
    if hosts:
        say(f"there are ACLs for clients at {', '.join(hosts)}; test one with --host")


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.request,
        "principal": answer.principal,
        "operation": answer.operation,
        "resource_type": answer.resource.type,
        "resource": answer.resource.name,
        "host": answer.host,
        "brokers": list(answer.brokers),
        "allowed": answer.is_allowed,
        "decided_by": answer.decided_by,
        "acl": None if answer.acl is None else _item(answer.acl),
        "because": answer.because,
    }


def _resources(texts: Iterable[str], prefixed: bool) -> list[Resource]:
    return [acl_words.parse_resource(text, prefixed=prefixed) for text in texts]


def _filter(
    principal: str | None,
    operation: str | None,
    resource: str | None,
    prefixed: bool,
    host: str | None,
    allow: bool,
    deny: bool,
    *,
    matching: bool = False,
) -> AclFilter:
    """Return the filter that the options of `ls` and `rm` describe. Raises ConfigError."""
    if allow and deny:
        raise config_error("--allow and --deny can't be combined", hint="leave both out for all ACLs")
    type_text, _, name = (resource or "").partition(":")
    resource_type = acl_words.resource_type(type_text) if resource else None
    if matching and (not name or prefixed):
        raise config_error("--matching needs the name of a resource", hint="write --resource topic:NAME --matching")
    return AclFilter(
        resource_type,
        (CLUSTER_NAME if resource_type == "cluster" else name) or None,
        "match" if matching else "prefixed" if prefixed else None,
        None if principal is None else acl_words.principal(principal),
        host,
        None if operation is None else acl_words.parse_operation(operation),
        "allow" if allow else "deny" if deny else None,
    )


def _item(acl: Acl) -> dict[str, Any]:
    return {
        "name": str(acl),
        "principal": acl.principal,
        "permission": acl.permission,
        "operation": acl.operation,
        "resource_type": acl.resource.type,
        "resource": acl.resource.name,
        "pattern": "prefixed" if acl.resource.prefixed else "literal",
        "host": acl.host,
    }
