"""One attempt at a record: run the handler, then decide whether the record is done, retried or a dead letter."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, Final, Protocol

from ottla.app.context import Context, Send, ThreadContext
from ottla.app.dead_letters import dead_letter_headers, message_of
from ottla.app.handler import RecordHandler
from ottla.app.threads import HandlerThreads
from ottla.consumer.completed_fetch import UnreadableBatch
from ottla.errors import ErrorCode, HandlerError, OttlaError, RejectError, SerializationError, TransactionAborted
from ottla.machines.lanes import Job
from ottla.machines.progress import PartitionProgress
from ottla.machines.transaction import wants_new_epoch
from ottla.record import Record
from ottla.serdes.serdes import AsItWas
from ottla_core.model import TopicPartition
from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.app")

Work = tuple[RawRecord | UnreadableBatch, PartitionProgress]
"""A record as it was read, or a batch that can't be read, and the partition's progress."""


class HandlingOutcome(Enum):
    """The outcome of an attempt."""

    DONE = "it is handled, or in the dead letters"
    AGAIN = "it will be tried again"
    LEFT = "it is not handled; it will be read again from the last commit"


class Rounds(Protocol):
    """The rounds that attempts belong to with `exactly_once`, so that the records they send count once."""

    def spoil(self) -> None:
        """Abort the current round at once, so that nothing of it counts. Its records are handled again."""

    def doom(self, pause_s: float) -> None:
        """Abort the current round once each of its records was tried, so that every record that fails does so now.
        After the pause its records are handled again."""

    def may_wait(self, pause_s: float) -> bool:
        """Return whether the current round lasts that long."""


class Attempts:
    """Makes attempts and counts them. `on_failure` gets an error after which the app can't continue.

    With `rounds`, a failed attempt that has sent something makes its round abort, so that what it sent does not count.
    `failed` then keeps the number of attempts of each failed record, and if the record is given up its last error. Dead
    letters are counted and logged once their round is committed.
    """

    def __init__(self, handler: RecordHandler, send: Send, on_failure: Callable[[BaseException], None]) -> None:
        self.send = send
        self.rounds: Rounds | None = None
        self.failed: dict[tuple[TopicPartition, int], tuple[int, BaseException | None]] = {}
        self.handled = 0
        self.retried = 0
        self.dead_lettered = 0
        self._handler: Final = handler
        self._on_failure: Final = on_failure
        self._to_log: list[tuple[str, BaseException]] = []  # the dead letters of a round
        self._threads: Final = HandlerThreads(f"ottla-app-{handler.group}-{handler.name}", handler.concurrency)

    async def run(self, job: Job[Work]) -> HandlingOutcome:
        """Make one attempt. Raises CancelledError if it is cancelled, and no Exception."""
        raw, _ = job.work
        attempts, given_up = self.failed.get((job.partition, raw[0]), (0, None))
        if given_up is not None:
            job.attempts = attempts
            return await self._give_up(job, given_up)
        job.attempts = max(job.attempts, attempts + 1)
        if isinstance(raw, UnreadableBatch):
            return await self._give_up(job, raw.error)
        try:
            record = self._handler.serdes.record(job.partition, raw)
        except SerializationError as error:
            return await self._give_up(job, error.__cause__ or error)
        context = self._context(record, job.attempts)
        try:
            await self._handle(context)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            return await self._on_failed(job, error, any(not sending.is_refused for sending in context.sent))
        self.handled += 1
        return HandlingOutcome.DONE

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the attempts of these partitions' records: other members have the partitions by now."""
        self.failed = {name: failed for name, failed in self.failed.items() if name[0] not in partitions}

    def end_round(self, committed: Mapping[TopicPartition, int] | None) -> None:
        """Note the offsets that the round has committed; None if it was aborted, so that nothing of it counts.

        A committed round may not have read every record whose attempts are remembered.
        """
        to_log, self._to_log = self._to_log, []
        if committed is not None:
            self.failed = {of: failed for of, failed in self.failed.items() if of[1] >= committed.get(of[0], 0)}
            for message, error in to_log:
                self._log_dead_letter(message, error)

    def close(self) -> None:
        """End idle threads."""
        self._threads.close()

    def _context(self, record: Record[Any, Any], attempt: int) -> Context:
        arguments = record, attempt, self._handler.group, self.send
        if self._handler.is_coroutine:
            return Context(*arguments)
        return ThreadContext(*arguments, asyncio.get_running_loop())

    async def _handle(self, context: Context) -> None:
        if self._handler.is_coroutine:
            await self._call(context)
        else:
            result = await self._threads.call(self._call, context)
            if inspect.isawaitable(result):  # a function may return a coroutine
                await result
        for result in await asyncio.gather(*context.sent, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _on_failed(self, job: Job[Work], error: BaseException, has_sent: bool) -> HandlingOutcome:
        if self._is_left(job, error):
            return HandlingOutcome.LEFT
        is_last = job.attempts > self._handler.retries or isinstance(error, RejectError)
        if not is_last:
            self.retried += 1
            level = logging.WARNING if job.attempts == 1 else logging.INFO
            logger.log(level, "%s; it will be tried again", self._message(job, error), exc_info=job.attempts == 1)
        if self.rounds is not None:
            self.failed[job.partition, job.work[0][0]] = job.attempts, error if is_last else None
            pause_s = 0.0 if is_last else self._handler.pause_s(job.attempts)
            if has_sent or not (is_last or self.rounds.may_wait(pause_s)):
                self.rounds.doom(pause_s)
                return HandlingOutcome.LEFT
        return await self._give_up(job, error) if is_last else HandlingOutcome.AGAIN

    def _is_left(self, job: Job[Work], error: BaseException | None) -> bool:
        """Return whether another member, or the next round, will handle the record, however its handler ended."""
        while self.rounds is not None and error is not None and not job.work[1].released:
            if isinstance(error, TransactionAborted) or (isinstance(error, OttlaError) and wants_new_epoch(error.code)):
                self.rounds.spoil()
                return True
            error = error.__cause__ or error.__context__
        return job.work[1].released

    def _call(self, context: Context) -> Any:
        value = context.record.value
        return self._handler.call(value, context) if self._handler.takes_context else self._handler.call(value)

    async def _give_up(self, job: Job[Work], error: BaseException) -> HandlingOutcome:
        """Write the record to the dead letters; without a topic for them, the app can't continue."""
        topic = self._handler.dead_letter
        if topic is None:
            self._on_failure(self._failure(job, error, "set dead_letter= to continue without such records"))
            return HandlingOutcome.LEFT
        raw = job.work[0]
        headers = dead_letter_headers(job.partition, raw, error, job.attempts, self._handler.group)
        try:
            key, value = (None if data is None else AsItWas(data) for data in raw[2:4])
            await self.send(value, topic=topic, key=key, headers=headers)
        except Exception as rejection:
            if self._is_left(job, rejection):
                return HandlingOutcome.LEFT
            failure = self._failure(job, rejection, "find out why, then start the app again", f"into {topic!r}: ")
            self._on_failure(failure)
            return HandlingOutcome.LEFT
        if self.rounds is None:
            self._log_dead_letter(self._message(job, error), error)
        else:
            self._to_log.append((self._message(job, error), error))
        return HandlingOutcome.DONE

    def _log_dead_letter(self, message: str, error: BaseException) -> None:
        self.dead_lettered += 1
        logger.error(
            "%s; the record is now in the dead-letter topic %r", message, self._handler.dead_letter, exc_info=error
        )

    def _failure(self, job: Job[Work], error: BaseException, hint: str, where: str = "") -> HandlerError:
        failure = HandlerError(
            ErrorCode.INVALID_RECORD,
            where + self._message(job, error),
            hint="the committed offset does not move past this record, so the app handles it again after a restart; "
            + hint,
            topic=job.partition.topic,
            partition=job.partition.partition,
            offset=job.work[0][0],
            attempts=job.attempts,
        )
        failure.__cause__ = error
        return failure

    def _message(self, job: Job[Work], error: BaseException) -> str:
        return (
            f"{self._handler.name} failed for the record at offset {job.work[0][0]} of {job.partition}, attempt "
            f"{job.attempts} of {self._handler.retries + 1}: {type(error).__name__}: {message_of(error)}"
        )


def _is_cancelled() -> bool:
    """Return whether this task itself is being cancelled, rather than something that the handler waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
