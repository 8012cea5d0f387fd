"""Conditions that a signal may interrupt, and that greenlets share.

A signal that comes just before a thread sleeps does not wake it: the main thread sleeps in short pieces.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import TIMEOUT_MAX, Thread
from typing import Any

import pytest

from ottla.client.condition import LONGEST_SLEEP_S, Condition, sleep_s
from ottla.client.kafka.apis import PRODUCE
from ottla.consumer.consumer import Consumer
from ottla.errors import DeliveryError
from ottla.fakes.scripted import Hang, ScriptedCluster
from ottla.producer.delivery import _Waiter
from ottla.producer.producer import Producer


def in_a_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(10)


@pytest.mark.parametrize("timeout", [None, 2.0, 0.1])
def test_only_the_main_thread_sleeps_in_pieces(timeout: float | None) -> None:
    whole = TIMEOUT_MAX if timeout is None else timeout
    assert sleep_s(timeout) == min(whole, LONGEST_SLEEP_S)
    assert in_a_thread(lambda: sleep_s(timeout)) == whole


def condition_wait(timeout: float) -> bool:
    lock = Condition()
    with lock:
        return lock.wait_for(lambda: False, timeout)


@pytest.mark.parametrize("wait", [condition_wait, lambda timeout: _Waiter().wait(timeout)], ids=["condition", "waiter"])
def test_a_wait_in_pieces_is_as_long_as_it_is_to_be(
    wait: Callable[[float], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.condition.LONGEST_SLEEP_S", 0.01)
    for call in (lambda: wait(0.1), lambda: in_a_thread(lambda: wait(0.1))):
        began = time.monotonic()
        assert not call()
        assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("waiting", ["flush", "send", "poll"])
def test_what_may_wait_for_long_sleeps_in_pieces(waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    wait = threading.Condition.wait

    def noted(self: threading.Condition, timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            slept.append(TIMEOUT_MAX if timeout is None else timeout)
            if len(slept) > 3:
                raise KeyboardInterrupt
        return wait(self, timeout and min(timeout, 0.01))

    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    arguments: dict[str, Any] = {"_transport": cluster.connect}
    producer = Producer("b0:1", topic="t", value="bytes", buffer_memory=2000, batch_size=1000, **arguments)
    with producer, Consumer("t", bootstrap="b0:1", start="latest", **arguments) as consumer:
        producer.send(b"x")
        consumer.poll(0)
        waits: dict[str, Callable[[], Any]] = {
            "flush": lambda: producer.flush(60),
            "send": lambda: [producer.send(b"x" * 500) for _ in range(10)],
            "poll": lambda: consumer.poll(60),
        }
        monkeypatch.setattr("threading.Condition.wait", noted)
        with pytest.raises(KeyboardInterrupt):
            waits[waiting]()
        monkeypatch.undo()
        with suppress(DeliveryError):
            producer.close(0)
    assert max(slept) <= LONGEST_SLEEP_S


def test_a_wait_ends_with_what_it_waits_for() -> None:
    lock, done = Condition(), [False]

    def finish() -> None:
        with lock:
            done[0] = True
            lock.notify_all()

    Thread(target=finish).start()
    with lock:
        assert lock.wait_for(lambda: done[0], 30)
    waiter = _Waiter()
    Thread(target=waiter.notify).start()
    assert waiter.wait(None)


GREENLETS = """
from gevent import monkey; monkey.patch_all()
import gevent
from ottla.client.condition import Condition

lock = Condition()

def hold():
    with lock:
        gevent.sleep(0.5)

def look():
    assert not lock._is_owned()
    assert not lock.acquire(blocking=False)

holder = gevent.spawn(hold)
gevent.sleep(0)
gevent.spawn(look).get()
holder.get()
assert lock.acquire(blocking=False)
"""


def test_a_greenlet_does_not_own_the_lock_of_another() -> None:
    done = subprocess.run([sys.executable, "-c", GREENLETS], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
