"""One round of an exactly-once app: a transaction for the records handled in it and the records they send."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Final

from ottla.aio.producer import Producer
from ottla.aio.sending import Sending
from ottla.client.offsets import GroupMetadata, Offsets
from ottla.errors import CommitFailedError, ErrorCode, TransactionAborted
from ottla_core.model import TopicPartition


class Round:
    """A round begins at `starts`, and its records were read as the member `member_id`.

    Once it is `doomed` or `spoiled`, nothing of it counts; a spoiled one ends at once.
    """

    def __init__(self, producer: Producer[Any, Any]) -> None:
        self.starts: Final[dict[TopicPartition, int]] = {}
        self.member_id = ""
        self.doomed = self.spoiled = False
        self._is_over = False
        self._producer: Final = producer
        self._transaction: Final = AsyncExitStack()

    async def begin(self) -> None:
        """Begin the transaction. Raises like `ottla.aio.Producer.transaction`."""
        await self._transaction.enter_async_context(self._producer.transaction())

    def send(self, value: Any, **arguments: Any) -> Sending:
        """Like aio.Producer.send. Raises if the round is over: the record would go into the next round."""
        if self._is_over:
            raise _aborted("the round of this record is over, and the record is handled again")
        return self._producer.send(value, **arguments)

    async def end(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit with the offsets, as `group`. If the round is spoiled or can't be committed, abort and raise why."""
        self._is_over = True
        async with self._transaction:
            if self.spoiled:
                raise _aborted("the round was given up")
            if group.generation < 0 or group.member_id != self.member_id:  # the coordinator would not check the member
                raise CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has rebalanced without this member")
            await self._producer.send_offsets_to_transaction(offsets, group)


def _aborted(message: str) -> TransactionAborted:
    return TransactionAborted(
        ErrorCode.TRANSACTION_ABORTABLE, message, hint="no action is needed: the transaction is already aborted"
    )
