"""What becomes of errors and of values that make no sense, on both ways of an exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from exchanged import meaning, sent

from ottla.admin.group_descriptions import listing as listing_of_groups
from ottla.admin.transaction_descriptions import listing as listing_of_transactions
from ottla.client.kafka.apis import HEARTBEAT
from ottla.client.kafka.exchange import NONSENSE, Exchange
from ottla.errors import ConnectError, ErrorCode, OttlaError, error_from_code, from_core
from ottla_core.kafka.messages import HeartbeatRequest, HeartbeatResponse

VERSION = HEARTBEAT.versions[-1]


class InterruptedByHandlerError(Exception):
    """What a signal handler raises."""


def heartbeat(read: Callable[[HeartbeatResponse], Any] = lambda _: None) -> Exchange[Any]:
    return Exchange(HEARTBEAT, lambda _: HeartbeatRequest(group_id="g"), read)


def raising(error: Exception) -> Callable[[HeartbeatResponse], None]:
    def read(response: HeartbeatResponse) -> None:
        raise error

    return read


def test_an_error_of_the_whole_request_is_raised() -> None:
    with pytest.raises(OttlaError) as caught:
        meaning(heartbeat(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), VERSION)
    assert caught.value.code == ErrorCode.REBALANCE_IN_PROGRESS
    with_errors = meaning(heartbeat().with_errors, HeartbeatResponse(error_code=27), VERSION)
    assert with_errors.value is None
    assert with_errors.error is not None
    assert with_errors.error.code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    "error", [IndexError(), KeyError("x"), TypeError(), ValueError(), AttributeError(), OverflowError()]
)
def test_a_response_that_makes_no_sense_is_an_error_that_names_the_address(error: Exception) -> None:
    with pytest.raises(OttlaError, match=f"Heartbeat at b0:1: {NONSENSE}") as caught:
        meaning(heartbeat(raising(error)), HeartbeatResponse(), VERSION)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize("error", [error_from_code(ErrorCode.INVALID_CONFIG, "no"), InterruptedByHandlerError()])
def test_errors_of_the_sdk_and_of_signal_handlers_are_no_nonsense(error: Exception) -> None:
    with pytest.raises(type(error)):
        meaning(heartbeat(raising(error)), HeartbeatResponse(), VERSION)


def test_arguments_that_make_no_request_are_an_error_of_the_call() -> None:
    missing: Any = None
    asked = Exchange(HEARTBEAT, lambda _: HeartbeatRequest(generation_id=len(missing)), lambda _: None)
    with pytest.raises(OttlaError, match="a request of Heartbeat can't be made") as caught:
        sent(asked, VERSION)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_meaning_can_be_judged() -> None:
    asked = heartbeat(lambda response: response.throttle_time_ms).then(lambda ms: ms / 1000)
    assert meaning(asked, HeartbeatResponse(throttle_time_ms=1500), VERSION) == 1.5


def test_an_error_is_of_the_broker_that_has_returned_it() -> None:
    error = error_from_code(ErrorCode.NETWORK_EXCEPTION, "gone")
    found = from_core(error, broker="b1:1")
    assert isinstance(found, ConnectError)
    assert (found.broker, found.message) == ("b1:1", "gone")
    assert from_core(found, broker="b2:1").broker == "b1:1"
    assert error.broker == ""


def test_each_broker_is_asked_with_the_whole_filter() -> None:
    states: Any = iter(["Stable"])  # users pass what can be iterated
    groups = listing_of_groups(states)
    assert [sent(groups, 5).states_filter for _ in range(2)] == [["Stable"], ["Stable"]]
    states, producer_ids = iter(["Ongoing"]), cast(Any, iter([7]))
    transactions = listing_of_transactions(states=states, producer_ids=producer_ids)
    asked = [sent(transactions, 2) for _ in range(2)]
    assert [(each.state_filters, each.producer_id_filters) for each in asked] == [(["Ongoing"], [7])] * 2
