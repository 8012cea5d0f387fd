"""The heartbeat, which is the only request of the consumer protocol, and its response."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.member import JOINS, LEAVES_FOR_NOW
from ottla_group_coordinator.machines.consumer.partitions import Partitions
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.names import check_names

UNCHANGED: Final = -1


class Reader(NamedTuple):
    """The client whose rights bound the matches of a regular expression."""

    principal: str
    host: str
    sees_unlisted: bool = False
    """Whether topics without ACLs are open to every client."""


class ConsumerHeartbeat(NamedTuple):
    """A member's request. None, or -1 for the timeout, means no change since its last request."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    reader: Reader | None = None

    @property
    def is_full(self) -> bool:
        """Whether the member sends all of its data, as it does after an error. Then it needs its whole assignment."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != UNCHANGED and has_subscription and self.owned is not None

    @property
    def says_nothing_new(self) -> bool:
        return (
            self.topics is None
            and self.regex is None
            and self.rebalance_timeout_ms == UNCHANGED
            and self.assignor is None
            and self.rack is None
        )


class ConsumerHeartbeatAnswer(NamedTuple):
    """`assignment` is None if it has not changed."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int
    assignment: Partitions | None = None


def check_request(group_id: str, request: ConsumerHeartbeat, settings: ConsumerSettings) -> None:
    """Raise for a request that no group accepts."""
    if not group_id:
        raise errors.invalid("the group id is empty", "set a group.id")
    if not request.member_id:
        raise errors.invalid("the member id is empty", "choose a random id, and keep it as long as the process lives")
    if request.instance_id == "" or request.rack == "":
        raise errors.invalid("the instance id or the rack is empty", "leave it out, or set it to some text")
    if request.epoch < LEAVES_FOR_NOW:
        raise errors.invalid(f"the member epoch {request.epoch} is not valid", "use 0 to join, -1 or -2 to leave")
    if request.epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise errors.invalid("a member without an instance id can't leave with epoch -2", "leave with epoch -1")
    if request.epoch == JOINS:
        _check_join(request)
    if request.assignor is not None and request.epoch >= JOINS and request.assignor not in settings.assignors:
        raise errors.unsupported_assignor(request.assignor, settings.assignors)
    check_names(
        (
            group_id,
            request.member_id,
            request.instance_id or "",
            request.rack or "",
            request.client_id,
            request.client_host,
            request.regex or "",
            *sorted(request.topics or ()),
        )
    )


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == UNCHANGED:
        raise errors.invalid("a member joins without a rebalance timeout", "send it with epoch 0")
    if request.owned is None or any(request.owned.values()):
        raise errors.invalid("a member joins without an empty list of owned partitions", "give up all partitions first")
    if request.topics is None and request.regex is None:
        raise errors.invalid("a member joins without a subscription", "send topic names, or a regular expression")
