"""The auto serializer: what comes back is of the type that was sent, whatever its content."""

from typing import Any

import pytest

from ottla.consumer.consumer import Consumer
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer

VALUES: list[Any] = [
    *(1, -(2**70), 1.5, True, False, [1], [], {"id": 1, "name": "Åse"}),
    *("1", "true", "[1]", '{"id": 1}', "", "Åse", '"text"'),
    *(b"1", b"[1]", b"", b"abc", b"\xff\x00"),
    None,
]


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", topic="t", _transport=cluster.connect, **arguments)


def consumer_of(cluster: ScriptedCluster, **arguments: Any) -> Consumer[Any, Any]:
    return Consumer("t", bootstrap="b0:1", start="earliest", _transport=cluster.connect, **{"stop": "end", **arguments})


def same(found: list[Any], expected: list[Any]) -> bool:
    """Equal, types included: 1 == True, and the one is not the other."""
    return found == expected and [type(each) for each in found] == [type(each) for each in expected]


@pytest.mark.story("auto-types-by-content")
def test_keys_and_values_come_back_as_what_was_sent() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        for value in VALUES:
            producer.send(value, key=value, headers={"own": "x"})
            producer.send(value)
    keys = [key for value in VALUES for key in (value, None)]
    values = [value for value in VALUES for _ in range(2)]
    with consumer_of(cluster) as consumer:
        records = list(consumer)
    assert same([record.value for record in records], values)
    assert same([record.key for record in records], keys)
    assert [record.headers for record in records] == [[("own", b"x")], []] * len(VALUES)
    with consumer_of(cluster) as consumer:
        batches = list(consumer.batches(1000))
    assert same([value for batch in batches for value in batch.values()], values)
    assert same([key for batch in batches for key in batch.keys()], keys)  # noqa: SIM118 - a batch is no mapping
    assert same([record.value for batch in batches for record in batch], values)


def test_a_tuple_is_an_array() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.send((1, "a"))
    with consumer_of(cluster) as consumer:
        assert [record.value for record in consumer] == [[1, "a"]]


def test_what_others_wrote_is_text_or_bytes_whatever_it_looks_like() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, value="bytes") as producer:
        for value in (b'{"id": 1}', b"[1]", b"17", b"\xff"):
            producer.send(value)
    assert [headers for *_, headers in cluster.records("t", 0)] == [[]] * 4
    with consumer_of(cluster) as consumer:
        assert [record.value for record in consumer] == ['{"id": 1}', "[1]", "17", b"\xff"]
    with consumer_of(cluster, value="json", stop=3) as consumer:
        assert [record.value for record in consumer] == [{"id": 1}, [1], 17]


def test_other_deserializers_look_at_no_mark_and_show_it() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.send({"id": 1}, key=7)
    with consumer_of(cluster, value="bytes") as consumer:
        (record,) = consumer
    assert (record.key, record.value, record.headers) == (7, b'{"id":1}', [("ottla.auto.value", b"json")])


def test_the_mark_of_another_record_does_not_stick_to_a_new_one() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.send("17", headers=[("ottla.auto.value", b"json"), ("own", b"x")])
        producer.send(None, headers=[("ottla.auto.value", b"json")])
    with consumer_of(cluster) as consumer:
        assert [(record.value, record.headers) for record in consumer] == [("17", [("own", b"x")]), (None, [])]


@pytest.mark.parametrize("data", [b'{"cut', b"[1,", b"{}x", b"[" * 100_000, b"\xff"])
@pytest.mark.parametrize("mark", [b"json", b"of a later release", None])
def test_a_wrong_mark_harms_nobody(data: bytes, mark: bytes | None) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, value="bytes") as producer:
        producer.send(data, headers=[("ottla.auto.value", mark)])
    with consumer_of(cluster) as consumer:
        assert [record.value for record in consumer] == [data if data == b"\xff" else data.decode()]
