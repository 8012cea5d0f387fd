"""The order of answers, and what a connection holds: with a transport that only notes what is asked of it."""

from __future__ import annotations

import asyncio
import gc
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from listeners import CONTROL, FETCH, LIMITS, PRODUCE, Around, Transport
from waiting import until

from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.network.budget import Budget
from ottla_broker.kafka.network.connection import HandlerResult, KafkaConnection
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.kafka.network.listener import Listener
from ottla_broker.kafka.wire.frames import Caller, Head, Parts
from ottla_core.telemetry import Metrics


class Client:
    """One of those that have been served before, unless it `is_known`."""

    def __init__(self, around: Around, *, is_known: bool = True) -> None:
        self.around = around
        self.transport = Transport()
        self.connection = KafkaConnection(around)
        self.connection.connection_made(self.transport)
        if is_known and not self.transport.aborted:
            self.send(frame(b"silent"))
            around.began.clear()

    def send(self, data: bytes, piece_bytes: int = 1_000) -> None:
        for at in range(0, len(data), piece_bytes):
            piece = data[at : at + piece_bytes]
            while piece:
                assert self.transport.reading, "nobody reads"
                view = self.connection.get_buffer(-1)
                taken = min(len(view), len(piece))
                view[:taken] = piece[:taken]
                self.connection.buffer_updated(taken)
                piece = piece[taken:]

    def tick(self, seconds: int) -> None:
        for _ in range(seconds):
            self.connection.on_tick(self.around.now())

    async def answered(self, *bodies: bytes) -> None:
        await until(lambda: self.transport.written == list(bodies))


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def client(around: Around) -> Client:
    return Client(around)


def frame(body: bytes, key: int = CONTROL, *, size_bytes: int | None = None) -> bytes:
    body = body.ljust(6, b".")
    return struct.pack(">ihh", len(body) + 4 if size_bytes is None else size_bytes, key, 0) + body


def body(text: bytes) -> bytes:
    return text.ljust(6, b".")


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 8, 9, 20, 1_000])
async def test_frames_however_they_are_cut(client: Client, piece_bytes: int) -> None:
    bodies = [b"one", b"two" * 300, b"three", b"four" * 20]
    client.send(b"".join(frame(b, PRODUCE) for b in bodies), piece_bytes)
    assert client.transport.written == [body(b) for b in bodies]
    assert client.around.budget.held_bytes == 0
    assert client.around.callers == {Caller("10.0.0.2", "10.0.0.1")}


@pytest.mark.rule(70)
@pytest.mark.feature(127)
async def test_a_request_waits_for_those_before_it(client: Client) -> None:
    client.send(frame(b"wait") + frame(b"quick") + frame(b"silent") + frame(b"last"))
    assert client.around.began == [body(b"wait")]
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(*map(body, (b"wait", b"quick", b"last")))
    assert client.around.budget.held_bytes == 0


@pytest.mark.rule(70)
@pytest.mark.feature(127)
async def test_produces_overlap_and_are_answered_in_order(client: Client) -> None:
    client.send(b"".join(frame(b, PRODUCE) for b in (b"wait-1", b"quick", b"wait-2", b"more")))
    assert client.around.began == [b"wait-1", body(b"quick"), b"wait-2"], "so many and no more"
    client.send(frame(b"other"))
    client.around.waits[b"wait-2"].set_result(None)
    await asyncio.sleep(0)
    assert client.transport.written == []
    client.around.waits[b"wait-1"].set_result(None)
    await client.answered(b"wait-1", body(b"quick"), b"wait-2", body(b"more"), body(b"other"))


@pytest.mark.story("one-client-fills-what-waits")
async def test_nothing_begins_before_large_batches_are_appended(client: Client) -> None:
    """They may be acknowledged later."""
    large = b"pend" + bytes(500)
    client.send(b"".join(frame(b, PRODUCE) for b in (large, b"wait-2", b"quick")))
    assert client.around.began == [large]
    assert client.around.budget.held_bytes >= 500
    assert client.around.placed is not None
    client.around.placed.set_result(None)
    await asyncio.sleep(0)
    assert client.around.began[:2] == [large, b"wait-2"]
    for wait in client.around.waits.values():
        wait.set_result(None)
    await client.answered(large, b"wait-2", body(b"quick"))
    assert client.around.budget.held_bytes == 0


async def test_a_client_that_goes_before_its_batches_are_appended_holds_nothing(client: Client) -> None:
    client.send(frame(b"pend" + bytes(500), PRODUCE))
    client.connection.connection_lost(None)
    assert client.around.budget.held_bytes == 0
    assert client.around.placed is not None
    client.around.placed.set_result(None)
    await asyncio.sleep(0)
    assert client.around.budget.held_bytes == 0


async def test_the_answers_of_one_read_leave_together_but_for_large_ones(client: Client) -> None:
    client.send(frame(b"one") * 5)
    assert (client.transport.writes, client.transport.written) == (1, [body(b"one")] * 5)
    client.around.scratch = memoryview(bytearray(20_000))
    client.transport.writes = 1
    large = b"x" * 5_000
    client.send(frame(b"one") * 2 + frame(large, PRODUCE) + frame(b"one"), 20_000)
    assert client.transport.writes == 4
    assert client.transport.written[5:] == [body(b"one"), body(b"one"), large, body(b"one")]


async def test_what_was_answered_before_a_bad_request_still_leaves(client: Client) -> None:
    client.send(frame(b"one") + frame(b"bad"))
    assert client.transport.written == [body(b"one")]


async def test_another_request_does_not_overlap_produces(client: Client) -> None:
    client.send(frame(b"wait-1", PRODUCE) + frame(b"other") + frame(b"quick", PRODUCE))
    assert client.around.began == [b"wait-1"]
    client.around.waits[b"wait-1"].set_result(None)
    await client.answered(b"wait-1", body(b"other"), body(b"quick"))


async def test_a_produce_does_not_overlap_another_request(client: Client) -> None:
    client.send(frame(b"wait-1") + frame(b"quick", PRODUCE))
    assert client.around.began == [b"wait-1"]
    client.around.waits[b"wait-1"].set_result(None)
    await client.answered(b"wait-1", body(b"quick"))


async def test_reading_pauses_while_much_waits(client: Client) -> None:
    client.send(frame(b"wait"))
    client.send(frame(b"x" * 100) * 2)
    assert client.transport.reading
    client.send(frame(b"x" * 100))
    assert not client.transport.reading
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(body(b"wait"), *[b"x" * 100] * 3)
    assert client.transport.reading


async def test_nothing_begins_while_answers_are_not_taken(client: Client) -> None:
    client.transport.stuck = client.connection
    client.send(frame(b"x" * 700))
    assert client.around.budget.held_bytes == 700
    client.transport.unsent_bytes = 1
    assert client.around.budget.held_bytes == 700, "all of it is in memory until the last byte has left"
    client.send(frame(b"next"))
    assert client.around.began == [b"x" * 700]
    client.transport.stuck = None
    client.connection.resume_writing()
    await client.answered(b"x" * 700, body(b"next"))
    assert client.around.budget.held_bytes == 0


async def test_who_takes_its_answers_too_slowly_is_cut(client: Client) -> None:
    client.transport.stuck = client.connection
    client.send(frame(b"next"))
    enough = LIMITS.min_bytes_per_s * LIMITS.write_s
    client.transport.unsent_bytes = 10 * enough
    client.connection.pause_writing()
    for _ in range(5):
        client.tick(LIMITS.write_s - 1)
        client.transport.unsent_bytes -= enough
        client.tick(1)
    assert not client.transport.closed, "it is slow, and fast enough"
    client.transport.unsent_bytes -= enough - 1
    client.tick(LIMITS.write_s + 1)
    assert client.transport.closed
    assert "did not take a response" in client.around.refused[0]


@pytest.mark.story("announced-bytes-are-held")
async def test_a_frame_takes_memory_as_it_comes(client: Client) -> None:
    """Whatever it announces; the part that makes the rest worth a place of its own is a sixteenth."""
    client.send(frame(b"", PRODUCE, size_bytes=10_000))
    assert client.around.budget.held_bytes == 14
    client.send(b"x" * 500)
    assert client.around.budget.held_bytes == 514
    assert client.transport.reading


async def test_large_frames_wait_until_there_is_room_for_them(client: Client) -> None:
    others = client.around.others_hold(15_000)
    large = frame(b"x" * 5_000, PRODUCE)
    client.send(large[:200])
    assert not client.transport.reading
    others.change(-14_000)
    assert client.transport.reading
    client.send(large[200:])
    await client.answered(b"x" * 5_000)
    assert client.around.budget.held_bytes == 1_000


@pytest.mark.story("frame-that-needs-little-can-not-end")
async def test_a_frame_that_needs_little_to_end_may_end_though_nothing_else_may_begin(client: Client) -> None:
    """Or frames that fill the budget together would wait for each other."""
    client.around.others_hold(15_000)
    large = frame(b"x" * 900, PRODUCE)
    client.send(large[:200])
    assert client.transport.reading
    client.send(large[200:])
    await client.answered(b"x" * 900)


@pytest.mark.story("frames-that-can-not-end-wait-for-ever")
async def test_who_holds_much_and_finds_no_room_for_more_is_cut(client: Client) -> None:
    around = client.around
    around.budget = Budget(16 << 20)
    around.limits = ConnectionLimits()
    client = Client(around)
    around.others_hold(8 << 20)
    client.send(frame(b"", PRODUCE, size_bytes=50 << 20) + bytes(3 << 20))
    around.others_hold(8 << 20)
    client.send(bytes(1_000))
    assert not client.transport.reading
    client.tick(LIMITS.room_s)
    assert not client.transport.closed
    client.tick(1)
    assert "no room for more" in around.refused[0]
    assert around.budget.held_bytes == 16 << 20


async def test_what_may_be_answered_at_length_waits_for_room_and_nothing_else_does(client: Client) -> None:
    others = client.around.others_hold(15_000)
    client.send(frame(b"produce", PRODUCE) + frame(b"other") + frame(b"fetch", FETCH))
    assert client.around.began == [b"produce", body(b"other")]
    client.tick(100)
    assert not client.transport.closed
    others.change(-2_000)
    await client.answered(b"produce", body(b"other"), body(b"fetch"))


async def test_an_answer_that_was_large_makes_the_next_of_its_kind_wait_for_room(client: Client) -> None:
    around = client.around
    around.limits, around.budget = ConnectionLimits(), Budget(ConnectionLimits().max_held)
    around.scratch = memoryview(bytearray(256 * 1024))
    client = Client(around)
    client.send(frame(b"x" * 70_000), 100_000)
    assert around.large == {CONTROL}


@pytest.mark.story("lent-room-is-given-back-too-early")
async def test_what_was_lent_to_an_answer_is_free_once_the_client_has_taken_that() -> None:
    """It was given back before the answer was counted that the client did not take, and others were let in for it."""

    class LongAnswers(Around):
        async def _later(self, body: bytes) -> Parts | None:
            await self.waits[body]
            return [bytes(5_200)]

    around = LongAnswers()
    around.limits = replace(LIMITS, max_connections=2)
    others = around.others_hold(8_000)
    slow, other = Client(around), Client(around)
    slow.send(frame(b"wait", FETCH))
    assert slow.connection._account.lend(10_000) > 5_000
    others.change(14_000 - around.budget.held_bytes)  # all that is for anybody
    other.send(frame(b"other", FETCH))
    slow.transport.stuck = slow.connection
    around.waits[body(b"wait")].set_result(None)
    await until(lambda: slow.transport.written)
    assert body(b"other") not in around.began
    slow.transport.unsent_bytes = 0
    slow.connection.resume_writing()
    await other.answered(body(b"other"))


async def test_small_requests_wait_too_where_the_whole_budget_is_used(client: Client) -> None:
    others = client.around.others_hold(16_000)
    client.send(frame(b"other"))
    assert client.around.began == []
    others.change(-1)
    await client.answered(body(b"other"))


async def test_a_connection_that_has_much_to_ask_takes_turns_with_others(client: Client) -> None:
    client.around.turn_takes_s = LIMITS.slice_s * 0.6
    client.send(frame(b"one") * 5)
    assert len(client.around.began) == 2
    await client.answered(*[body(b"one")] * 5)
    assert client.around.budget.held_bytes == 0


async def test_a_request_that_is_open_is_counted_and_a_produce_is_not(client: Client) -> None:
    client.send(frame(b"wait" + b"x" * 500))
    assert client.around.budget.held_bytes == 512
    next(iter(client.around.waits.values())).set_result(None)
    await until(lambda: client.around.budget.held_bytes == 0)
    client.send(frame(b"wait" + b"x" * 600, PRODUCE))
    assert client.around.budget.held_bytes == 0


@pytest.mark.story("stranger-announces-100-mib")
async def test_until_a_first_request_is_done_frames_are_short(client: Client) -> None:
    client.around.limits = replace(LIMITS, max_connections=10, max_first=800)
    for sent in (frame(b"x" * 900), frame(b"x" * 900, PRODUCE)):
        stranger = Client(client.around, is_known=False)
        stranger.send(sent)
        assert stranger.transport.closed
        assert "before the first request is done" in client.around.refused.pop()
        stranger.connection.connection_lost(None)
        known = Client(client.around, is_known=False)
        known.send(frame(b"first") + sent)
        assert known.transport.written == [body(b"first"), b"x" * 900]
        known.connection.connection_lost(None)


async def test_what_is_cut_gives_back_what_it_held(client: Client) -> None:
    client.send(frame(b"wait", PRODUCE) + frame(b"x" * 5_000, PRODUCE)[:100])
    assert client.around.budget.held_bytes == 100
    await asyncio.sleep(0)  # it begins to wait
    client.connection.connection_lost(None)
    assert client.around.budget.held_bytes == 0
    await until(lambda: client.around.waits[body(b"wait")].cancelled())


@pytest.mark.story("warned-of-who-went-at-once")
@pytest.mark.parametrize("text", [b"wait", b"wait-!"])
async def test_what_is_cut_before_it_has_begun_ends_without_a_warning(
    client: Client, text: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What answers waits for a coroutine of its handler, and either may fail before it is cancelled."""
    warned: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", warned.append)
    request = frame(text, PRODUCE)
    client.around.nested = True
    client.send(request)
    client.around.waits[body(text)].set_result(None)
    client.connection.connection_lost(None)
    await until(lambda: len(asyncio.all_tasks()) == 1)
    gc.collect()
    assert warned == []
    assert caplog.messages == []


BAD: dict[str, Callable[[Client], None]] = {
    "a frame that is too large": lambda c: c.send(frame(b"", PRODUCE, size_bytes=10_001)),
    "a control request that is too large": lambda c: c.send(frame(b"", size_bytes=1_001)),
    "a frame without a header": lambda c: c.send(frame(b"", size_bytes=9)),
    "a negative size": lambda c: c.send(frame(b"", size_bytes=-1)),
    "what its handler refuses": lambda c: c.send(frame(b"bad") + frame(b"next")),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_ends_a_connection(client: Client, name: str) -> None:
    BAD[name](client)
    assert client.transport.closed
    assert len(client.around.refused) == 1
    assert body(b"next") not in client.around.began


async def test_a_failure_later_ends_the_connection(client: Client) -> None:
    client.send(frame(b"wait-!", PRODUCE) + frame(b"quick", PRODUCE))
    client.around.waits[b"wait-!"].set_result(None)
    await until(lambda: client.transport.closed)
    assert client.around.refused == ["failed later"]
    assert client.transport.written == []


@pytest.mark.parametrize("sent", [b"\0", frame(b"x" * 500)[:100]])
async def test_a_request_has_to_come_whole_in_time(client: Client, sent: bytes) -> None:
    client.send(sent)
    client.tick(LIMITS.frame_s)
    assert not client.transport.closed
    client.tick(1)
    assert client.transport.closed


@pytest.mark.story("frame-that-comes-by-drops")
async def test_a_large_frame_has_to_come_at_a_rate(client: Client) -> None:
    around = client.around
    around.limits, around.budget = ConnectionLimits(), Budget(ConnectionLimits().max_held)
    client = Client(around)
    client.send(frame(b"", PRODUCE, size_bytes=50 << 20))
    enough = LIMITS.min_bytes_per_s * LIMITS.frame_s
    for _ in range(5):
        client.tick(LIMITS.frame_s)
        client.send(bytes(enough))
        client.tick(1)
    assert not client.transport.closed
    client.send(bytes(enough - 1))
    client.tick(LIMITS.frame_s + 1)
    assert "did not arrive in time" in around.refused[0]


async def test_nobody_is_too_slow_while_this_side_does_not_read(client: Client) -> None:
    client.around.others_hold(15_000)
    client.send(frame(b"x" * 5_000, PRODUCE)[:200])
    assert not client.transport.reading
    client.tick(10 * LIMITS.frame_s)
    assert not client.transport.closed


async def test_an_idle_connection_is_closed_and_one_that_waits_is_not(client: Client) -> None:
    client.send(frame(b"wait"))
    client.around.time = LIMITS.idle_s + 1
    client.tick(1)
    assert not client.transport.closed
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(body(b"wait"))
    client.tick(1)
    assert client.transport.closed
    assert client.around.refused == []


async def test_a_drain_answers_what_is_open_and_begins_nothing(client: Client) -> None:
    client.send(frame(b"wait") + frame(b"next"))
    client.connection.drain()
    assert not client.transport.closed
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(body(b"wait"))
    await until(lambda: client.transport.closed)
    assert client.around.began == [body(b"wait")]


async def test_one_connection_too_many_is_cut(client: Client) -> None:
    assert Client(client.around).transport.aborted
    assert not client.transport.closed


@pytest.mark.story("each-that-waits-asks-again-each-turn")
async def test_of_many_that_may_be_answered_at_length_a_few_begin_in_a_turn_and_nobody_else_is_woken() -> None:
    """Each of those that waited asked again in every turn: a thousand at once took as many looks as half a million."""

    class Counting(Listener):
        looks = 0

        def begins_large(self, *who: Any) -> bool:
            self.looks += 1
            return super().begins_large(*who)

    began: list[Head] = []

    def handle(head: Head, frame: memoryview, caller: Caller) -> HandlerResult:
        began.append(head)
        return [b"answer"]

    dispatcher = cast(Dispatcher, SimpleNamespace(handle=handle, may_overlap=lambda key: False))
    listener, fetch = Counting([], dispatcher, Metrics()), frame(b"fetch", FETCH)
    for _ in range(200):
        connection = KafkaConnection(listener)
        connection.connection_made(Transport())
        connection.get_buffer(-1)[: len(fetch)] = fetch
        connection.buffer_updated(len(fetch))
    assert len(began) == 8
    await until(lambda: len(began) == 200)
    assert listener.looks < 2 * 200


@pytest.mark.parametrize("is_known", [True, False])
def test_a_client_with_tls_is_named_as_what_it_is(around: Around, is_known: bool) -> None:
    around.limits = replace(LIMITS, max_first=1_000)
    client = Client(around, is_known=is_known)
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100))
    assert client.transport.closed
    assert "the client speaks TLS, and this listener does not" in around.refused[0]
