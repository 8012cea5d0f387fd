"""What a mirror needs of a cluster, as source or as target, whichever kind it is.

Each of these raises `ottla.OttlaError`, with Kafka's code: ConnectError or TimeoutError where the cluster is away.
Offsets are those of the next record, unless it is called otherwise.
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
"""How long a cluster may take to answer before it is said to be away."""

DELIVERY_S: Final = 24 * 3600.0
"""An outage of the target is waited for."""

TRANSACTION_S: Final = 15.0
"""A transaction of a mirror that has died holds up readers of the copies, and its successor, for so long."""

Committed = Mapping[TopicPartition, int]


class LogRecord(NamedTuple):
    """Of one of a mirror's own topics."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


class FetchedBlock(Fetched, Protocol):
    """Whole batches of one partition, as `ottla.connect.FetchedBatches`."""

    @property
    def partition(self) -> TopicPartition: ...


class Reader(Protocol):
    """The source's partitions, in batches, as `ottla.connect.BatchReader`: it says what is read from where."""

    def assign(
        self, partition: TopicPartition, offset: int | None = None, *, leader_epoch: int = -1, topic_id: TopicId | None
    ) -> None: ...
    def unassign(self, partition: TopicPartition) -> None: ...
    def positions(self) -> Mapping[TopicPartition, Reading]: ...
    def poll(self, timeout: float) -> FetchedBlock | None: ...
    def close(self) -> None: ...


class Sent(Protocol):
    """A record on its way."""

    def result(self, timeout: float | None = None) -> Any:
        """Wait until it is there. Raises what keeps it from that."""


class Transaction(AbstractContextManager["Transaction"], Protocol):
    """Committed at the block's end. `aborted`: nothing of it counts, and the same may be tried again."""

    @property
    def aborted(self) -> bool: ...


class Member(Protocol):
    """Of the flow's group in the target; it is given copies, and reads nothing of them. For one thread."""

    def poll(self, timeout: float) -> None:
        """Take part in the group, for up to `timeout` seconds; calls back about partitions that come and go."""

    def committed(self, copies: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata | None]: ...
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...

    def rebalance(self) -> None:
        """Have the copies shared anew, by what is known now; nothing, where the group's assignor knows no loads."""


class GroupEvents(NamedTuple):
    """What a member calls back, in `poll`: about the copies that it is given, and those that go, `lost` or in order.
    `rates` says how busy it is with each, as far as the group's assignor takes that into account."""

    given: Callable[[Member, Sequence[TopicPartition]], None]
    gone: Callable[[Sequence[TopicPartition], bool], None]
    rates: Callable[[], Rates] = dict


class Writer(Protocol):
    """Writes to the target, in order and without repeats. For one thread."""

    def send(
        self, value: bytes, *, key: bytes, topic: str, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> Sent: ...
    def send_batch(self, batch: SealedBatch, topic: str, partition: int) -> Outcome: ...

    def check(self) -> None:
        """Raises what nothing can be written any more for: another writer is needed."""

    def flush(self, timeout: float) -> None:
        """Wait until all is there that was sent. Raises what kept records from it whose outcome is not awaited."""

    def init_transactions(self) -> None: ...
    def transaction(self) -> Transaction: ...
    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Member) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Log(Protocol):
    """One of a mirror's own topics, which have one partition, from its beginning; committed records only."""

    @property
    def position(self) -> int: ...
    def poll(self, timeout: float) -> Iterable[LogRecord]: ...
    def close(self) -> None: ...


class Admin(Protocol):
    """Topics, configs and groups. Thread-safe."""

    def topics(self) -> Mapping[str, int]:
        """The numbers of partitions, by name, without internal topics."""

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
        """Does nothing where it is there."""

    def add_partitions(self, name: str, total: int) -> None: ...

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """What is set for each topic itself; those that have gone are left out."""

    def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None: ...

    def end(self, topic: str, timeout: float) -> int:
        """The end of its only partition, open transactions included: a reader of committed records gets there once
        they are decided."""

    def topic_ids(self, names: Collection[str]) -> Mapping[str, bytes]:
        """Of those that are there: another one where a topic was created again (KIP-516)."""

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Their end offsets. Raises where one is not there."""

    def groups(self, timeout: float) -> Sequence[str]: ...

    def committed(self, group: str) -> Committed:
        """Nothing for a group that is not there."""

    def commit(self, group: str, offsets: Committed) -> None:
        """Raises NON_EMPTY_GROUP while it has members."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Cluster(Protocol):
    """Opens clients of one cluster; `name` is a client's own in the cluster's logs and quotas."""

    def open_admin(self, name: str) -> Admin: ...
    def open_reader(self, name: str) -> Reader: ...
    def open_writer(
        self, name: str, *, transactional_id: str | None = None, delivery_s: float = DELIVERY_S
    ) -> Writer: ...
    def open_member(
        self, name: str, group: str, pattern: str, session_s: float, events: GroupEvents
    ) -> AbstractContextManager[Member]: ...
    def open_log(self, topic: str) -> Log: ...
