"""Replicas of one partition, by hand: what is copied, what is committed, what a change of leader keeps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from logs import SMALL, records_of, values_batch
from replicas import PARTITION, Brokers

from ottla_broker.machines.closest import find_closest
from ottla_broker.machines.fetch_session import FetchSession
from ottla_broker.machines.offsets import HighWatermark, LogEndOffset
from ottla_broker.replication.fetch import Consumers, FetchLimits, FetchResult, PartitionFetch, closest_to, fetch
from ottla_broker.replication.fetch_purgatory import DelayedFetch
from ottla_broker.replication.following import LeaderResponse
from ottla_broker.replication.leading import ACKS_ALL, Leading
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Broker, ClusterImage, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId

ALL = Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1, 2, 3))


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    brokers = Brokers(tmp_path, config=replace(SMALL, min_insync_replicas=2))
    brokers.apply(ALL)
    return brokers


async def content(replica: Replica | Leading) -> bytes:
    return await replica.disk.read(
        replica.log.log_start_offset, 1 << 20, replica.log.log_end_offset, min_one_batch=True
    )


async def values(replica: Replica | Leading) -> list[bytes | None]:
    return [value for _, value in records_of(await content(replica))]


def append(replica: Replica | Leading, *values: bytes) -> int:
    """The offset after what was appended with acks=all."""
    leading = replica.led_in(None) if isinstance(replica, Replica) else replica
    return leading.append(values_batch(*values), ACKS_ALL).last_offset + 1


@pytest.mark.rule(1)
@pytest.mark.feature(105)
async def test_a_follower_has_its_leaders_bytes_and_epochs(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    for n in range(40):  # several segments
        append(leader, b"%d" % n)
    await brokers.fetch(2, 1)
    assert await content(brokers.replicas[2]) == await content(leader)
    assert brokers.replicas[2].log.epochs.entries == leader.log.epochs.entries


@pytest.mark.rule(6)
@pytest.mark.feature(7, 133, 176)
async def test_acks_all_is_answered_when_the_whole_isr_has_it(brokers: Brokers) -> None:
    leader = brokers.leading(1)
    waiting = asyncio.create_task(leader.committed(append(leader, b"a")))
    for follower in (2, 3):
        assert not waiting.done()
        await brokers.fetch(follower, 1)  # copies it
        await asyncio.sleep(0)
        assert not waiting.done(), "that a follower was sent a batch is not yet that it has it"
        await brokers.fetch(follower, 1)  # says so
        await asyncio.sleep(0)
    await waiting
    assert leader.offsets.high_watermark == 1


@pytest.mark.rule(9)
@pytest.mark.feature(130)
async def test_too_few_in_sync_refuse_before_the_append(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    brokers.apply(replace(ALL, isr=(1,), partition_epoch=1))
    with pytest.raises(OttlaError) as refused:
        append(leader, b"a")
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.log_end_offset == 0, "a definite error: nothing was appended"
    leader.led_in(None).append(values_batch(b"b"), 1)
    assert leader.log.log_end_offset == 1, "acks=1 asks for no more than the leader"


@pytest.mark.rule(9)
async def test_too_few_in_sync_at_the_end_is_another_error(brokers: Brokers) -> None:
    leader = brokers.leading(1)
    end = append(leader, b"a")
    for _ in range(2):
        await brokers.fetch(2, 1)
        await brokers.fetch(3, 1)
    assert leader.offsets.high_watermark == end
    brokers.apply(replace(ALL, isr=(1,), partition_epoch=1))
    with pytest.raises(OttlaError) as refused:
        await leader.committed(end)
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.rule(10)
async def test_a_leader_that_is_replaced_answers_that_it_does_not_know(brokers: Brokers) -> None:
    leader = brokers.leading(1)
    waiting = asyncio.create_task(leader.committed(append(leader, b"a")))
    await asyncio.sleep(0)
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, partition_epoch=1))
    with pytest.raises(OttlaError) as refused:
        await waiting
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await brokers.fetch(3, 2)
    assert (await values(leader)) == [b"a"], "it may survive, as here in the old leader's log"


@pytest.mark.rule(10)
async def test_what_was_cut_off_meanwhile_is_not_acknowledged(brokers: Brokers) -> None:
    """1. It appends, and waits for something else than the high watermark, such as a flush. 2. Another leads; the batch
    is cut off. 3. It leads again, and others' records lie where the batch was."""
    one, two = brokers.replicas[1], brokers.replicas[2]
    deposed = brokers.leading(1)
    end = append(deposed, b"lost")
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, isr=(2, 3), partition_epoch=1))
    append(two, b"x")
    for follower in (3, 1, 1, 3, 1):
        await brokers.fetch(follower, 2)
    brokers.apply(replace(ALL, leader_epoch=3, partition_epoch=2))
    assert await values(one) == [b"x"]
    assert one.offsets.high_watermark >= end
    with pytest.raises(OttlaError) as refused:
        await deposed.committed(end)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_that_leads_on_keeps_who_waits(brokers: Brokers) -> None:
    """A new epoch of the same leader: its log stays, so what was appended in it may still be committed."""
    leader = brokers.leading(1)
    waiting = asyncio.create_task(leader.committed(append(leader, b"a")))
    await asyncio.sleep(0)
    brokers.apply(replace(ALL, leader_epoch=2, partition_epoch=1))
    for follower in (2, 3, 2, 3):
        await brokers.fetch(follower, 1)
    await asyncio.wait_for(waiting, 20)


@pytest.mark.rule(2)
async def test_what_a_follower_has_above_its_high_watermark_survives_a_change_of_leader(brokers: Brokers) -> None:
    """KIP-101's story: a committed record was lost where a follower was cut at its own, older high watermark."""
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    append(leader, b"a")
    for broker_id in (2, 3, 2, 3):
        await brokers.fetch(broker_id, 1)
    assert leader.offsets.high_watermark == 1
    follower = brokers.open(2, high_watermark=0)  # restarted, its checkpoint is older
    brokers.apply(ALL, 2)
    brokers.apply(replace(ALL, leader=3, leader_epoch=2, isr=(2, 3), partition_epoch=1), 2, 3)
    await brokers.fetch(2, 3)
    assert await values(follower) == [b"a"]
    brokers.apply(replace(ALL, leader=2, leader_epoch=3, isr=(2,), partition_epoch=2), 2)
    assert await values(follower) == [b"a"]


@pytest.mark.rule(2)
async def test_what_a_deposed_leader_has_alone_is_cut_off(brokers: Brokers) -> None:
    old = brokers.replicas[1]
    append(old, b"common")
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    append(old, b"lost one", b"lost two")
    moved = replace(ALL, leader=2, leader_epoch=2, isr=(2, 3), partition_epoch=1)
    brokers.apply(moved, 2, 3)
    append(brokers.replicas[2], b"new")
    brokers.apply(moved, 1)
    assert (await brokers.fetch(1, 2)).diverging == (1, 1)
    assert await values(old) == [b"common"]
    await brokers.fetch(1, 2)
    assert await content(old) == await content(brokers.replicas[2])


@pytest.mark.rule(3)
async def test_two_quick_changes_of_leader_are_followed_step_by_step(brokers: Brokers) -> None:
    """KIP-279: 1 and 2 wrote in turns, neither copying from the other."""
    one, two = brokers.replicas[1], brokers.replicas[2]
    append(one, b"common")
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    append(one, b"of 1, epoch 1")
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, partition_epoch=1), 2)
    append(two, b"of 2, epoch 2")
    brokers.apply(replace(ALL, leader=1, leader_epoch=3, partition_epoch=2), 1)
    append(one, b"of 1, epoch 3")
    last = replace(ALL, leader=2, leader_epoch=4, partition_epoch=3)
    brokers.apply(last)
    append(two, b"of 2, epoch 4")
    for _ in range(4):
        await brokers.fetch(1, 2)
    assert await values(one) == [b"common", b"of 2, epoch 2", b"of 2, epoch 4"]
    assert await content(one) == await content(two)
    assert one.log.epochs.entries == two.log.epochs.entries


@pytest.mark.rule(5)
async def test_a_zombie_takes_no_fetch_of_the_new_epoch_and_no_append_that_counts(brokers: Brokers) -> None:
    zombie = brokers.leading(1)
    end = append(zombie, b"never acknowledged")
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, partition_epoch=1), 2, 3)
    with pytest.raises(OttlaError) as refused:
        await brokers.fetch(2, 1)
    assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(zombie.committed(end), 0.01)


async def test_an_answer_of_a_former_leader_that_comes_late_is_not_written(brokers: Brokers) -> None:
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    append(leader, b"a")
    former, epoch = brokers.following(2), follower.leader_epoch
    brokers.apply(replace(ALL, leader=3, leader_epoch=2, partition_epoch=1), 2)
    assert follower.followed_in(epoch) is None
    former.on_fetched(0, LeaderResponse(await content(leader), HighWatermark(0), 0))
    assert follower.log.log_end_offset == 0


@pytest.mark.rule(15)
async def test_a_new_leader_does_not_tell_the_latest_offset_before_it_knows(brokers: Brokers) -> None:
    append(brokers.replicas[1], b"a")
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, isr=(2, 3), partition_epoch=1), 2, 3)
    new = brokers.replicas[2]
    with pytest.raises(OttlaError) as refused:
        await new.led_in(None).offset_for_time(-1)
    assert refused.value.code == ErrorCode.OFFSET_NOT_AVAILABLE
    await brokers.fetch(3, 2)
    found = await new.led_in(None).offset_for_time(-1)
    assert found is not None
    assert found.offset == 1


@pytest.mark.rule(68)
async def test_a_reader_ahead_of_a_new_leaders_high_watermark_waits_and_is_not_out_of_range(brokers: Brokers) -> None:
    """It may have read that much from the leader before; who is told that it is out of range begins somewhere else."""
    append(brokers.replicas[1], b"a", b"b")
    append(brokers.replicas[1], b"c")
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, isr=(2, 3), partition_epoch=1), 2, 3)
    new = brokers.replicas[2]
    assert (new.offsets.high_watermark, new.log.log_end_offset) == (0, 3)

    async def fetched(offset: int) -> FetchResult:
        audience = Consumers(brokers.found_on(2), None, any_replica=False)
        [answer] = await fetch([PartitionFetch(PARTITION, 2, offset, 1000)], audience, FetchLimits(0, 1, 1000))
        return answer

    for offset in range(4):
        answer = await fetched(offset)
        assert (answer.error, answer.records) == (None, b"")
    outside = (await fetched(4)).error
    assert outside is not None
    assert outside.code == ErrorCode.OFFSET_OUT_OF_RANGE
    await brokers.fetch(3, 2)
    assert [value for _, value in records_of((await fetched(2)).records)] == [b"c"]


@pytest.mark.rule(16)
async def test_a_high_watermark_from_the_checkpoint_is_only_where_it_begins(brokers: Brokers) -> None:
    append(brokers.replicas[1], b"a")
    await brokers.fetch(2, 1)
    restarted = brokers.open(2, high_watermark=0)
    assert restarted.log.log_end_offset == 1, "a lower bound: nothing is cut by it"
    brokers.apply(ALL, 2)
    await brokers.fetch(2, 1)
    assert await values(restarted) == [b"a"]


class LittleRoom:
    """Room for `left` bytes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def lend(self, requested_bytes: int) -> int:
        lent = max(0, min(requested_bytes, self.left))
        self.left -= lent
        return lent

    def give_back(self, size_bytes: int) -> None:
        self.left += size_bytes


@pytest.mark.story("fetch-reads-more-than-there-is-room-for")
async def test_a_fetch_reads_what_there_is_room_for_and_keeps_it_until_it_is_answered(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    for _ in range(10):
        append(leader, bytes(100))
    for follower in (3, 2, 3, 2):
        await brokers.fetch(follower, 1)
    whole = await leader.disk.read(0, 10_000, leader.offsets.high_watermark, min_one_batch=True)
    one_batch = len(whole) // leader.offsets.high_watermark
    audience = Consumers(brokers.found_on(1), None, any_replica=False)
    wants = [PartitionFetch(PARTITION, 1, 0, 10_000)]

    async def read_bytes(room: LittleRoom, min_bytes: int = 1) -> int:
        [answer] = await fetch(wants, audience, FetchLimits(0.01, min_bytes, 10_000, room))
        assert answer.error is None
        return len(answer.records)

    for left, expected in ((10_000, len(whole)), (3 * one_batch, 3 * one_batch), (1, one_batch), (0, 0)):
        room = LittleRoom(left)
        assert await read_bytes(room) == expected
        assert room.left == left - expected
    room = LittleRoom(10_000)
    assert await read_bytes(room, min_bytes=9_000) == len(whole)
    assert room.left == 10_000 - len(whole), "what was read before the wait was given back"


@pytest.mark.feature(104)
async def test_a_follower_takes_no_write_and_serves_no_reader_that_its_leader_has_not_sent(brokers: Brokers) -> None:
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    append(leader, b"a")
    for broker_id in (3, 2, 3, 2):
        await brokers.fetch(broker_id, 1)
    with pytest.raises(OttlaError) as refused:
        append(follower, b"b")
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower.log.log_end_offset == 1
    want = PartitionFetch(PARTITION, 1, 0, 1000)
    told = {}
    for broker_id in (1, 2):
        audience = Consumers(brokers.found_on(broker_id), None, any_replica=False)
        [told[broker_id]] = await fetch([want], audience, FetchLimits(0, 1, 1000))
    assert (told[1].error, told[1].records != b"") == (None, True)
    assert told[2].error is not None
    assert (told[2].error.code, told[2].records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


@pytest.mark.rule(17)
@pytest.mark.feature(112, 178)
async def test_consumers_read_to_the_high_watermark_and_followers_to_the_end(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    append(leader, b"a")

    async def consumed(broker_id: int, *, from_follower: bool = False) -> bytes:
        found = brokers.found_on(broker_id)
        audience = Consumers(found, None, any_replica=from_follower)
        want = PartitionFetch(PARTITION, 1, 0, 1000)
        [answer] = await fetch([want], audience, FetchLimits(0, 1, 1000))
        assert answer.error is None
        return answer.records

    assert await consumed(1) == b""
    assert (await brokers.fetch(2, 1)).records != b""
    assert await consumed(2, from_follower=True) == b""
    for follower in (3, 2, 3, 2):
        await brokers.fetch(follower, 1)
    assert await consumed(1) != b""
    assert await consumed(2, from_follower=True) == await consumed(1)
    assert [brokers.replicas[n].has_readers for n in (1, 2, 3)] == [False, True, False]


@pytest.mark.rule(18)
async def test_a_parked_fetch_is_answered_when_the_high_watermark_moves(brokers: Brokers) -> None:
    append(brokers.replicas[1], b"a")
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    parked = asyncio.create_task(brokers.fetch(2, 1, max_wait_s=30))
    await asyncio.sleep(0)
    await brokers.fetch(3, 1)
    answer = await asyncio.wait_for(parked, 20)
    assert (answer.records, answer.high_watermark) == (b"", 1)
    assert brokers.replicas[2].offsets.high_watermark == 1


async def test_deleted_records_are_deleted_on_the_followers(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    for _ in range(3):
        append(leader, b"a")
        for follower in (2, 3, 2, 3, 2):
            await brokers.fetch(follower, 1)
    parked = asyncio.create_task(brokers.fetch(2, 1, max_wait_s=30))
    await asyncio.sleep(0)
    assert leader.led_in(None).delete_records(-1) == 3
    reading: FetchSession[PartitionId, None, DelayedFetch] = FetchSession(brokers.around[2].consumers, DelayedFetch())
    reading.name(PARTITION, None)
    reading.look_at(PARTITION, PARTITION)
    await asyncio.wait_for(parked, 20)
    assert reading.due == [PARTITION], "who reads there is told of it"
    assert brokers.replicas[2].log.log_start_offset == 3


async def test_a_follower_below_the_leaders_log_begins_anew_there(brokers: Brokers) -> None:
    follower = brokers.replicas[2]
    await brokers.following(2).on_out_of_range(40)
    assert (follower.log.log_start_offset, follower.log.log_end_offset, follower.offsets.high_watermark) == (40, 40, 40)


async def test_nothing_is_written_while_a_log_is_cut(brokers: Brokers) -> None:
    """A cut waits for the disk in a thread; what the leader answers meanwhile is asked for again."""
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    append(leader, b"a")
    following, answer = brokers.following(2), LeaderResponse(await content(leader), HighWatermark(0), 0)
    cutting = asyncio.create_task(following.on_out_of_range(0))
    await asyncio.sleep(0)
    following.on_fetched(0, answer)
    assert follower.log.log_end_offset == 0
    cutting.cancel()
    await follower.disk.until_whole()
    following.on_fetched(0, answer)
    assert follower.log.log_end_offset == 1


@pytest.mark.story("emptied-follower-joins-the-isr")
@pytest.mark.parametrize("offset", [1, 99])
async def test_a_follower_that_pretends_an_offset_moves_nothing(brokers: Brokers, offset: int) -> None:
    leader = brokers.replicas[1]
    append(leader, b"a")
    assert leader.led_in(None).on_follower_fetch(2, 12, offset, -1, 0) == (1, 0), (
        "nothing proves that it has what lies before"
    )
    assert leader.led_in(None).on_follower_fetch(2, 12, 99, 1, 0) == (1, 1), (
        "with an epoch it is told where its log must end"
    )
    leader.led_in(None).on_follower_fetch(3, 13, 1, 1, 0)
    assert leader.offsets.high_watermark == 0


@pytest.mark.rule(22)
def test_who_is_no_follower_is_refused(brokers: Brokers) -> None:
    with pytest.raises(OttlaError, match="has no replica of t-0"):
        brokers.replicas[1].led_in(None).on_follower_fetch(9, 12, 0, -1, 0)


@pytest.mark.feature(58)
async def test_a_consumer_is_sent_to_an_in_sync_replica_in_its_rack(brokers: Brokers) -> None:
    leader = brokers.leading(1).leader
    racks = {1: "a", 2: "b", 3: "b"}
    assert find_closest(leader, 1, racks.get, "a", 0) is None, "the leader is as close"
    assert find_closest(leader, 1, racks.get, "c", 0) is None, "nobody is there"
    assert find_closest(leader, 1, racks.get, "b", 0) is None, "nobody there has fetched yet"
    append(brokers.replicas[1], b"a")
    for follower in (2, 3, 3):
        await brokers.fetch(follower, 1)
    assert find_closest(leader, 1, racks.get, "b", 0) == 3, "the one that has more"
    assert find_closest(leader, 1, racks.get, "b", 2) is None, "nobody has that offset"
    brokers.apply(replace(ALL, isr=(1, 2), partition_epoch=1), 1)
    assert find_closest(leader, 1, racks.get, "b", 0) == 2
    fenced = {n: Broker(n, 10 + n, "", "", rack=rack, fenced=n == 2) for n, rack in racks.items()}
    for image, expected in (
        (ClusterImage("c", brokers=fenced), None),
        (ClusterImage("c", brokers={**fenced, 2: replace(fenced[2], fenced=False)}), 2),
    ):
        closest = closest_to("b", image, 1)
        assert closest is not None
        assert closest(brokers.replicas[1], 0) == expected, "a broker that is fenced serves no client"
    assert closest_to("", image, 1) is None


@pytest.mark.story("consumer-sent-before-a-followers-start")
@pytest.mark.feature(58)
async def test_a_consumer_is_sent_to_no_replica_whose_log_starts_after_its_offset(brokers: Brokers) -> None:
    """The follower's retention was ahead of the leader's."""
    for n in range(4):
        append(brokers.replicas[1], b"%d" % n)
    for broker_id in (2, 3, 2, 3, 2):
        await brokers.fetch(broker_id, 1)
    follower = brokers.replicas[2]
    follower.log.delete_records_before(2, follower.offsets.high_watermark)
    await brokers.fetch(2, 1)
    leader, racks = brokers.leading(1).leader, {1: "a", 2: "b", 3: "c"}
    found = [find_closest(leader, 1, racks.get, "b", offset) for offset in range(5)]
    assert found == [None, None, 2, 2, 2]


@pytest.mark.rule(18)
async def test_a_reader_beyond_a_followers_high_watermark_waits_there(brokers: Brokers) -> None:
    """The leader sends it there, because the follower has the offset in its log."""
    append(brokers.replicas[1], b"a")
    await brokers.fetch(2, 1)
    follower = brokers.replicas[2]
    assert (follower.offsets.high_watermark, follower.log.log_end_offset) == (0, 1)
    consumers = Consumers(brokers.found_on(2), None, any_replica=True)
    [part] = await fetch([PartitionFetch(PARTITION, 1, 1, 1000)], consumers, FetchLimits(0, 1, 1000))
    assert (part.error, part.records, follower.has_readers) == (None, b"", True)


@pytest.mark.rule(56)
async def test_who_reads_from_a_new_leader_hears_of_what_it_had_copied_before(brokers: Brokers) -> None:
    append(brokers.replicas[1], b"a")
    await brokers.fetch(2, 1)
    await brokers.fetch(3, 1)
    brokers.apply(replace(ALL, leader=2, leader_epoch=2, isr=(2, 3), partition_epoch=1), 2, 3)
    audience = Consumers(brokers.found_on(2), None, any_replica=False)
    want = PartitionFetch(PARTITION, 2, 0, 1000)
    parked = asyncio.create_task(fetch([want], audience, FetchLimits(60, 1, 1000)))
    await asyncio.sleep(0)
    await brokers.fetch(3, 2)
    [answer] = await asyncio.wait_for(parked, 10)
    assert answer.records


@pytest.mark.rule(56)
async def test_a_fetch_that_waits_hears_of_what_comes_after_the_log_has_rolled(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    brokers.apply(replace(ALL, isr=(1,), replicas=(1,), partition_epoch=1), 1)
    append(leader, bytes(600))
    audience = Consumers(brokers.found_on(1), None, any_replica=False)
    want = PartitionFetch(PARTITION, 1, 1, 10_000)
    parked = asyncio.create_task(fetch([want], audience, FetchLimits(60, 600, 10_000)))
    await asyncio.sleep(0)
    segments = len(leader.log.segments)
    append(leader, bytes(600))
    assert len(leader.log.segments) == segments + 1
    [answer] = await asyncio.wait_for(parked, 10)
    assert len(answer.records) > 600


@pytest.mark.rule(15)
async def test_a_follower_knows_no_more_to_be_committed_than_it_has(brokers: Brokers) -> None:
    """Else it would begin as a leader with a high watermark above its log, and call its first appends committed."""
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    for value in (b"a", b"b"):
        append(leader, value)
    first = await leader.disk.read(0, 1, LogEndOffset(1), min_one_batch=True)
    brokers.following(2).on_fetched(0, LeaderResponse(first, HighWatermark(2), 0))
    assert (follower.log.log_end_offset, follower.offsets.high_watermark) == (1, 1)


async def test_an_answer_to_an_earlier_fetch_is_not_written_again_nor_with_a_gap(brokers: Brokers) -> None:
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    for value in (b"a", b"b"):
        append(leader, value)
    following, all_of_it = brokers.following(2), await content(leader)
    second = await leader.disk.read(1, 1, LogEndOffset(2), min_one_batch=True)
    following.on_fetched(1, LeaderResponse(second, HighWatermark(0), 0))
    assert follower.log.log_end_offset == 0, "a fetch from 1 was not its last"
    following.on_fetched(0, LeaderResponse(all_of_it, HighWatermark(0), 0))
    following.on_fetched(0, LeaderResponse(all_of_it, HighWatermark(0), 0))
    assert await content(follower) == all_of_it


async def test_retention_does_not_run_beside_a_cut(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut, in its thread, has the segments in hand: what retention drops meanwhile it would put back."""
    follower, deleted = brokers.replicas[2], []
    monkeypatch.setattr(follower.log, "delete_old_segments", lambda *asked: deleted.append(asked) or [])
    cutting = asyncio.create_task(brokers.following(2).on_out_of_range(0))
    await asyncio.sleep(0)
    follower.tidy(0)
    assert deleted == []
    await cutting
    follower.tidy(0)
    assert len(deleted) == 1
