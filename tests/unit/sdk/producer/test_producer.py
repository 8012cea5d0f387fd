"""The producer against scripted brokers: what arrives, in which order, and what each record's Delivery says."""

import logging
import threading
from typing import Any

import pytest
from scripted_requests import parts
from waiting import wait_until

from ottla.client.kafka.apis import INIT_PRODUCER_ID, PRODUCE
from ottla.errors import (
    BufferFullError,
    ConfigError,
    ConnectError,
    DeliveryError,
    ErrorCode,
    OttlaError,
    RecordTooLargeError,
    SerializationError,
    TimeoutError,  # noqa: A004
    UnknownTopicError,
)
from ottla.fakes.scripted import Break, Hang, Hold, Reject, ScriptedCluster
from ottla.producer.delivery import Delivery, RecordMetadata
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import InitProducerIdRequest, MetadataRequest, ProduceRequest
from ottla_core.model import TopicPartition

WAIT = 10.0
T0 = TopicPartition("t", 0)


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer(
        "b0:1", **{"topic": "t", "value": "bytes", "retry_backoff": 0.01, "_transport": cluster.connect, **arguments}
    )


@pytest.mark.feature(4)
@pytest.mark.feature(8)
@pytest.mark.feature(9)
@pytest.mark.feature(11)
def test_records_arrive_in_order_and_deliveries_say_where() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        deliveries = [producer.send(b"%d" % n, timestamp=5000 + n) for n in range(100)]
        assert deliveries[7].result(WAIT) == RecordMetadata("t", 0, 7, 5007)
        assert [d.result(WAIT).offset for d in deliveries] == list(range(100))
    assert cluster.values("t", 0) == [b"%d" % n for n in range(100)]


@pytest.mark.feature(23)
@pytest.mark.feature(25)
@pytest.mark.feature(26)
def test_partitions_by_key_by_number_and_by_callable() -> None:
    cluster = ScriptedCluster({"t": 6})
    with producer_of(cluster, key="str") as producer:
        by_key = {producer.send(b"k", key="foobar").result(WAIT).partition for _ in range(3)}
        assert by_key == {(-790332482 % (1 << 31)) % 6}
        assert producer.send(b"n", key="foobar", partition=4).result(WAIT).partition == 4
        with pytest.raises(ConfigError, match="partitions are 0 to 5"):
            producer.send(b"n", partition=6)
    with producer_of(cluster, partitioner=lambda topic, key, value, count: len(value or b"") % count) as producer:
        assert producer.send(b"12345678").result(WAIT).partition == 2


@pytest.mark.feature(24)
@pytest.mark.feature(25)
@pytest.mark.feature(26)
@pytest.mark.parametrize("partitioner", ["round_robin", "random"])
def test_single_records_are_spread_over_partitions_with_a_leader_whatever_their_key(partitioner: Any) -> None:
    cluster = ScriptedCluster({"t": 4})
    cluster.move_leader("t", 2, broker=-1, epoch=1)
    with producer_of(cluster, key="str", partitioner=partitioner) as producer:
        places = [producer.send(b"x", key="same").result(WAIT).partition for _ in range(60)]
        assert set(places) == {0, 1, 3}
        counts = [places.count(n) for n in (0, 1, 3)]
        assert counts == [20, 20, 20] if partitioner == "round_robin" else min(counts) > 3
        assert producer.send(b"x", key="same", partition=1).result(WAIT).partition == 1


@pytest.mark.feature(24)
def test_records_without_a_key_fill_one_partition_after_the_other() -> None:
    cluster = ScriptedCluster({"t": 3})
    with producer_of(cluster, batch_size=1000, max_request_size=1000, linger=60, delivery_timeout=120) as producer:
        for _ in range(90):
            producer.send(b"x" * 100)
    counts = [len(cluster.values("t", n)) for n in range(3)]
    assert sum(counts) == 90
    assert max(counts) - min(counts) <= 9
    batches = parts(cluster, ProduceRequest)
    assert all(len(part.records) > 500 for part in batches[:-1])


@pytest.mark.feature(31)
@pytest.mark.feature(32)
@pytest.mark.parametrize(
    "failure", [Break(), Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER), Reject(ErrorCode.NOT_ENOUGH_REPLICAS)]
)
def test_what_is_retriable_is_sent_again_in_order(failure: Any) -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, failure, failure)
    with producer_of(cluster, batch_size=200) as producer:
        deliveries = [producer.send(b"%03d" % n * 30) for n in range(20)]
        assert [d.result(WAIT).offset for d in deliveries] == list(range(20))
    assert cluster.values("t", 0) == [b"%03d" % n * 30 for n in range(20)]


@pytest.mark.feature(32)
def test_a_leader_that_moved_is_found_by_metadata() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    with producer_of(cluster) as producer:
        assert producer.send(b"before").result(WAIT).offset == 0
        cluster.move_leader("t", 0, broker=1, epoch=1)
        assert producer.send(b"after").result(WAIT).offset == 1
    addresses = [address for address, body in cluster.seen if isinstance(body, ProduceRequest)]
    assert addresses[0] == "b0:1"
    assert addresses[-1] == "b1:1"


def test_a_leader_named_in_the_answer_is_taken_at_once() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    with producer_of(cluster, retry_backoff=30, delivery_timeout=120) as producer:
        producer.send(b"before").result(WAIT)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        cluster.will(PRODUCE, Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(1, 1)))
        assert producer.send(b"after").result(WAIT).offset == 1


@pytest.mark.rule(66)
@pytest.mark.parametrize("settings", [{"acks": 1}, {"enable_idempotence": False}])
def test_a_lost_answer_may_write_a_record_twice(settings: dict[str, Any]) -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Break(applied=True))
    with producer_of(cluster, **settings) as producer:
        assert producer.send(b"x").result(WAIT).offset == 1
    assert cluster.values("t", 0) == [b"x", b"x"]
    assert cluster.requests(InitProducerIdRequest) == []


@pytest.mark.rule(25)
@pytest.mark.feature(21)
def test_an_idempotent_producer_writes_it_once_and_hears_where() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, None, Break(applied=True), Break(applied=True))
    with producer_of(cluster) as producer:
        assert producer.send(b"first").result(WAIT).offset == 0
        assert producer.send(b"x").result(WAIT).offset == 1
    assert cluster.values("t", 0) == [b"first", b"x"]
    first, once, twice, thrice = (part.records for part in parts(cluster, ProduceRequest))
    assert first != once == twice == thrice


@pytest.mark.feature(140)
def test_what_the_application_sends_twice_is_written_twice() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        for _ in range(2):
            producer.send(b"x").result(WAIT)
    assert cluster.values("t", 0) == [b"x", b"x"]


@pytest.mark.feature(175)
@pytest.mark.rule(27)
def test_order_and_number_survive_a_bad_connection_with_five_batches_in_flight() -> None:
    cluster = ScriptedCluster({"t": 2}, brokers=2)
    refused = Reject(ErrorCode.NOT_ENOUGH_REPLICAS), Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.will(PRODUCE, *[None, Break(), None, Break(applied=True), *refused] * 8)
    with producer_of(cluster, batch_size=100, linger=0) as producer:
        deliveries = [producer.send(b"%04d" % n, partition=n % 2) for n in range(400)]
        assert all(delivery.result(WAIT).offset == n // 2 for n, delivery in enumerate(deliveries))
    for partition in range(2):
        assert cluster.values("t", partition) == [b"%04d" % n for n in range(partition, 400, 2)]


def test_a_broker_that_can_give_no_producer_id_yet_is_asked_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(INIT_PRODUCER_ID, Reject(ErrorCode.NOT_CONTROLLER), Break(), Hang())
    with producer_of(cluster) as producer:
        assert producer.send(b"x").result(WAIT).offset == 0
    assert len(cluster.requests(InitProducerIdRequest)) == 4


def test_a_refused_producer_id_fails_records_in_words_and_the_next_asks_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(INIT_PRODUCER_ID, Reject(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""))
    with producer_of(cluster) as producer:
        with pytest.raises(OttlaError, match="may not do this with the cluster"):
            producer.send(b"x").result(WAIT)
        assert producer.send(b"y").result(WAIT).offset == 0


def test_a_broker_that_forgot_the_producer_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer, caplog.at_level(logging.WARNING, "ottla.producer"):
        producer.send(b"1").result(WAIT)
        cluster.will(PRODUCE, Reject(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it starts at 0"))
        assert producer.send(b"2").result(WAIT).offset == 1
    assert ["may be written twice" in record.message for record in caplog.records] == [True]


@pytest.mark.feature(32)
@pytest.mark.rule(10)
@pytest.mark.parametrize("acks", ["all", 1])
def test_a_leader_that_hangs_is_left_when_another_one_leads(acks: Any) -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    with producer_of(cluster, acks=acks) as producer:
        producer.send(b"before").result(WAIT)
        cluster.stop(0)
        waiting = [producer.send(b"%d" % n) for n in range(3)]
        cluster.until(lambda: sum(isinstance(body, MetadataRequest) for _, body in cluster.seen) > 2)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        assert [delivery.result(WAIT).offset for delivery in waiting] == [1, 2, 3]
        cluster.go_on(0)  # and what it was sent is refused: it leads no more
        assert producer.send(b"after").result(WAIT).offset == 4
    assert cluster.values("t", 0) == [b"before", b"0", b"1", b"2", b"after"]


@pytest.mark.rule(66)
@pytest.mark.feature(7)
def test_acks_0_is_done_when_sent_and_says_no_offset() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, acks=0) as producer:
        assert producer.send(b"x").result(WAIT).offset == -1
    (request,) = cluster.requests(ProduceRequest)
    assert request.acks == 0
    assert cluster.values("t", 0) == [b"x"]  # the close has waited for the broker to take it


@pytest.mark.rule(66)
def test_acks_0_finds_a_leader_that_moved_when_its_stream_ends() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    with producer_of(cluster, acks=0) as producer:
        producer.send(b"first").result(WAIT)
        cluster.until(lambda: len(cluster.logs[T0].batches) == 1)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        arrived = threading.Event()
        for _ in range(500):
            producer.send(b"later").result(WAIT)
            if len(cluster.logs[T0].batches) > 1 or arrived.wait(0.01):
                break
    assert set(cluster.values("t", 0)[1:]) == {b"later"}


@pytest.mark.feature(7)
@pytest.mark.parametrize(("acks", "code"), [("all", -1), (1, 1)])
def test_acks_travel_with_the_request(acks: Any, code: int) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, acks=acks) as producer:
        producer.send(b"x").result(WAIT)
    assert [request.acks for request in cluster.requests(ProduceRequest)] == [code]


@pytest.mark.feature(13)
def test_a_record_that_nobody_takes_fails_at_the_delivery_timeout() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, *[Reject(ErrorCode.NOT_ENOUGH_REPLICAS, "1 of 2")] * 1000)
    producer = producer_of(cluster, delivery_timeout=0.4, request_timeout=0.2)
    error = producer.send(b"x").exception(WAIT)
    assert isinstance(error, TimeoutError)
    assert "delivery_timeout=0.4 s" in str(error)
    assert "1 of 2" in str(error)
    producer.close()


def test_a_delivery_that_is_tried_again_says_why_the_last_try_failed() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, *[Reject(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")] * 10_000)
    producer = producer_of(cluster)
    delivery = producer.send(b"x")
    wait_until(lambda: "the disk is full" in str(delivery.last_refusal()))
    with pytest.raises(TimeoutError, match="the last attempt failed: t-0: the disk is full"):
        delivery.result(0)
    producer.close(timeout=0)
    assert delivery.last_refusal() is None


@pytest.mark.feature(14)
def test_a_broker_that_hangs_is_left_after_the_request_timeout() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    with producer_of(cluster, request_timeout=0.2) as producer:
        assert producer.send(b"x").result(WAIT).offset == 0
    assert len(cluster.requests(ProduceRequest)) == 2


@pytest.mark.feature(12)
@pytest.mark.feature(18)
def test_a_full_buffer_makes_send_wait_and_then_raise() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    with producer_of(cluster, buffer_memory=3000, batch_size=1000, max_block=0.2) as producer:
        for _ in range(3):
            producer.send(b"x" * 900)
        with pytest.raises(BufferFullError, match=r"max_block=0.2 s"):
            producer.send(b"x" * 900)
        cluster.release()
        assert producer.send(b"late" * 200).result(WAIT).offset == 3
    assert len(cluster.values("t", 0)) == 4


@pytest.mark.feature(18)
def test_a_send_that_waits_for_room_goes_on_when_there_is_some() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, buffer_memory=4000, batch_size=1000) as producer:
        for n in range(200):
            producer.send(b"%03d" % n * 100)
    assert cluster.values("t", 0) == [b"%03d" % n * 100 for n in range(200)]


@pytest.mark.feature(10)
def test_callbacks_run_in_order_on_a_thread_of_their_own() -> None:
    cluster = ScriptedCluster({"t": 1})
    seen: list[tuple[int, str]] = []

    def note(delivery: Delivery) -> None:
        seen.append((delivery.result().offset, threading.current_thread().name))
        if len(seen) == 2:
            raise ValueError("a callback's own mistake")

    with producer_of(cluster, client_id="mine") as producer:
        for _ in range(5):
            producer.send(b"x").add_done_callback(note)
    assert [offset for offset, _ in seen] == [0, 1, 2, 3, 4]
    assert {name for _, name in seen} == {"ottla-callbacks-mine"}


def test_failures_that_nobody_asked_about_are_logged_once_and_raised_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, *[Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not")] * 3)
    producer = producer_of(cluster)
    with caplog.at_level(logging.ERROR, "ottla.producer"):
        for _ in range(3):
            producer.send(b"x")
            until_settled(producer)
    with pytest.raises(DeliveryError, match="3 records were not delivered") as caught:
        producer.flush()
    producer.close()
    assert caught.value.failed == 3
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len([r for r in caplog.records if "not delivered" in r.message]) == 1


def test_a_failure_that_somebody_asked_about_is_not_raised_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no key"))
    with producer_of(cluster, linger=0.2) as producer, pytest.raises(OttlaError, match="no key"):
        producer.send(b"x").result(WAIT)


def test_an_error_inside_the_block_closes_and_stays_the_error() -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster, linger=60, delivery_timeout=120)

    def fail_inside() -> None:
        with producer:
            producer.send(b"x")
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert cluster.values("t", 0) == [b"x"]
    with pytest.raises(ConfigError, match="closed"):
        producer.send(b"y")


@pytest.mark.feature(17)
def test_flush_does_not_wait_for_linger_and_names_what_is_left() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    with producer_of(cluster, linger=60, delivery_timeout=120) as producer:
        delivery = producer.send(b"x")
        with pytest.raises(TimeoutError, match="1 batch has"):
            producer.flush(0.1)
        assert not delivery.done()
        cluster.release()
        producer.flush(WAIT)
        assert delivery.done()


def test_a_flush_returns_when_everybody_was_told() -> None:
    cluster = ScriptedCluster({"t": 1})
    settling, gate, flushed = threading.Event(), threading.Event(), threading.Event()

    def hook() -> None:
        settling.set()
        gate.wait(WAIT)

    def flush() -> None:
        producer.flush(WAIT)
        flushed.set()

    with producer_of(cluster) as producer:
        producer.send(b"x").on_settled(hook)
        assert settling.wait(WAIT)
        thread = threading.Thread(target=flush)
        thread.start()
        assert not flushed.wait(0.1)
        gate.set()
        assert flushed.wait(WAIT)
        thread.join()


def test_closing_fails_what_is_left() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster)
    delivery = producer.send(b"x")
    cluster.until(lambda: any(isinstance(body, ProduceRequest) for _, body in cluster.seen))
    with pytest.raises(DeliveryError):
        producer.close(0.05)
    assert isinstance(delivery.exception(0), ConnectError)
    producer.close()


def test_a_topic_that_does_not_exist_is_named_with_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.05)
    cluster = ScriptedCluster({"orders": 1})
    with producer_of(cluster, topic=None) as producer:
        with pytest.raises(UnknownTopicError, match="did you mean orders"):
            producer.send(b"x", topic="order")
        with pytest.raises(ConfigError, match="no topic to send to"):
            producer.send(b"x")
        with pytest.raises(ConfigError, match="not valid"):
            producer.send(b"x", topic="..")
        assert producer.send(b"x", topic="orders").result(WAIT).topic == "orders"


def test_a_topic_that_grows_gets_its_new_partitions_used() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, metadata_max_age=0.05) as producer:
        producer.send(b"x").result(WAIT)
        cluster.add_topic("t", 3)
        waiting = threading.Event()
        while producer.partitions_for() == 1:
            assert not waiting.wait(0.01)
        assert producer.send(b"x", partition=2).result(WAIT).partition == 2


def test_what_can_not_be_sent_is_refused_at_once_and_leaves_the_rest_alone() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, value=lambda value: value, max_request_size=2000) as producer:
        with pytest.raises(SerializationError, match="a record to t was not sent"):
            producer.send("not bytes")
        with pytest.raises(RecordTooLargeError):
            producer.send(b"x" * 3000)
        with pytest.raises(ConfigError, match="timestamp=-1"):
            producer.send(b"x", timestamp=-1)
        with pytest.raises(SerializationError, match="headers="):
            producer.send(b"x", headers=[("a", 1)])  # type: ignore[list-item]  # what no type allows
        assert producer.send(b"good").result(WAIT).offset == 0


@pytest.mark.feature(3)
def test_a_poisonous_record_is_named_and_harms_no_other() -> None:
    def poisoned(value: bytes) -> bytes:
        return {b"good": value, b"also good": value}[value]

    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, value=poisoned, key="str") as producer:
        producer.send(b"good")
        with pytest.raises(SerializationError) as caught:
            producer.send(b"bad", key="eu")
        producer.send(b"also good")
    assert caught.value.message == (
        "the record to t with the key 'eu' was not sent: its serializer raised KeyError: b'bad'"
    )
    assert cluster.values("t", 0) == [b"good", b"also good"]


@pytest.mark.feature(22)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_compressed_and_stays_so(compression: Any) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, compression=compression) as producer:
        for _ in range(100):
            producer.send(b"the same again " * 10)
    sizes = sum(len(part.records) for part in parts(cluster, ProduceRequest))
    assert (sizes > 15_000) == (compression == "none")
    assert cluster.values("t", 0) == [b"the same again " * 10] * 100


def test_many_threads_share_a_producer() -> None:
    cluster = ScriptedCluster({"t": 2})
    with producer_of(cluster, batch_size=2000) as producer:

        def send(name: int) -> None:
            for n in range(500):
                producer.send(b"%d-%d" % (name, n), partition=name % 2)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in range(4):
        mine = [v for v in cluster.values("t", name % 2) if v and v.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, n) for n in range(500)]


@pytest.mark.feature(5)
@pytest.mark.feature(102)
def test_null_keys_values_and_headers_travel() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.send(None, headers={"why": None, "who": "me"}).result(WAIT)
    assert cluster.records("t", 0)[0][2:] == (None, None, [("why", None), ("who", b"me")])


def until_settled(producer: Producer[Any, Any]) -> None:
    """Wait until the producer has nothing left, without asking for an outcome."""
    waiting = threading.Event()
    while producer._accumulator.incomplete:
        assert not waiting.wait(0.005)


@pytest.mark.story("topics-never-forgotten")
@pytest.mark.parametrize("idempotent", [True, False])
def test_topics_that_nothing_is_sent_to_are_forgotten_and_found_again(idempotent: bool) -> None:
    topics = {f"t{n}": 2 for n in range(20)}
    cluster = ScriptedCluster(topics)
    with producer_of(cluster, metadata_max_idle=0.2, enable_idempotence=idempotent, topic=None) as producer:
        kept = producer._find_target("t0")
        for topic in topics:
            producer.send(b"1", topic=topic).result(WAIT)

        def forgotten() -> bool:
            producer._topics.updater.refresh()  # as it does by itself now and then
            return not producer._targets and not producer._topics.updater.view.topics

        wait_until(forgotten)
        for topic in topics:
            producer.send(b"2", topic=topic, partition=1).result(WAIT)
            producer.send(b"3", topic=topic, partition=1).result(WAIT)
        # a send that had looked its topic up just before it was forgotten
        wait_until(forgotten)
        with producer._lock:
            producer._append_to_new(kept, kept.queues[0], 1, None, b"late", ())
        producer.flush(WAIT)
    assert b"late" in cluster.values("t0", 0)
    for topic in topics:
        assert cluster.values(topic, 1)[-2:] == [b"2", b"3"]


@pytest.mark.story("a-code-and-nothing-else")
def test_a_rejection_without_words_names_the_partition_and_what_the_code_means() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ""))
    with producer_of(cluster) as producer:
        error = producer.send(b"x").exception(WAIT)
    assert str(error) == "t-0: the user may not do this with the topic (TOPIC_AUTHORIZATION_FAILED)"
