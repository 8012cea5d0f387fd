"""Finds out what the brokers of a cluster would decide about a request, by their settings and their authorizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ottla.admin.acl import Acl, AclFilter, Operation, Resource, acl_of, core_acl
from ottla.errors import FatalError
from ottla_cli.settings import Settings
from ottla_cli.terminal import say
from ottla_core.errors import OttlaError
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.authorizer_settings import AuthorizerSettings, read_authorizer
from ottla_core.security.decision import Reason
from ottla_core.security.principal import ANONYMOUS, of_user
from ottla_core.security.resource import CLUSTER_NAME, ResourceType
from ottla_proto.operation import Operation as Code

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.configs import ConfigEntry

ANY_HOST: Final = ""
"""No ACL names this host, so only ACLs for every host apply."""

_HIDDEN_BY_KAFKA: Final = ("super.users", "allow.everyone.if.no.acl.found")
_STATIC: Final = "STATIC_BROKER_CONFIG"
NO_AUTHORIZER: Final = "because the brokers have no authorizer (authorizer.class.name), so everyone may do everything"


@dataclass(frozen=True, slots=True)
class Answer:
    """This is what `brokers` decide about one request, and why. `acl` is the ACL that decides, if one does."""

    principal: str
    operation: Operation
    resource: Resource
    host: str | None
    brokers: tuple[int, ...]
    is_allowed: bool
    decided_by: str
    because: str
    acl: Acl | None = None

    @property
    def request(self) -> str:
        """This is the request in words."""
        return f"{self.principal} {self.operation} {self.resource}"

    def sentence(self, *, names_brokers: bool) -> str:
        """Return the answer in words."""
        at = f" at broker {', '.join(map(str, self.brokers))}" if names_brokers else ""
        return f"{'yes' if self.is_allowed else 'no'}{at}, {self.because}"


class Brokers(NamedTuple):
    """These brokers have equal settings of the authorizer, which are None if they have no authorizer."""

    settings: AuthorizerSettings | None
    ids: tuple[int, ...]

    def authorizer(self, acls: Iterable[Acl]) -> Authorizer | None:
        """Return the authorizer of these ACLs, or None if every request is allowed."""
        if self.settings is None:
            return None
        known = enumerate(core_acl(acl) for acl in acls if is_known(acl))
        return Authorizer(
            {number.to_bytes(16, "big"): acl for number, acl in known},
            revision=0,
            super_users=self.settings.super_users,
            allow_everyone_if_no_acl_found=self.settings.allow_everyone_if_no_acl_found,
        )

    def answer(
        self, acls: Iterable[Acl], principal: str, operation: Operation, resource: Resource, host: str | None
    ) -> Answer:
        """Decide a request by the ACLs for its resource. Without a host, only ACLs for every host apply."""
        authorizer = self.authorizer(acls)
        request = partial(Answer, principal, operation, resource, host, self.ids)
        if authorizer is None:
            return request(True, "no_authorizer", NO_AUTHORIZER)
        asked = core_acl(Acl.allow(principal, operation, resource))
        decision = authorizer.decide(principal, host or ANY_HOST, asked.operation, asked.resource_type, asked.name)
        if isinstance(decision.rule, Reason):
            return request(decision.is_allowed, decision.rule.name.lower(), _reason(decision.rule, decision.is_allowed))
        acl = acl_of(decision.rule)
        includes = "" if acl.operation in ("all", operation) else f"; {acl.operation} includes {operation}"
        return request(decision.is_allowed, "acl", f"by the ACL: {acl}{includes}", acl)


def _reason(reason: Reason, is_allowed: bool) -> str:
    match reason:
        case Reason.SUPER_USER:
            return "because the user is a super user"
        case Reason.NO_ACL_FOUND:
            value = "true" if is_allowed else "false"
            return f"because no ACL is for the resource, and allow.everyone.if.no.acl.found is {value}"
        case Reason.NO_ACL_MATCHES:
            return "because no ACL allows it"


class Access:
    """These are the settings of all brokers. They should be equal, but nothing enforces that."""

    def __init__(self, groups: Iterable[Brokers]) -> None:
        self.groups: Final = tuple(groups)

    @classmethod
    def of(cls, admin: Admin) -> Self:
        """Ask the brokers that are there. Raises FatalError if they have an authorizer that ottla does not know."""
        ids: dict[AuthorizerSettings | None, list[int]] = {}
        for broker in admin.cluster.describe().brokers:
            if not broker.fenced:
                ids.setdefault(_settings(admin.configs.get(broker=broker.id)), []).append(broker.id)
        return cls(Brokers(settings, tuple(brokers)) for settings, brokers in ids.items())

    @property
    def super_users(self) -> frozenset[str]:
        """These principals are super users at one broker at least."""
        return frozenset(user for group in self.groups if group.settings for user in group.settings.super_users)

    @property
    def opens_resources_without_acls(self) -> bool:
        """It tells whether everyone may use a resource for which there is no ACL."""
        return any(group.settings and group.settings.allow_everyone_if_no_acl_found for group in self.groups)

    @property
    def is_checked(self) -> bool:
        """It tells whether any broker has an authorizer."""
        return any(group.settings for group in self.groups)

    def acls_for(self, admin: Admin, resource: Resource) -> list[Acl]:
        """Return the ACLs that apply to the resource, whoever they are for. Without an authorizer there are none."""
        return admin.acls.list(AclFilter(resource.type, resource.name, "match")) if self.is_checked else []

    def may_manage(self, principal: str, acls: Iterable[Acl]) -> bool:
        """Return whether the principal may change users and ACLs at every broker, if these are the ACLs."""
        known = list(acls)
        return all(
            authorizer is None
            or authorizer.decide(principal, ANY_HOST, Code.ALTER, ResourceType.CLUSTER, CLUSTER_NAME).is_allowed
            for authorizer in (group.authorizer(known) for group in self.groups)
        )


def is_known(acl: Acl) -> bool:
    """Return whether this release knows every word of the ACL. A newer broker may have operations that it does not
    know. An ACL with such an operation decides no request that this release can ask about."""
    return "unknown" not in (acl.permission, acl.operation, acl.resource.type)


def own_principal(settings: Settings) -> str | None:
    """Return who this command logs in as, or None if only the brokers know."""
    login, tls = settings.security
    if login is None:
        return None if tls is not None else ANONYMOUS
    user = own_user(settings)
    return None if user is None else of_user(user)


def own_user(settings: Settings) -> str | None:
    """Return the name with which this command logs in, or None if it sends none."""
    user: str | None = getattr(settings.security.login, "username", None)
    return user


def _settings(configs: Mapping[str, ConfigEntry]) -> AuthorizerSettings | None:
    values = {name: entry.value for name, entry in configs.items()}
    for name in _HIDDEN_BY_KAFKA:
        if name in configs and not values[name] and configs[name].source == _STATIC:
            say(f"warning: the brokers do not show {name}, which may allow more")
    try:
        return read_authorizer(
            values.get("authorizer.class.name", ""),
            values.get("super.users", ""),
            allow_everyone_if_no_acl_found=values.get("allow.everyone.if.no.acl.found") == "true",
        )
    except OttlaError as error:
        raise FatalError(
            error.code,
            f"the brokers have an authorizer that ottla does not know: {values['authorizer.class.name']}",
            hint="only they can say what it decides",
        ) from None
