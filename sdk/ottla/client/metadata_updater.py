"""Keeps a client's view of the cluster fresh, on a thread of its own, so that senders do not wait for metadata.

It requests metadata when a topic is new to the client, after an error which shows that the view is wrong, while a
partition has no leader or a topic is missing, and every `max_age` seconds. Leaders that brokers name in their responses
are used at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from typing import Final

from ottla.client.cluster import UNKNOWN_TOPIC_GRACE_S, ClusterClient, closed_error
from ottla.client.condition import Condition
from ottla.client.diagnose import LIMIT_S
from ottla.client.named_leaders import NamedLeader
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import ClusterView, TopicView, merge, with_leaders
from ottla_core.rpc.retry import Backoff

logger = logging.getLogger("ottla.metadata")

_LOG_AGAIN_S: Final = 60.0
"""How often the log repeats why there is no metadata."""

_PACE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.25
"""The longest pause while a partition has no leader: an election takes seconds, and the client should know soon."""
_LEAST_REJECTED_PAUSE_S: Final = 1.0
_MOST_REJECTED_PAUSE_S: Final = 30.0
"""The pauses after a rejected login while no thread waits. A broker may lock out a user whose logins fail too often."""
_MISSING_AGE_S: Final = 1.0
"""Metadata gets no older than this while a topic is missing that no thread waits for. Such a topic may be gone for
good."""


class MetadataUpdater:
    """`view` is replaced whole; `on_change` runs without locks, after each change, on the thread that made it.

    It ends when its client does, at the latest: the thread that starts it may be interrupted before it keeps a
    reference.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        name: str,
        max_age: float,
        timeout: float,
        on_change: Callable[[ClusterView], None],
        all_topics: bool = False,
    ) -> None:
        self.view = ClusterView()
        self._all_topics: Final = all_topics
        self._cluster: Final = cluster
        self._clock: Final = cluster.clock
        self._max_age: Final = max_age
        self._timeout: Final = timeout
        self._on_change: Final = on_change
        self._changed: Final = Condition()
        self.locks: Final = (self._changed,)
        self._topics: dict[str, None] = {}
        self._requested = False
        self._waiting = 0
        self._closed = False
        self._error: OttlaError | None = None
        self._logged, self._log_again_at = "", 0.0  # the last warning, and when to log it again
        self._thread: Final = Thread(target=self._run, name=f"ottla-metadata-{name}", daemon=True)
        cluster.at_close(self.close)
        self._thread.start()

    def refresh(self) -> None:
        """Fetch the metadata again soon."""
        with self._changed:
            self._requested = True
            self._changed.notify_all()

    def nudge(self) -> None:
        """Make threads in `until_known` call their `check`."""
        with self._changed:
            self._changed.notify_all()

    def until_known(
        self, topics: Iterable[str], timeout: float, *, check: Callable[[], None] | None = None
    ) -> list[TopicView]:
        """Wait until some broker knows the topics, and return them; from now on they are kept fresh.

        Without a name, it waits until some broker answers. `check` may raise to end the wait.

        Raises UnknownTopicError after a grace of seconds; ConnectError or TimeoutError if no broker answers within
        `timeout` seconds, or if none has ever answered within the time for the first contact. It raises an error that
        is not retriable at once.
        """
        names = list(topics)
        with self._changed:
            self._topics |= dict.fromkeys(names)
            self._error = None  # the next try may succeed
            self._waiting += 1
        try:
            return self._wait_until_known(names, timeout, check)
        except OttlaError:
            with self._changed:
                for name in names:
                    view = self.view.topics.get(name)
                    if view is None or view.error:
                        self._topics.pop(name, None)
            raise
        finally:
            with self._changed:
                self._waiting -= 1

    def _wait_until_known(self, names: list[str], timeout: float, check: Callable[[], None] | None) -> list[TopicView]:
        started_at = self._clock.monotonic()
        while True:
            with self._changed:
                views = [self.view.topics.get(name) for name in names]
                missing = [n for n, view in zip(names, views, strict=True) if view is None or view.error]
                if not missing and (names or self.view.brokers):
                    return [view for view in views if view is not None]
                if check is not None:
                    check()
                if self._closed:
                    raise closed_error()
                waited = self._clock.monotonic() - started_at
                if not self._is_over(missing[0] if missing else "", waited, timeout):
                    self._requested = True
                    self._changed.notify_all()
                    self._changed.wait(min(timeout - waited, 0.5) if waited < timeout else 0.5)
                    continue
            raise self._cluster.unknown_topic(missing[0])

    def follow(self, topics: Iterable[str]) -> None:
        """Keep these topics fresh too, from the next fetch on."""
        with self._changed:
            self._topics |= dict.fromkeys(topics)

    def follow_only(self, topics: Iterable[str]) -> None:
        """Keep only these topics fresh, from the next fetch on."""
        with self._changed:
            self._topics = dict.fromkeys(topics)

    def forget(self, topic: str) -> None:
        """Stop keeping the topic fresh."""
        with self._changed:
            self._topics.pop(topic, None)

    def learn(self, leaders: Sequence[NamedLeader]) -> None:
        """Use the leaders that a broker has named in its response, all at once (KIP-951)."""
        if not leaders:
            return
        with self._changed:
            before = self.view
            self.view = view = with_leaders(before, leaders)
        if view is not before:
            self._on_change(view)

    def close(self) -> None:
        """End the thread; does not wait for a call that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_over(self, topic: str, waited: float, timeout: float) -> bool:
        """Return whether to report a topic as unknown; raises if it has another error."""
        view = self.view.topics.get(topic)
        error = self._error
        if error is not None and (not error.retriable or waited >= timeout or self._cluster.out_of_reach):
            raise error.again()
        if view is not None and view.error not in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
        ):
            raise error_from_code(view.error, view.error_message or f"the topic {topic!r} can't be used")
        if view is not None:
            return waited >= min(timeout, UNKNOWN_TOPIC_GRACE_S)
        if waited >= timeout + LIMIT_S:  # a fetch under way would give a better reason
            raise error_from_code(
                ErrorCode.REQUEST_TIMED_OUT, f"no broker returned metadata for {topic!r} within {timeout:g} s"
            )
        return False

    def _run(self) -> None:
        backoff, missing = Backoff(most_s=_LONGEST_PAUSE_S), Backoff(most_s=_MISSING_AGE_S)
        rejected = Backoff(first_s=_LEAST_REJECTED_PAUSE_S, most_s=_MOST_REJECTED_PAUSE_S)
        due_at = self._clock.monotonic() + self._max_age
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, pause)
                while not self._closed and not self._requested and (left := due_at - self._clock.monotonic()) > 0:
                    self._changed.wait(left)
                if self._closed:
                    return
                self._requested = False
                topics = list(self._topics)
            try:
                fetched = self._fetch(topics)
            except Exception:  # without this thread the client would never learn of another leader
                logger.exception("can't apply new metadata; trying again")
                fetched = None
            due_at = self._clock.monotonic() + self._max_age
            if self._is_rejected():
                due_at, pause = self._clock.monotonic() + rejected.next(), _PACE_S
                continue
            rejected.reset()
            unknown = set() if fetched is None else fetched.unknown(topics)
            required = topics if self._waiting else [topic for topic in topics if topic not in unknown]
            if fetched is None or fetched.without_leader(required):
                pause = backoff.next()
                self.refresh()
                continue
            backoff.reset()
            pause = _PACE_S
            if unknown:
                due_at = min(due_at, self._clock.monotonic() + missing.next())
            else:
                missing.reset()

    def _is_rejected(self) -> bool:
        """Return whether the last fetch failed with an error that trying again does not change, and no thread waits."""
        with self._changed:
            return self._error is not None and not self._error.retriable and not self._waiting

    def _log(self, error: OttlaError) -> None:
        """Log the error; repeat the same one only after a while, since every try fails with it."""
        now = self._clock.monotonic()
        if str(error) != self._logged or now >= self._log_again_at:
            self._logged, self._log_again_at = str(error), now + _LOG_AGAIN_S
            logger.warning("can't fetch metadata: %s", error)

    def _fetch(self, topics: list[str]) -> ClusterView | None:
        """Replace the view. Return what the broker has told, or None if none has answered."""
        try:
            view = self._cluster.fetch_metadata(topics, all_topics=self._all_topics, timeout=self._timeout)
        except OttlaError as error:
            if not self._closed and not self._waiting:  # a waiting thread gets the error, and a close needs no log line
                self._log(error)
            with self._changed:
                self._error = error
                self._changed.notify_all()
            return None
        with self._changed:
            self._error, self._logged = None, ""
            self.view = merged = merge(self.view, view)
            self._changed.notify_all()
        self._on_change(merged)
        return view
