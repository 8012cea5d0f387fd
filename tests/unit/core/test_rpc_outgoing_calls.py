"""Which calls go in which message, and that each call ends once, with the truth about whether it was sent."""

from __future__ import annotations

import random

import pytest

from ottla_core.rpc import outgoing_calls as module
from ottla_core.rpc.deadlines import NEVER, Deadlines
from ottla_core.rpc.outgoing_calls import CrowdedError, Ended, OutgoingCalls


class Calls:
    """Calls whose waiter is their number and whose frame says it, too."""

    def __init__(self) -> None:
        self.calls = OutgoingCalls[int]()
        self.now = 100.0

    def add(self, *, size: int = 10, timeout_s: float = 10.0, linger_s: float = 0.0, while_busy: bool = False) -> int:
        number = self.calls.next_number()
        frame = f"{number}".encode().ljust(size)
        deadline = self.now + timeout_s
        self.calls.add(number, frame, number, now=self.now, deadline=deadline, linger_s=linger_s, while_busy=while_busy)
        return number

    def sent(self) -> list[int]:
        message = self.calls.message(self.now)
        assert message is not None
        return [int(frame) for frame in message.frames]

    def holds_nothing(self) -> bool:
        calls = self.calls
        return (calls.open, calls.queued_bytes, calls.sent_bytes, calls.next_deadline) == (0, 0, 0, NEVER)


@pytest.fixture
def given() -> Calls:
    return Calls()


# ---- gathering ------------------------------------------------------------------------------------------------------


def test_all_that_is_queued_goes_in_one_message_in_its_order(given: Calls) -> None:
    numbers = [given.add() for _ in range(5)]
    assert given.sent() == numbers
    assert given.calls.message(given.now) is None
    assert given.calls.go_at == NEVER


def test_a_message_has_a_most_of_calls_and_of_bytes(given: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MESSAGE_CALLS", 3)
    monkeypatch.setattr(module, "MESSAGE_BYTES", 100)
    first = [given.add() for _ in range(4)]
    assert [given.sent(), given.sent()] == [first[:3], first[3:]]
    small, large, last = given.add(size=40), given.add(size=500), given.add(size=40)
    assert [given.sent(), given.sent(), given.sent()] == [[small], [large], [last]], "a large one goes alone"


def test_a_call_that_lingers_goes_with_the_next_that_does_not(given: Calls) -> None:
    first = given.add(linger_s=0.05)
    assert given.sent() == [first], "nothing has gone for long"
    second = given.add(linger_s=0.05)
    assert given.calls.message(given.now) is None
    given.now += 0.01
    third, hasty = given.add(linger_s=0.05), given.add()
    assert given.sent() == [second, third, hasty]
    fourth = given.add(linger_s=0.05)
    assert given.calls.go_at == pytest.approx(given.now + 0.05)
    given.now += 0.051
    assert given.sent() == [fourth]


def test_a_call_that_waits_for_those_under_way_goes_when_all_of_them_are_back(given: Calls) -> None:
    """Or after its time, if one of them is slow."""
    first, beside = given.add(linger_s=0.05, while_busy=True), given.add(linger_s=0.05, while_busy=True)
    assert given.sent() == [first, beside], "none is under way"
    second, third = given.add(linger_s=0.05, while_busy=True), given.add(linger_s=0.05, while_busy=True)
    given.calls.on_response(first)
    assert given.calls.message(given.now) is None
    given.calls.on_response(beside)
    assert given.sent() == [second, third]
    late = given.add(linger_s=0.05, while_busy=True)
    assert given.calls.go_at == pytest.approx(given.now + 0.05)
    given.now += 0.051
    assert given.sent() == [late]
    for number in (second, third, late):
        given.calls.on_response(number)
    given.now += 0.01
    given.add(linger_s=0.05)
    assert given.calls.message(given.now) is None, "others still wait for their time"


# ---- how calls end --------------------------------------------------------------------------------------------------


def test_a_response_finds_its_call_once(given: Calls) -> None:
    number = given.add()
    assert given.calls.on_response(number) is None, "it was not sent"
    given.sent()
    assert given.calls.on_response(number) == number
    assert given.calls.on_response(number) is None
    assert given.holds_nothing()


def test_a_deadline_tells_whether_the_call_was_sent(given: Calls) -> None:
    sent = given.add(timeout_s=1.0)
    given.sent()
    queued, later = given.add(timeout_s=0.5), given.add(timeout_s=2.0)
    assert list(given.calls.on_time(given.now + 0.4)) == []
    assert list(given.calls.on_time(given.now + 1.0)) == [Ended(queued, False), Ended(sent, True)]
    assert given.sent() == [later], "what has ended is not sent"
    assert given.calls.on_response(sent) is None
    assert given.calls.next_deadline == given.now + 2.0


def test_who_gives_up_is_not_sent_or_the_peer_hears_of_it(given: Calls) -> None:
    sent = given.add()
    given.sent()
    queued = given.add()
    given.calls.give_up(queued)
    assert given.calls.message(given.now) is None
    given.calls.give_up(sent)
    given.calls.give_up(sent)
    assert given.calls.message(given.now) == ([], [sent])
    assert given.holds_nothing()


def test_the_end_of_a_stream_ends_every_call_once(given: Calls) -> None:
    sent, given_up = given.add(), given.add()
    given.sent()
    queued = given.add()
    given.calls.give_up(given_up)
    assert list(given.calls.on_end()) == [Ended(sent, True), Ended(queued, False)]
    assert list(given.calls.on_end()) == []
    assert given.calls.message(given.now) is None, "the next stream has nothing to do with it"
    assert given.holds_nothing()
    assert given.add() > queued, "no late response can be another call's"


def test_calls_that_the_peer_will_not_start_are_definite(given: Calls) -> None:
    first, second, third = given.add(), given.add(), given.add()
    given.sent()
    assert list(given.calls.on_last_started(first)) == [Ended(second, False), Ended(third, False)]
    assert given.calls.on_response(first) == first


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_what_has_no_response_is_bounded_and_the_rest_waits(given: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_BYTES", 100)
    first, second, third = given.add(size=60), given.add(size=60), given.add(size=60)
    assert given.sent() == [first, second], "one may exceed the window, or a large one could never go"
    assert given.calls.go_at == NEVER
    assert given.calls.message(given.now) is None
    given.calls.give_up(first)
    message = given.calls.message(given.now)
    assert message is not None
    assert ([int(frame) for frame in message.frames], message.cancelled) == ([third], [first])
    fourth = given.add(size=60)
    assert given.calls.message(given.now) is None
    assert given.calls.on_response(second) == second
    assert given.sent() == [fourth]


def test_a_peer_that_takes_nothing_makes_nothing_grow(given: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 100)
    for size in (60, 500):
        given.add(size=size)  # the last may have any size, which is not known before it is encoded
    with pytest.raises(CrowdedError, match="2 calls wait for the peer, 560 bytes"):
        given.add()
    list(given.calls.on_end())
    monkeypatch.setattr(module, "MAX_CALLS", 3)
    for _ in range(3):
        given.add(timeout_s=1.0)
    with pytest.raises(CrowdedError, match="3 calls"):
        given.add()
    assert len(list(given.calls.on_time(given.now + 1.0))) == 3
    assert given.holds_nothing()
    given.add()


def test_deadlines_of_calls_that_have_ended_leave_nothing() -> None:
    deadlines = Deadlines()
    deadlines.set(0, 1_000.0)
    for number in range(1, 10_000):
        deadlines.set(number, float(number))
        deadlines.drop(number)
    assert len(deadlines._heap) < 200
    assert (deadlines.next_at, deadlines.pop_passed(999.0), deadlines.pop_passed(1_000.0)) == (1_000.0, None, 0)
    assert (len(deadlines), deadlines.next_at) == (0, NEVER)


@pytest.mark.parametrize("seed", range(20))
def test_every_call_ends_once_whatever_happens(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that ends as not sent was in no message, or the peer has said that it did not start it."""
    monkeypatch.setattr(module, "MESSAGE_CALLS", 3)
    monkeypatch.setattr(module, "WINDOW_BYTES", 60)
    chance, given = random.Random(seed), Calls()
    open_calls: set[int] = set()
    sent: set[int] = set()

    def end(number: int, *, was_sent: bool) -> None:
        open_calls.remove(number)
        assert was_sent == (number in sent)

    for _ in range(2_000):
        given.now += chance.random() * 0.1
        match chance.randrange(8):
            case 0 | 1 | 2:
                open_calls.add(given.add(timeout_s=chance.random() * 5, linger_s=chance.choice([0.0, 0.05])))
            case 3 | 4:
                if (message := given.calls.message(given.now)) is not None:
                    numbers = [int(frame) for frame in message.frames]
                    assert sent.isdisjoint(numbers), "nothing is sent twice"
                    assert open_calls.issuperset(numbers), "nor is what has ended"
                    sent.update(numbers)
            case 5:
                number = chance.randint(1, given.calls.next_number())
                if given.calls.on_response(number) is not None:
                    end(number, was_sent=True)
            case 6:
                if open_calls and (number := chance.choice(sorted(open_calls))):
                    given.calls.give_up(number)
                    open_calls.remove(number)
            case _:
                for ended in given.calls.on_time(given.now):
                    end(ended.waiter, was_sent=ended.was_sent)
        assert given.calls.open == len(open_calls)
    for ended in given.calls.on_end():
        end(ended.waiter, was_sent=ended.was_sent)
    assert (open_calls, given.holds_nothing()) == (set(), True)
