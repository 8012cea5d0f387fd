"""One partition's batches on their way out, and the part of them that one request carries."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from ottla.errors import ErrorCode, OttlaError
from ottla.machines.batches import BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.failures import broker_error
from ottla.machines.metadata import Route
from ottla.machines.sequences import NO_STAMP, Sequences
from ottla_core.model import TopicPartition

_ENDING_S: Final = 0.02
"""The producer's last transaction is still getting its markers: that takes milliseconds (as in Kafka's producer)."""


class PartitionQueue:
    """One partition's batches: `in_flight` sent and not answered, then `closed` in order, then the `open` one.

    `sequences` where the producer is idempotent; `route` is where its last part went, `retry_at` when the next may go
    there after `failures` in a row.
    """

    __slots__ = ("closed", "failures", "in_flight", "one_by_one", "open", "partition", "retry_at", "route", "sequences")

    def __init__(self, partition: TopicPartition, sequences: Sequences | None = None) -> None:
        self.partition = partition
        self.sequences = sequences
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.in_flight: list[PartitionBatches] = []
        self.failures = 0
        self.retry_at = 0.0
        self.route: Route | None = None
        self.one_by_one = False

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return self.head() is None and not self.in_flight

    @property
    def idle(self) -> bool:
        """Whether it is empty, and not part of a transaction that is open."""
        return self.empty and (self.sequences is None or not self.sequences.in_transaction)

    def head(self) -> ProducerBatch | None:
        """The oldest batch that is not in flight, None for none."""
        return self.closed[0] if self.closed else self.open

    def may_follow(self, batch: ProducerBatch, before: int, now: float) -> bool:
        """Whether `batch` may leave behind what is in flight and behind `before` others, in their request."""
        if self.sequences is None:
            return not self.in_flight and not (before and self.one_by_one)
        return self.sequences.may_leave(batch, len(self.in_flight) + before, now)

    def may_go_to(self, route: Route) -> bool:
        """Whether nothing is under way to another topic of that name: the new one's log knows no producer yet."""
        if self.route is None or self.route.partition_id == route.partition_id:
            return True
        if self.sequences is not None:
            self.sequences.on_new_log()
        return not self.in_flight

    def take(self, batch: ProducerBatch) -> None:
        """`batch` is to leave with the next `send`."""
        batch.attempts += 1
        if self.sequences is not None:
            self.sequences.stamp(batch)

    def send(self, batches: list[ProducerBatch], route: Route) -> list[PartitionBatches]:
        """These batches, which were taken and follow those in flight, leave."""
        parts = [PartitionBatches(self, route, batches)]
        if self.sequences is not None:
            parts = [PartitionBatches(self, route, [batch]) for batch in batches]
        self.in_flight += parts
        self.route = route
        return parts

    def send_again(self, part: PartitionBatches, response: BatchResponse, now: float, limits: ProducerLimits) -> None:
        """The part failed: after a back-off its batches go once more."""
        if self.sequences is None or not self.sequences.halted:  # of several that fail together, the first counts
            pause = min(limits.backoff_most_s, limits.backoff_s * 2.0 ** min(self.failures, 30))
            if response.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                pause = min(pause, _ENDING_S)
            self.retry_at = now + pause
            self.failures += 1
        if self.sequences is not None:
            self.sequences.halted = True
        for batch in part.batches:
            batch.error = broker_error(batch, response)
        self.put_back(part.batches)

    def acknowledge(self, part: PartitionBatches, offset: int, response: BatchResponse, now: float) -> None:
        """The part's batches are in the log from `offset` on, which is -1 where it is not known."""
        self.failures = 0
        self.retry_at = 0.0
        self.one_by_one = False
        for batch in part.batches:
            batch.base_offset = offset
            batch.log_append_time_ms = response.log_append_time_ms
            batch.error = None
            offset += batch.count if offset >= 0 else 0
            if self.sequences is not None:
                self.sequences.on_acknowledged(batch, now)

    def give_up(self, batch: ProducerBatch, error: OttlaError) -> None:
        """The batch, which is not in here any more, has failed for good."""
        batch.error = error
        if self.sequences is not None and batch.stamp is not NO_STAMP:
            self.sequences.on_failed_for_good(batch)

    def put_back(self, batches: list[ProducerBatch]) -> None:
        """These come back from a request: before what has not left yet, and in order with what came back before."""
        if self.sequences is None:
            self.closed.extendleft(reversed(batches))
            return
        age = self.sequences.outstanding.index
        for batch in batches:
            older = sum(1 for other in self.closed if other.stamp is not NO_STAMP and age(other) < age(batch))
            self.closed.insert(older, batch)


@dataclass(slots=True, eq=False)
class PartitionBatches:
    """What is answered together: of an idempotent producer one batch (as in Kafka), else what a request carries."""

    queue: PartitionQueue
    route: Route
    batches: list[ProducerBatch]
