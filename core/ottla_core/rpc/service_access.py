"""Says which services may call which method: one table for all contracts, by the roles that certificates name.

A service does not start if one of its methods has no entry. Where certificates are not configured, nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.service_identity import Role, ServiceIdentity
from ottla_proto.contracts import Broker, Controller, Group, Method, Mirror, Txn

Roles = frozenset[Role]

_BROKER: Final[Roles] = frozenset({Role.BROKER})
_CONTROLLER: Final[Roles] = frozenset({Role.CONTROLLER})
_GROUP: Final[Roles] = frozenset({Role.GROUP_COORDINATOR})
_TXN: Final[Roles] = frozenset({Role.TXN_COORDINATOR})
_COORDINATORS: Final[Roles] = _GROUP | _TXN
_OPERATED: Final[Roles] = _BROKER | {Role.ADMIN}
"""An operator's program may call a mirror at its own port. Other programs reach it through a broker."""

_TABLE: Final[Mapping[Method[Any, Any], Roles]] = {
    Broker.FETCH: _COORDINATORS,
    Broker.REPLICA_FETCH: _BROKER,
    Broker.LIST_OFFSETS: _GROUP,
    Broker.SHARD_APPEND: _COORDINATORS,
    Broker.CHECK_FENCE: _COORDINATORS,
    Broker.LOG_ENDS: _CONTROLLER,
    Broker.WRITE_TXN_MARKERS: _TXN,
    Controller.CREATE_TOPICS: _BROKER,
    Controller.DELETE_TOPICS: _BROKER,
    Controller.CREATE_PARTITIONS: _BROKER,
    Controller.DESCRIBE_CONFIGS: _BROKER,
    Controller.ALTER_CONFIGS: _BROKER,
    Controller.ALLOCATE_PRODUCER_IDS: _BROKER | _TXN,
    Controller.ALLOCATE_BROKER_ID: _BROKER,
    Controller.ALTER_PARTITION: _BROKER,
    Controller.CONTROLLED_SHUTDOWN: _BROKER,
    Controller.ELECT_LEADERS: _BROKER,
    Controller.RELEASE_SHARD: _COORDINATORS,
    Controller.DESCRIBE_QUORUM: _BROKER,
    Controller.DECLARE_RESTORED: _BROKER,
    Controller.CREATE_ACLS: _BROKER,
    Controller.DELETE_ACLS: _BROKER,
    Controller.ALTER_SCRAM_CREDENTIALS: _BROKER,
    Group.JOIN: _BROKER,
    Group.SYNC: _BROKER,
    Group.HEARTBEAT: _BROKER,
    Group.CONSUMER_HEARTBEAT: _BROKER,
    Group.LEAVE: _BROKER,
    Group.COMMIT_OFFSETS: _BROKER,
    Group.FETCH_OFFSETS: _BROKER,
    Group.DELETE_OFFSETS: _BROKER,
    Group.LIST_GROUPS: _BROKER,
    Group.DESCRIBE_GROUPS: _BROKER,
    Group.DELETE_GROUPS: _BROKER,
    Group.EXPLAIN_GROUP: _BROKER,
    Group.LAG: _BROKER,
    Group.SHARDS: _BROKER,
    Group.WRITE_TXN_MARKERS: _BROKER | _TXN,
    Txn.INIT_PRODUCER: _BROKER,
    Txn.ADD_PARTITIONS: _BROKER,
    Txn.ADD_OFFSETS: _BROKER | _GROUP,
    Txn.END_TXN: _BROKER,
    Txn.PREPARE: _BROKER,
    Txn.FORGET: _BROKER,
    Txn.LIST_TRANSACTIONS: _BROKER,
    Txn.DESCRIBE_TRANSACTIONS: _BROKER,
    Txn.SHARDS: _BROKER,
    Mirror.MIRROR_STATUS: _OPERATED,
    Mirror.TRANSLATE_OFFSETS: _OPERATED,
    Mirror.GROUP_POSITIONS: _OPERATED,
    Mirror.PAUSE_FLOW: _OPERATED,
    Mirror.FAILOVER: _OPERATED,
    Mirror.FAILBACK: _OPERATED,
}

CALLERS: Final[Mapping[str, Roles]] = {method.path: roles for method, roles in _TABLE.items()}
"""The roles that may call each method, by its path."""

FORWARDERS: Final[Roles] = _BROKER
"""The roles that call for others, and may say for whom: brokers, for their Kafka clients."""


@dataclass(frozen=True, slots=True)
class Caller:
    """This is the other side of a connection, as its certificate says. `identity` is None if it names no service.

    `forwards` tells whether the call names a client's principal.
    """

    identity: ServiceIdentity | None
    forwards: bool = False

    def check(self, method: Method[Any, Any], callers: Roles) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the role is one of `callers`, those of the method."""
        if self.identity is None:
            raise _refused(
                f"{_named(method)} is for {_listed(callers)}, and the caller's certificate names no role",
                "issue one with `ottla ca issue ROLE NAME --dir DIR`; those of Kafka clients are for Kafka's port",
            )
        if self.identity.role not in callers:
            raise _refused(
                f"{_named(method)} is for {_listed(callers)}, and the caller is {self.identity}",
                "give each service a certificate of its own role, and call this method by such a service alone",
            )
        if self.forwards and self.identity.role not in FORWARDERS:
            raise _refused(
                f"{_named(method)} was called in a client's name by {self.identity}, and only {_listed(FORWARDERS)} "
                "may do that",
                "call it without x-ottla-principal",
            )


def _named(method: Method[Any, Any]) -> str:
    return f"{method.service}.{method.name}"


def _listed(roles: Iterable[Role]) -> str:
    return " and ".join(f"{role}s" for role in sorted(roles))


def _refused(message: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message, hint=hint)
