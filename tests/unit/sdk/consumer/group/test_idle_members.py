"""Members of groups that wait for hours: however a program reads, it stays in its group.

Against scripted brokers, with a clock that the test moves.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import pytest
from closed_once import aio_closed_once, closed_once
from scripted_groups import consumer_of
from waiting import wait_until

import ottla
import ottla.aio
from ottla.errors import WakeupError
from ottla.fakes.scripted import ScriptedCluster
from ottla_core.kafka.messages import HeartbeatRequest

HOURS_S = 2 * 3600.0
STEP_S = 60.0
FOREVER = 1e9


class MovedClock:
    """A clock of real seconds that a test moves ahead."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_s

    def wall_ms(self) -> int:
        return int((time.time() + self._ahead_s) * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """The clock of every client that the test makes."""
    clock = MovedClock()
    monkeypatch.setattr("ottla.client.cluster.SystemClock", lambda: clock)
    return clock


class Program:
    """A program that reads in the group "g" until it is told to stop. `metrics` returns those of its consumer."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster({"t": 2})
        self.metrics: Callable[[], Mapping[str, float]] = dict
        self._stopped = threading.Event()

    @property
    def settings(self) -> dict[str, Any]:
        return {"fetch_max_wait": 0.05, "heartbeat_interval": 0.01, "_transport": self.cluster.connect}

    def consumer(self, **arguments: Any) -> AbstractContextManager[ottla.Consumer[Any, Any]]:
        consumer = consumer_of(self.cluster, **self.settings, **arguments)
        self.metrics = lambda: consumer.metrics
        return closed_once(self._stopped, consumer)

    def aio_consumer(self) -> AbstractAsyncContextManager[ottla.aio.Consumer[Any, Any]]:
        consumer = ottla.aio.Consumer[Any, Any]("t", bootstrap="b0:1", group="g", **self.settings)
        self.metrics = lambda: consumer.metrics
        return aio_closed_once(self._stopped, consumer)

    async def told_to_stop(self) -> None:
        await asyncio.to_thread(self._stopped.wait)

    def stop(self) -> None:
        self._stopped.set()

    def sees_the_time(self) -> bool:
        """Whether its member has polled since the clock was moved."""
        return self.metrics().get("last-poll-seconds-ago", STEP_S) < STEP_S


def iterate(program: Program) -> None:
    with program.consumer() as consumer:
        for _ in consumer:
            pass


def iterate_in_batches(program: Program) -> None:
    with program.consumer() as consumer:
        for _ in consumer.batches():
            pass


def wait_in_one_poll(program: Program) -> None:
    with program.consumer() as consumer:
        consumer.poll(timeout=FOREVER)


def wait_in_one_poll_with_manual_commits(program: Program) -> None:
    """No automatic commit wakes this reader now and then."""
    with program.consumer(commit="manual") as consumer:
        consumer.poll(timeout=FOREVER)


def wait_with_every_partition_paused(program: Program) -> None:
    with program.consumer() as consumer:
        while not consumer.assignment():
            consumer.poll(0.05)
        consumer.pause()
        consumer.poll(timeout=FOREVER)


def iterate_in_asyncio(program: Program) -> None:
    async def read() -> None:
        async with program.aio_consumer() as consumer:
            async for _ in consumer:
                pass

    asyncio.run(read())


def iterate_in_batches_in_asyncio(program: Program) -> None:
    async def read() -> None:
        async with program.aio_consumer() as consumer:
            async for _ in consumer.batches():
                pass

    asyncio.run(read())


def wait_in_one_poll_in_asyncio(program: Program) -> None:
    async def read() -> None:
        async with program.aio_consumer() as consumer:
            await consumer.poll(timeout=FOREVER)

    asyncio.run(read())


def run_an_app(program: Program) -> None:
    async def run() -> None:
        app = ottla.App("g", "b0:1", consumer=program.settings, producer={"_transport": program.cluster.connect})

        @app.on("t")
        async def handle(value: Any) -> None: ...

        async with app:
            (worker,) = app._workers
            program.metrics = lambda: worker._consumer.metrics
            await program.told_to_stop()

    asyncio.run(run())


KINDS = [
    iterate,
    iterate_in_batches,
    wait_in_one_poll,
    wait_in_one_poll_with_manual_commits,
    wait_with_every_partition_paused,
    iterate_in_asyncio,
    iterate_in_batches_in_asyncio,
    wait_in_one_poll_in_asyncio,
    run_an_app,
]


def heartbeats(cluster: ScriptedCluster) -> int:
    return len(cluster.requests(HeartbeatRequest))


@pytest.mark.feature(44)
@pytest.mark.story("member-that-waits-leaves-its-group")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_member_that_waits_for_two_hours_stays_in_its_group(
    kind: Callable[[Program], None], clock: MovedClock
) -> None:
    program = Program()
    thread = threading.Thread(target=kind, args=(program,), daemon=True)
    thread.start()
    cluster, group = program.cluster, program.cluster.groups.group("g")
    try:
        wait_until(lambda: heartbeats(cluster) > 2)
        members, generation, waited_s = set(group.members), group.generation, 0.0
        while waited_s < HOURS_S and not group.left:
            beats = heartbeats(cluster)
            clock.advance(STEP_S)
            waited_s += STEP_S
            wait_until(lambda beats=beats: group.left or (heartbeats(cluster) > beats and program.sees_the_time()))
        assert (group.left, set(group.members), group.generation) == ([], members, generation)
    finally:
        program.stop()
        thread.join()


def test_a_member_leaves_if_its_callback_does_not_return_in_time(clock: MovedClock) -> None:
    cluster, called, released = ScriptedCluster({"t": 1}), threading.Event(), threading.Event()
    group = cluster.groups.group("g")

    def hang(partitions: Any) -> None:
        called.set()
        released.wait()

    with consumer_of(cluster, on_assigned=hang) as consumer:
        program = threading.Thread(target=consumer.poll, args=(0.05,))
        program.start()
        called.wait()
        clock.advance(301)
        wait_until(lambda: group.left)
        released.set()
        program.join()
    assert "did not poll for 300 s" in group.left[0][1]


def test_the_time_to_the_next_poll_begins_when_a_wait_is_interrupted(clock: MovedClock) -> None:
    cluster = ScriptedCluster({"t": 1})
    group = cluster.groups.group("g")
    with consumer_of(cluster) as consumer:
        while not consumer.assignment():
            consumer.poll(0.05)
        clock.advance(299)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(timeout=FOREVER)
        beats = heartbeats(cluster)
        clock.advance(299)
        wait_until(lambda: heartbeats(cluster) > beats + 1)
        assert not group.left
        clock.advance(2)
        wait_until(lambda: group.left)
