"""Time: no request, partition or deletion holds up anything that does not depend on it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_KAFKA = "ottla_broker.kafka"
_HANDLERS = f"{_KAFKA}.handlers"
_NETWORK = f"{_KAFKA}.network"
_REPLICATION = "ottla_broker.replication"
_FETCHER = f"{_REPLICATION}.replica_fetcher"
_NO_BOUND = 2**60


class _EndlessSlice:
    async def rest(self):
        pass


async def _after_all_deletions(original, self, image, assignments, patience_s):
    for gone in list(self._removals._waiting):
        await self._removals.until_gone(gone)
    await original(self, image, assignments, patience_s)


def _one_by_one(original, self, partitions):
    for partition in partitions:
        original(self, [partition])


async def _with_its_truncations(original, self, response):
    await original(self, response)
    await asyncio.gather(*self._truncations)


async def _all_flushed(original, self):
    await asyncio.gather(*(replica.disk.flushed() for _, replica in self._leader.changed() if replica.disk.must_flush))


def _first_comer_stays(original, self, partition_id, replica):
    original(self, partition_id, self._followed.get(partition_id, replica))


def _in_their_first_order(original, self):
    order = list(self._waiting)
    batch = original(self)
    self._waiting = {id_: self._waiting[id_] for id_ in order if id_ in self._waiting}
    return batch


def _all_that_live(original, *args):
    existing = original(*args)
    return replace(existing, willing=existing.live, read_only=frozenset())


STORIES = (
    Story(
        "batch-is-looked-into-on-the-loop",
        "A legal batch of 828 KB for a compacted topic held the loop for 0.6 s, and a frame of them beyond the lease",
        skipped("ottla_broker.storage.validator:_is_quickly_walked", True),
        constant("ottla_core.records.walk:_QUICK_OUTPUT_BYTES", 1 << 30),
        constant("ottla_core.records.walk:PIECE_BYTES", 1 << 30),
    ),
    Story(
        "appended-before-who-came-first",
        "A batch was looked into first, and those that came after it were appended before it",
        instead_of(f"{_REPLICATION}.produce:_Append.has_to_wait", lambda original, self: self._is_unverified),
    ),
    Story(
        "lookups-take-the-readers-threads",
        "Lookups by time took the threads of cold fetches: 200 of them kept every consumer waiting for seconds",
        instead_of(
            "ottla_broker.storage.disk_threads:DiskThreads.look_up",
            lambda original, self, call, *args, **kwargs: self.read(call, *args, **kwargs),
        ),
    ),
    Story(
        "partition-looked-up-200-times",
        "A ListOffsets of 2.4 KB that named a partition 200 times had it looked up 200 times",
        skipped(f"{_HANDLERS}.list_offsets:named_twice", {}),
    ),
    Story(
        "partition-is-produced-to-twice",
        "A produce that repeated a partition ten thousand times was appended to it as often, in one turn",
        skipped(f"{_HANDLERS}.produce:_named_twice", {}),
    ),
    Story(
        "group-asked-a-thousand-times",
        "An OffsetFetch that repeated its groups a few thousand times was not answered within 10 s",
        skipped(f"{_HANDLERS}.offset_fetch:named_twice", {}),
    ),
    Story(
        "large-request-is-decoded-on-the-loop",
        "Requests with thousands of elements were decoded in one turn of the loop",
        constant(f"{_KAFKA}.handling:LARGE_BYTES", _NO_BOUND),
    ),
    Story(
        "wide-fetch-is-read-on-the-loop",
        "A fetch of 20,000 topics, or one that forgot as many, was read in one turn of the loop: 0.1 s",
        instead_of(
            f"{_KAFKA}.handling:decoded",
            lambda original, decode, handle, *, speed=1: original(
                decode, handle, speed=speed if speed == 1 else _NO_BOUND
            ),
        ),
    ),
    Story(
        "long-answer-in-one-turn",
        "Answers with thousands of elements held the loop for up to a second",
        instead_of(
            f"{_HANDLERS}.alter_replica_log_dirs:sliced",
            lambda original, work, elements, time_slice=None: [work(element) for element in elements],
        ),
    ),
    Story(
        "one-element-of-many-in-one-turn",
        "A topic of CreatePartitions with ten thousand assignments was translated in one turn: 0.13 s",
        instead_of(
            f"{_KAFKA}.forwarding.controller_calls:translated",
            lambda original, backend, translate, elements: [translate(element) for element in elements],
        ),
    ),
    Story(
        "let-in-without-a-turn-for-others",
        "A thousand connections that were let in together had all their requests done in one turn of the loop",
        instead_of(
            f"{_NETWORK}.budget:Budget.__init__",
            lambda original, self, max_bytes, slice_s=0.0: original(self, max_bytes),
        ),
    ),
    Story(
        "each-that-waits-asks-again-each-turn",
        "A thousand connections whose answers may be large each asked again in every turn: half a million looks",
        constant(f"{_NETWORK}.listener:islice", lambda waiting, count: waiting),
    ),
    Story(
        "place-is-looked-up-on-the-loop",
        "A read that was to be answered from memory looked its position up in files, on the loop",
        instead_of(
            "ottla_broker.storage.reading:BatchReader._find",
            lambda original, self, segments, offset, *, hot: original(
                self, segments, offset, hot=hot and offset < segments[-1].base_offset
            ),
        ),
    ),
    Story(
        "file-is-opened-on-the-loop",
        "A read that was to be answered from memory opened its file, on the loop",
        instead_of("ottla_broker.storage.segment:Segment.open_file", lambda original, self: self.file()),
    ),
    Story(
        "everything-waits-for-a-deletion",
        "Elections and new topics waited until a deleted topic's directories were renamed one by one: 22 s for 1,000",
        instead_of(f"{_REPLICATION}.replicas:Replicas._apply_all", _after_all_deletions),
    ),
    Story(
        "sync-for-each-deleted-partition",
        "Each partition of a deleted topic cost a sync of the data directory",
        instead_of("ottla_broker.storage.log_dir:LogDir.delete", _one_by_one),
    ),
    Story(
        "fetches-wait-for-cuts",
        "A follower truncated its logs one by one inside a fetch: acks=all of all that leader's partitions waited",
        instead_of(f"{_FETCHER}:ReplicaFetcher._on_response", _with_its_truncations),
    ),
    Story(
        "large-answer-is-written-in-one-turn",
        "A follower wrote ten megabytes of a leader's answer in one turn of the loop",
        constant(f"{_FETCHER}:Slice", _EndlessSlice),
    ),
    Story(
        "flush-that-fails-stops-all-fetches",
        "One log that could not be flushed kept every partition of its leader from being fetched",
        instead_of(f"{_FETCHER}:ReplicaFetcher._flush_changed", _all_flushed),
    ),
    Story(
        "fetcher-stays-with-a-closed-log",
        "A replica that was opened again in the same epoch was not followed: the fetcher stayed with the closed one",
        instead_of("ottla_broker.machines.followed_leader:FollowedLeader.follow", _first_comer_stays),
    ),
    Story(
        "proposals-that-never-settle-starve-others",
        "A thousand ISR changes that never settled kept all others from being sent",
        instead_of(f"{_REPLICATION}.isr_changes:IsrChanges._take", _in_their_first_order),
    ),
    Story(
        "one-log-ends-retention-for-all",
        "One partition whose retention failed kept all others from theirs",
        instead_of(
            "ottla_broker.maintenance.background_work:Maintenance._tidy_one",
            lambda original, self, now_ms, replica: replica.tidy(now_ms),
        ),
    ),
    Story(
        "isrs-shrink-before-leaders-move",
        "When a broker shut down, its ISRs shrank before its leaderships moved: the last moved three times as late",
        instead_of("ottla_controller.reconcile:available", _all_that_live),
    ),
    Story(
        "frames-of-threads-stop-a-process",
        "The watchdog asked for the frames of all threads. If garbage was collected meanwhile, the process stood still",
        instead_of("ottla_core.event_loop.thread_frames:thread_frames", lambda original: sys._current_frames()),
    ),
    Story(
        "idle-logs-write-their-epochs",
        "An idle log fsynced twice at each change of its leader, and was written once more at the stop",
        instead_of(
            "ottla_broker.storage.checkpoint:EpochsFile.write",
            lambda original, self, epochs, log_start_offset, log_end_offset: original(
                self, epochs, log_start_offset, _NO_BOUND
            ),
        ),
    ),
)
