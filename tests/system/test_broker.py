"""A broker over Kafka's protocol, with real files: what it takes, what it refuses, and in which words."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator

import pytest
from waiting import LIMIT_S, wait_until
from wire import Wire, batch

from ottla.admin import configs, topics
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import IncrementalAlterConfigsRequest
from ottla_core.records.batch import iter_headers, read_header
from ottla_core.records.reader import read_records
from ottla_stack.cluster import Cluster

_names = (f"topic-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap) as wire:
        yield wire


@pytest.fixture
def topic(wire: Wire) -> bytes:
    return wire.create_topic(next(_names))


def values(records: bytes) -> list[bytes | None]:
    return [r[3] for at, h in iter_headers(records) for r in read_records(records[at : at + h.size_bytes])]


@pytest.mark.feature(7, 83)
@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_acknowledged_is_read_back(wire: Wire, topic: bytes, acks: int) -> None:
    first = wire.produce(topic, batch(b"a", b"b"), acks=acks)
    second = wire.produce(topic, batch(b"c"), acks=acks)
    assert (first.base_offset, second.base_offset) == (0, 2)
    fetched = wire.fetch(topic, 0)
    assert values(fetched.records) == [b"a", b"b", b"c"]
    assert (fetched.high_watermark, fetched.log_start_offset) == (3, 0)
    assert values(wire.fetch(topic, 1).records) == [b"a", b"b", b"c"], "batches are whole, the client skips"
    assert wire.fetch(topic, 3, min_bytes=0).records == b""


@pytest.mark.rule(1)
@pytest.mark.feature(89)
def test_a_batch_keeps_its_bytes_but_for_offset_and_epoch(wire: Wire, topic: bytes) -> None:
    wire.produce(topic, batch(b"before"))
    sent = batch(b"x" * 100, b"y")
    wire.produce(topic, sent)
    read = wire.fetch(topic, 1).records
    assert read[16:] == sent[16:]
    assert (read_header(read).base_offset, read_header(read).leader_epoch) == (1, 0)


@pytest.mark.rule(27)
@pytest.mark.feature(175)
def test_requests_on_one_connection_keep_their_order(wire: Wire, topic: bytes) -> None:
    for n in range(200):
        wire.send_produce(topic, batch(b"%d" % n))
    offsets = [wire.produce_response().base_offset for _ in range(200)]
    assert sorted(offsets) == list(range(200))
    assert values(wire.fetch(topic, 0).records) == [b"%d" % n for n in range(200)]


@pytest.mark.rule(66)
@pytest.mark.feature(8)
def test_acks_0_is_never_answered_and_a_failure_ends_the_connection(wire: Wire, topic: bytes) -> None:
    wire.send_produce(topic, batch(b"silent"), acks=0)
    assert wire.produce(topic, batch(b"loud")).base_offset == 1
    wire.send_produce(b"?" * 16, batch(b"lost"), acks=0)
    error, left = wire.broken.get(timeout=LIMIT_S)
    assert left == []
    assert "it closed the connection" in str(error)


def _flipped(sent: bytes) -> bytes:
    return sent[:-1] + bytes([sent[-1] ^ 1])


BAD_BATCHES = {
    "a flipped bit": (_flipped(batch(b"v")), ErrorCode.CORRUPT_MESSAGE, "CRC"),
    "old magic": (batch(b"v")[:16] + b"\x01" + batch(b"v")[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "magic 1"),
    "too large": (batch(b"v" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, "max.message.bytes"),
    "cut off": (batch(b"value")[:-2], ErrorCode.CORRUPT_MESSAGE, "are left"),
    "nothing": (b"", ErrorCode.INVALID_RECORD, "has no batch"),
    "a control batch": (batch(b"v", attributes=0x20), ErrorCode.INVALID_RECORD, "only brokers may write"),
    "transactional": (
        batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10),
        ErrorCode.INVALID_REQUEST,
        "without a transactional id",
    ),
    "from the future": (batch(b"v", timestamp_ms=9_000_000_000_000), ErrorCode.INVALID_TIMESTAMP, "after"),
}


@pytest.mark.rule(64, 65)
@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_harms_nothing(wire: Wire, topic: bytes, name: str) -> None:
    records, code, words = BAD_BATCHES[name]
    refused = wire.produce(topic, records)
    assert (refused.error_code, refused.base_offset) == (code, -1)
    assert words in (refused.error_message or "")
    assert wire.produce(topic, batch(b"good")).base_offset == 0
    assert values(wire.fetch(topic, 0).records) == [b"good"]


@pytest.mark.feature(130)
def test_a_partition_that_can_not_be_served_is_named(wire: Wire, topic: bytes) -> None:
    unknown = wire.produce(b"?" * 16, batch(b"v"))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    beyond = wire.produce(topic, batch(b"v"), partition=9)
    assert (beyond.error_code, "no partition 9" in (beyond.error_message or "")) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        True,
    )
    assert wire.fetch(b"?" * 16, 0).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    wire.send_produce(topic, batch(b"v"), acks=2)
    assert wire.produce_response().error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert wire.metadata("nowhere").topics["nowhere"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.rule(5)
def test_a_client_of_another_leader_epoch_is_told_who_is_behind(wire: Wire, topic: bytes) -> None:
    assert wire.produce(topic, batch(b"v")).base_offset == 0
    assert wire.fetch(topic, 0, epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert wire.fetch(topic, 0, epoch=0).error_code == 0


def test_an_offset_outside_the_log_is_out_of_range(wire: Wire, topic: bytes) -> None:
    wire.produce(topic, batch(b"v"))
    for offset in (-1, 5):
        fetched = wire.fetch(topic, offset)
        assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (fetched.high_watermark, fetched.log_start_offset) == (1, 0)


@pytest.mark.rule(55, 56)
@pytest.mark.feature(40, 41, 134)
def test_a_fetch_is_parked_until_there_is_enough(wire: Wire, topic: bytes) -> None:
    sent = batch(b"x" * 100)
    wire.send_fetch(topic, min_bytes=2 * len(sent), max_wait_ms=20_000)
    wire.produce(topic, sent)
    assert not wire.has_fetch_response()
    wire.produce(topic, sent)
    assert len(wire.fetch_response()[0].records) == 2 * len(sent)
    wire.send_fetch(topic, offset=2, max_wait_ms=10)
    assert wire.fetch_response()[0].records == b"", "its time is up"


@pytest.mark.rule(57)
@pytest.mark.feature(42)
def test_the_first_batch_comes_whole_and_the_rest_within_the_limit(wire: Wire) -> None:
    topic = wire.create_topic(next(_names), partitions=2)
    large, small = batch(b"x" * 5_000), batch(b"s")
    for partition in (0, 1):
        wire.produce(topic, large, partition=partition)
        wire.produce(topic, small, partition=partition)
    wire.send_fetch(topic, (0, 1), max_bytes=100)
    first, second = wire.fetch_response()
    assert (len(first.records), len(second.records)) == (len(large), 0)
    wire.send_fetch(topic, (0, 1), max_bytes=len(large) + 2 * len(small))
    first, second = wire.fetch_response()
    assert (len(first.records), len(second.records)) == (len(large) + len(small), 0)


@pytest.mark.feature(55, 92)
def test_offsets_by_time(wire: Wire, topic: bytes) -> None:
    wire.produce(topic, batch(b"a", b"b", timestamp_ms=1_000_000))
    wire.produce(topic, batch(b"c", timestamp_ms=2_000_000))
    assert wire.list_offset(topic, -2).offset == 0
    assert wire.list_offset(topic, -1).offset == 3
    found = wire.list_offset(topic, 1_000_001)
    assert (found.offset, found.timestamp) == (1, 1_000_001)
    assert wire.list_offset(topic, -3).offset == 2
    assert wire.list_offset(topic, 2_000_001).offset == -1


@pytest.mark.rule(65)
def test_log_append_time_is_the_brokers(wire: Wire) -> None:
    topic = wire.create_topic(next(_names), message_timestamp_type="LogAppendTime")
    appended = wire.produce(topic, batch(b"v", timestamp_ms=5))
    header = read_header(wire.fetch(topic, 0).records)
    assert appended.log_append_time_ms == header.max_timestamp > 1_700_000_000_000
    assert header.has_log_append_time


@pytest.mark.feature(101)
def test_a_config_that_is_altered_holds_for_what_comes_next(wire: Wire) -> None:
    name = next(_names)
    topic = wire.create_topic(name)
    large = batch(b"x" * 5_000)
    assert wire.produce(topic, large).base_offset == 0
    change = IncrementalAlterConfigsRequest.AlterableConfig(name="max.message.bytes", value="1000")
    assert wire.administer(configs.alteration(2, name, [change], dry_run=False)).error_code == 0
    wait_until(lambda: wire.produce(topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE)
    assert wire.produce(topic, batch(b"small")).error_code == 0


@pytest.mark.rule(20)
def test_flush_messages_1_is_on_the_platter_before_the_answer(wire: Wire) -> None:
    topic = wire.create_topic(next(_names), flush_messages="1")
    for n in range(5):
        assert wire.produce(topic, batch(b"%d" % n)).base_offset == n
    assert values(wire.fetch(topic, 0).records) == [b"%d" % n for n in range(5)]


@pytest.mark.rule(23)
@pytest.mark.feature(122)
def test_a_topic_created_again_is_another(wire: Wire) -> None:
    name = next(_names)
    old = wire.create_topic(name)
    wire.produce(old, batch(b"old"))
    wire.send_fetch(old, offset=1, max_wait_ms=20_000)
    (deleted,) = wire.administer(topics.deletion([name]))
    assert deleted.error_code == 0
    parked = wire.fetch_response()[0]
    assert parked.error_code == ErrorCode.UNKNOWN_TOPIC_ID, "a fetch that waits for the deleted topic ends"
    new = wire.create_topic(name)
    assert new != old
    assert wire.fetch(new, 0, min_bytes=0).records == b""
    wait_until(lambda: wire.produce(old, batch(b"late")).error_code == ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_damaged_connection_harms_no_other(cluster: Cluster, wire: Wire, topic: bytes) -> None:
    host, _, port = cluster.bootstrap.partition(":")
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x12\x00\x12\x00\x03" * 50,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff" * 9,
    ):
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as damaged:
            damaged.sendall(garbage)
            wait_until(lambda s=damaged: _ended(s))
    assert wire.produce(topic, batch(b"v")).base_offset == 0


def _ended(connection: socket.socket) -> bool:
    """Whether the broker has closed it; what it says before that is not looked at."""
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


@pytest.mark.rule(20)
def test_after_a_failed_fsync_nothing_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    fdatasync = os.fdatasync
    with Cluster() as cluster, Wire(cluster.bootstrap) as wire:
        directory = str(cluster.brokers[0].data_dir)

        def broken(fd: int) -> None:
            # The broker of the other tests is in this process, too, and writes its checkpoints at any time.
            if os.readlink(f"/proc/self/fd/{fd}").startswith(directory):
                raise OSError(5, "Input/output error")
            fdatasync(fd)

        topic = wire.create_topic("flushed", flush_messages="1")
        assert wire.produce(topic, batch(b"a")).base_offset == 0
        monkeypatch.setattr(os, "fdatasync", broken)
        refused = wire.produce(topic, batch(b"b"))
        assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        monkeypatch.undo()
        assert wire.produce(topic, batch(b"c")).error_code == ErrorCode.KAFKA_STORAGE_ERROR, (
            "not even after it works again"
        )


@pytest.mark.feature(42)
def test_a_response_has_a_size_that_no_request_can_lift(wire: Wire) -> None:
    topic = wire.create_topic(next(_names), partitions=8)
    for partition in range(8):
        wire.produce(topic, batch(b"x" * 1_000_000), partition=partition)
    wire.send_fetch(topic, range(8), max_bytes=1 << 30, min_bytes=1 << 30, max_wait_ms=50)
    assert 2_000_000 < sum(len(part.records) for part in wire.fetch_response()) <= 4 << 20


def test_what_came_while_a_fetch_waited_is_in_its_answer_though_it_is_not_enough(wire: Wire, topic: bytes) -> None:
    wire.send_fetch(topic, min_bytes=1 << 20, max_wait_ms=600)
    assert wire.produce(topic, batch(b"late")).base_offset == 0
    fetched = wire.fetch_response()[0]
    assert (values(fetched.records), fetched.high_watermark) == ([b"late"], 1)
