"""A producer keeps its word, whatever becomes of it: its threads fail, callbacks raise, blocks raise, signals come,
and it is forked.
"""

import itertools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from interruptions import Interrupting, Interruption
from signals import handling, interrupting, to_main
from waiting import wait_until

from ottla.client.kafka.apis import PRODUCE
from ottla.errors import ConfigError, ConnectError, DeliveryError, FatalError, TimeoutError  # noqa: A004
from ottla.fakes.scripted import Hang, Hold, ScriptedCluster
from ottla.producer.delivery import Delivery
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import ProduceRequest

WAIT = 10.0


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer(
        "b0:1", **{"topic": "t", "value": "bytes", "retry_backoff": 0.01, "_transport": cluster.connect, **arguments}
    )


# ---- flush and callbacks


@pytest.mark.feature(10)
@pytest.mark.story("flush-before-callbacks")
def test_a_flush_returns_after_the_callbacks_of_what_was_sent_before_it() -> None:
    with producer_of(ScriptedCluster({"t": 1})) as producer:
        for _ in range(3):
            called: list[Delivery] = []
            for _ in range(50):
                producer.send(b"x").add_done_callback(lambda d, called=called: (time.sleep(0.001), called.append(d)))
            producer.flush(WAIT)
            assert len(called) == 50


def test_a_flush_in_a_callback_waits_for_records_and_not_for_itself() -> None:
    cluster = ScriptedCluster({"t": 1})
    done = threading.Event()

    def flush(_: Delivery) -> None:
        producer.send(b"more")
        producer.flush(WAIT)
        done.set()

    with producer_of(cluster, linger=60) as producer:
        producer.send(b"x").add_done_callback(flush)
        producer.flush(WAIT)
        assert done.wait(WAIT)
        assert cluster.values("t", 0) == [b"x", b"more"]


def test_a_callback_that_takes_its_time_costs_a_flush_its_timeout_and_a_close_no_more_than_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = threading.Event()
    producer = producer_of(ScriptedCluster({"t": 1}))
    producer.send(b"x").add_done_callback(lambda _: gate.wait(60))
    with pytest.raises(TimeoutError, match=r"some delivery callbacks did not return within 0\.1 s"):
        producer.flush(0.1)
    began_at = time.monotonic()
    producer.close(0.1)
    assert time.monotonic() - began_at < 30
    assert "delivery callbacks have not returned" in caplog.text
    gate.set()


@pytest.mark.story("close-leaves-callbacks-behind")
def test_a_close_waits_for_callbacks_as_long_as_for_records() -> None:
    called: list[Delivery] = []
    with producer_of(ScriptedCluster({"t": 1})) as producer:
        for _ in range(8):
            producer.send(b"x").add_done_callback(lambda d: (time.sleep(0.2), called.append(d)))
    assert len(called) == 8


@pytest.mark.story("callback-ends-all-callbacks")
def test_a_callback_that_raises_system_exit_is_logged_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    called: list[Delivery] = []

    def leave(_: Delivery) -> None:
        raise SystemExit("fatal: not delivered")

    with producer_of(ScriptedCluster({"t": 1})) as producer:
        producer.send(b"a").add_done_callback(leave)
        for _ in range(5):
            producer.send(b"b").add_done_callback(called.append)
        producer.flush(WAIT)
        assert len(called) == 5
    assert "a delivery callback raised an exception" in caplog.text


def test_a_callback_that_comes_after_the_close_runs_all_the_same() -> None:
    with producer_of(ScriptedCluster({"t": 1})) as producer:
        delivery = producer.send(b"x")
        delivery.add_done_callback(lambda _: None)
    called: list[Delivery] = []
    delivery.add_done_callback(called.append)
    assert called == [delivery]


# ---- blocks that raise


def ctrl_c() -> None:
    """Python's own handler, which a shell's background job does without."""
    raise KeyboardInterrupt


@pytest.mark.story("raising-block-drops-records")
def test_a_block_that_raises_delivers_what_it_sent_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.producer.producer._QUIET_S", 0.01)
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    threading.Timer(1.0, cluster.release).start()
    producer = producer_of(cluster)
    delivery = producer.send(b"x")
    with pytest.raises(ValueError, match="the user's own"), producer:
        raise ValueError("the user's own")
    assert delivery.result(0).offset == 0
    assert cluster.values("t", 0) == [b"x"]


def test_a_second_ctrl_c_ends_a_block_that_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.producer.producer._QUIET_S", 0.01)
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    told = threading.Event()
    caplog.set_level(logging.WARNING, "ottla.producer")

    def press() -> None:
        wait_until(lambda: "not acknowledged yet" in caplog.text)
        to_main(signal.SIGINT)
        told.set()

    producer = producer_of(cluster)
    delivery = producer.send(b"x")
    cluster.until(lambda: any(isinstance(body, ProduceRequest) for _, body in cluster.seen))
    threading.Thread(target=press).start()
    with handling(signal.SIGINT, ctrl_c), pytest.raises(KeyboardInterrupt), producer:
        raise KeyboardInterrupt
    assert told.wait(WAIT)
    assert isinstance(delivery.exception(0), ConnectError)
    with pytest.raises(ConfigError, match="closed"):
        producer.send(b"y")


def test_a_second_close_with_less_patience_ends_the_first() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster)
    delivery = producer.send(b"x")
    failed: list[BaseException] = []

    def close() -> None:
        try:
            producer.close()
        except DeliveryError as error:
            failed.append(error)

    thread = threading.Thread(target=close)
    thread.start()
    wait_until(lambda: producer._closing.closed)
    producer.close(0)
    thread.join(WAIT)
    assert not thread.is_alive()
    assert isinstance(delivery.exception(0), ConnectError)
    assert len(failed) == 1


# ---- threads that fail


@pytest.mark.story("sender-dies-unmissed")
@pytest.mark.parametrize("where", ["on the sender's thread", "on the thread of an answer"])
def test_a_sender_that_failed_is_told_to_all(where: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    producer.send(b"a").result(WAIT)
    hold = producer._sender._sending if where == "on the sender's thread" else threading.Lock()
    with hold:  # so that it is this one that comes upon the bug
        target = producer._sender._streams if where == "on the sender's thread" else producer._accumulator
        name = "send" if where == "on the sender's thread" else "on_response"

        def fail(*_: Any, **__: Any) -> None:
            raise MemoryError("no more")

        setattr(target, name, fail)
        delivery = producer.send(b"b")
    error = delivery.exception(WAIT)
    assert isinstance(error, FatalError)
    assert isinstance(error.__cause__, MemoryError)
    wait_until(lambda: producer._sender.failed is not None)
    for call in (lambda: producer.send(b"c"), producer.flush):
        with pytest.raises(FatalError, match="sends no more records") as caught:
            call()
        assert isinstance(caught.value.__cause__, MemoryError)
    began_at = time.monotonic()
    producer.close()
    assert time.monotonic() - began_at < WAIT
    assert "the producer's sender failed" in caplog.text


def test_a_hook_that_raises_does_not_end_the_sender() -> None:
    def hook() -> None:
        raise RuntimeError("the loop is closed")

    with producer_of(ScriptedCluster({"t": 1})) as producer:
        producer.send(b"a").on_settled(hook)
        producer.flush(WAIT)
        assert producer.send(b"b").result(WAIT).offset == 1


# ---- signal handlers


def noting(errors: list[BaseException], call: Callable[[], object]) -> Callable[[], None]:
    """A handler that notes what the call raises."""

    def handler() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    return handler


@pytest.mark.timeout(30)
@pytest.mark.story("signal-handler-deadlocks-send")
@pytest.mark.parametrize("name", ["send", "flush", "close", "result"])
def test_a_signal_handler_that_comes_in_the_middle_of_a_send_hears_so(
    name: str,
) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, linger=60) as producer:
        first = producer.send(b"first")
        calls: dict[str, Callable[[], object]] = {
            "send": lambda: producer.send(b"from the handler"),
            "flush": producer.flush,
            "close": producer.close,
            "result": first.result,
        }
        errors: list[BaseException] = []
        append = interrupting(producer._accumulator.append, signal.SIGUSR1)
        producer._accumulator.append = append
        with handling(signal.SIGUSR1, noting(errors, calls[name])):
            producer.send(b"interrupted")
        (error,) = errors
        assert isinstance(error, ConfigError)
        assert "set a flag or raise" in error.hint
        producer.flush(WAIT)
    assert cluster.values("t", 0) == [b"first", b"interrupted"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["send", "flush"])
def test_signals_at_any_time_lose_nothing_and_lock_nothing_up(
    name: str,
) -> None:
    cluster = ScriptedCluster({"t": 1})
    taken, busy, over = [], [False], threading.Event()
    with producer_of(cluster) as producer:

        def call() -> None:
            if not busy[0]:
                busy[0] = True
                try:
                    if name == "send":
                        producer.send(b"h")
                        taken.append(b"h")
                    else:
                        producer.flush(WAIT)
                finally:
                    busy[0] = False

        def bother() -> None:
            while not over.wait(0.0005):
                to_main(signal.SIGUSR1)

        errors: list[BaseException] = []
        thread = threading.Thread(target=bother)
        with handling(signal.SIGUSR1, noting(errors, call)):
            thread.start()
            try:
                for number in range(2000):
                    delivery = producer.send(b"m")
                    if number % 100 == 0:
                        delivery.result(WAIT)
            finally:
                over.set()
                thread.join()
    assert {type(error) for error in errors} <= {ConfigError}
    values = cluster.values("t", 0)
    assert values.count(b"m") == 2000
    assert values.count(b"h") == len(taken)


@pytest.mark.timeout(30)
def test_a_send_that_is_interrupted_anywhere_leaves_nothing_locked() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, value="auto", linger=60) as producer:
        producer.send(b"x")
        for at in itertools.count(1):
            with suppress(Interruption), Interrupting(at) as interrupting:
                producer.send(b"x", key="k")
            with ThreadPoolExecutor(1) as other:  # the lock is re-entrant: its owner would not find out
                assert other.submit(producer.send, b"y").result(WAIT), interrupting.hit
            if not interrupting.hit:
                break
        assert at > 10
        producer.flush(WAIT)
    assert cluster.values("t", 0).count(b"y") == at


@pytest.mark.timeout(30)
def test_a_handler_may_close_while_a_flush_waits() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster)
    producer.send(b"x")
    errors: list[BaseException] = []
    with handling(signal.SIGUSR1, noting(errors, lambda: producer.close(0.05))):
        threading.Timer(0.3, to_main, (signal.SIGUSR1,)).start()
        producer.flush(WAIT)  # the close has failed it, and said so
    assert [type(error) for error in errors] == [DeliveryError]


# ---- forks


@pytest.mark.timeout(60)
@pytest.mark.story("delivery-of-a-child-waits-for-a-lock")
@pytest.mark.story("callback-of-a-child-never-comes")
def test_a_child_of_a_fork_has_the_outcomes_of_before_and_no_callbacks() -> None:
    """Whoever had which lock when it was forked."""
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, linger=60) as producer:
        settled = producer.send(b"settled")
        producer.flush(WAIT)
        pending = producer.send(b"pending")
        holding, free = threading.Event(), threading.Event()

        def hold() -> None:
            with producer._announcer.lock:
                holding.set()
                free.wait(WAIT)

        thread = threading.Thread(target=hold)
        thread.start()
        holding.wait(WAIT)
        child = os.fork()
        if not child:
            signal.alarm(10)
            try:
                assert settled.result(0).offset == 0
                for delivery in (settled, pending):
                    with pytest.raises(ConfigError, match="before a fork"):
                        delivery.add_done_callback(print)
                with pytest.raises(ConfigError, match="before a fork"):
                    pending.result(0)
                os._exit(7)
            finally:
                os._exit(1)
        free.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        thread.join(WAIT)
