"""The fetcher is the consumer's IO: it sends a fetch whenever a partition needs more data, and keeps responses until
they are read.

A consumer is fast only if the next data is there when the last is read. So fetches do not wait for `poll`: several are
in flight, up to `prefetch` bytes. The fetcher has no thread of its own for that. Other threads pump at each event: a
stream's reader when a response comes, the user's thread when it has read something or waits, and the metadata thread
when a leader has moved. What is fetched when is decided by `machines.subscription`, which is pure.

One lock guards the subscription. A second one, `_sending`, keeps the fetches of a session in order: a broker takes each
fetch for what has changed since the one before.

Threads other than the user's can't raise to the user. Their errors, interruptions and closes are noted here, and the
reader's thread raises them the next time it gets to `take`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from threading import RLock
from typing import Final

from ottla.client.cluster import UNKNOWN_TOPIC_GRACE_S, ClusterClient
from ottla.client.condition import Condition
from ottla.client.kafka.apis import FETCH
from ottla.client.metadata_updater import MetadataUpdater
from ottla.client.streams import BrokerStreams
from ottla.consumer.fetch import Fetched, FetchOptions, exchange_of
from ottla.consumer.metrics import Consumed
from ottla.consumer.offset_validation import Validator
from ottla.errors import ConfigError, ErrorCode, OttlaError
from ottla.machines.failures import consumer_failed, stop_gone
from ottla.machines.metadata import BrokerView, ClusterView
from ottla.machines.position import Fetch, FetchedData, FetchOutcome
from ottla.machines.subscription import SubscriptionState

logger = logging.getLogger("ottla.consumer")

_LONGEST_WAIT_S: Final = 1.0
_RESPONSE_S: Final = 0.5
"""How long a broker may take to answer, on top of the requested wait."""


class Fetcher:
    """Fetches for one consumer. `lock` guards the subscription, and is signalled after each response, failure or
    close."""

    def __init__(
        self, subscription: SubscriptionState, cluster: ClusterClient, options: FetchOptions, request_timeout: float
    ) -> None:
        self.lock: Final = Condition()
        self.closed = False
        self.attention_at = float("inf")  # when the assignment needs the reader's thread
        self.consumed: Final = Consumed()
        self.hurried = False  # whether the reader has to return with what it has
        self.raised: OttlaError | None = None  # the last interruption that was requested, and raised
        self._interruption: OttlaError | None = None
        self._bug: BaseException | None = None
        self._subscription: Final = subscription
        self.clock: Final = cluster.clock
        self._options: Final = options
        self.read_committed: Final = options.read_committed
        # A broker may hold a fetch for max_wait_s on purpose. A shorter timeout would end every fetch of an idle topic.
        self._timeout: Final = max(request_timeout, options.max_wait_s + _RESPONSE_S)
        self._names: Final = cluster.names
        self._streams: Final = BrokerStreams(
            FETCH.name, cluster.connection, cluster.clock, self._on_response, self._on_failed, self.fail
        )
        self._to_send: Final[deque[Fetch]] = deque()
        self._sending: Final = RLock()  # keeps the fetches of a session in order
        self.locks: Final = (self.lock, self._sending)
        self._brokers: Mapping[int, BrokerView] = {}
        self._gone_since: dict[str, float] = {}  # missing topics whose stop is not reached
        self._updater: MetadataUpdater | None = None
        self._validator: Final = Validator(subscription, cluster, self.lock, self._after, self.fail)

    def start(self, updater: MetadataUpdater) -> None:
        """Fetch from now on, from the leaders that `updater` knows."""
        self._updater = updater

    def on_metadata(self, view: ClusterView) -> None:
        """Act on new metadata: a leader may have moved, and the reader may wait for a partition."""
        with self.lock:
            self.lock.notify_all()
        try:
            self.pump()
        # A fetch that was planned and not sent would count as in flight for ever, and its partitions would stand still.
        # `fail` has everything fetched again.
        except BaseException as bug:
            self.fail(bug)

    def pump(self) -> None:
        """Send the fetches that are due now."""
        updater = self._updater
        if updater is None:
            return
        with self.lock:
            if self.closed:
                return
            now, view = self.clock.monotonic(), updater.view
            # A new view of the cluster. A leader that a response has named changes the routes and not the brokers.
            if view.brokers is not self._brokers:
                self._brokers = view.brokers
                self._subscription.on_view(now, view.routes, view.brokers)
                self._look_for_deleted(now, view)
            fetches, refresh = self._subscription.plan(now, view.routes, view.brokers)
            self._to_send.extend(fetches)
            # After a change of leader, positions are validated against the new leader's epochs, or a truncation would
            # go unnoticed (rule 67: validate the position by OffsetsForLeaderEpoch).
            self._validator.validate(self._subscription.checks(now, view.routes))
            recreated, self._subscription.recreated = self._subscription.recreated, []
        for message in recreated:
            logger.warning("%s", message)
        if refresh:
            updater.refresh()
        with self._sending:
            while self._to_send:
                # In the order in which they were planned, whichever thread sends them.
                fetch = self._to_send.popleft()
                # An express fetch has a connection of its own, because brokers respond to the requests of a connection
                # in their order.
                address, lane = fetch.target.address, (fetch.target, fetch.session.id == 0)
                asked = partial(exchange_of, fetch, options=self._options, names=self._names)
                self._streams.send(address, asked, fetch, timeout=self._timeout, lane=lane)

    def _look_for_deleted(self, now: float, view: ClusterView) -> None:
        """Fail a read that has a stop if no broker has known its topic for some seconds: it would wait for ever.

        Without a stop a consumer waits, because the topic may be created again.
        """
        gone: dict[str, float] = {}
        for position in self._subscription.positions.values():
            if position.stop is None or position.is_behind_stop(position.fetch_offset):
                continue
            name = position.partition.topic
            topic = view.topics.get(name)
            recreated = topic is not None and not topic.error and position.stop.topic_id not in (None, topic.id)
            if recreated or topic is None or topic.error:
                gone[name] = self._gone_since.get(name, now)
                if now >= gone[name] + UNKNOWN_TOPIC_GRACE_S:
                    self._subscription.error = stop_gone(name, recreated=recreated)
        self._gone_since = gone

    def take(self, timeout: float) -> FetchedData | None:
        """Return the next fetched data; None after `timeout` seconds, or if the client is closed or done.

        Raises a broker's error that is not retriable.
        """
        deadline_at = self.clock.monotonic() + timeout
        while True:
            self.pump()
            overdue_at = self._streams.break_overdue()
            with self.lock:
                self.check_interrupted()
                if (error := self._subscription.take_error()) is not None:
                    raise error
                fetched = self._subscription.next_fetched()
                now = self.clock.monotonic()
                if fetched is not None or self.closed or now >= deadline_at or self._subscription.done:
                    return fetched
                # The reader's own thread has something to do that no other thread may do for it.
                is_needed = now >= self.attention_at or self.hurried or self._bug is not None
                if is_needed or self._subscription.unresolved(now):
                    return None
                looks_at = min(self._subscription.wake_at(now), self.attention_at, now + _LONGEST_WAIT_S)
                wake_at = min(deadline_at, overdue_at, looks_at)
                self.lock.wait(max(0.0, wake_at - now))

    def interrupt(self, error: OttlaError) -> None:
        """Make the reader raise `error`: now, if it waits, else the next time it gets here."""
        with self.lock:
            self._interruption = error
            self.lock.notify_all()

    def call_attention(self) -> None:
        """Make the reader attend to its assignment: now, if it waits, else before its next wait."""
        with self.lock:
            self.attention_at = float("-inf")
            self.lock.notify_all()

    def hurry(self, hurried: bool) -> None:
        """Make the reader return with what it has, from now until this is reversed."""
        with self.lock:
            self.hurried = hurried
            self.lock.notify_all()

    def fail(self, bug: BaseException) -> None:
        """Have the reader raise an error of another thread, and fetch everything again: that thread may have left work
        undone."""
        logger.error("a consumer thread failed", exc_info=bug)
        with self.lock:
            self._bug = bug if self._bug is None else self._bug
            self.lock.notify_all()

    def check_failed(self) -> None:
        """Raise the error that `fail` was called with, once."""
        if self._bug is not None:
            with self.lock:
                self._subscription.start_over()
                bug, self._bug = self._bug, None
            raise consumer_failed(bug)

    def check_interrupted(self) -> None:
        """Raise the error that `interrupt` was called with, once."""
        if self._interruption is not None:
            self.raised, self._interruption = self._interruption, None
            raise self.raised

    def check_open(self) -> None:
        """Raise if a wait has to end because the consumer was interrupted or closed."""
        self.check_interrupted()
        if self.closed:
            raise closed_error()

    def end(self) -> None:
        """Make the reader end; does not wait for it."""
        with self.lock:
            self.closed = True
            self.lock.notify_all()

    def close(self) -> None:
        """Wake the reader and close the streams."""
        self.end()
        self._streams.close()

    def _on_response(self, fetch: Fetch, fetched: Fetched) -> None:
        assert self._updater is not None
        now = self.clock.monotonic()
        with self.lock:
            self.consumed.on_fetch_response(now - fetch.sent_at)
            outcome = self._subscription.on_response(fetch, fetched.partitions, now, in_session=fetched.in_session)
            self.lock.notify_all()
        self._updater.learn(fetched.leaders)
        self._after(outcome)

    def _on_failed(self, fetches: list[Fetch], error: OttlaError) -> None:
        for fetch in fetches:
            with self.lock:
                outcome = self._subscription.on_failed(fetch, error.code, error.message, self.clock.monotonic())
                self.lock.notify_all()
            self._after(outcome)

    def _after(self, outcome: FetchOutcome) -> None:
        assert self._updater is not None
        for message in outcome.warnings:
            logger.warning("%s", message)
        if outcome.refresh:
            self._updater.refresh()
        self.pump()


def closed_error() -> OttlaError:
    """Return the error for using a closed consumer."""
    return ConfigError(ErrorCode.INVALID_REQUEST, "the consumer is closed", hint="create a new one")
