"""Counts acknowledged records and their latencies, with one note per batch of the producer instead of one per
record."""

from __future__ import annotations

import time
from collections import deque

from ottla.bench.measurement import Window
from ottla.errors import OttlaError
from ottla.producer.delivery import Delivery


class Acknowledgements:
    """The acknowledgements of one sending thread, which owns this object. Other threads queue outcomes until `collect`.

    Attributes:
        failed: the number of records that were not delivered; first_error: the error of the first of these records.
    """

    def __init__(self, record_bytes: int) -> None:
        """Begin without outcomes; `record_bytes` is the size of each record's key and value."""
        self.failed = 0
        self.first_error: OttlaError | None = None
        self._record_bytes = record_bytes
        self._sent_at: dict[object, list[int]] = {}
        self._settled: deque[tuple[Delivery, int]] = deque()

    def expect(self, delivery: Delivery, sent_at_ns: int) -> None:
        """Note that a record was sent at this monotonic time."""
        batch = delivery.batch_key()
        sent_at = self._sent_at.get(batch)
        if sent_at is None:
            sent_at = self._sent_at[batch] = []
            delivery.on_settled(lambda: self._settled.append((delivery, time.monotonic_ns())))
        sent_at.append(sent_at_ns)

    def collect(self, window: Window) -> None:
        """Add the outcomes settled since the last call to `window`."""
        while self._settled:
            delivery, at_ns = self._settled.popleft()
            sent_at = self._sent_at.pop(delivery.batch_key())
            error = delivery.exception(0)
            if error is not None:
                window.failed += len(sent_at)
                self.failed += len(sent_at)
                self.first_error = self.first_error or error
                continue
            window.sent += len(sent_at)
            window.sent_bytes += len(sent_at) * self._record_bytes
            window.publish.add_all([(at_ns - ns) // 1000 for ns in sent_at])
