"""Consumers that are interrupted in the midst of their own code, as by Ctrl-C: nothing is left out, and they go on."""

import itertools
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from interruptions import Interrupting, Interruption
from scripted_groups import T, committed, fill, filled
from scripted_groups import consumer_of as consumer_with

from ottla.consumer.batch import Batch
from ottla.consumer.consumer import Consumer
from ottla.errors import ConfigError
from ottla.fakes.scripted import ScriptedCluster
from ottla.record import Record

# An interruption may meet a generator that is being closed; there Python prints it and goes on, as after Ctrl-C.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Records = list[Record[Any, Any]]
Got = list[Record[Any, Any] | Batch[Any, Any]]
Read = Callable[[Consumer[Any, Any], Got], object]

COUNT = 6000
MODES: dict[str, dict[str, Any]] = {
    "alone": {"group": None, "start": "earliest"},
    "group": {},
    "manual": {"commit": "manual"},
}


def consumer_of(cluster: ScriptedCluster, **arguments: Any) -> Consumer[Any, Any]:
    """After an interrupt the next fetch waits behind the last one, so brokers hold each for a short time only."""
    return consumer_with(cluster, **{"fetch_max_wait": 0.005, **arguments})


def by_poll(consumer: Consumer[Any, Any], got: Got) -> None:
    got.append(consumer.poll(0.3))


def by_batches(consumer: Consumer[Any, Any], got: Got) -> None:
    for batch in consumer.batches(7, 0.0):
        got.append(batch)
        if len(got) % 2 == 0:
            return


def by_iteration(consumer: Consumer[Any, Any], got: Got) -> None:
    for record in consumer:
        got.append(record)
        if len(got) % 3 == 0:
            return


def records_of(got: Got) -> Records:
    return [record for each in got for record in (each if isinstance(each, Batch) else [each])]


def interrupted(read: Read, consumer: Consumer[Any, Any], at: int) -> tuple[Records, str]:
    """What was handed out before the interrupt, and where that hit."""
    got: Got = []
    with suppress(Interruption), Interrupting(at) as interrupting:
        read(consumer, got)
    return records_of(got), interrupting.hit


def places(most: int = 5000) -> Generator[int, bool]:
    """1, 3, 5 …, then 2, 4, 6 …; `send` whether there was no such place."""
    for first in (1, 2):
        for place in range(first, most, 2):
            if (yield place):
                break


POLLS = pytest.param(by_poll, marks=pytest.mark.story("interrupted-reading-skips"))
READINGS = pytest.mark.parametrize("read", [POLLS, by_batches, by_iteration])


@READINGS
@pytest.mark.parametrize("mode", MODES)
def test_who_is_interrupted_anywhere_and_reads_on_gets_every_record_in_order(read: Read, mode: str) -> None:
    """At each place in turn; what was gathered and not handed out comes again, and is not committed meanwhile."""
    cluster = filled({0: COUNT}, batch_size=300)
    expected = hits = 0
    with (
        consumer_of(cluster, max_poll_records=7, auto_commit_interval=0.02, **MODES[mode]) as consumer,
        ThreadPoolExecutor(1) as others,
    ):
        expected = len(consumer.poll(5.0))
        where = places()
        at = next(where)
        while expected < COUNT - 100:
            got, hit = interrupted(read, consumer, at)
            assert [r.offset for r in got] == list(range(expected, expected + len(got))), hit
            expected += len(got)
            hits += bool(hit)
            reader = others.submit if read is not by_iteration else None  # nobody is left inside
            at_now = consumer.position(T[0]) if reader is None else reader(consumer.position, T[0]).result()
            assert at_now == expected, hit
            if mode == "manual":
                consumer.commit()
                assert committed(cluster) == {0: expected}, hit
            elif mode == "group":
                assert committed(cluster).get(0, 0) <= expected, hit
            try:
                at = where.send(not hit)
            except StopIteration:
                break
        else:
            pytest.fail(f"the log is too short for all places: {at}")
    assert hits > 100


@pytest.mark.parametrize("stop", [40])
@READINGS
def test_a_stop_after_so_many_counts_what_was_handed_out_and_nothing_else(read: Read, stop: int) -> None:
    cluster = filled({0: 100})
    for at in range(1, 120, 3):
        with consumer_of(cluster, group=None, start="earliest", stop=stop, max_poll_records=7) as consumer:
            got = list(consumer.poll(5.0))
            while not consumer.finished:
                got += interrupted(read, consumer, at)[0]
                with suppress(StopIteration):
                    got.append(next(iter(consumer)))
        assert [r.offset for r in got] == list(range(stop)), at


@pytest.mark.parametrize("read", [POLLS, by_iteration])
def test_a_with_block_that_an_interrupt_ends_commits_nothing_that_was_not_handed_out(read: Read) -> None:
    cluster = filled({0: COUNT}, batch_size=300)
    done = -1  # the last record that was handed out, and after which another was asked for
    for at in range(1, 700, 5):
        last = done
        with suppress(Interruption), consumer_of(cluster, max_poll_records=7) as consumer:
            all_got: Got = [consumer.poll(5.0)]
            with Interrupting(at):
                while len(all_got) < 12:
                    read(consumer, all_got)
        got = records_of(all_got)
        assert got[0].offset <= done + 1, at
        assert [r.offset for r in got] == list(range(got[0].offset, got[0].offset + len(got)))
        done = max(last, got[-1].offset)
        assert committed(cluster).get(0, 0) <= done + 1, at


@pytest.mark.timeout(120)
@pytest.mark.story("signal-handler-breaks-a-poll")
@pytest.mark.parametrize("name", ["commit", "position", "pause", "poll"])
def test_a_handler_that_calls_the_consumer_anywhere_in_a_poll_leaves_nothing_out(name: str) -> None:
    """At each place in turn; it may be refused, and what the poll had gathered may come again."""
    cluster = filled({0: COUNT}, batch_size=300)
    with consumer_of(cluster, max_poll_records=7, auto_commit_interval=0.02) as consumer:
        read = set(range(len(consumer.poll(5.0))))
        calls: dict[str, Callable[[], object]] = {
            "commit": lambda: consumer.commit(timeout=5.0),
            "position": lambda: consumer.position(T[0]),
            "pause": lambda: (consumer.pause(), consumer.resume()),
            "poll": lambda: read.update(record.offset for record in consumer.poll(0)),
        }

        def handler() -> None:
            with suppress(ConfigError):
                calls[name]()

        for at in itertools.count(1):
            with Interrupting(at, handler) as interrupting:
                batch = consumer.poll(0.3)
            read.update(record.offset for record in batch)
            assert read == set(range(len(read))), interrupting.hit
            assert committed(cluster).get(0, 0) <= len(read), interrupting.hit
            if not interrupting.hit:
                break
        assert at > 50


@pytest.mark.story("interrupted-joining-hangs")
def test_who_is_interrupted_while_it_joins_joins_all_the_same() -> None:
    cluster = filled({0: 10, 1: 10})
    for at in range(1, 2000, 7):  # steps of 23 miss the moment that the story tells of
        told: list[Any] = []
        with consumer_of(cluster, group=f"g{at}", on_assigned=told.extend) as consumer:
            got, hit = interrupted(by_poll, consumer, at)
            for _ in range(10):
                got += consumer.poll(2.0)
                if len(got) == 20:
                    break
            assert sorted((r.partition, r.offset) for r in got) == [(p, n) for p in (0, 1) for n in range(10)], hit
            assert set(told) == set(T[:2]), hit
        if not hit:
            break
    assert at > 300


@pytest.mark.story("interrupted-seek-ends-reading")
@pytest.mark.parametrize("name", ["seek", "seek_to_beginning", "pause", "resume"])
@pytest.mark.parametrize("parked", [True, False], ids=["a fetch waits at the broker", "data waits to be read"])
def test_an_interrupt_while_positions_are_set_leaves_no_partition_unread(name: str, parked: bool) -> None:
    """The call is interrupted at each of its places in turn."""
    wait_s = 0.3 if parked else 0.01
    settings: dict[str, Any] = {"start": "earliest", "fetch_max_wait": wait_s, "max_poll_records": 40}
    for at in itertools.count(1):
        cluster = filled({0: 40})
        with consumer_of(cluster, group=None, **settings) as consumer:
            consumer.poll(5.0, max_records=40 if parked else 10)
            if parked:
                consumer.poll(0.02)
            calls: dict[str, Callable[[], object]] = {"seek": lambda consumer=consumer: consumer.seek(T[0], 5)}
            with suppress(Interruption), Interrupting(at) as interrupting:
                calls.get(name, getattr(consumer, name))()
            consumer.resume()
            expected = consumer.position(T[0])
            if parked:
                fill(cluster, {0: 1})
            got = consumer.poll(5.0)
            assert got, interrupting.hit
            assert got[0].offset == expected, interrupting.hit
        if not interrupting.hit:
            break
    assert at > 20
