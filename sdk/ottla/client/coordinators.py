"""Which node coordinates which group: the owner of the shard that the group's id hashes to, as any broker reports.

Owners change when a coordinator starts or stops. After NOT_COORDINATOR, or without a response, the owners are looked up
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla.client.cluster import ClusterClient
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.routing import GROUP, shard_of
from ottla_core.rpc.retry import Backoff
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker, Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Found = TypeVar("Found")

_TRY_S: Final = 10.0
"""How long one coordinator may take before it is looked for again."""

_LOST: Final = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Coordinators:
    """The group-coordinators of a cluster. Thread-safe. Timeouts are in seconds."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster: Final = cluster
        self._owners: tuple[str, ...] = ()  # addresses by shard, "" for one without an owner

    def of(self, group: str, *, timeout: float) -> str:
        """The address of the group's coordinator, from memory if it is known.

        Raises COORDINATOR_NOT_AVAILABLE while the group has none, and what `ClusterClient.call_any` raises.
        """
        owners = self._owners or self._look_up(timeout)
        address = owners[shard_of(group, len(owners))] if owners else ""
        if not address:
            self.forget()
            raise _not_available(f"group {group} has no coordinator at the moment")
        return address

    def all(self, *, timeout: float) -> list[str]:
        """The addresses of all that own a shard now. Raises COORDINATOR_NOT_AVAILABLE where a shard has no owner."""
        owners = self._look_up(timeout)
        if not all(owners) or not owners:
            self.forget()
            raise _not_available(f"{owners.count('') or 'all'} shards of groups have no coordinator at the moment")
        return sorted(set(owners))

    def forget(self) -> None:
        """Look the owners up again at the next `of`: the one that was known is wrong, or silent."""
        self._owners = ()

    def call(
        self,
        group: str,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout: float,
        check: Callable[[Response, bool], None] = lambda response, repeated: None,
    ) -> Response:
        """Call the group's coordinator, and the next one if it moves, until `timeout` seconds have passed.

        `check` raises what the response says in band; it also hears whether an earlier try was lost, so that all of it
        may have been carried out before. Raises the last error where it is not retriable, or where the time is over.
        """
        repeated = False

        def once(left_s: float) -> Response:
            nonlocal repeated
            address = self.of(group, timeout=left_s)
            try:
                response = self._cluster.call(address, method, request, timeout=min(left_s, _TRY_S))
                check(response, repeated)
            except OttlaError as error:
                repeated = repeated or error.code in _LOST
                raise
            return response

        return self.retrying(once, timeout=timeout)

    def retrying(self, once: Callable[[float], Found], *, timeout: float) -> Found:
        """The result of `once`, which gets the seconds that are left; again while its error is retriable."""
        clock = self._cluster.clock
        over_at = clock.monotonic() + timeout
        backoff = Backoff()
        while True:
            try:
                return once(max(0.001, over_at - clock.monotonic()))
            except OttlaError as error:
                pause = backoff.next()
                if not error.retriable or clock.monotonic() + pause >= over_at:
                    raise
            self.forget()
            self._cluster.wait(pause)

    def _look_up(self, timeout: float) -> tuple[str, ...]:
        self._owners = group_owners(self._cluster, timeout=timeout)
        return self._owners


def group_owners(cluster: ClusterClient, *, timeout: float) -> tuple[str, ...]:
    """The address of each shard's owner, as some broker knows it now: "" for a shard without an owner.

    Raises what `ClusterClient.call_any` raises.
    """
    response = cluster.call_any(Broker.METADATA, pb.MetadataRequest(shards=True), timeout=timeout)
    of_groups = sorted((shard for shard in response.shards if shard.kind == GROUP), key=lambda shard: shard.shard)
    return tuple(shard.address if shard.owner >= 0 else "" for shard in of_groups)


def _not_available(message: str) -> OttlaError:
    return error_from_code(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, message, hint="see whether a group-coordinator runs, and try again"
    )
