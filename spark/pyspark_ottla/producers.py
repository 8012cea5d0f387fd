"""The producers of tasks, kept from one to the next, and of drivers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, TypeAlias

import ottla
from ottla.connect import PreparedTransaction, check_config
from ottla.errors import ErrorCode, OttlaError
from pyspark_ottla.idle_clients import IdleClients
from pyspark_ottla.machines.decisions import TaskTransaction
from pyspark_ottla.options import WriteOptions

BytesProducer: TypeAlias = "ottla.Producer[bytes, bytes]"


def check_settings(options: WriteOptions) -> None:
    """Raise ConfigError for settings that no producer can have."""
    check_config(_config(options))


def new_producer(options: WriteOptions, transactional_id: str | None = None) -> BytesProducer:
    """Return a producer with these settings."""
    config = _config(options)
    return ottla.Producer(
        **options.access.arguments(), key="bytes", value="bytes", transactional_id=transactional_id, config=config
    )


def driver_producer(options: WriteOptions, transactional_id: str) -> ottla.Producer[str, str]:
    """Return the producer of a query's driver."""
    config = {"max.block.ms": _config(options)["max.block.ms"], "linger.ms": "0", "client.id": transactional_id}
    return ottla.Producer(
        **options.access.arguments(), key="str", value="str", transactional_id=transactional_id, config=config
    )


def _config(options: WriteOptions) -> Mapping[str, str]:
    """Return the settings. The producer is idempotent, and waits for room as long as for an outcome, so that brokers
    may be away for that long."""
    return {"enable.idempotence": "true", "max.block.ms": f"{1000 * patience_s(options):g}", **options.client}


def patience_s(options: WriteOptions) -> float:
    """Return how long a task or its driver waits for brokers and coordinators that are away, in seconds."""
    return float(options.client.get("delivery.timeout.ms", "120000")) / 1000


_ENDED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""Errors of a coordinator if the transaction has ended before."""


def end_transaction(admin: ottla.Admin, transaction: TaskTransaction, *, committed: bool) -> None:
    """End a transaction as it was decided, unless that is done: its id has another transaction by now, or was
    forgotten."""
    try:
        admin.transactions.end(PreparedTransaction(*transaction), committed=committed)
    except OttlaError as error:
        if error.code not in (_ENDED if committed else {*_ENDED, ErrorCode.INVALID_TXN_STATE}):
            raise


def _end(producer: BytesProducer) -> None:
    with contextlib.suppress(OttlaError):  # nothing waits in it, or its task has failed already
        producer.close(0)


IDLE_PRODUCERS: Final[IdleClients[BytesProducer]] = IdleClients(_end)
"""The idle producers of this process."""


def lent_producer(options: WriteOptions) -> AbstractContextManager[BytesProducer]:
    """Lend a producer with these settings to a task. What its flush reports is about the task's own rows."""
    settings = options.access, frozenset(options.client.items())
    return IDLE_PRODUCERS.lent(settings, partial(new_producer, options))
