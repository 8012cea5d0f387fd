"""Transaction blocks of the SDK: where their consumer continues, and what becomes of a block that is cut off."""

from __future__ import annotations

from typing import Any

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_AIO = "ottla.aio"
_TRANSACTION = "ottla.producer.transactions:Transaction"


def _unless_it_is_open(original: Any, self: Any, manager: Any) -> None:
    if not manager.transactions.outcome.is_open:
        original(self, manager)


async def _by_the_waiting_task(original: Any, call: Any) -> Any:
    return await call


async def _every_time(original: Any, self: Any) -> None:
    await self._behind_line(self._sync.init_transactions)


STORIES = (
    Story(
        "transaction-that-nobody-saw-end-skips-its-batch",
        "A block ended by an interrupt, a cancellation or an unknown commit left its consumer behind records that no "
        "transaction had: the next block committed offsets beyond them",
        skipped("ottla.consumer.group.reader:GroupReader._settle_transactions"),
    ),
    Story(
        "cancelled-entry-leaves-the-transaction-open-for-ever",
        "After a cancelled wait for `__aenter__`, every later block of the producer raised ConfigError",
        skipped(f"{_TRANSACTION}.withdraw"),
        instead_of(f"{_TRANSACTION}._end_previous", _unless_it_is_open),
    ),
    Story(
        "cancelled-block-is-never-ended",
        "A task was cancelled while its block waited for the producer's thread: the block never ended",
        instead_of(f"{_AIO}.transaction:carry_through", _by_the_waiting_task),
    ),
    Story(
        "cancelled-initialization-counts-as-a-second-one",
        "After a cancelled `init_transactions`, which went on, another call was refused as the second one",
        instead_of(f"{_AIO}.producer:Producer.init_transactions", _every_time),
    ),
    Story(
        "cancelled-begin-leaves-a-transaction-open",
        "After a cancelled `begin_transaction`, which went on, another call was refused: a transaction was open",
        skipped("ottla.producer.transaction_manager:TransactionManager.withdraw"),
    ),
)
