"""Consumer: records of whole topics or chosen partitions, without a group, to the end of time or to a stop.

This is the face: arguments, and where to read. `plan` says where reading begins and ends, `assignment` looks that up,
`fetcher` brings chunks, `reading` opens them.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Literal

from ottla.assignment import Assignment
from ottla.cluster import Cluster
from ottla.errors import WakeupError, config_error
from ottla.fetcher import Fetcher, closed_error
from ottla.generics import K, V
from ottla.limits import fetch_limits
from ottla.machines.subscription import Subscription
from ottla.offsets import list_offsets
from ottla.one_thread import OneThread, for_one_thread
from ottla.plan import ReadingPlan
from ottla.reading import FOREVER, Reader
from ottla.record import Batch, Record, Serdes
from ottla.serdes import DeserializerLike, deserializer
from ottla.settings import CONSUMER_NAMES, bootstrap_addresses, merge_config, one_of, positive, read_properties
from ottla.topics import Moment, moment_ms
from ottla.transport import Transport, grpc_transport
from ottla.units import Duration, Size, seconds, size_bytes
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

Start = Literal["committed", "earliest", "latest"] | datetime | timedelta | Mapping[TopicPartition, int]
Stop = Literal["end"] | datetime | timedelta | int

_client_numbers = itertools.count(1)


class Consumer(Generic[K, V]):
    """Reads records. Without a group it reads every partition of its topics, new ones from their beginning.

        for record in ottla.Consumer("orders", start="earliest"):
            print(record.key, record.value)

    Iterating, `poll` and `batches` share one position for each partition and may be mixed. Records of one partition
    come in order. A consumer is for one thread at a time: a second one that comes while the first is inside, or
    iterates, gets ConcurrentUseError at once. `wakeup`, `close` and `metrics` are for any thread.

    Args:
        topics: names of one or more topics.
        bootstrap: gRPC addresses of brokers, "host:port,…" or a list; by default OTTLA_BOOTSTRAP, then localhost:9650.
        group: not served yet.
        partitions: only these: numbers where there is one topic, else (topic, number) pairs.
        start: where to begin. "earliest", "latest" (what is written from now on), a datetime (without a zone: local), a
            timedelta (-1 h: what the last hour wrote), or {(topic, partition): offset} with `auto_offset_reset` for the
            partitions left out. "committed" (the default) is where the group left off; without a group there is no such
            place, so it is `auto_offset_reset`: "latest" as in Kafka, with one warning in the log.
        stop: where to end, looked up once, when reading begins. "end": what is in the log then; a datetime or
            timedelta: before the first record at or after it, or at the end; a number: after so many records. The
            iteration ends there. None: never.
        key, value: deserializers: auto (JSON objects and arrays → dict, list; other UTF-8 → str; the rest bytes),
            bytes, str, int, float, uuid, json, a type (bytes, str, int, float, UUID, dict, list, a dataclass or a
            pydantic model, read from JSON) or a callable. null is always None.
        on_bad_record: a record that its deserializer can't read: "raise" SerializationError (again each time, until
            somebody seeks past it) or "skip" it with a line in the log. A damaged batch always raises.
        auto_offset_reset: where to go when the position is not in the log (OFFSET_OUT_OF_RANGE, nothing else):
            "earliest", "latest" or "none" (raise OffsetOutOfRangeError). By default "earliest" where `start` is
            earliest or a time, else "latest". Where a new leader lacks what was read, which can only be after an
            unclean election, reading goes on where the logs part; with "none" TruncationError is raised. Either way
            the log gets a warning and `metrics` counts it.
        fetch_min_bytes, fetch_max_wait: a broker answers once it has so many bytes, or after so many seconds.
        fetch_max_bytes, max_partition_fetch_bytes: bytes of one answer, and of one partition in it. A first batch comes
            whole in any case. Several answers are under way at a time, so larger ones are slower, not faster: broker
            and client would work in turn (8 MiB: 1.6 M records/s, 2 MiB: 3.0).
        prefetch: bytes that may be fetched and not read yet.
        max_poll_records: records of one `poll`.
        client_rack: where this client is, in the words of the brokers' own `rack`. Leaders then name an in-sync replica
            in that rack, where there is one, and it is read from (KIP-392). "" for nowhere: leaders are read from.
        request_timeout: seconds for a broker to answer a request.
        metadata_max_age: seconds after which new partitions are looked for, and leaders asked again for a replica.
        client_id: names this client in logs and quotas.
        config: the same settings under Kafka's names, such as {"auto.offset.reset": "earliest"}.

    Raises:
        ConfigError: an argument or a config that can't be. Topics are looked up when reading begins, not here.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap: str | Sequence[str] | None = None,
        group: str | None = None,
        partitions: Sequence[int | tuple[str, int]] | None = None,
        start: Start = "committed",
        stop: Stop | None = None,
        key: DeserializerLike[K] = "auto",
        value: DeserializerLike[V] = "auto",
        on_bad_record: Literal["raise", "skip"] = "raise",
        auto_offset_reset: Literal["earliest", "latest", "none"] | None = None,
        fetch_min_bytes: Size = 1,
        fetch_max_wait: Duration = 0.5,
        fetch_max_bytes: Size = "2MiB",
        max_partition_fetch_bytes: Size = "1MiB",
        prefetch: Size = "16MiB",
        max_poll_records: int = 500,
        client_rack: str = "",
        request_timeout: Duration = 30.0,
        metadata_max_age: Duration = 300.0,
        client_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
    ) -> None:
        arguments = {name: given for name, given in locals().items() if name in _DEFAULTS}
        settings = merge_config(CONSUMER_NAMES, arguments, _DEFAULTS, config or {})
        if group is not None:
            raise config_error(
                f"group={group!r}: consumer groups are not served yet", hint="leave it out to read all partitions"
            )
        plan = ReadingPlan(topics, partitions, start, stop, settings["auto_offset_reset"])
        skip = one_of(on_bad_record, "on_bad_record", ("raise", "skip")) == "skip"
        serdes = Serdes(deserializer(settings["key"], "key"), deserializer(settings["value"], "value"))
        self.max_poll_records = positive(settings["max_poll_records"], "max_poll_records")
        self._timeout = seconds(settings["request_timeout"], "request_timeout")
        self.client_id: Final[str] = settings["client_id"] or f"ottla-consumer-{next(_client_numbers)}"

        addresses = bootstrap_addresses(settings["bootstrap"])
        self._cluster = Cluster(addresses, _transport or grpc_transport(self.client_id))
        self._subscription = Subscription(fetch_limits(settings), plan.reset)
        self._fetcher = Fetcher(
            self._subscription,
            self._cluster,
            min_bytes=size_bytes(settings["fetch_min_bytes"], "fetch_min_bytes"),
            max_bytes=size_bytes(settings["fetch_max_bytes"], "fetch_max_bytes"),
            max_wait=seconds(settings["fetch_max_wait"], "fetch_max_wait"),
            request_timeout=self._timeout,
            rack=settings["client_rack"],
        )
        self._lock = self._fetcher.lock
        self.one_thread: Final = OneThread()
        self._assignment = Assignment(
            plan,
            self._subscription,
            self._fetcher,
            self._cluster,
            name=self.client_id,
            max_age=seconds(settings["metadata_max_age"], "metadata_max_age"),
            timeout=self._timeout,
        )
        most = stop if isinstance(stop, int) else None
        self.reader: Final[Reader[K, V]] = Reader(
            self._assignment, self._subscription, self._fetcher, serdes, skip, most
        )
        # A consumer that nobody has any more closes itself: `for record in Consumer(…, stop="end")` leaves nothing.
        self._close = weakref.finalize(self, _close, self._fetcher, self._assignment, self._cluster)
        self._close.atexit = False

    @classmethod
    def from_properties(cls, path: str | Path, *topics: str, **arguments: Any) -> Consumer[K, V]:
        """A consumer with the settings of a Java properties file, and `arguments` as in the constructor."""
        return cls(*topics, config=read_properties(path), **arguments)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Record by record until the stop, or until `close`.

        Raises SerializationError for a record that can't be read (unless they are skipped), OffsetOutOfRangeError where
        there is no reset (TruncationError where what was read is gone), UnknownTopicError, ConnectError and
        ottla.TimeoutError where no broker answers at the start. Brokers that go away later are waited for.
        """
        return self.reader.records(self, self.one_thread)

    @for_one_thread
    def poll(self, timeout: Duration = 1.0, *, max_records: int | None = None) -> Batch[K, V]:
        """What has been fetched, up to `max_records` (max_poll_records by default), as soon as there is something.

        Empty after `timeout` seconds, and from the stop on. Raises like `batches`.
        """
        if self._fetcher.closed:
            raise closed_error()
        limit = self.max_poll_records if max_records is None else positive(max_records, "max_records")
        return self.reader.gather(limit, seconds(timeout, "timeout"), 0.0)

    @property
    def finished(self) -> bool:
        """Whether nothing will be handed out any more: the stop is reached, or the consumer closed."""
        return self.reader.finished

    def batches(self, max_records: int = 500, max_wait: Duration = 0.5) -> Iterator[Batch[K, V]]:
        """Batch by batch until the stop, or until `close`: of `max_records`, or of what came within `max_wait` seconds.

        The time counts from a batch's first record. Raises like iterating, but for records that can't be deserialized:
        those raise where the batch is looked at.
        """
        limit, wait = positive(max_records, "max_records"), seconds(max_wait, "max_wait")
        while batch := self._gather(limit, wait):
            yield batch

    def wakeup(self) -> None:
        """Let the thread that waits for records raise WakeupError, or the next one that would. From any thread.

        Nothing is lost: reading goes on where it was. A lookup of offsets that is under way is waited for.
        """
        self._fetcher.interrupt(WakeupError())
        self._assignment.wake()

    @property
    def metrics(self) -> dict[str, float]:
        """What was read so far, under Kafka's names: docs/sdk.md lists them. From any thread; costs no call."""
        with self._lock:
            return self._fetcher.consumed.metrics(self._subscription)

    @for_one_thread
    def _gather(self, limit: int, wait: float) -> Batch[K, V]:
        return self.reader.gather(limit, FOREVER, wait)

    # ---- where to read -------------------------------------------------------------------------------------------

    @for_one_thread
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._assignment.positions())

    @for_one_thread
    def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next record of `partition` to be handed out."""
        (position,) = self._assignment.of([partition])
        self._assignment.resolve()
        assert position.offset is not None
        return position.offset

    @for_one_thread
    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Go on at `offset`. Whether it is there shows when it is fetched (`auto_offset_reset`)."""
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise config_error(f"offset={offset!r} is no offset", hint="give 0 or more, or use seek_to_beginning/_end")
        (position,) = self._assignment.of([partition])
        with self._lock:
            self._subscription.seek(position, offset)

    @for_one_thread
    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first record that is there, in all partitions or in these."""
        self._seek_to_time(EARLIEST_TIMESTAMP, partitions)

    @for_one_thread
    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on with what is written from now on, in all partitions or in these."""
        self._seek_to_time(LATEST_TIMESTAMP, partitions)
        self._assignment.resolve()

    @for_one_thread
    def seek_to_time(self, moment: datetime | timedelta, *partitions: tuple[str, int]) -> None:
        """Go on at the first record at or after `moment` (a timedelta: from now), or at the end where there is none."""
        self._seek_to_time(moment_ms(moment, now_ms=self._cluster.clock.wall_ms()), partitions)

    @for_one_thread
    def offsets(self, at: Moment = "latest") -> dict[TopicPartition, int | None]:
        """Each assigned partition's offset at `at`; None where no record is that young. Positions stay as they are."""
        when = moment_ms(at, now_ms=self._cluster.clock.wall_ms())
        found = list_offsets(self._cluster, dict.fromkeys(self.assignment(), when), timeout=self._timeout)
        return {partition: None if there is None else there.offset for partition, there in found.items()}

    @for_one_thread
    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each partition's position is behind the end of its log, looked up now."""
        ends = self.offsets("latest")
        return {partition: max(0, (end or 0) - self.position(partition)) for partition, end in ends.items()}

    @for_one_thread
    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out nothing of these partitions (all, if none is named) until `resume`."""
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.pause(position)
            self.reader.on_pause(position)

    @for_one_thread
    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on with these partitions (all, if none is named) where they were paused."""
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.resume(position)

    @for_one_thread
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {name for name, position in self._assignment.positions().items() if position.paused}

    def _seek_to_time(self, timestamp: int, partitions: Sequence[tuple[str, int]]) -> None:
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.seek_to_time(position, timestamp)

    def close(self) -> None:
        """Let go of everything. A loop that is reading, in any thread, ends. A second call does nothing."""
        self._close()

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_DEFAULTS: Final = {
    name: default
    for name, default in (Consumer.__init__.__kwdefaults__ or {}).items()
    if name not in ("group", "partitions", "start", "stop", "on_bad_record", "config", "_transport")
}


def _close(fetcher: Fetcher, assignment: Assignment, cluster: Cluster) -> None:
    fetcher.close()
    assignment.close()
    cluster.close()
