"""Finds the coordinators of groups and transactional ids, which any broker names.

The request for that is Kafka's FindCoordinator. In a cluster of ottla the response names a broker, which forwards to
the coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import FIND_COORDINATOR
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse
from ottla_core.plural import counted
from ottla_core.routing import GROUP, TXN

_KEY_TYPES: Final = {GROUP: 0, TXN: 1}
_SEVERAL_FROM: Final = 4
"""From this version on a request has several names (KIP-699)."""
_REMEMBERED: Final = 1_000
"""Once this many names are known, all of them are forgotten."""
_NONE_AT_THE_MOMENT: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """What one broker lists, and which of the `shard_count` shards it covers. Kafka's brokers name no shards."""

    found: Sequence[T]
    shards: Collection[int]
    shard_count: int


class NamedCoordinators:
    """The coordinators of groups, or of transactional ids (`kind`). Timeouts are in seconds.

    The methods with a timeout raise what `ClusterClient.ask_any` raises.
    """

    def __init__(self, cluster: ClusterClient, kind: str) -> None:
        self._cluster: Final = cluster
        self._kind: Final = kind
        self._known: dict[str, str] = {}

    def find(self, names: Collection[str], *, timeout: float) -> dict[str, str]:
        """Return the addresses of the coordinators of these names, from memory if they are known. Names that have none
        at the moment are left out."""
        known = self._known
        if unknown := [name for name in names if name not in known]:
            if len(known) >= _REMEMBERED:
                known, unknown = {}, list(names)
            self._known = known = known | self._ask(unknown, timeout=timeout)
        return {name: known[name] for name in names if name in known}

    def forget(self) -> None:
        """Forget all coordinators, because a known one is wrong or silent."""
        self._known = {}

    def _ask(self, names: Collection[str], *, timeout: float) -> dict[str, str]:
        """Ask for all names at once, and for one at a time if the broker is too old for that."""
        try:
            return self._find(names, timeout)
        except OttlaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION or len(names) < 2:
                raise
        until = self._cluster.clock.monotonic() + timeout
        found: dict[str, str] = {}
        for name in names:
            found |= self._find([name], max(0.001, until - self._cluster.clock.monotonic()))
        return found

    def all(self, *, timeout: float) -> list[str]:
        """Return the addresses of all brokers: each may be a coordinator, and lists what it coordinates."""
        view = self._cluster.fetch_metadata(timeout=timeout)
        return sorted(broker.address for broker in view.brokers.values())

    def check_listed(self, listings: Sequence[Listing[Any]]) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if no broker of ottla has listed some shard.

        The brokers are asked one after another. A shard whose partition gets another leader in between may be listed by
        neither of the two. Kafka's brokers do not say what they have listed, so nothing is checked there.
        """
        total = max((listing.shard_count for listing in listings), default=0)
        missing = set(range(total)).difference(*(listing.shards for listing in listings))
        if missing:
            raise error_from_code(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"no {self._kind}-coordinator can list {counted(len(missing), 'shard')} yet",
                hint="try again when a coordinator has loaded the shards; `ottla doctor` shows the progress",
            )

    def _find(self, names: Collection[str], timeout: float) -> dict[str, str]:
        return self._cluster.exchange_any(search(self._kind, names), timeout=timeout)


def search(kind: str, names: Collection[str]) -> Exchange[dict[str, str]]:
    """Return the exchange that asks for the addresses of the coordinators of these names.

    Names that have no coordinator at the moment are left out.
    """

    def build(terms: Terms) -> FindCoordinatorRequest:
        if terms.version >= _SEVERAL_FROM:
            return FindCoordinatorRequest(key_type=_KEY_TYPES[kind], coordinator_keys=list(names))
        if len(names) > 1:
            reason = "a request for several coordinators needs version 4 of FindCoordinator"
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, reason)
        return FindCoordinatorRequest(key_type=_KEY_TYPES[kind], key=next(iter(names)))

    def read(response: FindCoordinatorResponse) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, coordinator in _coordinators(response, names):
            if coordinator.error_code == ErrorCode.NONE:
                found[name] = str(HostPort(coordinator.host, coordinator.port))
            elif coordinator.error_code not in _NONE_AT_THE_MOMENT:
                raise error_from_code(coordinator.error_code, coordinator.error_message or "")
        return found

    return Exchange(FIND_COORDINATOR, build, read, takes_errors=True)


def _coordinators(
    response: FindCoordinatorResponse, names: Collection[str]
) -> list[tuple[str, FindCoordinatorResponse | FindCoordinatorResponse.Coordinator]]:
    """Return the coordinator that was found for each name. Before version 4 the response is about one name, and does
    not repeat it."""
    if response.coordinators:
        return [(coordinator.key, coordinator) for coordinator in response.coordinators]
    return [(name, response) for name in names]


def no_coordinator(kind: str, name: str) -> OttlaError:
    """Return the error for a group or a transactional id that has no coordinator at the moment."""
    noun = "group" if kind == GROUP else "transactional id"
    return error_from_code(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        f"the {noun} {name!r} has no coordinator at the moment",
        hint="try again; a new cluster has no coordinators in its first seconds",
    )
