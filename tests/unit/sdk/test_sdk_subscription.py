"""Positions and fetches: turns, limits, seeks that make answers stale, and the one error that resets."""

import pytest

from ottla.errors import ErrorCode
from ottla.machines.metadata import Route
from ottla.machines.position import Fetch, Fetched, Position
from ottla.machines.subscription import FetchLimits, Reset, Subscription
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


def subscription(count: int, reset: Reset = "latest", **limits: int) -> tuple[Subscription, list[Position]]:
    sub = Subscription(FetchLimits(**limits), reset)
    positions = [sub.assign(PARTITIONS[n]) for n in range(count)]
    for position in positions:
        sub.seek(position, 0)
    return sub, positions


def asked(fetches: list[Fetch]) -> dict[str, list[tuple[int, int]]]:
    return {f.address: [(p.position.partition.partition, p.offset) for p in f.parts] for f in fetches}


def test_one_fetch_asks_a_broker_for_all_its_partitions_and_for_none_twice() -> None:
    sub, _ = subscription(4)
    fetches, unroutable = sub.plan(0.0, ROUTES)
    assert asked(fetches) == {"b0:1": [(0, 0), (2, 0)], "b1:1": [(1, 0), (3, 0)]}
    assert not unroutable
    assert sub.plan(0.0, ROUTES) == ([], False)


def test_a_busy_partition_is_fetched_on_while_a_quiet_one_waits_for_news() -> None:
    sub, (_, quiet) = subscription(2)
    routes = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(2)}
    sub.pause(quiet)
    ((busy_fetch,), _) = sub.plan(0.0, routes)
    sub.resume(quiet)
    ((quiet_fetch,), _) = sub.plan(0.0, routes)
    assert (asked([busy_fetch]), asked([quiet_fetch])) == ({"b0:1": [(0, 0)]}, {"b0:1": [(1, 0)]})
    sub.on_reply(busy_fetch, {IDS[0]: Fetched(batch(0, 3), 3)}, 0.0)
    assert asked(sub.plan(0.0, routes)[0]) == {"b0:1": [(0, 3)]}


@pytest.mark.rule(57)
def test_partitions_take_turns_and_chunks_are_read_as_they_came() -> None:
    sub, _ = subscription(3)
    routes = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(3)}
    ((fetch,), _) = sub.plan(0.0, routes)
    sub.on_reply(fetch, {IDS[2]: Fetched(batch(0, 1)), IDS[0]: Fetched(batch(0, 1))}, 0.0)
    order = []
    while (chunk := sub.next_chunk()) is not None:
        order.append(chunk.position.partition.partition)
        sub.on_read(chunk)
    assert order == [0, 2]
    ((one,), _) = sub.plan(0.0, {PARTITIONS[1]: routes[PARTITIONS[1]]})
    sub.on_reply(one, {}, 0.0)
    ((fetch,), _) = sub.plan(0.0, routes)
    assert [part.position.partition.partition for part in fetch.parts] == [0, 2, 1]


@pytest.mark.feature(42)
def test_what_waits_to_be_read_is_bounded_but_for_a_first_batch() -> None:
    sub, (position,) = subscription(1, prefetch_bytes=64 * 1024, partition_bytes=1 << 20)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    assert fetch.partition_bytes == 32 * 1024
    large = batch(0, 50, size=1000)
    sub.on_reply(fetch, {IDS[0]: Fetched(large, 100)}, 0.0)
    assert sub.waiting_bytes == len(large) > 32 * 1024
    assert sub.plan(0.0, ROUTES) == ([], False)
    chunk = sub.next_chunk()
    assert chunk is not None
    sub.on_read(chunk)
    assert (sub.waiting_bytes, position.waiting_bytes) == (0, 0)
    assert asked(sub.plan(0.0, ROUTES)[0]) == {"b0:1": [(0, 50)]}


@pytest.mark.feature(54)
def test_a_seek_makes_what_was_fetched_and_what_is_under_way_stale() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_reply(fetch, {IDS[0]: Fetched(batch(0, 5), 5)}, 0.0)
    ((late,), _) = sub.plan(0.0, ROUTES)
    sub.seek(position, 2)
    assert sub.next_chunk() is None
    sub.on_reply(late, {IDS[0]: Fetched(batch(5, 5), 10)}, 0.0)
    assert sub.next_chunk() is None
    assert sub.waiting_bytes == 0
    assert asked(sub.plan(0.0, ROUTES)[0]) == {"b0:1": [(0, 2)]}


def test_a_paused_partition_is_neither_fetched_nor_read_and_keeps_its_place() -> None:
    sub, (first, _) = subscription(2)
    routes = {PARTITIONS[n]: Route(IDS[n], "b0:1", 5) for n in range(2)}
    ((fetch,), _) = sub.plan(0.0, routes)
    sub.on_reply(fetch, {IDS[n]: Fetched(batch(0, 1)) for n in range(2)}, 0.0)
    sub.pause(first)
    chunk = sub.next_chunk()
    assert chunk is not None
    assert chunk.position.partition == PARTITIONS[1]
    assert sub.next_chunk() is None
    assert asked(sub.plan(0.0, routes)[0]) == {"b0:1": [(1, 1)]}
    sub.resume(first)
    chunk = sub.next_chunk()
    assert chunk is not None
    assert chunk.position is first


@pytest.mark.feature(46)
@pytest.mark.parametrize(("reset", "start"), [("earliest", EARLIEST_TIMESTAMP), ("latest", LATEST_TIMESTAMP)])
def test_an_offset_out_of_range_resets_with_a_word(reset: Reset, start: int) -> None:
    sub, (position,) = subscription(1, reset)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    news = sub.on_failed(fetch, ErrorCode.OFFSET_OUT_OF_RANGE, "10 to 20 are there", 0.0)
    assert (position.offset, position.start) == (None, start)
    assert f"the {reset} one" in news.reset[0]
    assert sub.unresolved() == [position]
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
    assert (position.offset, news.reset, sub.error) == (7, [], None)
    assert sub.plan(10.05, ROUTES)[0] == []
    assert sub.wake_at(10.05) == 10.1
    assert asked(sub.plan(10.1, ROUTES)[0]) == {"b0:1": [(0, 7)]}


def test_a_refusal_for_good_is_raised_once() -> None:
    sub, _ = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_failed(fetch, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", 0.0)
    assert sub.error is not None
    assert sub.error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_bytes_without_a_whole_batch_are_an_error_and_not_a_loop() -> None:
    sub, (position,) = subscription(1)
    ((fetch,), _) = sub.plan(0.0, ROUTES)
    sub.on_reply(fetch, {IDS[0]: Fetched(batch(0, 3)[:-1], 3)}, 0.0)
    assert sub.error is not None
    assert sub.error.code == ErrorCode.CORRUPT_MESSAGE
    assert position.offset == 0


def test_a_stop_ends_fetching_and_all_stops_end_reading() -> None:
    sub, positions = subscription(2)
    for position in positions:
        position.stop = 5
    assert not sub.done
    positions[0].offset = positions[0].fetch_offset = 5
    assert asked(sub.plan(0.0, ROUTES)[0]) == {"b1:1": [(1, 0)]}
    positions[1].offset = 9
    assert sub.done


def test_a_partition_without_a_leader_asks_for_metadata() -> None:
    sub, _ = subscription(1)
    assert sub.plan(0.0, {}) == ([], True)
