"""The exchanges that list and describe transactions (KIP-664), and what their responses mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from ottla.admin.transaction_info import TransactionEvent, TransactionInfo, TransactionSummary
from ottla.client import transaction_requests
from ottla.client.kafka.apis import LIST_TRANSACTIONS
from ottla.client.kafka.exchange import Exchange, Terms, raise_failed
from ottla.client.named_coordinators import Listing
from ottla.client.transaction_requests import DescribedTransaction
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.kafka.messages import DescribeTransactionsResponse, ListTransactionsRequest, ListTransactionsResponse
from ottla_core.model import TopicPartition

_OVER: Final = "Complete"
_NO_TIMEOUT_MS: Final = 2**31 - 1
_DURATION_FROM: Final = 1
_PATTERN_FROM: Final = 2
_ANY_DURATION: Final = -1


def listing(
    *,
    states: Sequence[str] = (),
    prefix: str = "",
    pattern: str = "",
    longer_than_ms: int = 0,
    producer_ids: Collection[int] = (),
) -> Exchange[Listing[TransactionSummary]]:
    """Return the exchange that lists the transactional ids of one broker. Kafka can't filter by prefix, so the reader
    does."""

    request = ListTransactionsRequest(
        state_filters=list(states or ()),
        producer_id_filters=list(producer_ids or ()),
        duration_filter=longer_than_ms or _ANY_DURATION,
        transactional_id_pattern=pattern or None,
    )

    def build(terms: Terms) -> ListTransactionsRequest:
        if longer_than_ms and terms.version < _DURATION_FROM:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "a broker before Kafka 3.8 can't filter by duration")
        if pattern and terms.version < _PATTERN_FROM:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "a broker before Kafka 4.1 can't filter by pattern")
        return request

    def read(response: ListTransactionsResponse) -> Listing[TransactionSummary]:
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise error_from_code(ErrorCode.INVALID_REQUEST, f"unknown transaction state: {unknown}")
        found = [
            TransactionSummary(
                each.transactional_id, each.transaction_state, each.producer_id, each.coordinator, each.shard
            )
            for each in response.transaction_states
            if each.transactional_id.startswith(prefix or "")
        ]
        return Listing(found, response.shards, response.shard_count)

    return Exchange(LIST_TRANSACTIONS, build, read)


def description(transactional_id: str) -> Exchange[TransactionInfo]:
    """Return the exchange that describes the last transaction of one id."""

    def read(described: Sequence[DescribedTransaction]) -> TransactionInfo:
        raise_failed(described[0])
        return _info(described[0])

    return transaction_requests.description([transactional_id], read)


def descriptions(transactional_ids: Sequence[str]) -> Exchange[Mapping[str, TransactionInfo | None]]:
    """Return the exchange that describes several ids. The description of an id that does not exist is None."""

    def read(described: Sequence[DescribedTransaction]) -> Mapping[str, TransactionInfo | None]:
        found: dict[str, TransactionInfo | None] = {}
        for each in described:
            if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                found[each.transactional_id] = None
            else:
                raise_failed(each)
                found[each.transactional_id] = _info(each)
        return found

    return transaction_requests.description(transactional_ids, read)


def _info(described: DescribedTransaction) -> TransactionInfo:
    timeout_ms = max(0, described.transaction_timeout_ms)
    is_over = described.transaction_state.startswith(_OVER)
    return TransactionInfo(
        name=described.transactional_id,
        state=described.transaction_state,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        timeout=None if timeout_ms >= _NO_TIMEOUT_MS else timeout_ms / 1000,
        started_at=None if is_over else time_of(described.transaction_start_time_ms),
        updated_at=time_of(described.updated_at_ms),
        partitions=tuple(TopicPartition(topic.topic, n) for topic in described.topics for n in topic.partitions),
        is_prepared=described.prepared,
        version=described.transaction_version,
        events=tuple(map(_event, described.events)),
        coordinator=described.coordinator,
        shard=described.shard,
    )


def _event(event: DescribeTransactionsResponse.TransactionEvent) -> TransactionEvent:
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC)
    return TransactionEvent(
        at, event.kind, event.producer_id, event.producer_epoch, event.client_id, event.client_host, event.cause
    )


def time_of(timestamp_ms: int) -> datetime | None:
    """Return the time in UTC; None for a negative timestamp."""
    return None if timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
