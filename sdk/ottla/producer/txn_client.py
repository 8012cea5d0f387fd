"""The calls of one transactional id, to its coordinator and to the coordinators of groups whose offsets it commits.

If the coordinator may have moved, or is busy, a call is tried again until its time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.coordinators import Coordinators
from ottla.client.offsets import GroupMetadata, Offsets, to_commit
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla_core.model import TopicPartition
from ottla_core.routing import TXN
from ottla_core.rpc.parts import commit_in_parts
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto import group_pb2, txn_pb2
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Group, Txn

_EXPLAIN_S: Final = 2.0


class TxnClient:
    """Thread-safe. Timeouts are in seconds; raises the SDK's errors."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> None:
        self._cluster: Final = cluster
        self._id: Final = transactional_id
        self._timeout_ms: Final = timeout_ms
        self._txn: Final = Coordinators(cluster, TXN)
        self._groups: Final = Coordinators(cluster)

    def init(self, producer: ProducerEpoch | None, *, timeout: float) -> Assigned:
        """Return a new epoch, and abort an open transaction. With `producer`, only if no other has come since
        (KIP-360)."""
        request = txn_pb2.InitProducerRequest(
            transactional_id=self._id,
            timeout_ms=self._timeout_ms,
            producer=None if producer is None else _message(producer),
        )
        response = self._txn.call(self._id, Txn.INIT_PRODUCER, request, timeout=timeout)
        # Clusters of ottla, which have version 2, leave it out.
        return Assigned(_epoch(response.producer), response.transaction_version or TRANSACTIONS_V2)

    def end(self, current: Assigned, *, committed: bool, timeout: float) -> Assigned | None:
        """Decide the transaction, and return the producer of the next one; None if the epoch was not raised."""
        request = txn_pb2.EndTxnRequest(
            transactional_id=self._id,
            producer=_message(current.producer),
            committed=committed,
            transaction_version=current.version,
        )
        response = self._txn.call(self._id, Txn.END_TXN, request, timeout=timeout)
        return Assigned(_epoch(response.producer), current.version) if response.HasField("producer") else None

    def add_partitions(self, current: Assigned, partitions: Sequence[TopicPartition], *, timeout: float) -> None:
        """Add partitions to the transaction, all or none. Raises the error of a partition that prevented it.

        It is `about` that partition if the producer may not write to the topic.
        """
        addition = txn_pb2.PartitionsToAdd(
            transactional_id=self._id,
            producer=_message(current.producer),
            partitions=[txn_pb2.TxnPartition(topic=topic, partition=number) for topic, number in partitions],
            transaction_version=current.version,
        )
        request = txn_pb2.AddPartitionsRequest(transactions=[addition])

        def check(response: txn_pb2.AddPartitionsResponse, repeated: bool) -> None:
            _raise_not_added(partitions, response)

        self._txn.call(self._id, Txn.ADD_PARTITIONS, request, timeout=timeout, check=check)

    def prepare(self, producer: ProducerEpoch, *, timeout: float) -> None:
        """Keep the transaction open until it is decided; repeating the call changes nothing."""
        request = txn_pb2.PrepareRequest(transactional_id=self._id, producer=_message(producer))
        self._txn.call(self._id, Txn.PREPARE, request, timeout=timeout)

    def commit_offsets(self, current: Assigned, group: GroupMetadata, offsets: Offsets, *, timeout: float) -> None:
        """Commit offsets that count for the group once the transaction is committed."""
        until = self._cluster.clock.monotonic() + timeout
        if current.version < TRANSACTIONS_V2:
            added = txn_pb2.AddOffsetsRequest(
                transactional_id=self._id,
                producer=_message(current.producer),
                group=group.group,
                transaction_version=current.version,
            )
            self._txn.call(self._id, Txn.ADD_OFFSETS, added, timeout=timeout)
        whole = group_pb2.CommitOffsetsRequest(
            group=group.group,
            member=group_pb2.Member(member_id=group.member_id, instance_id=group.instance_id),
            generation=group.generation,
            transaction=group_pb2.OffsetsTransaction(
                transactional_id=self._id,
                producer=_message(current.producer),
                transaction_version=current.version,
            ),
        )
        for part in commit_in_parts(whole, to_commit(offsets, group.topic_ids)):
            left_s = max(0.001, until - self._cluster.clock.monotonic())
            self._groups.call(group.group, Group.COMMIT_OFFSETS, part, timeout=left_s, check=_raise_first)

    def explain(self, producer: ProducerEpoch) -> str:
        """Return which client ended the epoch of `producer`, when and why; "" if that is not known. Never raises."""
        request = txn_pb2.DescribeTransactionsRequest(transactional_ids=[self._id])
        try:
            response = self._txn.call(self._id, Txn.DESCRIBE_TRANSACTIONS, request, timeout=_EXPLAIN_S)
        except OttlaError:
            return ""
        found = None
        for event in (event for described in response.transactions for event in described.events):
            if _epoch(event.producer) == producer:
                found = None
            elif found is None and (event.producer.id != producer.producer_id or event.producer.epoch > producer.epoch):
                found = event
        if found is None:
            return ""
        when = datetime.fromtimestamp(found.at_ms / 1000, UTC).isoformat(" ", "seconds")
        who = f" by {found.client_id or 'a client'} at {found.client_host}" if found.client_host else ""
        return f"{found.kind}{who} on {when}" + (f": {found.cause}" if found.cause else "")


def _message(producer: ProducerEpoch) -> TxnProducer:
    return TxnProducer(id=producer.producer_id, epoch=producer.epoch)


def _epoch(producer: TxnProducer) -> ProducerEpoch:
    return ProducerEpoch(producer.id, producer.epoch)


def _raise_not_added(partitions: Sequence[TopicPartition], response: txn_pb2.AddPartitionsResponse) -> None:
    (added,) = response.transactions
    outcomes = [(None, added.error), *zip(partitions, added.partitions, strict=False)]
    failed = [(partition, error) for partition, error in outcomes if error.code != ErrorCode.NONE]
    # Partitions without a fault are not attempted because of the others.
    failed.sort(key=lambda each: each[1].code == ErrorCode.OPERATION_NOT_ATTEMPTED)
    for partition, error in failed[:1]:
        # Kafka repeats an error about the whole transaction for each partition.
        is_of_topic = error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        raise error_from_code(error.code, error.message, of=partition if is_of_topic else None)


def _raise_first(response: group_pb2.CommitOffsetsResponse, repeated: bool) -> None:
    for partition in response.partitions:
        if partition.error.code != ErrorCode.NONE:
            raise error_from_code(partition.error.code, partition.error.message)
