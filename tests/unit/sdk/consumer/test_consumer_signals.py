"""A consumer that a signal handler closes: whatever the thread is doing, it comes to its end, and the group hears.

Other calls of a handler are refused where they would wait for the call that it interrupts.
"""

import signal
import threading
from typing import Any

import pytest
from scripted_groups import WAIT, committed, consumer_of, filled
from signals import handling, interrupting, to_main

from ottla.consumer.consumer import Consumer
from ottla.errors import ConfigError
from ottla.fakes.scripted import ScriptedCluster


def left(cluster: ScriptedCluster) -> list[str]:
    with cluster.changed:
        return [why for _, why in cluster.groups.group("g").left]


@pytest.mark.timeout(60)
@pytest.mark.story("signal-handler-closes-consumer")
def test_a_close_in_the_middle_of_a_poll_is_done_when_the_poll_is_out() -> None:
    cluster = filled({0: 3})
    consumer = consumer_of(cluster, commit="manual")
    assert len(consumer.poll(WAIT)) == 3
    seen: list[list[str]] = []

    def close() -> None:
        consumer.close()
        seen.append(left(cluster))

    plan = interrupting(consumer._subscription.plan, signal.SIGUSR1)  # with the fetcher's lock
    consumer._subscription.plan = plan
    with handling(signal.SIGUSR1, close):
        assert not consumer.poll(WAIT)
    assert seen == [[]]
    assert left(cluster) == ["the consumer was closed"]
    consumer.close()
    assert len(left(cluster)) == 1


@pytest.mark.timeout(60)
@pytest.mark.story("signal-handler-breaks-a-poll")
def test_a_commit_where_the_poll_has_a_lock_is_refused_and_the_poll_goes_on() -> None:
    cluster = filled({0: 3})
    errors: list[ConfigError] = []
    with consumer_of(cluster, commit="manual") as consumer:

        def commit() -> None:
            try:
                consumer.commit(timeout=5.0)
            except ConfigError as error:
                errors.append(error)

        consumer._subscription.plan = interrupting(consumer._subscription.plan, signal.SIGUSR1)
        with handling(signal.SIGUSR1, commit):
            assert len(consumer.poll(WAIT)) == 3
    assert ["set a flag or raise" in error.hint for error in errors] == [True]


@pytest.mark.timeout(50)
@pytest.mark.parametrize("grouped", [True, False])
def test_a_handler_that_closes_and_exits_while_a_poll_waits(grouped: bool) -> None:
    cluster = filled({0: 3})
    arguments: dict[str, Any] = {} if grouped else {"group": None, "start": "earliest"}
    consumer = consumer_of(cluster, **arguments)
    assert len(consumer.poll(WAIT)) == 3

    def terminate() -> None:
        consumer.close()
        raise SystemExit

    threading.Timer(0.3, to_main, (signal.SIGUSR1,)).start()
    with handling(signal.SIGUSR1, terminate), pytest.raises(SystemExit):
        consumer.poll(60)
    assert consumer.finished
    assert left(cluster) == (["the consumer was closed"] if grouped else [])


@pytest.mark.timeout(60)
def test_a_handler_that_closes_ends_a_loop_over_records() -> None:
    cluster = filled({0: 30})
    consumer: Consumer[Any, Any] = consumer_of(cluster)
    count = 0
    with handling(signal.SIGUSR1, consumer.close):
        for record in consumer:
            count += 1
            if record.offset == 29:
                threading.Timer(0.2, to_main, (signal.SIGUSR1,)).start()
    assert count == 30
    assert committed(cluster) == {0: 30}
    assert left(cluster) == ["the consumer was closed"]
