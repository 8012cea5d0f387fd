"""A table against scripted brokers: what it holds, what it reflects, and what becomes of it when the topic changes."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from tables import filled, seen, send, take_first
from waiting import wait_until

import ottla
from ottla.client.kafka.apis import FETCH
from ottla.errors import ConfigError, ErrorCode, OttlaError, SerializationError, UnknownTopicError
from ottla.fakes.scripted import Hold, Reject, ScriptedCluster
from ottla.serdes.record_reader import serdes_of
from ottla.serdes.serdes import deserialize_bytes
from ottla.table import follower as follower_module
from ottla.table.view import Goal, TableView
from ottla_core.kafka.messages import FetchRequest
from ottla_core.model import TopicPartition

T0 = TopicPartition("t", 0)


def table_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.Table[Any, Any]:
    defaults = {"bootstrap": "b0:1", "config": {"fetch.max.wait.ms": 50}, "_transport": cluster.connect}
    return ottla.Table("t", **{**defaults, **arguments})


@pytest.mark.feature(171)
def test_it_holds_the_latest_value_of_each_key_of_all_partitions_and_follows() -> None:
    cluster = filled([("a", 1), ("b", 2), ("a", 3)], partitions=3)
    send(cluster, [("c", {"x": 1}), ("gone", "x"), ("gone", None)], partition=2)
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        assert (table.caught_up, table.position) == (True, {0: 3, 1: 0, 2: 3})
        assert dict(table.items()) == {"a": 3, "b": 2, "c": {"x": 1}} == dict(table)
        assert (table["a"], table.get("gone"), table.get("gone", 7), "b" in table, len(table)) == (3, None, 7, True, 3)
        with pytest.raises(KeyError, match="gone"):
            _ = table["gone"]
        place = send(cluster, [("a", None), ("d", 4)])
        table.wait_for(place.partition, place.offset, 10)  # one's own write
        assert sorted(table.keys()) == ["b", "c", "d"]
        assert table.metrics == {"keys": 3, "records-skipped-total": 0, "loads-total": 1}


def test_what_was_in_the_log_at_the_call_is_there_after_it_every_time() -> None:
    cluster = filled([("n", -1)])
    with table_of(cluster) as table:
        for n in range(50):
            send(cluster, [("n", n)])
            table.wait_until_caught_up(10)
            assert table["n"] == n


def test_a_thousand_changes_of_keys_in_one_batch() -> None:
    records = [(f"k{n % 7}", None if n % 3 == 0 else n) for n in range(1000)]
    expected = {key: value for key, value in dict(records).items() if value is not None}
    with table_of(filled(records)) as table:
        table.wait_until_caught_up(10)
        assert dict(table.items()) == expected


def test_records_without_a_key_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), table_of(filled([(None, 1), ("a", 2), (None, 3)])) as table:
        table.wait_until_caught_up(10)
        assert (dict(table), table.metrics["records-skipped-total"], table.position) == ({"a": 2}, 2, {0: 3})
    assert [r.message for r in caplog.records if "no key" in r.message] == [
        "the record at offset 0 of t-0 has no key: the table skips such records, and counts them in its metrics"
    ]


def test_a_value_that_cannot_be_read_is_an_error_where_it_is_looked_at() -> None:
    with table_of(filled([("a", "1"), ("b", "x")]), key=str, value=lambda data: int(data)) as table:
        table.wait_until_caught_up(10)
        assert (table["a"], "b" in table) == (1, True)
        for look in (lambda: table["b"], lambda: table.get("b"), lambda: list(table.items())):
            with pytest.raises(SerializationError, match="value of 'b' in the table 't'"):
                look()


@pytest.mark.parametrize("bad", [b"\xff", b'["a list"]'])
def test_a_key_that_cannot_be_read_ends_the_following_or_is_skipped(bad: bytes) -> None:
    cluster = filled([("1", "one"), (bad, "bad"), ("2", "two")])
    with table_of(cluster, key="json", value=str) as table:
        for _ in range(2):
            with pytest.raises(SerializationError, match="offset 1 of t-0"):
                table.wait_until_caught_up(10)
        assert (table[1], table.caught_up) == ("one", False)
    with table_of(cluster, key="json", value=str, on_bad_record="skip") as table:
        table.wait_until_caught_up(10)
        assert (dict(table), table.metrics["records-skipped-total"]) == ({1: "one", 2: "two"}, 1)


def test_a_topic_that_is_made_anew_empties_the_table_and_loads_again() -> None:
    cluster = filled([("a", 1), ("b", 2), ("c", 3)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        cluster.drop_topic("t")
        cluster.add_topic("t", 2)
        send(cluster, [("a", 5)])
        table.wait_until_caught_up(20)  # of the topic that there is now
        assert (dict(table), table.position, table.metrics["loads-total"]) == ({"a": 5}, {0: 1, 1: 0}, 2)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_end_of_a_topic_made_anew_is_not_taken_for_that_of_the_one_before(partitions: int) -> None:
    cluster = filled([("a", 1), ("b", 2), ("c", 3)], partitions=partitions)
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        before = len(cluster.requests(FetchRequest))
        cluster.will(FETCH, *[Hold()] * 20)  # so that the fetches tell nothing
        cluster.until(lambda: len(cluster.requests(FetchRequest)) > before)
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        send(cluster, [("a", 5)])
        cluster.forget(FETCH)
        table.wait_until_caught_up(10)
        assert dict(table) == {"a": 5}
        cluster.release()


def test_an_end_that_was_looked_up_in_the_topic_before_is_looked_up_again() -> None:
    view = TableView("t", serdes_of(deserialize_bytes, deserialize_bytes), skip_bad=False)
    end, record = Goal(), Goal({0: 8})
    view.goals.update({end: None, record: None})
    view.set_ends([end], {0: 1000})
    view.clear()
    assert (end.ends, record.ends) == (None, {0: 8})


def test_a_deleted_topic_is_an_error_for_those_who_wait_until_it_is_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower_module, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        watch = table.watch()
        cluster.drop_topic("t")
        with pytest.raises(UnknownTopicError):
            next(watch)
        with pytest.raises(UnknownTopicError):
            table.wait_for(0, 99, 10)
        assert (table["a"], table.caught_up) == (1, False)
        cluster.add_topic("t", 1)
        wait_until(lambda: table.caught_up)
        assert (len(table), table.position) == (0, {0: 0})


def test_a_log_that_was_truncated_loads_again() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    send(cluster, [("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        place = send(cluster, [("a", 2), ("lost", 3)])
        table.wait_for(0, place.offset, 10)
        cluster.lose("t", 0, after=1)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        wait_until(lambda: table.metrics["loads-total"] == 2 and table.caught_up)
        assert dict(table) == {"a": 1}


def test_where_records_were_deleted_before_they_were_read_it_loads_again() -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        further = filled([("a", 1)])
        send(further, [("b", 2)])
        send(further, [("c", 3)])
        with cluster.changed:  # in one go, as for a table that was cut off meanwhile
            cluster.logs[T0] = further.logs[T0]
            cluster.truncate("t", 0, before=2)
        table.wait_for(0, 2, 20)
        assert (dict(table), table.metrics["loads-total"]) == ({"c": 3}, 2)


def test_a_leader_that_moves_is_followed() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    send(cluster, [("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        place = send(cluster, [("a", 2)])
        table.wait_for(0, place.offset, 10)
        assert (table["a"], table.metrics["loads-total"]) == (2, 1)


def test_a_new_partition_is_found_when_it_is_waited_for() -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        cluster.add_topic("t", 3)
        place = send(cluster, [("b", 2)], partition=1)
        table.wait_for(1, place.offset, 10)
        assert table["b"] == 2
        cluster.add_topic("t", 4)
        send(cluster, [("c", 3)], partition=3)
        table.wait_until_caught_up(10)
        assert table["c"] == 3


def test_what_goes_wrong_is_raised_by_who_waits_and_tried_again() -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        cluster.will(FETCH, *[Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")] * 3)
        with pytest.raises(OttlaError, match="no") as raised:
            table.wait_for(0, 1, 10)
        assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert table["a"] == 1
        cluster.forget(FETCH)
        place = send(cluster, [("a", 2)])
        wait_until(lambda: table.get("a") == 2)
        table.wait_for(0, place.offset, 10)


def test_an_unexpected_error_of_the_thread_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)

        def broken(*_: object, **__: object) -> None:
            raise MemoryError("too much")

        monkeypatch.setattr(table._view, "apply", broken)
        send(cluster, [("a", 2)])
        with pytest.raises(MemoryError):
            table.wait_for(0, 1, 10)
        assert table["a"] == 1


def test_a_wait_ends_in_time_and_says_where_the_table_is() -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        with pytest.raises(ottla.TimeoutError, match=r"\{0: 8\} within 0.05 s: it is at \{0: 1\}"):
            table.wait_for(0, 7, 0.05)
        cluster.stop(0)
        with pytest.raises(ottla.TimeoutError, match="the end of its topic"):
            table.wait_until_caught_up(0.05)
        cluster.go_on(0)
        assert not table._view.goals
        with pytest.raises(ConfigError, match="partition=-1"):
            table.wait_for(-1, 0)


def test_no_memory_is_used_before_the_start_and_none_after_the_end() -> None:
    cluster = filled([("a", 1)])
    table = table_of(cluster)
    assert not cluster.requests(FetchRequest)
    for look in (lambda: table.get("a"), lambda: "a" in table, lambda: len(table), lambda: list(table.items())):
        with pytest.raises(ConfigError, match="not started"):
            look()
    table.start()
    table.wait_until_caught_up(10)
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            table.wait_for(0, 99, 30)
        except ConfigError as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: table._view.goals)
    watch = table.watch()
    table.close()
    table.close()
    thread.join(10)
    assert [str(error) for error in waiting] == ["the table 't' is closed (INVALID_CONFIG); create a new one"]
    assert list(watch) == []
    for look in (lambda: table.get("a"), table.start, table.watch, table.wait_until_caught_up):
        with pytest.raises(ConfigError, match="is closed"):
            look()
    assert not any(thread.name == "ottla-table-t" for thread in threading.enumerate())


def test_a_table_that_is_garbage_ends_its_thread_and_a_watch_keeps_it() -> None:
    cluster = filled([("a", 1)])
    watch = table_of(cluster).watch()
    gc.collect()
    assert next(watch).value == 1
    thread = watch._owner._follower._thread  # type: ignore[attr-defined]  # a Table
    del watch
    gc.collect()
    wait_until(lambda: not thread.is_alive())


def test_a_child_of_a_fork_is_refused() -> None:
    with table_of(filled([("a", 1)])) as table:
        table.wait_until_caught_up(10)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                for use in (lambda: table.get("a"), lambda: len(table), table.wait_until_caught_up, table.watch):
                    with pytest.raises(ConfigError, match="before a fork"):
                        use()
                table.close()
                os.write(write, b"refused")
            finally:
                os._exit(0)
        os.close(write)
        assert os.read(read, 100) == b"refused"
        os.waitpid(child, 0)
        os.close(read)
        assert table["a"] == 1


def test_a_child_of_a_fork_waits_for_no_change_whoever_had_the_lock() -> None:
    with table_of(filled([("a", 1)])) as table:
        watch, holding, free = table.watch(), threading.Event(), threading.Event()

        def hold() -> None:
            with table._view.changed:
                holding.set()
                free.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        holding.wait(10)
        child = os.fork()
        if not child:
            signal.alarm(5)
            try:
                for timeout in (0, 60):
                    with pytest.raises(ConfigError, match="before a fork"):
                        watch.poll(timeout)
                with pytest.raises(ConfigError, match="before a fork"):
                    next(watch)
                os._exit(7)
            finally:
                os._exit(1)
        free.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        thread.join(10)


def test_a_signal_while_the_thread_starts_or_the_table_closes_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(filled([("a", 1)]))
    start, end = table._follower.start, table._view.close

    def interrupted(call: Callable[[], None]) -> None:
        call()
        raise KeyboardInterrupt

    monkeypatch.setattr(table._follower, "start", lambda: interrupted(start))
    with pytest.raises(KeyboardInterrupt):
        table.start()
    table.wait_until_caught_up(10)
    assert table["a"] == 1
    monkeypatch.setattr(table._view, "close", lambda: interrupted(lambda: None))
    with pytest.raises(KeyboardInterrupt):
        table.close()
    monkeypatch.setattr(table._view, "close", end)
    table.close()
    assert not table._follower._thread.is_alive()


def test_items_go_on_while_the_table_changes() -> None:
    cluster = filled([(f"k{n}", n) for n in range(100)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        items = table.items()
        first = next(items)
        place = send(cluster, [*((f"k{n}", None) for n in range(50, 100)), *((f"new{n}", n) for n in range(500))])
        table.wait_for(0, place.offset, 10)
        assert [first, *items] == [(f"k{n}", n) for n in range(50)]


def test_arguments_that_cannot_be() -> None:
    cluster = ScriptedCluster({"t": 1})
    for arguments, message in (
        ({"config": {"group.id": "g"}}, "no group"),
        ({"config": {"auto.offset.reset": "latest"}}, "no group"),
        ({"config": {"isolation.level": "x"}}, "isolation.level"),
        ({"on_bad_record": "x"}, "on_bad_record"),
        ({"value": 3}, "not a deserializer"),
        ({"bootstrap": "nowhere"}, "not an address"),
    ):
        with pytest.raises(ConfigError, match=message):
            table_of(cluster, **arguments)
    with pytest.raises(ConfigError, match="topic"):
        ottla.Table("a topic")
    with table_of(cluster, config={"value.deserializer": "bytes"}, client_id="mine") as table:
        send(cluster, [("a", b"x")])
        table.wait_until_caught_up(10)
        assert (table["a"], table.client_id) == (b"x", "mine")


# ---- watching ------------------------------------------------------------------------------------------------------


def test_changes_are_watched_of_all_keys_or_of_one() -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        every, only = table.watch(), table.watch("b")
        send(cluster, [("a", 2), ("b", 3), ("a", None), ("never", None)])
        table.wait_until_caught_up(10)
        assert [seen(next(every)), seen(next(every))] == [("b", None, 3, 0, 2), ("a", 1, None, 0, 3)]
        assert seen(next(only)) == ("b", None, 3, 0, 2)
        assert (every.poll(0), only.poll(0.01)) == (None, None)


def test_a_slow_watch_has_one_change_of_each_key_at_most() -> None:
    cluster = filled([("a", 0)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        watch = table.watch()
        for round_ in range(3):
            send(cluster, [("a", n) for n in range(100)])
            send(cluster, [(f"short-lived-{round_}-{n}", value) for n in range(100) for value in ("x", None)])
        table.wait_until_caught_up(10)
        assert len(watch._waiting) == 1
        assert seen(next(watch))[:3] == ("a", 0, 99)


def test_a_table_that_is_emptied_tells_its_watches() -> None:
    cluster = filled([("a", 1), ("b", 2)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        watch = table.watch()
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        changes = [seen(next(watch)), seen(next(watch))]
        assert changes == [("a", 1, None, -1, -1), ("b", 2, None, -1, -1)]


def test_a_watch_survives_an_error_and_a_value_that_cannot_be_read() -> None:
    cluster = filled([("a", "1")])
    with table_of(cluster, value=lambda data: int(data)) as table:
        table.wait_until_caught_up(10)
        watch = table.watch()
        send(cluster, [("a", "x"), ("b", "2")])
        change = next(watch)
        assert change.old == 1
        with pytest.raises(SerializationError):
            _ = change.value
        assert next(watch).value == 2
        table._view.fail(OttlaError(ErrorCode.CORRUPT_MESSAGE, "damaged"))
        with pytest.raises(OttlaError, match="damaged"):
            watch.poll(0)
        wait_until(lambda: table.caught_up)
        send(cluster, [("c", "3")])
        assert next(watch).value == 3


def test_a_watch_has_the_changes_of_a_load_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(filled([("a", 1)]))
    start = table.start

    def start_and_load() -> None:
        start()
        wait_until(lambda: table.caught_up)

    monkeypatch.setattr(table, "start", start_and_load)
    watch = table.watch()
    with table:
        change = watch.poll(0)
    assert change is not None
    assert change.key == "a"


def test_a_watch_goes_on_where_another_thread_was_faster() -> None:
    table = table_of(filled([("a", 1), ("b", 2)]))
    watch = table.watch()
    with table:
        take_first(watch)
        assert next(watch).key == "b"


def test_a_key_that_no_record_can_have_is_not_watched() -> None:
    with table_of(filled([("a", 1)])) as table:
        for look in (table.watch, table.get):
            with pytest.raises(TypeError, match="unhashable"):
                look(["a"])


def test_a_watch_that_nobody_holds_costs_nothing() -> None:
    with table_of(filled([("a", 1)])) as table:
        watch = weakref.ref(table.watch())
        gc.collect()
        assert watch() is None
        assert not table._view._watches


def test_many_may_wait_at_once() -> None:
    cluster = filled([("a", 1)])
    with table_of(cluster) as table:
        table.wait_until_caught_up(10)
        threads = [threading.Thread(target=table.wait_until_caught_up, args=(10,)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert not table._view.goals
