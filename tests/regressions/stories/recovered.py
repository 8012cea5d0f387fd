"""What a start, an election or a follower makes of a log that a clean, retention or a truncation has taken from."""

from __future__ import annotations

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_STORAGE = "ottla_broker.storage"
_NO_BOUND = 2**62


def _whatever_is_durable(original, segments, first_dirty_offset, last_stable_offset, recovery_point, lag, now_ms):
    return original(segments, first_dirty_offset, last_stable_offset, _NO_BOUND, lag, now_ms)


def _of_any_segments(original, self, sources, config):
    self.recovery_point = _NO_BOUND
    return original(self, sources, config)


def _by_batches_alone(original, segments, first, epochs):
    if first < len(segments):
        epochs.truncate_from_end(segments[first].base_offset)
    return original(segments, first, epochs)


def _of_what_is_before_the_end(original, self, start_offset, end_offset):
    self.truncate_from_end(end_offset)
    self.truncate_from_start(start_offset)


def _known_by_epochs_alone(original, epochs, log_end_offset, last_epoch, fetch_offset):
    return None if last_epoch < 0 else original(epochs, log_end_offset, last_epoch, fetch_offset)


def _up_to_the_high_watermark(original, self, log_start_offset, high_watermark):
    return high_watermark


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
        "emptied-follower-joins-the-isr",
        "A follower without a leader epoch counted as in sync once its leader's end came to its own, with nothing of "
        "what was written: acknowledged records were lost in a clean election",
        instead_of("ottla_broker.replication.leader_role:find_divergence", _known_by_epochs_alone),
    ),
    Story(
        "offline-compaction-of-an-open-transaction",
        "`ottla log compact` cleaned up to the high watermark: a committed value gave way to one of an open "
        "transaction, which was aborted later",
        instead_of("ottla_broker.machines.producers:Producers.last_stable_offset", _up_to_the_high_watermark),
    ),
)
