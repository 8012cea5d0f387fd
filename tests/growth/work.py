"""Units of work: each does a little of everything that a cluster is used for, and ends it.

Some clients stay for as long as the cluster is measured: a transactional producer, readers of one of two topics, a
member of a group. The other topic has no reader. All other clients, topics, groups and ids of a unit are its own and
are gone when it returns, or are left behind on purpose, as a client leaves them that dies.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from tests.fuzz.kafka_wire import KafkaWire
from tests.growth.aborted import AbortedError
from tests.growth.cluster import GrowthCluster
from tests.growth.mirrored_work import READ, MirroredWork
from tests.growth.roles import IDLE_TOPIC

import ottla
from ottla_core.model import TopicPartition

UNREAD: Final = "unread"
COMPACTED: Final = "compacted"
PARTITIONS: Final = 3
FETCH_VERSION: Final = 12

TIMES: Final[Mapping[str, int]] = MappingProxyType({"commit": 3, "abort": 3, "producer": 2, "session": 2, "keys": 2})
"""How often a unit does what is cheap; everything else once."""


class Work:
    """The clients that stay, and the units. `done` counts what was carried out, by kind."""

    def __init__(self, cluster: GrowthCluster, seed: int) -> None:
        self.done: Final = Counter[str]()
        self.producer: ottla.Producer[Any, Any]
        self.readers: list[ottla.Consumer[Any, Any]] = []
        self.admin: ottla.Admin
        self.mirrored: MirroredWork
        self._cluster: Final = cluster
        self._random: Final = random.Random(seed)
        self._numbers: Final = itertools.count()
        self._open: Final = ExitStack()

    def __enter__(self) -> Self:
        bootstrap = self._cluster.bootstrap
        self.admin = self._open.enter_context(ottla.Admin(bootstrap))
        for topic in (READ, UNREAD, IDLE_TOPIC):
            self.admin.topics.create(topic, partitions=PARTITIONS)
        self.admin.topics.create(COMPACTED, partitions=1, config={"cleanup.policy": "compact"})
        self.producer = self._open.enter_context(
            ottla.Producer(
                bootstrap,
                transactional_id="steady",
                linger=0,
                value="bytes",
                key="bytes",
                metadata_max_idle=1,
                metadata_max_age=1,
            )
        )
        for isolation in ("read_committed", "read_uncommitted"):
            self.readers.append(
                self._open.enter_context(
                    ottla.Consumer(READ, bootstrap=bootstrap, start="earliest", isolation_level=isolation)
                )
            )
        self.readers.append(
            self._open.enter_context(
                ottla.Consumer(pattern="t-.*|read", bootstrap=bootstrap, group="steady", auto_offset_reset="earliest")
            )
        )
        self.mirrored = self._open.enter_context(MirroredWork(self._cluster, self.admin, self.producer, self._random))
        self.nudge()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def unit(self) -> None:
        """One of each kind, in a random order."""
        kinds = [kind for kind in KINDS for _ in range(TIMES.get(kind, 1))]
        self._random.shuffle(kinds)
        for kind in kinds:
            KINDS[kind](self, f"{next(self._numbers):06d}")
            self.done[kind] += 1
        self.read()

    def finish(self) -> None:
        """End what the units have begun and not ended."""
        self.mirrored.finish()

    @property
    def clients(self) -> list[tuple[str, object]]:
        """Those that stay, by name."""
        readers = [(f"consumer {number}", reader) for number, reader in enumerate(self.readers)]
        return [("admin", self.admin), ("producer", self.producer), *readers, *self.mirrored.clients]

    def stay(self) -> None:
        """Use the transactional id that stays, so that the time that passes next is all that it has been idle."""
        with self.producer.transaction() as transaction:
            transaction.send(b"nudge", key=b"one of few", topic=COMPACTED)

    def nudge(self) -> None:
        """A record for each partition that stays, by which old segments are closed."""
        with self.producer.transaction() as transaction:
            for topic in (READ, UNREAD):
                for number in range(PARTITIONS):
                    transaction.send(b"nudge", topic=topic, partition=number)
            transaction.send(b"nudge", key=b"one of few", topic=COMPACTED)
        self.mirrored.nudge()
        self.read()

    def read(self) -> None:
        """Let those who stay read what is there."""
        for reader in self.readers:
            reader.poll(timeout=0.01)

    # ---- transactions and producers --------------------------------------------------------------------------------

    def _send_to_both(self, producer: Any, value: str) -> None:
        for topic in (READ, UNREAD):
            producer.send(value.encode(), topic=topic)

    def _commit(self, name: str) -> None:
        with self.producer.transaction() as transaction:
            self._send_to_both(transaction, name)

    def _abort(self, name: str) -> None:
        with suppress(AbortedError), self.producer.transaction() as transaction:
            self._send_to_both(transaction, name)
            self.producer.flush()
            raise AbortedError

    def _transactional_id(self, name: str) -> None:
        with ottla.Producer(
            self._cluster.bootstrap, transactional_id=f"id-{name}", linger=0, value="bytes"
        ) as producer:
            with producer.transaction() as transaction:
                self._send_to_both(transaction, name)
            with suppress(AbortedError), producer.transaction() as transaction:
                self._send_to_both(transaction, name)
                producer.flush()
                raise AbortedError

    def _left_open(self, name: str) -> None:
        """A producer dies in a transaction, and its successor of that id has it aborted."""
        for _ in range(2):
            producer = ottla.Producer(self._cluster.bootstrap, transactional_id=f"id-{name}", linger=0, value="bytes")
            transaction = producer.transaction().__enter__()
            self._send_to_both(transaction, name)
            producer.flush()
        producer.close()

    def _producer(self, name: str) -> None:
        with ottla.Producer(self._cluster.bootstrap, client_id=f"client-{name}", linger=0, value="bytes") as producer:
            self._send_to_both(producer, name)

    # ---- topics ----------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> None:
        topic = f"t-{name}"
        policy = ("delete", "compact")[self.done["topic"] % 2]
        self.admin.topics.create(topic, partitions=2, config={"cleanup.policy": policy})
        with self.producer.transaction() as transaction:
            transaction.send(name.encode(), key=name.encode(), topic=topic)
        self.admin.topics.add_partitions(topic, 3)
        self.admin.topics.delete(topic)

    def _keys(self, name: str) -> None:
        with self.producer.transaction() as transaction:
            transaction.send(name.encode(), key=b"one of few", topic=COMPACTED)
            transaction.send(None, key=name.encode(), topic=COMPACTED)

    def _deleted_records(self, name: str) -> None:
        self.admin.topics.delete_records(UNREAD)

    def _configs(self, name: str) -> None:
        self.admin.configs.set({"max.message.bytes": 1_000_000 + int(name)}, topic=IDLE_TOPIC)
        self.admin.configs.unset("max.message.bytes", topic=IDLE_TOPIC)

    def _election(self, name: str) -> None:
        self.admin.partitions.elect_leaders()

    # ---- groups ----------------------------------------------------------------------------------------------------

    def _group(self, name: str) -> None:
        group = f"g-{name}"
        with ottla.Consumer(
            READ, bootstrap=self._cluster.bootstrap, group=group, auto_offset_reset="earliest", commit="manual"
        ) as consumer:
            consumer.poll(timeout=1)
            consumer.commit()
        self.admin.groups.commit(group, {TopicPartition(READ, 0): 0})  # a member may not have got so far in time
        if self.done["group"] % 2:
            self.admin.groups.delete(group)  # the others expire

    def _member(self, name: str) -> None:
        """It joins a group that stays, and leaves it."""
        with ottla.Consumer(
            UNREAD, bootstrap=self._cluster.bootstrap, group="coming and going", client_id=f"client-{name}"
        ) as consumer:
            consumer.poll(timeout=0.2)

    def _offsets_in_transaction(self, name: str) -> None:
        group = f"o-{name}"
        self.admin.groups.commit(group, {TopicPartition(READ, 0): 0})
        with self.producer.transaction() as transaction:
            self._send_to_both(transaction, name)
            self.producer.send_offsets_to_transaction(
                {TopicPartition(READ, 0): 1}, ottla.GroupMetadata(group, -1, "", None)
            )

    # ---- mirrors ---------------------------------------------------------------------------------------------------

    def _copied_topic(self, name: str) -> None:
        self.mirrored.copy_topic(name)

    def _paused_flow(self, name: str) -> None:
        self.mirrored.pause()

    def _planned_failover(self, name: str) -> None:
        self.mirrored.plan_failover()

    # ---- connections -----------------------------------------------------------------------------------------------

    def _session(self, name: str) -> None:
        """A client opens a fetch session, and is gone without a word."""
        broker = self._random.choice(self._cluster.brokers)
        with KafkaWire(broker.kafka_address) as wire:
            asked = MetadataRequest.MetadataRequestTopic(name=f"nobody-{name}")
            wire.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 4, MetadataResponse)
            wire.ask(_fetch(READ), FETCH_VERSION, FetchResponse)


KINDS: Final[Mapping[str, Callable[[Work, str], None]]] = MappingProxyType(
    {
        "commit": Work._commit,
        "abort": Work._abort,
        "id": Work._transactional_id,
        "left open": Work._left_open,
        "producer": Work._producer,
        "topic": Work._topic,
        "group": Work._group,
        "member": Work._member,
        "offsets": Work._offsets_in_transaction,
        "keys": Work._keys,
        "deleted records": Work._deleted_records,
        "session": Work._session,
        "configs": Work._configs,
        "election": Work._election,
        "copied topic": Work._copied_topic,
        "paused flow": Work._paused_flow,
        "planned failover": Work._planned_failover,
    }
)
"""What a unit is made of, by name."""


def _fetch(topic: str) -> FetchRequest:
    asked = FetchRequest.FetchTopic
    parts = [
        asked.FetchPartition(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1024,
        )
        for number in range(PARTITIONS)
    ]
    return FetchRequest(
        version=FETCH_VERSION,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1024,
        isolation_level=0,
        session_id=0,
        session_epoch=0,
        topics=[asked(topic=topic, partitions=parts)],
        forgotten_topics_data=[],
        rack_id="",
    )
