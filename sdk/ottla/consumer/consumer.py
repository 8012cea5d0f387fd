"""The consumer reads whole topics, chosen partitions, or a group member's share of them, for ever or up to a stop.

This module is the public class. It takes the arguments, sets where to read, and connects the parts. `plan` says where
reading begins and ends, `assignment` looks that up, `fetcher` fetches, and `reader` opens what was fetched. With a
group, `group.assignment` has the partitions, and `group.reader` returns records poll by poll, so that it is known which
of them are processed and can be committed.

A consumer is for one thread at a time, because its position has no meaning for two. That is enforced and not only
documented (`guarded`): calls of a second thread get an error instead of skipped records. Only `wakeup`, `close` and
`metrics` may come from any thread.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Final, Generic, Literal, Never, Self

from ottla.client.by_partition import ByPartition, OffsetsByPartition
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.list_offsets import OffsetSpec, list_offsets, list_offsets_or_end, spec_timestamp
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata, OffsetsLike
from ottla.client.security.logins import Login
from ottla.client.security.security import security_of
from ottla.client.security.tls import Tls
from ottla.client.settings import CONSUMER_NAMES, merge_config, positive, read_properties, reject_unknown
from ottla.client.transport import Transport
from ottla.client.units import Duration, Size, seconds
from ottla.consumer.assignment import Assignment
from ottla.consumer.batch import Batch
from ottla.consumer.concurrent_use import ConcurrentUseGuard, guarded
from ottla.consumer.context import ConsumerContext
from ottla.consumer.fetcher import Fetcher, closed_error
from ottla.consumer.group.assignment import GroupAssignment
from ottla.consumer.group.commit_round import OnCommitted
from ottla.consumer.group.listener import Listener, RebalanceListener
from ottla.consumer.group.metrics import group_metrics
from ottla.consumer.group.options import AssignorLike, CommitMode
from ottla.consumer.group.reader import GroupReader
from ottla.consumer.options import ConsumerOptions, consumer_options
from ottla.consumer.reader import FOREVER, RecordReader
from ottla.consumer.start_offsets import ReadingPlan
from ottla.errors import WakeupError, config_error
from ottla.generics import K, V
from ottla.machines.failures import no_position
from ottla.machines.position import StopOffset
from ottla.machines.subscription import SubscriptionState
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.record import Record
from ottla.serdes.serdes import DeserializerLike
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition

Start = Literal["committed", "earliest", "latest"] | datetime | timedelta | OffsetsByPartition
Stop = Literal["end"] | datetime | timedelta | int | OffsetsByPartition

_LEAVE_S: Final = 10.0
"""How long the last commit may take when a consumer of a group is closed."""

_LEAVE_AT_EXIT_S: Final = 1.0
"""How long the last commit may take if the process ends without a close, and how long the reading thread may take to
return from its call."""

# These members have not been closed. The keys are weak, so that a consumer the program has dropped can be freed.
_members: Final[weakref.WeakKeyDictionary[Consumer[Any, Any], None]] = weakref.WeakKeyDictionary()

# Threads that commit and leave for consumers that were garbage-collected. The end of the process waits for them.
_leaving: Final[weakref.WeakKeyDictionary[Thread, None]] = weakref.WeakKeyDictionary()

_client_numbers = itertools.count(1)


class Consumer(Generic[K, V]):
    """Reads records.

    Without a group, a consumer reads every partition of its topics. If partitions are added later, it reads them from
    their beginning.

        for record in ottla.Consumer("orders", start="earliest"):
            print(record.key, record.value)

    Iteration, `poll` and `batches` share one position per partition, so you may mix them. Records of one partition
    arrive in order. Use a consumer from one thread at a time: if one thread calls or iterates over a consumer, any
    other thread that calls it gets ConcurrentUseError immediately. Any thread may call `wakeup` and `close` and read
    `metrics`.

    Args:
        topics: names of one or more topics.
        bootstrap: addresses of brokers, "host:port,…" or a list; by default OTTLA_BOOTSTRAP, then localhost:9092.
        group: the id of a consumer group, whose members share the partitions. The consumer joins the group at its first
            read, keeps its partitions while it reads, and continues from the committed offsets; see docs/use/sdk.md.
        pattern: a regular expression instead of topics; needs a group. The consumer subscribes to every topic whose
            whole name matches, including topics created later.
        partitions: the partitions to read: numbers if there is one topic, else (topic, number) pairs. Not allowed with
            a group.
        start: where to begin: "earliest", "latest" (only records written from now on), a datetime (local time if it has
            no zone), a timedelta (-1 h is the last hour), or {(topic, partition): offset}; a partition that is not in
            this mapping follows `auto_offset_reset`. "committed" (the default, and the only choice with a group) begins
            at the committed offset. A partition without a committed offset follows `auto_offset_reset`, whose default
            is "latest" as in Kafka, and the consumer logs one warning.
        stop: where the iteration ends, looked up once, when reading begins. "end" is the end of the log at that time. A
            datetime or timedelta stops before the first record at or after that time, or at the end of the log if no
            such record exists. If a later election cuts off records before that, reading stops there. A number stops
            after that many records. {(topic, partition): offset} stops before that offset; a partition that is not in
            this mapping has no stop. With None, the iteration never ends.
        key, value: deserializers: auto (returns the type that was sent with `auto`; from other producers, UTF-8 becomes
            str and anything else bytes), bytes, str, int, float, uuid, json, a type (bytes, str, int, float, UUID,
            dict, list, a dataclass or a pydantic model, read from JSON) or a callable. A null is always returned as
            None.
        on_bad_record: what to do with a record that can't be deserialized: "raise" SerializationError (at each read,
            until you seek past the record) or "skip" it and log a line. The same choice applies to a batch that can't
            be read although its checksum is right (UnreadableBatchError). A wrong checksum always raises an error.
        auto_offset_reset: where to continue when the position is not in the log (OFFSET_OUT_OF_RANGE only): "earliest",
            "latest" or "none" (raise OffsetOutOfRangeError). The default is "earliest" if `start` is "earliest" or a
            time, else "latest". After an unclean election, the new leader may lack records that this consumer has read.
            The consumer then continues from the offset where the two logs diverge, or raises TruncationError if the
            setting is "none". In each of these cases it logs a warning and counts the event in `metrics`.
        fetch_min_bytes, fetch_max_wait: a broker responds to a fetch as soon as it has this many bytes, or after this
            many seconds.
        fetch_max_bytes, max_partition_fetch_bytes: the maximum size in bytes of one response, and of one partition
            in a response. The first batch of a response is always whole, even if it is larger. Larger responses lower
            the throughput: several fetches are in flight at a time, but with large responses the broker and the client
            take turns (1.6 M records/s with 8 MiB, 3.0 M with 2 MiB).
        prefetch: the maximum number of bytes that the consumer fetches ahead of the records that you have read.
        max_poll_records: the maximum number of records that one `poll` returns. While you iterate over a consumer with
            a group, it is the maximum number of records that it takes from its buffer at a time.
        commit: when a consumer with a group commits. With "at_least_once" (the default), it commits processed records;
            a record counts as processed once you request the next record or poll again. It commits every
            `auto_commit_interval` seconds, before partitions move to other members, and on close. With "at_most_once",
            it commits records before it returns them. With "manual", it commits only when you call `commit`.
        session_timeout: seconds without a heartbeat after which the coordinator removes this consumer from the group.
        heartbeat_interval: seconds between heartbeats. A background thread sends heartbeats, and their responses
            announce rebalances.
        max_poll_interval: the maximum seconds from the end of one poll to the next; after that, the consumer leaves
            its group. A consumer that waits for records, however long, is polling. This setting also limits how long
            the other members wait for this consumer in a rebalance.
        assignors: partition assignors, in order of preference: "range", "roundrobin", "sticky", "cooperative-sticky",
            or your own subclass of ottla.machines.assignors.Assignor. If all of them are cooperative, each member keeps
            reading the partitions that it retains while the group rebalances.
        group_instance_id: a unique name that makes this consumer a static member. If a static member restarts within
            `session_timeout`, it gets its partitions back without a rebalance.
        on_assigned, on_revoked, on_lost: callbacks for newly assigned partitions, for partitions that are about to move
            to other members, and for partitions that may already belong to other members; `on_lost` defaults to
            `on_revoked`. Each callback gets a list of partitions and runs in the reading thread.
        listener: one object with these three methods, instead of three callbacks (ottla.RebalanceListener).
        client_rack: the rack of this client, to match the `rack` setting of brokers. If an in-sync replica is in this
            rack, the leader refers the consumer to that replica (KIP-392). With "" (no rack) the consumer reads from
            leaders.
        isolation_level: "read_committed" (the default, unlike in Kafka) leaves out records of aborted transactions, and
            waits at the first record of an open transaction. "read_uncommitted" returns every record. Without
            transactions, both levels return the same records.
        request_timeout: seconds to wait for a broker's response to a request.
        connect_timeout: seconds that the client waits at startup for a first response from any broker; increase it if
            brokers may start after the client. After that first response, the other timeouts limit how long the client
            waits in an outage.
        metadata_max_age: seconds between two checks for new partitions, and for a replica that is closer than the
            leader.
        login: how the client logs in (SASL): an ottla.Scram, ottla.Plain or ottla.OAuthBearer.
        tls: True, or an ottla.Tls, if brokers expect TLS.
        client_id: the name of this client in logs and quotas.
        config: settings under Kafka's names, such as {"auto.offset.reset": "earliest"}.

    Raises:
        ConfigError: an argument or a config is not valid. For an unknown topic, the consumer raises UnknownTopicError
            only when reading begins.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap: str | Sequence[str] | None = None,
        group: str | None = None,
        pattern: str | re.Pattern[str] | None = None,
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
        commit: CommitMode = "at_least_once",
        auto_commit_interval: Duration = 5.0,
        session_timeout: Duration = 45.0,
        heartbeat_interval: Duration = 3.0,
        max_poll_interval: Duration = 300.0,
        assignors: AssignorLike | Sequence[AssignorLike] = ("range", "cooperative-sticky"),
        group_instance_id: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
        listener: RebalanceListener | None = None,
        client_rack: str = "",
        isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed",
        request_timeout: Duration = 30.0,
        connect_timeout: Duration = 5.0,
        metadata_max_age: Duration = 300.0,
        login: Login | None = None,
        tls: Tls | bool | None = None,
        client_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
        **unknown: Never,
    ) -> None:
        reject_unknown("Consumer", unknown, CONSUMER_NAMES)
        arguments = {name: value for name, value in locals().items() if name in _DEFAULTS}
        settings = merge_config(CONSUMER_NAMES, arguments, _DEFAULTS, config or {})
        options = consumer_options(topics, settings)
        self.client_id: Final[str] = settings["client_id"] or f"ottla-consumer-{next(_client_numbers)}"
        named = (f"{name}={settings[name]!r}" for name in ("pattern", "group") if settings[name] is not None)
        self._reads: Final = (*map(repr, topics), *named)
        self.max_poll_records = options.max_poll_records
        self._timeout = options.request_timeout_s
        transport = _transport or KafkaTransport(self.client_id, security_of(settings["login"], settings["tls"]))
        self._cluster = ClusterClient(options.bootstrap, transport, connect_timeout=options.connect_timeout_s)
        self._subscription = SubscriptionState(options.limits, options.plan.reset)
        self._fetcher = Fetcher(self._subscription, self._cluster, options.fetch, self._timeout)
        self._lock = self._fetcher.lock
        self._assignment, self.reader = self._open(options)
        self._group = self._assignment if isinstance(self._assignment, GroupAssignment) else None
        self.use_guard = ConcurrentUseGuard(self.reader)
        of_group = [] if self._group is None else [self._group.lock]
        self.use_guard.guard.watch(*self._fetcher.locks, *self._cluster.locks, *of_group)
        # A garbage-collected consumer closes itself: `for record in Consumer(…, stop="end")` leaves nothing behind.
        self._close = weakref.finalize(self, _close, self.reader, self._fetcher, self._assignment, self._cluster)
        # At the end of the process `_leave_at_exit` does more: it commits what a loop has processed.
        self._close.atexit = False
        if self._group is not None:
            _members[self] = None

    def __repr__(self) -> str:
        return f"Consumer({', '.join([*self._reads, f'client_id={self.client_id!r}'])})"

    def _open(self, options: ConsumerOptions) -> tuple[Assignment | GroupAssignment, RecordReader[K, V]]:
        """Return the assignment to read, a group member's or a fixed one, and the reader that returns its records."""
        context = ConsumerContext(
            self.client_id, self._subscription, self._fetcher, self._cluster, self._timeout, options.metadata_max_age_s
        )
        plan, serdes, skip_bad, most = options.plan, options.serdes, options.skip_bad, options.max_records
        if isinstance(plan, ReadingPlan):
            assignment = Assignment(plan, context)
            return assignment, RecordReader(assignment, context, serdes, skip_bad=skip_bad, most=most)
        member = GroupAssignment(plan, context)
        reader: GroupReader[K, V] = GroupReader(
            member, context, serdes, skip_bad=skip_bad, most=most, max_poll_records=self.max_poll_records
        )
        return member, reader

    @classmethod
    def from_properties(cls, path: str | Path, *topics: str, **arguments: Any) -> Consumer[K, V]:
        """Make a consumer with the settings of a Java properties file, and `arguments` as in the constructor."""
        return cls(*topics, config=read_properties(path), **arguments)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Iterate record by record until the stop, or until `close`.

        Raises SerializationError for a record that can't be read (unless such records are skipped),
        OffsetOutOfRangeError if the position is not in the log and there is no reset, TruncationError if the new leader
        lacks records that were read, UnknownTopicError, and ConnectError or ottla.TimeoutError if no broker answers at
        the start. If brokers become unreachable later, it waits for them.
        """
        return self.reader.records(self, self.use_guard)

    def poll(self, timeout: Duration = 1.0, *, max_records: int | None = None) -> Batch[K, V]:
        """Return up to `max_records` records (by default max_poll_records) as soon as at least one is available.

        The batch is empty if no record arrives within `timeout` seconds, or if the stop has been reached. Raises like
        `batches`.
        """
        if self._fetcher.closed:
            raise closed_error()
        limit = self.max_poll_records if max_records is None else positive(max_records, "max_records")
        batch = self._gather(limit, seconds(timeout, "timeout"), 0.0, polls=True)
        self.reader.on_handed_out()
        return batch

    @property
    def finished(self) -> bool:
        """Whether the consumer will return no more records, because it has reached the stop or is closed."""
        return self.reader.finished

    def batches(self, max_records: int = 500, max_wait: Duration = 0.5) -> Iterator[Batch[K, V]]:
        """Iterate batch by batch until the stop, or until `close`.

        A batch is returned when it has `max_records` records, or `max_wait` seconds after its first record. It raises
        the same errors as iterating over records, except SerializationError, which is raised when you access the record
        in the batch.
        """
        limit, wait = positive(max_records, "max_records"), seconds(max_wait, "max_wait")
        while batch := self._gather(limit, FOREVER, wait, polls=False):
            self.reader.on_handed_out()
            yield batch

    def wakeup(self) -> None:
        """Make the thread that is waiting for records raise WakeupError. Any thread may call it.

        If no thread is waiting, the next one to wait raises it. No record is lost: reading continues where it stopped.
        An offset lookup that is in progress finishes first.
        """
        self.use_guard.guard.check_process()
        self._fetcher.interrupt(WakeupError())
        self._assignment.wake()

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the consumer, under Kafka's names (docs/use/sdk.md).

        Any thread may read them, and reading them sends no request.
        """
        self.use_guard.guard.check_process()
        with self._lock:
            metrics = self._fetcher.consumed.metrics(self._subscription)
        return metrics if self._group is None else metrics | group_metrics(self._group, self._cluster.clock.monotonic())

    def _note_poll(self, polls: bool) -> None:
        if isinstance(self.reader, GroupReader):
            self.reader.polls = polls

    @guarded
    def _gather(self, limit: int, wait_first: float, wait_more: float, *, polls: bool) -> Batch[K, V]:
        self._note_poll(polls)
        return self.reader.gather(limit, wait_first, wait_more)

    # ---- positions ---------------------------------------------------------------------------------------------------

    @guarded
    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer reads; in a group, its currently assigned partitions."""
        return set(self._assignment.positions())

    @guarded
    def position(self, partition: tuple[str, int]) -> int:
        """Return the offset of the next record of `partition`."""
        (position,) = self._assignment.of([partition])
        self._assignment.locate()
        if position.offset is None:
            raise no_position(position.partition)
        return position.offset

    @guarded
    def seek(
        self, partition: tuple[str, int], offset: int, *, stop: int | None = None, topic_id: bytes | None = None
    ) -> None:
        """Continue from `offset`; if this offset is not in the log, `auto_offset_reset` applies at the next fetch.

        `stop` is the first offset that is no longer read, and replaces the partition's earlier stop. `topic_id` is the
        id of the topic in which `offset` is valid: if the topic has been recreated since, the next read raises
        UNKNOWN_TOPIC_ID or follows `auto_offset_reset`. Without `topic_id`, the offset applies to whichever topic has
        that name at the next read.

        In a group, the partition must currently be assigned to this consumer. Before the first read no partition is
        assigned, so seek in `on_assigned` to begin elsewhere.
        """
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise config_error(
                f"offset={offset!r} is not an offset", hint="pass 0 or more, or call seek_to_beginning or seek_to_end"
            )
        (position,) = self._assignment.of([partition])
        with self._lock:
            if stop is not None:
                position.stop = StopOffset(stop)
            self._subscription.seek(position, offset)
            position.topic_id = None if topic_id is None else TopicId(topic_id)
        self.reader.on_seek(position)

    @guarded
    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue from the first existing record, in all partitions or only in these."""
        self._seek_to_time(EARLIEST_TIMESTAMP, partitions)

    @guarded
    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue with records written from now on, in all partitions or only in these."""
        self._seek_to_time(LATEST_TIMESTAMP, partitions)
        self._assignment.resolve()

    @guarded
    def seek_to_time(self, moment: datetime | timedelta, *partitions: tuple[str, int]) -> None:
        """Continue from the first record at or after `moment` (a timedelta is relative to now), or from the end."""
        self._seek_to_time(spec_timestamp(moment, now_ms=self._cluster.clock.wall_ms()), partitions)

    @guarded
    def seek_to_committed(self, *partitions: tuple[str, int]) -> None:
        """Continue from the committed offsets (or as `auto_offset_reset` says), in all partitions or only in these.

        Records that were returned but not committed, such as those of an aborted transaction, are returned again.
        """
        if not isinstance(self._assignment, GroupAssignment):
            raise config_error(
                "this consumer has no group, so nothing is committed", hint="pass group=, or seek to an offset"
            )
        self._seek_to_time(None, partitions)

    @guarded
    def offsets(self, at: OffsetSpec = "latest") -> ByPartition[int | None]:
        """Return, for each assigned partition, the offset at `at`, or None if no record is that recent.

        The consumer's positions do not change.
        """
        when = spec_timestamp(at, now_ms=self._cluster.clock.wall_ms())
        found = list_offsets(self._cluster, dict.fromkeys(self._assignment.positions(), when), **self._look_up)
        return ByPartition({p: None if entry is None else entry.offset for p, entry in found.items()})

    @guarded
    def lag(self) -> ByPartition[int]:
        """Return how many offsets each position is behind the current end of its partition, which is looked up now."""
        ends = self.offsets("latest")
        return ByPartition({p: max(0, (end or 0) - self.position(p)) for p, end in ends.items()})

    @guarded
    def caught_up(self) -> bool:
        """Return whether every record of the assigned partitions has been returned, as of each partition's last fetch.

        If a partition has not been fetched yet, this call looks up its end. The result is False if no partition is
        assigned.
        """
        positions = self._assignment.of(())
        self._assignment.locate()
        if unknown := {p: p.version for p in positions if p.high_watermark < 0}:
            latest = dict.fromkeys((p.partition for p in unknown), LATEST_TIMESTAMP)
            ends = list_offsets_or_end(self._cluster, latest, **self._look_up)
            with self._lock:
                for position in (p for p, version in unknown.items() if p.version == version):
                    position.high_watermark = max(position.high_watermark, ends[position.partition])
        return bool(positions) and all(position.lag == 0 for position in positions)

    @guarded
    def pause(self, *partitions: tuple[str, int]) -> None:
        """Stop returning records from these partitions (default: all) until you call `resume`."""
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.pause(position)
            self.reader.on_pause(position)

    @guarded
    def resume(self, *partitions: tuple[str, int]) -> None:
        """Resume these partitions (default: all) where they were paused."""
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.resume(position)

    @guarded
    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {name for name, position in self._assignment.positions().items() if position.paused}

    @property
    def _look_up(self) -> dict[str, Any]:
        return {"timeout": self._timeout, "read_committed": self._fetcher.read_committed}

    def _seek_to_time(self, timestamp: int | None, partitions: Sequence[tuple[str, int]]) -> None:
        self.reader.seek_to_time(self._assignment.of(partitions), timestamp)

    # ---- offsets of a group ------------------------------------------------------------------------------------------

    @guarded
    def commit(self, offsets: OffsetsLike | None = None, *, timeout: Duration = 60.0) -> None:
        """Commit every record returned so far, or the given `offsets`, and wait for the coordinator.

        In a loop over records, the commit includes the current record, as in every Kafka client, so call `commit` only
        after you have processed that record. (The automatic commits of `commit="at_least_once"` do not include it.)

        `offsets` is {(topic, partition): offset}. An offset is that of the next record to read; to add a note, pass
        `OffsetAndMetadata(offset, "a note")`. While the coordinator is unreachable, `commit` retries for up to
        `timeout` seconds.

        Raises CommitFailedError if the group has rebalanced without this consumer; RebalanceInProgressError if the
        consumer has to continue reading first; UnknownTopicError if a topic is missing, or was recreated since its
        records were returned (offsets of other partitions are committed); ottla.TimeoutError; WakeupError.
        """
        group = self._member()
        to_commit = group.committer.to_commit(offsets)
        group.commits.run_callbacks()
        group.committer.commit(to_commit, seconds(timeout, "timeout"))

    @guarded
    def commit_async(self, callback: OnCommitted | None = None, *, offsets: OffsetsLike | None = None) -> None:
        """Commit without waiting. The commit comes after all earlier commits, and is not retried.

        The consumer calls `callback(offsets, error)` when it next reads, commits or closes; `error` is None after
        success.
        """
        group = self._member()
        group.commits.begin(group.committer.to_commit(offsets), callback=callback)

    @guarded
    def committed(
        self, *partitions: tuple[str, int], timeout: Duration = 60.0
    ) -> ByPartition[OffsetAndMetadata | None]:
        """Return the group's committed offset in each of these partitions (default: this consumer's), or None."""
        group = self._member()
        of = [TopicPartition(*partition) for partition in partitions] or sorted(group.positions())
        found = group.commits.fetch(of, seconds(timeout, "timeout"))
        return ByPartition({partition: found.get(partition) for partition in of})

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's identity in its group. Any thread may call it.

        Between an eviction and the next join, the result is the old identity, and a commit that uses it is rejected.
        """
        member = self._member()
        return member.metadata(member.committer.topic_ids())

    def go_back_unless(self, outcome: TransactionOutcome) -> None:
        """For producers: go back to the committed offsets before the next call, unless the transaction is under way or
        is known to have committed. Any thread may call it."""
        self._member()
        assert isinstance(self.reader, GroupReader)
        self.reader.go_back_unless(outcome)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group reassign its partitions, beginning with the next poll (KIP-568).

        Call it if your own assignor would now assign the partitions differently. The coordinator records `reason`.
        """
        self._member().enforce_rebalance(reason or "the consumer enforces it")

    def _member(self) -> GroupAssignment:
        if self._group is None:
            raise config_error("this consumer has no group to commit to", hint="pass group=")
        return self._group

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release all resources. A second call does nothing.

        If any thread is iterating over the consumer, its `for` loop ends.

        A consumer with a group commits processed records (except with commit="manual"), gives up its partitions and
        leaves the group; a static member remains in the group. The records of the last `poll` count as processed only
        if a `with` block ends without an error. If you call `close` in a callback, or in a signal handler that
        interrupts a call in the same thread, it returns immediately, and the interrupted call closes the consumer when
        it finishes. In a forked child, `close` does nothing.
        """
        self._close_after(processed=False)

    def _close_after(self, *, processed: bool) -> None:
        if self.use_guard.guard.foreign:
            return
        # The reader's wait ends first, so that the thread that is in a call comes out of it and can finish the close.
        self._fetcher.end()
        self._assignment.wake()
        # If another call is under way, it finishes the close when it comes out: its thread alone may touch the
        # positions.
        if not self.use_guard.once_out(functools.partial(self._finish, processed=processed)):
            self._finish(processed=processed)

    def _finish(self, *, processed: bool) -> None:
        self._fetcher.close()
        try:
            if self._group is not None and self._close.alive:
                self.use_guard.run_last(self._timeout, functools.partial(self._leave, self._group, processed))
        finally:
            self._close()

    def _leave(self, group: GroupAssignment, processed: bool, most_s: float = _LEAVE_S) -> None:
        assert isinstance(self.reader, GroupReader)
        offsets = self.reader.processed(well=processed)
        group.leave({} if group.options.commit == "manual" else offsets, min(self._timeout, most_s))

    def _leave_at_exit(self) -> None:
        """Commit what a script's loop has processed, and leave, so that the group does not wait for a dead member."""
        group = self._group
        if group is not None and group.in_group and self._close.alive and not self.use_guard.guard.foreign:
            self._fetcher.close()  # wakes a reader that waits in a thread which does not end with the main one
            group.wake()
            leave = functools.partial(self._leave, group, False, _LEAVE_AT_EXIT_S)
            self.use_guard.run_last(_LEAVE_AT_EXIT_S, leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close_after(processed=error is None)


_DEFAULTS: Final = {
    name: default
    for name, default in (Consumer.__init__.__kwdefaults__ or {}).items()
    if name not in ("config", "_transport")
}


@atexit.register
def _leave_at_exit() -> None:
    """Close consumers that no `with` block closes: after Ctrl-C in a loop, or if the main thread ends beside one."""
    for consumer in list(_members):
        # The process ends. An error of one consumer must not keep the others from leaving.
        with contextlib.suppress(Exception):
            consumer._leave_at_exit()
    for leaving in list(_leaving):
        # Daemon threads die with the process, so it waits for their last commit, and not for long.
        leaving.join(2 * _LEAVE_AT_EXIT_S)


def _close(
    reader: RecordReader[Any, Any], fetcher: Fetcher, assignment: Assignment | GroupAssignment, cluster: ClusterClient
) -> None:
    fetcher.close()
    if isinstance(assignment, GroupAssignment):
        if assignment.in_group and isinstance(reader, GroupReader):
            # The garbage collector may run in any thread, and must not wait for a coordinator. So a thread leaves.
            leaving = Thread(target=_leave_group, args=(reader, assignment, cluster), name="ottla-goodbye", daemon=True)
            _leaving[leaving] = None
            leaving.start()
            return
        assignment.close()
    cluster.close()


def _leave_group(reader: GroupReader[Any, Any], assignment: GroupAssignment, cluster: ClusterClient) -> None:
    """Commit what an abandoned loop has processed, over a consumer that no block closes."""
    try:
        if assignment.options.commit != "manual":
            assignment.committer.commit_last(reader.processed(well=False), _LEAVE_AT_EXIT_S)
    finally:
        assignment.close()
        cluster.close()
