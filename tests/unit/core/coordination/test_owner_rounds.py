"""Turns: one call to the log at a time, and nobody is answered before it has succeeded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from owners import LIMITS, MINE, BookDecide, Hand, get, laid, later, put, resolve, set_timers, stored

from ottla_core.coordination.append_round import ROUND_S
from ottla_core.coordination.batches import read_batches
from ottla_core.coordination.effects import Leave, Perform, Respond, ShardLimits
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Entry, Marker, Recalled, Record, ShardDecision, TransactionProducer
from ottla_core.coordination.shard_log import Append, Appended, Check, Fenced, Mismatch, Rejected, Unknown
from ottla_core.coordination.timers import REJECTED_S, Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import headers_at

TIMED_OUT = OttlaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")
TOO_FEW = OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the ISR is too small")
TOO_LARGE = OttlaError(ErrorCode.MESSAGE_TOO_LARGE, "the topic takes less")


@pytest.fixture
def hand() -> Hand:
    """An owner that serves, its state empty, offset 1 next."""
    hand = Hand()
    hand.serve()
    return hand


def code(hand: Hand, token: str | None) -> int:
    error = hand.refusals[token]
    assert isinstance(error, OttlaError)
    return error.code


def appended(hand: Hand) -> list[Entry]:
    assert isinstance(hand.call, Append)
    [batch] = read_batches(stored(hand.call.batches, hand.call.expected_offset))
    return [Entry(*pair) for pair in batch.pairs]


# ---- rule 6: answers wait for the high watermark --------------------------------------------------------------------


@pytest.mark.rule(49, 52)
def test_nobody_is_answered_before_the_high_watermark_is_past_the_batch(hand: Hand) -> None:
    hand.ask("put", put(b"a", effects=("news",)))
    assert isinstance(hand.call, Append)
    assert hand.call.expected_offset == 1
    hand.result(Appended(1, 1))  # it lies there, and may be lost with its leader
    assert (hand.answers, hand.left) == ({}, None)
    hand.tick(hand.owner.limits.retry_s)
    assert hand.call == hand.sent[-2].call
    hand.result(Appended(1, 2))
    assert (hand.answers, hand.owner.next_offset) == ({"put": None}, 2)
    assert hand.effects[-2:] == [Respond("put", None), Perform("news")]


def test_what_comes_meanwhile_is_one_batch_and_each_decision_sees_the_one_before(hand: Hand) -> None:
    hand.owner.limits = replace(LIMITS, max_waiting=20)
    hand.ask("first", put(b"a", b"1"))
    hand.ask("other", put(b"b"))
    for n in (2, 3, 4):
        hand.ask(f"put {n}", put(b"a", b"%d" % n))
    assert len(hand.sent) == 3  # fence, read, one append
    hand.prove()
    assert appended(hand) == [Entry(b"b", b"v"), Entry(b"a", b"4")], "a key is written once, with its last value"
    hand.prove()
    assert hand.answers == {"first": None, "other": None, "put 2": b"1", "put 3": b"2", "put 4": b"3"}
    assert hand.owner.next_offset == 4


@pytest.mark.rule(52)
def test_what_waits_at_leisure_shares_the_next_append_and_comes_first(hand: Hand) -> None:
    sent = len(hand.sent)
    hand.ask("leisurely", put(b"k", b"1"), at_leisure=True)
    assert len(hand.sent) == sent
    hand.ask("next", get(b"k"))
    assert len(hand.sent) == sent + 1
    assert isinstance(hand.call, Append)
    hand.prove()
    assert hand.answers.keys() >= {"leisurely", "next"}
    assert hand.answers["next"] == b"1"
    assert hand.owner.wake_at > hand.at + LIMITS.leisure_s, "nothing is left to do"


def test_what_waits_at_leisure_begins_a_round_of_its_own_after_a_while(hand: Hand) -> None:
    sent, until = len(hand.sent), hand.at + LIMITS.leisure_s
    for n in range(4):
        hand.ask(f"leisurely{n}", get(b"k"), at_leisure=True)
        hand.at += LIMITS.leisure_s / 20
    assert hand.owner.wake_at == until, "those that follow do not put it off"
    assert len(hand.sent) == sent
    hand.at = until
    hand.tick()
    assert len(hand.sent) == sent + 1
    hand.prove()
    assert len(hand.answers) == 4


def test_a_read_that_sees_what_is_not_committed_waits_with_it(hand: Hand) -> None:
    hand.ask("first", put(b"x"))
    hand.ask("put", put(b"a", b"1"))
    hand.ask("get", get(b"a"))
    hand.prove()
    assert (len(appended(hand)), "get" in hand.answers) == (1, False)
    hand.prove()
    assert hand.answers["get"] == b"1"


def test_a_refusal_that_the_state_gives_waits_like_a_response(hand: Hand) -> None:
    def refuse(book: object, now: object) -> ShardDecision[None]:
        raise OttlaError(ErrorCode.INVALID_REQUEST, "not in this state")

    hand.ask("refused", refuse)
    assert (hand.call, hand.refusals) == (Check(1), {})
    hand.prove()
    assert code(hand, "refused") == ErrorCode.INVALID_REQUEST


def test_a_bug_in_a_decision_is_one_request_s_trouble(hand: Hand) -> None:
    def buggy(book: object, now: object) -> ShardDecision[None]:
        raise ZeroDivisionError

    hand.ask("buggy", buggy)
    hand.prove()
    assert isinstance(hand.refusals["buggy"], ZeroDivisionError)
    assert hand.owner.phase is Phase.SERVING


# ---- rule 4 and Kafka's 54: out of step -----------------------------------------------------------------------------


@pytest.mark.rule(54)
@pytest.mark.parametrize("said", [Mismatch(9), Appended(0, 9)])
def test_who_is_out_of_step_leaves_and_tells_nobody_that_it_failed(hand: Hand, said: Mismatch | Appended) -> None:
    hand.ask("put", put(b"a"))
    hand.ask("waiting", put(b"b"))
    hand.result(said)
    assert code(hand, "put") == code(hand, "waiting") == ErrorCode.NOT_COORDINATOR
    assert hand.left is not None
    assert hand.left.needs_epoch
    assert hand.owner.wake_at == float("inf")


def test_who_is_fenced_leaves_and_asks_for_nothing(hand: Hand) -> None:
    hand.ask("put", put(b"a"))
    hand.result(Fenced())
    assert code(hand, "put") == ErrorCode.NOT_COORDINATOR
    assert hand.left == Leave("another owner has a higher fence", needs_epoch=False)


# ---- rule 5: indefinite results -------------------------------------------------------------------------------------


def test_the_same_bytes_are_sent_until_the_result_is_known(hand: Hand) -> None:
    hand.ask("put", put(b"a", b"1"))
    first = hand.call
    for said in (Unknown(TIMED_OUT), Rejected(TOO_FEW), Unknown(TIMED_OUT)):
        hand.result(said)
        hand.ask(f"after {len(hand.sent)}", get(b"a"))
        hand.tick(hand.owner.limits.retry_s)
        assert hand.call == first
    assert hand.answers == hand.refusals == {}
    hand.prove()
    assert hand.answers == {"put": None}


@pytest.mark.story("late-log-takes-the-shard-away")
@pytest.mark.parametrize("said", [Unknown(TIMED_OUT), Rejected(TOO_FEW), None])
def test_a_log_that_is_late_takes_no_shard_away(hand: Hand, said: Unknown | Rejected | None) -> None:
    """Whatever it says meanwhile; None: nothing. Who has waited for long enough asks again, and nobody hears that a
    write failed which may come into the log yet. Then it comes, once, and the state is what it was."""
    hand.ask("put", put(b"a", b"1", effects=("news",)))
    first = hand.call
    for _ in range(600):  # a minute of it
        if said is not None and hand.owner._in_flight:
            hand.result(said)
        hand.tick(0.1)
        assert hand.call == first
    assert (hand.left, hand.owner.phase) == (None, Phase.SERVING)
    assert code(hand, "put") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert said is None or said.error.message in str(hand.refusals["put"]), "the client hears what the log said last"
    hand.prove()
    assert hand.effects[-1] == Perform("news")
    hand.ask("read", get(b"a"))
    hand.prove()
    assert (hand.answers, len(hand.book.seen)) == ({"read": b"1"}, 1)


@pytest.mark.story("commit-timeout-above-a-third-of-a-session")
def test_a_commit_waits_as_long_as_it_may_however_short_sessions_are() -> None:
    hand = Hand(limits=replace(LIMITS, append_s=8.0, unproved_s=2.0))
    hand.serve()
    hand.prove()
    hand.ask("put", put(b"a"))
    hand.tick(7.9)
    assert (hand.refusals, hand.left) == ({}, None)
    hand.prove()
    assert list(hand.answers) == ["put"]
    hand.owner.limits = replace(LIMITS, append_s=1.0)  # altered while it serves
    hand.ask("put again", put(b"a"))
    hand.tick(1.0)
    assert list(hand.refusals) == ["put again"]


def test_nobody_waits_for_a_late_log_longer_than_his_time(hand: Hand) -> None:
    hand.ask("put", put(b"a"))
    hand.ask("impatient", put(b"b"), wait_s=1.0)
    hand.ask("patient", put(b"c"), wait_s=60.0)
    assert hand.owner.wake_at == 101.0
    hand.tick(1.0)
    assert list(hand.refusals) == ["impatient"]
    hand.tick(hand.owner.limits.append_s - 1.0)
    assert list(hand.refusals) == ["impatient", "put"]
    hand.prove()
    hand.prove()
    assert hand.book.values.keys() == {b"a", b"c"}, "who was told of it is not decided any more"
    assert list(hand.answers) == ["patient"]


@pytest.mark.story("refused-for-good-is-asked-for-ever")
def test_what_says_that_it_will_never_take_a_batch_is_not_asked_for_ever(hand: Hand) -> None:
    hand.ask("put", put(b"a"))
    hand.result(Unknown(TIMED_OUT))
    hand.tick(hand.owner.limits.retry_s)
    hand.result(Rejected(TOO_LARGE))
    assert hand.left is None, "the first sending may be in the log: a new leader may not have heard of a config yet"
    hand.tick(60.0)
    hand.result(Unknown(TIMED_OUT))
    hand.ask("waiting", put(b"b"))
    assert hand.left is None
    hand.tick(hand.owner.limits.retry_s)
    hand.result(Rejected(TOO_LARGE))
    assert code(hand, "put") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(hand, "waiting") == ErrorCode.NOT_COORDINATOR
    assert hand.left is not None
    assert hand.left.needs_epoch


@pytest.mark.story("tired-log-is-asked-ever-as-often", "new-leader-is-asked-late")
def test_a_late_log_is_asked_less_and_less_often_and_a_new_leader_at_once() -> None:
    hand = Hand(limits=ShardLimits(retry_s=0.1, retry_most_s=1.0))
    hand.serve()
    hand.ask("put", put(b"a"))
    pauses, patience = [], []
    for _ in range(6):
        patience.append(hand.sent[-1].timeout_s)
        hand.result(Unknown(TIMED_OUT))
        pauses.append(round(hand.owner.wake_at - hand.at, 3))
        hand.tick(pauses[-1])
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert patience == [1.0, 1.5, 2.0, 2.0, 2.0, 2.0]
    hand.result(Unknown(TIMED_OUT))
    sent = len(hand.sent)
    hand.hear_of_a_leader()
    assert (len(hand.sent), hand.sent[-1].timeout_s) == (sent + 1, 1.0)
    hand.hear_of_a_leader()  # while it is on its way to the former one
    hand.result(Rejected(TOO_LARGE))
    assert hand.refusals == {}, "the former one may have it"
    hand.hear_of_a_leader()
    hand.prove()
    assert hand.answers == {"put": None}
    sent = len(hand.sent)
    hand.hear_of_a_leader()
    assert len(hand.sent) == sent, "nobody asks"


@pytest.mark.story("members-pay-for-a-late-log")
def test_nobody_s_time_runs_while_the_log_is_late(hand: Hand) -> None:
    """The heartbeats of that time were refused: a member is not to pay for it."""
    hand.ask("join", set_timers({"session": 6.0}))
    hand.prove()
    hand.tick(5.0)
    hand.ask("put", put(b"a"))
    hand.tick(30.0)
    hand.prove()
    hand.tick(0.9)
    assert b"timer" not in hand.book.values
    hand.tick(0.2)
    assert hand.book.values[b"timer"] == b"session"


def test_a_join_that_was_told_to_ask_again_is_not_waited_for(hand: Hand) -> None:
    hand.ask("join", later("m1"))
    hand.tick(hand.owner.limits.append_s)
    assert code(hand, "join") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    hand.prove()
    assert hand.owner.unanswered == 0
    hand.ask("end", resolve("m1", "joined"))
    hand.prove()
    assert list(hand.answers) == ["end"]


def test_what_will_always_be_refused_fails_at_once_unless_it_may_be_in_the_log(hand: Hand) -> None:
    hand.ask("put", put(b"a"))
    hand.result(Rejected(TOO_LARGE))
    assert code(hand, "put") == ErrorCode.MESSAGE_TOO_LARGE
    assert hand.left is not None

    hand = Hand()
    hand.serve()
    hand.ask("put", put(b"a"))
    hand.result(Unknown(TIMED_OUT))
    hand.tick(hand.owner.limits.retry_s)
    hand.result(Rejected(TOO_LARGE))
    assert (hand.refusals, hand.left) == ({}, None)


# ---- rule 7: reads --------------------------------------------------------------------------------------------------


def test_a_read_is_answered_by_who_is_the_owner_after_it_came(hand: Hand) -> None:
    hand.ask("one", get(b"a"))
    assert hand.call == Check(1)
    hand.ask("two", get(b"a"))
    hand.ask("three", get(b"a"))
    hand.prove()
    assert list(hand.answers) == ["one"]
    assert (hand.call, len(hand.sent)) == (Check(1), 4)  # one check for both
    hand.prove()
    assert list(hand.answers) == ["one", "two", "three"]


@pytest.mark.parametrize("said", [Fenced(), Mismatch(0)])
def test_a_deposed_owner_answers_no_read(hand: Hand, said: Fenced | Mismatch) -> None:
    hand.ask("get", get(b"a"))
    hand.result(said)
    assert code(hand, "get") == ErrorCode.NOT_COORDINATOR
    assert hand.left is not None


def test_an_append_proves_as_much_as_a_check(hand: Hand) -> None:
    hand.ask("first", get(b"x"))
    hand.ask("get", get(b"a"))
    hand.ask("put", put(b"b"))
    hand.prove()
    assert isinstance(hand.call, Append)
    hand.prove()
    assert {"get", "put"} <= hand.answers.keys()


def test_without_proof_nobody_is_answered_and_the_state_is_kept(hand: Hand) -> None:
    hand.ask("proved", get(b"a"))
    hand.prove()
    hand.at += hand.owner.limits.unproved_s
    for n in range(20):
        hand.ask(f"heartbeat {n}", get(b"a"), without_confirmation=True, wait_s=1.0)
        hand.ask(f"read {n}", get(b"a"), wait_s=1.0)
        if hand.owner._in_flight:
            hand.result(Unknown(TIMED_OUT))
        hand.tick(1.0)
    assert (list(hand.answers), hand.left) == (["proved"], None)
    hand.prove()
    hand.ask("read", get(b"a"))
    hand.prove()
    hand.prove()
    assert "read" in hand.answers


def test_a_heartbeat_is_answered_from_memory_while_the_proof_is_fresh(hand: Hand) -> None:
    hand.ask("unproved", get(b"a"), without_confirmation=True)
    assert hand.answers == {}
    hand.prove()
    assert "unproved" in hand.answers
    sent = len(hand.sent)
    hand.ask("put", put(b"b"))
    hand.ask("beside a turn", set_timers({"session": 9.0}), without_confirmation=True)
    assert ("beside a turn" in hand.answers, len(hand.sent)) == (True, sent + 1)
    hand.prove()
    hand.at += hand.owner.limits.unproved_s
    hand.ask("stale", get(b"a"), without_confirmation=True)
    assert ("stale" in hand.answers, hand.call) == (False, Check(2))


def test_a_heartbeat_that_would_write_is_rejected_and_the_shard_goes_on(hand: Hand) -> None:
    hand.ask("proof", get(b"a"))
    hand.prove()
    hand.ask("heartbeat", put(b"a", b"1"), without_confirmation=True)
    assert isinstance(hand.refusals["heartbeat"], AssertionError)
    assert (hand.owner.phase, hand.book.values) == (Phase.SERVING, {})


def quiet(book: Any, now: Moment) -> Recalled:
    return Recalled("quiet", {"session": now.at + 9.0})


def test_nothing_is_recalled_while_something_is_written(hand: Hand) -> None:
    assert hand.recall(quiet) is None
    hand.ask("get", get(b"a"))
    hand.prove()
    recalled = hand.recall(quiet)
    assert recalled is not None
    assert recalled.response == "quiet"
    assert hand.owner.wake_at == hand.at + 9.0
    assert hand.recall(lambda book, now: None) is None
    hand.ask("put", put(b"b"))
    assert hand.recall(quiet) is None
    hand.prove()
    assert hand.recall(quiet) is not None


def test_the_proof_behind_what_is_recalled_is_renewed_at_half_its_life(hand: Hand) -> None:
    hand.ask("get", get(b"a"))
    hand.prove()
    sent = len(hand.sent)
    hand.at += hand.owner.limits.unproved_s * 0.4
    assert hand.recall(quiet) is not None
    assert len(hand.sent) == sent
    hand.at += hand.owner.limits.unproved_s * 0.2
    assert hand.recall(quiet) is not None
    assert (len(hand.sent), type(hand.call)) == (sent + 1, Check)
    hand.prove()
    hand.at += hand.owner.limits.unproved_s
    assert hand.recall(quiet) is None


def by_last_proof(decide: BookDecide) -> BookDecide:
    return lambda book, now: replace(decide(book, now), by_last_proof=True)


@pytest.mark.rule(39, 41)
def test_a_read_by_the_last_proof_waits_only_for_what_is_being_written(hand: Hand) -> None:
    hand.ask("unproved", by_last_proof(get(b"a")))
    assert (hand.answers, hand.call) == ({}, Check(1))
    hand.prove()
    sent = len(hand.sent)
    hand.ask("at once", by_last_proof(get(b"a")))
    assert ("at once" in hand.answers, len(hand.sent)) == (True, sent)
    hand.ask("put", put(b"a", b"1"))
    hand.ask("after it", by_last_proof(get(b"a")))
    assert ("after it" in hand.answers, len(hand.sent)) == (False, sent + 1), "it may be lost"
    hand.prove()
    assert (hand.answers["after it"], len(hand.sent)) == (b"1", sent + 1)
    hand.at += hand.owner.limits.unproved_s
    hand.ask("stale", by_last_proof(get(b"a")))
    assert ("stale" in hand.answers, hand.call) == (False, Check(2))


@pytest.mark.rule(52)
def test_others_of_its_round_are_proved_all_the_same(hand: Hand) -> None:
    def refuse(book: object, now: object) -> ShardDecision[None]:
        raise OttlaError(ErrorCode.INVALID_REQUEST, "not in this state")

    for n, other in enumerate((get(b"a"), refuse)):
        hand.ask(f"put {n}", put(b"a", b"1"))
        hand.ask(f"recent {n}", by_last_proof(get(b"a")))
        hand.ask(f"other {n}", other)
        hand.prove()
        assert (hand.call, f"other {n}" in {**hand.answers, **hand.refusals}) == (Check(n + 2), False)
        hand.prove()
        assert f"other {n}" in {**hand.answers, **hand.refusals}


def costly(hand: Hand, decide: BookDecide) -> BookDecide:
    """Return a decision of which a round has time for two."""

    def decided(book: Any, now: Moment) -> ShardDecision[Any]:
        hand.cpu_s += ROUND_S * 0.6
        return decide(book, now)

    return decided


@pytest.mark.story("round-of-costly-decisions")
def test_a_round_ends_when_its_time_is_over_and_the_next_ones_decide_the_rest(hand: Hand) -> None:
    hand.ask("first", put(b"x"))
    for n in range(3):
        hand.ask(f"put {n}", costly(hand, put(b"%d" % n)))
    decide_timer = costly(hand, put(b"timer"))
    hand.book.on_timer = lambda key, now: decide_timer(hand.book, now)
    for n in range(4):
        hand.owner._timers.set(f"due {n}", hand.at)
    sizes = []
    for _ in range(4):
        began_s = hand.cpu_s
        hand.prove()
        sizes.append(round((hand.cpu_s - began_s) / (ROUND_S * 0.6)))
    assert sizes == [2, 2, 2, 1]
    assert len(hand.answers) == 4


def test_more_reads_by_the_last_proof_than_a_round_has_time_for_are_all_answered(hand: Hand) -> None:
    hand.ask("put", put(b"a", b"1"))
    for n in range(3):
        hand.ask(f"read {n}", costly(hand, by_last_proof(get(b"a"))))
    hand.prove()
    hand.prove()
    assert len(hand.answers) == 4


# ---- rule 9: sizes, queues ------------------------------------------------------------------------------------------


def test_a_proof_is_renewed_while_heartbeats_come_and_none_of_them_waits(hand: Hand) -> None:
    hand.ask("first", get(b"a"))
    hand.prove()
    for n in range(20):
        hand.at += hand.owner.limits.unproved_s / 5
        hand.ask(f"heartbeat {n}", get(b"a"), without_confirmation=True)
        assert f"heartbeat {n}" in hand.answers
        if hand.owner._in_flight:
            hand.prove()
    assert len(hand.sent) <= 3 + 7


def test_what_fits_no_batch_is_refused_before_it_is_applied(hand: Hand) -> None:
    hand.ask("large", put(b"a", b"x" * hand.owner.limits.max_batch_bytes))
    hand.prove()
    assert code(hand, "large") == ErrorCode.RECORD_LIST_TOO_LARGE
    assert hand.book.values == {}


def test_what_does_not_fit_into_this_batch_is_decided_anew_for_the_next(hand: Hand) -> None:
    hand.ask("first", put(b"x"))
    for n in range(3):
        hand.ask(f"put {n}", put(b"%d" % n, b"x" * 400))
    hand.prove()
    assert isinstance(hand.call, Append)
    assert len(hand.call.batches) <= hand.owner.limits.max_batch_bytes
    assert len(appended(hand)) == 2
    hand.prove()
    assert len(appended(hand)) == 1
    hand.prove()
    assert hand.answers.keys() >= {"put 0", "put 1", "put 2"}


@pytest.mark.story("a-key-written-for-each-decision")
def test_a_key_is_written_once_for_all_decisions_of_a_round_and_takes_the_room_of_one(hand: Hand) -> None:
    """An addition to a transaction writes all that is in it, so eight of them would fill the batch several times."""
    hand.owner.limits = replace(LIMITS, max_waiting=20)
    hand.ask("first", put(b"x"))
    for n in range(1, 9):
        hand.ask(f"put {n}", put(b"a", b"%d" % n * 60 * n))
    hand.prove()
    assert appended(hand) == [Entry(b"a", b"8" * 480)]
    hand.prove()
    assert hand.answers["put 8"] == b"7" * 420, "each decision has seen the one before"


def test_a_round_that_fails_fails_all_that_were_decided_into_one_record(hand: Hand) -> None:
    hand.ask("first", put(b"x"))
    for n in range(3):
        hand.ask(f"put {n}", put(b"a", b"%d" % n))
    hand.prove()
    hand.result(Mismatch(9))
    assert {code(hand, f"put {n}") for n in range(3)} == {ErrorCode.NOT_COORDINATOR}
    assert hand.answers.keys() == {"first"}


def test_a_record_is_replaced_only_within_its_batch(hand: Hand) -> None:
    """A leader that fails may keep the first batch of a round alone: that must be what was decided by then."""
    producer = TransactionProducer(7, 0)
    written: list[Record] = [
        Entry(b"a", b"1"),
        Entry(b"a", b"2", producer),
        Entry(b"a", b"3", producer),
        Entry(b"a", b"4"),
        Marker(producer, True, 1),
        Entry(b"a", b"5"),
        Entry(b"b", b"6"),
        Entry(b"a", b"7"),
    ]
    hand.owner.limits = replace(LIMITS, max_waiting=20)
    hand.ask("first", put(b"x"))
    for n, record in enumerate(written):
        hand.ask(f"write {n}", write(record))
    hand.prove()
    assert hand.book.seen[1:] == written, "all are applied"
    assert isinstance(hand.call, Append)
    batches = list(read_batches(laid(hand.call.batches, hand.call.expected_offset)))
    assert [batch.pairs or batch.of_transactions for batch in batches] == [
        [(b"a", b"1")],
        [Entry(b"a", b"3", producer)],
        [(b"a", b"4")],
        [Marker(producer, True, 1)],
        [(b"b", b"6"), (b"a", b"7")],
    ]
    hand.prove()
    assert hand.owner.next_offset == 2 + 6
    assert len(hand.answers) == len(written) + 1


@pytest.mark.story("a-rejected-timer-is-gone")
def test_a_timer_that_is_rejected_goes_off_again_and_is_in_the_trouble_until_it_is_done(hand: Hand) -> None:
    hand.ask("set", set_timers({"end": 1.0}))
    hand.prove()
    limits, hand.owner.limits = hand.owner.limits, replace(LIMITS, max_batch_bytes=1)
    hand.tick(1.0)
    hand.prove()
    assert code(hand, None) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert "1 rejected timer to be tried again, such as end: " in hand.owner.trouble
    assert "one batch holds at most" in hand.owner.trouble
    assert hand.owner.wake_at == hand.at + REJECTED_S
    hand.refusals.clear()
    hand.tick(REJECTED_S)
    hand.prove()
    assert code(hand, None) == ErrorCode.RECORD_LIST_TOO_LARGE, "as often as it is rejected"
    hand.owner.limits = limits
    hand.tick(REJECTED_S)
    hand.prove()
    assert (hand.book.values[b"timer"], hand.owner.trouble, hand.owner.wake_at) == (b"end", "", float("inf"))


def test_a_rejected_timer_that_is_cancelled_is_no_trouble_any_more(hand: Hand) -> None:
    hand.ask("set", set_timers({"end": 1.0}))
    hand.prove()
    limits, hand.owner.limits = hand.owner.limits, replace(LIMITS, max_batch_bytes=1)
    hand.tick(1.0)
    hand.prove()
    hand.owner.limits = limits
    hand.ask("cancel", set_timers({"end": None}))
    hand.prove()
    assert (hand.owner.trouble, hand.owner.wake_at) == ("", float("inf"))


def test_the_queue_is_bounded_and_who_waited_too_long_is_not_decided(hand: Hand) -> None:
    hand.ask("first", put(b"x"))
    hand.ask("impatient", put(b"a"), wait_s=0.5)
    for n in range(4):
        hand.ask(f"put {n}", put(b"b"))
    assert code(hand, "put 3") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    hand.at += 0.5
    hand.prove()
    hand.prove()
    assert code(hand, "impatient") == ErrorCode.REQUEST_TIMED_OUT
    assert b"a" not in hand.book.values


# ---- responses that come later ---------------------------------------------------------------------------------------


def test_a_response_may_come_with_a_later_decision(hand: Hand) -> None:
    hand.ask("join", later("m1"))
    hand.prove()
    assert (hand.answers, hand.owner.unanswered) == ({}, 1)
    hand.ask("sync", resolve("m1", "joined"))
    assert "join" not in hand.answers
    hand.prove()
    assert (hand.answers["join"], hand.owner.unanswered) == ("joined", 0)


def test_the_same_request_again_takes_the_place_of_the_first(hand: Hand) -> None:
    hand.ask("join", later("m1"))
    hand.prove()
    hand.ask("join again", later("m1"))
    hand.prove()
    assert code(hand, "join") == ErrorCode.REQUEST_TIMED_OUT
    hand.ask("end", resolve("m1", OttlaError(ErrorCode.INVALID_REQUEST, "no such member")))
    hand.prove()
    assert code(hand, "join again") == ErrorCode.INVALID_REQUEST


def test_who_leaves_refuses_everybody_once(hand: Hand) -> None:
    hand.ask("join", later("m1"))
    hand.prove()
    hand.ask("put", put(b"a"))
    hand.ask("waiting", get(b"a"))
    hand.leave()
    assert {code(hand, token) for token in ("join", "put", "waiting")} == {ErrorCode.NOT_COORDINATOR}
    assert hand.owner.unanswered == 0
    hand.leave()
    hand.result(Appended(1, 2))
    assert hand.left == Leave("unassigned", needs_epoch=False)


# ---- rule 10: timers and pauses -------------------------------------------------------------------------------------


def test_a_timer_s_decision_is_written_like_any_other(hand: Hand) -> None:
    hand.ask("set", set_timers({"expiry": 0.5}))
    hand.prove()
    hand.tick(0.4)
    assert hand.call == Check(1)
    hand.tick(0.1)
    assert appended(hand) == [Entry(b"timer", b"expiry")]


def test_a_heartbeat_that_waited_moves_the_timer_before_it_goes_off(hand: Hand) -> None:
    hand.ask("set", set_timers({"session": 0.5}))
    hand.prove()
    hand.ask("put", put(b"a"))
    hand.ask("heartbeat", set_timers({"session": 0.5}))
    hand.tick(0.6)
    hand.prove()
    assert hand.call == Check(2)
    hand.prove()
    assert b"timer" not in hand.book.values


def test_a_timer_that_is_cancelled_does_not_go_off(hand: Hand) -> None:
    hand.ask("set", set_timers({"expiry": 0.5}))
    hand.prove()
    hand.ask("cancel", set_timers({"expiry": None}))
    hand.prove()
    hand.tick(0.6)
    assert isinstance(hand.call, Check)


def test_after_a_gap_nothing_comes_from_memory_that_was_proved_too_long_ago(hand: Hand) -> None:
    hand.ask("get", get(b"a"))
    hand.gap(3.0)  # while its answer was on the way
    hand.prove()
    hand.ask("heartbeat", get(b"a"), without_confirmation=True)
    assert "heartbeat" not in hand.answers
    hand.prove()
    hand.ask("proved", get(b"a"), without_confirmation=True)
    assert {"heartbeat", "proved"} <= hand.answers.keys()
    hand.gap(3.0)
    hand.ask("after another", get(b"a"), without_confirmation=True)
    assert "after another" not in hand.answers


@pytest.mark.story("gap-distrusts-every-proof")
def test_a_gap_that_the_proof_outlives_costs_nothing(hand: Hand) -> None:
    """As where the process is starved: a gap of a second, again and again."""
    hand.ask("get", get(b"a"))
    hand.prove()
    sent = len(hand.sent)
    hand.gap(1.4)
    hand.ask("heartbeat", get(b"a"), without_confirmation=True)
    assert ("heartbeat" in hand.answers, len(hand.sent)) == (True, sent)
    hand.gap(1.4)
    hand.ask("another", get(b"a"), without_confirmation=True)
    assert ("another" in hand.answers, len(hand.sent)) == (True, sent + 1)
    hand.gap(1.4)
    hand.ask("too late", get(b"a"), without_confirmation=True)
    assert ("too late" in hand.answers, hand.left) == (False, None)


def test_what_was_written_is_what_is_loaded(hand: Hand) -> None:
    """The state of who wrote, and of who reads it back, are the same."""
    log = []
    for n in range(5):
        hand.ask(f"put {n}", put(b"k%d" % (n % 3), b"%d" % n))
        assert isinstance(hand.call, Append)
        log.append(hand.call.batches)
        hand.prove()
    next_owner = Hand(fence=MINE._replace(epoch=6))
    next_owner.serve(*log)
    assert next_owner.book.values == hand.book.values


PRODUCER = TransactionProducer(9, 2)


def write(*records: Record) -> BookDecide:
    return lambda book, now: ShardDecision(None, records=records)


@pytest.fixture
def busy() -> Hand:
    """The same, for which more may wait."""
    hand = Hand(limits=replace(LIMITS, max_waiting=100))
    hand.serve()
    return hand


def test_a_round_of_every_kind_is_one_append_in_the_order_of_its_decisions(busy: Hand) -> None:
    hand = busy
    hand.ask("first", put(b"x"))
    records = Entry(b"a", b"1"), Entry(b"a", b"2", PRODUCER), Marker(PRODUCER, True, 4), Entry(b"b", b"3")
    for record in records:
        hand.ask(str(record), write(record))
    hand.prove()
    assert isinstance(hand.call, Append)
    end = hand.call.expected_offset + len(records)
    assert [header.next_offset for header in headers_at(hand.call.batches, hand.call.expected_offset)][-1] == end
    assert hand.book.seen[-4:] == list(records)
    hand.result(Appended(hand.call.expected_offset, end - 1))
    assert len(hand.answers) == 1, "its last batch is not committed: a leader that has the first alone may follow"
    hand.tick(0.2)
    hand.prove()
    assert (len(hand.answers), hand.owner.next_offset) == (5, end)


def test_a_decision_of_several_batches_is_a_bug_that_changes_nothing(hand: Hand) -> None:
    """The first of them may be in the log alone, under a leader that had no more."""
    hand.ask("mixed", write(Entry(b"a", b"1"), Entry(b"a", b"2", PRODUCER)))
    hand.prove()
    hand.ask("markers", write(Marker(PRODUCER, True, 4), Marker(PRODUCER, True, 4)))
    hand.prove()
    assert {token: type(error) for token, error in hand.refusals.items()} == dict.fromkeys(
        ("mixed", "markers"), AssertionError
    )
    assert hand.book.values == {}


def test_the_headers_of_all_batches_of_a_round_count(busy: Hand) -> None:
    hand = busy
    hand.ask("first", put(b"x"))
    for n in range(40):
        hand.ask(f"m{n}", write(Marker(TransactionProducer(n, 0), True, 4)))
    hand.prove()
    while len(hand.answers) < 41:
        assert isinstance(hand.call, Append)
        assert len(hand.call.batches) <= hand.owner.limits.max_batch_bytes
        hand.prove()
