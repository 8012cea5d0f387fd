"""What an append leaves behind: batches that lie, writes that fail, disks that are full."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from errno import EIO

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_STORAGE = "ottla_broker.storage"
_DISK = f"{_STORAGE}.disk:Disk"
_STANDING = "ottla_controller.machines.standing:Standing"
_NOBODY: frozenset[int] = frozenset()


def _noted(original, segment, at, header, contents, seen_at_ms):
    return contents.on_control(header, segment.file().read(at, header.size_bytes), seen_at_ms)


def _or_fail(original, self, ranges, end_offset, cleaned_before):
    from ottla_broker.storage.producer_history import DamagedBatchesError

    try:
        self.restore(ranges, self._offsets(), end_offset, cleaned_before)
    except DamagedBatchesError as error:
        raise OSError(EIO, str(error)) from error


def _read(original, meta):
    from ottla_broker.storage import files

    return files.read_text(meta)


def _by_headers(original, self, offset):
    batches = self.headers_from(self._indexed_position(offset))
    return next((at for at, header in batches if header.last_offset >= offset), None)


def _in_two_reads(original, file, at, end):
    from ottla_broker.storage.scan import crc_in_pieces
    from ottla_core.records.batch import ATTRIBUTES_OFFSET

    header, crc = original(file, at, end)
    return header, crc and crc_in_pieces(file, at + ATTRIBUTES_OFFSET, at + header.size_bytes)


def _unless_interrupted(original, self, file, end):
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        original(self, file, end)


def _written_at_once(original, self, leader_epoch):
    original(self, leader_epoch)
    self._epochs_file.write(self.epochs, self.log_start_offset, self.log_end_offset)


def _as_if_all_disks_had_room(original, self, now):
    read_only, self.read_only = self.read_only, _NOBODY
    try:
        return original(self, now)
    finally:
        self.read_only = read_only


def _but_for_full_disks(original, self, **fields):
    return original(self, **{name: value for name, value in fields.items() if name != "read_only"})


STORIES = (
    Story(
        "count-that-lies-takes-offsets",
        "Batches of 69 bytes that claimed 2**26 records each took offsets for all of them: 34 KB made 1,499 files",
        skipped(f"{_STORAGE}.validator:check_records"),
    ),
    Story(
        "unreadable-batch-is-acknowledged",
        "Batches with a right CRC and garbage inside were acknowledged: one writer stopped all readers of a partition",
        skipped(f"{_STORAGE}.validator:check_records"),
    ),
    Story(
        "request-of-more-offsets-than-a-segment",
        "A request whose batches claimed more offsets than a segment has broke its index after they were written",
        constant(f"{_STORAGE}.validator:MAX_INT32", 2**62),
    ),
    Story(
        "refused-batches-come-to-life",
        "What a failed append had written stayed behind the log's end, and recovery after a crash took it in",
        skipped(f"{_DISK}.shorten"),
    ),
    Story(
        "interrupted-write-stays",
        "A write that something other than the disk interrupted left its bytes behind the log's end",
        instead_of(f"{_DISK}.shorten", _unless_interrupted),
    ),
    Story(
        "failed-fsync-is-tried-again",
        "An fsync that failed with an error other than EIO was taken for an ordinary error and tried again",
        instead_of(
            f"{_DISK}.fail",
            lambda original, self, doing, error: original(self, doing, error) if error.errno == EIO else error,
        ),
    ),
    Story(
        "stack-stays-down-on-a-full-disk",
        "`ottla up` did not start an existing stack on a full disk, where its user would have deleted something",
        instead_of("ottla_stack.embedded_etcd:has_data", lambda original, directory: (directory / "member").exists()),
    ),
    Story(
        "full-disk-is-elected",
        "A replica with a full disk was elected while another one had room: nobody served the partition",
        instead_of(
            f"{_STANDING}._first",
            lambda original, self, among: original(
                replace(self, existing=replace(self.existing, read_only=_NOBODY)), among
            ),
        ),
    ),
    Story(
        "full-disk-keeps-its-leadership",
        "A leader whose disk filled up led on and refused every append, while others had room",
        skipped(f"{_STANDING}._has_room_only_elsewhere", False),
    ),
    Story(
        "full-disk-gets-its-leadership-back",
        "The balance of preferred leaders gave partitions back to a broker with a full disk",
        instead_of(
            "ottla_controller.machines.preferred:_may_lead",
            lambda original, existing, partition: original(replace(existing, read_only=_NOBODY), partition),
        ),
    ),
    Story(
        "full-disk-serves-no-readers",
        "A leader that could not write the start of its epoch did not lead, so nobody could read the partition",
        instead_of(f"{_STORAGE}.log:Log.assign_epoch", _written_at_once),
    ),
    Story(
        "full-disk-is-not-told",
        "Nobody was told that a broker's disk was full",
        instead_of("ottla_broker.membership.own_registration:OwnRegistration.tell", _but_for_full_disks),
    ),
    Story(
        "full-member-holds-up-acks-all",
        "A follower with a full disk held up acks=all for 30 s, until it had lagged for long enough",
        instead_of("ottla_broker.machines.partition:Leader.lagging", _as_if_all_disks_had_room),
    ),
    Story(
        "appends-eat-what-is-kept",
        "Appends took the room that is kept on a full disk for epochs and checkpoints",
        skipped(f"{_DISK}.check_room"),
    ),
    Story(
        "hole-between-segments",
        "A power cut left a later segment on the disk and not all of the one before: the log had a hole from then on",
        instead_of(
            f"{_STORAGE}.recovery:_reach",
            lambda original, segment, offset: original(segment, offset) if segment.base_offset < offset else 2**31,
        ),
    ),
    Story(
        "aborted-transaction-lost-to-a-reader",
        "An aborted transaction was added to an index while a reader loaded it, and was forgotten",
        constant(f"{_STORAGE}.transactions.aborted_index:RLock", nullcontext),
    ),
    Story(
        "epochs-before-a-start-that-went-back",
        "After a kill that took a log's start back, batches were there again whose leader epochs nobody knew",
        skipped(f"{_STORAGE}.recovery:_epochs_before", ()),
    ),
    Story(
        "snapshots-of-joined-segments-kept",
        "Each clean of a compacted log left the snapshots of the segments that it joined, until the next restart",
        skipped(f"{_STORAGE}.producer_history:ProducerHistory.on_replaced"),
    ),
    Story(
        "clean-copied-what-another-read-had-found",
        "A clean checked the CRC of a batch and copied what a second read of it returned: a bit that the disk had "
        "flipped in this read counted as sound from then on, or was found by every later clean",
        instead_of("ottla_broker.compaction.sources:_checked", lambda original, batch: batch),
    ),
    Story(
        "damage-passed-for-a-torn-append",
        "A start after a kill cut a log at a batch that the disk had damaged, and the broker still counted as having "
        "all that it had acknowledged: it was elected, though another eligible replica had the records",
        instead_of(f"{_STORAGE}.recovery:is_torn", lambda original, file, start, end: True),
    ),
    Story(
        "flipped-read-hid-an-abort",
        "A start that rebuilt the index of aborted transactions did not check CRCs: a bit that was flipped in one read "
        "made a marker look like a batch of records, and readers of committed records saw an aborted transaction",
        instead_of(
            f"{_STORAGE}.segment:Segment.settled_from",
            lambda original, segment, position: segment.headers_from(position),
        ),
    ),
    Story(
        "damaged-marker-had-no-name",
        "A start failed because of a damaged control batch, and its error named neither the file nor what to do",
        instead_of(f"{_STORAGE}.producer_history:_noted_control", _noted),
    ),
    Story(
        "damaged-marker-took-the-disk-offline",
        "A truncation that met a damaged control batch of one partition took the whole data directory offline",
        instead_of(f"{_STORAGE}.producer_history:ProducerHistory._restore_or_forget", _or_fail),
    ),
    Story(
        "bad-sector-kept-the-disk-offline",
        "A bad sector in a segment that was due to be deleted took the whole data directory offline, after each "
        "restart again",
        instead_of(
            f"{_STORAGE}.log:_unreadable",
            lambda original, log, until, error: log._disk.error("reading a segment that goes", error),
        ),
    ),
    Story(
        "damage-made-a-stale-snapshot",
        "The producers of deleted segments were taken from the batches before a damaged one: a producer that had gone "
        "on behind it was refused for ever",
        instead_of(
            f"{_STORAGE}.producer_history:_all_batches_from",
            lambda original, segment, start: segment.headers_from(0),
        ),
    ),
    Story(
        "flipped-header-passed-over-records",
        "A leader looked for a batch, read a header with a flipped bit, and answered with later batches. The follower "
        "took that for a gap that a clean had left, joined the ISR, led, and committed records were gone",
        instead_of(f"{_STORAGE}.segment:Segment.position_of", _by_headers),
    ),
    Story(
        "header-and-crc-came-from-two-reads",
        "A recovery took the header of a batch from a read with a flipped bit, and its CRC from another read. The log "
        "ended within a batch of its leader, which its follower could never copy",
        instead_of(f"{_STORAGE}.scan:_header_and_crc", _in_two_reads),
    ),
    Story(
        "flipped-header-kept-what-was-cut-off",
        "A truncation read a header with a flipped bit and cut nothing off. Later batches came behind those that "
        "should have gone, so the log had offsets twice and could never be compacted",
        instead_of(f"{_STORAGE}.segment:Segment.position_of", _by_headers),
    ),
    Story(
        "place-of-a-wrong-header-was-remembered",
        "A read remembered where it had ended by a header with a flipped bit, and the next read from that offset "
        "passed over a batch",
        constant(f"{_STORAGE}.reading:_BASE_OFFSET_BYTES", 0),
    ),
    Story(
        "unreadable-identity-was-a-traceback",
        "A start that could not read meta.properties ended with a traceback",
        instead_of(f"{_STORAGE}.identity:_text", _read),
    ),
)
