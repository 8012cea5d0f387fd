"""The metrics of a producer, with Kafka's names and units."""

from __future__ import annotations

from typing import Final

from ottla.machines.batches import ProducerBatch
from ottla.machines.requests import OutgoingRequest

METRICS: Final = {
    "record-send-total": "records sent to a broker, not counting retries",
    "record-retry-total": "records sent again, counted once for each retry",
    "record-error-total": "records that were not delivered",
    "byte-total": "compressed bytes of the batches sent, including retries",
    "batch-total": "batches sent, including retries (not a Kafka metric)",
    "batch-size-avg": "average compressed size of a batch, in bytes",
    "batch-size-max": "compressed size of the largest batch, in bytes",
    "batch-split-total": "batches that were split because a broker found them too large",
    "request-total": "requests sent",
    "records-per-request-avg": "average number of records in a request",
    "request-latency-avg": "average time from a request to its response, in ms",
    "request-latency-max": "longest time from a request to its response, in ms",
    "record-queue-time-avg": "average time from the first record of a batch until the batch is first sent, in ms",
    "record-queue-time-max": "longest time from the first record of a batch until the batch is first sent, in ms",
    "requests-in-flight": "requests that have no response yet",
    "buffer-total-bytes": "size of the buffer (buffer_memory)",
    "buffer-available-bytes": "free space in the buffer, in bytes",
}
"""Names and meanings. Totals are since the producer was created."""


class Mean:
    """The average and maximum of the values so far, 0 before the first."""

    __slots__ = ("count", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.most = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.total += value
        self.most = max(self.most, value)

    @property
    def average(self) -> float:
        """The average of all values so far."""
        return self.total / self.count if self.count else 0.0


class Produced:
    """Counts batches and requests. Change and read it with the producer's lock held."""

    def __init__(self) -> None:
        self.splits = 0
        self._sent = self._retried = self._failed = 0
        self._batch_bytes = Mean()
        self._request_records = Mean()
        self._latency_ms = Mean()
        self._queued_ms = Mean()

    def on_sent(self, request: OutgoingRequest, sizes_bytes: list[int], now: float) -> None:
        """Note that a request leaves, with batches of these sizes, in its order."""
        batches = [part.batch for part in request.parts]
        for batch, size_bytes in zip(batches, sizes_bytes, strict=True):
            self._batch_bytes.add(size_bytes)
            if batch.attempts > 1 or batch.whole is not None:
                self._retried += batch.count
            else:
                self._sent += batch.count
                self._queued_ms.add(1000 * (now - batch.opened_at))
        self._request_records.add(sum(batch.count for batch in batches))

    def on_response(self, latency_s: float) -> None:
        """Note that a request got its response after `latency_s`."""
        self._latency_ms.add(1000 * latency_s)

    def on_settled(self, batches: list[ProducerBatch]) -> None:
        """Note that these batches have their outcomes."""
        self._failed += sum(batch.failed_count for batch in batches if batch.error is not None)

    def metrics(self, in_flight: int, buffer_bytes: int, used_bytes: int) -> dict[str, float]:
        """Return the current values of METRICS."""
        return {
            "record-send-total": float(self._sent),
            "record-retry-total": float(self._retried),
            "record-error-total": float(self._failed),
            "byte-total": self._batch_bytes.total,
            "batch-total": float(self._batch_bytes.count),
            "batch-size-avg": self._batch_bytes.average,
            "batch-size-max": self._batch_bytes.most,
            "batch-split-total": float(self.splits),
            "request-total": float(self._request_records.count),
            "records-per-request-avg": self._request_records.average,
            "request-latency-avg": self._latency_ms.average,
            "request-latency-max": self._latency_ms.most,
            "record-queue-time-avg": self._queued_ms.average,
            "record-queue-time-max": self._queued_ms.most,
            "requests-in-flight": float(in_flight),
            "buffer-total-bytes": float(buffer_bytes),
            "buffer-available-bytes": float(max(0, buffer_bytes - used_bytes)),
        }
