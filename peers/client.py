"""What the tests ask of every Kafka client, whatever language it is written in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, Protocol

LIMIT_S: Final = 120.0
"""For every call: a client that has not done it by then fails."""

ADMIN_STEPS: Final = ("create", "describe", "partitions", "config", "list", "delete records", "delete")
"""What `admin_round_trip` does of a topic: the names by which a client says what it did."""


class Rec(NamedTuple):
    """A record as every client tells of it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000


End = Literal["commit", "abort"]
Step = Rec | Literal["begin"] | End
"""A step of a transactional producer."""
GroupProtocol = Literal["classic", "consumer"]
"""Kafka's `group.protocol`: members assign the partitions, or the coordinator does (KIP-848)."""


class GroupRec(NamedTuple):
    """A record as a member of a group tells of it."""

    partition: int
    offset: int
    value: bytes


class CommitError(Exception):
    """A member's commit was refused. The member goes on."""


class Member(Protocol):
    """A member of a group, which reads one topic until it is closed. It commits nothing without being told to, unless
    its client can't be told. In the classic protocol its session ends after 30 s without a heartbeat, and it sends one
    every 500 ms; in the consumer protocol the coordinator says both.

    Raises PeerError where it can't go on.
    """

    revoked: list[int]
    """Partitions that it was told to give up while it went on."""

    lost: list[int]
    """Partitions that it learned to have lost already, because the group had gone on without it."""

    def assignment(self) -> list[int]:
        """Partitions that it has now."""
        ...

    def records(self) -> list[GroupRec]:
        """All that it has read, in this order."""
        ...

    def commit(self) -> None:
        """How far it has read, and wait for it. Raises CommitError where that is refused."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Go on from there in one of its partitions."""
        ...

    def close(self) -> None:
        """Leave, unless it has an instance id, and end."""
        ...


class Client(Protocol):
    """One client, unchanged. Any exception is a failure; nothing is kept from one call to the next.

    Producers wait for their records at most LIMIT_S, send a batch within milliseconds of its first record, and take
    requests of 10 MB. They take records from the iterable one by one and send what they have while they wait for the
    next: tests stop a broker in the middle.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Iterable[Rec],
        *,
        acks: int = -1,
        codec: str = "none",
        idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        """The offset of each record, in their order; -1 for each with acks=0.

        `codec` is none, gzip, snappy, lz4 or zstd. With `partition=-1` the client chooses partitions by key.
        """
        ...

    def consume(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        offset: int = 0,
        partitions: int = 1,
        isolation: str = "read_uncommitted",
    ) -> list[Rec]:
        """So many records, from this offset on of each of the partitions from 0 on; without a group.

        `isolation` is Kafka's isolation.level.
        """
        ...

    def transact(self, bootstrap: str, topic: str, transactional_id: str, steps: Iterable[Step]) -> None:
        """Take over the id, then the steps one by one. Each is done before the next is taken, or its record on its way
        to partition 0.
        """
        ...

    def transform(
        self, bootstrap: str, source: str, topic: str, group: str, transactional_id: str, count: int, *, end: End
    ) -> None:
        """One transaction: so many records of `source`, whose one partition a new member of the group reads from where
        the group has committed, are written to partition 0 of `topic`, with its offsets. The member leaves then.
        """
        ...

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        """Return the offset of the first record in partition 0 at or after that time, or None if none exists."""
        ...

    def admin_round_trip(self, bootstrap: str, topic: str) -> list[str]:
        """Create the topic with 3 partitions, describe it, add partitions up to 5, set retention.ms=60000 and read it
        back, list topics, delete records before an offset, delete the topic. Says which of ADMIN_STEPS it could do.
        """
        ...

    def join(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        assignor: str = "range",
        instance: str | None = None,
        reset: str = "earliest",
        protocol: GroupProtocol = "classic",
    ) -> Member:
        """A member with that assignor alone. It returns before it is assigned anything.

        The assignor is range or cooperative-sticky in the classic protocol, and range or uniform in the consumer
        protocol. A topic that begins with ^ is a regular expression: the member reads all topics that match.
        """
        ...
