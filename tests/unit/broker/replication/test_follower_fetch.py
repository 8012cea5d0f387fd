"""A follower's fetches in a session, against real logs: what they cost, and what is said when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from logs import open_log, values_batch
from replicas import replica_context
from waiting import until

from ottla_broker.machines.follower_session import Followed
from ottla_broker.machines.offsets import ReadLimit
from ottla_broker.replication import replication_config
from ottla_broker.replication.disk_log import DiskLog
from ottla_broker.replication.fetch_purgatory import ConfirmationPurgatory, ParkedFollowerFetch
from ottla_broker.replication.follower_fetch import FollowerFetch, FollowerResponse, fetch_as_follower
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId, TopicId
from ottla_core.rpc.context import StreamScope

TOPIC = TopicId(b"t" * 16)
BOTH = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2))


class Led:
    """Broker 1 leads all of them, broker 2 follows; it stands for the broker's table of replicas."""

    def __init__(self, path: Path, count: int) -> None:
        self.around = replica_context(1, ManualClock(), DiskThreads(), live={1: 11, 2: 12})
        self.followers = self.around.followers
        self.confirmations: ConfirmationPurgatory = self.around.confirmations
        self.consumers, self.deletions = self.around.consumers, self.around.deletions
        self.replicas: dict[PartitionId, Replica] = {}
        self.looked_at: list[int] = []
        for number in range(count):
            log = open_log(path / f"p{number}")
            replica = Replica(PartitionId(TOPIC, number), "t", log, self.around)
            replica.step_back()
            replica.log.assign_epoch(1)
            replica.become_leader(BOTH)
            self.replicas[replica.id] = replica

    def find(self, partition_id: PartitionId) -> Replica:
        self.looked_at.append(partition_id.partition)
        return self.replicas[partition_id]

    def leading(self, partition_id: PartitionId, known_epoch: int | None) -> Leading:
        return self.find(partition_id).led_in(known_epoch)

    def at(self, number: int) -> Replica:
        return self.replicas[PartitionId(TOPIC, number)]

    async def fetch(
        self,
        *named: Followed,
        responses: int = 0,
        begins: bool = False,
        wait_s: float = 0.0,
        session: int = 5,
        seen: int = 0,
        broker_epoch: int = 12,
        forgotten: Iterable[int] = (),
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        stream: StreamScope | None = None,
    ) -> FollowerResponse:
        gone = [PartitionId(TOPIC, n) for n in forgotten]
        request = FollowerFetch(
            2, broker_epoch, seen, session, responses, begins, named, gone, wait_s, min_bytes, max_bytes
        )
        return await fetch_as_follower(request, cast(ReplicaTable, self), stream or StreamScope())


def named(number: int, offset: int = 0, *, epoch: int = 1, has_readers: bool = False) -> Followed:
    last = 1 if offset else -1
    return Followed(PartitionId(TOPIC, number), epoch, offset, 1 << 20, last, 0, 0, has_readers)


def told(response: FollowerResponse) -> list[tuple[int, bool, int]]:
    """Return each partition's number, whether its response has records, and its high watermark."""
    return [(part.id.partition, bool(part.records), part.high_watermark) for part in response.partitions]


async def test_an_append_beside_a_hundred_idle_partitions_makes_one_be_looked_at(tmp_path: Path) -> None:
    led = Led(tmp_path, 100)
    await led.fetch(*map(named, range(100)), begins=True)
    led.looked_at.clear()
    parked = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    led.at(42).led_in(None).append(values_batch(b"a"))
    assert told(await parked) == [(42, True, 0)]
    assert led.looked_at == [42]
    led.looked_at.clear()
    await led.fetch(named(42, 1), responses=1)
    assert set(led.looked_at) == {42}
    assert led.at(42).offsets.high_watermark == 1


async def test_a_newer_request_ends_a_parked_one_and_takes_its_place(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    await led.fetch(named(0), begins=True)
    first = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    second = asyncio.create_task(led.fetch(named(1), wait_s=60))
    assert told(await first) == []
    led.at(1).led_in(None).append(values_batch(b"a"))
    assert told(await second) == [(1, True, 0)]


async def test_what_a_response_said_that_did_not_arrive_is_said_again(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    led.at(0).led_in(None).append(values_batch(b"a"))
    wrong = named(1, epoch=7)
    lost = await led.fetch(named(0), wrong, begins=True)
    assert [(part.id.partition, part.error is not None) for part in lost.partitions] == [(1, True), (0, False)]
    again = await led.fetch(responses=0)
    assert lost.responses == again.responses == 1
    assert {part.id.partition: part.records for part in again.partitions} == {
        part.id.partition: part.records for part in lost.partitions
    }


def led_in_two_epochs(tmp_path: Path) -> Led:
    """A leader in epoch 2, whose log has epoch 1 up to offset 1 and epoch 2 from there to offset 4."""
    led = Led(tmp_path, 2)
    led.at(0).led_in(None).append(values_batch(b"common"))
    led.at(0).become_leader(replace(BOTH, leader_epoch=2))
    for _ in range(3):
        led.at(0).led_in(None).append(values_batch(b"epoch 2"))
    return led


def with_a_tail(offset: int) -> Followed:
    """A follower that knows of epoch 2, with records of epoch 1 up to `offset`."""
    return replace(named(0, offset, epoch=2), last_epoch=1)


@pytest.mark.story("lost-refusal-taken-for-an-acceptance")
@pytest.mark.rule(2, 11)
async def test_a_divergence_whose_response_was_lost_is_found_again(tmp_path: Path) -> None:
    """The follower was in sync in this leader epoch, and came back with an old copy of its disk."""
    led = led_in_two_epochs(tmp_path)
    await led.fetch(replace(named(0, 4, epoch=2), last_epoch=2), begins=True)
    lost = await led.fetch(with_a_tail(3), begins=True, session=6, broker_epoch=22)
    again = await led.fetch(responses=0, session=6, broker_epoch=22)
    for response in (lost, again):
        [part] = response.partitions
        assert (part.diverging, part.records) == ((1, 1), b"")
    later = await led.fetch(responses=1, session=6, broker_epoch=22)
    assert later.partitions == [], "the refusal has arrived"


@pytest.mark.rule(2)
@pytest.mark.parametrize("newer", ["named", "forgotten"])
async def test_what_a_follower_says_of_a_partition_comes_before_a_refusal_that_was_lost(
    tmp_path: Path, newer: str
) -> None:
    led = led_in_two_epochs(tmp_path)
    await led.fetch(with_a_tail(3), named(1), begins=True)
    if newer == "named":
        again = await led.fetch(with_a_tail(1), responses=0)
        assert told(again) == [(0, True, 1)], "it has truncated its log"
    else:
        again = await led.fetch(forgotten=[0], responses=0)
        assert told(again) == []


async def test_a_session_that_is_not_known_or_has_another_count_is_to_be_begun_anew(tmp_path: Path) -> None:
    led = Led(tmp_path, 1)
    with pytest.raises(OttlaError) as unknown:
        await led.fetch()
    assert unknown.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    await led.fetch(named(0), begins=True)
    with pytest.raises(OttlaError) as behind:
        await led.fetch(responses=3)
    assert behind.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    with pytest.raises(OttlaError) as other_incarnation:
        await led.fetch(broker_epoch=15)
    assert other_incarnation.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    parked = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    await led.fetch(named(0), begins=True, session=6)
    assert told(await parked) == []  # its follower has begun another one
    with pytest.raises(OttlaError) as stolen:
        await led.fetch(session=5)
    assert stolen.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.rule(18)
async def test_a_high_watermark_goes_with_the_next_response_and_at_once_where_there_are_readers(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    for number, has_readers in enumerate((False, True)):
        led.at(number).led_in(None).append(values_batch(b"a"))
        await led.fetch(named(number, has_readers=has_readers), begins=True)
        acknowledged = await led.fetch(named(number, 1, has_readers=has_readers), responses=1)
        assert led.at(number).offsets.high_watermark == 1
        assert told(acknowledged) == [(number, False, 1)]
        led.at(number).led_in(None).append(values_batch(b"b"))
        second = await led.fetch(responses=2)
        assert told(second) == [(number, True, 1)]
        parked = asyncio.create_task(led.fetch(named(number, 2, has_readers=has_readers), responses=3, wait_s=0.3))
        done, _ = await asyncio.wait({parked}, timeout=0.1)
        assert bool(done) == has_readers
        assert told(await parked) == [(number, False, 2)]


async def test_fewer_bytes_than_the_least_are_waited_for(tmp_path: Path) -> None:
    led = Led(tmp_path, 1)
    size = led.at(0).led_in(None).append(values_batch(b"a")).size_bytes
    parked = asyncio.create_task(led.fetch(named(0), begins=True, wait_s=60, min_bytes=2 * size))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not parked.done()
    led.at(0).led_in(None).append(values_batch(b"b"))
    [part] = (await parked).partitions
    assert len(part.records) == 2 * size
    late = await led.fetch(named(0), begins=True, wait_s=0.01, min_bytes=10 * size)
    assert told(late) == [(0, True, 0)]


@pytest.mark.rule(57)
async def test_for_what_there_was_no_room_comes_with_the_next_response(tmp_path: Path) -> None:
    led = Led(tmp_path, 3)
    size = max(led.at(number).led_in(None).append(values_batch(b"a")).size_bytes for number in range(3))
    first = await led.fetch(*map(named, range(3)), begins=True, max_bytes=size + 1, wait_s=60)
    assert told(first) == [(0, True, 0)]
    assert told(await led.fetch(named(0, 1), responses=1, max_bytes=size + 1, wait_s=60)) == [(1, True, 0)]
    assert told(await led.fetch(named(1, 1), responses=2, max_bytes=size + 1, wait_s=60)) == [(2, True, 0)]


async def test_high_watermarks_of_idle_partitions_do_not_go_with_each_response(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    for number in range(2):
        led.at(number).led_in(None).append(values_batch(b"a"))
    await led.fetch(named(0), named(1), begins=True, wait_s=60)
    led.at(0).led_in(None).append(values_batch(b"b"))
    first = await led.fetch(named(0, 1), named(1, 1), responses=1, wait_s=60)
    assert told(first) == [(0, True, 1)], "the others wait for their turn, though they have moved"


async def test_a_log_that_begins_later_is_told_at_once(tmp_path: Path) -> None:
    led = Led(tmp_path, 1)
    for value in (b"a", b"b"):
        led.at(0).led_in(None).append(values_batch(value))
    await led.fetch(named(0, 2), begins=True)
    parked = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    led.at(0).led_in(None).delete_records(1)
    [part] = (await parked).partitions
    assert part.log_start_offset == 1


async def test_a_check_of_leadership_ends_a_parked_fetch_and_the_request_after_it_confirms(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    await led.fetch(named(0), named(1), begins=True)
    parked = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    check = led.at(0).led_in(None).begin_confirmation()
    response = await parked
    assert (told(response), response.newest_confirmation) == ([], check)
    assert not led.at(0).led_in(None).leader.has_led_since(check)
    await led.fetch(seen=check)
    assert led.at(0).led_in(None).leader.has_led_since(check)


async def test_who_has_left_the_partition_confirms_no_leadership(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    await led.fetch(named(0), named(1), begins=True)
    check = led.at(0).led_in(None).begin_confirmation()
    await led.fetch(forgotten=[0], seen=check)
    assert not led.at(0).led_in(None).leader.has_led_since(check)


async def test_a_partition_that_is_led_no_more_is_reported_once(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    await led.fetch(named(0), named(1), begins=True)
    parked = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    led.at(1).on_partition(Partition(replicas=(1, 2), leader=2, leader_epoch=2, isr=(1, 2)))
    [part] = (await parked).partitions
    assert part.error is not None
    assert part.error.code == ErrorCode.FENCED_LEADER_EPOCH
    assert told(await led.fetch(responses=1)) == []


async def test_a_broker_that_shuts_down_lets_no_follower_wait(tmp_path: Path) -> None:
    led = Led(tmp_path, 1)
    await led.fetch(named(0), begins=True)
    parked = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    ReplicaTable.drain(cast(ReplicaTable, led))
    assert told(await parked) == []
    assert told(await led.fetch(wait_s=60)) == []


# ---- what goes wrong on the way --------------------------------------------------------------------------------------


class Slow:
    """Reads of one partition that wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.open, self.count, read = asyncio.Event(), 0, DiskLog.read

        async def slow(disk: DiskLog, offset: int, size: int, limit: ReadLimit, *, min_one_batch: bool) -> bytes:
            if disk.id.partition == number:
                self.count += 1
                await self.open.wait()
            return await read(disk, offset, size, limit, min_one_batch=min_one_batch)

        monkeypatch.setattr(DiskLog, "read", slow)


async def test_a_check_that_began_before_the_partition_was_named_is_confirmed(tmp_path: Path) -> None:
    led = Led(tmp_path, 1)
    check = led.at(0).led_in(None).begin_confirmation()
    response = await led.fetch(named(0), begins=True, wait_s=60)
    assert not led.at(0).led_in(None).leader.has_led_since(check)
    await led.fetch(seen=response.newest_confirmation)
    assert led.at(0).led_in(None).leader.has_led_since(check)


async def test_a_request_that_was_cancelled_half_way_ends_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had said would be lost: its follower says it once."""
    led = Led(tmp_path, 2)
    for number in range(2):
        led.at(number).led_in(None).append(values_batch(b"a"))
    slow = Slow(monkeypatch, 1)
    cancelled = asyncio.create_task(led.fetch(named(0), named(1), begins=True, wait_s=60))
    await until(lambda: slow.count == 1)
    waits = asyncio.create_task(led.fetch(wait_s=60))
    await asyncio.sleep(0)
    cancelled.cancel()
    for task in (cancelled, waits):
        with pytest.raises((asyncio.CancelledError, OttlaError)):
            await task
    with pytest.raises(OttlaError) as ended:
        await led.fetch()
    assert ended.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    slow.open.set()
    assert len(told(await led.fetch(named(0), named(1), begins=True))) == 2


async def test_a_session_that_is_over_notes_nothing_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two streams of one follower: on the old one a request has waited for its turn."""
    led = Led(tmp_path, 2)
    for number in range(2):
        led.at(number).led_in(None).append(values_batch(b"a"))
    slow = Slow(monkeypatch, 0)
    reads = asyncio.create_task(led.fetch(named(0), begins=True))
    await until(lambda: slow.count == 1)
    waits = asyncio.create_task(led.fetch(named(1, 0)))
    await asyncio.sleep(0)
    await led.fetch(named(1, 1), begins=True, session=6)
    slow.open.set()
    await reads
    with pytest.raises(OttlaError):
        await waits
    assert led.at(1).led_in(None).leader.end_offsets()[2] == 1
    assert len(led.followers) == 1


async def test_a_session_that_ends_while_its_partitions_are_named_notes_no_more_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    led = Led(tmp_path, 2)
    for number in range(2):
        led.at(number).led_in(None).append(values_batch(b"a"))
    rests = asyncio.Event()

    async def rest(self: Slice) -> None:
        if led.at(0).led_in(None).leader.end_offsets()[2] == 0 and not rests.is_set():  # the first one is noted
            rests.set()
            await led.fetch(named(1, 1), begins=True, session=6)

    monkeypatch.setattr(Slice, "rest", rest)
    with pytest.raises(OttlaError) as ended:
        await led.fetch(named(0), named(1, 0), begins=True)
    assert ended.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert rests.is_set()
    assert led.at(1).led_in(None).leader.end_offsets()[2] == 1


async def test_a_request_that_is_superseded_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(tmp_path, 1)
    led.at(0).led_in(None).append(values_batch(b"a"))
    slow = Slow(monkeypatch, 0)
    requests = [asyncio.create_task(led.fetch(named(0), begins=True, wait_s=60))]
    await until(lambda: slow.count == 1)
    for _ in range(20):
        requests.append(asyncio.create_task(led.fetch(wait_s=60)))
        await asyncio.sleep(0)
    slow.open.set()
    responses = await asyncio.gather(*requests)
    assert [bool(told(response)) for response in responses] == [True, *[False] * 19, True]
    assert slow.count == 2


async def test_more_bytes_than_a_limit_lets_through_are_not_waited_for(tmp_path: Path) -> None:
    led = Led(tmp_path, 1)
    size = max(led.at(0).led_in(None).append(values_batch(b"a")).size_bytes for _ in range(10))
    little = replace(named(0), max_bytes=size + 1)
    async with asyncio.timeout(20):
        assert told(await led.fetch(little, begins=True, wait_s=60, min_bytes=4 * size)) == [(0, True, 0)]


@pytest.mark.parametrize("anew", ["in doubt", "off the replicas"])
async def test_a_leader_that_has_not_heard_of_the_follower_makes_it_name_the_partition(
    tmp_path: Path, anew: str
) -> None:
    led = Led(tmp_path, 1)
    await led.fetch(named(0), begins=True)
    led.at(0).led_in(None).begin_confirmation()
    if anew == "in doubt":
        led.at(0).on_partition(replace(BOTH, leader=-1))
        led.at(0).step_back()
        led.at(0).become_leader(BOTH)
    else:
        led.at(0).on_partition(replace(BOTH, replicas=(1,), isr=(1,), partition_epoch=2))
        led.at(0).on_partition(replace(BOTH, replicas=(1, 2), isr=(1,), partition_epoch=3))
    response = await led.fetch(seen=0)
    [part] = response.partitions
    assert part.error is not None
    assert part.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await led.fetch(named(0), responses=1)
    assert led.at(0).led_in(None).leader.end_offsets()[2] == 0


async def test_followers_share_the_memory_of_responses_and_each_gets_a_batch_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    led = Led(tmp_path, 20)
    batch = values_batch(b"x" * 300)
    for number in range(20):
        led.at(number).led_in(None).append(batch)
    monkeypatch.setattr(replication_config, "FETCH_MEMORY_BYTES", 12 * len(batch))
    for others in range(40):
        response = await led.fetch(*map(named, range(20)), begins=True)
        assert [len(part.records) for part in response.partitions] == max(1, 12 // (1 + others)) * [len(batch)]
        led.followers.begin(3 + others, 13, 7, ParkedFollowerFetch())


async def test_what_has_no_room_beside_another_is_not_waited_for(tmp_path: Path) -> None:
    """As where the share of the memory is less than replica.fetch.min.bytes."""
    led = Led(tmp_path, 2)
    batch = values_batch(b"x" * 300)
    led.at(0).led_in(None).append(batch)
    led.at(1).led_in(None).append(batch)
    async with asyncio.timeout(5):
        response = await led.fetch(
            named(0), named(1), begins=True, wait_s=60, min_bytes=len(batch) + 9, max_bytes=len(batch) + 9
        )
    assert [part.id.partition for part in response.partitions] == [0]


async def test_a_stream_that_is_over_leaves_no_session_but_one_that_began_on_another(tmp_path: Path) -> None:
    led = Led(tmp_path, 2)
    former, stream = StreamScope(), StreamScope()
    await led.fetch(named(0), begins=True, stream=former)
    await led.fetch(named(0), named(1), begins=True, session=6, stream=stream)
    former.begin(None)
    assert led.followers.count == 1
    await led.fetch(session=6, stream=stream)
    stream.begin(None)
    assert led.followers.count == 0
    assert not led.followers.partitions
