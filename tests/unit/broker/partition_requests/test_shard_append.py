"""Shards on three brokers without a network: what an owner is answered, and what proves that it still is one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, records_of
from replicas import Brokers
from shards import FIRST, SECOND, fence_batch, keyed
from waiting import until

from ottla_broker.machines.offsets import LogEndOffset
from ottla_broker.partition_requests.shard_append import append_to_shard, check_shard
from ottla_broker.replication.fetch_purgatory import Sessions
from ottla_broker.replication.leadership_confirmation import check_fence
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Partition
from ottla_core.coordination.batches import seal_records
from ottla_core.coordination.shard import Entry, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import SHARD_TOPICS
from ottla_core.records.batch import read_header
from ottla_core.records.fence import ShardFence

ALL = Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1, 2, 3))
BY_TWO = replace(ALL, leader=2, leader_epoch=2, partition_epoch=1)
LIMIT_S = 20.0


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    config = replace(SMALL, min_insync_replicas=2, compacts=True, deletes=False)
    brokers = Brokers(tmp_path, config=config, topic="__consumer_offsets")
    brokers.apply(ALL)
    return brokers


def append(
    replica: Replica, owner: ShardFence, records: bytes, expected: int, *, timeout_s: float = LIMIT_S
) -> asyncio.Task[int]:
    leading = replica.led_in(None)
    return asyncio.create_task(append_to_shard(leading, "group", owner, expected, records, timeout_s=timeout_s))


async def replicated(brokers: Brokers, leader: int = 1) -> None:
    """Every follower has all that the leader has, and the leader knows it."""
    for _ in range(2):
        for follower in {1, 2, 3} - {leader}:
            await brokers.fetch(follower, leader)


async def code_of(waiting: asyncio.Task[int]) -> int:
    with pytest.raises(OttlaError) as caught:
        await waiting
    return caught.value.code


async def owned(brokers: Brokers) -> Replica:
    """The leader's replica, where the first owner has appended its fence and `a`."""
    leader = brokers.replicas[1]
    for records in (fence_batch(FIRST), keyed(b"a")):
        waiting = append(leader, FIRST, records, leader.log.log_end_offset)
        await asyncio.sleep(0)
        await replicated(brokers)
        await waiting
    return leader


async def test_an_append_is_answered_at_the_high_watermark(brokers: Brokers) -> None:
    leader = await owned(brokers)
    waiting = append(leader, FIRST, keyed(b"b"), 2)
    repeated = append(leader, FIRST, keyed(b"b"), 2)
    await asyncio.sleep(0)
    assert leader.log.log_end_offset == 3, "once"
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not repeated.done(), "a repeat waits as long as the original"
    await replicated(brokers)
    assert (await waiting, await repeated) == (2, 2)


async def test_a_round_of_several_batches_is_answered_when_its_last_one_is_committed(brokers: Brokers) -> None:
    leader = await owned(brokers)
    records = seal_records([Entry(b"b", b"b"), Entry(b"c", b"c", TransactionProducer(7, 0))], NOON)
    waiting = append(leader, FIRST, records, 2)
    await asyncio.sleep(0)
    assert leader.log.log_end_offset == 4
    first = read_header(records).size_bytes
    for follower in (2, 3, 2, 3):
        await brokers.fetch(follower, 1, max_bytes=first)
    assert leader.offsets.high_watermark == 3
    assert not waiting.done(), "a leader that has the first alone may follow"
    await replicated(brokers)
    assert await waiting == 2


async def test_who_waits_too_long_does_not_know(brokers: Brokers) -> None:
    leader = await owned(brokers)
    assert await code_of(append(leader, FIRST, keyed(b"b"), 2, timeout_s=0)) == ErrorCode.REQUEST_TIMED_OUT
    waiting = append(leader, FIRST, keyed(b"c"), 3)
    await asyncio.sleep(0)
    brokers.apply(BY_TWO)
    assert await code_of(waiting) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule(10)
async def test_a_lost_answer_is_asked_for_at_the_next_leader(brokers: Brokers) -> None:
    leader = await owned(brokers)
    waiting = append(leader, FIRST, keyed(b"b"), 2)
    await asyncio.sleep(0)
    await brokers.fetch(2, 1)  # broker 2 has it, broker 3 has not
    brokers.apply(BY_TWO)
    assert await code_of(waiting) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    again = append(brokers.replicas[2], FIRST, keyed(b"b"), 2)
    await asyncio.sleep(0)
    await replicated(brokers, 2)
    assert await again == 2
    content = await brokers.replicas[3].disk.read(0, 1 << 20, LogEndOffset(9), min_one_batch=True)
    assert [value for _, value in records_of(content)][1:] == [b"a", b"b"]


@pytest.mark.rule(9)
async def test_too_few_in_sync_refuse_what_is_new_and_not_what_is_there(brokers: Brokers) -> None:
    leader = await owned(brokers)
    appended = append(leader, FIRST, keyed(b"b"), 2)
    await asyncio.sleep(0)
    brokers.apply(replace(ALL, isr=(1,), partition_epoch=1))
    assert await code_of(append(leader, FIRST, keyed(b"c"), 3)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.log_end_offset == 3
    repeated = append(leader, FIRST, keyed(b"b"), 2)
    await asyncio.sleep(0)
    assert not repeated.done(), "it is in the log: to refuse it would be to say that it is not"
    for waiting in (appended, repeated):
        waiting.cancel()
    at_the_watermark = append(leader, FIRST, keyed(b"a"), 1)
    assert await code_of(at_the_watermark) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.rule(5)
async def test_another_leader_epoch_is_refused_before_all_else(brokers: Brokers) -> None:
    leader = await owned(brokers)
    for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(OttlaError) as caught:
            await append_to_shard(leader.led_in(epoch), "group", FIRST, 2, keyed(b"b"), timeout_s=LIMIT_S)
        assert caught.value.code == code


def test_a_kind_has_one_topic() -> None:
    check_shard("__transaction_state", "txn")
    for topic, kind in (("__transaction_state", "group"), ("orders", "group"), ("orders", ""), ("orders", "orders")):
        with pytest.raises(OttlaError) as caught:
            check_shard(topic, kind)
        assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert len(set(SHARD_TOPICS.values())) == len(SHARD_TOPICS)


# ---- checks ----------------------------------------------------------------------------------------------------------


def check(replica: Replica, owner: ShardFence = FIRST, next_offset: int = 2, *, for_s: float = LIMIT_S) -> Checking:
    deadline = asyncio.get_running_loop().time() + for_s
    return asyncio.create_task(check_fence(replica, replica.leader_epoch, owner, next_offset, deadline))


Checking = asyncio.Task[int]


async def test_a_fetch_that_was_sent_after_the_check_proves_it(brokers: Brokers) -> None:
    leader = await owned(brokers)
    checking = check(leader)
    await asyncio.sleep(0)
    await brokers.fetch(2, 1)
    await asyncio.sleep(0)
    assert not checking.done(), "it may have been sent before the check, by one who follows another by now"
    await brokers.fetch(2, 1)
    assert await checking == 2


async def test_a_check_completes_a_parked_fetch_at_once(brokers: Brokers) -> None:
    leader = await owned(brokers)
    await replicated(brokers)
    followers = brokers.around[1].followers
    parked = asyncio.create_task(brokers.fetch(2, 1, max_wait_s=LIMIT_S))
    await until(lambda: parked_in(followers))
    checking = check(leader)
    await asyncio.wait_for(parked, LIMIT_S / 2)
    parked = asyncio.create_task(brokers.fetch(2, 1, max_wait_s=LIMIT_S))
    assert await asyncio.wait_for(checking, LIMIT_S / 2) == 2
    await until(lambda: parked_in(followers))
    assert not parked.done(), "the next fetch waits for news again"
    leader.close()
    await asyncio.gather(parked, return_exceptions=True)


async def test_a_leader_that_nobody_follows_any_more_proves_nothing(brokers: Brokers) -> None:
    leader = await owned(brokers)
    brokers.apply(BY_TWO, 2, 3)  # broker 1 has not heard of it
    checking = check(leader, for_s=0.05)
    for follower in (2, 3):
        with pytest.raises(OttlaError):
            await brokers.fetch(follower, 1)
    assert await code_of(checking) == ErrorCode.REQUEST_TIMED_OUT
    assert leader.leads
    checking = check(leader)
    await asyncio.sleep(0)
    brokers.apply(BY_TWO, 1)
    assert await code_of(checking) == ErrorCode.FENCED_LEADER_EPOCH


async def test_another_owners_fence_ends_a_check(brokers: Brokers) -> None:
    leader = await owned(brokers)
    assert await code_of(check(leader, SECOND)) == ErrorCode.SHARD_FENCED
    assert await code_of(check(leader, next_offset=3)) == ErrorCode.OFFSET_MISMATCH
    checking = check(leader)
    await asyncio.sleep(0)
    taking = append(leader, SECOND, fence_batch(SECOND), 2)
    await asyncio.sleep(0)
    await replicated(brokers)
    assert await taking == 2
    assert await code_of(checking) == ErrorCode.SHARD_FENCED


async def test_who_is_alone_in_sync_has_its_registration_for_a_proof(brokers: Brokers) -> None:
    leader = await owned(brokers)
    brokers.apply(replace(ALL, isr=(1,), partition_epoch=1))
    assert await check(leader) == 2
    brokers.registered.discard(1)
    assert await code_of(check(leader, for_s=0.02)) == ErrorCode.REQUEST_TIMED_OUT
    for other in (2, 3):
        del brokers.live[other]
    checking = check(leader)
    await asyncio.sleep(0)
    brokers.registered.add(1)
    leader.led_in(None).on_tick()
    assert await checking == 2


def parked_in(sessions: Sessions) -> bool:
    """Whether broker 2's fetch waits for news."""
    session = sessions.find(2, 12, 1)
    return session is not None and session.parked.waits
