"""A client of a group's coordinator, which any broker names."""

from __future__ import annotations

from threading import Lock
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla.client.cluster import ClusterClient
from ottla.client.named_coordinators import NamedCoordinators, no_coordinator
from ottla.errors import ErrorCode, OttlaError, error_from_code, from_core
from ottla.machines.membership import Meaning, meaning_of
from ottla_core.routing import GROUP
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

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

    def ask(self, method: Method[Request, Response], request: Request, *, timeout: float = TRY_S) -> Response:
        """Return the response as it is, possibly with an error in it. Raises the SDK's errors if none comes."""
        address = self._found()
        try:
            response = self._cluster.connection(address, _LANE).ask(method, request, timeout=timeout)
        except OttlaError as error:
            self._forget(address, error.code)
            raise from_core(error, broker=address) from None
        self._forget(address, response.error.code)  # type: ignore[attr-defined]  # every response has one
        return response

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float = TRY_S) -> Response:
        """Return the response, or raise the error in it."""
        response = self.ask(method, request, timeout=timeout)
        raise_if(response.error, self._address)  # type: ignore[attr-defined]  # every response of a group's has one
        return response

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


def raise_if(error: Error, broker: str = "") -> None:
    """Raise the error that a response, or a part of it, carries."""
    if error.code:
        raise error_from_code(error.code, error.message, broker=broker)
