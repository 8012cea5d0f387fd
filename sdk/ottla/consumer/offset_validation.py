"""Validates a consumer's positions in the logs of new leaders (OffsetForLeaderEpoch, KIP-320).

The thread lives only as long as there are positions to check: leaders change rarely, and one that hangs must not hold
up reads from the others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.condition import Condition
from ottla.client.epoch_ends import EpochEnd, search
from ottla.errors import OttlaError
from ottla.machines.position import EpochCheck, FetchOutcome
from ottla.machines.subscription import SubscriptionState

_TRY_S: Final = 2.0


class Validator:
    """`lock` guards the subscription; `after` acts on the result of a response, without the lock.

    `on_bug` gets an unforeseen error that has ended the thread.
    """

    def __init__(
        self,
        subscription: SubscriptionState,
        cluster: ClusterClient,
        lock: Condition,
        after: Callable[[FetchOutcome], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._subscription: Final = subscription
        self._cluster: Final = cluster
        self._lock: Final = lock
        self._after: Final = after
        self._on_bug: Final = on_bug
        self._questions: deque[tuple[str, list[EpochCheck]]] = deque()
        self._thread: Thread | None = None

    def validate(self, checks: Sequence[EpochCheck]) -> None:
        """Start these checks. Does not block; the lock is held."""
        by_leader: dict[str, list[EpochCheck]] = defaultdict(list)
        for check in checks:
            by_leader[check.route.address].append(check)
        self._questions.extend(by_leader.items())
        if self._questions and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._run, name="ottla-validation", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._validate_all()
        except BaseException as bug:
            with self._lock:
                self._thread = None
            self._on_bug(bug)

    def _validate_all(self) -> None:
        while True:
            with self._lock:
                if not self._questions:
                    self._thread = None
                    return
                address, checks = self._questions.popleft()
            outcomes = self._validate(address, checks)
            self._after(FetchOutcome(any(o.refresh for o in outcomes), [line for o in outcomes for line in o.warnings]))

    def _validate(self, address: str, checks: Sequence[EpochCheck]) -> list[FetchOutcome]:
        try:
            asked = search(self._cluster.names, [(check.route, check.epoch) for check in checks])
            answers = self._cluster.exchange(address, asked, timeout=_TRY_S)
        except OttlaError as error:
            answers = {check.route.partition_id: EpochEnd(error=error) for check in checks}
        with self._lock:
            now = self._cluster.clock.monotonic()
            outcomes = [self._enter(check, answers[check.route.partition_id], now) for check in checks]
            self._lock.notify_all()
        return outcomes

    def _enter(self, check: EpochCheck, answer: EpochEnd, now: float) -> FetchOutcome:
        if (error := answer.error) is not None:
            return self._subscription.on_check_failed(check, error.code, error.message, now)
        return self._subscription.on_checked(check, answer.leader_epoch, answer.end_offset, now)
