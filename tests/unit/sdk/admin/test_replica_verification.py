"""Reading replicas from their brokers: each from its own, and what goes wrong with one leaves the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from batches import NOON, raw_batch, raw_record
from cleanings import pairs, placed

from ottla.admin.replica_verification import ReplicaCheck, check_replicas, fetch_of
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.exchange import Exchange, Outcome
from ottla.client.kafka.topic_names import TopicNames
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import FetchRequest, FetchResponse
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import TRANSACTIONAL, read_header
from ottla_core.records.control import EndTransactionMarker, seal_marker
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import ClientCalls

ID = PartitionId(TopicId(b"t" * 16), 3)


VERSION = FETCH.versions[-1]


def arrived(message: Message, version: int) -> Any:
    """Return a message as it arrives at the other side."""
    return codec.decode(type(message), codec.encode(message, version), version)


def wanted(request: FetchRequest) -> FetchRequest.FetchPartition:
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (topic.topic_id, partition.partition) == ID
    return partition


def response_of(data: FetchResponse.PartitionData) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse(topic_id=ID.topic_id, partitions=[data])
    return FetchResponse(responses=[topic])


def batch(offset: int) -> bytes:
    return raw_batch(raw_record(0), base_offset=offset)


class FakeReplica:
    """A broker that serves one replica; `hook` may answer a fetch from an offset on in its place, None for silence."""

    def __init__(self, batches: list[bytes], *, start: int = 0, high_watermark: int | None = None) -> None:
        self.batches = batches
        self.start = start
        self.high_watermark = len(batches) if high_watermark is None else high_watermark
        self.hooks: dict[int, Callable[[], FetchResponse | None]] = {}
        self.asked: list[FetchRequest] = []
        self.closed = False
        self.last_stable_offset = self.high_watermark
        self.aborted: list[tuple[int, int]] = []
        self.epochs: list[tuple[int, int]] | ErrorCode = []

    def open_stream(self, name: str, on_response: Any, on_broken: Any) -> FakeReplica:
        self._on_response, self._on_broken = on_response, on_broken
        return self

    def send(self, asked: Exchange[Any], *, timeout_ms: int, answered: bool = True) -> int:
        request = arrived(asked.builder(timeout_ms)(VERSION), VERSION)
        self.asked.append(request)
        hook = self.hooks.pop(wanted(request).fetch_offset, None) if request.max_bytes else None
        response = self.fetched(request) if hook is None else hook()
        if response is not None:
            self._on_response(1, Outcome(asked.result(arrived(response, VERSION), "b:1")))
        return 1

    def fetched(self, request: FetchRequest) -> FetchResponse:
        stable, offset = self.last_stable_offset, wanted(request).fetch_offset
        answer = FetchResponse.PartitionData(
            high_watermark=self.high_watermark, log_start_offset=self.start, last_stable_offset=stable
        )
        if request.max_bytes and offset < self.start:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif request.max_bytes:
            end = stable if request.isolation_level else self.high_watermark
            answer.records = next((b for b in self.batches[:end] if read_header(b).next_offset > offset), b"")
            answer.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in (self.aborted if request.isolation_level else ())
            ]
        return response_of(answer)

    def exchange(self, asked: Exchange[Any], *, timeout: float) -> Any:
        sent = cast(OttlaCallRequest, asked.builder(int(timeout * 1000))(0))
        request = pb.ReplicaEpochsRequest.FromString(sent.body)
        assert (sent.method, request.topic_id, request.partition) == (ClientCalls.REPLICA_EPOCHS.path, *ID)
        if isinstance(self.epochs, ErrorCode):
            return asked.result(OttlaCallResponse(error_code=self.epochs), "b:1")
        epochs = [pb.EpochStart(leader_epoch=epoch, start_offset=start) for epoch, start in self.epochs]
        response = pb.ReplicaEpochsResponse(
            epochs=epochs, log_start_offset=self.start, high_watermark=self.high_watermark
        )
        return asked.result(OttlaCallResponse(body=response.SerializeToString()), "b:1")

    def break_stream(self) -> None:
        self._on_broken(OttlaError(ErrorCode.NETWORK_EXCEPTION, "the stream broke"), [1])

    def close(self, *, timeout: float = 0.0) -> None:
        self.closed = True


def check(
    *replicas: FakeReplica | None,
    leader: int = 0,
    on_progress: Callable[[int, int], None] = lambda offset, end: None,
    compacted: bool = False,
    isr: tuple[int, ...] = (),
) -> ReplicaCheck:
    """The replicas of a partition by broker id; None is not registered."""
    there = {f"b{number}:1": replica for number, replica in enumerate(replicas) if replica is not None}
    cluster = ClusterClient(["b0:1"], lambda address: there[address])  # type: ignore[arg-type, return-value]  # stand-ins
    brokers = {n: BrokerView(n, f"b{n}:1") for n, replica in enumerate(replicas) if replica is not None}
    cluster.view = ClusterView(brokers=brokers)
    partition = PartitionView(leader, 0, tuple(range(len(replicas))), isr)
    found = check_replicas(cluster, "t", ID, partition, timeout=0.2, on_progress=on_progress, compacted=compacted)
    assert all(replica.closed for replica in there.values())
    return found


def log(count: int = 4) -> list[bytes]:
    return [batch(offset) for offset in range(count)]


@pytest.mark.feature(115)
def test_equal_replicas_are_read_to_the_smallest_high_watermark() -> None:
    steps: list[tuple[int, int]] = []
    lagging = FakeReplica(log(), high_watermark=3)
    found = check(FakeReplica(log()), lagging, on_progress=lambda *step: steps.append(step))
    assert found.is_good
    assert (found.start, found.end, found.not_compared, found.equal) == (0, 3, 1, (0, 1))
    assert found.compared_bytes == len(b"".join(log(3)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert [wanted(request).fetch_offset for request in lagging.asked] == [0, 0, 1, 2]


@pytest.mark.feature(115)
def test_a_replica_is_compared_with_the_leaders() -> None:
    other = log()
    other[2] = raw_batch(raw_record(0, timestamp_delta=1), base_offset=2)
    found = check(FakeReplica(other), FakeReplica(log()), FakeReplica(log()), leader=1)
    assert not found.is_good
    assert (found.equal, found.unreadable) == ((1, 2), {})
    assert (found.differences[0].reference, found.differences[0].offset) == (1, 2)


def test_where_the_logs_begin_later_they_are_compared_from_there() -> None:
    found = check(FakeReplica(log()), FakeReplica(log()[2:], start=2, high_watermark=4))
    assert found.is_good
    assert (found.start, found.end) == (2, 4)
    assert check(FakeReplica(log(1)), FakeReplica([], start=3, high_watermark=3)).is_good, "nothing in common"


def test_what_retention_takes_meanwhile_is_no_difference() -> None:
    leader, follower = FakeReplica(log()), FakeReplica(log())

    def deleted() -> FetchResponse:
        follower.start = 2
        return follower.fetched(follower.asked[-1])

    follower.hooks[1] = deleted
    found = check(leader, follower)
    assert found.is_good
    assert (found.start, found.compared_bytes) == (2, len(b"".join([batch(0), batch(2), batch(3)])))


def test_a_broker_that_is_not_registered_is_named_and_the_others_are_compared() -> None:
    found = check(None, FakeReplica(log()), FakeReplica(log()))
    assert not found.is_good
    assert found.equal == (1, 2)
    assert "broker 0 is not registered" in found.unreadable[0].message
    assert check(None).equal == ()


def failed(code: ErrorCode) -> Callable[[], FetchResponse]:
    return lambda: response_of(FetchResponse.PartitionData(error_code=code))


def broken(replica: FakeReplica) -> Callable[[], None]:
    """Each time: its broker is down."""

    def answer() -> None:
        replica.hooks[2] = answer
        replica.break_stream()

    return answer


def test_a_connection_that_breaks_is_made_again() -> None:
    shaky = FakeReplica(log())
    shaky.hooks[0] = shaky.hooks[2] = shaky.break_stream
    assert check(FakeReplica(log()), shaky).equal == (0, 1)
    assert [wanted(request).fetch_offset for request in shaky.asked] == [0, 0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("hook", "code"),
    [
        (lambda replica: failed(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.KAFKA_STORAGE_ERROR),
        (lambda replica: failed(ErrorCode.OFFSET_OUT_OF_RANGE), ErrorCode.OFFSET_OUT_OF_RANGE),
        (lambda replica: lambda: response_of(FetchResponse.PartitionData()), ErrorCode.CORRUPT_MESSAGE),
        (lambda replica: lambda: None, ErrorCode.REQUEST_TIMED_OUT),
        (broken, ErrorCode.NETWORK_EXCEPTION),
    ],
    ids=["an error", "a log that ends before", "nothing", "silence", "a stream that breaks"],
)
def test_a_replica_that_fails_on_the_way_is_unreadable(hook: Callable[[FakeReplica], Any], code: ErrorCode) -> None:
    bad = FakeReplica(log())
    bad.hooks[2] = hook(bad)
    found = check(bad, FakeReplica(log()), FakeReplica(log()))
    assert {broker: error.code for broker, error in found.unreadable.items()} == {0: code}
    assert (found.equal, found.differences, found.end) == ((1, 2), {}, 4)
    assert found.compared_bytes == len(b"".join(log()))


def test_a_broker_that_does_not_know_the_partition_has_no_replica_to_read() -> None:
    stranger = FakeReplica([])
    stranger.fetched = lambda request: failed(ErrorCode.UNKNOWN_TOPIC_ID)()
    found = check(FakeReplica(log()), stranger)
    assert found.unreadable[1].code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (found.end, found.equal) == (4, (0,)), "what it would have said of its log counts for nothing"


@pytest.mark.feature(115)
def test_in_sync_replicas_have_to_agree_on_where_leader_epochs_began() -> None:
    replicas = [FakeReplica(log()) for _ in range(3)]
    for replica, start in zip(replicas, (1, 1, 2), strict=True):
        replica.epochs = [(0, 0), (5, start)]
    assert check(*replicas, isr=(0, 1)).is_good
    found = check(*replicas, isr=(0, 1, 2))
    assert not found.is_good
    assert found.unequal_epochs == {0: ((0, 0), (5, 1)), 1: ((0, 0), (5, 1)), 2: ((0, 0), (5, 2))}


def test_a_broker_of_an_earlier_release_says_nothing_of_epochs() -> None:
    older, newer = FakeReplica(log()), FakeReplica(log())
    older.epochs, newer.epochs = ErrorCode.UNSUPPORTED_VERSION, [(0, 0)]
    assert check(older, newer, isr=(0, 1)).is_good
    older.epochs = ErrorCode.KAFKA_STORAGE_ERROR
    assert check(older, newer, isr=(0, 1)).unreadable[0].code == ErrorCode.KAFKA_STORAGE_ERROR


def keyed(*keys: bytes) -> list[bytes]:
    return [pairs(offset, (key, b"value")) for offset, key in enumerate(keys)]


@pytest.mark.feature(115)
def test_compacted_replicas_are_compared_by_what_is_left() -> None:
    steps: list[tuple[int, int]] = []
    batches = keyed(b"a", b"b", b"a")
    cleaned = FakeReplica(batches[1:], high_watermark=3)
    lagging = FakeReplica(batches, high_watermark=2)
    assert check(lagging, cleaned, compacted=True).is_good, "read on up to its own high watermark"
    found = check(FakeReplica(batches), cleaned, on_progress=lambda *step: steps.append(step), compacted=True)
    assert found.is_good
    assert (found.end, found.equal, found.compared_bytes) == (3, (0, 1), len(b"".join(batches)))
    assert steps[-1] == (3, 3)
    assert not check(FakeReplica(batches), cleaned).is_good, "byte by byte they are not equal"
    lost = check(FakeReplica(batches), FakeReplica(batches[:2], high_watermark=3), compacted=True)
    assert (lost.differences[1].what, lost.differences[1].offset) == ("missing record", 2)


def test_a_compacted_replica_that_can_not_be_compared_to_the_end_is_unreadable() -> None:
    batches = keyed(b"a", b"b", b"a")
    damaged = batches[2][:-2] + b"x" + batches[2][-1:]
    found = check(
        FakeReplica(batches, high_watermark=2), FakeReplica([batches[1], damaged], high_watermark=3), compacted=True
    )
    assert found.unreadable[1].code == ErrorCode.CORRUPT_MESSAGE
    assert (found.equal, found.differences) == ((0,), {})


@pytest.mark.feature(115)
def test_of_a_compacted_topic_what_was_aborted_is_no_difference_and_what_is_open_not_compared() -> None:
    void, open_ = (
        pairs(at, (b"%d" % at, b"v"), producer_id=7, producer_epoch=0, attributes=TRANSACTIONAL) for at in (1, 3)
    )
    marker = placed(seal_marker(7, 1, EndTransactionMarker(False, 1), NOON), 2)
    whole = FakeReplica([pairs(0, (b"a", b"1")), void, marker, open_])
    cleaned = FakeReplica([pairs(0, (b"a", b"1")), marker, open_], high_watermark=4)
    for replica in (whole, cleaned):
        replica.last_stable_offset, replica.aborted = 3, [(7, 1)]
    found = check(whole, cleaned, compacted=True)
    assert found.is_good
    assert (found.end, found.not_compared) == (3, 1)
    whole.aborted.clear()
    found = check(whole, cleaned, compacted=True)
    assert [(d.what, d.offset) for d in found.differences.values()] == [("missing record", 1)], "it was not aborted"


@pytest.mark.parametrize("version", FETCH.versions)
def test_a_fetch_belongs_to_no_session_and_comes_from_a_consumer(version: int) -> None:
    names = TopicNames()
    names.learn(ID.topic_id, "t")
    for read_committed in (False, True):
        asked = fetch_of(ID, names, offset=7, max_bytes=100, read_committed=read_committed)
        request = arrived(asked.builder(1000)(version), version)
        (topic,) = request.topics
        (partition,) = topic.partitions
        assert (topic.topic, topic.topic_id) == (("t", bytes(16)) if version < 13 else ("", ID.topic_id))
        assert (partition.partition, partition.fetch_offset, partition.partition_max_bytes) == (3, 7, 100)
        assert (request.session_id, request.session_epoch, request.replica_id) == (0, -1, -1)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (0, 0, 100)
        assert (request.isolation_level, request.rack_id) == (int(read_committed), "")


def test_a_topic_without_a_known_name_is_not_read_from_a_broker_that_needs_names() -> None:
    asked = fetch_of(ID, TopicNames(), offset=0, max_bytes=0, read_committed=False)
    with pytest.raises(OttlaError) as caught:
        asked.builder(1000)(12)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
