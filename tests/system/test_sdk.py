"""The SDK against real services, with each of its transports: what users write, as they would write it."""

import asyncio
import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from waiting import LIMIT_S

import ottla
import ottla.aio
from ottla.testing import Cluster

WAIT = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture
def topic(admin: ottla.Admin, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", ".").replace("]", "")[:200]
    admin.topics.create(name, partitions=3)
    return name


def everything(bootstrap: str, topic: str, **arguments: Any) -> list[ottla.Record[Any, Any]]:
    with ottla.Consumer(topic, bootstrap=bootstrap, start="earliest", stop="end", **arguments) as consumer:
        return list(consumer)


@pytest.mark.feature(164)
def test_the_first_program() -> None:
    with Cluster() as c:
        ottla.Admin(c.bootstrap).topics.create("t", partitions=3)
        with ottla.Producer(c.bootstrap, topic="t") as p:
            for i in range(10_000):
                p.send({"i": i}, key=str(i % 7))
        rows = [r.value["i"] for r in ottla.Consumer("t", bootstrap=c.bootstrap, start="earliest", stop="end")]
    assert sorted(rows) == list(range(10_000))
    for key in range(7):
        mine = [i for i in rows if i % 7 == key]
        assert mine == sorted(mine)


@pytest.mark.feature(22)
@pytest.mark.feature(102)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_comes_back_through_every_codec(bootstrap: str, topic: str, compression: Any) -> None:
    sent: list[tuple[Any, Any, list[tuple[str, bytes | None]]]] = [
        ("k", {"n": 1, "text": "Åse" * 50}, []),
        (None, "plain text " * 20, [("h", b"1"), ("h", None)]),
        ("gone", None, []),
        (None, bytes(range(256)), []),
        ("list", [1, None, "x"], []),
    ]
    with ottla.Producer(bootstrap, topic=topic, compression=compression) as producer:
        for n, (key, value, headers) in enumerate(sent):
            producer.send(value, key=key, headers=headers, partition=1, timestamp=1_000 + n)
    records = everything(bootstrap, topic)
    assert [(r.key, r.value, r.headers) for r in records] == sent
    assert [(r.partition, r.offset, r.timestamp) for r in records] == [(1, n, 1_000 + n) for n in range(5)]


@pytest.mark.feature(7)
@pytest.mark.feature(11)
@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_kind_of_acks(bootstrap: str, topic: str, acks: Any) -> None:
    with ottla.Producer(bootstrap, topic=topic, acks=acks) as producer:
        places = [producer.send(str(n), partition=n % 3).result(WAIT) for n in range(9)]
    assert [place.offset for place in places] == ([-1] * 9 if acks == 0 else [n // 3 for n in range(9)])
    with ottla.Consumer(topic, bootstrap=bootstrap, start="earliest", stop=9) as consumer:
        assert sorted(r.value for r in consumer) == [str(n) for n in range(9)]


@pytest.mark.feature(55)
@pytest.mark.feature(56)
def test_reading_by_time_and_by_offset(bootstrap: str, admin: ottla.Admin, topic: str) -> None:
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    with ottla.Producer(bootstrap, topic=topic, batch_size=200) as producer:
        for n in range(100):
            at = begun + timedelta(minutes=n)
            producer.send(str(n), partition=0, timestamp=int(at.timestamp() * 1000))
    half = begun + timedelta(minutes=50)
    first = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(topic, bootstrap=bootstrap, start=half, stop="end") as consumer:
        assert [r.offset for r in consumer] == list(range(50, 100))
        consumer.seek_to_time(begun + timedelta(minutes=90), first)
        assert consumer.position(first) == 90
    with ottla.Consumer(topic, bootstrap=bootstrap, start={first: 20}, stop=half) as consumer:
        assert [r.offset for r in consumer] == list(range(20, 50))
    assert admin.topics.offsets(topic, half) == {0: 50, 1: None, 2: None}
    assert admin.topics.offsets(topic, "latest") == {0: 100, 1: 0, 2: 0}


@pytest.mark.feature(46)
def test_records_that_were_cut_away_are_gone_and_a_reader_goes_on_after_them(
    bootstrap: str, admin: ottla.Admin, topic: str
) -> None:
    with ottla.Producer(bootstrap, topic=topic) as producer:
        for n in range(50):
            producer.send(str(n), partition=0)
    assert admin.topics.delete_records(topic, {0: 30}) == {0: 30}
    start = {ottla.TopicPartition(topic, 0): 5}
    with ottla.Consumer(
        topic, bootstrap=bootstrap, partitions=[0], start=start, stop="end", auto_offset_reset="earliest"
    ) as consumer:
        assert [r.offset for r in consumer] == list(range(30, 50))
    with pytest.raises(ottla.OffsetOutOfRangeError):
        admin.topics.delete_records(topic, {0: 1000})
    assert admin.topics.delete_records(topic) == {0: 50, 1: 0, 2: 0}


def test_a_waiting_reader_gets_what_comes_at_once(bootstrap: str, topic: str) -> None:
    consumer = ottla.Consumer(topic, bootstrap=bootstrap, start="latest", fetch_max_wait=10)
    producer = ottla.Producer(bootstrap, topic=topic, linger=0)
    with consumer, producer:
        assert not consumer.poll(0.1)  # its fetches are parked at the brokers now
        for n in range(3):
            producer.send(n_text := str(n), partition=n)
            assert [r.value for r in consumer.poll(5.0)] == [n_text]


@pytest.mark.feature(159)
@pytest.mark.feature(81)
def test_the_life_of_a_topic(admin: ottla.Admin) -> None:
    made = admin.topics.create("life", partitions=2, config={"retention.ms": "7d", "segment.bytes": "1MiB"})
    assert made is not None
    assert (made.name, len(made.partitions), made.replicas) == ("life", 2, 1)
    with pytest.raises(ottla.TopicExistsError):
        admin.topics.create("life")
    assert admin.topics.create("life", partitions=9, if_exists="ok") == made
    assert admin.topics.create("never", dry_run=True) is None
    assert ("life" in admin.topics.list(), "never" in admin.topics.list()) == (True, False)
    assert admin.configs.get(topic="life")["retention.ms"].value == "604800000"
    admin.topics.delete("life")
    assert not admin.topics.exists("life")
    with pytest.raises(ottla.UnknownTopicError):
        admin.topics.delete("life")
    admin.topics.delete("life", if_missing="ok")


@pytest.mark.feature(165)
def test_adding_partitions_warns_and_is_seen_by_clients_that_run(
    bootstrap: str, admin: ottla.Admin, topic: str
) -> None:
    with (
        ottla.Producer(bootstrap, topic=topic, metadata_max_age=0.1) as producer,
        ottla.Consumer(topic, bootstrap=bootstrap, start="earliest", metadata_max_age=0.1) as consumer,
    ):
        producer.send("old").result(WAIT)
        assert [r.value for r in consumer.poll(WAIT)] == ["old"]
        assert "key" in admin.topics.add_partitions(topic, 5)
        pause = threading.Event()
        while producer.partitions_for() < 5:
            assert not pause.wait(0.02)
        producer.send("new", partition=4)
        assert [(r.partition, r.value) for r in consumer.poll(WAIT)] == [(4, "new")]
    with pytest.raises(ottla.ConfigError):
        admin.topics.add_partitions(topic, 2)


def test_a_topic_that_is_made_again_is_another_one(bootstrap: str, admin: ottla.Admin) -> None:
    admin.topics.create("phoenix", partitions=1)
    with ottla.Producer(bootstrap, topic="phoenix") as producer:
        assert producer.send("old").result(WAIT).offset == 0
        admin.topics.delete("phoenix")
        admin.topics.create("phoenix", partitions=1)
        assert producer.send("new").result(WAIT).offset == 0
    assert [r.value for r in everything(bootstrap, "phoenix")] == ["new"]
    admin.topics.delete("phoenix")


@pytest.mark.feature(161)
def test_configs_of_topics_and_of_the_cluster(admin: ottla.Admin, topic: str) -> None:
    admin.configs.set({"retention.ms": timedelta(days=1), "cleanup.policy": ["compact", "delete"]}, topic=topic)
    found = admin.configs.get(topic=topic)
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("86400000", "DYNAMIC_TOPIC_CONFIG")
    assert found["cleanup.policy"].value == "compact,delete"
    admin.configs.unset("retention.ms", topic=topic)
    assert admin.configs.get(topic=topic)["retention.ms"].source == "DEFAULT_CONFIG"
    with pytest.raises(ottla.ConfigError, match=r"retention\.ms"):
        admin.configs.set({"retention.mss": 1}, topic=topic)
    with pytest.raises(ottla.ConfigError):
        admin.configs.set({"retention.ms": "soon"}, topic=topic)
    with pytest.raises(ottla.UnknownTopicError):
        admin.configs.get(topic="no-such-topic")
    with pytest.raises(ottla.ConfigError, match="can't be combined"):
        admin.configs.get(topic=topic, broker=0)


def test_the_cluster_and_its_brokers(cluster: Cluster, admin: ottla.Admin) -> None:
    found = admin.cluster.describe()
    assert sorted(broker.address for broker in found.brokers) == sorted(cluster.bootstrap.split(","))
    assert found.controller_address
    assert [broker.id for broker in found.brokers] == [0, 1, 2]


def test_a_record_the_broker_refuses_fails_with_kafkas_error(admin: ottla.Admin, bootstrap: str, topic: str) -> None:
    admin.configs.set({"max.message.bytes": 1000}, topic=topic)
    with ottla.Producer(bootstrap, topic=topic, linger=0.05) as producer:
        large = producer.send("x" * 5000, partition=0)
        small = producer.send("y", partition=1)
        with pytest.raises(ottla.RecordTooLargeError, match="larger than") as caught:
            large.result(WAIT)
        assert "max.message.bytes" in str(caught.value)
        assert small.result(WAIT).offset == 0


def test_the_error_of_a_record_that_is_too_large_has_the_limit(admin: ottla.Admin, bootstrap: str, topic: str) -> None:
    admin.configs.set({"max.message.bytes": 1000}, topic=topic)
    with (
        ottla.Producer(bootstrap, topic=topic) as producer,
        pytest.raises(ottla.RecordTooLargeError, match="1000"),
    ):
        producer.send("x" * 5000).result(WAIT)


def run_script(bootstrap: str, topic: str, last_line: str) -> subprocess.CompletedProcess[str]:
    """A script that sends one record with a long linger, and ends with `last_line` instead of a close."""
    script = f"import os, ottla; p = ottla.Producer({bootstrap!r}, topic={topic!r}, linger=30); p.send('x')"
    command = [sys.executable, "-c", f"{script}; {last_line}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_a_script_that_forgets_to_close_has_its_records_sent_at_exit(bootstrap: str, topic: str) -> None:
    done = run_script(bootstrap, topic, "pass")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "was not closed" in done.stderr
    assert [r.value for r in everything(bootstrap, topic)] == ["x"]


@pytest.mark.feature(33)
def test_what_is_in_the_buffer_of_a_client_that_crashes_is_lost(bootstrap: str, topic: str) -> None:
    assert run_script(bootstrap, topic, "os._exit(9)").returncode == 9
    assert everything(bootstrap, topic) == []


def test_clients_do_not_load_grpc(cluster: Cluster, topic: str) -> None:
    use = (
        "p.close(); import sys; "
        f"b = {{'bootstrap': {cluster.bootstrap!r}, 'auto_offset_reset': 'earliest'}}; "
        f"print([r.value for r in ottla.Consumer({topic!r}, group={topic!r}, stop='end', **b)]); "
        f"print({topic!r} in ottla.Admin({cluster.bootstrap!r}).topics.list()); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('grpc', 'ottla_stack', 'confluent_kafka')])"
    )
    assert run_script(cluster.bootstrap, topic, use).stdout.splitlines() == ["['x']", "True", "[]"]


async def test_records_sent_and_read_with_asyncio_are_whole(bootstrap: str, topic: str) -> None:
    async with ottla.aio.Producer(bootstrap, topic=topic, compression="lz4") as producer:
        places = await asyncio.gather(*(producer.send({"n": n}, key=str(n % 5)) for n in range(2000)))
    assert len({(place.partition, place.offset) for place in places}) == 2000
    consumer = ottla.aio.Consumer(topic, bootstrap=bootstrap, start="earliest", stop="end")
    async with consumer:
        rows = [r.value["n"] async for r in consumer]
    assert sorted(rows) == list(range(2000))


# ---- wrong addresses -------------------------------------------------------------------------------------------------


def complaint(bootstrap: str, timeout: float = 5.0) -> str:
    with ottla.Admin(bootstrap, request_timeout=timeout) as admin, pytest.raises(ottla.OttlaError) as caught:
        admin.cluster.describe()
    assert isinstance(caught.value, ottla.ConnectError | ottla.TimeoutError | ottla.NotABrokerError)
    return str(caught.value)


def test_an_address_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert f"nothing listens at 127.0.0.1:{port}" in complaint(f"127.0.0.1:{port}", timeout=0.5)


def test_a_name_that_does_not_resolve() -> None:
    assert "can't be resolved" in complaint("no-such-host.invalid:9092", timeout=0.5)


def test_a_brokers_grpc_port_is_named(cluster: Cluster) -> None:
    address = cluster.brokers[0].address
    words = complaint(address)
    assert f"{address} is a gRPC port" in words
    assert "9092" in words
    with ottla.Producer(address, topic="t") as producer, pytest.raises(ottla.NotABrokerError):
        producer.send("x")  # raises at once, and not after max_block
    with ottla.Consumer("t", bootstrap=address) as consumer, pytest.raises(ottla.NotABrokerError):
        consumer.poll()


def test_a_port_that_accepts_and_is_silent(background: Any) -> None:
    assert "did not answer in time" in complaint(background(lambda connection: connection.recv(1000)), timeout=0.5)


def test_an_http_port_is_named() -> None:
    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert "is an HTTP port" in complaint(f"127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def background() -> Iterator[Any]:
    """Serve connections with a function, each on a thread; gives the address."""
    servers: list[socket.socket] = []

    def serve(answer: Any) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def handle(connection: socket.socket) -> None:
            with connection:
                try:
                    answer(connection)
                    connection.recv(1000)
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        host, port = server.getsockname()
        return f"{host}:{port}"

    yield serve
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
