"""How admin calls reach the controller, and the deadline that the steps of one method share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.exchange import Exchange
from ottla.client.units import Duration, seconds
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import ClusterView
from ottla_core.errors import UNANSWERED
from ottla_core.rpc.retry import Backoff

T = TypeVar("T")

_TRY_S: Final = 10.0
"""How long one call to a controller may take before the controller is looked up again."""


class ControllerResponse(NamedTuple, Generic[T]):
    """A controller's response. `repeated`: an earlier try was lost, so it may have been carried out before."""

    response: T
    repeated: bool


class Deadline:
    """Seconds for all steps of one call."""

    def __init__(self, channel: ControllerChannel, timeout: Duration | None) -> None:
        self._clock = channel.cluster.clock
        self.timeout: Final = channel.timeout if timeout is None else seconds(timeout, "timeout")
        self._at = self._clock.monotonic() + self.timeout

    def left(self) -> float:
        """Return the seconds that are left, at least a millisecond, so that the callee names what it waited for."""
        return max(0.001, self._at - self._clock.monotonic())

    def is_over(self, pause: float = 0.0) -> bool:
        """Return whether the time will be over after another `pause` seconds."""
        return self._clock.monotonic() + pause >= self._at


class ControllerChannel:
    """The cluster of an Admin, and its usual timeout in seconds."""

    def __init__(self, cluster: ClusterClient, timeout: float) -> None:
        self.cluster: Final = cluster
        self.timeout: Final = timeout

    def deadline(self, timeout: Duration | None) -> Deadline:
        """Return a deadline `timeout` seconds from now; for None, the usual timeout."""
        return Deadline(self, timeout)

    def retried(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Return the result of `attempt`, repeated until the deadline while its error is retriable: a leader may have
        moved, or a response been lost."""
        backoff = Backoff()
        while True:
            try:
                return attempt()
            except OttlaError as error:
                pause = backoff.next()
                if not error.retriable or deadline.is_over(pause):
                    raise
                self.cluster.wait(pause)

    def exchange(self, asked: Exchange[T], deadline: Deadline, *, broker: int | None = None) -> ControllerResponse[T]:
        """Ask the elected controller, and the next one if it moves, until the deadline (NOT_CONTROLLER, KIP-590).

        A broker takes the request and forwards it. A request about a `broker` goes to that broker, because Kafka's
        brokers reject a request about another one.
        """
        backoff = Backoff()
        repeated = False
        while True:
            view = self.cluster.fetch_metadata(timeout=deadline.left())
            error: OttlaError
            if address := self._address(view, broker):
                try:
                    response = self.cluster.exchange(address, asked, timeout=min(deadline.left(), _TRY_S))
                    return ControllerResponse(response, repeated)
                except OttlaError as failure:
                    error = failure
                    repeated = repeated or failure.code in UNANSWERED
            else:
                error = error_from_code(ErrorCode.NOT_CONTROLLER, "the cluster has no active controller")
            pause = backoff.next()
            if not error.retriable or deadline.is_over(pause):
                raise error
            self.cluster.wait(pause)

    def _address(self, view: ClusterView, broker: int | None) -> str:
        """Return the address to call, or "" if there is none."""
        if broker is not None and broker in view.brokers:
            return view.brokers[broker].address
        return view.controller
