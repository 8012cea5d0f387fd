"""admin.transactions: which transactions are open, since when, and which of them block read_committed consumers; abort.

Here the coordinators' knowledge of transactional ids is combined with the leaders' knowledge of producers: a
transaction that is open in a partition and that no coordinator will end is a hanging transaction (KIP-664).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.admin.configs import Configs
from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.group_info import ShardStatus
from ottla.admin.shard_statuses import shard_statuses
from ottla.admin.topics import leader_of, raise_in_band, topic_in
from ottla.admin.transaction_info import (
    ONGOING,
    ActiveProducer,
    OpenTransaction,
    PartitionTransactions,
    TransactionInfo,
    TransactionSummary,
    info_of,
    producer_of,
    summary_of,
)
from ottla.client.coordinators import TRY_S, Coordinators
from ottla.client.list_offsets import list_offsets
from ottla.client.units import Duration, seconds
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.transaction import PreparedTransaction
from ottla_core.model import LATEST_TIMESTAMP, SHARD_TOPICS, TopicPartition
from ottla_core.routing import GROUP, TXN
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto import broker_pb2, client_pb2, group_pb2
from ottla_proto import txn_pb2 as pb
from ottla_proto.client_calls import Client
from ottla_proto.common_pb2 import TxnMarker, TxnProducer
from ottla_proto.contracts import Broker, Group, Txn

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
        request = pb.ListTransactionsRequest(
            states=states,
            prefix=prefix,
            pattern=pattern,
            producer_ids=producer_ids,
            longer_than_ms=0 if longer_than is None else int(1000 * seconds(longer_than, "longer_than")),
        )
        left_s = self._channel.deadline(timeout).left()
        found: dict[str, TransactionSummary] = {}
        for response in self._coordinators.listed(Txn.LIST_TRANSACTIONS, request, timeout=left_s):
            if response.unknown_states:
                unknown = ", ".join(response.unknown_states)
                raise error_from_code(ErrorCode.INVALID_REQUEST, f"unknown transaction state: {unknown}")
            found |= {listed.transactional_id: summary_of(listed) for listed in response.transactions}
        return [found[name] for name in sorted(found)]

    def shards(self, *, timeout: Duration | None = None) -> ShardStatuses:
        """Return the state of each shard, by its number.

        While a shard is not served, none of its transactions can begin or end.
        """
        return shard_statuses(self._channel, TXN, Txn.SHARDS, timeout)

    def describe(self, transactional_id: str, *, timeout: Duration | None = None) -> TransactionInfo:
        """Return the id's producer, its last transaction and its latest events."""

        def check(response: pb.DescribeTransactionsResponse, repeated: bool) -> None:
            raise_in_band(response.transactions[0].error)

        request = pb.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        left_s = self._channel.deadline(timeout).left()
        response = self._coordinators.call(
            transactional_id, Txn.DESCRIBE_TRANSACTIONS, request, timeout=left_s, check=check
        )
        return info_of(response.transactions[0])

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
                    request = pb.DescribeTransactionsRequest(transactional_ids=own[start : start + _DESCRIBED_AT_ONCE])
                    try_s = min(deadline.left(), TRY_S)
                    response = self._channel.cluster.call(address, Txn.DESCRIBE_TRANSACTIONS, request, timeout=try_s)
                    for described in response.transactions:
                        if described.error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                            raise_in_band(described.error)
                            found[described.transactional_id] = info_of(described)
                        left.discard(described.transactional_id)

        self._coordinators.retrying(once, timeout=deadline.left())
        return found

    def producers(self, topic: str, partition: int, *, timeout: Duration | None = None) -> tuple[ActiveProducer, ...]:
        """Return the idempotent producers that a partition knows, transactional or not, by their ids.

        Raises UnknownTopicError, ConfigError if the partition does not exist, and LEADER_NOT_AVAILABLE while it has no
        leader.
        """
        deadline = self._channel.deadline(timeout)
        (found,) = self._of_leaders(topic, [partition], deadline, open_only=False).values()
        return tuple(sorted(map(producer_of, found.producers), key=lambda producer: producer.producer_id))

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
        producer = TxnProducer(id=found.producer_id, epoch=found.producer_epoch)
        if found.is_prepared:  # only its own producer ends it
            end = pb.EndTxnRequest(
                transactional_id=transactional_id, producer=producer, transaction_version=found.version
            )
            self._coordinators.call(transactional_id, Txn.END_TXN, end, timeout=deadline.left())
        else:
            init = pb.InitProducerRequest(transactional_id=transactional_id, timeout_ms=_TIMEOUT_MS)
            self._coordinators.call(transactional_id, Txn.INIT_PRODUCER, init, timeout=deadline.left())
        return found

    def end(self, prepared: PreparedTransaction, *, committed: bool, timeout: Duration | None = None) -> None:
        """Commit or abort a prepared transaction, from any process. Repeating the same decision changes nothing.

        Returns once the outcome is decided. Raises INVALID_TXN_STATE if the transaction has ended the other way, and
        PRODUCER_FENCED or INVALID_PRODUCER_ID_MAPPING if its id now has another producer, or has been forgotten.
        """
        request = pb.EndTxnRequest(
            transactional_id=prepared.transactional_id,
            producer=TxnProducer(id=prepared.producer_id, epoch=prepared.epoch),
            committed=committed,
            transaction_version=TRANSACTIONS_V2,
        )
        left_s = self._channel.deadline(timeout).left()
        self._coordinators.call(prepared.transactional_id, Txn.END_TXN, request, timeout=left_s)

    def forget(self, transactional_id: str, *, timeout: Duration | None = None) -> None:
        """Delete an id from its coordinator's log, once its last transaction is over. An unknown id is not an error.

        The coordinators need `transaction_two_phase_commit_enable`. Raises INVALID_TXN_STATE if a transaction is open.
        """
        deadline = self._channel.deadline(timeout)
        try:
            found = self.describe(transactional_id, timeout=deadline.left())
        except OttlaError as error:
            if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return
            raise
        producer = TxnProducer(id=found.producer_id, epoch=found.producer_epoch)
        request = pb.ForgetRequest(transactional_id=transactional_id, producer=producer)
        self._coordinators.call(transactional_id, Txn.FORGET, request, timeout=deadline.left())

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
        holders = self._holders({p.producer.id for each in by_leaders.values() for p in each.producers}, deadline)
        return {n: _transactions_of(TopicPartition(topic, n), each, holders) for n, each in by_leaders.items()}

    def _of_leaders(
        self, topic: str, numbers: Sequence[int] | None, deadline: Deadline, *, open_only: bool
    ) -> dict[int, client_pb2.PartitionProducers]:
        """Return what the leaders of these partitions know; None: of all partitions."""
        cluster = self._channel.cluster

        def attempt() -> dict[int, client_pb2.PartitionProducers]:
            view = cluster.fetch_metadata([topic], timeout=deadline.left())
            found = topic_in(self._channel, view, topic)
            by_leader: dict[str, list[int]] = {}
            for number in range(len(found.partitions)) if numbers is None else numbers:
                by_leader.setdefault(leader_of(view, found, number), []).append(number)
            known: dict[int, client_pb2.PartitionProducers] = {}
            for address, led in by_leader.items():
                partitions = [broker_pb2.PartitionOfLog(topic_id=found.id, partition=number) for number in led]
                request = client_pb2.DescribeProducersRequest(partitions=partitions, open_only=open_only)
                response = cluster.call(address, Client.DESCRIBE_PRODUCERS, request, timeout=deadline.left())
                for number, described in zip(led, response.partitions, strict=True):
                    raise_in_band(described.error)
                    known[number] = described
            return known

        known = self._channel.retried(attempt, deadline)
        self._add_ends(topic, [found for found in known.items() if open_only and found[1].high_watermark < 0], deadline)
        return known

    def _add_ends(
        self, topic: str, lacking: Sequence[tuple[int, client_pb2.PartitionProducers]], deadline: Deadline
    ) -> None:
        """Look up how far readers may read. Kafka's brokers do not say it with the producers."""
        cluster = self._channel.cluster
        wanted = {TopicPartition(topic, number): LATEST_TIMESTAMP for number, _ in lacking}
        # The ends come first. If an end moved on between the two calls, the partition would otherwise look blocked.
        ends = list_offsets(cluster, wanted, timeout=deadline.left())
        stable = list_offsets(cluster, wanted, timeout=deadline.left(), read_committed=True)
        for number, found in lacking:
            end, stable_end = ends[TopicPartition(topic, number)], stable[TopicPartition(topic, number)]
            if end is not None and stable_end is not None:
                found.last_stable_offset = stable_end.offset
                found.high_watermark = max(end.offset, stable_end.offset)

    def _holders(self, producer_ids: Collection[int], deadline: Deadline) -> dict[int, TransactionInfo]:
        """Return the transactions of these producers, by producer id."""
        found = self.list(producer_ids=sorted(producer_ids), timeout=deadline.left()) if producer_ids else []
        described = self.described([each.name for each in found], timeout=deadline.left())
        return {each.producer_id: each for each in described.values()}

    def _lists_everything(self, deadline: Deadline) -> bool:
        """Return whether the coordinators prove that their listings are complete, as ottla's do."""
        request = pb.ListTransactionsRequest(producer_ids=[_NO_PRODUCER])
        responses = self._coordinators.listed(Txn.LIST_TRANSACTIONS, request, timeout=deadline.left())
        return any(response.shards.total for response in responses)

    def _longest(self, deadline: Deadline) -> timedelta:
        """Return how long a producer may write nothing before its open transaction counts as late."""
        broker = min(self._channel.cluster.view.brokers)
        config = Configs(self._channel).get(broker=broker, timeout=deadline.left())["transaction.max.timeout.ms"]
        return timedelta(milliseconds=int(config.value or 0)) + _MARKERS_WITHIN

    def _write_marker(self, hanging: OpenTransaction, deadline: Deadline) -> None:
        """Write an abort marker with the producer's own epoch, as before transactions v2, and with the coordinator
        epoch that the partition knows."""
        producer = hanging.producer
        marker = TxnMarker(
            producer=TxnProducer(id=producer.producer_id, epoch=producer.producer_epoch),
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        if hanging.partition.topic == SHARD_TOPICS[GROUP]:
            try:
                # Only the owner of a shard of groups writes to its log.
                self._write_by_owner(hanging.partition, marker, deadline)
            except OttlaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:  # as in clusters of Apache Kafka, which have no shards
                    raise
            else:
                return
        self._write_by_leader(hanging.partition, marker, deadline)

    def _write_by_owner(self, at: TopicPartition, marker: TxnMarker, deadline: Deadline) -> None:
        of_shard = group_pb2.ShardsMarker(marker=marker, shards=[at.partition])
        request = group_pb2.WriteShardMarkersRequest(markers=[of_shard], timeout_ms=int(1000 * deadline.left()))
        # A broker forwards the request to the owner.
        response = self._channel.cluster.call_any(Group.WRITE_TXN_MARKERS, request, timeout=deadline.left())
        raise_in_band(response.markers[0].shards[0])

    def _write_by_leader(self, at: TopicPartition, marker: TxnMarker, deadline: Deadline) -> None:
        cluster = self._channel.cluster
        view = cluster.fetch_metadata([at.topic], timeout=deadline.left())
        found = topic_in(self._channel, view, at.topic)
        log = broker_pb2.PartitionOfLog(topic_id=found.id, partition=at.partition)
        request = broker_pb2.WriteTxnMarkersRequest(
            markers=[broker_pb2.PartitionsMarker(marker=marker, partitions=[log])],
            timeout_ms=int(1000 * deadline.left()),
        )
        leader = leader_of(view, found, at.partition)
        response = cluster.call(leader, Broker.WRITE_TXN_MARKERS, request, timeout=deadline.left())
        raise_in_band(response.markers[0].partitions[0])


def _transactions_of(
    partition: TopicPartition, found: client_pb2.PartitionProducers, holders: Mapping[int, TransactionInfo]
) -> PartitionTransactions:
    producers = sorted(found.producers, key=lambda p: p.first_offset)
    opened = (OpenTransaction(partition, p.first_offset, producer_of(p), holders.get(p.producer.id)) for p in producers)
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


def _still_open(before: PartitionTransactions, now: client_pb2.PartitionProducers) -> PartitionTransactions:
    """Leave out transactions that looked as if they hung, but have ended meanwhile."""
    left = {(p.producer.id, p.first_offset) for p in now.producers}
    opened = (o for o in before.open if not o.is_hanging or (o.producer.producer_id, o.first_offset) in left)
    return replace(
        before,
        high_watermark=now.high_watermark,
        last_stable_offset=now.last_stable_offset,
        open=tuple(opened),
    )
