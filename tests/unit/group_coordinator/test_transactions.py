"""Offsets in transactions: pending until the marker, guarded while the txn-coordinator is asked, fenced by epochs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from groups import Shard, code

from ottla_core.coordination.shard import Entry, Marker, ShardDecision, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_group_coordinator.commits_in_transactions import CommitsInTransactions
from ottla_group_coordinator.machines.membership import CallerIdentity
from ottla_group_coordinator.machines.offsets import NO_GENERATION, ToCommit, decide_commit
from ottla_group_coordinator.machines.transactions import Guard
from ottla_proto import group_pb2 as pb
from ottla_proto import txn_pb2
from ottla_proto.common_pb2 import TxnMarker, TxnProducer

P, RAISED = TransactionProducer(70, 3), TransactionProducer(70, 4)
T0 = TopicPartition("t", 0)
DAY_S = 86_400.0


@pytest.fixture
def shard() -> Shard:
    return Shard()


def commit(shard: Shard, offset: int, producer: TransactionProducer = P, guard: Guard | None = None, **who: Any) -> Any:
    """One decision; `Guard`: ask first."""
    identity, generation = CallerIdentity(who.get("member_id", ""), None), who.get("generation", NO_GENERATION)

    def decide() -> Any:
        requested = [ToCommit(TopicPartition(who.get("topic", "t"), 0), offset, -1, "", None)]
        plain = decide_commit(shard.group(), identity, generation, requested, shard.topics, shard.settings, shard.now)
        return shard.machine.transactions.decide_commit(producer, plain, guard)

    return shard._try(decide)


def end(
    shard: Shard,
    producer: TransactionProducer = RAISED,
    *,
    committed: bool = True,
    coordinator_epoch: int = 5,
    v2: bool = True,
) -> Any:
    """The error, or how many records were written."""
    before = len(shard.log)
    marker = Marker(producer, committed, coordinator_epoch)
    error = shard._try(lambda: shard.machine.transactions.decide_marker(marker, raises_epochs=v2))
    return error or len(shard.log) - before


def offset_of(shard: Shard) -> int | None:
    """The same for this owner and for the next one."""
    found = [each.machine.offsets("g").get(T0) for each in (shard, shard.reloaded())]
    pending = [set(each.machine.pending.partitions("g")) for each in (shard, shard.reloaded())]
    assert found[0] == found[1]
    assert pending[0] == pending[1]
    return None if found[0] is None else found[0].offset


def test_the_look_before_the_coordinator_is_asked_costs_no_round(shard: Shard) -> None:
    """The commit that follows is proved by its append."""
    offsets = ShardDecision(None, records=(Entry(b"k", b"v"),))
    decision = shard.machine.transactions.decide_commit(P, offsets, None)
    assert (isinstance(decision.response, Guard), decision.by_last_proof) == (True, True)


@pytest.mark.rule(39, 51)
def test_offsets_are_pending_until_the_marker(shard: Shard) -> None:
    assert shard.commit(1) == [None]
    guard = commit(shard, 7)
    assert isinstance(guard, Guard)
    assert len(shard.log) == 1
    assert commit(shard, 7, guard=guard) == [None]
    assert commit(shard, 8) == [None], "it is open here by now: nobody is asked"
    assert offset_of(shard) == 1
    assert set(shard.machine.pending.partitions("g")) == {T0}
    assert end(shard) == 1
    assert offset_of(shard) == 8
    assert not shard.machine.pending.partitions("g")
    assert end(shard) == 0, "a repeat"
    assert end(shard, coordinator_epoch=6) == 0, "of the next coordinator, too"


@pytest.mark.rule(39)
def test_an_aborted_transaction_leaves_nothing(shard: Shard) -> None:
    commit(shard, 7, guard=commit(shard, 7))
    assert end(shard, committed=False) == 1
    assert offset_of(shard) is None
    assert end(shard.reloaded(), committed=False) == 0


@pytest.mark.rule(39)
def test_any_marker_destroys_the_guard_and_another_question_has_to_be_asked(shard: Shard) -> None:
    guard = commit(shard, 7)
    assert end(shard, TransactionProducer(71, 9)) == 1, "another producer's"
    assert commit(shard, 6, guard=guard) == [None]
    end(shard)
    next_ = RAISED
    late = commit(shard, 7, next_)
    for committed, epoch in ((False, 5), (True, 6)):
        assert end(shard, P._replace(epoch=epoch), committed=committed) == 1
    written = len(shard.log)
    again = commit(shard, 7, P._replace(epoch=6), guard=late)
    assert isinstance(again, Guard)
    assert again is not late
    assert len(shard.log) == written


def test_a_guard_lasts_as_long_as_a_request_holds_it_and_is_of_one_life(shard: Shard) -> None:
    guards = [commit(shard, 7), commit(shard, 8)]
    assert guards[0] is guards[1], "of one producer it is one, for all its requests"
    assert isinstance(commit(shard.reloaded(), 7, guard=guards[0]), Guard)
    for n in range(100):
        commit(shard, n, TransactionProducer(n, 0))
    gc.collect()
    assert list(shard.machine.transactions._guards) == [70]
    assert commit(shard, 7, guard=guards.pop()) == [None]


@pytest.mark.rule(46)
def test_member_and_generation_are_checked_before_and_after(shard: Shard) -> None:
    leader, other = shard.stable(2)
    assert code(commit(shard, 7, member_id=other, generation=0)) == ErrorCode.ILLEGAL_GENERATION
    assert code(commit(shard, 7)) == ErrorCode.UNKNOWN_MEMBER_ID
    guard = commit(shard, 7, member_id=other, generation=1)
    shard.leave(leader)
    shard.join(other, key="o")
    assert code(commit(shard, 7, guard=guard, member_id=other, generation=1)) == ErrorCode.ILLEGAL_GENERATION
    assert offset_of(shard) is None
    assert not shard.machine.pending.groups()


@pytest.mark.rule(31)
def test_a_producer_that_was_fenced_commits_nothing(shard: Shard) -> None:
    commit(shard, 7, guard=commit(shard, 7))
    assert code(commit(shard, 8, P._replace(epoch=2))) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(commit(shard, 8, RAISED)) == ErrorCode.CONCURRENT_TRANSACTIONS
    end(shard)
    for each in (shard, shard.reloaded()):
        assert code(commit(each, 8)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(commit(shard, 8, RAISED), Guard)


@pytest.mark.rule(36)
def test_markers_are_fenced_by_both_epochs_and_repeats_are_known(shard: Shard) -> None:
    commit(shard, 7, guard=commit(shard, 7))
    assert code(end(shard, P)) == ErrorCode.INVALID_PRODUCER_EPOCH, "v2 raises it, so this is of the one before"
    assert code(end(shard, P._replace(epoch=2), v2=False)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert offset_of(shard) is None
    assert end(shard, P, v2=False) == 1
    assert offset_of(shard) == 7
    assert end(shard, P, v2=False) == 0
    assert end(shard, P, v2=False, coordinator_epoch=6) == 1
    for each in (shard, shard.reloaded()):
        assert code(end(each, coordinator_epoch=5)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert code(end(each, P._replace(epoch=2), coordinator_epoch=7)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_ends_what_a_deletion_left_of_the_transaction(shard: Shard) -> None:
    """The leader's log has it open still, and is not compacted beyond it."""
    commit(shard, 7, guard=commit(shard, 7))
    shard.take(shard.machine.forget_topics({}, None))
    assert not shard.machine.pending.groups()
    assert end(shard) == 1
    assert offset_of(shard) is None


def test_a_plain_commit_that_comes_later_stays(shard: Shard) -> None:
    commit(shard, 7, guard=commit(shard, 7))
    shard.commit(9)
    assert end(shard) == 1
    assert offset_of(shard) == 9


def test_what_nothing_can_be_committed_of_asks_nobody(shard: Shard) -> None:
    shard.topics.gone.add("t")
    [refused] = commit(shard, 7)
    assert code(refused) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.rule(36)
@pytest.mark.story("a-deposed-coordinator-ended-a-newer-transaction")
@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_late_marker_of_a_deposed_coordinator_ends_nothing_however_many_have_ended_since(
    shard: Shard, is_loaded: bool
) -> None:
    """Before transactions v2 a producer keeps its epoch: its coordinator's tells the two markers apart."""
    commit(shard, 7, guard=commit(shard, 7))
    assert end(shard, P, v2=False, coordinator_epoch=6) == 1
    for n in range(100, 2_200):
        assert end(shard, TransactionProducer(n, 1)) == 1
    there = shard.reloaded() if is_loaded else shard
    there.sleep(DAY_S - 1)
    commit(there, 8, guard=commit(there, 8))
    assert code(end(there, P, v2=False, coordinator_epoch=5, committed=False)) == (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert set(there.machine.pending.partitions("g")) == {T0}


def test_the_producers_of_a_shard_are_forgotten_in_time_but_for_open_ones(shard: Shard) -> None:
    commit(shard, 7, guard=commit(shard, 7))
    for n in range(100, 200):
        end(shard, TransactionProducer(n, 1))
    shard.sleep(2 * DAY_S)
    assert len(shard.machine.transactions._ended) == 0
    assert code(end(shard, P)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(shard, TransactionProducer(100, 1)) == 1, "what is not known any more is written: it changes nothing"


# ---- between the contract and the shards ----------------------------------------------------------------------------


class Coordinators:
    """Txn-coordinators. `answers` are the responses to requests, in order; further requests succeed."""

    def __init__(self) -> None:
        self.asked: list[txn_pb2.AddOffsetsRequest] = []
        self.epochs: list[int] = []
        self.answers: list[Callable[[], Awaitable[None]]] = []

    async def add_offsets(self, request: txn_pb2.AddOffsetsRequest, timeout_s: float) -> None:
        self.asked.append(request)
        self.epochs.append(request.coordinator_epoch if request.HasField("coordinator_epoch") else -1)
        if self.answers:
            await self.answers.pop(0)()


class Service:
    def __init__(self) -> None:
        self.shard, self.coordinators = Shard(), Coordinators()
        self.patience_s: list[float] = []
        coordinators: Any = self.coordinators
        shards: Any = SimpleNamespace(ask=self._ask, ask_shard=self._ask)
        self.commits = CommitsInTransactions(shards, coordinators)

    async def _ask(self, key: Any, decide: Any, *, timeout: float, **how: Any) -> Any:
        self.patience_s.append(timeout)
        if key == 9:
            raise OttlaError(ErrorCode.NOT_COORDINATOR, "another's")
        await asyncio.sleep(0)
        return self.shard.take(decide(self.shard.machine, self.shard.now))

    async def commit(self, offset: int, *, producer: TransactionProducer = P, version: int = 2) -> Any:
        transaction = pb.OffsetsTransaction(
            transactional_id="tx",
            producer=TxnProducer(id=producer.id, epoch=producer.epoch),
            transaction_version=version,
        )
        request = pb.CommitOffsetsRequest(group="g", generation=-1, transaction=transaction)

        def decide(shard: Any, now: Any) -> Any:
            wanted = [ToCommit(T0, offset, -1, "", None)]
            return decide_commit(
                self.shard.group(), CallerIdentity("", None), -1, wanted, self.shard.topics, shard.settings, now
            )

        return await self.commits.commit(request, decide)

    async def end(self, *shards: int, epoch: int = 4, **fields: Any) -> list[int]:
        producer = TxnProducer(id=fields.pop("id", P.id), epoch=epoch)
        fields = {"committed": True, "coordinator_epoch": 5, "transaction_version": 2, **fields}
        marker = TxnMarker(producer=producer, **fields)
        request = pb.WriteShardMarkersRequest(markers=[pb.ShardsMarker(marker=marker, shards=shards)])
        [written] = (await self.commits.write_markers(request)).markers
        return [error.code for error in written.shards]


@pytest.fixture
async def service() -> Service:
    return Service()


@pytest.mark.rule(39)
async def test_the_coordinator_is_asked_once_in_a_transaction(service: Service) -> None:
    assert await service.commit(7) == [None]
    assert await service.commit(8) == [None]
    [asked] = service.coordinators.asked
    assert (asked.transactional_id, asked.group, asked.producer.id, asked.verify_only) == ("tx", "g", 70, False)
    assert await service.end(0) == [0]
    assert await service.commit(9, producer=RAISED, version=1) == [None]
    assert service.coordinators.asked[1].verify_only
    assert service.coordinators.epochs == [-1, 5], "the marker's: an older coordinator is not to be believed"
    assert offset_of(service.shard) == 8


@pytest.mark.rule(39)
async def test_an_answer_that_finds_a_marker_is_asked_for_anew(service: Service) -> None:
    """The transaction is over by the time that the answer comes: what was true when it was said is not any more."""

    async def late() -> None:
        await service.end(0, committed=False)

    async def over() -> None:
        raise OttlaError(ErrorCode.TRANSACTION_ABORTABLE, "it is not in an open transaction")

    service.coordinators.answers = [late, over]
    with pytest.raises(OttlaError, match="INVALID_PRODUCER_EPOCH"):
        await service.commit(7)
    service.coordinators.answers = [lambda: _end(service, 5), over]
    with pytest.raises(OttlaError, match="TRANSACTION_ABORTABLE"):
        await service.commit(7, producer=P._replace(epoch=5))
    assert len(service.coordinators.asked) == 3
    assert not any(isinstance(record, Entry) for record in service.shard.log)


@pytest.mark.rule(35)
@pytest.mark.story("a-stuck-shard-of-groups-held-up-its-coordinator")
@pytest.mark.parametrize(("timeout_ms", "timeout_s"), [(1_000, 1.0), (0, 5.0)])
async def test_a_marker_waits_for_its_shard_for_as_long_as_the_request_says(
    service: Service, timeout_ms: int, timeout_s: float
) -> None:
    marker = TxnMarker(producer=TxnProducer(id=P.id, epoch=4), committed=True, coordinator_epoch=5)
    markers = [pb.ShardsMarker(marker=marker, shards=[0])]
    await service.commits.write_markers(pb.WriteShardMarkersRequest(markers=markers, timeout_ms=timeout_ms))
    assert service.patience_s == [timeout_s]


async def _end(service: Service, epoch: int) -> None:
    await service.end(0, epoch=epoch)


async def test_who_is_cancelled_while_the_coordinator_is_asked_leaves_nothing(service: Service) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    service.coordinators.answers = [never]
    waiting = asyncio.create_task(service.commit(7))
    while not service.coordinators.asked:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    del waiting
    await asyncio.sleep(0)  # the loop has forgotten what has woken this
    gc.collect()
    assert not service.shard.machine.transactions._guards
    assert service.shard.log == []


async def test_each_marker_is_answered_as_if_it_had_come_alone(service: Service) -> None:
    assert await service.end(0, 9, 1) == [0, ErrorCode.NOT_COORDINATOR, 0]
    assert len(service.shard.log) == 1
    for wrong in ({"id": -1}, {"epoch": -1}, {"epoch": 1 << 15}, {"coordinator_epoch": -1}):
        assert await service.end(0, **wrong) == [ErrorCode.INVALID_REQUEST]
    with pytest.raises(OttlaError, match="INVALID_REQUEST"):
        await service.commit(7, producer=TransactionProducer(7, 1 << 15))
    assert len(service.shard.log) == 1, "the shard would be left by who can't write it"
