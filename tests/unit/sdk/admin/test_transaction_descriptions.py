"""How transactions are listed and described, in every version that the clients know."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from exchanged import meaning, sent

from ottla.admin.transaction_descriptions import description, descriptions, listing
from ottla.admin.transaction_info import TransactionEvent, TransactionInfo, TransactionSummary
from ottla.client.kafka.apis import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import DescribeTransactionsResponse, ListTransactionsResponse
from ottla_core.model import TopicPartition

_Listed = ListTransactionsResponse.TransactionState
_Described = DescribeTransactionsResponse.TransactionState
_Event = DescribeTransactionsResponse.TransactionEvent
_Topic = DescribeTransactionsResponse.TopicData

NOT_FOUND = int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


# ---- the list --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LIST_TRANSACTIONS.versions)
def test_transactions_are_listed_by_state_producer_and_prefix(version: int) -> None:
    asked = listing(states=["Ongoing"], producer_ids=[5], prefix="or")
    request = sent(asked, version)
    assert (list(request.state_filters), list(request.producer_id_filters)) == (["Ongoing"], [5])
    assert (request.duration_filter, request.transactional_id_pattern) == (-1, None)
    response = ListTransactionsResponse(
        transaction_states=[
            _Listed(transactional_id="orders", producer_id=5, transaction_state="Ongoing", shard=3, coordinator=8),
            _Listed(transactional_id="other", producer_id=5, transaction_state="Ongoing", shard=3, coordinator=8),
        ],
        shards=[1, 3],
        shard_count=4,
    )
    of_ottla = meaning(asked, response, version)
    assert of_ottla.found == [TransactionSummary("orders", "Ongoing", 5, coordinator=8, shard=3)]
    assert (list(of_ottla.shards), of_ottla.shard_count) == ([1, 3], 4)
    of_kafka = meaning(asked, response, version, private=False)
    assert of_kafka.found == [TransactionSummary("orders", "Ongoing", 5, coordinator=-1, shard=-1)]
    assert (list(of_kafka.shards), of_kafka.shard_count) == ([], 0)


@pytest.mark.parametrize("version", LIST_TRANSACTIONS.versions)
@pytest.mark.parametrize(
    ("response", "code", "words"),
    [
        (ListTransactionsResponse(error_code=14), 14, "COORDINATOR_LOAD_IN_PROGRESS"),
        (
            ListTransactionsResponse(unknown_state_filters=["Gone", "Lost"]),
            ErrorCode.INVALID_REQUEST,
            "unknown transaction state: Gone, Lost",
        ),
    ],
    ids=["loading", "unknown state"],
)
def test_an_error_of_a_list_is_raised(version: int, response: ListTransactionsResponse, code: int, words: str) -> None:
    with pytest.raises(OttlaError, match=words) as caught:
        meaning(listing(), response, version)
    assert caught.value.code == code


@pytest.mark.parametrize("version", LIST_TRANSACTIONS.versions)
@pytest.mark.parametrize(
    ("argument", "value", "field", "served_from"),
    [("longer_than_ms", 500, "duration_filter", 1), ("pattern", "or.*", "transactional_id_pattern", 2)],
    ids=["duration", "pattern"],
)
def test_a_filter_that_the_version_lacks_is_an_error(
    version: int, argument: str, value: Any, field: str, served_from: int
) -> None:
    asked = listing(**{argument: value})
    if version < served_from:
        with pytest.raises(OttlaError) as caught:
            sent(asked, version)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    else:
        assert getattr(sent(asked, version), field) == value


# ---- descriptions ----------------------------------------------------------------------------------------------------


OPEN = _Described(
    transactional_id="x",
    transaction_state="Ongoing",
    transaction_timeout_ms=60_000,
    transaction_start_time_ms=123_000,
    producer_id=2**40,
    producer_epoch=7,
    topics=[_Topic(topic="a", partitions=[0, 2]), _Topic(topic="b", partitions=[1])],
    updated_at_ms=124_500,
    prepared=True,
    transaction_version=2,
    events=[
        _Event(
            at_ms=99_000,
            kind="fenced",
            producer_id=2**40,
            producer_epoch=7,
            client_id="me",
            client_host="10.0.0.1",
            cause="why",
        )
    ],
    coordinator=8,
    shard=3,
)
OF_KAFKA = TransactionInfo(
    name="x",
    state="Ongoing",
    producer_id=2**40,
    producer_epoch=7,
    timeout=60.0,
    started_at=at(123_000),
    updated_at=None,
    partitions=(TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)),
    is_prepared=False,
    version=0,
    events=(),
    coordinator=-1,
    shard=-1,
)
OF_OTTLA = replace(
    OF_KAFKA,
    updated_at=at(124_500),
    is_prepared=True,
    version=2,
    events=(TransactionEvent(at(99_000), "fenced", 2**40, 7, "me", "10.0.0.1", "why"),),
    coordinator=8,
    shard=3,
)


def described(*states: _Described) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=states)


@pytest.mark.parametrize("version", DESCRIBE_TRANSACTIONS.versions)
@pytest.mark.parametrize(("private", "expected"), [(True, OF_OTTLA), (False, OF_KAFKA)], ids=["ottla", "kafka"])
def test_a_transaction_is_described(version: int, private: bool, expected: TransactionInfo) -> None:
    asked = description("x")
    assert list(sent(asked, version).transactional_ids) == ["x"]
    assert meaning(asked, described(OPEN), version, private=private) == expected


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort"])
def test_a_transaction_that_is_over_has_no_start(state: str) -> None:
    over = _Described(transactional_id="x", transaction_state=state, transaction_start_time_ms=123)
    assert meaning(description("x"), described(over), 0).started_at is None


def test_a_transaction_that_never_began_has_no_start() -> None:
    empty = _Described(transactional_id="x", transaction_state="Empty", transaction_start_time_ms=-1)
    assert meaning(description("x"), described(empty), 0).started_at is None


@pytest.mark.parametrize(("timeout_ms", "expected"), [(2**31 - 1, None), (2**31 - 2, 2147483.646), (-1, 0.0)])
def test_the_longest_timeout_means_no_timeout(timeout_ms: int, expected: float | None) -> None:
    state = _Described(transactional_id="x", transaction_state="Ongoing", transaction_timeout_ms=timeout_ms)
    assert meaning(description("x"), described(state), 0).timeout == expected


@pytest.mark.parametrize("code", [NOT_FOUND, 16])
def test_an_id_that_can_not_be_described_is_an_error(code: int) -> None:
    failed = described(_Described(transactional_id="x", error_code=code, error_message="why"))
    with pytest.raises(OttlaError, match="why") as caught:
        meaning(description("x"), failed, 0)
    assert caught.value.code == code


@pytest.mark.parametrize("version", DESCRIBE_TRANSACTIONS.versions)
def test_an_id_among_others_that_does_not_exist_has_no_description(version: int) -> None:
    asked = descriptions(["x", "y"])
    assert list(sent(asked, version).transactional_ids) == ["x", "y"]
    response = described(OPEN, _Described(transactional_id="y", error_code=NOT_FOUND))
    assert meaning(asked, response, version) == {"x": OF_OTTLA, "y": None}


def test_any_other_error_of_one_id_is_the_error_of_all() -> None:
    response = described(OPEN, _Described(transactional_id="y", error_code=16, error_message="why"))
    with pytest.raises(OttlaError, match="why") as caught:
        meaning(descriptions(["x", "y"]), response, 0)
    assert caught.value.code == ErrorCode.NOT_COORDINATOR


def test_a_response_without_the_id_makes_no_sense() -> None:
    with pytest.raises(OttlaError, match="makes no sense") as caught:
        meaning(description("x"), described(), 0)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
