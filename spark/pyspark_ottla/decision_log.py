"""The decisions of queries are in a compacted topic of one partition, which is found wherever a query goes on.

A decision is one record whose key is the query. What does not fit into it lies in records of `<query>/1`, `<query>/2`,
and so on, which the same transaction wrote before it. A query that is over has a null. Each driver begins with a record
that only says which batch of which run it is about to decide.
"""

from __future__ import annotations

import time
from typing import Final

import ottla
from ottla.errors import ErrorCode, UnknownTopicError, error_from_code
from ottla_core.model import TopicPartition
from pyspark_ottla.access import Access
from pyspark_ottla.idle_clients import IdleClients
from pyspark_ottla.machines.decisions import (
    TOPIC,
    Batch,
    Decision,
    beginning,
    decision_from,
    may_decide,
    records_of,
)
from pyspark_ottla.options import WriteOptions

_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": "1MiB", "min.cleanable.dirty.ratio": 0.1}
"""Compaction keeps the log short: a driver that has paused for long has to read all that is not compacted yet."""

_PARTITION: Final = TopicPartition(TOPIC, 0)
_LATELY: Final = 1_000
"""The last decision of a query that runs is among this many offsets."""

_READ_S: Final = 120.0
_TASK_WAITS_S: Final = 5.0
_POLL_S: Final = 0.5

_IDLE_READERS: Final[IdleClients[ottla.Consumer[str, str]]] = IdleClients(lambda reader: reader.close())


class DecisionLog:
    """A query's decisions in an open transaction of its driver: the earlier decisions, and the one that is made with
    the end of the transaction."""

    def __init__(self, batch: Batch, transaction: ottla.Transaction, options: WriteOptions) -> None:
        self._batch: Final = batch
        self._transaction: Final = transaction
        self._options: Final = options
        self._records = 0  # those of the last decision

    def last(self) -> Decision | None:
        """Return the query's last decision. Raises ConfigError for what a newer release has written.

        It begins with a record of the transaction. The leader that acknowledges this record has all earlier ones, and
        every earlier driver is fenced, so that nothing can be decided unseen. If a transaction of another query is open
        before it, it waits for that one's end, for two minutes at most.
        """
        end = self._send(beginning(self._batch), self._batch.query).result().offset
        texts = _last_before(end, self._batch.query, self._options)
        self._records = len(texts or ())
        return decision_from(texts) if texts else None

    def write(self, decision: Decision | None) -> ottla.Delivery:
        """Write a decision, which is made when the transaction is committed. None means that the query is over."""
        first, *others = [None] * max(1, self._records) if decision is None else decision.to_texts()
        for number, text in enumerate(others, 1):
            self._send(text, f"{self._batch.query}/{number}")
        return self._send(first, self._batch.query)

    def _send(self, text: str | None, key: str) -> ottla.Delivery:
        return self._transaction.send(text, key=key, topic=TOPIC, partition=_PARTITION.partition)


def is_decided_by_now(admin: ottla.Admin, batch: Batch, options: WriteOptions) -> bool:
    """Return whether a batch, or a newer one of its query, is decided. It is for the batch's tasks.

    If the driver is about to decide it, this waits for that, for some seconds at most. After that it returns False,
    though it may be decided. Raises ConfigError for what a newer release has written.
    """
    try:
        end = admin.topics.offsets(TOPIC)[_PARTITION.partition] or 0
    except UnknownTopicError:  # no driver has begun to decide
        return False
    newest = _last_before(end, batch.query, options, committed=False)
    if newest is None or not (newest == [] or may_decide(newest[0], batch)):
        return False
    try:
        decided = _last_before(end, batch.query, options, patience_s=_TASK_WAITS_S)
    except ottla.TimeoutError:
        return False
    return decided == [] or (decided is not None and decision_from(decided).batch.number >= batch.number)


def create_topic(admin: ottla.Admin) -> None:
    """Create the topic of decisions, unless it exists.

    While a broker restarts there may be too few of them for the topic's replicas. It waits for that broker.
    """
    over_at = time.monotonic() + _READ_S
    while not admin.topics.exists(TOPIC):
        try:
            admin.topics.create(TOPIC, partitions=1, config=_CONFIG, if_exists="ok")
        except ottla.OttlaError as error:
            if error.code != ErrorCode.INVALID_REPLICATION_FACTOR or time.monotonic() > over_at:
                raise
            time.sleep(_POLL_S)


def _last_before(
    end: int, query: str, options: WriteOptions, *, committed: bool = True, patience_s: float = _READ_S
) -> list[str] | None:
    """Return the values of the last decision's records. Return [] if the query is over, and None if it has no
    decision."""
    for start in dict.fromkeys((max(0, end - _LATELY), 0)):
        texts = _texts(start, end, query, options, committed, patience_s)
        if query not in texts:
            continue
        if (head := texts[query]) is None:
            return []
        parts = [texts.get(f"{query}/{number}") for number in range(1, records_of(head))]
        if None not in parts or not start:
            return [head, *(part or "" for part in parts)]
    return None


def _texts(
    start: int, end: int, query: str, options: WriteOptions, committed: bool, patience_s: float
) -> dict[str, str | None]:
    """Return the newest values of the query's keys in that range of offsets."""
    found: dict[str, str | None] = {}
    over_at = time.monotonic() + patience_s
    if start >= end:
        return found
    with _IDLE_READERS.lent(
        (options.access, committed),
        lambda: _reader(options.access, committed),
        lambda reader: reader.seek(_PARTITION, start, stop=end),
    ) as reader:
        while not reader.finished:
            for record in reader.poll(_POLL_S, max_records=_LATELY):
                if record.key is not None and (record.key == query or record.key.startswith(f"{query}/")):
                    found[record.key] = record.value
            if time.monotonic() > over_at:
                raise error_from_code(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"the last commit decision of query {query} could not be read within {patience_s:g} s",
                    hint=f"an open transaction in the topic may hold up the read: `ottla txn explain {TOPIC}` shows it",
                )
    return found


def _reader(access: Access, committed: bool) -> ottla.Consumer[str, str]:
    return ottla.Consumer(
        TOPIC,
        **access.arguments(),
        partitions=[_PARTITION.partition],
        key="str",
        value="str",
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
