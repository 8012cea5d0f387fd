"""A client of a group's coordinator, which any broker names."""

from __future__ import annotations

from threading import Lock
from typing import Final, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.exchange import Exchange
from ottla.client.named_coordinators import NamedCoordinators, no_coordinator
from ottla.errors import ErrorCode, OttlaError, from_core
from ottla.machines.membership import Meaning, meaning_of
from ottla_core.routing import GROUP

T = TypeVar("T")

_LANE: Final = "group"
"""A coordinator has a connection of its own, as in Kafka's clients. The same broker may lead partitions, and the
consumer keeps reading these when the group disconnects from it."""
TRY_S: Final = 7.0
"""How long to wait for a response that waits for no other member. After that another node may be the coordinator.

A coordinator whose log is late says so, and why, after offsets.commit.timeout.ms (5 seconds). The client waits
longer, so that it hears the reason.
"""


class CoordinatorClient:
    """Thread-safe. It never retries: the meaning of an error says what to do (ottla.machines.membership)."""

    def __init__(self, cluster: ClusterClient, group: str, request_timeout: float) -> None:
        self.group: Final = group
        self._cluster: Final = cluster
        self._finder: Final = NamedCoordinators(cluster, GROUP)
        self._timeout: Final = request_timeout
        self._lock: Final = Lock()
        self._address = ""

    def exchange(self, asked: Exchange[T], *, timeout: float = TRY_S) -> T:
        """Send a request to the coordinator, and return what its response means. Raises the SDK's errors."""
        address = self._found()
        try:
            return self._cluster.connection(address, _LANE).exchange(asked, timeout=timeout)
        except OttlaError as error:
            self._forget(address, error.code)
            raise from_core(error, broker=address) from None

    def leave_if_moved(self) -> None:
        """Disconnect from a coordinator that is no longer the group's: if it hangs, it never says so."""
        with self._lock:
            known = self._address
        if known and self._look_up() not in ("", known):
            self._forget(known, ErrorCode.NOT_COORDINATOR)
            self._cluster.disconnect(known, _LANE)

    def _found(self) -> str:
        with self._lock:
            known = self._address
        if known:
            return known
        found = self._look_up()
        if not found:
            raise no_coordinator(GROUP, self.group)
        with self._lock:
            self._address = found
        return found

    def _look_up(self) -> str:
        """Return the coordinator's address, or "" if there is none. Raises if no broker answers."""
        self._finder.forget()  # a new look-up means that the known address is in doubt
        return self._finder.find((self.group,), timeout=self._timeout).get(self.group, "")

    def _forget(self, address: str, code: int) -> None:
        if meaning_of(code) is Meaning.FIND and code:
            with self._lock:
                if self._address == address:
                    self._address = ""
