"""An attempt of a task that writes exactly once: its transactional id, and whether it came too late.

A task of a streaming query has the ids of its attempts for as long as the query runs: `spark-<query>-<run>-<task>-0` is
that of its first attempt in each micro-batch. So partitions know as many producers as there are tasks, and not as there
were attempts, and an attempt that still writes is fenced by the next one.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from pyspark import TaskContext

import ottla
from pyspark_ottla.decision_log import is_decided_by_now
from pyspark_ottla.idle_clients import IdleClients
from pyspark_ottla.machines.decisions import Batch, TaskTransaction, named
from pyspark_ottla.options import WriteOptions
from pyspark_ottla.producers import end_transaction, patience_s

logger = logging.getLogger("ottla.spark")

_IDLE_ADMINS: Final[IdleClients[ottla.Admin]] = IdleClients(lambda admin: admin.close())


@contextmanager
def lent_admin(options: WriteOptions) -> Iterator[ottla.Admin]:
    """Lend an Admin to a task until the block ends."""
    timeout_s = patience_s(options)
    with _IDLE_ADMINS.lent(
        (options.access, timeout_s), lambda: ottla.Admin(**options.access.arguments(), request_timeout=timeout_s)
    ) as admin:
        yield admin


def id_of_attempt(admin: ottla.Admin, batch: Batch, context: TaskContext) -> str:
    """Return the transactional id for this attempt of a task.

    An id whose transaction is prepared already is passed over, because a driver may be about to decide that one.
    """
    task = context.partitionId()
    if not batch.is_micro_batch:
        return batch.transactional_id(task, batch.run + secrets.token_hex(4))
    names = (batch.transactional_id(task, str(number)) for number in count(context.attemptNumber()))
    return next(name for name in names if not _is_prepared(admin, name))


def _is_prepared(admin: ottla.Admin, name: str) -> bool:
    found = admin.transactions.described([name]).get(name)
    return found is not None and found.is_prepared


def came_too_late(admin: ottla.Admin, batch: Batch, transaction: TaskTransaction, options: WriteOptions) -> bool:
    """Tell whether the batch was decided before this attempt's transaction was prepared. If so, abort the transaction.

    A driver writes to the topic of decisions before it lists what is prepared. So an attempt that is prepared later
    finds the decision there, or the record that says that the driver has begun to decide.
    """
    if not is_decided_by_now(admin, batch, options):
        return False
    logger.info(
        "aborting transaction %s: it was prepared after the outcome of %s was decided",
        transaction.transactional_id,
        named(batch),
    )
    end_transaction(admin, transaction, committed=False)
    return True
