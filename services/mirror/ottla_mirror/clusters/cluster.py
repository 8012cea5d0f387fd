"""These protocols say what a mirror needs of a cluster of either kind, as source or as target.

A mirror copies between ottla clusters, and between ottla and another Kafka. All of its rules would have to be written
twice if they knew the difference. So they know these protocols only, and each kind of cluster has one implementation.
The protocols are small on purpose: what only ottla can do (a write that names a topic id, static membership by name) is
an argument that another Kafka's client ignores, and the difference is said where it matters.

Methods raise `ottla.OttlaError` with Kafka's error code: ConnectError or TimeoutError when the cluster is away. An
offset is that of the next record, unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol, Self

from ottla import OffsetAndMetadata
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.builder import SealedBatch
from ottla_mirror.machines.copying import Fetched
from ottla_mirror.machines.load_plan import Rates
from ottla_mirror.machines.progress import Outcome, Reading

CALL_S: Final = 10.0
"""A cluster counts as away if it does not answer for this long."""

DELIVERY_S: Final = 24 * 3600.0
"""A writer waits this long for a target that is away. Giving up earlier would copy the batches in flight twice."""

TRANSACTION_S: Final = 15.0
"""If a mirror dies, its open transaction blocks readers of the copies, and its successor, for this long."""

Committed = Mapping[TopicPartition, int]


class LogRecord(NamedTuple):
    """A log record is in one of a mirror's own topics. Only a tombstone has an empty `value`."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


class FetchedBlock(Fetched, Protocol):
    """A block has whole batches of one partition, like `ottla.connect.FetchedBatches`."""

    @property
    def partition(self) -> TopicPartition: ...


class Reader(Protocol):
    """A reader fetches batches of the source's partitions: `ottla.connect.BatchReader` documents its methods."""

    def assign(
        self, partition: TopicPartition, offset: int | None = None, *, leader_epoch: int = -1, topic_id: TopicId | None
    ) -> None: ...
    def unassign(self, partition: TopicPartition) -> None: ...
    def positions(self) -> Mapping[TopicPartition, Reading]: ...
    def poll(self, timeout: float) -> FetchedBlock | None: ...
    def close(self) -> None: ...


class Sent(Protocol):
    """A record was sent, and may not be acknowledged yet."""

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the record is written. Raises the error that prevents it."""


class Transaction(AbstractContextManager["Transaction"], Protocol):
    """The transaction is committed at the end of the `with` block. If it is `aborted`, nothing of it counts, and it may
    be tried again."""

    @property
    def aborted(self) -> bool: ...


class Member(Protocol):
    """A member of the flow's group is assigned copies in the target, but reads no records from them. For one thread.

    In an ottla cluster it is a static member, known by the mirror's name: the group keeps its partitions for it until
    its session expires or it calls `leave`, even after it is closed. In another Kafka it leaves when it is closed.
    """

    def poll(self, timeout: float) -> None:
        """Take part in the group, for up to `timeout` seconds. It calls back about partitions that come and go."""

    def committed(self, copies: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata | None]: ...
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...

    def rebalance(self) -> None:
        """Have the group reassign the copies by the current loads, if its assignor uses loads."""

    def is_replaced(self) -> bool:
        """Tell whether another mirror of that name has replaced it in the group. Raises if the cluster is away."""

    def leave(self) -> None:
        """Tell the group, after closing, that this member won't come back. Never raises."""


class GroupEvents(NamedTuple):
    """A member calls these in `poll`: `given` with assigned copies, and `gone` with revoked ones, whose second argument
    says whether they were lost. `rates` returns its load by partition, for an assignor that uses loads."""

    given: Callable[[Member, Sequence[TopicPartition]], None]
    gone: Callable[[Sequence[TopicPartition], bool], None]
    rates: Callable[[], Rates] = dict


class Writer(Protocol):
    """Writes to the target, in order and without repeats. For one thread."""

    def send(
        self, value: bytes | None, *, key: bytes, topic: str, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> Sent: ...
    def send_batch(self, batch: SealedBatch, topic: str, partition: int, *, topic_id: TopicId | None) -> Outcome:
        """Send a batch. With a `topic_id`, an ottla cluster takes it only if the topic of that name has that id;
        otherwise the outcome is UNKNOWN_TOPIC_ID. Another Kafka's clients write by name alone."""

    def check(self) -> None:
        """Raise the error after which this writer can't write any more, so that a new writer is needed."""

    def flush(self, timeout: float) -> None:
        """Wait until everything that was sent is written. Raises the error of any failed record whose outcome is not
        awaited."""

    def init_transactions(self) -> None: ...
    def transaction(self) -> Transaction: ...
    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Member) -> None: ...

    def close(self) -> None:
        """Close the writer within seconds. The caller flushes what must reach the target before that."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Log(Protocol):
    """A log reads one of a mirror's own one-partition topics from its beginning: committed records only."""

    @property
    def position(self) -> int: ...
    def poll(self, timeout: float) -> Iterable[LogRecord]: ...
    def close(self) -> None: ...


class Admin(Protocol):
    """Topics, configs and groups. Thread-safe."""

    def topics(self) -> Mapping[str, int]:
        """Return the topics' numbers of partitions by name, without internal topics."""

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
        """Create a topic, unless it exists."""

    def add_partitions(self, name: str, total: int) -> None: ...

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the configs that are set on each topic itself. Topics that do not exist are left out."""

    def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None: ...

    def end(self, topic: str, timeout: float) -> int:
        """Return the end of the topic's only partition, open transactions included.

        A reader of committed records gets there once they are decided.
        """

    def topic_ids(self, names: Collection[str]) -> Mapping[str, TopicId]:
        """Return the ids of the topics that exist. A topic that was created again has a new id (KIP-516)."""

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the end offsets of partitions. Raises if one does not exist."""

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the log start offsets of partitions. Raises if one does not exist."""

    def groups(self, timeout: float) -> Sequence[str]: ...

    def committed(self, group: str) -> Committed:
        """Return the group's committed offsets: none if the group does not exist."""

    def commit(self, group: str, offsets: Committed) -> None:
        """Commit for a group. Raises NON_EMPTY_GROUP while it has members."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Cluster(Protocol):
    """Opens clients of one cluster. `name` is a client's own in the cluster's logs and quotas."""

    def open_admin(self, name: str) -> Admin: ...
    def open_reader(self, name: str) -> Reader: ...
    def open_writer(
        self, name: str, *, transactional_id: str | None = None, delivery_s: float = DELIVERY_S
    ) -> Writer: ...
    def open_member(
        self, name: str, group: str, pattern: str, session_s: float, events: GroupEvents
    ) -> AbstractContextManager[Member]: ...
    def open_log(self, topic: str) -> Log: ...
