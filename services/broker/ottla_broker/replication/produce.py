"""Producing to partitions, up to the acknowledgement.

A connection's requests start in the order of their arrival. A caller has to append before its first await, and so keeps
a partition's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla_broker.machines.guards import AddedBy
from ottla_broker.peers.transactions import TransactionVerifier
from ottla_broker.replication.leading import ACKS_ALL, Leading
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.log import AppendResult
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.validator import Walk
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import INTERNAL_TOPICS, PartitionId, TopicPartition
from ottla_core.records.batch import Buffer, read_header
from ottla_core.records.walk import SlowWalkError
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto.common_pb2 import TxnProducer

SMALL_BYTES: Final = 64 << 10
"""The size up to which the batches of a request may wait to be appended while the next request begins."""
SLICE_S: Final = 0.02
"""How long the appends of one request run before others have a turn. Most requests need less."""


class ReplicaAppend(NamedTuple):
    """An append, which is acknowledged once `acknowledged` returns."""

    leading: Leading
    appended: AppendResult
    acks: int

    @property
    def is_acknowledged(self) -> bool:
        """It tells whether there is nothing to wait for."""
        leading = self.leading
        committed = self.acks != ACKS_ALL or leading.offsets.high_watermark > self.appended.last_offset
        return committed and not leading.disk.must_flush

    async def acknowledged(self) -> None:
        """Wait until the append may be acknowledged, or raise why it may not (`Leading.committed`)."""
        if self.leading.disk.must_flush:
            await self.leading.disk.flushed()
        if self.acks == ACKS_ALL:
            await self.leading.committed(self.appended.last_offset + 1)


def check_acks(acks: int) -> None:
    """Raise INVALID_REQUIRED_ACKS unless it is 0, 1 or -1 (all)."""
    if acks not in (0, 1, ACKS_ALL):
        raise OttlaError(
            ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is not a valid value", hint="use 0, 1 or all (-1)"
        )


def check_client_may_write(topic: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an internal topic, because only services write to those."""
    if topic in INTERNAL_TOPICS:
        raise OttlaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic {topic} is internal, and clients can't write to it"
        )


class ProducedTransaction(NamedTuple):
    """The transaction of a produce request. With `version` 2 the broker adds the partition to it (KIP-890)."""

    transactional_id: str
    version: int
    verifier: TransactionVerifier


def append(
    replica: Replica,
    leading: Leading,
    records: Buffer,
    acks: int,
    slice_: Slice,
    transaction: ProducedTransaction | None = None,
) -> ReplicaAppend | asyncio.Future[ReplicaAppend]:
    """Append at once, without a yield (I1), or return a future for a later append.

    The append comes later if the records take long to walk or their transaction is verified first, if the producer's
    earlier batches for the partition wait, or if the request's `slice_` is over. A producer's batches stay in the order
    of the calls.

    Raises, or fails the future with, what `check_client_may_write`, `Leading.append`, `TransactionVerifier.verify` and
    `PendingBytes.take` raise. A later append goes ahead if `replica` leads then, in whatever epoch.
    """
    check_client_may_write(replica.topic)
    act = _Append(replica, records, acks, transaction)
    if not (act.has_to_wait or slice_.is_over):
        try:
            return act.carry_out(leading)
        except SlowWalkError:
            act.is_slow = True
    leading.expect(read_header(records))
    replica.pending_bytes.take(len(records))
    act.records = bytes(records)  # its buffer is reused soon
    done = replica.pending.add(act.producer_id, act.prepare, lambda: act.carry_out(replica.led_in(None)))
    done.add_done_callback(lambda _: replica.pending_bytes.give_back(len(records)))
    return done


@dataclass(slots=True)
class _Append:
    """The append of one partition's batches, which have one producer."""

    replica: Replica
    records: Buffer
    acks: int
    transaction: ProducedTransaction | None
    is_slow: bool = False
    """Whether it is known that walking the records takes long."""
    walked_by: LogConfig | None = None

    @property
    def producer_id(self) -> int:
        return read_header(self.records).producer_id

    @property
    def has_to_wait(self) -> bool:
        pending = self.replica.pending
        return (bool(pending) and pending.has(self.producer_id)) or self._is_unverified

    @property
    def _is_unverified(self) -> bool:
        """It tells whether this append would be the first of its transaction here."""
        if self.transaction is None:
            return False
        header = read_header(self.records)
        if not header.is_transactional:
            return False
        producer_id, producer_epoch = header.producer_id, header.producer_epoch
        if self.replica.log.producers.has_open(producer_id, producer_epoch):
            return False
        added_by = AddedBy(self.transaction.transactional_id, producer_id, producer_epoch)
        return self.transaction.version >= TRANSACTIONS_V2 or not self.replica.guards.has_added(added_by)

    async def prepare(self) -> None:
        sent = bytes(self.records)
        self.records, self.walked_by = await self.replica.disk.walk(sent, is_slow=self.is_slow)
        with self.replica.pending_bytes.grown(len(sent), len(self.records)):
            await self.replica.turn.rest()
            if self._is_unverified and self.transaction is not None:
                # Verification is the last step: nothing may come between its response and the append.
                await self._verify(self.transaction)

    async def _verify(self, transaction: ProducedTransaction) -> None:
        """Verify the transaction by a response that no marker has overtaken.

        With transactions v2 the marker may be that of the previous transaction, and another response is true. Without
        raised epochs the response might be about the transaction after this one.
        """
        header, replica = read_header(self.records), self.replica
        leading, intact = replica.led_in(None), False
        replica.log.producers.check_epoch(header)
        producer = TxnProducer(id=header.producer_id, epoch=header.producer_epoch)
        partition = TopicPartition(replica.topic, replica.id.partition)
        while not intact:
            guard = replica.guards.begin(producer.id)
            coordinator_epoch = replica.log.producers.coordinator_epoch(producer.id)
            try:
                await transaction.verifier.verify(
                    transaction.transactional_id, producer, partition, transaction.version, coordinator_epoch
                )
            finally:
                intact = replica.guards.end(producer.id, guard)
            if leading.has_retired:  # another leader may have written any marker in between
                raise OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leadership of {replica} changed meanwhile")
            if not intact and transaction.version < TRANSACTIONS_V2:
                raise OttlaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"the transaction of producer {producer.id} ended before its first batch was appended to {replica}",
                    hint="abort the transaction and begin a new one",
                )

    @property
    def _walk(self) -> Walk:
        if self.walked_by is None:
            return Walk.QUICK
        # A topic that has become compacted meanwhile requires keys.
        return Walk.DONE if self.walked_by.compacts or not self.replica.log.config.compacts else Walk.WHOLE

    def carry_out(self, leading: Leading) -> ReplicaAppend:
        """Append. Raises SlowWalkError unless `prepare` was called."""
        transaction = self.transaction
        appended = leading.append(
            self.records,
            self.acks,
            walk=self._walk,
            transactional=transaction is not None,
            begins_at_zero=transaction is not None and transaction.version >= TRANSACTIONS_V2,
        )
        return ReplicaAppend(leading, appended, self.acks)


@dataclass(slots=True)
class ProduceResult:
    """What became of one partition's batches. Those in `pending` are not appended yet, and `unacknowledged` ones
    are."""

    id: PartitionId
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error: OttlaError | None = None
    unacknowledged: ReplicaAppend | None = None
    pending: asyncio.Future[ReplicaAppend] | None = None

    @property
    def waits(self) -> bool:
        return self.unacknowledged is not None or self.pending is not None

    def on_appended(self, append: ReplicaAppend) -> None:
        self.base_offset, self.log_append_time_ms = append.appended.base_offset, append.appended.log_append_time_ms
        self.unacknowledged, self.pending = None if append.is_acknowledged else append, None

    def fail(self, error: OttlaError) -> None:
        self.unacknowledged, self.pending, self.error = None, None, error
        self.base_offset = self.log_append_time_ms = -1


class Produce:
    """The appends of one request. `find` returns the replica of a partition."""

    def __init__(
        self, find: Callable[[PartitionId], Replica], acks: int, transaction: ProducedTransaction | None = None
    ) -> None:
        self._find: Final = find
        self._acks: Final = acks
        self._transaction: Final = transaction
        self._slice: Final = Slice(SLICE_S)
        self._waiting: Final[list[ProduceResult]] = []
        self.pending_bytes = 0

    @property
    def waits(self) -> bool:
        """It tells whether a result is true only once `acknowledged` has returned."""
        return bool(self._waiting)

    def append(self, partition_id: PartitionId, records: Buffer) -> ProduceResult:
        """Append the batches, or queue them in their partition's order if they have to wait. The result has any
        error."""
        result = ProduceResult(partition_id)
        try:
            replica = self._find(partition_id)
            leading = replica.led_in(None)
            result.log_start_offset = replica.log.log_start_offset
            appended = append(replica, leading, records, self._acks, self._slice, self._transaction)
        except OttlaError as error:
            result.error = without_traces(error)
            return result
        if isinstance(appended, ReplicaAppend):
            result.on_appended(appended)
        else:
            result.pending = appended
            self.pending_bytes += len(records)
        if result.waits:
            self._waiting.append(result)
        return result

    def placed(self) -> asyncio.Future[Any] | None:
        """Return a future that is done once all batches are appended, or None if few bytes are not appended yet."""
        if self.pending_bytes <= SMALL_BYTES:
            return None
        pending = [result.pending for result in self._waiting if result.pending is not None]
        return asyncio.gather(*pending, return_exceptions=True)

    async def acknowledged(self) -> None:
        """Wait until every result is final."""
        await asyncio.gather(*map(self._acknowledge, self._waiting))

    async def _acknowledge(self, result: ProduceResult) -> None:
        try:
            if result.pending is not None:
                # With acks=0 the client may be gone at once. Otherwise batches that no client waits for are not
                # appended.
                result.on_appended(await (asyncio.shield(result.pending) if self._acks == 0 else result.pending))
            if result.unacknowledged is not None:
                await result.unacknowledged.acknowledged()
                result.unacknowledged = None
        except OttlaError as error:
            result.fail(error)

    def time_out(self, timeout_ms: int) -> None:
        """Fail what is not acknowledged by now."""
        for result in self._waiting:
            if result.waits:
                text = f"not acknowledged within {timeout_ms} ms"
                result.fail(OttlaError(ErrorCode.REQUEST_TIMED_OUT, text))


def without_traces(error: OttlaError) -> OttlaError:
    """Return the error without its traceback, which would keep the batch, and so the frame, in memory for as long as
    other partitions wait."""
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__context__
    return error
