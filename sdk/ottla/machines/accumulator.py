"""Records on their way out: a queue of batches per partition, bounded in bytes, at most one request in flight each.

The rules this file owns:

* A partition's batches leave in the order in which their records came, and a partition with a request in flight waits.
  So a retry, which goes back to the head of its queue, can't overtake or be overtaken (until idempotence lands, this is
  what keeps the order; afterwards sequence numbers do).
* A batch is ready when it is full, when its first record has waited for `linger_s`, or when nothing may wait any more:
  somebody flushes, or the buffer is full.
* One request takes every ready batch of every partition that a broker leads, up to `request_bytes`: requests are what
  costs, not bytes. What a broker refuses for good is then sent again batch by batch, so that one bad batch fails alone.
* A record is reported as failed `delivery_timeout_s` after its batch was opened at the latest; the first batch of a
  queue is always the oldest.
* The buffer is charged by the batch: `batch_bytes` when one is opened, its real size once it is closed; and by the
  request that is in flight, in which the batches lie in memory a second time.

Not thread-safe: the producer holds one lock over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.batches import Answer, Batch, Drained, Limits, Part, PartitionQueue, Reported, Request
from ottla.machines.metadata import REFRESHING, Route
from ottla_core.errors import is_retriable
from ottla_core.model import PartitionId, TopicPartition
from ottla_core.records.builder import RecordBatchBuilder
from ottla_core.records.record import Header


class Accumulator:
    """All partitions' queues. `now` is monotonic seconds; `limits` and `new_builder` stay the same for its life."""

    def __init__(
        self,
        limits: Limits,
        new_builder: Callable[[int], RecordBatchBuilder],
        new_ticket: Callable[[], object] = object,
    ) -> None:
        self.limits = limits
        self.used_bytes = 0
        self.exhausted = False
        self.flushing = 0
        self.incomplete: dict[Batch, None] = {}
        self._new_builder = new_builder
        self._new_ticket = new_ticket
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._waiting: dict[PartitionQueue, None] = {}  # queues with a batch that is not in flight, in turn
        self._requests: dict[str, int] = {}

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition, made at the first call."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition)
        return queue

    # ---- in ----------------------------------------------------------------------------------------------------

    def append(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> Batch | None:
        """The open batch, which took the record as its number `count - 1`; None where there is none or it is full."""
        batch = queue.open
        if batch is None or not batch.builder.append(timestamp_ms, key, value, headers):
            return None
        batch.count += 1
        return batch

    def append_to_new(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        now: float,
    ) -> Batch | None:
        """A new batch, which took the record as its first, or None while the buffer is full.

        Whoever drains may have something to do then. Raises RecordTooLargeError, and what the builder raises.
        """
        limits = self.limits
        size_bytes = _record_bytes(key, value, headers)
        if size_bytes > limits.request_bytes:
            raise error_from_code(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of about {size_bytes} bytes is larger than max_request_size={limits.request_bytes}",
                hint="send it in pieces, or raise max_request_size and the topic's max.message.bytes",
            )
        charged = max(limits.batch_bytes, size_bytes)
        if self.used_bytes + charged > limits.buffer_bytes and self.used_bytes:
            self.exhausted = True
            return None
        builder = self._new_builder(limits.batch_bytes)
        builder.append(timestamp_ms, key, value, headers)
        self._close(queue)
        batch = queue.open = Batch(queue.partition, builder, self._new_ticket(), now, limits, charged)
        self.used_bytes += charged
        self.incomplete[batch] = None
        self._waiting[queue] = None
        return batch

    def _close(self, queue: PartitionQueue) -> None:
        batch, queue.open = queue.open, None
        if batch is not None:
            queue.closed.append(batch)
            self.used_bytes += batch.builder.size_bytes - batch.charged_bytes
            batch.charged_bytes = batch.builder.size_bytes

    # ---- out ---------------------------------------------------------------------------------------------------

    def drain(self, now: float, routes: Mapping[TopicPartition, Route]) -> Drained:
        """Everything that may leave now. Partitions that got their turn go to the end, so none starves."""
        drained = Drained()
        requests: dict[str, Request] = {}
        for queue in list(self._waiting):
            if queue.in_flight:
                continue
            self._expire(queue, now, drained)
            head = queue.head()
            if head is None:
                del self._waiting[queue]
                continue
            drained.wake_at = min(drained.wake_at, head.deadline_at)
            ready_at = max(self._ready_at(queue, head), queue.retry_at)
            if ready_at > now:
                drained.wake_at = min(drained.wake_at, ready_at)
                continue
            route = routes.get(queue.partition)
            if route is None:
                drained.unroutable.add(queue.partition.topic)
                continue
            self._take(queue, route, requests, now)
        for request in requests.values():
            self._requests[request.address] = self._requests.get(request.address, 0) + 1
            self.used_bytes += request.size_bytes  # on its way it lies in memory once more
        drained.requests = list(requests.values())
        return drained

    def _ready_at(self, queue: PartitionQueue, head: Batch) -> float:
        if queue.closed or self.flushing or self.exhausted:
            return 0.0
        return head.opened_at + self.limits.linger_s

    def _take(self, queue: PartitionQueue, route: Route, requests: dict[str, Request], now: float) -> None:
        """Move the queue's ready batches into the request of its leader, as far as there is room for them."""
        request = requests.get(route.address)
        if request is None:
            if self._requests.get(route.address, 0) >= self.limits.requests_per_broker:
                return
            request = Request(route.address)
        room = self.limits.request_bytes - request.size_bytes
        taken: list[Batch] = []
        size_bytes = 0
        for batch in self._ready(queue, now):
            if size_bytes + batch.charged_bytes > room and (request.parts or taken):
                break
            taken.append(batch)
            size_bytes += batch.charged_bytes
            if queue.one_by_one:
                break
        if not taken:
            return
        for batch in taken:
            queue.closed.popleft()
            batch.attempts += 1
        queue.in_flight = taken
        del self._waiting[queue]
        request.add(Part(queue, route, taken), size_bytes)
        requests[route.address] = request
        if queue.head() is not None:
            self._waiting[queue] = None

    def _ready(self, queue: PartitionQueue, now: float) -> Iterator[Batch]:
        """The closed batches, then the open one if its time has come; that one is closed by being asked for."""
        yield from list(queue.closed)
        if queue.open is not None and (
            self.flushing or self.exhausted or queue.open.opened_at + self.limits.linger_s <= now
        ):
            batch = queue.open
            self._close(queue)
            yield batch

    def _expire(self, queue: PartitionQueue, now: float, drained: Drained) -> None:
        while (head := queue.head()) is not None and head.deadline_at <= now:
            if head is queue.open:
                self._close(queue)
            queue.closed.popleft()
            drained.expired.append(self._fail(head, self._too_late(head)))

    def _too_late(self, batch: Batch) -> OttlaError:
        tries = f"after {batch.attempts} tries; the last said: {batch.error}" if batch.error else "and never sent"
        return error_from_code(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{batch.count} records for {batch.partition} were not acknowledged within "
            f"delivery_timeout={self.limits.delivery_timeout_s:g} s, {tries}",
            hint="see whether the partition has a leader; records that were tried may have been written",
        )

    # ---- back --------------------------------------------------------------------------------------------------

    def on_reply(self, request: Request, answers: Mapping[PartitionId, Answer], now: float) -> Reported:
        """The broker answered; a partition that its answer leaves out counts as not answered."""
        reported = Reported()
        lost = Answer(code=ErrorCode.NETWORK_EXCEPTION, message="the broker's answer left this partition out")
        for part in request.parts:
            self._report(part, answers.get(part.route.partition_id, lost), now, reported)
        self._on_request_done(request)
        return reported

    def on_failed(self, request: Request, code: int, message: str, now: float) -> Reported:
        """The request as a whole came to nothing, as far as this side knows."""
        reported = Reported()
        for part in request.parts:
            self._report(part, Answer(code=code, message=message), now, reported)
        self._on_request_done(request)
        return reported

    def on_sent_unanswered(self, request: Request) -> Reported:
        """acks=0: what was handed to the connection counts as delivered, at an offset that nobody knows."""
        return self.on_reply(request, {part.route.partition_id: Answer() for part in request.parts}, 0.0)

    def on_new_leader(self, partition: TopicPartition) -> None:
        """The leader that refused is known to be replaced: don't wait for the back-off."""
        self.queue(partition).retry_at = 0.0

    def on_told(self, batches: Iterable[Batch]) -> None:
        """Everybody who waits for these settled batches knows: a flush need not wait for them any more."""
        for batch in batches:
            self.incomplete.pop(batch, None)

    def abort(self, why: OttlaError) -> list[Batch]:
        """Fail everything that is not settled yet; answers that still come for it find nothing."""
        failed = [batch for batch in self.incomplete if not batch.settled]
        for batch in failed:  # not released: one may just be being encoded
            batch.error = why
            self._settle(batch)
        for queue in self._queues.values():
            queue.open = None
            queue.closed.clear()
            queue.in_flight = []
        self._waiting.clear()
        return failed

    @property
    def requests_in_flight(self) -> int:
        """Requests that left and were not reported back."""
        return sum(self._requests.values())

    def _on_request_done(self, request: Request) -> None:
        self._requests[request.address] -= 1
        self.used_bytes -= request.size_bytes

    def _report(self, part: Part, answer: Answer, now: float, reported: Reported) -> None:
        queue, batches = part.queue, part.queue.in_flight
        queue.in_flight = []
        reported.refresh = reported.refresh or answer.code in REFRESHING
        if not answer.code:
            self._succeed(queue, batches, answer, reported)
        elif is_retriable(answer.code) and batches and batches[0].attempts <= self.limits.retries:
            queue.retry_at = now + min(
                self.limits.backoff_most_s, self.limits.backoff_s * 2.0 ** min(queue.failures, 30)
            )
            queue.failures += 1
            self._send_again(queue, batches, answer)
        elif len(batches) > 1:
            queue.one_by_one = True
            self._send_again(queue, batches, answer)
        else:
            reported.settled += [self._fail(batch, _refusal(batch, answer)) for batch in batches]
        if queue.head() is not None:
            self._waiting[queue] = None

    def _send_again(self, queue: PartitionQueue, batches: list[Batch], answer: Answer) -> None:
        for batch in batches:
            batch.error = _refusal(batch, answer)
        queue.closed.extendleft(reversed(batches))

    def _succeed(self, queue: PartitionQueue, batches: list[Batch], answer: Answer, reported: Reported) -> None:
        queue.failures = 0
        queue.retry_at = 0.0
        offset = answer.base_offset
        for batch in batches:
            batch.base_offset = offset
            batch.log_append_time_ms = answer.log_append_time_ms
            batch.error = None
            offset += batch.count if offset >= 0 else 0
            self._settle(batch)
            batch.release()
            reported.settled.append(batch)
        queue.one_by_one = False

    def _fail(self, batch: Batch, error: OttlaError) -> Batch:
        batch.error = error
        self._settle(batch)
        batch.release()
        return batch

    def _settle(self, batch: Batch) -> None:
        batch.settled = True
        self.used_bytes -= batch.charged_bytes
        self.exhausted = False


def _refusal(batch: Batch, answer: Answer) -> OttlaError:
    return error_from_code(answer.code, f"{batch.partition}: {answer.message}" if answer.message else "")


def _record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """An upper bound of what a record takes in a batch of its own: header, varints, key, value, headers."""
    size_bytes = 61 + 36 + len(key or b"") + len(value or b"")
    return size_bytes + sum(len(name) * 4 + len(text or b"") + 10 for name, text in headers)
