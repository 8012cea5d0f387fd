"""A consumer of committed records: what it hands out, where it ends, and how it goes back when a transaction aborts."""

from typing import Any

import pytest

import ottla
from ottla.consumer.completed_fetch import CompletedFetch
from ottla.consumer.metrics import Consumed
from ottla.errors import ConfigError
from ottla.fakes.scripted import ScriptedCluster
from ottla.machines.position import FetchedData, Position
from ottla_core.kafka.messages import FetchRequest, ListOffsetsRequest
from ottla_core.model import TopicPartition

WAIT = 10.0
P0 = TopicPartition("t", 0)


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.Producer[Any, Any]:
    given = {"topic": "t", "value": "bytes", "transactional_id": "tx", **arguments}
    return ottla.Producer("b0:1", _transport=cluster.connect, **given)


def consumer_of(cluster: ScriptedCluster, topic: str = "t", **arguments: Any) -> ottla.Consumer[Any, Any]:
    given = {"value": "bytes", "fetch_max_wait": 0.05, **arguments}
    return ottla.Consumer(topic, bootstrap="b0:1", _transport=cluster.connect, **given)


def attempt(producer: ottla.Producer[Any, Any], *values: bytes, aborted: bool = False) -> None:
    with producer.transaction() as tx:
        for value in values:
            tx.send(value)
        producer.flush()
        if aborted:
            producer.abort_transaction()


def filled() -> ScriptedCluster:
    """a and d are committed, b and c aborted; then e of a transaction that is open."""
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer, producer_of(cluster, transactional_id="other") as other:
        attempt(producer, b"a")
        attempt(producer, b"b", b"c", aborted=True)
        attempt(producer, b"d")
        other.init_transactions()
        other.begin_transaction()
        other.send(b"e").result(WAIT)
        other._manager.close = lambda timeout: None  # type: ignore[union-attr]  # as if it were killed
    return cluster


@pytest.mark.parametrize(
    ("level", "expected"), [("read_committed", [b"a", b"d"]), ("read_uncommitted", [b"a", b"b", b"c", b"d", b"e"])]
)
@pytest.mark.parametrize("how", ["iterate", "poll"])
def test_records_of_aborted_and_open_transactions_are_left_out(level: str, expected: list[bytes], how: str) -> None:
    cluster = filled()
    with consumer_of(cluster, start="earliest", stop="end", isolation_level=level) as consumer:
        if how == "iterate":
            found = [record.value for record in consumer]
        else:
            found = []
            while not consumer.finished:
                found += consumer.poll(0.2, max_records=1).values()
        assert found == expected
        assert consumer.position(P0) == (7 if level == "read_committed" else 8)
        assert consumer.lag() == {P0: 0}
        assert consumer.caught_up()
    requests = cluster.requests(FetchRequest) + cluster.requests(ListOffsetsRequest)
    assert {request.isolation_level for request in requests} == {int(level == "read_committed")}


def test_committed_records_are_the_default_and_any_other_level_is_refused() -> None:
    with consumer_of(filled(), start="earliest", stop="end") as consumer:
        assert [record.value for record in consumer] == [b"a", b"d"]
    with pytest.raises(ConfigError, match="isolation_level"):
        consumer_of(filled(), isolation_level="serializable")


@pytest.mark.parametrize("start", range(8))
def test_reading_may_begin_in_the_midst_of_an_aborted_transaction(start: int) -> None:
    with consumer_of(filled(), start={P0: start}, stop="end") as consumer:
        left = [value for value, offset in ((b"a", 0), (b"d", 5)) if offset >= start]
        assert [record.value for record in consumer] == left


def test_new_records_come_as_their_transactions_are_committed() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer, consumer_of(cluster, start="earliest") as consumer:
        with producer.transaction() as tx:
            tx.send(b"a")
            producer.flush()
            assert not consumer.poll(0.2)
        assert consumer.poll(WAIT).values() == [b"a"]
        attempt(producer, b"b", aborted=True)
        attempt(producer, b"c")
        assert consumer.poll(WAIT).values() == [b"c"]


@pytest.mark.feature(147)
def test_a_loop_reads_again_what_an_aborted_transaction_has_worked_on_and_counts_each_record_once() -> None:
    cluster = ScriptedCluster({"t": 1, "in": 1})
    with producer_of(cluster, transactional_id=None) as plain:
        plain.send_many([b"%d" % n for n in range(10)], topic="in")
    settings = {"group": "g", "commit": "manual", "auto_offset_reset": "earliest"}
    with producer_of(cluster) as producer, consumer_of(cluster, "in", **settings) as consumer:
        tries = done = 0
        while done < 10:
            batch = consumer.poll(WAIT, max_records=3)
            tries += 1
            try:
                with producer.transaction(consumer) as tx:
                    for value in batch.values():
                        tx.send(value)
                    tx.commit_offsets(batch)
                    assert tries % 2 == 0, "every other one fails"
            except AssertionError:
                continue
            done += len(batch)
    with consumer_of(cluster, start="earliest", stop="end") as reader:
        assert [record.value for record in reader] == [b"%d" % n for n in range(10)]
    assert tries == 8


def test_only_a_member_of_a_group_can_go_back_to_its_commit() -> None:
    with consumer_of(filled()) as consumer, pytest.raises(ConfigError, match="no group"):
        consumer.seek_to_committed()


def test_what_lies_before_the_position_counts_for_what_is_left_out_behind_it() -> None:
    log = filled().logs[P0]
    position = Position(P0)
    position.go_to(5)
    ((producer_id, first_offset, _),) = log.aborted
    fetched = FetchedData(position, position.version, log.read(0, 1 << 20, 7), ((producer_id, first_offset),))
    assert [value for *_, value, _ in CompletedFetch(fetched, Consumed()).stream()] == [b"d"]
