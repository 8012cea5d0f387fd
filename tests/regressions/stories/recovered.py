"""What a start, an election or a follower makes of a log that a clean, retention or a truncation has taken from."""

from __future__ import annotations

from tests.regressions.injection import instead_of, skipped
from tests.regressions.stories.copies import where_the_first_batch_is
from tests.regressions.story import Story

_STORAGE = "ottla_broker.storage"
_NO_BOUND = 2**62


def _whatever_is_durable(original, segments, first_dirty_offset, last_stable_offset, recovery_point, lag, now_ms):
    return original(segments, first_dirty_offset, last_stable_offset, _NO_BOUND, lag, now_ms)


def _of_any_segments(original, self, sources, config, purged_before=0):
    self.recovery_point = _NO_BOUND
    return original(self, sources, config, purged_before)


def _by_batches_alone(original, segments, first, epochs, most):
    if first < len(segments):
        epochs.truncate_from_end(segments[first].base_offset)
    return original(segments, first, epochs, most)


def _of_what_is_before_the_end(original, self, start_offset, end_offset):
    self.truncate_from_end(end_offset)
    self.truncate_from_start(start_offset)


def _known_by_epochs_alone(original, epochs, log_end_offset, last_epoch, fetch_offset):
    return None if last_epoch < 0 else original(epochs, log_end_offset, last_epoch, fetch_offset)


def _up_to_the_high_watermark(original, self, log_start_offset, high_watermark):
    return high_watermark


def _what_looks_older_stays(original, self, offset, aborted):
    return original(self, max(offset, int(self._log_path.stem) + 1), aborted)


def _where_there_are_entries(original, self, disk):
    return original(self, disk) if any(self._loaded()) else None


def _with_all_indexes_or_none(original, self, *, sealed):
    original(self, sealed=True) if sealed else self._disk.sync(self.file())


def _with_what_is_stale(original, self, offset, ranges, offsets, cleaned_before):
    start, contents = original(self, offset, ranges, offsets, cleaned_before)
    if start < ranges[0][0].base_offset:
        start, contents = self._newest(each for each in reversed(offsets) if each <= offset)
    return start, contents


def _at_the_last_sealed(original, self, until):
    """Write down on the event loop what only the segments that go tell otherwise."""
    if until == self.segments[-1].base_offset and not original(self, until):
        self.secure_deletion()
        return True
    return original(self, until)


def _as_the_leader_says(original, self, leader_end, leader_start):
    log = self._disk.log
    if leader_end.epoch >= 0 and log.log_start_offset == log.log_end_offset:
        leader_end = leader_end._replace(start_offset=log.log_end_offset)
    return original(self, leader_end, leader_start)


def _by_where_it_ends_alone(original, epochs, log_end_offset, last_epoch, fetch_offset):
    found = original(epochs, log_end_offset, last_epoch, fetch_offset)
    end = epochs.end_offset_for(last_epoch, log_end_offset)
    is_behind = end.epoch < last_epoch or end.start_offset < fetch_offset
    return found if last_epoch < 0 or is_behind else None


def _compared_wherever_it_ends(original, self, follower_id, broker_epoch, offset, last_epoch, log_start_offset):
    from ottla_broker.machines.partition import find_divergence

    found = find_divergence(self.log.epochs, self.log.log_end_offset, last_epoch, offset)
    return found or original(self, follower_id, broker_epoch, offset, last_epoch, log_start_offset)


def _recovered(original, *arguments, **named):
    return original(*arguments, **(named | {"clean": False}))


def _not_of_emptied_logs(original, epochs, segments, log_start_offset):
    """Return no epochs for an emptied log, as if they had been cut before those of its batches were looked for."""
    ends = [header.next_offset for segment in segments for _, header in segment.headers_from(0)]
    is_emptied = bool(epochs.entries) and epochs.entries[0].start_offset >= max(ends, default=0)
    return () if is_emptied else original(epochs, segments, log_start_offset)


def _only_what_stays(original, self, base_offset, ranges):
    return original(self, base_offset, lambda: [each for each in ranges() if each[0].base_offset >= base_offset])


def _unless_all_segments_go(original, self, until):
    is_last = until == self.segments[-1].base_offset
    return original(self, until) if is_last else self._history.is_kept(until)


STORIES = (
    Story(
        "segments-above-the-recovery-point-are-compacted",
        "Segments that no flush had reached were compacted: after a kill the end of a committed transaction was "
        "missing, and readers of committed records stood still for ever",
        instead_of("ottla_broker.compaction.candidate:cleanable", _whatever_is_durable),
        instead_of(f"{_STORAGE}.compaction:Compaction.swap", _of_any_segments),
        skipped(f"{_STORAGE}.log:Log.secure_sealed"),
    ),
    Story(
        "recovery-takes-epochs-from-what-a-clean-left",
        "Recovery took leader epochs from the batches that compaction had left: a former leader's own records were not "
        "found to differ, and took the place of a committed value",
        instead_of(f"{_STORAGE}.recovery:_recover", _by_batches_alone),
        instead_of(f"{_STORAGE}.recovery:shown_by", where_the_first_batch_is),
    ),
    Story(
        "snapshot-older-than-a-clean",
        "Without its newest snapshot a log was replayed from an older one, in which a transaction was open that had "
        "ended in a marker that compaction had taken",
        skipped(f"{_STORAGE}.producer_history:_is_cleaned", False),
    ),
    Story(
        "emptied-log-has-no-epoch",
        "A log that retention or DeleteRecords had emptied had no leader epoch after a restart, and lost an election "
        "to a shorter one: committed offsets were given again",
        instead_of("ottla_broker.machines.epochs:LeaderEpochs.cut_to", _of_what_is_before_the_end),
    ),
    Story(
        "start-written-before-its-epoch",
        "A log's new start was written down before the epoch of the records that it deleted. A power cut took the "
        "rest, and the log came back empty and with an older epoch: it lost an election to a shorter log, which gave "
        "the deleted offsets again",
        instead_of(f"{_STORAGE}.log:Log._is_start_on_disk", lambda original, self, start: True),
    ),
    Story(
        "deleted-segments-were-all-that-was-on-disk",
        "The oldest segments were deleted before anything behind them was fsynced. A power cut took the rest, and the "
        "log came back empty and with an older epoch: it lost an election to a shorter one",
        instead_of(f"{_STORAGE}.log:Log._is_secured", _unless_all_segments_go),
    ),
    Story(
        "deletion-that-came-back-in-part",
        "Segments were deleted that had not been fsynced. A power cut undid a part of the deletion, and one segment "
        "came back without its bytes. A start cut off all that followed, and the log lost an election to a shorter one",
        instead_of(f"{_STORAGE}.flushing:Flusher.sync_sealed", _only_what_stays),
    ),
    Story(
        "epochs-begin-after-the-start-on-disk",
        "The epochs on disk began at a new log start that was not written down yet. A power cut took all records, and "
        "the log came back empty and without an epoch",
        instead_of(
            "ottla_broker.machines.epochs:LeaderEpochs.move_start",
            lambda original, self, start_offset, written_start: original(self, start_offset, start_offset),
        ),
    ),
    Story(
        "start-taken-back-lost-its-epochs",
        "All records of a log were deleted, and its broker was killed before the new log start was written down: the "
        "log had records and no leader epoch, and lost an election to a shorter one",
        instead_of(f"{_STORAGE}.recovery:_epochs_before", _not_of_emptied_logs),
    ),
    Story(
        "emptied-follower-joins-the-isr",
        "A follower without a leader epoch counted as in sync once its leader's end came to its own, with nothing of "
        "what was written: acknowledged records were lost in a clean election",
        instead_of("ottla_broker.replication.leading:find_divergence", _known_by_epochs_alone),
    ),
    Story(
        "offline-compaction-of-an-open-transaction",
        "`ottla log compact` cleaned up to the high watermark: a committed value gave way to one of an open "
        "transaction, which was aborted later",
        instead_of("ottla_broker.machines.producers:Producers.last_stable_offset", _up_to_the_high_watermark),
    ),
    Story(
        "index-kept-what-a-power-cut-left",
        "Zeros that a power cut had left in the index of aborted transactions looked like transactions that ended "
        "before the segment, and stayed in it: readers of committed records got an error for good",
        instead_of(f"{_STORAGE}.transactions.aborted_index:AbortedIndex.replace_from", _what_looks_older_stays),
    ),
    Story(
        "emptied-segment-kept-its-index",
        "A power cut took all batches of a segment and left its index of aborted transactions: readers left out the "
        "records that came at their offsets, or got an error for good",
        instead_of(
            f"{_STORAGE}.producer_history:_has_stale_index",
            lambda original, segment, end_offset, start: end_offset > start,
        ),
    ),
    Story(
        "emptied-index-was-not-synced",
        "The index of a truncated segment that had nothing left was not synced: a power cut brought back what was "
        "aborted before, and readers left out the records that had come instead",
        instead_of(f"{_STORAGE}.transactions.aborted_index:AbortedIndex.sync", _where_there_are_entries),
    ),
    Story(
        "index-of-a-flushed-segment-was-not-synced",
        "A segment that rolled right after a flush was trusted by a start, but no flush had synced its index of "
        "aborted transactions: after a power cut, aborted records could be read",
        instead_of(f"{_STORAGE}.segment:Segment.sync", _with_all_indexes_or_none),
    ),
    Story(
        "flush-passed-a-marker-that-was-not-noted",
        "A flush between the write of an abort marker and its note moved the recovery point past the marker, and the "
        "index of aborted transactions might never be synced",
        instead_of(f"{_STORAGE}.log:Log._noted_ranges", lambda original, self: self._segments.ranges()),
    ),
    Story(
        "deletion-waits-for-the-disk",
        "Where all segments of a log went, retention and DeleteRecords fsynced on the event loop, and on a full disk "
        "they could free nothing",
        instead_of(f"{_STORAGE}.log:Log._is_secured", _at_the_last_sealed),
    ),
    Story(
        "deleted-segments-forgot-their-producers",
        "DeleteRecords or retention took segments before a snapshot of their producers was written: after a kill, the "
        "next batch of each of these producers was out of order, however often it was sent",
        skipped(f"{_STORAGE}.producer_history:ProducerHistory.is_kept", True),
    ),
    Story(
        "marker-told-where-its-producer-begins",
        "A follower began where its leader's log began, between batches of a producer and their marker. Once it led, "
        "it took no batch of that producer but one with sequence 0",
        instead_of(
            "ottla_broker.machines.producers:_may_begin_anywhere", lambda original, entry, header: entry is None
        ),
    ),
    Story(
        "snapshot-older-than-retention",
        "A transaction was open in the newest snapshot, and retention took its end before a later one was written: "
        "after a kill the last stable offset stood still at the log's start",
        instead_of(f"{_STORAGE}.producer_history:ProducerHistory._newest_before", _with_what_is_stale),
    ),
    Story(
        "emptied-follower-took-an-epoch-of-another-offset",
        "An emptied follower took the epoch that its leader named as that of its own offset, though others lay in "
        "between: it could never follow again",
        instead_of("ottla_broker.replication.following:Following.on_diverging", _as_the_leader_says),
        instead_of("ottla_broker.replication.leading:find_divergence", _by_where_it_ends_alone),
    ),
    Story(
        "follower-before-its-leaders-start-never-came-back",
        "A follower came back in the leader epoch in which it had left, and by then all that it had was deleted: its "
        "last epoch seemed to begin at the leader's start, so it was told to truncate, hundreds of times a second, and "
        "never joined the ISR again",
        instead_of("ottla_broker.replication.leading:Leading.on_follower_fetch", _compared_wherever_it_ends),
    ),
    Story(
        "gaps-of-a-copy-taken-for-losses",
        "`ottla log compact` recovered a copy, and took the gaps that Kafka's cleaner leaves between segments for "
        "losses: all segments behind the first one went",
        instead_of(f"{_STORAGE}.log:Log.open", _recovered),
    ),
)
