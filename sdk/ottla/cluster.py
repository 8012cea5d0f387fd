"""The way to a cluster: connections by address, and Broker.Metadata from whichever broker answers.

Any broker that is given suffices; the others are learned from it. A call that may be sent again is sent to the next
broker, until one answers or the deadline has passed; then the error names every address and says why it is silent.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Sequence
from threading import Condition, RLock
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla.diagnose import Diagnosis, why_silent
from ottla.errors import ErrorCode, NotABrokerError, OttlaError, UnknownTopicError, error_from_code, from_core
from ottla.guard import Guard
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView, build_view
from ottla.transport import Connection, Transport
from ottla_core.clock import Clock, SystemClock
from ottla_core.model import TopicId
from ottla_core.rpc.retry import Backoff
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker, Method

logger = logging.getLogger("ottla.cluster")

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)

UNKNOWN_TOPIC_GRACE_S: Final = 5.0
"""A topic that no broker knows may have been created a moment ago; after this it is a wrong name."""

_FIRST_TRY_S: Final = 1.0
_LONGEST_TRY_S: Final = 5.0
"""How long one broker is given before the next is asked, where any would do: at first, and when all are slow."""

_SILENT: Final = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
_SUSPECT_S: Final = 10.0
"""For so long a broker that did not answer is asked after the others: it may be hanging."""


class Cluster:
    """Connections and metadata of one client. Thread-safe."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        transport: Transport,
        *,
        clock: Clock | None = None,
        diagnose: Callable[[str], Diagnosis] = why_silent,
    ) -> None:
        self.clock: Final = clock or SystemClock()
        self.view = ClusterView()
        self._bootstrap: Final = tuple(bootstrap)
        self._transport: Final = transport
        self._diagnose: Final = diagnose
        self._connections: dict[str, Connection] = {}
        self._lock: Final = RLock()
        self._ended: Final = Condition()
        self.locks: Final = (self._lock, self._ended)
        self.guard: Final = Guard("this client")
        self._closed = False
        self._turn = 0
        self._suspects: dict[str, float] = {}

    def connection(self, address: str) -> Connection:
        """The one connection to `address`. Raises ConfigError in a child of the process that made the client."""
        self.guard.check_process()
        with self._lock:
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = self._transport(address)
            return connection

    def disconnect(self, address: str) -> None:
        """Let go of the connection to `address`: calls that are open there fail, and the next one connects anew."""
        with self._lock:
            connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def call(self, address: str, method: Method[Request, Reply], request: Request, *, timeout: float) -> Reply:
        """One call to one address. Raises the SDK's errors."""
        try:
            return self.connection(address).call(method, request, timeout=timeout)
        except OttlaError as error:
            raise from_core(error, broker=address) from None

    def call_any(self, method: Method[Request, Reply], request: Request, *, timeout: float) -> Reply:
        """A call that any broker can answer: each in turn, until `timeout` seconds have passed.

        Raises ConnectError or TimeoutError where none did; at once NotABrokerError, and what is not retriable.
        """
        deadline_at = self.clock.monotonic() + timeout
        backoff = Backoff()
        while True:
            try_s = min(_LONGEST_TRY_S, _FIRST_TRY_S * 2**backoff.attempts)
            last = self._try_each(method, request, deadline_at, try_s)
            if not isinstance(last, OttlaError):
                return last
            pause = backoff.next()
            over = self.clock.monotonic() + pause >= deadline_at
            if over or (backoff.attempts == 1 and not self.view.brokers):
                self._give_up(last, timeout, over=over)
            self.wait(pause)

    def _try_each(
        self, method: Method[Request, Reply], request: Request, deadline_at: float, try_s: float
    ) -> Reply | OttlaError:
        """The first answer, or the last error where no broker gave one."""
        last = OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"{method.name} had no time left")
        for address in self._addresses():
            left = deadline_at - self.clock.monotonic()
            if left <= 0:
                break
            try:
                return self.call(address, method, request, timeout=min(left, try_s))
            except OttlaError as error:
                if not error.retriable:
                    raise
                logger.debug("%s did not answer: %s", address, error)
                if error.code in _SILENT:
                    self.suspect(address)
                last = error
        return last

    def suspect(self, address: str) -> None:
        """A broker did not answer: where any of them would do, others come first for a while."""
        with self._lock:
            self._suspects[address] = self.clock.monotonic() + _SUSPECT_S

    def fetch_metadata(self, topics: Iterable[str] = (), *, all_topics: bool = False, timeout: float) -> ClusterView:
        """The cluster as some broker sees it, with the topics asked for. Raises like `call_any`."""
        request = pb.MetadataRequest(topics=list(topics), all_topics=all_topics)
        view = view_of(self.call_any(Broker.METADATA, request, timeout=timeout))
        self.view = view
        return view

    def unknown_topic(self, name: str) -> UnknownTopicError:
        """The error for a topic that does not exist, with the nearest names that do."""
        try:
            names = list(self.fetch_metadata(all_topics=True, timeout=2.0).topics)
        except OttlaError:
            names = []
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "create it with Admin().topics.create(…)"
        return UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {name!r} does not exist", hint=hint)

    def wait(self, pause: float) -> None:
        """Let `pause` seconds pass before another try. Raises ConnectError where the client is closed meanwhile."""
        with self._ended:
            if not self._closed:
                self._ended.wait(pause)
            if self._closed:
                raise error_from_code(ErrorCode.NETWORK_EXCEPTION, "the client was closed")

    def close(self) -> None:
        """Close every connection; calls that are open fail. In a child after a fork, they are the parent's."""
        if self.guard.foreign:
            return
        with self._ended:
            self._closed = True
            self._ended.notify_all()
        with self._lock:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.close()

    def _addresses(self) -> list[str]:
        """Brokers that are known, then the given addresses, each time beginning with another one; suspects last."""
        known = [broker.address for broker in self.view.brokers.values() if not broker.fenced]
        addresses = list(dict.fromkeys([*known, *self._bootstrap]))
        self._turn += 1
        first = self._turn % max(1, len(known)) if known else 0
        turned = addresses[first:] + addresses[:first]
        now = self.clock.monotonic()
        with self._lock:
            self._suspects = {address: until for address, until in self._suspects.items() if until > now}
            return sorted(turned, key=self._suspects.__contains__)

    def _give_up(self, last: OttlaError, timeout: float, *, over: bool) -> None:
        """Raise if every given address is something else than a broker, or if the time is over."""
        found = [self._diagnose(address) for address in self._bootstrap[:3]]
        reasons = "; ".join(diagnosis.words for diagnosis in found)
        hint = "give bootstrap= (or OTTLA_BOOTSTRAP) the gRPC address of a running broker, such as localhost:9650"
        if len(found) == len(self._bootstrap) and all(diagnosis.hopeless for diagnosis in found):
            raise NotABrokerError(ErrorCode.UNSUPPORTED_VERSION, f"no broker answered: {reasons}", hint=hint) from last
        if over:
            raise error_from_code(last.code, f"no broker answered within {timeout:g} s: {reasons}", hint=hint) from last


def view_of(reply: pb.MetadataReply) -> ClusterView:
    """The reply as a value of ours."""
    brokers = [BrokerView(b.id, b.address, b.rack, b.kafka_address, b.fenced) for b in reply.brokers]
    controller = (reply.controller.id, reply.controller.address) if reply.HasField("controller") else (-1, "")
    return build_view(reply.cluster_id, controller, brokers, map(_topic_of, reply.topics))


def _topic_of(topic: pb.TopicMetadata) -> TopicView:
    partitions = sorted(topic.partitions, key=lambda p: p.partition)
    return TopicView(
        topic.name,
        TopicId(topic.topic_id),
        tuple(map(_partition_of, partitions)),
        topic.is_internal,
        topic.error.code,
        topic.error.message,
    )


def _partition_of(p: pb.PartitionMetadata) -> PartitionView:
    return PartitionView(
        p.leader,
        p.leader_epoch,
        tuple(p.replicas),
        tuple(p.isr),
        tuple(p.offline_replicas),
        tuple(p.eligible_leader_replicas),
        tuple(p.last_known_elr),
    )
