"""A connection and its calls: every event in every phase, deadlines, bounds, and random schedules."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka_answers import APIS, AnsweringBroker, Request, framed

from ottla.client.kafka import calls as calls_module
from ottla.client.kafka.apis import INIT_PRODUCER_ID, METADATA, PRODUCE
from ottla.client.kafka.call import Answered, Call, Ended, Failed, Written
from ottla.client.kafka.connection import CONNECT_S, NEGOTIATION_S, KafkaConnection, Phase
from ottla.client.kafka.sasl.plain import PlainConversation
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)
from ottla_core.rpc.deadlines import NEVER

FAR = 1000.0


def new_connection(*, logs_in: bool = False) -> KafkaConnection[Any]:
    return KafkaConnection("b:1", "me", "1.0", 0.0, logs_in=logs_in)


def a_call(name: object = "call", deadline: float = FAR, **arguments: Any) -> Call[Any]:
    return Call(INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(transactional_id=None), name, deadline, **arguments)


def a_produce(name: object, records: bytes = b"", *, acks: int = 1, deadline: float = FAR) -> Call[Any]:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)

    def request(_: int) -> ProduceRequest:
        topic = ProduceRequest.TopicProduceData(topic_id=bytes(16), partition_data=[partition])
        return ProduceRequest(acks=acks, topic_data=[topic])

    return Call(PRODUCE, request, name, deadline, len(records), answered=acks != 0)


def answer(request: Request) -> bytes:
    return framed(request, InitProducerIdResponse(producer_id=request.correlation_id))


def ready() -> tuple[KafkaConnection[Any], AnsweringBroker]:
    connection, broker = new_connection(), AnsweringBroker()
    broker.negotiate(connection)
    assert connection.phase is Phase.READY
    return connection, broker


def told(connection: KafkaConnection[Any]) -> list[tuple[Any, ...]]:
    """The outcomes since the last call: which call, and how it ended."""
    return [shown(outcome) for outcome in connection.take_outcomes()]


def shown(outcome: Ended[Any]) -> tuple[Any, ...]:
    match outcome:
        case Answered():
            return outcome.call.waiter, "answered"
        case Written():
            return outcome.call.waiter, "written"
        case Failed(error=error, was_sent=was_sent):
            return outcome.call.waiter, ErrorCode(error.code).name, "indefinite" if was_sent else "definite"


# ---- every event in every phase --------------------------------------------------------------------------------------

Event = Callable[[KafkaConnection[Any], AnsweringBroker], None]
EVENTS: dict[str, Event] = {
    "call": lambda connection, _: connection.call(a_call("new")),
    "accepted": lambda connection, _: connection.on_accepted(),
    "connected": lambda connection, _: connection.on_connected(1.0),
    "login sought": lambda connection, _: connection.begin_login(1.0),
    "logged in": lambda connection, _: connection.log_in(PlainConversation("user", "password")),
    "refused": lambda connection, _: connection.refuse(OttlaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "no")),
    "lost": lambda connection, _: connection.on_lost("it was reset"),
    "closed by the broker": lambda connection, _: connection.on_closed(),
    "garbage": lambda connection, _: connection.on_bytes(b"\xff" * 20),
    "no bytes": lambda connection, _: connection.on_bytes(b""),
    "deadline of the connection": lambda connection, _: connection.on_time(max(CONNECT_S, NEGOTIATION_S)),
    "deadline of the call": lambda connection, _: connection.on_time(FAR),
    "close": lambda connection, _: connection.close("the client was closed"),
    "finish": lambda connection, _: connection.finish(),
}
NETWORK, TIMED_OUT = "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT"
REFUSED = "SASL_AUTHENTICATION_FAILED"
BEFORE = (Phase.CONNECTING, Phase.SECURING, Phase.NEGOTIATING, Phase.LOGGING_IN)
NOTHING: list[tuple[Any, ...]] = []
LOST_QUEUED, LOST_SENT = [("old", NETWORK, "definite")], [("old", NETWORK, "indefinite")]
LOST = {Phase.READY: LOST_SENT, Phase.ENDED: NOTHING} | dict.fromkeys(BEFORE, LOST_QUEUED)
TABLE: dict[tuple[str, Phase], tuple[Phase, list[tuple[Any, ...]]]] = (
    {
        (event, phase): (phase, NOTHING)
        for event in ("call", "accepted", "connected", "login sought", "logged in", "no bytes", "finish")
        for phase in Phase
    }
    | {
        ("call", Phase.ENDED): (Phase.ENDED, [("new", NETWORK, "definite")]),
        ("accepted", Phase.CONNECTING): (Phase.SECURING, NOTHING),
        ("connected", Phase.CONNECTING): (Phase.NEGOTIATING, NOTHING),
        ("connected", Phase.SECURING): (Phase.NEGOTIATING, NOTHING),
    }
    | {
        ("deadline of the connection", phase): (Phase.ENDED, LOST_QUEUED) if phase in BEFORE else (phase, NOTHING)
        for phase in Phase
    }
    | {("deadline of the call", phase): (Phase.ENDED, [("old", TIMED_OUT, "definite")]) for phase in BEFORE}
    | {
        ("deadline of the call", Phase.READY): (Phase.ENDED, [("old", TIMED_OUT, "indefinite")]),
        ("deadline of the call", Phase.ENDED): (Phase.ENDED, NOTHING),
    }
    | {
        (event, phase): (Phase.ENDED, told_then)
        for event in ("lost", "closed by the broker", "garbage", "close")
        for phase, told_then in LOST.items()
    }
    | {
        ("refused", phase): (Phase.ENDED, [("old", REFUSED, "definite")] if phase in BEFORE else LOST[phase])
        for phase in Phase
    }
)


def in_phase(phase: Phase) -> tuple[KafkaConnection[Any], AnsweringBroker]:
    """A connection with one call, "old", which is written as soon as it can be."""
    connection, broker = new_connection(logs_in=phase is Phase.LOGGING_IN), AnsweringBroker()
    connection.call(a_call("old"))
    if phase in (Phase.READY, Phase.LOGGING_IN):
        broker.negotiate(connection)
    elif phase is Phase.SECURING:
        connection.on_accepted()
    elif phase is not Phase.CONNECTING:
        connection.on_connected(0.0)
        broker.take(connection)
    if phase is Phase.ENDED:
        connection.close("a reason")
        connection.take_outcomes()
    assert connection.phase is phase
    return connection, broker


def test_the_table_is_complete() -> None:
    assert set(TABLE) == {(event, phase) for event in EVENTS for phase in Phase}


@pytest.mark.parametrize(("event", "phase"), TABLE, ids=lambda each: each.value if isinstance(each, Phase) else each)
def test_an_event_in_a_phase(event: str, phase: Phase) -> None:
    connection, broker = in_phase(phase)
    EVENTS[event](connection, broker)
    broker.take(connection)
    assert (connection.phase, told(connection)) == TABLE[event, phase]
    assert (connection.ended is not None) == (connection.phase is Phase.ENDED)
    if connection.phase is Phase.ENDED:
        assert not connection.output()
        assert connection.next_deadline == NEVER
    connection.close("the end of the test")
    left = told(connection)
    assert len(left) == len(set(left))


def test_the_end_of_a_connection_has_the_first_reason() -> None:
    connection, _ = ready()
    connection.on_closed()
    connection.close("another reason")
    assert connection.ended is not None
    assert connection.ended.message == "it closed the connection"


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_calls_that_were_made_before_the_connection_are_written_in_their_order_and_answered() -> None:
    connection, broker = new_connection(), AnsweringBroker()
    for n in range(5):
        connection.call(a_call(n))
    broker.negotiate(connection)
    assert [request.api for request in broker.requests] == [INIT_PRODUCER_ID] * 5
    assert len({request.correlation_id for request in broker.requests}) == 5
    connection.on_bytes(b"".join(map(answer, broker.requests)))
    outcomes = connection.take_outcomes()
    assert [shown(outcome) for outcome in outcomes] == [(n, "answered") for n in range(5)]
    for outcome, request in zip(outcomes, broker.requests, strict=True):
        assert isinstance(outcome, Answered)
        assert outcome.message() == InitProducerIdResponse(producer_id=request.correlation_id)


def test_a_call_without_a_response_ends_when_its_last_byte_is_written() -> None:
    connection, _ = ready()
    connection.call(a_produce("silent", b"x" * 1000, acks=0))
    connection.call(a_call("asked"))
    pieces = b"".join(connection.output())
    connection.on_written(1000)
    assert told(connection) == NOTHING
    connection.on_written(len(pieces) - 1000 - 1)
    assert told(connection) == [("silent", "written")]
    connection.on_lost("it was reset")
    assert told(connection) == [("asked", NETWORK, "definite")]


def test_a_request_that_can_not_be_spelled_fails_alone_and_definitely() -> None:
    connection, broker = ready()

    def unknown(_: int) -> MetadataRequest:
        raise OttlaError(ErrorCode.UNKNOWN_TOPIC_ID, "unknown")

    connection.call(Call(METADATA, unknown, "refused", FAR))
    connection.call(Call(METADATA, lambda _: MetadataRequest(topics="no list"), "nonsense", FAR))  # type: ignore[arg-type]  # no list
    connection.call(a_call("fine"))
    broker.take(connection)
    assert told(connection) == [
        ("refused", "UNKNOWN_TOPIC_ID", "definite"),
        ("nonsense", "INVALID_REQUEST", "definite"),
    ]
    connection.on_bytes(answer(broker.requests[0]))
    assert told(connection) == [("fine", "answered")]


def test_a_call_of_an_api_that_the_broker_lacks_fails_alone_and_definitely() -> None:
    connection, broker = new_connection(), AnsweringBroker([(18, 0, 5), (0, 3, 9)])
    broker.negotiate(connection)
    connection.call(a_call())
    broker.take(connection)
    assert told(connection) == [("call", "UNSUPPORTED_VERSION", "definite")]
    assert connection.phase is Phase.READY


def test_what_nobody_waits_for_is_taken_back_before_its_first_byte_and_ignored_after_its_last() -> None:
    connection, broker = ready()
    early, late = a_call("early"), a_call("late")
    connection.call(late)
    broker.take(connection)
    connection.call(early)
    for call in (early, late):
        connection.give_up(call)
    broker.take(connection)
    assert len(broker.requests) == 1
    connection.call(a_call("next"))
    broker.take(connection)
    connection.on_bytes(b"".join(map(answer, broker.requests)))
    assert told(connection) == [("next", "answered")]


def test_a_frame_that_waits_behind_a_full_socket_is_taken_back() -> None:
    connection, broker = ready()
    calls = [a_call(n, deadline=5.0 + n) for n in range(3)]
    for call in calls:
        connection.call(call)
    assert len(connection.output()) == 6
    connection.give_up(calls[0])
    connection.on_time(6.0)
    assert told(connection) == [(1, TIMED_OUT, "definite")]
    broker.take(connection)
    connection.on_bytes(b"".join(map(answer, broker.requests)))
    assert told(connection) == [(2, "answered")]


def test_a_call_that_is_given_up_in_the_middle_of_its_frame_is_written_to_its_end() -> None:
    connection, broker = ready()
    for acks in (0, 1):
        call = a_produce("given up", b"x" * 500, acks=acks)
        connection.call(call)
        broker.read(b"".join(connection.output())[:100])
        connection.on_written(100)
        connection.give_up(call)
        broker.take(connection)
        assert broker.bytes == b""
    connection.on_bytes(framed(broker.requests[1], ProduceResponse()))
    assert connection.phase is Phase.READY
    assert [request.message.acks for request in broker.requests] == [0, 1]  # type: ignore[attr-defined]  # of Produce
    assert told(connection) == NOTHING


# ---- deadlines -------------------------------------------------------------------------------------------------------


def test_a_call_that_waits_behind_another_ends_alone() -> None:
    connection, broker = ready()
    connection.call(a_call("first", deadline=50.0))
    connection.call(a_call("second", deadline=5.0))
    broker.take(connection)
    assert connection.next_deadline == 5.0
    connection.on_time(5.0)
    assert told(connection) == [("second", TIMED_OUT, "indefinite")]
    connection.on_bytes(b"".join(map(answer, broker.requests)))
    assert told(connection) == [("first", "answered")]
    assert connection.phase is Phase.READY


def test_a_connection_whose_oldest_call_is_overdue_is_stuck() -> None:
    connection, broker = ready()
    connection.call(a_call("first", deadline=5.0))
    connection.call(a_call("second"))
    broker.take(connection)
    connection.call(a_call("third"))
    connection.on_time(5.0)
    assert told(connection) == [
        ("first", TIMED_OUT, "indefinite"),
        ("second", NETWORK, "indefinite"),
        ("third", NETWORK, "definite"),
    ]
    assert connection.ended is not None


def test_a_call_that_nobody_waits_for_may_still_show_that_the_connection_is_stuck() -> None:
    connection, broker = ready()
    given_up = a_call("given up", deadline=5.0)
    connection.call(given_up)
    connection.call(a_call("next", deadline=7.0))
    broker.take(connection)
    connection.give_up(given_up)
    connection.on_time(7.0)
    assert told(connection) == [("next", TIMED_OUT, "indefinite")]
    assert connection.ended is not None


def test_a_broker_that_stops_reading_in_the_middle_of_a_frame_is_stuck_and_the_call_fails_definitely() -> None:
    connection, _ = ready()
    connection.call(a_produce("half", b"x" * 1000, deadline=5.0))
    connection.call(a_call("behind"))
    connection.output()
    connection.on_written(500)
    connection.on_time(5.0)
    assert told(connection) == [("half", TIMED_OUT, "definite"), ("behind", NETWORK, "definite")]
    assert connection.ended is not None


def test_a_queued_call_that_is_overdue_is_never_written() -> None:
    connection, broker = new_connection(), AnsweringBroker()
    connection.call(a_call("late", deadline=3.0))
    connection.on_time(3.0)
    assert told(connection) == [("late", TIMED_OUT, "definite")]
    broker.negotiate(connection, 4.0)
    assert broker.requests == []


@pytest.mark.parametrize("received", [0, 3, 4, 6, 8, 11])
def test_a_response_that_is_announced_and_withheld_ends_at_the_deadline_of_its_call(received: int) -> None:
    connection, broker = ready()
    connection.call(a_call(deadline=5.0))
    broker.take(connection)
    connection.on_bytes(answer(broker.requests[0])[:received])
    connection.on_time(4.9)
    assert connection.ended is None
    connection.on_time(5.0)
    assert told(connection) == [("call", TIMED_OUT, "indefinite")]
    assert connection.ended is not None
    assert ("bytes of a response" in connection.ended.message) == (received > 0)


# ---- bounds ----------------------------------------------------------------------------------------------------------


def test_a_broker_that_does_not_answer_gets_no_more_than_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "WINDOW_BYTES", 5_000)
    connection, broker = ready()
    for n in range(10):
        connection.call(a_produce(n, b"x" * 1000))
    broker.take(connection)
    assert len(broker.requests) == 5
    assert not connection.output()
    for request in broker.requests[:3]:
        connection.on_bytes(framed(request, ProduceResponse()))
    broker.take(connection)
    assert len(broker.requests) == 8


def test_calls_for_which_there_is_no_room_fail_definitely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "QUEUE_BYTES", 5_000)
    connection = new_connection()
    for n in range(7):
        connection.call(a_produce(n, b"x" * 1000))
    assert told(connection) == [(n, NETWORK, "definite") for n in (5, 6)]
    monkeypatch.setattr(calls_module, "MAX_CALLS", 3)
    connection = new_connection()
    for n in range(4):
        connection.call(a_call(n))
    assert told(connection) == [(3, NETWORK, "definite")]


def test_a_large_frame_is_handed_out_whole_and_small_ones_together() -> None:
    connection, broker = ready()
    connection.call(a_produce("large", bytes(1_000_000)))
    assert sum(map(len, connection.output())) > 1_000_000
    broker.take(connection)
    for n in range(10):
        connection.call(a_call(n))
    assert len(connection.output()) == 20


# ---- pauses ----------------------------------------------------------------------------------------------------------


def test_a_broker_that_asks_for_a_pause_gets_nothing_before_it_is_over() -> None:
    connection, broker = ready()
    connection.call(a_call("sent"))
    broker.take(connection)
    connection.pause(3.0, 10.0)
    connection.pause(1.0, 10.0)  # from a response that came later
    connection.call(a_call("held"))
    assert not connection.output()
    assert connection.next_deadline == 13.0
    connection.on_time(12.9)
    assert not connection.output()
    connection.on_bytes(answer(broker.requests[0]))
    assert told(connection) == [("sent", "answered")], "responses are read all the same"
    connection.on_time(13.0)
    assert connection.next_deadline == FAR
    broker.take(connection)
    assert len(broker.requests) == 2


def test_no_pause_is_longer_than_a_minute() -> None:
    connection, _ = ready()
    connection.pause(1e6, 10.0)
    assert connection.next_deadline == 70.0


def test_a_call_whose_time_is_over_in_a_pause_fails_with_that_reason() -> None:
    connection, _ = ready()
    connection.pause(3.0, 10.0)
    connection.call(a_call("held", deadline=12.0))
    connection.on_time(12.0)
    (failed,) = connection.take_outcomes()
    assert isinstance(failed, Failed)
    assert (failed.was_sent, "asked this client to send nothing" in failed.error.message) == (False, True)


def test_a_connection_that_has_ended_does_not_pause() -> None:
    connection, _ = ready()
    connection.pause(3.0, 10.0)
    connection.close("the client was closed")
    connection.pause(3.0, 10.0)
    assert connection.next_deadline == NEVER


def test_all_responses_can_ask_for_a_pause_but_those_of_logins_and_one_that_brokers_send_each_other() -> None:
    can_not = {api.name for api in APIS.values() if "throttle_time_ms" not in api.response.__slots__}
    assert can_not == {"WriteTxnMarkers", "SaslHandshake", "SaslAuthenticate"}


# ---- the requested end -----------------------------------------------------------------------------------------------


def test_a_connection_that_is_to_finish_writes_what_it_has_and_takes_nothing_more() -> None:
    connection, broker = new_connection(), AnsweringBroker()
    connection.call(a_produce("silent", b"x", acks=0))
    connection.finish()
    connection.call(a_call("late"))
    assert told(connection) == [("late", NETWORK, "definite")]
    assert not connection.half_closes
    broker.negotiate(connection)
    assert told(connection) == [("silent", "written")]
    assert connection.half_closes
    connection.on_closed()
    assert connection.ended is not None


def test_a_connection_that_is_to_finish_and_has_nothing_to_do_ends() -> None:
    connection = new_connection()
    connection.finish()
    assert connection.ended is not None


# ---- random schedules ------------------------------------------------------------------------------------------------


def test_each_call_ends_once_and_a_definite_one_has_not_reached_the_broker() -> None:
    ends: Counter[str] = Counter()
    for seed in range(500):
        ends.update(run_schedule(seed))
    # The schedules are worth something only if they lead to every end often enough.
    assert set(ends) == {"answered", "written", "definite", "indefinite", "given up"}
    assert min(ends.values()) > 100


def run_schedule(seed: int) -> Iterator[str]:
    """The broker here carries out each whole frame that it gets, and answers some of them."""
    chance = random.Random(seed)
    # The response to ApiVersions is short, so that many schedules get beyond it.
    connection, broker = new_connection(), AnsweringBroker([(18, 0, 5), (0, 3, 13), (3, 10, 13), (22, 0, 5)])
    begun: list[Call[Any]] = []
    given_up: set[int] = set()
    ends: dict[int, list[tuple[Any, ...]]] = {}
    carried_out: set[int] = set()
    unsent = b""
    now = 0.0
    while connection.ended is None or chance.random() < 0.5:
        now += chance.choice((0.0, 0.01, 1.0))
        step = chance.random()
        if step < 0.35:
            acks, records = chance.choice((0, 1)), bytes(chance.randrange(3000))
            begun.append(a_produce(len(begun), records, acks=acks, deadline=now + chance.choice((0.5, 5.0, 60.0))))
            connection.call(begun[-1])
        elif step < 0.40 and begun:
            call = chance.choice(begun)
            if call.waiter not in ends:
                given_up.add(call.waiter)
                connection.give_up(call)
        elif step < 0.60:
            data = b"".join(connection.output())
            count = chance.randint(0, len(data))
            broker.read(data[:count])
            connection.on_written(count)
        elif step < 0.70:
            connection.on_connected(now)
        elif step < 0.93:
            if not unsent and broker.requests:
                request = broker.requests.pop(0)
                unsent = answer_to(request, broker, carried_out)
            count = chance.randint(0, len(unsent))
            data, unsent = unsent[:count], unsent[count:]
            connection.on_bytes(data)
        elif step < 0.99:
            connection.on_time(now)
        else:
            chance.choice((connection.on_closed, lambda: connection.close("closed"), connection.finish))()
        for outcome in connection.take_outcomes():
            ends.setdefault(outcome.call.waiter, []).append(shown(outcome))
    while broker.requests:
        answer_to(broker.requests.pop(0), broker, carried_out)
    for call in begun:
        end = ends.get(call.waiter, [])
        assert len(end) <= 1, seed
        assert end or call.waiter in given_up, seed
        yield end[0][-1] if end else "given up"
        if end and end[0][-1] == "definite":
            assert call.number not in carried_out, seed
        if end and end[0][-1] in ("answered", "written"):
            assert call.number in carried_out, seed


def answer_to(request: Request, broker: AnsweringBroker, carried_out: set[int]) -> bytes:
    """Note whose request it is, and return the response if there is one."""
    message: Any = request.message
    if not isinstance(message, ProduceRequest):
        return broker.versions(request)
    carried_out.add(request.correlation_id)
    return b"" if message.acks == 0 else framed(request, ProduceResponse())
