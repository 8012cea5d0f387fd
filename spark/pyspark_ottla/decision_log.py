"""The last decision of each query: a compacted topic of one partition, found wherever the query goes on."""

from __future__ import annotations

import time
from typing import Final

import ottla
from ottla.errors import ErrorCode, error_from_code
from ottla_core.model import TopicPartition
from pyspark_ottla.machines.decisions import TOPIC, Decision, decision_from
from pyspark_ottla.options import WriteOptions

_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": "1MiB", "min.cleanable.dirty.ratio": 0.1}
"""What compaction has yet to do, a driver that has paused for long has to read."""

_PARTITION: Final = TopicPartition(TOPIC, 0)
_LATELY: Final = 1_000
"""Offsets: the last decision of a query that runs is among these."""

_READ_S: Final = 120.0
_POLL_S: Final = 0.5


class DecisionLog:
    """Of one query, in an open transaction of its driver: what was decided before, and what is decided with its end."""

    def __init__(self, query: str, transaction: ottla.Transaction, options: WriteOptions) -> None:
        self._query: Final = query
        self._transaction: Final = transaction
        self._options: Final = options

    def last(self) -> Decision | None:
        """The query's last decision. Raises ConfigError for what a newer release has written.

        It begins with a record of the transaction: that one is acknowledged by the leader that has all before it, and
        every earlier driver is fenced, so that nothing can be decided unseen. Where a transaction of another query is
        open before it, it waits for the end of that, for two minutes at most.
        """
        end = self.write(None).result().offset
        lately = max(0, end - _LATELY)
        text = self._last_value(lately, end)
        if text is None:
            text = self._last_value(0, lately)
        return decision_from(text) if text else None

    def write(self, decision: Decision | None) -> ottla.Delivery:
        """Decide, once the transaction is committed; None: there is no decision."""
        value = None if decision is None else decision.to_json()
        return self._transaction.send(value, key=self._query, topic=TOPIC, partition=_PARTITION.partition)

    def _last_value(self, start: int, end: int) -> str | None:
        """The newest of the query in that range of offsets: "" where that is null, None where there is none."""
        found, over_at = None, time.monotonic() + _READ_S
        if start >= end:
            return None
        with ottla.Consumer[str, str](
            TOPIC,
            bootstrap=self._options.bootstrap,
            partitions=[_PARTITION.partition],
            start={_PARTITION: start},
            stop={_PARTITION: end},
            key="str",
            value="str",
            auto_offset_reset="earliest",
        ) as consumer:
            while not consumer.finished:
                for record in consumer.poll(_POLL_S, max_records=_LATELY):
                    found = record.value or "" if record.key == self._query else found
                if time.monotonic() > over_at:
                    raise error_from_code(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"the last decision of query {self._query} could not be read within {_READ_S:g} s",
                        hint=f"`ottla txn explain {TOPIC}` names what is open before it",
                    )
        return found


def create_topic(admin: ottla.Admin) -> None:
    """Unless it is there."""
    if not admin.topics.exists(TOPIC):
        admin.topics.create(TOPIC, partitions=1, config=_CONFIG, if_exists="ok")
