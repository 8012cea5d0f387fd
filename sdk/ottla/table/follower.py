"""Keeps a table up to date with its topic, by a consumer of its own on a thread of its own.

The consumer's position may no longer be in the log: the topic was recreated, unread records were deleted, or a new
leader lacks records that were read. Then the table's content can't be repaired: the table is emptied, and a new
consumer reads everything again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread, current_thread
from typing import Any, Final

from ottla.client.cluster import UNKNOWN_TOPIC_GRACE_S
from ottla.client.metadata_updater import MetadataUpdater
from ottla.consumer.assignment import Assignment
from ottla.consumer.consumer import Consumer
from ottla.errors import ErrorCode, OffsetOutOfRangeError, OttlaError, SerializationError, WakeupError
from ottla.table.snapshot import TableSnapshot
from ottla.table.view import Goal, TableView
from ottla_core.model import TopicId
from ottla_core.rpc.retry import Backoff

logger = logging.getLogger("ottla.table")

_POLL_S: Final = 0.5
_POLL_RECORDS: Final = 10_000
_JOIN_S: Final = 5.0
_WRITE_S: Final = 60.0

_MADE_ANEW: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_PARTITIONS)
"""Codes after which the table is loaded again: the topic has another id, or fewer partitions."""


class Follower:
    """`consume` makes a consumer of the whole topic, from its beginning, that never resets its position by itself."""

    def __init__(
        self, view: TableView, consume: Callable[[], Consumer[bytes, bytes]], snapshot: TableSnapshot | None = None
    ) -> None:
        self._view: Final = view
        self._snapshot: Final = snapshot
        self._consume: Final = consume
        self._consumer: Consumer[bytes, bytes] | None = None
        self._missing_since: float | None = None
        self._backoff: Final = Backoff(first_s=0.1)
        self._thread: Final = Thread(target=self._run, name=f"ottla-table-{view.topic}", daemon=True)

    def start(self) -> None:
        """Start the thread; call it once."""
        self._thread.start()

    def attend(self) -> None:
        """Look at the view's goals now."""
        if (consumer := self._consumer) is not None:
            consumer.wakeup()

    def end(self) -> None:
        """Make the thread end; does not wait for it."""
        self._view.close()
        if self._consumer is not None:
            self._consumer.close()

    def join(self) -> None:
        """Wait some seconds for the thread to end; longer if it writes a snapshot."""
        if self._thread.is_alive() and current_thread() is not self._thread:
            self._thread.join(_JOIN_S if self._snapshot is None else _WRITE_S)

    def _run(self) -> None:
        try:
            while not self._view.closed:
                self._view.loads += 1
                with self._consume() as self._consumer:
                    self._follow(self._consumer)
            if self._snapshot is not None:
                self._snapshot.write()
        except BaseException as error:  # otherwise waiting calls would never learn of it
            logger.error("the table %r stopped following its topic: %s", self._view.topic, error)  # noqa: TRY400
            self._view.fail(error)

    def _follow(self, consumer: Consumer[bytes, bytes]) -> None:
        """Follow the topic until the table is closed, or has to be loaded again. Raises errors that retries don't
        solve."""
        timeout = 0.0
        while not self._view.closed:
            try:
                self._step(consumer, timeout)
                timeout = _POLL_S
            except WakeupError:
                timeout = 0.0  # goals have to be looked up
            except SerializationError:
                raise
            except OttlaError as error:
                if not self._goes_on_after(error):
                    return

    def _goes_on_after(self, error: OttlaError) -> bool:
        """Return whether to try again after a while; False if the table is closed, or is loaded again."""
        view = self._view
        if view.closed:
            return False
        elsewhere = isinstance(error, OffsetOutOfRangeError) or error.code in _MADE_ANEW
        if elsewhere:
            logger.warning("clearing the table %r and loading it again: %s", view.topic, error.message)
            view.clear()
            if self._snapshot is not None:
                self._snapshot.clear()
        else:
            logger.warning("the table %r can't follow its topic; trying again: %s", view.topic, error)
            view.fail(error)
        view.pause(self._backoff.next())
        return not elsewhere

    def _step(self, consumer: Consumer[bytes, bytes], timeout: float) -> None:
        view, snapshot = self._view, self._snapshot
        if snapshot is not None:
            snapshot.restore(consumer, view)
        for partition, part in consumer.poll(timeout, max_records=_POLL_RECORDS).segments:
            view.apply(partition, part if snapshot is None else snapshot.keeping(part))
        caught_up = consumer.caught_up()
        self._check_topic(consumer)
        positions = consumer._assignment.positions()
        offsets = {p.partition: at.offset for p, at in positions.items() if at.offset is not None}
        view.reflect(offsets, caught_up=caught_up)
        if caught_up:
            self._backoff.reset()
        if goals := list(view.goals):
            self._look_up(consumer, goals, {at.topic_id for at in positions.values()})
        if snapshot is not None:  # last: it may write a file
            snapshot.on_step(consumer, caught_up=caught_up)

    def _check_topic(self, consumer: Consumer[Any, Any]) -> None:
        """Raise UnknownTopicError if no broker has known the topic for some seconds; the consumer itself would wait."""
        topic, now = _updater(consumer).view.topics.get(self._view.topic), consumer._cluster.clock.monotonic()
        if topic is not None and not topic.error:
            self._missing_since = None
            return
        self._missing_since = now if self._missing_since is None else self._missing_since
        if now >= self._missing_since + UNKNOWN_TOPIC_GRACE_S:
            raise consumer._cluster.unknown_topic(self._view.topic)

    def _look_up(self, consumer: Consumer[Any, Any], goals: list[Goal], topic_ids: set[TopicId | None]) -> None:
        """Look up the topic's ends for calls that wait for them, unless it was recreated or has more partitions."""
        known = self._view.position.keys()
        up_to_date = all(known >= goal.ends.keys() for goal in goals if goal.ends is not None)
        if to_look_up := [goal for goal in goals if goal.ends is None]:
            ends = {p.partition: end for p, end in consumer.offsets("latest").items() if end is not None}
            topic = consumer._cluster.view.topics[self._view.topic]
            if len(topic.partitions) <= len(known) and topic_ids <= {topic.id, None}:
                self._view.set_ends(to_look_up, ends)
            else:
                up_to_date = False
        if not up_to_date:
            _updater(consumer).refresh()


def _updater(consumer: Consumer[Any, Any]) -> MetadataUpdater:
    """Return the metadata updater of a consumer that has been polled."""
    assert isinstance(consumer._assignment, Assignment)
    assert consumer._assignment._updater is not None
    return consumer._assignment._updater
