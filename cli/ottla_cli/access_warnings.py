"""Warns before a change that takes away more rights, or gives away more, than its author may intend."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ottla.admin.acl import Acl, AclFilter, Resource, core_acl, core_filter
from ottla_cli.access import Access, own_principal
from ottla_cli.connection import or_nothing
from ottla_cli.settings import Settings
from ottla_cli.terminal import say
from ottla_core.security.principal import of_user

if TYPE_CHECKING:
    from ottla.admin.admin import Admin


def warn_of_lockout(
    admin: Admin, settings: Settings, *, added: Sequence[Acl] = (), removed: Sequence[Acl] = ()
) -> bool:
    """Warn if the change takes the right to change users and ACLs from this user, or from everyone. Return whether it
    does."""
    if not any(acl.resource.type == "cluster" for acl in (*added, *removed)):
        return False
    access = or_nothing(lambda: Access.of(admin))
    if access is None:
        return False
    before = access.acls_for(admin, Resource.cluster())
    after = [*(acl for acl in before if acl not in removed), *added]
    me, warned = own_principal(settings), False
    if me is not None and access.may_manage(me, before) and not access.may_manage(me, after):
        say(f"warning: after that you, {me}, can't change users and ACLs any more")
        warned = True
    named = dict.fromkeys(acl.principal for acl in before)
    managed = any(access.may_manage(principal, before) for principal in named)
    if managed and not access.super_users and not any(access.may_manage(principal, after) for principal in named):
        say("warning: after that nobody can change users and ACLs, because there are no super users")
        warned = True
    return warned


def warn_of_openings(admin: Admin, removed: Collection[Acl]) -> None:
    """Warn if everyone may use a resource once its last ACL is gone."""
    access = or_nothing(lambda: Access.of(admin))
    if access is None or not access.opens_resources_without_acls:
        return
    left = [core_acl(acl) for acl in admin.acls.list() if acl not in removed]
    for resource in dict.fromkeys(acl.resource for acl in removed):
        matching = core_filter(AclFilter(resource.type, resource.name, "match"))
        if not any(map(matching.matches, left)):
            say(f"warning: everyone may then use {resource}, because allow.everyone.if.no.acl.found is true")


def warn_of_super_users(admin: Admin, going: Collection[str], left: Collection[str]) -> None:
    """Warn if a super user loses its password, and more so if no super user keeps one."""
    access = or_nothing(lambda: Access.of(admin)) if going else None
    supers = frozenset() if access is None else access.super_users
    for name in going:
        if of_user(name) in supers:
            say(f"warning: {name} is a super user")
    if supers.intersection(map(of_user, going)) and supers.isdisjoint(map(of_user, left)):
        say(
            "warning: after that the cluster keeps no password of a super user; only those in a broker's "
            "sasl_credentials_file can still log in"
        )
