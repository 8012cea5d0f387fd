"""The way to the owner of a transactional id's shard: asked wherever it is, for as long as it moves, and no longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla_core.cluster.image import ClusterImage, Coordinator, Shard, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.routing import shard_of
from ottla_core.rpc.status import TransportError
from ottla_group_coordinator.txn_coordinators import TxnCoordinators
from ottla_proto.txn_pb2 import AddOffsetsRequest, AddOffsetsResponse

STATE = Topic("__transaction_state", TopicId(b"s" * 16), 50)
REQUEST = AddOffsetsRequest(transactional_id="tx", group="g")


def owned_by(instance: int | None) -> ClusterImage:
    """Two coordinators, and the shard of `tx` is this one's."""
    live = {("txn", n): Coordinator("txn", n, 500 + n, f"host-{n}:1") for n in (1, 2)}
    shards = {} if instance is None else {("txn", shard_of("tx", 50)): Shard(instance, 500 + instance, 1)}
    return ClusterImage("c", topics={STATE.name: STATE}, coordinators=live, shards=shards)


class Network:
    """`errors` are what the next calls come to, after `takes_s`; `moves` is where the shard is after each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.image = owned_by(1)
        self.errors: list[OttlaError] = []
        self.moves: list[int | None] = []
        self.takes_s = 0.0
        self.called: list[str] = []
        self.coordinators = TxnCoordinators(self)
        peers: Any = SimpleNamespace(at=self._peer_at)
        monkeypatch.setattr(self.coordinators, "_peers", peers)

    def _peer_at(self, address: str) -> Any:
        return SimpleNamespace(gathered=lambda calls: SimpleNamespace(call=self._call_at(address)))

    def _call_at(self, address: str) -> Any:
        async def call(method: Any, request: Any, *, timeout: float) -> AddOffsetsResponse:
            assert request is REQUEST
            assert timeout >= 0
            self.called.append(address)
            if timeout < self.takes_s:
                raise TransportError(ErrorCode.REQUEST_TIMED_OUT, "late")
            if self.moves:
                self.image = owned_by(self.moves.pop(0))
            if self.errors:
                raise self.errors.pop(0)
            return AddOffsetsResponse()

        return call


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    return Network(monkeypatch)


@pytest.mark.rule(39)
async def test_the_owner_is_asked_and_followed_while_it_moves(network: Network) -> None:
    network.errors = [
        TransportError(ErrorCode.NETWORK_EXCEPTION, "gone"),
        OttlaError(ErrorCode.NOT_COORDINATOR, "another's"),
        OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading"),
        OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, "its former transaction is being ended"),
    ]
    network.moves = [1, 2]
    await network.coordinators.add_offsets(REQUEST, 5.0)
    assert network.called == ["host-1:1", "host-1:1", *["host-2:1"] * 3]


async def test_what_it_refuses_is_refused(network: Network) -> None:
    network.errors = [OttlaError(ErrorCode.PRODUCER_FENCED, "a newer one")]
    with pytest.raises(OttlaError, match="a newer one"):
        await network.coordinators.add_offsets(REQUEST, 5.0)
    assert len(network.called) == 1


async def test_one_that_is_slow_is_heard(network: Network) -> None:
    """Given up before its time, and called anew, it would never be: and what it refuses was retried for as long as it
    was slow."""
    network.takes_s, network.errors = 4.5, [OttlaError(ErrorCode.PRODUCER_FENCED, "it was timed out")]
    with pytest.raises(OttlaError, match="it was timed out"):
        await network.coordinators.add_offsets(REQUEST, 5.0)
    assert len(network.called) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OttlaError(ErrorCode.NOT_COORDINATOR, "another's"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, "ending"), ErrorCode.CONCURRENT_TRANSACTIONS),
        (TransportError(ErrorCode.REQUEST_TIMED_OUT, "late"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
async def test_it_is_given_up_in_time(network: Network, error: OttlaError, code: ErrorCode) -> None:
    network.errors = [error] * 100
    with pytest.raises(OttlaError) as raised:
        await network.coordinators.add_offsets(REQUEST, 0.05)
    assert raised.value.code == code
    assert 1 < len(network.called) < 10


async def test_a_shard_without_an_owner_is_waited_for(network: Network) -> None:
    network.image = owned_by(None)
    with pytest.raises(OttlaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        await network.coordinators.add_offsets(REQUEST, 0.05)
    assert network.called == []
