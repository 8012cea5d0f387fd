"""Reads every replica of a partition from its own broker and compares them, as kafka-replica-verification does.

A follower serves consumers as its leader does, up to its own high watermark. Records below the smallest of these are on
every replica for good, so they have to be equal, except for what compaction removes. Compaction stays below the last
stable offset, and removes aborted records; so in a compacted topic these are removed before the replicas are compared,
up to that offset. Each replica gets one fetch at a time, all replicas at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias, cast

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.exchange import Exchange, Outcome, Terms
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.transport import Stream
from ottla.errors import ErrorCode, OttlaError, error_from_code, from_core
from ottla.machines.broker_session import FINAL_EPOCH
from ottla.machines.comparisons.compacted import CompactedComparison
from ottla.machines.comparisons.replicas import Comparison, Difference
from ottla.machines.metadata import PartitionView
from ottla_core.kafka.messages import FetchRequest, FetchResponse
from ottla_core.model import PartitionId
from ottla_core.records.aborted import AbortedTransactions, without_aborted
from ottla_core.records.leader_epochs import ReplicaEpochs, unequal_epochs
from ottla_core.rpc.retry import Backoff

_FETCH_BYTES: Final = 1 << 20
_RECONNECTS: Final = 4
_LONGEST_PAUSE_S: Final = 0.4
_NAMES_BEFORE: Final = 13
"""Before this version of Fetch, a request has the names of topics and not their ids (KIP-516)."""
_READ_COMMITTED: Final = 1

_Response: TypeAlias = FetchResponse.PartitionData
Progress = Callable[[int, int], None]
"""Called with (offset reached, end offset) after every fetch."""


@dataclass(frozen=True, slots=True)
class ReplicaCheck:
    """The result of comparing a partition's replicas from `start` up to `end` (exclusive).

    `equal` lists the brokers whose replicas are equal; `high_watermarks` has the high watermark of each replica that
    could be queried. `unreadable` maps each broker whose replica could not be read completely to the error.
    `unequal_epochs` has the leader epochs of each in-sync replica where all of them have committed records, each with
    the offset at which it began. It is empty if they are equal.
    """

    topic: str
    partition: int
    start: int
    end: int
    compared_bytes: int
    equal: tuple[int, ...]
    differences: Mapping[int, Difference]
    unreadable: Mapping[int, OttlaError]
    high_watermarks: Mapping[int, int]
    unequal_epochs: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether every replica was read and no replica differs."""
        return not self.differences and not self.unreadable and not self.unequal_epochs

    @property
    def not_compared(self) -> int:
        """The number of offsets beyond `end` that at least one replica has and another has not reached yet."""
        return max(self.high_watermarks.values(), default=self.end) - self.end


def check_replicas(
    cluster: ClusterClient,
    name: str,
    partition_id: PartitionId,
    partition: PartitionView,
    *,
    timeout: float,
    on_progress: Progress,
    compacted: bool = False,
) -> ReplicaCheck:
    """Compare the replicas; `timeout` in seconds is for each response. Errors are in the result."""
    with _Replicas(cluster, partition_id, timeout, committed=compacted) as replicas:
        logs = replicas.open(_leader_first(partition))
        watermarks = {broker: log.high_watermark for broker, log in logs.items()}
        ends = [log.last_stable_offset if compacted else log.high_watermark for log in logs.values()]
        start = max((log.log_start_offset for log in logs.values()), default=0)
        kind = CompactedComparison if compacted else Comparison
        comparison = kind(logs, start, max(start, min(ends, default=0)))
        while wants := comparison.wants():
            for broker, response in replicas.fetch(wants, _FETCH_BYTES).items():
                with replicas.noting(broker):
                    _enter(comparison, broker, response)
            for broker in set(comparison.equal) & replicas.unreadable.keys():
                comparison.drop(broker)
            comparison.compare()
            replicas.unreadable.update(comparison.given_up)
            on_progress(comparison.offset, comparison.end)
        epochs = replicas.epochs(sorted(logs.keys() & partition.isr))
    return ReplicaCheck(
        name,
        partition_id.partition,
        comparison.start,
        comparison.end,
        comparison.compared_bytes,
        comparison.equal,
        comparison.differences,
        replicas.unreadable,
        watermarks,
        unequal_epochs(epochs),
    )


def _leader_first(partition: PartitionView) -> list[int]:
    """Return the brokers, the leader first: the other replicas should be equal to its replica."""
    return sorted(partition.replicas, key=lambda broker: broker != partition.leader)


def _enter(comparison: Comparison, broker: int, response: _Response) -> None:
    """Enter a response. Raises the error in it, unless the log merely begins later by now."""
    if not response.error_code:
        aborted = response.aborted_transactions or ()
        fetched = bytes(response.records or b"")  # it may be a view of the response
        records = fetched
        if aborted:
            records = without_aborted(
                fetched, AbortedTransactions((each.producer_id, each.first_offset) for each in aborted)
            )
        comparison.on_records(broker, records)
    elif response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and response.log_start_offset > comparison.start:
        comparison.on_log_start(response.log_start_offset)
    else:
        raise error_from_code(response.error_code, "")


class _Replicas:
    """The replicas of one partition, each read from its own broker; `unreadable` says which can't be read, and why.

    With `committed`, it reads up to the last stable offset, and gets the aborted transactions too.
    """

    def __init__(self, cluster: ClusterClient, partition_id: PartitionId, timeout: float, *, committed: bool) -> None:
        self.unreadable: Final[dict[int, OttlaError]] = {}
        self._cluster = cluster
        self._id = partition_id
        self._timeout = timeout
        self._committed = committed
        self._replicas: dict[int, _Replica] = {}

    def open(self, brokers: Iterable[int]) -> dict[int, _Response]:
        """Return where each log begins and up to where it is committed, as responses without records."""
        for broker in brokers:
            registered = self._cluster.view.brokers.get(broker)
            if registered is None:
                self.unreadable[broker] = error_from_code(
                    ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} is not registered", hint="start it"
                )
            else:
                self._replicas[broker] = _Replica(self._cluster, registered.address)
        logs = self.fetch([(broker, 0) for broker in self._replicas], max_bytes=0)
        for broker, log in logs.items():
            if log.error_code not in (0, ErrorCode.OFFSET_OUT_OF_RANGE):
                self.unreadable[broker] = error_from_code(log.error_code, "")
        return {broker: log for broker, log in logs.items() if broker not in self.unreadable}

    def fetch(self, wants: Sequence[tuple[int, int]], max_bytes: int) -> dict[int, _Response]:
        """Return the responses for each (broker, offset), as far as there are any."""
        for broker, offset in wants:
            with self.noting(broker):
                self._replicas[broker].send(self._request(offset, max_bytes), self._timeout)
        responses = {}
        for broker, _ in wants:
            if broker not in self.unreadable:
                with self.noting(broker):
                    responses[broker] = self._replicas[broker].receive(self._timeout)
        return responses

    def epochs(self, brokers: Iterable[int]) -> dict[int, ReplicaEpochs]:
        """Return the leader epochs of each replica. Brokers that can't say are left out: those of an earlier release,
        and Kafka's."""
        from ottla.admin.private_calls import replica_epochs

        epochs = {}
        for broker in brokers:
            address = self._cluster.view.brokers[broker].address
            try:
                epochs[broker] = self._cluster.exchange(address, replica_epochs(self._id), timeout=self._timeout)
            except OttlaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    self.unreadable[broker] = error
        return epochs

    @contextmanager
    def noting(self, broker: int) -> Iterator[None]:
        """Note an error of one replica, so that the others are read all the same."""
        try:
            yield
        except OttlaError as error:
            self.unreadable[broker] = from_core(error)

    def _request(self, offset: int, max_bytes: int) -> Exchange[_Response]:
        names = self._cluster.names
        return fetch_of(self._id, names, offset=offset, max_bytes=max_bytes, read_committed=self._committed)

    def __enter__(self) -> _Replicas:
        return self

    def __exit__(self, *error: object) -> None:
        for replica in self._replicas.values():
            replica.close()


class _Replica:
    """The fetches of one broker, one at a time. Sending and waiting are separate, so that all brokers read at once."""

    def __init__(self, cluster: ClusterClient, address: str) -> None:
        self._cluster = cluster
        self._address = address
        self._request: Exchange[_Response] | None = None
        self._open()

    def _open(self) -> None:
        responses: SimpleQueue[Outcome[_Response] | OttlaError] = SimpleQueue()
        self._responses = responses
        self._stream: Stream | None = None
        try:
            self._stream = self._cluster.connection(self._address).open_stream(
                FETCH.name, lambda _, outcome: responses.put(outcome), lambda error, _: responses.put(error)
            )
        except OttlaError as error:  # the address rests, since it failed a moment ago
            responses.put(error)

    def send(self, request: Exchange[_Response], timeout: float) -> None:
        self._request = request
        if self._stream is not None:
            with suppress(OttlaError):  # the stream broke before: `receive` finds that
                self._stream.send(request, timeout_ms=max(1, round(timeout * 1000)))

    def receive(self, timeout: float) -> _Response:
        """Return the response. Raises the error of the stream or the whole fetch; a partition's is in the response.

        If the connection breaks, or can't be made at once, it is made again a few times: the broker may be well.
        """
        backoff = Backoff(most_s=_LONGEST_PAUSE_S)
        response = self._next(timeout)
        while isinstance(response, OttlaError) and backoff.attempts < _RECONNECTS:
            self._cluster.wait(backoff.next())
            self.close()
            self._open()
            if self._request is not None:
                self.send(self._request, timeout)
            response = self._next(timeout)
        error = response if isinstance(response, OttlaError) else response.error
        if error is not None:
            raise from_core(error)
        assert isinstance(response, Outcome)
        return cast(_Response, response.value)

    def _next(self, timeout: float) -> Outcome[_Response] | OttlaError:
        try:
            return self._responses.get(timeout=timeout)
        except Empty:
            raise error_from_code(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._address} did not respond within {timeout:g} s"
            ) from None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


def fetch_of(
    partition: PartitionId, names: TopicNames, *, offset: int, max_bytes: int, read_committed: bool
) -> Exchange[_Response]:
    """Return the exchange that reads one partition from a replica. It belongs to no fetch session."""

    def build(terms: Terms) -> FetchRequest:
        wanted = FetchRequest.FetchPartition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        name = names.name_of(partition.topic_id) if terms.version < _NAMES_BEFORE else ""
        topic = FetchRequest.FetchTopic(topic=name, topic_id=partition.topic_id, partitions=[wanted])
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            isolation_level=_READ_COMMITTED if read_committed else 0,
            session_epoch=FINAL_EPOCH,
            topics=[topic],
        )

    return Exchange(FETCH, build, lambda response: response.responses[0].partitions[0])
