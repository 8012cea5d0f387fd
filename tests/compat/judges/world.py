"""The topic of a story, and all that happens to it beside what the two sides do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, Self

from waiting import wait_until

import ottla
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_stack.cluster import Cluster

BASE_MS: Final = 1_700_000_000_000
"""The time of value 0; that of value n is n milliseconds later."""
_PAD: Final = b"x" * 400
"""A header that makes records large, so that few of them fill a segment of a compacted topic."""


class World:
    """`with World(cluster, "topic", partitions=2, config={}, groups=[…]) as world:` creates the topic.

    Values are "0", "1" and so on, in the order in which they were written, over all partitions.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, partitions: int, config: Mapping[str, str], groups: list[str]
    ) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic
        self._config: Final = {"retention.ms": "-1", **config}
        self._groups: Final = groups
        self._admin: Final = ottla.Admin(cluster.bootstrap)
        self._producer = self._new_producer()
        self._next = 0
        self._create(partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "_transactions" in self.__dict__:
            self._transactions.close()
        self._producer.close()
        self._admin.close()

    def write(self, count: int, partition: int = 0) -> None:
        self._send(self._producer, count, partition)

    def begin(self) -> None:
        """Begin a transaction."""
        self._transactions.begin_transaction()

    def write_in_transaction(self, count: int, partition: int = 0) -> None:
        """Write to the open transaction, and return once the records are in the log."""
        self._send(self._transactions, count, partition)

    def commit(self) -> None:
        """Commit the transaction, and return once readers of committed records see it."""
        self._transactions.commit_transaction()
        self._wait_until_stable()

    def abort(self) -> None:
        """Abort the transaction, and return once it holds no reader up."""
        self._transactions.abort_transaction()
        self._wait_until_stable()

    def delete_records(self, before: int, partition: int = 0) -> None:
        self._admin.topics.delete_records(self._topic, {partition: before})

    def add_partitions(self, total: int) -> None:
        self._admin.topics.add_partitions(self._topic, total)
        self._producer.close()
        self._producer = self._new_producer()  # one that knows them

    def recreate(self, partitions: int = 1) -> None:
        """Delete the topic and make another one of its name."""
        self._admin.topics.delete(self._topic)
        self._create(partitions)

    def write_keys(self, count: int, keys: int) -> None:
        """Write values whose keys take turns, in batches of a few records."""
        with ottla.Producer(self._cluster.bootstrap, topic=self._topic, value="str", batch_size=2_000) as producer:
            for n in range(count):
                producer.send(str(self._next + n), key=f"key {n % keys}", headers=[("pad", _PAD)], partition=0)
        self._next += count

    def wait_until_compacted(self) -> None:
        """Return once the log has several segments and all but the active one are cleaned."""
        wait_until(self._is_compacted)

    def wait_until_empty(self) -> None:
        """Return once no group of the story has a member left."""
        wait_until(lambda: not any(self._admin.groups.members(group) for group in self._groups))

    def _new_producer(self) -> ottla.Producer[Any, Any]:
        return ottla.Producer(self._cluster.bootstrap, topic=self._topic, value="str")

    @cached_property
    def _transactions(self) -> ottla.Producer[Any, Any]:
        producer = ottla.Producer(
            self._cluster.bootstrap, topic=self._topic, value="str", transactional_id=f"{self._topic}-transactions"
        )
        producer.init_transactions()
        return producer

    def _create(self, partitions: int) -> None:
        self._admin.topics.create(self._topic, partitions=partitions, config=self._config)

    def _send(self, producer: ottla.Producer, count: int, partition: int) -> None:
        sent = [
            producer.send(str(n), partition=partition, timestamp=BASE_MS + n)
            for n in range(self._next, self._next + count)
        ]
        producer.flush()
        for delivery in sent:
            delivery.result()
        self._next += count

    def _wait_until_stable(self) -> None:
        """Wait until the transaction's markers are written, which happens shortly after its end."""
        wait_until(lambda: self._ends("read_committed") == self._ends("read_uncommitted"))

    def _ends(self, isolation: str) -> dict[tuple[str, int], int | None]:
        with ottla.Consumer(
            self._topic, bootstrap=self._cluster.bootstrap, start="earliest", config={"isolation.level": isolation}
        ) as consumer:
            return dict(consumer.offsets("latest"))

    def _is_compacted(self) -> bool:
        apps = [broker._app for broker in self._cluster.brokers]
        cleaners = [part for app in apps if app for part in app._components if isinstance(part, LogCleaner)]
        logs = [r.log for cleaner in cleaners for r in list(cleaner._replicas.all()) if r.topic == self._topic]
        return all(
            len(log.segments) > 1 and log.compaction.first_dirty_offset == log.segments[-1].base_offset for log in logs
        )
