"""Finds the coordinator of a group or transactional id: the owner of the shard that it hashes to. Any broker names it.

Owners change when a coordinator starts or stops. After NOT_COORDINATOR, or without a response, the owners are looked up
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla.client.cluster import ClusterClient
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.plural import counted
from ottla_core.routing import GROUP, TXN, shard_of
from ottla_core.rpc.retry import Backoff
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker, Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Found = TypeVar("Found")

TRY_S: Final = 10.0
"""How long one coordinator may take before the owners are looked up again."""

_LOST: Final = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE)


_NOUNS: Final = {GROUP: "group", TXN: "transactional id"}


class Coordinators:
    """A cluster's coordinators of groups, or of transactional ids (`kind`). Thread-safe. Timeouts are in seconds."""

    def __init__(self, cluster: ClusterClient, kind: str = GROUP) -> None:
        self._cluster: Final = cluster
        self._kind: Final = kind
        self._owners: tuple[str, ...] = ()  # addresses by shard, "" for one without an owner

    def of(self, name: str, *, timeout: float) -> str:
        """Return the address of the coordinator of that name, from memory if it is known.

        Raises COORDINATOR_NOT_AVAILABLE while there is none, and what `ClusterClient.call_any` raises.
        """
        owners = self._owners or self._look_up(timeout)
        address = owners[shard_of(name, len(owners))] if owners else ""
        if not address:
            self.forget()
            raise _not_available(self._kind, f"{_NOUNS[self._kind]} {name} has no coordinator at the moment")
        return address

    def all(self, *, timeout: float) -> list[str]:
        """Return the addresses of all shard owners. Raises COORDINATOR_NOT_AVAILABLE if a shard has no owner."""
        owners = self._look_up(timeout)
        if not all(owners) or not owners:
            self.forget()
            missing = counted(owners.count(""), "shard") if owners else "any shard"
            raise _not_available(self._kind, f"no coordinator owns {missing} of {_NOUNS[self._kind]}s at the moment")
        return sorted(set(owners))

    def listed(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Sequence[Response]:
        """Return the responses of all coordinators to a listing. Together they cover every shard.

        Each coordinator lists the shards that it serves at that moment, and names them. A shard that no response names
        is on its way from one coordinator to another, or its new owner is still reading its log: all are asked again
        until `timeout` seconds have passed, and then COORDINATOR_LOAD_IN_PROGRESS is raised.
        """

        def once(left_s: float) -> Sequence[Response]:
            addresses = self.all(timeout=left_s)
            missing = set(range(len(self._owners or self._look_up(left_s))))
            responses = [self._cluster.call(address, method, request, timeout=left_s) for address in addresses]
            for response in responses:
                missing.difference_update(response.shards.numbers)  # type: ignore[attr-defined]  # a listing has it
            if missing:
                raise error_from_code(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    f"no coordinator can list the {_NOUNS[self._kind]}s of {counted(len(missing), 'shard')} yet",
                    hint="try again when a coordinator has loaded the shards; `ottla doctor` shows the progress",
                )
            return responses

        return self.retrying(once, timeout=timeout)

    def forget(self) -> None:
        """Look the owners up again at the next `of`, because the known one is wrong or silent."""
        self._owners = ()

    def call(
        self,
        name: str,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout: float,
        check: Callable[[Response, bool], None] = lambda response, repeated: None,
    ) -> Response:
        """Call the coordinator of that name, and the next one if it moves, until `timeout` seconds have passed.

        `check` raises the error in a response. It is also told whether an earlier try was lost, in which case the
        request may have been carried out already. Raises the last error if it is not retriable, or if the time is over.
        """
        repeated = False

        def once(left_s: float) -> Response:
            nonlocal repeated
            address = self.of(name, timeout=left_s)
            try:
                response = self._cluster.call(address, method, request, timeout=min(left_s, TRY_S))
                check(response, repeated)
            except OttlaError as error:
                repeated = repeated or error.code in _LOST
                raise
            return response

        return self.retrying(once, timeout=timeout)

    def retrying(self, once: Callable[[float], Found], *, timeout: float) -> Found:
        """Return the result of `once`, which gets the seconds left; repeat it while its error is retriable."""
        clock = self._cluster.clock
        over_at = clock.monotonic() + timeout
        backoff = Backoff()
        while True:
            try:
                return once(max(0.001, over_at - clock.monotonic()))
            except OttlaError as error:
                pause = backoff.next()
                is_final = not error.retriable or error.code == ErrorCode.UNKNOWN_TOPIC_ID  # it stays another topic
                if is_final or clock.monotonic() + pause >= over_at:
                    raise
                if error.code != ErrorCode.CONCURRENT_TRANSACTIONS:  # otherwise it is the right coordinator, and busy
                    self.forget()
            self._cluster.wait(pause)

    def _look_up(self, timeout: float) -> tuple[str, ...]:
        self._owners = shard_owners(self._cluster, self._kind, timeout=timeout)
        return self._owners


def shard_owners(cluster: ClusterClient, kind: str = GROUP, *, timeout: float) -> tuple[str, ...]:
    """Return the address of each shard's owner, as some broker knows it now, "" for a shard without an owner.

    Raises what `ClusterClient.call_any` raises.
    """
    response = cluster.call_any(Broker.METADATA, pb.MetadataRequest(shards=True), timeout=timeout)
    shards = sorted((shard for shard in response.shards if shard.kind == kind), key=lambda shard: shard.shard)
    return tuple(shard.address if shard.owner >= 0 else "" for shard in shards)


def _not_available(kind: str, message: str) -> OttlaError:
    service = f"{kind}-coordinator"
    return error_from_code(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, message, hint=f"check that a {service} is running, and try again"
    )
