"""The Kafka listener over real sockets, byte by byte: every API in every version, and what no client should send."""

from __future__ import annotations

import itertools
import socket
import struct
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka_messages import known_versions
from tests.fuzz.kafka_wire import KafkaWire, framed
from waiting import wait_until
from wire import Wire, batch

from ottla_broker.kafka.apis import APIS
from ottla_core.errors import ErrorCode
from ottla_core.records.batch import body_crc, iter_headers
from ottla_core.records.reader import read_records
from ottla_stack.cluster import Cluster

_names = (f"kafka-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.bootstrap) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def contract(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap) as wire:
        yield wire


class Topic:
    """A topic with one partition, by its name and its id."""

    def __init__(self, wire: Wire) -> None:
        self.name = next(_names)
        self.id = uuid.UUID(bytes=wire.create_topic(self.name))


@pytest.fixture
def topic(contract: Wire) -> Topic:
    return Topic(contract)


def versions(key: int) -> range:
    return known_versions(APIS[key])


def produce(
    topic: str, records: bytes | None, *, acks: int = 1, partition: int = 0, timeout_ms: int = 5_000, id_: Any = None
) -> Any:
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[data(name=topic, topic_id=id_, partition_data=[part])],
    )


def fetch(topic: Topic | None, version: int, offset: int = 0, **fields: Any) -> Any:
    asked = FetchRequest.FetchTopic
    part = asked.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
    )
    topics = []
    if topic is not None:
        topics = [asked(topic=topic.name, topic_id=topic.id, partitions=[part])]
    given = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return FetchRequest(version=version, **given | fields)


def fetched(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def values(records: bytes) -> list[bytes | None]:
    return [r[3] for at, h in iter_headers(records) for r in read_records(records[at : at + h.size_bytes])]


# ---- every API in every version ------------------------------------------------------------------------------------


@pytest.mark.rule(71)
@pytest.mark.parametrize("version", versions(18))
def test_api_versions_tells_what_is_served(kafka: KafkaWire, version: int) -> None:
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = kafka.ask(asked, version, ApiVersionsResponse)
    assert answer.error_code == 0
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert told == {api.key: (api.advertised_min, api.max_version) for api in APIS.values()}
    assert told[0] == (0, 13), "old librdkafka compresses only where Produce begins at 0"


@pytest.mark.rule(71)
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(kafka: KafkaWire) -> None:
    header = struct.pack(">hhih", 18, 99, 7, -1) + b"whatever a later version holds"
    kafka.socket.sendall(struct.pack(">i", len(header)) + header)
    frame = kafka.frame()
    own = APIS[18]
    assert frame == struct.pack(">ihihhh", 7, 35, 1, 18, own.min_version, own.max_version)
    assert kafka.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0, "the connection goes on"


@pytest.mark.parametrize("name", ["", "-x", "x y"])
def test_a_client_with_an_illegal_name_is_told_so(kafka: KafkaWire, name: str) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    sent = kafka.send(asked, 3)
    assert kafka.frame()[:6] == struct.pack(">ih", sent, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("version", versions(3))
def test_metadata(cluster: Cluster, kafka: KafkaWire, topic: Topic, version: int) -> None:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic.name)])
    answer = kafka.ask(asked, version, MetadataResponse)
    assert [f"{b.host}:{b.port}" for b in answer.brokers] == [cluster.bootstrap]
    (told,) = answer.topics
    assert (told.error_code, told.name) == (0, topic.name)
    assert told.topic_id == (topic.id if version >= 10 else told.topic_id)
    (part,) = told.partitions
    assert (part.error_code, part.leader_id, list(part.replica_nodes), list(part.isr_nodes)) == (0, 0, [0], [0])


@pytest.mark.parametrize("version", versions(3))
def test_metadata_of_all_topics_and_of_none(kafka: KafkaWire, topic: Topic, version: int) -> None:
    everything = kafka.ask(MetadataRequest(topics=[] if version == 0 else None), version, MetadataResponse)
    assert topic.name in [t.name for t in everything.topics]
    if version > 0:
        assert kafka.ask(MetadataRequest(topics=[]), version, MetadataResponse).topics == []


def test_metadata_of_what_is_not_there(kafka: KafkaWire, topic: Topic) -> None:
    wanted = MetadataRequest.MetadataRequestTopic
    nobody = uuid.UUID(int=7)
    asked = [
        wanted(name="nobody", topic_id=None),
        wanted(name="not legal", topic_id=None),
        wanted(name=None, topic_id=nobody),
        wanted(name=None, topic_id=topic.id),
    ]
    answer = kafka.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12, MetadataResponse)
    assert [(t.error_code, t.name) for t in answer.topics] == [
        (3, "nobody"),
        (17, "not legal"),
        (100, None),
        (0, topic.name),
    ]


@pytest.mark.feature(7)
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", versions(0))
def test_produce(kafka: KafkaWire, topic: Topic, version: int, acks: int) -> None:
    for offset in (0, 2):
        asked = produce(topic.name, batch(b"a", b"b"), acks=acks, id_=topic.id if version >= 13 else None)
        answer = kafka.ask(asked, version, ProduceResponse)
        (told,) = answer.responses
        (part,) = told.partition_responses
        assert (told.topic_id == topic.id) if version >= 13 else (told.name == topic.name)
        assert (part.index, part.error_code, part.base_offset) == (0, 0, offset)
        assert part.log_append_time_ms == -1
        assert part.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.feature(83)
@pytest.mark.parametrize("version", versions(1))
def test_fetch(kafka: KafkaWire, topic: Topic, version: int) -> None:
    kafka.ask(produce(topic.name, batch(b"a", b"b" * 10_000)), 3, ProduceResponse)
    kafka.ask(produce(topic.name, batch(b"c")), 3, ProduceResponse)
    answer = kafka.ask(fetch(topic, version), version, FetchResponse)
    assert (answer.error_code or 0, answer.session_id or 0) == (0, 0)
    assert answer.responses[0].topic_id == topic.id if version >= 13 else answer.responses[0].topic == topic.name
    part = fetched(answer)
    assert (part.partition_index, part.error_code, part.high_watermark) == (0, 0, 3)
    assert part.last_stable_offset == 3
    assert values(part.records) == [b"a", b"b" * 10_000, b"c"]
    empty = fetched(kafka.ask(fetch(topic, version, 3, isolation_level=1), version, FetchResponse))
    assert (empty.error_code, empty.records or b"", empty.aborted_transactions) == (0, b"", [])


@pytest.mark.rule(57)
def test_the_first_batch_comes_whole(kafka: KafkaWire, topic: Topic) -> None:
    for _ in range(2):
        kafka.ask(produce(topic.name, batch(b"v" * 5_000)), 3, ProduceResponse)
    part = fetched(kafka.ask(fetch(topic, 12, max_bytes=100, partition_max_bytes=10), 12, FetchResponse))
    assert values(part.records) == [b"v" * 5_000]


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_the_log(kafka: KafkaWire, topic: Topic, offset: int) -> None:
    kafka.ask(produce(topic.name, batch(b"a")), 3, ProduceResponse)
    part = fetched(kafka.ask(fetch(topic, 12, offset), 12, FetchResponse))
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.rule(55, 56)
def test_a_fetch_waits_for_records(cluster: Cluster, kafka: KafkaWire, topic: Topic) -> None:
    kafka.send(fetch(topic, 12, max_wait_ms=20_000), 12)
    with KafkaWire(cluster.bootstrap) as other:
        other.ask(produce(topic.name, batch(b"a")), 3, ProduceResponse)
    assert values(fetched(kafka.answer(12, FetchResponse)[1]).records) == [b"a"]


@pytest.mark.parametrize("version", versions(2))
def test_list_offsets(kafka: KafkaWire, topic: Topic, version: int) -> None:
    kafka.ask(produce(topic.name, batch(b"a", b"b", b"c", timestamp_ms=1_000)), 3, ProduceResponse)
    asked = ListOffsetsRequest.ListOffsetsTopic
    found = []
    for timestamp in (-2, -1, -3, 1_001, 5_000, -4, -5):
        part = asked.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[asked(name=topic.name, partitions=[part])], timeout_ms=1_000
        )
        told = kafka.ask(request, version, ListOffsetsResponse).topics[0].partitions[0]
        assert told.error_code == 0
        found.append((told.offset, told.timestamp))
    assert found == [(0, -1), (3, -1), (2, 1_002), (1, 1_001), (-1, -1), (0, -1), (-1, -1)]


@pytest.mark.rule(67)
@pytest.mark.parametrize("version", versions(23))
def test_offset_for_leader_epoch(kafka: KafkaWire, topic: Topic, version: int) -> None:
    kafka.ask(produce(topic.name, batch(b"a", b"b")), 3, ProduceResponse)
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = asked.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked(topic=topic.name, partitions=[part])])
    (told,) = kafka.ask(request, version, OffsetForLeaderEpochResponse).topics[0].partitions
    assert (told.error_code, told.leader_epoch, told.end_offset) == (0, 0, 2)


@pytest.mark.parametrize("version", versions(22))
def test_init_producer_id(kafka: KafkaWire, version: int) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    ids = {kafka.ask(request, version, InitProducerIdResponse).producer_id for _ in range(3)}
    assert len(ids) == 3
    request.transactional_id = "tx"
    answer = kafka.ask(request, version, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1), "none runs here"


@pytest.mark.parametrize("version", versions(10))
def test_a_groups_coordinator_is_a_broker(cluster: Cluster, kafka: KafkaWire, version: int) -> None:
    request = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])

    def told() -> Any:
        answer = kafka.ask(request, version, FindCoordinatorResponse)
        return answer.coordinators[0] if version >= 4 else answer

    wait_until(lambda: told().error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE)  # its shard has an owner
    found = told()
    assert (found.error_code, found.node_id, f"{found.host}:{found.port}") == (0, 0, cluster.bootstrap)


# ---- order, silence, sessions --------------------------------------------------------------------------------------


@pytest.mark.rule(70)
@pytest.mark.feature(127)
def test_answers_come_in_the_order_of_the_requests(kafka: KafkaWire, topic: Topic) -> None:
    """A produce, a fetch that waits, and what is quick, all sent at once."""
    sent = [kafka.send(produce(topic.name, batch(b"a"), acks=-1), 9)]
    sent.append(kafka.send(fetch(topic, 12, 1, max_wait_ms=300), 12))
    sent += [kafka.send(ApiVersionsRequest(), 0) for _ in range(3)]
    sent.append(kafka.send(produce(topic.name, batch(b"b")), 9))
    answers = [struct.unpack_from(">i", kafka.frame())[0] for _ in sent]
    assert answers == sent


@pytest.mark.rule(27)
def test_produces_that_are_sent_at_once_keep_their_order(kafka: KafkaWire, topic: Topic) -> None:
    frames = [framed(produce(topic.name, batch(b"%d" % n), acks=(1, -1)[n % 2]), 9, n) for n in range(300)]
    kafka.socket.sendall(b"".join(frames))
    answers = [kafka.answer(9, ProduceResponse) for _ in frames]
    assert [correlation_id for correlation_id, _ in answers] == list(range(300))
    assert [a.responses[0].partition_responses[0].base_offset for _, a in answers] == list(range(300))


@pytest.mark.rule(66)
def test_acks_0_is_not_answered_and_a_failure_ends_the_connection(kafka: KafkaWire, topic: Topic) -> None:
    kafka.send(produce(topic.name, batch(b"silent"), acks=0), 9)
    loud = kafka.ask(produce(topic.name, batch(b"loud")), 9, ProduceResponse)
    assert loud.responses[0].partition_responses[0].base_offset == 1
    kafka.send(produce("nobody", batch(b"lost"), acks=0), 9)
    assert kafka.is_closed()


def test_a_fetch_session_tells_only_what_has_changed(kafka: KafkaWire, contract: Wire, topic: Topic) -> None:
    quiet = Topic(contract)
    request = fetch(topic, 13, session_epoch=0)
    request.topics += fetch(quiet, 13).topics
    first = kafka.ask(request, 13, FetchResponse)
    assert first.session_id > 0
    assert {t.topic_id for t in first.responses} == {topic.id, quiet.id}
    kafka.ask(produce(topic.name, batch(b"news")), 3, ProduceResponse)
    session = {"session_id": first.session_id}
    second = kafka.ask(fetch(None, 13, session_epoch=1, **session), 13, FetchResponse)
    assert [t.topic_id for t in second.responses] == [topic.id]
    assert values(fetched(second).records) == [b"news"]
    third = kafka.ask(fetch(topic, 13, 1, session_epoch=2, **session), 13, FetchResponse)
    assert third.responses == []
    assert kafka.ask(fetch(None, 13, session_epoch=2, **session), 13, FetchResponse).error_code == 71
    assert kafka.ask(fetch(None, 13, session_epoch=3, **session), 13, FetchResponse).error_code == 0
    by_name = kafka.ask(fetch(None, 12, session_epoch=4, **session), 12, FetchResponse)
    assert by_name.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert kafka.ask(fetch(None, 13, session_epoch=-1, **session), 13, FetchResponse).error_code == 0
    assert kafka.ask(fetch(None, 13, session_epoch=4, **session), 13, FetchResponse).error_code == 70


# ---- what is refused -----------------------------------------------------------------------------------------------


def _flipped(sent: bytes) -> bytes:
    return sent[:-1] + bytes([sent[-1] ^ 1])


REFUSED = {
    "an unknown topic": ("nobody", batch(b"v"), 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "corrupt": (None, _flipped(batch(b"v")), 1, ErrorCode.CORRUPT_MESSAGE),
    "too large": (None, batch(b"v" * 1_100_000), 1, ErrorCode.MESSAGE_TOO_LARGE),
    "acks": (None, batch(b"v"), 2, ErrorCode.INVALID_REQUIRED_ACKS),
    "no batch": (None, None, 1, ErrorCode.INVALID_RECORD),
    "transactional": (
        None,
        batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10),
        1,
        ErrorCode.INVALID_REQUEST,
    ),
}


@pytest.mark.rule(64, 65)
@pytest.mark.parametrize("version", [3, 11])
@pytest.mark.parametrize("name", REFUSED)
def test_a_produce_that_is_refused(kafka: KafkaWire, topic: Topic, name: str, version: int) -> None:
    to, records, acks, code = REFUSED[name]
    answer = kafka.greet().ask(produce(to or topic.name, records, acks=acks), version, ProduceResponse)
    (part,) = answer.responses[0].partition_responses
    assert (part.error_code, part.base_offset) == (code, -1)
    assert part.error_message if version >= 8 else True
    good = kafka.ask(produce(topic.name, batch(b"good")), version, ProduceResponse)
    assert good.responses[0].partition_responses[0].base_offset == 0


@pytest.mark.parametrize("version", [4, 12, 13, 17])
def test_a_fetch_of_what_is_not_there(kafka: KafkaWire, topic: Topic, version: int) -> None:
    topic.name, topic.id = "nobody", uuid.UUID(int=7)
    part = fetched(kafka.ask(fetch(topic, version, max_wait_ms=60_000), version, FetchResponse))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert part.error_code == unknown


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_client_that_says_it_is_a_replica_reads_nothing(kafka: KafkaWire, topic: Topic, version: int) -> None:
    kafka.ask(produce(topic.name, batch(b"a")), 3, ProduceResponse)
    request = fetch(topic, version, replica_id=0)
    if version >= 15:
        request = fetch(topic, version)
        request.replica_state = FetchRequest.ReplicaState(replica_id=0, replica_epoch=1)
        request.tags = {"replica_state"}
    part = fetched(kafka.ask(request, version, FetchResponse))
    assert (part.error_code, part.records or b"") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


def _sized(layout: str, *fields: int, more: bytes = b"", size_bytes: int | None = None) -> bytes:
    """A frame, with the size that it has or another."""
    body = struct.pack(">" + layout, *fields) + more
    return struct.pack(">i", len(body) if size_bytes is None else size_bytes) + body


BAD_BYTES = {
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an API that does not exist": _sized("hhih", 999, 0, 1, -1),
    "a version that does not exist": _sized("hhih", 3, 99, 1, -1),
    "Produce of before record batches": _sized("hhih", 0, 2, 1, -1),
    "a negative size": _sized("hhih", 3, 1, 1, -1, size_bytes=-1),
    "no header": _sized("hh", 3, 1),
    "a control request of 64 MB": _sized("hhih", 3, 1, 1, -1, size_bytes=64 << 20),
    "a client id that is longer than the frame": _sized("hhih", 3, 1, 1, 3_000),
    "a string that is cut off at the end of the frame": _sized("hhihh", 10, 0, 1, -1, 50, more=b"abc"),
    "a body that is cut off": _sized("hhih", 3, 1, 1, -1),
    "an array longer than the frame": _sized("hhihi", 3, 1, 1, -1, 1 << 30),
    "a varint without an end": _sized("hhihb", 3, 9, 1, -1, 0, more=b"\xff" * 1_000_000),
    "a string that is not UTF-8": _sized("hhihih", 3, 1, 1, -1, 1, 2, more=b"\xff\xff"),
    "a fetch of two thousand million partitions": _sized(
        "hhihiiiibiiihi", 1, 7, 1, -1, -1, 0, 1, 1, 0, 0, -1, 1, 0, 2_000_000_000
    ),
    "a produce longer than its frame": _sized("hhihhhiihiii", 0, 3, 1, -1, -1, 1, 1, 1, 0, 1, 0, 1 << 30),
}


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bad_bytes_end_their_connection_and_no_other(cluster: Cluster, kafka: KafkaWire, name: str) -> None:
    kafka.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    with KafkaWire(cluster.bootstrap) as bad:
        with suppress(BrokenPipeError, ConnectionResetError):  # the broker may close before it has read all of it
            bad.socket.sendall(BAD_BYTES[name])
        assert bad.is_closed()
    assert kafka.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0


def test_a_request_may_come_byte_by_byte(kafka: KafkaWire, topic: Topic) -> None:
    kafka.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in framed(produce(topic.name, batch(b"slow")), 9, 5) + framed(ApiVersionsRequest(), 0, 6):
        kafka.socket.sendall(bytes([byte]))
    assert kafka.answer(9, ProduceResponse)[0] == 5
    assert kafka.answer(0, ApiVersionsResponse)[0] == 6


@pytest.mark.rule(58, 64)
def test_batches_that_lie_about_their_counts_are_refused_and_stay_so_after_a_kill() -> None:
    lie = bytearray(batch(b"x"))
    struct.pack_into(">i", lie, 23, 2**26)
    struct.pack_into(">i", lie, 57, 2**26 + 1)
    struct.pack_into(">I", lie, 17, body_crc(lie))
    with Cluster(brokers=1, group_coordinators=0) as alone:
        with Wire(alone.bootstrap) as wire:
            name = Topic(wire).name
        with KafkaWire(alone.bootstrap) as kafka:
            for records, code in ((batch(b"a"), 0), (bytes(lie) * 100, ErrorCode.INVALID_RECORD), (batch(b"b"), 0)):
                answer = kafka.ask(produce(name, records), 9, ProduceResponse)
                assert answer.responses[0].partition_responses[0].error_code == code
        alone.brokers[0].kill()
        alone.brokers[0].restart()
        with KafkaWire(alone.bootstrap) as kafka:
            wait_until(lambda: end_of(kafka, name) is not None)
            assert end_of(kafka, name) == 2


def end_of(kafka: KafkaWire, topic: str) -> int | None:
    """Where the log of partition 0 ends; None while nobody leads it."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    part = asked.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked(name=topic, partitions=[part])])
    found = kafka.ask(request, 4, ListOffsetsResponse).topics[0].partitions[0]
    return None if found.error_code else int(found.offset)
