"""Anybody may reach a broker's port and say that he is another broker: it is believed from its own process only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from waiting import LIMIT_S

import ottla
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import DESCRIBE_CLUSTER, METADATA
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.kafka_descriptions import describe_cluster
from ottla.machines.metadata import PartitionView
from ottla.testing import Cluster
from ottla_broker.config import BrokerConfig
from ottla_broker.replication.replica_fetcher import ReplicaFetcher
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.messages import DescribeClusterRequest, MetadataRequest
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.client import Peer
from ottla_proto import broker_pb2 as pb
from ottla_proto import contracts, controller_pb2

CLUSTER_ID = BrokerConfig().cluster_id


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t", partitions=1, replicas=2, config={"min.insync.replicas": 2})
        yield cluster


@pytest.mark.rule(22)
def test_a_false_follower_acknowledges_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. The follower stands still. 2. A record waits for it. 3. Somebody fetches in its name, with its epoch."""
    cluster.produce("t", [b"x"], acks="all")
    still = asyncio.Event()
    real = ReplicaFetcher.round

    async def stand_still(self: ReplicaFetcher, stream: Any) -> None:
        await still.wait()
        await real(self, stream)

    monkeypatch.setattr(ReplicaFetcher, "round", stand_still)
    with ottla.Admin(cluster.bootstrap) as admin:
        leader = admin.topics.describe("t")[0].partitions[0].leader
    follower = 1 - leader
    with (
        ottla.Producer(cluster.bootstrap, topic="t", acks="all", value="bytes") as producer,
    ):
        known, address = known_of(cluster), cluster.brokers[leader].address
        fetch(address, known, follower, secret_of(cluster, follower), offset=1)
        sent = producer.send(b"not copied yet")
        for secret in (b"", b"guess" * 8):
            with pytest.raises(OttlaError, match="does not have the secret") as refused:
                fetch(address, known, follower, secret, offset=2)
            assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with pytest.raises(TimeoutError):
            sent.result(timeout=1.0)
        cluster.run(release(still))
        assert sent.result(timeout=LIMIT_S).offset == 1
    copies = [broker.data_dir.glob("*-0/*.log") for broker in cluster.brokers]
    assert len({path.read_bytes() for paths in copies for path in paths if b"not copied" in path.read_bytes()}) == 1


@pytest.mark.story("controller-believes-a-published-epoch")
@pytest.mark.rule(22)
def test_a_false_broker_moves_the_controller_to_nothing(cluster: Cluster) -> None:
    known = known_of(cluster)
    leader, epoch = known.partition.leader, known.epochs[known.partition.leader]
    alone = controller_pb2.IsrProposal(
        topic_id=known.topic_id,
        leader_epoch=known.partition.leader_epoch,
        new_isr=[controller_pb2.IsrMember(broker_id=leader, broker_epoch=epoch)],
    )
    named: dict[str, Any] = {"broker_id": leader, "broker_epoch": epoch}
    as_instance: dict[str, Any] = {"kind": "broker", "instance_id": leader, "instance_epoch": epoch}
    calls: list[tuple[Any, Any]] = [
        (contracts.Controller.ALTER_PARTITION, controller_pb2.AlterPartitionRequest(**named, partitions=[alone])),
        (contracts.Controller.CONTROLLED_SHUTDOWN, controller_pb2.ControlledShutdownRequest(**named)),
        (contracts.Controller.ALLOCATE_PRODUCER_IDS, controller_pb2.AllocateProducerIdsRequest(**as_instance)),
    ]
    with closing(Peer(known.controller)) as controller:
        for method, request in calls:
            with pytest.raises(OttlaError) as refused:
                controller.call(method, request, timeout=LIMIT_S)
            assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert set(known_of(cluster).partition.isr) == {0, 1}


def test_nobody_is_told_the_secret(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    secret = secret_of(cluster, 1)
    assert len(secret) == 32
    assert secret != secret_of(cluster, 0)
    questions: tuple[Exchange[bytes], ...] = (
        Exchange(
            METADATA, lambda _: MetadataRequest(topics=None), lambda told: codec.encode(told, METADATA.versions[-1])
        ),
        Exchange(
            DESCRIBE_CLUSTER,
            lambda _: DescribeClusterRequest(include_fenced_brokers=True),
            lambda told: codec.encode(told, DESCRIBE_CLUSTER.versions[-1]),
        ),
    )
    with caplog.at_level(logging.DEBUG), client_of(cluster) as client:
        told = b"".join(client.exchange_any(asked, timeout=LIMIT_S) for asked in questions)
        cluster.produce("t", [b"x"], acks="all")
    assert b"directory" not in told
    assert secret not in told
    assert secret.hex() not in caplog.text
    assert repr(secret)[2:-1] not in caplog.text


class Known(NamedTuple):
    """What brokers of ottla report to its clients about topic t, its partition, the brokers and the controller."""

    topic_id: bytes
    partition: PartitionView
    epochs: dict[int, int]
    controller: str


def client_of(cluster: Cluster) -> closing[ClusterClient]:
    return closing(ClusterClient(cluster.bootstrap.split(","), KafkaTransport("false")))


def known_of(cluster: Cluster) -> Known:
    with client_of(cluster) as client:
        topic = client.fetch_metadata(["t"], timeout=LIMIT_S).topics["t"]
        described = describe_cluster(client, timeout=LIMIT_S)
    assert described is not None
    epochs = {broker.id: broker.epoch for broker in described.brokers}
    return Known(topic.id, topic.partitions[0], epochs, described.controller_address)


def secret_of(cluster: Cluster, broker_id: int) -> bytes:
    """As it lies in the metadata store, which clients do not reach."""
    key = keys.broker(broker_id)
    prefix = keys.prefix(CLUSTER_ID)
    snapshot = cluster.run(cluster._store.snapshot(prefix, timeout=LIMIT_S))
    text = keys.key_text(CLUSTER_ID, key)
    return next(bytes(decode(key, entry).secret) for entry in snapshot.entries if entry.key == text)


def fetch(address: str, known: Known, follower: int, secret: bytes, *, offset: int) -> pb.FetchResponse:
    """One frame, as a follower sends it that has everything up to `offset`."""
    leader_epoch = known.partition.leader_epoch
    said = pb.Follower(broker_id=follower, broker_epoch=known.epochs[follower], secret=secret)
    request = pb.FetchRequest(max_wait_ms=0, max_bytes=1000, follower=said)
    request.partitions.add(
        topic_id=known.topic_id,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=leader_epoch,
    )
    return asyncio.run(_fetched(address, request))


async def _fetched(address: str, request: pb.FetchRequest) -> pb.FetchResponse:
    peer = AioPeer(address, client_id="false")
    try:
        stream = peer.open_stream(contracts.Broker.REPLICA_FETCH)
        return await stream.response_to(await stream.send(request, timeout_ms=20_000), timeout=LIMIT_S)
    finally:
        await peer.close()


async def release(event: asyncio.Event) -> None:
    event.set()
