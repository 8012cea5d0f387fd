"""Which role each object of a running cluster plays, and where a census begins.

A service's app is its root. Parts with a role of their own (a replica that leads, a shard that is owned, the Kafka
listener) are known before the walk, and so is what all of a service's parts share, which gives the service's role back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, Final

from tests.growth.walk import PRODUCT, Root, module_of

from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replicas import Replicas
from ottla_controller.leadership import Leadership
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.event_loop.thread_frames import thread_frames
from ottla_core.process.lifecycle import ServiceApp
from ottla_mirror.app import Flows
from ottla_mirror.flow import Flow

LEADER: Final = "broker, leader"
FOLLOWER: Final = "broker, follower"
IDLE: Final = "broker, idle replica"
LISTENER: Final = "broker, Kafka listener"
BROKER: Final = "broker"
ELECTED: Final = "controller, elected"
STANDBY: Final = "controller, standby"
SHARD: Final = "coordinator's shard"
OWNER: Final = "coordinator, owner"
NON_OWNER: Final = "coordinator, owner of nothing"
MIRROR: Final = "mirror"
LEADING: Final = "mirror, leading"
MIRROR_STANDBY: Final = "mirror, standby"
CLIENT: Final = "client"
TASK: Final = "task"
MODULE: Final = "module"
OUTSIDE: Final = "outside"
TURN: Final = "idle turn"
ANSWER: Final = "answer"
FLOW: Final = "flow's own topics"
_TARGET: Final = "target's "

IDLE_TOPIC: Final = "idle"
_LISTENER_PACKAGE: Final = "ottla_broker.kafka"
_KINDS: Final = {"groups": "group-", "transactions": "txn-"}


def part(app: ServiceApp, class_: type) -> Any:
    """The component of that class, or None."""
    return next((each for each in app._components if isinstance(each, class_)), None)


def flows_of(app: ServiceApp) -> Sequence[Flow]:
    """The flows of a mirror; none of any other service."""
    component = part(app, Flows)
    return () if component is None else component.flows


class Roles:
    """The roles of a cluster as it stands. Make one for each census, on the cluster's loop.

    `apps` are pairs of the name of a service and its app. With `of_target`, the cluster is the target of a mirror, and
    its roles begin with "target's".
    """

    def __init__(self, apps: Iterable[tuple[str, ServiceApp]], *, of_target: bool = False) -> None:
        self._prefix: Final = _TARGET if of_target else ""
        self._apps: Final = list(apps)
        self._by_id: Final[dict[int, str]] = {}
        self._threads: Final[dict[int, str]] = {}
        for name, app in self._apps:
            self._note(app, self._prefix + _role_of_service(name, app))

    def of(self, value: object, reached_as: str) -> str:
        role = self._by_id.get(id(value))
        if role is not None:
            return role
        if reached_as.endswith(BROKER) and module_of(value).startswith(_LISTENER_PACKAGE):
            return self._prefix + LISTENER
        return reached_as

    def roots(self) -> Iterator[Root]:
        for name, app in self._apps:
            yield Root(self._by_id[id(app)], name.rpartition("-")[0], app)
        for thread, frame in thread_frames().items():
            if thread in self._threads:
                yield from _roots_of(frame, self._threads[thread])

    def _note(self, app: ServiceApp, role: str) -> None:
        self._by_id[id(app)] = role
        for component in app._components:
            self._by_id[id(component)] = role
        if (replicas := part(app, Replicas)) is not None:
            self._note_replicas(replicas, role)
        if (shards := part(app, OwnedShards)) is not None:
            for held in shards._held.values():
                self._by_id[id(held)] = f"{role.removesuffix(', owner')}, shard"
        for flow in flows_of(app):
            self._note_flow(flow, LEADING if flow.state.leads else MIRROR_STANDBY)

    def _note_flow(self, flow: Flow, role: str) -> None:
        self._by_id[id(flow)] = role
        for thread in (flow._thread, *(chore.thread for chore in flow._chores)):
            if thread.ident is not None:
                self._threads[thread.ident] = role

    def _note_replicas(self, replicas: Replicas, role: str) -> None:
        for shared in (replicas._context, replicas.table.consumers, replicas.table.followers, replicas.table.deletions):
            self._by_id[id(shared)] = role
        for replica in replicas.table.all():
            self._by_id[id(replica)] = self._by_id[id(replica.log)] = self._prefix + _role_of_replica(replica)


def _role_of_service(name: str, app: ServiceApp) -> str:
    if (leadership := part(app, Leadership)) is not None:
        return ELECTED if leadership.active else STANDBY
    if (shards := part(app, OwnedShards)) is not None:
        kind = name.rpartition("-")[0]
        return f"{kind}, owner" if shards._held else f"{kind}, non-owner"
    return MIRROR if flows_of(app) else BROKER


def _roots_of(frame: FrameType | None, role: str) -> Iterator[Root]:
    """Iterate over what the product's functions have in hand in a thread, the innermost first."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(PRODUCT):
            for name, value in dict(frame.f_locals).items():
                yield Root(role, f"{frame.f_code.co_qualname}.{name}", value)
        frame = frame.f_back


def _role_of_replica(replica: Replica) -> str:
    if replica.topic.startswith(IDLE_TOPIC):
        return IDLE
    return LEADER if replica.leads else FOLLOWER
