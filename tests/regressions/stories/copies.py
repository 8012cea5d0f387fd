"""What followers make of a log whose beginning was deleted, or that was compacted before they came."""

from __future__ import annotations

from tests.regressions.injection import instead_of
from tests.regressions.story import Story

from ottla_core.records.leader_epochs import EpochStart

_LOG = "ottla_broker.storage.log"


def _always_behind_the_end(original, records, log_end_offset, latest_epoch, *, may_overlap=False):
    return original(records, log_end_offset, latest_epoch)


def _by_batches_alone(original, self, records, told, leader_start, now_ms):
    return original(self, records, (), leader_start, now_ms)


def _where_the_first_batch_is(original, headers, end_offset, latest_epoch):
    shown = []
    for header in headers:
        if header.leader_epoch > latest_epoch:
            latest_epoch = header.leader_epoch
            shown.append(EpochStart(latest_epoch, header.base_offset))
    return shown


STORIES = (
    Story(
        "start-within-a-batch-was-never-copied",
        "DeleteRecords went into the middle of a batch. A follower that began anew at its leader's log start refused "
        "the whole batch, and never joined the ISR",
        instead_of(f"{_LOG}:check_replicated", _always_behind_the_end),
    ),
    Story(
        "epochs-of-a-copy-began-later",
        "A follower took an epoch to begin at the first batch that compaction had left. Once it led, a former leader "
        "kept records that were never committed, and one of them replaced a committed one after clean elections",
        instead_of(f"{_LOG}:Log.copy", _by_batches_alone),
        instead_of(f"{_LOG}:shown_by", _where_the_first_batch_is),
    ),
)
