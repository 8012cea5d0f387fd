"""Waits until brokers know a decision: metadata reaches each broker by a watch of its own.

The next request may go to any broker, so a change is visible only when all of them show it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import ClusterView
from ottla_core.rpc.retry import Backoff

logger = logging.getLogger("ottla.admin")

_BROKER_S: Final = 5.0
"""How long one broker may take to answer what it knows; a broker that takes longer is not waited for."""


def until_all(
    channel: ControllerChannel,
    topics: Collection[str],
    good: Callable[[ClusterView], bool],
    deadline: Deadline,
    done: str,
) -> ClusterView:
    """Wait until each broker's view of `topics` is good. A broker that does not answer is not waited for.

    `done` names the decision, for the message of ottla.TimeoutError.
    """

    def knows(address: str, timeout: float) -> bool:
        return good(channel.cluster.metadata_of(address, topics, timeout=timeout))

    pauses = _Pauses(channel, deadline, done)
    while True:
        view = channel.cluster.fetch_metadata(topics, timeout=deadline.left())
        behind = _behind(view, knows, deadline)
        if not behind and good(view):
            return view
        pauses.wait(", ".join(behind) or "some partition has no leader")


def until_each(channel: ControllerChannel, knows: Callable[[str, float], bool], deadline: Deadline, done: str) -> None:
    """Wait until each broker knows a decision. `knows` asks the broker at an address, and gets the seconds that it may
    take. A broker that does not answer is not waited for.

    `done` names the decision, for the message of ottla.TimeoutError.
    """
    pauses = _Pauses(channel, deadline, done)
    while behind := _behind(channel.cluster.fetch_metadata(timeout=deadline.left()), knows, deadline):
        pauses.wait(", ".join(behind))


class _Pauses:
    """The pauses between two rounds of questions, until the deadline."""

    def __init__(self, channel: ControllerChannel, deadline: Deadline, done: str) -> None:
        self._channel = channel
        self._deadline = deadline
        self._done = done
        self._backoff = Backoff(first_s=0.005, most_s=0.2)

    def wait(self, behind: str) -> None:
        """Wait a moment. Raises ottla.TimeoutError if the deadline would be over, and names who is behind."""
        pause = self._backoff.next()
        if self._deadline.is_over(pause):
            raise error_from_code(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._done}, but some brokers had not learned of it after {self._deadline.timeout:g} s: {behind}",
                hint="check that those brokers can reach etcd",
            )
        self._channel.cluster.wait(pause)


def _behind(view: ClusterView, knows: Callable[[str, float], bool], deadline: Deadline) -> list[str]:
    """Return the addresses of brokers that do not know the decision yet."""
    addresses = [broker.address for broker in view.brokers.values() if not broker.fenced]
    return [address for address in addresses if not _agrees(address, knows, deadline)]


def _agrees(address: str, knows: Callable[[str, float], bool], deadline: Deadline) -> bool:
    try:
        return knows(address, min(deadline.left(), _BROKER_S))
    except OttlaError as error:
        logger.debug("not waiting for the broker at %s: %s", address, error)
        return True
