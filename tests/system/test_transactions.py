"""A txn-coordinator beside real services: producers, decisions, markers, and what a takeover finishes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_broker.service import BrokerService
from ottla_core.errors import COORDINATOR_MOVES, ErrorCode, OttlaError
from ottla_core.rpc.client import Peer
from ottla_core.rpc.status import raise_error
from ottla_group_coordinator.service import GroupService
from ottla_proto import broker_pb2, group_pb2
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Txn

LIMIT_S: Final = 30.0
RETRIED: Final = COORDINATOR_MOVES | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NETWORK_EXCEPTION}


class Markers:
    """What the leaders and the owners of groups were given, in the place of what they do with it."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int, int, int, bool]] = []
        self.failing = False

    async def to_leader(self, service: object, request: Any, context: object) -> broker_pb2.WriteTxnMarkersResponse:
        self._check()
        return broker_pb2.WriteTxnMarkersResponse(
            markers=[
                broker_pb2.MarkerWritten(partitions=[self._write(item.marker, p.partition) for p in item.partitions])
                for item in request.markers
            ]
        )

    async def to_groups(self, service: object, request: Any, context: object) -> group_pb2.WriteShardMarkersResponse:
        self._check()
        return group_pb2.WriteShardMarkersResponse(
            markers=[
                group_pb2.ShardMarkerWritten(shards=[self._write(item.marker, -1) for _ in item.shards])
                for item in request.markers
            ]
        )

    def _check(self) -> None:
        if self.failing:
            raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "not now")

    def _write(self, marker: Any, partition: int) -> Any:
        self.written.append(
            (marker.producer.id, marker.producer.epoch, marker.coordinator_epoch, partition, marker.committed)
        )
        return broker_pb2.MarkerWritten().partitions.add()


def checked(response: Any) -> Any:
    """The response, without an error inside."""
    if isinstance(response, pb.AddPartitionsResponse):
        raise_error(response.transactions[0].error)
    return response


class Client:
    """Whichever coordinator answers for an id is asked, until one does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def call(self, method: Any, request: Any) -> Any:
        give_up_at = time.monotonic() + LIMIT_S
        while True:
            for coordinator in self._cluster.txn_coordinators:
                peer = Peer(coordinator.address, client_id="tester")
                try:
                    return checked(peer.call(method, request, timeout=LIMIT_S))
                except OttlaError as error:
                    if error.code not in RETRIED or time.monotonic() > give_up_at:
                        raise
                finally:
                    peer.close()
            time.sleep(0.02)

    def init(self, name: str, **more: Any) -> TxnProducer:
        request = pb.InitProducerRequest(transactional_id=name, timeout_ms=60_000, **more)
        producer: TxnProducer = self.call(Txn.INIT_PRODUCER, request).producer
        return producer

    def add(self, name: str, producer: TxnProducer, *partitions: int) -> None:
        item = pb.PartitionsToAdd(transactional_id=name, producer=producer, transaction_version=2)
        item.partitions.extend(pb.TxnPartition(topic="t", partition=n) for n in partitions)
        added = self.call(Txn.ADD_PARTITIONS, pb.AddPartitionsRequest(transactions=[item])).transactions[0]
        assert not any(error.code for error in added.partitions), added.partitions

    def end(self, name: str, producer: TxnProducer, *, committed: bool = True) -> TxnProducer:
        request = pb.EndTxnRequest(transactional_id=name, producer=producer, committed=committed, transaction_version=2)
        after: TxnProducer = self.call(Txn.END_TXN, request).producer
        return after

    def state(self, name: str) -> pb.TransactionDescription:
        for coordinator in self._cluster.txn_coordinators:
            peer = Peer(coordinator.address)
            try:
                request = pb.DescribeTransactionsRequest(transactional_ids=[name])
                (described,) = peer.call(Txn.DESCRIBE_TRANSACTIONS, request, timeout=LIMIT_S).transactions
            except OttlaError:
                continue
            finally:
                peer.close()
            if not described.error.code:
                return described
        return pb.TransactionDescription()


@pytest.fixture
def markers(monkeypatch: pytest.MonkeyPatch) -> Markers:
    markers = Markers()
    for service, write in ((BrokerService, markers.to_leader), (GroupService, markers.to_groups)):

        async def method(self: object, request: Any, context: object, write: Any = write) -> Any:
            return await write(self, request, context)

        monkeypatch.setattr(service, "write_txn_markers", method, raising=False)
    return markers


@pytest.fixture
def cluster(markers: Markers) -> Iterator[Cluster]:
    with Cluster(group_coordinators=1, txn_coordinators=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t", partitions=3)
        yield cluster


def complete(client: Client, name: str) -> bool:
    return client.state(name).state.startswith("Complete")


@pytest.mark.rule(35)
@pytest.mark.rule(36)
@pytest.mark.feature(146)
def test_transactions_go_from_their_producer_to_their_markers(cluster: Cluster, markers: Markers) -> None:
    client = Client(cluster)
    for number in range(8):
        name, committed = f"id-{number}", number % 2 == 0
        producer = client.init(name)
        client.add(name, producer, 0, 2)
        client.call(
            Txn.ADD_OFFSETS,
            pb.AddOffsetsRequest(transactional_id=name, producer=producer, group="g", transaction_version=2),
        )
        after = client.end(name, producer, committed=committed)
        assert (after.id, after.epoch) == (producer.id, producer.epoch + 1)
        wait_until(lambda name=name: complete(client, name))
        written = [marker for marker in markers.written if marker[0] == producer.id]
        assert sorted(partition for _, _, _, partition, _ in written) == [-1, 0, 2]
        assert {(epoch, ended) for _, epoch, _, _, ended in written} == {(after.epoch, committed)}
        assert client.state(name).state == ("CompleteCommit" if committed else "CompleteAbort")
    assert len({marker[0] for marker in markers.written}) == 8, "each id has a producer id of its own"


@pytest.mark.rule(35)
@pytest.mark.rule(36)
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_who_takes_over_finishes_what_was_decided(cluster: Cluster, markers: Markers, how: str) -> None:
    client = Client(cluster)
    markers.failing = True
    names = [f"id-{n}" for n in range(6)]
    producers = {name: client.init(name) for name in names}
    for number, name in enumerate(names):
        client.add(name, producers[name], 1)
        client.end(name, producers[name], committed=number % 2 == 0)
        assert [p.partition for p in client.state(name).partitions] == [1], "what its end waits for"
    getattr(cluster.txn_coordinators[0], how)()
    markers.failing = False
    client._cluster.txn_coordinators.reverse()
    wait_until(lambda: all(complete(client, name) for name in names))
    states = {name: client.state(name).state for name in names}
    assert states == {n: "CompleteCommit" if i % 2 == 0 else "CompleteAbort" for i, n in enumerate(names)}
    for name in names:
        after = client.end(name, producers[name], committed=states[name] == "CompleteCommit")
        assert after.epoch == producers[name].epoch + 1, "a repeat hears the same from another coordinator"


@pytest.mark.rule(33)
def test_a_newer_producer_fences_and_gets_another_epoch(cluster: Cluster, markers: Markers) -> None:
    client = Client(cluster)
    zombie = client.init("x")
    client.add("x", zombie, 0)
    newer = client.init("x")
    assert (newer.id, newer.epoch) == (zombie.id, zombie.epoch + 1)
    assert [(epoch, committed) for _, epoch, _, _, committed in markers.written] == [(zombie.epoch + 1, False)]
    with pytest.raises(OttlaError) as raised:
        client.end("x", zombie)
    assert raised.value.code == ErrorCode.PRODUCER_FENCED
    assert "tester" in str(raised.value)
