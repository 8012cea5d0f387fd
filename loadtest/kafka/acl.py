"""What it costs a broker to look up whether a request is allowed, once its connection has the decision."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final, cast

from loadtest.kafka.comparison import Figure, Goal, Pair
from ottla_broker.kafka.authorization.access import EVERYTHING, Access
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import ClusterImage
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer_settings import AuthorizerSettings
from ottla_core.security.principal import ANONYMOUS
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

FIGURE: Final = Figure("acl", "an ACL check of a request, decided before", Goal(most=1), "us", "µs")
_LIMIT_US: Final = 2.0
_ACLS: Final = 10_000
_CHECKS: Final = 200_000


def measure(pairs: int) -> list[Pair]:
    """Time the check of a Produce, with many ACLs, against no authorizer."""
    current = CurrentAuthorizer(AuthorizerSettings(), SimpleNamespace(image=_image()), DiskThreads(), FetchPurgatory())
    caller = Caller("127.0.0.1", "127.0.0.1")

    def added_us() -> float:
        return _us_per_check(lambda: current.access(caller)) - _us_per_check(lambda: EVERYTHING)

    return [({"us": added_us()}, {"us": _LIMIT_US}) for _ in range(pairs)]


def _us_per_check(access: Callable[[], Access]) -> float:
    begun = time.thread_time()
    for _ in range(_CHECKS):
        if not access().allows(Operation.WRITE, ResourceType.TOPIC, "topic-77"):
            raise AssertionError("the ACLs allow it")
    return (time.thread_time() - begun) / _CHECKS * 1e6


def _image() -> ClusterImage:
    names = [f"topic-{number}" for number in range(_ACLS)]
    acls = {
        name.encode(): Acl(
            ResourceType.TOPIC, name, PatternType.LITERAL, ANONYMOUS, "*", Operation.WRITE, Permission.ALLOW
        )
        for name in names
    }
    return cast(ClusterImage, SimpleNamespace(acls=acls, acls_revision=1))
