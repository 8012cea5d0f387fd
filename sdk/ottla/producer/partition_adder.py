"""Adds partitions to the open transaction in the background, for clusters in which producers have to do that
(transactions of version 1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Condition, Lock, Thread
from typing import Final

from ottla.client.condition import sleep_s
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.transaction import Assigned
from ottla_core.clock import Clock
from ottla_core.model import TopicPartition

logger = logging.getLogger("ottla.producer")

Partitions = Sequence[TopicPartition]


class PartitionAdder:
    """Asks the coordinator to add partitions, in one call at a time for all partitions that are wanted by then.

    `add` makes the call. `on_added` gets the partitions that were added. `on_failed` gets those that were not, and the
    error.
    """

    def __init__(
        self,
        clock: Clock,
        add: Callable[[Assigned, Partitions], None],
        on_added: Callable[[Partitions], None],
        on_failed: Callable[[Partitions, OttlaError], None],
    ) -> None:
        self._clock: Final = clock
        self._add: Final = add
        self._on_added: Final = on_added
        self._on_failed: Final = on_failed
        self._lock: Final = Lock()
        self._idle: Final = Condition(self._lock)
        self._wanted: list[TopicPartition] = []
        self._thread: Thread | None = None

    def request(self, current: Assigned, partitions: Partitions) -> None:
        """Add these partitions to the transaction of `current`. Does not block."""
        with self._lock:
            self._wanted += partitions
            if self._thread is None:
                self._thread = Thread(target=self._run, args=(current,), name="ottla-partition-adder", daemon=True)
                self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Add nothing more to this transaction. Return whether no call is under way, after `timeout` seconds at most.

        A call that reached the coordinator after the end of the transaction would begin another one.
        """
        until = self._clock.monotonic() + timeout
        with self._idle:
            self._wanted.clear()
            while self._thread is not None and (left := until - self._clock.monotonic()) > 0:
                self._idle.wait(sleep_s(left))
            return self._thread is None

    def _run(self, current: Assigned) -> None:
        while True:
            with self._idle:
                partitions, self._wanted = self._wanted, []
                if not partitions:
                    self._thread = None
                    self._idle.notify_all()
                    return
            try:
                self._add(current, partitions)
            except Exception as bug:
                error = (
                    bug if isinstance(bug, OttlaError) else error_from_code(ErrorCode.UNKNOWN_SERVER_ERROR, repr(bug))
                )
                logger.debug("can't add %d partitions to the transaction: %s", len(partitions), error)
                self._on_failed(partitions, error)
            else:
                self._on_added(partitions)
