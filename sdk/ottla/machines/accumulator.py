"""The accumulator decides which batches of the buffer (machines/record_buffer.py) leave when, and tracks those in
flight.

A producer has to promise order and, with idempotence, no repeats, although requests fail, leaders move and responses
get lost. It also has to be fast, and the cost is in requests, not in bytes. All of that is decided here, without a
clock, a thread or a connection, so that a test may go through any order of events. The sender (producer/sender.py)
carries it out.

The rules that this file owns:

* A partition's batches leave in the order in which their records came. An idempotent producer has up to five of them
  in flight, and sequence numbers keep their order (machines/sequences.py). Any other producer has one batch of a
  partition in flight. In both cases failed batches return to the head of the queue.
* A batch is ready when it is full (machines/record_buffer.py), when its first record has waited for `linger_s`, or when
  no batch may wait any longer, because a flush waits or the buffer is full.
* One request carries a batch of each partition that a broker leads, up to `request_bytes`. The broker responds to each
  batch separately.
* If a broker finds a batch too large, parts of it leave in its place and at once (machines/splitting.py). No further
  batch of the partition becomes as large. A part fails if the broker finds it out of order although nothing is missing
  before it, and an attempt to write the whole had no known outcome. The part may then be in the log.
* A failed batch waits for its back-off, unless the partition gets another leader earlier. While a batch waits or a
  request is overdue, the metadata is requested repeatedly. An overdue request to a broker that no longer leads counts
  as failed, because that broker may hang for ever with its connection open.
* A batch that was sent to a specific topic id fails if the topic has been recreated under its name (I40).
* A record is reported as failed at the latest `delivery_timeout_s` after its batch was opened (I30).

Not thread-safe: the producer holds one lock over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.errors import ErrorCode, OttlaError
from ottla.machines.batches import BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.failures import broker_error, forgotten, left_behind, other_topic, perhaps_written, too_late
from ottla.machines.metadata import FAILING_PACE_S, OVERDUE_PACE_S, OVERDUE_S, REFRESHING, LookupPace, Route
from ottla.machines.queues import UNKNOWN_SEQUENCE, PartitionQueue, SentBatch
from ottla.machines.record_buffer import RecordBuffer
from ottla.machines.requests import Drained, OutgoingRequest, Reported
from ottla.machines.splitting import half_of, is_divisible, split
from ottla_core.errors import is_retriable
from ottla_core.model import PartitionId, TopicPartition
from ottla_core.records.batch import NO_PRODUCER_ID
from ottla_core.records.builder import RecordBatchBuilder

# The batch is larger than the topic's max.message.bytes or segment.bytes.
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# The batch is in the log, too, if it is an older duplicate than the broker remembers (rule 25: the last five batches).
_NO_FAILURE: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Accumulator(RecordBuffer):
    """The queues of all partitions. `now` is in monotonic seconds; `limits` and `new_builder` never change."""

    def __init__(
        self,
        limits: ProducerLimits,
        new_builder: Callable[[int], RecordBatchBuilder],
        new_ticket: Callable[[], object] = object,
    ) -> None:
        super().__init__(limits, new_builder, new_ticket)
        self.flushing = 0
        self.producer_id = NO_PRODUCER_ID
        self.no_producer_id_error: OttlaError | None = None
        # Every queue in trouble wants new metadata. One pace for all keeps them from flooding the brokers.
        self._pace = LookupPace()

    @property
    def transaction_version(self) -> int:
        """The version of the transaction that the batches belong to, or 0 without a transaction."""
        return 0

    # ---- out ---------------------------------------------------------------------------------------------------

    def drain(self, now: float, routes: Mapping[TopicPartition, Route]) -> Drained:
        """Return every request that may leave now.

        Partitions that were served go to the end, so no partition starves.
        """
        drained = Drained()
        requests: dict[str, OutgoingRequest] = {}
        has_missing = False
        # Overdue requests come first: batches that they held may leave again in this very round.
        self._look_after(now, routes, drained)
        for queue in list(self._waiting):
            # Expiry comes before everything that holds a queue back, or a batch that is held for ever would never be
            # reported (I30).
            self._expire(queue, now, drained)
            head = queue.head()
            if head is None:
                del self._waiting[queue]
                continue
            drained.wake_at = min(drained.wake_at, head.deadline_at)
            # Without a `wake_at`: what holds the queue is a response, which wakes the sender itself.
            if self._is_held(queue, head, now, drained):
                continue
            route = routes.get(queue.partition)
            if route is None:
                has_missing = True
                continue
            if not head.is_for(route.partition_id.topic_id):
                self._reject_misdirected(queue, route, drained)
                continue
            ready_at = self._ready_at(queue, head)
            # The back-off spares a leader in trouble. Another leader has no trouble yet, so the batch goes there at
            # once.
            if queue.retry_at > now and route == queue.route:
                ready_at = max(ready_at, queue.retry_at)
                self._request_refresh(now, FAILING_PACE_S, drained)
            if ready_at > now:
                drained.wake_at = min(drained.wake_at, ready_at)
                continue
            self._take(queue, route, requests, now)
        if has_missing:
            self._request_refresh(now, self._pace.missing_s, drained)
        self._pace.note_missing(has_missing, asked=drained.reported.refresh)
        for request in requests.values():
            self._in_flight.add(request)
            drained.wake_at = min(drained.wake_at, now + OVERDUE_S)
        drained.requests = list(requests.values())
        return drained

    def _look_after(self, now: float, routes: Mapping[TopicPartition, Route], drained: Drained) -> None:
        """Fail overdue requests to a broker if another leader is known."""
        for request in self._in_flight:
            overdue_at = request.sent_at + OVERDUE_S
            if overdue_at > now:
                drained.wake_at = min(drained.wake_at, overdue_at)
                continue
            for part in request.parts:
                route = routes.get(part.queue.partition, part.route)
                # A broker that still leads may only be slow, and a second request would not be faster. One that does
                # not can't respond.
                if route.leader_epoch > part.route.leader_epoch or route.partition_id != part.route.partition_id:
                    response = BatchResponse(
                        code=ErrorCode.NETWORK_EXCEPTION, message=left_behind(request.address, OVERDUE_S)
                    )
                    self._report(part, response, now, drained.reported)
            if any(part in part.queue.in_flight for part in request.parts):
                self._request_refresh(now, OVERDUE_PACE_S, drained)
            else:
                self._in_flight.remove(request)

    def _request_refresh(self, now: float, pace_s: float, drained: Drained) -> None:
        """Request new metadata, at a bounded pace, because the known metadata may be wrong."""
        due, again_at = self._pace.due(now, pace_s)
        drained.reported.refresh = due or drained.reported.refresh
        drained.wake_at = min(drained.wake_at, again_at)

    def _is_held(self, queue: PartitionQueue, head: ProducerBatch, now: float, drained: Drained) -> bool:
        """Return whether batches in flight, or failed ones, keep the head of the queue from leaving."""
        sequences = queue.sequences
        # After a failure no batch leaves until all in flight are back (machines/sequences.py). Only then is the order
        # known in which they have to leave again.
        if sequences is not None and sequences.halted and not queue.in_flight:
            drained.wants_producer_id = not sequences.resume(self.producer_id) or drained.wants_producer_id
        return not queue.may_leave(head, now)

    def _ready_at(self, queue: PartitionQueue, head: ProducerBatch) -> float:
        # With a full buffer every batch leaves, full or not: `send` waits for room, which only a response makes.
        if queue.closed or head.grown or self.flushing or self.exhausted:
            return 0.0
        return head.opened_at + self.limits.linger_s

    def _take(self, queue: PartitionQueue, route: Route, requests: dict[str, OutgoingRequest], now: float) -> None:
        """Move the queue's head into the request to its leader, if there is room for it."""
        if not queue.may_go_to(route):
            return
        request = requests.get(route.address)
        if request is None:
            if self._in_flight.at(route.address) >= self.limits.requests_per_broker:
                return
            request = OutgoingRequest(route.address, sent_at=now)
        if queue.head() is queue.open:
            # From here on it takes no more records, and its size is known.
            self._close(queue)
        batch = queue.closed[0]
        # The first batch of a request may exceed the limit, or a single large record could never be sent.
        if request.parts and request.size_bytes + batch.charged_bytes > self.limits.request_bytes:
            return
        # Taken out and put in again, which moves the queue to the end: partitions that were served wait behind the
        # others, so none starves.
        del self._waiting[queue]
        request.add(queue.send(batch, route))
        request.size_bytes += batch.charged_bytes
        requests[route.address] = request
        if queue.head() is not None:
            self._waiting[queue] = None

    def _reject_misdirected(self, queue: PartitionQueue, route: Route, drained: Drained) -> None:
        """Fail the batches at the head that belong to a different topic id than the route."""
        while queue.closed and not queue.closed[0].is_for(route.partition_id.topic_id):
            batch = queue.closed.popleft()
            self._give_up(queue, batch, other_topic(batch), drained.reported)
        # The batch may be right and the route old, so the metadata is looked at again.
        drained.reported.refresh = True

    def _expire(self, queue: PartitionQueue, now: float, drained: Drained) -> None:
        # Only batches that are not in flight expire here: one that was sent has an outcome that is still to come.
        while (head := queue.head()) is not None and head.deadline_at <= now:
            if head is queue.open:
                self._close(queue)
            queue.closed.popleft()
            reason = too_late(head, self.limits.delivery_timeout_s, self.no_producer_id_error)
            self._give_up(queue, head, reason, drained.reported)

    # ---- back --------------------------------------------------------------------------------------------------

    def on_response(
        self, request: OutgoingRequest, responses: Mapping[PartitionId, BatchResponse], now: float
    ) -> Reported:
        """Handle a broker's responses, by partition. A missing response counts as none received."""
        reported = Reported()
        lost = BatchResponse(code=ErrorCode.NETWORK_EXCEPTION, message="the broker's response left out this partition")
        for part in request.parts:
            self._report(part, responses.get(part.route.partition_id, lost), now, reported)
        self._in_flight.remove(request)
        return reported

    def on_failed(self, request: OutgoingRequest, code: int, message: str, now: float) -> Reported:
        """Handle the failure of a whole request, as far as the client can tell."""
        reported = Reported()
        for part in request.parts:
            self._report(part, BatchResponse(code=code, message=message), now, reported)
        self._in_flight.remove(request)
        return reported

    def on_sent_unanswered(self, request: OutgoingRequest) -> Reported:
        """Handle a request with acks=0: after the write to the connection it counts as delivered, at an unknown
        offset."""
        return self.on_response(request, {part.route.partition_id: BatchResponse() for part in request.parts}, 0.0)

    def on_no_producer_id(self, reason: OttlaError) -> Reported:
        """Fail every batch that needs a producer id, because there will be none."""
        reported = Reported()
        for queue in list(self._waiting):
            sequences = queue.sequences
            if sequences is None or queue.in_flight or not sequences.halted or sequences.resume(self.producer_id):
                continue
            self._close(queue)
            while queue.closed:
                self._give_up(queue, queue.closed.popleft(), reason, reported)
        return reported

    def on_announced(self, batches: Iterable[ProducerBatch]) -> None:
        """Note that the threads that wait for these settled batches were notified, so a flush need not wait for
        them."""
        for batch in batches:
            self.incomplete.pop(batch, None)

    def abort(self, reason: OttlaError) -> list[ProducerBatch]:
        """Fail every batch that is not settled yet, and ignore later responses for these batches."""
        failed = [batch for batch in self.incomplete if not batch.settled]
        # They are not released, because another thread may be encoding one of them at this moment.
        for batch in failed:
            for part in batch.parts:
                if not part.settled:
                    part.error = reason
                    self._count_out(part)
            batch.error = batch.error or reason
            self._count_out(batch)
        for queue in self._queues.values():
            queue.open = None
            queue.closed.clear()
            queue.in_flight = []
        self._waiting.clear()
        return failed

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and not reported back."""
        return len(self._in_flight)

    def _report(self, part: SentBatch, response: BatchResponse, now: float, reported: Reported) -> None:
        queue, sequences = part.queue, part.queue.sequences
        # It was reported as overdue before, or everything was aborted. A late response must not settle a batch twice.
        if part not in queue.in_flight:
            return
        queue.in_flight.remove(part)
        reported.refresh = reported.refresh or response.code in REFRESHING
        if not response.code:
            self._acknowledge(part, response.base_offset, response, now, reported)
        elif sequences is not None and response.code in _NO_FAILURE:
            # The batch is in the log, at an offset that the broker no longer remembers.
            self._acknowledge(part, -1, response, now, reported)
        else:
            self._on_error(part, response, now, reported)
        if sequences is not None and sequences.surprised:
            sequences.surprised = False
            reported.warnings.append(forgotten(queue.partition, response))
        if queue.head() is not None:
            self._waiting[queue] = None

    def _on_error(self, part: SentBatch, response: BatchResponse, now: float, reported: Reported) -> None:
        """Send the batch again if it may then succeed, or parts of it if it is too large, and fail it otherwise."""
        queue, batch, sequences = part.queue, part.batch, part.queue.sequences
        retries = batch.attempts <= self.limits.retries
        if (
            sequences is not None
            and response.code in UNKNOWN_SEQUENCE
            and batch.in_doubt
            and sequences.is_oldest(batch)
        ):
            # Most likely the whole is in the log. Sent in a new epoch, its records would be written twice.
            self._give_up(queue, batch, perhaps_written(batch), reported)
        elif retries and sequences is not None and response.code in UNKNOWN_SEQUENCE:
            queue.send_again(part, response, now, self.limits)
            sequences.on_out_of_order(batch)
        elif retries and is_retriable(response.code):
            queue.send_again(part, response, now, self.limits)
        elif response.code in _TOO_LARGE and is_divisible(batch):
            self._split(queue, batch, response, now)
            reported.splits += 1
        else:
            self._give_up(queue, batch, broker_error(batch, response), reported)
            if sequences is not None and response.code == ErrorCode.INVALID_PRODUCER_EPOCH:
                sequences.on_fenced()

    def _split(self, queue: PartitionQueue, batch: ProducerBatch, response: BatchResponse, now: float) -> None:
        """Replace a batch that is too large by its parts, and let no further batch become as large for a while."""
        size_bytes = batch.charged_bytes
        queue.limit_batches(half_of(size_bytes), now)
        parts = split(batch, self.limits, self._new_builder)
        self._charged_bytes += sum(part.charged_bytes for part in parts) - size_bytes
        for part in parts:
            part.error = broker_error(batch, response)  # for the report, in case the part expires
        queue.replace(batch, parts)

    def _acknowledge(
        self, part: SentBatch, offset: int, response: BatchResponse, now: float, reported: Reported
    ) -> None:
        part.queue.acknowledge(part.batch, offset, response, now)
        self._settle(part.batch, reported)

    def _give_up(self, queue: PartitionQueue, batch: ProducerBatch, error: OttlaError, reported: Reported) -> None:
        queue.give_up(batch, error)
        self._settle(batch, reported)

    def _settle(self, batch: ProducerBatch, reported: Reported) -> None:
        self._count_out(batch)
        batch.release()
        whole = batch.whole
        if whole is None:
            reported.settled.append(batch)
            return
        whole.error = whole.error or batch.error
        whole.parts_open -= 1
        if not whole.parts_open:
            whole.settled = True
            reported.settled.append(whole)

    def _count_out(self, batch: ProducerBatch) -> None:
        batch.settled = True
        self._charged_bytes -= batch.charged_bytes
        self.exhausted = False


def is_sent_again(code: int) -> bool:
    """Return whether a batch whose response has this code is sent again, or is in the log."""
    return is_retriable(code) or code in UNKNOWN_SEQUENCE or code in _NO_FAILURE
