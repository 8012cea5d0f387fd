"""Calls the coordinators of groups or transactional ids, and finds their addresses. Any broker names them.

Coordinators come and go. After NOT_COORDINATOR, or without a response, they are looked up again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.exchange import Exchange
from ottla.client.named_coordinators import Listing, NamedCoordinators, no_coordinator
from ottla.errors import ErrorCode, OttlaError
from ottla_core.errors import UNANSWERED
from ottla_core.routing import GROUP
from ottla_core.rpc.retry import Backoff

T = TypeVar("T")

TRY_S: Final = 10.0
"""How long one coordinator may take before it is looked up again."""

_LOST: Final = frozenset({*UNANSWERED, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Coordinators:
    """A cluster's coordinators of groups, or of transactional ids (`kind`). Thread-safe. Timeouts are in seconds."""

    def __init__(self, cluster: ClusterClient, kind: str = GROUP) -> None:
        self._cluster: Final = cluster
        self._kind: Final = kind
        self._finder: Final = NamedCoordinators(cluster, kind)

    def of(self, name: str, *, timeout: float) -> str:
        """Return the address of the coordinator of that name, from memory if it is known.

        Raises COORDINATOR_NOT_AVAILABLE while there is none, and what `ClusterClient.ask_any` raises.
        """
        return self.of_all((name,), timeout=timeout)[name]

    def of_all(self, names: Collection[str], *, timeout: float) -> Mapping[str, str]:
        """Return the addresses of the coordinators of these names. Raises like `of`."""
        found = self._finder.find(names, timeout=timeout)
        for name in names:
            if name not in found:
                raise no_coordinator(self._kind, name)
        return found

    def all(self, *, timeout: float) -> list[str]:
        """Return the addresses that have to be asked for a listing. Raises like `of`."""
        return self._finder.all(timeout=timeout)

    def listed(self, asked: Exchange[Listing[T]], *, timeout: float) -> Sequence[Listing[T]]:
        """Return the listings of all addresses that have to be asked. Together they are complete.

        While one of them can't list what it coordinates, all are asked again until `timeout` seconds have passed.
        """

        def once(left_s: float) -> Sequence[Listing[T]]:
            addresses = self.all(timeout=left_s)
            listings = [self._cluster.exchange(address, asked, timeout=left_s) for address in addresses]
            self._finder.check_listed(listings)
            return listings

        return self.retrying(once, timeout=timeout)

    def forget(self) -> None:
        """Look coordinators up again when they are needed next, because a known one is wrong or silent."""
        self._finder.forget()

    def exchange(self, name: str, asked: Exchange[T], *, timeout: float) -> T:
        """Ask the coordinator of that name, and the next one if it moves, until `timeout` seconds have passed.

        Raises the last error if it is not retriable, or if the time is over.
        """

        def once(left_s: float) -> T:
            address = self.of(name, timeout=left_s)
            return self._cluster.exchange(address, asked, timeout=min(left_s, TRY_S))

        return self.retrying(once, timeout=timeout)

    def change(self, name: str, asked: Exchange[None], *, made: ErrorCode, timeout: float) -> None:
        """Ask for a change, like `exchange`.

        The response to an earlier try may have been lost. So after a try without a response, the error `made`, which
        says that the change is made already, is a success.
        """
        is_repeated = False

        def once(left_s: float) -> None:
            nonlocal is_repeated
            address = self.of(name, timeout=left_s)
            try:
                self._cluster.exchange(address, asked, timeout=min(left_s, TRY_S))
            except OttlaError as error:
                if not (is_repeated and error.code == made):
                    is_repeated = is_repeated or error.code in _LOST
                    raise

        self.retrying(once, timeout=timeout)

    def retrying(self, once: Callable[[float], T], *, timeout: float) -> T:
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
