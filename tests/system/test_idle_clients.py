"""Clients that wait, with short limits, while brokers restart: no member leaves its group, and each client goes on.

Spark's queries are not among them: they join no group, and commit only what they have processed.
"""

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import pytest
from closed_once import aio_closed_once, closed_once
from waiting import wait_until

import ottla
import ottla.aio
from ottla_stack.cluster import Cluster

LIMIT_S = 2.0
IDLE_S = 10 * LIMIT_S
SESSION_S = 6.0  # the least that a coordinator allows by default
LIMITS: dict[str, Any] = {
    "max_poll_interval": LIMIT_S,
    "session_timeout": SESSION_S,
    "heartbeat_interval": 0.5,
    "request_timeout": LIMIT_S,
    "connect_timeout": LIMIT_S,
    "metadata_max_age": LIMIT_S,
    "auto_commit_interval": LIMIT_S,
    "auto_offset_reset": "earliest",
    "value": "str",
}


class Reader:
    """A thread that reads in a group of its own, named like the way in which it reads."""

    def __init__(self, bootstrap: str, read: Callable[["Reader"], None]) -> None:
        self.bootstrap = bootstrap
        self.group = read.__name__
        self.values: Counter[str] = Counter()
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=read, args=(self,), name=self.group, daemon=True)
        self._thread.start()

    def consumer(self, **arguments: Any) -> AbstractContextManager[ottla.Consumer[Any, Any]]:
        settings = {**LIMITS, **arguments, "bootstrap": self.bootstrap, "group": self.group}
        return closed_once(self.stopped, ottla.Consumer[Any, Any]("t", **settings))

    def aio_consumer(self) -> AbstractAsyncContextManager[ottla.aio.Consumer[Any, Any]]:
        settings = {**LIMITS, "bootstrap": self.bootstrap, "group": self.group}
        return aio_closed_once(self.stopped, ottla.aio.Consumer[Any, Any]("t", **settings))

    def take(self, value: str) -> None:
        self.values[value] += 1

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), self.group


def iterate(reader: Reader) -> None:
    with reader.consumer() as consumer:
        for record in consumer:
            reader.take(record.value)


def iterate_in_batches(reader: Reader) -> None:
    with reader.consumer(commit="manual") as consumer:
        for batch in consumer.batches():
            for record in batch:
                reader.take(record.value)
            consumer.commit()


def wait_in_long_polls(reader: Reader) -> None:
    with reader.consumer(commit="manual") as consumer:
        while not consumer.finished and not reader.stopped.is_set():
            for record in consumer.poll(timeout=600):
                reader.take(record.value)


def iterate_in_asyncio(reader: Reader) -> None:
    async def read() -> None:
        async with reader.aio_consumer() as consumer:
            async for record in consumer:
                reader.take(record.value)

    asyncio.run(read())


def wait_in_long_polls_in_asyncio(reader: Reader) -> None:
    async def read() -> None:
        async with reader.aio_consumer() as consumer:
            while not consumer.finished and not reader.stopped.is_set():
                for record in await consumer.poll(timeout=600):
                    reader.take(record.value)

    asyncio.run(read())


def run_an_app(reader: Reader) -> None:
    asyncio.run(_run_an_app(reader))


def run_an_exactly_once_app(reader: Reader) -> None:
    asyncio.run(_run_an_app(reader, exactly_once=True))


async def _run_an_app(reader: Reader, **arguments: Any) -> None:
    limits = {name: value for name, value in LIMITS.items() if name not in ("value", "auto_commit_interval")}
    app = ottla.App(reader.group, reader.bootstrap, consumer=limits, **arguments)

    @app.on("t", value="str")
    async def handle(value: str) -> None:
        reader.take(value)

    async with app:
        await asyncio.to_thread(reader.stopped.wait)


def run_the_command(reader: Reader) -> None:
    command = [sys.executable, "-m", "ottla", "consume", "t", "--group", reader.group, "--from", "start"]
    names = ("max.poll.interval.ms", "metadata.max.age.ms", "auto.commit.interval.ms")
    limits = [part for name in names for part in ("-X", f"{name}={LIMIT_S * 1000:g}")]
    with subprocess.Popen(
        [*command, "--bootstrap", reader.bootstrap, "-f", r"%v\n", *limits], stdout=subprocess.PIPE, text=True
    ) as process:
        ended = threading.Thread(target=lambda: reader.stopped.wait() and process.terminate())
        ended.start()
        assert process.stdout is not None
        for line in process.stdout:
            reader.take(line.strip())
        ended.join()


READERS = (
    iterate,
    iterate_in_batches,
    wait_in_long_polls,
    iterate_in_asyncio,
    wait_in_long_polls_in_asyncio,
    run_an_app,
    run_an_exactly_once_app,
    run_the_command,
)


def without(readers: Sequence[Reader], value: str) -> list[str]:
    """Return the groups whose readers have not read both records `value` yet."""
    return [reader.group for reader in readers if reader.values[value] < 2]


def send_by(producer: ottla.Producer[Any, str], transactional: ottla.Producer[Any, str], value: str) -> None:
    """Send `value` by each of the two producers."""
    producer.send(value, key="k").result()
    with transactional.transaction():
        transactional.send(value, key="k")


def membership(admin: ottla.Admin, group: str) -> tuple[int, set[str]]:
    described = admin.groups.describe(group)
    return described.generation, {member.member_id for member in described.members}


@pytest.mark.feature(44)
@pytest.mark.story("member-that-waits-leaves-its-group")
def test_programs_that_wait_stay_in_their_groups_while_brokers_restart() -> None:
    with (
        Cluster(brokers=3, group_coordinators=1, txn_coordinators=1) as cluster,
        ottla.Admin(cluster.bootstrap) as admin,
        ottla.Table("t", bootstrap=cluster.bootstrap, request_timeout=LIMIT_S, metadata_max_age=LIMIT_S) as table,
        ottla.Producer(cluster.bootstrap, topic="t", value="str", request_timeout=LIMIT_S) as producer,
        ottla.Producer(
            cluster.bootstrap, topic="t", value="str", request_timeout=LIMIT_S, transactional_id="idle"
        ) as transactional,
    ):
        # Brokers forget the sequence numbers of producers that were idle for the limit.
        admin.configs.set({"producer.id.expiration.ms": int(LIMIT_S * 1000)})
        admin.topics.create("t", partitions=2, replicas=3)
        send_by(producer, transactional, "before")
        readers = [Reader(cluster.bootstrap, read) for read in READERS]
        try:
            wait_until(lambda: not without(readers, "before"), says=lambda: without(readers, "before"))
            before = {reader.group: membership(admin, reader.group) for reader in readers}
            idle_until = time.monotonic() + IDLE_S
            for broker in itertools.cycle(cluster.brokers):
                broker.restart()
                if time.monotonic() > idle_until:
                    break
            assert {reader.group: membership(admin, reader.group) for reader in readers} == before
            send_by(producer, transactional, "after")
            wait_until(lambda: not without(readers, "after"), says=lambda: without(readers, "after"))
            wait_until(lambda: table.get("k") == "after")
            assert [reader.values for reader in readers] == [Counter(before=2, after=2)] * len(readers)
        finally:
            for reader in readers:
                reader.stop()
