"""Bytes in flight are bounded per stream and per method; readers wait in order, and an idle one holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from waiting import until

from ottla_core.rpc import budget
from ottla_core.rpc.budget import MAX_FRAMES_IN_FLIGHT, MethodBudget, StreamBudget

MIB = 1 << 20


class Readers:
    """Streams that wait to read, by number."""

    def __init__(self, method: MethodBudget) -> None:
        self.method = method
        self.let_in: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def queue(self, count: int) -> None:
        self.tasks += [asyncio.create_task(self._read(len(self.tasks) + n)) for n in range(count)]
        await asyncio.sleep(0)

    async def _read(self, number: int) -> None:
        await self.method.until_room()
        self.let_in.append(number)


@pytest.fixture
async def readers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Readers]:
    monkeypatch.setattr(budget, "MAX_METHOD_BYTES_IN_FLIGHT", 4 * MIB)
    readers = Readers(MethodBudget())
    yield readers
    for task in readers.tasks:
        task.cancel()


async def test_streams_of_a_method_read_while_there_is_room(readers: Readers) -> None:
    readers.method.add(4 * MIB - 1)
    await readers.queue(3)
    assert readers.let_in == [0, 1, 2]
    readers.method.add(1)
    await readers.queue(1)
    assert readers.let_in == [0, 1, 2]


async def test_who_waits_is_let_in_as_there_is_room_for_a_frame_of_each(readers: Readers) -> None:
    """Not all at once: a hundred that read a frame each would hold a hundred frames."""
    readers.method.add(6 * MIB)
    await readers.queue(10)
    readers.method.add(-2 * MIB)
    await asyncio.sleep(0)
    assert readers.let_in == [], "there is no more than the budget, and no less"
    readers.method.add(-2 * MIB)
    readers.method.add(2 * MIB)  # they have read
    await asyncio.sleep(0)
    assert readers.let_in == [0, 1]
    readers.method.add(-MIB)
    await readers.queue(1)
    assert 10 not in readers.let_in, "there is room, and others were first"
    readers.method.add(-MIB)
    await until(lambda: len(readers.let_in) == 11)
    assert readers.let_in == list(range(11)), "in the order of their coming"


async def test_a_reader_whose_stream_is_idle_holds_up_nobody(readers: Readers) -> None:
    """They are let in and bring nothing, so nothing is ever given back: the others come a moment later."""
    readers.method.add(4 * MIB)
    await readers.queue(20)
    readers.method.add(-1)
    await until(lambda: readers.let_in == list(range(20)))


async def test_a_reader_whose_stream_has_ended_leaves_its_turn_to_the_next(readers: Readers) -> None:
    readers.method.add(4 * MIB)
    await readers.queue(2)
    readers.tasks[0].cancel()
    await asyncio.sleep(0)
    readers.method.add(-1)
    readers.method.add(1)
    await asyncio.sleep(0)
    assert readers.let_in == [1]


@pytest.mark.parametrize(("count", "size_bytes"), [(MAX_FRAMES_IN_FLIGHT, 1), (2, 16 * MIB)])
async def test_one_stream_is_bounded_by_itself(count: int, size_bytes: int) -> None:
    method = MethodBudget()
    stream, other = StreamBudget(method), StreamBudget(method)
    frames = []
    for _ in range(count):
        await asyncio.wait_for(stream.until_room(), 20)
        frames.append(stream.take(size_bytes))
    waiting = asyncio.create_task(stream.until_room())
    await other.until_room()
    assert not waiting.done()
    assert method.bytes == count * size_bytes
    frames[0].end()
    await asyncio.wait_for(waiting, 20)


async def test_an_answer_counts_until_it_is_written() -> None:
    method = MethodBudget()
    stream = StreamBudget(method)
    frame = stream.take(100)
    frame.grow(32 * MIB)
    waiting = asyncio.create_task(stream.until_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    frame.end()
    await asyncio.wait_for(waiting, 20)
    assert (method.bytes, stream.bytes, stream.frames) == (0, 0, 0)
