"""The Txn contract has one method per RPC. Protobuf stops here, and the id's shard decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shard import ShardDecision, TransactionProducer
from ottla_core.coordination.shards import Shards, owned_among, shards_response
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.model import INTERNAL_TOPICS, TopicPartition
from ottla_core.routing import GROUP
from ottla_core.rpc.bounds import check_few
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import error_message
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import ShardNumbers, ShardsRequest, ShardsResponse, TxnProducer
from ottla_txn_coordinator.additions import Additions
from ottla_txn_coordinator.machines.errors import shown
from ottla_txn_coordinator.machines.history import Caller, caller_of
from ottla_txn_coordinator.machines.records import LONGEST_NAME_BYTES, TransactionRecord
from ottla_txn_coordinator.machines.shard import TransactionShard
from ottla_txn_coordinator.machines.states import ENDING
from ottla_txn_coordinator.machines.transaction import (
    NEEDS_ID,
    Caught,
    Decision,
    End,
    Init,
    Initialized,
    TransactionSettings,
    decide_add,
    decide_end,
    decide_forget,
    decide_init,
    decide_prepare,
    decide_verify,
)
from ottla_txn_coordinator.marker_calls import GROUPS_TOPIC
from ottla_txn_coordinator.responses import LONG_ID, Filter, described, producer_message

_ASK_S: Final = 30.0
_HELD_S: Final = 0.1
"""How long a request waits for the end of the last transaction. Clients that hear CONCURRENT_TRANSACTIONS pause for 20
ms or more. But a call with many transactions is answered when all of them are, and the leader that is to write a marker
may be away. So the time counts from the end's decision: a stuck end delays the other transactions of a call only once,
and not at every try."""

_CATCH_UP_S: Final = 1.0
"""How long to wait for newer metadata if a partition looks unknown: this coordinator may be the last to learn of it."""

MOST_TRANSACTIONS: Final = 1_000
"""The most transactions in one call, which holds the loop, and also the most partitions of them."""
MOST_PARTITIONS: Final = 10_000

_TOO_MUCH: Final = frozenset({ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_REQUEST})
"""An addition has more partitions than a transaction may have, or than its record has room for."""

_NOT_ATTEMPTED: Final = OttlaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "another partition in the request is unknown")

Decide = Callable[[Caught, TransactionSettings, Moment, int | None], Decision]


class ProducerIds(Protocol):
    async def next(self) -> int:
        """Return an id that no producer has had."""
        ...


class Metadata(Protocol):
    @property
    def image(self) -> ClusterImage: ...
    async def catch_up(self, timeout: float) -> ClusterImage: ...


class Markers(Protocol):
    def left(self, shard: int, transactional_id: str) -> Sequence[TopicPartition]:
        """Return the partitions for which the end of this id's transaction waits."""
        ...

    async def completing(self, shard: int, transactional_id: str, timeout_s: float) -> None:
        """Return once new decisions find no ending transaction of this id, or `timeout_s` after its end was decided."""
        ...


class TxnService:
    """Serves the contract. `node_id` is the instance's."""

    def __init__(
        self,
        shards: Shards[TransactionShard],
        metadata: Metadata,
        producer_ids: ProducerIds,
        markers: Markers,
        node_id: int,
    ) -> None:
        self._shards: Final = shards
        self._metadata: Final = metadata
        self._producer_ids: Final = producer_ids
        self._markers: Final = markers
        self._node_id: Final = node_id
        self._additions: Final = Additions(self._add)

    # ---- transactions -----------------------------------------------------------------------------------------------

    async def init_producer(self, request: pb.InitProducerRequest, context: RequestContext) -> pb.InitProducerResponse:
        has_producer = request.HasField("producer") and request.producer.id >= 0
        producer = _producer(request.producer) if has_producer else None
        init = Init(request.timeout_ms, producer, request.two_phase_commit, request.keep_prepared)

        def decide(caught: Caught, settings: TransactionSettings, now: Moment, fresh_id: int | None) -> Decision:
            return decide_init(caught, init, settings, now, fresh_id)

        await self._until_complete(request.transactional_id)
        caller = _caller(request, context)
        begun: Initialized = await self._decide(request.transactional_id, decide, caller, request.ByteSize())
        kept = None if begun.kept is None else producer_message(begun.kept)
        return pb.InitProducerResponse(producer=producer_message(begun.producer), kept=kept)

    async def add_partitions(
        self, request: pb.AddPartitionsRequest, context: RequestContext
    ) -> pb.AddPartitionsResponse:
        check_few(len(request.transactions), "transactions", MOST_TRANSACTIONS)
        check_few(sum(len(item.partitions) for item in request.transactions), "partitions", MOST_PARTITIONS)
        await self._catch_up_with(
            TopicPartition(p.topic, p.partition)
            for t in request.transactions
            if not t.verify_only
            for p in t.partitions
        )
        added = await asyncio.gather(*(self._additions.add(item, context) for item in request.transactions))
        return pb.AddPartitionsResponse(transactions=added)

    async def _add(self, items: Sequence[pb.PartitionsToAdd], context: RequestContext) -> list[pb.PartitionsAdded]:
        """Return a response for each of the items, which differ only in their partitions of one transaction.

        They are one decision (`additions`). If together they are more than a transaction may have, each half is decided
        by itself, so that every item is judged as if it had come alone.
        """
        named = [[TopicPartition(p.topic, p.partition) for p in item.partitions] for item in items]
        unknown: dict[TopicPartition, OttlaError] = {}
        if not items[0].verify_only:
            unknown = {p: error for p in chain(*named) if (error := self._unknown(p)) is not None}
        attempted = [partitions for partitions in named if unknown.keys().isdisjoint(partitions)]
        error, outcomes = None, dict[TopicPartition, OttlaError | None]()
        if attempted:
            partitions = list(dict.fromkeys(chain(*attempted)))
            size_bytes = sum(item.ByteSize() for item in items)
            try:
                found = await self._add_or_verify(items[0], partitions, context, size_bytes)
            except OttlaError as raised:
                if raised.code in _TOO_MUCH and len(items) > 1:
                    middle = len(items) // 2
                    return [*await self._add(items[:middle], context), *await self._add(items[middle:], context)]
                error = raised
            else:
                outcomes = dict(zip(partitions, found or [None] * len(partitions), strict=True))

        def added(partitions: Sequence[TopicPartition]) -> pb.PartitionsAdded:
            if not unknown.keys().isdisjoint(partitions):
                return pb.PartitionsAdded(
                    partitions=[error_message(unknown.get(p, _NOT_ATTEMPTED)) for p in partitions]
                )
            if error is not None:
                return pb.PartitionsAdded(error=error_message(error))
            return pb.PartitionsAdded(partitions=[_message(outcomes[p]) for p in partitions])

        return list(map(added, named))

    async def add_offsets(self, request: pb.AddOffsetsRequest, context: RequestContext) -> pb.AddOffsetsResponse:
        if not request.group:
            raise OttlaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty", hint="set a group.id")
        shard = self._metadata.image.shard_of(GROUP, request.group)
        if shard is None:
            raise OttlaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUPS_TOPIC} does not exist yet", hint="try again"
            )
        partition = TopicPartition(GROUPS_TOPIC, shard)
        for outcome in await self._add_or_verify(request, [partition], context, request.ByteSize()) or ():
            if outcome is not None:
                raise outcome
        return pb.AddOffsetsResponse()

    async def _add_or_verify(
        self,
        request: pb.PartitionsToAdd | pb.AddOffsetsRequest,
        partitions: Sequence[TopicPartition],
        context: RequestContext,
        size_bytes: int,
    ) -> list[OttlaError | None] | None:
        producer, verify_only, version = (
            _producer(request.producer),
            request.verify_only,
            _version(request.transaction_version),
        )

        def decide(caught: Caught, settings: TransactionSettings, now: Moment, fresh_id: int | None) -> Decision:
            if verify_only or not partitions:
                return decide_verify(caught, producer, partitions, by_last_proof=has_marker)
            return decide_add(caught, producer, partitions, version, now)

        await self._until_complete(request.transactional_id)
        has_marker = request.HasField("coordinator_epoch")
        epoch = self._shards.epoch(self._shards.shard_of(request.transactional_id))
        if has_marker and epoch < request.coordinator_epoch:
            raise OttlaError(ErrorCode.NOT_COORDINATOR, "another owner of the shard has ended a later transaction")
        outcomes: list[OttlaError | None] | None = await self._decide(
            request.transactional_id, decide, _calling_service(context), size_bytes
        )
        return outcomes

    async def end_txn(self, request: pb.EndTxnRequest, context: RequestContext) -> pb.EndTxnResponse:
        end = End(_producer(request.producer), request.committed, _version(request.transaction_version))

        def decide(caught: Caught, settings: TransactionSettings, now: Moment, fresh_id: int | None) -> Decision:
            return decide_end(caught, end, now, fresh_id)

        caller = _caller(request, context)
        producer = await self._decide(request.transactional_id, decide, caller, request.ByteSize())
        return pb.EndTxnResponse(producer=producer_message(producer))

    async def prepare(self, request: pb.PrepareRequest, context: RequestContext) -> pb.PrepareResponse:
        producer = _producer(request.producer)

        def decide(caught: Caught, settings: TransactionSettings, now: Moment, fresh_id: int | None) -> Decision:
            return decide_prepare(caught, producer, settings, now)

        await self._decide(request.transactional_id, decide, _caller(request, context), request.ByteSize())
        return pb.PrepareResponse()

    async def forget(self, request: pb.ForgetRequest, context: RequestContext) -> pb.ForgetResponse:
        producer = _producer(request.producer)

        def decide(caught: Caught, settings: TransactionSettings, now: Moment, fresh_id: int | None) -> Decision:
            return decide_forget(caught, producer, settings)

        await self._until_complete(request.transactional_id)
        await self._decide(request.transactional_id, decide, _calling_service(context), request.ByteSize())
        return pb.ForgetResponse()

    async def _until_complete(self, transactional_id: str) -> None:
        """Wait for the end of the last transaction, for as long as that usually takes, before a request of the next
        one."""
        check_id(transactional_id)
        await self._markers.completing(self._shards.shard_of(transactional_id), transactional_id, _HELD_S)

    async def _decide(self, transactional_id: str, decide: Decide, caller: Caller, size_bytes: int) -> Any:
        """Return the response, once it is durable. A decision that needs a producer id is made again with one."""
        check_id(transactional_id)
        fresh_id: int | None = None
        while True:
            response = await self._shards.ask(
                transactional_id,
                lambda shard, now: decide(shard.caught(transactional_id, caller), shard.settings, now, fresh_id),  # noqa: B023 - it is decided before the next turn
                timeout=_ASK_S,
                size_bytes=size_bytes,
            )
            if response is not NEEDS_ID:
                break
            fresh_id = await self._producer_ids.next()
        if isinstance(response, OttlaError):  # an error of a decision that had to be written
            raise response
        return response

    # ---- partitions -------------------------------------------------------------------------------------------------

    def _unknown(self, partition: TopicPartition) -> OttlaError | None:
        if partition.topic in INTERNAL_TOPICS:
            return OttlaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{partition.topic} accepts no records from producers",
                hint="use AddOffsets to add offsets",
            )
        topic = self._metadata.image.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < topic.partition_count:
            name = partition._replace(topic=partition.topic[:250])
            return OttlaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} does not exist", hint="the topic may have been deleted"
            )
        return None

    async def _catch_up_with(self, partitions: Any) -> None:
        if any(self._unknown(partition) for partition in partitions):
            try:
                await self._metadata.catch_up(_CATCH_UP_S)
            except (StoreUnavailableError, TimeoutError, OttlaError):
                return  # they are then judged by the metadata as it is

    # ---- what is there ----------------------------------------------------------------------------------------------

    async def list_transactions(
        self, request: pb.ListTransactionsRequest, context: RequestContext
    ) -> pb.ListTransactionsResponse:
        """List the transactions of the shards that this coordinator serves, and name those shards.

        The error of a shard that is loading stands beside what is known.
        """
        matches = Filter(request)
        response = pb.ListTransactionsResponse(unknown_states=matches.unknown_states, shards=ShardNumbers())
        time_slice = Slice()
        numbers = owned_among(self._shards, request.shards if request.HasField("shards") else None)
        await asyncio.gather(*(self._list(number, matches, response, time_slice) for number in numbers))
        return response

    async def _list(
        self, number: int, matches: Filter, response: pb.ListTransactionsResponse, time_slice: Slice
    ) -> None:
        def records(shard: TransactionShard, now: Moment) -> ShardDecision[Any]:
            return ShardDecision((list(shard.records()), now))

        def is_listed(item: tuple[str, TransactionRecord]) -> bool:
            return matches(*item, now.wall_ms)

        def add_if(is_listed: bool, item: tuple[str, TransactionRecord]) -> None:
            transactional_id, record = item
            if is_listed:
                response.transactions.add(
                    transactional_id=transactional_id,
                    producer_id=record.producer.id,
                    state=record.state.value,
                    shard=number,
                    coordinator=self._node_id,
                )

        try:
            found, now = await self._shards.ask_shard(number, records, timeout=_ASK_S)
        except OttlaError as error:
            response.error.CopyFrom(error_message(error))
        else:
            short = (item for item in found if len(item[0]) <= LONG_ID)
            await sliced(lambda item: add_if(is_listed(item), item), short, time_slice)
            for item in found:
                if len(item[0]) > LONG_ID:
                    add_if(await asyncio.to_thread(is_listed, item), item)
            response.shards.numbers.append(number)

    async def describe_transactions(
        self, request: pb.DescribeTransactionsRequest, context: RequestContext
    ) -> pb.DescribeTransactionsResponse:
        check_few(len(request.transactional_ids), "ids", MOST_TRANSACTIONS)
        described = await asyncio.gather(*map(self._describe, request.transactional_ids))
        return pb.DescribeTransactionsResponse(transactions=described)

    async def _describe(self, transactional_id: str) -> pb.TransactionDescription:
        def describe(shard: TransactionShard, now: Moment) -> ShardDecision[Any]:
            record = shard.record(transactional_id)
            if record is None:
                raise OttlaError(
                    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {shown(transactional_id)}"
                )
            return ShardDecision((record, shard.history.of(transactional_id)))

        try:
            check_id(transactional_id)
            record, events = await self._shards.ask(transactional_id, describe, timeout=_ASK_S)
            number = self._shards.shard_of(transactional_id)
        except OttlaError as error:
            return pb.TransactionDescription(transactional_id=transactional_id, error=error_message(error))
        left = self._markers.left(number, transactional_id) if record.state in ENDING else None
        description = described(transactional_id, record, left, events)
        description.shard, description.coordinator = number, self._node_id
        return description

    async def shards(self, request: ShardsRequest, context: RequestContext) -> ShardsResponse:
        return shards_response(self._shards.statuses(), self._node_id)


def check_id(transactional_id: str) -> None:
    """Raise INVALID_REQUEST for an id that no record can hold."""
    if not transactional_id:
        raise OttlaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty", hint="set a transactional.id")
    size_bytes = len(transactional_id.encode())
    if size_bytes > LONGEST_NAME_BYTES:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"a transactional id of {size_bytes} bytes is longer than the limit of {LONGEST_NAME_BYTES}",
            hint="choose a shorter id",
        )


def _producer(message: TxnProducer) -> TransactionProducer:
    return TransactionProducer(message.id, message.epoch)


def _caller(request: pb.InitProducerRequest | pb.EndTxnRequest | pb.PrepareRequest, context: RequestContext) -> Caller:
    """Return the client whose request a broker forwards. Without one, return the service that calls."""
    if request.client_id or request.client_host:
        return caller_of(request.client_id, request.client_host)
    return _calling_service(context)


def _calling_service(context: RequestContext) -> Caller:
    return caller_of(context.client_id, context.client_host)


def _version(transaction_version: int) -> int:
    """Return one of the two versions of transactions. In the second, each end raises the epoch."""
    return min(max(transaction_version, 0), TRANSACTIONS_V2)


def _message(outcome: OttlaError | None) -> Any:
    return error_message(OttlaError(ErrorCode.NONE, "")) if outcome is None else error_message(outcome)
