"""What the client of a request may do.

Handlers ask for it by `context.access`. Where no authorizer is configured, that is EVERYTHING, which costs next to
nothing. Named resources are asked for before anyone looks whether they exist, so that a refusal reveals nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.decision import Reason
from ottla_core.security.decisions import Decisions
from ottla_core.security.resource import CLUSTER_NAME, SUPPORTED_OPERATIONS, ResourceType
from ottla_proto.operation import Operation

_CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_SHOWN_CHARACTERS: Final = 80
_NO_REVISION: Final = -1


class Access:
    """Access to everything. `revision` is that of the ACLs that decide. The client `is_bounded` by them unless it is a
    super user. `sees_unlisted` says whether resources without ACLs are open to it."""

    __slots__ = ()

    is_limited: bool = False
    is_bounded: bool = False
    sees_unlisted: bool = True
    revision: int = _NO_REVISION

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """Return whether the client may do the operation on the resource, or by default on the cluster."""
        return True

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do the operation on at least one resource of the type, existing or not."""
        return True

    def refused(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> OttlaError | None:
        """Return Kafka's authorization error for the type of resource, or None if the client may do the operation."""
        return None if self.allows(operation, resource_type, name) else _refusal(operation, resource_type, name)

    def check(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> None:
        """Raise Kafka's authorization error for the type of resource unless the client may do the operation."""
        if not self.allows(operation, resource_type, name):
            raise _refusal(operation, resource_type, name)

    async def hidden(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> Collection[str]:
        """Return the names on which the client may not do the operation, in their order."""
        return ()

    async def denied(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> dict[str, OttlaError]:
        """Return an error for each name on which the client may not do the operation."""
        hidden = await self.hidden(operation, resource_type, names)
        return {name: _refusal(operation, resource_type, name) for name in hidden}

    def as_of_now(self) -> Access:
        """Return what the client may do now, for a request that has waited. The result may be this very access."""
        return self

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the bit field of Kafka's authorized operations on the resource (KIP-430)."""
        return sum(1 << operation for operation in SUPPORTED_OPERATIONS[resource_type])


EVERYTHING: Final = Access()


class LimitedAccess(Access):
    """Access to what an authorizer allows the principal of a connection. `latest` returns the current authorizer. That
    authorizer decides for as long as this access is used, so that decisions about one request agree."""

    __slots__ = ("_authorizer", "_decisions", "_latest")

    is_limited = True

    def __init__(self, latest: Callable[[], Authorizer], decisions: Decisions) -> None:
        self._latest: Final = latest
        self._authorizer: Final = latest()
        self._decisions: Final = decisions

    @property
    def is_bounded(self) -> bool:  # type: ignore[override]  # it is read only
        decided = self._decisions.decide(self._authorizer, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        return decided.rule is not Reason.SUPER_USER

    @property
    def sees_unlisted(self) -> bool:  # type: ignore[override]  # it is read only
        return self._authorizer.allows_unlisted

    @property
    def revision(self) -> int:  # type: ignore[override]  # it is read only
        return self._authorizer.revision

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:
        return self._decisions.decide(self._authorizer, operation, resource_type, name).is_allowed

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._decisions.decide_any(self._authorizer, operation, resource_type).is_allowed

    async def hidden(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> Collection[str]:
        once = dict.fromkeys(names)
        allowed = await sliced(lambda name: self.allows(operation, resource_type, name), once)
        return {name: None for name, is_allowed in zip(once, allowed, strict=True) if not is_allowed}.keys()

    def as_of_now(self) -> Access:
        return self if self._latest() is self._authorizer else LimitedAccess(self._latest, self._decisions)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        supported = SUPPORTED_OPERATIONS[resource_type]
        return sum(1 << operation for operation in supported if self.allows(operation, resource_type, name))


class KeptDecisions:
    """The decisions that a connection has already got. They begin anew when the client has logged in."""

    __slots__ = ("_decisions", "_principal")

    def __init__(self) -> None:
        self._principal = ""
        self._decisions: Decisions | None = None

    def of(self, principal: str, host: str) -> Decisions:
        decisions = self._decisions
        if decisions is None or principal != self._principal:
            self._principal = principal
            self._decisions = decisions = Decisions(principal, host)
        return decisions


def _refusal(operation: Operation, resource_type: ResourceType, name: str) -> OttlaError:
    shown = resource_type.name.lower().replace("_", " ")
    if resource_type is not ResourceType.CLUSTER:
        shown += f" {name[:_SHOWN_CHARACTERS]!r}"
    return OttlaError(
        _CODES[resource_type],
        f"no ACL allows this principal the operation {operation.name} on the {shown}",
        hint="log in as a principal that may do it, or have an administrator add an ACL",
    )
