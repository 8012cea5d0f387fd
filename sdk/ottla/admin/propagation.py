"""Waits until brokers know a decision: metadata reaches each broker by a watch of its own.

The next request may go to any broker, so a change is visible only when all of them show it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.client.cluster import view_of
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import BrokerView, ClusterView
from ottla_core.rpc.retry import Backoff
from ottla_proto import client_pb2
from ottla_proto.client_calls import Client

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
    cluster = channel.cluster
    backoff = Backoff(first_s=0.005, most_s=0.2)
    while True:
        view = cluster.fetch_metadata(topics, timeout=deadline.left())
        behind = [
            b.address for b in view.brokers.values() if not b.fenced and not _agrees(channel, b, topics, good, deadline)
        ]
        if not behind and good(view):
            return view
        pause = backoff.next()
        if deadline.is_over(pause):
            raise error_from_code(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{done}, but some brokers had not learned of it after {deadline.timeout:g} s: "
                f"{', '.join(behind) or 'some partition has no leader'}",
                hint="check that those brokers can reach etcd",
            )
        cluster.wait(pause)


def _agrees(
    channel: ControllerChannel,
    broker: BrokerView,
    topics: Collection[str],
    good: Callable[[ClusterView], bool],
    deadline: Deadline,
) -> bool:
    request = client_pb2.MetadataRequest(topics=list(topics))
    try:
        response = channel.cluster.call(
            broker.address, Client.METADATA, request, timeout=min(deadline.left(), _BROKER_S)
        )
    except OttlaError as error:
        logger.debug("not waiting for the broker at %s: %s", broker.address, error)
        return True
    return good(view_of(response))
