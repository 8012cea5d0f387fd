"""The mirror reaches an ottla cluster by the SDK, which reads and writes batches as bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import ottla
from ottla.connect import BatchReader, ClusterClient, bootstrap_addresses, chosen_transport, list_offsets
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.records.builder import SealedBatch
from ottla_mirror.clusters.cluster import (
    CALL_S,
    DELIVERY_S,
    TRANSACTION_S,
    Admin,
    Committed,
    GroupEvents,
    Log,
    LogRecord,
    Member,
    Reader,
    Writer,
)
from ottla_mirror.clusters.load_assignor import LoadAssignor
from ottla_mirror.machines.encoding import Run
from ottla_mirror.machines.progress import Outcome

logger = logging.getLogger("ottla.mirror")

_LOOK_S: Final = 1.0
"""The target is checked for new copies this often."""

_CLOSE_S: Final = 5.0
"""A writer that is being closed waits this long for acknowledgements. A delivery may take a day, and a failed flow
restarts only once its writer is closed."""

_LEAVE_S: Final = 2.0
"""A mirror waits this long for its group to tell whether it was replaced, or to learn that it has left."""


class OttlaCluster:
    """An ottla cluster. `bootstrap` has addresses of its brokers."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self._bootstrap: Final = list(bootstrap)

    def open_admin(self, name: str) -> Admin:
        return OttlaAdmin(self._bootstrap, name)

    def open_reader(self, name: str) -> Reader:
        return BatchReader(self._bootstrap, client_id=name)

    def open_writer(self, name: str, *, transactional_id: str | None = None, delivery_s: float = DELIVERY_S) -> Writer:
        return OttlaWriter(
            ottla.Producer(
                self._bootstrap,
                client_id=name,
                transactional_id=transactional_id,
                key="bytes",
                value="bytes",
                max_request_size="16MiB",
                buffer_memory="48MiB",
                request_timeout=min(30.0, delivery_s / 2),
                delivery_timeout=delivery_s,
                transaction_timeout=TRANSACTION_S,
            )
        )

    @contextmanager
    def open_member(
        self, name: str, group: str, pattern: str, session_s: float, events: GroupEvents
    ) -> Iterator[Member]:
        consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
            bootstrap=self._bootstrap,
            client_id=name,
            group=group,
            group_instance_id=name,
            pattern=pattern,
            assignors=[LoadAssignor(events.rates), "cooperative-sticky"],  # the latter is for older mirrors
            commit="manual",
            auto_offset_reset="earliest",
            metadata_max_age=_LOOK_S,
            session_timeout=session_s,
            on_assigned=lambda copies: on_given(list(copies)),
            on_revoked=lambda copies: events.gone(list(copies), False),
            on_lost=lambda copies: events.gone(list(copies), True),
        )
        member = OttlaMember(consumer, lambda: open_admin(self._bootstrap, name))

        def on_given(copies: list[TopicPartition]) -> None:
            consumer.pause(*copies)
            events.given(member, copies)

        with consumer:
            yield member

    def open_log(self, topic: str) -> Log:
        return OttlaLog(self._bootstrap, topic)


class OttlaMember:
    """The `Member` in an ottla cluster."""

    def __init__(self, consumer: ottla.Consumer[Any, Any], admin: Callable[[], ottla.Admin]) -> None:
        """Set the consumer. `admin` opens the client that asks about the group."""
        self.consumer: Final = consumer
        self._admin: Final = admin

    def poll(self, timeout: float) -> None:
        self.consumer.poll(timeout)

    def committed(self, copies: Sequence[TopicPartition]) -> Mapping[TopicPartition, ottla.OffsetAndMetadata | None]:
        return self.consumer.committed(*copies)

    def commit(self, offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata]) -> None:
        self.consumer.commit(offsets)

    def rebalance(self) -> None:
        self.consumer.enforce_rebalance("the mirrors' loads are compared")

    def is_replaced(self) -> bool:
        me = self.consumer.group_metadata
        if not me.member_id:
            return False
        with self._admin() as admin:
            members = admin.groups.describe(me.group, timeout=_LEAVE_S).members
        return any(m.instance_id == me.instance_id and m.member_id != me.member_id for m in members)

    def leave(self) -> None:
        me = self.consumer.group_metadata
        if not me.member_id:
            return
        try:
            with self._admin() as admin:  # it names the member id, so a successor under its name stays
                admin.groups.kick(me.group, me.member_id, reason="the mirror was stopped", timeout=_LEAVE_S)
        except ottla.OttlaError as error:
            logger.info("leaving group %s as %s failed: %s", me.group, me.instance_id, error)


class BatchDelivery(NamedTuple):
    """A batch is delivered as a whole, or not at all."""

    delivery: ottla.Delivery
    record_count: int

    def done(self) -> bool:
        return self.delivery.done()

    def runs(self) -> Sequence[Run]:
        offset = self.delivery.result().offset
        return () if offset < 0 else (Run(offset, self.record_count),)

    def refusal(self) -> str:
        return str(self.delivery.last_refusal() or "")


class OttlaWriter:
    """The `Writer` to an ottla cluster."""

    def __init__(self, producer: ottla.Producer[Any, Any]) -> None:
        self._producer: Final = producer
        self.flush: Final = producer.flush
        self.init_transactions: Final = producer.init_transactions
        self.transaction: Final = producer.transaction

    def send(
        self, value: bytes | None, *, key: bytes, topic: str, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> ottla.Delivery:
        return self._producer.send(value, key=key, headers=headers, topic=topic)

    def send_batch(self, batch: SealedBatch, topic: str, partition: int, *, topic_id: TopicId | None) -> Outcome:
        delivery = self._producer.send_batch(batch, topic, partition, topic_id=topic_id)
        delivery.on_awaited()
        return BatchDelivery(delivery, batch.record_count)

    def check(self) -> None:
        """Do nothing: a producer of the SDK recovers by itself."""

    def send_offsets(self, offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata], member: Member) -> None:
        assert isinstance(member, OttlaMember)
        self._producer.send_offsets_to_transaction(offsets, member.consumer)

    def close(self) -> None:
        try:
            self._producer.close(_CLOSE_S)
        except ottla.OttlaError as error:
            logger.info("closing a writer before the target has all records: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OttlaLog:
    """The `Log` of an ottla cluster."""

    def __init__(self, bootstrap: Sequence[str], topic: str) -> None:
        reads: dict[str, Any] = {"start": "earliest", "auto_offset_reset": "earliest", "key": "bytes", "value": "bytes"}
        self._consumer: Final = ottla.Consumer[Any, Any](topic, bootstrap=list(bootstrap), **reads)
        self._partition: Final = TopicPartition(topic, 0)
        self.close: Final = self._consumer.close

    @property
    def position(self) -> int:
        return self._consumer.position(self._partition)

    def poll(self, timeout: float) -> Iterable[LogRecord]:
        return [LogRecord(r.key or b"", r.value or b"", r.headers) for r in self._consumer.poll(timeout)]


class OttlaAdmin:
    """The `Admin` of an ottla cluster."""

    def __init__(self, bootstrap: Sequence[str], name: str) -> None:
        self._admin: Final = open_admin(bootstrap, name)
        self._bootstrap: Final = bootstrap
        self._name: Final = name

    def topics(self) -> Mapping[str, int]:
        return {topic.name: len(topic.partitions) for topic in self._admin.topics.describe()}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
        self._admin.topics.create(name, partitions=partitions, replicas=replicas, config=config, if_exists="ok")

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.topics.add_partitions(name, total)

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return {
            topic: {name: e.value or "" for name, e in entries.items() if e.source == "DYNAMIC_TOPIC_CONFIG"}
            for topic, entries in self._admin.configs.of_topics(*topics).items()
        }

    def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None:
        if altered:
            self._admin.configs.set(altered, topic=topic)
        if removed := list(gone):
            self._admin.configs.unset(*removed, topic=topic)

    def end(self, topic: str, timeout: float) -> int:
        partition = TopicPartition(topic, 0)
        found = list_offsets(self._cluster, {partition: LATEST_TIMESTAMP}, timeout=timeout)[partition]
        return 0 if found is None else found.offset

    def topic_ids(self, names: Collection[str]) -> Mapping[str, TopicId]:
        return {t.name: TopicId(bytes.fromhex(t.id)) for t in self._admin.topics.describe() if t.name in names}

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(partitions, LATEST_TIMESTAMP)

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(partitions, EARLIEST_TIMESTAMP)

    def _offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = list_offsets(self._cluster, dict.fromkeys(partitions, timestamp), timeout=CALL_S)
        return {partition: 0 if at is None else at.offset for partition, at in found.items()}

    def groups(self, timeout: float) -> Sequence[str]:
        return [group.name for group in self._admin.groups.list(timeout=timeout)]

    def committed(self, group: str) -> Committed:
        return self._admin.groups.committed(group, if_missing="ok")

    def commit(self, group: str, offsets: Committed) -> None:
        self._admin.groups.commit(group, offsets)

    def close(self) -> None:
        self._admin.close()
        if "_cluster" in vars(self):
            self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @cached_property
    def _cluster(self) -> ClusterClient:
        return ClusterClient(bootstrap_addresses(list(self._bootstrap)), chosen_transport(self._name))


def open_admin(bootstrap: Sequence[str], name: str) -> ottla.Admin:
    """Open a client for what only an ottla cluster supports."""
    return ottla.Admin(list(bootstrap), client_id=name, request_timeout=CALL_S)
