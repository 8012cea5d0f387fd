"""Calls that Kafka's messages can't express: the method and its request go unchanged, in the private API."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from ottla.client.kafka.apis import OTTLA_CALL
from ottla.client.kafka.translations.private import MOST_BYTES, PrivateTranslation
from ottla.client.kafka.translations.table import translations_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_core.kafka import codec
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_proto import client_pb2
from ottla_proto import group_pb2 as pb
from ottla_proto.client_calls import Client
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group

TERMS = Terms(0, 1500, TopicNames())


def response_to(response: OttlaCallResponse) -> pb.LagResponse:
    arrived = codec.decode(OttlaCallResponse, codec.encode(response, 0), 0)
    found = translations_of(Group.LAG)().response(arrived, TERMS)
    assert isinstance(found, pb.LagResponse)
    return found


def test_a_method_without_a_message_of_kafka_goes_by_the_private_api() -> None:
    assert isinstance(translations_of(Group.LAG)(), PrivateTranslation)
    assert not isinstance(translations_of(Client.METADATA)(), PrivateTranslation)


def test_a_request_goes_as_it_is_with_its_method_and_its_time() -> None:
    message = translations_of(Group.LAG)().request(pb.LagRequest(group="g"), TERMS)
    sent = codec.decode(OttlaCallRequest, codec.encode(message, 0), 0)
    assert (sent.method, sent.timeout_ms) == ("/ottla.v1.Group/Lag", 1500)
    assert pb.LagRequest.FromString(sent.body) == pb.LagRequest(group="g")


def test_a_request_that_would_end_the_connection_is_not_sent() -> None:
    import_records = translations_of(Client.IMPORT_RECORDS)()
    import_records.request(client_pb2.ImportRecordsRequest(records=bytes(MOST_BYTES - 100)), TERMS)
    with pytest.raises(OttlaError) as caught:
        import_records.request(client_pb2.ImportRecordsRequest(records=bytes(MOST_BYTES)), TERMS)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert ConnectionLimits().max_control == MOST_BYTES + 64 * 1024


def test_errors_name_the_method_and_not_the_api() -> None:
    api = translations_of(Group.LAG)().api
    assert (api.name, api.key, api.hint) == ("Group.Lag", OTTLA_CALL.key, OTTLA_CALL.hint)


def test_a_private_call_keeps_no_other_call_waiting() -> None:
    """A broker may ask many others for it, and answers the requests of a connection in their order."""
    assert translations_of(Group.LAG)().api.waits


def test_the_response_of_the_method_is_what_is_returned() -> None:
    lag = pb.LagResponse(error=Error(code=14, message="is loading"), partitions=[pb.PartitionLag(topic="t")])
    assert response_to(OttlaCallResponse(body=lag.SerializeToString())) == lag


def test_an_error_of_the_broker_is_one_of_the_method() -> None:
    refused = OttlaCallResponse(error_code=35, error_message="is no method")
    assert response_to(refused) == pb.LagResponse(error=Error(code=35, message="is no method"))
    assert response_to(OttlaCallResponse(error_code=42, error_message=None)).error == Error(code=42)


def test_garbage_is_an_error_of_this_call() -> None:
    """Somebody else's broker, which has another API with this key, may send it. The peer reports it as an error of the
    call (`test_values_that_make_no_sense_are_the_error_of_their_call`)."""
    with pytest.raises(DecodeError):
        response_to(OttlaCallResponse(body=b"\xff"))


@pytest.mark.parametrize("version", OTTLA_CALL.versions)
def test_headers_are_flexible(version: int) -> None:
    assert (OTTLA_CALL.request_header(version), OTTLA_CALL.response_header(version)) == (2, 1)
