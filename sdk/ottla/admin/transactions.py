"""admin.transactions: which transactions are open, since when, and which of them block read_committed consumers; abort.

Here the coordinators' knowledge of transactional ids is combined with the leaders' knowledge of producers: a
transaction that is open in a partition and that no coordinator will end is a hanging transaction (KIP-664).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.admin import partition_producers, transaction_descriptions
from ottla.admin.configs import Configs
from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.group_info import ShardStatus
from ottla.admin.partition_producers import PartitionProducers
from ottla.admin.topics import leader_of, topic_in
from ottla.admin.transaction_info import (
    ONGOING,
    ActiveProducer,
    OpenTransaction,
    PartitionTransactions,
    TransactionInfo,
    TransactionSummary,
)
from ottla.client import transaction_requests
from ottla.client.coordinators import TRY_S, Coordinators
from ottla.client.list_offsets import list_offsets
from ottla.client.units import Duration, seconds
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.transaction import Assigned, PreparedTransaction, ProducerEpoch
from ottla_core.model import LATEST_TIMESTAMP, SHARD_TOPICS, TopicPartition
from ottla_core.routing import GROUP, TXN

_DESCRIBED_AT_ONCE: Final = 500
"""A txn-coordinator describes at most 1,000 transactions in one call (docs/design/limits.md)."""

_NO_PRODUCER: Final = -1
_MARKERS_WITHIN: Final = timedelta(minutes=5)
"""A broker of Kafka counts a transaction as late only this long after `transaction.max.timeout.ms` (KIP-664)."""

_TIMEOUT_MS: Final = 1
"""The transaction timeout of the producer that fences the others; it never sends."""

Summaries = list[TransactionSummary]
ShardStatuses = list[ShardStatus]


class Transactions:
    """The transactions of a cluster. `timeout` limits a whole method call; the default is request_timeout.

    If the transactional id does not exist, methods raise TRANSACTIONAL_ID_NOT_FOUND.
    """

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel: Final = channel
        self._coordinators: Final = Coordinators(channel.cluster, TXN)

    # ---- look -------------------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        states: Sequence[str] = (),
        prefix: str = "",
        pattern: str = "",
        longer_than: Duration | None = None,
        producer_ids: Collection[int] = (),
        timeout: Duration | None = None,
    ) -> Summaries:
        """Return all transactional ids by name. Arguments narrow the list: to `states` (Empty, Ongoing, PrepareCommit,
        PrepareAbort, CompleteCommit, CompleteAbort), ids that begin with `prefix`, ids that match `pattern` as a whole
        (RE2's syntax), transactions that are open for `longer_than`. Raises INVALID_REGULAR_EXPRESSION.

        The list is complete, or an error is raised: while a shard has no coordinator, or is loading, the call waits.
        """
        asked = transaction_descriptions.listing(
            states=states,
            prefix=prefix,
            pattern=pattern,
            producer_ids=producer_ids,
            longer_than_ms=0 if longer_than is None else int(1000 * seconds(longer_than, "longer_than")),
        )
        listings = self._coordinators.listed(asked, timeout=self._channel.deadline(timeout).left())
        found = {each.name: each for listing in listings for each in listing.found}
        return [found[name] for name in sorted(found)]

    def shards(self, *, timeout: Duration | None = None) -> ShardStatuses:
        """Return the state of each shard, by its number.

        While a shard is not served, none of its transactions can begin or end.
        """
        from ottla.admin.private_calls import shard_statuses

        return shard_statuses(self._channel, TXN, timeout)

    def describe(self, transactional_id: str, *, timeout: Duration | None = None) -> TransactionInfo:
        """Return the id's producer, its last transaction and its latest events."""
        asked = transaction_descriptions.description(transactional_id)
        return self._coordinators.exchange(transactional_id, asked, timeout=self._channel.deadline(timeout).left())

    def described(self, names: Collection[str], *, timeout: Duration | None = None) -> Mapping[str, TransactionInfo]:
        """Describe those of these ids that exist. Each request goes to the coordinator of its id.

        An id that is missing from the result does not exist or has been forgotten. Otherwise raises like `describe`.
        """
        left, found = set(names), dict[str, TransactionInfo]()
        deadline = self._channel.deadline(timeout)

        def once(left_s: float) -> None:
            by_coordinator: dict[str, list[str]] = {}
            for name, address in self._coordinators.of_all(sorted(left), timeout=left_s).items():
                by_coordinator.setdefault(address, []).append(name)
            for address, own in by_coordinator.items():
                for start in range(0, len(own), _DESCRIBED_AT_ONCE):
                    asked = transaction_descriptions.descriptions(own[start : start + _DESCRIBED_AT_ONCE])
                    try_s = min(deadline.left(), TRY_S)
                    for name, info in self._channel.cluster.exchange(address, asked, timeout=try_s).items():
                        left.discard(name)
                        if info is not None:
                            found[name] = info

        self._coordinators.retrying(once, timeout=deadline.left())
        return found

    def producers(self, topic: str, partition: int, *, timeout: Duration | None = None) -> tuple[ActiveProducer, ...]:
        """Return the idempotent producers that a partition knows, transactional or not, by their ids.

        Raises UnknownTopicError, ConfigError if the partition does not exist, and LEADER_NOT_AVAILABLE while it has no
        leader.
        """
        deadline = self._channel.deadline(timeout)
        (found,) = self._of_leaders(topic, [partition], deadline, open_only=False).values()
        return tuple(sorted(found.producers, key=lambda producer: producer.producer_id))

    def open_in(
        self, topic: str, partition: int | None = None, *, timeout: Duration | None = None
    ) -> tuple[PartitionTransactions, ...]:
        """Return the open transactions, with their ids, in a topic or one partition. Raises like `producers`."""
        deadline = self._channel.deadline(timeout)
        numbers = None if partition is None else [partition]
        opened = self._opened(topic, numbers, deadline)
        doubtful = [n for n, each in opened.items() if any(o.is_hanging for o in each.open)]
        if doubtful:  # it may have ended between the leader's response and the coordinator's
            again = self._of_leaders(topic, doubtful, deadline, open_only=True)
            oldest = None if self._lists_everything(deadline) else datetime.now(UTC) - self._longest(deadline)
            opened |= {n: _or_live(_still_open(opened[n], again[n]), oldest) for n in doubtful}
        return tuple(opened[n] for n in sorted(opened))

    def hanging(self, *topics: str, timeout: Duration | None = None) -> tuple[OpenTransaction, ...]:
        """Return the transactions that will stay open, in the partitions of `topics`, by default of all topics."""
        deadline = self._channel.deadline(timeout)
        view = self._channel.cluster.fetch_metadata(topics, all_topics=not topics, timeout=deadline.left())
        return tuple(
            found
            for topic in topics or sorted(view.topics)
            for partition in self.open_in(topic, timeout=deadline.left())
            for found in partition.open
            if found.is_hanging
        )

    # ---- change -----------------------------------------------------------------------------------------------------

    def abort(self, transactional_id: str, *, timeout: Duration | None = None) -> TransactionInfo:
        """Abort the open transaction of an id, even a prepared one, fence its producer, and return the transaction.

        Returns once the markers are written; for a prepared transaction, once the coordinator has decided to abort it.
        Raises INVALID_TXN_STATE if no transaction is open, or if its outcome has already been decided.
        """
        deadline = self._channel.deadline(timeout)
        found = self.describe(transactional_id, timeout=deadline.left())
        if found.state != ONGOING:
            raise error_from_code(
                ErrorCode.INVALID_TXN_STATE,
                f"{transactional_id} has no open transaction: its state is {found.state}",
                hint="no abort is needed; once the outcome is decided, the coordinator ends the transaction",
            )
        if found.is_prepared:  # only its own producer ends it
            current = Assigned(ProducerEpoch(found.producer_id, found.producer_epoch), found.version)
            end = transaction_requests.end(transactional_id, current, committed=False)
            self._coordinators.exchange(transactional_id, end, timeout=deadline.left())
        else:
            init = transaction_requests.initialization(transactional_id, _TIMEOUT_MS)
            self._coordinators.exchange(transactional_id, init, timeout=deadline.left())
        return found

    def end(self, prepared: PreparedTransaction, *, committed: bool, timeout: Duration | None = None) -> None:
        """Commit or abort a prepared transaction, from any process. Repeating the same decision changes nothing.

        Returns once the outcome is decided. Raises INVALID_TXN_STATE if the transaction has ended the other way, and
        PRODUCER_FENCED or INVALID_PRODUCER_ID_MAPPING if its id now has another producer, or has been forgotten.
        """
        current = Assigned(ProducerEpoch(prepared.producer_id, prepared.epoch))
        asked = transaction_requests.end(prepared.transactional_id, current, committed=committed)
        left_s = self._channel.deadline(timeout).left()
        self._coordinators.exchange(prepared.transactional_id, asked, timeout=left_s)

    def forget(self, transactional_id: str, *, timeout: Duration | None = None) -> None:
        """Delete an id from its coordinator's log, once its last transaction is over. An unknown id is not an error.

        The coordinators need `transaction_two_phase_commit_enable`. Raises INVALID_TXN_STATE if a transaction is open.
        """
        from ottla.client.prepared_transactions import forgetting

        deadline = self._channel.deadline(timeout)
        try:
            found = self.describe(transactional_id, timeout=deadline.left())
        except OttlaError as error:
            if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return
            raise
        asked = forgetting(transactional_id, ProducerEpoch(found.producer_id, found.producer_epoch))
        self._coordinators.exchange(transactional_id, asked, timeout=deadline.left())

    def abort_hanging(
        self, topic: str, partition: int, *, first_offset: int, timeout: Duration | None = None
    ) -> OpenTransaction:
        """Abort and return the hanging transaction that begins at `first_offset` in a partition.

        Raises INVALID_TXN_STATE if the transaction is not hanging, because its coordinator may still decide otherwise.
        In a cluster of Apache Kafka, a transaction counts as hanging only once its producer has written nothing for
        transaction.max.timeout.ms plus five minutes. Otherwise raises like `producers`.
        """
        deadline = self._channel.deadline(timeout)
        (opened,) = self.open_in(topic, partition, timeout=deadline.left())
        found = next((each for each in opened.open if each.first_offset == first_offset), None)
        if found is None:
            raise error_from_code(
                ErrorCode.INVALID_TXN_STATE,
                f"no open transaction in {opened.partition} begins at offset {first_offset}",
                hint="the transaction may have ended in the meantime",
            )
        if not found.is_hanging:
            raise _not_hanging(found)
        self._channel.retried(lambda: self._write_marker(found, deadline), deadline)
        return found

    # ---- the steps --------------------------------------------------------------------------------------------------

    def _opened(
        self, topic: str, numbers: Sequence[int] | None, deadline: Deadline
    ) -> dict[int, PartitionTransactions]:
        by_leaders = self._of_leaders(topic, numbers, deadline, open_only=True)
        holders = self._holders({p.producer_id for each in by_leaders.values() for p in each.producers}, deadline)
        return {n: _transactions_of(TopicPartition(topic, n), each, holders) for n, each in by_leaders.items()}

    def _of_leaders(
        self, topic: str, numbers: Sequence[int] | None, deadline: Deadline, *, open_only: bool
    ) -> dict[int, PartitionProducers]:
        """Return what the leaders of these partitions know; None: of all partitions."""
        cluster = self._channel.cluster

        def attempt() -> dict[int, PartitionProducers]:
            view = cluster.fetch_metadata([topic], timeout=deadline.left())
            found = topic_in(self._channel, view, topic)
            by_leader: dict[str, list[int]] = {}
            for number in range(len(found.partitions)) if numbers is None else numbers:
                by_leader.setdefault(leader_of(view, found, number), []).append(number)
            known: dict[int, PartitionProducers] = {}
            for address, led in by_leader.items():
                asked = partition_producers.description(topic, led, open_only=open_only)
                found_there = cluster.exchange(address, asked, timeout=deadline.left())
                known |= found_there
            return known

        known = self._channel.retried(attempt, deadline)
        lacking = [number for number, found in known.items() if open_only and found.high_watermark < 0]
        return known | self._with_ends(topic, {number: known[number] for number in lacking}, deadline)

    def _with_ends(
        self, topic: str, lacking: Mapping[int, PartitionProducers], deadline: Deadline
    ) -> dict[int, PartitionProducers]:
        """Look up how far readers may read. Kafka's brokers do not say it with the producers."""
        cluster = self._channel.cluster
        wanted = {TopicPartition(topic, number): LATEST_TIMESTAMP for number in lacking}
        # The ends come first. If an end moved on between the two calls, the partition would otherwise look blocked.
        ends = list_offsets(cluster, wanted, timeout=deadline.left())
        stable = list_offsets(cluster, wanted, timeout=deadline.left(), read_committed=True)
        found = dict(lacking)
        for number in lacking:
            end, stable_end = ends[TopicPartition(topic, number)], stable[TopicPartition(topic, number)]
            if end is not None and stable_end is not None:
                high_watermark = max(end.offset, stable_end.offset)
                found[number] = found[number]._replace(
                    high_watermark=high_watermark, last_stable_offset=stable_end.offset
                )
        return found

    def _holders(self, producer_ids: Collection[int], deadline: Deadline) -> dict[int, TransactionInfo]:
        """Return the transactions of these producers, by producer id."""
        found = self.list(producer_ids=sorted(producer_ids), timeout=deadline.left()) if producer_ids else []
        described = self.described([each.name for each in found], timeout=deadline.left())
        return {each.producer_id: each for each in described.values()}

    def _lists_everything(self, deadline: Deadline) -> bool:
        """Return whether the coordinators prove that their listings are complete, as ottla's do."""
        asked = transaction_descriptions.listing(producer_ids=[_NO_PRODUCER])
        return any(each.shard_count for each in self._coordinators.listed(asked, timeout=deadline.left()))

    def _longest(self, deadline: Deadline) -> timedelta:
        """Return how long a producer may write nothing before its open transaction counts as late."""
        broker = min(self._channel.cluster.view.brokers)
        config = Configs(self._channel).get(broker=broker, timeout=deadline.left())["transaction.max.timeout.ms"]
        return timedelta(milliseconds=int(config.value or 0)) + _MARKERS_WITHIN

    def _write_marker(self, hanging: OpenTransaction, deadline: Deadline) -> None:
        """Write an abort marker. In a shard of groups only the owner of the shard may do that."""
        if hanging.partition.topic == SHARD_TOPICS[GROUP]:
            try:
                self._write_by_owner(hanging, deadline)
            except OttlaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:  # as in clusters of Apache Kafka, which have no shards
                    raise
            else:
                return
        self._write_by_leader(hanging, deadline)

    def _write_by_owner(self, hanging: OpenTransaction, deadline: Deadline) -> None:
        from ottla.admin.private_calls import abort_marker

        asked = abort_marker(hanging.partition.partition, hanging.producer, int(1000 * deadline.left()))
        self._channel.cluster.exchange_any(asked, timeout=deadline.left())

    def _write_by_leader(self, hanging: OpenTransaction, deadline: Deadline) -> None:
        cluster, at = self._channel.cluster, hanging.partition
        view = cluster.fetch_metadata([at.topic], timeout=deadline.left())
        leader = leader_of(view, topic_in(self._channel, view, at.topic), at.partition)
        asked = partition_producers.abort_marker(at, hanging.producer)
        cluster.exchange(leader, asked, timeout=deadline.left())


def _transactions_of(
    partition: TopicPartition, found: PartitionProducers, holders: Mapping[int, TransactionInfo]
) -> PartitionTransactions:
    began = ((producer.first_offset, producer) for producer in found.producers if producer.first_offset is not None)
    opened = (
        OpenTransaction(partition, first_offset, producer, holders.get(producer.producer_id))
        for first_offset, producer in sorted(began, key=lambda each: each[0])
    )
    return PartitionTransactions(partition, found.high_watermark, found.last_stable_offset, tuple(opened))


def _or_live(found: PartitionTransactions, oldest: datetime | None) -> PartitionTransactions:
    """Note which of the transactions that seem to hang may be live: those that were written to since `oldest`."""
    if oldest is None:
        return found

    def may_be_live(each: OpenTransaction) -> bool:
        written_at = each.producer.last_written_at
        return each.is_hanging and (written_at is None or written_at > oldest)

    return replace(found, open=tuple(replace(each, may_be_live=may_be_live(each)) for each in found.open))


def _not_hanging(found: OpenTransaction) -> OttlaError:
    which = f"the transaction at offset {found.first_offset} of {found.partition}"
    if found.may_be_live or found.transaction is None:
        return error_from_code(
            ErrorCode.INVALID_TXN_STATE,
            f"{which} may be live: no coordinator names it, but Kafka's listings may be incomplete",
            hint="try again once its producer has written nothing for transaction.max.timeout.ms plus 5 minutes",
        )
    return error_from_code(
        ErrorCode.INVALID_TXN_STATE,
        f"{which} is not hanging: the state of {found.transaction.name} is {found.transaction.state}",
        hint="abort the transaction by its transactional id",
    )


def _still_open(before: PartitionTransactions, now: PartitionProducers) -> PartitionTransactions:
    """Leave out transactions that looked as if they hung, but have ended meanwhile."""
    left = {(p.producer_id, p.first_offset) for p in now.producers}
    opened = (o for o in before.open if not o.is_hanging or (o.producer.producer_id, o.first_offset) in left)
    return replace(
        before,
        high_watermark=now.high_watermark,
        last_stable_offset=now.last_stable_offset,
        open=tuple(opened),
    )
