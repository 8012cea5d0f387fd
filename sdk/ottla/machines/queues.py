"""A partition's queue has its outgoing batches, in the order in which their records came.

A batch passes from `open`, which takes records, to `closed`, which waits, to `in_flight`, which is sent. A failure
takes it back. The order must survive that: records of one partition arrive in the order of their `send`, whatever is
retried. So a failed batch returns to the head, before batches that were never sent, and among batches that came back
earlier it takes the place of its age.

Two kinds of producers differ in how they keep that. With idempotence, sequences let several batches be in flight and
name their order. Without it, only one batch of a partition is in flight, because a second one might overtake a failed
first one. The queue hides the difference from the accumulator.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from ottla.errors import ErrorCode, OttlaError
from ottla.machines.batches import NO_LIMIT, BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.failures import broker_error
from ottla.machines.metadata import Route
from ottla.machines.sequences import NO_STAMP, Sequences
from ottla_core.model import TopicPartition

# The broker misses an earlier batch, or has forgotten the producer. `Sequences` finds out which, and the batch leaves
# again.
UNKNOWN_SEQUENCE: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)

_ENDING_S: Final = 0.02
"""The longest back-off after CONCURRENT_TRANSACTIONS: the last transaction gets its markers, which takes milliseconds
(as in Kafka's producer)."""


_LARGER_AFTER_S: Final = 300.0
"""How long batches stay as small as a rejected one made them. Then they may become twice as large, because the topic's
limit may have been raised. At worst a batch is sent in vain and split, once in this time."""


class PartitionQueue:
    """One partition's batches: the unanswered ones in `in_flight`, then the `closed` ones in order, then the `open`
    one.

    `sequences` is set if the producer is idempotent. `route` is the destination of the last batch, and `retry_at` the
    earliest time of the next batch to it, after `failures` in a row. Until `larger_at`, no batch becomes larger than
    `largest_bytes`, unless it has only one record: a broker has rejected a batch of twice that size.
    """

    __slots__ = (
        "closed",
        "failures",
        "in_flight",
        "larger_at",
        "largest_bytes",
        "open",
        "partition",
        "retry_at",
        "route",
        "sequences",
    )

    def __init__(self, partition: TopicPartition, sequences: Sequences | None = None) -> None:
        self.partition = partition
        self.sequences = sequences
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.in_flight: list[SentBatch] = []
        self.failures = 0
        self.retry_at = 0.0
        self.route: Route | None = None
        self.largest_bytes = NO_LIMIT
        self.larger_at = 0.0

    @property
    def empty(self) -> bool:
        """Whether no batch waits or is in flight."""
        return self.head() is None and not self.in_flight

    @property
    def idle(self) -> bool:
        """Whether the queue is empty and not part of an open transaction."""
        return self.empty and (self.sequences is None or not self.sequences.in_transaction)

    def limit_batches(self, size_bytes: int, now: float) -> None:
        """Let no further batch become larger than that, for a while."""
        self.largest_bytes = min(self.largest_bytes, size_bytes)
        self.larger_at = now + _LARGER_AFTER_S

    def raise_limit(self, now: float) -> None:
        """Let batches become twice as large, if the limit is old enough."""
        if self.largest_bytes < NO_LIMIT and now >= self.larger_at:
            self.largest_bytes = min(NO_LIMIT, 2 * self.largest_bytes)
            self.larger_at = now + _LARGER_AFTER_S

    def head(self) -> ProducerBatch | None:
        """Return the oldest batch that is not in flight, or None."""
        return self.closed[0] if self.closed else self.open

    def close(self) -> None:
        """Let the open batch wait behind the closed ones. If an interrupt came in between, it is in both places, and
        this is called again before the batch leaves."""
        if self.open is not None and (not self.closed or self.closed[-1] is not self.open):
            self.closed.append(self.open)
        self.open = None

    def may_leave(self, batch: ProducerBatch, now: float) -> bool:
        """Return whether `batch`, the head, may leave after the batches in flight."""
        if self.sequences is None:
            return not self.in_flight
        return self.sequences.may_leave(batch, len(self.in_flight), now)

    def may_go_to(self, route: Route) -> bool:
        """Return whether no batch is in flight to another topic of that name.

        The new topic's log knows no producer yet, so sequences of the old one would be out of order there.
        """
        if self.route is None or self.route.partition_id == route.partition_id:
            return True
        if self.sequences is not None:
            self.sequences.on_new_log()
        return not self.in_flight

    def send(self, batch: ProducerBatch, route: Route) -> SentBatch:
        """Send the head, which is closed, after the batches in flight."""
        self.closed.popleft()
        batch.attempts += 1
        if self.sequences is not None:
            self.sequences.stamp(batch)
        sent = SentBatch(self, route, batch)
        self.in_flight.append(sent)
        self.route = route
        return sent

    def send_again(self, part: SentBatch, response: BatchResponse, now: float, limits: ProducerLimits) -> None:
        """Send a failed batch again after a back-off."""
        # Five batches that fail together are one failure. Counted one by one, they would double the back-off five
        # times.
        if self.sequences is None or not self.sequences.halted:
            pause = min(limits.backoff_most_s, limits.backoff_s * 2.0 ** min(self.failures, 30))
            if response.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                pause = min(pause, _ENDING_S)
            self.retry_at = now + pause
            self.failures += 1
        if self.sequences is not None:
            self.sequences.halted = True
        batch = part.batch
        # It is kept for the report, in case the batch expires before it succeeds: it says what the trouble was.
        batch.error = broker_error(batch, response)
        batch.may_be_written = batch.may_be_written or response.code not in UNKNOWN_SEQUENCE
        self.put_back([batch])

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Put the parts of a batch that came back in its place."""
        if self.sequences is not None:
            self.sequences.on_split(batch, parts)
        for part in parts:
            part.in_doubt = batch.may_be_written or batch.in_doubt
        self.put_back(parts)

    def acknowledge(self, batch: ProducerBatch, offset: int, response: BatchResponse, now: float) -> None:
        """Note that the batch is in the log at `offset` (-1 if unknown)."""
        self.failures = 0
        self.retry_at = 0.0
        batch.base_offset = offset
        batch.log_append_time_ms = response.log_append_time_ms
        batch.error = None
        if self.sequences is not None:
            self.sequences.on_acknowledged(batch, now)

    def give_up(self, batch: ProducerBatch, error: OttlaError) -> None:
        """Give up a batch that is no longer in this queue."""
        batch.error = error
        # A batch that was never stamped never left, so no broker has it. One that was may be in the log.
        if self.sequences is not None and batch.stamp is not NO_STAMP:
            self.sequences.on_failed_for_good(batch)

    def put_back(self, batches: list[ProducerBatch]) -> None:
        """Put batches back, before unsent batches and in order with batches that were put back earlier."""
        if self.sequences is None:
            self.closed.extendleft(reversed(batches))
            return
        # Batches of several requests fail in any order, so each batch takes its place by the order of the stamps.
        place = self.sequences.place
        for batch in batches:
            stamped = takewhile(lambda other: other.stamp is not NO_STAMP, self.closed)
            older = sum(1 for other in stamped if place(other) < place(batch))
            self.closed.insert(older, batch)


@dataclass(slots=True, eq=False)
class SentBatch:
    """A batch in flight, which gets a response of its own."""

    queue: PartitionQueue
    route: Route
    batch: ProducerBatch
