"""The sender is the producer's IO: a thread drains the accumulator into requests, and responses are entered as they
come.

The accumulator decides and is not thread-safe, so one lock guards it. The lock is held while `send` appends, while this
thread drains, and while responses are entered. It must never be held over anything slow, because every `send` of the
program waits for it: building batches, compressing, sending and announcing outcomes happen without it. A second lock,
`_sending`, keeps requests in the order in which they were drained.

The lock is re-entrant only so that guard.py can check which thread owns it: no thread takes it twice.

A producer that has stopped sending must not go on accepting records (I30). So an unforeseen error here ends the
sending, `failed` says why, and every caller gets it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Condition, Lock, RLock, Thread
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.condition import sleep_s
from ottla.client.kafka.apis import PRODUCE
from ottla.client.metadata_updater import MetadataUpdater
from ottla.client.streams import BrokerStreams
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import ProducerBatch
from ottla.machines.failures import sender_failed
from ottla.machines.hot_key import HotKeyWatch
from ottla.machines.metadata import ClusterView
from ottla.machines.partitioner import murmur2
from ottla.machines.queues import SentBatch
from ottla.machines.requests import Drained, OutgoingRequest, Reported
from ottla.producer.delivery import Announcer
from ottla.producer.metrics import Produced
from ottla.producer.options import ProducerOptions
from ottla.producer.produce import ProduceResult, exchange_of
from ottla.producer.producer_id import ProducerIdSource
from ottla_core.model import TopicPartition
from ottla_core.records.batch import TRANSACTIONAL

logger = logging.getLogger("ottla.producer")

_LONGEST_WAIT_S: Final = 5.0
_UNANSWERED_S: Final = 5.0
"""How long a close waits for brokers to take the last records of acks=0."""


class Sender:
    """Sends the accumulator's batches. `room` is signalled when batches are settled; `wake` wakes the sending
    thread."""

    def __init__(
        self, accumulator: Accumulator, cluster: ClusterClient, announcer: Announcer, options: ProducerOptions
    ) -> None:
        self.lock: Final = RLock()
        self.work: Final = Condition(self.lock)
        self.room: Final = Condition(self.lock)
        self._sending: Final = Lock()
        self._woken = False
        self.produced: Final = Produced()
        self._hot_keys: Final = HotKeyWatch()
        self.accumulator: Final = accumulator
        self._announcer: Final = announcer
        self._clock: Final = cluster.clock
        self._acks: Final = options.acks
        self._transactional_id: Final = options.transactional_id
        self._attributes: Final = TRANSACTIONAL if options.transactional_id else 0
        self._request_timeout: Final = options.request_timeout_s
        self._names: Final = cluster.names
        self._streams: Final = BrokerStreams(
            PRODUCE.name, cluster.connection, cluster.clock, self._on_response, self._on_failed, self._fail
        )
        self._ids: Final = ProducerIdSource(
            cluster, self._request_timeout, self._on_producer_id, self._on_no_producer_id
        )
        self.add_partitions: Callable[[Sequence[TopicPartition]], None] | None = None
        """Called with the lock held, for partitions that have to be in the transaction before their batches leave."""
        self._updater: MetadataUpdater | None = None
        self._closed = False
        self._end_at = float("inf")
        self.failed: BaseException | None = None
        self._thread: Final = Thread(target=self._run, name="ottla-sender", daemon=True)

    def start(self, updater: MetadataUpdater) -> None:
        """Send from now on, to the leaders that `updater` knows."""
        self._updater = updater
        self._thread.start()

    def on_metadata(self, view: ClusterView) -> None:
        """Act on new metadata: partitions may have another leader, or a leader at last."""
        with self.lock:
            self.wake()

    def wake(self) -> None:
        """Wake the thread, since there may be something to send. The lock is held."""
        self._woken = True
        self.work.notify()

    def metrics(self) -> dict[str, float]:
        """Return counts of what was sent so far, under Kafka's names."""
        with self.lock:
            limits, used_bytes = self.accumulator.limits, self.accumulator.used_bytes
            return self.produced.metrics(self.accumulator.requests_in_flight, limits.buffer_bytes, used_bytes)

    def end_by(self, end_at: float) -> None:
        """End every wait at that monotonic time. The lock is held."""
        self._end_at = min(self._end_at, end_at)
        self.room.notify_all()

    def check(self) -> None:
        """Raise if the sender has failed, so that nothing is sent any more."""
        if self.failed is not None:
            raise sender_failed(self.failed)

    def flush(self, timeout: float) -> bool:
        """Wait until everything sent so far is settled and announced; return False after `timeout` seconds."""
        deadline_at = self._clock.monotonic() + timeout
        with self.lock:
            # Only what was sent before the flush is waited for. In a program that sends without a pause, a flush would
            # otherwise never return. The list is reversed so that taking the oldest is cheap.
            waited_for = list(reversed(self.accumulator.incomplete))
            self.accumulator.flushing += 1
            self.wake()
            try:
                while waited_for:
                    if waited_for[-1] not in self.accumulator.incomplete:
                        waited_for.pop()
                        continue
                    left = min(deadline_at, self._end_at) - self._clock.monotonic()
                    if left <= 0:
                        return False
                    self.room.wait(sleep_s(left))
            finally:
                self.accumulator.flushing -= 1
        return True

    def wait_for_brokers(self, timeout: float) -> bool:
        """Wait until no request is under way; return False after `timeout` seconds. A sender that has failed no longer
        knows its requests."""
        deadline_at = self._clock.monotonic() + timeout
        with self.lock:
            while self.accumulator.requests_in_flight and self.failed is None:
                left = min(deadline_at, self._end_at) - self._clock.monotonic()
                if left <= 0:
                    return False
                self.room.wait(sleep_s(left))
        return True

    def close(self) -> None:
        """Fail the batches that are left, end the thread and close the streams."""
        self._closed = True
        self._ids.close()
        reason = "the producer was closed before the broker had answered"
        self._fail_all(error_from_code(ErrorCode.NETWORK_EXCEPTION, reason))
        self._thread.join()
        self._streams.close(timeout=_UNANSWERED_S if self._acks == 0 else 0.0)

    def _fail(self, bug: BaseException) -> None:
        """Stop sending: threads that wait, and those that send later, get the error."""
        if self.failed is None:
            logger.error("the producer's sender failed", exc_info=bug)
            self.failed = bug
        self._fail_all(sender_failed(bug))
        # Batches that were being announced when it failed are in no queue any more. Without this a flush would wait for
        # them for ever.
        with self.lock:
            self.accumulator.incomplete.clear()
            self.room.notify_all()

    def _fail_all(self, reason: OttlaError) -> None:
        with self.lock:
            failed = self.accumulator.abort(reason)
        self.announce(failed)

    # ---- out ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._drain_until_closed()
        except BaseException as bug:
            self._fail(bug)

    def _drain_until_closed(self) -> None:
        while not self._closed and self.failed is None:
            due_at = self._streams.break_overdue()
            with self.lock:
                # Reset before the drain: what wakes the thread during the drain makes it drain again instead of wait.
                self._woken = False
            with self._sending:
                drained = self._send_round()
            # More may have become ready meanwhile, such as the next batches of partitions that a full request left out.
            if drained.requests or drained.reported.settled:
                continue
            with self.lock:
                if not self._woken and not self._closed:
                    now = self._clock.monotonic()
                    self.work.wait(max(0.0, min(due_at, drained.wake_at, now + _LONGEST_WAIT_S) - now))

    def _pump(self) -> None:
        """Send the batches that waited for a response, on the thread that brought it.

        While the user's thread is busy, waking the sender's thread takes longer than the broker does. The sender's
        thread is woken all the same: it knows when to act next, and sends the rest if another thread is sending now.
        """
        if self._sending.acquire(blocking=False):
            try:
                self._send_round()
            finally:
                self._sending.release()

    def _send_round(self) -> Drained:
        """Send what may leave now. `_sending` is held, so batches leave in the order in which they are drained."""
        assert self._updater is not None
        with self.lock:
            drained = self.accumulator.drain(self._clock.monotonic(), self._updater.view.routes)
            if drained.wants_producer_id:
                self._ids.request()
            # With the lock, so that an end of the transaction comes either before the drain or after this.
            if drained.wants_partitions and self.add_partitions is not None:
                self.add_partitions(drained.wants_partitions)
        self._after(drained.reported)
        for request in drained.requests:
            self._send(request)
        return drained

    def _send(self, request: OutgoingRequest) -> None:
        asked = exchange_of(
            [(part.route.partition_id, self._encoded(part)) for part in request.parts],
            self._names,
            acks=self._acks,
            transactional_id=self._transactional_id,
            transaction_version=self.accumulator.transaction_version,
        )
        self._count(request)
        # No request is waited for beyond the time at which its batches are reported as failed.
        timeout = min(self._request_timeout, max(0.001, request.deadline_at - self._clock.monotonic()))
        answered = self._acks != 0
        sent = self._streams.send(request.address, lambda _: asked, request, timeout=timeout, answered=answered)
        # acks=0: the write to the connection is all that will ever be known (rule 66).
        if sent and not answered:
            with self.lock:
                reported = self.accumulator.on_sent_unanswered(request)
            self.announce(reported.settled)

    def _count(self, request: OutgoingRequest) -> None:
        sizes_bytes = []
        for batch in (part.batch for part in request.parts):
            sizes_bytes.append(len(batch.encoded or b""))  # None if a close has failed it meanwhile
            keys = batch.sampled_keys or [None]
            for hot in filter(None, [self._hot_keys.on_batch(key, sizes_bytes[-1] // len(keys)) for key in keys]):
                logger.warning(
                    "more than half of the bytes are in records with the key %.40r (murmur2 %#x), which all go "
                    "to %s. Use a key with more distinct values, for example by adding a suffix, or send without a "
                    "key",
                    hot,
                    murmur2(hot),
                    batch.partition,
                )
        # Again, because encoding took time. The latency that is measured is the broker's.
        request.sent_at = self._clock.monotonic()
        with self.lock:
            self.produced.on_sent(request, sizes_bytes, request.sent_at)

    def _encoded(self, part: SentBatch) -> bytes:
        # Compression happens here, without the lock: it takes longer than everything else in a send.
        return part.batch.encode(self.accumulator.limits.codec, self._attributes)

    # ---- back --------------------------------------------------------------------------------------------------

    def _on_response(self, request: OutgoingRequest, result: ProduceResult) -> None:
        assert self._updater is not None
        with self.lock:
            now = self._clock.monotonic()
            self.produced.on_response(now - request.sent_at)
            reported = self.accumulator.on_response(request, result.responses, now)
            self.produced.splits += reported.splits
            self._on_ended_request()
        # A response that names another leader saves a request for metadata.
        self._updater.learn(result.leaders)
        self._after(reported)
        self._pump()

    def _on_failed(self, requests: list[OutgoingRequest], error: OttlaError) -> None:
        assert self._updater is not None
        # Any failure may mean that the leader has moved. With acks=0 the broker can say so only by ending the stream,
        # without a response (rule 66).
        self._updater.refresh()
        for request in requests:
            with self.lock:
                reported = self.accumulator.on_failed(request, error.code, error.message, self._clock.monotonic())
                self.produced.splits += reported.splits
                self._on_ended_request()
            self._after(reported)

    def _on_ended_request(self) -> None:
        """Wake the threads that wait for a request to end. The lock is held."""
        self.wake()
        if not self.accumulator.requests_in_flight:
            self.room.notify_all()

    def _on_producer_id(self, producer_id: int) -> None:
        with self.lock:
            self.accumulator.producer_id = producer_id
            self.accumulator.no_producer_id_error = None
            self.wake()

    def _on_no_producer_id(self, reason: OttlaError) -> None:
        reported = Reported()
        with self.lock:
            self.accumulator.no_producer_id_error = reason
            # While it may still succeed, batches wait for the id until they expire.
            if not reason.retriable:
                reported = self.accumulator.on_no_producer_id(reason)
        self.announce(reported.settled)

    def _after(self, reported: Reported) -> None:
        assert self._updater is not None
        for message in reported.warnings:
            logger.warning("%s", message)
        if reported.refresh:
            self._updater.refresh()
        if reported.settled:
            self.announce(reported.settled)

    def announce(self, settled: list[ProducerBatch]) -> None:
        """Announce that these batches are settled, and wake waiting threads. Call it without the lock."""
        # Callbacks and waiting threads first, then `on_announced`: a flush returns only after the outcome is known to
        # all.
        self._announcer.announce(settled)
        with self.lock:
            self.produced.on_settled(settled)
            self.accumulator.on_announced(settled)
            self.wake()
            self.room.notify_all()
