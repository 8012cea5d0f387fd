"""Which records were acknowledged, and after how long: one note per batch of the producer, not one per record."""

from __future__ import annotations

import time
from collections import deque

from ottla.bench.measurement import Window
from ottla.errors import OttlaError
from ottla.producer.delivery import Delivery


class Acknowledgements:
    """Used by the one thread that sends; outcomes come from others and wait until they are collected.

    Attributes:
        failed: records that were not delivered; first_error: why the first of them was not.
    """

    def __init__(self, record_bytes: int) -> None:
        """`record_bytes`: of each record's key and value."""
        self.failed = 0
        self.first_error: OttlaError | None = None
        self._record_bytes = record_bytes
        self._sent_at: dict[object, list[int]] = {}
        self._settled: deque[tuple[Delivery, int]] = deque()

    def expect(self, delivery: Delivery, sent_at_ns: int) -> None:
        """A record was handed over at that monotonic time."""
        batch = delivery.batch_key()
        sent_at = self._sent_at.get(batch)
        if sent_at is None:
            sent_at = self._sent_at[batch] = []
            delivery.on_settled(lambda: self._settled.append((delivery, time.monotonic_ns())))
        sent_at.append(sent_at_ns)

    def collect(self, window: Window) -> None:
        """Enter what was settled since the last time into `window`."""
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
