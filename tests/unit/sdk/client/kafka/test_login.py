"""A login on a connection: its place in the order of requests, how it is repeated, and every way in which it fails."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from kafka_answers import SERVED, AnsweringBroker, Request, framed
from tests.fuzz_client.logins import ScramBroker

from ottla.client.kafka.apis import INIT_PRODUCER_ID, SASL_AUTHENTICATE, SASL_HANDSHAKE
from ottla.client.kafka.call import Answered, Call, Failed
from ottla.client.kafka.connection import LOGIN_S, KafkaConnection, Phase
from ottla.client.kafka.login import Login
from ottla.client.kafka.sasl.conversation import Conversation
from ottla.client.kafka.sasl.oauthbearer import OAuthBearerConversation
from ottla.client.kafka.sasl.plain import PlainConversation
from ottla.client.kafka.sasl.scram import ScramConversation
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla_core.rpc.deadlines import NEVER

PASSWORD = "pencil-17"
FAR = 1000.0

Answer = Callable[[bytes], SaslAuthenticateResponse]


def plain_broker(message: bytes, **last: Any) -> SaslAuthenticateResponse:
    if message != b"\0user\0" + PASSWORD.encode():
        return SaslAuthenticateResponse(error_code=58, error_message=f"Invalid password: {message!r}")
    return SaslAuthenticateResponse(**last)


def token_broker(message: bytes) -> SaslAuthenticateResponse:
    if message == b"\x01":
        return SaslAuthenticateResponse(error_code=58, error_message='{"status":"invalid_token"}')
    if message == b"n,,\x01auth=Bearer good\x01\x01":
        return SaslAuthenticateResponse()
    return SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')


def a_call(name: str = "call", deadline: float = FAR) -> Call[Any]:
    return Call(INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(transactional_id=None), name, deadline)


def plain(password: str = PASSWORD) -> Conversation:
    return PlainConversation("user", password)


def scram(password: str = PASSWORD) -> Conversation:
    return ScramConversation("SCRAM-SHA-256", "user", password, "nonce")


def negotiated() -> tuple[KafkaConnection[Any], AnsweringBroker]:
    """A connection with a call, to a broker that has answered ApiVersions."""
    connection, broker = KafkaConnection[Any]("b:1", "me", "1.0", 0.0, logs_in=True), AnsweringBroker()
    connection.call(a_call())
    broker.negotiate(connection)
    assert broker.requests == []
    assert connection.seeks_login
    return connection, broker


def serve(connection: KafkaConnection[Any], broker: AnsweringBroker, answer: Answer) -> list[Request]:
    """Answer the requests of a login, and return the other requests that came."""
    others = []
    broker.take(connection)
    while broker.requests:
        request = broker.requests.pop(0)
        match request.message:
            case SaslHandshakeRequest():
                connection.on_bytes(framed(request, SaslHandshakeResponse(mechanisms=["PLAIN"])))
            case SaslAuthenticateRequest(auth_bytes=message):
                connection.on_bytes(framed(request, answer(message)))
            case _:
                others.append(request)
        broker.take(connection)
    return others


def logged_in(
    conversation: Conversation, answer: Answer, now: float = 0.0
) -> tuple[KafkaConnection[Any], AnsweringBroker, list[Request]]:
    connection, broker = negotiated()
    connection.begin_login(now)
    connection.log_in(conversation)
    return connection, broker, serve(connection, broker, answer)


def error_of(connection: KafkaConnection[Any]) -> OttlaError:
    """The error of the connection, which is the one of its only call, and has no credentials."""
    assert connection.ended is not None
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Failed)
    assert not outcome.was_sent
    assert outcome.error.message == f"InitProducerId at b:1: {connection.ended.message}"
    assert (outcome.error.code, outcome.error.hint) == (connection.ended.code, connection.ended.hint)
    assert PASSWORD not in str(outcome.error)
    return connection.ended


@pytest.mark.parametrize(
    ("conversation", "answer", "rounds"),
    [
        (plain, plain_broker, 1),
        (scram, ScramBroker(PASSWORD), 2),
        (lambda: OAuthBearerConversation("good"), token_broker, 1),
    ],
)
def test_a_call_waits_for_the_login(conversation: Callable[[], Conversation], answer: Answer, rounds: int) -> None:
    told: list[bytes] = []

    def listening(message: bytes) -> SaslAuthenticateResponse:
        told.append(message)
        return answer(message)

    connection, _, (request,) = logged_in(conversation(), listening)
    assert len(told) == rounds
    assert connection.phase is Phase.READY
    assert not connection.seeks_login
    connection.on_bytes(framed(request, InitProducerIdResponse(producer_id=7)))
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Answered)


def test_nothing_is_sent_before_the_credentials_are_there() -> None:
    connection, broker = negotiated()
    connection.begin_login(1.0)
    assert not connection.seeks_login
    broker.take(connection)
    assert broker.requests == []
    connection.log_in(plain())
    connection.log_in(plain())  # a second one is too late
    broker.take(connection)
    (request,) = broker.requests
    assert (request.api, request.version) == (SASL_HANDSHAKE, 1)


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conversation", "answer", "words"),
    [
        (plain("wrong"), plain_broker, r"by PLAIN: Invalid password: b'\\x00user\\x00\*\*\*'"),
        (scram("wrong"), ScramBroker(PASSWORD), "by SCRAM-SHA-256: invalid credentials"),
        (OAuthBearerConversation("bad"), token_broker, 'by OAUTHBEARER: {"status":"invalid_token"}'),
    ],
)
def test_rejected_credentials_end_the_connection(conversation: Conversation, answer: Answer, words: str) -> None:
    connection, *_ = logged_in(conversation, answer)
    error = error_of(connection)
    assert error.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not error.retriable
    with pytest.raises(OttlaError, match=f"the broker rejected the login {words}"):
        raise error


@pytest.mark.parametrize(
    ("response", "code", "words"),
    [
        (
            SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256", "PLAIN"]),
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "has not enabled the mechanism OAUTHBEARER (it has SCRAM-SHA-256, PLAIN)",
        ),
        (
            SaslHandshakeResponse(error_code=33),
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "has not enabled the mechanism OAUTHBEARER (it has none)",
        ),
        (SaslHandshakeResponse(error_code=34), ErrorCode.ILLEGAL_SASL_STATE, "the port expects no login (SASL)"),
        (SaslHandshakeResponse(error_code=-1), ErrorCode.UNKNOWN_SERVER_ERROR, "it did not take the mechanism"),
    ],
)
def test_a_mechanism_that_the_broker_does_not_take(response: Message, code: ErrorCode, words: str) -> None:
    connection, broker = negotiated()
    connection.begin_login(0.0)
    connection.log_in(OAuthBearerConversation("good"))
    broker.take(connection)
    connection.on_bytes(framed(broker.requests[0], response))
    error = error_of(connection)
    assert error.code == code
    assert words in error.message


def test_a_broker_without_logins() -> None:
    served = [each for each in SERVED if each[0] != SASL_HANDSHAKE.key]
    connection, broker = KafkaConnection[Any]("b:1", "me", "1.0", 0.0, logs_in=True), AnsweringBroker(served)
    connection.call(a_call())
    broker.negotiate(connection)
    connection.begin_login(0.0)
    connection.log_in(plain())
    error = error_of(connection)
    assert error.code == ErrorCode.UNSUPPORTED_VERSION
    assert "this client can't call SaslHandshake" in error.message


def test_a_broker_that_does_not_know_the_password_is_left() -> None:
    def forger(message: bytes) -> SaslAuthenticateResponse:
        answer = ScramBroker(PASSWORD)
        honest = answer(message) if message.startswith(b"n,,") else None
        return honest or SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(bytes(32)))

    connection, *_ = logged_in(scram(), forger)
    assert "its signature is wrong" in error_of(connection).message


@pytest.mark.parametrize("length", [2**31 - 1, 64 * 1024 + 1, 3, -1])
@pytest.mark.parametrize("api", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
def test_a_response_of_an_impossible_length(length: int, api: Any) -> None:
    connection, broker = negotiated()
    connection.begin_login(0.0)
    connection.log_in(plain())
    broker.take(connection)
    if api is SASL_AUTHENTICATE:
        connection.on_bytes(framed(broker.requests.pop(), SaslHandshakeResponse()))
        broker.take(connection)
    (request,) = broker.requests
    assert request.api is api
    connection.on_bytes(length.to_bytes(4, "big", signed=True) + request.correlation_id.to_bytes(4, "big"))
    assert f"announced a response of {length} bytes" in error_of(connection).message


def test_garbage_instead_of_a_response() -> None:
    connection, broker = negotiated()
    connection.begin_login(0.0)
    connection.log_in(plain())
    broker.take(connection)
    connection.on_bytes(b"\0\0\0\x05" + broker.requests[0].correlation_id.to_bytes(4, "big") + b"\xff")
    assert error_of(connection).message == "it answered SaslHandshake with garbage"


def test_a_broker_that_closes_in_the_middle_or_says_nothing() -> None:
    connection, broker = negotiated()
    connection.begin_login(3.0)
    connection.log_in(plain())
    broker.take(connection)
    connection.on_closed()
    assert error_of(connection).message == "it closed the connection"

    connection, _ = negotiated()
    connection.begin_login(3.0)
    assert connection.next_deadline == 3.0 + LOGIN_S
    connection.on_time(3.0 + LOGIN_S)
    assert error_of(connection).message == "the login was not finished within 10 s"


def test_a_call_that_can_not_wait_for_the_login_ends_alone() -> None:
    connection, _ = negotiated()
    connection.call(a_call("soon", 5.0))
    connection.begin_login(0.0)
    connection.on_time(5.0)
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "InitProducerId at b:1: the login was not finished in time"
    assert connection.ended is None


def test_there_are_no_credentials() -> None:
    connection, _ = negotiated()
    connection.begin_login(0.0)
    connection.refuse_login(OttlaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "there is no token", hint="get one"), 0.0)
    assert error_of(connection).hint == "get one"


# ---- a login ends (KIP-368) ------------------------------------------------------------------------------------------


def lasting(ms: int) -> Answer:
    return lambda message: plain_broker(message, session_lifetime_ms=ms)


def test_the_next_call_waits_until_the_connection_has_logged_in_again() -> None:
    connection, broker, (first,) = logged_in(plain(), lasting(10_000), now=1.0)
    connection.call(a_call("second"))
    broker.take(connection)
    (second,) = broker.requests
    broker.requests.clear()
    assert connection.next_deadline == 10.0  # 90 % of ten seconds after the first login began
    connection.on_time(9.999)
    connection.on_time(10.0)
    assert not connection.seeks_login
    assert connection.output() == []  # without a further call there is no login

    connection.call(a_call("third"))
    broker.take(connection)
    assert connection.seeks_login
    connection.begin_login(10.5)
    connection.log_in(plain())
    broker.take(connection)
    (handshake,) = broker.requests
    assert handshake.api is SASL_HANDSHAKE

    # The broker answers in order: first the calls that were in flight.
    for request in (first, second):
        connection.on_bytes(framed(request, InitProducerIdResponse(producer_id=7)))
    assert [outcome.call.waiter for outcome in connection.take_outcomes()] == ["call", "second"]
    (third,) = serve(connection, broker, lasting(10_000))
    connection.on_bytes(framed(third, InitProducerIdResponse(producer_id=7)))
    assert [outcome.call.waiter for outcome in connection.take_outcomes()] == ["third"]
    assert connection.phase is Phase.READY
    assert connection.next_deadline == 19.5


@pytest.mark.story("no-token-for-a-moment")
def test_without_credentials_for_the_next_login_the_connection_goes_on_until_its_session_ends() -> None:
    connection, broker, (first,) = logged_in(plain(), lasting(100_000))
    no_token = OttlaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "there is no token")
    connection.on_time(90.0)
    connection.call(a_call("second", 2 * FAR))
    broker.take(connection)
    connection.begin_login(90.0)
    connection.refuse_login(no_token, 91.0)
    broker.take(connection)
    second = broker.requests[-1]
    for request in (first, second):
        connection.on_bytes(framed(request, InitProducerIdResponse(producer_id=7)))
    assert [type(outcome) for outcome in connection.take_outcomes()] == [Answered, Answered]

    assert connection.next_deadline == 93.25  # a quarter of the nine seconds that are left
    connection.on_time(93.25)
    connection.call(a_call("third", 2 * FAR))
    broker.take(connection)
    assert connection.seeks_login
    connection.begin_login(93.25)
    connection.refuse_login(no_token, 99.5)
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Failed)
    assert (outcome.was_sent, outcome.error.code) == (False, ErrorCode.SASL_AUTHENTICATION_FAILED)


@pytest.mark.story("sent-call-without-a-login")
def test_calls_that_were_sent_are_interrupted_and_not_rejected_when_there_are_no_credentials() -> None:
    connection, broker, _ = logged_in(plain(), lasting(10_000))
    connection.on_time(9.0)
    connection.call(a_call("second"))
    broker.take(connection)
    connection.begin_login(9.0)
    connection.refuse_login(OttlaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "there is no token"), 9.5)
    first, second = connection.take_outcomes()
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert (first.was_sent, first.error.code) == (True, ErrorCode.NETWORK_EXCEPTION)
    assert (second.was_sent, second.error.code) == (False, ErrorCode.SASL_AUTHENTICATION_FAILED)


def test_the_time_for_a_login_begins_behind_the_calls_in_flight() -> None:
    connection, broker, (first,) = logged_in(plain(), lasting(10_000))
    connection.on_time(9.0)
    connection.call(a_call("second"))
    broker.take(connection)
    connection.begin_login(9.0)
    connection.log_in(plain())
    broker.take(connection)
    connection.on_time(9.0 + 2 * LOGIN_S)
    assert connection.ended is None
    connection.on_bytes(framed(first, InitProducerIdResponse(producer_id=7)))
    connection.on_time(FAR + LOGIN_S)
    assert connection.ended is not None
    assert connection.ended.message == "the login was not finished within 10 s"


def test_a_login_that_is_not_renewed_fails_only_what_was_not_sent() -> None:
    connection, broker, (first,) = logged_in(plain(), lasting(10_000))
    connection.on_time(9.0)
    connection.call(a_call("second"))
    broker.take(connection)
    connection.begin_login(9.0)
    connection.log_in(plain("changed"))
    broker.take(connection)
    connection.on_bytes(framed(first, InitProducerIdResponse(producer_id=7)))
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Answered)
    serve(connection, broker, plain_broker)
    (outcome,) = connection.take_outcomes()
    assert isinstance(outcome, Failed)
    assert (outcome.call.waiter, outcome.was_sent) == ("second", False)
    assert outcome.error.code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("ms", "used", "seconds"),
    [(0, 0.9, NEVER), (-5, 0.9, NEVER), (1, 0.9, 1.0), (60_000, 0.85, 51.0), (60_000, 0.9, 54.0)],
)
def test_when_the_next_login_is_due(ms: int, used: float, seconds: float) -> None:
    login = Login(plain(), used)
    login.on_response(SaslHandshakeResponse())
    login.on_response(SaslAuthenticateResponse(session_lifetime_ms=ms))
    assert login.is_over
    assert login.lifetime_s == seconds


def test_a_login_is_renewed_in_the_midst_of_a_frame() -> None:
    """What is being written is written to its end first."""
    connection, broker, (first,) = logged_in(plain(), lasting(10_000))
    connection.on_bytes(framed(first, InitProducerIdResponse(producer_id=7)))
    connection.take_outcomes()
    connection.call(a_call("second"))
    data = b"".join(connection.output())
    connection.on_written(10)
    connection.on_time(9.0)
    connection.call(a_call("third"))
    assert b"".join(connection.output()) == data[10:]
    connection.begin_login(9.0)
    connection.log_in(plain())
    broker.read(data[:10])
    broker.take(connection)
    assert [request.api for request in broker.requests] == [INIT_PRODUCER_ID, SASL_HANDSHAKE]


def test_a_broker_that_expects_a_login_and_hangs_up_is_suspected() -> None:
    connection, broker = KafkaConnection[Any]("b:1", "me", "1.0", 0.0), AnsweringBroker()
    broker.negotiate(connection)
    connection.call(a_call())
    broker.take(connection)
    connection.on_closed()
    assert connection.ended is not None
    assert connection.ended.message == (
        "it closed the connection at the first request, as a port that expects a login (SASL) does"
    )
