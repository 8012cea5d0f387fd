"""The first contact: nobody there, or nobody who is a broker, is said within seconds; later outages are waited for."""

import asyncio
import inspect
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

import ottla
import ottla.aio
from ottla.client.cluster import ClusterClient
from ottla.client.diagnose import Diagnosis, diagnose_all
from ottla.client.kafka.apis import METADATA
from ottla.fakes.scripted import Break, ScriptedCluster

Call = Callable[..., object]


def produce(bootstrap: str, **arguments: Any) -> object:
    with ottla.Producer(bootstrap, topic="t", **arguments) as producer:
        return producer.send("x")


def consume(bootstrap: str, **arguments: Any) -> object:
    with ottla.Consumer("t", bootstrap=bootstrap, start="earliest", **arguments) as consumer:
        return next(iter(consumer))


def consume_in_group(bootstrap: str, **arguments: Any) -> object:
    with ottla.Consumer("t", bootstrap=bootstrap, group="g", **arguments) as consumer:
        return consumer.poll(60)


def administer(bootstrap: str, **arguments: Any) -> object:
    with ottla.Admin(bootstrap, **arguments) as admin:
        return admin.topics.list()


def produce_async(bootstrap: str, **arguments: Any) -> object:
    async def send() -> object:
        async with ottla.aio.Producer(bootstrap, topic="t", **arguments) as producer:
            return await producer.send("x")

    return asyncio.run(send())


CLIENTS = [produce, consume, consume_in_group, administer, produce_async]


@pytest.fixture
def closed_port() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def silent_port() -> Iterator[str]:
    """Connections are accepted and nothing is said: a broker that hangs, or has no time just now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def grpc_port() -> Iterator[str]:
    """The address of a gRPC server, as every service of a stack has one."""
    server = grpc.server(ThreadPoolExecutor(2))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.story("no-broker-no-word")
@pytest.mark.parametrize("client", CLIENTS)
def test_where_nobody_listens_the_first_call_says_so_in_one_sentence(
    client: Call, closed_port: str, caplog: pytest.LogCaptureFixture
) -> None:
    began_at = time.monotonic()
    with pytest.raises(ottla.ConnectError) as caught:
        client(closed_port, connect_timeout=2.5)
    assert time.monotonic() - began_at < 20  # the other timeouts are 30 and 60 s
    assert caught.value.message == f"no broker answered within 2.5 s: nothing listens at {closed_port}"
    assert "ottla up" in caught.value.hint
    assert "connect_timeout=" in caught.value.hint
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert "can't fetch metadata" not in caplog.text


@pytest.mark.parametrize("kind", [ottla.Producer, ottla.Consumer, ottla.Admin])
def test_five_seconds_are_what_it_takes_unless_one_says_otherwise(kind: Callable[..., Any]) -> None:
    assert inspect.signature(kind).parameters["connect_timeout"].default == 5.0


def test_a_second_call_looks_again(closed_port: str) -> None:
    with ottla.Producer(closed_port, topic="t", connect_timeout=2.2) as producer:
        for _ in range(2):
            with pytest.raises(ottla.ConnectError, match="nothing listens"):
                producer.send("x")


def test_a_broker_that_is_there_and_slow_is_waited_for() -> None:
    with silent_port() as address, ottla.Admin(address, connect_timeout=1.1, request_timeout=3.0) as admin:
        began_at = time.monotonic()
        with pytest.raises(ottla.OttlaError, match=r"within (3|2\.\d) s: .* accepts connections but did not answer"):
            admin.cluster.describe()
        assert time.monotonic() - began_at > 2


def test_an_outage_after_the_first_contact_is_waited_for() -> None:
    brokers = ScriptedCluster({"t": 1})
    gone = Diagnosis("nothing listens", hopeless=False)
    cluster = ClusterClient(["b0:1"], brokers.connect, connect_timeout=0.0, diagnose=lambda _: gone)
    cluster.fetch_metadata(timeout=5)
    brokers.will(METADATA, *[Break()] * 4)
    assert cluster.fetch_metadata(["t"], timeout=60).topics["t"].partitions
    other = ClusterClient(["b0:1"], brokers.connect, connect_timeout=0.0, diagnose=lambda _: gone)
    brokers.will(METADATA, *[Break()] * 4)
    with pytest.raises(ottla.ConnectError, match="within 0 s: nothing listens"):
        other.fetch_metadata(["t"], timeout=60)


@pytest.mark.story("wrong-port-of-the-own-stack")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_grpc_port_is_named_within_seconds(client: Call, grpc_port: str) -> None:
    began_at = time.monotonic()
    with pytest.raises(ottla.NotABrokerError) as caught:
        client(grpc_port)
    assert time.monotonic() - began_at < 5
    assert caught.value.message == (
        f"no broker answered: {grpc_port} is a gRPC port, not a broker's Kafka port (usually 9092)"
    )
    assert "localhost:9092" in caught.value.hint


def test_a_name_that_takes_long_to_resolve_is_not_waited_for() -> None:
    def diagnose(address: str) -> Diagnosis:
        if address == "slow:1":
            time.sleep(30)
        return Diagnosis(f"{address} is silent", hopeless=False)

    began_at = time.monotonic()
    found = diagnose_all(["slow:1", "b:1"], diagnose)
    assert time.monotonic() - began_at < 15
    assert [diagnosis.message for diagnosis in found] == ["slow:1 can't be reached", "b:1 is silent"]
