"""Producers that nobody closes: what they accepted is sent, and their threads end, whether or not the program does."""

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from waiting import wait_until

import ottla.aio
from ottla.fakes.scripted import ScriptedCluster
from ottla.machines.transaction import TransactionState
from ottla.producer.producer import Producer

WAIT = 10.0


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", topic="t", value="bytes", _transport=cluster.connect, **arguments)


def threads_of(producer: Producer[Any, Any]) -> list[threading.Thread]:
    return [producer._sender._thread, producer._topics.updater._thread]


def until_ended(threads: list[threading.Thread]) -> None:
    gc.collect()
    wait_until(lambda: not any(thread.is_alive() for thread in threads))


_SCRIPT = """
import asyncio, atexit, sys
import ottla.aio
from ottla.fakes.scripted import ScriptedCluster
atexit.unregister(ottla.producer.closing._close_at_exit)
atexit.register(lambda: print(len(cluster.values("t", 0))))
atexit.register(ottla.producer.closing._close_at_exit)
cluster = ScriptedCluster({"t": 1})
arguments = {"topic": "t", "linger": 60, "_transport": cluster.connect}
def plain():
    producer = ottla.Producer("b0:1", **arguments)
    for _ in range(100):
        producer.send("x")
async def tasks():
    producer = ottla.aio.Producer("b0:1", **arguments)
    for _ in range(100):
        producer.send("x")
"""


@pytest.mark.story("local-producer-loses-its-records")
@pytest.mark.parametrize("call", ["plain()", "asyncio.run(tasks())"])
def test_a_program_that_ends_after_the_function_that_had_the_producer_has_its_records_sent(call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT + call], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "100\n"
    assert done.stderr.count("ottla-producer-1 was not closed") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(60)
@pytest.mark.story("local-producer-loses-its-records")
def test_a_producer_that_is_garbage_sends_what_it_has_and_ends_its_threads(caplog: pytest.LogCaptureFixture) -> None:
    """Wherever the collector comes by: here in a thread that has the producer's lock."""
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster, linger=60)
    deliveries = [producer.send(b"x") for _ in range(3)]
    threads = threads_of(producer)
    with producer._lock:
        del producer
        gc.collect()
        assert not deliveries[0].done()
    assert [delivery.result(WAIT).offset for delivery in deliveries] == [0, 1, 2]
    until_ended(threads)
    assert "was not closed; closing it because it was garbage-collected" in caplog.text


def test_a_producer_that_was_closed_goes_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with producer_of(ScriptedCluster({"t": 1}), client_id="quiet") as producer:
        producer.send(b"x")
    del producer
    gc.collect()
    assert "ottla-goodbye-quiet" not in [thread.name for thread in threading.enumerate()]
    assert "quiet" not in caplog.text


@pytest.mark.timeout(60)
async def test_the_same_for_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer: ottla.aio.Producer[Any, Any] = ottla.aio.Producer("b0:1", topic="t", _transport=cluster.connect)
    await producer.send("x")
    threads = threads_of(producer._sync)
    del producer
    until_ended(threads)
    assert "was not closed" in caplog.text


@pytest.mark.timeout(60)
def test_what_a_producer_that_is_garbage_left_open_is_aborted() -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster, transactional_id="id", linger=60)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(b"x")
    transactions, threads = producer._manager.transactions, threads_of(producer)  # type: ignore[union-attr]  # it has one
    del producer
    until_ended(threads)
    assert transactions.state is TransactionState.READY
    assert cluster.values("t", 0) == []


@pytest.mark.timeout(60)
def test_a_child_of_a_fork_lets_go_of_its_parents_producer_and_that_is_all() -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster, linger=60)
    producer.send(b"x")
    child = os.fork()
    if not child:
        del producer
        gc.collect()
        os._exit(len(threading.enumerate()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    producer.close()
    assert cluster.values("t", 0) == [b"x"]
