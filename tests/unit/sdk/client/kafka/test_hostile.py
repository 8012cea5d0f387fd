"""A broker that breaks the protocol: one clear error for each call, and no more memory than for the bytes that came."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest
from kafka_answers import AnsweringBroker, framed

from ottla.client.kafka.apis import INIT_PRODUCER_ID
from ottla.client.kafka.call import Answered, Call, Failed
from ottla.client.kafka.connection import KafkaConnection, Phase
from ottla.errors import OttlaError
from ottla_core.kafka.messages import InitProducerIdRequest, InitProducerIdResponse

CALLS = 3


def asked(*, answered: bool = True) -> tuple[KafkaConnection[Any], AnsweringBroker]:
    """A connection with three calls: all of them sent if the broker has answered ApiVersions."""
    connection, broker = KafkaConnection[Any]("b:1", "me", "1.0", 0.0), AnsweringBroker()
    for n in range(CALLS):
        connection.call(Call(INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(transactional_id=None), n, 10.0))
    if answered:
        broker.negotiate(connection)
    else:
        connection.on_connected(0.0)
        broker.take(connection)
    return connection, broker


def responses(broker: AnsweringBroker) -> list[bytes]:
    return [framed(request, InitProducerIdResponse(producer_id=7)) for request in broker.requests]


def reason(connection: KafkaConnection[Any]) -> str:
    assert connection.ended is not None
    return connection.ended.message


def assert_each_ended_once(connection: KafkaConnection[Any]) -> None:
    outcomes = connection.take_outcomes()
    assert sorted(outcome.call.waiter for outcome in outcomes) == list(range(CALLS))


STRANGERS = {
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n": "it is an HTTP server",
    b"\x15\x03\x03\x00\x02\x02\x28": "it expects TLS, which this client does not use",
    b"\x15\x03\x01\x00\x02\x02\x46": "it expects TLS, which this client does not use",
    b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18): "it speaks HTTP/2, as a gRPC port does",
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00": "it speaks HTTP/2, as a gRPC port does",
}


@pytest.mark.parametrize("piece", [1, 3, 100])
@pytest.mark.parametrize(("first", "words"), STRANGERS.items())
def test_another_protocol_is_named(first: bytes, words: str, piece: int) -> None:
    connection, _ = asked(answered=False)
    for at in range(0, len(first), piece):
        connection.on_bytes(first[at : at + piece])
    connection.on_closed()
    assert reason(connection) == words
    assert_each_ended_once(connection)


def test_another_protocol_is_named_at_the_deadline_too() -> None:
    connection, _ = asked(answered=False)
    connection.on_bytes(b"\x15\x03\x03\x00\x02\x02\x28")
    connection.on_time(10.0)
    assert reason(connection) == "it expects TLS, which this client does not use"


def test_another_protocol_is_named_to_a_call_whose_deadline_comes_first() -> None:
    connection, _ = asked(answered=False)
    connection.call(Call(INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(transactional_id=None), "soon", 1.0))
    connection.on_bytes(b"\x15\x03\x03\x00\x02\x02\x28")
    connection.on_time(1.0)
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "InitProducerId at b:1: it expects TLS, which this client does not use"
    assert connection.ended is None


def test_a_port_that_hangs_up_may_expect_tls() -> None:
    connection, _ = asked(answered=False)
    connection.on_closed()
    assert reason(connection) == "it closed the connection at once, as a port that expects TLS may"


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, 16 * 1024 * 1024 + 1, 2**31 - 1])
def test_a_length_that_no_response_has_ends_the_connection(length: int) -> None:
    connection, broker = asked()
    connection.on_bytes(struct.pack(">ii", length, broker.requests[0].correlation_id))
    assert reason(connection).startswith(
        f"it announced a response of {length} bytes, but no response to this call has that length"
    )
    assert_each_ended_once(connection)


def test_the_response_to_api_versions_is_short() -> None:
    connection, broker = asked(answered=False)
    connection.on_bytes(struct.pack(">ii", 1024 * 1024, broker.requests[0].correlation_id))
    assert "no response to this call has that length" in reason(connection)


def test_a_response_to_another_request_ends_the_connection() -> None:
    connection, broker = asked()
    connection.on_bytes(responses(broker)[1])
    first, second = (request.correlation_id for request in broker.requests[:2])
    assert reason(connection).startswith(f"it answered request {second}, but request {first} was next in order")
    assert_each_ended_once(connection)


@pytest.mark.parametrize("calls", [1, CALLS])
def test_a_second_response_to_a_request_ends_the_connection(calls: int) -> None:
    connection, broker = asked()
    answers = responses(broker)[:calls]
    connection.on_bytes(b"".join([*answers, answers[-1]]))
    words = "nobody had asked for" if calls == CALLS else "was next in order"
    assert words in reason(connection)
    assert_each_ended_once(connection)


def test_a_frame_that_makes_no_sense_is_the_error_of_its_call() -> None:
    connection, broker = asked()
    correlation_id = struct.pack(">i", broker.requests[0].correlation_id)
    connection.on_bytes(struct.pack(">i", 6) + correlation_id + b"\xff\xff")
    outcome = connection.take_outcomes()[0]
    assert isinstance(outcome, Answered)
    with pytest.raises(OttlaError, match="InitProducerId at b:1: the broker answered with garbage"):
        outcome.message()


@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"\x00\x23", b"\x00\x23\xff\xff\xff\xff", b"\x00\x00\xff\xff\xff\xff\x0f"]
)
def test_garbage_instead_of_versions_ends_the_connection(body: bytes) -> None:
    connection, broker = asked(answered=False)
    connection.on_bytes(struct.pack(">ii", 4 + len(body), broker.requests[0].correlation_id) + body)
    assert "it answered ApiVersions with garbage" in reason(connection)
    assert_each_ended_once(connection)


@pytest.mark.parametrize(
    ("named", "asked_versions"), [(None, [5, 0]), (5, [5, 4, 3, 2, 1, 0]), (9, [5, 4, 3, 2, 1, 0])]
)
def test_a_broker_that_refuses_each_version_of_api_versions_is_not_asked_for_ever(
    named: int | None, asked_versions: list[int]
) -> None:
    connection, broker = asked(answered=False)
    ranges = b"" if named is None else struct.pack(">hhh", 18, 0, named)
    asked_for = []
    while connection.ended is None:
        request = broker.requests.pop()
        asked_for.append(request.version)
        body = struct.pack(">ihi", request.correlation_id, 35, len(ranges) // 6) + ranges
        connection.on_bytes(struct.pack(">i", len(body)) + body)
        broker.take(connection)
    assert asked_for == asked_versions
    assert reason(connection) == "it refused ApiVersions with Kafka's error 35"


def test_a_broker_that_closes_at_any_byte_has_answered_what_it_has_sent_whole() -> None:
    whole = b"".join(responses(asked()[1]))
    for end in range(len(whole) + 1):
        connection, broker = asked()
        answers = responses(broker)
        connection.on_bytes(b"".join(answers)[:end])
        connection.on_closed()
        outcomes = connection.take_outcomes()
        answered = end // len(answers[0])
        assert [type(outcome) for outcome in outcomes] == [Answered] * answered + [Failed] * (CALLS - answered)
        assert all(outcome.was_sent for outcome in outcomes if isinstance(outcome, Failed))


def test_a_long_response_takes_as_much_memory_as_has_come_of_it() -> None:
    connection, broker = asked()
    tracemalloc.start()
    connection.on_bytes(struct.pack(">ii", 16 * 1024 * 1024, broker.requests[0].correlation_id))
    for _ in range(1000):
        connection.on_bytes(bytes(100))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert connection.ended is None
    assert taken < 400_000


@pytest.mark.parametrize("phase", [Phase.NEGOTIATING, Phase.READY])
def test_random_bytes_never_raise_and_never_end_a_call_twice(phase: Phase) -> None:
    chance = random.Random(46)
    for _ in range(2000):
        connection, broker = asked(answered=phase is Phase.READY)
        good = broker.versions(broker.requests[0]) if phase is Phase.NEGOTIATING else b"".join(responses(broker))
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at:at] = chance.randbytes(chance.randrange(1, 5))
                case _:
                    del data[at : at + chance.randrange(1, 5)]
            if not data:
                data = bytearray(b"\xff")
        at = 0
        while at < len(data):
            count = chance.randint(1, len(data))
            connection.on_bytes(bytes(data[at : at + count]))
            at += count
        broker.take(connection)
        connection.on_closed()
        assert_each_ended_once(connection)
