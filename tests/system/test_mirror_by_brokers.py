"""MirrorClient over Kafka's protocol: brokers forward its calls to the mirrors that they know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from mirror_process import MirrorProcess
from mirrors import brokers_that_know
from waiting import wait_until

import ottla
from ottla.errors import ErrorCode, OttlaError
from ottla.testing import Cluster

FLOW = "east->west"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1) as running:
        yield running


@contextmanager
def client_of(*mirrors: str) -> Iterator[ottla.MirrorClient]:
    """A client of brokers that know these mirrors."""
    with (
        brokers_that_know(*mirrors) as front,
        ottla.MirrorClient(bootstrap=front.bootstrap, request_timeout=10) as client,
    ):
        yield client


def copied(client: ottla.MirrorClient) -> Sequence[int]:
    return sorted(p.partition for p in client.flow(FLOW).partitions if p.position is not None and not p.lag)


def translated(
    client: ottla.MirrorClient, partition: ottla.TopicPartition, offset: int
) -> dict[ottla.TopicPartition, int] | None:
    """None as long as the mirror that is called has not read where the copy of the offset is."""
    try:
        return client.translate(FLOW, {partition: offset})
    except ottla.UnknownTopicError:
        return None


@pytest.mark.feature(151)
def test_brokers_forward_to_the_mirrors_that_they_know(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path
) -> None:
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        for n in range(40):
            producer.send(f"{n}", partition=n % 2)
    arguments = (tmp_path, cluster.bootstrap, west.bootstrap, topic)
    with (
        MirrorProcess(*arguments) as one,
        MirrorProcess(*arguments, node_id=1) as other,
        client_of(one.address, other.address) as client,
    ):
        wait_until(lambda: copied(client) == [0, 1])
        assert [flow.name for flow in client.flows()] == [FLOW]
        copy = ottla.TopicPartition(f"east.{topic}", 0)
        wait_until(lambda: translated(client, ottla.TopicPartition(topic, 0), 20) == {copy: 20})
        with pytest.raises(ottla.UnknownTopicError, match="is not copied"):
            client.translate(FLOW, {ottla.TopicPartition("nothing", 0): 1})
        with pytest.raises(ottla.FatalError, match="there is no flow 'a->b'"):
            client.flow("a->b")
        with pytest.raises(ottla.FatalError, match="there is no flow 'a->b'"):
            client.pause("a->b")
        assert client.positions(FLOW, "nobody") == {}
        client.pause(FLOW)
        wait_until(lambda: client.flow(FLOW).paused)
        client.resume(FLOW)
        wait_until(lambda: not client.flow(FLOW).paused)
        assert client.failover(FLOW, dry_run=True).source_reached
        wait_until(lambda: copied(client) == [0, 1])
        assert sum(check.compared for check in client.verify(FLOW, [topic])) == 40
        one.terminate()
        wait_until(lambda: copied(client) == [0, 1])
        other.terminate()
        with pytest.raises(ottla.ConnectError, match="no mirror responds at"):
            client.flows()


def test_brokers_that_know_no_mirror_say_what_to_set() -> None:
    with client_of() as client, pytest.raises(OttlaError, match="know no mirrors") as caught:
        client.flows()
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert "OTTLA_BROKER__MIRRORS" in str(caught.value)


@pytest.mark.story("mirror-of-the-environment")
def test_without_an_address_the_brokers_are_called(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_MIRROR", raising=False)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    with ottla.MirrorClient() as client, pytest.raises(OttlaError, match="know no mirrors"):
        client.flows()
    monkeypatch.setenv("OTTLA_MIRROR", "127.0.0.1:1")
    with ottla.MirrorClient(request_timeout=1) as client, pytest.raises(ottla.ConnectError, match=r"at 127\.0\.0\.1:1"):
        client.flows()
    with ottla.MirrorClient(bootstrap=cluster.bootstrap) as client, pytest.raises(OttlaError, match="know no mirrors"):
        client.flows()  # an argument counts more than the environment
    monkeypatch.setenv("OTTLA_MIRROR", "")
    with ottla.MirrorClient() as client, pytest.raises(OttlaError, match="know no mirrors"):
        client.flows()


def test_a_mirror_and_brokers_are_not_given_together() -> None:
    with pytest.raises(ottla.ConfigError, match="can't be combined"):
        ottla.MirrorClient("127.0.0.1:1", bootstrap="127.0.0.1:1")
    with pytest.raises(ottla.ConfigError, match="needs a certificate of the role admin"):
        ottla.MirrorClient("127.0.0.1:1", tls=True)


def test_an_invalid_url_of_redis_is_not_shown() -> None:
    with pytest.raises(ottla.ConfigError, match="redis= is not a valid URL") as caught:
        ottla.MirrorClient(bootstrap="127.0.0.1:1", redis="redis://:hunter2/x@cache:6379/0")
    assert "hunter2" not in str(caught.value)
