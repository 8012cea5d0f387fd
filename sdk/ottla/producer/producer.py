"""The producer takes values and puts out batches.

This module is the public class and the path of one record. `send` serializes the record, chooses a partition and
appends to that partition's open batch, in a few microseconds. Everything else happens on the sender's thread
(`producer/sender.py`), by the rules of `machines/accumulator.py`. While the buffer has room, `send` returns at once.
While it is full, it waits up to `max_block`: that is how a slow cluster slows the program down, instead of filling its
memory (I13).

Every record that `send` accepts has an outcome that reaches the program (I30). If `send` raises, the record was not
accepted.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Literal, Never, Self

from ottla.client.cluster import ClusterClient
from ottla.client.condition import sleep_s
from ottla.client.guard import Guard, whether_owned
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.limits import check_timeouts, producer_limits
from ottla.client.offsets import GroupMetadata, OffsetsLike, checked_offsets
from ottla.client.security.logins import Login
from ottla.client.security.security import security_of
from ottla.client.security.tls import Tls
from ottla.client.settings import PRODUCER_NAMES, merge_config, read_properties, reject_unknown
from ottla.client.transport import Transport
from ottla.client.units import Duration, Size, seconds
from ottla.errors import ConfigError, ErrorCode, OttlaError, config_error
from ottla.generics import K, V
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import ProducerBatch
from ottla.machines.failures import buffer_full, callbacks_late, no_timestamp, not_flushed, not_serialized
from ottla.machines.queues import PartitionQueue
from ottla.machines.transaction import PreparedTransaction
from ottla.machines.transactional_accumulator import TransactionalAccumulator
from ottla.producer.closing import Closing
from ottla.producer.delivery import Announcer, Delivery
from ottla.producer.interceptors import Intercepted
from ottla.producer.options import ProducerOptions, producer_options
from ottla.producer.send_columns import ByteColumns
from ottla.producer.send_many import BatchResult, SentRows
from ottla.producer.sender import Sender
from ottla.producer.target import PartitionerLike, Target
from ottla.producer.targets import Targets
from ottla.producer.tracing import hooks_of
from ottla.producer.transaction_manager import TransactionManager, manager_of
from ottla.producer.transactions import GroupMember, Transaction
from ottla.serdes.serdes import HeadersLike, Marks, SerializerLike, header_pairs, serialize_auto
from ottla_core.model import TopicId
from ottla_core.records.builder import SealedBatch
from ottla_core.records.record import Header
from ottla_core.records.twins import new_builder

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_QUIET_S: Final = 1.0
"""How long a `with` block that raised waits before it logs what it waits for."""

_GROWN_BYTES: Final = 1024 * 1024
"""The size up to which batches grow. Topics take it unless their max.message.bytes was lowered."""

_client_numbers = itertools.count(1)


class Producer(Generic[K, V]):
    """Sends records to topics.

    It is thread-safe; share one producer between threads, because it batches their records together.

        with ottla.Producer(topic="orders") as producer:
            producer.send({"id": 1, "total": 9.5}, key="eu")

    The producer retries a batch until a broker responds or `delivery_timeout` passes. With idempotence, the default,
    each record is still written only once, in order within its partition. Without idempotence, the order is still kept,
    but a record may be written twice. With acks=0, brokers do not respond, so a record may be lost and its offset is
    never known.

    Leaving the `with` block waits for the outcome of every record, and raises DeliveryError if a record failed and
    you did not read its outcome. A block that raises also waits, up to `delivery_timeout`; another Ctrl-C ends the
    wait. A producer that you don't close is closed when it is garbage-collected or the process ends, and logs a
    warning. If the process is killed, the records in the buffer are lost. A producer belongs to the process that
    created it: its methods raise ConfigError in a forked child. A method that waits also raises ConfigError if
    you call it in a signal handler that has interrupted such a method.

    Args:
        bootstrap: addresses of brokers, "host:port,…" or a list; by default OTTLA_BOOTSTRAP, then localhost:9092.
        topic: the topic of records that you send without topic=.
        key, value: serializers: auto (str as UTF-8; bytes unchanged; dict, list, tuple, int, float, bool as JSON),
            bytes, str, int, float, uuid, json, a type (bytes, str, int, float, UUID, dict, list, a dataclass or
            pydantic model, written as JSON) or a callable. None is always sent as null. See docs/use/serializers.md for
            examples.
        acks: the replicas that must have a record before it is acknowledged: "all" means all in-sync replicas, 1 means
            the leader. With 0, records are not acknowledged.
        compression: "none", "gzip", "snappy", "lz4" or "zstd". Batches stay compressed on disk and on the way to the
            consumer.
        linger: seconds that a record waits for other records to join its batch.
        batch_size: the size in bytes, before compression, at which a batch is full and does not wait for `linger`; a
            larger record gets its own batch. If the topic takes less (max.message.bytes), batches are split.
        buffer_memory: the maximum total size in bytes of all unacknowledged batches and of the in-flight requests that
            carry them; at least batch_size. `send` waits while the buffer is full.
        max_request_size: the maximum size in bytes of a record, and of a request, which may carry batches of many
            partitions. It can be at most 16 MiB.
        delivery_timeout: the maximum seconds from `send` to the outcome; at least linger + request_timeout.
        request_timeout: seconds to wait for a broker's response to a request.
        max_block: the maximum seconds that `send` waits for metadata or for space in the buffer.
        retries: the maximum number of retries for a batch; delivery_timeout also limits them.
        retry_backoff: seconds before the first retry; each further wait is twice as long, up to 1 s. If the leader
            moves, the retry happens sooner.
        max_in_flight: the maximum number of unanswered requests per broker, at most 5 with idempotence. Without
            idempotence, a partition has only one request in flight.
        enable_idempotence: let brokers recognise a batch that is retried. Idempotence needs acks="all", retries, and
            max_in_flight of at most 5. It is on by default, unless acks or retries rule it out.
        partitioner: "default" hashes the key with murmur2, as Kafka's Java client does; records without a key fill a
            batch of one partition, then a batch of the next. "round_robin" and "random" ignore the key and choose a
            partition for each record, among those that have a leader, so batches are smaller. A callable gets topic,
            key, value (both as bytes) and the number of partitions, and returns the partition. If you pass partition=
            to `send`, the partitioner is not used.
        transactional_id: makes the producer transactional: it sends every record in a transaction (`transaction()`).
            Only one producer may use an id at a time.
        transaction_timeout: seconds after which the coordinator aborts a transaction that is still open.
        interceptors: objects that are called with each record before it is serialized, and with each outcome
            (ProducerInterceptor).
        connect_timeout: seconds that the client waits at startup for a first response from any broker; increase it if
            brokers may start after the client. After that first response, the other timeouts limit how long the client
            waits in an outage.
        metadata_max_idle: seconds after which the producer forgets a topic that it sends no records to.
        metadata_max_age: seconds after which the producer refreshes metadata even if nothing seems to have changed.
        login: how the client logs in (SASL): an ottla.Scram, ottla.Plain or ottla.OAuthBearer.
        tls: True, or an ottla.Tls, if brokers expect TLS.
        client_id: the name of this client in logs and quotas.
        config: settings under Kafka's names, such as {"linger.ms": 5}.

    Raises:
        ConfigError: an argument or a config is not valid.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        topic: str | None = None,
        key: SerializerLike[K] = "auto",
        value: SerializerLike[V] = "auto",
        acks: Literal["all", 1, 0] = "all",
        compression: Compression | None = None,
        linger: Duration = 0.005,
        batch_size: Size = "64KiB",
        buffer_memory: Size = "32MiB",
        max_request_size: Size = "1MiB",
        delivery_timeout: Duration = 120.0,
        request_timeout: Duration = 30.0,
        max_block: Duration = 60.0,
        retries: int = 2**31 - 1,
        retry_backoff: Duration = 0.1,
        max_in_flight: int = 5,
        enable_idempotence: bool | None = None,
        partitioner: PartitionerLike = "default",
        transactional_id: str | None = None,
        transaction_timeout: Duration = 60.0,
        interceptors: Sequence[object] = (),
        connect_timeout: Duration = 5.0,
        metadata_max_idle: Duration = 300.0,
        metadata_max_age: Duration = 300.0,
        login: Login | None = None,
        tls: Tls | bool | None = None,
        client_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
        **unknown: Never,
    ) -> None:
        # First, and before anything is started: a misspelled setting that is ignored costs days.
        reject_unknown("Producer", unknown, PRODUCER_NAMES)
        arguments = {name: value for name, value in locals().items() if name in _DEFAULTS}
        settings = merge_config(PRODUCER_NAMES, arguments, _DEFAULTS, config or {})
        options = producer_options(topic, settings)
        self.client_id: Final[str] = settings["client_id"] or f"ottla-producer-{next(_client_numbers)}"
        self._topic, self._key, self._value = topic, options.key, options.value
        self._marks = Marks(key=self._key is serialize_auto, value=self._value is serialize_auto)
        self._value_marks = self._marks.values if self._marks.any else None
        self._max_block, self._delivery_s = options.max_block_s, options.limits.delivery_timeout_s
        if hooks := hooks_of(settings["interceptors"], self.client_id):
            # The hooks go around `send`, so that a producer without hooks pays nothing for each record.
            self.send = Intercepted(self.send, topic, hooks)  # type: ignore[method-assign]  # of this instance only

        transport = _transport or KafkaTransport(self.client_id, security_of(settings["login"], settings["tls"]))
        self._cluster = ClusterClient(options.bootstrap, transport, connect_timeout=options.connect_timeout_s)
        self._clock, self._wall_ms = self._cluster.clock, self._cluster.clock.wall_ms
        self._guard = Guard(self.client_id)
        self._announcer = Announcer(self.client_id, self._guard)
        self._accumulator = _new_accumulator(options, self._announcer)
        self._sender = Sender(self._accumulator, self._cluster, self._announcer, options)
        self._manager = manager_of(options, self._cluster, self._sender, self._announcer, self._guard)
        self._lock = self._sender.lock
        self._interrupted = whether_owned(self._lock)
        # Bound once: `send` is called for every record, and each attribute lookup counts there.
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._topics = Targets(options, self.client_id, self._cluster, self._accumulator, self._sender)
        self._targets = self._topics.by_topic
        self._guard.watch(self._lock, *self._topics.updater.locks, *self._cluster.locks)
        self._closing = Closing(self._cluster, self._sender, self._manager, self._announcer, self._targets)
        self._sender.start(self._topics.updater)
        # A producer that is dropped without a close still sends what it has accepted.
        self._closing.watch(self)

    def __repr__(self) -> str:
        topic = "" if self._topic is None else f"{self._topic!r}, "
        return f"Producer({topic}client_id={self.client_id!r})"

    @classmethod
    def from_properties(cls, path: str | Path, **arguments: Any) -> Producer[K, V]:
        """Make a producer with the settings of a Java properties file, and `arguments` as in the constructor."""
        return cls(config=read_properties(path), **arguments)

    def send(
        self,
        value: V | None,
        *,
        key: K | None = None,
        topic: str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Send one record in the background.

        The returned Delivery later has the outcome: the record's metadata or an error. Without `partition`, the
        partitioner chooses one: by default by the key's murmur2 hash; a record without a key goes to the partition
        whose batch is being filled. `timestamp` is in milliseconds since the epoch; the default is now. `send` waits up
        to `max_block` for the topic's metadata and for space in the buffer.

        Raises SerializationError, UnknownTopicError, BufferFullError, RecordTooLargeError, ConfigError (no topic, no
        such partition, or the producer is closed) and ConnectError. If `send` raises one of these, the record was not
        sent. If a signal handler raises within `send`, the record may be sent, as a whole, or not.
        """
        name = topic or self._topic
        target = self._targets.get(name) or self._find_target(name)  # type: ignore[arg-type]  # it raises for None
        try:
            # Before the lock is taken: a serializer is the user's code, and may be slow or send records itself.
            key_bytes = None if key is None else self._key(key)
            value_bytes = None if value is None else self._value(value)
        except Exception as error:
            raise not_serialized(error, target.topic, key) from error
        if timestamp is None:
            timestamp = self._wall_ms()
        elif not isinstance(timestamp, int) or timestamp < 0:
            raise no_timestamp(timestamp)
        if key_bytes is None and partition is None and target.keyless_anywhere:
            queue = None
        else:
            queue = target.queue_for(partition, key_bytes, value_bytes)
        pairs: Sequence[Header] = ()
        if headers is not None:
            pairs = self._marks.among(header_pairs(headers, target.topic), key, value)
        elif self._value_marks is not None:
            pairs = self._value_marks[value.__class__]
            if key is not None:
                pairs = self._marks.keys[key.__class__] + pairs
        # This thread holds the lock already, so a signal handler has interrupted a `send` of its own. Half a record may
        # be in the batch, and waiting for the lock would be for ever.
        if self._interrupted():
            raise self._guard.in_between()
        try:
            # `with` takes three times as long. The call is within the block, because a signal handler may raise right
            # behind it, and the lock has to be released then.
            self._acquire()
            # The sticky partition is read with the lock held: another thread may just have filled its batch and moved
            # on.
            chosen = queue or target.queues[target.sticky.current]
            batch = self._accumulator.append(chosen, timestamp, key_bytes, value_bytes, pairs)
            if batch is None:
                batch = self._append_to_new(target, queue, timestamp, key_bytes, value_bytes, pairs)
            return Delivery(batch, batch.count - 1, timestamp)
        except TypeError as error:  # a serializer or the caller gave something else than bytes or an int
            raise not_serialized(error, target.topic, key) from error
        finally:
            try:  # noqa: SIM105  # nothing but the release may come first here
                self._release()
            except RuntimeError:  # interrupted before it had the lock
                pass

    def send_many(self, rows: Iterable[Any], *, topic: str | None = None) -> BatchResult:
        """Send all `rows`, ignoring `linger`, wait for their outcomes, and return the delivered and the failed rows.

        A row is a value, a (key, value) tuple, a ProducerRecord or a consumer's Record. If a row can't be sent, only
        that row fails. If the buffer stays full or no broker responds, the remaining rows fail without being sent. The
        only error that `send_many` raises is ConfigError, if the producer is closed. All rows remain in memory until
        `send_many` returns.
        """
        return self.settle_many(self.start_many(rows, topic))

    def start_many(self, rows: Iterable[Any], topic: str | None = None) -> SentRows:
        """For facades: run the first half of `send_many`, which may wait for space in the buffer."""
        self._check_open()
        return SentRows(self.send if topic is None else partial(self.send, topic=topic), rows)

    def settle_many(self, sent: SentRows) -> BatchResult:
        """For facades: run the second half of `send_many`, which waits for the outcomes."""
        self._sender.flush(self._delivery_s)
        return sent.result()

    def flush(self, timeout: Duration | None = None) -> None:
        """Send all buffered records, ignoring `linger`, and wait until each has an outcome and callbacks have run.

        `timeout` is in seconds; the default is delivery_timeout. Raises ottla.TimeoutError after the timeout, and
        DeliveryError for failed records whose outcome you did not read. If you call `flush` in a callback, it does not
        wait for callbacks.
        """
        self._guard.check()
        limit_s = self._seconds(timeout)
        deadline_at = self._clock.monotonic() + limit_s
        if not self._sender.flush(limit_s):
            raise not_flushed(len(self._accumulator.incomplete))
        # Callbacks belong to the outcome. A flush that returned before them would let the program end before they run.
        if not self._announcer.flush(deadline_at - self._clock.monotonic()):
            raise callbacks_late(limit_s)
        self._sender.check()
        self._announcer.raise_failures()

    def close(self, timeout: Duration | None = None) -> None:
        """Flush within `timeout` seconds (default: delivery_timeout), fail the remaining records, and free resources.

        When `close` returns, all callbacks have run, except callbacks that take longer than `timeout`. Raises
        DeliveryError for failed records whose outcome you did not read. A second call returns immediately. If the first
        call is still waiting and the second call has an earlier deadline, the first call ends at that deadline. In a
        forked child, `close` does nothing, because the records belong to the parent.
        """
        self._close(self._seconds(timeout))

    def _close(self, limit_s: float, quiet_s: float = float("inf")) -> None:
        """Close, with a line in the log after `quiet_s` seconds of waiting."""
        # In a forked child the records belong to the parent, which still sends them.
        if self._guard.foreign:
            return
        self._guard.check()
        self._closing.close(limit_s, quiet_s)

    # ---- transactions: they need a `transactional_id`, and a `transaction()` block makes all of these calls in order -

    def init_transactions(self) -> None:
        """Call once, before the first transaction: fence earlier producers of this id and abort their open transaction.

        Raises ConfigError (no transactional_id, or a timeout above the cluster's), ottla.TimeoutError and ConnectError.
        """
        self._transactions().init()

    def begin_transaction(self) -> None:
        """Begin a transaction: all later sends belong to it.

        Raises ConfigError if a transaction is already open, and FencedError. In a cluster of Kafka whose transactions
        have version 1, this requests an epoch from the coordinator, and may also raise ottla.TimeoutError.
        """
        self._transactions().begin()

    def send_offsets_to_transaction(self, offsets: OffsetsLike, group_metadata: GroupMetadata | GroupMember) -> None:
        """Commit {(topic, partition): offset of the next record} for the group, as part of the transaction.

        `group_metadata` is the `group_metadata` of a consumer, or the consumer itself. Raises CommitFailedError if the
        group has rebalanced without that consumer, and UnknownTopicError if a topic was recreated since its records
        were returned. After any error, the only option is to abort the transaction.
        """
        group = group_metadata if isinstance(group_metadata, GroupMetadata) else group_metadata.group_metadata
        self._transactions().send_offsets(group, checked_offsets(offsets))

    def commit_transaction(self) -> None:
        """Wait for every send, and commit. The commit is durable on return; consumers see it a moment later.

        Raises TransactionAborted if the transaction can't be committed; none of its records take effect. If a record
        failed, call `abort_transaction()` to end the transaction. Also raises FencedError, and ottla.TimeoutError or
        ConnectError if the coordinator does not respond; a second call then continues the commit.
        """
        self._transactions().commit()

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for every send, and keep the transaction open until this producer or another process ends it.

        It is not ended by a timeout, by a newer producer with the same id, or by `close`. Pass the result to
        `admin.transactions.end` to commit or abort the transaction; None means that nothing was sent, so no decision is
        needed. The txn-coordinators need `transaction_two_phase_commit_enable`. Raises like `commit_transaction`. In a
        cluster of Kafka it raises UNSUPPORTED_VERSION, and the transaction stays as it is.
        """
        return self._transactions().prepare()

    def abort_transaction(self) -> None:
        """Abort: no record sent since `begin_transaction()` takes effect. Raises FencedError and ottla.TimeoutError."""
        self._transactions().abort()

    def transaction(self, consumer: GroupMember | None = None) -> Transaction:
        """Return a context manager for one transaction.

        The transaction commits when the `with` block ends, and aborts if the block raises:

            producer = ottla.Producer(transactional_id="totals-1", topic="totals")
            with producer, ottla.Consumer("orders", group="totals", commit="manual") as consumer:
                batch = consumer.poll(timeout=1)
                with producer.transaction(consumer) as tx:
                    for order in batch.values():
                        tx.send(order["total"])
                    tx.commit_offsets(batch)

        The first block calls `init_transactions`. If the block raises an error, the transaction is aborted and the
        error propagates. The block raises TransactionAborted if the commit fails, after which the next transaction may
        begin. It also raises FencedError, and ottla.TimeoutError or ConnectError if the outcome is not known.

        If you pass a `consumer`, enter the block at once. Unless the transaction is then known to have committed, the
        consumer returns to its committed offsets before its next call, and reads the same records again.
        """
        return Transaction(self.send, self._transactions(), self._guard, self._check_open, consumer)

    def _transactions(self) -> TransactionManager:
        self._guard.check()
        self._check_open()
        if self._manager is None:
            raise config_error("this producer is not transactional", hint="pass transactional_id=")
        return self._manager

    # ---- for connectors: bytes that no serializer or interceptor sees ------------------------------------------------

    def send_columns(self, rows: ByteColumns, topic: str) -> None:
        """For connectors: send many rows of bytes.

        Waits and raises like `send`; if a row causes the error, some of the rows before it have been sent.
        """
        target = self._targets.get(topic) or self._find_target(topic)
        for rows_of_slice in rows.slices(target):
            timestamp = self._wall_ms()
            if self._interrupted():
                raise self._guard.in_between()
            with self._lock:
                for queue, key, value, headers in rows_of_slice:
                    chosen = queue or target.queues[target.sticky.current]
                    if self._accumulator.append(chosen, timestamp, key, value, headers) is None:
                        self._append_to_new(target, queue, timestamp, key, value, headers)

    def send_batch(
        self, batch: SealedBatch, topic: str, partition: int, *, topic_id: TopicId | None = None
    ) -> Delivery:
        """For mirrors: send a whole batch, ignoring `linger`; the Delivery is for its first record.

        Its records are written unchanged, after all records sent to the partition earlier. An unknown partition is
        looked up, since it may be new. With a `topic_id`, the batch is written only to the topic with that id: if the
        topic has been recreated, the delivery fails with UNKNOWN_TOPIC_ID. The method waits and raises like `send`.
        """
        target = self._targets.get(topic) or self._find_target(topic)
        # The partition may have been added since the metadata was read.
        if partition >= len(target.queues):
            self._topics.refresh(topic)
            target = self._find_target(topic)
        queue = target.numbered(partition)
        if self._interrupted():
            raise self._guard.in_between()
        with self._lock:
            self._check_open()
            self._topics.retain(target)
            known = self._accumulator.known(queue)
            sent = self._when_room(target, lambda now: self._accumulator.append_batch(known, batch, now, topic_id))
        return Delivery(sent, 0, batch.max_timestamp_ms)

    # ---- what it knows -----------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str | None = None) -> int:
        """Return the number of partitions of the topic. It waits and raises like `send`."""
        name = topic or self._topic
        return len(self._find_target(name).queues)

    def partitions_now(self, topic: str) -> int:
        """For connectors: query a broker for the topic's partition count; `partitions_for` may be minutes behind."""
        self._topics.refresh(topic)
        return self.partitions_for(topic)

    def would_wait(self, topic: str | None = None) -> bool:
        """For facades: return whether a `send` to the topic may have to wait now, for metadata or for buffer space.

        Raises ConfigError in a forked child of the process that created the producer.
        """
        if (topic or self._topic) in self._targets:
            return not self._accumulator.has_room
        self._guard.check_process()
        return True

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the producer, under Kafka's names (docs/use/producer.md).

        Any thread may read them, and reading them sends no request.
        """
        self._guard.check_process()
        return self._sender.metrics()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # The block's own error is raised. Failures of records have been logged, and must not hide it.
        with contextlib.suppress(OttlaError):
            self._close(self._delivery_s, _QUIET_S)

    def _seconds(self, timeout: Duration | None) -> float:
        return self._delivery_s if timeout is None else seconds(timeout, "timeout")

    def _find_target(self, name: str | None) -> Target:
        """Return the topic's queues, after waiting for its metadata."""
        self._check_open()
        return self._topics.find(name)

    def _append_to_new(
        self,
        target: Target,
        queue: PartitionQueue | None,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> ProducerBatch:
        """Append to a new batch or a larger one, since no open one has room; wait for room in the buffer.

        The lock is held.
        """
        self._check_open()
        if queue is None:
            queue = target.queues[target.sticky.on_batch_full()]
        self._topics.retain(target)
        known = self._accumulator.known(queue)

        def append(now: float) -> ProducerBatch | None:
            batch = self._accumulator.append(known, timestamp, key, value, headers)
            return batch or self._accumulator.append_to_new(known, timestamp, key, value, headers, now)

        batch = self._when_room(target, append)
        batch.sampled_keys.append(key if target.keyed else None)
        return batch

    def _when_room(self, target: Target, append: Callable[[float], ProducerBatch | None]) -> ProducerBatch:
        """Wait until the buffer has room, and return what `append(now)` returns. The lock is held."""
        deadline_at = self._clock.monotonic() + self._max_block
        while True:
            now = self._clock.monotonic()
            batch = append(now)
            target.used_at = now
            # Before the wait as well: with a full buffer the sender sends batches that are not full.
            self._sender.wake()
            if batch is not None:
                return batch
            if now >= deadline_at:
                raise buffer_full(self._accumulator.limits.buffer_bytes, self._max_block)
            self._sender.room.wait(sleep_s(deadline_at - now))
            self._check_open()

    def _check_open(self) -> None:
        self._guard.check_process()
        self._sender.check()
        if self._closing.closed:
            raise closed_error()


_DEFAULTS: Final = {
    name: default
    for name, default in (Producer.__init__.__kwdefaults__ or {}).items()
    if name not in ("topic", "config", "_transport")
} | {"bootstrap": None}


def _new_accumulator(options: ProducerOptions, announcer: Announcer) -> Accumulator:
    kind = TransactionalAccumulator if options.transactional_id else Accumulator
    # With acks=0 nobody would learn that a batch is too large for its topic.
    grown_bytes = min(options.limits.request_bytes, _GROWN_BYTES) if options.acks != 0 else 0
    return kind(replace(options.limits, grown_bytes=grown_bytes), new_builder, announcer.ticket)


def check_config(config: Mapping[str, Any]) -> None:
    """For connectors: raise ConfigError if a producer with this config would, without making one."""
    settings = merge_config(PRODUCER_NAMES, _DEFAULTS, _DEFAULTS, config)
    check_timeouts(producer_limits(settings), seconds(settings["request_timeout"], "request_timeout"))


def closed_error() -> ConfigError:
    """Return the error for using a closed producer."""
    return ConfigError(ErrorCode.INVALID_REQUEST, "the producer is closed", hint="create a new one")
