"""Positions and fetches: turns, limits, seeks that make answers stale, and the one error that resets."""

import struct
from itertools import pairwise
from unittest.mock import Mock

import pytest

from ottla.errors import ErrorCode, TruncationError
from ottla.machines.metadata import BrokerView, Route
from ottla.machines.position import Fetch, FetchedData, PartitionData, Position, StopOffset
from ottla.machines.subscription import FetchLimits, Reset, SubscriptionState
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import placed_prefix, read_header
from ottla_core.records.twins import new_builder

IDS = [PartitionId(TopicId(b"t" * 16), n) for n in range(4)]
PARTITIONS = [TopicPartition("t", n) for n in range(4)]
ROUTES = {PARTITIONS[n]: Route(IDS[n], f"b{n % 2}:1", 5) for n in range(4)}


def batch(first: int, count: int, size: int = 10) -> bytes:
    builder = new_builder(1 << 20, pure=True)
    for _ in range(count):
        builder.append(1000, None, b"x" * size)
    data = builder.seal()
    return placed_prefix(read_header(data), first, 5) + data[16:]


def subscription(count: int, reset: Reset = "latest", **limits: float) -> tuple[SubscriptionState, list[Position]]:
    sub = SubscriptionState(FetchLimits(**limits), reset)  # type: ignore[arg-type]  # numbers by name
    positions = [sub.assign(PARTITIONS[n]) for n in range(count)]
    for position in positions:
        sub.seek(position, 0)
    return sub, positions


def asked(fetches: list[Fetch]) -> dict[str, list[tuple[int, int]]]:
    return {f.target.address: [(p.position.partition.partition, p.offset) for p in f.parts] for f in fetches}


@pytest.mark.feature(61)
def test_one_fetch_asks_a_broker_for_all_its_partitions_and_for_none_twice() -> None:
    sub, _ = subscription(4)
    fetches, unroutable = sub.plan(0.0, ROUTES)
    assert asked(fetches) == {"b0:1": [(0, 0), (2, 0)], "b1:1": [(1, 0), (3, 0)]}
    assert not unroutable
    assert sub.plan(0.0, ROUTES) == ([], False)


def test_who_is_interrupted_while_a_partition_is_assigned_assigns_it_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sub = SubscriptionState(FetchLimits(), "latest")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(sub, "_look_at", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sub.assign(PARTITIONS[0])
    position = sub.assign(PARTITIONS[0])
    assert (list(sub.unlocated), list(sub.positions.values())) == ([position], [position])


ONE_BROKER = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(4)}


def parked(count: int) -> tuple[SubscriptionState, list[Position], Fetch]:
    """Partition 0 is requested in a session, and the others are wanted since."""
    sub, positions = subscription(count)
    for position in positions[1:]:
        sub.pause(position)
    ((fetch,), _) = sub.plan(0.0, ONE_BROKER)
    for position in positions[1:]:
        sub.resume(position)
    return sub, positions, fetch


@pytest.mark.feature(61)
def test_a_partition_that_is_wanted_while_a_session_waits_has_an_express_fetch() -> None:
    sub, _, waiting = parked(2)
    ((express,), _) = sub.plan(0.0, ONE_BROKER)
    assert (waiting.session.id, waiting.max_wait_s) == (1, float("inf"))
    assert (asked([express]), express.session.id, express.max_wait_s) == ({"b0:1": [(1, 0)]}, 0, 0.0)
    sub.on_response(express, {IDS[1]: PartitionData(batch(0, 3), 3)}, 0.0)
    assert asked(sub.plan(0.0, ONE_BROKER)[0]) == {"b0:1": [(1, 3)]}


def test_a_target_has_one_express_fetch_and_then_the_session_takes_all_over() -> None:
    sub, (_, _, late), waiting = parked(3)
    sub.pause(late)
    ((express,), _) = sub.plan(0.0, ONE_BROKER)
    sub.resume(late)
    assert sub.plan(0.0, ONE_BROKER) == ([], False), "until it has returned"
    sub.on_response(waiting, {}, 0.0, in_session=True)
    assert sub.plan(0.0, ONE_BROKER) == ([], False), "or these partitions would never join the session"
    sub.on_response(express, {}, 0.0)
    ((joined,), _) = sub.plan(0.0, ONE_BROKER)
    assert (joined.session.id, asked([joined])) == (1, {"b0:1": [(2, 0), (1, 0)]})
    sub.seek(late, 7)
    ((express,), _) = sub.plan(9.0, ONE_BROKER)
    assert express.max_wait_s == 0.0, "nothing has been asked for in vain yet"


def test_a_broker_holds_an_express_fetch_for_as_long_as_nothing_came_and_never_long() -> None:
    sub, _, _ = parked(2)
    waits = []
    for now in (0.0, 0.001, 0.003, 0.3):
        ((express,), _) = sub.plan(now, ONE_BROKER)
        waits.append(express.max_wait_s)
        sub.on_response(express, {}, now)
    assert waits == [0.0, 0.001, 0.003, 0.02]
    ((express,), _) = sub.plan(0.4, ONE_BROKER)
    sub.on_response(express, {IDS[1]: PartitionData(batch(0, 3), 3)}, 0.4)
    ((express,), _) = sub.plan(0.4, ONE_BROKER)
    assert express.max_wait_s == 0.0, "records have come, so more of them may be there"


def test_an_express_fetch_that_fails_costs_the_session_nothing() -> None:
    sub, (first, second), waiting = parked(2)
    ((express,), _) = sub.plan(0.0, ONE_BROKER)
    sub.on_failed(express, ErrorCode.NETWORK_EXCEPTION, "broken", 0.0)
    assert (first.in_flight is not None, second.in_flight) == (True, None)
    sub.on_response(waiting, {}, 1.0, in_session=True)
    ((again,), _) = sub.plan(1.0, ONE_BROKER)
    assert (again.session.id, asked([again])) == (1, {"b0:1": [(1, 0)]})


@pytest.mark.story("hanging-express-fetch-blocked-its-session")
def test_an_express_fetch_that_hangs_holds_the_session_up_only_until_it_is_overdue() -> None:
    sub, (first, second), waiting = parked(2)
    ((express,), _) = sub.plan(0.0, ONE_BROKER)
    sub.on_response(waiting, {}, 0.5, in_session=True)
    assert sub.plan(0.6, ONE_BROKER)[0] == []
    ((again,), _) = sub.plan(sub.wake_at(0.6), ONE_BROKER)
    assert (again.session.id, again.session.parts[IDS[0]].position) == (1, first)
    assert second.in_flight is express.parts[0]
    sub.seek(first, 7)
    assert sub.plan(2.0, ONE_BROKER)[0] == [], "another express fetch would wait behind the one that hangs"
    sub.on_response(again, {}, 2.0, in_session=True)
    ((again,), _) = sub.plan(2.0, ONE_BROKER)
    assert (again.session.id, asked([again])) == (1, {"b0:1": [(0, 7)]})
    routes = {**ONE_BROKER, PARTITIONS[1]: Route(IDS[1], "b1:1", 6)}
    sub.on_view(2.0, routes, {})
    assert asked(sub.plan(2.0, routes)[0]) == {"b1:1": [(1, 0)]}, "it follows its leader, as before"
    sub.on_failed(express, ErrorCode.NETWORK_EXCEPTION, "broken", 30.5)
    assert first.in_flight is not None


def test_repeated_failures_of_a_leader_are_reported_once_for_all_its_partitions() -> None:
    sub, _ = subscription(4)
    route = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(4)}
    now, reported = 0.0, []
    failed = PartitionData(code=ErrorCode.KAFKA_STORAGE_ERROR, message="the disk is broken")
    while now < 29:
        for fetch in sub.plan(now, route)[0]:
            outcome = sub.on_response(fetch, {p.route.partition_id: failed for p in fetch.parts}, now, in_session=True)
            reported += [(round(now), message) for message in outcome.warnings]
        now = sub.wake_at(now)
    assert [at // 10 for at, _ in reported] == [0, 1, 2]
    assert 5 <= reported[0][0] <= 6
    assert "attempts in a row have failed, and another follows: t-0: the disk is broken" in reported[0][1]


def test_starting_over_does_not_wait_for_an_express_fetch() -> None:
    sub, _, _ = parked(2)
    sub.plan(0.0, ONE_BROKER)
    sub.start_over()
    assert asked(sub.plan(0.0, ONE_BROKER)[0]) == {"b0:1": [(0, 0), (1, 0)]}


def test_a_partition_of_an_express_fetch_follows_its_leader() -> None:
    sub, (_, second), _ = parked(2)
    sub.plan(0.0, ONE_BROKER)
    routes = {**ONE_BROKER, PARTITIONS[1]: Route(IDS[1], "b1:1", 6)}
    sub.on_view(0.0, routes, {})
    assert second.in_flight is None
    assert asked(sub.plan(0.0, routes)[0]) == {"b1:1": [(1, 0)]}


@pytest.mark.rule(57)
@pytest.mark.feature(61)
def test_partitions_take_turns_and_chunks_are_read_as_they_came() -> None:
    sub, _ = subscription(3)
    routes = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(3)}
    ((fetch,), _) = sub.plan(0.0, routes)
    sub.on_response(fetch, {IDS[2]: PartitionData(batch(0, 1)), IDS[0]: PartitionData(batch(0, 1))}, 0.0)
    order = []
    while (chunk := sub.next_fetched()) is not None:
        order.append(chunk.position.partition.partition)
        sub.on_read(chunk)
    assert order == [0, 2]
    ((one,), _) = sub.plan(0.0, {PARTITIONS[1]: routes[PARTITIONS[1]]})
    sub.on_response(one, {}, 0.0)
    ((fetch,), _) = sub.plan(0.0, routes)
    assert [part.position.partition.partition for part in fetch.parts] == [0, 2, 1]


@pytest.mark.feature(42)
def test_what_waits_to_be_read_is_bounded_but_for_a_first_batch() -> None:
    sub, (position,) = subscription(1, prefetch_bytes=64 * 1024, partition_bytes=1 << 20)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    assert fetch.partition_bytes == 32 * 1024
    large = batch(0, 50, size=1000)
    sub.on_response(fetch, {IDS[0]: PartitionData(large, 100)}, 0.0)
    assert sub.waiting_bytes == len(large) > 32 * 1024
    assert sub.plan(0.0, ROUTES) == ([], False)
    chunk = sub.next_fetched()
    assert chunk is not None
    sub.on_read(chunk)
    assert (sub.waiting_bytes, position.waiting_bytes) == (0, 0)
    assert asked(sub.plan(0.0, ROUTES)[0]) == {"b0:1": [(0, 50)]}


@pytest.mark.feature(54)
def test_a_seek_makes_what_was_fetched_and_what_is_under_way_stale() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(fetch, {IDS[0]: PartitionData(batch(0, 5), 5)}, 0.0)
    ((late,), _) = sub.plan(0.0, ROUTES)
    sub.seek(position, 2)
    assert sub.next_fetched() is None
    sub.on_response(late, {IDS[0]: PartitionData(batch(5, 5), 10)}, 0.0)
    assert sub.next_fetched() is None
    assert sub.waiting_bytes == 0
    assert asked(sub.plan(0.0, ROUTES)[0]) == {"b0:1": [(0, 2)]}


def test_a_paused_partition_is_neither_fetched_nor_read_and_keeps_its_place() -> None:
    sub, (first, _) = subscription(2)
    routes = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(2)}
    ((fetch,), _) = sub.plan(0.0, routes)
    sub.on_response(fetch, {IDS[n]: PartitionData(batch(0, 1)) for n in range(2)}, 0.0)
    sub.pause(first)
    chunk = sub.next_fetched()
    assert chunk is not None
    assert chunk.position.partition == PARTITIONS[1]
    assert sub.next_fetched() is None
    assert asked(sub.plan(0.0, routes)[0]) == {"b0:1": [(1, 1)]}
    sub.resume(first)
    chunk = sub.next_fetched()
    assert chunk is not None
    assert chunk.position is first


@pytest.mark.feature(46)
@pytest.mark.parametrize(("reset", "start"), [("earliest", EARLIEST_TIMESTAMP), ("latest", LATEST_TIMESTAMP)])
def test_an_offset_out_of_range_resets_with_a_word(reset: Reset, start: int) -> None:
    sub, (position,) = subscription(1, reset)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    news = sub.on_failed(fetch, ErrorCode.OFFSET_OUT_OF_RANGE, "10 to 20 are there", 0.0)
    assert (position.offset, position.start) == (None, start)
    assert f"the {reset} offset" in news.warnings[0]
    assert sub.unresolved(0) == [position]
    assert sub.plan(0.0, ROUTES) == ([], False)


@pytest.mark.feature(46)
def test_without_a_reset_it_is_raised_to_the_reader() -> None:
    sub, (position,) = subscription(1, "none")
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_failed(fetch, ErrorCode.OFFSET_OUT_OF_RANGE, "10 to 20 are there", 0.0)
    assert sub.error is not None
    assert sub.error.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert position.offset == 0


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_every_other_error_keeps_the_position_and_asks_again_later(code: ErrorCode) -> None:
    sub, (position,) = subscription(
        1,
        "earliest",
    )
    sub.seek(position, 7)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    news = sub.on_failed(fetch, code, "", 10.0)
    assert (position.offset, news.warnings, sub.error) == (7, [], None)
    assert sub.plan(10.05, ROUTES)[0] == []
    assert sub.wake_at(10.05) == 10.1
    assert asked(sub.plan(10.1, ROUTES)[0]) == {"b0:1": [(0, 7)]}


def test_a_refusal_for_good_is_raised_once() -> None:
    sub, _ = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(fetch, {IDS[0]: PartitionData(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="no")}, 0.0)
    error = sub.take_error()
    assert error is not None
    assert (error.code, error.about) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, PARTITIONS[0])
    assert sub.take_error() is None


def test_the_failure_of_a_whole_fetch_is_about_none_of_its_partitions() -> None:
    sub, _ = subscription(4)
    for fetch in sub.plan(0.0, ROUTES)[0]:
        sub.on_failed(fetch, ErrorCode.TLS_HANDSHAKE_FAILED, "the certificate has expired", 0.0)
    error = sub.take_error()
    assert error is not None
    assert (error.code, error.about, "t-" in error.message) == (ErrorCode.TLS_HANDSHAKE_FAILED, None, False)


def test_an_error_of_a_partition_comes_after_what_was_fetched_before_it_and_goes_with_the_partition() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(fetch, {IDS[0]: PartitionData(batch(0, 3), 9)}, 0.0)
    refused = PartitionData(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="no")
    ((again,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(again, {IDS[0]: refused}, 0.0)
    assert sub.take_error() is None
    fetched = sub.next_fetched()
    assert fetched is not None
    sub.on_read(fetched)
    assert sub.take_error() is not None
    ((again,), _) = sub.plan(2.0, ROUTES)
    sub.on_response(again, {IDS[0]: refused}, 2.0)
    sub.unassign(position.partition)
    assert sub.take_error() is None


def test_a_batch_that_its_leader_can_not_send_is_an_error_and_not_a_loop() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(fetch, {IDS[0]: PartitionData(b"", 3, code=ErrorCode.CORRUPT_MESSAGE)}, 0.0)
    assert sub.error is not None
    assert "can't send the batch at offset 0, which is damaged" in str(sub.error)
    assert position.offset == 0


def test_bytes_without_a_whole_batch_are_an_error_and_not_a_loop() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(fetch, {IDS[0]: PartitionData(batch(0, 3)[:-1], 3)}, 0.0)
    assert sub.error is not None
    assert sub.error.code == ErrorCode.CORRUPT_MESSAGE
    assert position.offset == 0


def test_a_stop_ends_fetching_and_all_stops_end_reading() -> None:
    sub, positions = subscription(2)
    for position in positions:
        position.stop = StopOffset(5)
    assert not sub.done
    positions[0].offset = positions[0].fetch_offset = 5
    assert asked(sub.plan(0.0, ROUTES)[0]) == {"b1:1": [(1, 0)]}
    positions[1].offset = 9
    assert sub.done


def test_a_partition_without_a_leader_asks_for_metadata() -> None:
    sub, _ = subscription(1)
    assert sub.plan(0.0, {}) == ([], True)


# ---- sessions --------------------------------------------------------------------------------------------------------

ONE_BROKER = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(4)}


def answer(sub: SubscriptionState, fetch: Fetch, **parts: PartitionData) -> None:
    """In its session: p0=… for the first partition."""
    sub.on_response(fetch, {IDS[int(name[1:])]: data for name, data in parts.items()}, 0.0, in_session=True)


def read_all(sub: SubscriptionState) -> list[tuple[int, int]]:
    """Partition and size of what came, which is read then."""
    read = []
    while (chunk := sub.next_fetched()) is not None:
        read.append((chunk.position.partition.partition, len(chunk.records)))
        sub.on_read(chunk)
    return read


@pytest.mark.feature(61)
def test_in_a_session_a_partition_is_requested_once_until_it_is_answered() -> None:
    sub, positions = subscription(3)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    assert (begin.number, len(begin.parts)) == (1, 3)
    answer(sub, begin, p0=PartitionData(high_watermark=0), p1=PartitionData(batch(0, 3), 3))
    assert (positions[0].lag, positions[1].lag) == (0, 3)
    ((again,), _) = sub.plan(0.0, ONE_BROKER)
    assert (asked([again]), again.number, again.session) == ({"b0:1": [(1, 3)]}, 2, begin.session)
    assert sub.plan(0.0, ONE_BROKER) == ([], False)
    answer(sub, again)
    ((nothing_new,), _) = sub.plan(0.0, ONE_BROKER)
    assert (asked([nothing_new]), nothing_new.number) == ({"b0:1": []}, 3), "one is always under way"


@pytest.mark.feature(61)
def test_what_is_fetched_on_is_looked_at_and_nothing_else() -> None:
    sub, _ = subscription(4)
    ((fetch,), _) = sub.plan(0.0, ONE_BROKER)
    looked: list[int] = []

    class Routes(dict[TopicPartition, Route]):
        def get(self, key: TopicPartition, default: Route | None = None) -> Route | None:  # type: ignore[override]  # one of its overloads
            looked.append(key.partition)
            return super().get(key, default)

    answer(sub, fetch, p2=PartitionData(batch(0, 3), 3))
    sub.plan(0.0, Routes(ONE_BROKER))
    sub.checks(0.0, Routes(ONE_BROKER))
    assert looked == [2]
    assert sub.unresolved(0) == []


@pytest.mark.feature(54)
def test_a_seek_makes_responses_to_older_fetches_stale_and_no_others() -> None:
    sub, (position, _) = subscription(2)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    sub.seek(position, 7)
    ((moved,), _) = sub.plan(0.0, ONE_BROKER)
    assert (asked([moved]), moved.session.id) == ({"b0:1": [(0, 7)]}, 0)
    answer(sub, begin, p0=PartitionData(batch(0, 3), 3), p1=PartitionData(batch(0, 1), 1))
    assert [number for number, _ in read_all(sub)] == [1]
    sub.on_response(moved, {IDS[0]: PartitionData(batch(7, 1), 8)}, 0.0)
    assert [number for number, _ in read_all(sub)] == [0]
    ((after,), _) = sub.plan(0.0, ONE_BROKER)
    assert (asked([after]), after.forgotten) == ({"b0:1": [(1, 1), (0, 8)]}, [IDS[0]])


def test_what_is_read_no_more_is_forgotten_with_the_next_fetch_and_what_still_comes_is_ignored() -> None:
    sub, (position, other) = subscription(2)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    sub.unassign(PARTITIONS[0])
    answer(sub, begin, p0=PartitionData(batch(0, 3), 3), p1=PartitionData(batch(0, 1), 1))
    assert [number for number, _ in read_all(sub)] == [1]
    ((after,), _) = sub.plan(0.0, ONE_BROKER)
    assert (asked([after]), after.forgotten) == ({"b0:1": [(1, 1)]}, [IDS[0]])
    sub.on_read(FetchedData(position, 0, b""))
    assert sub.plan(0.0, ONE_BROKER) == ([], False)
    assert other.in_flight is not None


def test_a_broker_of_whom_nothing_is_requested_any_longer_hears_of_that() -> None:
    sub, _ = subscription(1)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    sub.unassign(PARTITIONS[0])
    assert sub.plan(0.0, ONE_BROKER) == ([], False)
    answer(sub, begin)
    ((last,), _) = sub.plan(0.0, ONE_BROKER)
    assert (last.parts, last.forgotten) == ([], [IDS[0]])
    answer(sub, last)
    assert sub.plan(0.0, ONE_BROKER) == ([], False)


@pytest.mark.parametrize("cause", ["failed", "alone"])
def test_the_end_of_a_session_requests_everything_anew(cause: str) -> None:
    sub, _ = subscription(3)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    answer(sub, begin, p1=PartitionData(batch(0, 3), 3))
    ((again,), _) = sub.plan(0.0, ONE_BROKER)
    if cause == "failed":
        sub.on_failed(again, ErrorCode.NETWORK_EXCEPTION, "", 0.0)
    else:
        sub.on_response(again, {}, 0.0)
    ((anew,), _) = sub.plan(9.0, ONE_BROKER)
    assert (sorted(asked([anew])["b0:1"]), anew.number) == ([(0, 0), (1, 3), (2, 0)], 1)
    assert anew.session.id != begin.session.id
    sub.on_failed(again, ErrorCode.NETWORK_EXCEPTION, "", 9.0)
    assert sub.plan(9.0, ONE_BROKER) == ([], False), "the end of the former one is no matter of this one"


def test_who_is_led_by_another_is_requested_there_once_that_is_known() -> None:
    sub, _ = subscription(2)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    routes = ONE_BROKER | {PARTITIONS[0]: Route(IDS[0], "b1:1", 6)}
    assert sub.plan(0.0, routes) == ([], False)
    sub.on_view(0.0, routes, {})
    ((moved,), _) = sub.plan(0.0, routes)
    assert asked([moved]) == {"b1:1": [(0, 0)]}
    answer(sub, begin, p0=PartitionData(batch(0, 3), 3))
    assert sub.next_fetched() is None
    ((rest,), _) = sub.plan(0.0, routes)
    assert (rest.target.address, rest.parts, rest.forgotten) == ("b0:1", [], [IDS[0]])


def test_after_an_interrupt_a_session_begins_anew() -> None:
    sub, _ = subscription(2)
    ((begin,), _) = sub.plan(0.0, ONE_BROKER)
    sub.start_over()
    ((anew,), _) = sub.plan(0.0, ONE_BROKER)
    assert (anew.number, len(anew.parts)) == (1, 2)
    answer(sub, begin, p0=PartitionData(batch(0, 3), 3))
    assert sub.next_fetched() is None
    answer(sub, anew, p0=PartitionData(batch(0, 3), 3))
    assert sub.next_fetched() is not None


def test_a_paused_partition_is_requested_again_when_it_is_resumed() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ONE_BROKER)
    sub.pause(position)
    answer(sub, fetch, p0=PartitionData(batch(0, 3), 3))
    assert sub.plan(0.0, ONE_BROKER) == ([], False)
    sub.resume(position)
    assert asked(sub.plan(0.0, ONE_BROKER)[0]) == {"b0:1": [(0, 3)]}


def test_done_is_undone_by_a_seek() -> None:
    sub, (position,) = subscription(1)
    position.stop = StopOffset(5)
    position.offset = 5
    assert sub.done
    sub.seek(position, 2)
    assert not sub.done
    sub.unassign(PARTITIONS[0])
    assert not sub.done, "nothing is read"


# ---- new leaders -----------------------------------------------------------------------------------------------------


def led_by(broker: int, epoch: int) -> dict[TopicPartition, Route]:
    return {PARTITIONS[0]: Route(IDS[0], f"b{broker}:1", epoch)}


def read_to(offset: int, reset: Reset = "latest", handed_out: int | None = None) -> tuple[SubscriptionState, Position]:
    """One that has fetched up to `offset` in leader epoch 5, and whose leader is another one since."""
    sub, (position,) = subscription(1, reset)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(fetch, {IDS[0]: PartitionData(batch(0, offset), offset)}, 0.0)
    chunk = sub.next_fetched()
    assert chunk is not None
    sub.on_read(chunk)
    position.offset = offset if handed_out is None else handed_out
    assert sub.plan(0.0, led_by(1, 6)) == ([], False)
    return sub, position


@pytest.mark.rule(67)
def test_after_a_leader_change_a_position_is_checked_before_it_is_fetched_on() -> None:
    sub, _ = read_to(10)
    (check,) = sub.checks(0.0, led_by(1, 6))
    assert (check.route.address, check.route.leader_epoch, check.epoch) == ("b1:1", 6, 5)
    assert sub.checks(0.0, led_by(1, 6)) == []
    assert sub.plan(0.0, led_by(1, 6))[0] == []
    news = sub.on_checked(check, 5, 10, 0.0)
    assert news.warnings == []
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 10)]}


@pytest.mark.rule(67)
@pytest.mark.feature(46)
def test_a_truncated_log_is_told_of_and_read_on_from_where_it_parts() -> None:
    sub, position = read_to(10)
    (check,) = sub.checks(0.0, led_by(1, 6))
    news = sub.on_checked(check, 4, 7, 0.0)
    assert (position.offset, position.fetch_offset, position.epoch) == (7, 7, 4)
    assert (
        "read up to offset 10 in leader epoch 5, and the new leader's log lacks the records from 7 on"
        in news.warnings[0]
    )
    assert (sub.truncations, sub.resets) == (1, 0)
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 7)]}


@pytest.mark.rule(67)
def test_what_was_only_fetched_ahead_is_fetched_again_without_a_word() -> None:
    sub, position = read_to(10, handed_out=4)
    (check,) = sub.checks(0.0, led_by(1, 6))
    news = sub.on_checked(check, 5, 7, 0.0)
    assert (position.offset, position.fetch_offset, news.warnings, sub.truncations) == (4, 4, [], 0)
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 4)]}


@pytest.mark.rule(67)
def test_without_a_reset_a_truncation_is_raised_again_and_again_until_somebody_seeks() -> None:
    sub, position = read_to(10, "none")
    for now in (0.0, 2.0):
        (check,) = sub.checks(now, led_by(1, 6))
        sub.on_checked(check, 5, 7, now)
        assert isinstance(sub.error, TruncationError)
        assert (sub.error.offset, sub.error.divergent_offset, position.offset) == (10, 7, 10)
        sub.error = None
        assert sub.checks(now + 0.5, led_by(1, 6)) == []
    sub.seek(position, 7)
    assert asked(sub.plan(2.6, led_by(1, 6))[0]) == {}
    assert asked(sub.plan(3.1, led_by(1, 6))[0]) == {"b1:1": [(0, 7)]}


@pytest.mark.rule(67)
def test_a_leader_that_does_not_know_the_epoch_resets_with_a_word() -> None:
    sub, position = read_to(10, "earliest")
    (check,) = sub.checks(0.0, led_by(1, 6))
    news = sub.on_checked(check, -1, -1, 0.0)
    assert (position.offset, position.start) == (None, EARLIEST_TIMESTAMP)
    assert "the earliest one" in news.warnings[0]


def test_a_check_that_fails_is_tried_again_and_one_that_is_stale_is_forgotten() -> None:
    sub, position = read_to(10)
    (check,) = sub.checks(0.0, led_by(1, 6))
    assert sub.on_check_failed(check, ErrorCode.UNKNOWN_LEADER_EPOCH, "", 0.0).refresh
    assert sub.checks(0.05, led_by(1, 6)) == []
    (check,) = sub.checks(0.1, led_by(1, 6))
    sub.seek(position, 3)
    assert sub.on_checked(check, 5, 1, 0.2).warnings == []
    assert position.offset == 3
    assert asked(sub.plan(0.2, led_by(1, 6))[0]) == {"b1:1": [(0, 3)]}


def test_a_position_without_an_epoch_needs_no_check() -> None:
    sub, _ = subscription(1)
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 0)]}
    assert sub.checks(0.0, led_by(1, 6)) == []


def reads_to(stop: StopOffset) -> tuple[SubscriptionState, Position]:
    """A consumer at offset 0 of a partition whose leader is new in epoch 6."""
    sub, (position,) = subscription(1)
    position.stop = stop
    assert sub.plan(0.0, led_by(1, 6)) == ([], False)
    return sub, position


@pytest.mark.story("stop-behind-a-truncation")
def test_a_stop_in_the_truncated_part_of_a_log_moves_to_its_end() -> None:
    sub, position = reads_to(StopOffset(10, epoch=5))
    (check,) = sub.checks(0.0, led_by(1, 6))
    assert (check.route.address, check.epoch) == ("b1:1", 5)
    (warning,) = sub.on_checked(check, 5, 7, 0.0).warnings
    assert "before the consumer reached its stop position 10: the new leader's log lacks the records from 7" in warning
    assert position.stop == StopOffset(7, IDS[0].topic_id, 6)
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 0)]}


@pytest.mark.parametrize("told", [(5, 10), (5, 12), (-1, -1)], ids=["ends there", "ends later", "unknown"])
def test_a_stop_that_the_new_leader_has_stays(told: tuple[int, int]) -> None:
    sub, position = reads_to(StopOffset(10, epoch=5))
    (check,) = sub.checks(0.0, led_by(1, 6))
    assert sub.on_checked(check, *told, 0.0).warnings == []
    assert position.stop == StopOffset(10, IDS[0].topic_id, 6), "the next leader is asked about epoch 6"
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 0)]}


def test_position_and_stop_are_checked_in_turn() -> None:
    sub, position = read_to(10, handed_out=4)
    position.stop = StopOffset(20, epoch=5)
    (check,) = sub.checks(0.0, led_by(1, 6))
    sub.on_checked(check, 5, 12, 0.0)
    (check,) = sub.checks(0.0, led_by(1, 6))
    sub.on_checked(check, 5, 12, 0.0)
    assert (position.fetch_offset, position.stop.offset) == (10, 12)
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 10)]}


def test_a_stop_that_the_user_gave_is_not_checked() -> None:
    sub, (position,) = subscription(1)
    position.stop = StopOffset(10)
    assert asked(sub.plan(0.0, led_by(1, 6))[0]) == {"b1:1": [(0, 0)]}


def test_a_fetch_that_hangs_is_left_once_another_leader_is_known() -> None:
    sub, _ = subscription(1, max_wait_s=0.5)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    assert sub.plan(1.4, ROUTES) == ([], False)
    assert sub.wake_at(1.4) == 1.5
    assert sub.plan(1.5, ROUTES) == ([], True)
    ((again,), _) = sub.plan(1.6, led_by(1, 6))
    assert again.target.address == "b1:1"
    sub.on_response(fetch, {IDS[0]: PartitionData(batch(0, 3), 3)}, 1.7)
    assert sub.next_fetched() is None
    sub.on_response(again, {IDS[0]: PartitionData(batch(0, 3), 3)}, 1.7)
    assert sub.next_fetched() is not None


# ---- the closest replica ---------------------------------------------------------------------------------------------

BROKERS = {n: BrokerView(n, f"b{n}:1") for n in range(3)}


def named(replica: int = 2) -> tuple[SubscriptionState, Position]:
    """One whose leader has named a replica."""
    sub, (position,) = subscription(1, replica_s=300.0, shun_s=5.0)
    ((fetch,), _) = sub.plan(0.0, ROUTES, BROKERS)
    assert (fetch.target.from_follower, fetch.target.may_name) == (False, True)
    sub.on_response(fetch, {IDS[0]: PartitionData(preferred_replica=replica)}, 0.0)
    return sub, position


@pytest.mark.feature(58)
def test_a_replica_that_the_leader_names_is_read_from_for_its_time() -> None:
    sub, _ = named()
    ((fetch,), _) = sub.plan(0.0, ROUTES, BROKERS)
    assert (fetch.target.address, fetch.target.from_follower) == ("b2:1", True)
    sub.on_response(fetch, {IDS[0]: PartitionData(batch(0, 3), 3)}, 0.0)
    ((fetch,), _) = sub.plan(299.0, ROUTES, BROKERS)
    assert (fetch.target.address, fetch.parts[0].offset) == ("b2:1", 3)
    sub.on_response(fetch, {}, 299.0)
    ((fetch,), _) = sub.plan(300.0, ROUTES, BROKERS)
    assert (fetch.target.address, fetch.target.may_name) == ("b0:1", True)


@pytest.mark.feature(58)
@pytest.mark.rule(67)
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_replica_that_fails_is_left_for_its_leader_and_for_a_while_for_good(code: ErrorCode) -> None:
    sub, position = named()
    ((fetch,), _) = sub.plan(0.0, ROUTES, BROKERS)
    news = sub.on_failed(fetch, code, "", 1.0)
    assert (news.warnings, sub.error, position.offset) == ([], None, 0)
    ((fetch,), _) = sub.plan(1.0, ROUTES, BROKERS)
    assert (fetch.target.address, fetch.target.from_follower, fetch.target.may_name) == ("b0:1", False, False)
    sub.on_response(fetch, {}, 1.0)
    ((fetch,), _) = sub.plan(6.0, ROUTES, BROKERS)
    assert fetch.target.may_name


@pytest.mark.feature(58)
def test_a_replica_that_hangs_or_is_unknown_is_left_and_a_new_leader_asked_for_its_own() -> None:
    sub, _ = named()
    sub.plan(0.0, ROUTES, BROKERS)
    ((fetch,), _) = sub.plan(1.5, ROUTES, BROKERS)
    assert (fetch.target.address, fetch.target.may_name) == ("b0:1", False)

    sub, _ = named(replica=9)
    ((fetch,), _) = sub.plan(0.0, ROUTES, BROKERS)
    assert (fetch.target.address, fetch.target.may_name) == ("b0:1", False)

    sub, _ = named()
    ((fetch,), _) = sub.plan(0.0, led_by(1, 6), BROKERS)
    assert (fetch.target.address, fetch.target.may_name) == ("b1:1", True)


def test_a_recreated_topic_is_reported_once_and_forgotten_with_its_last_partition() -> None:
    sub, positions = subscription(2)
    for position in positions:
        position.topic_id = TopicId(b"f" * 16)
    sub.plan(0.0, ROUTES)
    assert (len(sub.recreated), len(sub._reported_recreated)) == (1, 1)
    sub.unassign(PARTITIONS[0])
    assert sub._reported_recreated
    sub.unassign(PARTITIONS[1])
    assert not sub._reported_recreated


def old_message(offset: int, size: int) -> bytes:
    """Return a message of magic 1, in the format before Kafka 0.11: CRC, magic, attributes, timestamp, key, value."""
    body = struct.pack(">IbbqiI", 0, 1, 0, 1000, -1, size) + b"x" * size
    return struct.pack(">qi", offset, len(body)) + body


@pytest.mark.parametrize("size", [1, pytest.param(500, marks=pytest.mark.story("old-messages-that-were-skipped"))])
def test_messages_in_an_old_format_are_an_error_and_never_skipped(size: int) -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    readable = batch(0, 3)
    sub.on_response(fetch, {IDS[0]: PartitionData(readable + old_message(3, size), 9)}, 0.0)
    fetched = sub.next_fetched()
    assert fetched is not None
    assert bytes(fetched.records) == readable if size == 500 else bytes(fetched.records).startswith(readable)
    assert (position.fetch_offset, sub.error) == (3, None)
    sub.on_read(fetched)
    ((again,), _) = sub.plan(0.0, ROUTES)
    sub.on_response(again, {IDS[0]: PartitionData(old_message(3, size) * 2, 9)}, 0.0)
    assert sub.error is not None
    assert (sub.error.code, sub.error.about) == (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, PARTITIONS[0])
    assert (position.fetch_offset, sub.next_fetched()) == (3, None)
    assert sub.plan(0.0, ROUTES)[0] == [], "not at once again"


def test_metadata_of_a_topic_that_is_gone_is_asked_for_more_and_more_rarely() -> None:
    sub, _ = subscription(1)
    asked_at = [now / 100 for now in range(1000) if sub.plan(now / 100, {})[1]]
    assert [round(b - a, 1) for a, b in pairwise(asked_at)][:5] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(asked_at) < 15
    sub.plan(10.0, ROUTES)
    asked_at = [now / 100 for now in range(1000, 1050) if sub.plan(now / 100, {})[1]]
    assert len(asked_at) == 0, "its fetch is under way"
