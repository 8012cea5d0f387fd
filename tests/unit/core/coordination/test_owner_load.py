"""Fence and load: nobody serves before its fence is in the log for good, with all that lies before it."""

from __future__ import annotations

import pytest
from batches import NOON
from owners import MINE, Hand, get, put, stored

from ottla_core.coordination.batches import seal_records
from ottla_core.coordination.effects import Leave, ReportTrouble
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Entry, TransactionProducer
from ottla_core.coordination.shard_log import (
    Append,
    Appended,
    Batches,
    Fenced,
    Mismatch,
    Read,
    Rejected,
    Unknown,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence, fence_of, seal_fence

TIMED_OUT = OttlaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")
TOO_FEW = OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the ISR is too small")
TWO = seal_records([Entry(b"a", b"1"), Entry(b"b", b"2")], NOON)
ONE = seal_records([Entry(b"a", b"3")], NOON)


def code(error: Exception) -> int:
    assert isinstance(error, OttlaError)
    return error.code


def test_the_fence_comes_first_and_where_the_log_ends_is_learned_by_trying() -> None:
    hand = Hand()
    hand.start()
    assert isinstance(hand.call, Append)
    assert (hand.call.expected_offset, fence_of(hand.call.batches)) == (0, MINE)
    hand.result(Mismatch(17))
    hand.result(Mismatch(19))  # the former owner was quicker
    assert isinstance(hand.call, Append)
    assert (hand.call.expected_offset, fence_of(hand.call.batches)) == (19, MINE)
    assert hand.owner.phase is Phase.FENCING


@pytest.mark.parametrize("said", [Unknown(TIMED_OUT), Rejected(TOO_FEW), Appended(0, 0)])
def test_a_fence_that_may_not_count_is_sent_again(said: Unknown | Rejected | Appended) -> None:
    """The same bytes at the same offset, and for as long as it takes: nobody is promised anything yet."""
    hand = Hand()
    hand.start()
    first = hand.call
    for _ in range(100):
        hand.result(said)
        hand.tick(hand.owner.limits.retry_s)
        assert hand.call == first
    assert (hand.owner.phase, len(hand.sent)) == (Phase.FENCING, 101)
    hand.result(Appended(0, 1))
    assert hand.call == Read(0)


def test_a_higher_fence_ends_it_for_ever() -> None:
    hand = Hand()
    hand.start()
    hand.result(Fenced())
    assert hand.left == Leave("another owner has a higher fence", needs_epoch=False)
    hand.ask("one", get(b"a"))
    assert code(hand.refusals["one"]) == ErrorCode.NOT_COORDINATOR
    hand.tick(1000)
    assert len(hand.sent) == 1


@pytest.mark.rule(53)
def test_all_up_to_the_own_fence_is_replayed_in_one_pass() -> None:
    hand = Hand()
    hand.start()
    hand.result(Appended(3, 4))
    hand.ask("early", get(b"a"))
    assert code(hand.refusals["early"]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    hand.result(Batches(stored(TWO, 0), 4))
    assert hand.call == Read(2)
    fence = seal_fence(MINE, NOON)
    hand.result(Batches(stored(TWO, 0) + stored(ONE, 2) + stored(fence, 3), 4))  # the first begins before what is asked
    assert hand.owner.phase is Phase.SERVING
    assert sorted(hand.book.seen) == [Entry(b"a", b"3"), Entry(b"b", b"2")]
    assert hand.owner.next_offset == 4


def test_many_small_batches_are_read_some_at_a_time() -> None:
    """A transaction of one offset makes two."""
    hand = Hand()
    hand.start()
    hand.result(Appended(600, 601))
    log = [stored(seal_records([Entry(b"a", b"%d" % at, TransactionProducer(at, 0))], NOON), at) for at in range(600)]
    hand.result(Batches(b"".join([*log, stored(seal_fence(MINE, NOON), 600)]), 601))
    seen = [len(hand.book.seen)]
    while hand.owner.phase is Phase.LOADING:
        assert hand.owner.wake_at <= hand.now.at
        hand.tick(0)
        seen.append(len(hand.book.seen))
    assert (seen, hand.owner.phase) == ([250, 500, 600], Phase.SERVING)


@pytest.mark.parametrize(("keys", "ticks"), [(1_000, 0), (2_500, 2)])
def test_many_keys_are_applied_some_at_a_time_before_it_serves(keys: int, ticks: int) -> None:
    """And each once, however often the log has it."""
    hand = Hand()
    hand.start()
    hand.result(Appended(6_000, 6_001))
    entries = [Entry(b"%d" % (number % keys), b"%d" % number) for number in range(6_000)]
    hand.result(Batches(stored(seal_records(entries, NOON), 0) + stored(seal_fence(MINE, NOON), 6_000), 6_001))
    steps = 0
    while hand.owner.phase is Phase.LOADING:
        hand.ask(f"early {steps}", get(b"0"))
        assert code(hand.refusals[f"early {steps}"]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert hand.owner.wake_at <= hand.now.at
        before, steps = len(hand.book.seen), steps + 1
        hand.tick(0)
        assert len(hand.book.seen) - before <= 1_000
    assert (steps, hand.owner.phase) == (ticks, Phase.SERVING)
    assert sorted(hand.book.seen) == sorted(entries[-keys:])


def test_one_that_leaves_while_it_applies_applies_nothing_more() -> None:
    hand = Hand()
    hand.start()
    hand.result(Appended(3_000, 3_001))
    entries = [Entry(b"%d" % number, b"v") for number in range(3_000)]
    hand.result(Batches(stored(seal_records(entries, NOON), 0) + stored(seal_fence(MINE, NOON), 3_000), 3_001))
    seen = len(hand.book.seen)
    hand.leave()
    hand.tick(1)
    assert (hand.owner.phase, len(hand.book.seen)) == (Phase.LEFT, seen)


def test_a_new_leader_whose_high_watermark_is_behind_is_asked_again() -> None:
    hand = Hand()
    hand.start()
    hand.result(Appended(2, 3))
    for said in (Batches(b"", 0), Unknown(TIMED_OUT), Batches(stored(TWO, 0)[:-1], 3)):
        hand.result(said)
        assert hand.owner.phase is Phase.LOADING
        sent = len(hand.sent)
        hand.tick(hand.owner.limits.retry_s)
        assert (hand.call, len(hand.sent)) == (Read(0), sent + 1)


def test_a_damaged_batch_is_read_again_and_never_skipped() -> None:
    hand = Hand()
    hand.start()
    hand.result(Appended(3, 4))
    damaged = bytearray(stored(ONE, 2))
    damaged[-1] ^= 1
    hand.result(Batches(stored(TWO, 0) + bytes(damaged) + stored(seal_fence(MINE, NOON), 3), 4))
    assert (hand.owner.phase, hand.owner.next_offset, hand.call) == (Phase.LOADING, 2, Read(2))
    hand.result(Batches(stored(ONE, 2) + stored(seal_fence(MINE, NOON), 3), 4))
    assert hand.owner.phase is Phase.SERVING


@pytest.mark.story("damaged-batch-of-a-shard")
def test_a_load_that_does_not_get_on_says_so_with_its_place_and_goes_on_trying() -> None:
    hand = Hand()
    hand.start()
    hand.result(Appended(3, 4))
    damaged = bytearray(stored(ONE, 2))
    damaged[-1] ^= 1
    hand.result(Batches(stored(TWO, 0), 4))
    for _ in range(100):
        hand.result(Batches(bytes(damaged), 4))
        hand.tick(hand.owner.limits.retry_most_s)
        assert (hand.owner.phase, hand.call) == (Phase.LOADING, Read(2))
    told = [effect.trouble for effect in hand.effects if isinstance(effect, ReportTrouble)]
    assert [told.count(t) for t in told] == [1] * 4  # after 8 tries, 16, 32 and 64
    assert all("can't be read from offset 2 on" in each and "CORRUPT_MESSAGE" in each for each in told)
    assert "tried 100 times" in hand.owner.trouble
    hand.result(Batches(stored(ONE, 2) + stored(seal_fence(MINE, NOON), 3), 4))
    assert (hand.owner.phase, hand.owner.trouble) == (Phase.SERVING, "")


@pytest.mark.parametrize(
    ("said", "words"), [(Rejected(TOO_FEW), "NOT_ENOUGH_REPLICAS"), (Appended(0, 0), "its high watermark is behind")]
)
def test_a_fence_that_can_not_be_written_says_so(said: Rejected | Appended, words: str) -> None:
    hand = Hand()
    hand.start()
    for _ in range(8):
        assert hand.owner.trouble == ""
        hand.result(said)
        hand.tick(hand.owner.limits.retry_most_s)
    (told,) = [effect.trouble for effect in hand.effects if isinstance(effect, ReportTrouble)]
    assert told == hand.owner.trouble
    assert told.startswith("its fence can't be written, tried 8 times: ")
    assert words in told


@pytest.mark.parametrize("there", [seal_fence(ShardFence(5, 71), NOON), ONE])
def test_where_the_own_fence_is_not_what_lies_there_nothing_is_served(there: bytes) -> None:
    hand = Hand()
    hand.start()
    hand.result(Appended(2, 3))
    hand.result(Batches(stored(TWO, 0) + stored(there, 2), 3))
    assert hand.left == Leave("the fence is not where it was written", needs_epoch=True)


def test_what_lies_behind_the_own_fence_is_not_read() -> None:
    """Another owner may have begun to write: its records are none of this life's."""
    hand = Hand()
    hand.start()
    hand.result(Appended(0, 1))
    hand.result(Batches(stored(seal_fence(MINE, NOON), 0) + stored(ONE, 1), 2))
    assert (hand.owner.phase, hand.owner.next_offset, hand.book.seen) == (Phase.SERVING, 1, [])


def test_an_answer_to_an_older_call_says_nothing() -> None:
    hand = Hand()
    hand.start()
    hand.result(Unknown(TIMED_OUT))
    hand.result(Appended(0, 1))  # of the same call, too late
    assert (hand.owner.phase, hand.left) == (Phase.FENCING, None)
    hand.tick(hand.owner.limits.retry_s)
    hand.result(Fenced(), of=0)
    assert hand.left is None
    hand.result(Appended(0, 1))
    assert hand.owner.phase is Phase.LOADING


def test_the_first_thing_after_a_load_is_what_the_state_wants_to_do() -> None:
    hand = Hand()
    hand.book.on_loaded_timers = {"session": 2.0}
    hand.serve(TWO)
    hand.ask("put", put(b"c"))
    assert isinstance(hand.call, Append)
    hand.prove()
    hand.tick(1.9)
    assert len(hand.sent) == 3
    hand.tick(0.1)
    assert isinstance(hand.call, Append)
    assert b"timer" in hand.call.batches


def test_an_owner_that_nobody_asks_asks_nobody() -> None:
    hand = Hand()
    hand.serve()
    assert (len(hand.sent), hand.owner.wake_at) == (2, float("inf"))
    hand.tick(1000)
    assert (len(hand.sent), hand.owner.phase) == (2, Phase.SERVING)
