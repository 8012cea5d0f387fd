"""Calls that Kafka's messages can't express: the method and its request go unchanged, in the private API."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka.apis import OTTLA_CALL
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import MOST_BYTES, private_call, raise_in_band
from ottla.errors import ErrorCode, OttlaError
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_core.kafka import codec
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_proto import broker_pb2
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import ClientCalls, Group

LAG = private_call(Group.LAG, pb.LagRequest(group="g"), lambda response: response)


def sent(asked: Exchange[Any]) -> OttlaCallRequest:
    """Return the request as a broker gets it."""
    return codec.decode(OttlaCallRequest, codec.encode(asked.builder(1500)(0), 0), 0)


def response_to(response: OttlaCallResponse) -> pb.LagResponse:
    return LAG.result(codec.decode(OttlaCallResponse, codec.encode(response, 0), 0), "b:1")


def error_in(response: OttlaCallResponse) -> OttlaError:
    with pytest.raises(OttlaError) as caught:
        response_to(response)
    return caught.value


def an_import(size_bytes: int) -> Exchange[Any]:
    request = broker_pb2.ImportRecordsRequest(records=bytes(size_bytes))
    return private_call(ClientCalls.IMPORT_RECORDS, request, lambda response: response)


def test_a_request_goes_as_it_is_with_its_method_and_its_time() -> None:
    request = sent(LAG)
    assert (request.method, request.timeout_ms) == ("/ottla.v1.Group/Lag", 1500)
    assert pb.LagRequest.FromString(request.body) == pb.LagRequest(group="g")


def test_a_request_that_would_end_the_connection_is_not_sent() -> None:
    sent(an_import(MOST_BYTES - 100))
    with pytest.raises(OttlaError) as caught:
        sent(an_import(MOST_BYTES))
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert caught.value.hint == f"send at most {MOST_BYTES} bytes at once"
    assert ConnectionLimits().max_control == MOST_BYTES + 64 * 1024


def test_a_connection_knows_how_large_a_request_is() -> None:
    assert an_import(5_000).size_bytes >= 5_000


def test_errors_name_the_method_and_not_the_api() -> None:
    assert (LAG.api.name, LAG.api.key, LAG.api.hint) == ("Group.Lag", OTTLA_CALL.key, OTTLA_CALL.hint)


def test_a_private_call_keeps_no_other_call_waiting() -> None:
    """A broker may ask many others for it, and answers the requests of a connection in their order."""
    assert LAG.api.waits


def test_the_reader_gets_the_response_of_the_method() -> None:
    lag = pb.LagResponse(partitions=[pb.PartitionLag(topic="t", error=Error(code=14))])
    assert response_to(OttlaCallResponse(body=lag.SerializeToString())) == lag


def test_an_error_of_the_method_is_raised() -> None:
    failed = pb.LagResponse(error=Error(code=14, message="is loading"), partitions=[pb.PartitionLag(topic="t")])
    error = error_in(OttlaCallResponse(body=failed.SerializeToString()))
    assert (error.code, error.message) == (14, "is loading")


def test_an_error_of_the_broker_is_raised() -> None:
    error = error_in(OttlaCallResponse(error_code=35, error_message="is no method"))
    assert (error.code, error.message) == (35, "is no method")
    assert error_in(OttlaCallResponse(error_code=42, error_message=None)).code == 42


def test_a_part_may_have_an_error() -> None:
    raise_in_band(Error())
    with pytest.raises(OttlaError, match="is loading") as caught:
        raise_in_band(Error(code=14, message="is loading"))
    assert caught.value.code == 14


def test_garbage_is_an_error_of_this_call() -> None:
    """A broker of another vendor may have another API with this key."""
    error = error_in(OttlaCallResponse(body=b"\xff"))
    assert error.code == ErrorCode.NETWORK_EXCEPTION
    assert error.message.startswith("Group.Lag at b:1: the broker's response makes no sense")


@pytest.mark.parametrize("version", OTTLA_CALL.versions)
def test_headers_are_flexible(version: int) -> None:
    assert (OTTLA_CALL.request_header(version), OTTLA_CALL.response_header(version)) == (2, 1)
