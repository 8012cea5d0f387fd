"""Acts that need something first, in front of a partition: their order, what fails, and what is given up."""

from __future__ import annotations

import asyncio

import pytest

from ottla_broker.replication.pending import PendingActs, PendingBytes
from ottla_core.errors import ErrorCode, OttlaError


class Gate:
    """What is prepared: it lasts until it is opened, or fails."""

    def __init__(self) -> None:
        self._opened = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        await self._opened

    def open(self) -> None:
        self._opened.set_result(None)

    def fail(self, error: Exception) -> None:
        self._opened.set_exception(error)


async def test_acts_are_done_in_the_order_in_which_they_came() -> None:
    acts, first, second = PendingActs(), Gate(), Gate()
    log: list[str] = []
    futures = [
        acts.add(7, first.wait, lambda: log.append("first")),
        acts.add(7, second.wait, lambda: log.append("second")),
    ]
    second.open()
    await asyncio.sleep(0.01)
    assert not log
    assert acts, "whatever comes now has to wait, too"
    first.open()
    await asyncio.gather(*futures)
    await asyncio.sleep(0)
    assert log == ["first", "second"]
    assert not acts


async def test_a_producer_does_not_wait_for_another() -> None:
    acts, gate = PendingActs(), Gate()
    log: list[str] = []
    verified = acts.add(7, gate.wait, lambda: log.append("verified"))
    assert acts.has(7)
    assert not acts.has(8)
    await acts.add(8, lambda: asyncio.sleep(0), lambda: log.append("another's"))
    assert log == ["another's"]
    gate.open()
    await verified
    assert log == ["another's", "verified"]


async def code_of(done: asyncio.Future[int]) -> ErrorCode | None:
    try:
        await done
    except OttlaError as error:
        return ErrorCode(error.code)
    return None


@pytest.mark.story("who-waited-behind-a-failed-batch-went-on")
@pytest.mark.parametrize(
    ("failure", "behind"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, None),
    ],
)
async def test_where_one_fails_its_producers_acts_behind_it_fail_to_be_tried_again(
    failure: ErrorCode, behind: ErrorCode | None
) -> None:
    """What repeats a batch that is in the log is no failure."""
    acts, gate = PendingActs(), Gate()
    prepared: list[int] = []

    async def prepare() -> None:
        prepared.append(1)

    failed, *waiting = acts.add(7, gate.wait, lambda: 1), *(acts.add(7, prepare, lambda: 2) for _ in range(3))
    other = acts.add(8, lambda: asyncio.sleep(0), lambda: 3)
    gate.fail(OttlaError(failure, "not this one"))
    assert await code_of(failed) == failure
    assert [await code_of(each) for each in waiting] == [behind] * 3
    assert await other == 3
    assert len(prepared) == (0 if behind else 3)
    await asyncio.sleep(0)
    assert not acts


async def test_acts_without_a_producer_do_not_fail_together() -> None:
    acts, gate = PendingActs(), Gate()
    failed, done = acts.add(-1, gate.wait, lambda: 1), acts.add(-1, lambda: asyncio.sleep(0), lambda: 2)
    gate.fail(OttlaError(ErrorCode.INVALID_RECORD, "no key"))
    assert await code_of(failed) == ErrorCode.INVALID_RECORD
    assert await done == 2


async def test_what_nobody_waits_for_any_more_is_left_out() -> None:
    acts, gate = PendingActs(), Gate()
    log: list[int] = []
    under_way, waiting, last = (acts.add(7, gate.wait, lambda n=n: log.append(n)) for n in range(3))
    await asyncio.sleep(0)
    under_way.cancel()
    waiting.cancel()
    gate.open()
    await last
    assert log == [2]


async def test_acts_may_be_added_once_all_are_done() -> None:
    acts = PendingActs()
    for n in range(3):
        assert await acts.add(7, lambda: asyncio.sleep(0), lambda n=n: n) == n


def test_there_is_room_for_so_many_bytes_and_for_one_of_any_size_alone() -> None:
    room = PendingBytes(100)
    room.take(1_000)
    with pytest.raises(OttlaError, match="nothing was appended"):
        room.take(1)
    room.give_back(1_000)
    room.take(60)
    room.take(40)
    with pytest.raises(OttlaError):
        room.take(1)


def test_batches_that_have_grown_count_with_their_new_size() -> None:
    held = PendingBytes(most_bytes=100)
    held.take(10)
    with held.grown(10, 200):
        assert held.held == 200, "an act of any size may wait alone"
        with pytest.raises(OttlaError) as refused:
            held.take(1)
        assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
        with held.grown(10, 10), held.grown(10, 5):
            assert held.held == 200
    assert held.held == 10
    held.take(80)
    with pytest.raises(OttlaError) as refused, held.grown(10, 30):
        pytest.fail("others wait")
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert held.held == 90
