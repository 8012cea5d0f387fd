"""Exactly-once handling, in rounds: a round's records, and everything sent for them, are committed together or not.

    read … read ──► (commit_interval is over, or enough is finished) ──► all is handled ──► commit ──► the next round
                          └── spoiled: abort, back to where the round began, and all of it again ──────────┘

The rules this file owns:

* A round is one transaction, with all records that were read in it. It is committed once each of them is finished:
  offsets can be committed only up to the first unfinished record, so the output of later records would be sent again.
* A round ends long before its transaction times out (machines/round_pace.py).
* What a failed attempt has sent must not count. So if it has sent something, the round is doomed: its remaining records
  are still handled, so that every record that fails does so now, and then the round is aborted. The attempts of each
  record are remembered (`Attempts.failed`), and the next round reads no more records than this one. So a partition's
  records are settled after at most one round more than a record has attempts.
* Partitions are given up between rounds. If partitions are lost while a round has records of theirs, the round is
  spoiled. So it is if a topic was recreated; the next round then begins with the first records of the new topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from ottla.aio.producer import Producer
from ottla.aio.sending import Sending
from ottla.app.handler import RecordHandler
from ottla.app.round import Round
from ottla.app.worker import Worker
from ottla.consumer.batch import Batch
from ottla.consumer.group.listener import Partitions
from ottla.errors import (
    CommitFailedError,
    FencedError,
    OttlaError,
    RebalanceInProgressError,
    RetriableError,
    TransactionAborted,
    WakeupError,
)
from ottla.machines.round_pace import RoundPace
from ottla_core.model import TopicId, TopicPartition

logger = logging.getLogger("ottla.app")

_AGAIN_S: Final = 0.2
_END_S: Final = 120.0
"""How long a round may take to end before partitions are given up. After that the app stops, because it does not know
where to continue."""


class ExactlyOnceWorker(Worker):
    """Like Worker, in rounds. `make_producer` makes a producer for a transactional_id; its transactions time out after
    `transaction_timeout_s`."""

    def __init__(
        self,
        handler: RecordHandler,
        consumer: Mapping[str, Any],
        make_producer: Callable[..., Producer[Any, Any]],
        on_failure: Callable[[BaseException], None],
        drain_s: float,
        transaction_timeout_s: float,
    ) -> None:
        self._stop_app: Final = on_failure
        self._round: Round | None = None
        self._resume_at = 0.0
        self._topic_ids: Final[dict[TopicPartition, TopicId | None]] = {}  # of the records that were read last
        self._settled: Final = asyncio.Event()
        self._make_producer: Final = make_producer
        super().__init__(handler, consumer, _no_round, self._fail, drain_s)
        self.attempts.rounds = self
        self._pace: Final = RoundPace(handler.concurrency, transaction_timeout_s)
        self._timeout_s: Final = transaction_timeout_s
        instance = self._consumer.group_metadata.instance_id
        self._shares_id: Final = instance is not None  # an earlier member may have had it
        self._id: Final = f"{handler.group}-{instance or uuid4().hex}"
        self._producer = make_producer(transactional_id=self._id)

    # ---- a round -------------------------------------------------------------------------------------------------

    async def _begin(self) -> Round | None:
        """Return the current round, begun if there is none; None if it can't begin and the app stops."""
        while self._round is None and not self._stopping:
            following = Round(self._producer)
            try:
                await following.begin()
            except RetriableError as error:
                logger.warning("group %s: a transaction can't begin yet: %s", self._handler.group, error)
                await asyncio.sleep(_AGAIN_S)
            else:
                self._round, self.attempts.send = following, following.send
        return self._round

    async def _read(self) -> None:
        await self._begin()
        await super()._read()

    def _room(self) -> int:
        now = self._loop.time()
        if self._is_closing or now < self._resume_at:
            return 0
        return max(0, min(super()._room(), self._pace.room(now, self.lanes.count)))

    async def _take(self, batch: Batch[bytes, bytes]) -> None:
        now = await self._begin() if batch else None
        if now is None:
            return
        if not now.starts and batch.group_metadata is not None:
            now.member_id = batch.group_metadata.member_id
            self._pace.begin(self._loop.time())
            self._commit_at = self._loop.time() + self._handler.commit_interval_s
        for partition, offset in batch.first_offsets.items():
            topic_id = batch.topic_ids.get(partition)
            if self._topic_ids.setdefault(partition, topic_id) != topic_id:
                self._topic_ids[partition] = topic_id
                self.attempts.forget([partition])
                if partition in now.starts:
                    now.starts[partition] = offset
                    self.spoil()
            now.starts.setdefault(partition, offset)
        if not now.spoiled:
            self._pace.on_read(self._loop.time(), len(batch))
            await super()._take(batch)

    @property
    def _starts_jobs(self) -> bool:
        return True  # to the end of the round, even if the app stops

    @property
    def _is_closing(self) -> bool:
        now = self._round
        if now is None or not now.starts:
            return False
        return now.spoiled or now.doomed or self._pace.is_over(self._loop.time()) or super()._is_commit_due()

    @property
    def _is_settled(self) -> bool:
        return self._round is None or self._round.spoiled or self._in_flight.count == self._in_flight.front

    def _is_commit_due(self) -> bool:
        return self._is_closing and self._is_settled

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._pace.on_finished(self._loop.time(), self.lanes.count)
        super()._on_task_done(task)
        if self._round is not None and self._round.doomed and self.lanes.is_quiet:
            self.spoil()
        if self._is_settled:
            self._settled.set()

    def spoil(self) -> None:
        """Abort the round at once, so that nothing of it counts, and begin it again."""
        if self._round is not None and not self._round.spoiled:
            self._round.spoiled = True
            self._in_flight.give_up(self._round.starts)
            self.lanes.drop(self._round.starts)
            self._changed.set()
            self._settled.set()

    def doom(self, pause_s: float) -> None:
        """Abort the round once each of its records was tried, and begin it again after the pause. Records that are due
        for another attempt wait for the next round."""
        if self._round is not None:
            self._round.doomed = True
            self._resume_at = max(self._resume_at, self._loop.time() + pause_s)

    def may_wait(self, pause_s: float) -> bool:
        return self._pace.may_wait(self._loop.time(), pause_s)

    def _fail(self, error: BaseException) -> None:
        self.spoil()
        self._stop_app(error)

    # ---- its end -------------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        if starts := await self._end():
            await self._begin()  # which ends a transaction that may still be open, before its offsets are looked up
            await self._on_thread(self._go_back, starts)

    async def _end(self) -> dict[TopicPartition, int]:
        """Commit the round or abort it. Return the offsets to read its records again from, {} if they count."""
        ended, self._round = self._round, None
        if ended is None or not ended.starts:
            self._round = ended  # nothing was read: keep it as the next round
            return {}
        offsets = self._in_flight.to_commit()
        try:
            await ended.end(self._in_topics(offsets), self._consumer.group_metadata)
        except (TransactionAborted, CommitFailedError, RebalanceInProgressError, RetriableError, FencedError) as error:
            if isinstance(error, FencedError) and self._shares_id:
                raise
            if self._pace.end(self._loop.time(), committed=False):
                logger.warning(
                    "group %s: a round took longer than transaction_timeout=%g s, so its records are handled again in "
                    "rounds of half the size; if this recurs, raise transaction_timeout or do less work per record",
                    self._handler.group,
                    self._timeout_s,
                )
            logger.warning("group %s: the records of a round will be handled again: %s", self._handler.group, error)
            self.attempts.end_round(None)
            self._in_flight.forget(ended.starts)
            self.lanes.drop(ended.starts)
            self._resume_at = max(self._resume_at, self._loop.time() + _AGAIN_S)
            if isinstance(error, (RetriableError, FencedError)):  # its outcome is unknown, or it is fenced
                await self._replace_producer()
            return ended.starts
        self._in_flight.on_committed(offsets)
        self._pace.end(self._loop.time(), committed=True)
        self.attempts.end_round(offsets)
        return {}

    async def _replace_producer(self) -> None:
        """Make another producer with the same id, which ends the open transaction. Only this worker has the id."""
        with suppress(OttlaError):
            await self._producer.close()
        self._producer = self._make_producer(transactional_id=self._id)

    def _go_back(self, starts: Mapping[TopicPartition, int]) -> None:
        """On the consumer's thread: continue at the committed offsets; where none is, at the start of the round."""
        while starts and not self._stopping:
            mine = [partition for partition in starts if partition in self._consumer.assignment()]
            try:
                committed = self._consumer.committed(*mine) if mine else {}
            except RetriableError as error:
                logger.warning(
                    "group %s: the offsets to continue from are not known yet: %s", self._handler.group, error
                )
                continue
            for partition in mine:
                if committed[partition] is None:
                    self._consumer.seek(partition, starts[partition], topic_id=self._topic_ids[partition])
                else:
                    self._consumer.seek_to_committed(partition)
            return

    # ---- giving up -----------------------------------------------------------------------------------------------

    async def _finish(self) -> dict[TopicPartition, int]:
        """Handle the remaining records of the round, within their time, and end it."""
        self._commit_at = 0.0
        self._settled.clear()
        if not self._is_settled:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), self._drain_s)
        if not self._is_settled:
            logger.warning("group %s: a round did not finish within %g s", self._handler.group, self._drain_s)
            self.spoil()
            for task in list(self._tasks) if self._handler.is_coroutine else ():
                task.cancel()
        return await self._end()

    def on_revoked(self, partitions: Partitions) -> None:
        """End the round before the partitions are given up."""
        try:
            self._go_back(self._run_in_loop(self._finish(), self._drain_s + _END_S))
        except WakeupError:
            pass  # of a `stop` that came just now
        except (OttlaError, TimeoutError) as error:
            self._loop.call_soon_threadsafe(self._fail, error)
        self.on_lost(partitions)

    def forget(self, partitions: Partitions) -> None:
        """Forget the partitions like Worker; a round that has records of theirs can't count."""
        if self._round is not None and self._round.starts.keys() & set(partitions):
            self.spoil()
        self.attempts.forget(partitions)
        super().forget(partitions)

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            await self._producer.close()


def _no_round(value: Any, **arguments: Any) -> Sending:
    raise AssertionError("a record was handled outside a round")
