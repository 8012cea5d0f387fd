"""The error codes that the versions of an API may carry, and the groups of codes that several APIs have in common.

Clients branch on codes. A code that a version does not know is at best a failure without a name, and often fatal to the
client. So every response is checked against its API's codes where it is encoded. A code that the version knows is sent
unchanged. If only later versions know a code, the code that Kafka sends in its place is sent. A code that no version
knows is a bug of ottla: it is logged, and UNKNOWN_SERVER_ERROR is sent.

The versions and replacements are those of Kafka's message schemas and of its brokers; `source` says where they come
from. If a code's cause is newer than the version, Kafka never had to replace the code, and the nearest one stands in.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode as E

_log = logging.getLogger(__name__)

_CODES: Final = frozenset(E)


class Since(NamedTuple):
    """A code that clients know from `version` on, and the code that older versions get in its place."""

    version: int
    before: E


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """The codes of one API in addition to `OF_ALL`. `codes` are known in every version, `since` from a version on.
    `instead` names what is sent for a code that no version of the API knows."""

    source: str
    codes: frozenset[E] = frozenset()
    since: Mapping[E, Since] = field(default_factory=dict)
    instead: Mapping[E, E] = field(default_factory=dict)

    @lru_cache(4096)  # noqa: B019 there is one object for each API
    def sent(self, api: str, version: int, code: int) -> int:
        """Return the code that a response of this version carries for `code`. A code without a row is logged once."""
        if code in OF_ALL or code in self.codes:
            return code
        since = self.since.get(E(code)) if code in _CODES else None
        if since is not None:
            return code if version >= since.version else self.sent(api, version, int(since.before))
        instead = self.instead.get(E(code)) if code in _CODES else None
        if instead is not None:
            return self.sent(api, version, int(instead))
        _log.error(
            "%s does not have error code %d in version %d; the client gets UNKNOWN_SERVER_ERROR", api, code, version
        )
        return int(E.UNKNOWN_SERVER_ERROR)


OF_ALL: Final = frozenset(
    {E.NONE, E.UNKNOWN_SERVER_ERROR, E.INVALID_REQUEST, E.UNSUPPORTED_VERSION, E.CLUSTER_AUTHORIZATION_FAILED}
)
"""The codes with which Kafka may answer any request: it can't be read, it is not allowed, or the broker failed."""

COORDINATOR: Final = frozenset({E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR})
GROUP: Final = COORDINATOR | {E.INVALID_GROUP_ID, E.GROUP_AUTHORIZATION_FAILED}
CONTROLLER: Final = frozenset({E.NOT_CONTROLLER, E.REQUEST_TIMED_OUT})
TOPIC: Final = frozenset({E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION, E.TOPIC_AUTHORIZATION_FAILED})
LEADER: Final = TOPIC | {E.NOT_LEADER_OR_FOLLOWER, E.REPLICA_NOT_AVAILABLE, E.LEADER_NOT_AVAILABLE}
CONFIG: Final = (
    CONTROLLER | TOPIC | {E.INVALID_CONFIG, E.POLICY_VIOLATION, E.INVALID_GROUP_ID, E.GROUP_AUTHORIZATION_FAILED}
)

BY_NAME: Final = {E.UNKNOWN_TOPIC_ID: E.UNKNOWN_TOPIC_OR_PARTITION}
"""The replacement in requests that name topics by name, and so contain no unknown id."""
ACLS: Final = frozenset({E.SECURITY_DISABLED, E.INVALID_REQUEST, E.CLUSTER_AUTHORIZATION_FAILED})
LOST_CONTROLLER: Final = {E.NETWORK_EXCEPTION: E.REQUEST_TIMED_OUT, E.BROKER_ID_NOT_REGISTERED: E.INVALID_REQUEST}
COORDINATORS_LOG: Final = {
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NETWORK_EXCEPTION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
}
"""The codes by which Kafka's coordinators report trouble with their log, because clients know nothing of that log."""
COMMITTING: Final = {
    **COORDINATORS_LOG,
    E.RECORD_LIST_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
    E.MESSAGE_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
}
VERIFYING: Final = {
    E.COORDINATOR_LOAD_IN_PROGRESS: E.NOT_ENOUGH_REPLICAS,
    E.COORDINATOR_NOT_AVAILABLE: E.NOT_ENOUGH_REPLICAS,
    E.NOT_COORDINATOR: E.NOT_ENOUGH_REPLICAS,
    E.NETWORK_EXCEPTION: E.NOT_ENOUGH_REPLICAS,
    E.PRODUCER_FENCED: E.INVALID_PRODUCER_EPOCH,
}
"""The codes by which Kafka's brokers report to a producer that its partition can't be verified. Every producer handles
them."""
TRANSACTION: Final = COORDINATOR | {
    E.INVALID_TXN_STATE,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.INVALID_PRODUCER_EPOCH,
    E.CONCURRENT_TRANSACTIONS,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def fenced(version: int) -> dict[E, Since]:
    return {E.PRODUCER_FENCED: Since(version, E.INVALID_PRODUCER_EPOCH)}


def abortable(version: int) -> dict[E, Since]:
    return {E.TRANSACTION_ABORTABLE: Since(version, E.INVALID_TXN_STATE)}


def static(version: int) -> dict[E, Since]:
    """Return the row for FENCED_INSTANCE_ID: a member whose request has no group.instance.id can't be the wrong
    instance of one."""
    return {E.FENCED_INSTANCE_ID: Since(version, E.UNKNOWN_MEMBER_ID)}


def epochs(version: int) -> dict[E, Since]:
    """Return the rows for epochs: a client whose request has no leader epoch can't have the wrong one."""
    return dict.fromkeys((E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH), Since(version, E.NOT_LEADER_OR_FOLLOWER))


def by_id(version: int) -> dict[E, Since]:
    return {E.UNKNOWN_TOPIC_ID: Since(version, E.UNKNOWN_TOPIC_OR_PARTITION)}


def throttled(version: int) -> dict[E, Since]:
    return {E.THROTTLING_QUOTA_EXCEEDED: Since(version, E.REQUEST_TIMED_OUT)}
