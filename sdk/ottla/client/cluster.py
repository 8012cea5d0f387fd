"""A client's connections to a cluster, by address, and metadata from whichever broker answers.

One broker's address is enough; the client learns the others from it. If a call may be repeated, it goes to one broker
after the other until one answers or the deadline has passed. Then the error names every address and says why it is
silent.

The first contact differs from a later outage: if nothing, or something other than a broker, listens at the given
addresses, they are most likely wrong, and the caller gets an error within seconds. Once a broker has answered, the
client waits as long as its timeouts say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from threading import Condition, RLock
from typing import Final, TypeVar, cast

from ottla.client.diagnose import LIMIT_S, Diagnosis, diagnose_address, diagnose_all
from ottla.client.guard import Guard
from ottla.client.kafka.exchange import NONSENSE, Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.metadata import metadata
from ottla.client.security.security import security_with
from ottla.client.settings import DEFAULT_BOOTSTRAP
from ottla.client.transport import Connection, Transport
from ottla.errors import (
    ErrorCode,
    NotABrokerError,
    OttlaError,
    UnknownTopicError,
    did_you_mean,
    error_from_code,
    from_core,
)
from ottla.machines.metadata import ClusterView
from ottla_core.clock import Clock, SystemClock
from ottla_core.errors import UNANSWERED
from ottla_core.rpc.retry import Backoff

logger = logging.getLogger("ottla.cluster")

Found = TypeVar("Found")

UNKNOWN_TOPIC_GRACE_S: Final = 5.0
"""A topic that no broker knows may have been created a moment ago; after this it is a wrong name."""

_FIRST_TRY_S: Final = 1.0
_LONGEST_TRY_S: Final = 5.0
"""How long to wait for one broker before trying the next, if any will do: at first, and when all are slow."""

_ELSEWHERE: Final = (
    f"set bootstrap= (or OTTLA_BOOTSTRAP) to the address of a running broker, such as {DEFAULT_BOOTSTRAP}"
)
_START: Final = (
    f"start a cluster (`ottla up`), or {_ELSEWHERE}; if the cluster is still starting, set a longer connect_timeout="
)
_BOOTSTRAP_AGAIN: Final = ErrorCode.REBOOTSTRAP_REQUIRED
"""The known brokers are not this cluster's any more (KIP-1102): ask the bootstrap addresses."""

_SUSPICIOUS: Final = frozenset({*UNANSWERED, ErrorCode.TLS_HANDSHAKE_FAILED})
_SUSPECT_S: Final = 10.0
"""How long a broker that did not answer is tried after the others: it may be hanging."""


class ClusterClient:
    """Connections and metadata of one client. Thread-safe."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        transport: Transport,
        *,
        connect_timeout: float = 5.0,
        clock: Clock | None = None,
        diagnose: Callable[[str], Diagnosis] | None = None,
    ) -> None:
        self.clock: Final = clock or SystemClock()
        self.view = ClusterView()
        self._bootstrap: Final = tuple(bootstrap)
        self._transport: Final = transport
        self.names: Final = TopicNames()
        self._connect_timeout: Final = connect_timeout
        self._diagnose: Final = diagnose or partial(diagnose_address, security=security_with(transport))
        self.out_of_reach = False
        """Whether the last try of the first contact got no answer, so that waiting longer is in vain."""
        self._contacted = False
        self._connections: dict[tuple[str, Hashable], Connection] = {}
        self._lock: Final = RLock()
        self._ended: Final = Condition()
        self.locks: Final = (self._lock, self._ended)
        self.guard: Final = Guard("this client")
        self._closed = False
        self._to_end: list[Callable[[], None]] = []
        self._turn = 0
        self._suspects: dict[str, float] = {}

    def connection(self, address: str, lane: Hashable = None) -> Connection:
        """Return the one connection to `address` for calls in this lane. Raises ConnectError once the client is closed,
        and ConfigError in a child of the process that made the client."""
        self.guard.check_process()
        with self._lock:
            if self._closed:
                raise closed_error()
            connection = self._connections.get((address, lane))
            if connection is None:
                connection = self._connections[address, lane] = self._transport(address)
            return connection

    def disconnect(self, address: str, lane: Hashable = None) -> None:
        """Drop the connection to `address` in this lane: open calls on it fail, and the next call connects again."""
        with self._lock:
            connection = self._connections.pop((address, lane), None)
        if connection is not None:
            connection.close()

    def exchange(self, address: str, asked: Exchange[Found], *, timeout: float) -> Found:
        """Send a request to one broker, and return what its response means. Raises the SDK's errors."""
        return self.ask(address, lambda connection, left_s: connection.exchange(asked, timeout=left_s), timeout)

    def exchange_any(self, asked: Exchange[Found], *, timeout: float) -> Found:
        """Send a request that any broker can answer, and return what its response means.

        Raises like `ask_any` if no broker answers. A response that has an error is an answer, and raises that error.
        """
        of_each = asked.with_errors
        outcome = self.ask_any(
            asked.api.name, lambda connection, left_s: connection.exchange(of_each, timeout=left_s), timeout=timeout
        )
        if outcome.error is not None:
            raise from_core(outcome.error)
        return cast(Found, outcome.value)

    def ask_any(self, name: str, ask: Callable[[Connection, float], Found], *, timeout: float) -> Found:
        """Ask one broker after the other for `timeout` seconds, until one answers. `ask` gets a connection, and the
        seconds that it may take.

        Raises ConnectError or TimeoutError if none answers; raises NotABrokerError and errors that are not retriable at
        once.
        """
        now = self.clock.monotonic()
        deadline_at = now + timeout
        contact_at = now + max(0.0, self._connect_timeout - LIMIT_S)
        backoff = Backoff()
        last = OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"the timeout expired before the client could call {name}")
        while True:
            try_s = min(_LONGEST_TRY_S, _FIRST_TRY_S * 2**backoff.attempts)
            early = not self._contacted and self.clock.monotonic() < contact_at
            answer = self._try_brokers(ask, min(deadline_at, contact_at) if early else deadline_at, try_s, last)
            if not isinstance(answer, OttlaError):
                self._contacted, self.out_of_reach = True, False
                return answer
            last = answer
            pause = backoff.next()
            next_at = self.clock.monotonic() + pause
            over, late = next_at >= deadline_at, not self._contacted and next_at >= contact_at
            if over or late or (backoff.attempts == 1 and not self._contacted):
                self._give_up(last, timeout, over=over, late=late)
            self.wait(pause)

    def ask(self, address: str, ask: Callable[[Connection, float], Found], timeout: float) -> Found:
        """Ask one broker. Raises the SDK's errors."""
        try:
            return ask(self.connection(address), timeout)
        except OttlaError as error:
            raise from_core(error, broker=address) from None

    def _try_brokers(
        self, ask: Callable[[Connection, float], Found], deadline_at: float, try_s: float, last: OttlaError
    ) -> Found | OttlaError:
        """Return the first response, or the last error if no broker gives one. `last` is the error so far."""
        for address in self._addresses():
            left = deadline_at - self.clock.monotonic()
            if left <= 0:
                break
            try:
                return self.ask(address, ask, min(left, try_s))
            except OttlaError as error:
                if error.code == _BOOTSTRAP_AGAIN:
                    self.view = ClusterView()
                    return OttlaError(ErrorCode.NETWORK_EXCEPTION, f"{address} refers to the bootstrap addresses")
                # Another broker may have a valid certificate.
                if not error.retriable and error.code != ErrorCode.TLS_HANDSHAKE_FAILED:
                    raise
                logger.debug("%s did not respond: %s", address, error)
                if error.code in _SUSPICIOUS:
                    self.suspect(address)
                if last.retriable:
                    last = error
        if not last.retriable:
            raise last
        return last

    def suspect(self, address: str) -> None:
        """Note that a broker did not answer: for a while, calls that any broker can answer go to others first."""
        with self._lock:
            self._suspects[address] = self.clock.monotonic() + _SUSPECT_S

    def fetch_metadata(self, topics: Iterable[str] = (), *, all_topics: bool = False, timeout: float) -> ClusterView:
        """Return the cluster as some broker sees it, with the requested topics. Raises like `ask_any`."""
        asked = metadata(topics, self.names, all_topics=all_topics)
        self.view = view = self.ask_any(
            asked.api.name, lambda connection, left_s: connection.exchange(asked, timeout=left_s), timeout=timeout
        )
        return view

    def metadata_of(self, address: str, topics: Iterable[str], *, timeout: float) -> ClusterView:
        """Return the cluster as one broker sees it. Raises the SDK's errors."""
        return self.exchange(address, metadata(topics, self.names), timeout=timeout)

    def unknown_topic(self, name: str, otherwise: str = "create it with Admin().topics.create(…)") -> UnknownTopicError:
        """Return the error for a missing topic; its hint names the nearest others, or is `otherwise` without them."""
        try:
            names = list(self.fetch_metadata(all_topics=True, timeout=2.0).topics)
        except OttlaError:
            names = []
        hint = did_you_mean(name, names, otherwise)
        return UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {name!r} does not exist", hint=hint)

    def wait(self, pause: float) -> None:
        """Wait `pause` seconds before another try. Raises ConnectError if the client is closed meanwhile."""
        with self._ended:
            if not self._closed:
                self._ended.wait(pause)
            if self._closed:
                raise closed_error()

    def at_close(self, end: Callable[[], None]) -> None:
        """Call `end` when the client is closed; now, if it already is."""
        with self._ended:
            if not self._closed:
                self._to_end.append(end)
                return
        end()

    def close(self) -> None:
        """Close every connection; open calls fail. In a forked child, leave them: they belong to the parent."""
        if self.guard.foreign:
            return
        with self._ended:
            self._closed = True
            self._ended.notify_all()
            to_end, self._to_end = self._to_end, []
        for end in to_end:
            end()
        with self._lock:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.close()

    def _addresses(self) -> list[str]:
        """Return known brokers, then the given addresses, each time beginning with another one; suspects last."""
        known = [broker.address for broker in self.view.brokers.values() if not broker.fenced]
        addresses = list(dict.fromkeys([*known, *self._bootstrap]))
        self._turn += 1
        first = self._turn % max(1, len(known)) if known else 0
        turned = addresses[first:] + addresses[:first]
        now = self.clock.monotonic()
        with self._lock:
            self._suspects = {address: until for address, until in self._suspects.items() if until > now}
            return sorted(turned, key=self._suspects.__contains__)

    def _give_up(self, last: OttlaError, timeout: float, *, over: bool, late: bool) -> None:
        """Raise if no given address is, or will be, a broker's, if none answers in time, or if the time is over."""
        requested = self._bootstrap[:3]
        found = diagnose_all(requested, self._diagnose)
        reasons = "; ".join(diagnosis.message for diagnosis in found)
        if len(found) == len(self._bootstrap) and all(diagnosis.hopeless for diagnosis in found):
            raise NotABrokerError(
                ErrorCode.UNSUPPORTED_VERSION, f"no broker answered: {reasons}", hint=_ELSEWHERE
            ) from None
        absent = late and not any(diagnosis.listening for diagnosis in found)
        if absent or over:
            self.out_of_reach = absent
            limit_s = min(timeout, self._connect_timeout) if absent else timeout
            code = ErrorCode.NETWORK_EXCEPTION if absent else last.code
            message = f"no broker answered within {round(limit_s, 1 if limit_s >= 1 else 3):g} s: {reasons}"
            if NONSENSE in last.message:
                message += f"; {last.message}"
            raise error_from_code(code, message, hint=_START if absent else _ELSEWHERE) from None


def closed_error() -> OttlaError:
    """Return the error for a client that is closed while a call waits or connects."""
    return error_from_code(ErrorCode.NETWORK_EXCEPTION, "the client was closed")
